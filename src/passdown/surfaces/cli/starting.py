"""`init`: make a workspace, and set up the hosts of coding agents."""

from __future__ import annotations

import os.path
from typing import TYPE_CHECKING

from passdown.surfaces.cli.hosting import add_host_arguments, concerns_hosts, serve_hosts
from passdown.surfaces.cli.printing import line, pairs, print_json
from passdown.surfaces.cli.session import Misuse

if TYPE_CHECKING:
    from argparse import Namespace

    from passdown.surfaces.cli.parsing import Parser


def init(parser: Parser) -> None:
    """The arguments of `init`."""
    parser.show(
        "passdown init",
        "passdown init ../shop",
        "passdown init --store 'postgresql://db.example/work?workspace=shop'",
        "passdown init --host claude,codex",
        "passdown init --host auto --print",
        "passdown init --remove",
    )
    parser.add_argument("folder", metavar="DIR", nargs="?", default=".", help="default: here")
    add_host_arguments(parser)
    parser.add_argument(
        "--store",
        metavar="URL",
        default="",
        help="a database that keeps the records",
    )
    parser.add_argument(
        "--repoint",
        action="store_true",
        help="with --store: leave the records that the folder has in another store there",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=_init)


def _init(args: Namespace) -> int:
    if args.repoint and not args.store:
        raise Misuse("--repoint goes with --store")
    if args.store and (args.check or args.remove or args.print):
        raise Misuse("--store makes a workspace; --check, --remove and --print make none")
    if concerns_hosts(args):
        return serve_hosts(args)
    from passdown.workspace import init as make
    from passdown.workspace.locating import new_place

    place = new_place(args.folder)
    names = ("ledger.db", "store")
    was_there = any(os.path.isfile(os.path.join(place.folder, name)) for name in names)
    with make(args.folder, args.store, repoint=args.repoint) as workspace:
        is_moved = was_there and workspace.store_url != place.url
        made = {
            "made": not was_there,
            "root": workspace.root,
            "folder": place.folder,
            "store": workspace.store_shown,
            "store_before": place.url_shown if is_moved else "",
            "config": place.config,
        }
    if args.json:
        print_json(made)
        return 0
    line("the workspace was there already" if was_there else "made a workspace")
    pairs([(name, made[name]) for name in ("root", "store", "config")], 2)
    if is_moved:
        line(f"the folder points to another store now; before: {made['store_before']}")
    if os.path.dirname(place.folder) != place.root:
        line("all worktrees of this repository share it, so it is kept in the main one")
    line("next: passdown task new T-1 --title 'What has to be done'")
    return 0

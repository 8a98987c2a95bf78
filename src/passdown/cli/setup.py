"""`init` and `plugin`: create a workspace, set up coding agents, write their plugins."""

from __future__ import annotations

import os
import os.path
from typing import TYPE_CHECKING, Any

from passdown.cli.output import counted, line, pairs, print_json, verbatim
from passdown.cli.parsing import several
from passdown.cli.session import UsageError
from passdown.hosts.definitions import HOSTS
from passdown.hosts.host_entries import PLUGIN_HOSTS, plugin_files

if TYPE_CHECKING:
    from argparse import Namespace

    from passdown.cli.parsing import Parser
    from passdown.hosts.setup import FileChange, SetupPlan


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
        raise UsageError("--repoint goes with --store")
    if args.store and (args.check or args.remove or args.print):
        raise UsageError("--store makes a workspace; --check, --remove and --print make none")
    if concerns_hosts(args):
        return set_up_hosts(args)
    from passdown.workspace import init as make
    from passdown.workspace.location import new_location

    place = new_location(args.folder)
    names = ("ledger.db", "store")
    was_there = any(os.path.isfile(os.path.join(place.folder, name)) for name in names)
    with make(args.folder, args.store, repoint=args.repoint) as workspace:
        is_moved = was_there and workspace.store_url != place.url
        made = {
            "made": not was_there,
            "root": workspace.root,
            "folder": place.folder,
            "store": workspace.store_label,
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


AUTO = "auto"


def add_host_arguments(parser: Parser) -> None:
    """The options of `init` that concern hosts."""
    parser.add_argument(
        "--host",
        metavar="HOST",
        action="extend",
        type=several,
        default=[],
        help=f"also set up {', '.join(HOSTS)}, or {AUTO}: those that are found here",
    )
    how = parser.add_mutually_exclusive_group()
    for option, help in (
        ("--check", "compare the hosts' files with what they should be; 1 if one differs"),
        ("--remove", "restore the hosts' files as they were; records stay"),
    ):
        parser.offers.append(how.add_argument(option, action="store_true", help=help))
    parser.add_argument(
        "--print", action="store_true", help="show what would change; write nothing"
    )


def concerns_hosts(args: Namespace) -> bool:
    """Whether a call of `init` is about hosts."""
    return bool(args.host or args.check or args.remove or args.print)


def set_up_hosts(args: Namespace) -> int:
    """Carry out `init` for hosts; gives the exit code."""
    from passdown.hosts.setup import apply_plan, plan_setup, read_setup_state

    root = os.path.abspath(args.folder)
    if not os.path.isdir(root):
        raise UsageError(f"{args.folder} is no folder")
    memory = read_setup_state(root)
    named = _chosen_hosts(args, root)
    chosen = {"add_hosts": (), "drop": named} if args.remove else {"add_hosts": named, "drop": ()}
    found = plan_setup(root, memory.files, **chosen)
    if not (args.print or args.check):
        if not args.remove:
            from passdown.workspace import init as make

            make(root, args.store, repoint=args.repoint).close()
        if found.changes or memory.hosts != found.hosts or args.remove:
            apply_plan(root, found, memory)
    _report_hosts(args, found, named)
    return int(args.check and bool(found.changes))


def _chosen_hosts(args: Namespace, root: str) -> list[str]:
    """The hosts that are meant, in the table's order."""
    from passdown.hosts.setup import detected_hosts, installed_hosts

    unknown = [name for name in args.host if name not in HOSTS and name != AUTO]
    if unknown:
        raise UsageError(f"there is no host {unknown[0]!r:.40} ({', '.join(HOSTS)}, {AUTO})")
    if not args.host and args.remove:
        return list(HOSTS)
    if not args.host:
        return installed_hosts(root) or detected_hosts(root)
    names = {*args.host, *(detected_hosts(root) if AUTO in args.host else ())}
    found = [name for name in HOSTS if name in names]
    if not found:
        raise UsageError(f"no host was found here; name one of {', '.join(HOSTS)}")
    return found


def _report_hosts(args: Namespace, found: SetupPlan, named: list[str]) -> None:
    if args.json:
        print_json(_hosts_document(args, found, named))
        return
    if args.print:
        for change in found.changes:
            verbatim(diff_of(change).rstrip("\n"))
    else:
        for change in found.changes:
            line(f"{_change_word(change, would=args.check)} {change.path}", 2)
    if not found.changes:
        line("nothing of ours is here" if args.remove else "everything is as it should be")
    elif args.check:
        line(f"{counted(len(found.changes), 'file')} to bring up to date: passdown init --host ...")
    elif not args.print and not args.remove:
        for name in named:
            line(f"{HOSTS[name].title} {HOSTS[name].note}")


def _hosts_document(args: Namespace, found: SetupPlan, named: list[str]) -> dict[str, Any]:
    return {
        "hosts": list(found.hosts),
        "named": named,
        "written": not (args.print or args.check),
        "same": not found.changes,
        "files": [
            {"path": change.path, "change": _change_kind(change), "diff": diff_of(change)}
            for change in found.changes
        ],
    }


def _change_kind(change: FileChange) -> str:
    if change.before is None:
        return "make"
    return "remove" if change.after is None else "edit"


def _change_word(change: FileChange, *, would: bool) -> str:
    words = {"make": ("missing", "made"), "edit": ("differs", "edited")}
    gone = ("to remove", "removed")
    return words.get(_change_kind(change), gone)[0 if would else 1]


def diff_of(change: FileChange) -> str:
    """A change as a unified diff; a line without an end is marked as diff does."""
    from difflib import unified_diff

    old, new = (
        (data or b"").decode("utf-8", "replace").splitlines(keepends=True)
        for data in (change.before, change.after)
    )
    names = (
        "/dev/null" if change.before is None else f"a/{change.path}",
        "/dev/null" if change.after is None else f"b/{change.path}",
    )
    lines = [
        each if each.endswith("\n") else f"{each}\n\\ No newline at end of file\n"
        for each in unified_diff(old, new, *names)
    ]
    return "".join(lines).replace("\r\n", "\n")


def plugin(parser: Parser) -> None:
    """The arguments of `plugin`."""
    parser.show(
        "passdown plugin ../passdown-claude --host claude",
        "passdown plugin ../passdown-codex --host codex",
        "passdown plugin ../passdown-claude --host claude --check",
    )
    parser.add_argument("folder", metavar="DIR", help="a folder of its own; made where missing")
    parser.add_argument("--host", choices=PLUGIN_HOSTS, required=True, help="whose plugin")
    parser.add_argument(
        "--check", action="store_true", help="compare; 1 if a file differs or is missing"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=_plugin)


def _plugin(args: Namespace) -> int:
    from passdown import __version__

    folder = os.path.abspath(args.folder)
    wanted = plugin_files(HOSTS[args.host], __version__)
    differing = [name for name, text in wanted.items() if _file_text(folder, name) != text]
    if not args.check and differing:
        _write_plugin(folder, {name: wanted[name] for name in differing})
    if args.json:
        written = [] if args.check else differing
        print_json({"host": args.host, "folder": folder, "written": written, "files": list(wanted)})
    else:
        _report_plugin(args, folder, differing)
    return int(args.check and bool(differing))


def _report_plugin(args: Namespace, folder: str, differing: list[str]) -> None:
    for name in differing:
        line(f"{'differs' if args.check else 'wrote'} {name}", 2)
    if not differing:
        line("everything is as it should be")
    elif not args.check:
        line(f"{counted(len(differing), 'file')} in {folder}; docs/hosts.md says how it is added")


def _file_text(folder: str, name: str) -> str | None:
    from passdown.workspace.files import bytes_at

    data = bytes_at(os.path.join(folder, name), 1_048_576)
    return data.decode(errors="replace") if isinstance(data, bytes) else None


def _write_plugin(folder: str, files: dict[str, str]) -> None:
    """Write files of ours; a folder that holds somebody else's plugin is left alone."""
    from passdown.errors import InvalidInput, Problem
    from passdown.hosts.host_entries import PLUGIN_NAME

    taken = [name for name in files if name.endswith("plugin.json") and _is_other(folder, name)]
    if taken:
        problem = Problem(
            taken[0], "taken", f"is the manifest of a plugin other than {PLUGIN_NAME}", ""
        )
        raise InvalidInput("nothing was written", [problem])
    for name, text in files.items():
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)


def _is_other(folder: str, name: str) -> bool:
    import json

    from passdown.hosts.host_entries import PLUGIN_NAME

    try:
        found = json.loads(_file_text(folder, name) or "{}")
        return found.get("name", PLUGIN_NAME) != PLUGIN_NAME
    except (ValueError, AttributeError):
        return True

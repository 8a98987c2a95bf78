"""`export` and `import`: records taken elsewhere, and taken in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from passdown.surfaces.cli.parsing import FILE, TASK, with_store
from passdown.surfaces.cli.printing import counted, line, print_json, table
from passdown.surfaces.cli.session import opened

if TYPE_CHECKING:
    from argparse import Namespace

    from passdown.surfaces.cli.parsing import Parser


def export(parser: Parser) -> None:
    """The arguments of `export`."""
    parser.show("passdown export all.passdown", "passdown export t1.passdown --task T-1")
    parser.add_argument("file", metavar=FILE, help="a new file")
    parser.add_argument("--task", metavar=TASK, help="default: everything")
    with_store(parser)
    parser.set_defaults(run=_export)


def _export(args: Namespace) -> int:
    with opened(args) as workspace:
        streams = workspace.export(args.file, args.task)
    if args.json:
        print_json({"file": args.file, "streams": streams})
    else:
        are = "is" if streams == 1 else "are"
        line(f"{counted(streams, 'stream')} {are} in {args.file}")
    return 0


def import_(parser: Parser) -> None:
    """The arguments of `import`."""
    parser.show("passdown import t1.passdown", "passdown import t1.passdown --fork from-kim")
    parser.add_argument("file", metavar=FILE, help="a file that export wrote")
    parser.add_argument(
        "--fork",
        metavar="SUFFIX",
        default="",
        help="where histories differ, keep both: the incoming task gets this suffix",
    )
    with_store(parser)
    parser.set_defaults(run=_import)


def _import(args: Namespace) -> int:
    with opened(args) as workspace:
        found = workspace.import_bundle(args.file, fork=args.fork)
    if args.json:
        print_json({**found._asdict(), "unchanged": list(found.unchanged)})
        return 0
    rows = [(stream, f"{counted(count, 'record')} added") for stream, count in found.added.items()]
    rows += [(stream, f"kept beside as {name}") for stream, name in found.forked.items()]
    rows += [(stream, "was there already") for stream in found.unchanged]
    table(("stream", "result"), rows, "the bundle is empty")
    return 0


BUILDERS = {"export": export, "import": import_}

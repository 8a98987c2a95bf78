"""`export` and `import`: records taken elsewhere, and what others wrote taken in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from passdown.surfaces.cli.parsing import FILE, TASK, whole_number, with_agent, with_store
from passdown.surfaces.cli.printing import counted, labelled, line, print_json, table
from passdown.surfaces.cli.progress import progress_bar
from passdown.surfaces.cli.session import Misuse, author, opened

if TYPE_CHECKING:
    from argparse import Namespace

    from passdown.surfaces.cli.parsing import Parser
    from passdown.workspace.importing import Brought

_FORMS = ("bundle", "adr", "beads", "memory", "notes")
_RESULTS = ("added", "changed", "unchanged", "skipped", "refused")
_TOLD = (
    ("refused", "red", ("refused",)),
    ("skipped", "dim", ("skipped",)),
    ("note", "yellow", ("added", "changed")),
)
_SHOWN = 20


def export(parser: Parser) -> None:
    """The arguments of `export`."""
    parser.show(
        "passdown export --task T-1",
        "passdown export t1.passdown --task T-1 --diff",
        "passdown export all.passdown",
    )
    parser.add_argument(
        "file", metavar=FILE, nargs="?", help="a new file; default: the task's id and .passdown"
    )
    parser.add_argument("--task", metavar=TASK, help="default: everything")
    parser.add_argument(
        "--diff", action="store_true", help="take uncommitted changes along, new files too"
    )
    with_store(parser)
    parser.set_defaults(run=_export)


def _export(args: Namespace) -> int:
    target = args.file or f"{args.task or 'all'}.passdown"
    with opened(args) as workspace:
        # Asked before there is a new file in the repository.
        stood = workspace.checkout()
        streams = workspace.export(target, args.task, diff=args.diff)
    if args.json:
        git = stood.document() if stood else None
        print_json({"file": target, "streams": streams, "git": git, "diff": args.diff})
        return 0
    are = "is" if streams == 1 else "are"
    line(f"{counted(streams, 'stream')} {are} in {target}")
    if stood is not None:
        from passdown.model.checkout import described

        line(f"git: {described(stood)}")
        if stood.uncommitted and not args.diff:
            line("the uncommitted changes stay here; --diff takes them along")
    return 0


def import_(parser: Parser) -> None:
    """The arguments of `import`."""
    parser.show(
        "passdown import t1.passdown",
        "passdown import t1.passdown --fork from-kim",
        "passdown import t1.passdown --patch changes.patch",
        "passdown import docs/adr --dry-run",
        "passdown import .beads/issues.jsonl --from beads --agent kim",
        "passdown import memory.jsonl",
        "passdown import HANDOFF.md --task T-1",
    )
    parser.add_argument("source", metavar=FILE, help="a file or folder: see --from")
    parser.add_argument(
        "--from",
        dest="form",
        choices=("auto", *_FORMS),
        default="auto",
        help="a bundle of passdown export, ADRs, issues of beads (.beads/issues.jsonl), the memory "
        "file of MCP's memory server, or notes such as HANDOFF.md; default: by its content",
    )
    parser.add_argument("--dry-run", action="store_true", help="say what would be written")
    parser.add_argument("--task", metavar=TASK, help="where ADRs, memories and notes go")
    parser.add_argument(
        "--fork",
        metavar="SUFFIX",
        default="",
        help="where histories differ, keep both: the incoming task gets this suffix",
    )
    parser.add_argument(
        "--patch", metavar=FILE, default="", help="a new file for a bundle's uncommitted changes"
    )
    parser.add_argument(
        "--max-unpacked",
        metavar="BYTES",
        type=whole_number,
        help="how many bytes a bundle may unpack to; usually 100 times its own size, 1 GiB at most",
    )
    with_agent(parser)
    with_store(parser)
    parser.set_defaults(run=_import)


def _import(args: Namespace) -> int:
    if args.form in ("auto", "bundle") and not args.dry_run and _may_be_bundle(args):
        return _import_bundle(args)
    given = {
        "--fork": args.fork,
        "--patch": args.patch,
        "--max-unpacked": args.max_unpacked is not None,
    }
    if option := next((name for name, value in given.items() if value), ""):
        raise Misuse(f"{option} is for bundles, and not for a dry run", "passdown import")
    with opened(args) as workspace:
        found = workspace.bring(
            args.source,
            form=args.form,
            agent=author(args),
            task=args.task or "",
            dry_run=args.dry_run,
            progress=progress_bar("importing"),
        )
    if args.json:
        print_json(found.as_document())
    else:
        _print_brought(found)
    return 1 if found.total("refused") else 0


def _may_be_bundle(args: Namespace) -> bool:
    """Whether to read a source as a bundle: it is named one, begins like one, or isn't there."""
    from passdown.workspace.given_files import NotRegular, regular_file

    if args.form == "bundle":
        return True
    try:
        with regular_file(args.source) as file:
            return file.read(2) == b"PK"
    except NotRegular:
        return False
    except (OSError, ValueError):
        return True


def _import_bundle(args: Namespace) -> int:
    from passdown.errors import InvalidInput
    from passdown.workspace.bundling import imported_document
    from passdown.workspace.given_files import irregular

    if problems := irregular(args.source):
        raise InvalidInput("nothing was imported", problems)
    with opened(args) as workspace:
        found = workspace.import_bundle(
            args.source,
            fork=args.fork,
            patch=args.patch,
            agent=author(args),
            max_unpacked=args.max_unpacked,
        )
    if args.json:
        print_json(imported_document(found))
        return 0
    rows = [(stream, f"{counted(count, 'record')} added") for stream, count in found.added.items()]
    rows += [(stream, f"kept beside as {name}") for stream, name in found.forked.items()]
    rows += [(stream, "was there already") for stream in found.unchanged]
    table(("stream", "result"), rows, "the bundle is empty")
    if args.patch:
        line(f"the uncommitted changes are in {args.patch}; git apply takes them in")
    for warning in found.warnings:
        labelled("warning", "yellow", warning.line())
    return 0


def _print_brought(found: Brought) -> None:
    """The numbers by kind, then what was not taken and why, and what to know of the rest."""
    if found.is_dry_run:
        line("dry run: nothing was written")
    rows = [(kind, *(numbers[r] for r in _RESULTS)) for kind, numbers in found.counts.items()]
    table((found.form, *_RESULTS), rows, "nothing was there")
    told = [entry for entry in found.entries if entry.reason]
    for word, style, results in _TOLD:
        entries = [entry for entry in told if entry.result in results]
        for entry in entries[:_SHOWN]:
            labelled(word, style, f"{entry.source}: {entry.reason}")
        if len(entries) > _SHOWN:
            line(f"and {len(entries) - _SHOWN} more: {word}; --json lists all")

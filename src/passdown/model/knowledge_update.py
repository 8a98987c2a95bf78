"""What an update makes of a knowledge file and of what the ledger knows. Pure.

The three sides are the file as it was, the entries that are brought, and the ledger. What only the
entries change is taken; where the ledger has moved on from the file too, its words stand, and the
difference is reported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from passdown.errors import Problem
from passdown.model.graph import Edge, Graph, Node, graph_of, stands_for
from passdown.model.graph_merging import base_of, edge_name, merged

if TYPE_CHECKING:
    from collections.abc import Iterable

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
    merge = merged(ledger, _graph(wished.values()), base_of(file, 0))
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
    missing = {end for end in ends - parts.keys() if end in known and not stands_for(end)}
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

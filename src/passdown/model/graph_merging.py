"""Bringing a graph and its file together: who changed what since they were last the same.

Three sides are compared: what the ledger says, what the file says, and what both said last time.
A change on one side is taken over by the other. Where both changed, the ledger's words stand, and
the difference is reported: nothing is merged in silence.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, NamedTuple

from passdown.errors import Problem
from passdown.model.graph import Edge, Graph, Node
from passdown.model.knowledge import edge_document, node_document

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class Base(NamedTuple):
    """What graph and file both said last time: a digest for each node and edge, by name; and how
    far the ledger had come.
    """

    seq: int
    digests: Mapping[str, str]


NO_BASE = Base(0, {})


class Merge(NamedTuple):
    """What the ledger takes over from the file, and what has to be reported."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    reports: tuple[Problem, ...]


def edge_name(edge: Edge) -> str:
    """The name under which an edge is remembered."""
    return json.dumps(edge.key, ensure_ascii=False)


def digest_of(part: Node | Edge) -> str:
    """A short digest of everything that a node or an edge says."""
    document = node_document(part) if isinstance(part, Node) else edge_document(part)
    text = json.dumps(document, sort_keys=True, ensure_ascii=False)
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


def base_of(graph: Graph, seq: int) -> Base:
    """What is remembered once graph and file are the same."""
    return Base(seq, {name: digest_of(part) for name, part in _named(graph).items()})


def merged(ledger: Graph, file: Graph, base: Base) -> Merge:
    """Compare the three sides; see above."""
    ours, theirs = _named(ledger), _named(file)
    taken: list[Node | Edge] = []
    reports: list[Problem] = []
    for name, part in theirs.items():
        own = ours.get(name)
        before = base.digests.get(name)
        if own == part or digest_of(part) == before:
            continue
        if own is None or digest_of(own) == before:
            taken.append(part)
        else:
            reports.append(_both_changed(part, own))
    for name, part in ours.items():
        if name not in theirs and base.digests.get(name) == digest_of(part):
            reports.append(_taken_out(part))
    return Merge(
        tuple(part for part in taken if isinstance(part, Node)),
        tuple(part for part in taken if isinstance(part, Edge)),
        tuple(reports),
    )


def _named(graph: Graph) -> dict[str, Node | Edge]:
    parts: Iterable[Node | Edge] = (*graph.nodes, *graph.edges)
    return {edge_name(p) if isinstance(p, Edge) else p.id: p for p in parts}


def _path(part: Node | Edge) -> str:
    return f"nodes.{part.id}" if isinstance(part, Node) else f"edges.{' '.join(part.key)}"


def _both_changed(theirs: Node | Edge, ours: Node | Edge) -> Problem:
    said = [
        f"{p.summary!r}" if isinstance(p, Node) else f"{dict(p.attributes)}" for p in (theirs, ours)
    ]
    message = f"was changed in the file ({said[0]}) and in the ledger ({said[1]})"
    fix = "the ledger's words stand; write down what should hold with knowledge add"
    return Problem(_path(theirs), "conflict", message, "a change on one side", fix, "warning")


def _taken_out(part: Node | Edge) -> Problem:
    message = "was taken out of the file; it is there again"
    fix = "take it out of the graph with knowledge forget"
    return Problem(_path(part), "put_back", message, "", fix, "warning")

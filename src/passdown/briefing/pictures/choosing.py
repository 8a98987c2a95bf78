"""Which part of a graph a picture shows, and how it says what is missing."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from passdown.model.graph import Node, summary_line

if TYPE_CHECKING:
    from passdown.model.graph import Edge, Graph

MOST_NODES = 60
MOST_EDGES = 400

_ITEM_TYPES = {"d": "decision", "p": "pattern", "g": "gotcha", "a": "file"}


class Wire(NamedTuple):
    """All that leads from one node to another, drawn as one line."""

    source: str
    target: str
    relations: tuple[str, ...]


class Shown(NamedTuple):
    """The nodes of a picture by id, what connects them, and how much is left out."""

    nodes: dict[str, Node]
    wires: tuple[Wire, ...]
    nodes_left_out: int
    edges_left_out: int

    @property
    def note(self) -> str:
        """A sentence about what is left out; empty when nothing is."""
        left = (_count(self.nodes_left_out, "node"), _count(self.edges_left_out, "edge"))
        told = " and ".join(part for part in left if part)
        return f"Left out: {told}; shown are the best connected." if told else ""


def chosen(graph: Graph) -> Shown:
    """The best connected nodes, and the edges among them.

    An end of an edge that no node is listed for (an item, a task, an agent, a file) is shown under
    its id.
    """
    nodes = {node.id: node for node in graph.nodes}
    for name in sorted({name for edge in graph.edges for name in (edge.source, edge.target)}):
        if name not in nodes:
            nodes[name] = Node(name, _type_of(name), summary_line(name))
    degree = Counter(name for edge in graph.edges for name in {edge.source, edge.target})
    best = sorted(nodes, key=lambda name: (-degree[name], name))[:MOST_NODES]
    kept = set(best)
    inside = [edge for edge in graph.edges if edge.source in kept and edge.target in kept]
    drawn = inside[:MOST_EDGES]
    return Shown(
        {name: nodes[name] for name in sorted(kept)},
        _wires(drawn),
        len(nodes) - len(best),
        len(graph.edges) - len(drawn),
    )


def _wires(edges: list[Edge]) -> tuple[Wire, ...]:
    found: dict[tuple[str, str], list[str]] = {}
    for edge in edges:
        found.setdefault((edge.source, edge.target), []).append(edge.relation)
    return tuple(Wire(*ends, tuple(found[ends])) for ends in sorted(found))


def _type_of(name: str) -> str:
    """What kind of thing an id stands for that has no node."""
    kind, colon, _ = name.partition(":")
    if colon and kind in ("task", "agent", "file"):
        return kind
    _, mark, address = name.rpartition("#")
    return _ITEM_TYPES.get(address[:1], "insight") if mark else "insight"


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}{'s' if number != 1 else ''}" if number else ""

"""Which part of a graph a picture shows, and how it says what is missing."""

from __future__ import annotations

from collections import Counter
from heapq import heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

from passdown.model.graph import Node, summary_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from passdown.model.graph import Edge, Graph

MOST_NODES = 60
MOST_EDGES = 400

_NOT_NOW = frozenset(
    {"superseded", "reverted", "retracted", "replaced", "withdrawn", "cancelled"}
    | {"deprecated", "legacy", "future"}
)
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
    is_around: bool = False

    @property
    def note(self) -> str:
        """A sentence about what is left out; empty when nothing is."""
        left = (_count(self.nodes_left_out, "node"), _count(self.edges_left_out, "edge"))
        told = " and ".join(part for part in left if part)
        kept = "nearest" if self.is_around else "best connected"
        return f"Left out: {told}; shown are the {kept}." if told else ""


def relation_words(edge: Edge) -> str:
    """An edge's relation, and the word that it came with where it had one: `relates_to (owns)`."""
    name = edge.attributes.get("name", "")
    return f"{edge.relation} ({name})" if name else edge.relation


def settled_status(node: Node) -> str:
    """The status of a node that no longer holds, or doesn't yet; empty for one that stands."""
    status = node.attributes.get("status", "")
    return status if status in _NOT_NOW else ""


def chosen(graph: Graph, starts: Iterable[str] = ()) -> Shown:
    """The best connected nodes, and the edges among them: grown from the best along the edges, so
    that what is shown hangs together. With `starts`, these and the nearest to them.

    An end of an edge that no node is listed for (an item, a task, an agent, a file) is shown under
    its id.
    """
    nodes = {node.id: node for node in graph.nodes}
    for name in sorted({name for edge in graph.edges for name in (edge.source, edge.target)}):
        if name not in nodes:
            nodes[name] = Node(name, _type_of(name), summary_line(name))
    known = [name for name in starts if name in nodes]
    kept = _grown(nodes, graph.edges, known)
    inside = [edge for edge in graph.edges if edge.source in kept and edge.target in kept]
    drawn = inside[:MOST_EDGES]
    return Shown(
        {name: nodes[name] for name in sorted(kept)},
        _wires(drawn),
        len(nodes) - len(kept),
        len(graph.edges) - len(drawn),
        bool(known),
    )


def _grown(nodes: Iterable[str], edges: Iterable[Edge], starts: Sequence[str]) -> set[str]:
    """Up to so many nodes as there is room for: the one with the most edges, then of those that it
    leads to the one with the most, and so on; anew with the next best where nothing leads on.

    With starts it begins with these, and fewer steps from them count before more edges.
    """
    around: dict[str, set[str]] = {name: set() for name in nodes}
    degree: Counter[str] = Counter()
    for edge in edges:
        around[edge.source].add(edge.target)
        around[edge.target].add(edge.source)
        degree.update({edge.source, edge.target})
    order = sorted(around, key=lambda name: (-degree[name], name))
    if len(order) <= MOST_NODES:
        return set(order)
    place = {name: index for index, name in enumerate(order)}
    kept: set[str] = set()
    reachable = sorted((0, place[name]) for name in set(starts))
    seeds = iter(range(len(order)))
    while len(kept) < MOST_NODES:
        steps, index = heappop(reachable) if reachable else (0, next(seeds))
        name = order[index]
        if name not in kept:
            kept.add(name)
            for other in around[name] - kept:
                heappush(reachable, (steps + 1 if starts else 0, place[other]))
    return kept


def _wires(edges: list[Edge]) -> tuple[Wire, ...]:
    found: dict[tuple[str, str], list[str]] = {}
    for edge in edges:
        found.setdefault((edge.source, edge.target), []).append(relation_words(edge))
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

"""Queries of the knowledge graph: nodes, neighbours with paths, subgraphs.

Only `whole` loads the whole graph.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from passdown.core.graph import RELATIONS, Edge, Graph, Node, graph_of, summary_line
from passdown.core.index_entries import NODE_LETTERS, item_node, tag_of
from passdown.core.kinds import parse_address

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from passdown.store.statements import Reader


MAX_REACHED = 10_000
MAX_STEPS = 1_000
MAX_PATH_EDGES = 20_000
"""How many edges the paths of neighbours have, all together: a long chain has very many."""

DIRECTIONS = ("out", "in", "both")
_ALL = 2**62


class ReachedNode(NamedTuple):
    """A node that can be reached, in how many steps, and by which edges from the start."""

    node: str
    depth: int
    path: tuple[Edge, ...]


class TaggedNode(NamedTuple):
    """A node found by its tags; `score` is the share of the asked tags that it has."""

    node: Node
    score: float
    tags: tuple[str, ...]


def node_at(reader: Reader, name: str) -> Node | None:
    """The node with an id, or None where nothing is known by it."""
    address = parse_address(name)
    if address is not None and address.letter in NODE_LETTERS:
        row = reader.item(*address)
        entry = reader.entry_at(name)  # it knows what decisions of other tasks supersede
        if row is not None and entry is not None:
            row = row._replace(status=entry.status)
        return item_node(row, reader.tags_of_node(name)) if row else None
    known = reader.known_node(name)
    if known is not None:
        return known.node
    kind, _, rest = name.partition(":")
    if kind == "task":
        task = reader.task(rest)
        if task is not None:
            summary = summary_line(task.details["title"])
            return Node(name, "task", summary or rest, (), {"status": task.status})
    elif kind in ("agent", "file") and _has_edges(reader, name):
        return Node(name, kind, summary_line(rest))
    return None


def _has_edges(reader: Reader, name: str) -> bool:
    return bool(reader.edges(source=name, limit=1) or reader.edges(target=name, limit=1))


def neighbours(
    reader: Reader,
    start: str,
    *,
    depth: int = 1,
    direction: str = "out",
    relations: Collection[str] = (),
    limit: int = MAX_REACHED,
) -> list[ReachedNode]:
    """The nodes that can be reached from one in up to `depth` steps, nearest first, without it.

    Each comes once, by a shortest path; cycles do no harm. The walk ends at `limit` nodes, or at
    `MAX_PATH_EDGES` in their paths, however many more there are.
    """
    found: dict[str, ReachedNode] = {}
    edges = 0
    for place in _walk(reader, [start], depth, direction, relations=relations, limit=limit):
        edges += place.depth
        if edges > MAX_PATH_EDGES:
            break
        before = found.get(place.before)
        path = (*(before.path if before else ()), place.edge)
        found[place.node] = ReachedNode(place.node, place.depth, path)
    return list(found.values())


def ended_early(found: Sequence[ReachedNode]) -> bool:
    """Whether a walk may have ended before everything was reached."""
    edges = sum(place.depth for place in found)
    following = found[-1].depth + 1 if found else 0
    return len(found) >= MAX_REACHED or edges + following > MAX_PATH_EDGES


def nodes_around(reader: Reader, starts: Sequence[str], *, depth: int) -> list[str]:
    """Some nodes, and those that can be reached from any of them either way, nearest first; of
    these the first `MAX_REACHED`.
    """
    return [*starts, *(place.node for place in _walk(reader, starts, depth, "both"))]


class _WalkStep(NamedTuple):
    """A node on a walk, and how it was come to: from which node, by which edge."""

    node: str
    depth: int
    before: str
    edge: Edge


def _walk(
    reader: Reader,
    starts: Sequence[str],
    depth: int,
    direction: str,
    *,
    relations: Collection[str] = (),
    limit: int = MAX_REACHED,
) -> list[_WalkStep]:
    """What a walk from several nodes at once comes to, each node once and without the starts."""
    own = set(starts)
    found: dict[str, _WalkStep] = {}
    wave = list(dict.fromkeys(starts))
    for step in range(1, depth + 1):
        later: list[str] = []
        for name in wave:
            for edge, node in _steps(reader, name, direction, relations, len(own) + limit):
                if node in found or node in own:
                    continue
                if len(found) >= limit:
                    return list(found.values())
                found[node] = _WalkStep(node, step, name, edge)
                later.append(node)
        wave = later
        if not wave:
            break
    return list(found.values())


def _steps(
    reader: Reader, node: str, direction: str, relations: Collection[str], limit: int
) -> Iterator[tuple[Edge, str]]:
    """The edges at a node with where they lead: enough of them to come to more than `limit` nodes,
    if there are as many.
    """
    for relation in sorted(set(relations)) or [""]:
        # Two nodes have one edge of each relation at most.
        most = (limit + 1) * (1 if relation else len(RELATIONS))
        if direction != "in":
            for edge in reader.edges(source=node, relation=relation, limit=most):
                yield edge, edge.target
        if direction != "out":
            for edge in reader.edges(target=node, relation=relation, limit=most):
                yield edge, edge.source


def subgraph(reader: Reader, names: Iterable[str]) -> Graph:
    """The named nodes, as far as they are known, and every edge between two of them."""
    nodes = {name: node_at(reader, name) for name in dict.fromkeys(names)}
    known = {name: node for name, node in nodes.items() if node is not None}
    edges = [edge for name in known for edge in reader.edges(source=name) if edge.target in known]
    return graph_of(known.values(), edges)


def whole_graph(reader: Reader, *, types: Collection[str] = ()) -> Graph:
    """Everything: written nodes, items, and the tasks, agents and files that edges lead to."""
    names = {row.node.id for row in reader.known_nodes()}
    edges = list(reader.all_edges())
    names.update(name for edge in edges for name in (edge.source, edge.target))
    nodes = {name: node_at(reader, name) for name in names}
    kept = {
        name: node
        for name, node in nodes.items()
        if node is not None and (not types or node.type in types)
    }
    return graph_of(
        kept.values(), (edge for edge in edges if edge.source in kept and edge.target in kept)
    )


def by_tags(
    reader: Reader, tags: Sequence[str], *, types: Collection[str] = (), limit: int = 10
) -> list[TaggedNode]:
    """Nodes under any of some tags, those that share most of them first."""
    wanted = sorted({tag_of(tag) for tag in tags} - {""})
    found: list[TaggedNode] = []
    for name, count in reader.tagged(wanted, _ALL):
        node = node_at(reader, name)
        if node is not None and (not types or node.type in types):
            shared = tuple(tag for tag in node.tags if tag in wanted)
            found.append(TaggedNode(node, count / len(wanted), shared))
            if len(found) == limit:
                break
    return found


def tasks_about(reader: Reader, tag: str, types: Collection[str]) -> dict[str, list[Node]]:
    """The tasks in which nodes under a tag were found, with those nodes, the first found first."""
    found: dict[str, list[tuple[int, Node]]] = {}
    for tagged in by_tags(reader, [tag], types=types, limit=_ALL):
        address = parse_address(tagged.node.id)
        row = reader.item(*address) if address else reader.known_node(tagged.node.id)
        if row is not None:
            found.setdefault(row.task, []).append((row.position, tagged.node))
    return {
        task: [node for _, node in sorted(found[task], key=lambda pair: pair[0])]
        for task in sorted(found)
    }

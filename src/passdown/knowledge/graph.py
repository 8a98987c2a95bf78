"""The knowledge graph: add nodes and edges, and query it.

Functions that take a `Context` are operations of a workspace; those that take a `Reader` read
within one transaction. Only `whole_graph` loads the whole graph.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

from passdown.core.arguments import number_problems, raise_problems, text_list, text_type_problems
from passdown.core.graph import (
    NODE_TYPES,
    RELATIONS,
    Edge,
    Graph,
    Node,
    check_graph,
    forgotten_problems,
    graph_of,
    graph_values,
    is_reference,
    knowledge_body,
    normal_id,
    part_document,
    replaced_warning,
    reserved_problems,
    summary_line,
    walked,
    with_normal_ids,
)
from passdown.core.index_entries import NODE_LETTERS, item_node, tag_of
from passdown.core.kinds import parse_address, stream_of
from passdown.core.names import agent_problems, id_problems
from passdown.core.results import Receipt
from passdown.core.text import has_lone_surrogate
from passdown.core.types import NEWEST, JsonObject
from passdown.errors import InvalidInput, NotFound, Problem, unknown_task
from passdown.store.statements import Reader
from passdown.workspace.context import Context

Key = tuple[str, str, str]

T = TypeVar("T")

MAX_REACHED = 10_000
MAX_STEPS = 1_000
MAX_PATH_EDGES = 20_000
"""How many edges the paths of neighbours have, all together: a long chain has very many."""

DIRECTIONS = ("out", "in", "both")


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


def add_knowledge(
    context: Context,
    nodes: Iterable[Node | JsonObject] = (),
    edges: Iterable[Edge | JsonObject] = (),
    *,
    agent: str,
    task: str | None = None,
    key: str | None = None,
    forget_nodes: Sequence[str] = (),
    forget_edges: Sequence[tuple[str, str, str]] = (),
) -> Receipt:
    """Add nodes and edges to the knowledge graph, or replace those with the same id.

    Warnings name nodes that said something else. What is known already is not recorded again.

    Args:
        nodes: Nodes, or their fields.
        edges: Edges, or their fields.
        agent: Who adds them.
        task: The task that they belong to; without one they concern all work.
        key: Idempotency key: a retry with the same key gives the same receipt.
        forget_nodes: The ids of nodes to remove.
        forget_edges: Edges to remove, each as source, relation and target.
    """
    task, key = task or "", key or ""
    # What only writes need is imported here and below: reading the graph should start fast.
    from passdown.core.names import key_problems
    from passdown.workspace.entries import REFUSED

    nodes, edges = graph_values(_listed(nodes, "nodes"), _listed(edges, "edges"))
    named = [forget_nodes] if isinstance(forget_nodes, str) else forget_nodes
    forget_nodes = _listed(named, "forget_nodes")
    forget_edges = _listed(forget_edges, "forget_edges")
    problems = [*reserved_problems(nodes, edges), *agent_problems(agent, "agent")]
    problems += id_problems(task, "task") if task else []
    problems += key_problems(key) if key else []
    problems += forgotten_problems(forget_nodes, forget_edges)
    forget_edges = [] if problems else [(e[0], e[1], e[2]) for e in forget_edges]
    with context.store.reading() as reader:
        spelled = partial(_known_spelling, reader)
        nodes, edges = with_normal_ids(nodes, edges, spelled)
        forget_nodes = [] if problems else [spelled(name) for name in forget_nodes]
        forget_edges = [(spelled(a), relation, spelled(b)) for a, relation, b in forget_edges]
        ends = {name for edge in edges for name in (edge.source, edge.target)}
        known = [name for name in ends if reader.known_node(name) is not None]
        problems += check_graph(nodes, edges, known)
        problems += [] if problems else _unknown(reader, forget_nodes, forget_edges, ends)
        raise_problems(REFUSED, problems, next_step="Fix these, then try again.")
        graph = graph_of(nodes, edges)
        news, warnings = _changes(reader, graph)
    body = knowledge_body(news, forget_nodes, forget_edges)
    if not body and not nodes and not edges:
        nothing = Problem("nodes", "required", "nothing is given", "a node or an edge")
        raise InvalidInput(REFUSED, [nothing])
    return _written(context, (task, agent, key), body, warnings)


def _known_spelling(reader: Reader, name: str) -> str:
    """The spelling under which an id is known: as given, or normalised."""
    usual = normal_id(name)
    if usual == name or has_lone_surrogate(name) or node_at(reader, name) is not None:
        return name
    return usual


def _listed(values: Iterable[T], path: str) -> list[T]:
    """An argument as a list; raises InvalidInput if it isn't iterable."""
    try:
        return list(values)
    except TypeError as error:
        problem = Problem(path, "wrong_type", type(values).__name__, "a list")
        raise InvalidInput("refused; nothing was changed", [problem]) from error


def _written(
    context: Context, whose: tuple[str, str, str], body: JsonObject, warnings: list[Problem]
) -> Receipt:
    from passdown.ledger.gates import entry_guard
    from passdown.ledger.writer import Entry
    from passdown.workspace.entries import workspace_task, write_entry

    task, agent, key = whose
    task = task or workspace_task(context, agent, {})
    if not body:
        # The receipt if everything was known already: nothing is written.
        with context.store.reading() as reader:
            head = reader.head(stream_of(task))
        if head is None:
            raise unknown_task(task)
        return Receipt(task, head.position, head.digest, (), is_replay=True, warnings=())
    entry = Entry(task, "learned", agent, body, key or os.urandom(16).hex())
    return write_entry(context, entry, entry_guard(_lost_ends), warnings)


def _lost_ends(reader: Reader, body: JsonObject) -> list[Problem]:
    """Ends of edges that someone else has removed meanwhile."""
    added = {node["id"] for node in body.get("nodes", ())}
    ends = {edge[name] for edge in body.get("edges", ()) for name in ("source", "target")}
    return [
        Problem("edges", "unknown_node", f"there is no node {name!r} any more", "the id of a node")
        for name in sorted(ends - added)
        if not is_reference(name) and reader.known_node(name) is None
    ]


def _unknown(
    reader: Reader, nodes: Sequence[str], edges: Sequence[Key], ends: set[str]
) -> list[Problem]:
    """What can't be removed: what doesn't exist, or a node that a new edge leads to."""
    found = [
        Problem(f"forget_edges[{index}]", "unknown_edge", f"there is no {' '.join(key)!r}", "")
        for index, key in enumerate(edges)
        if not reader.edges(source=key[0], relation=key[1], target=key[2])
    ]
    for index, name in enumerate(nodes):
        where = f"forget_nodes[{index}]"
        if reader.known_node(name) is None:
            expected = "an added node"
            found.append(Problem(where, "unknown_node", f"there is no {name!r}", expected))
        elif name in ends:
            found.append(Problem(where, "in_use", f"an edge leads to {name!r}", "either of both"))
    return found


def _changes(reader: Reader, graph: Graph) -> tuple[Graph, list[Problem]]:
    """The new and changed parts of a graph, and warnings for what they replace."""
    warnings: list[Problem] = []
    nodes: list[Node] = []
    for node in graph.nodes:
        known = reader.known_node(node.id)
        old = graph_of([known.node], ()).nodes[0] if known else None
        if old != node:
            nodes.append(node)
            if known is not None and old is not None:
                warnings.append(
                    replaced_warning(old, node, f"{known.task} version {known.position}")
                )
    edges: list[Edge] = []
    for edge in graph.edges:
        same = reader.edges(source=edge.source, relation=edge.relation, target=edge.target)
        edges += [] if edge in graph_of((), same).edges else [edge]
    return Graph(tuple(nodes), tuple(edges)), warnings


def edges(
    context: Context, *, source: str = "", relation: str = "", target: str = ""
) -> list[Edge]:
    """The edges with this source, relation and target; all of them by default.

    Args:
        source: The id of a node.
        relation: A relation.
        target: The id of a node.
    """
    raise_problems(
        "can't look around", text_type_problems(source=source, relation=relation, target=target)
    )
    with context.store.reading() as reader:
        source, target = _known_spelling(reader, source), _known_spelling(reader, target)
        if source or target:
            return reader.edges(source=source, relation=relation, target=target)
        return list(reader.all_edges(relation))


def neighbours(
    context: Context,
    node: str,
    *,
    depth: int = 1,
    direction: str = "out",
    relations: Sequence[str] = (),
) -> list[ReachedNode]:
    """The nodes that can be reached from a node, nearest first, each with the edges on the way.

    At most 10,000 nodes, and those whose paths have 20,000 edges together.

    Args:
        node: The id of the node.
        depth: The largest number of steps.
        direction: out, in or both.
        relations: Only edges with one of these relations.
    """
    problems = text_type_problems(node=node)
    relations = text_list(relations, "relations", problems)
    if direction not in DIRECTIONS:
        expected = f"one of {', '.join(DIRECTIONS)}"
        problems.append(Problem("direction", "invalid_choice", repr(direction), expected))
    problems += number_problems(depth, "depth", 1, MAX_STEPS)
    raise_problems("can't look around", problems)
    with context.store.reading() as reader:
        node = _known_spelling(reader, node)
        require_node(reader, node)
        return reachable(reader, node, depth=depth, direction=direction, relations=relations)


def tagged(
    context: Context, tags: Sequence[str], *, types: Sequence[str] = (), limit: int = 10
) -> list[TaggedNode]:
    """Nodes with any of some tags, those that share most of them first.

    Args:
        tags: The tags.
        types: Only nodes of these types.
        limit: The largest number of nodes.
    """
    problems = number_problems(limit, "limit", 1)
    tags = text_list(tags, "tags", problems)
    types = _checked_types(types, problems)
    raise_problems("can't look around", problems)
    with context.store.reading() as reader:
        return nodes_by_tags(reader, tags, types=types, limit=limit)


def tasks_about(
    context: Context, tag: str, *, types: Sequence[str] = ("pattern",)
) -> dict[str, list[JsonObject]]:
    """The tasks that found something about a tag, each with the nodes that it found.

    Args:
        tag: The tag.
        types: Only nodes of these types.
    """
    problems = text_type_problems(tag=tag)
    types = _checked_types(types, problems)
    raise_problems("can't look around", problems)
    found: dict[str, list[tuple[int, Node]]] = {}
    with context.store.reading() as reader:
        for node, _, _ in nodes_by_tags(reader, [tag], types=types, limit=NEWEST):
            address = parse_address(node.id)
            row = reader.item(*address) if address else reader.known_node(node.id)
            if row is not None:
                found.setdefault(row.task, []).append((row.position, node))
    return {
        task: [part_document(node) for _, node in sorted(found[task], key=lambda pair: pair[0])]
        for task in sorted(found)
    }


def _checked_types(types: Sequence[str], problems: list[Problem]) -> tuple[str, ...]:
    """Node types as a tuple; unknown ones add problems."""
    expected = f"one of {', '.join(NODE_TYPES)}"
    listed = text_list(types, "types", problems)
    problems += [
        Problem("types", "invalid_choice", repr(name), expected)
        for name in listed
        if name not in NODE_TYPES
    ]
    return listed


def require_node(reader: Reader, name: str) -> Node:
    """The node with an id; raises NotFound if there is none."""
    node = node_at(reader, name)
    if node is None:
        hint = "an item as T-1#d3, task:T-1, agent:NAME, file:PATH, or the id of a written node"
        raise NotFound(f"nothing is known as {name[:140]!r}", next_step=f"Name {hint}.")
    return node


def graph(
    context: Context,
    *,
    around: Sequence[str] = (),
    depth: int = 1,
    task: str = "",
    tags: Sequence[str] = (),
    types: Sequence[str] = (),
) -> Graph:
    """The knowledge graph, or the part of it around some nodes, a task or tags.

    Args:
        around: The ids of nodes.
        depth: The largest number of steps from the nodes that are asked for.
        task: A task.
        tags: Tags of nodes.
        types: Only nodes of these types.
    """
    problems = number_problems(depth, "depth", 0, MAX_STEPS)
    problems += text_type_problems(task=task)
    around = text_list(around, "around", problems)
    tags = text_list(tags, "tags", problems)
    types = _checked_types(types, problems)
    raise_problems("can't look around", problems)
    with context.store.reading() as reader:
        starts = [_known_spelling(reader, name) for name in around]
        starts += [f"task:{task}"] if task else []
        for name in starts:
            require_node(reader, name)
        tagged = nodes_by_tags(reader, tags, limit=NEWEST) if tags else []
        starts += [found.node.id for found in tagged]
        if not starts and not tags:
            return whole_graph(reader, types=types)
        found = subgraph(reader, nodes_around(reader, starts, depth=depth))
    return part_of(found, {n.id for n in found.nodes if n.type in types}) if types else found


def part_of(graph: Graph, names: Collection[str]) -> Graph:
    """The nodes of a graph with some ids, and the edges between them."""
    return graph_of(
        (node for node in graph.nodes if node.id in names),
        (edge for edge in graph.edges if edge.source in names and edge.target in names),
    )


def render_graph(
    context: Context,
    format: str = "json",
    *,
    around: Sequence[str] = (),
    depth: int = 1,
    task: str = "",
    tags: Sequence[str] = (),
    types: Sequence[str] = (),
) -> str:
    """The knowledge graph, or a part of it, as text.

    Args:
        format: json and dot hold all of it; mermaid and svg show its best connected nodes, or those
            that were asked for and the nearest to them.
        around: The ids of nodes.
        depth: The largest number of steps from the nodes that are asked for.
        task: A task.
        tags: Tags of nodes.
        types: Only nodes of these types.
    """
    from passdown.knowledge.graph_files import graph_starts, graph_text

    found = graph(context, around=around, depth=depth, task=task, tags=tags, types=types)
    starts = graph_starts(found, around=around, task=task, tags=tags)
    return graph_text(found, format, starts=starts)


def written_graph(reader: Reader) -> Graph:
    """The written nodes, and every edge that starts or ends at one."""
    nodes = {row.node.id: row.node for row in reader.known_nodes()}
    edges = [edge for edge in reader.all_edges() if edge.source in nodes or edge.target in nodes]
    return graph_of(
        nodes.values(),
        (e for e in edges if all(n in nodes or is_reference(n) for n in (e.source, e.target))),
    )


# Queries within a transaction


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
    elif kind in ("agent", "file"):
        is_known = reader.edges(source=name, limit=1) or reader.edges(target=name, limit=1)
        return Node(name, kind, summary_line(rest)) if is_known else None
    return None


def reachable(
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
    steps = partial(_steps, reader, direction, relations, 1 + limit)
    for node, step, before, edge in walked([start], steps, depth, limit):
        edges += step
        if edges > MAX_PATH_EDGES:
            break
        path = found[before].path if before in found else ()
        found[node] = ReachedNode(node, step, (*path, edge))
    return list(found.values())


def ended_early(found: Sequence[ReachedNode]) -> bool:
    """Whether a walk may have ended before everything was reached."""
    edges = sum(place.depth for place in found)
    following = found[-1].depth + 1 if found else 0
    return len(found) >= MAX_REACHED or edges + following > MAX_PATH_EDGES


def nodes_around(reader: Reader, starts: Sequence[str], *, depth: int) -> list[str]:
    """Some nodes and the first `MAX_REACHED` around them, either way, nearest first."""
    steps = partial(_steps, reader, "both", (), len(set(starts)) + MAX_REACHED)
    return [*starts, *(place[0] for place in walked(starts, steps, depth, MAX_REACHED))]


def _steps(
    reader: Reader, direction: str, relations: Collection[str], limit: int, node: str
) -> Iterator[tuple[Edge, str]]:
    """The edges at a node with where they lead, enough to come to more than `limit` nodes."""
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


def nodes_by_tags(
    reader: Reader, tags: Sequence[str], *, types: Collection[str] = (), limit: int = 10
) -> list[TaggedNode]:
    """Nodes under any of some tags, those that share most of them first."""
    wanted = sorted({tag_of(tag) for tag in tags} - {""})
    found: list[TaggedNode] = []
    for name, count in reader.tagged(wanted, NEWEST):
        node = node_at(reader, name)
        if node is not None and (not types or node.type in types):
            shared = tuple(tag for tag in node.tags if tag in wanted)
            found.append(TaggedNode(node, count / len(wanted), shared))
            if len(found) == limit:
                break
    return found

"""Write nodes and edges of the knowledge graph, and query it."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from passdown.core.arguments import number_problems, raise_problems, text_list, text_type_problems
from passdown.core.graph import NODE_TYPES, Edge, Graph, Node, check_graph, graph_of, is_reference
from passdown.core.kinds import stream_of
from passdown.core.knowledge import (
    forgotten_problems,
    graph_values,
    knowledge_body,
    node_document,
    normal_id,
    replaced_warning,
    reserved_problems,
    with_normal_ids,
)
from passdown.core.names import agent_problems, id_problems
from passdown.core.results import Receipt
from passdown.core.text import has_lone_surrogate
from passdown.errors import InvalidInput, NotFound, Problem, unknown_task
from passdown.knowledge import graph as graphs

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from passdown.store.statements import Reader
    from passdown.workspace.context import Context


if TYPE_CHECKING:
    Document = dict[str, Any]
    Key = tuple[str, str, str]

T = TypeVar("T")


def learn(
    opened: Context,
    nodes: Iterable[Node | Document] = (),
    edges: Iterable[Edge | Document] = (),
    *,
    agent: str,
    task: str = "",
    key: str = "",
    forget_nodes: Sequence[str] = (),
    forget_edges: Sequence[Key] = (),
) -> Receipt:
    """Write knowledge down: nodes and edges are added, or take the place of those with the same
    id; what is there already is not written again. Warnings name nodes that said something else.
    """
    # What only writes need is imported here and below: reading the graph should start fast.
    from passdown.ledger.admission import key_problems
    from passdown.workspace.entries import REFUSED

    nodes, edges, forget_nodes, forget_edges = knowledge_input(
        nodes, edges, forget_nodes, forget_edges
    )
    problems = [*reserved_problems(nodes, edges), *agent_problems(agent, "agent")]
    problems += id_problems(task, "task") if task else []
    problems += key_problems(key) if key else []
    problems += forgotten_problems(forget_nodes, forget_edges)
    forget_edges = [] if problems else [(e[0], e[1], e[2]) for e in forget_edges]
    with opened.store.reading() as reader:
        spelled = partial(_known_spelling, reader)
        nodes, edges = with_normal_ids(nodes, edges, spelled)
        forget_nodes = [] if problems else [spelled(name) for name in forget_nodes]
        forget_edges = [(spelled(a), relation, spelled(b)) for a, relation, b in forget_edges]
        ends = {name for edge in edges for name in (edge.source, edge.target)}
        known = [name for name in ends if reader.known_node(name) is not None]
        problems += check_graph(nodes, edges, known)
        problems += [] if problems else _unknown(reader, forget_nodes, forget_edges, ends)
        if problems:
            raise InvalidInput(REFUSED, problems, next_step="Mend these and try again.")
        graph = graph_of(nodes, edges)
        news, warnings = _changes(reader, graph)
    body = knowledge_body(news, forget_nodes, forget_edges)
    if not body and not nodes and not edges:
        nothing = Problem("nodes", "required", "nothing is given", "a node or an edge")
        raise InvalidInput(REFUSED, [nothing])
    return _written(opened, (task, agent, key), body, warnings)


def _known_spelling(reader: Reader, name: str) -> str:
    """The spelling under which an id is known: as it came, or composed, as all are written now."""
    usual = normal_id(name)
    if usual == name or has_lone_surrogate(name) or graphs.node_at(reader, name) is not None:
        return name
    return usual


class KnowledgeInput(NamedTuple):
    """What is to be written down and to be forgotten, as lists of values."""

    nodes: list[Node]
    edges: list[Edge]
    forget_nodes: list[str]
    forget_edges: list[Key]


def knowledge_input(
    nodes: Iterable[Node | Document],
    edges: Iterable[Edge | Document],
    forget_nodes: Sequence[str],
    forget_edges: Sequence[Key],
) -> KnowledgeInput:
    """What a caller gave; raises InvalidInput with everything that is of another type."""
    values = graph_values(_listed(nodes, "nodes"), _listed(edges, "edges"))
    forget_nodes = [forget_nodes] if isinstance(forget_nodes, str) else forget_nodes
    return KnowledgeInput(
        *values, _listed(forget_nodes, "forget_nodes"), _listed(forget_edges, "forget_edges")
    )


def _listed(values: Iterable[T], path: str) -> list[T]:
    """What was given, as a list; raises InvalidInput where there is nothing to go through."""
    try:
        return list(values)
    except TypeError as error:
        problem = Problem(path, "wrong_type", type(values).__name__, "a list")
        raise InvalidInput("refused; nothing was changed", [problem]) from error


def _written(
    opened: Context, whose: tuple[str, str, str], body: Document, warnings: list[Problem]
) -> Receipt:
    from passdown.ledger import Entry
    from passdown.ledger.gates import entry_guard
    from passdown.workspace.entries import workspace_task, write_entry

    task, agent, key = whose
    task = task or workspace_task(opened, agent, {})
    if not body:
        return _known_already(opened, task)
    entry = Entry(task, "learned", agent, body, key or os.urandom(16).hex())
    return write_entry(opened, entry, entry_guard(_lost_ends), warnings)


def _lost_ends(reader: Reader, body: Document) -> list[Problem]:
    """Ends of edges that somebody else has forgotten since they were looked at."""
    brought = {node["id"] for node in body.get("nodes", ())}
    ends = {edge[name] for edge in body.get("edges", ()) for name in ("source", "target")}
    return [
        Problem("edges", "unknown_node", f"there is no node {name!r} any more", "the id of a node")
        for name in sorted(ends - brought)
        if not is_reference(name) and reader.known_node(name) is None
    ]


def _known_already(opened: Context, task: str) -> Receipt:
    """The answer where everything stands as given: nothing was written."""
    with opened.store.reading() as reader:
        head = reader.head(stream_of(task))
    if head is None:
        raise unknown_task(task)
    return Receipt(task, head.position, head.digest, (), is_replay=True, warnings=())


def _unknown(
    reader: Reader, nodes: Sequence[str], edges: Sequence[Key], ends: set[str]
) -> list[Problem]:
    """What is wrong with forgetting: what nobody wrote down, or a node that an edge still names."""
    found = [
        Problem(f"forget_edges[{index}]", "unknown_edge", f"there is no {' '.join(key)!r}", "")
        for index, key in enumerate(edges)
        if not reader.edges(source=key[0], relation=key[1], target=key[2])
    ]
    for index, name in enumerate(nodes):
        where = f"forget_nodes[{index}]"
        if reader.known_node(name) is None:
            expected = "a node that was written down"
            found.append(Problem(where, "unknown_node", f"there is no {name!r}", expected))
        elif name in ends:
            found.append(Problem(where, "in_use", f"an edge leads to {name!r}", "either of both"))
    return found


def _changes(reader: Reader, graph: Graph) -> tuple[Graph, list[Problem]]:
    """What of a graph isn't known yet word for word, and what it replaces."""
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
    edges = [edge for edge in graph.edges if edge not in _same_edges(reader, edge)]
    return Graph(tuple(nodes), tuple(edges)), warnings


def _same_edges(reader: Reader, edge: Edge) -> list[Edge]:
    found = reader.edges(source=edge.source, relation=edge.relation, target=edge.target)
    return [*graph_of((), found).edges]


def edges(opened: Context, source: str, relation: str, target: str) -> list[Edge]:
    """Edges by any mix of source, relation and target."""
    raise_problems(
        "can't look around", text_type_problems(source=source, relation=relation, target=target)
    )
    with opened.store.reading() as reader:
        source, target = _known_spelling(reader, source), _known_spelling(reader, target)
        if source or target:
            return reader.edges(source=source, relation=relation, target=target)
        return list(reader.all_edges(relation))


def neighbours(
    opened: Context, node: str, *, depth: int, direction: str, relations: Sequence[str]
) -> list[graphs.ReachedNode]:
    """The nodes around one, up to `graphs.MAX_REACHED` with `graphs.MAX_PATH_EDGES` in their paths;
    it has to be known.
    """
    problems = text_type_problems(node=node)
    relations = text_list(relations, "relations", problems)
    if direction not in graphs.DIRECTIONS:
        expected = f"one of {', '.join(graphs.DIRECTIONS)}"
        problems.append(Problem("direction", "invalid_choice", repr(direction), expected))
    problems += number_problems(depth, "depth", 1, graphs.MAX_STEPS)
    raise_problems("can't look around", problems)
    with opened.store.reading() as reader:
        node = _known_spelling(reader, node)
        require_node(reader, node)
        return graphs.neighbours(
            reader, node, depth=depth, direction=direction, relations=relations
        )


def ended_early(found: Sequence[graphs.ReachedNode]) -> bool:
    """Whether there may be more around a node than was found."""
    return graphs.ended_early(found)


def tagged(
    opened: Context, tags: Sequence[str], *, types: Sequence[str], limit: int
) -> list[graphs.TaggedNode]:
    """Nodes under any of some tags."""
    problems = number_problems(limit, "limit", 1)
    tags = text_list(tags, "tags", problems)
    types = _checked_types(types, problems)
    raise_problems("can't look around", problems)
    with opened.store.reading() as reader:
        return graphs.by_tags(reader, tags, types=types, limit=limit)


def tasks_about(opened: Context, tag: str, types: Sequence[str]) -> Document:
    """The tasks that found something about a tag, each with the nodes it found."""
    problems = text_type_problems(tag=tag)
    types = _checked_types(types, problems)
    raise_problems("can't look around", problems)
    with opened.store.reading() as reader:
        found = graphs.tasks_about(reader, tag, types)
    return {task: [node_document(node) for node in nodes] for task, nodes in found.items()}


def _checked_types(types: Sequence[str], problems: list[Problem]) -> tuple[str, ...]:
    """Types of nodes as a list; what is none adds a problem."""
    expected = f"one of {', '.join(NODE_TYPES)}"
    listed = text_list(types, "types", problems)
    problems += [
        Problem("types", "invalid_choice", repr(name), expected)
        for name in listed
        if name not in NODE_TYPES
    ]
    return listed


def require_node(reader: Reader, name: str) -> Node:
    """A node that has to be there."""
    node = graphs.node_at(reader, name)
    if node is None:
        hint = "an item as T-1#d3, task:T-1, agent:NAME, file:PATH, or the id of a written node"
        raise NotFound(f"nothing is known as {name[:140]!r}", next_step=f"Name {hint}.")
    return node


def graph_of_workspace(
    opened: Context,
    *,
    around: Sequence[str] = (),
    depth: int = 1,
    task: str = "",
    tags: Sequence[str] = (),
    types: Sequence[str] = (),
) -> Graph:
    """The graph, or the part of it around some nodes, a task or tags: these, and of what can be
    reached from them in up to `depth` steps the nearest `graphs.MAX_REACHED`.
    """
    problems = number_problems(depth, "depth", 0, graphs.MAX_STEPS)
    problems += text_type_problems(task=task)
    around = text_list(around, "around", problems)
    tags = text_list(tags, "tags", problems)
    types = _checked_types(types, problems)
    raise_problems("can't look around", problems)
    with opened.store.reading() as reader:
        starts = [_known_spelling(reader, name) for name in around]
        starts += [f"task:{task}"] if task else []
        for name in starts:
            require_node(reader, name)
        tagged = graphs.by_tags(reader, tags, limit=2**62) if tags else []
        starts += [found.node.id for found in tagged]
        if not starts and not tags:
            return graphs.whole_graph(reader, types=types)
        found = graphs.subgraph(reader, graphs.nodes_around(reader, starts, depth=depth))
    if not types:
        return found
    kept = {node.id for node in found.nodes if node.type in types}
    return graph_of(
        (node for node in found.nodes if node.id in kept),
        (edge for edge in found.edges if edge.source in kept and edge.target in kept),
    )


def written_graph(reader: Reader) -> Graph:
    """What was written down: knowledge nodes, and every edge that starts or ends at one."""
    nodes = {row.node.id: row.node for row in reader.known_nodes()}
    edges = [edge for edge in reader.all_edges() if edge.source in nodes or edge.target in nodes]
    return graph_of(
        nodes.values(),
        (e for e in edges if all(n in nodes or is_reference(n) for n in (e.source, e.target))),
    )

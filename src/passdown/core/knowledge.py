"""Written knowledge: record bodies, reserved ids and named relations."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from passdown.core.graph import (
    RELATIONS,
    Edge,
    Node,
    check_graph,
    graph_of,
    is_reference,
    summary_line,
)
from passdown.core.index_entries import edge_of, node_of
from passdown.core.kinds import parse_address
from passdown.core.rows import NODE_PREFIX
from passdown.errors import Problem, raise_problems

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from passdown.core.graph import Graph
    from passdown.core.types import JsonObject


def node_document(node: Node) -> JsonObject:
    """A node as plain JSON; what is empty is left out."""
    document: JsonObject = {"id": node.id, "type": node.type, "summary": node.summary}
    if node.tags:
        document["tags"] = sorted(set(node.tags))
    if node.attributes:
        document["attributes"] = dict(sorted(node.attributes.items()))
    return document


def edge_document(edge: Edge) -> JsonObject:
    """An edge as plain JSON; what is empty is left out."""
    document: JsonObject = dict(zip(("source", "relation", "target"), edge.key, strict=True))
    if edge.attributes:
        document["attributes"] = dict(sorted(edge.attributes.items()))
    return document


def normal_id(name: str) -> str:
    """The one spelling of an id, as of a path: letters and their accents in one (NFC)."""
    return name if name.isascii() else unicodedata.normalize("NFC", name)


def with_normal_ids(
    nodes: Iterable[Node], edges: Iterable[Edge], spelled: Callable[[str], str] = normal_id
) -> tuple[list[Node], list[Edge]]:
    """Nodes and edges whose ids are spelled in one way: what looks the same is the same."""
    return (
        [node._replace(id=spelled(node.id)) for node in nodes],
        [edge._replace(source=spelled(edge.source), target=spelled(edge.target)) for edge in edges],
    )


def knowledge_body(
    graph: Graph, forgotten_nodes: Iterable[str], forgotten_edges: Iterable[tuple[str, str, str]]
) -> JsonObject:
    """The body of a record that adds or removes knowledge; empty parts are left out."""
    names = ("source", "relation", "target")
    body: JsonObject = {
        "nodes": [node_document(node) for node in graph.nodes],
        "edges": [edge_document(edge) for edge in graph.edges],
        "forgotten_nodes": sorted(set(forgotten_nodes)),
        "forgotten_edges": [
            dict(zip(names, key, strict=True)) for key in sorted(set(forgotten_edges))
        ],
    }
    return {name: part for name, part in body.items() if part}


def replaced_warning(old: Node, new: Node, where: str) -> Problem:
    """The warning that a node says something else from now on; the old words stay in history."""
    changed = [
        name
        for name in ("type", "summary", "tags", "attributes")
        if getattr(old, name) != getattr(new, name)
    ]
    message = f"{new.id!r} was known with other {', '.join(changed)} ({where}: {old.summary!r})"
    expected = "one meaning for each id; the newer one counts"
    return Problem(f"nodes.{new.id}", "replaced", message, expected, level="warning")


def reserved_problems(nodes: Iterable[Node], edges: Iterable[Edge]) -> list[Problem]:
    """What nobody writes down, since other records say it: nodes for items, tasks, agents and
    files, which decision supersedes which, and what a task depends on.
    """
    expected = "another id: items, tasks, agents and files are known by their own"
    found = [
        Problem(f"nodes[{index}].id", "reserved_id", f"{node.id!r} {_RESERVED_ID}", expected, _FIX)
        for index, node in enumerate(nodes)
        if is_reserved(node.id)
    ]
    for index, edge in enumerate(edges):
        if is_derived_edge(edge.key):
            message = f"{' '.join(edge.key)!r} is not for the graph to say"
            found.append(Problem(f"edges[{index}]", "reserved_edge", message, _DERIVED_FROM, _FIX))
    return found


def is_reserved(node: str) -> bool:
    """Whether an id is not for a written node: it refers to something else, or looks like the
    address under which search knows a written node.
    """
    return is_reference(node) or node.startswith(NODE_PREFIX)


def is_derived_edge(edge: tuple[str, str, str]) -> bool:
    """Whether an edge, as (source, relation, target), is one that only other records give."""
    source, relation, target = edge
    if relation == "supersedes":
        return parse_address(target) is not None
    return relation == "depends_on" and source.startswith("task:") and is_reference(source)


_RESERVED_ID = "is reserved"
_FIX = "leave it out: what records say is taken from them alone"
_DERIVED_FROM = "a decision that names what it supersedes, or a change of the task"


def knowledge_problems(body: JsonObject) -> list[Problem]:
    """What is wrong with the body of an imported record of knowledge.

    Nodes that other records define aren't known here.
    """
    nodes = [node_of(node) for node in body.get("nodes", ())]
    edges = [edge_of(edge) for edge in body.get("edges", ())]
    problems = [p for p in check_graph(nodes, edges) if p.code != "unknown_node"]
    problems += reserved_problems(nodes, edges)
    forgotten = [edge_of(edge).key for edge in body.get("forgotten_edges", ())]
    problems += forgotten_problems(body.get("forgotten_nodes", ()), forgotten)
    if not problems:
        names = body.get("forgotten_nodes", ())
        if not body or knowledge_body(graph_of(nodes, edges), names, forgotten) != body:
            message = "is not how knowledge is written"
            problems.append(Problem("body", "not_as_written", message, "its form"))
    return problems


def forgotten_problems(nodes: Sequence[object], edges: Sequence[object]) -> list[Problem]:
    """What is wrong with the names of nodes and edges to forget, whether they are there or not."""
    problems: list[Problem] = []
    for index, node in enumerate(nodes):
        if not isinstance(node, str) or not node:
            where = f"forget_nodes[{index}]"
            problems.append(Problem(where, "wrong_type", repr(node)[:80], "the id of a node"))
    for index, edge in enumerate(edges):
        where = f"forget_edges[{index}]"
        if not _is_key(edge):
            expected = "(source, relation, target)"
            problems.append(Problem(where, "wrong_type", repr(edge)[:80], expected))
        elif is_derived_edge(cast("tuple[str, str, str]", edge)):
            message = "is not for the graph to say"
            problems.append(Problem(where, "reserved_edge", message, _DERIVED_FROM))
    return problems


def _is_key(edge: object) -> bool:
    if not isinstance(edge, tuple | list):
        return False
    parts = cast("Sequence[object]", edge)
    return len(parts) == 3 and all(isinstance(part, str) for part in parts)


def graph_values(
    nodes: Sequence[Node | JsonObject], edges: Sequence[Edge | JsonObject]
) -> tuple[list[Node], list[Edge]]:
    """Nodes and edges that came as values or as plain data, as values.

    Plain data may name attributes beside the fields; without a summary, it is made from the
    attribute `description`. Raises InvalidInput with everything that isn't text where text belongs.
    """
    problems: list[Problem] = []
    read: list[Node] = []
    joined: list[Edge] = []
    for index, node in enumerate(nodes):
        texts, attributes, tags = _read(node, Node, f"nodes[{index}]", problems)
        summary = texts.get("summary") or summary_line(attributes.get("description", ""))
        new = Node(texts.get("id", ""), texts.get("type", ""), summary, tags, attributes)
        read.append(node if isinstance(node, Node) else new)
    for index, edge in enumerate(edges):
        texts, attributes, _ = _read(edge, Edge, f"edges[{index}]", problems)
        source, relation, target = (texts.get(n, "") for n in ("source", "relation", "target"))
        made = Edge(source, relation, target, attributes)
        joined.append(edge if isinstance(edge, Edge) else made)
    raise_problems("refused; nothing was changed", problems)
    return read, joined


def _read(
    given: object, kind: type[Node | Edge], where: str, problems: list[Problem]
) -> tuple[dict[str, str], dict[str, str], tuple[str, ...]]:
    """The texts, attributes and tags of a node or an edge; a value is checked as data is, since
    Python doesn't hold it to its types.
    """
    is_value = isinstance(given, kind)
    data = given._asdict() if is_value else given
    if not isinstance(data, dict):
        problems.append(Problem(where, "wrong_type", type(given).__name__, "an object"))
        return {}, {}, ()
    fields: JsonObject = dict(cast("JsonObject", data))
    inner: object = fields.pop("attributes", {})
    tags: object = fields.pop("tags", ()) if "tags" in kind._fields else ()
    if not isinstance(inner, Mapping):
        problems.append(Problem(f"{where}.attributes", "wrong_type", "", "an object of texts"))
        inner = {}
    listed = cast("Iterable[object]", tags)
    if not isinstance(tags, list | tuple | set | frozenset) or not all(
        isinstance(tag, str) for tag in listed
    ):
        problems.append(Problem(f"{where}.tags", "wrong_type", "", "a list of texts"))
        listed = ()
    beside = {name: value for name, value in fields.items() if name not in kind._fields}
    attributes = {**cast("Mapping[str, object]", inner), **beside}
    place = f"{where}.attributes" if is_value else where
    texts = {name: value for name, value in fields.items() if name in kind._fields}
    for path, part in ((where, texts), (place, attributes)):
        for name, value in list(part.items()):
            if not isinstance(value, str) or not isinstance(cast("object", name), str):
                del part[name]
                if value is not None or is_value:
                    kind_given = type(value).__name__
                    problems.append(Problem(f"{path}.{name}", "wrong_type", kind_given, "text"))
    kept = {name: value for name, value in attributes.items() if value}
    return texts, cast("dict[str, str]", kept), tuple(cast("Iterable[str]", listed))


MAX_RELATION = 200

_OTHER = "relates_to"
_NAMES = "names"


class Relation(NamedTuple):
    """One thing bears on another, in somebody's own word."""

    source: str
    relation: str
    target: str


class RelatedNode(NamedTuple):
    """A node that can be reached, in how many steps, and by which relations from the start."""

    node: str
    depth: int
    path: tuple[Relation, ...]


def relation_problems(relation: str) -> list[Problem]:
    """What is wrong with the name of a relation."""
    if relation and relation == relation.strip() and relation.isprintable():
        if len(relation) <= MAX_RELATION:
            return []
        message = f"{len(relation):,} characters"
        return [Problem("relation", "too_long", message, f"at most {MAX_RELATION}")]
    expected = "printable characters, without space at either end"
    return [Problem("relation", "invalid_name", repr(relation[:60]), expected)]


def edge_key(relation: Relation) -> tuple[str, str, str]:
    """The key of the edge that keeps a relation: source, relation, target."""
    stored = relation.relation if relation.relation in RELATIONS else _OTHER
    return (relation.source, stored, relation.target)


def with_relation(known: Edge | None, relation: Relation) -> Edge:
    """The edge that keeps a relation along with those that it kept; the same one if it did."""
    key = edge_key(relation)
    names = _relation_names(known) if known is not None else []
    if known is not None and relation.relation in names:
        return known
    names.append(relation.relation)
    attributes = dict(known.attributes) if known is not None else {}
    if names != [key[1]]:
        attributes[_NAMES] = json.dumps(names, ensure_ascii=False)
    return Edge(*key, attributes)


def relations_of(edge: Edge) -> list[Relation]:
    """The relations that an edge keeps, in the order of their telling."""
    return [Relation(edge.source, name, edge.target) for name in _relation_names(edge)]


def _relation_names(edge: Edge) -> list[str]:
    text = edge.attributes.get(_NAMES, "") if edge.relation == _OTHER else ""
    try:
        names: Any = json.loads(text) if text else []
    except ValueError:  # somebody else's attribute of that name
        names = []
    if not isinstance(names, list):
        return [edge.relation]
    return [name for name in cast("list[object]", names) if isinstance(name, str)] or [
        edge.relation
    ]


def matching_relations(
    edges: Iterable[Edge], source: str, relation: str, target: str
) -> list[Relation]:
    """The edges' relations that match; an empty part matches all."""
    return [
        found
        for edge in edges
        for found in relations_of(edge)
        if source in ("", found.source)
        and relation in ("", found.relation)
        and target in ("", found.target)
    ]


def missing_nodes(names: Iterable[str], listed: Iterable[str]) -> list[Node]:
    """Nodes for the ends of relations that are neither listed nor references."""
    there = set(listed)
    return [
        Node(name, "insight", summary_line(name) or name)
        for name in dict.fromkeys(names)
        if name not in there and not is_reference(name)
    ]

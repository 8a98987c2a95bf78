"""The knowledge graph as values: nodes, edges, their rules, record bodies and relations."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, cast

from passdown.core.kinds import parse_address
from passdown.core.names import place_problems
from passdown.core.rows import NODE_PREFIX
from passdown.core.text import has_lone_surrogate
from passdown.core.types import NEWEST, JsonObject
from passdown.core.values import NamedTuple
from passdown.errors import Problem, raise_problems

NODE_TYPES = (
    *("task", "agent", "decision", "pattern", "gotcha", "insight", "file", "component"),
    *("interface", "abstraction", "datastore", "external", "rule"),
)
RELATIONS = (
    *("calls", "uses", "implements", "configured_with", "must_follow", "must_not_use"),
    *("supersedes", "superseded_by", "coexists_with", "relates_to", "decided_by"),
    *("discovered_in", "changed_in", "depends_on"),
)

CHOICES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "level": ("architecture", "implementation"),
        "priority": ("critical", "high", "medium", "low"),
        "severity": ("high", "medium", "low"),
    }
)
"""Attributes that take one of a few values, for every type of node."""

KNOWLEDGE_STATUSES = ("current", "deprecated", "future", "legacy")

MAX_SUMMARY = 100
MAX_ID = 400
MAX_VALUE = 20_000
MAX_TAGS = 50

NO_ATTRIBUTES: Mapping[str, str] = MappingProxyType({})

_ATTRIBUTE_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}", re.ASCII)
_TAG = re.compile(r"[^\s\x00-\x1f\x7f,]{1,100}")
_RESERVED = ("type", "relation", "id", "source", "target", "summary", "tag", "tags")


class Node(NamedTuple):
    """One thing that is known. `summary` is one line of at most 100 characters; longer text is in
    the attribute `description`. Attributes are text; `level`, `priority` and `severity` take the
    values in `CHOICES`.
    """

    id: str
    type: str
    summary: str
    tags: tuple[str, ...] = ()
    attributes: Mapping[str, str] = NO_ATTRIBUTES


class Edge(NamedTuple):
    """How one node bears on another."""

    source: str
    relation: str
    target: str
    attributes: Mapping[str, str] = NO_ATTRIBUTES

    @property
    def key(self) -> tuple[str, str, str]:
        """What makes two edges the same."""
        return (self.source, self.relation, self.target)


class Graph(NamedTuple):
    """Nodes by id and edges by key, each sorted; make one with `graph_of`."""

    nodes: tuple[Node, ...] = ()
    edges: tuple[Edge, ...] = ()

    def tag_index(self) -> dict[str, list[str]]:
        """The ids of the nodes under each tag, both sorted."""
        found: dict[str, list[str]] = {}
        for node in self.nodes:
            for tag in node.tags:
                found.setdefault(tag, []).append(node.id)
        return {tag: found[tag] for tag in sorted(found)}


def graph_of(nodes: Iterable[Node], edges: Iterable[Edge]) -> Graph:
    """A graph in the one order that equal graphs share: tags, attributes, nodes, edges sorted.

    Of nodes with one id, or edges with one key, the last counts; `check_graph` reports them.
    """
    by_id = {node.id: _sorted_node(node) for node in nodes}
    by_key = {
        edge.key: edge._replace(attributes=_sorted_attributes(edge.attributes)) for edge in edges
    }
    return Graph(
        tuple(by_id[name] for name in sorted(by_id)), tuple(by_key[key] for key in sorted(by_key))
    )


def _sorted_node(node: Node) -> Node:
    tags = tuple(sorted(set(node.tags)))
    return node._replace(tags=tags, attributes=_sorted_attributes(node.attributes))


def _sorted_attributes(attributes: Mapping[str, str]) -> Mapping[str, str]:
    return MappingProxyType({name: attributes[name] for name in sorted(attributes)})


def relation_label(edge: Edge) -> str:
    """An edge's relation, with the name that it came with: `relates_to (owns)`."""
    name = edge.attributes.get("name", "")
    return f"{edge.relation} ({name})" if name else edge.relation


def summary_line(text: str) -> str:
    """A text as a node's summary: its first 100 characters on one line, a cut marked by `…`."""
    flat = " ".join(text.split())
    return flat if len(flat) <= MAX_SUMMARY else flat[: MAX_SUMMARY - 1].rstrip() + "…"


def check_graph(
    nodes: Iterable[Node], edges: Iterable[Edge], known: Iterable[str] = ()
) -> list[Problem]:
    """Everything that is wrong with some nodes and edges, all at once.

    `known` are ids of nodes outside of these to which an edge may lead. Ids that stand for items,
    tasks, agents and files may be pointed at without being listed.
    """
    listed = list(nodes)
    ids = {node.id for node in listed} | set(known)
    problems: list[Problem] = []
    seen: dict[str, Node] = {}
    for index, node in enumerate(listed):
        where = f"nodes[{index}]"
        problems += _node_problems(where, node)
        first = seen.setdefault(node.id, node)
        if _sorted_node(first) != _sorted_node(node):
            message = f"{node.id!r} is listed twice with different contents"
            problems.append(Problem(f"{where}.id", "duplicate_node", message, "one entry per node"))
    drawn: dict[tuple[str, str, str], Edge] = {}
    for index, edge in enumerate(edges):
        where = f"edges[{index}]"
        problems += _edge_problems(where, edge, ids)
        if drawn.setdefault(edge.key, edge).attributes != edge.attributes:
            message = f"{' '.join(edge.key)!r} is listed twice with different contents"
            problems.append(Problem(where, "duplicate_edge", message, "one entry per edge"))
    return problems


def _node_problems(where: str, node: Node) -> list[Problem]:
    problems = _id_problems(f"{where}.id", node.id)
    if node.type not in NODE_TYPES:
        problems.append(_not_one_of(f"{where}.type", node.type, NODE_TYPES))
    if not node.summary.strip():
        problems.append(Problem(f"{where}.summary", "missing", "is empty", "one sentence"))
    elif len(node.summary) > MAX_SUMMARY or "\n" in node.summary or "\r" in node.summary:
        expected = f"one line of at most {MAX_SUMMARY} characters; put the rest into description"
        problems.append(Problem(f"{where}.summary", "too_long", "is too long", expected))
    problems += _unwritable(f"{where}.summary", node.summary)
    if len(node.tags) > MAX_TAGS:
        expected = f"at most {MAX_TAGS} tags"
        problems.append(Problem(f"{where}.tags", "too_many", f"{len(node.tags)} tags", expected))
    for index, tag in enumerate(node.tags):
        if _TAG.fullmatch(tag) is None or tag != tag.lower() or has_lone_surrogate(tag):
            expected = "lowercase, without spaces or commas, at most 100 characters"
            problems.append(Problem(f"{where}.tags[{index}]", "invalid_tag", repr(tag), expected))
    if node.type == "rule" and not node.attributes.get("priority"):
        expected = f"one of {', '.join(CHOICES['priority'])}"
        problems.append(
            Problem(f"{where}.priority", "missing", "a rule needs a priority", expected)
        )
    return problems + _attribute_problems(where, node.attributes)


def _edge_problems(where: str, edge: Edge, ids: set[str]) -> list[Problem]:
    problems: list[Problem] = []
    if edge.relation not in RELATIONS:
        problems.append(_not_one_of(f"{where}.relation", edge.relation, RELATIONS))
    for name, value in (("source", edge.source), ("target", edge.target)):
        found = _id_problems(f"{where}.{name}", value)
        if not found and value not in ids and not is_reference(value):
            message = f"there is no node {value!r}"
            found = [Problem(f"{where}.{name}", "unknown_node", message, "the id of a node")]
        problems += found
    return problems + _attribute_problems(where, edge.attributes)


def _id_problems(where: str, text: str) -> list[Problem]:
    expected = f"1 to {MAX_ID} printable characters, without space at either end"
    if 0 < len(text) <= MAX_ID and text == text.strip() and text.isprintable():
        return []
    return [Problem(where, "invalid_id", "can't be the id of a node", expected)]


def _attribute_problems(where: str, attributes: Mapping[str, str]) -> list[Problem]:
    problems: list[Problem] = []
    for name, value in attributes.items():
        path = f"{where}.{name}"
        if _ATTRIBUTE_NAME.fullmatch(name) is None or name in _RESERVED:
            expected = f"a lowercase word that isn't one of {', '.join(_RESERVED)}"
            problems.append(
                Problem(path, "invalid_name", f"{name!r} can't name an attribute", expected)
            )
        elif name in CHOICES and value not in CHOICES[name]:
            problems.append(_not_one_of(path, value, CHOICES[name]))
        if len(value) > MAX_VALUE:
            expected = f"at most {MAX_VALUE:,} characters"
            problems.append(Problem(path, "too_long", f"{len(value):,} characters", expected))
        problems += place_problems(value, path) if name == "path" else ()
        problems += _unwritable(path, value)
    return problems


def _unwritable(path: str, text: str) -> list[Problem]:
    """What no file and no store can keep."""
    if "\x00" not in text and not has_lone_surrogate(text):
        return []
    message = "holds NUL or half of a surrogate pair"
    return [Problem(path, "not_text", message, "characters that files can keep")]


def _not_one_of(path: str, value: str, allowed: tuple[str, ...]) -> Problem:
    return Problem(path, "not_allowed", repr(value[:80]), f"one of {', '.join(allowed)}")


_REFERENCE = re.compile(
    r"(?:task:[A-Za-z0-9][A-Za-z0-9._-]{0,127}|agent:\S{1,128}|file:\S.*"
    r"|[A-Za-z0-9][A-Za-z0-9._-]{0,127}#[a-z][1-9][0-9]{0,9})"
)


def is_reference(node: str) -> bool:
    """Whether an id refers to an item, a task, an agent or a file, which other records define."""
    return _REFERENCE.fullmatch(node) is not None


def part_document(part: Node | Edge) -> JsonObject:
    """A node or an edge as plain JSON, tags and attributes sorted; what is empty is left out."""
    document = {**part._asdict(), "attributes": dict(sorted(part.attributes.items()))}
    if isinstance(part, Node):
        document["tags"] = sorted(set(part.tags))
    return {name: value for name, value in document.items() if value not in ([], {})}


def node_of(data: Mapping[str, Any]) -> Node:
    """The node that a record's body holds."""
    inner: JsonObject = {
        "tags": tuple(data.get("tags", ())),
        "attributes": dict(data.get("attributes", {})),
    }
    return Node(data["id"], data["type"], data["summary"], **inner)


def edge_of(data: Mapping[str, Any]) -> Edge:
    """The edge that a record's body holds."""
    attributes = dict(data.get("attributes", {}))
    return Edge(data["source"], data["relation"], data["target"], attributes)


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
    body: JsonObject = {
        "nodes": [part_document(node) for node in graph.nodes],
        "edges": [part_document(edge) for edge in graph.edges],
        "forgotten_nodes": sorted(set(forgotten_nodes)),
        "forgotten_edges": [part_document(Edge(*key)) for key in sorted(set(forgotten_edges))],
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
    """What nobody writes down, since other records say it: nodes and edges that they define."""
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
    """Whether an id is not for a written node: a reference, or search's address of a node."""
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
    """What is wrong with an imported record of knowledge; nodes of others aren't known here."""
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
    """The texts, attributes and tags of a node or an edge; values are checked as data is."""

    def refuse(path: str, message: str, expected: str) -> None:
        problems.append(Problem(path, "wrong_type", message, expected))

    is_value = isinstance(given, kind)
    data = given._asdict() if is_value else given
    if not isinstance(data, dict):
        refuse(where, type(given).__name__, "an object")
        return {}, {}, ()
    fields: JsonObject = dict(cast("JsonObject", data))
    inner: object = fields.pop("attributes", {})
    tags: object = fields.pop("tags", ()) if "tags" in kind._fields else ()
    if not isinstance(inner, Mapping):
        refuse(f"{where}.attributes", "", "an object of texts")
        inner = {}
    listed = cast("Iterable[object]", tags)
    is_list = isinstance(tags, list | tuple | set | frozenset)
    if not is_list or not all(isinstance(tag, str) for tag in listed):
        refuse(f"{where}.tags", "", "a list of texts")
        listed = ()
    texts = {name: value for name, value in fields.items() if name in kind._fields}
    attributes = {**cast("Mapping[str, object]", inner)}
    attributes |= {name: value for name, value in fields.items() if name not in kind._fields}
    place = f"{where}.attributes" if is_value else where
    for path, part in ((where, texts), (place, attributes)):
        for name, value in list(part.items()):
            if not isinstance(value, str) or not isinstance(cast("object", name), str):
                del part[name]
                if value is not None or is_value:
                    refuse(f"{path}.{name}", type(value).__name__, "text")
    kept = {name: value for name, value in attributes.items() if value}
    return texts, cast("dict[str, str]", kept), tuple(cast("Iterable[str]", listed))


def walked(
    starts: Iterable[str],
    steps: Callable[[str], Iterable[tuple[Edge, str]]],
    depth: int,
    limit: int = NEWEST,
) -> Iterator[tuple[str, int, str, Edge]]:
    """Each node that a walk from several at once comes to, nearest first and without these: the
    node, its depth, and from which node and by which edge it was come to.
    """
    wave = list(dict.fromkeys(starts))
    seen = set(wave)
    last = len(seen) + limit
    for step in range(1, depth + 1):
        if not wave:
            return
        before, wave = wave, list[str]()
        for name in before:
            for edge, node in steps(name):
                if node not in seen:
                    if len(seen) >= last:
                        return
                    seen.add(node)
                    wave.append(node)
                    yield node, step, name, edge


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


def matching_relations(edges: Iterable[Edge], *wanted: str) -> list[Relation]:
    """The edges' relations with this source, relation and target; an empty part matches all."""
    found = (relation for edge in edges for relation in relations_of(edge))
    return [one for one in found if all(a in ("", b) for a, b in zip(wanted, one, strict=True))]


def missing_nodes(names: Iterable[str], listed: Iterable[str]) -> list[Node]:
    """Nodes for the ends of relations that are neither listed nor references."""
    there = set(listed)
    return [
        Node(name, "insight", summary_line(name) or name)
        for name in dict.fromkeys(names)
        if name not in there and not is_reference(name)
    ]

"""The knowledge graph as values: typed nodes, typed edges and their rules."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from passdown.core.names import place_problems
from passdown.core.text import has_lone_surrogate
from passdown.core.values import NamedTuple
from passdown.errors import Problem

if TYPE_CHECKING:
    from collections.abc import Iterable


NODE_TYPES = (
    "task",
    "agent",
    "decision",
    "pattern",
    "gotcha",
    "insight",
    "file",
    "component",
    "interface",
    "abstraction",
    "datastore",
    "external",
    "rule",
)

RELATIONS = (
    "calls",
    "uses",
    "implements",
    "configured_with",
    "must_follow",
    "must_not_use",
    "supersedes",
    "superseded_by",
    "coexists_with",
    "relates_to",
    "decided_by",
    "discovered_in",
    "changed_in",
    "depends_on",
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
    by_key = {edge.key: _sorted_edge(edge) for edge in edges}
    return Graph(
        tuple(by_id[name] for name in sorted(by_id)), tuple(by_key[key] for key in sorted(by_key))
    )


def _sorted_node(node: Node) -> Node:
    tags = tuple(sorted(set(node.tags)))
    return node._replace(tags=tags, attributes=_sorted_attributes(node.attributes))


def _sorted_edge(edge: Edge) -> Edge:
    return edge._replace(attributes=_sorted_attributes(edge.attributes))


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

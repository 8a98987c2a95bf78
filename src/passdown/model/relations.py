"""Relations under any name, kept in edges that know a few.

A name that the graph has is the edge's relation. Any other is kept in the attribute `names` of a
`relates_to`, which holds as many as are told between the same two nodes; so none takes the place of
another. Pure.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from passdown.errors import Problem
from passdown.model.graph import RELATIONS, Edge, Node, stands_for, summary_line

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_RELATION = 200

_OTHER = "relates_to"
_NAMES = "names"


class Relation(NamedTuple):
    """One thing bears on another, in somebody's own word."""

    source: str
    relation: str
    target: str


class Related(NamedTuple):
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
    names = _names(known) if known is not None else []
    if known is not None and relation.relation in names:
        return known
    names.append(relation.relation)
    attributes = dict(known.attributes) if known is not None else {}
    if names != [key[1]]:
        attributes[_NAMES] = json.dumps(names, ensure_ascii=False)
    return Edge(*key, attributes)


def relations_of(edge: Edge) -> list[Relation]:
    """The relations that an edge keeps, in the order of their telling."""
    return [Relation(edge.source, name, edge.target) for name in _names(edge)]


def _names(edge: Edge) -> list[str]:
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


def selected(edges: Iterable[Edge], source: str, relation: str, target: str) -> list[Relation]:
    """Those of the edges' relations that fit what is asked for; an empty part fits all."""
    return [
        found
        for edge in edges
        for found in relations_of(edge)
        if source in ("", found.source)
        and relation in ("", found.relation)
        and target in ("", found.target)
    ]


def unlisted(names: Iterable[str], listed: Iterable[str]) -> list[Node]:
    """Nodes for the ends of relations that nobody has written down and that stand for nothing."""
    there = set(listed)
    return [
        Node(name, "insight", summary_line(name) or name)
        for name in dict.fromkeys(names)
        if name not in there and not stands_for(name)
    ]

"""Knowledge that somebody writes down: nodes and edges as a record's body, and what it replaces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from passdown.errors import Problem

if TYPE_CHECKING:
    from collections.abc import Iterable

    from passdown.model.graph import Edge, Graph, Node

Document = dict[str, Any]


def node_document(node: Node) -> Document:
    """A node as plain JSON; what is empty is left out."""
    document: Document = {"id": node.id, "type": node.type, "summary": node.summary}
    if node.tags:
        document["tags"] = sorted(set(node.tags))
    if node.attributes:
        document["attributes"] = dict(sorted(node.attributes.items()))
    return document


def edge_document(edge: Edge) -> Document:
    """An edge as plain JSON; what is empty is left out."""
    document: Document = dict(zip(("source", "relation", "target"), edge.key, strict=True))
    if edge.attributes:
        document["attributes"] = dict(sorted(edge.attributes.items()))
    return document


def learned_body(
    graph: Graph, forgotten_nodes: Iterable[str], forgotten_edges: Iterable[tuple[str, str, str]]
) -> Document:
    """The body of a record that brings or takes away knowledge; empty parts are left out."""
    names = ("source", "relation", "target")
    body: Document = {
        "nodes": [node_document(node) for node in graph.nodes],
        "edges": [edge_document(edge) for edge in graph.edges],
        "forgotten_nodes": sorted(set(forgotten_nodes)),
        "forgotten_edges": [
            dict(zip(names, key, strict=True)) for key in sorted(set(forgotten_edges))
        ],
    }
    return {name: part for name, part in body.items() if part}


def replaced(old: Node, new: Node, where: str) -> Problem:
    """The warning that a node says something else from now on; the old words stay in history."""
    changed = [
        name
        for name in ("type", "summary", "tags", "attributes")
        if getattr(old, name) != getattr(new, name)
    ]
    message = f"{new.id!r} was known with other {', '.join(changed)} ({where}: {old.summary!r})"
    expected = "one meaning for each id; the newer one stands"
    return Problem(f"nodes.{new.id}", "replaced", message, expected, level="warning")

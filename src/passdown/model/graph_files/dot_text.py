r"""The graph as DOT: what Graphviz draws and `dot_reading` reads back.

Ids and values are quoted, with `\"`, `\\`, `\n` and `\r` as the only escapes, so that every node
and every edge is one line whatever its text.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from passdown.model.graph import Edge, Graph, Node

KEYWORDS = frozenset({"node", "edge", "graph", "digraph", "subgraph", "strict"})

_ESCAPED = re.compile(r'["\\\n\r]')
_ESCAPES = {'"': r"\"", "\\": r"\\", "\n": r"\n", "\r": r"\r"}


def write_dot(graph: Graph) -> str:
    """The text of a sorted graph, one node or edge per line."""
    lines = (*map(_node_line, graph.nodes), *map(_edge_line, graph.edges))
    return "".join(f"{line}\n" for line in ("digraph knowledge {", *lines, "}"))


def _node_line(node: Node) -> str:
    tags = [("tags", ",".join(node.tags))] if node.tags else []
    first = [("type", node.type), ("summary", node.summary), *tags]
    return f"  {quoted(node.id)} {_attributes((*first, *node.attributes.items()))};"


def _edge_line(edge: Edge) -> str:
    given = (("relation", edge.relation), *edge.attributes.items())
    return f"  {quoted(edge.source)} -> {quoted(edge.target)} {_attributes(given)};"


def _attributes(given: Iterable[tuple[str, str]]) -> str:
    return f"[{', '.join(f'{_name(name)}={quoted(value)}' for name, value in given)}]"


def _name(name: str) -> str:
    return quoted(name) if name in KEYWORDS else name


def quoted(text: str) -> str:
    """A text as a quoted id."""
    return f'"{_ESCAPED.sub(lambda found: _ESCAPES[found[0]], text)}"'

"""The graph as JSON: our own shape, and two neighbouring ones on reading.

Ours has `nodes` (id, type, summary, tags, attributes) and `edges` (source, relation, target,
attributes). Also read: nodes whose attributes stand beside their id, with `connections` (ids that
become `relates_to` edges) and `file` (the attribute `path`); and an edge list, which is a list or
an object that has `edges` and no `nodes`. What is derived (`tag_index`, `last_updated`) is passed
over; any other unknown name at the top is refused. Null is the same as nothing.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

from passdown.model.graph_files.drafts import MAX_BYTES, Draft, Drafts, Field
from passdown.model.plain import load_json
from passdown.model.text import child_path, excerpt

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from passdown.model.graph import Edge, Graph, Node

VERSION = 1

_MAX_DEPTH = 8
_TOP = ("passdown_graph", "nodes", "edges")
_PASSED_OVER = ("version", "last_updated", "tag_index")


def write_json(graph: Graph) -> str:
    """The text of a sorted graph, one node or edge per line."""
    nodes = ",\n".join(map(_node_line, graph.nodes))
    edges = ",\n".join(map(_edge_line, graph.edges))
    head = f'{{"passdown_graph": {VERSION},\n'
    return f'{head}"nodes": [{_block(nodes)}],\n"edges": [{_block(edges)}]}}\n'


def _block(lines: str) -> str:
    return f"\n{lines}\n" if lines else ""


def _node_line(node: Node) -> str:
    entry: dict[str, Any] = {"id": node.id, "type": node.type, "summary": node.summary}
    if node.tags:
        entry["tags"] = node.tags
    return _line(entry, node.attributes)


def _edge_line(edge: Edge) -> str:
    entry = {"source": edge.source, "relation": edge.relation, "target": edge.target}
    return _line(entry, edge.attributes)


def _line(entry: dict[str, Any], attributes: Mapping[str, str]) -> str:
    if attributes:
        entry["attributes"] = dict(attributes)
    return json.dumps(entry, ensure_ascii=False)


def read_json(text: str, known: Iterable[str]) -> Graph:
    """The graph in a JSON text; raises InvalidInput with all problems."""
    drafts = Drafts(by_line=False)
    top = load_json(text, max_bytes=MAX_BYTES, max_depth=_MAX_DEPTH)
    if isinstance(top, list):
        _read_edges(drafts, cast("list[object]", top), "")
        return drafts.graph(known, is_edge_list=True)
    if not isinstance(top, dict):
        drafts.refuse("", "wrong_type", "holds no graph", "an object or a list of edges")
        drafts.give_up()
    parts = cast("dict[str, object]", top)
    _check_top(drafts, parts)
    _read_nodes(drafts, parts.get("nodes") or [])
    _read_edges(drafts, parts.get("edges") or [], "edges")
    return drafts.graph(known, is_edge_list="nodes" not in parts)


def _check_top(drafts: Drafts, parts: dict[str, object]) -> None:
    version = parts.get("passdown_graph", VERSION)
    if version != VERSION:
        expected = f"{VERSION}; a later release may read it"
        drafts.refuse("passdown_graph", "newer_form", "is of another version", expected)
    for name in parts.keys() - {*_TOP, *_PASSED_OVER}:
        expected = f"one of {', '.join((*_TOP, *_PASSED_OVER))}"
        drafts.refuse(child_path("", name), "unknown_field", "is no part of a graph", expected)
    if not {"nodes", "edges"} & parts.keys():
        drafts.refuse("", "missing", "has neither nodes nor edges", "a list under either name")


def _read_nodes(drafts: Drafts, value: object) -> None:
    for place, entry in _entries(drafts, value, "nodes"):
        connections = entry.pop("connections", None)
        written = [entry.pop(name, None) for name in ("tags", "tag")]
        tags = [
            tag
            for name, each in zip(("tags", "tag"), written, strict=True)
            for tag in _texts(drafts, each, f"{place}.{name}")
        ]
        if "path" not in entry and "file" in entry:
            entry["path"] = entry.pop("file")
            fields = _fields(drafts, entry, place, {"path": "file"})
        else:
            fields = _fields(drafts, entry, place)
        drafts.add_node(Draft(place, fields, tuple(tags)))
        for target in _texts(drafts, connections, f"{place}.connections"):
            if "id" in fields:
                relation = Field("relates_to", target.place)
                ends = {"source": fields["id"], "relation": relation, "target": target}
                drafts.add_edge(Draft(target.place, ends))


def _read_edges(drafts: Drafts, value: object, path: str) -> None:
    for place, entry in _entries(drafts, value, path):
        drafts.add_edge(Draft(place, _fields(drafts, entry, place)))


def _entries(drafts: Drafts, value: object, path: str) -> Iterator[tuple[str, dict[str, object]]]:
    """The objects of a list with their places; whatever isn't an object is refused."""
    if not isinstance(value, list):
        drafts.refuse(path, "wrong_type", f"{_kind(value)} given", "a list")
        return
    for index, each in enumerate(cast("list[object]", value)):
        place = f"{path}[{index}]"
        if isinstance(each, dict):
            yield place, dict(cast("dict[str, object]", each))
        else:
            drafts.refuse(place, "wrong_type", f"{_kind(each)} given", "an object")


def _fields(
    drafts: Drafts, entry: dict[str, object], place: str, written: Mapping[str, str] | None = None
) -> dict[str, Field]:
    """The texts of an entry, those under `attributes` among them; `written` gives the names that
    stand in the file for fields that have another one here.
    """
    inner = entry.pop("attributes", None)
    found: dict[str, Field] = {}
    for name, value in entry.items():
        _take(drafts, found, name, value, child_path(place, (written or {}).get(name, name)))
    if inner is not None and not isinstance(inner, dict):
        kind = _kind(inner)
        drafts.refuse(f"{place}.attributes", "wrong_type", f"{kind} given", "an object")
    elif inner:
        for name, value in cast("dict[str, object]", inner).items():
            where = child_path(f"{place}.attributes", name)
            if name in found or name in _NOT_INNER:
                message = f"{excerpt(name)} stands beside the attributes, not among them"
                drafts.refuse(where, "invalid_name", message, "each name once")
            else:
                _take(drafts, found, name, value, where)
    return found


_NOT_INNER = ("id", "type", "summary", "tag", "tags", "source", "target", "relation")


def _take(drafts: Drafts, found: dict[str, Field], name: str, value: object, place: str) -> None:
    if isinstance(value, str):
        found[name] = Field(value, place)
    elif value is not None:
        drafts.refuse(place, "wrong_type", f"{_kind(value)} given", "text")


def _texts(drafts: Drafts, value: object, place: str) -> Iterator[Field]:
    """The texts of a list, or of one text with commas."""
    if isinstance(value, str):
        yield from (Field(part.strip(), place) for part in value.split(",") if part.strip())
    elif isinstance(value, list):
        for index, each in enumerate(cast("list[object]", value)):
            if isinstance(each, str):
                yield Field(each, f"{place}[{index}]")
            else:
                drafts.refuse(f"{place}[{index}]", "wrong_type", f"{_kind(each)} given", "text")
    elif value is not None:
        drafts.refuse(place, "wrong_type", f"{_kind(value)} given", "a list of texts")


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return "a truth value"
    kinds = ((str, "text"), (list, "a list"), (dict, "an object"), (type(None), "null"))
    return next((words for kind, words in kinds if isinstance(value, kind)), "a number")

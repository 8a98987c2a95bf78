"""Read and write graph files (JSON, DOT) without loss; graph text in any format.

For every graph that passes `check_graph`, `read_graph(write_graph(g, format)) == g`, and text that
we wrote is written back byte for byte: sorted, one node or edge per line.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, NoReturn, cast

from passdown.core.arguments import text_list
from passdown.core.graph import (
    RELATIONS,
    Edge,
    Graph,
    Node,
    check_graph,
    graph_of,
    is_reference,
    summary_line,
)
from passdown.core.index_entries import tag_of
from passdown.core.knowledge import (
    RelatedNode,
    Relation,
    edge_key,
    matching_relations,
    missing_nodes,
    relation_problems,
    relations_of,
    with_relation,
)
from passdown.core.parsing import load_json
from passdown.core.text import child_path, excerpt, has_lone_surrogate
from passdown.errors import MAX_PROBLEMS, InvalidInput, Problem
from passdown.ledger.durable_files import (
    named_lock,
    read_text,
    rename_unreadable,
    replace_file,
    with_retries,
)

GraphFormat = Literal["json", "dot"]
GRAPH_FORMATS: tuple[GraphFormat, ...] = ("json", "dot")
MAX_BYTES = 8_388_608
MAX_FIELDS = 1_000_000
"""Limit of ids, attributes and tags in a file; repetitions by a default, a chain or a subgraph
count too.
"""

_CHECKED = re.compile(r"(nodes|edges)\[([0-9]+)\](?:\.(.+?))?(?:\[([0-9]+)\])?", re.DOTALL)


def read_graph(
    text: str, format: GraphFormat | Literal["auto"] = "auto", known: Iterable[str] = ()
) -> Graph:
    """Read a graph; `auto` reads a text that begins with a bracket as JSON.

    `known` are ids of other known nodes: edges may lead to them. Raises InvalidInput with
    every problem; its path is `line:column` in DOT and the path of the value in JSON.
    """
    if len(text) > MAX_BYTES or len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        _refuse("too_large", f"{len(text):,} characters", f"at most {MAX_BYTES:,} bytes")
    if has_lone_surrogate(text):
        _refuse("lone_surrogate", "contains half of a surrogate pair", "valid Unicode")
    source = text.removeprefix("\ufeff")
    if format == "auto":
        format = "json" if source.lstrip()[:1] in ("{", "[") else "dot"
    if format == "json":
        return read_json(source, known)
    _check_format(format)
    from passdown.knowledge.graph_dot import read_dot

    return read_dot(source, known)


def write_graph(graph: Graph, format: GraphFormat) -> str:
    """The graph as a text that `read_graph` reads back equal.

    Raises InvalidInput for a graph that breaks the rules, since its text could not be read.
    """
    _check_format(format)
    if problems := check_graph(graph.nodes, graph.edges):
        raise InvalidInput("the graph can't be written", problems)
    ordered = graph_of(graph.nodes, graph.edges)
    if format == "json":
        text = write_json(ordered)
    else:
        from passdown.knowledge.graph_dot import write_dot

        text = write_dot(ordered)
    if (size := len(text.encode())) > MAX_BYTES:
        expected = f"at most {MAX_BYTES:,}"
        _refuse("too_large", f"the text would have {size:,} bytes", expected, "write a part of it")
    return text


def _check_format(format: str) -> None:
    if format not in GRAPH_FORMATS:
        _refuse("not_allowed", f"format {excerpt(format)}", f"one of {', '.join(GRAPH_FORMATS)}")


def _refuse(code: str, message: str, expected: str, fix: str = "") -> NoReturn:
    raise InvalidInput("the graph can't be used", [Problem("", code, message, expected, fix)])


PICTURE_FORMATS = ("mermaid", "svg")


def graph_starts(
    graph: Graph, *, around: Sequence[str] = (), task: str = "", tags: Sequence[str] = ()
) -> list[str]:
    """The ids of the nodes that a part of the graph was requested by."""
    named = [*text_list(around, "around", []), *([f"task:{task}"] if task else [])]
    wanted = {tag_of(tag) for tag in text_list(tags, "tags", [])}
    tagged = (node.id for node in graph.nodes if not wanted.isdisjoint(node.tags))
    return list(dict.fromkeys([*named, *tagged]))


def graph_text(graph: Graph, format: str, title: str = "", starts: Sequence[str] = ()) -> str:
    """A graph as text: `json` or `dot` as a file, `mermaid` or `svg` as a picture.

    `title` is that of the `svg`. A large graph's picture shows `starts` and the nearest to them;
    without `starts`, the best connected nodes.
    """
    for known in GRAPH_FORMATS:
        if format == known:
            return write_graph(graph, known)
    if format not in PICTURE_FORMATS:
        expected = f"one of {', '.join((*GRAPH_FORMATS, *PICTURE_FORMATS))}"
        problem = Problem("format", "invalid_choice", repr(format[:60]), expected)
        raise InvalidInput("there is no such format of a graph", [problem])
    from passdown.knowledge.pictures import mermaid, svg

    return mermaid(graph, starts) if format == "mermaid" else svg(graph, title, starts)


# Drafts: what a file states, with every problem


class Field(NamedTuple):
    """A text of the file and its position."""

    text: str
    place: str


class Draft(NamedTuple):
    """A node or an edge as the file states it: its fields by name, and its tags."""

    place: str
    fields: dict[str, Field]
    tags: tuple[Field, ...] = ()

    def text(self, name: str) -> str:
        """A field's text; empty if the file has none."""
        found = self.fields.get(name)
        return found.text if found else ""


class Drafts:
    """The entries and problems of one file. With `by_line`, places are lines and columns: a field
    that is missing has its entry's place, and messages name the field.
    """

    def __init__(self, *, by_line: bool) -> None:
        self._by_line = by_line
        self._nodes: list[Draft] = []
        self._edges: list[Draft] = []
        self._problems: list[Problem] = []
        self._reported: set[str] = set()
        self._left = MAX_FIELDS
        self._mentions: dict[str, Field] = {}
        self._excused: set[str] = set()
        self.is_partial = False
        """Whether part of the file could not be read, so that a node may be in that part."""

    @property
    def has_problems(self) -> bool:
        """Whether anything has been refused so far."""
        return bool(self._problems)

    def mention(self, name: Field) -> None:
        """Note a name that has to be a node."""
        self._mentions.setdefault(name.text, name)

    def excuse(self, name: str) -> None:
        """Count a name as a node, though its entry can't be used."""
        self._excused.add(name)

    def refuse(self, place: str, code: str, message: str, expected: str = "") -> None:
        """Note a problem and continue; raises InvalidInput when there are too many."""
        self._problems.append(Problem(place, code, message, expected))
        self._reported.add(place)
        if len(self._problems) >= MAX_PROBLEMS:
            self.give_up()

    def give_up(self) -> NoReturn:
        """Raise InvalidInput with the problems found so far."""
        shown = self._problems[:MAX_PROBLEMS]
        if len(self._problems) >= MAX_PROBLEMS:
            message = f"has more problems than these {MAX_PROBLEMS}; reading ended here"
            shown.append(Problem("", "too_many_problems", message))
        raise InvalidInput("the graph can't be read", shown)

    def spend(self, fields: int, place: str) -> None:
        """Count fields against the limit of a file."""
        self._left -= fields
        if self._left < 0:
            expected = f"at most {MAX_FIELDS:,}, each repetition counted"
            self.refuse(place, "too_large", "the file has too many fields", expected)
            self.give_up()

    def add_node(self, draft: Draft) -> None:
        """Add a node."""
        self.spend(1 + len(draft.fields) + len(draft.tags), draft.place)
        self._nodes.append(draft)

    def add_edge(self, draft: Draft) -> None:
        """Add an edge."""
        self.spend(1 + len(draft.fields), draft.place)
        self._edges.append(draft)

    def graph(self, known: Iterable[str], *, is_edge_list: bool = False) -> Graph:
        """The checked graph; raises InvalidInput with all problems.

        In an edge list, an end that isn't a node becomes an insight of that name.
        """
        outside = {*known, *self._excused}
        self._need_fields()
        listed = [draft for draft in self._nodes if "id" in draft.fields]
        drawn = [draft for draft in self._edges if draft.fields.keys() >= _ENDS]
        nodes = [_node(draft) for draft in listed]
        edges = [_edge(draft) for draft in drawn]
        if is_edge_list:
            nodes += _implied(nodes, edges, outside)
        self._check_mentions(outside.union(node.id for node in nodes))
        reported = set(self._reported)
        for problem in check_graph(nodes, edges, outside):
            self._report(problem, listed, drawn, reported)
        if self._problems:
            self.give_up()
        return graph_of(nodes, edges)

    def _check_mentions(self, there: set[str]) -> None:
        for name in self._mentions.values():
            if name.text not in there and not is_reference(name.text) and not self.is_partial:
                message = f"there is no node {excerpt(name.text, 60)}"
                expected = "a list of its attributes in [ ]"
                self.refuse(name.place, "unknown_node", message, expected)

    def _need_fields(self) -> None:
        for draft in self._nodes:
            for name in ("id", "type"):
                self._need(draft, name)
            if not any(name in draft.fields for name in ("summary", "description", "label")):
                self._need(draft, "summary")
        for draft in self._edges:
            for name in ("source", "target"):
                self._need(draft, name)

    def _need(self, draft: Draft, name: str) -> None:
        if name in draft.fields:
            return
        place, code, message = self._worded(draft, name, f"{name} is missing", "missing")
        if self._by_line or place not in self._reported:
            self.refuse(place, code, message)

    def _worded(self, draft: Draft, name: str, message: str, code: str) -> tuple[str, str, str]:
        """Position, code and message of a problem with a field, as fits the format."""
        field = draft.fields.get(name)
        if self._by_line:
            who = excerpt(draft.text("id"), 60)
            words = f"{who}: {message}" if who else message
            return (field.place if field else draft.place, code, words)
        return (field.place if field else f"{draft.place}.{name}", code, message)

    def _report(
        self, problem: Problem, nodes: list[Draft], edges: list[Draft], reported: set[str]
    ) -> None:
        """Note a problem of the finished graph, at its position in the file."""
        match = _CHECKED.fullmatch(problem.path)
        if match is None:
            self.refuse(*problem[:4])
            return
        if problem.code == "unknown_node" and self.is_partial:
            return
        drafts = nodes if match[1] == "nodes" else edges
        if int(match[2]) >= len(drafts):
            return  # an implied node: its edge is reported
        draft, name = drafts[int(match[2])], match[3] or ""
        if name == "tags" and match[4]:
            place, message = draft.tags[int(match[4])].place, f"tag {problem.message}"
            self.refuse(place, problem.code, message, problem.expected)
            return
        words = f"{name} {problem.message}" if self._by_line and name else problem.message
        place, code, message = self._worded(draft, name, words, problem.code)
        if not name:
            place = draft.place
        if name not in _ALWAYS or name in draft.fields or place not in reported:
            self.refuse(place, code, message, problem.expected)


_ENDS = {"source", "target"}
_ALWAYS = ("id", "type", "summary")


def _node(draft: Draft) -> Node:
    """The node of an entry that has an id; a summary that is missing comes from the description or
    else from the label, whose full text is kept when it had to be cut.
    """
    rest = {name: field.text for name, field in draft.fields.items() if name not in _ALWAYS}
    summary = draft.text("summary")
    if "summary" not in draft.fields:
        if "description" not in rest and "label" in rest:
            label = rest.pop("label")
            if summary_line(label) != label:
                rest["description"] = label
            summary = summary_line(label)
        else:
            summary = summary_line(rest.get("description", ""))
    tags = tuple(tag.text for tag in draft.tags)
    return Node(draft.text("id"), draft.text("type"), summary, tags, rest)


def _edge(draft: Draft) -> Edge:
    """The edge of an entry that has both ends. Without a relation, a label that names one is taken
    for it; any other label becomes the note of a `relates_to`.
    """
    ends = ("source", "target", "relation")
    rest = {name: field.text for name, field in draft.fields.items() if name not in ends}
    relation = draft.text("relation")
    if "relation" not in draft.fields:
        label = rest.get("label", "")
        relation = label if label in RELATIONS else "relates_to"
        if label in RELATIONS:
            del rest["label"]
        elif label and "note" not in rest:
            rest["note"] = rest.pop("label")
    return Edge(draft.text("source"), relation, draft.text("target"), rest)


def _implied(nodes: list[Node], edges: list[Edge], outside: set[str]) -> list[Node]:
    there = {node.id for node in nodes} | outside
    ends = {name for edge in edges for name in (edge.source, edge.target)}
    return [
        Node(name, "insight", summary_line(name))
        for name in sorted(ends - there)
        if not is_reference(name)
    ]


# JSON

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
    """The texts of an entry, including those under `attributes`; `written` maps field names to the
    names in the file where they differ.
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
                message = f"{excerpt(name)} belongs beside the attributes, not among them"
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


# Relations in a file of their own

EMPTY = Graph()


class EdgeFile:
    """Relations in one JSON graph file, for memory stores that have no graph of their own.

    Writers take turns under a lock and replace the whole file. A file that can't be read is renamed
    and reported in `reports`.
    """

    def __init__(self, path: str) -> None:
        """The file is created with the first relation, with a lock file beside it."""
        self.path = os.path.abspath(path)
        self.reports: list[Problem] = []
        self._read: tuple[tuple[int, ...], Graph] | None = None

    def add(self, relations: Iterable[Relation]) -> int:
        """Add relations; gives how many of them are new.

        Raises InvalidInput with everything that is wrong with them.
        """
        given = list(relations)
        return with_retries(f"writing {self.path}", lambda: self._add(given))

    def _add(self, relations: list[Relation]) -> int:
        with named_lock(os.path.dirname(self.path), f"{os.path.basename(self.path)}.lock"):
            graph = self._load()
            edges = {edge.key: edge for edge in graph.edges}
            news = 0
            for relation in relations:
                known = edges.get(edge_key(relation))
                edge = with_relation(known, relation)
                news += edge != known
                edges[edge.key] = edge
            if news:
                self._write(_whole(edges.values(), relations))
        return news

    def _write(self, graph: Graph) -> None:
        replace_file(self.path, write_graph(graph, "json"))

    def relations(
        self, *, source: str = "", relation: str = "", target: str = ""
    ) -> list[Relation]:
        """The relations by any mix of source, relation and target, sorted; all of them by none."""
        return matching_relations(self._graph().edges, source, relation, target)

    def reachable(self, node: str, depth: int) -> list[RelatedNode]:
        """The nodes that can be reached from one in up to `depth` steps, nearest first, without
        it; each comes once, by a shortest path.
        """
        steps: dict[str, list[Edge]] = {}
        for edge in self._graph().edges:
            steps.setdefault(edge.source, []).append(edge)
        found = {node: RelatedNode(node, 0, ())}
        wave = [found[node]]
        for step in range(1, depth + 1):
            later: list[RelatedNode] = []
            for place in wave:
                for edge in steps.get(place.node, ()):
                    if edge.target not in found:
                        path = (*place.path, relations_of(edge)[0])
                        found[edge.target] = RelatedNode(edge.target, step, path)
                        later.append(found[edge.target])
            wave = later
            if not wave:
                break
        return list(found.values())[1:]

    def _graph(self) -> Graph:
        """The file's graph; read again only if the file has changed."""
        return with_retries(f"reading {self.path}", self._read_graph)

    def _read_graph(self) -> Graph:
        seen, known = self._signature(), self._read
        if seen is None:
            return EMPTY
        if known is not None and known[0] == seen:
            return known[1]
        with named_lock(os.path.dirname(self.path), f"{os.path.basename(self.path)}.lock"):
            seen, graph = self._signature(), self._load()
        if seen is not None:
            self._read = (seen, graph)
        return graph

    def _signature(self) -> tuple[int, ...] | None:
        """A value that changes whenever the file is replaced; None if there is no file."""
        try:
            found = os.stat(self.path)
        except FileNotFoundError:
            return None
        return (found.st_ino, found.st_mtime_ns, found.st_size)

    def _load(self) -> Graph:
        """Read the file under the lock; rename it if it can't be read."""
        text = read_text(self.path)
        if text is None:
            return EMPTY
        try:
            return read_graph(text, "json")
        except InvalidInput as error:
            self._report(rename_unreadable(self.path), error)
            return EMPTY

    def _report(self, aside: str, error: InvalidInput) -> None:
        message = f"can't be read and was kept as {aside}: {error.problems[0].line()}"
        fix = "fix it and give it the name of the file again, or leave it"
        self.reports.append(Problem(self.path, "unreadable", message, "", fix, "warning"))
        import logging

        log = logging.getLogger("passdown")
        log.warning("%s %s", self.path, message, extra={"path": self.path, "kept_aside": aside})


def _whole(edges: Iterable[Edge], given: list[Relation]) -> Graph:
    """The edges with a node for every end; raises InvalidInput for wrong relations."""
    listed = list(edges)
    ends = {name for edge in listed for name in (edge.source, edge.target)}
    nodes = missing_nodes(sorted(ends), ())
    problems = [problem for each in given for problem in relation_problems(each.relation)]
    own = [edge for edge in listed if edge.key in {edge_key(each) for each in given}]
    problems += check_graph((), own, ends)
    if problems:
        raise InvalidInput("refused; nothing was changed", problems)
    return graph_of(nodes, listed)

"""Read and write graph files (JSON, DOT) without loss; graph text in any format.

For every graph that passes `check_graph`, `read_graph(write_graph(g, format)) == g`, and text that
we wrote is written back byte for byte: sorted, one node or edge per line.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Literal, NamedTuple, NoReturn, cast

from passdown.core.arguments import text_list
from passdown.core.graph import (
    RELATIONS,
    Edge,
    Graph,
    Node,
    RelatedNode,
    Relation,
    check_graph,
    edge_key,
    graph_of,
    is_reference,
    matching_relations,
    missing_nodes,
    part_document,
    relation_problems,
    relations_of,
    summary_line,
    walked,
    with_relation,
)
from passdown.core.index_entries import tag_of
from passdown.core.parsing import load_json
from passdown.core.text import child_path, excerpt, has_lone_surrogate
from passdown.errors import MAX_PROBLEMS, InvalidInput, Problem, raise_problems
from passdown.ledger.durable_files import (
    keep_aside,
    named_lock,
    read_text,
    replace_file,
    with_retries,
)

GraphFormat = Literal["json", "dot"]
GRAPH_FORMATS: tuple[GraphFormat, ...] = ("json", "dot")
MAX_BYTES = 8_388_608
MAX_FIELDS = 1_000_000
"""Limit of ids, attributes and tags in a file, with repetitions by defaults and chains."""

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
    """The graph as text that `read_graph` reads back equal; raises InvalidInput if it is wrong."""
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

    def split(self) -> list[Field]:
        """The parts between commas."""
        return [Field(part.strip(), self.place) for part in self.text.split(",") if part.strip()]


class Draft(NamedTuple):
    """A node or an edge as the file states it: its fields by name, and its tags."""

    place: str
    fields: dict[str, Field]
    tags: tuple[Field, ...] = ()

    def text(self, name: str) -> str:
        """A field's text; empty if the file has none."""
        return self.fields[name].text if name in self.fields else ""


class Drafts:
    """The entries and problems of one file. With `by_line`, places are lines and columns: a field
    that is missing has its entry's place, and messages name entry and field.
    """

    def __init__(self, known: Iterable[str], *, by_line: bool) -> None:
        self._by_line = by_line
        self._nodes: list[Draft] = []
        self._edges: list[Draft] = []
        self._left = MAX_FIELDS
        self._mentions: dict[str, Field] = {}
        self.problems: list[Problem] = []
        self.known = set(known)
        """Ids of nodes to which an edge may lead, though the file has no usable entry for them."""
        self.is_partial = False
        """Whether part of the file could not be read, so that a node may be in that part."""

    def mention(self, name: Field) -> None:
        """Note a name that has to be a node."""
        self._mentions.setdefault(name.text, name)

    def refuse(self, place: str, code: str, message: str, expected: str = "") -> None:
        """Note a problem and continue; raises InvalidInput when there are too many."""
        self.problems.append(Problem(place, code, message, expected))
        if len(self.problems) >= MAX_PROBLEMS:
            words = f"has more problems than these {MAX_PROBLEMS}; reading ended here"
            self.problems.append(Problem("", "too_many_problems", words))
            self.give_up()

    def give_up(self) -> NoReturn:
        """Raise InvalidInput with the problems found so far."""
        raise InvalidInput("the graph can't be read", self.problems)

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

    def graph(self, *, is_edge_list: bool = False) -> Graph:
        """The checked graph, or InvalidInput; an edge list's unknown ends become insights."""
        reported = {problem.path for problem in self.problems}
        for draft in self._nodes:
            self._need(draft, reported, "id", "type")
            if not any(name in draft.fields for name in ("summary", "description", "label")):
                self._need(draft, reported, "summary")
        for draft in self._edges:
            self._need(draft, reported, "source", "target")
        listed = [draft for draft in self._nodes if "id" in draft.fields]
        drawn = [draft for draft in self._edges if draft.fields.keys() >= {"source", "target"}]
        nodes, edges = [_node(draft) for draft in listed], [_edge(draft) for draft in drawn]
        there = self.known.union(node.id for node in nodes)
        if is_edge_list:
            ends = {name for edge in edges for name in edge.key[::2]}
            nodes += missing_nodes(sorted(ends), there)
        for name in self._mentions.values():
            if not (name.text in there or is_reference(name.text) or self.is_partial):
                message = f"there is no node {excerpt(name.text, 60)}"
                self.refuse(name.place, "unknown_node", message, "a list of its attributes in [ ]")
        missing = {problem.path for problem in self.problems}
        for problem in check_graph(nodes, edges, self.known):
            self._report(problem, {"nodes": listed, "edges": drawn}, missing)
        if self.problems:
            self.give_up()
        return graph_of(nodes, edges)

    def _need(self, draft: Draft, reported: set[str], *names: str) -> None:
        for name in names:
            place = self._place(draft, name)
            if name not in draft.fields and (self._by_line or place not in reported):
                self.refuse(place, "missing", self._worded(draft, f"{name} is missing"))

    def _place(self, draft: Draft, name: str) -> str:
        if name in draft.fields:
            return draft.fields[name].place
        return f"{draft.place}.{name}" if name and not self._by_line else draft.place

    def _worded(self, draft: Draft, message: str) -> str:
        who = excerpt(draft.text("id"), 60) if self._by_line else ""
        return f"{who}: {message}" if who else message

    def _report(self, problem: Problem, drafts: dict[str, list[Draft]], missing: set[str]) -> None:
        """Note a problem of the finished graph, at its position in the file."""
        if problem.code == "unknown_node" and self.is_partial:
            return
        match = _CHECKED.fullmatch(problem.path)
        if match is None:
            self.refuse(*problem[:4])
            return
        list_name, index, name, at = match[1], int(match[2]), match[3] or "", match[4]
        if index >= len(drafts[list_name]):
            return  # an implied node: its edge is reported
        draft = drafts[list_name][index]
        place, message = self._place(draft, name), problem.message
        if name == "tags" and at:
            place, message = draft.tags[int(at)].place, f"tag {message}"
        elif self._by_line:
            message = self._worded(draft, f"{name} {message}" if name else message)
        is_required = name in ("id", "type", "summary") and name not in draft.fields
        if not (is_required and place in missing):
            self.refuse(place, problem.code, message, problem.expected)


def _node(draft: Draft) -> Node:
    """The node of an entry that has an id; a summary that is missing comes from the description or
    else from the label, whose full text is kept when it had to be cut.
    """
    own = ("id", "type", "summary")
    rest = {name: field.text for name, field in draft.fields.items() if name not in own}
    summary = draft.text("summary")
    if "summary" not in draft.fields:
        text = rest.get("description") or ""
        if "description" not in rest and "label" in rest:
            text = rest.pop("label")
            rest |= {"description": text} if summary_line(text) != text else {}
        summary = summary_line(text)
    tags = tuple(tag.text for tag in draft.tags)
    return Node(draft.text("id"), draft.text("type"), summary, tags, rest)


def _edge(draft: Draft) -> Edge:
    """The edge of an entry that has both ends. Without a relation, a label that names one is taken
    for it; any other label becomes the note of a `relates_to`.
    """
    own = ("source", "target", "relation")
    rest = {name: field.text for name, field in draft.fields.items() if name not in own}
    relation = draft.text("relation")
    if "relation" not in draft.fields:
        relation = "relates_to"
        if rest.get("label") in RELATIONS:
            relation = rest.pop("label")
        elif rest.get("label") and "note" not in rest:
            rest["note"] = rest.pop("label")
    return Edge(draft.text("source"), relation, draft.text("target"), rest)


# JSON

VERSION = 1

_MAX_DEPTH = 8
_TOP = ("passdown_graph", "nodes", "edges", "version", "last_updated", "tag_index")
_NOT_INNER = ("id", "type", "summary", "tag", "tags", "source", "target", "relation")


def write_json(graph: Graph) -> str:
    """The text of a sorted graph, one node or edge per line."""
    lists = (map(part_document, graph.nodes), map(part_document, graph.edges))
    nodes, edges = (
        ",\n".join(json.dumps(entry, ensure_ascii=False) for entry in each) for each in lists
    )
    blocks = (f"\n{lines}\n" if lines else "" for lines in (nodes, edges))
    return '{{"passdown_graph": {},\n"nodes": [{}],\n"edges": [{}]}}\n'.format(VERSION, *blocks)


def read_json(text: str, known: Iterable[str]) -> Graph:
    """The graph in a JSON text; raises InvalidInput with all problems."""
    drafts = Drafts(known, by_line=False)
    top = load_json(text, max_bytes=MAX_BYTES, max_depth=_MAX_DEPTH)
    if isinstance(top, list):
        _read_edges(drafts, cast("list[object]", top), "")
        return drafts.graph(is_edge_list=True)
    if not isinstance(top, dict):
        drafts.refuse("", "wrong_type", "holds no graph", "an object or a list of edges")
        drafts.give_up()
    parts = cast("dict[str, object]", top)
    if parts.get("passdown_graph", VERSION) != VERSION:
        expected = f"{VERSION}; a later release may read it"
        drafts.refuse("passdown_graph", "newer_form", "is of another version", expected)
    for name in parts.keys() - {*_TOP}:
        place = child_path("", name)
        drafts.refuse(place, "unknown_field", "is no part of a graph", f"one of {', '.join(_TOP)}")
    if not {"nodes", "edges"} & parts.keys():
        drafts.refuse("", "missing", "has neither nodes nor edges", "a list under either name")
    _read_nodes(drafts, parts.get("nodes") or [])
    _read_edges(drafts, parts.get("edges") or [], "edges")
    return drafts.graph(is_edge_list="nodes" not in parts)


def _read_nodes(drafts: Drafts, value: object) -> None:
    for place, entry in _entries(drafts, value, "nodes"):
        tags = [
            tag
            for name in ("tags", "tag")
            for tag in _texts(drafts, entry.pop(name, None), f"{place}.{name}")
        ]
        targets = _texts(drafts, entry.pop("connections", None), f"{place}.connections")
        is_path = "file" in entry and "path" not in entry
        fields = _fields(drafts, entry, place)
        if is_path and "file" in fields:
            fields["path"] = fields.pop("file")
        drafts.add_node(Draft(place, fields, tuple(tags)))
        for target in targets:
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
        _refuse_type(drafts, path, value, "a list")
        return
    for index, each in enumerate(cast("list[object]", value)):
        place = f"{path}[{index}]"
        if isinstance(each, dict):
            yield place, dict(cast("dict[str, object]", each))
        else:
            _refuse_type(drafts, place, each, "an object")


def _fields(drafts: Drafts, entry: dict[str, object], place: str) -> dict[str, Field]:
    """The texts of an entry, including those under `attributes`."""
    inner = entry.pop("attributes", None)
    if inner is not None and not isinstance(inner, dict):
        _refuse_type(drafts, f"{place}.attributes", inner, "an object")
        inner = None
    given = [(name, value, child_path(place, name)) for name, value in entry.items()]
    for name, value in cast("dict[str, object]", inner or {}).items():
        where = child_path(f"{place}.attributes", name)
        if name in entry or name in _NOT_INNER:
            message = f"{excerpt(name)} belongs beside the attributes, not among them"
            drafts.refuse(where, "invalid_name", message, "each name once")
        else:
            given.append((name, value, where))
    found: dict[str, Field] = {}
    for name, value, where in given:
        if isinstance(value, str):
            found[name] = Field(value, where)
        elif value is not None:
            _refuse_type(drafts, where, value, "text")
    return found


def _texts(drafts: Drafts, value: object, place: str) -> list[Field]:
    """The texts of a list, or of one text with commas."""
    if isinstance(value, str):
        return Field(value, place).split()
    if value is not None and not isinstance(value, list):
        _refuse_type(drafts, place, value, "a list of texts")
    found: list[Field] = []
    for index, each in enumerate(cast("list[object]", value) if isinstance(value, list) else ()):
        if isinstance(each, str):
            found.append(Field(each, f"{place}[{index}]"))
        else:
            _refuse_type(drafts, f"{place}[{index}]", each, "text")
    return found


def _refuse_type(drafts: Drafts, place: str, value: object, expected: str) -> None:
    kinds: dict[type, str] = {str: "text", list: "a list", dict: "an object", bool: "a truth value"}
    given = "null" if value is None else kinds.get(type(value), "a number")
    drafts.refuse(place, "wrong_type", f"{given} given", expected)


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

    def add(self, relations: Iterable[Relation]) -> int:
        """Add relations, or raise InvalidInput with all problems; gives how many are new."""
        given = list(relations)

        def write() -> int:
            with self._alone():
                edges = {edge.key: edge for edge in self._load().edges}
                news = 0
                for relation in given:
                    known = edges.get(edge_key(relation))
                    edge = with_relation(known, relation)
                    news += edge != known
                    edges[edge.key] = edge
                if news:
                    replace_file(self.path, write_graph(_whole(edges.values(), given), "json"))
            return news

        return with_retries(f"writing {self.path}", write)

    def relations(
        self, *, source: str = "", relation: str = "", target: str = ""
    ) -> list[Relation]:
        """The relations by any mix of source, relation and target, sorted; all of them by none."""
        return matching_relations(self._graph().edges, source, relation, target)

    def reachable(self, node: str, depth: int) -> list[RelatedNode]:
        """The nodes within `depth` steps of one, nearest first, each by a shortest path."""
        steps: dict[str, list[tuple[Edge, str]]] = {}
        for edge in self._graph().edges:
            steps.setdefault(edge.source, []).append((edge, edge.target))
        found: dict[str, RelatedNode] = {}
        for name, step, before, edge in walked([node], lambda name: steps.get(name, ()), depth):
            path = found[before].path if before in found else ()
            found[name] = RelatedNode(name, step, (*path, relations_of(edge)[0]))
        return list(found.values())

    def _graph(self) -> Graph:
        def read() -> Graph:
            if not os.path.exists(self.path):
                return EMPTY
            with self._alone():
                return self._load()

        return with_retries(f"reading {self.path}", read)

    def _alone(self) -> AbstractContextManager[None]:
        return named_lock(os.path.dirname(self.path), f"{os.path.basename(self.path)}.lock")

    def _load(self) -> Graph:
        """Read the file under the lock; rename it if it can't be read."""
        text = read_text(self.path)
        if text is None:
            return EMPTY
        try:
            return read_graph(text, "json")
        except InvalidInput as error:
            import logging

            aside = keep_aside(self.path, "edited")
            message = f"can't be read and was kept as {aside}: {error.problems[0].line()}"
            fix = "fix it and give it the name of the file again, or leave it"
            self.reports.append(Problem(self.path, "unreadable", message, "", fix, "warning"))
            extra = {"path": self.path, "kept_aside": aside}
            logging.getLogger("passdown").warning("%s %s", self.path, message, extra=extra)
            return EMPTY


def _whole(edges: Iterable[Edge], given: list[Relation]) -> Graph:
    """The edges with a node for every end; raises InvalidInput for wrong relations."""
    listed = list(edges)
    ends = {name for edge in listed for name in (edge.source, edge.target)}
    nodes = missing_nodes(sorted(ends), ())
    problems = [problem for each in given for problem in relation_problems(each.relation)]
    own = [edge for edge in listed if edge.key in {edge_key(each) for each in given}]
    problems += check_graph((), own, ends)
    raise_problems("refused; nothing was changed", problems)
    return graph_of(nodes, listed)

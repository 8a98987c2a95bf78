"""Read and write graph files (JSON, DOT) without loss; graph text in any format.

For every graph that passes `check_graph`, `read_graph(write_graph(g, format)) == g`, and text that
we wrote is written back byte for byte: sorted, one node or edge per line.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Literal, NoReturn

from passdown.core.arguments import text_list
from passdown.core.graph import Edge, Graph, check_graph, graph_of
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
from passdown.core.text import excerpt, has_lone_surrogate
from passdown.errors import InvalidInput, Problem
from passdown.knowledge.graph_json import MAX_BYTES
from passdown.ledger.durable_files import (
    named_lock,
    read_text,
    rename_unreadable,
    replace_file,
    with_retries,
)

GraphFormat = Literal["json", "dot"]
GRAPH_FORMATS: tuple[GraphFormat, ...] = ("json", "dot")


def read_graph(
    text: str, format: GraphFormat | Literal["auto"] = "auto", known: Iterable[str] = ()
) -> Graph:
    """The graph that a text holds; `auto` takes what begins with a bracket for JSON.

    `known` are ids of nodes that exist elsewhere: edges may lead to them. Raises InvalidInput with
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
        from passdown.knowledge.graph_json import read_json

        return read_json(source, known)
    _check_format(format)
    from passdown.knowledge.graph_dot import read_dot

    return read_dot(source, known)


def write_graph(graph: Graph, format: GraphFormat) -> str:
    """The graph as a text that `read_graph` reads back equal.

    Raises InvalidInput for a graph that breaks the rules (an edge into nowhere, say), since its
    text would be refused on reading.
    """
    _check_format(format)
    if problems := check_graph(graph.nodes, graph.edges):
        raise InvalidInput("the graph can't be written", problems)
    ordered = graph_of(graph.nodes, graph.edges)
    if format == "json":
        from passdown.knowledge.graph_json import write_json

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
    """The nodes of a part of the graph that it was asked for by, in the words of the question."""
    named = [*text_list(around, "around", []), *([f"task:{task}"] if task else [])]
    wanted = {tag_of(tag) for tag in text_list(tags, "tags", [])}
    tagged = (node.id for node in graph.nodes if not wanted.isdisjoint(node.tags))
    return list(dict.fromkeys([*named, *tagged]))


def graph_text(graph: Graph, format: str, title: str = "", starts: Sequence[str] = ()) -> str:
    """A graph in one of the forms: `json` or `dot` as a file, `mermaid` or `svg` as a picture.

    `title` stands above the `svg` and says what of the graph it shows. A picture has room for
    `starts` and the nearest to them; without any, for the best connected.
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


def edge_label(edge: Edge) -> str:
    """An edge's relation, and the word that it came with where it had one: `relates_to (owns)`."""
    if "name" not in edge.attributes:
        return edge.relation
    from passdown.knowledge.pictures import relation_label as words

    return words(edge)


EMPTY = Graph()


class EdgeFile:
    """The relations in one file. `reports` has a problem for every file that was kept aside."""

    def __init__(self, path: str) -> None:
        """The file is made by the first relation; its lock stands beside it."""
        self.path = os.path.abspath(path)
        self.reports: list[Problem] = []
        self._read: tuple[tuple[int, ...], Graph] | None = None

    def add(self, relations: Iterable[Relation]) -> int:
        """Keep relations; gives how many of them are new. Nothing is written if none is.

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
        """What the file holds now; read again only where it has changed."""
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
        """What changes whenever the file is replaced; None where there is none."""
        try:
            found = os.stat(self.path)
        except FileNotFoundError:
            return None
        return (found.st_ino, found.st_mtime_ns, found.st_size)

    def _load(self) -> Graph:
        """What the file holds; one that can't be read is kept aside first. Needs the lock."""
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
        fix = "mend it and give it the name of the file again, or leave it"
        self.reports.append(Problem(self.path, "unreadable", message, "", fix, "warning"))
        import logging

        log = logging.getLogger("passdown")
        log.warning("%s %s", self.path, message, extra={"path": self.path, "kept_aside": aside})


def _whole(edges: Iterable[Edge], told: list[Relation]) -> Graph:
    """The edges with a node for every end; what is wrong is told by the names that were given."""
    listed = list(edges)
    ends = {name for edge in listed for name in (edge.source, edge.target)}
    nodes = missing_nodes(sorted(ends), ())
    problems = [problem for each in told for problem in relation_problems(each.relation)]
    own = [edge for edge in listed if edge.key in {edge_key(each) for each in told}]
    problems += check_graph((), own, ends)
    if problems:
        raise InvalidInput("refused; nothing was changed", problems)
    return graph_of(nodes, listed)


__all__ = [
    "GRAPH_FORMATS",
    "MAX_BYTES",
    "GraphFormat",
    "read_graph",
    "write_graph",
]

"""Relations in one JSON file, for memories whose own store has no graph.

The file is the graph's JSON form, so every tool that reads that reads this. Writers of any number
of tasks, threads and processes take turns; each replaces the file as a whole. A file that can't be
read is kept aside under another name and told of: nothing is ever written over it.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from passdown.errors import InvalidInput, Problem
from passdown.ledger.durable_files import keep_aside, named_lock, read_text, replace_file
from passdown.ledger.retrying import persistently
from passdown.model.graph import Edge, Graph, check_graph, graph_of
from passdown.model.graph_files import read_graph, write_graph
from passdown.model.relations import (
    Related,
    Relation,
    edge_key,
    relation_problems,
    relations_of,
    selected,
    unlisted,
    with_relation,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

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
        return persistently(f"writing {self.path}", lambda: self._add(given))

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
        return selected(self._graph().edges, source, relation, target)

    def reachable(self, node: str, depth: int) -> list[Related]:
        """The nodes that can be reached from one in up to `depth` steps, nearest first, without
        it; each comes once, by a shortest path.
        """
        steps: dict[str, list[Edge]] = {}
        for edge in self._graph().edges:
            steps.setdefault(edge.source, []).append(edge)
        found = {node: Related(node, 0, ())}
        wave = [found[node]]
        for step in range(1, depth + 1):
            later: list[Related] = []
            for place in wave:
                for edge in steps.get(place.node, ()):
                    if edge.target not in found:
                        path = (*place.path, relations_of(edge)[0])
                        found[edge.target] = Related(edge.target, step, path)
                        later.append(found[edge.target])
            wave = later
            if not wave:
                break
        return list(found.values())[1:]

    def _graph(self) -> Graph:
        """What the file holds now; read again only where it has changed."""
        return persistently(f"reading {self.path}", self._read_graph)

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
            self._report(keep_aside(self.path), error)
            return EMPTY

    def _report(self, aside: str, error: InvalidInput) -> None:
        message = f"can't be read and was kept as {aside}: {error.problems[0].line()}"
        fix = "mend it and give it the name of the file again, or leave it"
        self.reports.append(Problem(self.path, "unreadable", message, "", fix, "warning"))
        log = logging.getLogger("passdown")
        log.warning("%s %s", self.path, message, extra={"path": self.path, "kept_aside": aside})


def _whole(edges: Iterable[Edge], told: list[Relation]) -> Graph:
    """The edges with a node for every end; what is wrong is told by the names that were given."""
    listed = list(edges)
    ends = {name for edge in listed for name in (edge.source, edge.target)}
    nodes = unlisted(sorted(ends), ())
    problems = [problem for each in told for problem in relation_problems(each.relation)]
    own = [edge for edge in listed if edge.key in {edge_key(each) for each in told}]
    problems += check_graph((), own, ends)
    if problems:
        raise InvalidInput("refused; nothing was changed", problems)
    return graph_of(nodes, listed)

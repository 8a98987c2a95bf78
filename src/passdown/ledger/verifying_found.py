"""Verify, second part: is what search and the graph hold what the records give?

A task's entries and tags are compared as its records are walked. Edges and written nodes may be
replaced or taken away by later records of other tasks, so they are gathered on the way and compared
at the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from passdown.errors import Problem
from passdown.model.findable import KNOWLEDGE, found_in, node_of
from passdown.model.graph import graph_of
from passdown.model.kinds import stream_of

if TYPE_CHECKING:
    from passdown.model.documents import Replayed
    from passdown.model.findable import EntryRow
    from passdown.model.graph import Node
    from passdown.model.record import Record
    from passdown.model.rows import ItemRow
    from passdown.store.statements import Reader

    EdgeKey = tuple[str, str, str]


class FoundCheck:
    """Gathers, task by task, what should be found, and compares it with what is."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._derived: set[EdgeKey] = set()
        self._learned: list[tuple[int, dict[str, Any]]] = []

    def task(self, task: str, replayed: Replayed) -> list[Problem]:
        """Compare the entries and tags of a task; its records are intact."""
        by_position: dict[int, list[ItemRow]] = {}
        for row in replayed.rows.values():
            by_position.setdefault(row.position, []).append(row)
        expected: list[EntryRow] = []
        tags: set[tuple[str, str]] = set()
        for record in self._reader.records(stream_of(task)):
            body = record.document()
            found = found_in(record, body, by_position.get(record.position, ()))
            expected += [self._as_stored(e) for e in found.entries if e.kind != KNOWLEDGE]
            self._gather(record, body, {edge.key for edge in found.edges})
            if record.kind != "learned":
                tags.update(found.tags)
        needs = replayed.details["depends_on"]
        self._derived.update((f"task:{task}", "depends_on", f"task:{need}") for need in needs)
        stored = [e for e in self._reader.entries_of_task(task) if e.kind != KNOWLEDGE]
        problems: list[Problem] = []
        if stored != expected:
            problems.append(_finding(task, "what search finds of it is not what its records give"))
        nodes = {node for _, node in tags}
        if {(tag, n) for n in nodes for tag in self._reader.tags_of_node(n)} != tags:
            problems.append(_finding(task, "its tags are not what its records give"))
        return problems

    def _as_stored(self, entry: EntryRow) -> EntryRow:
        """An entry with the status that a decision of any task gave it."""
        by = self._reader.edges(target=entry.address, relation="supersedes", limit=1)
        return entry._replace(status="superseded") if by else entry

    def _gather(self, record: Record, body: dict[str, Any], edges: set[EdgeKey]) -> None:
        if record.kind == "learned":
            self._learned.append((record.seq, body))
        else:
            self._derived |= edges

    def graph(self) -> list[Problem]:
        """Compare nodes and edges, once all tasks have been walked."""
        nodes, edges = self._written()
        stored = {row.node.id: row.node for row in self._reader.known_nodes()}
        problems: list[Problem] = []
        if graph_of(stored.values(), ()) != graph_of(nodes.values(), ()):
            problems.append(_finding("knowledge", "its nodes are not what the records give"))
        if {edge.key for edge in self._reader.all_edges()} != edges:
            problems.append(_finding("edges", "they are not what the records give"))
        return problems

    def _written(self) -> tuple[dict[str, Node], set[EdgeKey]]:
        """Nodes and edges after everything that was learned and forgotten, in that order."""
        nodes: dict[str, Node] = {}
        edges = set(self._derived)
        for _, body in sorted(self._learned, key=lambda pair: pair[0]):
            gone = set(body.get("forgotten_nodes", ()))
            for name in gone:
                nodes.pop(name, None)
            dropped = {_key(edge) for edge in body.get("forgotten_edges", ())}
            if gone:
                dropped |= {key for key in edges if key[0] in gone or key[2] in gone}
            edges -= dropped
            nodes.update((node["id"], node_of(node)) for node in body.get("nodes", ()))
            edges |= {_key(edge) for edge in body.get("edges", ())}
        return nodes, edges


def _key(edge: dict[str, Any]) -> EdgeKey:
    return (edge["source"], edge["relation"], edge["target"])


def _finding(where: str, message: str) -> Problem:
    return Problem(where, "derived_rows", message)

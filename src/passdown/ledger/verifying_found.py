"""Verify, second part: is what search and the graph hold what the records give?

The entries of a task's items are compared as its records are walked. Edges, tags and written nodes
may be replaced or taken away by later records of other tasks, so they are gathered on the way and
compared at the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from passdown.errors import Problem
from passdown.model.findable import KNOWLEDGE, NODE_PREFIX, KnownRow, found_in
from passdown.model.graph import graph_of
from passdown.model.kinds import stream_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from passdown.model.documents import Replayed
    from passdown.model.findable import EntryRow, Found
    from passdown.model.rows import ItemRow
    from passdown.store.statements import Reader

    EdgeKey = tuple[str, str, str]


class _Learned(NamedTuple):
    """What a record brought of written knowledge, and which record that is."""

    seq: int
    task: str
    position: int
    found: Found


class _Written(NamedTuple):
    """What stands after everything that was learned and forgotten."""

    nodes: dict[str, KnownRow]
    entries: dict[str, EntryRow]
    edges: dict[EdgeKey, Mapping[str, str]]


class FoundCheck:
    """Gathers, task by task, what should be found, and compares it with what is."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._derived: dict[EdgeKey, int] = {}
        self._tags: set[tuple[str, str]] = set()
        self._learned: list[_Learned] = []
        self._known: dict[str, EntryRow] = {}
        self._stored = 0

    def task(self, task: str, replayed: Replayed) -> list[Problem]:
        """Compare the entries of a task's items; its records are intact."""
        by_position: dict[int, list[ItemRow]] = {}
        for row in replayed.rows.values():
            by_position.setdefault(row.position, []).append(row)
        expected: list[EntryRow] = []
        for record in self._reader.records(stream_of(task)):
            found = found_in(record, record.document(), by_position.get(record.position, ()))
            if record.kind == "learned":
                self._learned.append(_Learned(record.seq, task, record.position, found))
                continue
            expected += [self._as_stored(entry) for entry in found.entries]
            self._tags.update(found.tags)
            self._derived.update((edge.key, record.seq) for edge in found.edges)
        for need in replayed.details["depends_on"]:
            self._derived[f"task:{task}", "depends_on", f"task:{need}"] = 0
        stored = self._reader.entries_of_task(task)
        self._stored += len(stored)
        self._known.update((entry.address, entry) for entry in stored if entry.kind == KNOWLEDGE)
        if [entry for entry in stored if entry.kind != KNOWLEDGE] == expected:
            return []
        return [_finding(task, "what search finds of it is not what its records give")]

    def _as_stored(self, entry: EntryRow) -> EntryRow:
        """An entry with the status that a decision of another task gave it."""
        by = self._reader.edges(target=entry.address, relation="supersedes")
        is_replaced = any(not edge.source.startswith(f"{entry.task}#") for edge in by)
        return entry._replace(status="superseded") if is_replaced else entry

    def graph(self) -> list[Problem]:
        """Compare nodes, edges and tags, once all tasks have been walked."""
        written = self._written()
        reader = self._reader
        nodes = {row.node.id: _sorted_row(row) for row in reader.known_nodes()}
        edges = {edge.key: dict(edge.attributes) for edge in reader.all_edges()}
        tags = {(tag, name) for name, row in written.nodes.items() for tag in row.node.tags}
        count = reader.entries_left(0)
        right = {
            "knowledge": nodes == written.nodes and self._known == written.entries,
            "edges": edges == written.edges,
            "tags": reader.all_tags() == self._tags | tags,
            "entries": count == self._stored == reader.text_count(),
        }
        message = "they are not what the records give"
        return [_finding(name, message) for name, is_right in right.items() if not is_right]

    def _written(self) -> _Written:
        """Nodes, their entries and edges after all that was learned and forgotten, in order."""
        written = _Written({}, {}, {key: {} for key in self._derived})
        for learned in sorted(self._learned, key=lambda one: one.seq):
            self._forget(written, learned)
            for node in learned.found.nodes:
                row = KnownRow(node, learned.task, learned.position)
                written.nodes[node.id] = _sorted_row(row)
            written.entries.update((entry.address, entry) for entry in learned.found.entries)
            for edge in learned.found.edges:
                known = written.edges.get(edge.key, {})
                written.edges[edge.key] = dict(edge.attributes) or known
        return written

    def _forget(self, written: _Written, learned: _Learned) -> None:
        gone = set(learned.found.forgotten_nodes)
        for name in gone:
            written.nodes.pop(name, None)
            written.entries.pop(NODE_PREFIX + name, None)
        dropped = set(learned.found.forgotten_edges)
        if gone:
            dropped |= {key for key in written.edges if key[0] in gone or key[2] in gone}
        for key in dropped & written.edges.keys():
            if self._derived.get(key, 0) > learned.seq:  # a later record brought it again
                written.edges[key] = {}
            else:
                del written.edges[key]


def _sorted_row(row: KnownRow) -> KnownRow:
    return row._replace(node=graph_of([row.node], ()).nodes[0])


def _finding(where: str, message: str) -> Problem:
    return Problem(where, "derived_rows", message)

"""Verify, second part: is what search and the graph hold what the records give?

The entries of a task's items are compared as its records are walked. Edges, tags and written nodes
may be replaced or taken away by later records of other tasks, so they are gathered on the way and
compared at the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from passdown.errors import Problem
from passdown.model.findable import KNOWLEDGE, found_in
from passdown.model.found_rows import NODE_PREFIX, Found, KnownRow
from passdown.model.graph import graph_of
from passdown.model.kinds import stream_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from passdown.model.found_rows import EntryRow
    from passdown.model.replaying import Replayed
    from passdown.model.rows import ItemRow
    from passdown.store.statements import Reader

    EdgeKey = tuple[str, str, str]


class _Brought(NamedTuple):
    """What a record brought to the graph, and which record that is."""

    seq: int
    task: str
    position: int
    found: Found


class _EdgeRow(NamedTuple):
    """An edge as it stands: what it says, and the record that brought it."""

    attributes: Mapping[str, str]
    task: str
    position: int


class _Written(NamedTuple):
    """What stands after everything that was learned and forgotten."""

    nodes: dict[str, KnownRow]
    entries: dict[str, EntryRow]
    edges: dict[EdgeKey, _EdgeRow]


class FoundCheck:
    """Gathers, task by task, what should be found, and compares it with what is."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._needed: dict[EdgeKey, _EdgeRow] = {}
        self._tags: set[tuple[str, str]] = set()
        self._brought: list[_Brought] = []
        self._known: dict[str, EntryRow] = {}
        self._stored = 0

    def task(self, task: str, replayed: Replayed) -> list[Problem]:
        """Compare the entries of a task's items; its records are intact."""
        by_position: dict[int, list[ItemRow]] = {}
        for row in replayed.rows.values():
            by_position.setdefault(row.position, []).append(row)
        expected: list[EntryRow] = []
        needs_since = 0
        needs: object = None
        for record in self._reader.records(stream_of(task)):
            body = record.document()
            found = found_in(record, body, by_position.get(record.position, ()))
            if record.kind == "learned":
                self._brought.append(_Brought(record.seq, task, record.position, found))
                continue
            if record.kind in ("task_created", "task_changed"):
                told = body.get("depends_on", needs)
                needs_since, needs = (record.position if told != needs else needs_since), told
            expected += [self._as_stored(entry) for entry in found.entries]
            self._tags.update(found.tags)
            if found.edges:
                only = Found((), found.edges)
                self._brought.append(_Brought(record.seq, task, record.position, only))
        row = _EdgeRow({}, task, needs_since)
        for need in replayed.details["depends_on"]:
            self._needed[f"task:{task}", "depends_on", f"task:{need}"] = row
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
        edges = {
            edge.key: _EdgeRow(dict(edge.attributes), task, position)
            for edge, task, position in reader.edges_with_origin()
        }
        tags = {(tag, name) for name, row in written.nodes.items() for tag in row.node.tags}
        count = reader.entries_left(0)
        right = {
            "knowledge": nodes == written.nodes and self._known == written.entries,
            "edges": edges == written.edges,
            "tags": reader.all_tags() == self._tags | tags,
            "entries": count == self._stored == reader.text_count(),
            "numbers": reader.next_number() > reader.newest_entry(),
        }
        message = "they are not what the records give"
        return [_finding(name, message) for name, is_right in right.items() if not is_right]

    def _written(self) -> _Written:
        """Nodes, their entries and edges after all that was brought and forgotten, in order."""
        written = _Written({}, {}, dict(self._needed))
        for brought in sorted(self._brought, key=lambda one: one.seq):
            _, task, position, found = brought
            _forget(written, found)
            for node in found.nodes:
                written.nodes[node.id] = _sorted_row(KnownRow(node, task, position))
            written.entries.update((entry.address, entry) for entry in found.entries)
            for edge in found.edges:
                known = written.edges.get(edge.key)
                attributes = dict(edge.attributes)
                # What says nothing new leaves the edge with those who brought it first.
                if known is None or (attributes and attributes != known.attributes):
                    written.edges[edge.key] = _EdgeRow(attributes, task, position)
        return written


def _forget(written: _Written, found: Found) -> None:
    gone = set(found.forgotten_nodes)
    for name in gone:
        written.nodes.pop(name, None)
        written.entries.pop(NODE_PREFIX + name, None)
    dropped = set(found.forgotten_edges)
    if gone:
        dropped |= {key for key in written.edges if key[0] in gone or key[2] in gone}
    for key in dropped:
        written.edges.pop(key, None)


def _sorted_row(row: KnownRow) -> KnownRow:
    return row._replace(node=graph_of([row.node], ()).nodes[0])


def _finding(where: str, message: str) -> Problem:
    return Problem(where, "derived_rows", message)

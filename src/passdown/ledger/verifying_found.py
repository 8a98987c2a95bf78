"""Verify, second part: is what search and the graph hold what the records give?

The entries of a task's items are compared as its records are walked. Edges, tags and written nodes
may be replaced or taken away by later records of other tasks, so they are gathered on the way and
compared at the end.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from passdown.errors import Problem
from passdown.model.findable import KNOWLEDGE, found_in
from passdown.model.found_rows import NODE_PREFIX, Found, KnownRow
from passdown.model.graph import graph_of
from passdown.store.finding import MOST_AUTHORS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from passdown.model.found_rows import EntryRow
    from passdown.model.record import Record
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


class TaskFound:
    """What the records of one task bring, gathered as they are walked.

    Once there are `findings` about them, no more is: what a damaged record brings says nothing.
    """

    def __init__(self, task: str, findings: Sequence[Problem]) -> None:
        self.task = task
        self._findings = findings
        self.entries: list[EntryRow] = []
        self.tags: set[tuple[str, str]] = set()
        self.brought: list[_Brought] = []
        self.needs_since = 0
        self._needs: object = None

    def add(self, record: Record, body: dict[str, Any], added: Sequence[ItemRow]) -> None:
        """One more record, with the items that it brought."""
        if self._findings:
            return
        found = found_in(record, body, added)
        if record.kind == "learned":
            self.brought.append(_Brought(record.seq, self.task, record.position, found))
            return
        if record.kind in ("task_created", "task_changed"):
            needs = body.get("depends_on", self._needs)
            self.needs_since = record.position if needs != self._needs else self.needs_since
            self._needs = needs
        self.entries += found.entries
        self.tags.update(found.tags)
        if found.edges:
            only = Found((), found.edges)
            self.brought.append(_Brought(record.seq, self.task, record.position, only))


class FoundCheck:
    """Gathers, task by task, what should be found, and compares it with what is."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._needed: dict[EdgeKey, _EdgeRow] = {}
        self._tags: set[tuple[str, str]] = set()
        self._brought: list[_Brought] = []
        self._known: dict[str, EntryRow] = {}
        self._authors: set[str] = set()
        self._stored = 0

    def task(self, brought: TaskFound, replayed: Replayed) -> list[Problem]:
        """Compare the entries of a task's items; its records are intact."""
        task = brought.task
        self._tags |= brought.tags
        self._brought += brought.brought
        statuses = {row.address: row.status for row in replayed.rows.values()}
        expected = [self._as_stored(entry, statuses[entry.address]) for entry in brought.entries]
        row = _EdgeRow({}, task, brought.needs_since)
        for need in replayed.details["depends_on"]:
            self._needed[f"task:{task}", "depends_on", f"task:{need}"] = row
        stored = self._reader.entries_of_task(task)
        self._stored += len(stored)
        self._authors.update(entry.agent for entry in stored)
        self._known.update((entry.address, entry) for entry in stored if entry.kind == KNOWLEDGE)
        if [entry for entry in stored if entry.kind != KNOWLEDGE] == expected:
            return []
        return [_finding(task, "what search finds of it is not what its records give")]

    def _as_stored(self, entry: EntryRow, status: str) -> EntryRow:
        """An entry with the status of its item, or that a decision of another task gave it."""
        by = self._superseders.get(entry.address, ())
        if any(not source.startswith(f"{entry.task}#") for source in by):
            status = "superseded"
        return entry if status == entry.status else entry._replace(status=status)

    @cached_property
    def _superseders(self) -> dict[str, list[str]]:
        """What supersedes each address, told once: to ask for every entry takes longer."""
        found: dict[str, list[str]] = {}
        for edge in self._reader.all_edges("supersedes"):
            found.setdefault(edge.target, []).append(edge.source)
        return found

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
            "authors": self._are_named(reader.authors()),
        }
        message = "they are not what the records give"
        return [_finding(name, message) for name, is_right in right.items() if not is_right]

    def _are_named(self, told: Sequence[str]) -> bool:
        """Whether all who wrote something are told; names may outlast what was forgotten."""
        return len(told) >= MOST_AUTHORS or self._authors.issubset(told)

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

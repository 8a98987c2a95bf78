"""Verify that the store still holds what was written. Findings name what is broken and where."""

from __future__ import annotations

import json
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from passdown.core.documents import answer_note
from passdown.core.fold import Replayed, replay
from passdown.core.graph import graph_of
from passdown.core.index_entries import KNOWLEDGE, index_changes
from passdown.core.kinds import RECOVERY_STREAM, task_of
from passdown.core.record import GENESIS, Head
from passdown.core.rows import NODE_PREFIX, IndexChanges, KnowledgeRow, TaskRow
from passdown.core.types import JsonObject
from passdown.errors import PassdownError, Problem
from passdown.store.search_queries import MOST_AUTHORS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from passdown.core.record import Record
    from passdown.core.rows import EntryRow, ItemRow
    from passdown.store.protocol import Store
    from passdown.store.statements import Reader


if TYPE_CHECKING:
    EdgeKey = tuple[str, str, str]


class _GraphPart(NamedTuple):
    """What a record added to the graph, and which record that is."""

    seq: int
    task: str
    position: int
    found: IndexChanges


class _EdgeRow(NamedTuple):
    """An edge: its attributes, and the record that added it."""

    attributes: Mapping[str, str]
    task: str
    position: int


class _WrittenGraph(NamedTuple):
    """What is left after everything that was learned and forgotten."""

    nodes: dict[str, KnowledgeRow]
    entries: dict[str, EntryRow]
    edges: dict[EdgeKey, _EdgeRow]


class TaskIndex:
    """What the records of one task bring, gathered as they are walked.

    Once there are `findings` about them, no more is: what a damaged record brings says nothing.
    """

    def __init__(self, task: str, findings: Sequence[Problem]) -> None:
        self.task = task
        self._findings = findings
        self.entries: list[EntryRow] = []
        self.tags: set[tuple[str, str]] = set()
        self.brought: list[_GraphPart] = []
        self.needs_since = 0
        self._needs: object = None

    def add(self, record: Record, body: dict[str, Any], added: Sequence[ItemRow]) -> None:
        """One more record, with the items that it added."""
        if self._findings:
            return
        found = index_changes(record, body, added)
        if record.kind == "learned":
            self.brought.append(_GraphPart(record.seq, self.task, record.position, found))
            return
        if record.kind in ("task_created", "task_changed"):
            needs = body.get("depends_on", self._needs)
            self.needs_since = record.position if needs != self._needs else self.needs_since
            self._needs = needs
        self.entries += found.entries
        self.tags.update(found.tags)
        if found.edges:
            only = IndexChanges((), found.edges)
            self.brought.append(_GraphPart(record.seq, self.task, record.position, only))


class IndexCheck:
    """Gathers, task by task, what should be found, and compares it with what is."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._needed: dict[EdgeKey, _EdgeRow] = {}
        self._tags: set[tuple[str, str]] = set()
        self._brought: list[_GraphPart] = []
        self._known: dict[str, EntryRow] = {}
        self._authors: set[str] = set()
        self._stored = 0

    def task(self, brought: TaskIndex, replayed: Replayed) -> list[Problem]:
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
        return [
            Problem(task, "derived_rows", "what search finds of it is not what its records give")
        ]

    def _as_stored(self, entry: EntryRow, status: str) -> EntryRow:
        """An entry with the status of its item, or that a decision of another task gave it."""
        by = self._superseders.get(entry.address, ())
        if any(not source.startswith(f"{entry.task}#") for source in by):
            status = "superseded"
        return entry if status == entry.status else entry._replace(status=status)

    @cached_property
    def _superseders(self) -> dict[str, list[str]]:
        """What supersedes each address, read once: to ask for every entry takes longer."""
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
        return [
            Problem(name, "derived_rows", message)
            for name, is_right in right.items()
            if not is_right
        ]

    def _are_named(self, listed: Sequence[str]) -> bool:
        """Whether all who wrote something are listed; names may outlast what was forgotten."""
        return len(listed) >= MOST_AUTHORS or self._authors.issubset(listed)

    def _written(self) -> _WrittenGraph:
        """Nodes, their entries and edges after all that was added and forgotten, in order."""
        written = _WrittenGraph({}, {}, dict(self._needed))
        for brought in sorted(self._brought, key=lambda one: one.seq):
            _, task, position, found = brought
            _forget(written, found)
            for node in found.nodes:
                written.nodes[node.id] = _sorted_row(KnowledgeRow(node, task, position))
            written.entries.update((entry.address, entry) for entry in found.entries)
            for edge in found.edges:
                known = written.edges.get(edge.key)
                attributes = dict(edge.attributes)
                # What says nothing new leaves the edge with those who added it first.
                if known is None or (attributes and attributes != known.attributes):
                    written.edges[edge.key] = _EdgeRow(attributes, task, position)
        return written


def _forget(written: _WrittenGraph, found: IndexChanges) -> None:
    gone = set(found.forgotten_nodes)
    for name in gone:
        written.nodes.pop(name, None)
        written.entries.pop(NODE_PREFIX + name, None)
    dropped = set(found.forgotten_edges)
    if gone:
        dropped |= {key for key in written.edges if key[0] in gone or key[2] in gone}
    for key in dropped:
        written.edges.pop(key, None)


def _sorted_row(row: KnowledgeRow) -> KnowledgeRow:
    return row._replace(node=graph_of([row.node], ()).nodes[0])


if TYPE_CHECKING:
    Progress = Callable[[int, int], None]


# What reading a damaged value may raise, where the database itself saw nothing wrong.
_UNREADABLE = (ValueError, KeyError, TypeError, IndexError, AttributeError)


class Verification(NamedTuple):
    """The result of a verification."""

    findings: tuple[Problem, ...]
    streams: int
    records: int

    @property
    def ok(self) -> bool:
        """Whether everything is as it was written."""
        return not self.findings

    def to_dict(self) -> JsonObject:
        """The result as a plain JSON object."""
        findings = [finding.to_dict() for finding in self.findings]
        counts = {"streams": self.streams, "records": self.records}
        return {"ok": self.ok, **counts, "findings": findings}


def verify(
    store: Store,
    *,
    against: Mapping[str, tuple[int, str]] | None = None,
    chain_only: bool = False,
    progress: Progress | None = None,
) -> Verification:
    """Check the whole store. `against` maps streams to (position, digest) kept in another place."""
    findings: list[Problem] = [] if chain_only else list(store.check_pages())
    with store.reading() as reader:
        visit = _StreamWalk(reader, progress)
        try:
            for head in reader.heads():
                findings += visit.stream(head, chain_only=chain_only)
            findings += visit.leftovers()
            findings += [] if chain_only else visit.found.graph()
            findings += _against(reader, against or {})
        except PassdownError as error:
            findings.append(Problem("", "unreadable", error.message))
        except _UNREADABLE as error:
            findings.append(Problem("", "unreadable", f"a stored value can't be read: {error}"))
    if progress:
        progress(visit.records, visit.records)
    return Verification(tuple(findings), visit.streams, visit.records)


class _StreamWalk:
    """One walk over all streams, counting as it goes."""

    def __init__(self, reader: Reader, progress: Progress | None) -> None:
        self.reader = reader
        self.streams = 0
        self.records = 0
        self._tasks = 0
        self.found = IndexCheck(reader)
        self._progress = progress
        self._total = reader.totals()[1] if progress else 0

    def stream(self, head: Head, *, chain_only: bool) -> list[Problem]:
        """Check one stream: its chain, its head and, for a task, its derived rows."""
        self.streams += 1
        findings: list[Problem] = []
        last = Head(head.stream, 0, GENESIS)

        def checked() -> Iterator[Record]:
            nonlocal last
            for record in self.reader.records(head.stream):
                findings.extend(_check_record(record, last.position, last.digest))
                last = Head(head.stream, record.position, record.digest)
                self._count()
                yield record

        task = task_of(head.stream)
        if task is not None:
            self._tasks += 1
        if chain_only or task is None:
            for _ in checked():
                pass
        else:
            findings += _check_derived(self.found, self.reader, task, checked(), findings)
        return findings + _check_head(head, last)

    def leftovers(self) -> list[Problem]:
        """Records or tasks that belong to no stream."""
        counted = self.reader.counts()
        found: list[Problem] = []
        if counted["records"] != self.records:
            message = f"{counted['records']} are stored, {self.records} belong to streams"
            found.append(Problem("records", "stray_records", message))
        if counted["tasks"] != self._tasks:
            message = f"{counted['tasks']} are stored, {self._tasks} have records"
            found.append(Problem("tasks", "derived_rows", message))
        return found

    def _count(self) -> None:
        self.records += 1
        if self._progress and self.records % 1_000 == 0:
            self._progress(min(self.records, self._total), self._total)


def _check_head(head: Head, last: Head) -> list[Problem]:
    if head == last:
        return []
    message = f"the head says version {head.position}, the records end at {last.position}"
    if head.position == last.position:
        message = "the head's digest is not that of the last record"
    return [Problem(f"{head.stream}@{head.position}", "head_mismatch", message)]


def _check_record(record: Record, position: int, digest: str) -> list[Problem]:
    where = f"{record.stream}@{record.position}"
    found: list[Problem] = []
    if record.position != position + 1:
        message = f"version {position + 1} is missing before version {record.position}"
        found.append(Problem(where, "gap", message))
    if record.previous != digest:
        found.append(Problem(where, "chain_broken", "does not follow the record before it"))
    if not record.is_intact():
        found.append(Problem(where, "chain_broken", "its content is not what was written"))
    return found


def _check_derived(
    known: IndexCheck,
    reader: Reader,
    task: str,
    records: Iterator[Record],
    findings: list[Problem],
) -> list[Problem]:
    """Compare the derived rows of a task with a replay of its records."""
    brought = TaskIndex(task, findings)
    try:
        replayed = replay(records, seen=brought.add, sized=True, with_documents=False)
    except _UNREADABLE as error:
        for _ in records:
            pass
        return [] if findings else [Problem(task, "unreadable", f"can't be replayed: {error}")]
    row = reader.task(task)
    if replayed is None or row is None:
        return [Problem(task, "derived_rows", "the task's row is missing")]
    needs = set(replayed.details["depends_on"])
    is_as_recorded = {
        "the task's row is": row._replace(details={}) == _expected_row(reader, task, replayed),
        "its details are": row.details == replayed.details,
        "its dependencies are": sorted(reader.needs(task)) == sorted(needs),
        "its links are": reader.links_of_task(task) == sorted(replayed.links.values()),
        "its labels are": reader.labels_of_task(task) == sorted(replayed.labels),
        "its inbox is": reader.inbox_of_task(task) == replayed.inbox,
    }
    found = [
        Problem(task, "derived_rows", f"{what} not what its records give")
        for what, is_right in is_as_recorded.items()
        if not is_right
    ]
    found += _check_items(task, reader.items_since(task), replayed.rows)
    return found if findings else found + known.task(brought, replayed)


def _expected_row(reader: Reader, task: str, replayed: Replayed) -> TaskRow:
    """The row of a task that its records give, without its details."""
    header = replayed.header
    status = header["base_status"]
    if status not in ("completed", "cancelled") and reader.open_links_to(task):
        status = "blocked"
    return TaskRow(
        task=task,
        version=replayed.last.position,
        digest=replayed.last.digest,
        status=status,
        phase=header["phase"],
        holder=header["holder"],
        created_seq=replayed.first_seq,
        updated_seq=replayed.last.seq,
        header=header,
        details={},
    )


def _check_items(
    task: str, stored: list[ItemRow], expected: dict[tuple[str, int], ItemRow]
) -> list[Problem]:
    rows = {(row.letter, row.ordinal): row for row in stored}
    found: list[Problem] = []
    for letter, ordinal in sorted(rows.keys() ^ expected.keys()):
        found.append(Problem(f"{task}#{letter}{ordinal}", "derived_rows", "is missing or extra"))
    for key in sorted(rows.keys() & expected.keys()):
        if _without_earlier(rows[key]) != expected[key]:
            where = f"{task}#{key[0]}{key[1]}"
            found.append(Problem(where, "derived_rows", "is not what its records give"))
    return found


def _without_earlier(row: ItemRow) -> ItemRow:
    """A row without what a handoff keeps of earlier ones, which its own record can't show."""
    if row.letter != "h":
        return row
    kept = json.loads(row.note)
    own = {name: kept[name] for name in kept if name not in ("decisions", "context_summary")}
    return row._replace(note=answer_note(own))


def _against(reader: Reader, saved: Mapping[str, tuple[int, str]]) -> list[Problem]:
    found: list[Problem] = []
    for stream, (position, digest) in sorted(saved.items()):
        head = reader.head(stream)
        code, message = "", ""
        if head is None:
            code, message = "stream_deleted", "was there; now there is nothing"
        elif head.position < position:
            code = "rollback"
            message = f"was at version {position}; it now ends at {head.position}"
        else:
            record = reader.record(stream, position)
            if record is None or record.digest != digest:
                code = "rewritten"
                message = "was written with another digest: history was rewritten"
        if code:
            decided = _accepted_loss(reader, stream, position)
            found.append(Problem(f"{stream}@{position}", code, message + decided))
    return found


def _accepted_loss(reader: Reader, stream: str, position: int) -> str:
    """Who decided to go on without a version of a task that the ledger has lost; or ""."""
    for record in reader.records(f"{RECOVERY_STREAM}{task_of(stream)}"):
        body = record.document()
        if body["lost_version"] >= position > body["version"]:
            why = f": {body['reason']}" if body.get("reason") else ""
            return f"; {record.author} accepted that at {record.at} (passdown recover){why}"
    return ""


def heads_document(reader: Reader, at: str) -> dict[str, Any]:
    """All heads, to be kept somewhere else."""
    heads = {head.stream: [head.position, head.digest] for head in reader.heads()}
    return {"schema": "passdown/heads/1", "at": at, "heads": heads}


def parse_heads(text: str) -> dict[str, tuple[int, str]]:
    """The heads in a saved document."""
    document = json.loads(text)
    return {stream: (int(head[0]), str(head[1])) for stream, head in document["heads"].items()}

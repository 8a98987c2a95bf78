"""Verify that the store still holds what was written. Findings name what is broken and where."""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from functools import cached_property
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, NamedTuple

from passdown.core.documents import answer_note
from passdown.core.fold import Replayed, replay
from passdown.core.graph import graph_of
from passdown.core.index_entries import KNOWLEDGE, index_changes
from passdown.core.kinds import RECOVERY_STREAM, stream_of, task_of
from passdown.core.record import GENESIS, Head
from passdown.core.rows import NODE_PREFIX, IndexChanges, KnowledgeRow, TaskRow
from passdown.core.types import JsonObject
from passdown.errors import PassdownError, Problem
from passdown.store.search_queries import MOST_AUTHORS

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Self

    from passdown.core.record import Record
    from passdown.core.rows import EntryRow, ItemRow
    from passdown.store.protocol import Store
    from passdown.store.statements import Reader


if TYPE_CHECKING:
    EdgeKey = tuple[str, str, str]
    Progress = Callable[[int, int], None]


class _EdgeRow(NamedTuple):
    """An edge: its attributes, and the record that added it."""

    attributes: Mapping[str, str]
    task: str
    position: int


class _GraphPart(NamedTuple):
    """The edges that the items of a record added; None for one that changed the graph itself."""

    seq: int
    task: str
    position: int
    edges: Sequence[EdgeKey] | None


class _WrittenGraph(NamedTuple):
    """What is left after everything that was learned and forgotten."""

    nodes: dict[str, KnowledgeRow]
    entries: dict[str, EntryRow]
    edges: dict[EdgeKey, _EdgeRow]


class Walked:
    """What was found in some streams, and what their records bring to search and graph.

    It travels between processes as JSON: fields hold plain values, or tuples of them.
    """

    def __init__(self) -> None:
        self.findings: list[Problem] = []
        self.streams = self.records = self.tasks = self.entries = 0
        self.needed: list[tuple[str, list[str], int]] = []
        self.tags: list[tuple[str, str]] = []
        self.graph: list[_GraphPart] = []
        self.authors: set[str] = set()
        self.knowing: list[str] = []

    def to_json(self) -> str:
        """All of it, to be read by `add_json`."""
        told = {**vars(self), "authors": sorted(self.authors)}
        return json.dumps({**told, "findings": [each.to_dict() for each in self.findings]})

    def add_json(self, text: str) -> None:
        """Add what another process found in other streams."""
        told = json.loads(text)
        self.findings += [Problem(**each) for each in told["findings"]]
        for name in ("streams", "records", "tasks", "entries"):
            setattr(self, name, getattr(self, name) + told[name])
        self.needed += told["needed"]
        self.tags += map(tuple, told["tags"])
        self.graph += [_GraphPart(*part) for part in told["graph"]]
        self.authors.update(told["authors"])
        self.knowing += told["knowing"]


class TaskIndex:
    """What the records of one task bring to search and graph, gathered as they are walked.

    Once there are `findings` about them, no more is: what a damaged record brings says nothing.
    """

    def __init__(self, task: str, findings: Sequence[Problem]) -> None:
        self.task = task
        self._findings = findings
        self.entries: list[EntryRow] = []
        self.tags: list[tuple[str, str]] = []
        self.graph: list[_GraphPart] = []
        self.needs_since = 0
        self._needs: object = None

    def add(self, record: Record, body: dict[str, Any], added: Sequence[ItemRow]) -> None:
        """One more record, with the items that it added."""
        if self._findings:
            return
        if record.kind == "learned":
            self.graph.append(_GraphPart(record.seq, self.task, record.position, None))
            return
        found = index_changes(record, body, added)
        if record.kind in ("task_created", "task_changed"):
            needs = body.get("depends_on", self._needs)
            self.needs_since = record.position if needs != self._needs else self.needs_since
            self._needs = needs
        self.entries += found.entries
        self.tags += found.tags
        if found.edges:
            edges = [edge.key for edge in found.edges]
            self.graph.append(_GraphPart(record.seq, self.task, record.position, edges))


class _GraphCheck:
    """Compares nodes, edges and tags with what all records bring."""

    def __init__(self, reader: Reader, walked: Walked) -> None:
        self._reader = reader
        self._walked = walked

    def findings(self) -> list[Problem]:
        """What isn't as the records give it."""
        reader, walked = self._reader, self._walked
        written = self._written()
        nodes = {row.node.id: _sorted_row(row) for row in reader.known_nodes()}
        known = {
            entry.address: entry
            for task in walked.knowing
            for entry in reader.entries_of_task(task)
            if entry.kind == KNOWLEDGE
        }
        tags = {(tag, name) for name, row in written.nodes.items() for tag in row.node.tags}
        right = {
            "knowledge": nodes == written.nodes and known == written.entries,
            "edges": self._has_edges(written.edges),
            "tags": reader.all_tags() == tags.union(walked.tags),
            "entries": reader.entries_left(0) == walked.entries == reader.text_count(),
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
        return len(listed) >= MOST_AUTHORS or self._walked.authors.issubset(listed)

    def _has_edges(self, written: dict[EdgeKey, _EdgeRow]) -> bool:
        """Whether the stored edges are those that were written, which are used up."""
        for source, relation, target, text, task, position in self._reader.table("edges"):
            attributes: dict[str, str] = json.loads(text) if text != "{}" else {}
            if written.pop((source, relation, target), None) != (attributes, task, position):
                return False
        return not written

    def _written(self) -> _WrittenGraph:
        """Nodes, their entries and edges after all that was added and forgotten, in order."""
        written = _WrittenGraph({}, {}, {})
        for task, needs, since in self._walked.needed:
            for need in needs:
                row = _EdgeRow({}, task, since)
                written.edges[f"task:{task}", "depends_on", f"task:{need}"] = row
        for _, task, position, edges in sorted(self._walked.graph, key=lambda part: part.seq):
            if edges is None:
                self._learn(written, task, position)
                continue
            row = _EdgeRow({}, task, position)
            for source, relation, target in edges:
                # What says nothing new leaves the edge with those who added it first.
                written.edges.setdefault((source, relation, target), row)
        return written

    def _learn(self, written: _WrittenGraph, task: str, position: int) -> None:
        """What a record changed that is about the graph itself."""
        (record,) = self._reader.records_at(stream_of(task), [position])
        found = index_changes(record, record.document(), ())
        _forget(written, found)
        for node in found.nodes:
            written.nodes[node.id] = _sorted_row(KnowledgeRow(node, task, position))
        written.entries.update((entry.address, entry) for entry in found.entries)
        for edge in found.edges:
            known = written.edges.get(edge.key)
            attributes = dict(edge.attributes)
            if known is None or (attributes and attributes != known.attributes):
                written.edges[edge.key] = _EdgeRow(attributes, task, position)


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


# What reading a damaged value may raise, where the database itself saw nothing wrong.
_UNREADABLE = (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError)


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
    """Check the whole store. `against` maps streams to (position, digest) kept in another place.

    A large store is divided among as many processes as there are cores.
    """
    findings: list[Problem] = []
    pages: list[Problem] | None = [] if chain_only else None
    with store.reading() as reader:
        walk = _StreamWalk(reader, chain_only=chain_only)
        walked = walk.walked
        try:
            moment = reader.totals()
            own, *others = _shares(list(reader.heads()), 1 if chain_only else _cores())
            walk.report(progress, moment[1], 1 + len(others))
            with _Workers(store.url, moment, others) as workers:
                pages = store.check_pages() if pages is None else pages
                walk.streams(own)
                walk.streams(workers.add_to(walked))
            findings += [*walked.findings, *_leftovers(reader, walked)]
            findings += [] if chain_only else _GraphCheck(reader, walked).findings()
            findings += _against(reader, against or {})
        except PassdownError as error:
            findings.append(Problem("", "unreadable", error.message))
        except _UNREADABLE as error:
            findings.append(Problem("", "unreadable", f"a stored value can't be read: {error}"))
    if pages is None:
        pages = store.check_pages()
    if progress:
        progress(walked.records, walked.records)
    return Verification((*pages, *findings), walked.streams, walked.records)


FEWEST_RECORDS = 2_000
"""A process is started for so many records at least: it takes time to start."""

_MOST_CORES = 16


def _cores() -> int:
    """How many processes may work at the same time."""
    if hasattr(os, "sched_getaffinity"):
        return min(len(os.sched_getaffinity(0)), _MOST_CORES)
    return min(os.cpu_count() or 1, _MOST_CORES)


def _shares(heads: list[Head], cores: int) -> list[list[Head]]:
    """Streams divided into parts with about as many records in each, one for each core."""
    total = sum(head.position for head in heads)
    shares: list[list[Head]] = [[] for _ in range(max(1, min(cores, total // FEWEST_RECORDS)))]
    sizes = [(0, number) for number in range(len(shares))]
    for head in sorted(heads, key=lambda head: -head.position):
        size, number = heappop(sizes)
        shares[number].append(head)
        heappush(sizes, (size + head.position, number))
    return [sorted(share) for share in shares]


# A new process, not a fork: it never runs the caller's own program again.
# What opens a store is above the ledger.
_PROGRAM = """
import sys
sys.path[:] = sys.argv[1:]
from passdown.workspace.maintenance import verify_share
verify_share()
"""


class _Workers:
    """Other processes that check a share of the streams each."""

    def __init__(self, url: str, moment: tuple[int, int], shares: list[list[Head]]) -> None:
        self._started: list[tuple[subprocess.Popen[str], list[Head]]] = []
        self._shares = shares
        self._url = url
        self._moment = moment

    def __enter__(self) -> Self:
        """Start them."""
        import subprocess

        for share in self._shares:
            asked = json.dumps({"url": self._url, "moment": self._moment, "heads": share})
            started = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, *sys.path],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                encoding="utf-8",
            )
            self._started.append((started, share))
            if started.stdin is not None:
                with suppress(BrokenPipeError):
                    started.stdin.write(asked + "\n")
                    started.stdin.flush()
        return self

    def add_to(self, walked: Walked) -> list[Head]:
        """Wait for what they found, and add it; gives the streams that one of them couldn't check:
        it didn't start, or saw another moment of the store.
        """
        left: list[Head] = []
        for started, share in self._started:
            answer, _ = started.communicate()
            if started.returncode == 0:
                walked.add_json(answer)
            else:
                left += share
        return left

    def __exit__(self, *_: object) -> None:
        """End those that are still at work: something else has failed."""
        for started, _share in self._started:
            if started.poll() is None:
                started.kill()
                started.communicate()


def checked_share(store: Store, moment: list[int], heads: Iterable[list[Any]]) -> str | None:
    """What is found in some streams of a store, as JSON; None at another moment of it."""
    with store.reading() as reader:
        if [*reader.totals()] != moment:
            return None
        walk = _StreamWalk(reader, chain_only=False)
        walk.streams(Head(*head) for head in heads)
        return walk.walked.to_json()


class _StreamWalk:
    """A walk over some streams at one moment, counting as it goes."""

    def __init__(self, reader: Reader, *, chain_only: bool) -> None:
        self._reader = reader
        self._chain_only = chain_only
        self.walked = Walked()
        self._progress: Progress | None = None
        self._total = 0
        self._times = 1

    def report(self, progress: Progress | None, total: int, times: int) -> None:
        """Report how far it is, of so many records, where so many processes are at work."""
        self._progress, self._total, self._times = progress, total, times

    def streams(self, heads: Iterable[Head]) -> None:
        """Check some streams."""
        for head in heads:
            self.walked.findings += self._stream(head)

    def _stream(self, head: Head) -> list[Problem]:
        """Check one stream: its chain, its head and, for a task, its derived rows."""
        self.walked.streams += 1
        findings: list[Problem] = []
        last = Head(head.stream, 0, GENESIS)

        def checked() -> Iterator[Record]:
            nonlocal last
            for record in self._reader.records(head.stream):
                findings.extend(_check_record(record, last.position, last.digest))
                last = Head(head.stream, record.position, record.digest)
                self._count()
                yield record

        task = task_of(head.stream)
        if task is not None:
            self.walked.tasks += 1
        if self._chain_only or task is None:
            for _ in checked():
                pass
        else:
            findings += self._derived(task, checked(), findings)
        return findings + _check_head(head, last)

    def _count(self) -> None:
        self.walked.records += 1
        done = self.walked.records * self._times
        if self._progress and self.walked.records % 1_000 == 0:
            self._progress(min(done, self._total), self._total)

    def _derived(
        self, task: str, records: Iterator[Record], findings: list[Problem]
    ) -> list[Problem]:
        """Compare the derived rows of a task with a replay of its records."""
        reader = self._reader
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
        return found if findings else found + self._entries(brought, replayed)

    def _entries(self, brought: TaskIndex, replayed: Replayed) -> list[Problem]:
        """Compare the entries of a task's items; its records are intact."""
        task, walked = brought.task, self.walked
        walked.tags += brought.tags
        walked.graph += brought.graph
        if needs := replayed.details["depends_on"]:
            walked.needed.append((task, list(needs), brought.needs_since))
        statuses = {row.address: row.status for row in replayed.rows.values()}
        expected = [self._as_stored(entry, statuses[entry.address]) for entry in brought.entries]
        stored = self._reader.entries_of_task(task)
        walked.entries += len(stored)
        walked.authors.update(entry.agent for entry in stored)
        own = [entry for entry in stored if entry.kind != KNOWLEDGE]
        if len(own) < len(stored):
            walked.knowing.append(task)
        if own == expected:
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


def _leftovers(reader: Reader, walked: Walked) -> list[Problem]:
    """Records or tasks that belong to no stream."""
    counted = reader.counts()
    found: list[Problem] = []
    if counted["records"] != walked.records:
        message = f"{counted['records']} are stored, {walked.records} belong to streams"
        found.append(Problem("records", "stray_records", message))
    if counted["tasks"] != walked.tasks:
        message = f"{counted['tasks']} are stored, {walked.tasks} have records"
        found.append(Problem("tasks", "derived_rows", message))
    return found


def _check_head(head: Head, last: Head) -> list[Problem]:
    if head == last:
        return []
    message = f"the head says version {head.position}, the records end at {last.position}"
    if head.position == last.position:
        message = "the head's digest is not that of the last record"
    return [Problem(f"{head.stream}@{head.position}", "head_mismatch", message)]


def _check_record(record: Record, position: int, digest: str) -> list[Problem]:
    is_next = record.position == position + 1 and record.previous == digest
    if record.is_intact() and is_next:
        return []
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

"""Verify: does the store still say what was written? Findings name what is broken and where.

Five checks, in order: the database's own pages; each stream's chain of digests; the heads; the
derived rows against a replay of the records; and, against a list of heads that was kept elsewhere,
what a chain alone can't show: a cut tail, a rewritten or deleted stream, an old copy put back.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from passdown.errors import PassdownError, Problem
from passdown.ledger.verifying_found import FoundCheck, TaskFound
from passdown.model.kinds import task_of
from passdown.model.record import GENESIS, Head
from passdown.model.replaying import Replayed, replay
from passdown.model.rows import TaskRow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from passdown.model.record import Record
    from passdown.model.rows import ItemRow
    from passdown.store.protocol import Store
    from passdown.store.statements import Reader

    Progress = Callable[[int, int], None]


# What reading a damaged value may raise, where the database itself saw nothing wrong.
_UNREADABLE = (ValueError, KeyError, TypeError, IndexError, AttributeError)


class Verified(NamedTuple):
    """The result of a verification."""

    findings: tuple[Problem, ...]
    streams: int
    records: int

    @property
    def ok(self) -> bool:
        """Whether everything is as it was written."""
        return not self.findings


def verify(
    store: Store,
    *,
    against: Mapping[str, tuple[int, str]] | None = None,
    chain_only: bool = False,
    progress: Progress | None = None,
) -> Verified:
    """Check the whole store. `against` maps streams to (position, digest) kept elsewhere."""
    findings: list[Problem] = [] if chain_only else list(store.check_pages())
    with store.reading() as reader:
        visit = _Visit(reader, progress)
        try:
            for head in reader.heads():
                findings += visit.stream(head, chain_only=chain_only)
            findings += visit.leftovers()
            findings += [] if chain_only else visit.found.graph()
            findings += _against(reader, against or {})
        except PassdownError as error:
            findings.append(_finding("", "unreadable", error.message))
        except _UNREADABLE as error:
            findings.append(_finding("", "unreadable", f"a stored value can't be read: {error}"))
    if progress:
        progress(visit.records, visit.records)
    return Verified(tuple(findings), visit.streams, visit.records)


def _finding(where: str, code: str, message: str) -> Problem:
    return Problem(where, code, message)


class _Visit:
    """One walk over all streams, counting as it goes."""

    def __init__(self, reader: Reader, progress: Progress | None) -> None:
        self.reader = reader
        self.streams = 0
        self.records = 0
        self._tasks = 0
        self.found = FoundCheck(reader)
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
            found.append(_finding("records", "stray_records", message))
        if counted["tasks"] != self._tasks:
            message = f"{counted['tasks']} are stored, {self._tasks} have records"
            found.append(_finding("tasks", "derived_rows", message))
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
    return [_finding(f"{head.stream}@{head.position}", "head_mismatch", message)]


def _check_record(record: Record, position: int, digest: str) -> list[Problem]:
    where = f"{record.stream}@{record.position}"
    found: list[Problem] = []
    if record.position != position + 1:
        message = f"version {position + 1} is missing before version {record.position}"
        found.append(_finding(where, "gap", message))
    if record.previous != digest:
        found.append(_finding(where, "chain_broken", "does not follow the record before it"))
    if not record.is_intact():
        found.append(_finding(where, "chain_broken", "its content is not what was written"))
    return found


def _check_derived(
    known: FoundCheck,
    reader: Reader,
    task: str,
    records: Iterator[Record],
    findings: list[Problem],
) -> list[Problem]:
    """Compare the derived rows of a task with a replay of its records."""
    brought = TaskFound(task, findings)
    try:
        replayed = replay(records, seen=brought.add, sized=True)
    except _UNREADABLE as error:
        for _ in records:
            pass
        return [] if findings else [_finding(task, "unreadable", f"can't be replayed: {error}")]
    row = reader.task(task)
    if replayed is None or row is None:
        return [_finding(task, "derived_rows", "the task's row is missing")]
    found: list[Problem] = []
    if row._replace(details={}) != _expected_row(reader, task, replayed):
        found.append(_finding(task, "derived_rows", "the task's row is not what its records give"))
    if row.details != replayed.details:
        found.append(_finding(task, "derived_rows", "its details are not what its records give"))
    if sorted(reader.needs(task)) != sorted(set(replayed.details["depends_on"])):
        found.append(_finding(task, "derived_rows", "its dependencies are not those recorded"))
    if reader.links_of_task(task) != sorted(replayed.links.values()):
        found.append(_finding(task, "derived_rows", "its links are not what its records give"))
    if reader.labels_of_task(task) != sorted(replayed.labels):
        found.append(_finding(task, "derived_rows", "its labels are not what its records give"))
    if reader.inbox_of_task(task) != replayed.inbox:
        found.append(_finding(task, "derived_rows", "its inbox is not what its records give"))
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
        found.append(_finding(f"{task}#{letter}{ordinal}", "derived_rows", "is missing or extra"))
    for key in sorted(rows.keys() & expected.keys()):
        if rows[key] != expected[key]:
            where = f"{task}#{key[0]}{key[1]}"
            found.append(_finding(where, "derived_rows", "is not what its records give"))
    return found


def _against(reader: Reader, saved: Mapping[str, tuple[int, str]]) -> list[Problem]:
    found: list[Problem] = []
    for stream, (position, digest) in sorted(saved.items()):
        head = reader.head(stream)
        where = f"{stream}@{position}"
        if head is None:
            found.append(_finding(where, "stream_deleted", "was there; now there is nothing"))
        elif head.position < position:
            message = f"was at version {position}; it now ends at {head.position}"
            found.append(_finding(where, "rollback", message))
        else:
            record = reader.record(stream, position)
            if record is None or record.digest != digest:
                message = "was written with another digest: history was rewritten"
                found.append(_finding(where, "rewritten", message))
    return found


def heads_document(reader: Reader, at: str) -> dict[str, Any]:
    """All heads, to be kept somewhere else."""
    heads = {head.stream: [head.position, head.digest] for head in reader.heads()}
    return {"schema": "passdown/heads/1", "at": at, "heads": heads}


def parse_heads(text: str) -> dict[str, tuple[int, str]]:
    """The heads in a saved document."""
    document = json.loads(text)
    return {stream: (int(head[0]), str(head[1])) for stream, head in document["heads"].items()}

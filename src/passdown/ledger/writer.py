"""The one write path: redact, check the key and the version, run the guard, chain, append, derive.

All of it happens inside one transaction of the store, so a record and everything derived from it
are written together or not at all.
"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from operator import methodcaller
from typing import TYPE_CHECKING, Any

from passdown.core.documents import answer_note, kept_answer, whole_answer
from passdown.core.fold import (
    COMPLETED,
    NO_TASK,
    Changes,
    TaskBefore,
    fact_keys,
    first_status,
    fold_record,
    open_letters,
    paths_of,
    prepare_items,
    settled_keys,
    status_after,
)
from passdown.core.items import context_summary_of, entry_of
from passdown.core.kinds import LIVE, deliveries_of, stream_of, task_of
from passdown.core.record import Record, canonical_bytes, chained
from passdown.core.redaction import redact, redact_value
from passdown.core.rows import TaskRow
from passdown.core.times import stamp
from passdown.core.types import NEWEST
from passdown.core.values import NamedTuple
from passdown.errors import Conflict, Damaged, InvalidInput, KeyReused, Problem, unknown_task
from passdown.ledger.channel import with_channel, without_channel

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from passdown.core.fold import PreparedItems
    from passdown.core.index_entries import IndexedTexts
    from passdown.core.record import Head
    from passdown.core.rows import ItemRow
    from passdown.store.protocol import Question, Store
    from passdown.store.statements import Reader, Tip, Writer


def derive_again(writer: Writer, record: Record) -> list[str]:
    """Derive the rows of a record that is in the store already; gives other tasks it changed."""
    task = task_of(record.stream)
    if task is None:
        return []
    body = record.document()
    writer.ahead(*queries_ahead(task, record.kind, body))
    before = task_before(writer, task, record.kind, body) if record.position > 1 else NO_TASK
    step = fold_record(before, record, body)
    _answer_of(writer, step)
    apply_changes(writer, record, before, step)
    index_record(writer, record, body, step)
    return touched_tasks(writer, step)


def queries_ahead(task: str, kind: str, body: dict[str, Any]) -> list[Question]:
    """What `before_of` asks, to be asked ahead."""
    letters, paths, keys = open_letters(kind, body), paths_of(body), fact_keys(body)
    return [
        lambda asked: asked.task(task),
        lambda asked: asked.open_items(task, letters),
        lambda asked: asked.known_paths(task, paths),
        *([lambda asked: asked.current_facts(task, keys)] if keys else ()),
        *(
            _decisions_ahead(task)
            if kind == "handoff" and len(body.get("decisions", ())) < 2
            else ()
        ),
        *(methodcaller("item", task, *key) for key in settled_keys(task, body)),
    ]


def task_before(
    reader: Reader, task: str, kind: str, body: dict[str, Any], row: TaskRow | None = None
) -> TaskBefore:
    """The state of a task, as far as a record of this kind has to know it; `row` is the task's,
    where it has been read.
    """
    row = row or reader.existing_task(task)
    open_items = tuple(reader.open_items(task, open_letters(kind, body)))
    known = reader.known_paths(task, paths_of(body))
    settled = {key: reader.item(task, *key) for key in settled_keys(task, body)}
    statuses = {key: item.status for key, item in settled.items() if item is not None}
    facts = reader.current_facts(task, fact_keys(body))
    return TaskBefore(row.details, row.header, open_items, known, row.status, statuses, facts)


def apply_changes(writer: Writer, record: Record, before: TaskBefore, step: Changes) -> None:
    """Bring the derived rows up to date with a record."""
    task, header = step.task, step.header
    writer.put_task(row_after(record, step), with_details=step.details is not None)
    writer.add_items(step.added)
    writer.add_labels(step.labels)
    writer.mark_items(task, step.changed)
    for source in step.unlinked:
        writer.close_links(source, record.seq)
    for source, relation, target in step.links:
        writer.open_link(source, relation, target, record.seq)
    if step.details is not None and step.details["depends_on"] != before.details.get("depends_on"):
        writer.set_needs(task, step.details["depends_on"])
        writer.set_needed(task, step.details["depends_on"], record.position)
    if step.inbox is not None:
        agent, held = step.inbox
        writer.set_inbox(task, agent, header["handoff_version"], held=held)


def row_after(record: Record, step: Changes) -> TaskRow:
    """The row of a task as a record leaves it, but for when the task was created."""
    header = step.header
    return TaskRow(
        task=step.task,
        version=record.position,
        digest=record.digest,
        status=header["base_status"],
        phase=header["phase"],
        holder=header["holder"],
        created_seq=record.seq,
        updated_seq=record.seq,
        header=header,
        details=step.details or step.before.details,
    )


def _unlisted(step: Changes) -> tuple[ItemRow, ...]:
    """The items that a handoff closed because its lists don't have them."""
    if not step.changed:
        return ()
    found = {(each.letter, each.ordinal) for each in step.changed if each.status == "replaced"}
    again = {row.fingerprint for row in step.added}  # asked again, after a person's no
    rows = (row for row in step.before.open_items if (row.letter, row.ordinal) in found)
    return tuple(row for row in rows if row.fingerprint not in again)


def _answer_of(reader: Reader, step: Changes) -> dict[str, Any]:
    """Complete what the row of a handoff keeps for a repeat, before anything of it is stored: the
    newest two decisions that hold are its own, or those of earlier records too. Nothing for other
    records.
    """
    if step.record.kind != "handoff":
        return {}
    closed = {(change.letter, change.ordinal) for change in step.changed}
    own = [
        row
        for row in step.added
        if row.letter == "d" and row.status in LIVE and ("d", row.ordinal) not in closed
    ]
    older: list[dict[str, Any]] = []
    if len(own) < 2:
        gone = {f"{step.task}#{letter}{ordinal}" for letter, ordinal in closed}
        older = recent_decisions(reader, step.task, without=gone)
    decisions = [*older, *_short(own)][-2:]
    # What was said of the state of the work before, where this one says nothing.
    said = "" if context_summary_of(step.body) else step.header["context_summary"]
    more: dict[str, Any] = {"context_summary": said} if said else {}
    if decisions != _own_decisions(step.added):
        more["decisions"] = decisions
    if more:
        kept = kept_answer({**step.answer, **more}, step.record, step.body)
        step.added[0] = step.added[0]._replace(note=answer_note(kept))
    return {**step.answer, "decisions": decisions, **more}


def _own_decisions(added: list[ItemRow]) -> list[dict[str, Any]]:
    """The newest two decisions of a task if they are a record's own, which needn't be kept."""
    return _short([row for row in added if row.letter == "d" and row.status in LIVE])[-2:]


_RECENT, _FURTHER = 8, 200


def _decisions_ahead(task: str) -> list[Question]:
    """What `recent_decisions` asks, to be asked ahead."""
    return [
        lambda asked: asked.superseders(task),
        lambda asked: asked.items_before(task, "d", NEWEST, _RECENT),
    ]


def recent_decisions(
    reader: Reader, task: str, *, without: Collection[str] = ()
) -> list[dict[str, Any]]:
    """The newest two decisions of a task that hold, oldest first."""
    reader.ahead(*_decisions_ahead(task))
    replaced = {*without, *(link.target for link in reader.superseders(task))}
    live: list[ItemRow] = []
    for limit in (_RECENT, _FURTHER):
        newest = reader.items_before(task, "d", NEWEST, limit)
        live = [row for row in newest if row.address not in replaced and row.status in LIVE]
        if len(live) >= 2 or len(newest) < limit:
            break
    return _short(live[:2][::-1])


def _short(decisions: list[ItemRow]) -> list[dict[str, Any]]:
    return [{"summary": row.title, "status": row.status} for row in decisions]


def index_record(
    writer: Writer,
    record: Record,
    body: dict[str, Any],
    step: Changes,
    texts: IndexedTexts | None = None,
) -> None:
    """Bring what can be searched for, and the graph, up to date with a record."""
    from passdown.core.index_entries import SEARCHED_LETTERS, index_changes

    task = task_of(record.stream) or ""
    writer.add_found(index_changes(record, body, step.added, texts), task, record.position)
    marks = [(c.status, f"{task}#{c.letter}{c.ordinal}") for c in step.changed]
    writer.mark_entries([mark for mark in marks if mark[1][len(task) + 1] in SEARCHED_LETTERS])


def touched_tasks(reader: Reader, step: Changes) -> list[str]:
    """Other tasks that a record changed: by blocking, releasing or superseding."""
    names = {target.partition("#")[0] for _, _, target in step.links}
    for source in step.unlinked:
        names.update(link.target.partition("#")[0] for link in reader.links_from(source))
    return sorted(name for name in names if reader.task(name) is not None)


if TYPE_CHECKING:
    Clock = Callable[[], datetime]
    Amend = Callable[[Reader, str, dict[str, Any]], dict[str, Any]]
    Guard = Callable[[Reader, TaskBefore, dict[str, Any]], None]
    Witness = Callable[[Reader, str, Head | None], None]

MAX_BODY_BYTES = 4 * 1_048_576


class Entry(NamedTuple):
    """What is to be written. `expect_version` None means: after whatever is there now.

    With `is_content_key`, the key is made from the content of a handoff: the same again is a repeat
    as long as no other handoff came in between.
    """

    task: str
    kind: str
    author: str
    body: dict[str, Any]
    key: str
    expect_version: int | None = None
    rebase: bool = False
    is_content_key: bool = False


class Prepared(NamedTuple):
    """An entry without secrets, its canonical bytes, the kinds of secrets that it had, its items
    and its texts.
    """

    entry: Entry
    data: bytes
    redacted: tuple[str, ...]
    items: PreparedItems
    texts: IndexedTexts


class StreamEntry(NamedTuple):
    """A record of another stream than a task's: of a run, an agent, a conversation.

    `key` makes a repeat give the first record; `expect` is the position that the stream has to be
    at (None: wherever it is).
    """

    stream: str
    kind: str
    author: str
    body: dict[str, Any]
    key: str = ""
    expect: int | None = None


class _Planned(NamedTuple):
    """The record to append and what it changes; without changes, the record that is repeated."""

    record: Record
    step: Changes | None


class Written(NamedTuple):
    """What was written: the record, its new items, what a handoff answers, the tasks it changed,
    the status of its task from then on, the items that it closed by not listing them, and all that
    it changed in its task.

    `is_replay` when the key had been written before; then nothing was.
    """

    record: Record
    body: dict[str, Any]
    added: list[ItemRow]
    answer: dict[str, Any]
    is_replay: bool = False
    redacted: tuple[str, ...] = ()
    touched: tuple[str, ...] = ()
    status: str = ""
    closed: tuple[ItemRow, ...] = ()
    step: Changes | None = None


def system_clock() -> datetime:
    """The time now, in UTC."""
    return datetime.now(UTC)


class Ledger:
    """All streams of a store; append-only."""

    def __init__(
        self, store: Store, clock: Clock = system_clock, witness: Witness | None = None
    ) -> None:
        """`witness` may refuse a write to a task of which it knows more than the ledger has."""
        self.store = store
        self._clock = clock
        self._witness = witness

    def append(self, given: Entry | Prepared, guard: Guard | None = None) -> Written:
        """Write one entry. `guard` may refuse it by raising, having seen the state of the task."""
        prepared = given if isinstance(given, Prepared) else prepare(given)
        entry, _, redacted, _, texts = prepared
        stream = stream_of(entry.task)
        first = methodcaller("tip", stream, entry.key)

        def more(asked: Reader) -> None:
            asked.ahead(*queries_ahead(entry.task, entry.kind, entry.body))

        # In its turn from the start: what follows looks at other tasks too.
        with self.store.writing([stream], first, more, in_turn=True) as writer:
            planned = self._plan(writer, prepared, guard)
            if planned.step is None:
                return _replayed(writer, planned.record, entry, redacted)
            step = planned.step
            answer = _answer_of(writer, step)
            record = writer.append(planned.record)
            apply_changes(writer, record, step.before, step)
            index_record(writer, record, entry.body, step, texts)
            touched = (entry.task, *touched_tasks(writer, step))
        status = step.header["base_status"]
        closed = _unlisted(step)
        return Written(
            record, entry.body, step.added, answer, False, redacted, touched, status, closed, step
        )

    def dry_run(self, entry: Entry, guard: Guard | None = None) -> Written:
        """What `append` would give for a handoff, and refuse, without writing anything; the record
        has no digest.
        """
        prepared = prepare(entry)
        entry, _, redacted, _, _ = prepared
        with self.store.reading() as reader:
            planned = self._plan(reader, prepared, guard)
            if planned.step is None:
                return _replayed(reader, planned.record, entry, redacted)
            step = planned.step
            answer = _answer_of(reader, step)
        record = planned.record._replace(digest="")
        closed = _unlisted(step)
        kept = (record, entry.body, step.added, answer, False, redacted)
        return Written(*kept, closed=closed, step=step)

    def _plan(self, reader: Reader, prepared: Prepared, guard: Guard | None) -> _Planned:
        """The record of an entry, chained, and what it changes; or the one that it repeats."""
        entry, data, _, items, _ = prepared
        stream = stream_of(entry.task)
        tip = reader.tip(stream, entry.key)
        if self._witness is not None:
            self._witness(reader, entry.task, tip.head if tip else None)
        row = reader.task(entry.task) if tip else None
        known = repeated(reader, entry, row, is_known=bool(tip and tip.known))
        if known is not None:
            return _Planned(known, None)
        if tip is not None and tip.known:
            entry = entry._replace(key=f"{entry.key}-{tip.head.position}")
        head = self._checked_head(tip, entry)
        before = task_before(reader, entry.task, entry.kind, entry.body, row) if head else NO_TASK
        if guard is not None:
            guard(reader, before, entry.body)
        record = self._chain(entry, data, stream, head)
        step = fold_record(before, record, entry.body, items=items)
        if head is not None and entry.expect_version not in (None, head.position):
            _check_rebase(reader, entry, head, step)
        return _Planned(record, step)

    def deliver(
        self,
        task: str,
        kind: str,
        agent: str,
        body: dict[str, Any],
        amend: Amend | None = None,
    ) -> Record:
        """Record what an agent was given: beside the task, whose version stays.

        `amend` may change the body once nobody else can write.
        """
        aside = StreamEntry(deliveries_of(task), kind, agent, body, _new_key())
        first = methodcaller("tip", aside.stream, aside.key)
        with self.store.writing([aside.stream], first, in_turn=True) as writer:
            amended = amend(writer, task, body) if amend else body
            return self._add_entry(writer, aside._replace(body=amended))

    def add_entries(self, asides: Sequence[StreamEntry]) -> list[Record]:
        """Add records of other streams than tasks': all or, with an error, nothing."""
        asides = [aside if aside.key else aside._replace(key=_new_key()) for aside in asides]
        first = [methodcaller("tip", aside.stream, aside.key) for aside in asides]
        streams = [aside.stream for aside in asides]
        with self.store.writing(streams, *first, in_turn=True) as writer:
            return [self._add_entry(writer, aside) for aside in asides]

    def _add_entry(self, writer: Writer, aside: StreamEntry) -> Record:
        key = aside.key or _new_key()
        data = canonical_bytes(redact_value(with_channel(aside.body, aside.author))[0])
        check_size(data)
        tip = writer.tip(aside.stream, key)
        if tip is not None:
            check_last(tip.head, tip.last)
            known = writer.record(aside.stream, tip.known) if tip.known else None
            if known is not None:
                return _same_stream_entry(known, aside, data)
        position = tip.head.position if tip else 0
        if aside.expect not in (None, position):
            raise Conflict(aside.stream, expected=aside.expect or 0, actual=position)
        at = stamp(self._clock())
        record = Record(aside.stream, 0, at, aside.author, aside.kind, key, "", "", data)
        return writer.append(chained(record, tip.head if tip else None))

    def _checked_head(self, tip: Tip | None, entry: Entry) -> Head | None:
        head = tip.head if tip else None
        actual = head.position if head else 0
        if entry.kind == "task_created":
            if head is not None:
                raise _exists(entry.task, actual)
            return None
        if tip is None or head is None:
            raise unknown_task(entry.task)
        if entry.expect_version not in (None, actual) and not entry.rebase:
            raise Conflict(entry.task, expected=entry.expect_version or 0, actual=actual)
        check_last(head, tip.last)
        return head

    def _chain(self, entry: Entry, data: bytes, stream: str, head: Head | None) -> Record:
        at = stamp(self._clock())
        record = Record(stream, 0, at, entry.author, entry.kind, entry.key, "", "", data)
        return chained(record, head)

    def rebuild(self, progress: Callable[[int, int], None] | None = None) -> int:
        """Make every derived row again from the records; gives the number of records."""
        with self.store.writing([]) as writer:
            total = writer.totals()[1]
            writer.forget_derived()
            done = 0
            for record in writer.tail():
                derive_again(writer, record)
                done += 1
                if progress and done % 500 == 0:
                    progress(done, total)
        if progress:
            progress(total, total)
        return done


def prepare(entry: Entry) -> Prepared:
    """Take apart all that an entry says, before writers wait for each other.

    Raises InvalidInput for one that is larger than a record may be.
    """
    # What only tells that a brief was delivered doesn't need this, and hooks do that all day.
    from passdown.core.index_entries import indexed_texts

    body, redacted = redact_value(with_channel(entry.body, entry.author))
    assert_no_secret(entry.task, "task")
    data = canonical_bytes(body)
    check_size(data)
    entry = entry._replace(body=body, key=redact(entry.key)[0])
    return Prepared(entry, data, redacted, prepare_items(entry.body), indexed_texts(entry.body))


def _new_key() -> str:
    return os.urandom(16).hex()


def check_size(data: bytes) -> None:
    """Raise InvalidInput for a body that is larger than a record may be."""
    if len(data) > MAX_BODY_BYTES:
        expected = f"at most {MAX_BODY_BYTES:,} bytes in one record"
        problem = Problem("", "too_large", f"{len(data):,} bytes", expected)
        raise InvalidInput("the record is too large; nothing was written", [problem])


def _same_stream_entry(known: Record, aside: StreamEntry, data: bytes) -> Record:
    """The record that a key was written with before, if it says the same."""
    is_same = known.body == data or without_channel(known.document()) == without_channel(
        json.loads(data)
    )
    if (known.kind, known.author) == (aside.kind, aside.author) and is_same:
        return known
    raise KeyReused(
        f"the key {aside.key[:80]!r} was used for another record of {aside.stream} "
        f"(position {known.position}); the first one is kept",
        next_step="Use a new key for new content, or the same content for a retry.",
    )


def repeated_record(reader: Reader, task: str, key: str, *, latest_only: bool) -> Record | None:
    """The record that a key would repeat: with `latest_only`, none but the latest handoff."""
    if not latest_only:
        return reader.record_by_key(stream_of(task), key)
    row = reader.task(task)
    version = row.header["handoff_version"] if row else 0
    record = reader.record(stream_of(task), version) if version else None
    is_same = record is not None and (record.key == key or record.key.startswith(key + "-"))
    return record if is_same else None


CONTENT_KEY = "content-"
"""What a key begins with that was made from the content of a handoff."""


def repeated(
    reader: Reader, entry: Entry, row: TaskRow | None = None, *, is_known: bool = True
) -> Record | None:
    """The record that an entry repeats, where its key `is_known` in the stream, and where it says
    the same as the last handoff: that one may have been prepared, under a key of its own. `row` is
    the task's.

    A handoff without a key of its own that would complete its task now is none.
    """
    if not entry.is_content_key:
        return reader.record_by_key(stream_of(entry.task), entry.key) if is_known else None
    row = row or reader.task(entry.task)
    if row is None or _would_complete(row.header, entry.body):
        return None
    if is_known:
        return repeated_record(reader, entry.task, entry.key, latest_only=True)
    if row.header["source_agent"] != entry.author or entry.expect_version:
        return None
    last = reader.record(stream_of(entry.task), row.header["handoff_version"])
    if last is None or not last.key.startswith(CONTENT_KEY):
        return None
    return last if _is_same(last.document(), entry.body) else None


def _would_complete(header: dict[str, Any], body: dict[str, Any]) -> bool:
    """Whether a handoff completes a task that is not completed."""
    return header["base_status"] != "completed" == status_after(body, header)


def _is_same(known: dict[str, Any], given: dict[str, Any]) -> bool:
    """Whether two bodies say the same; of the last handoff of a task, one may state the phase that
    the other leaves to be found.
    """
    one, other = _intent(known), _intent(given)
    is_last = one.get("outcome") == "completed" and not one.get("to_agent")
    if is_last and {_last_phase(known), _last_phase(given)} == {COMPLETED}:
        one, other = one | {"phase": ""}, other | {"phase": ""}
    return one == other


def _last_phase(body: dict[str, Any]) -> str:
    """The phase of a last handoff; that which completes has one name, whatever its workspace's."""
    phase = body.get("phase", COMPLETED)
    return COMPLETED if phase == body.get("completes") else phase


def _replayed(reader: Reader, known: Record, entry: Entry, redacted: tuple[str, ...]) -> Written:
    """The answer to a key that was written before: the same record, if it says the same, and its
    items as they were then.
    """
    body = known.document()
    same = (known.kind, known.author) == (entry.kind, entry.author)
    if not same or not _is_same(body, entry.body):
        raise KeyReused(
            f"the key {entry.key[:80]!r} was used for another {known.kind} in {entry.task} "
            f"(version {known.position}); the first one is kept",
            next_step="Use a new key for new content, or the same content for a retry.",
        )
    rows = reader.items_at(entry.task, known.position)
    added = [
        row._replace(
            status=first_status(row.letter, row.field, entry_of(body, row.field, row.index)),
            closed_at=0,
            note="",
        )
        for row in rows
    ]
    notes = [row.note for row in rows if row.letter == "h"]
    kept = {"decisions": _own_decisions(added), **json.loads(notes[0])} if notes else {}
    answer = whole_answer(kept, known, body) if kept else {}
    return Written(known, body, added, answer, True, redacted)


MEASURED_FIELDS = (
    *("cited", "memories", "references", "metrics", "context_summary", "completes", "trace"),
)
"""Fields of a body that say what was found when it was written, not what was said."""


def _intent(body: dict[str, Any]) -> dict[str, Any]:
    """A body without what is taken from disk at the moment of writing, and without its channel."""
    measured = ("sha256", "size_bytes")
    artifacts = [
        {k: v for k, v in artifact.items() if k not in measured}
        for artifact in body.get("artifacts", ())
    ]
    said = {k: v for k, v in without_channel(body).items() if k not in MEASURED_FIELDS}
    return {**said, "artifacts": artifacts}


def check_head_record(reader: Reader, head: Head) -> None:
    """Raise Damaged unless the last record of a stream is what was written."""
    check_last(head, reader.record(head.stream, head.position))


def check_last(head: Head, record: Record | None) -> None:
    """Never build on a last record that isn't what was written."""
    if record is None or record.digest != head.digest or not record.is_intact():
        raise damaged_stream(head.stream, head.position)


def damaged_stream(stream: str, position: int) -> Damaged:
    """The error of a stream whose record is not what was written."""
    problem = Problem(f"{stream}@{position}", "chain_broken", "is not what was written")
    return Damaged(
        "the history of this task is damaged; nothing was written",
        [problem],
        next_step="Run passdown verify to see how far it reaches, then restore a backup.",
    )


def _check_rebase(reader: Reader, entry: Entry, head: Head, step: Changes) -> None:
    """A stale write may be placed after the others only if it adds and changes nothing."""
    expected = entry.expect_version or 0
    obstacles: list[str] = []
    if expected > head.position:
        obstacles.append("that version does not exist yet")
    if entry.body.get("phase") or "status" in entry.body:
        obstacles.append("it moves the task")
    row = reader.task(entry.task)
    if entry.kind == "handoff" and row and row.header["handoff_version"] > expected:
        obstacles.append("the task was handed off since")
    if step.changed:
        obstacles.append("it closes or changes items that others may have changed")
    if entry.kind == "task_changed":
        obstacles.append("it changes the task itself")
    for row in step.added:
        if row.path:
            history = reader.path_history(row.task, row.path)
            if history and history[-1].position > expected:
                obstacles.append(f"{row.path} was handed off by someone else since")
    if obstacles:
        detail = "a rebase is not possible: " + "; ".join(obstacles)
        raise Conflict(entry.task, expected=expected, actual=head.position, detail=detail)


def _exists(task: str, version: int) -> Conflict:
    error = Conflict(task, expected=0, actual=version, detail="the task exists already")
    error.next_step = (
        f"Use it as it is: passdown task show {task} (in Python: task). Or choose another id."
    )
    return error


def assert_no_secret(text: str, path: str) -> None:
    """Names can't be redacted without meaning something else, so a secret in one is refused."""
    kinds = redact(text)[1]
    if kinds:
        message = f"contains what looks like a secret ({', '.join(kinds)})"
        raise InvalidInput("nothing was written", [Problem(path, "secret", message, "a name")])

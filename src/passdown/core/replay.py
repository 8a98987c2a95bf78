"""Rebuild the derived rows of a task from its records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from passdown.core.documents import item_document, with_status
from passdown.core.fold import (
    NO_TASK,
    Changes,
    TaskBefore,
    fact_keys,
    fold_record,
    paths_of,
    settled_keys,
)
from passdown.core.kinds import task_of
from passdown.core.rows import InboxRow, LabelRow, LinkRow
from passdown.core.types import JsonObject

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from passdown.core.record import Record
    from passdown.core.rows import ItemRow, StatusChange


if TYPE_CHECKING:
    Visit = Callable[[TaskBefore, Record], None]
    Seen = Callable[[Record, dict[str, Any], list[ItemRow]], None]


class Replayed(NamedTuple):
    """The derived rows of one task, rebuilt from its records."""

    details: JsonObject
    header: JsonObject
    rows: dict[tuple[str, int], ItemRow]
    documents: dict[tuple[str, int], JsonObject]
    links: dict[tuple[str, str, str], LinkRow]
    inbox: InboxRow | None
    labels: list[LabelRow]
    first_seq: int
    last: Record


def replay(
    records: Iterable[Record],
    visit: Visit | None = None,
    *,
    seen: Seen | None = None,
    sized: bool = False,
    with_documents: bool = True,
) -> Replayed | None:
    """Fold a task's records, in order, from nothing; None when there are none.

    `visit` sees each record with the state of the task before it, and may stop by raising; `seen`
    sees it afterwards with its content and its new items. The sizes of items are counted
    only on request. Without documents, what is kept doesn't grow with the texts.
    """
    details, header = JsonObject(), JsonObject()
    rows: dict[tuple[str, int], ItemRow] = {}
    documents: dict[tuple[str, int], JsonObject] = {}
    open_rows: dict[tuple[str, int], ItemRow] = {}
    paths: dict[str, str] = {}
    facts: dict[str, int] = {}
    links: dict[tuple[str, str, str], LinkRow] = {}
    inbox: InboxRow | None = None
    labels: list[LabelRow] = []
    first_seq = 0
    last: Record | None = None
    for record in records:
        first_seq = first_seq or record.seq
        body = record.document()
        known = {path: paths[path] for path in paths_of(body) if path in paths}
        before = NO_TASK
        if header:
            settled = _settled(rows, record, body)
            stated = {key: rows["f", facts[key]] for key in fact_keys(body) if key in facts}
            before = TaskBefore(
                details, header, tuple(open_rows.values()), known, "", settled, stated
            )
        if visit is not None:
            visit(before, record)
        step = fold_record(before, record, body, sized=sized)
        if seen is not None:
            seen(record, body, step.added)
        labels += step.labels
        details, header, last = step.details or details, step.header, record
        for row in step.added:
            key = (row.letter, row.ordinal)
            rows[key] = row
            if with_documents:
                documents[key] = item_document(row, record, body)
            if row.path:
                paths[row.path] = row.grade
        facts |= {key: row.ordinal for key, row in step.facts.items()}
        for change in step.changed:
            _mark(rows, documents, change)
        _keep_open(open_rows, rows, step)
        _relink(links, step, record.seq)
        inbox = _inbox(inbox, step, record)
    if last is None:
        return None
    return Replayed(details, header, rows, documents, links, inbox, labels, first_seq, last)


def _settled(
    rows: Mapping[tuple[str, int], ItemRow], record: Record, body: JsonObject
) -> dict[tuple[str, int], str]:
    keys = settled_keys(task_of(record.stream) or "", body)
    return {key: rows[key].status for key in keys if key in rows}


def _inbox(before: InboxRow | None, step: Changes, record: Record) -> InboxRow | None:
    if step.inbox is None:
        return before
    agent, held = step.inbox
    task = task_of(record.stream) or ""
    return InboxRow(agent, task, step.header["handoff_version"], held) if agent else None


def _relink(links: dict[tuple[str, str, str], LinkRow], step: Changes, seq: int) -> None:
    for key, link in links.items():
        if link.source in step.unlinked and not link.closed_seq:
            links[key] = link._replace(closed_seq=seq)
    for source, relation, target in step.links:
        links.setdefault((source, relation, target), LinkRow(source, relation, target, seq))


def _mark(
    rows: dict[tuple[str, int], ItemRow],
    documents: dict[tuple[str, int], JsonObject],
    change: StatusChange,
) -> None:
    key = (change.letter, change.ordinal)
    if key in rows:
        rows[key] = rows[key]._replace(
            status=change.status,
            is_open=change.is_open,
            closed_at=change.closed_at,
            note=change.note,
        )
        if key in documents:
            documents[key] = with_status(documents[key], change)


def _keep_open(
    open_rows: dict[tuple[str, int], ItemRow],
    rows: dict[tuple[str, int], ItemRow],
    step: Changes,
) -> None:
    touched = [(row.letter, row.ordinal) for row in step.added]
    touched += [(change.letter, change.ordinal) for change in step.changed]
    for key in touched:
        if key in rows and rows[key].is_open:
            open_rows[key] = rows[key]
        else:
            open_rows.pop(key, None)

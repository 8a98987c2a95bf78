"""The rows that follow from a record: where its task stands, its items, what can be found."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from passdown.errors import unknown_task
from passdown.model.fold import (
    NOTHING,
    Before,
    Changes,
    changes,
    open_letters,
    paths_of,
    settled_keys,
)
from passdown.model.kinds import task_of
from passdown.model.rows import TaskRow

if TYPE_CHECKING:
    from passdown.model.findable import Texts
    from passdown.model.record import Record
    from passdown.model.rows import ItemRow
    from passdown.store.running import Question
    from passdown.store.statements import Reader, Writer


def redo(writer: Writer, record: Record) -> list[str]:
    """Derive the rows of a record that is in the store already; gives other tasks it changed."""
    task = task_of(record.stream)
    if task is None:
        return []
    body = record.document()
    writer.ahead(*asked_before(task, record.kind, body))
    before = before_of(writer, task, record.kind, body) if record.position > 1 else NOTHING
    step = changes(before, record, body)
    apply_changes(writer, record, before, step)
    add_found(writer, record, body, step)
    return touched_by(writer, step)


def asked_before(task: str, kind: str, body: dict[str, Any]) -> list[Question]:
    """What `before_of` asks, to be asked ahead."""
    letters, paths = open_letters(kind, body), paths_of(body)
    return [
        lambda asked: asked.task(task),
        lambda asked: asked.open_items(task, letters),
        lambda asked: asked.known_paths(task, paths),
        *(partial(_item, address=(task, *key)) for key in settled_keys(task, body)),
    ]


def before_of(reader: Reader, task: str, kind: str, body: dict[str, Any]) -> Before:
    """Where a task stands, as far as a record of this kind has to know it."""
    row = reader.task(task)
    if row is None:
        raise unknown_task(task)
    open_items = tuple(reader.open_items(task, open_letters(kind, body)))
    known = reader.known_paths(task, paths_of(body))
    settled = {key: reader.item(task, *key) for key in settled_keys(task, body)}
    statuses = {key: item.status for key, item in settled.items() if item is not None}
    return Before(row.details, row.header, open_items, known, row.status, statuses)


def _item(reader: Reader, address: tuple[str, str, int]) -> ItemRow | None:
    return reader.item(*address)


def apply_changes(writer: Writer, record: Record, before: Before, step: Changes) -> None:
    """Bring the derived rows up to date with a record."""
    task = task_of(record.stream) or ""
    header = step.header
    row = TaskRow(
        task=task,
        version=record.position,
        digest=record.digest,
        status=header["base_status"],
        phase=header["phase"],
        holder=header["holder"],
        created_seq=record.seq,
        updated_seq=record.seq,
        header=header,
        details=step.details or before.details,
    )
    writer.put_task(row, with_details=step.details is not None)
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


def add_found(
    writer: Writer, record: Record, body: dict[str, Any], step: Changes, texts: Texts | None = None
) -> None:
    """Bring what can be searched for, and the graph, up to date with a record."""
    from passdown.model.findable import SEARCHED, found_in

    task = task_of(record.stream) or ""
    writer.add_found(found_in(record, body, step.added, texts), task, record.position)
    marks = [(c.status, f"{task}#{c.letter}{c.ordinal}") for c in step.changed]
    writer.mark_entries([mark for mark in marks if mark[1][len(task) + 1] in SEARCHED])


def touched_by(reader: Reader, step: Changes) -> list[str]:
    """Other tasks that a record changed: by blocking, releasing or superseding."""
    names = {target.partition("#")[0] for _, _, target in step.links}
    for source in step.unlinked:
        names.update(link.target.partition("#")[0] for link in reader.links_from(source))
    return sorted(name for name in names if reader.task(name) is not None)

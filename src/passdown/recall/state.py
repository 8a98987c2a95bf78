"""A task's state: now, from derived rows; at a past version, by folding fewer records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from passdown.errors import NotFound, unknown_task
from passdown.model.documents import item_document, state_document
from passdown.model.kinds import parse_address, stream_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from passdown.model.record import Record
    from passdown.model.replaying import Replayed
    from passdown.model.rows import ItemRow, LinkRow, TaskRow
    from passdown.store.statements import Reader

Document = dict[str, Any]


def state(reader: Reader, task: str, version: int | None = None) -> Document:
    """The whole state of a task, as a document."""
    row = reader.task(task)
    if row is None:
        raise unknown_task(task)
    if version is not None and version != row.version:
        return state_then(reader, row, version)
    items = documents(reader, task, reader.items_since(task))
    head = (task, row.version, row.digest)
    return with_links(reader, state_document(head, row.details, row.header, items), row)


def state_then(reader: Reader, row: TaskRow, version: int) -> Document:
    """A task's state as it was when a version was written, links from other tasks included."""
    from passdown.model.replaying import replay

    is_there = 1 <= version <= row.version
    records = reader.records(stream_of(row.task), until=version) if is_there else ()
    replayed = replay(records)
    if replayed is None:
        raise NotFound(
            f"{row.task} has no version {version}; it is at {row.version}",
            next_step=f"Name a version from 1 to {row.version}.",
        )
    document = document_of(row.task, replayed)
    return with_links(reader, document, row, as_of=replayed.last.seq)


def document_of(task: str, replayed: Replayed) -> Document:
    """The state document of replayed records."""
    order = sorted(replayed.rows.items(), key=lambda entry: (entry[1].position, *entry[0]))
    items = [(key[0], replayed.documents[key]) for key, _ in order]
    head = (task, replayed.last.position, replayed.last.digest)
    return state_document(head, replayed.details, replayed.header, items)


def documents(reader: Reader, task: str, rows: Iterable[ItemRow]) -> list[tuple[str, Document]]:
    """(letter, document) of items, each record read once."""
    stream = stream_of(task)
    found: list[tuple[str, Document]] = []
    known: dict[int, tuple[Record, Document]] = {}
    for row in rows:
        if row.position not in known:
            record = reader.record(stream, row.position)
            if record is None:
                continue
            known[row.position] = (record, record.document())
        found.append((row.letter, item_document(row, *known[row.position])))
    return found


def with_links(
    reader: Reader, document: Document, row: TaskRow, as_of: int | None = None
) -> Document:
    """Add what other tasks say of this one: who blocks it, who superseded its decisions."""
    if as_of is None:
        blockers = reader.open_links_to(row.task)
    else:
        blockers = links_at(reader.links_to(row.task), as_of)
    document["blocked_by"] = [link.source for link in blockers if link.relation == "blocks"]
    if document["blocked_by"] and document["status"] not in ("completed", "cancelled"):
        document["status"] = "blocked"
    if document["decisions"]:
        mark_superseded(reader, row.task, document["decisions"], as_of)
    return document


def mark_superseded(
    reader: Reader, task: str, decisions: Iterable[Document], as_of: int | None = None
) -> None:
    """Give decisions that one of another task has replaced the status that says so.

    What their own task says stays: there the superseding decision is named already.
    """
    by = {link.target: link.source for link in links_at(reader.superseders(task), as_of)}
    for decision in decisions:
        if decision["address"] in by and decision["status"] != "superseded":
            decision["superseded_by"] = by[decision["address"]]
            decision["status"] = "superseded"


def links_at(links: Iterable[LinkRow], as_of: int | None) -> list[LinkRow]:
    """The links that were open when a record of the store was written; None: that are now."""
    if as_of is None:
        return [link for link in links if not link.closed_seq]
    return [
        link
        for link in links
        if link.opened_seq <= as_of and (not link.closed_seq or link.closed_seq > as_of)
    ]


def show(reader: Reader, address: str) -> Document:
    """One item by its address, with the record that it came from."""
    parsed = parse_address(address)
    row = reader.item(*parsed) if parsed else None
    record = reader.record(stream_of(row.task), row.position) if row else None
    if row is None or record is None or parsed is None:
        raise NotFound(
            f"there is no item {address[:140]!r}",
            next_step="Addresses look like T-1#d2; passdown state TASK lists those of a task.",
        )
    body = record.document()
    document = item_document(row, record, body)
    links = [link for link in reader.links_to(address) if link.relation == "supersedes"]
    if links and document["status"] != "superseded":
        document.update(status="superseded", superseded_by=links[-1].source)
    blocked = [link.target for link in reader.links_from(address) if link.relation == "blocks"]
    if blocked:
        document["blocks"] = blocked
    hints = _hints(document)
    if hints:
        document["hints"] = hints
    from passdown.recall.origins import Origins

    origin = Origins(reader).of(record, body)
    document["source"] = {**envelope(record), "task": row.task, **origin}
    return document


def _hints(document: Document) -> list[str]:
    """Signs that an item's words are meant for a model rather than about the work."""
    from passdown.model.text import instruction_hints

    texts = [value for value in document.values() if isinstance(value, str)]
    return sorted({hint for text in texts for hint in instruction_hints(text)})


def envelope(record: Record) -> Document:
    """Where a fact came from: who wrote it, when, and the record that proves it."""
    return {
        "stream": record.stream,
        "version": record.position,
        "at": record.at,
        "author": record.author,
        "kind": record.kind,
        "key": record.key,
        "digest": record.digest,
        "previous": record.previous,
    }

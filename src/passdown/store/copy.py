"""Copy one store into another, whatever their databases: records first, then derived rows.

Records are committed in batches in their order, so an interrupted copy continues where it stopped.
Until the derived rows are copied too, the target is marked for a rebuild. Vectors are copied, since
computing them is slow.
"""

from __future__ import annotations

from itertools import islice, takewhile
from typing import TYPE_CHECKING, NamedTuple

from passdown.errors import InvalidInput, Problem
from passdown.store import url_without_password
from passdown.store.statements import TABLES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from passdown.core.record import Record
    from passdown.store.protocol import Progress, Store
    from passdown.store.statements import Reader, Writer


BATCH = 500


class CopyResult(NamedTuple):
    """What a copy did: records that came over now, and those that had come before."""

    records: int
    before: int


_LOADED_BY = {
    "details": "put_details",
    "knowledge": "put_node",
    **{name: f"load_{name}" for name in ("tasks", "links", "inbox", "embedders")},
}
"""What puts rows of a table in as they stand in another store; `add_TABLE` does where none is."""

_SHOWN = ("entries", "texts")
"""The largest tables: their rows count towards the progress."""


def copy_store(
    source: Store, target: Store, progress: Progress | None = None, *, until: int = 0
) -> CopyResult:
    """Bring a store to where another stands at this moment; it may hold a part of that already.
    `until` is the number of the last record that it gets, if it doesn't get all; what is derived
    from them is then rebuilt when it is opened.

    Raises InvalidInput, and changes nothing, where it holds anything else.
    """
    with source.reading() as reader:
        last = until or reader.totals()[1]
        total = last + len(_SHOWN) * reader.text_count()
        before = done = _check_target(reader, target)
        records = takewhile(lambda record: record.seq <= last, reader.tail(before))
        while batch := list(islice(records, BATCH)):
            with target.writing([]) as writer:
                _load(writer, batch)
            done += len(batch)
            if progress:
                progress(done, total)
        if until:
            return CopyResult(last - before, before)
        with target.writing([]) as writer:
            for number in _copy_rows(reader, writer):
                done += number
                if progress:
                    progress(done, total)
    if progress:
        progress(total, total)
    return CopyResult(last - before, before)


def copy_to_file(source: Store, target: str, progress: Progress | None = None) -> None:
    """Copy one moment of a store into a new embedded one, synced."""
    from passdown.store import SQLITE_PREFIX, open_store
    from passdown.store.sqlite.files import new_file

    with new_file(target) as temporary:
        # Synced as a whole before it gets its name, so that its own commits need not be.
        copy = open_store(SQLITE_PREFIX + temporary, durability="normal")
        try:
            copy_store(source, copy, progress)
        finally:
            copy.close()


def _check_target(source: Reader, target: Store) -> int:
    """The number of the last record that the target has already; all of them must be the source's.

    A record's digest covers all before it in its stream, so the heads and the last record tell.
    """
    with target.reading() as held:
        last = next(iter(held.latest(2**62, 1)), None)
        differing = [
            head.stream
            for head in held.heads()
            if (twin := source.record(head.stream, head.position)) is None
            or twin.digest != head.digest
        ]
    twin = next(source.tail(last.seq - 1), None) if last else None
    if last is not None and twin != last and not differing:
        differing = [last.stream]
    if differing:
        shown_names = ", ".join(differing[:5]) + (" and others" if len(differing) > 5 else "")
        message = (
            f"{url_without_password(target.url)} holds records that the source lacks: {shown_names}"
        )
        problem = Problem("target", "diverged", message, "a new store, or an earlier copy of it")
        raise InvalidInput("nothing was copied", [problem])
    return last.seq if last else 0


def _load(writer: Writer, records: Sequence[Record]) -> None:
    heads = {record.stream: (record.stream, record.position, record.digest) for record in records}
    writer.run_many("load_heads", list(heads.values()))
    writer.run_many("load_records", [(r.stream, r.seq, r.position, *r[2:9]) for r in records])
    writer.run("note_rebuild", {})


def _copy_rows(source: Reader, target: Writer) -> Iterator[int]:
    """Put the derived rows of the source in the place of the target's; gives how many come."""
    target.forget_derived()
    for known in target.embedders():
        target.drop_vectors(known.id, 2**62)
        target.drop_embedder(known.id)
    for table in TABLES:
        rows = source.table(table)
        while page := list(islice(rows, BATCH)):
            target.run_many(_LOADED_BY.get(table, f"add_{table}"), page)
            yield len(page) if table in _SHOWN else 0
    target.run("forget_numbers", {})
    target.run("load_number", {"last": source.next_number() - 1})

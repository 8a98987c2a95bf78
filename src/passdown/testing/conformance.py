"""The promises of a store, as tests that any store's own test class inherits.

Every test makes its stores with `make_store`, which opens the store that belongs to a folder:
called twice with one folder, both see the same data. Nothing here needs pytest but its `tmp_path`.
"""

from __future__ import annotations

import threading
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from passdown.errors import PassdownError
from passdown.model.canonical import canonical_bytes
from passdown.model.record import GENESIS, Head, Record, chained
from passdown.model.rows import ItemRow, LinkRow, StatusChange, TaskRow
from passdown.testing.asserting import fail, same, true
from passdown.testing.finding import FindingConformance

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from passdown.store.protocol import Store
    from passdown.store.statements import Reader, Writer

AT = "2026-01-09T10:00:00.000000Z"


class _Stop(Exception):
    """Raised inside a gate to see it rolled back."""


class StoreConformance(FindingConformance):
    """Inherit, give `make_store`, and every promise of the protocol is tested."""

    def make_store(self, place: Path) -> Store:
        """Open the store that belongs to a folder."""
        raise NotImplementedError("a store's test class says how its store is made")

    def open_copy(self, target: str) -> Store:
        """Open what `backup` wrote to a file."""
        from passdown.store.opening import open_store

        return open_store("sqlite:///" + target)

    def test_a_new_store_is_empty(self, tmp_path: Path) -> None:
        """A new store has no streams, records, tasks or damage."""
        with self._stores(tmp_path) as (store,), store.reading() as reader:
            same(list(reader.heads()), [])
            same(list(reader.tail()), [])
            same(reader.totals(), (0, 0))
            same(reader.tasks(limit=10), [])
            same(reader.task("T-1"), None)
            same(reader.head("task/T-1"), None)
        with self._stores(tmp_path) as (store,):
            same(store.check_pages(), [])

    def test_the_url_opens_the_store_again(self, tmp_path: Path) -> None:
        """The address of a store leads back to its data."""
        from passdown.store.opening import open_store

        with self._stores(tmp_path) as (store,):
            records = _append(store, "task/T-1", 2)
            again = open_store(store.url)
            with again.reading() as reader:
                same(list(reader.records("task/T-1")), records)
            again.close()

    def test_records_come_back_byte_for_byte(self, tmp_path: Path) -> None:
        """Each field and the bytes of the body are what was appended, in order, also reopened."""
        bodies: list[object] = [
            {"text": "ünï \u2028 \U0001f600 e\u0301 \\u0000"},
            {"empty": "", "list": [], "number": 0.1, "deep": [[[[{}]]]]},
            {"sql": "'; " + "DROP" + " TABLE records; --", "percent": "%s %(a)s ? :stream"},
            {"large": "x" * 1_000_000},
        ]
        with self._stores(tmp_path) as (store,):
            written = _append(store, "task/T-1", len(bodies), bodies)
        with self._stores(tmp_path) as (store,), store.reading() as reader:
            read = list(reader.records("task/T-1"))
            same(read, written)
            same([record.document() for record in read], bodies)
            true(all(record.is_intact() for record in read), "every digest still fits")
            same(reader.head("task/T-1"), Head("task/T-1", len(bodies), written[-1].digest))

    def test_a_gate_that_raises_leaves_nothing(self, tmp_path: Path) -> None:
        """Records and rows of a block that raises are gone, and the store goes on working."""
        with self._stores(tmp_path) as (store,):
            _append(store, "task/T-1", 1)
            before = _everything(store)
            try:
                with store.writing(["task/T-1"]) as writer:
                    _write_one_of_each(writer)
                    raise _Stop
            except _Stop:
                pass
            same(_everything(store), before)
            _append(store, "task/T-2", 1)

    def test_what_is_written_is_seen_at_once_by_others(self, tmp_path: Path) -> None:
        """A record is visible to another opening of the store as soon as its gate is left."""
        with self._stores(tmp_path, 2) as (first, second):
            for number in range(1, 4):
                _append(first, f"task/T-{number}", 1)
                with second.reading() as reader:
                    same(len(list(reader.heads())), number)

    def test_a_reader_sees_one_moment(self, tmp_path: Path) -> None:
        """Nothing appears or changes in an open read gate while others write."""
        with self._stores(tmp_path, 2) as (first, second):
            _append(first, "task/T-1", 1)
            with first.reading() as reader:
                before = (list(reader.tail()), reader.dump())
                _append(second, "task/T-1", 1, after=_head(second, "task/T-1"))
                _append(second, "task/T-2", 1)
                same((list(reader.tail()), reader.dump()), before)
            with first.reading() as reader:
                same(len(list(reader.tail())), 3)

    def test_what_was_announced_is_answered_as_ever(self, tmp_path: Path) -> None:
        """A question asked ahead gets the answer that it would get without: of this moment in a
        read gate, and after every change in a write gate.
        """

        def head(asked: Reader) -> Head | None:
            return asked.head("task/T-1")

        with self._stores(tmp_path, 2) as (store, other):
            with store.writing(["task/T-1"], head) as writer:
                same(head(writer), None)
                writer.ahead(head, lambda asked: asked.task("T-1"))
                row, _ = _write_one_of_each(writer)
                same(writer.task("T-1"), row)
                same(head(writer), Head("task/T-1", 1, row.digest))
            with store.reading() as reader:
                before = head(reader)
                reader.ahead(head, lambda asked: asked.heads(), lambda asked: asked.totals())
                _append(other, "task/T-1", 1, after=before)
                same([head(reader), head(reader)], [before, before])
                same(reader.totals(), (1, 1))
            same(_head(store, "task/T-1") == before, False)

    def test_one_stream_has_one_order(self, tmp_path: Path) -> None:
        """Many writers at once: every position is given once, and the chain holds."""
        with self._stores(tmp_path, 4) as stores:
            errors: list[BaseException] = []

            def work(store: Store) -> None:
                try:
                    for _ in range(10):
                        with store.writing(["task/T-1"]) as writer:
                            _append_one(writer, "task/T-1", writer.head("task/T-1"))
                except BaseException as error:  # noqa: BLE001 - shown by the test's own thread
                    errors.append(error)

            threads = [threading.Thread(target=work, args=(store,)) for store in stores]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            same(errors, [])
            with stores[0].reading() as reader:
                records = list(reader.records("task/T-1"))
            same([record.position for record in records], list(range(1, 41)))
            same([record.previous for record in records], [GENESIS, *_digests(records)[:-1]])
            same(sorted(record.seq for record in records), [record.seq for record in records])

    def test_a_position_or_key_is_taken_once(self, tmp_path: Path) -> None:
        """A second record at a position, or with a key, is refused as a whole."""
        with self._stores(tmp_path) as (store,):
            (first,) = _append(store, "task/T-1", 1)
            before = _everything(store)
            second = chained(first._replace(seq=0), Head("task/T-1", 1, first.digest))
            for clash in (first._replace(key="other", seq=0), second):
                try:
                    with store.writing(["task/T-1"]) as writer:
                        writer.append(clash)
                except PassdownError:
                    continue
                fail(f"{clash.position} with the key {clash.key} was written twice")
            same(_everything(store), before)

    def test_records_are_found_by_key_position_and_range(self, tmp_path: Path) -> None:
        """Keys belong to their stream; ranges are half open; pages are joined without a seam."""
        with self._stores(tmp_path) as (store,):
            written = _append(store, "task/T-1", 1_203)
            _append(store, "task/T-2", 2)
            with store.reading() as reader:
                same(list(reader.records("task/T-1")), written)
                same(list(reader.records("task/T-1", after=600, until=603)), written[600:603])
                same(reader.record("task/T-1", 700), written[699])
                same(reader.record("task/T-1", 1_204), None)
                same(reader.record_by_key("task/T-1", "key-700"), written[699])
                same(reader.record_by_key("task/T-2", "key-700"), None)
                newest = reader.records_before("task/T-1", 10, 3)
                same([record.position for record in newest], [9, 8, 7])
                same([record.stream for record in reader.latest(2**62, 3)][2:], ["task/T-1"])
                same(len(list(reader.tail(after=written[1_000].seq))), 204)
                same([head.stream for head in reader.heads("task/T-2")], ["task/T-2"])
                same(reader.totals()[0], 2)

    def test_derived_rows_come_back_as_written(self, tmp_path: Path) -> None:
        """Tasks, items, links, dependencies and the inbox are read as they were put."""
        with self._stores(tmp_path) as (store,):
            with store.writing(["task/T-1"]) as writer:
                row, items = _write_one_of_each(writer)
            with store.reading() as reader:
                same(reader.task("T-1"), row)
                same(reader.tasks(limit=5, phase="planning", agent="a", status="open"), [row])
                same(reader.tasks(limit=5, phase="testing"), [])
                same(reader.tasks(limit=5, agent="b"), [])
                same(reader.items_since("T-1"), items)
                same(reader.items_at("T-1", 1), items)
                same(reader.open_items("T-1"), [items[1]])
                same(reader.open_items("T-1", ("a", "b")), [items[1]])
                same(reader.item("T-1", "a", 1), items[0])
                same(reader.path_history("T-1", "src/a.py"), [items[0]])
                same(reader.known_paths("T-1", ["src/b.py", "src/a.py"]), {"src/a.py": ""})
                same(reader.needs("T-1"), ["T-0"])
                same(reader.dependents("T-0"), ["T-1"])
                same([tuple(entry) for entry in reader.inbox("b")], [("b", "T-1", 1, True)])
                link = LinkRow("T-1#b1", "blocks", "T-2", 1)
                same(reader.links_to("T-2"), [link])
                same(reader.links_from("T-1#b1"), [link])

    def test_marks_close_items_and_links(self, tmp_path: Path) -> None:
        """A mark changes its item alone; a closed link says until when it held."""
        with self._stores(tmp_path) as (store,):
            with store.writing(["task/T-1"]) as writer:
                _, items = _write_one_of_each(writer)
            with store.writing(["task/T-1"]) as writer:
                writer.mark_items("T-1", [StatusChange("b", 1, "resolved", False, 2, "done")])
                writer.close_links("T-1#b1", 2)
                writer.set_inbox("T-1", "", 2, held=False)
            with store.reading() as reader:
                closed = items[1]._replace(
                    status="resolved", is_open=False, closed_at=2, note="done"
                )
                same(reader.items_since("T-1"), [items[0], closed])
                same(reader.open_items("T-1"), [])
                same([link.closed_seq for link in reader.links_to("T-2")], [2])
                same(reader.inbox("b"), [])

    def test_forgetting_leaves_records_and_heads(self, tmp_path: Path) -> None:
        """What can be derived again can be forgotten; records and heads can't."""
        with self._stores(tmp_path) as (store,):
            records = _append(store, "task/T-1", 2)
            with store.writing(["task/T-1"]) as writer:
                _write_rows(writer, records[-1])
            with store.writing([]) as writer:
                writer.forget_derived()
            with store.reading() as reader:
                same(list(reader.records("task/T-1")), records)
                left = {table for table, rows in reader.dump().items() if rows}
                same(left, {"streams"})

    def test_a_backup_holds_one_moment(self, tmp_path: Path) -> None:
        """A backup is a store with the same content, made while others read and write."""
        with self._stores(tmp_path, 2) as (store, other):
            _append(store, "task/T-1", 50)
            target = str(tmp_path / "copy.db")
            seen: list[tuple[int, int]] = []
            store.backup(target, lambda done, total: seen.append((done, total)))
            expected = _everything(store)
            _append(other, "task/T-2", 1)
            copy = self.open_copy(target)
            same(_everything(copy), expected)
            copy.close()
            true(bool(seen) and seen[-1][0] == seen[-1][1], "progress ends at the total")

    def test_closing_twice_is_fine(self, tmp_path: Path) -> None:
        """A closed store can be closed again, and its data is there when it is reopened."""
        with self._stores(tmp_path) as (store,):
            records = _append(store, "task/T-1", 1)
            store.close()
            store.close()
        with self._stores(tmp_path) as (store,), store.reading() as reader:
            same(list(reader.tail()), records)

    def test_facts_name_the_database(self, tmp_path: Path) -> None:
        """A store says what it is, for whoever looks into trouble."""
        with self._stores(tmp_path) as (store,):
            facts = store.facts()
            same(facts["store"], store.url)
            true(bool(facts["database"]), "the kind of database is named")

    @contextmanager
    def _stores(self, place: Path, number: int = 1) -> Generator[tuple[Store, ...]]:
        with ExitStack() as stack:
            stores = tuple(self.make_store(place) for _ in range(number))
            for store in stores:
                stack.callback(store.close)
            yield stores


def _digests(records: list[Record]) -> list[str]:
    return [record.digest for record in records]


def _head(store: Store, stream: str) -> Head | None:
    with store.reading() as reader:
        return reader.head(stream)


def _append_one(writer: Writer, stream: str, head: Head | None, body: object = None) -> Record:
    number = head.position + 1 if head else 1
    data = canonical_bytes({"number": number} if body is None else body)
    record = Record(stream, 0, AT, "a", "noted", f"key-{number}", "", "", data)
    return writer.append(chained(record, head))


def _append(
    store: Store,
    stream: str,
    number: int,
    bodies: list[object] | None = None,
    after: Head | None = None,
) -> list[Record]:
    records: list[Record] = []
    with store.writing([stream]) as writer:
        for index in range(number):
            body = bodies[index] if bodies else None
            records.append(_append_one(writer, stream, after, body))
            after = Head(stream, records[-1].position, records[-1].digest)
    return records


def _everything(store: Store) -> tuple[list[Record], dict[str, list[tuple[object, ...]]]]:
    with store.reading() as reader:
        return list(reader.tail()), _dump(reader)


def _dump(reader: Reader) -> dict[str, list[tuple[object, ...]]]:
    return {table: [tuple(row) for row in rows] for table, rows in reader.dump().items()}


def _write_one_of_each(writer: Writer) -> tuple[TaskRow, list[ItemRow]]:
    return _write_rows(writer, _append_one(writer, "task/T-1", writer.head("task/T-1")))


def _write_rows(writer: Writer, record: Record) -> tuple[TaskRow, list[ItemRow]]:
    row = TaskRow(
        task="T-1",
        version=record.position,
        digest=record.digest,
        status="open",
        phase="planning",
        holder="a",
        created_seq=record.seq,
        updated_seq=record.seq,
        header={"counts": {"a": 1}, "text": "ü"},
        details={"title": "x", "depends_on": ["T-0"]},
    )
    made = ItemRow(
        "T-1", "a", 1, record.position, "artifacts", 0, "recorded", False, "a", "f1", "src/a.py"
    )
    open_one = ItemRow("T-1", "b", 1, record.position, "blockers", 0, "open", True, "b", "f2")
    writer.put_task(row, with_details=True)
    writer.add_items([made, open_one])
    writer.open_link("T-1#b1", "blocks", "T-2", record.seq)
    writer.set_needs("T-1", ["T-0"])
    writer.set_inbox("T-1", "b", record.position, held=True)
    return row, [made, open_one]

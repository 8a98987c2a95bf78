"""Store conformance: what the protocol promises, as tests that a store's own test class inherits.

Every test makes its stores with `make_store`, which opens the store that belongs to a folder:
called twice with one folder, both see the same data. Nothing here needs pytest but its `tmp_path`.
The assertions also hold under `python -O`.
"""

from __future__ import annotations

import threading
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, NoReturn

from passdown.core.graph import Edge, Node
from passdown.core.record import GENESIS, Head, Record, canonical_bytes, chained
from passdown.core.rows import (
    EntryRow,
    IndexChanges,
    ItemRow,
    LinkRow,
    SearchTerm,
    StatusChange,
    TaskRow,
    mark_of,
)
from passdown.errors import PassdownError

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from passdown.store.protocol import Store
    from passdown.store.statements import Reader, Writer


def fail(message: str) -> NoReturn:
    """End the test: something is not as it should be."""
    raise AssertionError(message)


def check_true(condition: bool, message: str) -> None:
    """Fail unless a condition holds; `message` says what should be so."""
    if not condition:
        fail(f"not so: {message}")


def check_equal(actual: object, expected: object) -> None:
    """Fail unless two values are equal, showing both."""
    if actual != expected:
        fail(f"expected {expected!r:.2000}\nbut got  {actual!r:.2000}")


_DECISIONS = [("decision", "token w30"), ("decision", "token w20")]
_AT = "2026-01-09T10:00:00.000000Z"


class SearchConformance:
    """Tests of what can be found; inherited by `StoreConformance`."""

    def make_store(self, place: Path) -> Store:
        """Open the store that belongs to a folder."""
        raise NotImplementedError("a store's test class says how its store is made")

    @contextmanager
    def _store(self, place: Path) -> Generator[Store]:
        with ExitStack() as stack:
            store = self.make_store(place)
            stack.callback(store.close)
            yield store

    def test_entries_are_found_by_words_and_marks(self, tmp_path: Path) -> None:
        """A word finds the entries that have it, newest first, and a mark narrows them exactly."""
        with self._store(tmp_path) as store:
            with store.writing([]) as writer:
                for number in range(1, 31):
                    kind = "decision" if number % 10 == 0 else "warning"
                    _add(writer, number, f"token w{number}", kind)
            with store.reading() as reader:
                everything = reader.matching(SearchTerm("token"), 100)
                check_equal(everything, list(range(30, 0, -1)))
                only = SearchTerm("token", ((mark_of("kind", "decision"), "absent"),))
                check_equal(reader.matching(only, 100), [30, 20, 10])
                check_equal(reader.matching(SearchTerm("token"), 2, last=9), [9, 8])
                check_equal(
                    [reader.matching_at(SearchTerm("token"), place) for place in (1, 2, 99)],
                    [1, 2, 0],
                )
                check_equal(reader.matching(SearchTerm("absent"), 5), [])
                check_equal([e.kind for e in reader.entries([10, 11])], ["decision", "warning"])
                check_equal(reader.words_of([7]), {7: "token w7"})
                marks = [mark_of("kind", "decision"), mark_of("kind", "warning")]
                shared = reader.sharing_marks(marks, "decision", 2)
                check_equal([(each.kind, each.words) for each in shared], _DECISIONS)
                check_equal(reader.sharing_marks(["absent"], "decision", 5), [])
                (looked,) = reader.looked_at([20])
                check_equal([looked.entry], reader.entries([20]))
                check_equal(
                    (looked.words, looked.marks), ("token w20", mark_of("kind", "decision"))
                )

    def test_entries_know_who_stands_beside_them(self, tmp_path: Path) -> None:
        """Neighbours are those of the same task, nearest first."""
        with self._store(tmp_path) as store:
            with store.writing([]) as writer:
                for number in range(1, 7):
                    _add(writer, number, "word", "warning", task=f"T-{number % 2}")
            with store.reading() as reader:
                check_equal(reader.around([3]), {3: ([1], [5])})
                check_equal(reader.authors(), ["ann"])

    def test_status_and_time_narrow_entries(self, tmp_path: Path) -> None:
        """A changed status is found under its new name only; times include their ends."""
        with self._store(tmp_path) as store:
            with store.writing([]) as writer:
                for number in range(1, 4):
                    _add(writer, number, "word", "warning")
                writer.mark_entries([("retracted", "T-1#w2")])
            with store.reading() as reader:
                check_equal(reader.narrowed(["retracted"], "", "", 10), [2])
                check_equal(sorted(reader.narrowed(["active"], "", "", 10)), [1, 3])
                check_equal(sorted(reader.narrowed([], _AT, _AT, 10)), [1, 2, 3])
                check_equal(reader.narrowed([], "2027", "", 10), [])

    def test_knowledge_is_replaced_and_forgotten(self, tmp_path: Path) -> None:
        """A node with a known id takes its place; a forgotten one takes its edges with it."""
        one, other = Node("a", "component", "one", ("x",)), Node("b", "rule", "two", ("x", "y"))
        edge = Edge("a", "uses", "b", {"note": "ünï"})
        with self._store(tmp_path) as store:
            with store.writing([]) as writer:
                found = IndexChanges((), (edge, edge), (("x", "a"), ("x", "b")), (one, other))
                writer.add_found(found, "T-1", 1)
                writer.add_found(IndexChanges(nodes=(one._replace(summary="new"),)), "T-1", 2)
            with store.reading() as reader:
                check_equal([row.node.summary for row in reader.known_nodes()], ["new", "two"])
                check_equal(reader.edges(source="a"), [edge])
                check_equal(reader.edges(target="b", relation="uses"), [edge])
                check_equal(reader.edges(target="b", relation="calls"), [])
                check_equal(list(reader.all_edges()), [edge])
                check_equal(reader.tagged(["x", "y"], 10), [("b", 1)])
            with store.writing([]) as writer:
                writer.add_found(IndexChanges(forgotten_nodes=("a",)), "T-1", 3)
            with store.reading() as reader:
                check_equal(reader.known_node("a"), None)
                check_equal(list(reader.all_edges()), [])

    def test_vectors_are_kept_by_embedder(self, tmp_path: Path) -> None:
        """Each embedder has its own vectors and its own progress; dropping one leaves the other."""
        with self._store(tmp_path) as store:
            with store.writing([]) as writer:
                for number in (1, 2, 3):
                    _add(writer, number, "word", "warning")
                first, second = writer.add_embedder("one", 2), writer.add_embedder("two", 3)
                check_equal(writer.add_embedder("one", 2), first)
                writer.add_vectors([(first.id, n, b"p", bytes([n, n])) for n in (1, 2)])
                writer.add_vectors([(second.id, 1, b"p", b"abc")])
                writer.embedded_up_to(first.id, 2)
            with store.reading() as reader:
                check_equal([e.done for e in reader.embedders()], [2, 0])
                check_equal(reader.entries_left(2), 1)
                waiting = reader.without_vector(first.id, 0, 10)
                check_equal(
                    [(row.id, row.is_there) for row in waiting], [(1, True), (2, True), (3, False)]
                )
                check_equal(reader.vectors_of(first.id, [2, 3]), {2: b"\x02\x02"})
                check_equal([row.id for row in reader.vectors_after(first.id, 1, 10)], [2])
            with store.writing([]) as writer:
                check_equal(writer.drop_vectors(first.id, 1), 1)
                check_equal(writer.drop_vectors(first.id, 10), 1)
                writer.drop_embedder(first.id)
            with store.reading() as reader:
                check_equal([e.name for e in reader.embedders()], ["two"])
                check_true(
                    1 in reader.vectors_of(second.id, [1]), "the other embedder keeps its vectors"
                )


def _add(writer: Writer, number: int, words: str, kind: str, task: str = "T-1") -> None:
    marks = mark_of("kind", kind)
    address = f"{task}#w{number}"
    row = EntryRow(
        *(address, task, kind, "ann", _AT, "active", number),
        *(len(words.split()), 0, "", b"p", words, marks),
    )
    writer.add_found(IndexChanges((row,)), task, number)


AT = "2026-01-09T10:00:00.000000Z"


class _Stop(Exception):
    """Raised inside a gate to see it rolled back."""


class StoreConformance(SearchConformance):
    """Inherit, give `make_store`, and every promise of the protocol is tested."""

    def make_store(self, place: Path) -> Store:
        """Open the store that belongs to a folder."""
        raise NotImplementedError("a store's test class says how its store is made")

    def open_copy(self, target: str) -> Store:
        """Open what `backup` wrote to a file."""
        from passdown.store import open_store

        return open_store("sqlite:///" + target)

    def test_a_new_store_is_empty(self, tmp_path: Path) -> None:
        """A new store has no streams, records, tasks or damage."""
        with self._stores(tmp_path) as (store,), store.reading() as reader:
            check_equal(list(reader.heads()), [])
            check_equal(list(reader.tail()), [])
            check_equal(reader.totals(), (0, 0))
            check_equal(reader.tasks(limit=10), [])
            check_equal(reader.task("T-1"), None)
            check_equal(reader.head("task/T-1"), None)
        with self._stores(tmp_path) as (store,):
            check_equal(store.check_pages(), [])

    def test_the_url_opens_the_store_again(self, tmp_path: Path) -> None:
        """The address of a store leads back to its data."""
        from passdown.store import open_store

        with self._stores(tmp_path) as (store,):
            records = _append(store, "task/T-1", 2)
            again = open_store(store.url)
            with again.reading() as reader:
                check_equal(list(reader.records("task/T-1")), records)
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
            check_equal(read, written)
            check_equal([record.document() for record in read], bodies)
            check_true(all(record.is_intact() for record in read), "every digest still fits")
            check_equal(reader.head("task/T-1"), Head("task/T-1", len(bodies), written[-1].digest))

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
            check_equal(_everything(store), before)
            _append(store, "task/T-2", 1)

    def test_what_is_written_is_seen_at_once_by_others(self, tmp_path: Path) -> None:
        """A record is visible to another opening of the store as soon as its gate is left."""
        with self._stores(tmp_path, 2) as (first, second):
            for number in range(1, 4):
                _append(first, f"task/T-{number}", 1)
                with second.reading() as reader:
                    check_equal(len(list(reader.heads())), number)

    def test_a_reader_sees_one_moment(self, tmp_path: Path) -> None:
        """Nothing appears or changes in an open read gate while others write."""
        with self._stores(tmp_path, 2) as (first, second):
            _append(first, "task/T-1", 1)
            with first.reading() as reader:
                before = (list(reader.tail()), reader.dump())
                _append(second, "task/T-1", 1, after=_head(second, "task/T-1"))
                _append(second, "task/T-2", 1)
                check_equal((list(reader.tail()), reader.dump()), before)
            with first.reading() as reader:
                check_equal(len(list(reader.tail())), 3)

    def test_what_was_announced_is_answered_as_ever(self, tmp_path: Path) -> None:
        """A question asked ahead gets the answer that it would get without: of this moment in a
        read gate, and after every change in a write gate.
        """

        def head(asked: Reader) -> Head | None:
            return asked.head("task/T-1")

        with self._stores(tmp_path, 2) as (store, other):
            with store.writing(["task/T-1"], head) as writer:
                check_equal(head(writer), None)
                writer.ahead(head, lambda asked: asked.task("T-1"))
                row, _ = _write_one_of_each(writer)
                check_equal(writer.task("T-1"), row)
                check_equal(head(writer), Head("task/T-1", 1, row.digest))
            with store.reading() as reader:
                before = head(reader)
                reader.ahead(head, lambda asked: asked.heads(), lambda asked: asked.totals())
                _append(other, "task/T-1", 1, after=before)
                check_equal([head(reader), head(reader)], [before, before])
                check_equal(reader.totals(), (1, 1))
            check_equal(_head(store, "task/T-1") == before, False)

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
            check_equal(errors, [])
            with stores[0].reading() as reader:
                records = list(reader.records("task/T-1"))
            check_equal([record.position for record in records], list(range(1, 41)))
            check_equal([record.previous for record in records], [GENESIS, *_digests(records)[:-1]])
            check_equal(
                sorted(record.seq for record in records), [record.seq for record in records]
            )

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
            check_equal(_everything(store), before)

    def test_records_are_found_by_key_position_and_range(self, tmp_path: Path) -> None:
        """Keys belong to their stream; ranges are half open; pages are joined without a seam."""
        with self._stores(tmp_path) as (store,):
            written = _append(store, "task/T-1", 1_203)
            _append(store, "task/T-2", 2)
            with store.reading() as reader:
                check_equal(list(reader.records("task/T-1")), written)
                check_equal(
                    list(reader.records("task/T-1", after=600, until=603)), written[600:603]
                )
                check_equal(reader.record("task/T-1", 700), written[699])
                check_equal(reader.record("task/T-1", 1_204), None)
                check_equal(reader.record_by_key("task/T-1", "key-700"), written[699])
                check_equal(reader.record_by_key("task/T-2", "key-700"), None)
                newest = reader.records_before("task/T-1", 10, 3)
                check_equal([record.position for record in newest], [9, 8, 7])
                check_equal([record.stream for record in reader.latest(2**62, 3)][2:], ["task/T-1"])
                check_equal(len(list(reader.tail(after=written[1_000].seq))), 204)
                check_equal([head.stream for head in reader.heads("task/T-2")], ["task/T-2"])
                check_equal(reader.totals()[0], 2)

    def test_derived_rows_come_back_as_written(self, tmp_path: Path) -> None:
        """Tasks, items, links, dependencies and the inbox are read as they were put."""
        with self._stores(tmp_path) as (store,):
            with store.writing(["task/T-1"]) as writer:
                row, items = _write_one_of_each(writer)
            with store.reading() as reader:
                check_equal(reader.task("T-1"), row)
                check_equal(
                    reader.tasks(limit=5, phase="planning", agent="a", status="open"), [row]
                )
                check_equal(reader.tasks(limit=5, phase="testing"), [])
                check_equal(reader.tasks(limit=5, agent="b"), [])
                check_equal(reader.items_since("T-1"), items)
                check_equal(reader.items_at("T-1", 1), items)
                check_equal(reader.open_items("T-1"), [items[1]])
                check_equal(reader.open_items("T-1", ("a", "b")), [items[1]])
                check_equal(reader.item("T-1", "a", 1), items[0])
                check_equal(reader.path_history("T-1", "src/a.py"), [items[0]])
                check_equal(reader.known_paths("T-1", ["src/b.py", "src/a.py"]), {"src/a.py": ""})
                check_equal(reader.needs("T-1"), ["T-0"])
                check_equal(reader.dependents("T-0"), ["T-1"])
                check_equal([tuple(entry) for entry in reader.inbox("b")], [("b", "T-1", 1, True)])
                link = LinkRow("T-1#b1", "blocks", "T-2", 1)
                check_equal(reader.links_to("T-2"), [link])
                check_equal(reader.links_from("T-1#b1"), [link])

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
                check_equal(reader.items_since("T-1"), [items[0], closed])
                check_equal(reader.open_items("T-1"), [])
                check_equal([link.closed_seq for link in reader.links_to("T-2")], [2])
                check_equal(reader.inbox("b"), [])

    def test_forgetting_leaves_records_and_heads(self, tmp_path: Path) -> None:
        """What can be derived again can be forgotten; records and heads can't."""
        with self._stores(tmp_path) as (store,):
            records = _append(store, "task/T-1", 2)
            with store.writing(["task/T-1"]) as writer:
                _write_rows(writer, records[-1])
            with store.writing([]) as writer:
                writer.forget_derived()
            with store.reading() as reader:
                check_equal(list(reader.records("task/T-1")), records)
                left = {table for table, rows in reader.dump().items() if rows}
                check_equal(left, {"streams"})

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
            check_equal(_everything(copy), expected)
            copy.close()
            check_true(bool(seen) and seen[-1][0] == seen[-1][1], "progress ends at the total")

    def test_closing_twice_is_fine(self, tmp_path: Path) -> None:
        """A closed store can be closed again, and its data is there when it is reopened."""
        with self._stores(tmp_path) as (store,):
            records = _append(store, "task/T-1", 1)
            store.close()
            store.close()
        with self._stores(tmp_path) as (store,), store.reading() as reader:
            check_equal(list(reader.tail()), records)

    def test_facts_name_the_database(self, tmp_path: Path) -> None:
        """A store says what it is, for whoever looks into trouble."""
        with self._stores(tmp_path) as (store,):
            facts = store.facts()
            check_equal(facts["store"], store.url)
            check_true(bool(facts["database"]), "the kind of database is named")

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

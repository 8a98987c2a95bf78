"""The promises of a store about search, the graph and vectors; part of `StoreConformance`."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from passdown.model.found_rows import EntryRow, Found, Sought, mark_of
from passdown.model.graph import Edge, Node
from passdown.testing.asserting import same, true

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from passdown.store.protocol import Store
    from passdown.store.statements import Writer

_DECISIONS = [("decision", "token w30"), ("decision", "token w20")]
_AT = "2026-01-09T10:00:00.000000Z"


class FindingConformance:
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
                everything = reader.matching(Sought("token"), 100)
                same(everything, list(range(30, 0, -1)))
                only = Sought("token", ((mark_of("kind", "decision"), "absent"),))
                same(reader.matching(only, 100), [30, 20, 10])
                same(reader.matching(Sought("token"), 2, last=9), [9, 8])
                same(
                    [reader.matching_at(Sought("token"), place) for place in (1, 2, 99)], [1, 2, 0]
                )
                same(reader.matching(Sought("absent"), 5), [])
                same([e.kind for e in reader.entries([10, 11])], ["decision", "warning"])
                same(reader.words_of([7]), {7: "token w7"})
                marks = [mark_of("kind", "decision"), mark_of("kind", "warning")]
                shared = reader.sharing_marks(marks, "decision", 2)
                same([(each.kind, each.words) for each in shared], _DECISIONS)
                same(reader.sharing_marks(["absent"], "decision", 5), [])
                (looked,) = reader.looked_at([20])
                same([looked.entry], reader.entries([20]))
                same((looked.words, looked.marks), ("token w20", mark_of("kind", "decision")))

    def test_entries_know_who_stands_beside_them(self, tmp_path: Path) -> None:
        """Neighbours are those of the same task, nearest first."""
        with self._store(tmp_path) as store:
            with store.writing([]) as writer:
                for number in range(1, 7):
                    _add(writer, number, "word", "warning", task=f"T-{number % 2}")
            with store.reading() as reader:
                same(reader.around([3]), {3: ([1], [5])})
                same(reader.authors(), ["ann"])

    def test_status_and_time_narrow_entries(self, tmp_path: Path) -> None:
        """A changed status is found under its new name only; times include their ends."""
        with self._store(tmp_path) as store:
            with store.writing([]) as writer:
                for number in range(1, 4):
                    _add(writer, number, "word", "warning")
                writer.mark_entries([("retracted", "T-1#w2")])
            with store.reading() as reader:
                same(reader.narrowed(["retracted"], "", "", 10), [2])
                same(sorted(reader.narrowed(["active"], "", "", 10)), [1, 3])
                same(sorted(reader.narrowed([], _AT, _AT, 10)), [1, 2, 3])
                same(reader.narrowed([], "2027", "", 10), [])

    def test_knowledge_is_replaced_and_forgotten(self, tmp_path: Path) -> None:
        """A node with a known id takes its place; a forgotten one takes its edges with it."""
        one, other = Node("a", "component", "one", ("x",)), Node("b", "rule", "two", ("x", "y"))
        edge = Edge("a", "uses", "b", {"note": "ünï"})
        with self._store(tmp_path) as store:
            with store.writing([]) as writer:
                found = Found((), (edge, edge), (("x", "a"), ("x", "b")), (one, other))
                writer.add_found(found, "T-1", 1)
                writer.add_found(Found(nodes=(one._replace(summary="new"),)), "T-1", 2)
            with store.reading() as reader:
                same([row.node.summary for row in reader.known_nodes()], ["new", "two"])
                same(reader.edges(source="a"), [edge])
                same(reader.edges(target="b", relation="uses"), [edge])
                same(reader.edges(target="b", relation="calls"), [])
                same(list(reader.all_edges()), [edge])
                same(reader.tagged(["x", "y"], 10), [("b", 1)])
            with store.writing([]) as writer:
                writer.add_found(Found(forgotten_nodes=("a",)), "T-1", 3)
            with store.reading() as reader:
                same(reader.known_node("a"), None)
                same(list(reader.all_edges()), [])

    def test_vectors_are_kept_by_embedder(self, tmp_path: Path) -> None:
        """Each embedder has its own vectors and its own progress; dropping one leaves the other."""
        with self._store(tmp_path) as store:
            with store.writing([]) as writer:
                for number in (1, 2, 3):
                    _add(writer, number, "word", "warning")
                first, second = writer.add_embedder("one", 2), writer.add_embedder("two", 3)
                same(writer.add_embedder("one", 2), first)
                writer.add_vectors([(first.id, n, b"p", bytes([n, n])) for n in (1, 2)])
                writer.add_vectors([(second.id, 1, b"p", b"abc")])
                writer.embedded_up_to(first.id, 2)
            with store.reading() as reader:
                same([e.done for e in reader.embedders()], [2, 0])
                same(reader.entries_left(2), 1)
                waiting = reader.without_vector(first.id, 0, 10)
                same(
                    [(row.id, row.is_there) for row in waiting], [(1, True), (2, True), (3, False)]
                )
                same(reader.vectors_of(first.id, [2, 3]), {2: b"\x02\x02"})
                same([row.id for row in reader.vectors_after(first.id, 1, 10)], [2])
            with store.writing([]) as writer:
                same(writer.drop_vectors(first.id, 1), 1)
                same(writer.drop_vectors(first.id, 10), 1)
                writer.drop_embedder(first.id)
            with store.reading() as reader:
                same([e.name for e in reader.embedders()], ["two"])
                true(1 in reader.vectors_of(second.id, [1]), "the other embedder keeps its vectors")


def _add(writer: Writer, number: int, words: str, kind: str, task: str = "T-1") -> None:
    marks = mark_of("kind", kind)
    address = f"{task}#w{number}"
    row = EntryRow(
        *(address, task, kind, "ann", _AT, "active", number),
        *(len(words.split()), 0, "", b"p", words, marks),
    )
    writer.add_found(Found((row,)), task, number)

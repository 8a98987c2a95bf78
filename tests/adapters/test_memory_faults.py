"""Memories under load and on a bad day: nothing is lost, nothing is written over, all is told."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw
import pytest

from passdown.adapters.chroma import ChromaMemory
from passdown.adapters.memory import LedgerMemory, Relation
from passdown.errors import InvalidInput, PassdownError, StoreUnavailable
from passdown.knowledge.graph_files import EdgeFile
from passdown.store.sqlite import SqliteStore
from passdown.store.sqlite.errors import translated_errors
from tests.adapters.stores import KINDS, decision, opened, trigrams
from tests.processes import Process, run_python

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ROOT = Path(__file__).resolve().parent.parent.parent
WRITERS, COUNT = 3, 6


@pytest.mark.promise("S0-20")
@pytest.mark.parametrize("kind", KINDS)
def test_processes_that_write_at_once_lose_nothing(kind: str, tmp_path: Path) -> None:
    """Every edge is there, those of one pair under many names too, and every memory has its
    content: none was replaced by the bare name of an end.
    """
    command = [sys.executable, "-m", "tests.adapters.writer", kind, str(tmp_path)]
    names = [f"w{number}" for number in range(WRITERS)]
    running = [
        Process([*command, name, str(COUNT)], cwd=ROOT, stderr=subprocess.PIPE) for name in names
    ]
    for process in running:
        _, told = process.communicate(timeout=240)
        assert process.returncode == 0, told.decode()

    async def look() -> None:
        async with opened(kind, tmp_path) as memory:
            each = [f"{name} {number}" for name in names for number in range(COUNT)]
            found = set(await memory.relationships())
            assert found == {
                relation
                for own in each
                for relation in (
                    Relation("shared", "uses", own.replace(" ", "-")),
                    Relation("shared", f"known to {own}", "all"),
                    Relation(f"mine {own}", "uses", "shared"),
                )
            }
            stored = {r.key: r.content for r in await memory.search_similar("content", k=1_000)}
            assert stored == {f"mine {own}": f"Content of {own}" for own in each}

    asyncio.run(look())


MANY = """
import sys
from passdown.adapters.chroma import folder_at
from tests.adapters.stores import trigrams

texts = [f"Buttons number {number} {sys.argv[2]}" for number in range(1_100)]
fields = [{"type": "memory", "json": "{}"} for _ in texts]
with folder_at(sys.argv[1]).turn("passdown-shop-memory", writes=True) as collection:
    collection.upsert(
        ids=["memory:" + text for text in texts],
        documents=texts,
        metadatas=fields,
        embeddings=trigrams(texts),
    )
"""


@pytest.mark.promise("S0-18")
def test_an_open_chromadb_sees_what_other_processes_write(tmp_path: Path) -> None:
    """Also so much that the other one wrote the index anew; what both wrote is there at the end."""

    async def main() -> None:
        async with ChromaMemory(tmp_path, "shop", trigrams) as memory:
            await memory.store_embedding("own", "Buttons are green")
            for turn in ("one", "two"):
                command = [sys.executable, "-c", MANY, str(tmp_path), turn]
                run_python(command, cwd=ROOT, check=True)
                text = f"Buttons number 1099 {turn}"
                # Its index is approximate: asked for few, it may miss the nearest of so many.
                found = await memory.search_similar(text, k=1_000)
                assert found[0].content == text
                await memory.store_embedding(turn, f"Buttons are {turn}")
        async with ChromaMemory(tmp_path, "shop", trigrams) as memory:
            for key, text in (("own", "Buttons are green"), ("one", "Buttons are one")):
                found = await memory.search_similar(text, k=1_000)
                assert (found[0].key, found[0].content) == (key, text)
            assert len(await memory.search_similar("Buttons", k=1_000)) == 1_000

    asyncio.run(main())


@pytest.mark.promise("S0-20")
@pytest.mark.parametrize("kind", KINDS)
def test_tasks_that_write_at_once_lose_nothing(kind: str, tmp_path: Path) -> None:
    """Forty tasks relate and store the same memory; its content and all edges are there."""

    async def main() -> None:
        async with opened(kind, tmp_path) as memory:
            stores = [memory.store_embedding("shared", "The content", {"n": 1}) for _ in range(4)]
            relates = [
                memory.store_relationship("shared", f"other {number % 6}", f"name {number}")
                for number in range(36)
            ]
            mixed = [*relates[:18], *stores, *relates[18:]]
            await asyncio.gather(*mixed)
            assert set(await memory.relationships()) == {
                Relation("shared", f"name {number}", f"other {number % 6}") for number in range(36)
            }
            (found,) = await memory.search_similar("content")
            assert (found.content, found.metadata) == ("The content", {"n": 1})

    asyncio.run(main())


@pytest.mark.promise("S0-20")
@pytest.mark.parametrize("damage", [b"", b"{", b"\xff\xfe", b'{"edges": [{"source": 5}]}', b"[5]"])
def test_a_damaged_file_of_relationships_is_kept_aside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: bytes
) -> None:
    """Its bytes stay as they are under another name, which is reported and logged; a second one
    doesn't take the place of the first.
    """
    file = tmp_path / "shop.edges.json"

    async def main() -> None:
        async with ChromaMemory(tmp_path, "shop", trigrams) as memory:
            await memory.store_relationship("a", "b", "uses")
            for count in (1, 2):
                file.write_bytes(damage)
                assert await memory.relationships() == []
                await memory.store_relationship("c", "d", "uses")
                assert await memory.relationships() == [Relation("c", "uses", "d")]
                assert [problem.code for problem in memory.reports] == ["unreadable"] * count
            aside = sorted(tmp_path.glob("shop.edges.json.edited-*"))
            assert [path.read_bytes() for path in aside] == [damage, damage]
            assert all(
                path.name in problem.message
                for path, problem in zip(aside, memory.reports, strict=True)
            )

    with caplog.at_level(logging.WARNING, logger="passdown"):
        asyncio.run(main())
    assert [vars(record)["path"] for record in caplog.records] == [str(file)] * 2


@pytest.mark.promise("S0-20")
def test_a_damaged_file_is_kept_aside_by_a_write_too(tmp_path: Path) -> None:
    """Nothing is written over it, even where nobody has read it before."""
    file = tmp_path / "edges.json"
    file.write_bytes(b"not a graph")
    edges = EdgeFile(str(file))
    assert edges.add([Relation("a", "uses", "b")]) == 1
    assert (tmp_path / "edges.json.edited-1").read_bytes() == b"not a graph"
    assert len(edges.reports) == 1


@pytest.mark.promise("S0-20")
def test_a_damaged_workspace_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    """The error names the file; nothing is written to it."""

    async def store() -> None:
        async with opened("ledger", tmp_path) as memory:
            await memory.store_relationship("a", "b", "uses")

    asyncio.run(store())
    file = tmp_path / "shop" / ".passdown" / "ledger.db"
    file.write_bytes(b"not a database, and longer than a header" * 100)
    before = file.read_bytes()
    with pytest.raises(PassdownError, match=r"ledger\.db"):
        asyncio.run(store())
    assert file.read_bytes() == before


class Refusing:
    """Lets a call of the operating system fail for files of one folder, some times."""

    def __init__(self, call: Callable[..., Any], folder: Path, number: int) -> None:
        self.call, self.folder, self.number = call, str(folder), number
        self.times = 0
        self.refused = 0

    def __call__(self, path: Any, *args: Any, **options: Any) -> Any:
        if self.times > 0 and str(path).startswith(self.folder):
            self.times -= 1
            self.refused += 1
            raise OSError(self.number, os.strerror(self.number), str(path))
        return self.call(path, *args, **options)


def warnings_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]


@pytest.mark.promise("S0-21")
@pytest.mark.parametrize(("call", "code"), [("open", errno.EMFILE), ("replace", errno.EBUSY)])
def test_a_file_that_can_not_be_written_for_the_moment_is_tried_again(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    call: str,
    code: int,
) -> None:
    """Up to three times with growing waits, each of them logged; a fourth refusal is told with
    operation and cause, and the file holds what it held.
    """
    edges = EdgeFile(str(tmp_path / "edges.json"))
    edges.add([Relation("a", "uses", "b")])
    refusing = Refusing(getattr(os, call), tmp_path, code)
    monkeypatch.setattr(os, call, refusing)
    with caplog.at_level(logging.WARNING, logger="passdown"):
        refusing.times = 3
        assert edges.add([Relation("b", "uses", "c")]) == 1
        assert refusing.refused == len(warnings_in(caplog)) == 3
        first, second, third = (record.created for record in caplog.records)
        assert 0.1 <= second - first < third - second
        before = (tmp_path / "edges.json").read_bytes()
        refusing.times = 100
        with pytest.raises(StoreUnavailable) as caught:
            edges.add([Relation("c", "uses", "d")])
    assert "writing" in str(caught.value)
    assert os.strerror(code) in str(caught.value)
    refusing.times = 0
    assert (tmp_path / "edges.json").read_bytes() == before
    assert len(edges.relations()) == 2
    assert list(tmp_path.glob("*.tmp")) == []


@pytest.mark.promise("S0-21")
@pytest.mark.parametrize("call", ["open", "replace"])
def test_a_file_that_can_not_be_written_for_good_is_told_at_once(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    call: str,
) -> None:
    """A full disk is not waited for."""
    edges = EdgeFile(str(tmp_path / "edges.json"))
    edges.add([Relation("a", "uses", "b")])
    refusing = Refusing(getattr(os, call), tmp_path, errno.ENOSPC)
    monkeypatch.setattr(os, call, refusing)
    refusing.times = 1
    with (
        caplog.at_level(logging.WARNING, logger="passdown"),
        pytest.raises(StoreUnavailable, match=r"writing .*edges\.json failed: .*No space left"),
    ):
        edges.add([Relation("b", "uses", "c")])
    assert warnings_in(caplog) == []
    assert edges.relations() == [Relation("a", "uses", "b")]


@pytest.mark.promise("S0-21")
def test_a_workspace_that_refuses_for_the_moment_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Three failed writes of SQLite are logged and got over, a lasting failure is told with
    operation and cause; nothing is there twice or by half.
    """
    monkeypatch.setattr("passdown.ledger.durable_files.FIRST_WAIT_S", 0.001)
    left = 0
    original = SqliteStore._runner  # pyright: ignore[reportPrivateUsage]

    def runner(store: SqliteStore, connection: apsw.Connection) -> Callable[..., list[Any]]:
        run = original(store, connection)

        def refusing(name: str, values: Any) -> list[Any]:
            nonlocal left
            if name == "append" and left > 0:
                left -= 1
                with translated_errors("the test's store"):
                    raise apsw.IOError("disk I/O error (made by the test)")
            return run(name, values)

        return refusing

    monkeypatch.setattr(SqliteStore, "_runner", runner)

    async def main() -> None:
        nonlocal left
        async with opened("ledger", tmp_path) as memory:
            await memory.store_embedding("first", "Buttons are green")
            left = 3
            await memory.store_embedding("second", "Buttons are blue")
            assert len(warnings_in(caplog)) == 3
            left = 3
            await memory.store_relationship("first", "second", "contradicts")
            left = 3
            await memory.store_decision(decision("Use blue buttons"))
            left = 100
            for operation, writing in (
                ("storing the memory 'third'", memory.store_embedding("third", "Red")),
                ("relating 'third' to 'x'", memory.store_relationship("third", "x", "uses")),
                ("storing a decision", memory.store_decision(decision("Use red", number=1))),
            ):
                with pytest.raises(StoreUnavailable) as caught:
                    await writing
                assert f"{operation} failed: " in str(caught.value)
                assert "disk I/O error (made by the test)" in str(caught.value)
            left = 0
            keys = [result.key for result in await memory.search_similar("buttons", k=100)]
            assert sorted(keys) == ["first", "second", "workspace#d1"]
            assert len(await memory.relationships(source="first")) == 1
            assert isinstance(memory, LedgerMemory)
            memory.workspace.verify()

    with caplog.at_level(logging.WARNING, logger="passdown"):
        asyncio.run(main())


@pytest.mark.promise("S0-15", "S0-21")
def test_an_embedder_that_fails_for_the_moment_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A model elsewhere may drop a connection; what was stored stays whole meanwhile."""
    monkeypatch.setattr("passdown.ledger.durable_files.FIRST_WAIT_S", 0.001)
    left = 0

    def embed(texts: Sequence[str]) -> list[list[float]]:
        nonlocal left
        if left:
            left -= 1
            raise ConnectionResetError("the peer hung up")
        return trigrams(texts)

    async def main() -> None:
        nonlocal left
        async with ChromaMemory(tmp_path, "shop", embed) as memory:
            await memory.store_embedding("a", "Buttons are green")
            left = 3
            await memory.store_embedding("b", "Buttons are blue")
            assert len(warnings_in(caplog)) == 3
            left = 100
            with pytest.raises(StoreUnavailable, match="storing the memory 'a' failed: the peer"):
                await memory.store_embedding("a", "Buttons are red")
            left = 0
            found = {r.key: r.content for r in await memory.search_similar("buttons")}
            assert found == {"a": "Buttons are green", "b": "Buttons are blue"}

    with caplog.at_level(logging.WARNING, logger="passdown"):
        asyncio.run(main())


@pytest.mark.promise("S0-21")
@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_that_can_not_be_made_is_told_with_the_operation(
    kind: str, tmp_path: Path
) -> None:
    """A file stands where the folder belongs; it stays."""
    file = tmp_path / "in"
    file.write_text("mine")

    async def main() -> None:
        async with opened(kind, file) as memory:
            await memory.store_embedding("a", "Buttons are green")

    with pytest.raises(StoreUnavailable, match=r"(opening|storing) .*failed"):
        asyncio.run(main())
    assert file.read_text() == "mine"


@pytest.mark.promise("S0-21")
def test_a_refused_vector_leaves_what_was_stored(tmp_path: Path) -> None:
    """Another embedder with longer vectors, or one that gives no numbers, is told of."""

    async def main() -> None:
        async with ChromaMemory(tmp_path, "shop", trigrams) as memory:
            await memory.store_embedding("a", "Buttons are green")
        for vector in ([1.0, 2.0], [], [float("nan")] * 256):

            def embed(texts: Sequence[str], vector: list[float] = vector) -> list[list[float]]:
                return [vector for _ in texts]

            async with ChromaMemory(tmp_path, "shop", embed) as memory:
                with pytest.raises(InvalidInput):
                    await memory.store_embedding("a", "Buttons are red")
        async with ChromaMemory(tmp_path, "shop", trigrams) as memory:
            (found,) = await memory.search_similar("buttons")
            assert found.content == "Buttons are green"

    asyncio.run(main())

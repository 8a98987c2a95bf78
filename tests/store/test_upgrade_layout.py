"""A store whose rows were laid out by an earlier release: laid out anew, with nothing lost."""

from __future__ import annotations

import re
from contextlib import closing
from typing import TYPE_CHECKING, Any

import apsw
import pytest

import passdown
from passdown import Settings
from passdown.core.rows import SearchTerm, mark_of
from passdown.store.sqlite import schema
from passdown.store.sqlite.schema import rows

if TYPE_CHECKING:
    from pathlib import Path

    from passdown import Workspace

QUICK = Settings(durability="normal", embedder="none")
SAME = ("records", "tasks", "items", "entries", "edges", "tags", "knowledge", "labels")


@pytest.fixture
def old(tmp_path: Path, project_root: Path) -> Path:
    """The path of a store as schema 3 had it: a decision superseded by another task's, a gate that
    waits, and the newest entry, of a node, forgotten.
    """
    source = project_root / "tests" / "fixtures" / "stores" / "0003.sql"
    path = tmp_path / "project" / ".passdown" / "ledger.db"
    path.parent.mkdir(parents=True)
    with closing(apsw.Connection(str(path))) as connection:
        rows(connection, source.read_text("utf-8"))
    return path


def rows_of(path: Path, query: str) -> list[Any]:
    with closing(apsw.Connection(str(path))) as connection:
        return rows(connection, query)


def opened(path: Path) -> Workspace:
    return passdown.open(str(path.parent.parent), settings=QUICK)


def test_every_row_is_kept_as_it_was(old: Path) -> None:
    """The rows are the same, in another order of pages; but what a repeat answers is new, and so
    are the marks by which a gotcha's severity is found. Marks of near-duplicates are shorter.
    """
    graded = {mark_of("severity", each) for each in ("high", "medium", "low")}
    texts = "SELECT rowid, words, marks FROM texts ORDER BY rowid"
    is_exact = re.compile("[0-9a-f]{16}").fullmatch
    before = {name: sorted(rows_of(old, f"SELECT * FROM {name}")) for name in SAME}
    before["texts"] = [
        (number, words, " ".join(filter(is_exact, marks.split(" "))))
        for number, words, marks in rows_of(old, texts)
    ]
    with opened(old) as ws:
        assert ws.verify().findings == ()
    after = {name: sorted(rows_of(old, f"SELECT * FROM {name}")) for name in SAME}
    after["texts"] = [
        (number, words, " ".join(m for m in filter(is_exact, marks.split(" ")) if m not in graded))
        for number, words, marks in rows_of(old, texts)
    ]
    after["items"] = [(*r[:12], "", *r[13:]) if r[1] == "h" else r for r in after["items"]]
    assert after == before
    assert rows_of(old, "SELECT count(*) FROM rebuilds") == [(0,)]
    assert rows_of(old, "PRAGMA user_version") == [(schema.newest(),)]


def test_a_number_that_was_taken_is_not_taken_again(old: Path) -> None:
    """The newest entry was forgotten before the upgrade, and the next one after it."""
    (last,) = rows_of(old, "SELECT seq FROM sqlite_sequence WHERE name = 'entries'")[0]
    (newest,) = rows_of(old, "SELECT max(id) FROM entries")[0]
    assert newest < last
    with opened(old) as ws:
        node = {"id": "part", "type": "component", "summary": "A new part"}
        ws.knowledge.add([node], agent="coder")
        assert rows_of(old, "SELECT max(id) FROM entries") == [(last + 1,)]
        ws.knowledge.add(agent="coder", forget_nodes=["part"])
        ws.knowledge.add([node], agent="coder")
        assert rows_of(old, "SELECT max(id) FROM entries") == [(last + 2,)]
        assert ws.verify().findings == ()
        assert ws.maintenance.reindex().records
        assert ws.verify().findings == ()


def test_search_finds_what_it_found(old: Path) -> None:
    """By its words, by who wrote it, and with its status."""
    with opened(old) as ws:
        assert ws.recall("keep sessions in the database", by_words=True)[0].address == "T-2#d1"
        assert {a.agent for a in ws.recall("sessions", agent="planner")} == {"planner"}
        with ws._context.store.reading() as reader:  # pyright: ignore[reportPrivateUsage]
            assert reader.authors() == ["coder", "planner"]
            assert reader.narrowed(["superseded"], "", "", 10) == [2]
            assert reader.matching(SearchTerm("session"), 9) == [8, 7, 2]


def test_verify_misses_an_author_who_is_not_named(tmp_path: Path) -> None:
    """The names are derived rows like others: one that is gone is reported, and made again."""
    path = tmp_path / "ledger.db"
    with passdown.open(f"sqlite:///{path}", settings=QUICK) as ws:
        ws.create_task("T-1", title="Login", agent="planner")
        ws.warn("T-1", agent="coder", text="The staging database is shared")
        assert ws.verify().findings == ()
        with closing(apsw.Connection(str(path))) as connection:
            rows(connection, "DELETE FROM authors WHERE agent = 'coder'")
        assert [(f.path, f.code) for f in ws.verify().findings] == [("authors", "derived_rows")]
        ws.maintenance.reindex()
        assert ws.verify().findings == ()


def test_the_index_stays_in_few_parts(tmp_path: Path) -> None:
    """However many commits there were: a question asks each part."""
    path = tmp_path / "ledger.db"
    parts: list[int] = []
    with passdown.open(f"sqlite:///{path}", settings=QUICK) as ws:
        ws.create_task("T-1", title="Login", agent="planner")
        for number in range(200):
            ws.warn("T-1", agent="coder", text=f"Warning {number} of part {number % 7}")
            found = rows_of(path, "SELECT count(DISTINCT segid) FROM texts_idx")
            parts.append(found[0][0])
    assert 1 < max(parts) <= 10

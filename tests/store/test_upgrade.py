"""A store of an earlier release opens as one of this release, whole, whatever happens meanwhile."""

from __future__ import annotations

import json
import os
import shutil
from contextlib import closing
from typing import TYPE_CHECKING, Any, NoReturn

import apsw
import pytest

import passdown
from passdown import Settings
from passdown.core.items import entry_of, item_lines
from passdown.errors import PassdownError
from passdown.ledger.writer import Ledger
from passdown.store.sqlite import SqliteStore, schema
from passdown.store.sqlite.schema import rows
from passdown.store.statements import Reader, Writer
from tests.folders import new_folder
from tests.sizes import counted

if TYPE_CHECKING:
    from pathlib import Path

    from passdown import Workspace

Document = dict[str, Any]
QUICK = Settings(durability="normal")
TABLES = ("records", "streams", "tasks", "details", "items", "links", "dependencies", "inbox")


@pytest.fixture(params=["0001.sql"])
def old(tmp_path: Path, project_root: Path, request: pytest.FixtureRequest) -> Path:
    """A project whose store an earlier release has left."""
    source = project_root / "tests" / "fixtures" / "stores" / request.param
    folder = tmp_path / "project" / ".passdown"
    folder.mkdir(parents=True)
    with closing(apsw.Connection(str(folder / "ledger.db"))) as connection:
        rows(connection, source.read_text("utf-8"))
    return folder.parent


def rows_of(root: Path, table: str) -> list[Any]:
    with closing(apsw.Connection(str(root / ".passdown" / "ledger.db"))) as connection:
        return list(rows(connection, f"SELECT * FROM {table}"))


def is_due(root: Path) -> bool:
    return bool(rows_of(root, "rebuilds"))


def dump(ws: Workspace) -> Document:
    with ws._context.store.reading() as reader:  # pyright: ignore[reportPrivateUsage]
        return reader.dump()


def replayed(root: Path, folder: Path) -> Document:
    """What the records of a store give in a store that is new."""
    store = SqliteStore(str(root / ".passdown" / "ledger.db"))
    with closing(store), store.reading() as reader:
        records = list(reader.tail())
    fresh = SqliteStore(str(folder / "fresh.db"))
    with closing(fresh):
        with fresh.writing([]) as writer:
            for record in records:
                writer.append(record)
        Ledger(fresh).rebuild()
        with fresh.reading() as reader:
            return reader.dump()


def test_an_old_store_opens_whole(old: Path) -> None:
    """Nothing that was recorded changes, verify finds nothing, and it is of the newest schema."""
    before = rows_of(old, "records")
    with passdown.open(str(old), settings=QUICK) as ws:
        assert ws.verify().findings == ()
        assert [row.task for row in ws.tasks(with_workspace=True)] == ["T-1", "T-2", "workspace"]
        assert ws.files.state_document("T-1")["version"] == 5
        assert [entry.task for entry in ws.inbox("coder")] == ["T-1"]
    assert rows_of(old, "records") == before
    assert rows_of(old, "migrations")[-1][0] == schema.newest()
    assert not is_due(old)


def test_its_items_have_sizes_and_labels(old: Path) -> None:
    """What the old release didn't derive is there, and right."""
    with passdown.open(str(old), settings=QUICK) as ws:
        with ws._context.store.reading() as reader:  # pyright: ignore[reportPrivateUsage]
            items = [*reader.items_since("T-1"), *reader.items_since("workspace")]
            labels = {label.label for label in reader.labels_of_task("T-1")}
            assert len(items) == 11
            for row in items:
                record = reader.record(f"task/{row.task}", row.position)
                assert record is not None
                entry = entry_of(record.document(), row.field, row.index)
                assert row.sizes == counted(item_lines(row.letter, row.ordinal, entry))
        entries = ws.files.state_document("T-1")["decisions"]
        assert {tag for entry in entries for tag in entry.get("tags", ())} <= labels


def test_its_briefs_work(old: Path) -> None:
    """They tell what holds, leave out what doesn't, and are recorded like any other."""
    with passdown.open(str(old), settings=QUICK) as ws:
        found = ws.brief("T-1", agent="coder", budget=2_000)
        assert found.left_out == {}
        told = {item.address for item in found.shown}
        assert {"T-1#q1", "T-1#n1", "T-1#h1", "T-1#d2", "T-1#g1", "workspace#g1"} <= told
        assert not {"T-1#b1", "T-1#d1"} & told
        assert "Write the middleware" in found.text
        assert ws.context.why("T-1#d2", agent="coder").told is True
        assert ws.verify().findings == ()
        ws.decide(task="T-1", agent="coder", summary="Anew", rationale="r")
        assert ws.context.check("T-1", found.text) == (False, 5, 6)


def test_the_rows_are_those_of_a_fresh_replay(old: Path, tmp_path: Path) -> None:
    """Of the store as it was left, and of one that has been written to since."""
    with passdown.open(str(old), settings=QUICK) as ws:
        assert dump(ws) == replayed(old, tmp_path)
        ws.set_status("T-1#n1", "done", agent="coder")
        ws.brief("T-1", agent="coder")
        after = dump(ws)
        ws.maintenance.reindex()
        assert dump(ws) == after


class _CrashError(Exception):
    """The process ends here."""


def crash(*_: object, **__: object) -> NoReturn:
    raise _CrashError


@pytest.mark.parametrize("at", ["before", "halfway", "at the end"])
def test_a_crash_before_the_rows_are_made_again_is_made_good(
    old: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    """The next opening sees that they are due; meanwhile no record is touched."""
    before = {table: rows_of(old, table) for table in ("records", "streams")}
    with monkeypatch.context() as patch:
        match at:
            case "before":
                patch.setattr(Ledger, "rebuild", crash)
            case "halfway":
                patch.setattr(Writer, "add_labels", crash)
            case _:
                patch.setattr(Reader, "tail", _then_crash(Reader.tail))
        with pytest.raises(_CrashError):
            passdown.open(str(old), settings=QUICK)
    assert is_due(old)
    assert {table: rows_of(old, table) for table in before} == before
    assert len(rows_of(old, "items")) == 11
    with passdown.open(str(old), settings=QUICK) as ws:
        assert ws.verify().findings == ()
        assert dump(ws) == replayed(old, tmp_path)
        assert ws.brief("T-1", agent="coder").shown
    assert not is_due(old)


def _then_crash(tail: Any) -> Any:
    def all_of(self: Reader, after: int = 0) -> Any:
        yield from tail(self, after)
        crash()

    return all_of


def test_two_that_open_it_at_once_both_get_it(old: Path) -> None:
    """The second finds the work done, or does it again; both see the same."""
    with passdown.open(str(old), settings=QUICK) as one:
        with passdown.open(str(old), settings=QUICK) as two:
            assert dump(one) == dump(two)
        Ledger(one._context.store).rebuild()  # pyright: ignore[reportPrivateUsage]
        assert one.verify().findings == ()


def test_a_copy_from_before_can_still_be_opened(old: Path, tmp_path: Path) -> None:
    """A backup of the old release restores into this one."""
    copy = tmp_path / "copy" / ".passdown"
    copy.mkdir(parents=True)
    shutil.copy(old / ".passdown" / "ledger.db", copy / "ledger.db")
    with (
        passdown.open(str(old), settings=QUICK) as one,
        passdown.open(str(copy.parent), settings=QUICK) as two,
    ):
        assert dump(one) == dump(two)
        assert one.brief("T-1", agent="qa").text == two.brief("T-1", agent="qa").text


def test_a_new_store_has_nothing_due(tmp_path: Path) -> None:
    with passdown.open(new_folder(tmp_path / "new"), settings=QUICK) as ws:
        ws.create_task("T-1", title="Login", agent="planner")
    assert not is_due(tmp_path / "new")


def test_an_old_store_that_was_altered_is_refused_untouched(old: Path) -> None:
    """A migration isn't run over what somebody else has added."""
    path = old / ".passdown" / "ledger.db"
    with closing(apsw.Connection(str(path))) as connection:
        rows(connection, "CREATE TABLE extra (a)")
    data = path.read_bytes()
    with pytest.raises(PassdownError, match="schema"):
        passdown.open(str(old), settings=QUICK)
    assert path.read_bytes() == data


def test_the_fixture_is_what_the_old_release_left(old: Path) -> None:
    """So that the tests above start from there: no sizes, no labels, its own schema."""
    columns = [row[1] for row in rows_of(old, "pragma_table_info('items')")]
    assert "sizes" not in columns
    assert not any("labels" in json.loads(row[-1]) for row in rows_of(old, "tasks"))
    assert all(rows_of(old, table) for table in TABLES)
    assert os.path.exists(old / ".passdown" / "ledger.db")

"""One store into another: as it is, verified, and going on where it was stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import passdown
from passdown import Settings
from passdown.errors import InvalidInput, NotFound
from passdown.store import copy as copying
from passdown.store import open_store
from passdown.testing import fixed_clock
from passdown.workspace.maintenance import copy_workspace
from tests.interfaces.running import data_of
from tests.store.test_both_stores import content, tell, vectors

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("in_own_folder")

SETTINGS = Settings(durability="normal", embedder="none", artifacts_on_disk=False)


class _Stop(Exception):
    pass


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("source")
    with passdown.open(str(folder), settings=SETTINGS, clock=fixed_clock()) as ws:
        tell(ws)
        ws.embeddings.use("hashes", vectors)
        ws.embeddings.update()
        ws.brief("T-1", agent="ana")
    return str(folder)


def opened(target: str) -> passdown.Workspace:
    return passdown.open(target, settings=SETTINGS, clock=fixed_clock())


def answers(target: str) -> list[Any]:
    with opened(target) as ws:
        ws.embeddings.use("hashes", vectors)
        return [ws.recall(query, limit=10) for query in ("retry the queue", "upload form")]


@pytest.mark.promise("S8-3")
def test_there_and_back_again_nothing_has_changed(
    source: str, tmp_path: Path, postgres_store: str
) -> None:
    """Records, digests, derived rows and vectors are those of the source, in any direction."""
    there = copy_workspace(source, postgres_store)
    back = copy_workspace(postgres_store, str(tmp_path / "back.db"))
    assert there.verified.ok
    assert back.verified.ok
    assert there.records == back.records > 150
    with opened(source) as ws:
        expected = content(ws)
    for target in (postgres_store, str(tmp_path / "back.db")):
        with opened(target) as ws:
            assert content(ws) == expected
            assert ws.embeddings.status().is_complete or ws.embeddings.status().embedder == ""
            assert ws.maintenance.reindex().differing == ()
    assert answers(source) == answers(postgres_store) == answers(str(tmp_path / "back.db"))


@pytest.mark.promise("S8-3")
@pytest.mark.parametrize("into", ["sqlite", "postgres"])
def test_an_interrupted_copy_goes_on(
    source: str, tmp_path: Path, postgres_store: str, into: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever it was stopped at: what came stays, what is opened meanwhile is whole."""
    monkeypatch.setattr(copying, "BATCH", 40)
    target = postgres_store if into == "postgres" else f"sqlite:///{tmp_path / 'copy.db'}"
    for stop in (1, 2, 7):
        calls = 0

        def interrupt(done: int, total: int, stop: int = stop) -> None:
            nonlocal calls
            calls += 1
            assert 0 < done <= total
            if calls == stop:
                raise _Stop

        with pytest.raises(_Stop):
            copy_workspace(source, target, lambda label: interrupt)
        with opened(target) as ws:
            assert ws.verify().findings == ()
    last = copy_workspace(source, target)
    assert last.before > 0
    assert last.verified.ok
    with opened(source) as one, opened(target) as other:
        assert content(other) == content(one)
    again = copy_workspace(source, target)
    assert (again.records, again.before) == (0, last.records + last.before)


@pytest.mark.promise("S8-3")
def test_what_was_written_since_comes_with_the_next_copy(
    tmp_path: Path, postgres_store: str
) -> None:
    source = str(tmp_path / "one.db")
    with opened(source) as ws:
        ws.create_task("T-1", title="Login", agent="planner")
    assert copy_workspace(source, postgres_store).records == 1
    with opened(source) as ws:
        ws.decide(task="T-1", agent="coder", summary="Later", rationale="so")
    later = copy_workspace(source, postgres_store)
    assert (later.records, later.before) == (1, 1)
    with opened(postgres_store) as ws:
        assert ws.task("T-1").version == 2


@pytest.mark.promise("S8-3")
def test_a_target_with_other_records_is_refused_untouched(
    tmp_path: Path, postgres_store: str
) -> None:
    source = str(tmp_path / "one.db")
    for target, title in ((source, "Login"), (postgres_store, "Other")):
        with opened(target) as ws:
            ws.create_task("T-1", title=title, agent="planner")
    with opened(postgres_store) as ws:
        before = content(ws)
    with pytest.raises(InvalidInput, match="holds records that the source lacks: task/T-1"):
        copy_workspace(source, postgres_store)
    with opened(postgres_store) as ws:
        assert content(ws) == before


def test_a_source_that_is_not_there_is_not_made(tmp_path: Path, postgres_store: str) -> None:
    for missing in (str(tmp_path / "missing.db"), postgres_store):
        with pytest.raises(NotFound):
            copy_workspace(missing, str(tmp_path / "target.db"))
    with pytest.raises(NotFound):
        open_store(postgres_store, create=False)


def test_the_verb_copies_and_says_what_it_did(
    source: str, tmp_path: Path, postgres_store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from passdown.cli.main import main

    assert main(["copy", source, postgres_store, "--json"]) == 0
    done = data_of(capsys.readouterr().out)
    assert done["ok"]
    assert done["records"] == done["verified"]["records"]
    assert main(["copy", postgres_store, str(tmp_path / "back.db")]) == 0
    assert f"copied {done['records']} records" in capsys.readouterr().out
    assert main(["copy", postgres_store, str(tmp_path / "back.db")]) == 0
    assert "had been copied before" in capsys.readouterr().out

"""A project whose records are kept in a database: its folder names it, for this machine alone."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

import passdown
from passdown.errors import InvalidInput, StoreUnavailable, UnsafeStore
from passdown.workspace.maintenance import copy_workspace
from tests.interfaces.running import data_of
from tests.postgres import name_store, new_workspace

if TYPE_CHECKING:
    from pathlib import Path

    from tests.postgres import KeepIn

pytestmark = pytest.mark.usefixtures("in_own_folder")


def test_init_names_the_database_and_every_verb_finds_it(
    tmp_path: Path,
    postgres_store: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from passdown.cli.main import main

    monkeypatch.delenv("PASSDOWN_STORE", raising=False)
    below = tmp_path / "src"
    below.mkdir()
    assert main(["init", str(tmp_path), "--store", postgres_store, "--json"]) == 0
    assert data_of(capsys.readouterr().out)["store"] == postgres_store
    monkeypatch.chdir(below)
    assert main(["task", "new", "T-1", "--title", "Login"]) == 0
    assert (tmp_path / ".passdown" / "state" / "T-1.json").exists()
    assert not (tmp_path / ".passdown" / "ledger.db").exists()
    capsys.readouterr()
    assert main(["doctor", "--json"]) == 0
    facts = data_of(capsys.readouterr().out)["facts"]
    assert (facts["database"], facts["store"]) == ("postgresql", postgres_store)
    assert facts["root"] == str(tmp_path)
    assert main(["backup", str(tmp_path / "safe.db")]) == 0
    with passdown.open(str(tmp_path / "safe.db")) as ws:
        assert ws.task("T-1").title == "Login"
    ignored = (tmp_path / ".passdown" / ".gitignore").read_text().splitlines()
    assert ignored[0] == "*"
    assert "!store" not in ignored


def test_a_file_that_others_may_use_is_refused(tmp_path: Path) -> None:
    """A repository can hold such a file, but not with a private mode."""
    name_store(tmp_path, "postgresql://elsewhere.example/theirs")
    os.chmod(tmp_path / ".passdown" / "store", 0o644)
    with pytest.raises(UnsafeStore, match="says where records go"):
        passdown.open(str(tmp_path))


@pytest.mark.parametrize("verb", [["init", "--store"], ["copy", "."]])
def test_a_server_is_no_store_and_the_error_says_how_it_is_named(
    tmp_path: Path,
    verb: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from passdown.cli.main import main

    monkeypatch.chdir(tmp_path)
    record_in(tmp_path)
    assert main([*verb, "https://passdown.example.org"]) == 1
    said = capsys.readouterr().err
    assert "names no store" in said
    assert "PASSDOWN_STORE" in said
    assert titles(tmp_path) == ["Login"]


def record_in(folder: Path, title: str = "Login") -> str:
    """A task in whatever store a folder has; gives the store's address."""
    with passdown.open(str(folder)) as ws:
        ws.create_task("T-1", title=title, agent="planner")
        return ws.store_url


def titles(folder: Path) -> list[str]:
    with passdown.open(str(folder)) as ws:
        return [task.title for task in ws.tasks()]


@pytest.mark.promise("S8-9")
@pytest.mark.parametrize("is_made", [True, False])
def test_a_folder_with_records_is_not_pointed_elsewhere(
    tmp_path: Path, keep_in: KeepIn, postgres_database: str, is_made: bool
) -> None:
    """Wherever they are, and whether the other store is there or not."""
    keep_in(tmp_path)
    present = record_in(tmp_path)
    other = new_workspace(postgres_database)
    if is_made:
        passdown.open(other).close()
    with pytest.raises(InvalidInput) as refused:
        passdown.init(str(tmp_path), other)
    (problem,) = refused.value.problems
    assert problem.code == "holds_records"
    assert f"has 1 record in {present}" in problem.message
    assert "passdown copy" in refused.value.next_step
    assert "--repoint" in refused.value.next_step
    assert titles(tmp_path) == ["Login"]
    passdown.init(str(tmp_path), present).close()
    passdown.init(str(tmp_path)).close()
    assert titles(tmp_path) == ["Login"]
    with passdown.init(str(tmp_path), other, repoint=True) as ws:
        assert ws.tasks() == []
    assert titles(tmp_path) == []
    passdown.init(str(tmp_path), present).close()
    assert titles(tmp_path) == ["Login"]


@pytest.mark.promise("S8-9")
def test_after_a_copy_the_folder_follows_its_records(
    tmp_path: Path, keep_in: KeepIn, postgres_store: str
) -> None:
    """Also when work went on in the copy; not when it went on in what was copied."""
    keep_in(tmp_path)
    record_in(tmp_path)
    copy_workspace(str(tmp_path), postgres_store)
    with passdown.open(str(tmp_path)) as ws:
        ws.decide(task="T-1", agent="coder", summary="Later", rationale="so")
    with pytest.raises(InvalidInput, match="has 2 records in"):
        passdown.init(str(tmp_path), postgres_store)
    copy_workspace(str(tmp_path), postgres_store)
    with passdown.open(postgres_store) as ws:
        ws.decide(task="T-1", agent="coder", summary="Later still", rationale="so")
    with passdown.init(str(tmp_path), postgres_store) as ws:
        assert ws.task("T-1").version == 3
    assert titles(tmp_path) == ["Login"]


@pytest.mark.promise("S8-9")
def test_records_of_the_same_names_are_not_the_same_records(
    tmp_path: Path, postgres_store: str
) -> None:
    record_in(tmp_path)
    with passdown.open(postgres_store) as ws:
        ws.create_task("T-1", title="Other", agent="planner")
    with pytest.raises(InvalidInput, match="points where it did"):
        passdown.init(str(tmp_path), postgres_store)


def test_a_store_that_cannot_be_reached_is_left_only_if_that_is_said(
    tmp_path: Path, postgres_store: str
) -> None:
    name_store(tmp_path, "postgresql://127.0.0.1:1/nobody")
    with pytest.raises(StoreUnavailable, match="can't read whether") as refused:
        passdown.init(str(tmp_path), postgres_store)
    assert "--repoint" in refused.value.next_step
    passdown.init(str(tmp_path), postgres_store, repoint=True).close()
    assert titles(tmp_path) == []


@pytest.mark.promise("S8-9")
def test_the_verb_says_where_the_folder_points_and_the_doctor_what_is_left(
    tmp_path: Path,
    postgres_store: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from passdown.cli.main import main

    monkeypatch.delenv("PASSDOWN_STORE", raising=False)
    monkeypatch.chdir(tmp_path)
    present = record_in(tmp_path)
    assert main(["init", "--repoint"]) == 2
    assert main(["init", "--store", postgres_store]) == 1
    assert present in "".join(capsys.readouterr().err.split())
    assert not (tmp_path / ".passdown" / "store").exists()
    assert main(["doctor", "--json", "--no-start"]) == 0
    assert "left_behind" not in capsys.readouterr().out
    assert main(["init", "--store", postgres_store, "--repoint"]) == 0
    # Lines are wrapped wherever the screen ends.
    assert f"before:{present}" in "".join(capsys.readouterr().out.split())
    assert main(["doctor", "--json", "--no-start"]) == 0
    found = data_of(capsys.readouterr().out)["findings"]
    (left,) = [finding for finding in found if finding["code"] == "left_behind"]
    assert left["path"] == str(tmp_path / ".passdown" / "ledger.db")
    assert postgres_store in left["message"]

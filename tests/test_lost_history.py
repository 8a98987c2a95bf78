"""A ledger that has lost history isn't used as it is while state files show what it had."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING, Any

import pytest

import passdown
from passdown import Settings
from passdown.cli.main import main
from passdown.errors import Damaged, NotFound
from passdown.testing import full_handoff, write_files

if TYPE_CHECKING:
    from pathlib import Path

    from passdown import Workspace

QUICK = Settings(durability="normal", kept_versions=4)


def opened(project: Path) -> Workspace:
    return passdown.open(str(project), settings=QUICK)


def ledger(project: Path) -> Path:
    return project / ".passdown" / "ledger.db"


def state(project: Path, task: str = "T-1") -> Path:
    return project / ".passdown" / "state" / f"{task}.json"


def put_back(project: Path, copy: Path | None) -> None:
    """An older copy of the database in the place of the newer one; None for an empty file."""
    for ending in ("", "-wal", "-shm"):
        (project / ".passdown" / f"ledger.db{ending}").unlink(missing_ok=True)
    if copy is None:
        ledger(project).touch(0o600)
    else:
        shutil.copy(copy, ledger(project))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project whose T-1 was handed off after the copy `old.db` was made; T-2 came later."""
    folder = tmp_path / "project"
    folder.mkdir()
    write_files(str(folder))
    with opened(folder) as ws:
        ws.create_task("T-1", title="Login", agent="planner")
        ws.maintenance.backup(str(tmp_path / "old.db"))
        ws.hand_off(full_handoff())
        ws.create_task("T-2", title="Pay", agent="planner")
    return folder


@pytest.mark.promise("P-17")
def test_an_older_copy_is_found_out_and_its_task_is_not_written_to(
    project: Path, tmp_path: Path
) -> None:
    """The error names both versions and the command; what proves the loss isn't overwritten."""
    shown = state(project).read_bytes()
    lost = json.loads(shown)
    put_back(project, tmp_path / "old.db")
    with opened(project) as ws:
        for write in (
            lambda: ws.warn("T-1", agent="a", text="w"),
            lambda: ws.hand_off({"task": "T-1", "outcome": "completed"}),
            lambda: ws.create_task("T-2", title="Pay again", agent="a"),
        ):
            with pytest.raises(Damaged) as refused:
                write()
            assert "passdown recover" in refused.value.next_step
        with pytest.raises(Damaged) as refused:
            ws.warn("T-1", agent="a", text="w")
        (problem,) = refused.value.problems
        assert problem.code == "ledger_behind"
        for part in ("version 2", lost["digest"], "version 1", ws.state("T-1").digest):
            assert part in problem.message
        assert ws.task("T-1").version == 1
        ws.create_task("T-3", title="Others go on", agent="a")
        report = ws.maintenance.doctor()
        assert not report.ok
        assert report.facts["state_files"]["ahead"] == 2
        assert {f["path"] for f in report.findings if f["code"] == "ledger_behind"} == {
            "T-1",
            "T-2",
        }
        ws.maintenance.reindex()
    assert state(project).read_bytes() == shown


@pytest.mark.promise("P-17")
def test_verify_finds_what_state_files_show_and_the_ledger_lacks(
    project: Path, tmp_path: Path
) -> None:
    """The chain of an older copy is whole; the task that it never had counts too."""
    put_back(project, tmp_path / "old.db")
    with opened(project) as ws:
        found = ws.verify()
    assert not found.ok
    assert {(each.path, each.code) for each in found.findings} == {
        ("T-1", "ledger_behind"),
        ("T-2", "ledger_behind"),
    }


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_in_the_place_of_a_state_file_holds_nobody_up(project: Path) -> None:
    state(project).unlink()
    os.mkfifo(state(project))
    with opened(project) as ws:
        done = ws.decide(task="T-1", agent="coder", summary="x", rationale="y")
        assert ws.task("T-1").version == done.version


@pytest.mark.promise("P-17")
def test_the_evidence_stays_when_the_file_goes(project: Path, tmp_path: Path) -> None:
    """Once it was found, removing the state file is no way around the refusal."""
    put_back(project, tmp_path / "old.db")
    with opened(project) as ws:
        with pytest.raises(Damaged):
            ws.warn("T-1", agent="a", text="w")
        state(project).unlink()
        with pytest.raises(Damaged):
            ws.warn("T-1", agent="a", text="w")


@pytest.mark.promise("P-17")
def test_a_person_decides_and_that_is_recorded(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`passdown recover` records who went on without the lost part; the evidence is kept."""
    shown = state(project).read_bytes()
    put_back(project, tmp_path / "old.db")
    monkeypatch.chdir(project)
    assert main(["recover", "T-1", "--by", "ana", "--reason", "the disk failed"]) == 0
    with opened(project) as ws:
        assert ws.warn("T-1", agent="a", text="w").version == 2
        kept = list(state(project).parent.glob("**/T-1.json.accepted-1"))
        assert [path.read_bytes() for path in kept] == [shown]
        with pytest.raises(NotFound):
            ws.maintenance.recover("T-1", by="ana")
        with ws._context.store.reading() as reader:  # pyright: ignore[reportPrivateUsage]
            (record,) = reader.records("recovery/T-1")
        assert (record.author, record.kind) == ("ana", "ledger_accepted")
        assert record.document()["reason"] == "the disk failed"
        assert record.document()["lost_version"] == 2
        assert [finding.path for finding in ws.verify().findings] == ["T-2"]
        with pytest.raises(Damaged):
            ws.create_task("T-2", title="t", agent="a")


@pytest.mark.promise("P-17")
def test_the_newer_ledger_ends_the_refusal(project: Path, tmp_path: Path) -> None:
    """What has the lost records again is written to again, without anybody's decision."""
    with opened(project) as ws:
        ws.maintenance.backup(str(tmp_path / "new.db"))
    put_back(project, tmp_path / "old.db")
    with opened(project) as ws, pytest.raises(Damaged):
        ws.warn("T-1", agent="a", text="w")
    put_back(project, tmp_path / "new.db")
    with opened(project) as ws:
        assert ws.warn("T-1", agent="a", text="w").version == 3
        assert ws.maintenance.doctor().facts["state_files"]["ahead"] == 0


@pytest.mark.promise("P-17")
@pytest.mark.parametrize("left", ["an empty file", "nothing"])
def test_an_empty_ledger_beside_state_files_is_refused(project: Path, left: str) -> None:
    """Reads and writes alike, until a person decides to begin again."""
    put_back(project, None)
    if left == "nothing":
        ledger(project).unlink()
    with opened(project) as ws:
        calls: list[Any] = [ws.tasks, lambda: ws.create_task("T-9", title="t", agent="a")]
        for call in calls:
            with pytest.raises(Damaged, match="state files still show"):
                call()
        assert ws.maintenance.doctor().facts["state_files"]["ahead"] == 2
        assert sorted(ws.maintenance.recover(by="ana")) == ["T-1", "T-2"]
        assert ws.tasks() == []
        ws.create_task("T-1", title="from the start", agent="a")
    with opened(project) as ws:
        assert [task.task for task in ws.tasks()] == ["T-1"]


@pytest.mark.promise("P-17")
def test_a_rewritten_history_of_the_same_length_is_found(project: Path, tmp_path: Path) -> None:
    """A digest that the ledger doesn't know counts as much as a higher version."""
    put_back(project, tmp_path / "old.db")
    kept = state(project).read_bytes()
    os.unlink(state(project))
    with opened(project) as ws:
        ws.warn("T-1", agent="a", text="another version 2")
        ws.warn("T-1", agent="a", text="version 3")
        state(project).write_bytes(kept)
        with pytest.raises(Damaged):
            ws.warn("T-1", agent="a", text="w")


@pytest.mark.promise("P-17")
def test_a_torn_or_edited_state_file_never_refuses_a_write(project: Path, tmp_path: Path) -> None:
    """Whatever version it shows: its own checksum says that it isn't what was written."""
    edited = state(project).read_text("utf-8").replace('"version": 2', '"version": 9')
    state(project).write_text(edited, "utf-8")
    with opened(project) as ws:
        report = ws.maintenance.doctor()
        assert report.ok
        assert [f["code"] for f in report.findings].count("edited_state_file") == 1
        assert state(project).with_name("T-1.json.edited-1").read_text("utf-8") == edited
        assert passdown.read_state_file(state(project).read_text("utf-8"))["version"] == 2
        state(project).write_text(edited[:-100], "utf-8")
        receipt = ws.warn("T-1", agent="a", text="w")
        assert [warning.code for warning in receipt.warnings] == ["edited_state_file"]


@pytest.mark.promise("P-17")
def test_a_state_folder_that_is_a_link_is_not_followed(project: Path, tmp_path: Path) -> None:
    """Nothing is written where it leads; the write itself is recorded, with a warning."""
    outside = tmp_path / "outside"
    outside.mkdir()
    shutil.rmtree(state(project).parent)
    state(project).parent.symlink_to(outside)
    with opened(project) as ws:
        receipt = ws.warn("T-1", agent="a", text="w")
        assert [warning.code for warning in receipt.warnings] == ["handle_not_written"]
    assert list(outside.iterdir()) == []


@pytest.mark.promise("P-17")
def test_what_dead_processes_left_is_swept(project: Path) -> None:
    """Temporary files of processes that no longer run go; one that runs keeps its own."""
    folder = state(project).parent / ".writing"
    dead, alive = folder / "T-1.json.4194304.00.tmp", folder / f"T-1.json.{os.getppid()}.00.tmp"
    older = state(project).parent / "T-1.json.4194304.11.tmp"
    for path in (dead, alive, older):
        path.write_text("left", "utf-8")
    with opened(project) as ws:
        ws.warn("T-1", agent="a", text="w")
        assert (dead.exists(), alive.exists()) == (False, True)
        ws.maintenance.doctor()
        assert not older.exists()


@pytest.mark.promise("S1-35")
def test_the_state_file_is_bounded_in_bytes(tmp_path: Path) -> None:
    """One version of many items fits too; what is left out is counted, and where to find it."""
    settings = Settings(durability="normal", state_bytes=20_000)
    with passdown.open(str(tmp_path), settings=settings) as ws:
        ws.create_task("T-1", title="t", agent="a")
        steps = [{"step": f"step {number} {'x' * 200}"} for number in range(400)]
        warnings = [f"warning {number} {'x' * 200}" for number in range(400)]
        ws.hand_off(
            {
                "task": "T-1",
                "outcome": "completed",
                "suggested_next_steps": steps,
                "warnings": warnings,
            }
        )
        path = tmp_path / ws.files.state_file("T-1")
        assert path.stat().st_size < 25_000
        shown = passdown.read_state_file(path.read_text("utf-8"))
        assert shown["totals"]["next_steps"] == shown["totals"]["warnings"] == 400
        count = sum(len(shown[name]) for name in ("next_steps", "warnings", "handoffs"))
        assert shown["archive"]["left_out"] == 801 - count
        assert shown["archive"]["whole"] == "passdown state T-1 --json"
        assert len(shown["next_steps"]) > 20
        assert len(ws.files.state_document("T-1")["warnings"]) == 400


@pytest.mark.promise("P-17")
def test_two_stores_in_one_folder_say_nothing_of_each_other(tmp_path: Path) -> None:
    """Their state files share a folder; neither store is taken for one that lost history."""
    for name in ("one.db", "two.db", "one.db"):
        with passdown.open(str(tmp_path / name), settings=QUICK) as ws:
            if not ws.tasks():
                ws.create_task("T-1", title=name, agent="a")
            ws.warn("T-1", agent="a", text=f"{name} {ws.task('T-1').version}")
            assert ws.maintenance.doctor().facts["state_files"]["ahead"] == 0

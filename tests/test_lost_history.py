"""A ledger that has lost history isn't used as it is while state files show what it had."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

import passdown
from passdown import Settings
from passdown.cli.main import main
from passdown.errors import Damaged, NotFound, StoreUnavailable
from passdown.store.sqlite.files import SameFile
from passdown.testing import full_handoff, write_files
from passdown.workspace.tokens import Tokens
from tests.interfaces.running import data_of
from tests.postgres import new_workspace
from tests.serving import served

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
def test_verifying_against_saved_heads_names_the_decision(
    project: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Whoever compares the store with what was saved reads who went on without the lost part."""
    monkeypatch.chdir(project)
    assert said(capsys, "heads", "export", "../heads.json")[0] == 0
    put_back(project, tmp_path / "old.db")
    reason = ("--reason", "the disk failed")
    assert said(capsys, "recover", "T-1", "--by", "ana", *reason)[0] == 0
    decided = "ana accepted that at"
    for _ in ("rolled back", "rewritten"):
        code, printed = said(capsys, "verify", "--against", "../heads.json")
        assert code == 1
        (line,) = [each for each in printed.splitlines() if "task/T-1@2" in each]
        assert decided in line
        assert "the disk failed" in line
        assert not any(decided in each for each in printed.splitlines() if "task/T-2@1" in each)
        assert said(capsys, "warn", "T-1", "w", "--agent", "a")[0] == 0


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
        state(project, "T-2").write_text(edited, "utf-8")
        os.truncate(state(project, "T-2"), 300 * 2**20)
        assert ws.warn("T-2", agent="a", text="w").version == 2
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
        assert 18_000 < path.stat().st_size <= 20_000
        shown = passdown.read_state_file(path.read_text("utf-8"))
        assert shown["totals"]["next_steps"] == shown["totals"]["warnings"] == 400
        count = sum(len(shown[name]) for name in ("next_steps", "warnings", "handoffs"))
        assert shown["archive"]["left_out"] == 801 - count
        assert shown["archive"]["whole"] == "passdown state T-1 --json"
        assert len(shown["next_steps"]) > 20
        assert len(ws.files.state_document("T-1")["warnings"]) == 400


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """The exit code of a command, and all that it printed."""
    code = main(list(arguments))
    printed = capsys.readouterr()
    return code, printed.out + printed.err


@pytest.fixture(autouse=True)
def no_width(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines are printed whole, whatever terminal the tests run in."""
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture
def behind(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The project with the older copy in place, as the current folder."""
    put_back(project, tmp_path / "old.db")
    monkeypatch.chdir(project)
    return project


READS = (
    "brief",
    "state",
    "summary",
    "task show",
    "log",
    "switch --to a --task",
    "context",
    "gate list",
)


@pytest.mark.promise("P-17")
@pytest.mark.parametrize("read", READS)
def test_every_read_of_the_task_says_that_history_was_lost(
    behind: Path,
    read: str,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One line names the task, both versions and the command that decides."""
    code, printed = said(capsys, *read.split(), "T-1")
    assert code == 0
    printed += "".join(f"{each.getMessage()}\n" for each in caplog.records)
    (warning,) = [line for line in printed.splitlines() if "ledger_behind" in line]
    for part in ("warning", "T-1", "version 2", "version 1", "passdown recover T-1 --by NAME"):
        assert part in warning


@pytest.mark.promise("P-17")
@pytest.mark.parametrize("read", ["task list", "inbox planner"])
def test_lists_of_tasks_say_it_of_every_task(
    behind: Path,
    read: str,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Of those that the ledger doesn't have at all too."""
    code, printed = said(capsys, *read.split())
    assert code == 0
    printed += "".join(f"{each.getMessage()}\n" for each in caplog.records)
    assert "passdown recover T-2 --by NAME" in printed
    assert ("passdown recover T-1 --by NAME" in printed) == (read == "task list")


@pytest.mark.promise("P-17")
def test_a_leg_of_a_relay_says_it_to_its_agent(
    behind: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    agent = {"runner": {"command": ["sh", "-c", "cat > asked.txt; echo no"]}}
    relay = {"relay": "r", "agents": {"a": agent}, "legs": [{"leg": "one", "agent": "a"}]}
    (behind / "relay.json").write_text(json.dumps(relay), "utf-8")
    _, printed = said(capsys, "run", "relay.json", "--task", "T-1", "--by", "kim")
    asked = (behind / "asked.txt").read_text("utf-8")
    for text in (asked, printed):
        assert "passdown recover T-1 --by NAME" in text


@pytest.mark.promise("P-17")
@pytest.mark.parametrize("read", READS)
def test_a_task_that_was_lost_altogether_is_not_offered_as_new(
    behind: Path, read: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, printed = said(capsys, *read.split(), "T-2")
    assert code == 1
    assert "passdown recover T-2 --by NAME" in printed
    assert "task new" not in printed


@pytest.mark.promise("P-17")
def test_reads_through_a_server_say_it_too(behind: Path, caplog: pytest.LogCaptureFixture) -> None:
    """An agent gets the warning with its brief, over HTTP as here; a program has it logged."""
    with opened(behind) as ws, served(ws) as server, server.opened("a", "write") as there:
        (warning,) = there.brief("T-1", agent="a").warnings
        assert (warning.path, warning.code, warning.level) == ("T-1", "ledger_behind", "warning")
        with pytest.raises(Damaged, match="lost history"):
            there.state("T-2")
        caplog.clear()
        there.tasks()
        assert "passdown recover T-2 --by NAME" in caplog.messages[-1]
        for read in (there.state, there.task, there.log):
            caplog.clear()
            read("T-1")
            assert "passdown recover T-1 --by NAME" in caplog.messages[-1]
        ws.maintenance.recover("T-1", by="ana")
        caplog.clear()
        there.state("T-1")
        assert caplog.messages == []


@pytest.mark.promise("P-17")
def test_rebuilding_says_it_too(behind: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, printed = said(capsys, "reindex", "--json")
    assert code == 0
    warnings = data_of(printed)["warnings"]
    assert [(each["path"], each["code"]) for each in warnings] == [
        ("T-1", "ledger_behind"),
        ("T-2", "ledger_behind"),
    ]


@pytest.mark.promise("P-17")
@pytest.mark.parametrize("left", ["an empty file", "nothing"])
def test_init_refuses_an_empty_ledger_beside_state_files(
    project: Path, left: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    put_back(project, None)
    if left == "nothing":
        ledger(project).unlink()
    monkeypatch.chdir(project)
    for _ in range(2):
        code, printed = said(capsys, "init")
        assert code == 1
        assert "passdown recover --by NAME" in printed
    assert said(capsys, "recover", "--by", "ana")[0] == 0
    assert said(capsys, "init")[0] == 0


@pytest.mark.promise("P-17")
def test_a_person_has_to_be_named(
    behind: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No agent's name and no user's name is taken for the person's decision."""
    monkeypatch.setenv("PASSDOWN_AGENT", "coder")
    code, printed = said(capsys, "recover", "T-1")
    assert code == 2
    assert "--by" in printed
    assert state(behind).exists()


@pytest.mark.promise("P-17")
def test_the_decision_is_in_the_log(behind: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of the whole store, and of a task where it went on; asking again adds nothing."""
    assert said(capsys, "recover", "--by", "ana", "--reason", "no backup")[0] == 0
    _, whole = said(capsys, "log")
    lines = [line for line in whole.splitlines() if "ledger accepted" in line]
    assert [line.split()[1] for line in lines] == ["T-2", "T-1"]
    assert all("ana" in line and "no backup" in line for line in lines)
    assert "ana went on without version 2" in said(capsys, "log", "T-1")[1]
    with opened(behind) as ws:
        pages = [ws.log(limit=1, before=before)[0].seq for before in (99, 3, 2)]
        assert pages == [entry.seq for entry in ws.log()]


@pytest.mark.promise("P-17")
@pytest.mark.parametrize("named", ["the file", "its address", "a link", "from elsewhere"])
def test_naming_the_store_is_no_way_around_the_refusal(
    behind: Path,
    tmp_path: Path,
    named: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    link = tmp_path / "link.db"
    link.symlink_to(ledger(behind))
    store = {
        "the file": ".passdown/ledger.db",
        "its address": f"sqlite:///{ledger(behind)}",
        "a link": str(link),
        "from elsewhere": str(ledger(behind)),
    }[named]
    if named == "from elsewhere":
        monkeypatch.chdir(tmp_path)
    code, printed = said(capsys, "warn", "T-1", "w", "--agent", "a", "--store", store)
    assert code == 1
    assert "ledger_behind" in printed


@pytest.mark.promise("P-17")
def test_naming_the_file_that_the_folder_names_is_no_way_around_it_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`init --store FILE` keeps the records in a file, and says what other names are for."""
    monkeypatch.chdir(tmp_path)
    assert said(capsys, "init", "--store", "team.db")[0] == 0
    assert said(capsys, "task", "new", "T-1", "--title", "Login", "--agent", "a")[0] == 0
    assert (tmp_path / ".passdown" / "state" / "T-1.json").exists()
    for path in tmp_path.glob("team.db*"):
        path.unlink()
    (tmp_path / "team.db").touch(0o600)
    for named in ([], ["--store", "team.db"]):
        code, printed = said(capsys, "task", "list", *named)
        assert code == 1
        assert "ledger_behind" in printed
    code, printed = said(capsys, "init", "--store", "team.sqlite")
    assert code == 1
    assert "expected FILE.db, sqlite:///FILE" in printed


@pytest.mark.promise("P-17")
def test_another_store_has_state_files_of_its_own(
    project: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Whoever writes to another store here turns no check off, and leaves nothing beside it."""
    monkeypatch.chdir(project)
    before = sorted(os.listdir(project))
    shutil.copy(tmp_path / "old.db", project / ".passdown" / "second.db")
    for other in ("other.db", ".passdown/second.db"):
        passdown.open(other).close()
        make = ["task", "new", "T-9", "--title", "t", "--agent", "a", "--store", other]
        assert said(capsys, *make)[0] == 0
    assert sorted(os.listdir(project)) == [*before[:1], "other.db", *before[1:]]
    assert not state(project, "T-9").exists()
    assert len(list((project / ".passdown" / "stores").glob("*/state/T-9.json"))) == 2
    # An earlier version called the folder otherwise; what it left there is used.
    os.rename(project / ".passdown" / "stores", project / ".passdown" / "elsewhere")
    assert said(capsys, "warn", "T-9", "w", "--agent", "a", "--store", "other.db")[0] == 0
    assert not (project / ".passdown" / "stores").exists()
    put_back(project, tmp_path / "old.db")
    assert said(capsys, "warn", "T-1", "w", "--agent", "a")[0] == 1
    for ending in ("", "-wal", "-shm"):
        (project / f"other.db{ending}").unlink(missing_ok=True)
    (project / "other.db").touch(0o600)
    code, printed = said(capsys, "task", "list", "--store", "other.db")
    assert code == 1
    assert "T-9" in printed


@pytest.mark.promise("P-17")
@pytest.mark.parametrize("kind", ["link", "file"])
def test_what_is_in_the_place_of_the_state_folder_is_named(
    project: Path,
    tmp_path: Path,
    kind: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The write is recorded; the warning and `doctor` say what to do, and that works."""
    folder = state(project).parent
    folder.rename(tmp_path / "moved")
    folder.symlink_to(tmp_path / "moved") if kind == "link" else folder.write_text("x", "utf-8")
    monkeypatch.chdir(project)
    for command in (["warn", "T-1", "w", "--agent", "a"], ["doctor", "--no-start"]):
        code, printed = said(capsys, *command)
        assert code == (command[0] == "doctor")
        assert f"{folder} is a {kind}, and has to be a folder" in printed
        assert f"mv {folder} {folder}.old" in printed
    folder.rename(f"{folder}.old")
    assert said(capsys, "doctor", "--no-start")[0] == 0
    assert json.loads(state(project).read_text("utf-8"))["version"] == 3


@pytest.mark.promise("P-17")
def test_two_stores_in_one_folder_say_nothing_of_each_other(tmp_path: Path) -> None:
    """Each has state files of its own; neither store is taken for one that lost history."""
    for name in ("one.db", "two.db", "one.db"):
        with passdown.open(str(tmp_path / name), settings=QUICK) as ws:
            if not ws.tasks():
                ws.create_task("T-1", title=name, agent="a")
            ws.warn("T-1", agent="a", text=f"{name} {ws.task('T-1').version}")
            assert ws.maintenance.doctor().facts["state_files"]["ahead"] == 0


@pytest.mark.promise("P-17")
def test_a_database_that_lost_history_is_found_however_it_is_named(
    tmp_path: Path, postgres_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also by another address of the same workspace; another workspace says nothing of it."""
    monkeypatch.chdir(tmp_path)
    store, other = new_workspace(postgres_database), new_workspace(postgres_database)
    with passdown.init(str(tmp_path), store) as ws:
        ws.create_task("T-1", title="Login", agent="a")
        lost = ws.warn("T-1", agent="a", text="w").version
    with passdown.open(other) as ws:
        ws.create_task("T-1", title="another", agent="a")
    again = store.replace("postgresql://", "postgres://") + "&application_name=me"
    with passdown.open(again) as ws:
        assert ws.task("T-1").version == lost
        assert ws.files.state_file("T-1") == ".passdown/state/T-1.json"
    (tmp_path / ".passdown" / "store").write_text(other + "\n")
    with passdown.open(str(tmp_path)) as ws, pytest.raises(Damaged):
        ws.warn("T-1", agent="a", text="w")


@pytest.mark.promise("P-17")
def test_a_bundle_brings_lost_records_back(project: Path, tmp_path: Path) -> None:
    """Into an empty ledger too; what it doesn't have stays lost, and nobody had to decide."""
    bundle = str(tmp_path / "all.passdown")
    with opened(project) as ws:
        ws.maintenance.export(bundle, task="T-1")
    put_back(project, None)
    with opened(project) as ws:
        with pytest.raises(Damaged):
            ws.tasks()
        ws.maintenance.import_bundle(bundle)
        assert ws.warn("T-1", agent="a", text="w").version == 3
        assert [finding.path for finding in ws.verify().findings] == ["T-2"]
        assert ws.log(limit=5)[0].kind == "warned"


@pytest.mark.promise("P-17")
@pytest.mark.parametrize("step", ["accept_ledger", "keep_aside"])
def test_a_decision_that_was_cut_short_is_finished_by_the_next(
    behind: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is recorded once, and the evidence is put aside in the end."""

    def cut(*_: object) -> list[str]:
        raise KeyboardInterrupt

    places = {"accept_ledger": "workspace.maintenance", "keep_aside": "ledger.durable_files"}
    with opened(behind) as ws:
        with pytest.raises(Damaged):
            ws.warn("T-1", agent="a", text="w")
        with monkeypatch.context() as patched:
            patched.setattr(f"passdown.{places[step]}.{step}", cut)
            with pytest.raises(KeyboardInterrupt):
                ws.maintenance.recover("T-1", by="ana")
        assert list(ws.maintenance.recover("T-1", by="ana")) == ["T-1"]
        assert [entry.kind for entry in ws.log()].count("ledger_accepted") == 1
        assert ws.warn("T-1", agent="a", text="w").version == 2


@pytest.mark.promise("P-17")
def test_settings_are_those_of_the_folder_whichever_store_is_named(tmp_path: Path) -> None:
    """A file config.toml beside a store is somebody else's."""
    (tmp_path / "config.toml").write_text("[theirs]\nkey = 1\n")
    (tmp_path / ".passdown").mkdir(0o700)
    (tmp_path / ".passdown" / "config.toml").write_text("[brief]\nbudget = 77\n")
    with passdown.open(str(tmp_path / "one.db")) as ws:
        ws.create_task("T-1", title="t", agent="a")
        assert ws.brief("T-1", agent="a").budget == 77


@pytest.mark.promise("P-17")
def test_a_store_that_is_only_opened_or_copied_gets_no_folder(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its state files come with the first write; they are kept out of version control."""
    monkeypatch.chdir(project)
    beside = tmp_path / "safe"
    assert main(["copy", ".", str(beside / "copy.db")]) == 0
    with passdown.open(str(beside / "copy.db")) as ws:
        assert ws.task("T-1").version == 2
        assert not (beside / ".passdown").exists()
        ws.warn("T-1", agent="a", text="w")
    assert (beside / ".passdown" / ".gitignore").read_text().startswith("*")


@pytest.mark.promise("P-17")
def test_a_record_that_is_of_no_task_makes_no_ledger_of_an_empty_one(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Such as the token that a server makes for its user."""
    put_back(project, None)
    monkeypatch.chdir(project)
    with opened(project) as ws:
        Tokens(ws).new("bot", ("read",), by="ana")
    for command in (["task", "list"], ["init"], ["task", "new", "T-9", "--title", "t"]):
        code, printed = said(capsys, *command)
        assert code == 1
        assert "ledger_behind" in printed


@pytest.mark.promise("P-17")
def test_a_lost_ledger_is_not_replaced_by_that_of_a_folder_above(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """State files tell that there was one; every command says what to do, and that works."""
    with opened(project.parent) as above:
        above.create_task("T-1", title="another", agent="a")
    ledger(project).unlink()
    monkeypatch.chdir(project)
    code, printed = said(capsys, "task", "list")
    assert code == 1
    assert f"the ledger {ledger(project)} is missing" in printed
    with pytest.raises(Damaged):
        passdown.open(str(project)).tasks()
    ledger(project).unlink()
    assert said(capsys, "init")[0] == 1
    assert said(capsys, "recover", "--by", "ana")[0] == 0
    assert "no tasks" in said(capsys, "task", "list")[1]


def _lose(way: str, project: Path, old: Path) -> None:
    """Take the database away under a process that has it open."""
    if way == "removed":
        ledger(project).unlink()
    elif way == "moved over":
        shutil.copy(old, project / "new.db")
        os.replace(project / "new.db", ledger(project))
    elif way == "cut short":
        os.truncate(ledger(project), 4_096)
    else:
        for ending in ("", "-wal", "-shm"):
            (project / ".passdown" / f"ledger.db{ending}").unlink(missing_ok=True)
        if way == "put back":
            shutil.copy(old, ledger(project))


@pytest.mark.promise("P-17")
@pytest.mark.parametrize("way", ["removed", "moved over", "all removed", "put back", "cut short"])
def test_no_write_is_acknowledged_to_a_file_that_is_no_longer_the_store(
    project: Path, tmp_path: Path, way: str
) -> None:
    """A process that had it open says what happened and what to do, at every try."""
    with opened(project) as ws:
        for number in range(3):
            ws.decide(task="T-1", agent="a", summary=f"before {number}", rationale="r")
        _lose(way, project, tmp_path / "old.db")
        for number in range(3):
            with pytest.raises((Damaged, StoreUnavailable)) as refused:
                ws.decide(task="T-1", agent="a", summary=f"after {number}", rationale="r")
            assert str(ledger(project)) in str(refused.value)
            assert refused.value.next_step


@pytest.mark.promise("P-17")
@pytest.mark.parametrize("way", ["removed", "moved over", "all removed", "put back", "cut short"])
def test_nothing_is_read_from_a_file_that_is_no_longer_the_store(
    project: Path, tmp_path: Path, way: str
) -> None:
    """The next read says it, whatever it reads, and so does every one after it."""
    with opened(project) as ws:
        ws.decide(task="T-1", agent="a", summary="before", rationale="r")
        ws.state("T-1")
        _lose(way, project, tmp_path / "old.db")
        for read in (ws.tasks, lambda: ws.state("T-1"), lambda: ws.brief("T-1", agent="a")) * 2:
            with pytest.raises((Damaged, StoreUnavailable)) as refused:
                read()
            assert str(ledger(project)) in str(refused.value)
            assert refused.value.next_step


@pytest.mark.promise("P-17")
@pytest.mark.parametrize("first", ["read", "write"])
def test_an_older_copy_that_is_copied_over_the_open_file_is_noticed(
    project: Path, tmp_path: Path, first: str
) -> None:
    """Of the same size and under the same inode: only what it holds tells it from the store."""
    with opened(project) as ws:
        for number in range(20):
            ws.decide(task="T-1", agent="a", summary=f"before {number}", rationale="r" * 500)
        ws.maintenance.backup(str(tmp_path / "copy.db"))
        ws.decide(task="T-1", agent="a", summary="the last", rationale="r")
    os.truncate(tmp_path / "copy.db", ledger(project).stat().st_size)
    with opened(project) as ws:
        shutil.copyfile(tmp_path / "copy.db", ledger(project))
        calls: list[Any] = [
            ws.tasks,
            lambda: ws.decide(task="T-2", agent="a", summary="after", rationale="r"),
        ]
        for call in calls if first == "read" else calls[::-1]:
            with pytest.raises((Damaged, StoreUnavailable)) as refused:
                call()
            assert str(ledger(project)) in str(refused.value)


def has_any_record(*_: object) -> bool:
    return True


@pytest.mark.promise("P-17")
def test_a_file_that_grows_while_threads_look_at_it_is_not_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One thread looks, the file grows, another looks, and the first compares what it saw."""
    path = tmp_path / "ledger.db"
    path.write_bytes(b"x" * 4_096)
    file = SameFile(str(path), has_any_record)
    look = os.stat

    def slow_look(name: str) -> os.stat_result:
        found = look(name)
        monkeypatch.setattr(os, "stat", look)
        path.write_bytes(b"x" * 8_192)
        file.check()
        return found

    monkeypatch.setattr(os, "stat", slow_look)
    file.check()
    file.check()
    os.truncate(path, 4_096)
    with pytest.raises(Damaged, match="became shorter"):
        file.check()


@pytest.mark.promise("P-17")
def test_over_http_lost_history_is_a_conflict_that_a_person_decides(behind: Path) -> None:
    """Not a fault inside the server: the text is the same as everywhere."""
    with opened(behind) as ws, served(ws) as server:
        headers = {"Authorization": f"Bearer {server.token('a', 'read', 'write')}"}
        asked = Request(f"{server.url}/api/tasks/T-2/state", headers=headers)
        with pytest.raises(HTTPError) as refused, urlopen(asked):
            pass
        with refused.value as answer:
            document = json.loads(answer.read())
        with pytest.raises(Damaged) as here:
            ws.state("T-2")
    assert (document["status"], document["code"]) == (409, "damaged")
    assert document["title"] != "Internal error"
    assert document["detail"] == here.value.message
    assert document["next_step"] == here.value.next_step


@pytest.mark.promise("S1-35")
def test_the_state_file_is_bounded_whatever_the_task_says_of_itself(tmp_path: Path) -> None:
    """Its own fields are cut where they are too long; the file says where all of it is."""
    with passdown.open(str(tmp_path), settings=Settings(durability="normal")) as ws:
        criteria = [f"{number} " + "é\n" * 250 for number in range(3_000)]
        text = "x" * 60_000
        ws.create_task("T-1", title="t", agent="a", description=text, criteria=criteria)
        ws.decide(task="T-1", agent="a", summary="kept", rationale="r")
        written = state(tmp_path).read_bytes()
        assert len(written) <= 262_144
        shown = passdown.read_state_file(written)
        assert shown["archive"]["whole"] == "passdown state T-1 --json"
        assert [each["summary"] for each in shown["decisions"]] == ["kept"]
        assert shown["criteria"] == criteria[: len(shown["criteria"])] != []
        assert text.startswith(shown["description"].removesuffix(" ..."))
        assert ws.files.state_document("T-1")["criteria"] == criteria
        assert ws.maintenance.doctor().facts["state_files"]["current"] == 1


@pytest.mark.promise("P-17")
@pytest.mark.parametrize("left", ["no bytes", "zeros", "a pipe"])
def test_doctor_reports_a_torn_state_file_and_writes_it_again(project: Path, left: str) -> None:
    """What a power cut left of it is named; what isn't a file at all is kept aside."""
    state(project).unlink()
    if left == "a pipe":
        os.mkfifo(state(project))
    else:
        state(project).write_bytes(b"" if left == "no bytes" else b"\0" * 100)
    with opened(project) as ws:
        report = ws.maintenance.doctor()
        code = "edited_state_file" if left == "a pipe" else "torn_state_file"
        (found,) = (f for f in report.findings if f["code"] == code)
        assert str(state(project)) in found["message"]
        kept = state(project).with_name("T-1.json.edited-1")
        assert kept.exists() == (left == "a pipe")  # nothing else has anybody's words in it
        assert passdown.read_state_file(state(project).read_text("utf-8"))["version"] == 2
        assert ws.maintenance.doctor().facts["state_files"]["current"] == 2

"""State files: they say what the ledger says, and say so when they don't."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

import passdown
from passdown import Settings
from passdown.errors import InvalidInput
from passdown.testing import fixed_clock, full_handoff, write_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from passdown import Workspace

Document = dict[str, Any]

LISTS = (
    "handoffs",
    "decisions",
    "artifacts",
    "patterns",
    "gotchas",
    "reading",
    "questions",
    "next_steps",
    "blockers",
    "warnings",
    "gates",
)


@pytest.fixture
def ws(tmp_path: Path) -> Iterator[Workspace]:
    write_files(str(tmp_path))
    settings = Settings(durability="normal", kept_versions=4)
    with passdown.open(str(tmp_path), settings=settings, clock=fixed_clock()) as workspace:
        workspace.create_task("T-1", title="Login", agent="planner")
        workspace.create_task("T-2", title="Pay", agent="planner")
        yield workspace


def handle(ws: Workspace, task: str = "T-1") -> Path:
    from pathlib import Path

    return Path(ws.root) / ".passdown" / "state" / f"{task}.json"


def read(ws: Workspace, task: str = "T-1") -> Document:
    return passdown.read_state_file(handle(ws, task).read_text("utf-8"))


def says_what_the_ledger_says(ws: Workspace) -> None:
    """Every state file holds its task's state, but for items that moved to the archive."""
    for task in ws.tasks():
        file, state = read(ws, task.task), ws.files.state_document(task.task)
        through = file["archive"]["through_version"]
        for name, value in state.items():
            expected = value
            if name in LISTS:
                waiting = ("open", "pending")
                expected = [e for e in value if e["version"] > through or e["status"] in waiting]
            assert file[name] == expected, name
        assert file["totals"].get("handoffs", 0) == len(state["handoffs"])


@pytest.mark.promise("P-9", "S1-1", "S1-21")
def test_the_file_equals_the_ledger_after_every_kind_of_write(ws: Workspace) -> None:
    """Also for tasks that a write of another one blocks, releases or overrules."""
    steps: list[Any] = [
        lambda: ws.hand_off(full_handoff()),
        lambda: ws.set_status("T-1#q1", "answered", agent="coder"),
        lambda: ws.decide(task="T-2", agent="a", summary="s", rationale="r", supersedes=["T-1#d1"]),
        lambda: ws.set_status("T-1#d1", "reverted", agent="coder", reason="no"),
        lambda: ws.note("pattern", task="T-2", agent="a", pattern="p", location="l"),
        lambda: ws.warn("T-1", agent="a", text="w"),
        lambda: ws.record_gate("T-1", agent="a", name="lint", passed=False),
        lambda: ws.set_status("T-1#b1", "resolved", agent="coder"),
        lambda: ws.update_task("T-2", agent="a", depends_on=["T-1"]),
        lambda: ws.hand_off(full_handoff(task="T-2", summary="again")),
        lambda: ws.hand_off({"task": "T-1", "outcome": "completed", "artifacts": []}),
        lambda: ws.decide(agent="a", summary="for all", rationale="r"),
    ]
    for step in steps:
        step()
        says_what_the_ledger_says(ws)
    assert ws.maintenance.doctor().facts["state_files"] == {
        "current": 3,
        "missing": 0,
        "old": 0,
        "edited": 0,
        "ahead": 0,
    }


@pytest.mark.promise("P-9")
@pytest.mark.parametrize("way", ["state_file", "doctor", "reindex", "write"])
def test_a_missing_or_old_file_is_written_again(ws: Workspace, way: str) -> None:
    """Whoever asks for it, looks after it or writes next finds it restored."""
    old = handle(ws).read_text("utf-8")
    ws.hand_off(full_handoff())
    for text in (None, old):
        if text is None:
            handle(ws).unlink()
        else:
            handle(ws).write_text(text, "utf-8")
        if way == "state_file":
            assert ws.files.state_file("T-1") == ".passdown/state/T-1.json"
        elif way == "doctor":
            assert ws.maintenance.doctor().ok
        elif way == "reindex":
            ws.maintenance.reindex()
        else:
            ws.warn("T-1", agent="a", text=f"w {text is None}")
        says_what_the_ledger_says(ws)


@pytest.mark.promise("P-9")
@pytest.mark.parametrize("left", [b"", b"\x00" * 4_096, b'{\n  "schema": "passdown/st\x00\x00\x00'])
@pytest.mark.parametrize("way", ["state_file", "doctor", "write"])
def test_what_a_power_cut_left_is_no_edit(ws: Workspace, way: str, left: bytes) -> None:
    """A file that was never synced may be empty or full of zeros: it is written again."""
    handle(ws).write_bytes(left)
    if way == "state_file":
        ws.files.state_file("T-1")
    elif way == "doctor":
        report = ws.maintenance.doctor()
        assert (report.ok, report.facts["state_files"]["missing"]) == (True, 1)
    else:
        assert ws.warn("T-1", agent="a", text="w").warnings == ()
    says_what_the_ledger_says(ws)
    assert not handle(ws).with_name("T-1.json.edited-1").exists()


@pytest.mark.promise("S1-15")
@pytest.mark.parametrize("is_synced", [True, False])
def test_a_file_is_synced_before_it_takes_its_name_if_the_settings_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_synced: bool
) -> None:
    """The ledger is what lasts; a file that a power cut tears is written again from it."""
    calls: list[int] = []
    sync = os.fsync

    def noted(file: int) -> None:
        calls.append(file)
        sync(file)

    monkeypatch.setattr(os, "fsync", noted)
    settings = Settings(state_sync=is_synced, artifacts_on_disk=False)
    with passdown.open(str(tmp_path), settings=settings) as ws:
        ws.create_task("T-1", title="Login", agent="planner")
        calls.clear()
        ws.hand_off(full_handoff())
        assert len(calls) == is_synced
        says_what_the_ledger_says(ws)


@pytest.mark.promise("P-9", "P-4")
def test_an_edited_file_is_reported_and_kept_aside(ws: Workspace) -> None:
    """The next write says so and keeps the edit, and so does the doctor; the ledger counts."""
    edited = handle(ws).read_text("utf-8").replace("Login", "Logout")
    handle(ws).write_text(edited, "utf-8")
    receipt = ws.warn("T-1", agent="a", text="w")
    (warning,) = receipt.warnings
    assert (warning.code, warning.level) == ("edited_state_file", "warning")
    kept = handle(ws).with_name("T-1.json.edited-1")
    assert kept.read_text("utf-8") == edited
    says_what_the_ledger_says(ws)
    assert ws.state("T-1").title == "Login"
    handle(ws).write_text("{", "utf-8")
    report = ws.maintenance.doctor()
    assert (report.ok, report.facts["state_files"]["edited"]) == (True, 1)
    (finding,) = [f for f in report.findings if f["code"] == "edited_state_file"]
    assert "T-1.json.edited-2" in finding["message"]
    assert handle(ws).with_name("T-1.json.edited-2").read_text("utf-8") == "{"
    says_what_the_ledger_says(ws)


def test_an_edit_of_the_same_size_right_after_a_write_is_kept_too(ws: Workspace) -> None:
    """Whether a file was touched is seen from its status: also within one step of the clock."""
    for number in range(1, 21):
        ws.warn("T-1", agent="a", text=f"w{number}")
        with open(handle(ws), "r+b") as file:
            file.seek(-3, 2)
            file.write(b" ")
    found = [ws.warn("T-1", agent="a", text="last"), ws.warn("T-1", agent="a", text="very last")]
    assert [len(receipt.warnings) for receipt in found] == [1, 0]
    kept = [handle(ws).with_name(f"T-1.json.edited-{number}") for number in range(1, 22)]
    assert [path.exists() for path in kept] == [True] * 20 + [False]


@pytest.mark.promise("P-9")
def test_asking_for_an_edited_file_logs_it_and_gives_the_truth(
    ws: Workspace, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever is given the path reads what the ledger says; the edit is kept and logged."""
    handle(ws).write_text(handle(ws).read_text("utf-8") + "\n", "utf-8")
    with caplog.at_level(logging.WARNING, "passdown.state_files"):
        ws.files.state_file("T-1")
    assert "edited_state_file" in caplog.text
    assert handle(ws).with_name("T-1.json.edited-1").exists()
    says_what_the_ledger_says(ws)


@pytest.mark.promise("P-9")
def test_another_process_may_write_in_between(ws: Workspace) -> None:
    """Its changes are in the file after our next write, and no edit is suspected."""
    code = (
        "import sys, passdown\n"
        "with passdown.open(sys.argv[1]) as ws:\n"
        "    ws.decide(task='T-1', agent='other', summary='theirs', rationale='r')\n"
    )
    subprocess.run([sys.executable, "-c", code, ws.root], check=True, timeout=240)
    says_what_the_ledger_says(ws)
    receipt = ws.decide(task="T-1", agent="a", summary="ours", rationale="r")
    assert receipt.warnings == ()
    assert [d["summary"] for d in read(ws)["decisions"]] == ["theirs", "ours"]
    says_what_the_ledger_says(ws)


@pytest.mark.promise("S1-35", "P-4")
def test_the_file_is_bounded_and_the_archive_has_the_rest(ws: Workspace) -> None:
    """Old detail moves to archive files that hold its records in full; open items stay."""
    ws.hand_off({"task": "T-1", "outcome": "completed", "open_questions": [{"question": "old?"}]})
    sizes: list[int] = []
    for number in range(60):
        ws.decide(task="T-1", agent="a", summary=f"decision {number}", rationale="r" * 200)
        sizes.append(handle(ws).stat().st_size)
    assert max(sizes[30:]) < max(sizes[:20]) * 1.2
    file = read(ws)
    assert file["totals"]["decisions"] == 60
    assert 4 <= len(file["decisions"]) < 12
    assert [q["question"] for q in file["questions"]] == ["old?"]
    assert file["archive"]["folder"] == "archive/T-1"
    folder = handle(ws).parent / "archive" / "T-1"
    names = sorted(path.name for path in folder.iterdir())
    assert len(names) == file["archive"]["files"] == file["archive"]["through_version"] // 4
    records = [r for n in names for r in json.loads((folder / n).read_text("utf-8"))["records"]]
    assert [r["version"] for r in records] == list(range(1, file["archive"]["through_version"] + 1))
    archived = [r["body"]["decisions"][0]["summary"] for r in records[2:]]
    shown = [d["summary"] for d in file["decisions"]]
    assert archived + shown == [f"decision {number}" for number in range(60)]
    logged = {e.version: e.digest for e in ws.log("T-1", limit=100)}
    assert {r["version"]: r["digest"] for r in records}.items() <= logged.items()
    (folder / names[0]).unlink()
    ws.files.state_file("T-1")
    assert sorted(path.name for path in folder.iterdir()) == names


@pytest.mark.promise("S1-35")
def test_the_bound_is_a_setting(tmp_path: Path) -> None:
    """A larger window shows more versions."""
    shown: dict[int, int] = {}
    for kept in (1, 10):
        folder = tmp_path / str(kept)
        folder.mkdir()
        settings = Settings(kept_versions=kept, durability="normal")
        with passdown.open(str(folder), settings=settings) as ws:
            ws.create_task("T-1", title="t", agent="a")
            for number in range(30):
                ws.decide(task="T-1", agent="a", summary=f"d{number}", rationale="r")
            shown[kept] = len(read(ws)["decisions"])
    assert 1 <= shown[1] <= 2
    assert 10 <= shown[10] <= 20


@pytest.mark.promise("S1-35", "P-4")
def test_what_does_not_fit_by_bytes_is_in_the_archive(tmp_path: Path) -> None:
    """The newest of each kind stays, deleted files go first, and the rest is in archive files."""
    settings = Settings(kept_versions=4, state_bytes=20_000, durability="normal")
    with passdown.open(str(tmp_path), settings=settings) as ws:
        ws.create_task("T-1", title="t", agent="a")
        deleted = [{"path": f"src/old_{n}.py", "change": "delete"} for n in range(200)]
        key = {"decisions": [{"summary": "KEY", "rationale": "r"}], "blockers": [{"blocker": "B"}]}
        ws.hand_off(
            {"task": "T-1", "to_agent": "b", "outcome": "completed", "artifacts": deleted, **key}
        )
        file = read(ws)
        assert [d["summary"] for d in file["decisions"]] == ["KEY"]
        assert len(file["handoffs"]) == len(file["blockers"]) == 1
        assert 0 < len(file["artifacts"]) < 200
        many = [{"summary": f"D{n}", "rationale": "r" * 200} for n in range(100)]
        ws.hand_off({"task": "T-1", "to_agent": "c", "outcome": "completed", "decisions": many})
        file = read(ws)
        shown = [d["summary"] for d in file["decisions"]]
        assert 10 < len(shown) < 100
        assert shown == [f"D{n}" for n in range(100)][-len(shown) :]
        assert len(file["handoffs"]) == 2
        assert handle(ws).stat().st_size <= 20_000
        folder = handle(ws).parent / file["archive"]["folder"]
        names = sorted(path.name for path in folder.iterdir())
        assert names == ["00000002-00000002.json", "00000003-00000003.json"]
        assert file["archive"]["files"] == 2
        records = [r for n in names for r in json.loads((folder / n).read_text("utf-8"))["records"]]
        assert len(records[0]["body"]["artifacts"]) == 200
        assert [d["summary"] for d in records[1]["body"]["decisions"]][:2] == ["D0", "D1"]
        (folder / names[0]).unlink()
        ws.files.state_file("T-1")
        assert sorted(path.name for path in folder.iterdir()) == names
        for number in range(7):
            ws.warn("T-1", agent="a", text=f"w{number}")
        assert read(ws)["archive"]["files"] == 1
        assert [path.name for path in folder.iterdir()] == ["00000001-00000004.json"]


TOUCHED: list[tuple[Callable[[str], str], str]] = [
    (lambda text: text[:-20], "invalid_json"),
    (lambda _: "", "invalid_json"),
    (lambda _: "[]", "unknown_schema"),
    (lambda _: "{}", "unknown_schema"),
    (lambda text: text.replace("passdown/state/1", "passdown/state/99"), "unknown_schema"),
    (lambda text: text.replace("Login", "Logout"), "edited_state_file"),
    (lambda text: text.replace('"phase": "planning"', '"phase": "P"'), "invalid_form"),
    (lambda text: text.replace('"title"', '"title": "twice",\n  "title"'), "duplicate_key"),
    (lambda text: text + " ", "edited_state_file"),
]


@pytest.mark.promise("S1-21", "P-9")
@pytest.mark.parametrize(("change", "code"), TOUCHED)
def test_a_handle_file_that_was_touched_is_not_read(ws: Workspace, change: Any, code: str) -> None:
    """Bad JSON, another schema, an edit and a broken document are each described."""
    text = handle(ws).read_text("utf-8")
    assert passdown.read_state_file(text.encode()) == passdown.read_state_file(text)
    with pytest.raises(InvalidInput) as caught:
        passdown.read_state_file(change(text))
    assert code in [problem.code for problem in caught.value.problems]


@pytest.mark.promise("S1-1")
def test_the_file_is_found_from_outside_the_project(tmp_path: Path) -> None:
    """For a store that lies elsewhere, the path is absolute; inside the project it is relative."""
    with passdown.open(str(tmp_path / "stores" / "team.db")) as ws:
        ws.create_task("T-1", title="t", agent="a")
        shown = ws.files.state_file("T-1")
        assert shown.startswith(".passdown/stores/")
        assert (tmp_path / "stores" / shown).exists()
        assert {name.partition("-")[0] for name in os.listdir(tmp_path / "stores")} == {
            ".passdown",
            "team.db",
        }
        with pytest.raises(ValueError, match="T-9"):
            ws.files.state_file("T-9")

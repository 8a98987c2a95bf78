"""Which workspace a server works with, from its first call to its last."""

from __future__ import annotations

import shutil
import threading
import time
from typing import TYPE_CHECKING, Any

import apsw
import pytest

import passdown
from passdown.errors import NotFound
from passdown.mcp import resources
from passdown.mcp.shared_workspace import MAX_WAIT_S, SharedWorkspace, workspace_candidates
from passdown.mcp.tools import call_tool

if TYPE_CHECKING:
    from pathlib import Path

    from tests.interfaces.mcp.conftest import Ask


def made(folder: Path, task: str) -> None:
    folder.mkdir(exist_ok=True)
    with passdown.init(str(folder)) as ws:
        ws.create_task(task, title=task, agent="planner")


def first_task(door: SharedWorkspace) -> str:
    answer = call_tool(door, "tasks", {}, "coder")
    door.close()
    return answer.text.partition(" (")[0]


def test_a_named_store_comes_first_then_the_folder_then_the_hosts_project(tmp_path: Path) -> None:
    for name in ("named", "here", "project"):
        made(tmp_path / name, name)
    (tmp_path / "bare").mkdir()
    (tmp_path / "here" / "deep").mkdir()
    here, project = str(tmp_path / "here" / "deep"), str(tmp_path / "project")
    environment = {"CLAUDE_PROJECT_DIR": project, "PASSDOWN_STORE": str(tmp_path / "named")}
    assert first_task(SharedWorkspace(workspace_candidates("", environment, here))) == "- named"
    assert (
        first_task(SharedWorkspace(workspace_candidates(project, environment, here))) == "- project"
    )
    del environment["PASSDOWN_STORE"]
    assert first_task(SharedWorkspace(workspace_candidates("", environment, here))) == "- here"
    assert (
        first_task(SharedWorkspace(workspace_candidates("", environment, str(tmp_path / "bare"))))
        == "- project"
    )


def test_without_a_workspace_calls_say_so_until_there_is_one(tmp_path: Path) -> None:
    """None is made on the way: that is for a person to decide."""
    door = SharedWorkspace(workspace_candidates("", {}, str(tmp_path)))
    answer = call_tool(door, "tasks", {}, "coder")
    assert answer.is_error
    assert "passdown init" in answer.text
    assert [r["uri"] for r in resources.resource_page(door, "").resources] == [
        "passdown://schema/handoff"
    ]
    assert list(tmp_path.iterdir()) == []
    made(tmp_path, "T-1")
    assert first_task(door) == "- T-1"


def test_a_named_store_that_is_gone_is_not_replaced_by_another(tmp_path: Path) -> None:
    made(tmp_path, "T-1")
    door = SharedWorkspace(workspace_candidates(str(tmp_path / "gone.db"), {}, str(tmp_path)))
    with pytest.raises(NotFound), door.workspace():
        pass


def test_a_store_that_was_put_in_its_place_is_the_one_that_is_written(tmp_path: Path) -> None:
    """Else an acknowledged write would be lost with the file that nobody sees any more."""
    project, other = tmp_path / "project", tmp_path / "other"
    made(project, "T-1")
    made(other, "T-2")
    door = SharedWorkspace(workspace_candidates("", {}, str(project)))
    assert "T-1" in call_tool(door, "tasks", {}, "coder").text
    shutil.rmtree(project / ".passdown")
    shutil.copytree(other / ".passdown", project / ".passdown")
    given = {"summary": "x", "rationale": "y", "task": "T-2"}
    assert not call_tool(door, "decide", given, "coder").is_error
    door.close()
    with passdown.open(str(project)) as ws:
        assert ws.state("T-2").version == 2


def test_settings_that_change_hold_from_the_next_call_on(
    project: Path, ask: Ask, refused: Ask
) -> None:
    ask("task_new", task="T-1", title="Login")
    given = {"task": "T-1", "outcome": "completed", "files": ["gone.py"], "summary": "x"}
    assert "gone.py is not on disk" in refused("handoff", **given)
    config = project / ".passdown" / "config.toml"
    config.write_text("[handoff]\nartifacts_on_disk = false\n", "utf-8")
    ask("handoff", **given)


def _run(connection: Any, statement: str) -> None:
    connection.execute(statement)


def test_a_frozen_writer_gives_a_bounded_error_and_reading_goes_on(
    project: Path, ask: Ask, refused: Ask
) -> None:
    ask("task_new", task="T-1", title="Login")
    ask("decide", summary="JWT", rationale="no session", task="T-1")
    (project / ".passdown" / "config.toml").write_text("[store]\nlock_timeout_s = 0.5\n", "utf-8")
    frozen = apsw.Connection(str(project / ".passdown" / "ledger.db"))
    _run(frozen, "BEGIN IMMEDIATE")
    began = time.monotonic()
    told = refused("decide", summary="x", rationale="y", task="T-1")
    assert time.monotonic() - began < MAX_WAIT_S + 60
    assert "Call again in a while" in told
    assert "Nothing was changed" in told
    assert "JWT" in ask("brief", task="T-1")
    assert "JWT" in ask("recall", query="JWT")
    assert "JWT" in ask("show", id="T-1#d1")
    _run(frozen, "ROLLBACK")
    frozen.close()
    ask("decide", summary="x", rationale="y", task="T-1")


def test_many_calls_at_once_share_the_workspace_and_lose_nothing(
    project: Path, door: SharedWorkspace
) -> None:
    call_tool(door, "task_new", {"task": "T-1", "title": "Login"}, "coder")
    failed: list[str] = []

    def work(who: int) -> None:
        for number in range(5):
            given = {"summary": f"{who}/{number}", "rationale": "y", "task": "T-1"}
            for name, arguments in (("decide", given), ("show", {"id": "T-1"})):
                answer = call_tool(door, name, arguments, f"agent-{who}")
                failed.extend([answer.text] if answer.is_error else [])

    threads = [threading.Thread(target=work, args=(who,)) for who in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    with passdown.open(str(project)) as ws:
        assert len(ws.state("T-1").decisions) == 40
        assert ws.verify().ok

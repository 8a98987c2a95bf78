"""What is captured of a session without a model, and the draft that its agent completes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import yaml

import passdown
from tests.interfaces.hosting import Host, resulted, used

if TYPE_CHECKING:
    from pathlib import Path

    from tests.interfaces.running import Run

Document = dict[str, Any]


@pytest.fixture
def repository(project: Path, cli: Run) -> Path:
    """A project with a task, under version control, with one commit."""
    cli("task", "new", "T-1", "--title", "Login", "--agent", "planner")
    (project / "old.py").write_text("1\n", "utf-8")
    (project / "gone.py").write_text("1\n", "utf-8")
    git(project, "init", "-q")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "first")
    return project


def git(root: Path, *arguments: str) -> None:
    name = ("-c", "user.name=t", "-c", "user.email=t@example.invalid")
    subprocess.run(["git", *name, *arguments], cwd=root, check=True)


def draft_of(root: Path) -> Document:
    return yaml.safe_load((root / ".passdown/drafts/T-1.yaml").read_text("utf-8"))


CLAUDE: list[Document] = [
    used("Bash", "c1", command="make test"),
    resulted("c1", "Exit code 2\nE   assert 1 == 2", failed=True),
    used("Bash", "c2", command="export API_KEY=sk-ant-api03-" + "a" * 40),
    resulted("c2", "done"),
    used("Edit", "c3", file_path="old.py"),
    used("TodoWrite", "c4", todos=[{"content": "Add refresh", "status": "pending"}]),
]
CODEX: list[Document] = [
    {
        "type": "response_item",
        "payload": {
            "type": "function_call",
            "name": "exec_command",
            "call_id": "c1",
            "arguments": json.dumps({"cmd": "make test"}),
        },
    },
    {
        "type": "response_item",
        "payload": {
            "type": "function_call_output",
            "call_id": "c1",
            "output": "Chunk ID: 1\nProcess exited with code 2\nOutput:\nE",
        },
    },
    {
        "type": "response_item",
        "payload": {
            "type": "custom_tool_call",
            "name": "apply_patch",
            "call_id": "c2",
            "input": "*** Begin Patch\n*** Update File: old.py\n*** End Patch",
        },
    },
    {
        "type": "response_item",
        "payload": {
            "type": "function_call",
            "name": "update_plan",
            "call_id": "c3",
            "arguments": json.dumps({"plan": [{"step": "Add refresh", "status": "pending"}]}),
        },
    },
]
GEMINI: list[Document] = [
    {
        "type": "gemini",
        "tokens": {"input": 10, "output": 5},
        "toolCalls": [
            {
                "id": "c1",
                "name": "run_shell_command",
                "args": {"command": "make test"},
                "status": "success",
                "result": [{"functionResponse": {"response": {"output": "E\nExit Code: 2"}}}],
            },
            {"id": "c2", "name": "replace", "args": {"file_path": "old.py"}},
            {
                "id": "c3",
                "name": "write_todos",
                "args": {"todos": [{"description": "Add refresh", "status": "pending"}]},
            },
        ],
    }
]


@pytest.mark.promise("H-7")
@pytest.mark.parametrize(
    ("name", "lines"), [("claude", CLAUDE), ("codex", CODEX), ("gemini", GEMINI * 2)]
)
def test_files_commands_and_todos_become_a_draft(
    repository: Path, cli: Run, name: str, lines: list[Document]
) -> None:
    """Changed files from git, commands with how they ended and todos from the transcript."""
    host = Host(repository, name)
    host.fires("session-start", source="startup")
    host.writes(*lines)
    (repository / "old.py").write_text("2\n", "utf-8")
    (repository / "new.py").write_text("1\n", "utf-8")
    (repository / "gone.py").unlink()
    assert "drafts/T-1.yaml" in host.fires("stop").request
    draft = draft_of(repository)
    assert {each["path"]: each["change"] for each in draft["artifacts"]} == {
        "gone.py": "delete",
        "new.py": "created",
        "old.py": "modify",
    }
    assert draft["suggested_next_steps"] == [{"step": "Add refresh"}]
    assert draft["metadata"]["seen"]["commands"][0]["command"] == "make test"
    assert draft["metadata"]["seen"]["commands"][0]["exit"] == 2
    assert "sk-ant" not in (repository / ".passdown/drafts/T-1.yaml").read_text("utf-8")

    path = repository / ".passdown/drafts/T-1.yaml"
    refused = cli("handoff", str(path), code=1)
    assert "outcome" in refused.err
    assert path.exists(), "it is not lost by being incomplete"
    path.write_text(
        path.read_text("utf-8").replace('summary: ""', 'outcome: completed\nsummary: "done"'),
        "utf-8",
    )
    cli("handoff", str(path))
    with passdown.open(str(repository)) as ws:
        assert ws.task("T-1").version == 2
    assert host.fires("stop").out in ("", "{}\n")
    assert not path.exists(), "a new turn begins with no draft"
    assert path.with_suffix(".used.yaml").exists()


@pytest.mark.promise("H-7")
def test_a_draft_grows_with_the_session_and_is_left_alone_once_somebody_works_on_it(
    repository: Path,
) -> None:
    host = Host(repository)
    host.fires("session-start", source="startup")
    host.writes(used("Bash", "c1", command="one"))
    host.fires("stop")
    host.writes(resulted("c1"), used("Bash", "c2", command="two"), resulted("c2"))
    host.fires("pre-compact", trigger="auto")
    seen = draft_of(repository)["metadata"]["seen"]["commands"]
    assert [each["command"] for each in seen] == ["one", "two"], "a call may end in a later piece"
    path = repository / ".passdown/drafts/T-1.yaml"
    mine = path.read_text("utf-8") + "# mine\n"
    path.write_text(mine, "utf-8")
    host.writes(used("Bash", "c3", command="three"), resulted("c3"))
    host.fires("session-end", reason="other")
    assert path.read_text("utf-8") == mine


def test_a_list_of_tasks_is_followed_from_call_to_call(repository: Path) -> None:
    """Claude Code makes and changes its todos one by one."""
    host = Host(repository)
    host.fires("session-start", source="startup")
    host.writes(
        used("TaskCreate", "t1", subject="Write it"),
        resulted("t1", "Task #1 created successfully: Write it"),
        used("TaskCreate", "t2", subject="Test it"),
        resulted("t2", "Task #2 created successfully: Test it"),
        used("TaskCreate", "t3", subject="Drop it"),
        resulted("t3", "Task #3 created successfully: Drop it"),
        used("Bash", "c1", command="true"),
        resulted("c1"),
    )
    host.fires("stop", stop_hook_active=True)
    host.writes(
        used("TaskUpdate", "t4", taskId="1", status="completed"),
        used("TaskUpdate", "t5", taskId="3", status="deleted"),
    )
    host.fires("stop", stop_hook_active=True)
    assert draft_of(repository)["suggested_next_steps"] == [{"step": "Test it"}]


def test_what_was_changed_before_the_session_is_not_its_work(repository: Path) -> None:
    (repository / "before.py").write_text("1\n", "utf-8")
    os.utime(repository / "before.py", (1_000_000_000, 1_000_000_000))
    host = Host(repository)
    host.fires("session-start", source="startup")
    (repository / "after.py").write_text("1\n", "utf-8")
    git(repository, "add", "after.py")
    git(repository, "commit", "-qm", "committed work counts as well")
    host.fires("stop", stop_hook_active=True)
    assert [each["path"] for each in draft_of(repository)["artifacts"]] == ["after.py"]


def test_a_stop_starts_git_once_and_only_where_something_was_committed_again(
    repository: Path, tmp_path: Path
) -> None:
    real, calls = str(shutil.which("git")), tmp_path / "calls"
    fake = tmp_path / "bin/git"
    fake.parent.mkdir()
    fake.write_text(f"#!/bin/sh\necho >> '{calls}'\nexec '{real}' \"$@\"\n", "utf-8")
    fake.chmod(0o755)
    git(repository, "config", "filter.lfs.clean", "git-lfs clean")
    host = Host(repository)
    host.env["PATH"] = f"{fake.parent}{os.pathsep}{host.env['PATH']}"
    host.fires("session-start", source="startup")
    (repository / "new.py").write_text("1\n", "utf-8")
    host.fires("stop")
    assert calls.read_text("utf-8").count("\n") == 1
    git(repository, "add", "new.py")
    git(repository, "commit", "-qm", "second")
    host.fires("stop")
    assert calls.read_text("utf-8").count("\n") == 3
    assert draft_of(repository)["artifacts"] == [{"path": "new.py", "change": "created"}]


def test_a_project_below_the_top_of_its_repository_has_its_own_files_alone(
    repository: Path, cli: Run
) -> None:
    inner = repository / "inner dir"
    inner.mkdir()
    cli("init", str(inner))
    host = Host(inner)
    host.fires("session-start", source="startup")
    (inner / "mine.py").write_text("1\n", "utf-8")
    (inner / "staged.py").write_text("1\n", "utf-8")
    (repository / "theirs.py").write_text("1\n", "utf-8")
    git(repository, "add", "inner dir/staged.py")
    (repository / "gone.py").unlink()
    host.fires("stop")
    (draft,) = (inner / ".passdown/drafts").glob("*.yaml")
    given = yaml.safe_load(draft.read_text("utf-8"))
    assert given["artifacts"] == [
        {"path": "mine.py", "change": "created"},
        {"path": "staged.py", "change": "created"},
    ]


def test_in_a_worktree_the_files_are_its_own(repository: Path, tmp_path: Path) -> None:
    """The records are the project's, the files those of the worktree that the agent is in."""
    tree = repository / ".claude/worktrees/one"
    git(repository, "worktree", "add", "-q", str(tree))
    host = Host(repository)
    host.fires("session-start", source="startup", cwd=str(tree))
    (tree / "mine.py").write_text("1\n", "utf-8")
    (repository / "theirs.py").write_text("1\n", "utf-8")
    asked = host.fires("stop", cwd=str(tree))
    assert [each["path"] for each in draft_of(repository)["artifacts"]] == ["mine.py"]
    assert str(repository / ".passdown/drafts/T-1.yaml") in asked.request


@pytest.mark.promise("H-7")
def test_a_command_offers_the_draft_too(repository: Path, cli: Run, as_json: Any) -> None:
    """Without any hook, from what git knows; with one, from what it has seen."""
    (repository / "new.py").write_text("1\n", "utf-8")
    shown = cli("draft", "--print").out
    assert '{path: "new.py", change: created}' in shown
    assert not (repository / ".passdown/drafts").exists()
    found = as_json("draft", "T-1", "--agent", "coder")
    assert found["written"] is True
    assert yaml.safe_load(found["text"])["from_agent"] == "coder"
    path = repository / found["file"]
    path.write_text(path.read_text("utf-8") + "# mine\n", "utf-8")
    assert as_json("draft", "T-1")["written"] is False
    assert path.read_text("utf-8").endswith("# mine\n")
    cli("task", "new", "T-2", "--title", "Other", "--agent", "planner")
    assert "2 tasks are open" in cli("draft", code=2).err
    assert "T-9" in cli("draft", "T-9", code=1).err

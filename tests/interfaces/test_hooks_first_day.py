"""A project where nothing was set up but the host: no task, and sessions that end in the middle."""

from __future__ import annotations

import json
import ntpath
import subprocess
from typing import TYPE_CHECKING

import pytest
import yaml

import passdown
from passdown.hosts.hooks.capture import relative_paths
from tests.interfaces.hosting import Heard, Host, resulted, used

if TYPE_CHECKING:
    from pathlib import Path

    from tests.interfaces.running import Run

PROMPT = "Draw the login form.\nIt has two fields."
TITLE = "Draw the login form."
HOSTS = ("claude", "codex", "gemini", "cursor", "opencode")


@pytest.fixture
def repository(project: Path) -> Path:
    """A project under version control without any task."""
    subprocess.run(["git", "init", "-q"], cwd=project, check=True)
    return project


def works(host: Host) -> None:
    """A session begins, gets its first prompt and does something."""
    if host.name == "claude":
        host.transcript.touch()  # it names the file before the first line is written
    host.fires("session-start", source="startup")
    host.fires("prompt-submit", prompt=PROMPT)
    host.writes(used("Bash", "c1", command="make form"), resulted("c1"))
    host.writes(used("TodoWrite", "c2", todos=[{"content": "Add a button", "status": "pending"}]))
    (host.root / "form.py").write_text("1\n", "utf-8")


def only_draft(root: Path) -> Path:
    """The draft that is there."""
    (found,) = (root / ".passdown/drafts").glob("*.yaml")
    return found


def context_of(heard: Heard) -> str:
    return heard.json.get("additional_context") or heard.json.get("context") or heard.context


@pytest.mark.promise("H-15")
@pytest.mark.parametrize("name", HOSTS)
def test_without_a_task_a_session_is_captured_and_its_draft_makes_the_task(
    repository: Path, cli: Run, name: str
) -> None:
    host = Host(repository, name)
    assert context_of(host.fires("session-start", source="startup")) == "", "it asks for nothing"
    works(host)
    stopped = host.fires("stop").json
    asked = stopped.get("reason") or stopped.get("followup_message") or stopped["message"]
    draft = only_draft(repository)
    assert f"passdown handoff .passdown/drafts/{draft.name}" in asked
    assert TITLE in asked
    given = yaml.safe_load(draft.read_text("utf-8"))
    assert given["task"].startswith("draw-the-login-"), "as `task new` makes it"
    assert given["metadata"]["title"] == TITLE
    assert given["artifacts"] == [{"path": "form.py", "change": "created"}]
    assert "cannot" not in asked

    refused = cli("handoff", str(draft), code=1)
    assert "outcome" in refused.err
    with passdown.open(str(repository)) as ws:
        assert ws.tasks() == [], "what is refused makes no task"
    text = draft.read_text("utf-8").replace('summary: ""', 'outcome: completed\nsummary: "done"')
    draft.write_text(text, "utf-8")
    assert "refused" not in cli("handoff", str(draft), "--dry-run").out
    cli("handoff", str(draft))
    with passdown.open(str(repository)) as ws:
        (task,) = ws.tasks()
        assert (task.task, task.title) == (given["task"], TITLE)
        assert ws.state(task.task).to_dict()["artifacts"][0]["path"] == "form.py"
    host.fires("stop")
    assert not draft.exists(), "it was used"


def test_an_incomplete_draft_is_refused_for_what_is_missing_alone(
    repository: Path, cli: Run
) -> None:
    """Its task is made when it is accepted, so that it isn't there yet is no fault."""
    host = Host(repository, "claude")
    works(host)
    host.fires("stop")
    draft = str(only_draft(repository))
    for more in ((), ("--stopped", "time")):
        said = cli("handoff", draft, *more, code=1).err
        assert "outcome: is missing" in said
        assert ("there is no task" in said, "None" in said) == (False, False)


@pytest.mark.promise("H-15")
def test_a_session_that_did_nothing_leaves_and_asks_nothing(repository: Path) -> None:
    host = Host(repository)
    host.fires("session-start", source="startup")
    host.fires("prompt-submit", prompt="What is this?")
    host.writes({"type": "user", "message": {"role": "user", "content": "What is this?"}})
    assert host.fires("stop").out == ""
    assert not (repository / ".passdown/drafts").exists()


@pytest.mark.promise("H-16")
@pytest.mark.parametrize("first", ["claude", "opencode"])
@pytest.mark.parametrize("second", HOSTS)
@pytest.mark.parametrize("ending", ["session-end", "killed"])
def test_the_next_session_knows_what_one_without_a_handoff_did(
    repository: Path, cli: Run, first: str, second: str, ending: str
) -> None:
    """Also where it never came to its end: its transcript and git still have what it did."""
    host = Host(repository, first, "one")
    works(host)
    cli("decide", "Plain HTML", "--why", "no build step", "--agent", first)
    if ending != "killed" and first != "opencode":
        host.fires(ending, reason="other")
    heard = context_of(Host(repository, second, "two").fires("session-start", source="startup"))
    assert TITLE in heard
    assert "form.py" in heard
    assert "Plain HTML" in heard
    if first == "claude":
        assert "ran: make form (exit 0)" in heard
        assert "open todo: Add a button" in heard
    assert "without a handoff" in heard
    draft = only_draft(repository)
    assert draft.name in heard
    assert 'path: "form.py"' in draft.read_text("utf-8")


@pytest.mark.promise("H-16")
def test_work_that_was_not_handed_off_stays_in_the_draft_until_it_is(
    repository: Path, cli: Run
) -> None:
    works(Host(repository, "claude", "one"))
    second = Host(repository, "codex", "two")
    second.fires("session-start", source="startup")
    (repository / "button.py").write_text("1\n", "utf-8")
    second.fires("session-end", reason="other")
    draft = only_draft(repository)
    given = yaml.safe_load(draft.read_text("utf-8"))
    assert {each["path"] for each in given["artifacts"]} == {"form.py", "button.py"}
    assert given["metadata"]["seen"]["commands"] == [{"command": "make form", "exit": 0}]
    assert given["metadata"]["title"] == TITLE

    text = draft.read_text("utf-8").replace(
        'summary: ""', 'outcome: partial\nstopped: budget\nto_agent: coder\nsummary: "half"'
    )
    draft.write_text(text, "utf-8")
    cli("handoff", str(draft))
    third = Host(repository, "gemini", "three").fires("session-start", source="startup").context
    assert "half" in third
    assert "without a handoff" not in third


@pytest.mark.promise("H-16")
def test_what_was_written_just_before_a_session_is_not_its_work(repository: Path) -> None:
    """Also within the second in which it starts."""
    (repository / "before.py").write_text("1\n", "utf-8")
    host = Host(repository, "claude", "one")
    host.fires("session-start", source="startup")
    (repository / "after.py").write_text("1\n", "utf-8")
    host.fires("session-end", reason="other")
    given = yaml.safe_load(only_draft(repository).read_text("utf-8"))
    assert [each["path"] for each in given["artifacts"]] == ["after.py"]


@pytest.mark.promise("H-16")
def test_a_session_that_is_on_a_task_tells_of_the_last_one_on_it(
    repository: Path, cli: Run
) -> None:
    cli("task", "new", "T-1", "--title", "Login", "--agent", "planner")
    works(Host(repository, "claude", "one"))
    heard = Host(repository, "codex", "two").fires("session-start", source="startup").context
    assert "# T-1 for planner" in heard
    assert "ran: make form (exit 0)" in heard
    assert "drafts/T-1.yaml" in heard


@pytest.mark.promise("H-17")
@pytest.mark.parametrize("name", ["claude", "codex"])
def test_a_resumed_session_hears_only_what_changed_since(
    repository: Path, cli: Run, name: str
) -> None:
    """Its first brief is still in the context; after a compaction it isn't."""
    cli("task", "new", "T-1", "--title", "Login", "--agent", "planner")
    cli("decide", "JWT in a cookie", "--why", "safe", "--task", "T-1", "--agent", "planner")
    host = Host(repository, name)
    assert "JWT in a cookie" in host.fires("session-start", source="startup").context
    assert host.fires("session-start", source="resume").context == "", "nothing has changed"
    cli("decide", "Argon2", "--why", "slow to guess", "--task", "T-1", "--agent", "planner")
    resumed = host.fires("session-start", source="resume").context
    assert "Argon2" in resumed
    assert "slow to guess" in resumed
    assert "JWT in a cookie" not in resumed
    assert host.fires("session-start", source="resume").context == ""
    for source in ("compact", "clear", "startup"):
        again = host.fires("session-start", source=source).context
        assert "JWT in a cookie" in again
        assert "Argon2" in again
    host.fires("pre-compact", trigger="auto")
    assert "JWT in a cookie" in host.fires("session-start", source="resume").context


@pytest.mark.promise("H-17")
@pytest.mark.parametrize("name", ["gemini", "cursor", "opencode"])
def test_a_host_that_forgets_what_hooks_gave_gets_the_brief_again(
    repository: Path, cli: Run, name: str
) -> None:
    """Gemini CLI resumes without it, as a real one showed; of the others that isn't known."""
    cli("task", "new", "T-1", "--title", "Login", "--agent", "planner")
    host = Host(repository, name)
    host.fires("session-start", source="startup")
    assert "# T-1 for planner" in context_of(host.fires("session-start", source="resume"))


@pytest.mark.promise("H-2")
def test_a_brief_in_a_hook_names_what_the_agent_there_can_call(
    repository: Path, cli: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commands; the tools where the server was set up; the path of a program that has to be."""
    cli("task", "new", "T-1", "--title", "Login", "--agent", "planner")
    host = Host(repository)
    plain = host.fires("session-start").context
    assert "`passdown handoff FILE`" in plain
    assert "MCP" not in plain
    cli("init", "--host", "claude")
    assert "MCP tools `brief` and `handoff`" in host.fires("session-start").context
    assert "MCP" not in Host(repository, "gemini").fires("session-start").context
    program = repository / "my tools/passdown"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n", "utf-8")
    program.chmod(0o755)
    monkeypatch.setattr("sys.prefix", str(repository))
    monkeypatch.setenv("PATH", str(program.parent))
    cli("init", "--host", "claude", "--absolute")
    run_as = f"Run passdown as '{program}'."
    assert run_as in host.fires("session-start").context
    (repository / "login.py").write_text("1\n", "utf-8")
    assert run_as in host.fires("stop").request


@pytest.mark.parametrize(
    ("root", "edited"),
    [
        (r"C:\work\shop", [r"C:\work\shop\src\a.py", r"c:\Work\shop\src\b.py", r"src\c.py"]),
        (r"\\host\share\shop", [r"\\host\share\shop\src\a.py", r"src/b.py", r".\src\c.py"]),
    ],
)
def test_paths_of_windows_are_relative_with_slashes(root: str, edited: list[str]) -> None:
    outside = [r"C:\work\shopping\a.py", r"D:\work\shop\a.py", r"..\a.py", r".passdown\ledger.db"]
    found = relative_paths(root, [*edited, *outside], ntpath)
    assert found == ["src/a.py", "src/b.py", "src/c.py"]


def test_a_transcript_with_windows_line_ends_is_read(repository: Path) -> None:
    host = Host(repository)
    host.transcript.touch()
    works(host)
    host.transcript.write_bytes(host.transcript.read_bytes().replace(b"\n", b"\r\n"))
    host.fires("stop")
    assert '"command": "make form", "exit": 0' in only_draft(repository).read_text("utf-8")


@pytest.mark.promise("H-14")
@pytest.mark.parametrize("name", ["claude-planted", "nobody-planted", "claude"])
def test_a_session_that_came_with_the_repository_writes_nowhere_else(
    repository: Path, name: str
) -> None:
    """Whoever made the repository may have put a session of a host there, with any task."""
    secret = repository.parent / "secret.txt"
    secret.write_text("the password\n", "utf-8")
    session = {
        "task": "../../outside",
        "title": "x",
        "started": 1,
        "transcript": str(secret),
        "commands": [{"command": "true"}],
    }
    folder = repository / ".passdown/hooks"
    folder.mkdir()
    (folder / f"{name}.json").write_text(json.dumps(session), "utf-8")
    heard = Host(repository).fires("session-start", source="startup")
    assert heard.code == 0
    assert "password" not in heard.out
    assert not list(repository.parent.rglob("outside*"))

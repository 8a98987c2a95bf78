"""Hooks: what a session is told, what is asked of it, and that its agent is never held up."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

import passdown
from passdown.core.tokens import vocabulary
from tests.interfaces.hosting import ROOT, Host, environment

if TYPE_CHECKING:
    from pathlib import Path

    from tests.interfaces.running import Run

HOSTS = ("claude", "codex", "gemini", "cursor", "opencode")


@pytest.fixture
def tasked(project: Path, cli: Run) -> Path:
    """A project with one open task and a decision."""
    cli("task", "new", "T-1", "--title", "Login", "--agent", "planner")
    cli("decide", "JWT in a cookie", "--why", "safe", "--task", "T-1", "--agent", "planner")
    return project


def told(host: Host, answer: Any) -> str:
    """The context in an answer, where each host looks for it."""
    field = {"cursor": "additional_context", "opencode": "context"}.get(host.name)
    return answer.json.get(field, "") if field else answer.context


@pytest.mark.promise("H-2")
@pytest.mark.parametrize("name", HOSTS)
def test_a_session_begins_with_its_brief_in_the_hosts_own_form(tasked: Path, name: str) -> None:
    host = Host(tasked, name)
    heard = host.fires("session-start", source="startup")
    assert heard.code == 0
    assert heard.err == ""
    assert "JWT in a cookie" in told(host, heard)
    fields = {"cursor": ["additional_context"], "opencode": ["context"]}
    assert list(heard.json) == fields.get(name, ["hookSpecificOutput"])
    with passdown.open(str(tasked)) as ws:
        assert len(ws.context.deliveries("T-1")) == 1, "what an agent was told is on record"


@pytest.mark.promise("H-2")
@pytest.mark.parametrize("source", ["startup", "clear", "compact", "fork", ""])
def test_the_brief_is_told_again_however_a_session_goes_on(tasked: Path, source: str) -> None:
    host = Host(tasked)
    host.fires("session-start", source="startup")
    assert "JWT in a cookie" in host.fires("session-start", source=source).context


@pytest.mark.promise("H-3")
@pytest.mark.parametrize("name", HOSTS)
@pytest.mark.parametrize("letter", ["x", "é", "漢", "🙂"])
def test_what_is_told_stays_within_the_hosts_limit(
    project: Path, cli: Run, name: str, letter: str
) -> None:
    """10,000 characters for Claude Code, 2,500 tokens for Codex, whatever the text is made of."""
    config = project / ".passdown/config.toml"
    config.write_text("[brief]\nbudget = 100000\n", "utf-8")
    cli("task", "new", "T-1", "--title", "Big", "--agent", "planner")
    with passdown.open(str(project)) as ws:
        decided = [
            {"summary": f"{number} {letter * 300}", "rationale": "r" * 300} for number in range(60)
        ]
        given: dict[str, Any] = {"to_agent": "b", "decisions": decided}
        ws.hand_off(task="T-1", from_agent="a", outcome="completed", **given)
    host = Host(project, name)
    text = told(host, host.fires("session-start", source="startup"))
    assert "left out: passdown state T-1" in text, "something had to be left out"
    if name == "codex":
        assert vocabulary("o200k_base")(text) <= 2_500
    else:
        assert len(text.encode("utf-16-le")) // 2 <= 10_000
    assert len(text) > (1_000 if letter == "x" else 500), "the room is used"


def test_without_a_workspace_or_a_task_hooks_are_silent(tmp_path: Path, project: Path) -> None:
    outside = tmp_path / "elsewhere"
    outside.mkdir()
    for name, silence in (("claude", ""), ("codex", ""), ("gemini", "{}\n"), ("cursor", "{}\n")):
        for event in ("session-start", "prompt-submit", "stop"):
            heard = Host(outside, name).fires(event, prompt="hi")
            assert heard == (0, silence, "")
            assert Host(project, name).fires(event, prompt="hi") == (0, silence, "")
    assert list(outside.iterdir()) == []


def test_of_several_tasks_the_branch_the_prompt_or_the_person_chooses(
    project: Path, cli: Run
) -> None:
    for task in ("T-1", "T-12"):
        cli("task", "new", task, "--title", f"title of {task}", "--agent", "planner")
    subprocess.run(["git", "init", "-q", "-b", "feature/T-12-login"], cwd=project, check=True)
    assert "This session is on T-12" in Host(project).fires("session-start").context

    (project / ".git/HEAD").write_text("ref: refs/heads/main\n", "utf-8")
    host = Host(project, session="s-2")
    listed = host.fires("session-start").context
    assert "2 tasks are open" in listed
    assert "title of T-1\n" in listed
    assert host.fires("prompt-submit", prompt="what is new?").context == ""
    assert "on T-1, named in the prompt" in host.fires("prompt-submit", prompt="do t-1 now").context
    assert host.fires("prompt-submit", prompt="do T-12 now").context == "", "it is on T-1 now"

    cli("start", "T-1", "--agent", "kim")
    host = Host(project, session="s-4")
    host.env["PASSDOWN_AGENT"] = "kim"
    assert "on T-1, which kim works on" in host.fires("session-start").context

    host = Host(project, session="s-3")
    host.env["PASSDOWN_TASK"] = "T-12"
    assert "on T-12, named by PASSDOWN_TASK" in host.fires("session-start").context


@pytest.mark.promise("H-4")
@pytest.mark.parametrize("name", ["claude", "codex", "gemini"])
def test_a_prompt_that_calls_an_agent_brings_its_context(tasked: Path, name: str) -> None:
    profiles = tasked / ".passdown/agents"
    profiles.mkdir()
    (profiles / "reviewer.md").write_text("# Reviewer\n\nYou read code closely.\n", "utf-8")
    host = Host(tasked, name)
    host.fires("session-start", source="startup")
    assert host.fires("prompt-submit", prompt="just go on").context == ""
    switched = host.fires("prompt-submit", prompt="@reviewer look at it").context
    assert "You read code closely." in switched
    assert "Login" in switched
    with passdown.open(str(tasked)) as ws:
        assert ws.context.deliveries("T-1")[0].agent == "reviewer"


@pytest.mark.promise("H-4")
@pytest.mark.parametrize("name", ["claude", "codex", "gemini"])
@pytest.mark.parametrize("profile", ["You read closely.", "You read closely. " * 1_400])
def test_a_first_prompt_that_calls_an_agent_brings_the_brief_once(
    tasked: Path, name: str, profile: str
) -> None:
    """In a session that no start was announced of; with the task and how to hand off."""
    profiles = tasked / ".passdown/agents"
    profiles.mkdir()
    (profiles / "reviewer.md").write_text(profile, "utf-8")
    host = Host(tasked, name)
    told = host.fires("prompt-submit", prompt="@reviewer look at it").context
    assert told.count("# T-1 for ") == 1
    assert "This session is on T-1" in told
    assert "passdown handoff FILE" in told
    assert host.fires("prompt-submit", prompt="go on").context == ""


@pytest.mark.promise("H-4")
def test_a_prompt_brings_the_rules_that_bear_on_it(tasked: Path) -> None:
    shutil.copytree(ROOT / "docs/examples/rules", tasked / ".passdown/rules")
    host = Host(tasked)
    host.fires("session-start", source="startup")
    plain = host.fires("prompt-submit", prompt="hello").context
    about = host.fires("prompt-submit", prompt="*review the migration").context
    assert "Name files relative to the project." in plain
    assert "Read the diff, then the tests, then the summary." not in plain
    assert "Read the diff, then the tests, then the summary." in about


@pytest.mark.promise("H-5")
@pytest.mark.parametrize("name", ["claude", "codex", "gemini", "cursor", "opencode"])
def test_a_stop_without_a_handoff_asks_for_one_once(tasked: Path, cli: Run, name: str) -> None:
    host = Host(tasked, name)
    host.fires("session-start", source="startup")
    (tasked / "login.py").write_text("print('in')\n", "utf-8")
    asked = host.fires("stop", stop_hook_active=False)
    assert asked.code == 0
    field = {"cursor": "followup_message", "opencode": "message"}.get(name, "reason")
    assert "passdown handoff .passdown/drafts/T-1.yaml" in asked.json[field]
    word = {"claude": "block", "codex": "block", "gemini": "deny"}.get(name)
    assert asked.json.get("decision") == word
    silence = "" if name in ("claude", "codex") else "{}\n"
    assert host.fires("stop", stop_hook_active=False).out == silence
    assert host.fires("stop", stop_hook_active=True).out == silence


@pytest.mark.promise("H-5")
@pytest.mark.parametrize(
    ("fields", "env"),
    [
        ({"stop_hook_active": True}, {}),
        ({"loop_count": 1}, {}),
        ({"status": "aborted"}, {}),
        ({}, {"PASSDOWN_ASK": "off"}),
        ({}, {"PASSDOWN_HOOKS": "off"}),
    ],
)
def test_a_stop_that_was_held_up_or_broken_off_is_let_go(
    tasked: Path, fields: dict[str, Any], env: dict[str, str]
) -> None:
    host = Host(tasked)
    host.fires("session-start", source="startup")
    (tasked / "login.py").write_text("print('in')\n", "utf-8")
    host.env |= env
    assert host.fires("stop", **fields).out == ""


@pytest.mark.promise("H-5")
def test_nothing_is_asked_for_what_was_handed_off_or_never_done(tasked: Path, cli: Run) -> None:
    subprocess.run(["git", "init", "-q"], cwd=tasked, check=True)
    host = Host(tasked)
    host.fires("session-start", source="startup")
    host.writes({"type": "user", "message": {"role": "user", "content": "what is this?"}})
    assert host.fires("stop").out == "", "a question was answered, and nothing done"
    (tasked / "login.py").write_text("print('in')\n", "utf-8")
    cli(
        *("handoff", "--task", "T-1", "--from", "planner", "--to", "coder"),
        *("--outcome", "completed", "--next", "go on", "--file", "login.py"),
    )
    assert host.fires("stop").out == ""
    assert not (tasked / ".passdown/drafts/T-1.yaml").exists()


def test_an_agent_whose_context_was_compacted_hears_what_was_seen(tasked: Path) -> None:
    """Also where a host has no event for it: Gemini CLI's next prompt brings the brief again."""
    from tests.interfaces.hosting import resulted, used

    host = Host(tasked)
    host.fires("session-start", source="startup")
    host.writes(used("Bash", "c1", command="make test"), resulted("c1", "ok"))
    assert host.fires("pre-compact", trigger="auto").out == ""
    again = host.fires("session-start", source="compact").context
    assert "ran: make test (exit 0)" in again
    assert "JWT in a cookie" in again

    gemini = Host(tasked, "gemini")
    gemini.fires("session-start", source="startup")
    gemini.fires("pre-compact", trigger="auto")
    assert gemini.fires("prompt-submit", prompt="on").context == "", "announced at every turn"
    for tokens in (90_000, 9_000):
        gemini.writes({"type": "gemini", "tokens": {"input": tokens, "output": 10}})
    gemini.fires("stop", stop_hook_active=True)
    assert "JWT in a cookie" in gemini.fires("prompt-submit", prompt="on").context
    assert gemini.fires("prompt-submit", prompt="on").context == ""
    gemini.fires("pre-compact", trigger="manual")
    assert "JWT in a cookie" in gemini.fires("prompt-submit", prompt="on").context


@pytest.mark.promise("H-6")
@pytest.mark.parametrize("name", ["claude", "codex"])
def test_a_subagent_gets_its_brief_and_what_it_did_is_kept(tasked: Path, name: str) -> None:
    from tests.interfaces.hosting import resulted, used

    host = Host(tasked, name)
    host.fires("session-start", source="startup")
    heard = host.fires("subagent-start", agent_id="a1", agent_type="explorer")
    assert "# T-1 for explorer" in heard.context
    own = Host(tasked, name, "sub")
    own.writes(used("Bash", "c1", command="pytest -q"), resulted("c1", "Exit code 1", failed=True))
    ended = host.fires(
        "subagent-stop",
        agent_type="explorer",
        agent_transcript_path=str(own.transcript),
        last_assistant_message="The bug is in login.py, line 3.",
    )
    assert ended == (0, "", "")
    draft = (tasked / ".passdown/drafts/T-1.yaml").read_text("utf-8")
    assert "The bug is in login.py, line 3." in draft
    assert '"command": "pytest -q", "exit": 1' in draft


def test_a_hook_loads_nothing_heavy(filled: Path, project_root: Path) -> None:
    from tests.interfaces.test_start_up import HEAVY

    source = (
        "import sys, io, json, os\n"
        "sys.stdin = io.TextIOWrapper(io.BytesIO(json.dumps({'session_id': 'x'}).encode()))\n"
        "from passdown.cli.main import main\n"
        "code = main(['hook', 'claude', sys.argv[1]])\n"
        "print(json.dumps([code, sorted(sys.modules)]), file=sys.stderr)"
    )
    for event in ("session-start", "prompt-submit"):
        done = subprocess.run(
            [sys.executable, "-c", source, event],
            env={**environment(PYTHONPATH=str(project_root / "src")), "PATH": ""},
            cwd=filled,
            capture_output=True,
            text=True,
            check=False,
        )
        code, modules = json.loads(done.stderr)
        assert code == 0
        more = {"argparse", "difflib", "fnmatch", "passdown.core.words"}
        assert (HEAVY | more) & set(modules) == set()
        mine = {name for name in modules if name.startswith("passdown.surfaces.")}
        assert "passdown.cli.parsing" not in mine
        if event == "session-start":
            assert "JWT" in done.stdout


@pytest.mark.promise("H-4")
@pytest.mark.parametrize("name", ["claude", "codex", "gemini"])
def test_a_profile_too_long_for_the_host_leaves_summaries_and_brief_in(
    tasked: Path, name: str
) -> None:
    profiles = tasked / ".passdown/agents"
    profiles.mkdir()
    (profiles / "reviewer.md").write_text("# Reviewer\n\n" + "You read closely. " * 1_400, "utf-8")
    host = Host(tasked, name)
    host.fires("session-start", source="startup")
    switched = host.fires("prompt-submit", prompt="@reviewer look at it").context
    assert "T-1 for reviewer" in switched
    assert "reviewer.md" in switched
    assert "You read closely. You read closely." not in switched

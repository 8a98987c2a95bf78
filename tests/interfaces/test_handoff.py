"""`handoff` from files and flags, and what stands in for what is left out."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.interfaces.running import data_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.interfaces.running import Run

COMMAND_KEYS = {
    "task",
    "to_agent",
    "phase",
    "outcome",
    "version",
    "digest",
    "state_delta",
    "context_summary",
    "state_file",
    "held_by",
    "detail_score",
    "is_replay",
    "warnings",
    "prepared",
}


@pytest.fixture
def task(cli: Run) -> str:
    cli("task", "new", "T-1", "--title", "Login", "--agent", "planner")
    return "T-1"


def test_flags_alone(task: str, project: Path, cli: Run, as_json: Callable[..., Any]) -> None:
    (project / "a.py").write_text("a\n", "utf-8")
    command = as_json(
        *("handoff", "--task", task, "--to", "coder", "--outcome", "completed"),
        *("--summary", "begun", "--next", "go on", "--next", "and on", "--file", "a.py"),
        *("--decision", "two :: because", "--read", "a.py :: it is all there is"),
        *("--question", "how?"),
    )
    assert set(command) == COMMAND_KEYS
    assert command["to_agent"] == "coder"
    state = as_json("state", task)
    assert [step["step"] for step in state["next_steps"]] == ["go on", "and on"]
    assert state["decisions"][0]["rationale"] == "because"
    assert state["artifacts"][0]["path"] == "a.py"
    assert state["source_agent"] == "planner"


@pytest.mark.parametrize("given", ["std::move :: why", "std::move::why", "a ::b", "a:: b", "a::b"])
def test_pairs_with_and_without_spaces(task: str, as_json: Callable[..., Any], given: str) -> None:
    as_json("handoff", "--task", task, "--outcome", "completed", "--decision", given)
    made = as_json("state", task)["decisions"][0]
    wanted = {"std::move :: why": ("std::move", "why"), "std::move::why": ("std", "move::why")}
    assert (made["summary"], made["rationale"]) == wanted.get(given, ("a", "b"))


def test_everything_from_flags(task: str, cli: Run, as_json: Callable[..., Any]) -> None:
    cli("task", "new", "T-2", "--title", "After", "--agent", "planner")
    cli(
        *("handoff", "--task", task, "--outcome", "blocked", "--blocker", "no key :: ask ops"),
        *("--blocker", "no host", "--blocks", "T-2", "--gotcha", "UTC :: convert late"),
        *("--pattern", "codes :: src/errors.py", "--warning", "mind the gap"),
    )
    state = as_json("state", task)
    assert [b["blocking_tasks"] for b in state["blockers"]] == [["T-2"], ["T-2"]]
    assert state["blockers"][0]["suggested_resolution"] == "ask ops"
    gotcha = state["gotchas"][0]
    assert (gotcha["issue"], gotcha["mitigation"], gotcha["severity"]) == (
        "UTC",
        "convert late",
        "medium",
    )
    assert state["patterns"][0]["location"] == "src/errors.py"
    assert state["warnings"][0]["text"] == "mind the gap"
    assert as_json("task", "show", "T-2")["status"] == "blocked"


def test_markdown_without_a_handoff_is_told_so(task: str, project: Path, cli: Run) -> None:
    for text in ("# Notes\n\nSome: words: here\n", "# Only a title\n", "just words\n"):
        (project / "b.md").write_text(text, "utf-8")
        answer = cli("handoff", "b.md", "--task", task, "--outcome", "completed", code=1)
        assert "no '## Handoff' heading" in answer.err
    (project / "b.md").write_text(f"task: {task}\noutcome: completed\n", "utf-8")
    cli("handoff", "b.md")


def test_warnings_take_a_line_each(task: str, project: Path, cli: Run) -> None:
    (project / "a.yaml").write_text("outcome: completed\nmoood: fine\n", "utf-8")
    lines = cli("handoff", "a.yaml", "--task", task, "--next", "go on").out.splitlines()
    assert "  recommended, missing: --summary, --pattern, --gotcha, --read" in lines
    assert len([line for line in lines if line.startswith("  warning  moood: ")]) == 1
    assert re.search(r"^  digest +sha256:[0-9a-f]{12}…$", "\n".join(lines), re.MULTILINE)
    assert "  added         0 artifacts, 0 decisions" in lines


def test_yaml_json_and_standard_input(
    task: str, project: Path, cli: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "a.yaml").write_text("outcome: completed\nsummary: from yaml\n", "utf-8")
    (project / "a.json").write_text('{"outcome": "completed", "summary": "from json"}', "utf-8")
    cli("handoff", "a.yaml", "--task", task)
    cli("handoff", "a.json", "--task", task)
    given = io.TextIOWrapper(io.BytesIO(b"outcome: completed\nsummary: from stdin\n"))
    monkeypatch.setattr("sys.stdin", given)
    cli("handoff", "-", "--task", task)
    found = data_of(cli("log", task, "--json").out)
    said = [entry["summary"].rpartition(": ")[2] for entry in found[:3]]
    assert said == ["from stdin", "from json", "from yaml"]


def test_lists_from_flags_are_added_to_those_of_the_file(
    task: str, project: Path, cli: Run, as_json: Callable[..., Any]
) -> None:
    text = f"task: {task}\noutcome: completed\nsuggested_next_steps:\n  - step: one\n"
    (project / "a.yaml").write_text(text, "utf-8")
    cli("handoff", "a.yaml", "--next", "two", "--task", task)
    steps = [step["step"] for step in as_json("state", task)["next_steps"]]
    assert steps == ["one", "two"]


def test_people_see_version_target_gates_and_summary(filled: Path, cli: Run) -> None:
    answer = cli("handoff", "note.yaml")
    assert "was recorded already, T-1 version 7" in answer.out
    assert "passdown gate approve T-1#k2 --by NAME" in answer.out
    assert "/100" in answer.out
    assert ".passdown/state/T-1.json" in answer.out
    assert "## Agent Handoff State" in answer.out


def test_a_dry_run_lists_every_problem_and_changes_nothing(
    task: str, project: Path, cli: Run, as_json: Callable[..., Any]
) -> None:
    text = f"task: {task}\noutcome: partial\ngotchas:\n  - issue: x\n    severity: huge\n"
    (project / "bad.yaml").write_text(text, "utf-8")
    before = as_json("log")
    answer = cli("handoff", "bad.yaml", "--dry-run", code=1)
    for path in ("blockers", "gotchas[0].mitigation", "gotchas[0].severity"):
        assert path in answer.out
    assert "nothing was changed" in answer.out
    found = as_json("handoff", "bad.yaml", "--dry-run", code=1)
    assert found["ok"] is False
    good = as_json(
        *("handoff", "--task", task, "--outcome", "completed", "--dry-run", "--summary", "fine")
    )
    assert good["ok"] is True
    assert 0 < good["detail_score"] <= 100
    (project / "broken.yaml").write_text("a: [", "utf-8")
    assert as_json("handoff", "broken.yaml", "--dry-run", code=1)["problems"]
    assert as_json("log") == before


def test_a_refusal_lists_every_reason(task: str, cli: Run, as_json: Callable[..., Any]) -> None:
    found = as_json("handoff", "--task", task, "--outcome", "failed", code=1)
    assert found["error"] == "invalid_input"
    assert [problem["path"] for problem in found["problems"]] == ["blockers"]
    assert cli("handoff", "nowhere.yaml", code=1).err.count("missing_file") == 1
    assert as_json("task", "show", task)["version"] == 1


def test_a_stale_writer_is_told(task: str, cli: Run, as_json: Callable[..., Any]) -> None:
    cli("warn", task, "moved on")
    flags = ("handoff", "--task", task, "--outcome", "completed", "--expect-version", "1")
    found = as_json(*flags, code=1)
    assert (found["error"], found["expected"], found["actual"]) == ("conflict", 1, 2)
    assert as_json(*flags, "--dry-run", code=1)["ok"] is False
    assert as_json(*flags, "--dry-run", "--rebase")["ok"] is True
    assert as_json(*flags, "--rebase")["version"] == 3


def test_a_key_makes_a_retry_safe(task: str, as_json: Callable[..., Any]) -> None:
    flags = ("handoff", "--task", task, "--outcome", "completed", "--key", "k1")
    first = as_json(*flags, "--from", "planner")
    again = as_json(*flags, "--from", "planner")
    assert (first["version"], again["is_replay"]) == (again["version"], True)


def test_a_person_is_asked_by_a_flag_and_a_repeat_after_the_answer_waits_for_nobody(
    task: str, cli: Run, as_json: Callable[..., Any]
) -> None:
    asks = ("--outcome", "partial", "--blocker", "ship on Friday?", "--requires-human")
    flags = ("handoff", task, *asks, "--next", "ship", "--summary", "ready")
    refused = cli("handoff", task, "--outcome", "completed", "--requires-human", code=2).err
    assert "--requires-human is about a --blocker" in refused
    (gate,) = as_json(*flags)["held_by"]
    assert as_json("show", gate)["blocker"] == "ship on Friday?"
    assert f"held by {gate}" in cli(*flags).out, "it still waits"
    cli("gate", "approve", gate, "--by", "kim", "--reason", "go")
    repeated = cli(*flags).out
    assert "was recorded already" in repeated
    assert "held by" not in repeated


def test_changed_files_must_be_named(
    task: str, project: Path, cli: Run, as_json: Callable[..., Any]
) -> None:
    flags = ("handoff", "--task", task, "--outcome", "completed", "--dry-run")
    found = as_json(*flags, "--changed", "a.py", code=1)
    assert "files_modified" in [p["path"] for p in found["problems"] if p["level"] == "error"]
    assert "no_git" in cli(*flags, "--changed-git", code=1).err


def test_changed_files_from_git(
    cli: Run,
    project: Path,
    need_program: Callable[[str], str],
    as_json: Callable[..., Any],
) -> None:
    git = need_program("git")
    cli("task", "new", "T-1", "--title", "Login", "--agent", "planner")

    def run(*argv: str) -> None:
        names = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        subprocess.run([git, *names, *argv], cwd=project, check=True, capture_output=True)

    run("init", "-q")
    (project / "old name.py").write_text("x = 1\n" * 20, "utf-8")
    (project / "kept.py").write_text("kept\n", "utf-8")
    run("add", ".")
    run("commit", "-q", "-m", "first")
    run("mv", "old name.py", "néw name.py")
    (project / "kept.py").write_text("changed\n", "utf-8")
    (project / "sub").mkdir()
    (project / "sub" / "fresh.py").write_text("new\n", "utf-8")
    found = as_json(
        *("handoff", "--task", "T-1", "--outcome", "completed", "--file", "kept.py"),
        *("--changed-git", "--dry-run"),
    )
    unlisted = [p["message"] for p in found["problems"] if p["code"] == "unlisted_file"]
    assert unlisted == ["néw name.py changed", "sub/fresh.py changed"]


def test_the_sender_is_the_agent_of_the_environment(
    task: str, cli: Run, as_json: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PASSDOWN_AGENT", "robot")
    cli("handoff", "--task", task, "--outcome", "completed")
    assert as_json("state", task)["source_agent"] == "robot"


@pytest.mark.promise("P-7")
def test_a_refusal_of_flags_speaks_in_flags(task: str, cli: Run) -> None:
    """Each missing field names its flag; a task that isn't there is among the problems."""
    said = cli("handoff", "--task", "T-9", "--outcome", "partial", "--to", "qa", code=1).err
    assert "there is no task 'T-9'" in said
    assert "or --blocker 'TEXT :: FIX'" in said
    assert "Try: --next TEXT" in said
    ask = ("handoff", "--task", task, "--blocker", "no key")
    assert "Try: --blocker 'TEXT :: FIX'" in cli(*ask, "--outcome", "failed", code=1).err
    same = ("--from", "qa", "--to", "qa", "--outcome", "completed")
    assert "Try: another --to, or none" in cli("handoff", "--task", task, *same, code=1).err
    gone = cli("handoff", "--task", task, "--outcome", "completed", "--file", "gone.py", code=1)
    assert "gone.py" in gone.err
    assert "write the file" in gone.err
    dry = cli("handoff", "--task", "T-9", "--outcome", "partial", "--dry-run", code=1).out
    assert dry.count("not_found") == 1
    assert "--next TEXT" in dry


@pytest.mark.promise("P-7")
def test_a_refusal_of_a_file_speaks_of_its_fields(cli: Run, project: Path) -> None:
    (project / "h.yaml").write_text("task: T-9\noutcome: partial\n", "utf-8")
    said = cli("handoff", "h.yaml", code=1).err
    assert "there is no task 'T-9'" in said
    assert "suggested_next_steps: is missing" in said
    assert "--next" not in said


def test_it_runs_as_a_program(task: str, program: Run) -> None:
    answer = program("handoff", "--task", task, "--outcome", "completed", "--json")
    assert data_of(answer.out)["version"] == 2
    assert sys.executable


def test_what_only_warns_is_no_reason_of_a_refusal(project: Path, cli: Run) -> None:
    """It comes last, and says that it is a warning."""
    cli("task", "new", "T-1", "--title", "One")
    given = {"zzz_mine": 1, "task": "T-1", "outcome": "nope", "from_agent": "a", "summary": 5}
    (project / "h.json").write_text(json.dumps(given), "utf-8")
    said = cli("handoff", "h.json", code=1).err.splitlines()
    listed = [line for line in said if line.startswith("  - ")]
    assert [line.startswith("  - warning: ") for line in listed] == [False, False, True]
    assert "zzz_mine" in listed[-1]


def test_a_task_that_stays_completed_isnt_called_reopened(project: Path, cli: Run) -> None:
    cli("task", "new", "T-1", "--title", "One")
    done = ("handoff", "--task", "T-1", "--from", "a", "--outcome", "completed")
    last = ("--phase", "completed")
    assert "reopened" not in cli(*done, *last, "--summary", "Done.").out
    assert "reopened" not in cli(*done, *last, "--summary", "A word more.").out
    assert (
        "reopened" in cli(*done, "--phase", "implementing", "--to", "b", "--summary", "Again.").out
    )


def test_the_source_of_a_prepared_handoff_is_a_repeat_once_that_is_recorded(
    project: Path, cli: Run, as_json: Callable[..., Any]
) -> None:
    """Prepared from a file, recorded, and the file given again: one record."""
    cli("task", "new", "T-1", "--title", "One")
    steps = {"task": "T-1", "outcome": "completed", "to_agent": "b", "from_agent": "a"}
    (project / "h.json").write_text(
        json.dumps({**steps, "summary": "Begun.", "suggested_next_steps": ["go on"]}), "utf-8"
    )
    cli("handoff", "h.json")
    for number, more in enumerate(({"to_agent": "c"}, {}), 3):
        ends = {"task": "T-1", "outcome": "completed", "from_agent": "b"}
        given = {**ends, "summary": f"Done {number}.", "resolves": ["T-1#n1"], **more}
        if number == 4:
            del given["resolves"]
        (project / "h.json").write_text(json.dumps(given), "utf-8")
        prepared = as_json("handoff", "h.json", "--dry-run")
        (project / "prepared.json").write_text(json.dumps(prepared), "utf-8")
        assert as_json("handoff", "prepared.json")["version"] == number
        again = as_json("handoff", "h.json")
        assert (again["version"], again["is_replay"]) == (number, True)


def test_a_partial_handoff_without_a_blocker_is_offered_what_ran_out(
    project: Path, cli: Run
) -> None:
    cli("task", "new", "T-1", "--title", "Login", "--agent", "a")
    said = cli("handoff", "--outcome", "partial", "--next", "go on", code=1).err
    assert "Try: --stopped time|context|budget|turn, or --blocker 'TEXT :: FIX'" in said
    stopped = cli("handoff", "--outcome", "partial", "--next", "go on", "--stopped", "time").out
    assert "Blocking: 1 blocker of low severity: Ran out of time" in stopped

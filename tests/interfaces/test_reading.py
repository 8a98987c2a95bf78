"""Reading verbs: what they show, with stable keys, and where every fact came from."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.interfaces.running import data_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.interfaces.running import Run


@pytest.mark.promise("S3-41")
def test_every_fact_says_which_task_and_agent_it_came_from(
    filled: Path, cli: Run, as_json: Callable[..., Any]
) -> None:
    state = as_json("state", "T-1")
    names = ("decisions", "gotchas", "artifacts", "next_steps", "blockers", "warnings", "handoffs")
    items = [item for name in (*names, "gates") for item in state[name]]
    assert len(items) >= 9
    log = {entry["version"]: entry for entry in as_json("log", "T-1")}
    for item in items:
        found = as_json("show", item["address"])
        source = found["source"]
        assert (source["task"], source["author"]) == ("T-1", item["agent"])
        entry = log[source["version"]]
        assert (entry["task"], entry["author"], entry["digest"]) == (
            "T-1",
            source["author"],
            source["digest"],
        )
        told = cli("show", item["address"]).out
        assert "T-1" in told
        assert source["author"] in told
        assert source["digest"][:19] + "…" in told
        assert source["digest"] not in told


@pytest.mark.promise("S1-20")
def test_a_person_can_read_the_handle_file(filled: Path) -> None:
    text = (filled / ".passdown" / "state" / "T-1.json").read_text("utf-8")
    lines = text.splitlines()
    assert '  "phase": "implementing",' in lines
    assert '  "status": "open",' in lines
    started = next(line for line in lines if line.startswith('  "phase_started_at": "2'))
    assert started.endswith('Z",')
    assert '      "summary": "JWT",' in lines
    assert max(len(line) for line in lines) < 200
    assert json.loads(text)["title"] == "Login"


def test_state_now_and_then(filled: Path, cli: Run, as_json: Callable[..., Any]) -> None:
    now, then = as_json("state", "T-1"), as_json("state", "T-1", "--at", "1")
    assert (now["version"], then["version"]) == (7, 1)
    assert now.keys() == then.keys()
    assert then["decisions"] == []
    told = cli("state", "T-1").out
    for text in ("T-1#d1", "JWT", "no session", "is this legal?", "src/login.py", "version"):
        assert text in told
    assert "has no version 99" in cli("state", "T-1", "--at", "99", code=1).err


def test_neighbouring_shapes(filled: Path, as_json: Callable[..., Any]) -> None:
    old = as_json("state", "T-1", "--as", "state-file")
    assert (old["task_id"], old["version"]) == ("T-1", 7)
    assert old["decisions_made"][0]["decision"] == "JWT"
    switch = as_json("state", "T-1", "--as", "switch-artifact")
    assert (switch["from_agent"], switch["to_agent"]) == ("coder", "reviewer")
    assert switch["full_record"] == ".passdown/state/T-1.json"


def test_files_and_plan(filled: Path, cli: Run, as_json: Callable[..., Any]) -> None:
    assert as_json("state", "T-1", "--files")[0]["now"] == "same"
    (filled / "src" / "login.py").write_text("changed\n", "utf-8")
    assert as_json("state", "T-1", "--files", code=1)[0]["now"] == "changed"
    (filled / "src" / "login.py").unlink()
    assert "missing" in cli("state", "T-1", "--files", code=1).out
    assert as_json("state", "T-1", "--budget", "100")["inline"] == ["src/login.py"]
    assert "reference" in cli("state", "T-1", "--budget", "1").out


def test_log_pages(filled: Path, cli: Run, as_json: Callable[..., Any]) -> None:
    whole = as_json("log", "T-1")
    assert [entry["version"] for entry in whole] == [7, 6, 5, 4, 3, 2, 1]
    first = as_json("log", "T-1", "--limit", "3")
    rest = as_json("log", "T-1", "--before", str(first[-1]["version"]))
    assert first + rest == whole
    assert "older: --before 5" in cli("log", "T-1", "--limit", "3").out
    assert {"seq", "task", "version", "author", "at", "kind", "summary"} <= whole[0].keys()


def test_diff(filled: Path, cli: Run, as_json: Callable[..., Any]) -> None:
    found = as_json("diff", "T-1", "1", "4")
    assert set(found) >= {"task", "old", "new", "fields", "added", "changed", "removed"}
    told = cli("diff", "T-1", "1", "4").out
    assert "+ T-1#d1  JWT" in told
    assert "planning -> implementing" in told
    assert "nothing differs" in cli("diff", "T-1", "4", "4").out


def test_inbox_summary_and_history(filled: Path, cli: Run, as_json: Callable[..., Any]) -> None:
    assert [entry["task"] for entry in as_json("inbox", "reviewer")] == ["T-1"]
    assert cli("inbox", "reviewer").out.splitlines() == [
        "task  version  from   outcome  state",
        "T-1   7        coder  partial  held by a gate",
    ]
    assert as_json("inbox", "reviewer")[0]["from_agent"] == "coder"
    assert "nothing is waiting" in cli("inbox", "nobody").out
    text = as_json("summary", "T-1")["summary"]
    (filled / "prompt.txt").write_text(text, "utf-8")
    assert as_json("summary", "T-1", "--check", "prompt.txt")["is_current"] is True
    cli("warn", "T-1", "later")
    assert "outdated" in cli("summary", "T-1", "--check", "prompt.txt", code=1).out
    (filled / "prompt.txt").write_text("no version here", "utf-8")
    assert "no_version" in cli("summary", "T-1", "--check", "prompt.txt", code=1).err
    entry = as_json("history", "T-1", "src/login.py")[0]
    assert entry["path"] == "src/login.py"
    told = cli("history", "T-1", "src/login.py").out
    assert entry["sha256"][:12] in told
    assert entry["sha256"][:13] not in told


def test_a_summary_survives_a_narrow_terminal_and_a_mail(
    filled: Path, cli: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    text = cli("summary", "T-1").out
    assert text == data_of(cli("summary", "T-1", "--json").out)["summary"] + "\n"
    assert text in cli("handoff", "note.yaml").out
    mailed = re.sub(r"(Version: \d+) (.{20})(.{20})", r"  \1\n\2\n  \3 ", text)
    assert mailed.count("\n") == text.count("\n") + 2
    for each in (text, mailed, text.replace("\n", "\r\n")):
        (filled / "prompt.txt").write_bytes(each.encode())
        assert "current" in cli("summary", "T-1", "--check", "prompt.txt").out


def test_tasks(filled: Path, cli: Run, as_json: Callable[..., Any]) -> None:
    cli(
        *("task", "new", "T-2", "--title", "Next", "--needs", "T-1", "--time-limit", "30"),
        *("--input", "a", "--input", "b, c", "--output", "c", "--description", "more"),
    )
    shown = as_json("task", "show", "T-2")
    assert (shown["needs"], shown["inputs"], shown["time_limit_minutes"]) == (
        ["T-1"],
        ["a", "b, c"],
        30,
    )
    assert [task["task"] for task in as_json("task", "list", "--phase", "planning")] == ["T-2"]
    assert [task["task"] for task in as_json("task", "list", "--limit", "1")] == ["T-1"]
    cli("task", "set", "T-2", "--status", "cancelled", "--title", "Never")
    assert as_json("task", "list", "--status", "cancelled")[0]["title"] == "Never"
    assert as_json("task", "set", "T-2", "--title", "x", "--expect-version", "1", code=1)[
        "error"
    ] == ("conflict")
    assert as_json("task", "set", "T-1", "--needs", "T-2", code=1)["problems"][0]["code"] == "cycle"
    assert "criteria" in cli("task", "show", "T-1").out
    assert "T-1" in cli("task", "list").out


def test_the_list_of_tasks_shows_what_is_held_and_what_is_no_task(
    filled: Path, cli: Run, as_json: Callable[..., Any]
) -> None:
    cli("note", "pattern", "codes", "--location", "src", "--task", "workspace")
    cli("task", "new", "T-2", "--title", "Next", "--agent", "planner")
    assert cli("task", "list").out.splitlines() == [
        "task  status  phase         holder    version  title",
        "T-1   held    implementing  reviewer  7        Login",
        "T-2   open    planning      planner   1        Next",
    ]
    told = cli("task", "list", "--all").out
    assert re.search(r"workspace +no task +2 +What concerns all work", told)
    assert [(t["task"], t["held"]) for t in as_json("task", "list")] == [
        ("T-1", True),
        ("T-2", False),
    ]
    first = as_json("task", "list", "--limit", "1")
    rest = as_json("task", "list", "--limit", "1", "--after", str(first[0]["seq"]))
    assert [task["task"] for task in first + rest] == ["T-1", "T-2"]
    assert as_json("task", "list", "--limit", "0", code=1)["error"] == "invalid_input"
    assert "workspace" in [task["task"] for task in as_json("task", "list", "--all")]


def test_small_writes(filled: Path, cli: Run, as_json: Callable[..., Any]) -> None:
    receipt = as_json(
        *("decide", "Sessions", "--why", "logout", "--task", "T-1", "--supersedes", "T-1#d1"),
        *("--alternative", "a", "--alternative", "b", "--path", "src/login.py"),
        *("--tag", "auth, web", "--tag", "login"),
    )
    made = as_json("show", "T-1#d2")
    assert (made["alternatives"], made["tags"]) == (["a", "b"], ["auth", "web", "login"])
    for_all = ("--task", "workspace")
    decided = as_json("decide", "--tag", "auth", "Last", "--why", "so", *for_all)
    assert decided["items"] == ["workspace#d1"]
    assert receipt["items"] == ["T-1#d2"]
    assert as_json("show", "T-1#d1")["superseded_by"] == "T-1#d2"
    noted = as_json("note", "pattern", "codes", "--location", "src", "--tag", "errors", *for_all)
    assert noted["items"] == ["workspace#p1"]
    cli("mark", "T-1#n2", "done", "--reason", "asked")
    assert as_json("show", "T-1#n2")["status"] == "done"
    assert "T-1#d3" in cli("decide", "More", "--why", "so", "--task", "T-1").out
    assert as_json("mark", "T-1#n2", "eaten", code=1)["error"] == "invalid_input"


def test_gates(filled: Path, cli: Run, as_json: Callable[..., Any]) -> None:
    assert [gate["address"] for gate in as_json("gate", "list")] == ["T-1#k2"]
    told = cli("gate", "approve", "T-1#k2", "--by", "kim", "--reason", "fine").out
    assert "approved: reviewer can continue with T-1" in told
    assert as_json("gate", "list", "T-1") == []
    answered = as_json("gate", "list", "--all")[-1]
    assert (answered["status"], answered["answered_by"]) == ("approved", "kim")
    assert as_json("gate", "reject", "T-1#k2", "--by", "kim", "--reason", "no", code=1)[
        "error"
    ] == ("gate_refused")
    cli("gate", "record", "T-1", "--name", "tests", "--failed", "--detail", "2 of 9")
    assert as_json("state", "T-1")["gates_failed"] == ["tests"]
    assert "2 of 9" in cli("gate", "list", "--all").out


@pytest.mark.parametrize("answer", ["approve", "reject"])
def test_only_a_person_who_is_named_answers_a_gate(
    filled: Path, cli: Run, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    """The agent that a process works for, or the user it runs as, is never taken for the person."""
    monkeypatch.setenv("PASSDOWN_AGENT", "reviewer")
    told = cli("gate", answer, "T-1#k2", "--reason", "fine", code=2)
    assert "--by" in told.err
    assert "T-1#k2" in cli("gate", "list").out


def test_after_a_rejection(filled: Path, cli: Run) -> None:
    told = cli("gate", "reject", "T-1#k2", "--by", "kim", "--reason", "no").out
    assert "rejected: T-1 is back with coder, who has to hand it off again" in told
    assert "returned" in cli("inbox", "coder").out


def test_two_gates(filled: Path, cli: Run) -> None:
    text = (filled / "note.yaml").read_text("utf-8")
    cli("gate", "reject", "T-1#k2", "--by", "kim", "--reason", "no")
    more = "  - blocker: and this?\n    requires_human: true\nsuggested"
    (filled / "two.yaml").write_text(text.replace("suggested", more, 1), "utf-8")
    cli("handoff", "two.yaml")
    told = cli("gate", "approve", "T-1#k3", "--by", "kim").out
    assert "T-1 is still held by T-1#k4" in told

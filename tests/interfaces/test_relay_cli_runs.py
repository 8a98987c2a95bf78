"""`passdown runs`, `agents`, `worker` and `express`: look, answer, serve, overtake."""

from __future__ import annotations

import json
import os
import signal
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

import passdown
from passdown.core.times import parse_time
from passdown.relay.agents import MACHINES, AgentStates, RunAgents, as_mermaid
from passdown.relay.express import carry_out
from passdown.relay.relay_file import check_relay
from passdown.relay.runs import Runs
from tests.interfaces.relay_stage import handoff, line_with, relay_file, says, until, waiting
from tests.interfaces.running import data_of
from tests.processes import forked_python
from tests.relay.repositories import ALONE, git

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.interfaces.running import Run, Start

Json = dict[str, Any]


@pytest.fixture
def task(cli: Run) -> str:
    cli("task", "new", "T-1", "--title", "Login", "--agent", "eva")
    return "T-1"


def trial(**more: Any) -> Json:
    agents = {"coder": {"runner": {"script": "s.yaml"}, **more}}
    back = {"when": {"outcome": "completed"}, "go": "again", "at_most": 3}
    legs = [{"leg": "code", "agent": "coder", "then": [back]}]
    return {"relay": "trial", "agents": agents, "legs": legs}


def ended(runs: Runs, run: str, number: int, **more: Any) -> None:
    runs.end(run, number, {"outcome": "completed", "version": 2, "measured": {}, **more})
    runs.advance(run)


def asked(folder: Path) -> None:
    """R-1 waits for a budget review: its coder may have one turn, and had it."""
    with passdown.open(str(folder)) as ws:
        runs = Runs(ws)
        runs.start(check_relay(trial(limits={"loops": 1})), "T-1", by="eva", lane="here")
        ended(runs, "R-1", 1, summary="Half of it.")


def test_runs_are_listed_and_shown(
    project: Path, start: Start, task: str, cli: Run, as_json: Callable[..., Any]
) -> None:
    assert "no runs" in cli("runs").out
    asked(project)
    with passdown.open(str(project)) as ws:
        Runs(ws).start(check_relay(trial()), task, by="eva", lane="normal")
    rows = cli("runs").out.splitlines()
    assert rows[0].split()[:5] == ["run", "relay", "task", "status", "leg"]
    assert [row.split()[:4] for row in rows[1:]] == [
        ["R-2", "trial", "T-1", "running"],
        ["R-1", "trial", "T-1", "waiting"],
    ]
    assert [run["run"] for run in as_json("runs", "--status", "waiting")] == ["R-1"]
    found = as_json("runs", "R-1")
    assert (found["status"], found["by"], found["lane"]) == ("waiting", "eva", "here")
    shown = cli("runs", "R-1").out
    for text in ("Half of it.", "budget review", "loops    coder 1 of 1", "turn 1: code, coder"):
        assert text in shown
    for command in found["next"]:
        assert command in shown
    assert "there is no run 'R-9'" in cli("runs", "R-9", code=1).err


def test_a_review_is_answered_with_the_command_that_is_shown(
    project: Path, task: str, cli: Run, as_json: Callable[..., Any]
) -> None:
    asked(project)
    command = as_json("runs", "R-1")["next"][0]
    assert command == "passdown runs R-1 --answer continue --by NAME --guidance TEXT"
    argv = command.replace("NAME", "kim").replace("TEXT", "mind-the-gap").split()[1:]
    said = cli(*argv).out
    assert "answered: continue" in said
    assert "no process runs it: passdown run --resume R-1" in said
    turns = as_json("runs", "R-1")["turns"]
    assert turns[-1]["guidance"] == "budget review by kim: mind-the-gap"
    assert "waits for no review" in cli(*argv, code=1).err


def test_a_run_is_abandoned_or_stopped_by_a_person(
    project: Path, start: Start, task: str, cli: Run, as_json: Callable[..., Any]
) -> None:
    asked(project)
    cli("runs", "R-1", "--answer", "abandon", "--by", "kim", "--guidance", "not worth it")
    found = as_json("runs", "R-1")
    assert (found["status"], found["why"]) == ("abandoned", "not worth it")
    with passdown.open(str(project)) as ws:
        Runs(ws).start(check_relay(trial()), task, by="eva")
    out = cli("runs", "R-2", "--stop", "--by", "kim", "--why", "obsolete").out
    assert "R-2 is stopped" in out
    assert as_json("runs", "R-2")["why"] == "obsolete"


@pytest.mark.promise("S4-41")
def test_agents_follow_the_answer_of_a_person_though_no_process_has_the_run(
    project: Path, task: str, cli: Run, as_json: Callable[..., Any]
) -> None:
    with passdown.open(str(project)) as ws:
        runs = Runs(ws)
        runs.start(check_relay(trial(limits={"loops": 1})), task, by="eva", lane="here")
        RunAgents(ws).begin(runs.get("R-1"), runs.get("R-1").legs[1])
        ended(runs, "R-1", 1, summary="Half of it.")

    def coder() -> tuple[str, str]:
        (found,) = as_json("agents")
        return found["state"], found["task"]

    cli("runs", "R-1", "--answer", "escalate", "--by", "kim", "--guidance", "ask the boss")
    assert coder() == ("SUSPEND", task)
    cli("runs", "R-1", "--answer", "continue", "--by", "kim")
    cli("runs", "R-1", "--stop", "--by", "kim")
    assert as_json("agents", "--busy") == [], "the run is over"
    assert coder() == ("WAITING", "")
    shown = as_json("agents", "coder")
    assert {entry["seat"] for entry in shown} == {"coder.R-1"}
    moves = [step for entry in shown for step in entry.get("path", [])]
    assert moves[-5:] == ["CODING", "BUDGET_REVIEW", "SUSPEND", "ERROR", "WAITING"]


def test_a_damaged_run_is_named_and_hides_no_other(
    project: Path, start: Start, task: str, cli: Run, as_json: Callable[..., Any]
) -> None:
    asked(project)
    with passdown.open(str(project)) as ws:
        Runs(ws).start(check_relay(trial()), task, by="eva")
    store = project / ".passdown" / "ledger.db"
    content = store.read_bytes()
    assert b"Half of it." in content
    store.write_bytes(content.replace(b"Half of it.", b"All of  it."))
    answer = cli("runs", code=1)
    assert "R-2" in answer.out
    assert "run/R-1@3" in answer.err
    assert "run/R-1@3" in cli("runs", "R-1", code=1).err
    listed = as_json("runs", code=1)
    assert [each.get("run") or each["error"] for each in listed] == ["R-2", "damaged"]


@pytest.mark.promise("S4-41")
def test_the_agent_of_a_killed_run_is_free_though_the_run_is_never_resumed(
    repository: Path, start: Start, task: str, cli: Run, as_json: Callable[..., Any]
) -> None:
    """Its lease ends with the process that had it; the list says so, and how to go on."""
    agents = {"coder": {"runner": {"command": waiting(repository, "slow", handoff())}}}
    name = relay_file(repository, [{"leg": "one", "agent": "coder"}], agents)
    killed = start("run", name, "--task", task)
    until((repository / "slow.pid").exists, "the agent works")
    (row,) = as_json("agents", "--busy")
    assert (row["agent"], row["state"], row["note"]) == ("coder", "CODING", "")
    refused = cli("express", "send", item(repository, "x1"), "--here", code=1)
    assert "coder is in CODING, on T-1 in R-1" in refused.err
    killed.kill()
    killed.wait()
    assert as_json("agents", "--busy") == []
    (row,) = as_json("agents")
    assert row["note"] == "its process has ended: passdown run --resume R-1"
    assert row["note"] in cli("agents").out
    assert "x1 (file_task): done" in cli("express", "queue", "x1", "--here").out
    (repository / "slow.go").touch()
    resumed = start("run", "--resume", "R-1", "--by", "kim")
    resumed.communicate(timeout=240)
    assert as_json("runs", "R-1")["status"] == "completed"
    assert agent_rows(as_json) == {"coder": ("WAITING", "")}


def test_the_agent_of_killed_express_work_is_free_for_another_item(
    repository: Path,
    start: Start,
    cli: Run,
    as_json: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = repository / "seen"
    monkeypatch.setenv("PASSDOWN_PR_COMMAND", f"sh -c 'touch {seen}; sleep 600'")
    killed = start("express", "send", item(repository, "x1"), "--here")
    monkeypatch.delenv("PASSDOWN_PR_COMMAND")
    until(seen.exists, "coding")
    killed.kill()
    killed.wait()
    (row,) = as_json("agents")
    assert row["note"] == "its process has ended: passdown express queue x1"
    assert "x2 (file_task): done" in cli("express", "send", item(repository, "x2"), "--here").out
    assert "x1 (file_task): done" in cli("express", "queue", "x1", "--here").out
    assert agent_rows(as_json) == {"coder": ("WAITING", "")}


def test_agents_are_listed_with_state_task_and_time(
    project: Path, task: str, cli: Run, as_json: Callable[..., Any]
) -> None:
    assert "no agent activity yet" in cli("agents").out
    with passdown.open(str(project)) as ws:
        states = AgentStates(ws)
        states.lease("coder.R-1", task, "R-1")
        states.move("coder.R-1", "SETUP", "PLANNING", "CODING")
        states.move("kim", "SETUP")
    found = as_json("agents")
    assert [(each["agent"], each["run"], each["state"], each["task"]) for each in found] == [
        ("coder", "R-1", "CODING", "T-1"),
        ("kim", "", "SETUP", ""),
    ]
    assert [each["agent"] for each in as_json("agents", "--busy")] == ["coder"]
    assert "CODING" in cli("agents").out
    for name, machine in MACHINES.items():
        assert cli("agents", "--mermaid", name).out == as_mermaid(machine)


def test_a_detached_run_is_taken_by_a_worker_that_ends_when_told_to(
    project: Path, start: Start, task: str, cli: Run, as_json: Callable[..., Any]
) -> None:
    """So is one that was in the foreground, stopped, and is resumed for workers."""
    agents = {"a": {"runner": {"command": says(project, "good", handoff())}}}
    legs = [{"leg": each, "agent": "a"} for each in ("one", "two")]
    out = cli("run", relay_file(project, legs, agents), "--task", task, "--detach").out
    assert out.startswith("R-1: trial on T-1 is left to workers")
    cli("task", "new", "T-2", "--title", "Logout", "--agent", "eva")
    with passdown.open(str(project)) as workspace:
        runs = Runs(workspace)
        runs.start(runs.get("R-1").relay, "T-2", by="kim", lane="here")
        runs.stop("R-2", by="kim")
    out = cli("run", "--resume", "R-2", "--detach").out
    assert out.startswith("R-2: trial on T-2 is left to workers")
    assert "no workers" in cli("worker", "--list").out
    worker = start("worker", "--slots", "2", "--lease", "5")
    for run in ("R-1", "R-2"):
        until(lambda run=run: as_json("runs", run)["status"] == "completed", f"{run} is completed")
    with passdown.open(str(project)) as workspace:
        (listed,) = workspace.relay.workers()
        assert parse_time(listed["lease_ends"]) > datetime.now(UTC)
    (alive,) = as_json("worker", "--list")
    assert (alive["state"], alive["pid"], alive["lease_s"]) == ("alive", worker.pid, 5)
    worker.send_signal(signal.SIGTERM)
    out, _ = worker.communicate(timeout=240)
    assert worker.returncode == 0, out
    assert "R-1  a  one" in out
    assert out.count("handed off") == 4
    assert as_json("worker", "--list") == []


def test_a_worker_finishes_its_turn_and_a_second_signal_leaves_it_to_others(
    project: Path, start: Start, task: str, cli: Run, as_json: Callable[..., Any]
) -> None:
    """Two signals at one moment are one."""
    agents = {"a": {"runner": {"command": waiting(project, "slow", handoff())}}}
    name = relay_file(project, [{"leg": "one", "agent": "a"}], agents)
    pid, go = project / "slow.pid", project / "slow.go"
    outcomes = {"once": "completed", "twice": "", "twice at one moment": "completed"}
    for number, (signals, outcome) in enumerate(outcomes.items(), 1):
        pid.unlink(missing_ok=True)
        go.unlink(missing_ok=True)
        cli("run", name, "--task", task, "--detach")
        worker = start("worker")
        until(pid.exists, "the agent works")
        worker.send_signal(signal.SIGTERM)
        if signals == "twice at one moment":
            worker.send_signal(signal.SIGINT)
        line_with(worker, "finishing")
        if signals == "twice":
            time.sleep(0.2)  # what comes at the same moment is one signal
            worker.send_signal(signal.SIGINT)
        else:
            go.touch()
        assert worker.wait(240) == 0
        assert as_json("runs", f"R-{number}")["turns"][0]["outcome"] == outcome


@pytest.fixture
def repository(
    project: Path, need_program: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> Path:
    need_program("git")
    for name, value in ALONE.items():
        monkeypatch.setenv(name, value)
    git(project, "init", "-q", "-b", "main")
    (project / "a.txt").write_text("one\n", "utf-8")
    git(project, "add", "a.txt")
    git(project, "commit", "-q", "-m", "first")
    know(project, "coder")
    return project


def know(project: Path, agent: str) -> None:
    """Give a project an agent: its profile."""
    (project / "agents").mkdir(exist_ok=True)
    (project / "agents" / f"{agent}.md").write_text(f"# {agent}\n", "utf-8")


def test_express_work_is_carried_out_here(repository: Path, cli: Run) -> None:
    (repository / "new.txt").write_text("two\n", "utf-8")
    common = ("--by", "kim", "--here", "--reason", "It has to be two")
    out = cli("express", "fix", "--message", "Make it two", "a.txt=new.txt", "--id", "f1", *common)
    assert "f1 (hot_fix): done" in out.out
    assert git(repository, "show", "passdown/express-f1:a.txt") == "two\n"
    out = cli("express", "file", "b.txt", "--content", "new.txt", "--id", "f2", *common)
    assert git(repository, "show", "passdown/express-f2:b.txt") == "two\n"
    entry = json.dumps({"id": "Redis", "type": "component", "summary": "Keeps sessions"})
    cli("express", "knowledge", "--entry", entry, "--id", "k1", *common)
    assert "Redis" in git(repository, "show", "passdown/express-k1:knowledge.dot")
    (repository / "fix.diff").write_text("--- a/no\n+++ b/no\n@@ -1 +1 @@\n-a\n+b\n", "utf-8")
    failed = cli(
        *("express", "fix", "--message", "Mend", "--patch", "fix.diff", "--id", "f3", *common),
        code=1,
    )
    assert failed.out.splitlines()[-1].split() == ["task", "express-f3"]
    rows = cli("express", "list").out.splitlines()[1:]
    assert [row.split()[0] for row in rows] == ["f1", "f2", "k1", "f3"]
    shown = cli("express", "show", "f1").out
    assert "attempt 1: completed" in shown
    assert "passdown/express-f1" in shown


def item(folder: Path, name: str, **more: Any) -> str:
    given = {"kind": "file_task", "id": name, "by": "kim", "reason": "x", "path": f"{name}.txt"}
    (folder / f"{name}.json").write_text(json.dumps({**given, "content": "two\n", **more}), "utf-8")
    return f"{name}.json"


def test_express_work_that_is_sent_is_carried_out_by_a_worker(
    repository: Path, start: Start, cli: Run, program: Run
) -> None:
    out = cli("express", "send", item(repository, "x1")).out
    assert "x1 is queued" in out
    worker = start("worker", "--lease", "5")
    try:
        done = program("express", "queue", "x1", "--wait").out
        assert "passdown/express-x1" in done
        assert git(repository, "show", "passdown/express-x1:x1.txt") == "two\n"
        done = program("express", "send", item(repository, "x2"), "--wait", "--json").out
        assert data_of(done)["status"] == "done"
    finally:
        worker.send_signal(signal.SIGTERM)
        out, _ = worker.communicate(timeout=240)
    assert "express x1: done by coder on passdown/express-x1" in out


@pytest.mark.promise("S4-20")
def test_a_worker_gives_express_work_to_a_coder_that_is_known_to_wait_alone(
    repository: Path, start: Start, cli: Run, as_json: Callable[..., Any]
) -> None:
    """Not to a name that has done nothing here: its item waits, and says why, until the agent has
    a profile, has handed off or is an agent of a run.
    """
    out = cli("express", "send", item(repository, "x1", agents=["codr"])).out
    assert "codr has done nothing here yet" in out
    worker = start("worker", "--lease", "2")
    try:
        cli("express", "send", item(repository, "x2", agents=["codr", "coder"]))
        until(lambda: as_json("express", "show", "x2")["status"] == "done", "the known coder")
        assert as_json("express", "show", "x2")["result"]["agent"] == "coder"
        shown = as_json("express", "show", "x1")
        assert (shown["status"], len(shown["waits_for"])) == ("sent", 1)
        cli("task", "new", "T-9", "--title", "x", "--agent", "kim")
        done = ("--outcome", "completed", "--summary", "Done.")
        cli("handoff", "--task", "T-9", "--from", "codr", "--to", "kim", *done)
        until(lambda: as_json("express", "show", "x1")["status"] == "done", "it is known")
    finally:
        worker.send_signal(signal.SIGTERM)
        worker.communicate(timeout=240)
    assert as_json("express", "show", "x1")["waits_for"] == []


def agent_rows(as_json: Callable[..., Any]) -> dict[str, tuple[str, str]]:
    return {row["agent"]: (row["state"], row["task"]) for row in as_json("agents")}


@pytest.mark.promise("S4-20")
def test_a_waiting_coder_carries_out_express_work_and_a_busy_one_is_left_alone(
    repository: Path,
    start: Start,
    cli: Run,
    as_json: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not its sender: its state and lease are seen while it works. One whose agent is busy waits
    until it is free, or goes to another at once.
    """
    go, seen = repository / "go", repository / "seen"
    script = f"touch {seen}; until test -e {go}; do sleep 0.05; done"
    monkeypatch.setenv("PASSDOWN_PR_COMMAND", f"sh -c '{script}'")
    worker = start("worker", "--lease", "5")
    monkeypatch.delenv("PASSDOWN_PR_COMMAND")
    try:
        cli("express", "send", item(repository, "x1"))
        until(seen.exists, "coding")
        assert agent_rows(as_json) == {"coder": ("CODING", "express-x1")}
        waiting = start("express", "send", item(repository, "x2"), "--wait")
        other = item(repository, "x3", agents=["coder", "fixer"])
        cli("express", "send", other, "--here")
        assert as_json("express", "show", "x3")["result"]["agent"] == "fixer"
        until(lambda: "x2" in [row["id"] for row in as_json("express", "list")], "sent")
        assert as_json("express", "show", "x2")["status"] == "sent"
        refused = cli("express", "queue", "x2", "--here", code=1)
        assert "coder is in CODING, on express-x1" in refused.err
        go.touch()
        assert "x2 (file_task): done" in waiting.communicate(timeout=240)[0]
    finally:
        go.touch()
        worker.send_signal(signal.SIGTERM)
        worker.communicate(timeout=240)
    rows = {row["id"]: (row["by"], row["result"]["agent"]) for row in as_json("express", "list")}
    assert rows == {"x1": ("kim", "coder"), "x2": ("kim", "coder"), "x3": ("kim", "fixer")}
    assert agent_rows(as_json) == {"coder": ("WAITING", ""), "fixer": ("WAITING", "")}
    moves = [entry["path"] for entry in as_json("agents", "fixer") if entry["kind"] == "moved"]
    assert moves == [["SETUP"], ["CODING"], ["DONE"], ["WAITING"]]
    assert "WAITING > SETUP" in cli("agents", "fixer").out


def test_express_work_of_a_killed_worker_is_finished_by_another_with_one_commit(
    repository: Path,
    start: Start,
    cli: Run,
    as_json: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The coder's lease isn't lost with the process: it goes on with the same item."""
    seen = repository / "seen"
    monkeypatch.setenv("PASSDOWN_PR_COMMAND", f"sh -c 'touch {seen}; sleep 600'")
    killed = start("worker", "--lease", "60")
    monkeypatch.delenv("PASSDOWN_PR_COMMAND")
    cli("express", "send", item(repository, "x1"))
    until(seen.exists, "the commit of the first worker")
    commit = git(repository, "rev-parse", "passdown/express-x1").strip()
    killed.kill()
    killed.wait()
    assert agent_rows(as_json) == {"coder": ("CODING", "express-x1")}
    other = start("worker", "--lease", "60")
    until(lambda: as_json("express", "show", "x1")["status"] == "done", "the end of the item")
    other.send_signal(signal.SIGTERM)
    other.communicate(timeout=240)
    shown = as_json("express", "show", "x1")
    assert (shown["result"]["commit"], len(shown["attempts"])) == (commit, 1)
    assert git(repository, "rev-list", "main..passdown/express-x1").split() == [commit]
    assert agent_rows(as_json) == {"coder": ("WAITING", "")}


def test_a_second_signal_ends_the_command_of_a_pull_request_at_once(
    repository: Path,
    start: Start,
    cli: Run,
    as_json: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first one lets it finish; after the second, another worker opens the request."""
    seen = repository / "seen"
    monkeypatch.setenv("PASSDOWN_PR_COMMAND", f"sh -c 'echo $$ > {seen}; exec sleep 600'")
    worker = start("worker", "--lease", "5")
    monkeypatch.setenv("PASSDOWN_PR_COMMAND", "echo https://example.org/1")
    cli("express", "send", item(repository, "x1"))
    until(lambda: seen.exists() and seen.read_text().strip(), "the command runs")
    worker.send_signal(signal.SIGTERM)
    line_with(worker, "finishing")
    time.sleep(0.2)  # what comes at the same moment is one signal
    worker.send_signal(signal.SIGTERM)
    began = time.monotonic()
    worker.communicate(timeout=60)
    assert time.monotonic() - began < 30
    with pytest.raises(ProcessLookupError):
        os.kill(int(seen.read_text()), 0)
    assert as_json("express", "show", "x1")["status"] != "done"
    other = start("worker", "--lease", "5")
    until(lambda: as_json("express", "show", "x1")["status"] == "done", "the end of the item")
    other.send_signal(signal.SIGTERM)
    other.communicate(timeout=240)
    request = as_json("express", "show", "x1")["result"]["pull_request"]
    assert (request["is_open"], request["url"]) == (True, "https://example.org/1")


def test_an_express_item_is_stopped_and_resumed_as_a_run(
    repository: Path, start: Start, cli: Run, as_json: Callable[..., Any]
) -> None:
    cli("express", "send", item(repository, "x1"))
    cli("runs", "express-x1", "--stop", "--by", "kim", "--why", "not wanted")
    answer = cli("express", "queue", "x1", "--here", code=1).out
    assert "x1 (file_task): stopped" in answer
    assert "passdown run --resume express-x1" in answer
    assert git(repository, "branch", "--list", "passdown/*") == ""
    cli("run", "--resume", "express-x1", "--by", "kim")
    assert as_json("express", "show", "x1")["status"] == "sent"
    assert "x1 (file_task): done" in cli("express", "queue", "x1", "--here").out
    assert as_json("runs", "express-x1")["status"] == "completed"


@pytest.mark.promise("S4-25")
def test_express_work_that_keeps_failing_is_tried_again_and_becomes_a_task(
    repository: Path, start: Start, program: Run, as_json: Callable[..., Any]
) -> None:
    worker = start("worker", "--lease", "5")
    try:
        given = item(repository, "x1", action="delete", path="gone.txt", content="")
        said = program("express", "send", given, "--wait", code=1).out
        assert "x1 (file_task): promoted" in said
    finally:
        worker.send_signal(signal.SIGTERM)
        out, _ = worker.communicate(timeout=240)
    assert "express x1: became the task express-x1: there is no file 'gone.txt' to delete" in out
    shown = as_json("express", "show", "x1")
    assert [turn["outcome"] for turn in shown["attempts"]] == ["error"] * 3
    assert as_json("task", "show", "express-x1")["title"] == "Express work that failed: x"
    assert agent_rows(as_json) == {"coder": ("WAITING", "")}


def test_who_waits_for_express_work_hears_that_there_is_no_worker(
    repository: Path, start: Start
) -> None:
    waiting = start("express", "send", item(repository, "x1"), "--wait")
    assert waiting.stdout is not None
    assert "x1 waits: there is no worker; passdown worker starts one" in waiting.stdout.readline()
    worker = start("worker", "--lease", "5")
    assert "x1 (file_task): done" in waiting.communicate(timeout=240)[0]
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(timeout=240) == 0


def test_express_work_that_cant_be_queued_is_recorded_and_says_so(
    repository: Path, cli: Run, as_json: Callable[..., Any]
) -> None:
    nowhere = ("--relay-store", "sqlite:////nowhere/at/all/relay.db")
    answer = cli("express", "send", item(repository, "x1"), *nowhere, code=1)
    assert "x1 is recorded, but not queued" in answer.err
    assert "passdown express queue x1" in answer.err
    assert [each["status"] for each in as_json("express", "list")] == ["sent"]
    assert "x1 (file_task): done" in cli("express", "queue", "x1", "--here").out


def test_a_faulty_item_names_every_problem_and_is_not_recorded(
    repository: Path, cli: Run, as_json: Callable[..., Any]
) -> None:
    name = item(repository, "x1", path="../out", action="burn")
    said = cli("express", "send", name, code=1).err
    assert "path" in said
    assert "action" in said
    assert as_json("express", "list") == []
    with passdown.open(str(repository)) as ws, pytest.raises(passdown.errors.InvalidInput):
        carry_out(ws, {})


TWO_AGENTS = """\
import json, pathlib, subprocess, sys

who, passdown = sys.argv[1], [sys.executable, "-m", "passdown"]
folder = pathlib.Path("seen")
visit = len(list(folder.glob(f"{who}-*"))) + 1
(folder / f"{who}-{visit}").write_text(sys.stdin.read())
told = ()
if (who, visit) == ("coder", 1):
    told = ("knowledge", "add", "login-service", "--type", "component")
    told += ("--summary", "Checks passwords", "--agent", who, "--task", "T-1")
if (who, visit) == ("reviewer", 1):
    entry = {"id": "rate-limits", "type": "component", "summary": "EXPRESS-words"}
    told = ("express", "knowledge", "--entry", json.dumps(entry), "--id", "k1", "--here")
    told += ("--by", "kim", "--reason", "EXPRESS-reason", "--agent", "coder", "--agent", "fixer")
if told:
    subprocess.run([*passdown, *told], check=True, stdout=subprocess.DEVNULL)
back = {"to_agent": "coder"} if (who, visit) == ("reviewer", 1) else {}
lists = ("patterns_discovered", "gotchas", "dependencies_for_next", "suggested_next_steps")
fields = {"outcome": "completed", "summary": f"{who} {visit}", **dict.fromkeys(lists, []), **back}
print(f"WORDS-{who}-{visit}\\n\\n## Handoff\\n```yaml\\n{json.dumps(fields)}\\n```")
"""


@pytest.mark.promise("S4-42")
def test_switching_preservation_reset_knowledge_and_express_between_two_turns(
    repository: Path, task: str, cli: Run, as_json: Callable[..., Any]
) -> None:
    """Two agents are programs that take turns, twice each. One writes down knowledge in its first
    turn; in the other's, so between two turns of the first, an express item is carried out by
    an agent that is free.
    """
    (repository / "agents.py").write_text(TWO_AGENTS, "utf-8")
    (repository / "seen").mkdir()
    names = ("coder", "reviewer")
    agents = {n: {"runner": {"command": [forked_python(), "agents.py", n]}} for n in names}
    back = {"when": {"to": "coder"}, "go": "code", "at_most": 1}
    legs: list[Json] = [
        {"leg": "code", "agent": "coder"},
        {"leg": "review", "agent": "reviewer", "then": [back]},
    ]
    relay = relay_file(repository, legs, agents)
    cli("run", relay, "--task", task)

    def seen(name: str) -> str:
        return (repository / "seen" / name).read_text("utf-8")

    turns = as_json("runs", "R-1")["turns"]
    assert [turn["leg"] for turn in turns] == ["code", "review", "code", "review"]
    assert "WORDS" not in seen("coder-1")
    again = seen("coder-2")
    assert "WORDS-coder-1" in again, "its own words are preserved"
    assert "WORDS-reviewer" not in again, "another's are not"
    assert "reviewer 1" in again, "what was handed over is"
    assert "WORDS-coder" not in seen("reviewer-1") + seen("reviewer-2")
    item = as_json("express", "show", "k1")
    assert (item["status"], item["by"], item["result"]["agent"]) == ("done", "kim", "fixer")
    assert "EXPRESS-reason" not in again, "the conversation is left alone"
    for node, words in (("login-service", "Checks passwords"), ("rate-limits", "EXPRESS-words")):
        assert words in cli("knowledge", "show", node).out
    assert "login-service" in (repository / "knowledge.dot").read_text("utf-8")
    assert {state for state, _ in agent_rows(as_json).values()} == {"WAITING"}
    cli("run", relay, "--task", task)
    assert "WORDS" not in seen("coder-3"), "the next run starts afresh"
    assert "coder 2" in seen("coder-3"), "and knows what was handed over"
    cli("verify")

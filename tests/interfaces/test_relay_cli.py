"""`passdown run` in the foreground: what is shown, what agents may do wrong, who is waited for."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import time
from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from tests.interfaces.relay_stage import (
    handoff,
    is_alive,
    line_with,
    relay_file,
    says,
    slow,
    until,
    waiting,
)
from tests.interfaces.running import data_of
from tests.processes import Process

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.interfaces.running import Run, Start

Json = Any


@pytest.fixture
def task(cli: Run) -> str:
    cli("task", "new", "T-1", "--title", "Login", "--agent", "eva")
    return "T-1"


def good(folder: Path, name: str = "good") -> dict[str, Any]:
    return {"runner": {"command": says(folder, name, handoff())}}


def test_a_run_shows_each_event_in_a_line_and_a_table_at_the_end(
    project: Path, program: Run, task: str, as_json: Callable[..., Any]
) -> None:
    agents = {"planner": good(project), "coder": good(project)}
    legs = [
        {"leg": "plan", "agent": "planner", "phase": "planning"},
        {"leg": "code", "agent": "coder", "phase": "implementing"},
    ]
    out = program("run", relay_file(project, legs, agents), "--task", task, "--by", "eva").out
    lines = out.splitlines()
    assert lines[0] == "R-1: trial on T-1 (2 agents, 2 legs)"
    shown = [line.split(maxsplit=1)[1] for line in lines[1:6]]
    assert shown[0] == "planner  plan      planning      asked"
    assert shown[1].startswith("planner  plan      planning      completed, version 2 (")
    assert "tokens in context" in shown[1]
    assert shown[2] == "coder    code      implementing  asked"
    assert shown[4] == "completed"
    header = lines.index(next(line for line in lines if line.startswith("#  leg")))
    for name in ("visit", "outcome", "version", "attempts", "seconds", "bytes out"):
        assert name in lines[header]
    assert lines[header + 1].split()[:6] == ["1", "plan", "planner", "1", "completed", "2"]
    assert lines[-1].startswith("R-1 completed after ")
    assert "\x1b" not in out
    turns = as_json("runs", "R-1")["turns"]
    assert [turn["version"] for turn in turns] == [2, 3]
    assert all(turn["measured"]["context_tokens"] > 0 for turn in turns)
    assert all(turn["measured"]["bytes_out"] == len(handoff()) for turn in turns)


def test_json_is_a_line_per_event_and_a_document_at_the_end(
    project: Path, program: Run, task: str
) -> None:
    name = relay_file(project, [{"leg": "one", "agent": "a"}], {"a": good(project)})
    lines = program("run", name, "--task", task, "--json").out.splitlines()
    events = [data_of(line) for line in lines]
    kinds = [event["event"] for event in events]
    assert [kind for kind in kinds if kind not in ("working", "said")] == [
        *("asked", "accepted", "ended", "run", "over"),
    ]
    assert events[0]["agent"] == "a"
    assert events[-1]["status"] == "completed"
    assert events[-1]["turns"][0]["summary"] == "Done."


def test_a_faulty_relay_names_every_problem_and_starts_nothing(
    project: Path, cli: Run, task: str, as_json: Callable[..., Any]
) -> None:
    legs = [{"leg": "one", "agent": "nobody", "then": [{"go": "nowhere"}]}]
    name = relay_file(project, legs, {"a": {"runner": {}}})
    said = cli("run", name, "--task", task, code=1).err
    assert {"unknown_name", "one_runner"} <= {word.strip("[]") for word in said.split()}
    (project / "relay.toml").write_text("relay = ", "utf-8")
    assert "invalid_toml" in cli("run", "relay.toml", "--task", task, code=1).err
    name = relay_file(project, [{"leg": "one", "agent": "a"}], {"a": {"runner": {"script": "x"}}})
    assert "agents.a.runner.script: " in cli("run", name, "--task", task, code=1).err
    assert "can't be read" in cli("run", "missing.yaml", "--task", task, code=1).err
    relay_file(project, [{"leg": "one", "agent": "a"}], {"a": good(project)})
    assert "passdown task new" in cli("run", name, "--task", "T-9", code=1).err
    assert as_json("runs") == []


def test_what_an_agent_is_made_of_has_to_be_there_before_anything_starts(
    project: Path, cli: Run, task: str, as_json: Callable[..., Any]
) -> None:
    (project / "torn.py").write_text("def act(asked:\n", "utf-8")
    (project / "quits.py").write_text("raise RuntimeError('not today')\n", "utf-8")
    agents = {
        "a": {**good(project), "profile": "nobody"},
        "b": {"runner": {"python": "torn:act"}},
        "c": {"runner": {"python": "quits:act"}},
    }
    name = relay_file(project, [{"leg": one, "agent": one} for one in agents], agents)
    said = cli("run", name, "--task", task, code=1).err
    for where in ("agents.a.profile: ", "agents.b.runner.python: ", "agents.c.runner.python: "):
        assert where in said
    assert "not today" in said
    assert as_json("runs") == []


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("run",), "--resume"),
        (("run", "x.yaml"), "--task"),
        (("run", "x.yaml", "--resume", "R-1"), "--resume continues"),
        (("run", "x.yaml", "--task", "T-1", "--detach", "--no-wait"), "never waits"),
        (("run", "x.yaml", "--task", "T-1", "--lease", "0"), "seconds"),
        (("worker", "--slots", "0"), "--slots"),
        (("approve", "architect", "x", "--kind", "question"), "--kind"),
        (("worker", "--list", "--slots", "2"), "--list"),
        (("runs", "--stop"), "RUN"),
        (("runs", "R-1", "--guidance", "x"), "--answer"),
        (("express", "fix", "--message", "x"), "PATH=FILE"),
        (("express", "fix", "--message", "x", "a.py"), "is not PATH=FILE"),
        (("express", "knowledge", "--reason", "x"), "--entry"),
        (("express", "file", "a.txt", "--reason", "x"), "--content"),
    ],
)
def test_misuse(cli: Run, argv: tuple[str, ...], said: str) -> None:
    answer = cli(*argv, code=2)
    assert said in answer.err
    assert len(answer.err.splitlines()) == 1


def unusable(folder: Path) -> list[str]:
    """A program that is there, but can't be started."""
    path = folder / "broken"
    path.write_text("#!/no/such/interpreter\n", "utf-8")
    path.chmod(0o700)
    return [str(path)]


BAD: dict[str, tuple[Callable[[Path], list[str]], str]] = {
    "endless": (lambda _: ["sleep", "600"], "timeout"),
    "flood": (lambda _: ["yes", "lines and lines"], "flood"),
    "exit": (lambda _: ["sh", "-c", "echo it broke >&2; exit 3"], "exit"),
    "broken": (unusable, "not_started"),
    "yaml": (lambda f: says(f, "yaml", "## Handoff\n```yaml\noutcome: [\n```\n"), ""),
    "silent": (lambda f: says(f, "silent", ""), ""),
    "agent": (lambda f: says(f, "agent", handoff(from_agent="eva")), ""),
    "task": (lambda f: says(f, "task", handoff(task="T-2")), ""),
    "invalid": (lambda f: says(f, "invalid", handoff(outcome="done", priority="x")), ""),
}


def bad_agent(folder: Path, name: str) -> dict[str, Any]:
    command, _ = BAD[name]
    return {
        "runner": {"command": command(folder), "max_output": 5_000},
        "limits": {"seconds": 2 if name == "endless" else 30},
    }


@pytest.mark.promise("P-16")
def test_a_relay_goes_on_past_every_agent_that_fails_where_its_file_says_so(
    project: Path, program: Run, task: str, as_json: Callable[..., Any]
) -> None:
    legs: list[dict[str, Any]] = [
        {"leg": name, "agent": name, "then": [{"when": {"outcome": "error"}, "go": following}]}
        for name, following in pairwise((*BAD, "last"))
    ]
    legs.append({"leg": "last", "agent": "good"})
    agents = {name: bad_agent(project, name) for name in BAD} | {"good": good(project)}
    out = program("run", relay_file(project, legs, agents), "--task", task).out
    assert "sent back" in out
    assert "took longer than" in out
    turns = as_json("runs", "R-1")["turns"]
    assert [(turn["leg"], turn["outcome"]) for turn in turns] == [
        *((name, "error") for name in BAD),
        ("last", "completed"),
    ]
    for turn, (_, failure) in zip(turns, BAD.values(), strict=False):
        tries = turn["evidence"]
        assert [each["reply"]["failure"] for each in tries] == [failure] * (1 if failure else 3)
        assert all(each["problems"] for each in tries) == (not failure)
    assert as_json("task", "show", task)["version"] == 2  # only the last one handed anything off


@pytest.mark.promise("P-16")
@pytest.mark.parametrize("name", ["exit", "invalid"])
def test_a_relay_stops_at_an_agent_that_fails_and_shows_all_evidence(
    project: Path, program: Run, cli: Run, task: str, name: str
) -> None:
    agents = {"bad": bad_agent(project, name), "good": good(project)}
    legs = [{"leg": "one", "agent": "bad"}, {"leg": "two", "agent": "good"}]
    out = program("run", relay_file(project, legs, agents), "--task", task, code=1).out
    assert "failed: leg one ended error" in out
    assert out.splitlines()[-1] == "  passdown run --resume R-1"
    shown = cli("runs", "R-1").out
    if name == "exit":
        assert "it broke" in shown
        assert "attempt 1" in shown
    else:
        assert out.count("sent back") == 3
        assert all(f"attempt {number}" in shown for number in (1, 2, 3))
        assert "'done' is not one of the choices" in shown
        assert "outcome: done" in shown  # what it said, word for word


def test_a_failed_run_is_resumed_at_the_leg_that_failed(
    project: Path, program: Run, task: str, as_json: Callable[..., Any]
) -> None:
    agents = {"good": good(project), "bad": bad_agent(project, "silent")}
    legs = [{"leg": "one", "agent": "good"}, {"leg": "two", "agent": "bad"}]
    program("run", relay_file(project, legs, agents), "--task", task, code=1)
    says(project, "silent", handoff("Now it works."))
    assert "completed" in program("run", "--resume", "R-1").out
    turns = as_json("runs", "R-1")["turns"]
    assert [(turn["leg"], turn["outcome"]) for turn in turns] == [
        *(("one", "completed"), ("two", "error"), ("two", "completed")),
    ]
    assert "nothing to resume" in program("run", "--resume", "R-1", code=1).err
    assert "passdown runs lists" in program("run", "--resume", "R-7", code=1).err


def gated(folder: Path) -> str:
    legs = [{"leg": "one", "agent": "a", "gate": "May it go out?"}, {"leg": "two", "agent": "a"}]
    return relay_file(folder, legs, {"a": good(folder)})


def test_an_answer_from_another_process_lets_a_waiting_run_go_on(
    project: Path, start: Start, cli: Run, task: str
) -> None:
    process = start("run", gated(project), "--task", task)
    assert process.stdout is not None
    shown = ""
    while "gate reject" not in shown:
        shown += process.stdout.readline()
    answer = cli("gate", "approve", "T-1#k1", "--by", "kim").out.splitlines()
    assert answer[-1] == "R-1 continues"
    out, _ = process.communicate(timeout=240)
    assert process.returncode == 0, out
    assert "waits: gate T-1#k1 is waiting for a person" in shown
    assert "passdown gate approve T-1#k1 --by NAME" in shown
    assert "continues" in out


def test_without_waiting_the_run_ends_with_1_and_is_resumed_after_the_answer(
    project: Path, program: Run, cli: Run, task: str
) -> None:
    out = program("run", gated(project), "--task", task, "--no-wait", code=1).out
    assert "passdown gate reject T-1#k1 --by NAME --reason TEXT" in out
    assert "passdown gate approve T-1#k1 --by NAME" in cli("runs", "R-1").out
    said = cli("gate", "approve", "T-1#k1", "--by", "kim").out.splitlines()
    assert said[-1] == "R-1 can continue, but no process runs it: passdown run --resume R-1"
    assert "R-1 completed" in program("run", "--resume", "R-1").out


def test_a_rejected_gate_brings_the_leg_back_with_the_reason(
    project: Path, program: Run, cli: Run, task: str, as_json: Callable[..., Any]
) -> None:
    program("run", gated(project), "--task", task, "--no-wait", code=1)
    cli("gate", "reject", "T-1#k1", "--by", "kim", "--reason", "No tests yet")
    program("run", "--resume", "R-1", "--no-wait", code=1)
    turns = as_json("runs", "R-1")["turns"]
    assert [(turn["leg"], turn["visit"]) for turn in turns] == [("one", 1), ("one", 2)]
    assert turns[1]["guidance"] == "No tests yet"


def test_an_interrupt_ends_the_agents_and_says_how_to_go_on(
    project: Path, start: Start, cli: Run, task: str, as_json: Callable[..., Any]
) -> None:
    agents = {"a": {"runner": {"command": waiting(project, "slow", handoff())}}}
    name = relay_file(project, [{"leg": "one", "agent": "a"}], agents)
    process = start("run", name, "--task", task)
    pid = int(until(lambda: _read(project / "slow.pid"), "the agent works"))
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=240)
    assert process.returncode == 130, out
    assert out.splitlines()[-1] == "continue it: passdown run --resume R-1"
    assert not is_alive(pid)
    found = as_json("runs", "R-1")
    assert found["status"] == "running"
    assert found["turns"][0]["outcome"] == ""


def _read(path: Path) -> str:
    return path.read_text() if path.exists() else ""


@pytest.mark.promise("P-15")
def test_a_killed_run_is_resumed_and_each_leg_is_handed_off_once(
    project: Path, start: Start, program: Run, task: str, as_json: Callable[..., Any]
) -> None:
    agents = {
        name: {"runner": {"command": says(project, name, handoff(f"By {name}."))}}
        for name in ("one", "two", "three")
    }
    agents["two"]["runner"]["command"] = waiting(project, "two", handoff("By two."))
    name = relay_file(project, [{"leg": each, "agent": each} for each in agents], agents)
    process = start("run", name, "--task", task)
    pid = int(until(lambda: _read(project / "two.pid"), "the second agent works"))
    process.kill()
    process.communicate(timeout=240)
    until(lambda: not is_alive(pid), "the agent is ended with its process")
    (project / "two.go").touch()
    assert "R-1 completed" in program("run", "--resume", "R-1").out
    records = as_json("log", task)
    summaries = [entry["author"] for entry in reversed(records)]
    assert summaries == ["eva", "one", "two", "three"]
    turns = as_json("runs", "R-1")["turns"]
    assert [turn["leg"] for turn in turns] == ["one", "two", "three"]
    assert program("verify").code == 0


def test_a_run_belongs_to_one_process_at_a_time(
    project: Path, start: Start, program: Run, task: str, as_json: Callable[..., Any]
) -> None:
    process = start("run", gated(project), "--task", task)
    until(lambda: as_json("runs", "--status", "waiting"), "the run waits")
    assert "another process is at R-1" in program("run", "--resume", "R-1", code=1).err
    process.terminate()
    process.communicate(timeout=240)
    assert process.returncode == 130


def test_a_second_interrupt_ends_the_process_and_its_agents_at_once(
    project: Path, start: Start, task: str
) -> None:
    (project / "deaf.sh").write_text("trap '' TERM\necho $$ > slow.pid\nsleep 600 & wait\nwait\n")
    agents = {"a": {"runner": {"command": ["sh", "deaf.sh"]}}}
    name = relay_file(project, [{"leg": "one", "agent": "a"}], agents)
    process = start("run", name, "--task", task)
    pid = int(until(lambda: _read(project / "slow.pid"), "the agent works"))
    process.send_signal(signal.SIGINT)
    line_with(process, "ending the agents")
    time.sleep(0.2)  # what comes at the same moment is one signal
    process.send_signal(signal.SIGINT)
    assert process.wait(240) == 130
    until(lambda: not is_alive(pid), "the agent is ended too")


def test_without_the_engine_or_its_database_nothing_is_recorded(
    project: Path, cli: Run, task: str, as_json: Callable[..., Any]
) -> None:
    name = relay_file(project, [{"leg": "one", "agent": "a"}], {"a": good(project)})
    argv = ["run", name, "--task", task]
    source = (
        "import sys\nsys.modules['dbos'] = None\n"
        f"from passdown.cli.main import main\nsys.exit(main({argv!r}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", source], cwd=project, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "pip install 'passdown[relay]'" in done.stderr
    assert "the URL of a database" in cli(*argv, "--relay-store", "redis://x", code=1).err
    assert as_json("runs") == []
    answer = cli(*argv, "--relay-store", "sqlite:////nowhere/relay.db", code=1)
    assert "/nowhere" in answer.err


def test_a_damaged_queue_is_named_and_made_anew_once_it_is_moved_aside(
    project: Path, cli: Run, task: str
) -> None:
    """What is queued follows from the ledger, so that nothing is lost with it."""
    name = relay_file(project, [{"leg": "one", "agent": "a"}], {"a": good(project)})
    queue = project / ".passdown" / "relay.db"
    queue.write_bytes(b"no database " * 500)
    said = cli("run", name, "--task", task, code=1).err
    assert "move the file away" in said
    assert "passdown run --resume R-1" in said
    queue.rename(project / "aside.db")
    assert "R-1 completed" in cli("run", "--resume", "R-1").out


def on_terminal(folder: Path, *argv: str, **environment: str) -> str:
    """What the program writes to a terminal of 100 columns."""
    mine, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
    with Process(
        [sys.executable, "-m", "passdown", *argv],
        cwd=folder,
        env={**os.environ, "TERM": "xterm", **environment},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    ):
        os.close(theirs)
        written = b""
        with suppress(OSError):  # the end of a terminal whose last writer is gone
            while data := os.read(mine, 65_536):
                written += data
    os.close(mine)
    return written.decode()


def test_a_terminal_is_redrawn_and_a_plain_one_gets_lines(project: Path, task: str) -> None:
    agents = {"a": {"runner": {"command": slow(project, "slow", 0.8, handoff())}}}
    name = relay_file(project, [{"leg": "one", "agent": "a"}], agents)
    drawn = on_terminal(project, "run", name, "--task", task)
    assert "at work 0 s" in drawn
    assert drawn.count("\x1b[1A\r\x1b[J") > 3
    # What stays is what a plain stream gets: each redrawn line was wiped by the next.
    stays = re.sub(r"\x1b\[2m[^\n]*\n(?=\x1b\[1A\r\x1b\[J)", "", drawn)
    assert "at work" not in stays
    assert "R-1 completed" in drawn
    for plain in ({"TERM": "dumb"}, {"NO_COLOR": "1"}):
        assert "\x1b" not in on_terminal(project, "run", name, "--task", task, **plain)


def test_who_stops_reading_doesnt_stop_the_agents(
    project: Path, start: Start, task: str, as_json: Callable[..., Any]
) -> None:
    agents = {"a": {"runner": {"command": says(project, "slow", handoff())}}}
    legs = [{"leg": each, "agent": "a"} for each in ("one", "two")]
    process = start("run", relay_file(project, legs, agents), "--task", task)
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(240) == 0
    assert as_json("runs", "R-1")["status"] == "completed"

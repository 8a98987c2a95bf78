"""A process that runs relays without a model: `python -m tests.relay.relay_process JOB OPTIONS`.

Its agents say what belongs to their leg, whoever runs them and however often. Each turn is written
to a file outside the workspace when it begins and when the agent has answered, so that a test can
count what was done again.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import passdown
from passdown.relay.relay_file import check_relay
from passdown.workspace.streams import WorkspaceStreams
from tests.faults.tools import ROOT, append_line, worker_environment
from tests.processes import Process
from tests.relay.express_worker import Fuse
from tests.relay.relays import SCRIPT, document, leg

if TYPE_CHECKING:
    from passdown.relay.run import Relay
    from passdown.relay.runners import AgentRequest, Runner

Options = dict[str, Any]

TASK = "T-1"
AGENTS = ("planner", "coder", "reviewer", "releaser")
UNDONE = {
    "outcome": "partial",
    "blockers": [{"blocker": "Half is missing", "impact": "It doesn't run"}],
    "suggested_next_steps": [{"step": "Write the other half", "priority": "high"}],
}
TURNS: dict[str, tuple[dict[str, Any], ...]] = {
    "plan": ({"summary": "Planned in three steps."},),
    "code": (
        {"summary": "The first half.", **UNDONE},
        {"summary": "Both halves.", "files_created": [{"path": "login.py", "purpose": "login"}]},
        {"summary": "Mended what the review found."},
    ),
    "review": ({"summary": "Mend it.", "to_agent": "coder"}, {"summary": "It is good."}),
    "release": ({"summary": "Ready to be released."},),
    "publish": ({"summary": "Published."},),
}
"""What each visit of a leg hands off."""
PATH = ["plan", "code", "code", "review", "code", "review", "release", "publish"]
"""The legs of a whole run, in their order."""
HALF_WAY = "Nothing to hand off yet."


def whole_relay() -> Relay:
    """Eight turns: one is partial, one is sent back, one sends the work back, one has a gate."""
    back = {"when": {"to": "coder"}, "go": "code", "at_most": 2}
    legs = [
        leg("plan", "planner", phase="planning", request="Plan the login."),
        leg("code", "coder", phase="implementing"),
        leg("review", "reviewer", back, phase="reviewing"),
        leg("release", "releaser", gate="May it be released?"),
        leg("publish", "releaser"),
    ]
    return check_relay(document(*legs))


def short_relay(legs: int) -> Relay:
    """So many legs in a row, each done by the same agent; another is declared and has none."""
    coder = {"runner": SCRIPT, "limits": {"loops": legs + 1}}
    row = [leg(f"leg-{number + 1}", "coder") for number in range(legs)]
    return check_relay(document(*row, agents={"coder": coder, "fixer": {"runner": SCRIPT}}))


class Turn(NamedTuple):
    """A line of the file outside: an agent has begun (`asked`) or has answered."""

    at: float
    what: str
    pid: int
    run: str
    leg: str
    visit: int
    attempt: int

    @property
    def name(self) -> tuple[str, str, int]:
        """Which turn it is, whoever takes it."""
        return self.run, self.leg, self.visit


def turns_in(path: Path) -> list[Turn]:
    """All turns that were begun or answered so far."""
    if not path.exists():
        return []
    return [Turn(*json.loads(line)) for line in path.read_text("utf-8").splitlines()]


def handed_off(ws: passdown.Workspace, task: str, run: str) -> list[int]:
    """The numbers of a run's turns, once for each handoff that was recorded for them."""
    keys = [line.key for line in ws.log(task, limit=10**6)]
    found = [re.match(rf"{re.escape(run)}\.(\d+)\b", key) for key in keys]
    return sorted(int(match[1]) for match in found if match)


def reply(asked: AgentRequest) -> str:
    """What an agent answers: it follows from what is asked alone."""
    visits = TURNS.get(asked.leg) or ({"summary": f"Did {asked.leg}."},)
    if (asked.leg, asked.visit, asked.attempt) == ("code", 2, 1):
        return HALF_WAY
    said = visits[min(asked.visit, len(visits)) - 1]
    for file in said.get("files_created", ()):
        Path(asked.workdir, file["path"]).write_text("def login(): ...\n", "utf-8")
    decisions = [{"summary": f"{asked.leg} {asked.visit}", "rationale": "It is the simplest."}]
    handoff = {"outcome": "completed", "decisions": decisions, **said}
    return f"I took {asked.leg}.\n\n## Handoff\n```json\n{json.dumps(handoff)}\n```\n"


def agents(options: Options) -> dict[str, Runner]:
    """The agents: in each turn they compute for `computes` seconds, sleep for `seconds`, and wait
    until the file `until` is there.
    """
    from passdown.relay.runners.scripted import CallableRunner

    def act(asked: AgentRequest) -> str:
        fields = [os.getpid(), asked.run, asked.leg, asked.visit, asked.attempt]
        append_line(options["turns"], [time.time(), "asked", *fields])
        if options.get("computes"):
            compute(options["computes"])
        time.sleep(options.get("seconds", 0.0))
        wait_for_file(options.get("until", ""))
        append_line(options["turns"], [time.time(), "answered", *fields])
        return reply(asked)

    return dict.fromkeys(AGENTS, CallableRunner(act))


def wait_for_file(path: str) -> None:
    """Wait until somebody makes a file; for nothing without a path."""
    while path and not os.path.exists(path):
        time.sleep(0.01)


def compute(seconds: float) -> None:
    """Use a processor for so much of its time."""
    data = b"x" * 1_000
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        data = hashlib.sha256(data).digest() * 30


def start(job: str, **options: Any) -> subprocess.Popen[str]:
    """Start a process in a group of its own, so that what it leaves behind can be seen."""
    environment = {**worker_environment(), "PYTHONWARNINGS": "ignore"}
    return Process(
        [sys.executable, "-m", "tests.relay.relay_process", job, json.dumps(options)],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def tell(text: str) -> None:
    """Words of a test for whoever looks (`pytest -s`)."""
    sys.stdout.write(f"{text}\n")


def end_on_request(stop: threading.Event) -> None:
    """Let the usual signal end this process in order."""

    def ask(_signal: int, _frame: object) -> None:
        stop.set()

    signal.signal(signal.SIGTERM, ask)


def say(**result: Any) -> None:
    sys.stdout.write(json.dumps(result) + "\n")
    sys.stdout.flush()


def set_fuse(on: str, at: int, when: str) -> None:
    """Let this process die before or after one of its handoffs, or of its other records."""
    fuse = Fuse(at, when)
    if on == "hand_off":
        passdown.Workspace.hand_off = fuse.around(passdown.Workspace.hand_off)
    else:
        WorkspaceStreams.add = fuse.around(WorkspaceStreams.add)


def run(options: Options) -> None:
    """Start the run of a workspace, or go on with it, until it is over."""
    from passdown.relay.runs import Runs
    from passdown.relay.worker import EngineOptions, run_here

    with passdown.open(options["folder"]) as ws:
        if "fuse" in options:
            set_fuse(**options["fuse"])
        runs = Runs(ws)
        known = runs.all()
        found = known[0] if known else runs.start(whole_relay(), TASK, by="eva", lane="here")
        engine = EngineOptions(lease_s=options.get("lease_s", 30.0))
        # Also when it is over: who was killed at the very end may have left something undone.
        runners = {name: a for name, a in agents(options).items() if name in found.relay.agents}
        found = run_here(ws, found.run, options=engine, runners=runners)
        say(status=found.status)


def work(options: Options) -> None:
    """Serve the lanes until told to end."""
    from passdown.relay.worker import EngineOptions
    from passdown.relay.worker import run_worker as serve

    stop = threading.Event()
    end_on_request(stop)
    engine = EngineOptions(
        options.get("url", ""), options.get("lease_s", 30.0), options.get("room", 1_000)
    )
    with passdown.open(options["folder"]) as ws:
        say(ready=os.getpid())
        slots = options.get("slots", 1)
        serve(ws, slots=slots, options=engine, runners=agents(options), stop=stop)
        say(ended=True)


def send(options: Options) -> None:
    """Send pieces of work to a lane; a line for each that was taken or refused."""
    from passdown.errors import LaneFull
    from passdown.relay.engine.engine import RelayEngine

    with RelayEngine(options["url"], room=options["room"]) as engine:
        for number in range(options["count"]):
            name = f"{options['name']}-{number}"
            try:
                engine.send(options["lane"], name, 1, wait_s=options["wait_s"])
                append_line(options["acks"], [name, "taken"])
            except LaneFull as error:
                append_line(options["acks"], [name, error.code])
    say(done=True)


class Drain:
    """Work that only says what it was given; each turn then waits for the file `until`."""

    def __init__(self, path: str, until: str) -> None:
        self._path = path
        self._until = until

    def take_turn(self, run: str, number: int) -> None:
        append_line(self._path, [time.time(), run, number])
        wait_for_file(self._until)

    def advance(self, run: str) -> None:
        pass


def drain(options: Options) -> None:
    """Take everything out of the lanes until told to end."""
    from passdown.relay.engine.engine import RelayEngine

    stop = threading.Event()
    end_on_request(stop)
    with RelayEngine(options["url"], room=options["room"]) as engine:
        engine.launch(Drain(options["done"], options.get("until", "")), options["lanes"])
        say(ready=os.getpid())
        stop.wait()
    say(ended=True)


JOBS = {"run": run, "work": work, "send": send, "drain": drain}

if __name__ == "__main__":
    JOBS[sys.argv[1]](json.loads(sys.argv[2]))

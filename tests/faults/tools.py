"""What the fault tests share: starting workers, reading their acknowledgements, checking stores."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import passdown
from passdown.core.documents import is_intact
from passdown.core.kinds import stream_of
from tests.processes import Process

ROOT = Path(__file__).resolve().parents[2]


def soak_count(name: str, default: int) -> int:
    """How often a long test does what it does: PASSDOWN_SOAK_<NAME>, or a default."""
    return int(os.environ.get(f"PASSDOWN_SOAK_{name}", default))


def worker_environment() -> dict[str, str]:
    """An environment in which a worker finds the same sources as this process."""
    paths = [str(ROOT / "src"), str(ROOT)]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
        "PYTHONHASHSEED": "0",
    }


def worker_command(job: str, **options: Any) -> list[str]:
    """The command line of a worker (see workers.py)."""
    return [sys.executable, "-m", "tests.faults.workers", job, json.dumps(options)]


def start_worker(job: str, **options: Any) -> subprocess.Popen[str]:
    """Start a worker; its result is one line of JSON on its output."""
    return Process(
        worker_command(job, **options),
        cwd=ROOT,
        env=worker_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def result_of(worker: subprocess.Popen[str], timeout: float = 250) -> dict[str, Any]:
    """What a worker says at its end; a worker that failed fails the test with its words."""
    out, err = worker.communicate(timeout=timeout)
    assert worker.returncode == 0, f"worker ended with {worker.returncode}:\n{err}"
    return json.loads(out.splitlines()[-1])


class Ack(NamedTuple):
    """One write that was acknowledged to its caller."""

    task: str
    key: str
    version: int
    digest: str


def append_line(path: str, fields: list[Any]) -> None:
    """Add a line to a file in one system call, so that a kill leaves it whole or not at all."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(descriptor, json.dumps(fields).encode() + b"\n")
    finally:
        os.close(descriptor)


def read_acks(path: Path) -> list[Ack]:
    """Everything that was acknowledged so far."""
    if not path.exists():
        return []
    return [Ack(*json.loads(line)) for line in path.read_text("utf-8").splitlines()]


def handoff_for(task: str, key: str) -> dict[str, Any]:
    """A handoff whose content follows from its key, so that a retry says the same."""
    return {
        "task": task,
        "from_agent": "coder",
        "to_agent": "reviewer",
        "outcome": "completed",
        "summary": f"did {key}",
        "decisions": [{"summary": f"chose {key}", "rationale": "it was the simplest"}],
    }


def write(ws: passdown.Workspace, task: str, key: str, how: str = "hand_off") -> Ack:
    """Write once under a key: a handoff or a decision."""
    done: Any
    if how == "hand_off":
        done = ws.hand_off(handoff_for(task, key), key=key)
    else:
        done = ws.decide(task=task, agent="coder", summary=f"chose {key}", rationale="x", key=key)
    return Ack(task, key, done.version, done.digest)


def how_of(key: str) -> str:
    """Which kind of write belongs to a key."""
    return "decide" if key.startswith("d") else "hand_off"


def lost_or_doubled(ws: passdown.Workspace, acks: list[Ack]) -> list[str]:
    """Every acknowledged record that isn't there exactly once, as it was acknowledged."""
    found: list[str] = []
    for task in sorted({ack.task for ack in acks}):
        stored: dict[str, list[tuple[int, str]]] = {}
        for line in ws.log(task, limit=10**9):
            stored.setdefault(line.key, []).append((line.version, line.digest))
        found += [
            f"{ack}: stored {stored.get(ack.key)}"
            for ack in acks
            if ack.task == task and stored.get(ack.key) != [(ack.version, ack.digest)]
        ]
    return found


def handle_faults(ws: passdown.Workspace, task: str) -> list[str]:
    """What is wrong with a task's state file, before and after it is brought up to date."""
    path = Path(ws.root, ".passdown", "state", f"{task}.json")
    found: list[str] = []
    if path.exists():
        text = path.read_text("utf-8")
        json.loads(text)
        if not is_intact(text):
            found.append(f"{path} is not whole")
    ws.files.state_file(task)
    document = json.loads(path.read_text("utf-8"))
    task_now = ws.task(task)
    if (document["version"], document["digest"]) != (task_now.version, task_now.digest):
        found.append(f"{path} is not up to date")
    return found


def faults_of(ws: passdown.Workspace, acks: list[Ack]) -> list[str]:
    """Everything that a store with these acknowledgements may not show."""
    found = [problem.line() for problem in ws.verify().findings]
    found += lost_or_doubled(ws, acks)
    for overview in ws.tasks():
        found += handle_faults(ws, overview.task)
    return found


def retried(ws: passdown.Workspace, acks: list[Ack]) -> list[str]:
    """Retry acknowledged writes with their keys: each must give the record it gave before."""
    return [str(ack) for ack in acks if write(ws, ack.task, ack.key, how_of(ack.key)) != ack]


def make_store(folder: Path, tasks: list[str]) -> None:
    """A workspace with some empty tasks."""
    folder.mkdir(parents=True, exist_ok=True)
    with passdown.open(str(folder)) as ws:
        for task in tasks:
            ws.create_task(task, title=f"Task {task}", agent="planner")


def state_of(ws: passdown.Workspace) -> dict[str, Any]:
    """Everything that can be read of a workspace: tasks, states, items, records, inbox."""
    seen: dict[str, Any] = {"tasks": ws.tasks(), "log": ws.log(limit=10**9)}
    for overview in seen["tasks"]:
        task = overview.task
        seen[task] = [ws.task(task), ws.files.state_document(task), ws.gates(task, all=True)]
        seen[task + ":log"] = ws.log(task, limit=10**9)
    seen["inbox"] = [ws.inbox(agent) for agent in ("planner", "coder", "reviewer")]
    return seen


def spread(items: list[Any], count: int) -> list[Any]:
    """About `count` of the items, evenly spread over all of them."""
    if count >= len(items):
        return items
    return [items[i * len(items) // count] for i in range(count)]


def seeded(name: str) -> random.Random:
    """Random numbers that are the same in every run, unless PASSDOWN_SEED says otherwise."""
    return random.Random(f"{name}-{os.environ.get('PASSDOWN_SEED', '1')}")


def stream_name(task: str) -> str:
    """The stream of a task."""
    return stream_of(task)

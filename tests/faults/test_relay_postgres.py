"""Several workers share one PostgreSQL as the engine's database; the ledger stays in its file, or
is kept there too.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy.exc import ProgrammingError

import passdown
from passdown.relay.engine.engine import workers as known_workers
from passdown.relay.runs import Runs
from passdown.relay.worker import EngineOptions, open_engine
from tests.faults.tools import soak_count, worker_environment
from tests.interfaces.relay_stage import handoff, relay_file, says
from tests.postgres import name_store
from tests.processes import Process, run_python
from tests.relay.relay_process import handed_off, short_relay, start, tell, turns_in

if TYPE_CHECKING:
    from pathlib import Path

    from passdown import Workspace
    from passdown.relay.engine.engine import RelayEngine


LEGS = 3
LEASE_S = 2.0
LONG_LEASE_S = 30.0
"""Nobody loses a turn by being slow on a busy machine."""
Processes = list["subprocess.Popen[str]"]


def start_runs(ws: Workspace, count: int) -> list[str]:
    relay, runs = short_relay(LEGS), Runs(ws)
    for number in range(count):
        ws.create_task(f"T-{number}", title="Three legs", agent="eva")
    return [runs.start(relay, f"T-{number}", by="eva").run for number in range(count)]


def hire(
    folder: Path, url: str, count: int, lease_s: float = LONG_LEASE_S, **options: Any
) -> Processes:
    common = {"folder": str(folder), "turns": str(folder.parent / "turns"), "url": url}
    return [start("work", lease_s=lease_s, **common, **options) for _ in range(count)]


def wait_for_all(ws: Workspace, timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while open_runs := [run.run for run in Runs(ws).all() if not run.ended_at]:
        assert time.monotonic() < deadline, f"these don't end: {open_runs}"
        time.sleep(0.2)


def wait_for_workers(engine: RelayEngine, count: int, timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    found = 0
    while found < count:
        assert time.monotonic() < deadline, f"{found} of {count} workers started"
        time.sleep(0.05)
        with suppress(ProgrammingError):  # the first worker makes the table
            found = len(known_workers(engine.database))


def wait_for_queues(engine: RelayEngine, timeout_s: float) -> None:
    """Nothing stays queued: a turn that was queued twice is taken from its queue as well."""
    deadline = time.monotonic() + timeout_s
    while left := engine.client.list_workflows(status=["ENQUEUED", "PENDING"]):
        assert time.monotonic() < deadline, f"these stay in the queues: {left}"
        time.sleep(0.05)


def dismiss(workers: Processes) -> str:
    """Let all end in order; gives what they had to say."""
    for process in workers:
        process.terminate()
    said = ""
    for process in workers:
        _, err = process.communicate(timeout=200)
        said += err
        assert process.returncode == 0, err
    return said


def let_go(workers: Processes) -> None:
    for process in workers:
        if process.poll() is None:
            process.kill()
            tell(process.communicate()[1])


def check_runs(ws: Workspace, names: list[str]) -> None:
    """Each leg was handed off once, under its own key, and ended once."""
    runs = Runs(ws)
    assert Counter(runs.get(name).status for name in names) == {"completed": len(names)}
    for name in names:
        run = runs.get(name)
        assert handed_off(ws, run.task, name) == list(range(1, LEGS + 1))
        assert [turn.outcome for turn in run.legs.values()] == ["completed"] * LEGS


def check_sharing(tmp_path: Path, url: str, count: int, timeout_s: float) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    with passdown.open(str(folder)) as ws, open_engine(ws, EngineOptions(url)) as engine:
        workers = hire(folder, url, 4, seconds=0.05)
        try:
            wait_for_workers(engine, 4, timeout_s)
            names = start_runs(ws, count)
            wait_for_all(ws, timeout_s)
            wait_for_queues(engine, timeout_s)
            said = dismiss(workers)
        finally:
            let_go(workers)
        check_runs(ws, names)
        assert ws.verify().ok
        assert known_workers(engine.database) == []
        assert not (folder / ".passdown" / "relay.db").exists()
    asked = [turn for turn in turns_in(tmp_path / "turns") if turn.what == "asked"]
    turns = [turn for turn in asked if turn.attempt == 1]  # later: what is recommended is missing
    by_worker = Counter(turn.pid for turn in turns)
    tell(f"turns by worker: {sorted(by_worker.values())}\n{said}")
    assert len(by_worker) > 1, "nothing was shared"
    assert len(turns) == count * LEGS, "a turn was begun twice, though nobody was disturbed"


def test_four_workers_share_the_runs_of_one_database(tmp_path: Path, postgres: str) -> None:
    check_sharing(tmp_path, postgres, 6, 200)


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_four_workers_do_two_hundred_relays(tmp_path: Path, postgres: str) -> None:
    count = soak_count("RELAY_SHARED", 200)
    check_sharing(tmp_path, postgres, count, 60 + 5 * count)


def test_a_frozen_worker_loses_its_turn_to_another(tmp_path: Path, postgres: str) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    with passdown.open(str(folder)) as ws, open_engine(ws, EngineOptions(postgres)) as engine:
        names = start_runs(ws, 1)
        workers = hire(folder, postgres, 1, LEASE_S, seconds=1.0)
        try:
            while not (turns := turns_in(tmp_path / "turns")):
                time.sleep(0.02)
            os.kill(turns[0].pid, signal.SIGSTOP)
            workers += hire(folder, postgres, 1, LEASE_S)
            wait_for_all(ws, 200)
            os.kill(turns[0].pid, signal.SIGCONT)
            said = dismiss(workers)
        finally:
            let_go(workers)
        check_runs(ws, names)
        assert known_workers(engine.database) == []
    assert "took over" in said


def machine(tmp_path: Path, name: str, url: str) -> Path:
    """A project's folder as another machine has it: its records are kept elsewhere."""
    folder = tmp_path / name
    folder.mkdir()
    name_store(folder, url)
    return folder


@pytest.mark.promise("S8-1")
def test_workers_on_two_machines_share_the_runs_of_one_ledger(
    tmp_path: Path, postgres: str
) -> None:
    """Ledger and queue are one PostgreSQL; nothing but that address is shared."""
    here, there = (machine(tmp_path, name, f"{postgres}&workspace=shop") for name in ("a", "b"))
    with passdown.open(str(here)) as ws, open_engine(ws) as engine:
        names = start_runs(ws, 4)
        workers = [*hire(here, "", 2, seconds=0.05), *hire(there, "", 2, seconds=0.05)]
        try:
            wait_for_all(ws, 200)
            said = dismiss(workers)
        finally:
            let_go(workers)
        check_runs(ws, names)
        assert ws.verify().ok
        assert known_workers(engine.database) == []
    asked = [turn for turn in turns_in(tmp_path / "turns") if turn.what == "asked"]
    turns = [turn for turn in asked if turn.attempt == 1]  # later: what is recommended is missing
    assert len(turns) == len(names) * LEGS, said
    assert not any((folder / ".passdown" / "relay.db").exists() for folder in (here, there))
    assert not any((folder / ".passdown" / "ledger.db").exists() for folder in (here, there))


def test_a_run_that_one_machine_starts_is_done_by_another(tmp_path: Path, postgres: str) -> None:
    """`passdown run --detach` here, `passdown worker` there."""
    here, there = tmp_path / "a", tmp_path / "b"
    command = [sys.executable, "-m", "passdown"]
    environment = worker_environment()
    for folder in (here, there):
        folder.mkdir()
        made = [*command, "init", "--store", f"{postgres}&workspace=shop"]
        run_python(made, cwd=folder, env=environment, check=True, timeout=200)
    reply = says(there, "coder", handoff())
    agents = {"coder": {"runner": {"command": reply}}}
    file = relay_file(here, [{"leg": "code", "agent": "coder"}], agents)
    for words in (
        ["task", "new", "T-1", "--title", "Login"],
        ["run", file, "--task", "T-1", "--detach"],
    ):
        run_python([*command, *words], cwd=here, env=environment, check=True, timeout=200)
    worker = Process([*command, "worker"], cwd=there, env=environment, stdout=subprocess.DEVNULL)
    try:
        with passdown.open(str(here)) as ws:
            wait_for_all(ws, 200)
            assert ws.state("T-1").version == 2
            assert Runs(ws).all()[0].status == "completed"
    finally:
        worker.terminate()
        worker.wait(240)

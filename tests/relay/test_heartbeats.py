"""Workers beat, and what lost ones were at is taken over once; on a real database file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import text

from passdown.relay.engine.engine import (
    Heartbeat,
    Worker,
    connect,
    host_name,
    run_statement,
    started_at,
    workers,
)
from tests.faults.tools import ROOT, worker_environment
from tests.processes import Process

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from sqlalchemy import Engine

OTHER = """
import sys, time
from passdown.relay.engine.engine import connect
from passdown.relay.engine.engine import Heartbeat
beat = Heartbeat(connect(sys.argv[1]), lease_s=float(sys.argv[2]), take_over=lambda _: 0)
beat.start()
print(beat.worker, flush=True)
while True:
    time.sleep(0.01)
    if beat.lost.is_set():
        print("lost", flush=True)
        while beat.lost.is_set():
            time.sleep(0.01)
        print("back", flush=True)
"""


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'relay.db'}"


@pytest.fixture
def database(url: str) -> Iterator[Engine]:
    engine = connect(url)
    yield engine
    engine.dispose()


@pytest.fixture
def other(url: str) -> Iterator[Callable[[float], tuple[subprocess.Popen[str], str]]]:
    """Start another process that beats; gives it and its worker's name."""
    started: list[subprocess.Popen[str]] = []

    def start(
        lease_s: float, popen: type[subprocess.Popen[str]] = Process
    ) -> tuple[subprocess.Popen[str], str]:
        process = popen(
            [sys.executable, "-c", OTHER, url, str(lease_s)],
            cwd=ROOT,
            env=worker_environment(),
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process, line_of(process)

    yield start
    for process in started:
        process.kill()
        process.wait()
        if process.stdout:
            process.stdout.close()


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def beating(
    database: Engine, take_over: Callable[[str], int] = lambda _: 0, lease_s: float = 30.0
) -> Heartbeat:
    return Heartbeat(database, lease_s=lease_s, take_over=take_over)


def age(database: Engine, worker: str, seconds: float) -> None:
    """Make a worker's last beat older, as if so much time had passed."""
    with database.begin() as connection:
        values = {"worker": worker, "seconds": seconds}
        statement = (
            "UPDATE passdown_workers SET beat_at = beat_at - :seconds WHERE worker = :worker"
        )
        connection.execute(text(statement), values)


def names(database: Engine) -> list[str]:
    return [worker.worker for worker in workers(database)]


def test_a_worker_signs_on_and_off(database: Engine) -> None:
    beat = beating(database)
    beat.start()
    (found,) = workers(database)
    assert (found.worker, found.pid, found.host) == (beat.worker, os.getpid(), host_name())
    assert 0 <= found.silent_s < 30
    assert not found.is_gone
    assert not found.is_silent
    beat.stop()
    assert workers(database) == []


def test_a_worker_that_beats_keeps_its_lease(database: Engine) -> None:
    """Its beats come by themselves, and each makes the lease whole again."""
    taken: list[str] = []
    beat = beating(database, lease_s=4.0)
    looker = beating(database, lambda worker: taken.append(worker) or 1)
    beat.start()
    for _ in range(2):
        age(database, beat.worker, 2.0)
        while workers(database)[0].silent_s >= 2.0:
            looker.look()
            time.sleep(0.02)
    assert beat.is_fresh
    beat.stop()
    assert taken == []


def test_a_worker_that_is_gone_is_known_at_once(
    database: Engine, other: Callable[[float], tuple[subprocess.Popen[str], str]]
) -> None:
    process, name = other(3_600)
    process.kill()
    process.wait()
    taken: list[str] = []
    beat = beating(database, lambda worker: taken.append(worker) or 1)
    beat.start()
    assert (taken, names(database)) == ([name], [beat.worker])
    beat.look()
    beat.stop()
    assert taken == [name]


def test_a_process_that_is_dead_but_not_waited_for_is_gone_too(
    database: Engine, other: Callable[..., tuple[subprocess.Popen[str], str]]
) -> None:
    process, name = other(3_600, subprocess.Popen)
    os.kill(process.pid, signal.SIGKILL)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert [worker.is_gone for worker in workers(database)] == [True]
    taken: list[str] = []
    beating(database, lambda worker: taken.append(worker) or 1).look()
    assert taken == [name]


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="processes can't be frozen here")
def test_a_frozen_worker_is_lost_when_its_lease_is_over_and_hears_of_it(
    database: Engine, other: Callable[[float], tuple[subprocess.Popen[str], str]]
) -> None:
    process, name = other(8.0)
    taken: list[str] = []
    looker = beating(database, lambda worker: taken.append(worker) or 1)
    os.kill(process.pid, signal.SIGSTOP)
    looker.look()
    assert taken == [], "its lease isn't over"
    age(database, name, 8.0)
    looker.look()
    looker.look()
    (found,) = workers(database)
    assert (taken, found.worker, found.lost, found.is_gone) == ([name], name, 1, False)
    os.kill(process.pid, signal.SIGCONT)
    assert [line_of(process), line_of(process)] == ["lost", "back"]
    (found,) = workers(database)
    assert (found.lost, found.is_silent) == (0, False)


def test_of_many_who_look_at_once_one_takes_over(
    url: str,
    database: Engine,
    other: Callable[[float], tuple[subprocess.Popen[str], str]],
) -> None:
    dead = [other(3_600) for _ in range(2)]
    for process, _ in dead:
        process.kill()
        process.wait()
    taken: list[str] = []
    databases = [connect(url) for _ in range(6)]
    lookers = [beating(each, lambda worker: taken.append(worker) or 1) for each in databases]
    meet = threading.Barrier(len(lookers))

    def look(looker: Heartbeat) -> None:
        meet.wait()
        looker.look()

    threads = [threading.Thread(target=look, args=(looker,)) for looker in lookers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for each in databases:
        each.dispose()
    assert sorted(taken) == sorted(name for _, name in dead)
    assert names(database) == []


def test_while_one_takes_over_another_leaves_it_to_that_one(
    database: Engine, other: Callable[[float], tuple[subprocess.Popen[str], str]]
) -> None:
    process, name = other(3_600)
    process.kill()
    process.wait()
    taken: list[str] = []
    second = beating(database, lambda worker: taken.append(worker) or 1)
    first = beating(database, lambda _: second.look() or 1)
    first.look()
    assert (taken, names(database)) == ([], [])
    assert name not in names(database)


def test_a_successor_that_dies_while_it_takes_over_has_the_lost_worker_s_lease(
    database: Engine, other: Callable[[float], tuple[subprocess.Popen[str], str]]
) -> None:
    process, name = other(3_600)
    process.kill()
    process.wait()
    with database.begin() as connection:
        run_statement(connection, "declare_lost", worker=name, lost=0, silent_s=0.0)
    taken: list[str] = []
    looker = beating(database, lambda worker: taken.append(worker) or 1)
    looker.look()
    assert taken == [], "the one that declared it lost may still be at it"
    age(database, name, 3_600)
    looker.look()
    assert (taken, names(database)) == ([name], [])


def test_a_take_over_that_fails_is_made_up_for(
    database: Engine, other: Callable[[float], tuple[subprocess.Popen[str], str]]
) -> None:
    process, name = other(3_600)
    process.kill()
    process.wait()

    def fails(_: str) -> int:
        raise OSError("the database is away")

    with pytest.raises(OSError, match="away"):
        beating(database, fails).look()
    taken: list[str] = []
    beating(database, lambda worker: taken.append(worker) or 1).look()
    assert (taken, names(database)) == ([name], [])


def test_a_worker_does_not_take_over_from_itself(database: Engine) -> None:
    taken: list[str] = []
    beat = beating(database, lambda worker: taken.append(worker) or 1)
    beat.start()
    age(database, beat.worker, 60.0)
    beat.look()
    beat.stop()
    assert taken == []


def test_a_worker_without_a_beat_knows_that_it_may_be_lost(database: Engine) -> None:
    beat = beating(database)
    assert beat.is_fresh
    late = time.monotonic() + 30.0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "monotonic", lambda: late)
        assert not beat.is_fresh


def worker(host: str, pid: int, started: str, silent_s: float = 0.0) -> Worker:
    return Worker("w", host, pid, started, silent_s, 30.0, 0)


def test_only_this_machine_can_tell_that_a_process_is_gone() -> None:
    own = started_at(os.getpid())
    assert not worker(host_name(), os.getpid(), own).is_gone
    assert worker(host_name(), os.getpid(), "1").is_gone, "another process with its number"
    assert not worker("elsewhere", os.getpid(), "1").is_gone
    assert worker("elsewhere", os.getpid(), "1", 30.0).is_silent
    assert started_at(2**22 + 1) == ""


def test_two_workers_of_one_process_are_two(database: Engine) -> None:
    beats = [beating(database) for _ in range(2)]
    for beat in beats:
        beat.start()
    assert len(set(names(database))) == 2
    beats[0].stop()
    assert names(database) == [beats[1].worker]
    beats[1].stop()

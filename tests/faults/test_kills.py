"""What was acknowledged survives `kill -9`, at any moment, with several writers on one store."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

import passdown
from tests.faults.tools import (
    Ack,
    faults_of,
    how_of,
    make_store,
    read_acks,
    result_of,
    retried,
    seeded,
    soak_count,
    start_worker,
    write,
)
from tests.folders import new_folder

if TYPE_CHECKING:
    import random
    import subprocess
    from pathlib import Path

WRITERS = 4
SHARED = "T-shared"


class Writer:
    """One writing process that is started again whenever it was killed."""

    def __init__(self, folder: Path, outside: Path, number: int, **options: Any) -> None:
        self.tasks = [SHARED, f"T-{number}"]
        self.acks = outside / f"acks-{number}"
        self.tries = outside / f"tries-{number}"
        self.life = 0
        self._number = number
        self._folder = folder
        self._options = options
        self.start()

    def start(self) -> None:
        self.life += 1
        self.size_at_start = self.size()
        self.process: subprocess.Popen[str] = start_worker(
            "loop",
            folder=str(self._folder),
            acks=str(self.acks),
            tries=str(self.tries),
            tasks=self.tasks,
            seed=f"{self._number}-{self.life}",
            name=f"{self._number}-{self.life}",
            **self._options,
        )

    def size(self) -> int:
        return self.acks.stat().st_size if self.acks.exists() else 0

    def is_writing(self) -> bool:
        return self.size() > self.size_at_start

    def kill(self) -> None:
        """End it without warning; a writer that ended by itself has failed."""
        ended = self.process.poll()
        self.process.kill()
        _, err = self.process.communicate()
        assert ended is None, f"a writer ended by itself:\n{err}"


def kill_at_random(writers: list[Writer], kills: int, rng: random.Random) -> None:
    """Kill and restart writers: most in the middle of writing, some while they start."""
    for number in range(kills):
        writer = writers[number % len(writers)]
        deadline = time.monotonic() + 240
        if rng.random() < 0.1:
            time.sleep(rng.random() * 0.3)
        else:
            while not writer.is_writing() and writer.process.poll() is None:
                assert time.monotonic() < deadline, "a writer doesn't get to write"
                time.sleep(0.002)
            time.sleep(rng.random() * 0.02)
        writer.kill()
        writer.start()
    for writer in writers:
        writer.kill()


def run_kills(tmp_path: Path, kills: int, rng: random.Random, **options: Any) -> list[Ack]:
    folder = tmp_path / "project"
    make_store(folder, [SHARED, *(f"T-{n}" for n in range(WRITERS))])
    writers = [Writer(folder, tmp_path, n, **options) for n in range(WRITERS)]
    try:
        kill_at_random(writers, kills, rng)
    finally:
        for writer in writers:
            if writer.process.returncode is None:
                writer.process.kill()
                writer.process.communicate()
    return [ack for writer in writers for ack in read_acks(writer.acks)]


def check_kills(tmp_path: Path, kills: int) -> None:
    acks = run_kills(tmp_path, kills, seeded("kills"))
    assert len(acks) > kills
    with passdown.open(new_folder(tmp_path / "project")) as ws:
        assert faults_of(ws, acks) == []
        assert retried(ws, acks[-50:]) == []
        check_unknown(ws, tmp_path, acks)
        assert faults_of(ws, acks) == []


def check_unknown(ws: passdown.Workspace, tmp_path: Path, acks: list[Ack]) -> None:
    """A write that was cut short is written once by a retry, whether it had happened or not."""
    known = {ack.key for ack in acks}
    tries = [t for n in range(WRITERS) for t in read_acks(tmp_path / f"tries-{n}")]
    unknown = [t for t in tries if t.key not in known]
    assert unknown, "no kill hit a write"
    first = [write(ws, t.task, t.key, how_of(t.key)) for t in unknown]
    assert retried(ws, first) == []
    keys = [line.key for line in ws.log(limit=10**9)]
    assert [t.key for t in unknown if keys.count(t.key) != 1] == []


@pytest.mark.promise("P-1", "P-3", "S1-15", "S1-31")
def test_nothing_acknowledged_is_lost_when_writers_are_killed(tmp_path: Path) -> None:
    check_kills(tmp_path, 24)


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_ten_thousand_kills(tmp_path: Path) -> None:
    check_kills(tmp_path, soak_count("KILLS", 10_000))


def test_control_a_writer_that_acknowledges_too_early_is_caught(tmp_path: Path) -> None:
    acks = run_kills(tmp_path, 8, seeded("early"), ack_first=True)
    with passdown.open(new_folder(tmp_path / "project")) as ws:
        stored = {line.key for line in ws.log(limit=10**9)}
        assert faults_of(ws, acks) != []
    assert [ack for ack in acks if ack.key not in stored], "the control lost nothing"


@pytest.mark.promise("S1-31")
def test_everything_is_there_after_a_restart(tmp_path: Path) -> None:
    make_store(tmp_path / "project", ["T-1"])
    acks = tmp_path / "acks"
    options = {"folder": str(tmp_path / "project"), "task": "T-1", "acks": str(acks), "count": 5}
    for name in "abc":
        result_of(start_worker("some", name=name, **options))
    with passdown.open(new_folder(tmp_path / "project")) as ws:
        assert ws.task("T-1").version == 16
        assert faults_of(ws, read_acks(acks)) == []
        state = ws.files.state_document("T-1")
    with passdown.open(new_folder(tmp_path / "project")) as again:
        assert again.files.state_document("T-1") == state

"""Workers that are killed or frozen lose their work to others, and nothing is done twice."""

from __future__ import annotations

import os
import signal
import statistics
import time
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

import passdown
from passdown.core.times import parse_time
from passdown.relay.engine.engine import workers as known_workers
from passdown.relay.run import run_stream
from passdown.relay.runs import Runs
from passdown.relay.worker import open_engine
from passdown.workspace.streams import WorkspaceStreams
from tests.faults.tools import seeded, soak_count
from tests.relay.relay_process import handed_off, short_relay, start, tell, turns_in

if TYPE_CHECKING:
    import random
    import subprocess
    from collections.abc import Generator
    from pathlib import Path

    from passdown import Workspace
    from passdown.relay.engine.engine import RelayEngine

LEASE_S = 1.0
# A lane is looked at every tenth of a second, a turn begins when a slot is free; and two processors
# that many processes share may keep one of them waiting.
SLACK_S = 3.0
PATIENCE_S = 120.0


class Hit(NamedTuple):
    """A worker that was killed or frozen in the middle of a turn, and when it last beat."""

    how: str
    run: str
    at: float
    beat_at: float
    worker: str


class Crew:
    """Some workers; whoever is killed is replaced."""

    def __init__(self, folder: Path, size: int, **options: Any) -> None:
        self.turns = folder.parent / "turns"
        self._options = {"folder": str(folder), "turns": str(self.turns), **options}
        self.frozen: set[int] = set()
        self.members: dict[int, subprocess.Popen[str]] = {}
        self.errors: list[str] = []
        for _ in range(size):
            self.hire()

    def hire(self) -> None:
        process = start("work", lease_s=LEASE_S, **self._options)
        self.members[process.pid] = process

    def at_work(self) -> dict[int, str]:
        """The workers whose agent is at work now, and the run."""
        found: dict[int, str] = {}
        for turn in turns_in(self.turns):
            if turn.what == "asked":
                found[turn.pid] = turn.run
            else:
                found.pop(turn.pid, None)
        return {p: run for p, run in found.items() if p in self.members and p not in self.frozen}

    def kill(self, pid: int) -> None:
        process = self.members.pop(pid)
        process.kill()
        self.errors.append(process.communicate()[1])
        self.hire()

    def freeze(self, pid: int) -> None:
        os.kill(pid, signal.SIGSTOP)
        self.frozen.add(pid)

    def thaw(self, pid: int) -> None:
        os.kill(pid, signal.SIGCONT)
        self.frozen.discard(pid)

    def dismiss(self) -> None:
        """Everybody ends in order."""
        for pid in list(self.frozen):
            self.thaw(pid)
        for process in self.members.values():
            process.terminate()
        for process in self.members.values():
            out, err = process.communicate(timeout=PATIENCE_S)
            self.errors.append(err)
            assert process.returncode == 0, err
            assert '"ended": true' in out


@contextmanager
def crew(folder: Path, size: int, **options: Any) -> Generator[Crew]:
    found = Crew(folder, size, **options)
    try:
        yield found
    finally:
        for process in found.members.values():
            if process.poll() is None:
                process.kill()
                tell(process.communicate()[1])


def start_runs(ws: Workspace, count: int) -> list[str]:
    """Detached runs of one leg each, on tasks of their own."""
    relay, runs = short_relay(1), Runs(ws)
    for number in range(count):
        ws.create_task(f"T-{number}", title="One leg", agent="eva")
    return [runs.start(relay, f"T-{number}", by="eva").run for number in range(count)]


def hit(crew: Crew, engine: RelayEngine, how: str, rng: random.Random) -> Hit | None:
    """Kill or freeze somebody who is at work; None where nobody is."""
    at_work = crew.at_work()
    if not at_work:
        return None
    pid = rng.choice(sorted(at_work))
    (crew.kill if how == "killed" else crew.freeze)(pid)
    at = time.time()
    own = [w for w in known_workers(engine.database) if w.pid == pid]
    # What was silent for longer than its lease was lost before it was hit, on a busy machine.
    beat_at = at - min(own[0].silent_s, LEASE_S) if own else at
    return Hit(how, at_work[pid], at, beat_at, own[0].worker if own else "")


def begun_by_others(ws: Workspace, hit: Hit) -> float | None:
    """When another worker began the turn that a worker was hit in."""
    for record in WorkspaceStreams(ws).records(run_stream(hit.run)):
        at = parse_time(record.at).timestamp()
        if record.kind == "begun" and at > hit.at and record.document()["worker"] != hit.worker:
            return at
    return None


def has_ended(ws: Workspace, run: str) -> bool:
    return bool(Runs(ws).get(run).ended_at)


def disturb(
    ws: Workspace, crew: Crew, engine: RelayEngine, hits: list[str], rng: random.Random
) -> Any:
    """Hit one worker after the other; a frozen one is thawed once others have its work."""
    found: list[tuple[Hit, float]] = []
    for how in hits:
        deadline = time.monotonic() + PATIENCE_S
        while (struck := hit(crew, engine, how, rng)) is None:
            assert time.monotonic() < deadline, "nobody is at work"
            time.sleep(0.01)
        while (at := begun_by_others(ws, struck)) is None:
            # Its turn had just ended in the ledger, though not for the agent; or it holds a lock
            # of the file, which nobody gets before it goes on.
            is_stuck = time.time() - struck.at > 4 * LEASE_S
            if is_stuck or has_ended(ws, struck.run):
                break
            time.sleep(0.02)
        time.sleep(rng.random() * LEASE_S)
        for pid in list(crew.frozen):
            crew.thaw(pid)
        if at is not None:
            found.append((struck, at))
    return found


def check_leases(
    tmp_path: Path, runs: int, hits: list[str], **options: Any
) -> list[tuple[Hit, float]]:
    """Disturb workers and check that everything is done once; gives the turns taken over late."""
    folder = tmp_path / "project"
    folder.mkdir()
    rng = seeded("leases")
    with (
        passdown.open(str(folder)) as ws,
        open_engine(ws) as engine,
        crew(folder, **options) as workers,
    ):
        names = start_runs(ws, runs)
        struck = disturb(ws, workers, engine, hits, rng)
        thawed = set(workers.members)
        deadline = time.monotonic() + PATIENCE_S + runs
        while not all(run.ended_at for run in Runs(ws).all()):
            assert time.monotonic() < deadline, [run for run in names if not has_ended(ws, run)]
            time.sleep(0.2)
        workers.dismiss()
        check_once(ws, names)
        assert known_workers(engine.database) == []
        assert ws.verify().ok
    show(struck, workers)
    assert thawed
    return [(s, at - s.beat_at) for s, at in struck if at - s.beat_at > 1.1 * LEASE_S + SLACK_S]


def check_once(ws: Workspace, names: list[str]) -> None:
    """Every run is completed, with one handoff and one reply in the end, whoever did it."""
    runs = Runs(ws)
    assert Counter(runs.get(name).status for name in names) == {"completed": len(names)}
    for name in names:
        run = runs.get(name)
        assert handed_off(ws, run.task, name) == [1]
        kinds = Counter(record.kind for record in WorkspaceStreams(ws).records(run_stream(name)))
        assert (kinds["leg_ended"], kinds["ended"]) == (1, 1), name


def show(struck: list[tuple[Hit, float]], workers: Crew) -> None:
    for how in ("killed", "frozen"):
        waits = sorted(at - each.beat_at for each, at in struck if each.how == how)
        if waits:
            tell(
                f"{how} {len(waits)}: seconds from the last beat to the next begin: "
                f"median {statistics.median(waits):.2f}, longest {waits[-1]:.2f}"
            )
    asked = [turn for turn in turns_in(workers.turns) if turn.what == "asked"]
    tell(f"turns begun again: {len(asked) - len({turn.name for turn in asked})}")
    for text in filter(None, workers.errors):
        tell(text[-2_000:])


def test_what_killed_and_frozen_workers_were_at_is_done_once(tmp_path: Path) -> None:
    hits = ["killed", "frozen", "killed", "frozen"]
    check_leases(tmp_path, 16, hits, size=3, seconds=0.5)


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_two_thousand_legs_while_a_fifth_of_the_workers_is_hit(tmp_path: Path) -> None:
    legs = soak_count("RELAY_LEGS", 2_000)
    hits = ["killed", "frozen"] * (legs // 50)
    late = check_leases(tmp_path, legs, hits, size=5, seconds=0.3, slots=2)
    assert len(late) <= len(hits) // 10, late

"""Eight processes hand off at once, on one task and on eight; what each design does to their work.

Every handoff has a name of its own. A writer reads where the task stands, works for a moment and
hands off, naming the version it read; when it is told that this is stale, it reads and tries again,
until its handoff has been accepted. Afterwards the accepted names are looked for in what is stored.
"""

from __future__ import annotations

import multiprocessing
import random
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import passdown
from bench.figures import Measured, Row, Target
from bench.shared_file import SharedFiles, StaleState, State, with_handoff
from bench.workload import handoff, write_files

if TYPE_CHECKING:
    from multiprocessing.synchronize import Barrier

    from bench.run import Run

WRITERS = 8
THINKING_S = 0.002
NONE = Target("exactly", 0)

_barrier: Barrier


class Job(NamedTuple):
    """What one process has to do."""

    folder: str
    writer: int
    task: str
    handoffs: int


class Done(NamedTuple):
    """What one process saw: the names accepted, how often it was told, what slipped through."""

    accepted: list[str]
    told: int
    stale_accepted: int
    started: float
    ended: float


def measure(run: Run) -> Measured:
    found = Measured("concurrency", f"{WRITERS} processes at once")
    handoffs = 10 if run.quick else 50
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(WRITERS)
    with context.Pool(WRITERS, _take_barrier, (barrier,)) as pool:
        for tasks in (1, WRITERS):
            where = "one task" if tasks == 1 else f"{tasks} tasks"
            names = [f"T-{number}" for number in range(tasks)]
            ours = _prepare_ours(run.folder / f"ours-{tasks}", names)
            theirs = _prepare_theirs(run.folder / f"theirs-{tasks}", names)
            for label, folder, work, stored in (
                ("passdown", ours, _work_ours, _stored_ours),
                ("shared file", theirs, _work_theirs, _stored_theirs),
            ):
                run.say(f"concurrency: {where}, {label}")
                jobs = [Job(str(folder), n, names[n % tasks], handoffs) for n in range(WRITERS)]
                done = pool.map(work, jobs, chunksize=1)
                counts = _counted(done, stored(folder, names))
                found.figures[f"{label}, {where}"] = counts
                found.rows += _rows(label, where, counts, judged=label == "passdown")
    found.notes.append(
        "Lost: accepted, but not in what is stored. Told: refused because the version read was no "
        "longer the newest. Stale: accepted although it was not."
    )
    return found


def _take_barrier(barrier: Barrier) -> None:
    global _barrier  # noqa: PLW0603
    _barrier = barrier


def _prepare_ours(root: Path, names: list[str]) -> Path:
    root.mkdir(parents=True)
    write_files(root, 0, 1)
    root.mkdir(parents=True, exist_ok=True)
    with passdown.open(str(root)) as workspace:
        for name in names:
            workspace.create_task(name, title="A task", agent="lead")
    return root


def _prepare_theirs(root: Path, names: list[str]) -> Path:
    files = SharedFiles(root)
    for name in names:
        files.save(State(name))
    return root


def _named(job: Job, number: int) -> dict[str, Any]:
    """A handoff whose first decision carries a name that no other has."""
    given = handoff(job.task, 0)
    given["decisions"][0]["summary"] = f"writer {job.writer} handoff {number}"
    return given


def _think() -> None:
    time.sleep(random.uniform(0, 2 * THINKING_S))


def _work_ours(job: Job) -> Done:
    accepted: list[str] = []
    told = stale = 0
    with passdown.open(job.folder) as workspace:
        workspace.check_handoff(_named(job, 0))  # whatever is loaded on first use is loaded now
        _barrier.wait()
        started = time.time()
        for number in range(job.handoffs):
            given = _named(job, number)
            while True:
                version = workspace.task(job.task).version
                _think()
                try:
                    command = workspace.hand_off(given, expect_version=version)
                except passdown.errors.Conflict:
                    told += 1
                    continue
                stale += command.version != version + 1
                accepted.append(given["decisions"][0]["summary"])
                break
    return Done(accepted, told, stale, started, time.time())


def _stored_ours(root: Path, names: list[str]) -> list[str]:
    found: list[str] = []
    with passdown.open(str(root), create=False) as workspace:
        if not workspace.verify().ok:
            raise AssertionError("the store does not verify")
        for name in names:
            found += [d["summary"] for d in workspace.files.state_document(name)["decisions"]]
    return found


def _work_theirs(job: Job) -> Done:
    accepted: list[str] = []
    told = stale = 0
    files = SharedFiles(Path(job.folder))
    _barrier.wait()
    started = time.time()
    for number in range(job.handoffs):
        given = _named(job, number)
        while True:
            state = files.load(job.task)
            assert state is not None
            _think()
            try:
                files.save(with_handoff(state, given))
            except StaleState:
                told += 1
                continue
            accepted.append(given["decisions"][0]["summary"])
            break
    return Done(accepted, told, stale, started, time.time())


def _stored_theirs(root: Path, names: list[str]) -> list[str]:
    states = [SharedFiles(root).load(name) for name in names]
    return [d.decision for state in states if state for d in state.decisions_made]


def _counted(done: list[Done], stored: list[str]) -> dict[str, Any]:
    counts = Counter(stored)
    accepted = [name for each in done for name in each.accepted]
    elapsed = max(each.ended for each in done) - min(each.started for each in done)
    lost = sum(not counts[name] for name in accepted)
    return {
        "accepted": len(accepted),
        "lost": lost,
        "duplicated": sum(counts[name] > 1 for name in accepted),
        "told": sum(each.told for each in done),
        # A design that keeps no trace of what a handoff built on overwrites it: that is a loss.
        "stale_accepted": sum(each.stale_accepted for each in done),
        "per_second": len(accepted) / elapsed,
        "kept_per_second": (len(accepted) - lost) / elapsed,
    }


def _rows(label: str, where: str, counts: dict[str, Any], *, judged: bool) -> list[Row]:
    rate = f"{counts['kept_per_second']:,.0f} kept a second"
    of = f"{counts['accepted']} accepted, {counts['told']} told"
    lost = Row(
        f"{label}, {where}: lost",
        str(counts["lost"]),
        f"of {of}; {rate}",
        counts["lost"] if judged else None,
        NONE if judged else None,
    )
    if not judged:
        return [lost]
    others = [
        Row(f"{label}, {where}: {words}", str(counts[name]), "", counts[name], NONE)
        for name, words in (("duplicated", "duplicated"), ("stale_accepted", "stale accepted"))
    ]
    return [lost, *others]

"""What running a relay costs beside its agents, and what more workers bring.

The agents need no model: they sleep or compute for a set time and hand off. Workers are processes
that share a PostgreSQL as the engine's database; the ledger stays in its file.
"""

from __future__ import annotations

import subprocess
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import passdown
from bench.figures import Measured, Row, Target, median, ms, spread
from passdown.core.times import parse_time
from passdown.relay.run import run_stream
from passdown.workspace.streams import WorkspaceStreams

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from bench.run import Run

LEGS = 3
CREWS = (1, 2, 4)
SLEEPS_S = 0.2
COMPUTES_S = 0.1
EXPRESS_ITEMS = 5
PATIENCE_S = 600


class Timed(NamedTuple):
    """When the turns of a run were queued, begun and ended, in seconds of the clock."""

    queued: list[float]
    begun: list[float]
    ended: list[float]


def measure(run: Run) -> Measured:
    found = Measured("relays", "Relays: what a leg costs beside its agent, and more workers")
    _overhead(run, found)
    try:
        _crews(run, found)
    except ImportError as error:
        found.notes.append(f"Workers that share a database were not measured: {error}.")
    return found


def _overhead(run: Run, found: Measured) -> None:
    """A run in a process of its own, with an agent that answers at once."""
    legs, rounds = (10, 2) if run.quick else (40, 5)
    starts, each, waits, turns = (list[float]() for _ in range(4))
    for number in range(rounds):
        run.say(f"relays: {legs} legs with an instant agent ({number + 1} of {rounds})")
        spawned, timed = _alone(run.folder / f"relay-{number}", legs)
        starts.append(timed.begun[0] - spawned)
        each += [b - a for a, b in zip(timed.begun, timed.begun[1:], strict=False)]
        waits += [b - q for q, b in zip(timed.queued[1:], timed.begun[1:], strict=True)]
        turns += [e - b for b, e in zip(timed.begun, timed.ended, strict=True)]
    bare = [_bare_start() for _ in range(rounds)]
    found.rows += [
        Row("a leg with an instant agent, from one begin to the next", ms(median(each))),
        Row("of it: waiting in the lane", ms(median(waits))),
        Row("of it: brief, conversation, check and handoff", ms(median(turns))),
        Row(
            "cold start: from no process to the first turn",
            ms(median(starts)),
            f"{ms(median(bare))} python -c pass",
            median(starts) / median(bare),
        ),
    ]
    found.figures["overhead"] = {
        "leg": spread(each),
        "lane": spread(waits),
        "turn": spread(turns),
        "cold_start": spread(starts),
    }


def _alone(folder: Path, legs: int) -> tuple[float, Timed]:
    from passdown.relay.runs import Runs
    from tests.relay.relay_process import short_relay, start

    folder.mkdir()
    folder.mkdir(parents=True, exist_ok=True)
    with passdown.open(str(folder)) as ws:
        ws.create_task("T-1", title="Many legs", agent="lead")
        name = Runs(ws).start(short_relay(legs), "T-1", by="lead", lane="here").run
        spawned = time.time()
        process = start("run", folder=str(folder), turns=str(folder / "turns"))
        _, err = process.communicate(timeout=PATIENCE_S)
        if process.returncode:
            raise RuntimeError(err)
        return spawned, _times(ws, name)


def _times(ws: passdown.Workspace, run: str) -> Timed:
    timed = Timed([], [], [])
    for record in WorkspaceStreams(ws).records(run_stream(run)):
        at = parse_time(record.at).timestamp()
        if record.kind == "legs":
            timed.queued.extend([at] * len(record.document()["legs"]))
        elif record.kind == "begun":
            timed.begun.append(at)
        elif record.kind == "leg_ended":
            timed.ended.append(at)
    return timed


def _bare_start() -> float:
    import sys

    began = time.time()
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    return time.time() - began


def _crews(run: Run, found: Measured) -> None:
    from tests.postgres import new_database, running_server

    relays = 8 if run.quick else 200
    kinds = {"sleeps": {"seconds": SLEEPS_S}, "computes": {"computes": COMPUTES_S}}
    waits, lasted = list[float](), list[float]()
    took: dict[str, dict[int, float]] = {kind: {} for kind in kinds}
    with running_server() as server:
        for kind, options in kinds.items():
            for workers in _sizes(kind, quick=run.quick):
                run.say(f"relays: {relays} relays, {workers} workers, an agent that {kind}")
                folder = run.folder / f"{kind}-{workers}"
                crew = _crew(folder, new_database(server), relays, workers, options)
                took[kind][workers] = crew.took
                if kind == "sleeps":
                    waits += crew.waits
                    lasted += crew.lasted
    found.rows += [row for kind in kinds for row in _crew_rows(kind, relays, took[kind])]
    found.rows.append(
        Row(
            "an express item meanwhile: wait from sent to begun",
            ms(median(waits)),
            f"{ms(median(lasted))} one leg; longest wait {ms(max(waits))}",
            median(waits) / median(lasted),
            Target("at most", 1),
        )
    )
    found.figures["crews"] = {"relays": relays, "took_s": took, "express": spread(waits)}
    found.notes.append(
        f"Each of the {relays} relays has {LEGS} legs; a worker takes one at a time. Timed from "
        "the first begin to the last end. The express lane has a slot of its own in each worker."
    )


def _sizes(kind: str, *, quick: bool) -> tuple[int, ...]:
    """How many workers to try; a short run only compares one with four, on agents that sleep."""
    if not quick:
        return CREWS
    return (1, 4) if kind == "sleeps" else ()


def _crew_rows(kind: str, relays: int, took: dict[int, float]) -> list[Row]:
    import os

    rows: list[Row] = []
    for workers in sorted(took)[1:]:
        # Sleeping agents use no processor; computing ones gain nothing beyond the cores.
        useful = workers if kind == "sleeps" else min(workers, os.cpu_count() or 1)
        target = Target("at least", 0.6 * useful) if useful == workers else None
        rows.append(
            Row(
                f"{relays} relays whose agent {kind}, {workers} workers",
                ms(took[workers]),
                f"{ms(took[1])} one worker",
                took[1] / took[workers],
                target,
            )
        )
    return rows


class Crew(NamedTuple):
    """How long some workers took for all relays, how long express items waited meanwhile, and
    how long each leg was under way.
    """

    took: float
    waits: list[float]
    lasted: list[float]


def _crew(folder: Path, url: str, relays: int, workers: int, options: dict[str, float]) -> Crew:
    from passdown.relay.runs import Runs
    from tests.relay.relay_process import short_relay

    _repository(folder)
    (folder / "agents").mkdir(parents=True, exist_ok=True)
    for number in range(EXPRESS_ITEMS):  # items go to agents that are known
        (folder / "agents" / f"helper-{number}.md").write_text("You help.\n")
    with passdown.open(str(folder)) as ws:
        runs = Runs(ws)
        names: list[str] = []
        for number in range(relays):
            ws.create_task(f"T-{number}", title="Three legs", agent="lead")
            names.append(runs.start(short_relay(LEGS), f"T-{number}", by="lead").run)
        with _working(folder, url, workers, options):
            deadline = time.monotonic() + PATIENCE_S
            while not any(turn.worker for turn in runs.get(names[0]).legs.values()):
                _check_patience(deadline)
                time.sleep(0.05)
            waits = [_express_wait(ws, url, number) for number in range(EXPRESS_ITEMS)]
            while not all(runs.get(name).ended_at for name in reversed(names)):
                _check_patience(deadline)
                time.sleep(0.1)
        timed = [_times(ws, name) for name in names]
    began = min(each.begun[0] for each in timed)
    lasted = [e - b for each in timed for b, e in zip(each.begun, each.ended, strict=True)]
    return Crew(max(each.ended[-1] for each in timed) - began, waits, lasted)


def _express_wait(ws: passdown.Workspace, url: str, number: int) -> float:
    """How long an item waits before a worker begins it."""
    from passdown.relay.express import express_record, submit

    name = f"X-{number}"
    item = {
        "id": name,
        "kind": "file_task",
        "by": "lead",
        "agents": [f"helper-{number}"],
        "reason": "Measure the express lane",
        "path": f"note-{number}.txt",
        "action": "write",
        "content": "small\n",
    }
    began = time.time()
    submit(ws, item, url=url)
    deadline = time.monotonic() + 30
    while not (begun := express_record(ws, name).run.legs[1].begun_at):
        _check_patience(deadline)
        time.sleep(0.01)
    return parse_time(begun).timestamp() - began


@contextmanager
def _working(folder: Path, url: str, workers: int, options: dict[str, float]) -> Generator[None]:
    from tests.relay.relay_process import start

    turns = str(folder.parent / f"{folder.name}.turns")
    crew = [
        start("work", folder=str(folder), turns=turns, url=url, **options) for _ in range(workers)
    ]
    try:
        yield
    finally:
        for process in crew:
            process.terminate()
        for process in crew:
            process.communicate(timeout=PATIENCE_S)


def _check_patience(deadline: float) -> None:
    if time.monotonic() > deadline:
        raise RuntimeError("the workers don't come to an end")


def _repository(folder: Path) -> None:
    folder.mkdir()
    (folder / ".gitignore").write_text(".passdown/\n", "utf-8")
    who = ("-c", "user.name=Bench", "-c", "user.email=bench@example.com")
    for command in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "first")):
        subprocess.run(["git", *who, *command], cwd=folder, check=True)

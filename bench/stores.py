"""Handoffs per second by 1, 4 and 16 writers, on both stores, beside bare inserts.

Each writer is a process with a task of its own. A bare insert is one synced commit of a record's
bytes into a table of its own in the same database, by as many processes, in the same run. With one
writer, what the transaction alone would allow is shown as well: a handoff without its state file,
which is synced by itself, and without reading and checking its input.
"""

from __future__ import annotations

import multiprocessing
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import passdown
from bench.figures import Measured, Row, Target, median
from bench.stages import TRANSACTION, Stages
from bench.workload import handoff, write_files
from passdown import Settings
from passdown.store import is_postgres

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.synchronize import Barrier

    from bench.run import Run

CREWS = (1, 4, 16)
ROUNDS = 3
SETTINGS = Settings(embedder="none", phase_gates={})
BODY = b"x" * 3_000
TARGET = Target("at least", 0.5)

_barrier: Barrier


class Job(NamedTuple):
    """What one process has to do, and with how many others."""

    folder: str
    url: str
    writer: int
    first: int
    count: int


class Span(NamedTuple):
    """When one process began and ended, and how long it was in transactions meanwhile."""

    began: float
    ended: float
    in_transaction: float


class Rates(NamedTuple):
    """How many a second, round by round."""

    handoffs_per_s: list[float]
    raw_per_s: list[float]
    transactions_per_s: list[float]


def measure(run: Run) -> Measured:
    from tests.postgres import new_database, new_workspace, running_server

    found = Measured("stores", "Writers on SQLite and on PostgreSQL")
    with running_server() as server:
        database = new_database(server)
        for kind, url in (("SQLite", ""), ("PostgreSQL", new_workspace(database))):
            for writers in CREWS:
                run.say(f"stores: {kind}, {writers} writers")
                rates = _rates(run, kind, url, writers)
                found.figures[f"{kind}, {writers}"] = rates._asdict()
                found.rows += _rows(f"{kind}, {_counted(writers)}", rates, run, writers)
    found.notes.append(
        "A handoff is a whole call of `hand_off`: validated, some thirty rows in one transaction, "
        "and the state file, which is synced after it. A bare insert is one sync and nothing "
        "else, so one writer, who waits for two, could reach little more than half of it. One "
        "writer has a target; in a short run, of ten handoffs each, the disk decides more than the "
        "code, so there it isn't judged."
    )
    return found


def _rows(what: str, rates: Rates, run: Run, writers: int) -> list[Row]:
    raw = median(rates.raw_per_s)
    beside = f"{raw:,.0f} bare inserts/s"
    ours, alone = median(rates.handoffs_per_s), median(rates.transactions_per_s)
    target = TARGET if writers == 1 and not run.quick else None
    rows = [Row(what, f"{ours:,.0f} handoffs/s", beside, ours / raw, target)]
    if writers == 1:
        shown = f"{alone:,.0f} transactions/s"
        rows.append(Row(f"{what}, the transaction alone", shown, beside, alone / raw))
    return rows


def _counted(writers: int) -> str:
    return "1 writer" if writers == 1 else f"{writers} writers"


def _rates(run: Run, kind: str, url: str, writers: int) -> Rates:
    """Handoffs and bare inserts per second, in alternating rounds."""
    folder = run.folder / f"{kind}-{writers}"
    target = url or f"sqlite:///{folder / 'ledger.db'}"
    folder.mkdir(parents=True)
    count = 10 if run.quick else 40
    write_files(folder, 0, count * (ROUNDS + 1))
    with passdown.open(target, settings=SETTINGS) as ws:
        for writer in range(writers):
            ws.create_task(f"T-{writers}-{writer}", title="Work", agent="planner")
    _prepare_raw(str(folder), target)
    context = multiprocessing.get_context("spawn")
    rates: dict[Callable[[Job], Span], list[float]] = {_hand_off: [], _insert: []}
    alone: list[float] = []
    with context.Pool(writers, _take_barrier, (context.Barrier(writers),)) as pool:
        for number in range(ROUNDS + 1):
            for work, found in rates.items():
                jobs = [Job(str(folder), target, n, number * count, count) for n in range(writers)]
                spans = pool.map(work, jobs, 1)
                took = max(span.ended for span in spans) - min(span.began for span in spans)
                if number:  # the first round warms up
                    found.append(writers * count / took)
                    if work is _hand_off:
                        alone.append(writers * count / sum(span.in_transaction for span in spans))
    return Rates(rates[_hand_off], rates[_insert], alone)


def _take_barrier(barrier: Barrier) -> None:
    global _barrier  # noqa: PLW0603 - a pool hands it to each process once
    _barrier = barrier


def _hand_off(job: Job) -> Span:
    import os

    os.chdir(job.folder)
    writers = int(Path(job.folder).name.rpartition("-")[2])
    task = f"T-{writers}-{job.writer}"
    with passdown.open(job.url, settings=SETTINGS) as ws:
        given = [handoff(task, job.first + number) for number in range(job.count)]
        ws.task(task)
        _barrier.wait()
        began = time.monotonic()
        with Stages().watching(ws) as stages:
            for each in given:
                stages.hand_off(partial(ws.hand_off, each))
        return Span(began, time.monotonic(), sum(stages.times[TRANSACTION]))


def _prepare_raw(folder: str, url: str) -> None:
    _raw(folder, url, "CREATE TABLE IF NOT EXISTS bare (id INTEGER PRIMARY KEY, body BLOB)")(None)


def _raw(folder: str, url: str, statement: str) -> Callable[[bytes | None], None]:
    """Runs a statement as one synced transaction."""
    if is_postgres(url):
        return _raw_postgres(url, statement)
    import apsw

    connection = apsw.Connection(str(Path(folder, "bare.db")))
    connection.set_busy_timeout(60_000)
    connection.execute("PRAGMA synchronous = EXTRA")
    connection.execute("PRAGMA journal_mode = WAL")
    return lambda body: list(connection.execute(statement, (body,) if body else ())) and None


def _raw_postgres(url: str, statement: str) -> Callable[[bytes | None], None]:
    import psycopg

    from passdown.store import database_url

    if statement.startswith("CREATE"):
        statement = "CREATE TABLE IF NOT EXISTS bare (id bigserial PRIMARY KEY, body bytea)"
    statement = statement.replace("?", "%s")
    connection = psycopg.connect(database_url(url), autocommit=True, prepare_threshold=0)
    return lambda body: connection.execute(statement, (body,) if body else None) and None


def _insert(job: Job) -> Span:
    run = _raw(job.folder, job.url, "INSERT INTO bare (body) VALUES (?)")
    _barrier.wait()
    began = time.monotonic()
    for _ in range(job.count):
        run(BODY)
    return Span(began, time.monotonic(), 0.0)

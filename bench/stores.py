"""Handoffs per second by 1, 4 and 16 writers, on both stores, beside bare inserts.

Each writer is a process with a task of its own. A bare insert is one synced commit of a record's
bytes into a table of its own in the same database, by as many processes, in the same run.
"""

from __future__ import annotations

import multiprocessing
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import passdown
from bench.figures import Measured, Row, median
from bench.workload import handoff, write_files
from passdown import Settings
from passdown.store.addresses import is_postgres

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.synchronize import Barrier

    from bench.run import Run

CREWS = (1, 4, 16)
ROUNDS = 3
SETTINGS = Settings(embedder="none", phase_gates={})
BODY = b"x" * 3_000

_barrier: Barrier


class Job(NamedTuple):
    """What one process has to do, and with how many others."""

    folder: str
    url: str
    writer: int
    first: int
    count: int


def measure(run: Run) -> Measured:
    from tests.postgres import new_database, new_workspace, running_server

    found = Measured("stores", "Writers on SQLite and on PostgreSQL")
    with running_server() as server:
        database = new_database(server)
        for kind, url in (("SQLite", ""), ("PostgreSQL", new_workspace(database))):
            for writers in CREWS:
                run.say(f"stores: {kind}, {writers} writers")
                ours, raw = _rates(run, kind, url, writers)
                found.figures[f"{kind}, {writers}"] = {"handoffs_per_s": ours, "raw_per_s": raw}
                found.rows.append(
                    Row(
                        f"{kind}, {_counted(writers)}",
                        f"{median(ours):,.0f} handoffs/s",
                        f"{median(raw):,.0f} bare inserts/s",
                        median(ours) / median(raw),
                    )
                )
    found.notes.append(
        "A handoff is a whole call of `hand_off`: validated, some thirty rows in one transaction, "
        "and the handle file, which is synced as well. The ratio has no target in this table: a "
        "bare insert is the most that the database can do, not a peer."
    )
    return found


def _counted(writers: int) -> str:
    return "1 writer" if writers == 1 else f"{writers} writers"


def _rates(run: Run, kind: str, url: str, writers: int) -> tuple[list[float], list[float]]:
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
    rates: dict[Callable[[Job], tuple[float, float]], list[float]] = {_hand_off: [], _insert: []}
    with context.Pool(writers, _take_barrier, (context.Barrier(writers),)) as pool:
        for number in range(ROUNDS + 1):
            for work, found in rates.items():
                jobs = [Job(str(folder), target, n, number * count, count) for n in range(writers)]
                spans = pool.map(work, jobs, 1)
                took = max(end for _, end in spans) - min(start for start, _ in spans)
                if number:  # the first round warms up
                    found.append(writers * count / took)
    return rates[_hand_off], rates[_insert]


def _take_barrier(barrier: Barrier) -> None:
    global _barrier  # noqa: PLW0603 - a pool hands it to each process once
    _barrier = barrier


def _hand_off(job: Job) -> tuple[float, float]:
    import os

    os.chdir(job.folder)
    writers = int(Path(job.folder).name.rpartition("-")[2])
    task = f"T-{writers}-{job.writer}"
    with passdown.open(job.url, settings=SETTINGS) as ws:
        given = [handoff(task, job.first + number) for number in range(job.count)]
        ws.task(task)
        _barrier.wait()
        began = time.monotonic()
        for each in given:
            ws.hand_off(each)
        return began, time.monotonic()


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

    from passdown.store.addresses import database_of

    if statement.startswith("CREATE"):
        statement = "CREATE TABLE IF NOT EXISTS bare (id bigserial PRIMARY KEY, body bytea)"
    statement = statement.replace("?", "%s")
    connection = psycopg.connect(database_of(url), autocommit=True, prepare_threshold=0)
    return lambda body: connection.execute(statement, (body,) if body else None) and None


def _insert(job: Job) -> tuple[float, float]:
    run = _raw(job.folder, job.url, "INSERT INTO bare (body) VALUES (?)")
    _barrier.wait()
    began = time.monotonic()
    for _ in range(job.count):
        run(BODY)
    return began, time.monotonic()

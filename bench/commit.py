"""A handoff's record with everything derived, beside one bare synced commit of the same bytes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import apsw

from bench.figures import Measured, Row, Target, kib, median, ms, seconds, spread
from bench.stages import TRANSACTION, VALIDATION, Stages
from bench.workload import Ours
from passdown.store.sqlite.schema import rows

if TYPE_CHECKING:
    from pathlib import Path

    from bench.run import Run

TARGET = Target("at most", 4, is_goal=True)
BYTES = Target("at most", 3, is_goal=True)


def measure(run: Run) -> Measured:
    found = Measured("commit", "A handoff beside a bare synced commit")
    rounds, warm_up = (80, 100) if run.quick else (400, 300)
    ours = Ours(run.folder / "commit")
    ours.task("T")
    run.say(f"commit: {rounds} of each")
    ours.grow("T", warm_up)
    ours.prepare(warm_up + rounds + 1)
    body = _body_of_last(ours)
    bare = bare_database(run.folder / "bare.db")
    for _ in range(warm_up):
        insert(bare, body)
    stages, commits, before = Stages(), list[float](), ours.database_bytes()
    with stages.watching(ours.workspace):
        for _ in range(rounds):
            stages.hand_off(partial(ours.hand_off, "T"))
            commits.append(seconds(partial(insert, bare, body)))
    bare.close()
    stored = (ours.database_bytes() - before) / rounds
    recorded = stages.together(VALIDATION, TRANSACTION)
    beside = f"{ms(median(commits))} bare commit"
    found.rows = [
        Row(what, ms(median(times)), beside, median(times) / median(commits), target)
        for what, times, target in (
            ("recorded, with every derived row", stages.times[TRANSACTION], None),
            ("the same, and validated before", recorded, None),
            ("whole call, with the state file", stages.totals, TARGET),
        )
    ]
    size = len(body)
    found.rows.append(
        Row("bytes added to the database", kib(stored), f"{kib(size)} body", stored / size, BYTES)
    )
    ours.close()
    found.figures = {
        "bare": spread(commits),
        "validated_and_recorded": spread(recorded),
        "transaction": spread(stages.times[TRANSACTION]),
        "whole": spread(stages.totals),
        "body_bytes": len(body),
    }
    found.notes += [
        f"The bare commit is one insert of a record body's {len(body):,} bytes into a table of its "
        "own: WAL, synchronous=EXTRA.",
        "Recorded is one transaction with the version check, gates, the chain, the record and all "
        "derived rows; checking the input comes before it and is shown apart.",
    ]
    found.notes += stages.notes()
    return found


def _body_of_last(ours: Ours) -> bytes:
    with ours.workspace._context.store.reading() as reader:
        return reader.latest(2**62, 1)[0].body


def bare_database(path: Path) -> apsw.Connection:
    connection = apsw.Connection(str(path))
    for pragma in ("PRAGMA synchronous = EXTRA", "PRAGMA journal_mode = WAL"):
        rows(connection, pragma)
    rows(connection, "CREATE TABLE bodies (id INTEGER PRIMARY KEY, body BLOB NOT NULL)")
    return connection


def insert(connection: apsw.Connection, body: bytes) -> None:
    rows(connection, "INSERT INTO bodies (body) VALUES (?)", (body,))

"""A large store, filled quickly: records chained and derived as an import does it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import passdown
from bench.workload import Ours
from passdown.core.kinds import stream_of
from passdown.core.record import Head, Record, canonical_bytes, chained
from passdown.ledger.writer import derive_again

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from bench.run import Run

PER_TASK = 100
_BATCH = 50


def make(folder: Path, records: int, run: Run) -> Path:
    """A workspace with a task "T" of ten records, and other tasks to make `records` in all."""
    ours = Ours(folder)
    ours.task("T")
    ours.grow("T", 10)
    store = ours.workspace._context.store
    with store.reading() as reader:
        created, template = list(reader.records(stream_of("T"), until=2))
    tasks = records // PER_TASK
    for first in range(0, tasks, _BATCH):
        with store.writing([]) as writer:
            for number in range(first, min(first + _BATCH, tasks)):
                for record in _stream(f"filler-{number}", created, template):
                    derive_again(writer, writer.append(record))
        if first % 250 == 0:
            run.say(f"filling a store: {first * PER_TASK:,} of {records:,} records")
    ours.close()
    return folder


def _stream(task: str, created: Record, template: Record) -> Iterator[Record]:
    """The records of one task: its making, then handoffs like the template."""
    stream = stream_of(task)
    body = template.document()
    first = created._replace(stream=stream, key=f"made-{task}", seq=0)
    record = chained(first, None)
    yield record
    for number in range(1, PER_TASK):
        data = canonical_bytes(_varied(body, task, number))
        head = Head(stream, record.position, record.digest)
        following = template._replace(stream=stream, key=f"{task}-{number}", body=data, seq=0)
        record = chained(following, head)
        yield record


def _varied(body: dict[str, Any], task: str, number: int) -> dict[str, Any]:
    decisions = [{**d, "summary": f"{d['summary']} ({task}, {number})"} for d in body["decisions"]]
    artifacts = [
        {**a, "path": f"src/{task}/{number}_{index}.py"}
        for index, a in enumerate(body["artifacts"])
    ]
    return {**body, "decisions": decisions, "artifacts": artifacts}


def open_at(folder: Path) -> passdown.Workspace:
    return passdown.open(str(folder), create=False)

"""Opening a workspace and reading a task for the first time, in a large and in a small store."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from bench import large
from bench.figures import Measured, Row, Target, interleaved, median, ms, spread

if TYPE_CHECKING:
    from pathlib import Path

    from bench.run import Run

TARGET = Target("at most", 1.3)


def measure(run: Run) -> Measured:
    found = Measured("opening", "Opening a large store beside a small one")
    small = large.make(run.folder / "small", 10, run)
    run.say("opening")
    calls = {"large": partial(_open, run.large), "small": partial(_open, small)}
    interleaved(calls, 5)
    times = interleaved(calls, 60 if run.quick else 300)
    a, b = median(times["large"]), median(times["small"])
    what = f"open and first read, {run.records:,} records"
    found.rows = [Row(what, ms(a), f"{ms(b)} with 10 records", a / b, TARGET)]
    found.figures = {name: spread(samples) for name, samples in times.items()}
    found.figures["records"] = run.records
    return found


def _open(folder: Path) -> None:
    with large.open_at(folder) as workspace:
        workspace.files.state_document("T")

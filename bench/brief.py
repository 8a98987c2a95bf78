"""What a brief costs: on a long task beside a short one, beside a bare synced commit, and how long
it takes.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from bench.commit import bare_database, insert
from bench.figures import Measured, Row, Target, interleaved, median, ms, spread
from bench.workload import Ours

if TYPE_CHECKING:
    from bench.run import Run

LOW = 10
BUDGET = 500
BODY = 3_000
"""About the bytes of a delivery's record."""
TARGET = Target("at most", 1.3)
MILLISECONDS = Target("at most", 3)
COMMITS = Target("at most", 3, is_goal=True)


def measure(run: Run) -> Measured:
    found = Measured("brief", "A brief of 500 tokens: a long task beside a short one")
    grown, young = run.grown, Ours(run.folder / "briefed")
    run.say(f"brief: up to {run.top:,} handoffs")
    grown.grow("T", run.top + 1)
    young.grow(young.task("T"), LOW + 1)
    for ours in (grown, young):
        for record in (True, False):
            _brief(ours, record=record)
    bare, body = bare_database(run.folder / "briefed.db"), b"x" * BODY
    insert(bare, body)
    rounds = 60 if run.quick else 300
    run.say("brief: in alternation")
    times = interleaved(
        {
            "long": partial(_brief, grown, record=True),
            "short": partial(_brief, young, record=True),
            "long, unrecorded": partial(_brief, grown, record=False),
            "short, unrecorded": partial(_brief, young, record=False),
            "bare": partial(insert, bare, body),
        },
        rounds,
    )
    young.close()
    bare.close()
    middle = {name: median(samples) for name, samples in times.items()}
    label = f"at {run.top:,} handoffs"
    found.rows = [
        Row(
            f"brief made and its delivery recorded, {label}",
            ms(middle["long"]),
            f"{ms(middle['short'])} at {LOW}",
            middle["long"] / middle["short"],
            TARGET,
        ),
        Row(
            f"brief made, {label}",
            ms(middle["long, unrecorded"]),
            f"{ms(middle['short, unrecorded'])} at {LOW}",
            middle["long, unrecorded"] / middle["short, unrecorded"],
            TARGET,
        ),
        Row(
            f"brief made and its delivery recorded, at {LOW} handoffs",
            ms(middle["short"]),
            f"{ms(middle['bare'])} bare commit",
            middle["short"] / middle["bare"],
            COMMITS,
        ),
        Row(
            f"milliseconds, made and recorded, {label}",
            ms(middle["long"]),
            "",
            middle["long"] * 1e3,
            MILLISECONDS,
        ),
    ]
    found.figures = {name: spread(samples) for name, samples in times.items()}
    return found


def _brief(ours: Ours, *, record: bool) -> None:
    ours.workspace.brief("T", agent="coder", budget=BUDGET, record=record)

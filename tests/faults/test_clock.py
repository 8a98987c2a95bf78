"""Order never depends on the wall clock: it may jump, versions don't."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

import passdown
from tests.faults.tools import make_store, seeded, write

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def jumping(jumps: list[timedelta]) -> Callable[[], datetime]:
    """A clock that shows the next of some times whenever it is asked."""
    times = iter(jumps * 100)
    return lambda: START + next(times)


def at_random() -> list[timedelta]:
    rng = seeded("clock")
    return [timedelta(days=rng.randint(-3650, 3650)) for _ in range(40)]


@pytest.mark.promise("P-2")
@pytest.mark.parametrize(
    "jumps",
    [
        [timedelta(days=-400)],
        [timedelta(days=400)],
        [timedelta(hours=-n) for n in range(40)],
        [timedelta(0), timedelta(days=-9000), timedelta(days=9000)],
        at_random(),
    ],
    ids=["behind", "ahead", "backwards", "to and fro", "random"],
)
def test_a_jumping_clock_changes_no_order(tmp_path: Path, jumps: list[timedelta]) -> None:
    make_store(tmp_path, ["T-1", "T-2"])
    with passdown.open(str(tmp_path), clock=jumping(jumps)) as ws:
        acks = [write(ws, f"T-{n % 2 + 1}", f"h-{n}") for n in range(20)]
        for task in ("T-1", "T-2"):
            keys = [ack.key for ack in acks if ack.task == task]
            lines = ws.log(task, limit=100)[::-1][1:]
            assert [line.key for line in lines] == keys
            assert [line.version for line in lines] == list(range(2, 12))
            summaries = [decision.summary for decision in ws.state(task).decisions]
            assert summaries == [f"chose {key}" for key in keys]
        whole = [line.key for line in ws.log(limit=100)[::-1]][2:]
        assert whole == [ack.key for ack in acks]
        assert ws.verify().ok
        assert ws.maintenance.reindex().differing == ()
    with passdown.open(str(tmp_path)) as ws:
        assert ws.verify().ok
        assert write(ws, "T-1", "h-later").version == 12


def test_control_the_times_really_jump(tmp_path: Path) -> None:
    make_store(tmp_path, ["T-1"])
    with passdown.open(str(tmp_path), clock=jumping([timedelta(0), timedelta(days=-1)])) as ws:
        for number in range(4):
            write(ws, "T-1", f"h-{number}")
        times = [line.at for line in ws.log("T-1")[::-1][1:]]
    assert times != sorted(times)

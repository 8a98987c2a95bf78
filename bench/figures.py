"""What a measurement gives: rows for the table, figures for the file, and targets to be judged by.

A target stands beside a ratio of two things measured in the same run, in alternation. A short run
has fewer rounds to average over, so it is judged with an allowance; the table says which.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

QUICK_ALLOWANCE = 1.5
"""In a short run a ratio may be off its target by this factor."""


@dataclass(frozen=True)
class Target:
    """What a ratio has to be. `exactly` is for things that are counted: no allowance.

    A goal that was never reached is one to work on: missing it is shown, and fails no run.
    """

    sense: Literal["at least", "at most", "exactly"]
    value: float
    is_goal: bool = False

    def limit(self, *, quick: bool) -> float:
        """The value that decides, with the allowance of a short run."""
        if not quick or self.sense == "exactly":
            return self.value
        by_sense = {"at least": 1 / QUICK_ALLOWANCE, "at most": QUICK_ALLOWANCE}
        return self.value * by_sense[self.sense]

    def is_met(self, ratio: float, *, quick: bool) -> bool:
        limit = self.limit(quick=quick)
        if self.sense == "exactly":
            return ratio == limit
        return ratio >= limit if self.sense == "at least" else ratio <= limit


@dataclass(frozen=True)
class Row:
    """One line of the table: what was measured, beside what, and the ratio with its target."""

    what: str
    measured: str
    beside: str = ""
    ratio: float | None = None
    target: Target | None = None


@dataclass
class Measured:
    """Everything that one measurement found."""

    name: str
    title: str
    rows: list[Row] = field(default_factory=list[Row])
    figures: dict[str, Any] = field(default_factory=dict[str, Any])
    notes: list[str] = field(default_factory=list[str])


def median(samples: Iterable[float]) -> float:
    return statistics.median(samples)


def spread(samples: list[float]) -> dict[str, float]:
    """A distribution for the results file, in milliseconds."""
    cuts = statistics.quantiles(samples, n=10) if len(samples) > 1 else [samples[0]] * 9
    return {
        "median_ms": median(samples) * 1e3,
        "tenth_ms": cuts[0] * 1e3,
        "ninetieth_ms": cuts[8] * 1e3,
        "samples": len(samples),
    }


def seconds(call: Callable[[], object]) -> float:
    """How long a call takes."""
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def interleaved(calls: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Time every call once a round, in alternating order, so that noise falls on all alike."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    order = list(calls)
    for _ in range(rounds):
        for name in order:
            times[name].append(seconds(calls[name]))
        order.reverse()
    return times


def ms(value: float) -> str:
    """A time, given in seconds, for the table."""
    if value >= 10:
        return f"{value:,.1f} s"
    digits = 2 if value < 0.1 else 0
    return f"{value * 1e3:,.{digits}f} ms"


def kib(value: float) -> str:
    """A size, given in bytes, for the table."""
    return f"{value / 1024:,.1f} KiB"

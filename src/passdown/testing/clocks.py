"""A clock that tells the time it is told."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

START = datetime(2026, 1, 9, 10, 0, tzinfo=UTC)


def fixed_clock(start: datetime = START, step_s: float = 1.0) -> Callable[[], datetime]:
    """A clock for `passdown.open` that starts at a moment and moves on by a step with each look."""
    looks = count()
    return lambda: start + timedelta(seconds=step_s * next(looks))

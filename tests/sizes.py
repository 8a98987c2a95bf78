"""How large a test is: examples that it draws, sizes of lines."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from passdown.core.tokens import DEFAULT_COUNTER, units, vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable


def cpu_seconds(work: Callable[[], object], enough: float = 0, tries: int = 3) -> float:
    """The least processor time that some work takes: other processes make it longer, never
    shorter. It is tried again until it takes no more than what is enough."""
    least = float("inf")
    while tries and least > enough:
        started = time.process_time()
        work()
        least = min(least, time.process_time() - started)
        tries -= 1
    return least


def counted(lines: tuple[str, str, str]) -> str:
    """Tokens and UTF-16 units of an item's three lines, as a row keeps them."""
    count = vocabulary(DEFAULT_COUNTER)
    return " ".join(map(str, (*map(count, lines), *map(units, lines))))


def example_count(few: int) -> int:
    """How many examples a property test draws: few for each change, many in `make soak`."""
    return few * 100 if os.environ.get("HYPOTHESIS_PROFILE") == "soak" else few

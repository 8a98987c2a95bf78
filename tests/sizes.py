"""How large a test is: examples that it draws, sizes of lines."""

from __future__ import annotations

import os

from passdown.core.tokens import DEFAULT_COUNTER, units, vocabulary


def counted(lines: tuple[str, str, str]) -> str:
    """Tokens and UTF-16 units of an item's three lines, as a row keeps them."""
    count = vocabulary(DEFAULT_COUNTER)
    return " ".join(map(str, (*map(count, lines), *map(units, lines))))


def example_count(few: int) -> int:
    """How many examples a property test draws: few for each change, many in `make soak`."""
    return few * 100 if os.environ.get("HYPOTHESIS_PROFILE") == "soak" else few

"""Sizes of lines, counted line by line: what the kept sizes of items have to be."""

from __future__ import annotations

from passdown.core.tokens import DEFAULT_COUNTER, units, vocabulary


def counted(lines: tuple[str, str, str]) -> str:
    """Tokens and UTF-16 units of an item's three lines, as a row keeps them."""
    count = vocabulary(DEFAULT_COUNTER)
    return " ".join(map(str, (*map(count, lines), *map(units, lines))))

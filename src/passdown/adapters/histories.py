"""Reading a long history in parts: lines by number, within a budget, and how to read on."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from passdown.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

TOOL = "read_history"
MAX_TOKENS = 10_000
CHARACTERS = 16
"""More than these for each token are taken for too long, uncounted."""
_WANTED = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9})|@([0-9]{1,9}))?")


class Line(NamedTuple):
    """A line of a history: its number and its text, from some character on."""

    number: int
    text: str
    start: int = 0


def chosen(lines: Sequence[Line], items: str) -> list[Line]:
    """The lines that `4-9,12` or `4@5000` names.

    Raises InvalidInput for what is no number or range, and where none has such a number.
    """
    wanted = _places(items)
    found = [
        Line(line.number, line.text[start:], start)
        for line in lines
        for first, last, start in wanted
        if first <= line.number <= last
    ]
    if not found:
        there = f"{lines[0].number} to {lines[-1].number}" if lines else "none yet"
        raise _unread(items, "no such item", there)
    return found


def text_of(lines: Iterable[Line]) -> str:
    """Lines as text, each with its number."""
    return "\n".join(_numbered(line) for line in lines)


def fitted(lines: Sequence[Line], budget: int, count: Callable[[str], int]) -> str:
    """As much of the lines as fits a budget of tokens, and how to read on."""
    shown: list[str] = []
    room = budget
    for index, line in enumerate(lines):
        text = _numbered(line)
        # Counting megabytes takes seconds, and a text of so many characters is too long anyway.
        tokens = count(text) if len(text) <= CHARACTERS * budget else budget + 1
        if tokens > room:
            if not shown:
                return _beginning(line, budget, count)
            rest = ranges_of(each.number for each in lines[index:])
            return "\n".join([*shown, f'Too long for one answer. On with: {TOOL}("{rest}")'])
        shown.append(text)
        room -= tokens
    return "\n".join(shown)


def _beginning(line: Line, budget: int, count: Callable[[str], int]) -> str:
    part = line.text[: 4 * budget]
    while part and count(part) > budget:
        part = part[: len(part) * 3 // 4]
    part = part or line.text[:1]
    end, whole = line.start + len(part), line.start + len(line.text)
    on = f'{end:,} of {whole:,} characters. On with: {TOOL}("{line.number}@{end}")'
    return "\n".join([_numbered(line._replace(text=part)), on])


def _numbered(line: Line) -> str:
    return f"{line.number}{f'@{line.start}' if line.start else ''} {line.text}"


def _places(text: str) -> list[tuple[int, int, int]]:
    """First, last and start of what `4-9,12@500` names. Raises InvalidInput."""
    matches = [_WANTED.fullmatch(part.strip()) for part in text.split(",")]
    found = [(int(m[1]), int(m[2] or m[1]), int(m[3] or 0)) for m in matches if m]
    if len(found) < len(matches):
        raise _unread(text, "can't be read", "numbers such as 4 or 4-9,12")
    return found


def _unread(items: str, message: str, expected: str) -> InvalidInput:
    problem = Problem("items", "invalid_range", f"{items[:60]!r}: {message}", expected)
    return InvalidInput("no items were read", [problem])


def ranges_of(numbers: Iterable[int], most: int = 4) -> str:
    """Numbers as text, `1-5,9`; with more than `most` pieces, the range that holds them all."""
    ordered = sorted(set(numbers))
    pieces: list[list[int]] = []
    for number in ordered:
        if pieces and pieces[-1][1] == number - 1:
            pieces[-1][1] = number
        else:
            pieces.append([number, number])
    if len(pieces) > most:
        pieces = [[ordered[0], ordered[-1]]]
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in pieces)

"""A text under edit that remembers what was put into it, to take it out exactly. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Cuts = list[list[int]]
"""Where inserted text stands: places and lengths, in characters."""


class Draft:
    """A text that is only ever added to; `cuts` says where, and `without` undoes it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._added = bytearray(len(text))

    def insert(self, at: int, text: str) -> None:
        """Put text at a place."""
        self.text = self.text[:at] + text + self.text[at:]
        self._added[at:at] = b"\1" * len(text)

    @property
    def cuts(self) -> Cuts:
        """Every run of inserted text, from the beginning."""
        found: Cuts = []
        at = self._added.find(1)
        while at >= 0:
            end = self._added.find(0, at)
            end = len(self._added) if end < 0 else end
            found.append([at, end - at])
            at = self._added.find(1, end)
        return found

    @property
    def newline(self) -> str:
        """How the text ends its lines."""
        return newline_of(self.text)


def without(text: str, cuts: Iterable[Sequence[int]]) -> str:
    """A text without the runs that were put into it."""
    kept: list[str] = []
    done = 0
    for at, length in cuts:
        kept.append(text[done:at])
        done = at + length
    return "".join([*kept, text[done:]])


def newline_of(text: str) -> str:
    """How a text ends its lines: as its first line does."""
    at = text.find("\n")
    return "\r\n" if at > 0 and text[at - 1] == "\r" else "\n"

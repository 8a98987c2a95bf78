"""What a word was probably meant to be."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

MOST = 20
LONGEST = 80


class Suggestions:
    """Suggestions for the words of one input. Comparing words takes long, so that only the first
    few are compared: who sends thousands of unknown words made no slip.
    """

    def __init__(self) -> None:
        self._left = MOST

    def of(self, word: str, known: Iterable[str], likeness: float = 0.6) -> str:
        """The nearest of the known words; empty where none is near."""
        if not self._left or len(word) > LONGEST:
            return ""
        from difflib import get_close_matches

        self._left -= 1
        close = get_close_matches(word, list(known), 1, likeness)
        return close[0] if close else ""

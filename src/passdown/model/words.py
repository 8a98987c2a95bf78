"""Text as the words that search compares (provisional)."""

from __future__ import annotations

import re

_WORD = re.compile(r"[^\W_]+")


def words(text: str) -> list[str]:
    """The words of a text, in order."""
    return [word.lower() for word in _WORD.findall(text)]


def keywords(text: str, limit: int) -> list[str]:
    """The words that stand out in a text."""
    return list(dict.fromkeys(word for word in words(text) if len(word) > 3))[:limit]

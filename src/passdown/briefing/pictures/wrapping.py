"""Text cut to lines that fit a box; wide characters count double."""

from __future__ import annotations

from unicodedata import east_asian_width


def wrapped(text: str, width: int, most: int) -> list[str]:
    """At most so many lines of at most that width; a text that is cut ends with `…`."""
    lines = [""]
    for word in (piece for whole in text.split() for piece in _pieces(whole, width)):
        joined = f"{lines[-1]} {word}" if lines[-1] else word
        if wide(joined) <= width:
            lines[-1] = joined
        else:
            lines.append(word)
    if len(lines) <= most:
        return lines
    return [*lines[: most - 1], shortened(f"{lines[most - 1]} {lines[most]}", width, is_cut=True)]


def shortened(text: str, width: int, *, is_cut: bool = False) -> str:
    """The text within a width; when something is missing, even before, it ends with `…`."""
    if wide(text) <= width and not is_cut:
        return text
    while wide(text) > width - 1:
        text = text[:-1]
    return text.rstrip() + "…"


def wide(text: str) -> int:
    """How many narrow letters a text is as wide as."""
    return len(text) if text.isascii() else sum(1 + (east_asian_width(c) in "WF") for c in text)


def _pieces(word: str, width: int) -> list[str]:
    """A word, broken where it is wider than a line."""
    if wide(word) <= width:
        return [word]
    pieces = [""]
    for char in word:
        if wide(pieces[-1] + char) > width:
            pieces.append("")
        pieces[-1] += char
    return pieces

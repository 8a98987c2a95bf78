"""Text cut to lines that fit a box.

Widths are in ems, estimated by the letters of a wide font (DejaVu Sans), since nobody knows in
which one a picture will be seen: a narrower font leaves room, and none runs over a box's edge.
"""

from __future__ import annotations

from unicodedata import east_asian_width

BOLD = 1.15
"""How much wider a bold text is."""

_WIDTHS = {
    **dict.fromkeys("ijlIJ'", 0.3),
    **dict.fromkeys(" ,./:;|\\-f", 0.36),
    **dict.fromkeys('()[]tr!"', 0.43),
    **dict.fromkeys("ABCDGHKNOQRUVXZ&", 0.79),
    **dict.fromkeys("#+<=>^~Mw", 0.86),
    **dict.fromkeys("%@Wm…", 1.0),
}
_LETTER = 0.64
_OTHER = 0.85
_WIDE = 1.3


def wrapped(text: str, width: float, most: int) -> list[str]:
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


def shortened(text: str, width: float, *, is_cut: bool = False) -> str:
    """The text within a width; when something is missing, even before, it ends with `…`."""
    if wide(text) <= width and not is_cut:
        return text
    while text and wide(text) > width - 1:
        text = text[:-1]
    return text.rstrip() + "…"


def wide(text: str) -> float:
    """How wide a text is at most, in ems."""
    return sum(_wide(char) for char in text)


def _wide(char: str) -> float:
    if char.isascii() or char == "…":
        return _WIDTHS.get(char, _LETTER)
    return _WIDE if east_asian_width(char) in "WF" or char > "\uffff" else _OTHER


def _pieces(word: str, width: float) -> list[str]:
    """A word, broken where it is wider than a line."""
    if wide(word) <= width:
        return [word]
    pieces = [""]
    for char in word:
        if wide(pieces[-1] + char) > width:
            pieces.append("")
        pieces[-1] += char
    return pieces

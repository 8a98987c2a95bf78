"""What the terminal can show: its width, the width of a text on it, and whether it has colours."""

from __future__ import annotations

import os
import sys
import unicodedata

_COLOURS = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


def terminal_width() -> int:
    """How many columns there are; 0 when output goes somewhere without a width."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isascii() and columns.isdigit() and int(columns) > 0:
        return max(int(columns), 20)
    try:
        return max(os.get_terminal_size(sys.stdout.fileno()).columns, 20)
    except (OSError, ValueError, AttributeError):
        return 0


def text_width(text: str) -> int:
    """How many columns a text takes; wide characters take two, combining marks none."""
    if text.isascii():
        return len(text)
    return sum(_char_width(char) for char in text)


def _char_width(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me") or "\ufe00" <= char <= "\ufe0f":
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def wrapped(text: str, width: int) -> list[str]:
    """One line as several of at most `width` columns, broken at spaces where there are any."""
    if width <= 0 or text_width(text) <= width:
        return [text]
    lines: list[str] = []
    line = ""
    for word in text.split(" "):
        if line and text_width(line) + 1 + text_width(word) > width:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}" if line else word
        while text_width(line) > width:
            head = _head(line, width)
            lines.append(head)
            line = line[len(head) :]
    return [*lines, line] if line else lines


def _head(text: str, width: int) -> str:
    """As much of the beginning as fits, but at least one character."""
    used = 0
    for index, char in enumerate(text):
        used += _char_width(char)
        if used > width and index:
            return text[:index]
    return text


def ellipsis() -> str:
    """The mark of what was left out, in characters that the output can spell."""
    is_unicode = (sys.stdout.encoding or "").lower().replace("-", "").startswith("utf")
    return "…" if is_unicode else "..."


def cut(text: str, width: int) -> str:
    """The beginning of a line that fits `width` columns, with an ellipsis where more follows."""
    if width <= 0 or text_width(text) <= width:
        return text
    mark = ellipsis()
    return _head(text, max(width - len(mark), 1)).rstrip() + mark


def has_colours() -> bool:
    """Whether standard output is a terminal that wants colours."""
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def styled(text: str, style: str) -> str:
    """`text` in a style (bold, dim, red, green, yellow, cyan) where there are colours."""
    return f"\x1b[{_COLOURS[style]}m{text}\x1b[0m" if has_colours() else text

"""Output: JSON for programs, tables and paragraphs for people; stored text is made visible."""

from __future__ import annotations

import json
import re
import sys
from typing import TYPE_CHECKING, Any

from passdown.model.text import visible
from passdown.surfaces.cli.terminal import (
    cut,
    ellipsis,
    styled,
    terminal_width,
    text_width,
    wrapped,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from passdown.errors import PassdownError, Problem
    from passdown.workspace.briefings import Freshness

_GAP = "  "
_NARROWEST = 8
_DIGITS = 12


def print_json(document: object) -> None:
    """Print a document as indented JSON that is safe to look at in a terminal."""
    is_unicode = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    text = json.dumps(document, ensure_ascii=not is_unicode, indent=2)
    if not text.isascii() or "\x7f" in text:
        # JSON strings may spell any character as an escape, so nothing is changed by this.
        text = _unsafe_in_json().sub(_json_escape, text)
    print(text)


def _unsafe_in_json() -> re.Pattern[str]:
    from passdown.model.text import ignorable

    return re.compile(f"[\x7f-\x9f\u2028\u2029\ud800-\udfff]|{ignorable().pattern}")


def _json_escape(match: re.Match[str]) -> str:
    point = ord(match.group())
    if point < 0x10000:
        return f"\\u{point:04x}"
    point -= 0x10000
    return f"\\u{0xD800 + (point >> 10):04x}\\u{0xDC00 + (point & 0x3FF):04x}"


def line(text: str = "", indent: int = 0) -> None:
    """Print text, visible and wrapped; line breaks in it stay."""
    width = terminal_width()
    for part in visible(text, keep_newlines=True).expandtabs(4).split("\n"):
        for piece in wrapped(part, max(width - indent, _NARROWEST) if width else 0):
            print(" " * indent + piece)


def verbatim(text: str) -> None:
    """Print text that is copied elsewhere: visible, and never wrapped."""
    print(visible(text, keep_newlines=True))


def counted(number: int, word: str, plural: str = "") -> str:
    """A number and what it counts: `1 record`, `2 records`."""
    return f"{number} {word}" if number == 1 else f"{number} {plural or word + 's'}"


def short_digest(digest: object) -> str:
    """The beginning of a digest, enough to tell two apart by eye."""
    kind, mark, digits = str(digest or "").rpartition(":")
    if len(digits) <= _DIGITS:
        return f"{kind}{mark}{digits}"
    return f"{kind}{mark}{digits[:_DIGITS]}{ellipsis()}"


def short_time(stamp: object) -> str:
    """A stored time as month, day and time of day, in UTC as it is stored."""
    return str(stamp or "")[5:19].replace("T", " ")


def labelled(label: str, style: str, text: str, indent: int = 0, column: int = 0) -> None:
    """Print a label in a style and text beside it, wrapped in a column of its own."""
    column = max(column, len(label) + len(_GAP))
    width = terminal_width()
    first = " " * indent + styled(label, style) + " " * (column - len(label))
    for part in visible(text, keep_newlines=True).expandtabs(4).split("\n"):
        for piece in wrapped(part, max(width - indent - column, _NARROWEST) if width else 0):
            print(first + piece)
            first = " " * (indent + column)


def heading(text: str) -> None:
    """Print a heading."""
    for piece in wrapped(visible(text), terminal_width()):
        print(styled(piece, "bold"))


def pairs(entries: Iterable[tuple[str, object]], indent: int = 0) -> None:
    """Print names and values in two columns; values that are empty are left out."""
    kept = [(name, shown(value)) for name, value in entries if value not in (None, "", [], (), {})]
    if not kept:
        return
    column = max(len(name) for name, _ in kept) + len(_GAP)
    width = terminal_width()
    if width and width - indent - column < _NARROWEST:
        for name, text in kept:
            line(name, indent)
            line(text, indent + 1)
        return
    for name, text in kept:
        first = " " * indent + name.ljust(column)
        for part in text.split("\n"):
            for piece in wrapped(part, max(width - indent - column, _NARROWEST) if width else 0):
                print(first + piece)
                first = " " * (indent + column)


def shown(value: object) -> str:
    """A value as visible text; lists are joined by commas, line breaks stay."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(shown(part) for part in value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(value, dict):
        return ", ".join(f"{visible(str(k))} {shown(v)}" for k, v in value.items())  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return "" if value is None else visible(str(value), keep_newlines=True).expandtabs(4)


def table(
    headers: Sequence[str],
    rows: Iterable[Sequence[object]],
    empty: str = "none",
    *,
    whole: Collection[str] = (),
    short: Collection[str] = (),
) -> None:
    """Print rows under headers, wrapped to the terminal; as blocks where columns get too narrow.

    Columns named in `whole` are never broken; those in `short` are cut instead of wrapped.
    """
    cells = [[visible(shown(value).replace("\n", " ")) for value in row] for row in rows]
    if not cells:
        print(visible(empty))
        return
    used = [i for i in range(len(headers)) if any(row[i] for row in cells)]
    titles = [headers[i] for i in used]
    cells = [[row[i] for i in used] for row in cells]
    widths = _fitted(titles, cells, whole)
    if not widths:
        _blocks(titles, cells)
        return
    print(styled(_row(titles, widths), "bold"))
    for row in cells:
        parts = [
            [cut(cell, width)] if title in short else wrapped(cell, width)
            for title, cell, width in zip(titles, row, widths, strict=True)
        ]
        for index in range(max(len(part) for part in parts)):
            print(_row([part[index] if index < len(part) else "" for part in parts], widths))


def _row(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = [c + " " * max(w - text_width(c), 0) for c, w in zip(cells, widths, strict=True)]
    return _GAP.join(padded).rstrip()


def _fitted(titles: list[str], cells: list[list[str]], whole: Collection[str]) -> list[int]:
    """Column widths that fit the terminal, the widest shortened first; nothing when none do."""
    widths = [
        max(text_width(title), *(text_width(row[i]) for row in cells))
        for i, title in enumerate(titles)
    ]
    limit = terminal_width()
    if not limit:
        return widths
    room = limit - len(_GAP) * (len(widths) - 1)
    floors = [
        width if title in whole else max(min(width, _NARROWEST), len(title))
        for title, width in zip(titles, widths, strict=True)
    ]
    if sum(floors) > room:
        return []
    while sum(widths) > room:
        widest = max(range(len(widths)), key=lambda i: widths[i] - floors[i])
        rest = sorted(widths, reverse=True)
        step = max(1, min(sum(widths) - room, widths[widest] - max(rest[1:2], default=0)))
        widths[widest] = max(widths[widest] - step, floors[widest])
    return widths


def _blocks(titles: list[str], cells: list[list[str]]) -> None:
    for index, row in enumerate(cells):
        if index:
            print()
        pairs(zip(titles, row, strict=True))


def print_problems(problems: Iterable[Problem], indent: int = 2) -> None:
    """Print problems as a list, one line each; recommended fields share a line."""
    recommended: list[str] = []
    for problem in problems:
        if problem.code == "recommended":
            recommended.append(problem.path)
            continue
        style = "yellow" if problem.level == "warning" else "red"
        labelled(problem.level, style, problem.line(), indent, len("warning") + len(_GAP))
    if recommended:
        line(f"recommended, missing: {', '.join(recommended)}", indent)


def print_findings(findings: Iterable[Mapping[str, Any]]) -> None:
    """Print findings that are plain objects with the fields of a problem."""
    from passdown.errors import Problem as Finding

    print_problems([Finding(**finding) for finding in findings], 0)


def print_misuse(message: str, help: str, *, as_json: bool) -> None:
    """Say in one line how a command is wrong and where to read on."""
    if as_json:
        print_json({"error": "misuse", "message": message, "next_step": help})
    else:
        print(visible(f"{message} (see: {help})"), file=sys.stderr)


def print_error(error: PassdownError, *, as_json: bool) -> None:
    """Say why something was refused: text on standard error, or JSON on standard output."""
    if as_json:
        print_json(error.as_document())
    else:
        print(visible(str(error), keep_newlines=True), file=sys.stderr)


def print_freshness(found: Freshness, task: str, *, as_json: bool) -> int:
    """Whether a text that was made from a version still holds; 1 when it doesn't."""
    if as_json:
        print_json(found._asdict())
    elif found.is_current:
        line(f"current: made from version {found.made_from}")
    elif found.made_from == found.now:
        line(f"overtaken: version {found.now} of {task} has another digest here: another history?")
    else:
        line(f"overtaken: made from version {found.made_from}, {task} is at {found.now}")
    return 0 if found.is_current else 1

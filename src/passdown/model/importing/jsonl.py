"""JSON lines: every line that is an object, and a problem with its line number for every other."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

from passdown.errors import InvalidInput, Problem
from passdown.model.plain import load_json
from passdown.model.text import excerpt

MAX_LINE_BYTES = 1_048_576
_MAX_DEPTH = 32


class Lines(NamedTuple):
    """The objects of a file by line number, and the lines that are none."""

    objects: list[tuple[int, dict[str, Any]]]
    problems: list[Problem]


def read_lines(data: bytes) -> Lines:
    """Read a file of JSON lines. Blank lines and a byte order mark mean nothing; a line that is too
    long, no UTF-8, no JSON or no object is a problem at `line N`, and the others still count.
    """
    found = Lines([], [])
    for number, line in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        if line.strip():
            _read_line(number, line, found)
    return found


def _read_line(number: int, line: bytes, found: Lines) -> None:
    where = f"line {number}"
    try:
        value = load_json(line, max_bytes=MAX_LINE_BYTES, max_depth=_MAX_DEPTH)
    except InvalidInput as error:
        found.problems.append(error.problems[0]._replace(path=where))
        return
    if isinstance(value, dict):
        found.objects.append((number, cast("dict[str, Any]", value)))
    else:
        given = type(value).__name__
        found.problems.append(Problem(where, "wrong_type", f"{given} given", "a JSON object"))


def text_of(entry: dict[str, Any], name: str) -> str:
    """A field as text: what is no text counts as nothing, spaces at either end don't count."""
    value = entry.get(name)
    return value.strip() if isinstance(value, str) else ""


def texts_of(entry: dict[str, Any], name: str) -> list[str]:
    """A field's list of texts, without what is blank or no text."""
    value = entry.get(name)
    listed = cast("list[object]", value) if isinstance(value, list) else []
    return [text.strip() for text in listed if isinstance(text, str) and text.strip()]


def objects_of(entry: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """A field's list of objects, without what is none."""
    value = entry.get(name)
    listed = cast("list[object]", value) if isinstance(value, list) else []
    return [cast("dict[str, Any]", each) for each in listed if isinstance(each, dict)]


def not_text(where: str, name: str, value: object) -> Problem:
    """The problem of an entry without a text that it can't do without."""
    given = "is missing" if value is None else f"is {excerpt(repr(value))}"
    return Problem(f"{where}: {name}", "required", given, "text")

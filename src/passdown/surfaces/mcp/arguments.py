"""A tool's arguments, read by its schema: everything that is wrong with them at once.

Models slip in ways that leave no doubt about what was meant: a number or a list as text, one text
where a list belongs. Those are taken as meant; anything else is a problem with its path.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

from passdown.errors import Problem
from passdown.model.suggesting import Suggestions
from passdown.model.text import child_path, excerpt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from passdown.surfaces.mcp.definitions import Document

_DIGITS = 15
_LARGEST = 10**_DIGITS - 1
_SAID = {
    "string": "text",
    "integer": "a whole number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
}
_TRUTHS = {"true": True, "false": False}


def read_by(
    tool: Document, given: Mapping[str, Any], also: Mapping[str, str]
) -> tuple[Document, list[Problem]]:
    """The arguments of a call in the tool's own names and types, and what is wrong with them.

    What was left empty is not there. `also` maps other names that are understood to the tool's own.
    """
    schema = tool["inputSchema"]
    known: Document = schema["properties"]
    problems: list[Problem] = []
    suggestions = Suggestions()
    found: Document = {}
    for name, value in given.items():
        own = also.get(name, name)
        if own not in known:
            problems.append(_unknown(name, known, suggestions))
        elif value is not None:
            found[own] = _read(value, known[own], name, problems)
    # An empty text stands for one that was left out, and so does null.
    problems += [
        Problem(name, "required", "is missing", _expected(known[name]))
        for name in schema.get("required", ())
        if found.get(name, "") == ""
    ]
    return {name: value for name, value in found.items() if value not in ("", [])}, problems


def without_repeats(problems: Iterable[Problem]) -> list[Problem]:
    """Problems in their order, one for each place: what is said of a part goes with its whole."""
    kept: dict[str, Problem] = {}
    for problem in problems:
        path = problem.path
        wholes = (path[:end] for end, mark in enumerate(path) if mark in ".[")
        if path not in kept and not any(whole in kept for whole in wholes if whole):
            kept[path] = problem
    return list(kept.values())


def _unknown(name: str, known: Document, suggestions: Suggestions) -> Problem:
    expected, close = f"one of {', '.join(known)}", suggestions.of(name, known)
    return Problem(child_path("", name), "unknown_parameter", "is unknown", expected, close)


def _expected(schema: Document) -> str:
    choices: list[str] = schema.get("enum", [])
    return " | ".join(choices) or _SAID[schema["type"]]


def _read(value: object, schema: Document, path: str, problems: list[Problem]) -> Any:
    """A value of the type that the schema wants, or a problem; what is within is read as well."""
    kind: str = schema["type"]
    value = _READERS[kind](value)
    if kind == "array" and isinstance(value, list):
        entries = cast("list[object]", value)
        return [
            _read(entry, schema["items"], f"{path}[{index}]", problems)
            for index, entry in enumerate(entries)
        ]
    if not _is_of(kind, value):
        message = f"{type(value).__name__} given"
        problems.append(Problem(path, "wrong_type", message, _expected(schema)))
    elif isinstance(value, int) and not 0 <= value <= _LARGEST:
        message = "a number below 0 or far too large given"
        problems.append(Problem(path, "out_of_range", message, "0 or more"))
    elif value and "enum" in schema and value not in schema["enum"]:
        message = f"{excerpt(str(value))!r} is not one of the choices"
        problems.append(Problem(path, "invalid_choice", message, _expected(schema)))
    return value


def _is_of(kind: str, value: object) -> bool:
    if kind == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    types: dict[str, type] = {"string": str, "boolean": bool, "array": list, "object": dict}
    return isinstance(value, types[kind])


def as_list(value: object) -> object:
    """A list that came as its JSON, or as the one entry that it would hold."""
    if not isinstance(value, str):
        return [cast("object", value)] if isinstance(value, dict) else value
    if not value.strip():
        return []
    read = _from_json(value) if value.lstrip().startswith("[") else value
    return cast("object", read) if isinstance(read, list) else [value]


def _as_number(value: object) -> object:
    if isinstance(value, float) and value.is_integer() and abs(value) < 10**_DIGITS:
        return int(value)
    if isinstance(value, str):
        digits = value.strip()
        if digits.isascii() and digits.isdigit() and len(digits) <= _DIGITS:
            return int(digits)
    return value


def _as_truth(value: object) -> object:
    return _TRUTHS.get(value.strip().lower(), value) if isinstance(value, str) else value


def _as_object(value: object) -> object:
    if isinstance(value, str) and value.lstrip().startswith("{"):
        read = _from_json(value)
        return cast("object", read) if isinstance(read, dict) else value
    return value


def _from_json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _same(value: object) -> object:
    return value


_READERS: dict[str, Callable[[object], object]] = {
    "string": _same,
    "integer": _as_number,
    "boolean": _as_truth,
    "array": as_list,
    "object": _as_object,
}

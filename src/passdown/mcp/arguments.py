"""Arguments of tool calls: the slips that models make, taken as they are meant.

A number or a list as text, one text where a list belongs, a deleted file among the files, a text
where an entry has parts: where there is no doubt about what was meant, it is accepted. Anything
else is a problem with its path.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

from passdown.core.arguments import Suggestions
from passdown.core.handoff import Handoff
from passdown.core.schema import List, aliases_of, as_meant, check_json, fields_of, json_expected
from passdown.core.text import child_path
from passdown.errors import Problem
from passdown.mcp.definitions import ACCEPTED, BY_NAME
from passdown.mcp.messages import as_object

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from passdown.core.types import JsonObject


_DIGITS = 15
_LIMITS = {"minimum": 0, "maximum": 10**_DIGITS - 1}


def read_arguments(
    tool: str, given: Mapping[str, Any], also: Mapping[str, str]
) -> tuple[JsonObject, list[Problem]]:
    """The arguments of a call in the tool's own names and types, and what is wrong with them.

    What was left empty is not there. `also` maps other names that are understood to the tool's own.
    """
    schema, known = BY_NAME[tool]["inputSchema"], ACCEPTED[tool]
    problems: list[Problem] = []
    suggestions = Suggestions()
    found: JsonObject = {}
    for name, value in given.items():
        own = also.get(name, name)
        if own not in known:
            problems.append(_unknown_argument(name, known, suggestions))
        elif value not in (None, ""):
            limits = _LIMITS if known[own]["type"] == "integer" else {}
            found[own] = check_json(value, known[own] | limits, name, problems, as_meant)
    # An empty text stands for one that was left out, and so does null.
    problems += [
        Problem(name, "required", "is missing", json_expected(known[name]))
        for name in schema.get("required", ())
        if found.get(name, "") == ""
    ]
    return {name: value for name, value in found.items() if value not in ("", [])}, problems


def one_problem_per_path(problems: Iterable[Problem]) -> list[Problem]:
    """Problems in their order, one for each place: what is said of a part goes with its whole."""
    kept: dict[str, Problem] = {}
    for problem in problems:
        path = problem.path
        wholes = (path[:end] for end, mark in enumerate(path) if mark in ".[")
        if path not in kept and not any(whole in kept for whole in wholes if whole):
            kept[path] = problem
    return list(kept.values())


def _unknown_argument(name: str, known: JsonObject, suggestions: Suggestions) -> Problem:
    expected, close = f"one of {', '.join(known)}", suggestions.of(name, known)
    return Problem(child_path("", name), "unknown_parameter", "is unknown", expected, close)


_DELETED_FIELDS = ("deleted_files", "files_deleted", "deleted", "removed_files", "files_removed")
_DELETED = re.compile(r"(?i)(?:(?:deleted|removed):?\s+(.+)|(.+?)\s*\((?:deleted|removed)\))")
_CHANGES: dict[str, str] = {
    **{"added": "add", "new": "created", "create": "created"},
    **dict.fromkeys("deleted removed remove delete".split(), "delete"),
    **dict.fromkeys("modified changed updated".split(), "modify"),
}
_CHANGE_FIELDS = ("change", "change_type", "status", "action")
_BECAUSE = re.compile(r"(?i)(.+?),?\s+because\s+(.+)", re.DOTALL)
_ARROW = re.compile(r"(.+?)\s*(?:->|=>|\u2192)\s*(.+)", re.DOTALL)
_NOT_STATED = "not stated"


def handoff_as_meant(given: Mapping[str, Any]) -> JsonObject:
    """The fields of a handoff, with the slips that models make in it corrected."""
    fields = {name: value for name, value in given.items() if value is not None}
    lists = {name for name, field in fields_of(Handoff).items() if isinstance(field.type, List)}
    own = {alias: name for alias, name in aliases_of(Handoff).items() if name in lists}
    lists |= {*own, *_DELETED_FIELDS}
    fields |= {name: as_meant(value, "array") for name, value in fields.items() if name in lists}
    deleted = [
        {"path": path, "change": "delete"}
        for name in _DELETED_FIELDS
        if isinstance(fields.get(name), list)
        for path in fields.pop(name)
    ]
    if deleted:
        fields["files"] = [*(fields.get("files") or ()), *deleted]
    for name, value in fields.items():
        correct = _ENTRIES.get(own.get(name, name))
        if correct is not None and isinstance(value, list):
            fields[name] = [correct(entry) for entry in cast("list[object]", value)]
    return fields


def _file(entry: object) -> object:
    if isinstance(entry, str):
        found = _DELETED.fullmatch(entry.strip())
        return {"path": found[1] or found[2], "change": "delete"} if found else entry
    document = dict(as_object(entry))
    if document.pop("deleted", False) is True:
        document["change"] = "delete"
    for name in _CHANGE_FIELDS:
        word = document.get(name)
        if isinstance(word, str) and word.lower() in _CHANGES:
            del document[name]
            document["change"] = _CHANGES[word.lower()]
    return document or entry


def _decision(entry: object) -> object:
    found = _BECAUSE.fullmatch(entry.strip()) if isinstance(entry, str) else None
    return {"summary": found[1], "rationale": found[2]} if found else entry


def _gotcha(entry: object) -> object:
    if isinstance(entry, str) and entry.strip():
        found = _ARROW.fullmatch(entry.strip())
        issue, mitigation = found.groups() if found else (entry, _NOT_STATED)
        return {"issue": issue, "mitigation": mitigation, "severity": "medium"}
    document = as_object(entry)
    return {"severity": "medium", **document} if document else entry


def _pattern(entry: object) -> object:
    is_text = isinstance(entry, str) and entry.strip()
    return {"pattern": entry, "location": _NOT_STATED} if is_text else entry


_ENTRIES: dict[str, Callable[[object], object]] = {
    "artifacts": _file,
    "decisions": _decision,
    "gotchas": _gotcha,
    "patterns_discovered": _pattern,
}

"""A request, read by its row of the table: everything that is wrong with it at once, with paths."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import parse_qsl

from passdown.errors import InvalidInput, Problem
from passdown.model.arguments import priority_problem
from passdown.model.plain import load_json
from passdown.model.text import child_path, excerpt
from passdown.surfaces.web.schemas import SEEN
from passdown.workspace.seen import FIELD as FILES_SEEN

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    from passdown.surfaces.web.operations import Document, Operation
    from passdown.surfaces.web.schemas import Schema

_MOST_FIELDS = 300
_IN_HEADERS = ("key", "expect_version")
_OF_PYTHON = ("self",)
_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}
_SAID = {
    "string": "text",
    "integer": "a whole number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}
_TRUTHS = {"true": True, "false": False}


class Malformed(InvalidInput):
    """A request that can't be read at all; status 400."""


def given_by(operation: Operation, path: Mapping[str, str], query: bytes, body: bytes) -> Document:
    """What a request gives, checked by its row. Raises InvalidInput with every problem."""
    problems: list[Problem] = []
    given: Document = dict(path)
    _check(given, {"type": "object", "properties": operation.parameters}, "", problems)
    given |= _query(operation, query, problems)
    if operation.body is not None:
        loaded = _loaded(body)
        if operation.takes_files and FILES_SEEN in loaded:
            given[FILES_SEEN] = loaded.pop(FILES_SEEN)
            _check(given[FILES_SEEN], SEEN, FILES_SEEN, problems)
        if operation.takes_any:
            given["body"] = loaded
            problems += _reserved(operation, loaded)
        else:
            _check(loaded, operation.body, "", problems)
            if operation.body.get("additionalProperties", True) is not False:
                own = operation.body.get("properties", {})
                problems += [each for each in _reserved(operation, loaded) if each.path not in own]
            given |= loaded
    elif body:
        problems.append(Problem("", "unexpected_body", "a body was sent", "no body"))
    if problems:
        raise InvalidInput("the request is refused", problems, next_step="Mend all of these.")
    return given


@contextmanager
def telling_missing(body: Document, names: Sequence[str]) -> Generator[None]:
    """Of fields that a body leaves out, say that they are missing, whatever else is said of what
    was put in their place; every other problem is told as it is.
    """
    missing = [name for name in names if name not in body]
    try:
        yield
    except InvalidInput as error:
        problems = [
            Problem(p.path, "required", "is missing", f"a value for {p.path}")
            if p.path in missing
            else p
            for p in error.problems
        ]
        raise InvalidInput(error.message, problems, next_step=error.next_step) from error


def _reserved(operation: Operation, loaded: Document) -> list[Problem]:
    """Fields that stand in the address or in headers and nowhere else, or can't be any."""
    taken = [*operation.parameters, *_IN_HEADERS, *_OF_PYTHON]
    expected = "it in the address" if operation.parameters else "a header"
    return [
        Problem(name, "unknown_field", "is not taken here", expected)
        for name in taken
        if name in loaded and not (name == "task" and "handoffs" in operation.path)
    ]


def _loaded(body: bytes) -> Document:
    """The object that a body spells. What isn't JSON can't be read; what isn't an object is
    refused like any other mistake.
    """
    try:
        loaded = load_json(body)
    except InvalidInput as error:
        raise Malformed(error.message, error.problems, next_step=error.next_step) from error
    if not isinstance(loaded, dict):
        problem = Problem("", "wrong_type", f"{_kind(loaded)} given", "an object")
        raise InvalidInput("the request is refused", [problem])
    return cast("Document", loaded)


def _query(operation: Operation, query: bytes, problems: list[Problem]) -> Document:
    try:
        pairs = parse_qsl(
            query.decode("ascii"),
            keep_blank_values=True,
            encoding="utf-8",
            errors="strict",
            max_num_fields=_MOST_FIELDS,
        )
    except ValueError as error:
        problem = Problem("", "invalid_query", str(error), "parameters in UTF-8, percent-encoded")
        raise Malformed("the query can't be read", [problem]) from error
    found: Document = {}
    for name, value in pairs:
        schema = operation.query.get(name)
        if schema is None:
            known = ", ".join(operation.query) or "no parameters"
            path = child_path("", name)
            problems.append(Problem(path, "unknown_filter", "is no parameter of this", known))
        elif schema["type"] == "array":
            found.setdefault(name, []).append(value)
        elif name in found:
            problems.append(Problem(name, "wrong_type", "several values given", "one value"))
        else:
            found[name] = _typed(value, schema)
    for name, value in found.items():
        _check(value, operation.query[name], name, problems)
    problems += [
        Problem(name, "required", "is missing", _expected(schema))
        for name, schema in operation.query.items()
        if schema.get("required") is True and name not in found
    ]
    return found


def _typed(value: str, schema: Schema) -> object:
    """A parameter's text as the type that its schema wants, if it spells one."""
    if schema["type"] == "integer":
        return int(value) if re.fullmatch(r"-?[0-9]{1,40}", value) else value
    if schema["type"] == "boolean":
        return _TRUTHS.get(value, value)
    return value


def _check(value: Any, schema: Schema, path: str, problems: list[Problem]) -> None:
    """Hold a value to a schema: type, choices, lengths, limits, and what is within."""
    kinds = _kinds(schema)
    if kinds and not _is_of(value, kinds):
        code = "not_an_integer" if kinds == ("integer",) else "wrong_type"
        problems.append(Problem(path, code, f"{_kind(value)} given", _expected(schema)))
    elif isinstance(value, str):
        _check_text(value, schema, path, problems)
    elif isinstance(value, int) and not isinstance(value, bool):
        least, most = schema.get("minimum", value), schema.get("maximum", value)
        if not least <= value <= most:
            expected = f"{least} or more" if value < least else f"at most {most}"
            problems.append(Problem(path, "out_of_range", f"{value} given", expected))
    elif isinstance(value, list):
        _check_list(cast("list[Any]", value), schema, path, problems)
    elif isinstance(value, dict):
        _check_object(cast("Document", value), schema, path, problems)


def _check_text(value: str, schema: Schema, path: str, problems: list[Problem]) -> None:
    choices: list[str] = schema.get("enum", [])
    if choices and value not in choices:
        message = f"{excerpt(value)!r} is not one of the choices"
        problems.append(Problem(path, "invalid_choice", message, " | ".join(choices)))
    elif len(value) > schema.get("maxLength", len(value)):
        expected = f"at most {schema['maxLength']:,} characters"
        problems.append(Problem(path, "too_long", f"{len(value):,} characters", expected))
    elif len(value) < schema.get("minLength", 0):
        problems.append(Problem(path, "empty", "is empty", "text"))
    elif "pattern" in schema and not re.fullmatch(schema["pattern"], value):
        problems.append(Problem(path, "invalid_form", f"{excerpt(value)!r}", schema["pattern"]))


def _check_list(value: list[Any], schema: Schema, path: str, problems: list[Problem]) -> None:
    least, most = schema.get("minItems", 0), schema.get("maxItems", len(value))
    if not least <= len(value) <= most:
        expected = f"{least} to {most} entries"
        problems.append(Problem(path, "out_of_range", f"{len(value):,} entries", expected))
        return
    for index, entry in enumerate(value):
        _check(entry, schema.get("items", {}), f"{path}[{index}]", problems)


def _check_object(value: Document, schema: Schema, path: str, problems: list[Problem]) -> None:
    known: Mapping[str, Schema] = schema.get("properties", {})
    for name, entry in value.items():
        within = child_path(path, name)
        if name in known:
            _check(entry, known[name], within, problems)
        elif schema.get("additionalProperties") is False:
            unknown = Problem(within, "unknown_field", "is unknown", ", ".join(known))
            problems.append(priority_problem(entry, within) if name == "priority" else unknown)
    problems += [
        Problem(child_path(path, name), "required", "is missing", _expected(known.get(name, {})))
        for name in schema.get("required", ())
        if name not in value
    ]


def _kinds(schema: Schema) -> tuple[str, ...]:
    given: object = schema.get("type", ())
    return (given,) if isinstance(given, str) else tuple(cast("list[str]", given))


def _is_of(value: object, kinds: tuple[str, ...]) -> bool:
    if isinstance(value, bool):
        return "boolean" in kinds
    return any(isinstance(value, _TYPES[kind]) for kind in kinds)


def _kind(value: object) -> str:
    names: dict[type, str] = {
        str: "text",
        int: "a number",
        float: "a number",
        bool: "true or false",
        list: "a list",
    }
    return "null" if value is None else names.get(type(value), "an object")


def _expected(schema: Schema) -> str:
    if "enum" in schema:
        return " | ".join(schema["enum"])
    return " or ".join(_SAID[kind] for kind in _kinds(schema)) or "a value"

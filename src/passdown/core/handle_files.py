"""Handle files: the JSON Schema of a state document, its check, and the file's text."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from functools import cache
from json.encoder import encode_basestring as _quoted
from typing import TYPE_CHECKING, Any, cast

from passdown.core.documents import LISTS, STATE_SCHEMA
from passdown.core.kinds import (
    ARTIFACT_TYPES,
    CHANGE_TYPES,
    DECISION_STATUSES,
    LEVELS,
    OUTCOMES,
    PHASES,
    SEVERITIES,
    TASK_STATUSES,
)
from passdown.core.text import child_path, excerpt
from passdown.errors import Damaged, Problem

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


Schema = dict[str, Any]

_TEXT: Schema = {"type": "string"}
_TEXTS: Schema = {"type": "array", "items": _TEXT}
_BOOL: Schema = {"type": "boolean"}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_VERSION: Schema = {"type": "integer", "minimum": 1}
_ANYTHING: Schema = {"type": "object"}
_DIGEST: Schema = {"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"}
_TIME_FORMAT = "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{6}Z$"
_TIME: Schema = {"type": "string", "pattern": _TIME_FORMAT}
_NAME: Schema = {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]*$"}
_NAMES: Schema = {"type": "array", "items": _NAME}


def _choice(names: Sequence[str]) -> Schema:
    return {"type": "string", "enum": list(names)}


def _or_null(schema: Schema) -> Schema:
    """The same, or null; an enumeration has to list null as well."""
    widened = {**schema, "type": [schema["type"], "null"]}
    return {**widened, "enum": [*schema["enum"], None]} if "enum" in schema else widened


def _address(letters: str) -> Schema:
    pattern = f"^[A-Za-z0-9][A-Za-z0-9._-]*#[{letters}][1-9][0-9]*$"
    return {"type": "string", "pattern": pattern}


def _object(required: Schema, optional: Schema) -> Schema:
    return {
        "type": "object",
        "properties": {**required, **optional},
        "required": list(required),
        "additionalProperties": False,
    }


def _item(letter: str, statuses: Sequence[str], required: Schema, optional: Schema) -> Schema:
    """An item: its own fields, and what every item says of where it came from."""
    envelope = {
        "address": _address(letter),
        "status": _choice(statuses),
        "agent": _NAME,
        "at": _TIME,
        "version": _VERSION,
    }
    later = {"status_version": _VERSION, "status_note": _TEXT, "metadata": _ANYTHING}
    return _object({**envelope, **required}, {**later, **optional})


_STORY = _object({}, dict.fromkeys(("id", "path", "status", "current_task", "branch"), _TEXT))
_LEARNED = ("active", "retracted")
_DONE = ("open", "done", "dropped", "replaced")
_BLOCKER: Schema = {
    "impact": _TEXT,
    "suggested_resolution": _TEXT,
    "blocking_tasks": _NAMES,
    "severity": _choice(SEVERITIES),
    "requires_human": _BOOL,
}

_ITEMS: dict[str, Schema] = {
    "h": _item(
        "h",
        ("recorded",),
        {"outcome": _choice(OUTCOMES), "from_agent": _NAME},
        {"to_agent": _NAME, "phase": _choice(PHASES), "summary": _TEXT, "story": _STORY},
    ),
    "d": _item(
        "d",
        DECISION_STATUSES,
        {"summary": _TEXT, "rationale": _TEXT},
        {
            **dict.fromkeys(("alternatives", "artifacts", "paths", "tags"), _TEXTS),
            "supersedes": {"type": "array", "items": _address("d")},
            "superseded_by": _TEXT,
        },
    ),
    "a": _item(
        "a",
        ("recorded",),
        {"path": _TEXT, "type": _choice(ARTIFACT_TYPES)},
        {
            "sha256": {"type": "string", "pattern": "^(sha256:)?[0-9a-f]{64}$"},
            "size_bytes": _COUNT,
            "change": _choice(("created", *CHANGE_TYPES)),
            "lines": _TEXT,
            "note": _TEXT,
        },
    ),
    "p": _item(
        "p",
        _LEARNED,
        {"id": _TEXT, "pattern": _TEXT, "location": _TEXT},
        {"applies_to": _TEXTS},
    ),
    "g": _item(
        "g",
        _LEARNED,
        {"id": _TEXT, "issue": _TEXT, "mitigation": _TEXT, "severity": _choice(LEVELS)},
        {"discovered_in": _TEXT},
    ),
    "r": _item("r", _DONE, {"file": _TEXT, "reason": _TEXT}, {}),
    "q": _item(
        "q",
        ("open", "answered", "dropped"),
        {"question": _TEXT, "blocking": _BOOL},
        {"context": _TEXT, "recommendation": _TEXT},
    ),
    "n": _item("n", _DONE, {"step": _TEXT, "priority": _choice(LEVELS)}, {"depends_on": _TEXTS}),
    "b": _item("b", ("open", "resolved", "replaced"), {"blocker": _TEXT}, _BLOCKER),
    "w": _item("w", _LEARNED, {"text": _TEXT}, {}),
    "k": _item(
        "k",
        ("passed", "failed", "pending", "approved", "rejected", "withdrawn"),
        {"name": _TEXT},
        {
            **_BLOCKER,
            "result": _choice(("passed", "failed")),
            "detail": _TEXT,
            "kind": _choice(("human",)),
            "blocker": _TEXT,
        },
    ),
}

_HEADER: Schema = {
    "schema": {"type": "string", "enum": [STATE_SCHEMA]},
    "task_id": _NAME,
    "version": _VERSION,
    "digest": _DIGEST,
    "title": _TEXT,
    "description": _TEXT,
    "inputs": _TEXTS,
    "outputs": _TEXTS,
    "criteria": _TEXTS,
    "depends_on": _NAMES,
    "time_limit_minutes": _or_null(_VERSION),
    "phase": _choice(PHASES),
    "previous_phase": _or_null(_choice(PHASES)),
    "phase_started_at": _TIME,
    "outcome": _or_null(_choice(OUTCOMES)),
    "context_summary": _TEXT,
    "source_agent": _TEXT,
    "target_agent": _TEXT,
    "handoff_at": _or_null(_TIME),
    "created_at": _TIME,
    "created_by": _NAME,
    "updated_at": _TIME,
    "status": _choice(TASK_STATUSES),
    "gates_passed": _TEXTS,
    "gates_failed": _TEXTS,
    "blocked_by": {"type": "array", "items": _address("b")},
}

# A handle file leaves old items to its archive and says how many there are in all.
_HANDLE: Schema = {
    "metadata": _ANYTHING,
    "totals": _object({}, dict.fromkeys(LISTS.values(), _COUNT)),
    "archive": _object({"folder": _TEXT, "files": _COUNT, "through_version": _COUNT}, {}),
    "checksum": _DIGEST,
}

_LISTED: Schema = {
    name: {"type": "array", "items": _ITEMS[letter]} for letter, name in LISTS.items()
}
_HEADER_SCHEMA = _object(_HEADER, _HANDLE)
_STATE = _object({**_HEADER, **_LISTED}, _HANDLE)


def state_schema() -> dict[str, Any]:
    """The JSON Schema of a state document and of a handle file."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": STATE_SCHEMA,
        "title": "The state of a task",
        **_STATE,
    }


def state_problems(document: object) -> list[Problem]:
    """What in a state document, or a handle file's content, breaks its schema."""
    found: list[Problem] = []
    _check(document, _STATE, "", found)
    return found


def check_header(document: dict[str, Any]) -> None:
    """Raise Damaged unless a state document, its lists of items left out, keeps to the schema."""
    header = {name: value for name, value in document.items() if name not in _LISTED}
    if not _header_test()(header):
        found: list[Problem] = []
        _check(header, _HEADER_SCHEMA, "", found)
        _raise(found, str(document.get("task_id")))


def check_item(letter: str, document: dict[str, Any]) -> None:
    """Raise Damaged unless one item of a state document keeps to the schema."""
    if not _item_test(letter)(document):
        found: list[Problem] = []
        _check(document, _ITEMS[letter], "", found)
        _raise(found, str(document.get("address")))


def _raise(found: list[Problem], where: str) -> None:
    if found:
        raise Damaged(
            f"what is stored of {where} breaks the schema of a state",
            found,
            next_step="Run passdown verify; the handle file is written once this is fixed.",
        )


_TYPES: dict[str, type[Any]] = {
    "string": str,
    "integer": int,
    "boolean": bool,
    "array": list,
    "object": dict,
    "null": type(None),
}


Test = Callable[[Any], bool]


@cache
def _header_test() -> Test:
    return _test(_HEADER_SCHEMA)


@cache
def _item_test(letter: str) -> Test:
    return _test(_ITEMS[letter])


def _test(schema: Schema) -> Test:
    """A quick yes or no for a schema; `_check` says what is wrong, at ten times the cost."""
    wanted = schema["type"]
    kinds = {_TYPES[name] for name in ([wanted] if isinstance(wanted, str) else wanted)}
    fits = _content_test(schema)
    if fits is None:
        return lambda value: type(value) in kinds
    return lambda value: type(value) in kinds and (value is None or fits(value))


def _content_test(schema: Schema) -> Test | None:
    """The test of what a value of the right type holds; None where anything is right."""
    properties: Schema | None = schema.get("properties")
    if properties is not None:
        tests = {name: _test(part) for name, part in properties.items()}
        required = set(schema["required"])
        return lambda value: (
            required <= value.keys()
            and all(name in tests and tests[name](part) for name, part in value.items())
        )
    if "items" in schema:
        entry = _test(schema["items"])
        return lambda value: all(map(entry, value))
    return _scalar_test(schema)


def _scalar_test(schema: Schema) -> Test | None:
    """The same for a text or a number, as `_check_scalar` has it: a schema names one of these."""
    if "enum" in schema:
        choices = frozenset(schema["enum"])
        return choices.__contains__
    if "pattern" in schema:
        search = _compiled(schema["pattern"]).search
        return lambda value: search(str(value)) is not None
    if "minimum" in schema:
        least: int = schema["minimum"]
        return lambda value: value >= least
    return None


def _has_type(value: object, wanted: str | list[str]) -> bool:
    names = [wanted] if isinstance(wanted, str) else wanted
    kinds = tuple(_TYPES[name] for name in names)
    return isinstance(value, kinds) and (not isinstance(value, bool) or "boolean" in names)


def _check(value: object, schema: Schema, path: str, found: list[Problem]) -> None:
    wanted = schema["type"]
    if not _has_type(value, wanted):
        expected = wanted if isinstance(wanted, str) else " or ".join(wanted)
        found.append(Problem(path, "wrong_type", f"{type(value).__name__} given", expected))
    elif isinstance(value, dict):
        _check_object(cast("dict[str, object]", value), schema, path, found)
    elif isinstance(value, list):
        for index, entry in enumerate(cast("list[object]", value)):
            _check(entry, schema["items"], f"{path}[{index}]", found)
    elif value is not None:
        _check_scalar(value, schema, path, found)


def _check_object(
    value: dict[str, object], schema: Schema, path: str, found: list[Problem]
) -> None:
    properties: Schema | None = schema.get("properties")
    if properties is None:
        return
    found += [
        Problem(child_path(path, name), "required", "is missing", "a value")
        for name in schema["required"]
        if name not in value
    ]
    for name, part in value.items():
        if name in properties:
            _check(part, properties[name], child_path(path, name), found)
        else:
            where = child_path(path, name)
            found.append(Problem(where, "unknown_field", "is not in the schema", "nothing here"))


def _check_scalar(value: object, schema: Schema, path: str, found: list[Problem]) -> None:
    if "enum" in schema and value not in schema["enum"]:
        expected = " | ".join(str(choice) for choice in schema["enum"])
        message = f"{excerpt(str(value))!r} is not one of these"
        found.append(Problem(path, "invalid_choice", message, expected))
    if isinstance(value, int) and value < schema.get("minimum", value):
        message = f"{value} is too small"
        found.append(Problem(path, "out_of_range", message, f"at least {schema['minimum']}"))
    pattern = schema.get("pattern")
    if pattern is not None and not _compiled(pattern).search(str(value)):
        message = f"{excerpt(str(value))!r} has another form"
        found.append(Problem(path, "invalid_format", message, pattern))


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    # In JSON Schema $ is the very end; in Python it also matches before a last newline.
    return re.compile(pattern.removesuffix("$") + "\\Z")


_MAX_BYTES = 1 << 28
_MAX_DEPTH = 96
_MARK = '  "checksum": "sha256:'


_encode = json.JSONEncoder(ensure_ascii=False).encode


def _plain(value: object) -> str:
    """A value on one line; nearly all are texts, which need no encoder around the function."""
    return _quoted(value) if type(value) is str else _encode(value)


def indented_json(value: object, margin: str = "") -> str:
    """What `json.dumps(value, indent=2, ensure_ascii=False)` gives, in a fraction of its time.

    With an indent, the standard encoder works in Python throughout; here only the frame does. Most
    values are texts, which are handled without a call.
    """
    if isinstance(value, dict) and value:
        inner = margin + "  "
        pairs = cast("dict[str, object]", value).items()
        parts = [
            f"{inner}{_plain(key)}: "
            + (_quoted(part) if type(part) is str else indented_json(part, inner))
            for key, part in pairs
        ]
        return "{\n" + ",\n".join(parts) + f"\n{margin}}}"
    if isinstance(value, list) and value:
        inner = margin + "  "
        parts = [inner + indented_json(part, inner) for part in cast("list[object]", value)]
        return "[\n" + ",\n".join(parts) + f"\n{margin}]"
    return _plain(cast("object", value))


def indented_item(document: Mapping[str, Any]) -> str:
    """One entry of a list, indented to its place in the file."""
    return "    " + indented_json(document, "    ")


def handle_file_text(document: Mapping[str, Any], lists: Mapping[str, Sequence[str]]) -> str:
    """The file: the fields of `document`, `lists` of texts made by `item_text`, the checksum."""
    lines: list[str] = []
    for name, value in document.items():
        if name not in lists:
            lines.append(f'  "{name}": {indented_json(value, "  ")},\n')
    for name, texts in lists.items():
        entries = "[\n" + ",\n".join(texts) + "\n  ]" if texts else "[]"
        lines.append(f'  "{name}": {entries},\n')
    content = "{\n" + "".join(lines)
    return f'{content}{_MARK}{_checksum(content)}"\n}}\n'


def is_intact(text: str) -> bool:
    """Whether a file is as it was written, by its own checksum."""
    content, mark, ending = text.rpartition(_MARK)
    return bool(mark) and ending == f'{_checksum(content)}"\n}}\n'


def is_torn(text: str) -> bool:
    """Whether a file is what a power cut leaves of one: nothing, or zeros where text was meant to
    be. Nobody's words are in it.
    """
    return not text or "\x00" in text


def read_handle(text: str | bytes) -> dict[str, Any]:
    """The state document that a handle file holds.

    Raises InvalidInput for text that is no JSON, a schema that this release doesn't know, a file
    that was edited (its checksum shows it) and a document that breaks the schema.
    """
    from passdown.core.documents import STATE_SCHEMA
    from passdown.core.parsing import load_json
    from passdown.errors import InvalidInput, Problem

    loaded = load_json(text, max_bytes=_MAX_BYTES, max_depth=_MAX_DEPTH)
    document = cast("dict[str, Any]", loaded) if isinstance(loaded, dict) else {}
    given = document.get("schema")
    if given != STATE_SCHEMA:
        problem = Problem("schema", "unknown_schema", f"{str(given)[:60]!r}", STATE_SCHEMA)
        raise InvalidInput("this is not a handle file that this release knows", [problem])
    problems = state_problems(document)
    if not is_intact(text if isinstance(text, str) else text.decode()):
        message = "the file is not as it was written"
        fix = "read the state from the ledger; record what the edit says with passdown"
        problems.insert(0, Problem("checksum", "edited_handle", message, "an unedited file", fix))
    if problems:
        raise InvalidInput("the handle file can't be trusted", problems)
    return document


def _checksum(content: str) -> str:
    return hashlib.sha256(content.encode()).hexdigest()

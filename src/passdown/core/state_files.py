"""State files: the JSON Schema of a state document, its check, and the file's text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from json.encoder import encode_basestring as _quoted
from typing import Any, cast

from passdown.core.documents import ADDED_LATER, LISTS, is_intact, with_checksum
from passdown.core.handoff import Blocker, Handoff, TaskState
from passdown.core.kinds import (
    DECISION_STATUSES,
    KINDS,
    STATE_SCHEMA,
)
from passdown.core.schema import (
    ADDRESS,
    AGENT,
    TASK_ID,
    TIME,
    Choice,
    List,
    Optional,
    Part,
    Type,
    check_json,
    fields_of,
    shape_of,
)
from passdown.errors import Damaged, Problem, raise_problems

Schema = dict[str, Any]

_TEXT: Schema = {"type": "string"}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_VERSION: Schema = {"type": "integer", "minimum": 1}
_ANYTHING: Schema = {"type": "object"}
_DIGEST: Schema = {"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"}
_TIME_FORMAT = "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{6}Z$"
_TIME: Schema = {"type": "string", "pattern": _TIME_FORMAT}
_NAME: Schema = {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]*$"}


def _choice(*names: str) -> Schema:
    return {"type": "string", "enum": list(names)}


def _or_null(schema: Schema) -> Schema:
    """The same, or null; an enumeration has to list null as well."""
    widened = {**schema, "type": [schema["type"], "null"]}
    return {**widened, "enum": [*schema["enum"], None]} if "enum" in schema else widened


def _address(letter: str) -> Schema:
    pattern = f"^[A-Za-z0-9][A-Za-z0-9._-]*#{letter}[1-9][0-9]*$"
    return {"type": "string", "pattern": pattern}


def _object(required: Schema, optional: Schema) -> Schema:
    return {
        "type": "object",
        "properties": {**required, **optional},
        "required": list(required),
        "additionalProperties": False,
    }


def _stored(kind: Type) -> Schema:
    """What a record holds of a declared type: what is empty is left out of it."""
    if isinstance(kind, Optional):
        return _stored(kind.of)
    if isinstance(kind, List):
        return {"type": "array", "items": _stored(kind.of)}
    if isinstance(kind, Part):
        return _object({}, _fields(kind.of))
    if isinstance(kind, Choice):
        return _choice(*filter(None, kind.words))
    forms: dict[Type, Schema] = {AGENT: _NAME, TASK_ID: _NAME, TIME: _TIME, ADDRESS: _address("d")}
    return forms.get(kind) or kind.schema({})


def _fields(shape: type[Any]) -> Schema:
    return {name: _stored(field.type) for name, field in fields_of(shape).items()}


# Which fields of a kind's entries are always recorded, and statuses that aren't among those that it
# begins with or is given.
_KINDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "h": ("outcome from_agent", ()),
    "d": ("summary rationale", DECISION_STATUSES),
    "a": ("path type", ()),
    "p": ("id pattern location", ()),
    "g": ("id issue mitigation severity", ()),
    "r": ("file reason", ("replaced",)),
    "q": ("question blocking", ()),
    "n": ("step priority", ("replaced",)),
    "b": ("blocker", ("replaced",)),
    "w": ("text", ()),
    "f": ("key", ("superseded",)),
    "c": ("", ("replaced",)),
    "k": ("name", ("passed", "failed", "withdrawn")),
}
_OF_HANDOFF = (
    *("outcome", "from_agent", "to_agent", "phase", "summary", "story", "memory_refs"),
    *("evidence", "stopped", "despite"),
)


def _item(letter: str) -> Schema:
    """An item: its own fields, and what every item says of where it came from."""
    always, further = _KINDS[letter]
    kind = KINDS[letter]
    shapes = {field.stored: shape_of(field) for field in fields_of(Handoff).values()}
    shape = Handoff if letter == "h" else shapes[kind.field]
    own = _fields(shape) if shape else {"text": _TEXT}
    if letter == "h":
        own = {name: own[name] for name in _OF_HANDOFF}
        own |= {"metrics": _ANYTHING, "trace": _ANYTHING}
    elif letter in "df":
        own["superseded_by"] = _TEXT
    if letter == "q":
        own |= dict.fromkeys(("to", "note"), _TEXT)  # a precondition that asks a person
    if letter == "f":
        own |= {"value": _TEXT, "was": _TEXT}
    elif letter == "k":
        # A human gate is a blocker that waits for a person.
        own |= {**_fields(Blocker), "kind": _choice("human")}
    envelope = {
        "address": _address(letter),
        "status": _choice(*dict.fromkeys((kind.starts, *kind.closings, *further))),
        "agent": _NAME,
        "at": _TIME,
        "version": _VERSION,
    }
    later = {"status_version": _VERSION, "status_note": _TEXT, "metadata": _ANYTHING}
    return _object(
        {**{name: own[name] for name in always.split()}, **envelope}, {**own, **later, **envelope}
    )


def _header() -> Schema:
    """What a state says of its task, without its items."""
    return {
        "schema": {"type": "string", "enum": [STATE_SCHEMA]},
        **{
            name: _or_null(found) if isinstance(field.type, Optional) else found
            for name, field in fields_of(TaskState).items()
            if name not in (*LISTS.values(), "document")
            for found in (_stored(field.type),)
        },
        "version": _VERSION,
        "digest": _DIGEST,
        "time_limit_minutes": _or_null(_VERSION),
        "created_at": _TIME,
        "created_by": _NAME,
        "updated_at": _TIME,
        "blocked_by": {"type": "array", "items": _address("b")},
    }


def _handle() -> Schema:
    """What a state file says besides: it leaves old items to its archive and counts them all."""
    return {
        "metadata": _ANYTHING,
        "totals": _object({}, dict.fromkeys(LISTS.values(), _COUNT)),
        "archive": _object(
            {"folder": _TEXT, "files": _COUNT, "through_version": _COUNT},
            {"left_out": _COUNT, "whole": _TEXT},
        ),
        "checksum": _DIGEST,
    }


@cache
def state_schema() -> dict[str, Any]:
    """The JSON Schema of a state document and of a state file."""
    listed = {name: {"type": "array", "items": _item(key)} for key, name in LISTS.items()}
    later = {name: listed.pop(name) for name in ADDED_LATER}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": STATE_SCHEMA,
        "title": "The state of a task",
        **_object({**_header(), **listed}, {**later, **_handle()}),
    }


def state_problems(document: object) -> list[Problem]:
    """What in a state document, or a state file's content, breaks its schema."""
    found: list[Problem] = []
    check_json(document, state_schema(), "", found)
    return found


def check_state(document: dict[str, Any]) -> None:
    """Raise Damaged unless a state document keeps to the schema."""
    if found := state_problems(document):
        raise Damaged(
            f"what is stored of {document.get('task_id')} breaks the schema of a state",
            found,
            next_step="Run passdown verify; the state file is written once this is fixed.",
        )


_MAX_BYTES = 1 << 28
_MAX_DEPTH = 96

_encode = json.JSONEncoder(ensure_ascii=False).encode


def _plain(value: object) -> str:
    """A value on one line; nearly all are texts, integers and empty lists: no encoder is needed."""
    if type(value) is str:
        return _quoted(value)
    if type(value) is int:
        return str(value)
    return "[]" if value == [] else "null" if value is None else _encode(value)


class Rendered(str):
    """A list of a document, or an entry of one, as its file shows it."""

    __slots__ = ()


_ENTRY_MARGIN = "    "


def rendered_entry(entry: dict[str, Any]) -> Rendered:
    """An entry of a state's list as the file shows it."""
    return Rendered(indented_json(entry, _ENTRY_MARGIN))


def rendered_list(entries: list[Rendered]) -> Rendered:
    """A list of entries as the file shows it."""
    between = f",\n{_ENTRY_MARGIN}"
    return Rendered(f"[\n{_ENTRY_MARGIN}{between.join(entries)}\n  ]")


def indented_json(value: object, margin: str = "") -> str:
    """What `json.dumps(value, indent=2, ensure_ascii=False)` gives, in a fraction of its time.

    With an indent, the standard encoder works in Python throughout; here only the frame does. Most
    values are texts, which are handled without a call. What is rendered already stays as it is.
    """
    if type(value) is Rendered:
        return value
    if isinstance(value, dict) and value:
        inner = margin + "  "
        pairs = cast("dict[str, object]", value).items()
        parts = [
            f"{inner}{_quoted(key)}: "
            + (_quoted(part) if type(part) is str else indented_json(part, inner))
            for key, part in pairs
        ]
        return "{\n" + ",\n".join(parts) + f"\n{margin}}}"
    if isinstance(value, list) and value:
        inner = margin + "  "
        parts = [inner + indented_json(part, inner) for part in cast("list[object]", value)]
        return "[\n" + ",\n".join(parts) + f"\n{margin}]"
    return _plain(cast("object", value))


def handle_file_text(document: Mapping[str, Any]) -> str:
    """The file: the fields of a document, and the checksum of the text before it."""
    return with_checksum(indented_json(document).removesuffix("\n}") + ",\n")


def read_state_file(text: str | bytes) -> dict[str, Any]:
    """The state document that a state file holds.

    Raises InvalidInput for text that is no JSON, a schema that this release doesn't know, a file
    that was edited (its checksum shows it) and a document that breaks the schema.
    """
    from passdown.core.parsing import load_json
    from passdown.errors import InvalidInput

    loaded = load_json(text, max_bytes=_MAX_BYTES, max_depth=_MAX_DEPTH)
    document = cast("dict[str, Any]", loaded) if isinstance(loaded, dict) else {}
    given = document.get("schema")
    if given != STATE_SCHEMA:
        problem = Problem("schema", "unknown_schema", f"{str(given)[:60]!r}", STATE_SCHEMA)
        raise InvalidInput("this is not a state file that this release knows", [problem])
    problems = state_problems(document)
    if not is_intact(text if isinstance(text, str) else text.decode()):
        message = "the file is not as it was written"
        fix = "read the state from the ledger; record what the edit says with passdown"
        problems.insert(
            0, Problem("checksum", "edited_state_file", message, "an unedited file", fix)
        )
    raise_problems("the state file can't be trusted", problems)
    return document

"""What a channel holds, as it is stored: serialised parts, and only those that changed.

A list is stored by element and a dict by entry, so that a conversation which grew by a message
costs that message. Every part keeps the tag of its serializer; nothing here is ever decoded into
an object but by that serializer.
"""

from __future__ import annotations

import base64
import binascii
from types import NoneType
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import ormsgpack
from langchain_core.messages import BaseMessage

from passdown.errors import Damaged, InvalidInput, Problem
from passdown.model.redaction import redact_value

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from langgraph.checkpoint.serde.base import SerializerProtocol

EMPTY, WHOLE, LIST, DICT = "empty", "whole", "list", "dict"
SPARE_DEPTH = 64
"""How many more changes than parts a value may be made of before it is stored anew."""

_IMMUTABLE = (str, bytes, int, float, bool, NoneType)
_EXACTLY = (
    ormsgpack.OPT_PASSTHROUGH_SUBCLASS
    | ormsgpack.OPT_PASSTHROUGH_TUPLE
    | ormsgpack.OPT_PASSTHROUGH_DATACLASS
    | ormsgpack.OPT_PASSTHROUGH_DATETIME
)

Part = tuple[str, bytes]


class Ref(NamedTuple):
    """Where a record stands, and the digest that it must have."""

    position: int
    digest: str


class Value(NamedTuple):
    """A value in parts; `depth` counts the stored changes that it is put together from."""

    shape: str
    parts: list[Part]
    depth: int = 0


class Known(NamedTuple):
    """An object whose part is known, with a mark of how it was then (None: no telling)."""

    item: object
    mark: object
    part: Part


Live = list[Known]
"""The elements of a list that was stored or read last."""

NOTHING = Value(EMPTY, [])
"""The value of a channel that has none."""


def taken_apart(serde: SerializerProtocol, value: object, live: Live) -> tuple[Value, Live]:
    """A value in parts. What `live` knows and what hasn't changed since isn't serialised again."""
    if type(value) is list:
        known = _list_apart(serde, cast("list[object]", value), live)
        return Value(LIST, [each.part for each in known]), known
    if type(value) is dict and all(type(key) is str for key in cast("dict[object, object]", value)):
        pairs = cast("dict[str, object]", value).items()
        return Value(DICT, [serde.dumps_typed([key, item]) for key, item in pairs]), []
    return Value(WHOLE, [serde.dumps_typed(value)]), []


def _list_apart(serde: SerializerProtocol, items: list[object], live: Live) -> Live:
    found: Live = []
    by_identity: dict[int, Known] | None = None
    for place, item in enumerate(items):
        known = live[place] if place < len(live) else None
        if known is None or known.item is not item:
            if by_identity is None:
                by_identity = {id(each.item): each for each in live}
            known = by_identity.get(id(item))
        if known is None or not _is_unchanged(item, known.mark):
            known = Known(item, _mark(item), serde.dumps_typed(item))
        found.append(known)
    return found


def _mark(item: object) -> object:
    """What tells later whether an object was changed in place."""
    if type(item) in _IMMUTABLE:
        return True
    if not isinstance(item, BaseMessage) or item.__pydantic_extra__:
        return None
    fields = item.__dict__.copy()
    for name, field in fields.items():
        if type(field) in (dict, list) and not field:
            fields[name] = type(field)()
        elif type(field) not in (str, NoneType):
            return _packed(item)
    return fields


def _is_unchanged(item: Any, mark: object) -> bool:
    """Whether an object is as it was when it was marked."""
    if type(mark) is dict:  # texts and empty containers only: equal means the same
        return item.__dict__ == mark and not item.__pydantic_extra__
    if type(mark) is tuple:
        return _packed(item) == mark and not item.__pydantic_extra__
    return mark is True


def _packed(item: BaseMessage) -> tuple[object, bytes] | None:
    """Fields packed and not compared, since to `==` True and 1 are the same."""
    fields = item.__dict__.copy()
    content = fields.pop("content") if type(fields.get("content")) is str else None
    try:
        return content, ormsgpack.packb(fields, option=_EXACTLY)
    except TypeError:
        return None


def put_together(serde: SerializerProtocol, value: Value) -> tuple[object, Live]:
    """The object that a value's parts make, new at each call."""
    if value.shape == WHOLE:
        return serde.loads_typed(value.parts[0]), []
    items: list[Any] = [serde.loads_typed(part) for part in value.parts]
    if value.shape == DICT:
        return {pair[0]: pair[1] for pair in items}, []
    known = zip(items, value.parts, strict=True)
    return items, [Known(item, _mark(item), part) for item, part in known]


def change_of(value: Value, base: Value | None, at: Ref | None, coding: str) -> dict[str, Any]:
    """A value for a record: all of it, or what changed since the base that stands `at` a place."""
    kept = _kept(value, base)
    if base is None or at is None or kept is None:
        return {"shape": value.shape, "parts": [_text(part, coding) for part in value.parts]}
    start, end = kept
    parts = value.parts[start : len(value.parts) - end]
    return {
        "shape": value.shape,
        "base": list(at),
        "depth": base.depth + 1,
        "keep": [start, end],
        "parts": [_text(part, coding) for part in parts],
    }


def _kept(value: Value, base: Value | None) -> tuple[int, int] | None:
    """How many parts at the start and at the end are those of the base; None for too few."""
    if base is None or base.shape != value.shape:
        return None
    if base.depth >= len(value.parts) + SPARE_DEPTH:
        return None
    shorter = min(len(base.parts), len(value.parts))
    start = 0
    while start < shorter and base.parts[start] == value.parts[start]:
        start += 1
    end = 0
    while end < shorter - start and base.parts[-1 - end] == value.parts[-1 - end]:
        end += 1
    return (start, end) if start + end else None


def rebuilt(stored: dict[str, Any], parts: list[Part], coding: str) -> Value:
    """The value after one stored change; `parts` are the base's and are changed in place."""
    new = [_part(text, coding) for text in stored["parts"]]
    if "base" not in stored:
        return Value(stored["shape"], new)
    start, end = stored["keep"]
    parts[start : len(parts) - end] = new
    return Value(stored["shape"], parts, stored["depth"])


def _text(part: Part, coding: str) -> list[str]:
    kind, data = part
    text = data.hex() if coding == "base16" else base64.b64encode(data).decode()
    return [kind, text]


def _part(stored: Sequence[str], coding: str) -> Part:
    kind, text = stored
    try:
        if coding == "base16":
            return kind, bytes.fromhex(text)
        return kind, base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error) as error:
        problem = Problem("", "not_decodable", f"is no {coding}")
        raise Damaged("a stored value can't be read; nothing was decoded", [problem]) from error


def text_of(part: Part, coding: str) -> list[str]:
    """A part for a record."""
    return _text(part, coding)


def part_of(stored: Sequence[str], coding: str) -> Part:
    """A part from a record; raises Damaged."""
    return _part(stored, coding)


def untouched_body(make: Callable[[str], dict[str, Any]]) -> dict[str, Any]:
    """The body that `make` gives for a coding under which no text in it reads like a secret.

    What looks like one would be removed before writing, and base64 can look like anything: then
    base16 takes its place. A name that looks like a secret raises InvalidInput.
    """
    for coding in ("base64", "base16"):
        body = {**make(coding), "coding": coding}
        if not redact_value(body)[1]:
            return body
    found = ", ".join(redact_value(make("base16"))[1])
    message = f"a name in it looks like a secret ({found})"
    problem = Problem("", "secret", message, "channels, tasks and ids without secrets")
    raise InvalidInput("the checkpoint can't be stored; nothing was written", [problem])

"""Values as JSON and back, and their JSON Schema, by their annotations."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, cast, get_args, get_origin, get_type_hints

from passdown.core.times import stamp
from passdown.core.types import JsonObject

_PLAIN = (str, int, float, bool, NoneType)


def encode(value: Any) -> Any:
    """A value as JSON, by its `to_dict` or field by field; raises TypeError for no value."""
    if isinstance(value, _PLAIN):
        return value
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if isinstance(value, date):
        # A time without a zone is left as it is: whoever checks it says what is wrong.
        is_aware = isinstance(value, datetime) and value.tzinfo is not None
        return stamp(cast("datetime", value)) if is_aware else value.isoformat()
    names = field_names(value.__class__)
    if names:
        return {name: encode(getattr(value, name)) for name in names}
    if isinstance(value, Mapping):
        entries = cast("Mapping[object, object]", value)
        if odd := [key for key in entries if not isinstance(key, str)]:
            raise TypeError(f"a key is {type(odd[0]).__name__}")
        return {key: encode(part) for key, part in entries.items()}
    if isinstance(value, bytes | bytearray):
        raise TypeError("bytes are no JSON")
    return [encode(part) for part in value]


def decode(kind: Any, data: Any) -> Any:
    """The value of a type that JSON describes.

    Fields that the type doesn't have are ignored. Raises KeyError, TypeError or ValueError for what
    can't be one.
    """
    origin = get_origin(kind)
    if origin is Literal or kind in (Any, object):
        return data
    if origin in (Union, UnionType):
        kinds = get_args(kind)
        is_null = data is None and NoneType in kinds
        return None if is_null else decode(next(k for k in kinds if k is not NoneType), data)
    if origin is not None:
        return _decode_collection(origin, get_args(kind), data)
    return _decode_class(kind, data)


def _decode_class(kind: Any, data: Any) -> Any:
    if hasattr(kind, "from_dict"):
        return kind.from_dict(data)
    if names := field_names(kind):
        hints = type_hints(kind)
        return kind(**{name: decode(hints[name], data[name]) for name in names if name in data})
    if kind is datetime:
        moment = datetime.fromisoformat(data)
        return moment.astimezone(UTC) if moment.tzinfo else moment
    if not isinstance(data, kind) and not (kind is float and isinstance(data, int)):
        raise TypeError(f"{type(data).__name__} instead of {kind.__name__}")
    return data


def _decode_collection(origin: Any, kinds: tuple[Any, ...], data: Any) -> Any:
    if issubclass(origin, Mapping):
        if not isinstance(data, Mapping):
            raise TypeError(f"{type(data).__name__} instead of an object")
        entries = cast("Mapping[str, Any]", data)
        return {key: decode(kinds[1], part) for key, part in entries.items()}
    if not isinstance(data, list | tuple):
        raise TypeError(f"{type(data).__name__} instead of a list")
    data = cast("list[Any]", data)
    if origin is tuple and kinds[-1] is not Ellipsis:
        return tuple(decode(kind, part) for kind, part in zip(kinds, data, strict=True))
    parts = [decode(kinds[0], part) for part in data]
    return tuple(parts) if origin is tuple else parts


_TYPES: dict[Any, str] = {
    str: "string",
    date: "string",
    datetime: "string",
    int: "integer",
    bool: "boolean",
    float: "number",
    NoneType: "null",
}


def schema_of(kind: Any, definitions: JsonObject) -> JsonObject:
    """The JSON Schema of what `encode` makes of a type; classes with fields go to `definitions`."""
    origin, inner = get_origin(kind), get_args(kind)
    if kind in _TYPES:
        return {"type": _TYPES[kind]}
    if origin in (Union, UnionType):
        parts = [schema_of(part, definitions) for part in inner]
        if all(part.keys() == {"type"} for part in parts):
            return {"type": list(dict.fromkeys(part["type"] for part in parts))}
        return {"anyOf": parts} if all(parts) else {}
    if isinstance(origin or kind, type) and issubclass(origin or kind, Mapping):
        return {"type": "object"}
    if isinstance(origin, type):
        return {"type": "array", "items": schema_of(inner[0], definitions) if inner else {}}
    return _class_schema(kind, definitions) if isinstance(kind, type) else {}


def _class_schema(kind: type[Any], definitions: JsonObject) -> JsonObject:
    """A reference to the schema of a class; fields that have a default may be left out."""
    hints = {name: hint for name, hint in type_hints(kind).items() if name[0] != "_"}
    is_dataclass = hasattr(kind, "__dataclass_fields__")
    if not hints or (is_dataclass and hasattr(kind, "from_dict")):
        return {"type": "object"}  # the class says itself how it is sent
    name = kind.__name__
    if name not in definitions:
        definitions[name] = {}  # a class may hold itself
        defaults = getattr(kind, "_defaults", None) or getattr(kind, "_field_defaults", {})
        definitions[name] = {
            "type": "object",
            "properties": {each: schema_of(hint, definitions) for each, hint in hints.items()},
            "required": [e for e in hints if e not in defaults and not is_dataclass],
        }
    return {"$ref": f"#/$defs/{name}"}


@cache
def field_names(kind: Any) -> tuple[str, ...]:
    """The fields of a named tuple or a dataclass; none for anything else."""
    return getattr(kind, "_fields", None) or tuple(getattr(kind, "__dataclass_fields__", ()))


@cache
def type_hints(kind: Any) -> dict[str, Any]:
    """The types of a class's fields, or of a function's parameters and its result."""
    return get_type_hints(kind)


def as_document(self: Any) -> dict[str, Any]:
    """A value with fields as a plain JSON object: what a class takes as its `to_dict`."""
    return {name: encode(getattr(self, name)) for name in field_names(self.__class__)}


_LONGEST_REPR = 60


def short_repr(self: Any) -> str:
    """A value with fields in one line, long ones cut: what a class takes as its `__repr__`."""
    shown = [(name, getattr(self, name)) for name in field_names(self.__class__)]
    texts = [f"{name}={part!r}" for name, part in shown if part not in ("", None, (), [], {})]
    cut = [t if len(t) <= _LONGEST_REPR else t[: _LONGEST_REPR - 3] + "..." for t in texts]
    return f"{type(self).__name__}({', '.join(cut)})"

"""Values as JSON and back, by their annotations: what a server sends and its client reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import date, datetime
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, cast, get_args, get_origin, get_type_hints

from passdown.core.times import parse_time, stamp

_PLAIN = (str, int, float, bool, NoneType)


def encode(value: Any) -> Any:
    """A value as JSON: its own `to_dict` where it has one, else field by field."""
    if isinstance(value, _PLAIN):
        return value
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if isinstance(value, date):
        return stamp(value) if isinstance(value, datetime) else value.isoformat()
    names = field_names(value.__class__)
    if names:
        return {name: encode(getattr(value, name)) for name in names}
    if isinstance(value, Mapping):
        entries = cast("Mapping[object, object]", value)
        return {str(key): encode(part) for key, part in entries.items()}
    return [encode(part) for part in value]


def decode(kind: Any, data: Any) -> Any:
    """The value of a type that JSON stands for.

    Fields that the type doesn't have are ignored. Raises KeyError, TypeError or ValueError for what
    can't be one.
    """
    origin = get_origin(kind)
    if origin is Literal or kind in (Any, object):
        return data
    if origin in (Union, UnionType):
        return _decode_union(get_args(kind), data)
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
        return parse_time(data)
    if not isinstance(data, kind) and not (kind is float and isinstance(data, int)):
        raise TypeError(f"{type(data).__name__} instead of {kind.__name__}")
    return data


def _decode_union(kinds: tuple[Any, ...], data: Any) -> Any:
    if data is None and NoneType in kinds:
        return None
    return decode(next(kind for kind in kinds if kind is not NoneType), data)


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


@cache
def field_names(kind: Any) -> tuple[str, ...]:
    """The fields of a named tuple or a dataclass; none for anything else."""
    if is_dataclass(kind):
        return tuple(field.name for field in fields(kind))
    return getattr(kind, "_fields", ())


@cache
def type_hints(kind: Any) -> dict[str, Any]:
    """The types of a class's fields, or of a function's parameters and its result."""
    return get_type_hints(kind)

"""A state's values as plain JSON: what is hashed, recorded and compared, whatever framework made
them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from enum import Enum
from typing import Any, cast

from passdown.errors import InvalidInput, Problem
from passdown.model.handoff import as_plain
from passdown.model.text import child_path
from passdown.model.times import stamp

_MAX_DEPTH = 100
_SCALARS = (str, int, float, bool, type(None))


def plain(value: object, path: str = "") -> Any:
    """A copy of a value made of dict, list, text, numbers, booleans and None.

    Values of this package, aware times, enumerations and models that can dump themselves are
    turned into such data. Raises InvalidInput that names every place with anything else.
    """
    problems: list[Problem] = []
    result = _plain(value, path, problems, 0)
    if problems:
        step = "Keep plain data in the state, and other objects outside of it."
        raise InvalidInput("the state isn't plain data", problems, next_step=step)
    return result


def plain_text(value: object, path: str = "") -> str:
    """A value as JSON text, in which equal values read alike; refuses what `plain` refuses.

    The usual case, data that is plain already, needs no copy of it.
    """
    try:
        return json.dumps(value, sort_keys=True, default=_dumped)
    except (TypeError, ValueError, RecursionError):
        return json.dumps(plain(value, path), sort_keys=True)


def _dumped(value: object) -> Any:
    return plain(value)


def _plain(value: object, path: str, problems: list[Problem], depth: int) -> Any:
    if isinstance(value, Enum):
        value = cast("object", value.value)
    if isinstance(value, _SCALARS):
        return value
    if depth > _MAX_DEPTH:
        message = "is nested too deeply, or contains itself"
        problems.append(Problem(path[:120], "too_deep", message, f"at most {_MAX_DEPTH} levels"))
        return None
    if isinstance(value, Mapping):
        return _plain_pairs(cast("Mapping[object, object]", value), path, problems, depth)
    if isinstance(value, list | tuple):
        entries = enumerate(cast("list[object]", value))
        return [_plain(each, child_path(path, i), problems, depth + 1) for i, each in entries]
    return _plain_object(value, path, problems, depth)


def _plain_pairs(
    pairs: Mapping[object, object], path: str, problems: list[Problem], depth: int
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs.items():
        where = child_path(path, key)
        if not isinstance(key, str):
            given = f"a key of type {type(key).__name__}"
            problems.append(Problem(where, "wrong_type", given, "text"))
            continue
        found[key] = _plain(value, where, problems, depth + 1)
    return found


def _plain_object(value: object, path: str, problems: list[Problem], depth: int) -> Any:
    if isinstance(value, datetime) and value.tzinfo is not None:
        return stamp(value)
    if hasattr(type(value), "__dataclass_fields__"):
        return _plain(as_plain(value), path, problems, depth + 1)
    dump = getattr(value, "model_dump", None)
    if callable(dump) and not isinstance(value, type):
        return _plain(dump(mode="json"), path, problems, depth + 1)
    given = f"{type(value).__name__} given"
    problems.append(Problem(path, "wrong_type", given, "plain JSON data"))
    return None

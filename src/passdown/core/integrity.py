"""Checksums of program states, and where two states differ."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from enum import Enum
from typing import Any, NamedTuple, cast

from passdown.core.handoff import Decision, HandoffContext
from passdown.core.text import child_path
from passdown.errors import IntegrityViolation, InvalidInput, Problem

CHECKSUM_EXCLUDE = frozenset({"handoff_context"})
INTEGRITY_EXCLUDE = frozenset({"current_agent", "handoff_context", "messages"})

_MAX_DEPTH = 200
_TOO_DEEP = "nested too deeply, or the state contains itself"


class IntegrityReport(NamedTuple):
    """What differs between two states; `before` and `after` are their checksums."""

    ok: bool
    changed: tuple[str, ...]
    missing: tuple[str, ...]
    added: tuple[str, ...]
    before: str
    after: str

    @property
    def fields(self) -> tuple[str, ...]:
        """Every path that differs, sorted."""
        return tuple(sorted({*self.changed, *self.missing, *self.added}))


def state_checksum(
    state: Mapping[str, object] | HandoffContext | Decision,
    *,
    exclude: Collection[str] | None = None,
) -> str:
    """The SHA-256 of a state, a handoff's context or a decision, by value, in 64 hex digits.

    Top-level keys in `exclude` don't count; without it, `handoff_context` doesn't, and an empty
    collection excludes nothing. Raises InvalidInput naming the path of a value it can't read, of
    one that is nested too deeply and of one that contains itself.
    """
    if isinstance(state, Mapping):
        kept = _kept(state, CHECKSUM_EXCLUDE if exclude is None else exclude)
    else:
        kept = state
    try:
        return hashlib.sha256(_encode(kept, "", 0)).hexdigest()
    except RecursionError:  # the caller's own calls are nested deeply already
        raise _unreadable("", "too_deep", _TOO_DEEP, "fewer levels") from None


def compare_states(
    before: Mapping[str, object],
    after: Mapping[str, object],
    *,
    exclude: Collection[str] | None = None,
) -> IntegrityReport:
    """Compare two states and name each differing place by its deepest path (`a.b[2].c`).

    Without `exclude`, the top-level keys that a handoff is meant to change don't count:
    `current_agent`, `handoff_context` and `messages`.
    """
    skip = INTEGRITY_EXCLUDE if exclude is None else exclude
    old, new = _kept(before, skip), _kept(after, skip)
    sums = (state_checksum(old, exclude=()), state_checksum(new, exclude=()))
    found = _Differences([], [], [])
    if sums[0] != sums[1]:
        _compare(old, new, "", found)
    changed, missing, added = (tuple(sorted(paths)) for paths in found)
    return IntegrityReport(sums[0] == sums[1], changed, missing, added, *sums)


def check_integrity(
    before: Mapping[str, object],
    after: Mapping[str, object],
    *,
    exclude: Collection[str] | None = None,
    source: str = "",
    target: str = "",
    strict: bool = False,
    next_step: str = "Restore these fields, or list those that may change in `exclude`.",
) -> IntegrityReport:
    """Compare two states around a handoff from `source` to `target`; a difference is logged.

    A difference is logged as a warning to `passdown.integrity` and, when `strict`, raised as
    IntegrityViolation with `next_step` as its advice.
    """
    report = compare_states(before, after, exclude=exclude)
    if report.ok:
        return report
    import logging

    fields = list(report.fields)
    message = (
        f"State changed during the handoff from {source or 'unknown'} to {target or 'unknown'}: "
        + ", ".join(fields)
    )
    extra = {"source": source, "target": target, "fields": fields}
    logging.getLogger("passdown.integrity").warning("%s", message, extra=extra)
    if strict:
        raise IntegrityViolation(message, fields, next_step=next_step)
    return report


def _kept(state: Mapping[str, object], exclude: Collection[str]) -> dict[str, object]:
    return {key: value for key, value in state.items() if key not in exclude}


def _chunk(tag: bytes, payload: bytes) -> bytes:
    return b"%b%d:%b" % (tag, len(payload), payload)


def _encode(value: object, path: str, depth: int) -> bytes:
    if depth > _MAX_DEPTH:
        raise _unreadable(f"{path[:80]}...", "too_deep", _TOO_DEEP, f"at most {_MAX_DEPTH} levels")
    value = _plain(value)
    scalar = _encode_scalar(value)
    if scalar is not None:
        return scalar
    if isinstance(value, Mapping):
        pairs = cast("Mapping[object, object]", value)
        return _chunk(b"D", _encode_pairs(pairs, path, depth))
    if isinstance(value, (list, tuple)):
        entries = enumerate(cast("list[object]", value))
        return _chunk(b"L", b"".join(_encode(v, f"{path}[{i}]", depth + 1) for i, v in entries))
    if isinstance(value, (set, frozenset)):
        members = cast("set[object]", value)
        where = f"{path}{{}}"
        return _chunk(b"S", b"".join(sorted(_encode(v, where, depth + 1) for v in members)))
    if (fields := _dataclass_fields(value)) is not None:
        name = _encode(type(value).__qualname__, path, depth)
        return _chunk(b"C", name + _encode_pairs(fields, path, depth))
    raise _unreadable(
        path,
        "wrong_type",
        f"{type(value).__qualname__} can't be checksummed by value",
        "plain data (dict, list, text, number), or exclude the field",
    )


def _unreadable(path: str, code: str, message: str, expected: str) -> InvalidInput:
    problem = Problem(path or "the state", code, message, expected)
    return InvalidInput("the state can't be checksummed", [problem])


def _encode_pairs(pairs: Mapping[object, object], path: str, depth: int) -> bytes:
    parts: list[tuple[bytes, bytes]] = []
    for key, value in pairs.items():
        where = child_path(path, key)
        parts.append((_encode(key, where, depth + 1), _encode(value, where, depth + 1)))
    parts.sort()
    return b"".join(key + value for key, value in parts)


def _encode_scalar(value: object) -> bytes | None:
    """The bytes of a value with nothing below it; None for every other value."""
    if value is None or isinstance(value, bool):
        return b"N" if value is None else b"T" if value else b"F"
    if isinstance(value, str):
        return _chunk(b"s", value.encode("utf-8", "surrogatepass"))
    if isinstance(value, int):
        # hex, not decimal: Python refuses to write very long decimals
        return _chunk(b"i", b"%x" % value)
    if isinstance(value, float):
        return _chunk(b"f", _float_text(value).encode())
    if isinstance(value, bytes):
        return _chunk(b"b", value)
    return _encode_moment(value)


def _float_text(value: float) -> str:
    if value == 0:
        return "0"  # whatever its sign
    return float.hex(value)  # NaN has one spelling, whatever its sign and payload


def _encode_moment(value: object) -> bytes | None:
    from datetime import UTC, date, datetime

    if isinstance(value, datetime):
        if value.utcoffset() is None:
            return _chunk(b"n", value.replace(tzinfo=None).isoformat().encode())
        since = value - datetime(1970, 1, 1, tzinfo=UTC)
        return _chunk(b"t", b"%d,%d,%d" % (since.days, since.seconds, since.microseconds))
    if isinstance(value, date):
        return _chunk(b"d", value.isoformat().encode())
    return None


def _plain(value: object) -> object:
    """`value`, or the value of an Enum member."""
    while isinstance(value, Enum):
        value = cast("object", value.value)
    return value


def _dataclass_fields(value: object) -> dict[object, object] | None:
    """The fields of a dataclass instance; None for any other value."""
    if isinstance(value, type) or not hasattr(type(value), "__dataclass_fields__"):
        return None
    import dataclasses

    instance = cast("Any", value)
    return {field.name: getattr(instance, field.name) for field in dataclasses.fields(instance)}


class _Differences(NamedTuple):
    changed: list[str]
    missing: list[str]
    added: list[str]


def _compare(old: object, new: object, path: str, found: _Differences) -> None:
    """Note in `found` each place where `old` and `new` differ."""
    left, right = _parts(old, path), _parts(new, path)
    if left is None or right is None or left.kind != right.kind:
        if _encode(old, path, 0) != _encode(new, path, 0):
            found.changed.append(path)
        return
    for key, (where, value) in left.items.items():
        if key in right.items:
            _compare(value, right.items[key][1], where, found)
        else:
            found.missing.append(where)
    found.added.extend(where for key, (where, _) in right.items.items() if key not in left.items)


class _Parts(NamedTuple):
    """The parts of a value: its kind, and path and value of each part by encoded key."""

    kind: str
    items: dict[bytes, tuple[str, object]]


def _parts(value: object, path: str) -> _Parts | None:
    """The parts of a dict, list or dataclass; None for a value that is compared as a whole."""
    value = _plain(value)
    if isinstance(value, (list, tuple)):
        entries = enumerate(cast("list[object]", value))
        return _Parts("list", {b"%d" % i: (f"{path}[{i}]", v) for i, v in entries})
    if isinstance(value, Mapping):
        kind, pairs = "dict", cast("Mapping[object, object]", value)
    elif (fields := _dataclass_fields(value)) is not None:
        kind, pairs = f"class {type(value).__qualname__}", fields
    else:
        return None
    # By encoded key, since 1 and True are one key to a dict and two to a checksum.
    named = ((k, child_path(path, k), v) for k, v in pairs.items())
    return _Parts(kind, {_encode(key, where, 0): (where, item) for key, where, item in named})

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
    if isinstance(value, (set, frozenset)):
        members = cast("set[object]", value)
        where = f"{path}{{}}"
        return _chunk(b"S", b"".join(sorted(_encode(v, where, depth + 1) for v in members)))
    parts = _parts(value, path)
    if parts is None:
        raise _unreadable(
            path,
            "wrong_type",
            f"{type(value).__qualname__} can't be checksummed by value",
            "plain data (dict, list, text, number), or exclude the field",
        )
    if parts.tag == b"L":
        encoded = [_encode(part, where, depth + 1) for _, where, part in parts.parts]
        return _chunk(b"L", b"".join(encoded))
    pairs = [
        (_encode(key, where, depth + 1), _encode(part, where, depth + 1))
        for key, where, part in parts.parts
    ]
    name = _encode(parts.name, path, depth) if parts.tag == b"C" else b""
    return _chunk(parts.tag, name + b"".join(key + part for key, part in sorted(pairs)))


def _unreadable(path: str, code: str, message: str, expected: str) -> InvalidInput:
    problem = Problem(path or "the state", code, message, expected)
    return InvalidInput("the state can't be checksummed", [problem])


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
        # Zero and NaN have one spelling each, whatever their sign.
        return _chunk(b"f", (float.hex(value) if value else "0").encode())
    if isinstance(value, bytes):
        return _chunk(b"b", value)
    return _encode_moment(value)


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
    left, right = _parts(_plain(old), path), _parts(_plain(new), path)
    if left is None or right is None or left[:2] != right[:2]:
        if _encode(old, path, 0) != _encode(new, path, 0):
            found.changed.append(path)
        return
    # By encoded key, since 1 and True are one key to a dict and two to a checksum.
    before, after = (
        {_encode(key, where, 0): (where, part) for key, where, part in each.parts}
        for each in (left, right)
    )
    for key, (where, part) in before.items():
        if key in after:
            _compare(part, after[key][1], where, found)
        else:
            found.missing.append(where)
    found.added.extend(where for key, (where, _) in after.items() if key not in before)


class _Parts(NamedTuple):
    """What a value is made of: a tag and a name for its type; key, path and value of each part."""

    tag: bytes
    name: str
    parts: list[tuple[object, str, object]]


def _parts(value: object, path: str) -> _Parts | None:
    """The parts of a dict, list or dataclass; None for a value that is compared as a whole."""
    if isinstance(value, (list, tuple)):
        entries = enumerate(cast("list[object]", value))
        return _Parts(b"L", "", [(index, f"{path}[{index}]", part) for index, part in entries])
    tag, name, pairs = b"D", "", cast("Mapping[object, object]", value)
    if not isinstance(value, Mapping):
        fields = _dataclass_fields(value)
        if fields is None:
            return None
        tag, name, pairs = b"C", type(value).__qualname__, fields
    return _Parts(tag, name, [(key, child_path(path, key), pairs[key]) for key in pairs])

"""Records: the envelope, its canonical bytes (RFC 8785) and the digest that chains it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, cast

from passdown.core.text import child_path, has_lone_surrogate
from passdown.core.values import NamedTuple
from passdown.errors import InvalidInput, Problem

MAX_CANONICAL_DEPTH = 64
MAX_INTEGER = 2**53 - 1
"""The largest integer that every JSON reader keeps exactly."""

_SIMPLE, _OWN_ENCODER, _FAULTY = 0, 1, 2

_encode_simple = json.JSONEncoder(
    ensure_ascii=False, check_circular=False, sort_keys=True, separators=(",", ":")
).encode


def canonical_bytes(value: object) -> bytes:
    """`value` as canonical JSON in UTF-8.

    Takes dict (text keys), list, tuple, str, int, bool, float and None. Raises InvalidInput with
    every fault (not_finite, out_of_range, wrong_type, lone_surrogate, nul_character, too_deep).
    """
    kind = _survey(value)
    if kind == _FAULTY:
        raise _refusal(value)
    text = _encode_simple(value) if kind == _SIMPLE else _encode(value)
    if "\\u0000" in text and (problems := _faults(value)):  # may be a written-out backslash
        raise _refusal(value, problems)
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise _refusal(value) from None


def digest_bytes(data: bytes) -> str:
    """The SHA-256 of `data`, as `sha256:` and 64 hex digits."""
    import hashlib

    return "sha256:" + hashlib.sha256(data).hexdigest()


def _survey(value: object) -> int:
    """The most demanding kind among a value and all below it. Strings are checked later."""
    worst = _SIMPLE
    # The last first, so that what contains itself is soon too deep.
    waiting: list[tuple[Iterable[object], int]] = [((value,), 0)]
    while waiting:
        items, depth = waiting.pop()
        for item in items:
            if type(item) is str or item is None or isinstance(item, str):
                continue
            if isinstance(item, int | float):
                kind = _survey_number(item)
            elif depth >= MAX_CANONICAL_DEPTH or not isinstance(item, (dict, list, tuple)):
                return _FAULTY
            else:
                mapping = cast("dict[object, object]", item) if isinstance(item, dict) else None
                kind = _SIMPLE if mapping is None else _survey_keys(mapping)
                below = cast("list[object]", item) if mapping is None else mapping.values()
                waiting.append((below, depth + 1))
            if kind:
                worst = max(worst, kind)
                if kind == _FAULTY:
                    return _FAULTY
    return worst


def _survey_number(number: float) -> int:
    if isinstance(number, int):
        return _SIMPLE if -MAX_INTEGER <= number <= MAX_INTEGER else _FAULTY
    # In this range, and with a fraction, Python and ECMAScript write the same.
    if 1e-4 <= abs(number) < 1e16 and number % 1:
        return _SIMPLE
    return _OWN_ENCODER if number - number == 0 else _FAULTY


def _survey_keys(keys: Iterable[object]) -> int:
    try:
        together = "".join(cast("Iterable[str]", keys))
    except TypeError:
        return _FAULTY  # one is no text
    # UTF-16 units sort unlike code points from here on.
    return _SIMPLE if together.isascii() or max(together) < "\ud800" else _OWN_ENCODER


def _refusal(value: object, problems: list[Problem] | None = None) -> InvalidInput:
    return InvalidInput("The value has no canonical JSON form", problems or _faults(value))


def _faults(value: object) -> list[Problem]:
    """Every fault in `value`, or only the first place that is too deep."""
    found: list[Problem] = []
    # Depth first, and an end at the first place too deep: a value may contain itself.
    waiting: list[tuple[object, str, int]] = [(value, "", 0)]
    while waiting:
        item, path, depth = waiting.pop()
        if not isinstance(item, (dict, list, tuple)):
            found.extend(_scalar_faults(item, path))
        elif depth >= MAX_CANONICAL_DEPTH:
            expected = f"at most {MAX_CANONICAL_DEPTH} levels"
            return [Problem(path[:200], "too_deep", "nested too deeply", expected)]
        elif isinstance(item, dict):
            mapping = cast("dict[object, object]", item)
            for key in mapping:
                where = child_path(path, key)
                if isinstance(key, str):
                    found.extend(_scalar_faults(key, where))
                else:
                    message = f"a key is {type(key).__name__}"
                    found.append(Problem(where, "wrong_type", message, "text as key"))
            below = [(v, child_path(path, k), depth + 1) for k, v in mapping.items()]
            waiting.extend(reversed(below))
        else:
            entries = cast("list[object]", item)
            below = [(v, f"{path}[{i}]", depth + 1) for i, v in enumerate(entries)]
            waiting.extend(reversed(below))
    return found


def _scalar_faults(item: object, path: str) -> list[Problem]:
    found: list[Problem] = []
    if isinstance(item, str):
        if "\x00" in item:
            found.append(Problem(path, "nul_character", "contains U+0000", "text without it"))
        if has_lone_surrogate(item):
            message = "contains half of a surrogate pair"
            found.append(Problem(path, "lone_surrogate", message, "valid Unicode"))
    elif isinstance(item, int):
        if not -MAX_INTEGER <= item <= MAX_INTEGER:
            message = "the integer is too large to be kept exactly"
            expected = f"-{MAX_INTEGER} to {MAX_INTEGER}"
            found.append(Problem(path, "out_of_range", message, expected, "write it as text"))
    elif isinstance(item, float):
        if item - item != 0:
            found.append(Problem(path, "not_finite", f"the number is {item}", "a finite number"))
    elif item is not None:
        expected = "text, number, true, false, null, list or object"
        found.append(Problem(path, "wrong_type", f"{type(item).__name__} given", expected))
    return found


def _encode(item: object) -> str:
    if isinstance(item, dict):
        mapping = cast("dict[str, object]", item)
        # surrogatepass: a faulty key must reach the check at the end, which names it.
        keys = sorted(mapping, key=lambda key: key.encode("utf-16-be", "surrogatepass"))
        return "{" + ",".join(f"{_encode_simple(k)}:{_encode(mapping[k])}" for k in keys) + "}"
    if isinstance(item, (list, tuple)):
        return "[" + ",".join(_encode(entry) for entry in cast("list[object]", item)) + "]"
    return _number(item) if isinstance(item, float) else _encode_simple(item)


def _number(value: float) -> str:
    """`value` as ECMAScript writes it: the shortest digits that read back equal."""
    if value == 0:
        return "0"  # negative zero too
    sign = "-" if value < 0 else ""
    mantissa, _, exponent = float.__repr__(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    leading = len(whole + fraction) - len(digits)
    point = len(whole) - leading + int(exponent or 0)
    digits = digits.rstrip("0")
    if len(digits) <= point <= 21:
        return sign + digits + "0" * (point - len(digits))
    if 0 < point <= 21:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    tail = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{tail}e{point - 1:+d}"


GENESIS = "sha256:" + "0" * 64
_DOMAIN = b"passdown/record/1"


class Record(NamedTuple):
    """One stored fact. `seq` is its place in the order of the whole store (0: not stored yet)."""

    stream: str
    position: int
    at: str
    author: str
    kind: str
    key: str
    previous: str
    digest: str
    body: bytes
    seq: int = 0

    def document(self) -> dict[str, Any]:
        """The body as plain data."""
        return json.loads(self.body)

    def is_intact(self) -> bool:
        """Whether the digest is the one that these fields give."""
        return self.digest == seal(self)


class Head(NamedTuple):
    """The last record of a stream: what the next one must follow."""

    stream: str
    position: int
    digest: str


def seal(record: Record) -> str:
    """The digest that belongs to a record's fields."""
    import hashlib

    parts = (
        _DOMAIN,
        record.stream.encode(),
        str(record.position).encode(),
        record.at.encode(),
        record.author.encode(),
        record.kind.encode(),
        record.key.encode(),
        record.previous.encode(),
        record.body,
    )
    return "sha256:" + hashlib.sha256(b"".join(b"%d:%b" % (len(p), p) for p in parts)).hexdigest()


def chained(record: Record, head: Head | None) -> Record:
    """The record placed after `head` and sealed."""
    placed = record._replace(
        position=head.position + 1 if head else 1, previous=head.digest if head else GENESIS
    )
    return placed._replace(digest=seal(placed))

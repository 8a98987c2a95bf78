"""Canonical JSON: one value has one spelling, and what has none is refused by name."""

from __future__ import annotations

import json
import math
import struct
from typing import Any

import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from passdown.core.record import MAX_INTEGER, canonical_bytes, digest_bytes
from passdown.errors import InvalidInput
from tests.sizes import example_count

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=8)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-MAX_INTEGER, MAX_INTEGER)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4)
)


def faults(value: object) -> list[tuple[str, str]]:
    """Path and code of everything that is refused in `value`."""
    with pytest.raises(InvalidInput) as caught:
        canonical_bytes(value)
    return [(problem.path, problem.code) for problem in caught.value.problems]


@settings(max_examples=example_count(200))
@given(VALUES)
def test_the_bytes_are_those_of_rfc_8785(value: Any) -> None:
    """Another implementation of the standard writes every value the same."""
    assert canonical_bytes(value) == rfc8785.dumps(value)


@pytest.mark.parametrize("bits", [0x1, 0x7FEFFFFFFFFFFFFF, 0x444B1AE4D6E2EF50, 0x3EB0C6F7A0B5ED8D])
def test_numbers_are_those_of_rfc_8785(bits: int) -> None:
    number = struct.unpack(">d", bits.to_bytes(8, "big"))[0]
    assert canonical_bytes(number) == rfc8785.dumps(number)


@given(VALUES)
def test_what_is_written_reads_back_equal(value: object) -> None:
    """Any JSON reader gets the value back, and writing that again gives the same bytes."""
    data = canonical_bytes(value)
    again = json.loads(data, parse_int=reread)
    assert again == value
    assert canonical_bytes(again) == data


def reread(digits: str) -> float:
    """An integer, or a float when it was a float too large to be an exact integer."""
    number = int(digits)
    return number if abs(number) <= MAX_INTEGER else float(digits)


@given(st.dictionaries(TEXTS, SCALARS, max_size=6), st.randoms())
def test_key_order_makes_no_difference(value: dict[str, object], random: object) -> None:
    """The same entries in another order give the same bytes."""
    keys = list(value)
    random.shuffle(keys)  # type: ignore[attr-defined]
    assert canonical_bytes({key: value[key] for key in keys}) == canonical_bytes(value)


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00")))
def test_both_encoders_write_texts_alike(text: str) -> None:
    """A text is spelled the same whichever encoder takes it."""
    assert canonical_bytes([text, 1.0]) == canonical_bytes([text, 1])


def test_keys_are_sorted_by_utf16_units() -> None:
    """The example of RFC 8785: an emoji sorts before a Hebrew presentation form."""
    keys = ["\u20ac", "\r", "\ufb33", "1", "\U0001f600", "\u0080", "\u00f6"]
    written = list(json.loads(canonical_bytes(dict.fromkeys(keys, 0))))
    assert written == ["\r", "1", "\u0080", "\u00f6", "\u20ac", "\U0001f600", "\ufb33"]


def test_escapes_are_the_short_ones() -> None:
    """Only what must be escaped is, in the shortest form; other characters stay."""
    text = "\u20ac$\u000f\u000aA'\u0042\u0022\u005c\\\"/\b\f\t\r\x7f\u2028"
    assert canonical_bytes(text) == (
        '"\u20ac$\\u000f\\nA\'B\\"\\\\\\\\\\"/\\b\\f\\t\\r\x7f\u2028"'.encode()
    )


@pytest.mark.parametrize(
    ("bits", "expected"),
    [
        ("0000000000000000", "0"),
        ("8000000000000000", "0"),
        ("0000000000000001", "5e-324"),
        ("8000000000000001", "-5e-324"),
        ("7fefffffffffffff", "1.7976931348623157e+308"),
        ("4340000000000000", "9007199254740992"),
        ("4430000000000000", "295147905179352830000"),
        ("44b52d02c7e14af5", "9.999999999999997e+22"),
        ("44b52d02c7e14af6", "1e+23"),
        ("444b1ae4d6e2ef4e", "999999999999999700000"),
        ("444b1ae4d6e2ef50", "1e+21"),
        ("3eb0c6f7a0b5ed8c", "9.999999999999997e-7"),
        ("3eb0c6f7a0b5ed8d", "0.000001"),
        ("41b3de4355555553", "333333333.3333332"),
        ("becbf647612f3696", "-0.0000033333333333333333"),
        ("43143ff3c1cb0959", "1424953923781206.2"),
    ],
)
def test_numbers_are_written_as_ecmascript_does(bits: str, expected: str) -> None:
    """The number samples in the appendix of RFC 8785."""
    (number,) = struct.unpack(">d", bytes.fromhex(bits))
    assert canonical_bytes(number).decode() == expected


def test_every_fault_is_named_with_its_place() -> None:
    """One refusal lists all that is wrong, not only the first."""
    value = {
        "a": {"b": [1, 2, math.nan]},
        "big": 2**53,
        "odd": {1},
        "half": "\ud800",
        "nul": ["x\x00"],
        "inf": -math.inf,
    }
    assert faults(value) == [
        ("a.b[2]", "not_finite"),
        ("big", "out_of_range"),
        ("odd", "wrong_type"),
        ("half", "lone_surrogate"),
        ("nul[0]", "nul_character"),
        ("inf", "not_finite"),
    ]


def test_faulty_keys_are_named() -> None:
    """Keys follow the rules of text, and must be text."""
    assert faults({1: "x"}) == [("[1]", "wrong_type")]
    assert [code for _, code in faults({"a\x00": 1, "\ud800": 0.5})] == [
        "nul_character",
        "lone_surrogate",
    ]


def test_a_written_out_backslash_u0000_is_no_nul() -> None:
    """The six characters of the escape are ordinary text."""
    assert canonical_bytes("\\u0000") == b'"\\\\u0000"'


def test_deep_and_endless_values_are_refused() -> None:
    """64 levels pass; 65 and a list that contains itself twice don't, at once."""
    deep: object = 1
    for _ in range(64):
        deep = [deep]
    assert canonical_bytes(deep) == b"[" * 64 + b"1" + b"]" * 64
    assert faults([deep])[0][1] == "too_deep"
    endless: list[object] = []
    endless += [endless, endless]
    assert faults(endless)[0][1] == "too_deep"


def test_the_digest_names_its_algorithm() -> None:
    """A digest is the algorithm and 64 hex digits."""
    assert digest_bytes(b"") == "sha256:" + (
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    )

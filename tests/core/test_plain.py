"""Untrusted JSON and YAML: nothing guessed, nothing dropped, nothing that blows up."""

from __future__ import annotations

import contextlib
import json
import time
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from passdown.core.parsing import load_json, load_yaml
from passdown.core.record import MAX_INTEGER
from passdown.errors import InvalidInput, Problem
from tests.sizes import cpu_seconds

if TYPE_CHECKING:
    from collections.abc import Callable

JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-MAX_INTEGER, MAX_INTEGER)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def refusal(load: Callable[[str | bytes], object], text: str | bytes) -> Problem:
    """The one problem with `text`."""
    with pytest.raises(InvalidInput) as caught:
        load(text)
    (problem,) = caught.value.problems
    return problem


@given(JSON_VALUES, st.booleans())
def test_ordinary_json_is_read_as_usual(value: object, ascii_only: bool) -> None:
    """Whatever the standard library writes, as text or bytes, reads back equal."""
    text = json.dumps(value, ensure_ascii=ascii_only)
    assert load_json(text) == value
    assert load_json(b"\xef\xbb\xbf" + text.encode()) == value


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ('{"summary":"a",\n "summary":"b"}', "duplicate_key", "summary is given twice"),
        ('{"a":{"x":1},"b":{"x":1},\n[{"y":"y: ","y":2}]}', "invalid_json", "line 2"),
        ('{"a":{"x":1},\n"c":[{"y":"y: ","y":2}]}', "duplicate_key", "line 2, column 17"),
        ('{"a":1,"\\u0061":2}', "duplicate_key", "line 1, column 8"),
        ('{"score":\n NaN}', "not_finite", "line 2, column 2"),
        ('["NaN", -Infinity]', "not_finite", "column 9"),
        ('{"n": 9223372036854775808}', "out_of_range", "9223372036854775808"),
        ('{"n": 9007199254740992}', "out_of_range", "column 7"),
        ("1" * 5000, "out_of_range", "..."),
        ("0." + "1" * 5000, "out_of_range", "..."),
        ("[1e999]", "out_of_range", "1e999"),
        (b'{"a":\n "\xff"}', "invalid_utf8", "line 2"),
        ('"\ud800"', "lone_surrogate", "half"),
        ("[" * 33 + "]" * 33, "too_deep", "column 33"),
        ("[" * 100_000, "too_deep", "line 1"),
        ('{"a":' * 100_000, "too_deep", "line 1"),
        ('{"a":\n 1,}', "invalid_json", "line 2"),
        ('{"a": "\x1b"}', "invalid_json", "control character"),
        ("", "invalid_json", "line 1, column 1"),
        (" " * 1_048_577, "too_large", "1,048,577"),
        ("\u20ac" * 400_000, "too_large", "1,200,000"),
    ],
)  # fmt: skip
def test_bad_json_is_refused_with_its_place(text: str | bytes, code: str, words: str) -> None:
    """Each trap has a code of its own and a message that says where."""
    problem = refusal(load_json, text)
    assert problem.code == code
    assert words in problem.message
    assert len(problem.message) < 200


def test_half_a_pair_written_as_an_escape_is_found() -> None:
    """An escape can't bring in what the text itself may not hold; a whole pair may."""
    problem = refusal(load_json, '{"a": ["x", "\\ud800"]}')
    assert (problem.code, problem.path) == ("lone_surrogate", "a[1]")
    assert load_json('"\\ud83d\\ude00"') == "\U0001f600"


def test_brackets_inside_texts_are_no_depth() -> None:
    """Only real nesting counts, even beside quotes and backslashes."""
    assert load_json(json.dumps(["[" * 99, '"[' * 99, "\\" * 99])) == [
        "[" * 99,
        '"[' * 99,
        "\\" * 99,
    ]


@pytest.mark.parametrize(
    "text", ['"\\"' + '\\"' * 400_000, '["' * 400_000, '{"a":1,"a":"' + "x" * 900_000]
)
def test_hostile_json_is_refused_quickly(text: str) -> None:
    """Text made to be slow to read is refused in a moment."""
    start = time.process_time()
    refusal(load_json, text)
    assert time.process_time() - start < 1


def test_yaml_scalars_stay_as_written() -> None:
    """No word turns into a bool, a float or a time; only an empty one, ~ and null mean nothing."""
    text = (
        "outcome: no\nversion: 1.10\nlines: 12:30:45\nsha: 0e12\nday: 2024-01-01\n"
        "on: yes\nnothing:\ntilde: ~\nnull: null\nquoted: 'null'\nempty: ''\n"
        "list: [a, 1, ~]\nblock: |\n  two\n  lines\n"
    )
    assert load_yaml(text) == {
        "outcome": "no",
        "version": "1.10",
        "lines": "12:30:45",
        "sha": "0e12",
        "day": "2024-01-01",
        "on": "yes",
        "nothing": None,
        "tilde": None,
        "null": None,
        "quoted": "null",
        "empty": "",
        "list": ["a", "1", None],
        "block": "two\nlines\n",
    }
    assert load_yaml("") is None
    assert load_yaml(b"\xef\xbb\xbf--- [x]\n...\n") == ["x"]


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("&a [*a]", "yaml_alias", "line 1, column 1"),
        ("a: 1\nb: *x\n", "yaml_alias", "line 2, column 4"),
        ("a: &x 1\n", "yaml_alias", "line 1, column 4"),
        ("&k a: 1\n", "yaml_alias", "line 1"),
        ("a: !!python/object/apply:os.system ['id']\n", "yaml_tag", "os.system"),
        ("a: !!str 1\n", "yaml_tag", "line 1"),
        ("a: ! x\n", "yaml_tag", "line 1"),
        ("%TAG ! tag:x,2000:\n--- a\n", "yaml_tag", "directive"),
        ("a: 1\nb: 2\na: 2\n", "duplicate_key", "line 3, column 1"),
        ("a: 1\n'a': 2\n", "duplicate_key", "line 2"),
        ("<<: {a: 1}\n", "yaml_merge", "line 1"),
        ("? [a]\n: 1\n", "yaml_key", "line 1"),
        ("--- a\n--- b\n", "several_documents", "line 2"),
        ("[" * 33 + "]" * 33, "too_deep", "column 33"),
        ("[" * 100_000, "too_deep", "line 1"),
        ("- " * 40 + "x", "too_deep", "line 1"),
        ("a: \x1b[2J\n", "control_character", "\\x1b"),
        ("a: x\n\x00", "control_character", "line 2"),
        ("a: [1\nb: 2\n", "invalid_yaml", "line 2"),
        ("a: b: c\n", "invalid_yaml", "line 1"),
        ("a:\n\t- b\n", "invalid_yaml", "line 2"),
        (b"a: \xff\n", "invalid_utf8", "line 1"),
        ('a: "\\ud800"\n', "*", ""),
        ("a" * 1_048_577, "too_large", "1,048,577"),
    ],
)
def test_bad_yaml_is_refused_with_its_place(text: str | bytes, code: str, words: str) -> None:
    """Each trap has a code of its own and a message that says where."""
    problem = refusal(load_yaml, text)
    assert problem.code == code or (code == "*" and problem.code)
    assert words in problem.message


def test_a_text_that_swells_is_refused_at_once() -> None:
    """Nine levels of nine references each never come to be."""
    lines = ['a: &a ["x"]'] + [
        f"{b}: &{b} [{','.join(['*' + a] * 9)}]"
        for a, b in zip("abcdefgh", "bcdefghi", strict=True)
    ]
    assert refusal(load_yaml, "\n".join(lines)).code == "yaml_alias"
    assert cpu_seconds(lambda: refusal(load_yaml, "\n".join(lines)), 0.5) <= 0.5


@given(st.text() | st.binary())
def test_any_text_is_read_or_refused(text: str | bytes) -> None:
    """Whatever comes in, the only failure is a refusal."""
    for load in (load_json, load_yaml):
        with contextlib.suppress(InvalidInput):
            load(text)

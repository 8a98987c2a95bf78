"""Checksums of states: by value, stable anywhere; and where two states differ."""

from __future__ import annotations

import dataclasses
import enum
import logging
import math
import os
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from passdown.core.handoff import HandoffContext
from passdown.core.integrity import check_integrity, compare_states, state_checksum
from passdown.errors import IntegrityViolation, InvalidInput

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4) | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)
STATES = st.dictionaries(st.text(max_size=4), VALUES, max_size=5)


class Colour(enum.Enum):
    """A value with a name."""

    RED = "red"


@dataclasses.dataclass
class Point:
    """A value with fields."""

    x: int
    y: object = None


def one(value: object) -> str:
    """The checksum of a state with one field."""
    return state_checksum({"v": value})


@pytest.mark.promise("S0-22")
@given(STATES)
def test_key_order_makes_no_difference(state: dict[str, object]) -> None:
    """The same entries in reverse order have the same checksum."""
    turned = dict(reversed(list(state.items())))
    assert state_checksum(turned) == state_checksum(state)
    assert compare_states(state, turned).ok


@pytest.mark.promise("S0-22")
def test_a_context_has_a_checksum_of_its_own() -> None:
    """By value: another one that says the same has the same."""
    at = datetime(2026, 1, 2, tzinfo=UTC)
    contexts = [HandoffContext(source="a", target=to, at=at) for to in ("b", "b", "c")]
    first, same, other = map(state_checksum, contexts)
    assert first == same != other


def test_another_process_gets_the_same_checksum() -> None:
    """Neither the process nor its hash seed plays a part, sets included."""
    source = Path(__file__).parents[2] / "src"
    script = (
        "from passdown.core.integrity import state_checksum;"
        "print(state_checksum({'s': set('abcdefgh'), 'd': {'k': 1.5, 'j': b'x'}, 'n': None}))"
    )
    sums: set[str] = set()
    for seed in ("1", "2"):
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(source)}
        command = [sys.executable, "-c", script]
        done = subprocess.run(command, env=env, check=True, capture_output=True, text=True)
        sums.add(done.stdout.strip())
    assert sums == {
        state_checksum({"n": None, "d": {"j": b"x", "k": 1.5}, "s": frozenset("hgfedcba")})
    }


@pytest.mark.promise("S0-22")
def test_the_checksum_never_changes_between_releases() -> None:
    """A known state keeps the checksum it had in the first release."""
    checksum = state_checksum({"task": "T-1", "done": [True, 2, 0.5], "by": {"name": "dev"}})
    assert checksum == "1f6466ef4aeba8bba8fddec57498686b5395ebac11efdcb7fcc02e41b9500cf8"


@pytest.mark.promise("S0-22")
def test_unlike_values_never_look_alike() -> None:
    """Values that print alike or compare equal across types have checksums of their own."""
    moment = datetime(2024, 1, 1, tzinfo=UTC)
    values: list[object] = [
        None, "None", "", b"", 0, False, 0.0, "0", 1, True, 1.0, "1", b"1", [], {}, set(), [1],
        {1}, {"1": None}, {1: None}, {True: None}, ["1"], [[1]], ["a", "b"], ["ab"], ["a,b"],
        math.nan, math.inf, -math.inf, moment, moment.replace(tzinfo=None), date(2024, 1, 1),
        "2024-01-01", Point(1), {"x": 1, "y": None}, 10**5000, -(10**5000),
    ]  # fmt: skip
    assert len({one(value) for value in values}) == len(values)


@pytest.mark.promise("S0-22")
def test_equal_values_look_alike() -> None:
    """What means the same has the same checksum, whatever object carries it."""
    noon = datetime(2024, 1, 1, 12, tzinfo=UTC)
    paris = noon.astimezone(timezone(timedelta(hours=1)))
    assert one((1, [2])) == one([1, (2,)])
    assert one(-0.0) == one(0.0)
    assert one(math.nan) == one(-math.nan)
    assert one(noon) == one(paris)
    assert one(Colour.RED) == one("red")
    assert one(Point(1, [2])) == one(Point(1, (2,)))
    assert one({2, 1}) == one(frozenset([1, 2]))
    assert one(datetime.min.replace(tzinfo=timezone(timedelta(hours=5))))


@pytest.mark.promise("S0-22")
def test_an_unreadable_value_is_named() -> None:
    """An object without a value of its own is refused with its path and type, and so is what is
    nested too deeply or contains itself: each as input that breaks a rule.
    """
    endless: list[object] = []
    endless.append(endless)
    deep: object = 1
    for _ in range(100_000):
        deep = [deep]
    odd: list[tuple[object, str]] = [
        ({"b": [0, object()]}, r"a\.b\[1\]: object can't"),
        (endless, "contains itself"),
        (deep, "nested too deeply"),
    ]
    for value, said in odd:
        with pytest.raises(InvalidInput, match=said):
            state_checksum({"a": value})
        with pytest.raises(InvalidInput, match=said):
            check_integrity({"a": value}, {"a": 1})
        with pytest.raises(InvalidInput, match=said):
            check_integrity({"a": 1}, {"a": value})


@pytest.mark.promise("S0-22")
def test_a_caller_that_is_nested_deeply_itself_gets_the_same_error() -> None:
    nested: object = 1
    for _ in range(150):
        nested = {"a": nested}

    def down(depth: int) -> str:
        return down(depth - 1) if depth else state_checksum({"a": nested})

    limit = sys.getrecursionlimit()
    for depth in range(limit - 700, limit - 150, 50):
        try:
            assert down(depth) == down(0)
        except InvalidInput:
            return
        except RecursionError:
            continue
    pytest.fail("no depth was refused")


@pytest.mark.promise("S0-23")
def test_the_handoff_context_does_not_count_unless_asked_for() -> None:
    """By default `handoff_context` is left out; an explicit empty set leaves nothing out."""
    bare, full = {"a": 1}, {"a": 1, "handoff_context": {"n": 2}}
    assert state_checksum(bare) == state_checksum(full)
    assert state_checksum(bare, exclude=set()) != state_checksum(full, exclude=set())
    assert state_checksum({"a": 1, "b": 2}, exclude={"b"}) == state_checksum(bare)


@pytest.mark.promise("S0-24")
def test_a_handoff_may_change_what_it_is_meant_to_change() -> None:
    """The acting agent, the handoff context and the messages don't count, at the top only."""
    before = {"plan": 1, "current_agent": "a", "messages": ["x"]}
    after: dict[str, object] = {
        "plan": 1,
        "current_agent": "b",
        "messages": [],
        "handoff_context": {},
    }
    assert compare_states(before, after).ok
    assert not compare_states(before, after, exclude=()).ok
    assert compare_states({"a": {"messages": 1}}, {"a": {"messages": 2}}).fields == ("a.messages",)


@pytest.mark.promise("S0-24")
@pytest.mark.parametrize(
    "after",
    [
        {"a": 2, "items": [1, 2]},
        {"items": [1, 2]},
        {"a": 1, "items": [1]},
        {"a": True, "items": [1, 2]},
    ],
)
def test_any_change_is_found(after: dict[str, object]) -> None:
    """A changed, missing, truncated or retyped field is not ok."""
    assert not compare_states({"a": 1, "items": [1, 2]}, after).ok


@pytest.mark.promise("S0-24")
@given(STATES, STATES)
def test_ok_and_fields_agree(before: dict[str, object], after: dict[str, object]) -> None:
    """A report names fields exactly when the checksums differ."""
    report = compare_states(before, after, exclude=())
    assert report.ok == (report.before == report.after) == (not report.fields)


@pytest.mark.promise("S0-25")
def test_the_deepest_differing_place_is_named() -> None:
    """Changed, missing and added places are told apart, each by its full path."""
    before = {"a": {"b": [0, 1, {"c": 1}]}, "items": [1, 2, 3, 4], "gone": 1, "p": Point(1)}
    after = {"a": {"b": [0, 1, {"c": 2}]}, "items": [1, 2, 3], "odd key": 1, "p": Point(2)}
    report = compare_states(before, after)
    assert report.changed == ("a.b[2].c", "p.x")
    assert report.missing == ("gone", "items[3]")
    assert report.added == ('["odd key"]',)
    assert report.fields == ('["odd key"]', "a.b[2].c", "gone", "items[3]", "p.x")


@pytest.mark.promise("S0-25")
def test_keys_that_a_dict_takes_for_one_are_told_apart() -> None:
    """1 and True are one key to a dict, yet a swap of them is named."""
    assert compare_states({"a": {1: 0}}, {"a": {True: 0}}).fields == ("a[1]", "a[True]")


@pytest.mark.promise("S0-26")
def test_a_difference_is_logged_with_names(caplog: pytest.LogCaptureFixture) -> None:
    """By default a difference is a warning that names both agents and the fields."""
    with caplog.at_level(logging.WARNING, "passdown.integrity"):
        report = check_integrity({"a": 1}, {"a": 2}, source="dev", target="qa")
    (record,) = caplog.records
    assert not report.ok
    assert record.name == "passdown.integrity"
    assert all(word in record.getMessage() for word in ("dev", "qa", "a"))
    assert (vars(record)["source"], vars(record)["target"]) == ("dev", "qa")
    assert vars(record)["fields"] == ["a"]


@pytest.mark.promise("S0-26")
def test_strict_raises_and_an_equal_state_is_silent(caplog: pytest.LogCaptureFixture) -> None:
    """Strict mode raises with the fields; without a difference nothing is said."""
    assert check_integrity({"a": 1}, {"a": 1}, strict=True).ok
    assert not caplog.records
    with pytest.raises(IntegrityViolation) as caught:
        check_integrity({"a": 1}, {}, source="dev", target="qa", strict=True)
    assert caught.value.fields == ("a",)
    assert caplog.records

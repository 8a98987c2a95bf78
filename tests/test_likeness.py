"""What was recorded before in nearly the same words is reported when it is written again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import passdown
from passdown import Settings
from passdown.core.words import NEAR_DUPLICATE, band_marks, is_similar, similarity
from passdown.testing import fixed_clock, full_handoff, write_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from passdown import Workspace
    from passdown.errors import Problem

SAYING = "Session cookies live for one hour and are signed by us"
NEARLY = "session cookies live one hour only, and they are signed"


@pytest.fixture
def ws(tmp_path: Path) -> Iterator[Workspace]:
    write_files(str(tmp_path))
    chosen = Settings(durability="normal", embedder="none")
    with passdown.open(str(tmp_path), settings=chosen, clock=fixed_clock()) as workspace:
        for task in ("T-1", "T-2"):
            workspace.create_task(task, title=f"Work on {task}", agent="planner")
        yield workspace


def decide(ws: Workspace, summary: str, task: str = "T-1", **more: Any) -> Any:
    return ws.decide(task=task, agent="coder", summary=summary, rationale="theft", **more)


def alike(warnings: Iterable[Problem]) -> list[tuple[str, str]]:
    """Where a warning points, and the address it names."""
    return [
        (warning.path, warning.message.split()[0])
        for warning in warnings
        if warning.code == "near_duplicate"
    ]


def test_a_decision_like_one_of_another_task_is_reported_with_its_address(ws: Workspace) -> None:
    decide(ws, SAYING)
    receipt = decide(ws, NEARLY, "T-2")
    assert alike(receipt.warnings) == [("decisions[0]", "T-1#d1")]
    (warning,) = receipt.warnings
    assert warning.level == "warning"
    assert "T-1#d1" in warning.fix
    assert alike(decide(ws, "Invoices are numbered without gaps").warnings) == []


def test_patterns_gotchas_and_handoffs_are_compared_with_their_kind(ws: Workspace) -> None:
    ws.note("pattern", task="T-1", agent="a", pattern=SAYING, location="src")
    ws.note("gotcha", task="T-1", agent="a", issue=SAYING, mitigation="mind", severity="low")
    assert alike(decide(ws, SAYING).warnings) == []
    given: dict[str, Any] = {
        "task": "T-2",
        "outcome": "completed",
        "from_agent": "coder",
        "decisions": [{"summary": "Something new altogether", "rationale": "so it is"}],
        "patterns_discovered": [{"pattern": NEARLY, "location": "src", "applies_to": ["x"]}],
        "gotchas": [{"issue": NEARLY, "mitigation": "mind", "severity": "low"}],
    }
    expected = [("patterns_discovered[0]", "T-1#p1"), ("gotchas[0]", "T-1#g1")]
    assert sorted(alike(ws.check_handoff(given).problems)) == sorted(expected)
    assert sorted(alike(ws.hand_off(given).warnings)) == sorted(expected)


def test_what_it_supersedes_is_meant_to_be_like_it(ws: Workspace) -> None:
    first = decide(ws, SAYING).items[0]
    assert alike(decide(ws, NEARLY, supersedes=[first]).warnings) == []


def test_what_was_taken_back_or_superseded_is_not_reported(ws: Workspace) -> None:
    first = decide(ws, SAYING).items[0]
    ws.set_status(first, "reverted", agent="coder")
    assert alike(decide(ws, NEARLY, "T-2").warnings) == []
    ws.note("pattern", task="T-1", agent="a", pattern=SAYING, location="src")
    ws.set_status("T-1#p1", "retracted", agent="a")
    again = ws.note("pattern", task="T-2", agent="a", pattern=NEARLY, location="src")
    assert alike(again.warnings) == []


def test_a_repeat_is_no_news(ws: Workspace) -> None:
    write = lambda: decide(ws, SAYING, key="k")  # noqa: E731
    write()
    repeat = write()
    assert (repeat.is_replay, repeat.warnings) == (True, ())
    ws.hand_off(full_handoff(), key="h")
    assert alike(ws.hand_off(full_handoff(), key="h").warnings) == []


def test_likes_of_other_kinds_do_not_hide_one_of_the_same(ws: Workspace) -> None:
    """However many there are."""
    first = decide(ws, SAYING).items[0]
    for number in range(60):
        text = f"{SAYING} {number % 7}"
        ws.note("pattern", task="T-1", agent="a", pattern=text, location="src", key=f"k{number}")
    assert alike(decide(ws, NEARLY, "T-2").warnings) == [("decisions[0]", first)]


def test_a_few_words_are_like_nothing(ws: Workspace) -> None:
    ws.note("pattern", task="T-1", agent="a", pattern="Use it", location="x")
    found = ws.note("pattern", task="T-2", agent="a", pattern="Use it", location="x")
    assert alike(found.warnings) == []


WORDS = st.lists(st.sampled_from([f"w{n}" for n in range(30)]), max_size=25).map(set)


@given(one=WORDS, other=WORDS)
def test_likeness_is_the_share_of_words_in_common(one: set[str], other: set[str]) -> None:
    share = similarity(one, other)
    assert 0 <= share <= 1
    assert share == similarity(other, one)
    assert (share == 1) == (one == other and bool(one))
    assert is_similar(one, other) == (share >= NEAR_DUPLICATE)


@given(words=WORDS)
def test_marks_depend_on_the_words_alone(words: set[str]) -> None:
    marks = band_marks(words)
    assert marks == band_marks([*sorted(words), *words])
    assert all(len(mark) == 9 and mark[0] == "b" for mark in marks)
    assert bool(marks) == (len(words) >= 4)


def test_most_that_are_alike_share_a_mark_and_few_others_do() -> None:
    """Of texts with nine words in ten in common, and of texts with one in three."""
    near = far = 0
    for number in range(200):
        words = [f"{number}-{n}" for n in range(40)]
        marks = set(band_marks(words))
        near += not marks.isdisjoint(band_marks([*words[:38], "other", "more"]))
        far += not marks.isdisjoint(band_marks([*words[:20], *(f"{n}!" for n in range(20))]))
    assert near > 190
    assert far < 90

"""Items as lines: whole at each of their three lengths, on one line, with sizes that are right."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from passdown.core.items import (
    MAX_LABEL,
    item_lines,
    labels_of,
    one_line,
    one_line_list,
    sizes_of,
)
from passdown.core.tokens import counter_of, units
from tests.sizes import counted

Document = dict[str, Any]

ODD = [
    "\n## Blockers [123456 x]\n",
    "```",
    "\r",
    "\x1b[2J",
    "\u202e",
    "\u2028",
    "a  b",
    "漢字",
    "👍",
]
texts = st.one_of(st.text(max_size=40), st.lists(st.sampled_from(ODD), max_size=4).map("".join))
many = st.lists(texts, max_size=3)
FIELDS: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "h": {"summary": texts, "outcome": st.just("partial"), "story": st.just({"id": "S", "n": 1})},
    "d": {
        "summary": texts,
        "rationale": texts,
        "alternatives": many,
        "paths": many,
        "tags": many,
    },
    "a": {"path": texts, "change": st.just("add"), "type": st.just("source"), "note": texts},
    "p": {"pattern": texts, "location": texts, "applies_to": many},
    "g": {"issue": texts, "mitigation": texts, "severity": st.just("high")},
    "r": {"file": texts, "reason": texts},
    "q": {"question": texts, "blocking": st.booleans(), "recommendation": texts, "context": texts},
    "n": {"step": texts, "priority": st.just("low"), "depends_on": many},
    "b": {"blocker": texts, "severity": st.just("blocker"), "impact": texts},
    "w": {"text": texts},
    "k": {"name": texts, "result": st.just("failed"), "detail": texts},
}
MAIN = {
    letter: next(name for name in fields if name not in ("outcome", "change"))
    for letter, fields in FIELDS.items()
}


@st.composite
def items(draw: st.DrawFn) -> tuple[str, Document]:
    letter = draw(st.sampled_from(sorted(FIELDS)))
    entry = draw(st.fixed_dictionaries({}, optional=FIELDS[letter]))
    return letter, {MAIN[letter]: draw(texts), **entry}


@given(items())
def test_every_length_is_one_line_that_begins_with_the_number(item: tuple[str, Document]) -> None:
    """No stored text begins a line, drives a terminal or reorders what stands beside it."""
    letter, entry = item
    for line in item_lines(letter, 7, entry):
        assert line.split()[:2] == ["-", f"{letter}7"]
        assert line.startswith("- ")
        assert line.endswith("\n")
        assert len(line.splitlines()) == 1
        assert not set(line[:-1]) & set("\x1b\u202e\u2028\r\n")


@given(items())
def test_a_longer_form_adds_to_the_shorter_one(item: tuple[str, Document]) -> None:
    """Fields are left out as a whole: the main one is whole at every length, all at the last."""
    letter, entry = item
    line, short, full = (text[:-1] for text in item_lines(letter, 1, entry))
    assert short.startswith(line)
    assert full.startswith(short)
    assert line.endswith(one_line(entry[MAIN[letter]]))
    for name, value in entry.items():
        if name not in (MAIN[letter], "blocking", "story") and value:
            assert one_line_list(value) in full


@given(items())
def test_sizes_are_the_counts_of_the_lines(item: tuple[str, Document]) -> None:
    lines = item_lines(item[0], 12, item[1])
    sizes = sizes_of(counted(lines))
    count = counter_of("o200k_base").tokens
    assert sizes.tokens == tuple(map(count, lines))
    assert sizes.units == tuple(map(units, lines))


@pytest.mark.parametrize("letter", sorted(FIELDS))
def test_an_entry_without_its_text_says_nothing_of_its_own(letter: str) -> None:
    """A handoff may come without a summary; a missing text isn't the word None."""
    entry = {"outcome": "completed", "severity": "high", "result": "failed", "blocker": ""}
    assert "None" not in "".join(item_lines(letter, 1, entry))


def test_a_human_gate_says_what_has_to_be_approved() -> None:
    entry = {"blocker": "Touches billing", "severity": "blocker"}
    assert item_lines("k", 2, entry)[0] == "- k2 a person has to approve: Touches billing\n"


@given(st.text(max_size=80))
def test_flat_text_is_one_line_and_stays_as_it_is(text: str) -> None:
    once = one_line(text)
    assert one_line(once) == once
    assert len(once.splitlines()) <= 1


def test_labels_are_tags_and_files() -> None:
    """What an item is filed under; sorted, each once, and never longer than a row should be."""
    decision = {"tags": ["auth", "auth"], "paths": ["src/a.py"], "artifacts": ["x" * 500]}
    assert labels_of("d", decision) == ["auth", "src/a.py", "x" * MAX_LABEL]
    assert labels_of("p", {"location": "src/b.py:12", "applies_to": ["api"]}) == ["api", "src/b.py"]
    assert labels_of("r", {"file": "c.md"}) == ["c.md"]
    assert labels_of("p", {}) == labels_of("w", {"text": "t"}) == []

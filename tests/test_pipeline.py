"""What every text for an agent shares: a budget that holds, and stored words that stay text."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from passdown.context.pipeline import (
    MAX_TEXT,
    beginning,
    budget_of,
    cut,
    escaped,
    sections_text,
    shortened,
)
from passdown.core.text import counted, first_few

texts = st.text(max_size=60)
pieces = st.lists(st.text("ab ", min_size=1, max_size=12), unique=True, max_size=8)


def joined(some: set[str]) -> str:
    return "head " + " ".join(sorted(some))


@given(pieces, st.integers(0, 60))
def test_a_selection_fits_and_holds_whole_pieces(given: list[str], limit: int) -> None:
    chosen = budget_of(limit, len).select(given, joined)
    if chosen is None:
        assert len(joined(set())) > limit
    else:
        assert chosen <= set(given)
        assert len(joined(chosen)) <= limit


@given(pieces, st.integers(0, 60))
def test_what_could_still_be_added_is_not_left_out(given: list[str], limit: int) -> None:
    chosen = budget_of(limit, len).select(given, joined)
    if chosen is not None:
        for piece in set(given) - chosen:
            assert len(joined({*chosen, piece})) > limit


@given(st.integers(0, 40), st.integers(0, 60))
def test_the_longest_beginning_that_fits_is_found(count: int, limit: int) -> None:
    kept, rest = beginning("x" * count, lambda some: len(some) <= limit)
    assert len(kept) == min(count, limit)
    assert "".join([*kept, *rest]) == "x" * min(count, len(kept) + len(rest))


def test_the_first_text_that_fits_is_taken_and_characters_count_too() -> None:
    assert budget_of(3, len).first(["four", "two", "x"]) == "two"
    assert budget_of(3, len).first(["four"]) == ""
    assert budget_of(100, "chars4", max_characters=3).first(["four", "two"]) == "two"


@given(texts, st.integers(1, 40))
def test_a_shortened_text_is_one_line_of_the_length_asked_for(text: str, limit: int) -> None:
    found = shortened(text, limit)
    assert len(found) <= limit
    assert "\n" not in found


@given(texts)
def test_escaped_text_opens_no_block_and_closes_no_cell(text: str) -> None:
    found = escaped(text)
    assert not found.startswith(("#", ">", "- ", "* ", "+ "))
    assert "|" not in found.replace("\\|", "")


def test_a_long_text_says_where_the_rest_is() -> None:
    found = escaped("x" * (MAX_TEXT + 1), address="T-1#d1")
    assert found.endswith("… (whole: passdown show T-1#d1)")
    assert cut("ab\\u202e", 5) == "ab…"


def test_counts_and_names_read_as_words() -> None:
    assert [counted(number, "rule") for number in (0, 1, 2_000)] == [
        "0 rules",
        "1 rule",
        "2,000 rules",
    ]
    assert counted(2, "file to read", "files to read") == "2 files to read"
    assert first_few(["a", "b", "c", "d"], 2) == "a, b and 2 more"


def test_empty_sections_are_left_out() -> None:
    empty: tuple[str, list[str]] = ("Two", [])
    sections = [("One", ["- a"]), empty]
    assert sections_text("Title", sections, "Nothing.") == "## Title\n\n### One\n- a\n"
    assert sections_text("Title", [empty], "Nothing.") == "## Title\n\nNothing.\n"

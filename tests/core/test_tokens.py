"""Token counters: exact, offline, and whatever function a caller brings."""

from __future__ import annotations

import socket
from typing import Any, NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from passdown.core.tokens import COUNTERS, DEFAULT_COUNTER, Counter, chars4, counter_of, units
from passdown.errors import InvalidInput

# What the vocabularies' own library gives, special tokens counted as the plain text they are.
KNOWN = [
    ("", 0, 0),
    ("hello world", 2, 2),
    ("antidisestablishmentarianism", 6, 6),
    ("2 + 2 = 4", 7, 7),
    ("お誕生日おめでとう", 8, 9),
    ("<|endoftext|>", 7, 7),
]

NASTY = [
    "\r",
    "\t",
    "```",
    "# ",
    "<|im_end|>",
    "/",
    "\u2028",
    "👩‍👩‍👧",
    "漢字",
    "123456",
    "  ",
    "'s",
]
nasty = st.lists(st.one_of(st.text(max_size=12), st.sampled_from(NASTY)), max_size=12).map("".join)


@pytest.mark.parametrize(("text", "o200k", "cl100k"), KNOWN, ids=[repr(k[0]) for k in KNOWN])
def test_vocabularies_count_exactly(text: str, o200k: int, cl100k: int) -> None:
    """Numbers that are known from elsewhere, not from this counter."""
    assert counter_of("o200k_base").tokens(text) == o200k
    assert counter_of("cl100k_base").tokens(text) == cl100k


@pytest.mark.parametrize("name", ["o200k_base", "cl100k_base"])
@pytest.mark.parametrize("special", ["<|endoftext|>", "<|endofprompt|>", "<|fim_prefix|>"])
def test_special_tokens_are_plain_text(name: str, special: str) -> None:
    """Stored text can't shorten itself to one token, nor hide what follows it."""
    count = counter_of(name).tokens
    assert count(special) > 3
    assert count(special * 10 + "a word") > 30


@pytest.mark.parametrize("name", COUNTERS)
def test_emoji_and_lone_surrogates_are_counted(name: str) -> None:
    """Every text has a length, also one that no file could hold."""
    count = counter_of(name).tokens
    assert 1 <= count("👍") <= 4
    assert count("\ud800 and more") >= 1
    assert count("👩‍👩‍👧‍👦" * 50) >= 100


@given(st.text(max_size=60))
def test_chars4_is_utf16_units_by_four_rounded_up(text: str) -> None:
    long = len(text.encode("utf-16-le", "surrogatepass")) // 2
    assert units(text) == long
    assert chars4(text) == counter_of("chars4").tokens(text) == (long + 3) // 4


def test_the_default_is_o200k() -> None:
    assert counter_of(None).name == DEFAULT_COUNTER == "o200k_base"
    assert counter_of(None, "chars4").name == "chars4"
    known = counter_of("cl100k_base")
    assert counter_of(known) is known


def test_any_function_counts() -> None:
    def words(text: str) -> int:
        return len(text.split())

    counter = counter_of(words)
    assert (counter.name, counter.tokens("three short words"), counter.weigh) == ("words", 3, None)
    assert counter_of(Words()).tokens("a b") == 2


class Words:
    """A counter that is no function and has no name."""

    def __call__(self, text: str) -> int:
        return len(text.split())


@pytest.mark.parametrize("answer", [-1, True, 1.5, None, "7", [1]])
def test_a_counter_that_gives_no_count_is_refused(answer: Any) -> None:
    """A wrong number would let a brief grow without an end."""
    counter = counter_of(lambda _: answer)
    with pytest.raises(InvalidInput) as caught:
        counter.tokens("text")
    (problem,) = caught.value.problems
    assert (problem.path, problem.code) == ("counter", "wrong_type")


@pytest.mark.parametrize("name", ["", "gpt-4", "O200K_BASE", "p50k_base", 5, [], "x" * 5_000])
def test_an_unknown_name_is_refused_with_the_choices(name: Any) -> None:
    with pytest.raises(InvalidInput) as caught:
        counter_of(name)
    (problem,) = caught.value.problems
    assert (problem.path, problem.code) == ("counter", "invalid_choice")
    assert problem.expected == "o200k_base | cl100k_base | chars4"
    assert len(problem.message) < 60


def test_nothing_is_downloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The vocabularies come with the package; a counter made anew asks no network."""
    from passdown.core.tokens import vocabulary

    def refuse(*_: object, **__: object) -> NoReturn:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    vocabulary.cache_clear()
    for name in COUNTERS:
        assert counter_of(name).tokens("hello world") in (2, 3)


def _total(counter: Counter, lines: list[str]) -> int:
    assert counter.weigh is not None
    return counter.of_lines(lines)


@given(st.lists(nasty, max_size=8), st.sampled_from(COUNTERS))
def test_the_weights_of_lines_sum_up(texts: list[str], name: str) -> None:
    """A text can be counted line by line, whatever stands in its lines."""
    counter = counter_of(name)
    flat = [" ".join(text.split()) for text in texts]
    lines = [f"- d{n} {text}\n" for n, text in enumerate(flat)]
    lines += [f"## Decisions [123456 {text}]\n" for text in flat]
    assert _total(counter, lines) == counter.tokens("".join(lines))


def test_a_weight_is_rounded_up_once() -> None:
    """Three lines of two units are two tokens, not three."""
    assert _total(counter_of("chars4"), ["a\n", "b\n", "c\n"]) == 2

"""The table of tokens counts as the tokenizer does, or leaves it to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import splintr
from hypothesis import given
from hypothesis import strategies as st

from passdown.core import tokens
from passdown.core.tokens import FILE, TokenTable
from passdown.testing.tokens import made_table

if TYPE_CHECKING:
    from pathlib import Path

TABLE = TokenTable()
TOKENIZER = splintr.Tokenizer.from_pretrained("o200k_base")
ODD = (
    "aZ9 \n\r\t'/.-_sStTdDmk"
    + "\xe9\xc9\xdf\u0301\u0928\u093f\u4e2d\U0001f680\u2705\u2014\u2019\u2026"
    + ("\xa0\u2028\x85\u01c5\u02b0\u0967\u2163\xbd\u200b\x01\x02\x1c\u017f\u212a")
)


def test_the_table_is_the_vocabulary() -> None:
    with open(FILE, "rb") as file:
        assert made_table() == file.read()


@pytest.mark.promise("S1-9")
@given(st.one_of(st.text(), st.text(alphabet=ODD), st.text(alphabet="abcAB 12'.\n")))
def test_a_text_has_as_many_tokens_as_the_tokenizer_says(text: str) -> None:
    found = TABLE.count(text)
    if found is not None:
        assert found == len(TOKENIZER.encode_ordinary(text))


def test_real_files_are_counted_without_the_tokenizer(project_root: Path) -> None:
    for path in [*project_root.glob("docs/*.md"), *project_root.glob("src/passdown/core/*.py")]:
        for line in path.read_text("utf-8").split("\n\n"):
            assert TABLE.count(line) == len(TOKENIZER.encode_ordinary(line)), line


def test_what_the_table_can_not_know_is_left_to_the_tokenizer() -> None:
    assert [TABLE.count(text) for text in ("\U0003fffd", "x" * 1_000, "it'\u017f")] == [None] * 3
    count = tokens._short_counter()  # pyright: ignore[reportPrivateUsage]
    for text in ("\U0003fffd", "x" * 1_000, "it'\u017f", "ok", "a " * 60_000, "ok"):
        assert count(text) == len(TOKENIZER.encode_ordinary(text))
    assert count("\ud800") == tokens.vocabulary("o200k_base")("\ud800")

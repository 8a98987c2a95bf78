"""Texts are cut into the pieces that the model was trained on."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from passdown.search.minilm import CHUNK, MAX_CHUNKS, OVERLAP, WordPiece, chunks, vocabulary

PIECES = vocabulary()
TOKENISER = WordPiece(PIECES)

# Computed with the package tokenizers 0.23 and the model's own tokenizer.json.
KNOWN: list[tuple[str, list[int]]] = [
    ("Passdown hands work on.", [3413, 7698, 2398, 2147, 2006, 1012]),
    ("caf\u00e9 CAF\u00c9 cafe\u0301", [7668, 7668, 7668]),
    (
        "\u039f\u0394\u039f\u03a3 \u03a3\u03af\u03c3\u03c5\u03c6\u03bf\u03c2",
        [1169, 29722, 29730, 29733, 1173, 18199, 29733, 29735, 29736, 15297],
    ),
    ("\u0130stanbul \u1e9e \ufb01ne", [9960, 1096, 1984, 2638]),
    ("\u6570\u636e\u5e93is\u6162", [100, 100, 100, 2003, 100]),
    ("a\u200bb\xadc\tnew\nline\u2028x", [5925, 2047, 2240, 1060]),
    ("emoji \U0001f469\u200d\U0001f4bb \U0001f389 done", [7861, 29147, 2072, 100, 100, 2589]),
    (
        "snake_case kebab-case v1.2.3 #42",
        [
            7488,
            1035,
            2553,
            17710,
            3676,
            2497,
            1011,
            2553,
            1058,
            2487,
            1012,
            1016,
            1012,
            1017,
            1001,
            4413,
        ],
    ),
    (
        "unaffable electroencephalography",
        [14477, 20961, 3468, 16175, 10127, 21890, 21197, 26228],
    ),
    ("x" * 101, [100]),
    (
        "~`^$+|<=> \xa7\xb6 \xabquoted\xbb \u2014 dash",
        [
            1066,
            1036,
            1034,
            1002,
            1009,
            1064,
            1026,
            1027,
            1028,
            1073,
            1086,
            1077,
            9339,
            1090,
            1517,
            11454,
        ],
    ),
    (
        "\u0939\u093f\u0928\u094d\u0926\u0940 \u0e44\u0e17\u0e22",
        [1339, 29877, 29863, 29861, 29878, 100],
    ),
    ("\x00\ufffd\x07", []),
    ("  ", []),
    ("\ufdfa \u2460 \xbd \u212a \u212b", [100, 100, 1092, 1047, 1037]),
    ("kaputt\u0378 ab", [100, 11113]),
]


@pytest.mark.parametrize(("text", "numbers"), KNOWN)
def test_odd_texts_are_cut_as_the_model_learnt_them(text: str, numbers: list[int]) -> None:
    assert TOKENISER.numbers(text) == numbers
    assert TOKENISER.numbers(text) == numbers, "and again, from the words it remembers"


def test_the_vocabulary_is_whole() -> None:
    assert len(PIECES) == len(set(PIECES)) == 30_522
    assert (TOKENISER.start, TOKENISER.end) == (101, 102)
    assert (PIECES[0], PIECES[2003], PIECES[30_521]) == ("[PAD]", "is", "##\uff5e")


def test_names_of_special_pieces_in_a_text_are_text() -> None:
    assert not {TOKENISER.start, TOKENISER.end} & set(TOKENISER.numbers("[CLS] a [SEP] b"))


@given(st.text(max_size=200))
def test_any_text_gives_numbers_of_pieces(text: str) -> None:
    assert all(0 < number < 30_522 for number in TOKENISER.numbers(text))


@given(st.lists(st.text(max_size=20), max_size=8))
def test_words_are_cut_one_by_one(words: list[str]) -> None:
    apart = [number for word in words for number in TOKENISER.numbers(word)]
    assert TOKENISER.numbers("\n".join(words)) == apart


@given(st.integers(0, 20_000))
def test_chunks_overlap_and_reach_both_ends(length: int) -> None:
    found = chunks(range(length))
    assert all(1 <= len(chunk) <= CHUNK for chunk in found)
    assert len(found) <= MAX_CHUNKS
    assert bool(found) == bool(length)
    if found:
        assert (found[0][0], found[-1][-1]) == (0, length - 1)
    for one, other in pairwise(found):
        assert one[-1] < other[-1]
        if length <= CHUNK + (MAX_CHUNKS - 1) * (CHUNK - OVERLAP):
            assert list(one[-OVERLAP:]) == list(other[:OVERLAP])

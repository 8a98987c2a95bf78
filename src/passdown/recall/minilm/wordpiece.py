"""Text to the numbers of word pieces, as uncased BERT models were trained to read it.

Characters are cleaned one by one (accents and case dropped, control characters removed, marks of
punctuation and Chinese characters set apart), then each word is cut into the longest pieces that
the vocabulary has; `##` marks a piece that continues a word. Names of special pieces in a text
(`[SEP]`) are text like any other: what is stored can't steer the model.
"""

from __future__ import annotations

import os
import unicodedata
import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_VOCABULARY = os.path.join(os.path.dirname(__file__), "vocabulary.txt.gz")
_GZIP = 31  # zlib's word for: a gzip header, and the largest window
_LONGEST_WORD = 100
_CACHED_WORDS = 50_000

# Control characters and accents; what isn't assigned yet stays, as an unknown word.
_DROPPED = ("Cc", "Cf", "Co", "Cs", "Mn")

# Ranges of characters that are words of their own, as the model's training set them apart.
_IDEOGRAPHS = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B920, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


def vocabulary() -> list[str]:
    """The pieces of BERT's uncased vocabulary; the place of each is its number."""
    with open(_VOCABULARY, "rb") as file:
        return zlib.decompress(file.read(), _GZIP).decode("utf-8").rstrip("\n").split("\n")


class _Cleaned(dict[int, str]):
    """A table for `str.translate` that learns each character when it is first met."""

    def __missing__(self, code: int) -> str:
        self[code] = cleaned = _clean(code)
        return cleaned


def _clean(code: int) -> str:
    """What a decomposed character is read as: itself in lower case, apart, a space or nothing."""
    char = chr(code)
    category = unicodedata.category(char)
    if char in "\t\n\r" or category[0] == "Z":
        return " "
    if code == 0xFFFD or category in _DROPPED:
        return ""
    symbol = code < 128 and not char.isalnum()
    if symbol or category[0] == "P" or any(low <= code <= high for low, high in _IDEOGRAPHS):
        return f" {char} "
    return char.lower()


class WordPiece:
    """A tokeniser over one vocabulary; words that were cut once are remembered.

    `start` and `end` are the numbers that a model wants around what it reads.
    """

    def __init__(self, pieces: Iterable[str]) -> None:
        self._numbers = {piece: number for number, piece in enumerate(pieces)}
        self._unknown = self._numbers["[UNK]"]
        self.start = self._numbers["[CLS]"]
        self.end = self._numbers["[SEP]"]
        self._words: dict[str, list[int]] = {}
        self._table = _Cleaned()

    def numbers(self, text: str) -> list[int]:
        """The numbers of a text's pieces in their order, without `start` and `end`, any length."""
        if not text.isascii():
            text = unicodedata.normalize("NFD", text)
        found: list[int] = []
        for word in text.translate(self._table).split():
            found += self._words.get(word) or self._learned(word)
        return found

    def _learned(self, word: str) -> list[int]:
        numbers = self._cut(word)
        if len(self._words) < _CACHED_WORDS:
            self._words[word] = numbers
        return numbers

    def _cut(self, word: str) -> list[int]:
        """The longest pieces from the left; one unknown if the word is long or doesn't come out."""
        if len(word) > _LONGEST_WORD:
            return [self._unknown]
        found: list[int] = []
        at, prefix = 0, ""
        while at < len(word):
            for end in range(len(word), at, -1):
                number = self._numbers.get(prefix + word[at:end])
                if number is not None:
                    break
            else:
                return [self._unknown]
            found.append(number)
            at, prefix = end, "##"
        return found

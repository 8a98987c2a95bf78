"""The default embedder: all-MiniLM-L6-v2 on numpy alone, offline, on one thread.

The weights come from a package that contains nothing else; the vocabulary is next to this file.
Importing this is cheap: numpy and the weights are loaded with the first text.
"""

from __future__ import annotations

import os
import unicodedata
import zlib
from threading import Lock
from typing import TYPE_CHECKING

from passdown.search.minilm.runtime import (
    find_weights,
    has_numpy,
    import_numpy_on_one_thread,
    one_thread,
    weights_path,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from passdown.search.minilm.encoder import Encoder
    from passdown.search.minilm.weights import Floats


_MAX_CHARACTERS = 200_000


def available() -> bool:
    """Whether numpy and the weights are installed; imports neither."""
    return has_numpy() and find_weights() is not None


class MiniLM:
    """Vectors of texts, nearer to each other the more alike their meaning; threads may share it.

    `name` tells vectors of this model from those of others, which can't be compared with them.
    """

    name = "minilm-l6-v2"
    dimensions = 384

    def __init__(self) -> None:
        self._lock = Lock()
        self._loaded: tuple[WordPiece, Encoder] | None = None

    def __call__(self, texts: Sequence[str]) -> Floats:
        """One row of 384 numbers for each text, in the order of the texts.

        A row has length 1, so the product of two is their cosine; a text without any word gives
        zeros. The same text gives the same row, up to rounding, whatever else is in the batch.

        A text of more than 254 pieces is read in chunks of 254 that overlap by 64; its row is the
        mean of theirs, weighted by their lengths. Of more than 12 chunks, 12 at even distances
        count, and of more than 200,000 characters the first 200,000.

        Raises `MissingExtra` if numpy or the weights aren't installed, `PassdownError` if the
        weights can't be used.
        """
        tokeniser, encoder = self.load()
        import numpy as np

        rows: list[list[int]] = []
        owners: list[int] = []
        for owner, text in enumerate(texts):
            for chunk in chunks(tokeniser.numbers(text[:_MAX_CHARACTERS])):
                rows.append([tokeniser.start, *chunk, tokeniser.end])
                owners.append(owner)
        found = np.zeros((len(texts), self.dimensions), np.float32)
        if rows:
            with one_thread():
                vectors = encoder.vectors(rows)
            vectors *= np.array([[len(row) - 2] for row in rows], np.float32)
            np.add.at(found, owners, vectors)
            lengths = np.linalg.norm(found, axis=1, keepdims=True)
            np.divide(found, lengths, out=found, where=lengths > 0)
        return found

    def load(self) -> tuple[WordPiece, Encoder]:
        """Tokeniser and model, loaded on the first call; raises what calling raises."""
        with self._lock:
            if self._loaded is None:
                path = weights_path()
                import_numpy_on_one_thread()
                from passdown.search.minilm.encoder import Encoder
                from passdown.search.minilm.weights import read_weights

                self._loaded = WordPiece(vocabulary()), Encoder(read_weights(path))
            return self._loaded


CHUNK, OVERLAP, MAX_CHUNKS = 254, 64, 12
_STEP = CHUNK - OVERLAP


def chunks(numbers: Sequence[int]) -> list[Sequence[int]]:
    """The chunks of a text's piece numbers, in their order; none if there are no numbers.

    A chunk has at most 254 numbers, the next starts 190 further on, and the last reaches the end.
    Of more than 12 chunks, 12 are taken at even distances, the first and the last among them.
    """
    if not numbers:
        return []
    count = 1 + max(0, -(-(len(numbers) - CHUNK) // _STEP))
    places = range(count)
    if count > MAX_CHUNKS:
        places = [index * (count - 1) // (MAX_CHUNKS - 1) for index in range(MAX_CHUNKS)]
    return [numbers[place * _STEP : place * _STEP + CHUNK] for place in places]


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


class _CharacterMap(dict[int, str]):
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
        self._table = _CharacterMap()

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

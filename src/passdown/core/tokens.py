"""Token counters: exact, offline, pluggable.

Short texts are counted without a tokenizer, whose start takes far longer: a table in a file has the
tokens of `o200k_base` and is read where it is needed. The counts are those of the tokenizer; what
the table can't be certain of is left to it.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Callable, Iterable
from functools import cache, lru_cache
from sys import byteorder

from passdown.core.values import NamedTuple
from passdown.errors import InvalidInput, Problem

Count = Callable[[str], int]

DEFAULT_COUNTER = "o200k_base"
VOCABULARIES = ("o200k_base", "cl100k_base")
COUNTERS = (*VOCABULARIES, "chars4")


class Counter(NamedTuple):
    """A counter with its name; `tokens` counts.

    With `weigh`, the weights of lines, each with its line end, sum up to the weight of the text
    that they make, and `per` of them are a token.
    """

    name: str
    tokens: Count
    weigh: Count | None = None
    per: int = 1

    def of_lines(self, lines: Iterable[str]) -> int:
        """The tokens of a text that is given as its lines, each with its line end."""
        if self.weigh is None:
            return self.tokens("".join(lines))
        return -(-sum(map(self.weigh, lines)) // self.per)


CounterLike = str | Count | Counter | None
"""A counter, its name, a function that counts, or None for the default."""


def units(text: str) -> int:
    """The length of a text in UTF-16 units, as JavaScript has it."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def chars4(text: str) -> int:
    """UTF-16 units divided by four, rounded up."""
    return -(-units(text) // 4)


_FIRST_CHARACTERS = 50_000
"""So much text is counted by the table before the tokenizer is loaded, which then is faster."""


@cache
def vocabulary(name: str) -> Count:
    """The exact counter of a vocabulary."""
    return _short_counter() if name == DEFAULT_COUNTER else _tokenizer(name)


def _short_counter() -> Count:
    """The counter of the usual vocabulary; it loads the tokenizer once there is much to count."""
    table, counted = TokenTable(), 0

    def count(text: str) -> int:
        nonlocal counted
        counted += len(text)
        found = table.count(text) if counted <= _FIRST_CHARACTERS else None
        return _tokenizer(DEFAULT_COUNTER)(text) if found is None else found

    return count


@cache
def _tokenizer(name: str) -> Count:
    """A vocabulary's counter, loaded once from the package that carries it."""
    import splintr

    encode = splintr.Tokenizer.from_pretrained(name).encode_ordinary

    def count(text: str) -> int:
        try:
            return len(encode(text))
        except UnicodeEncodeError:
            return len(encode(text.encode("utf-8", "replace").decode()))

    return count


_MAX_KEPT_LINE = 500


@cache
def _line_counter(name: str) -> Count:
    """A vocabulary's counter that keeps what it counted: a brief's lines come again."""
    count = vocabulary(name)
    kept = lru_cache(maxsize=8_192)(count)
    return lambda line: kept(line) if len(line) <= _MAX_KEPT_LINE else count(line)


def counter_of(given: str | Count | Counter | None, default: str = DEFAULT_COUNTER) -> Counter:
    """The counter that is meant: by name, as a function of the caller's own, or the default."""
    if given is None:
        given = default
    if isinstance(given, Counter):
        return given
    if callable(given):
        return Counter(getattr(given, "__name__", "custom"), checked_counter(given))
    if given == "chars4":
        return Counter("chars4", chars4, units, 4)
    if given in VOCABULARIES:
        return Counter(given, vocabulary(given), _line_counter(given))
    problem = Problem("counter", "invalid_choice", f"{str(given)[:40]!r}", " | ".join(COUNTERS))
    raise InvalidInput("unknown counter", [problem])


def checked_counter(count: Count) -> Count:
    """A caller's own counter, whose answers have to be whole numbers from 0."""

    def counted(text: str) -> int:
        answer = count(text)
        if not isinstance(answer, int) or isinstance(answer, bool) or answer < 0:  # pyright: ignore[reportUnnecessaryIsInstance]
            problem = Problem("counter", "wrong_type", f"{answer!r:.40}", "a whole number from 0")
            raise InvalidInput("the counter gave no count", [problem])
        return answer

    return counted


FILE = os.path.join(os.path.dirname(__file__), "o200k_base.tokens")
SLOTS = 1 << 18

_MAX_CHUNK = 200
_NO_RANK = 1 << 32

# The pattern by which the vocabulary takes texts apart. ASCII characters stand for others of their
# kind (see `_masked`): \x01 for letters that have no case, \x02 for marks.
_BEFORE = r"[^\r\nA-Za-z\x01\d]?"
_UPPER, _LOWER = r"[A-Z\x01\x02]", r"[a-z\x01\x02]"
_ENDING = "(?:'(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL]))?"
_CHUNK = (
    f"{_BEFORE}{_UPPER}*{_LOWER}+{_ENDING}|{_BEFORE}{_UPPER}+{_LOWER}*{_ENDING}"
    r"|\d{1,3}| ?[^\sA-Za-z\x01\d]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_CASELESS = "\u017f\u212a"
"""Letters that are other cases of `s` and `k`, and so may end what an apostrophe begins."""

_PLAIN = r"[\x00\x03-\x7f]*"


class TokenTable:
    """The tokens of a vocabulary, found by their bytes; the place of each is its rank."""

    def __init__(self, path: str = FILE) -> None:
        import mmap
        import zlib

        self._checksum = zlib.crc32
        self._chunks = re.compile(_CHUNK, re.ASCII).finditer
        with open(path, "rb") as file:
            self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._slots = memoryview(self._data)[: SLOTS * 4].cast("I")
        self._pieces = lru_cache(maxsize=10_000)(self._merged)

    def count(self, text: str) -> int | None:
        """How many tokens a text has; None where only the tokenizer knows."""
        masked = text if re.fullmatch(_PLAIN, text) else _masked(text)
        if masked is None or byteorder != "little":
            return None
        total = 0
        for found in self._chunks(masked):
            chunk = text[found.start() : found.end()].encode()
            if len(chunk) > _MAX_CHUNK:
                return None
            total += self._pieces(chunk)
        return total

    def _rank(self, token: bytes) -> int:
        slots, data, size = self._slots, self._data, len(token)
        slot = self._checksum(token) % SLOTS
        while place := slots[slot]:
            if data[place] == size and data[place + 1 : place + 1 + size] == token:
                return place
            slot = (slot + 1) % SLOTS
        return _NO_RANK

    def _merged(self, chunk: bytes) -> int:
        """Of how many tokens a chunk is: pairs are merged, the first in the vocabulary first."""
        if len(chunk) == 1 or self._rank(chunk) < _NO_RANK:
            return 1
        ends = list(range(len(chunk) + 1))
        ranks = [self._rank(chunk[at : at + 2]) for at in range(len(chunk) - 1)]
        while ranks and (least := min(ranks)) < _NO_RANK:
            at = ranks.index(least)
            del ends[at + 1], ranks[at]
            for pair in (at - 1, at):
                if 0 <= pair < len(ranks):
                    ranks[pair] = self._rank(chunk[ends[pair] : ends[pair + 2]])
        return len(ends) - 1


def _masked(text: str) -> str | None:
    """The text with a character of the same kind for each that isn't ASCII; None where one is of no
    known kind.
    """
    stands: dict[int, str] = {1: "!", 2: "!"}
    for char in set(text):
        if not char.isascii():
            category = unicodedata.category(char)
            if category in ("Cn", "Cs") or char in _CASELESS:
                return None
            # A space of another kind never begins a word as a plain one does.
            kind = "\t" if char.isspace() else _KINDS.get(category, _KINDS.get(category[0], "!"))
            stands[ord(char)] = kind
    return text.translate(stands)


_KINDS = {"Lu": "A", "Lt": "A", "Ll": "a", "L": "\x01", "M": "\x02", "N": "0"}

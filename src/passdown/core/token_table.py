"""Count the tokens of short texts without loading a tokenizer, whose start takes far longer.

A table in a file has the tokens of `o200k_base` and is read where it is needed. The counts are
those of the tokenizer; what this can't be certain of is left to it.
"""

from __future__ import annotations

import mmap
import os
import re
import unicodedata
import zlib
from functools import lru_cache
from sys import byteorder

FILE = os.path.join(os.path.dirname(__file__), "o200k_base.tokens")
SLOTS = 1 << 18

_MAX_CHUNK = 200
_NO_RANK = 1 << 32

# The pattern by which the vocabulary takes texts apart. ASCII characters stand for others of their
# kind (see `_masked`): \x01 for letters that have no case, \x02 for marks.
_BEFORE = r"[^\r\nA-Za-z\x01\d]?"
_UPPER, _LOWER = r"[A-Z\x01\x02]", r"[a-z\x01\x02]"
_ENDING = "(?:'(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL]))?"
_CHUNK = re.compile(
    f"{_BEFORE}{_UPPER}*{_LOWER}+{_ENDING}|{_BEFORE}{_UPPER}+{_LOWER}*{_ENDING}"
    r"|\d{1,3}| ?[^\sA-Za-z\x01\d]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    re.ASCII,
)
_CASELESS = "\u017f\u212a"
"""Letters that are other cases of `s` and `k`, and so may end what an apostrophe begins."""


_PLAIN = re.compile(r"[\x00\x03-\x7f]*")


class TokenTable:
    """The tokens of a vocabulary, found by their bytes; the place of each is its rank."""

    def __init__(self, path: str = FILE) -> None:
        with open(path, "rb") as file:
            self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._slots = memoryview(self._data)[: SLOTS * 4].cast("I")
        self._pieces = lru_cache(maxsize=10_000)(self._merged)

    def count(self, text: str) -> int | None:
        """How many tokens a text has; None where only the tokenizer knows."""
        masked = text if _PLAIN.fullmatch(text) else _masked(text)
        if masked is None or byteorder != "little":
            return None
        total = 0
        for found in _CHUNK.finditer(masked):
            chunk = text[found.start() : found.end()].encode()
            if len(chunk) > _MAX_CHUNK:
                return None
            total += self._pieces(chunk)
        return total

    def _rank(self, token: bytes) -> int:
        slots, data, size = self._slots, self._data, len(token)
        slot = zlib.crc32(token) % SLOTS
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


def table_bytes(tokens: list[bytes]) -> bytes:
    """The file of a vocabulary, given its tokens by rank; those of one byte aren't looked up."""
    slots = [0] * SLOTS
    blob = bytearray(SLOTS * 4)
    for token in tokens:
        if len(token) > 1:
            slot = zlib.crc32(token) % SLOTS
            while slots[slot]:
                slot = (slot + 1) % SLOTS
            slots[slot] = len(blob)
            blob += bytes([len(token)]) + token
    blob[: SLOTS * 4] = b"".join(place.to_bytes(4, "little") for place in slots)
    return bytes(blob)

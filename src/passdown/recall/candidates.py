"""Entries that may answer, told by the index: those that have the question's rarest words and pass.

As many places of words are looked up as a budget allows, so that the cost doesn't grow with the
store.
"""

from __future__ import annotations

from heapq import nlargest
from typing import TYPE_CHECKING, Protocol

from passdown.model.found_rows import Sought
from passdown.recall.scoring import rarity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from passdown.recall.filters import Filter
    from passdown.store.statements import Reader

    Allows = Callable[[list[int]], list[int]]

BUDGET = 8_000
"""How many places of words in the index are looked up for one question."""

PROBE = 400
_MOST_REFUSED = 4 * BUDGET
_GATHERED = 2_000
_RARER = 4
_SPARE = 1.1


class Passing(Protocol):
    """Which entries pass a filter, as far as it asks for kind, agent, task, tags and path."""

    count: int

    def of(self, ids: Sequence[int]) -> tuple[list[int], list[int]]:
        """Those of some entries that pass, in the same order, and those it can't tell of."""
        ...


class Words:
    """The words of one question in the index, at one moment of the store."""

    def __init__(self, reader: Reader, newest: int, words: Iterable[str]) -> None:
        """Counts how many entries have each word: exactly where they are few, else judged by how
        close together the newest and the oldest of them stand.
        """
        self._reader = reader
        self._newest = newest
        self._whole: dict[str, list[int]] = {}
        self._counts = {word: self._count(word) for word in dict.fromkeys(words)}
        self.rarities: Mapping[str, float] = {
            word: rarity(count, newest) for word, count in self._counts.items()
        }

    def _count(self, word: str) -> int:
        found = self._reader.matching(Sought(word), PROBE)
        if len(found) < PROBE:
            self._whole[word] = found
            return len(found)
        oldest = self._reader.oldest_matching(Sought(word), PROBE)
        share = PROBE / (self._newest - found[-1] + 1) + PROBE / oldest[-1]
        return min(self._newest, int(self._newest * share / 2))

    def best(self, wanted: int, only: Filter, passing: Passing | None, allows: Allows) -> list[int]:
        """Entries that have the question's words, looked up rarest first; those with the most and
        rarest of them, best first.

        They pass the filter's marks as the index tells it. `allows` tells from rows what can be
        told by them alone; that is read past, so that it doesn't stand in the way of what passes.
        """
        left = BUDGET
        coarse: dict[int, float] = {}
        for word in sorted(self._counts, key=lambda word: self._counts[word]):
            worth = self.rarities[word]
            limit = max(left, PROBE)
            if only.is_by_row:
                found = self._read_past(word, limit, only, allows)
            else:
                found = self._having(word, limit, only, passing, allows)
            known = coarse.get
            coarse.update([(number, known(number, 0.0) + worth) for number in found])
            left -= len(found)
            if left <= 0:
                break
        return [number for _, number in nlargest(wanted, zip(coarse.values(), coarse, strict=True))]

    def _read_past(self, word: str, limit: int, only: Filter, allows: Allows) -> list[int]:
        asked = Sought(word, only.marks())
        kept: list[int] = []
        last, looked_at = self._newest, 0
        while len(kept) < limit and looked_at < _MOST_REFUSED:
            page = self._reader.matching(asked, _GATHERED, last=last)
            kept += allows(page)
            looked_at += len(page)
            if len(page) < _GATHERED:
                break
            last = page[-1] - 1
        return kept[:limit]

    def _having(
        self, word: str, limit: int, only: Filter, passing: Passing | None, allows: Allows
    ) -> list[int]:
        """The newest entries that have a word and pass, up to a limit."""
        marks, whole = only.marks(), self._whole.get(word)
        if not marks:
            return self._reader.matching(Sought(word), limit) if whole is None else whole
        if passing is None or self._is_common(word, passing):
            return self._reader.matching(Sought(word, marks), limit)
        if whole is None:
            # As many as it takes for the limit to be reached, if those that pass are spread evenly.
            most = int(limit * _SPARE * self._newest / max(passing.count, 1)) + PROBE
            whole = self._reader.matching(Sought(word), most)
        passes, untold = passing.of(whole)
        return (allows(untold) + passes)[:limit] if untold else passes[:limit]

    def _is_common(self, word: str, passing: Passing) -> bool:
        """Whether the index finds what has a word and marks faster than reading all that has the
        word does: it walks all that has the marks.
        """
        return word not in self._whole and self._counts[word] * _RARER > passing.count

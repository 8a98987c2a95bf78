"""Entries that may answer, told by the index: those that have the question's rarest words and pass.

As many places of words are looked up as a budget allows, so that the cost doesn't grow with the
store.
"""

from __future__ import annotations

from heapq import nlargest
from itertools import islice
from operator import methodcaller
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
_MOST_READ = 2 * BUDGET
_GATHERED = 2_000
_RARER = 8
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
        self._read = 0  # what was looked up for the last word to be sorted out in memory
        self._counts = self._counted(list(dict.fromkeys(words)))
        self.rarities: Mapping[str, float] = {
            word: rarity(count, newest) for word, count in self._counts.items()
        }

    def _counted(self, words: list[str]) -> dict[str, int]:
        reader = self._reader
        reader.ahead(*(methodcaller("matching", Sought(word), PROBE) for word in words))
        found = {word: reader.matching(Sought(word), PROBE) for word in words}
        self._whole = {word: ids for word, ids in found.items() if len(ids) < PROBE}
        common = [word for word in words if word not in self._whole]
        reader.ahead(*(methodcaller("matching_at", Sought(word), PROBE) for word in common))
        return {
            word: len(ids) if word in self._whole else self._judged(word, ids[-1])
            for word, ids in found.items()
        }

    def _judged(self, word: str, down_to: int) -> int:
        """How many entries have a word, of which the newest ones reach down to a number."""
        reached = self._reader.matching_at(Sought(word), PROBE)
        share = PROBE / (self._newest - down_to + 1) + PROBE / reached
        return min(self._newest, int(self._newest * share / 2))

    def best(self, wanted: int, only: Filter, passing: Passing | None, allows: Allows) -> list[int]:
        """Entries that have the question's words, looked up rarest first; those with the most and
        rarest of them, best first.

        They pass the filter's marks as the index tells it. `allows` tells from rows what can be
        told by them alone; that is read past, so that it doesn't stand in the way of what passes.
        """
        coarse = _Coarse(wanted)
        left = BUDGET
        words = sorted(self._counts, key=lambda word: self._counts[word])
        for word in words:
            limit = max(left, PROBE)
            self._read = 0
            if only.is_by_row:
                found = self._read_past(word, limit, only, allows)
            else:
                found = self._having(word, limit, only, passing, allows)
            left -= max(len(found), self._read // (_MOST_READ // BUDGET))
            is_last = left <= 0 or word == words[-1]
            coarse.add(found, self.rarities[word], is_last=is_last)
            if is_last:
                break
        return coarse.best()

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
        found = None
        if passing is not None and not self._is_common(word, passing):
            found = self._told_by_mask(word, limit, passing, allows)
        return self._reader.matching(Sought(word, marks), limit) if found is None else found

    def _told_by_mask(
        self, word: str, limit: int, passing: Passing, allows: Allows
    ) -> list[int] | None:
        """The same from all that has the word, or the newest of it; None where too few of what was
        read pass.
        """
        # As many as it takes for the limit to be reached, if those that pass are spread evenly.
        needed = int(limit * _SPARE * self._newest / max(passing.count, 1)) + PROBE
        most = min(needed, _MOST_READ)
        whole = self._whole.get(word)
        if whole is None:
            whole = self._reader.matching(Sought(word), most)
            self._read = len(whole)
        passes, untold = passing.of(whole)
        found = sorted(allows(untold) + passes, reverse=True) if untold else passes
        is_cut = len(whole) >= most and word not in self._whole
        enough = limit if most == needed else PROBE
        return None if is_cut and len(found) < enough else found[:limit]

    def _is_common(self, word: str, passing: Passing) -> bool:
        """Whether the index finds what has a word and marks faster than reading what has the word
        does: it walks all that has the marks, so that has to be little.
        """
        if word in self._whole or passing.count * _MOST_READ > 2 * PROBE * self._newest:
            return False
        return self._counts[word] * _RARER > passing.count


class _Coarse:
    """A first idea of what entries are worth: the rarities of their words, added up."""

    def __init__(self, wanted: int) -> None:
        """`wanted` is how many are asked for in the end."""
        self._wanted = wanted
        self._worth: dict[int, float] = {}

    def add(self, found: list[int], worth: float, *, is_last: bool) -> None:
        """Count a word for the entries that have it, newest first. With the last word, of those
        that have no other the newest are enough: all of them are worth the same.
        """
        known = self._worth
        if is_last:
            for number in known.keys() & set(found):
                known[number] += worth
            others = (number for number in found if number not in known)
            known.update(dict.fromkeys(list(islice(others, self._wanted)), worth))
        else:
            fresh = dict.fromkeys(found, worth)
            for number in known.keys() & fresh.keys():
                fresh[number] += known[number]
            known.update(fresh)

    def best(self) -> list[int]:
        """Those worth most; of equal ones the newest."""
        pairs = zip(self._worth.values(), self._worth, strict=True)
        return [number for _, number in nlargest(self._wanted, pairs)]

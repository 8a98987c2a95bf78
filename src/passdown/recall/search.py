"""Search: from a question to the entries that answer it best, within exact filters.

First the entries that have the question's rarest words are gathered (`candidates`). With vectors,
the nearest in meaning join them. The best by words and meaning, and the neighbours of the very
best, are then scored with everything that is known of them. What passes the filters and nothing
else counts, and as many are given as there are, however little they have to do with the question.
Where a superseded decision answers, the one that holds comes with it.
"""

from __future__ import annotations

from heapq import nlargest
from operator import methodcaller
from typing import TYPE_CHECKING, Protocol

from passdown.model.found_rows import Sought
from passdown.model.words import QUESTION
from passdown.recall.asking import understood
from passdown.recall.candidates import PROBE, Words
from passdown.recall.chains import holders
from passdown.recall.scoring import (
    ALONE,
    LONGEST_BESIDE,
    NOTHING,
    Around,
    Candidate,
    Scorer,
    share_of_others,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from passdown.recall.asking import Question
    from passdown.recall.candidates import Allows, Passing
    from passdown.recall.filters import Filter
    from passdown.store.found import Entry, Looked
    from passdown.store.statements import Reader

ROUGH = 70
CHOSEN = 24
SURE = 8
BY_MEANING = 24
NEAR = 6
STEPS = 2
FEW = 1_500
MARKED = 12_000
PAGE = 200


class Meaning(Protocol):
    """What vectors say about one question, within one filter."""

    @property
    def passing(self) -> Passing | None:
        """Which entries pass the filter's marks, where the vectors' index knows."""
        ...

    def near(self, reader: Reader, allows: Allows, count: int) -> list[int]:
        """Up to `count` entries that are near to it and pass, nearest first."""
        ...

    def near_of(self, reader: Reader, ids: Sequence[int], count: int) -> list[int]:
        """The nearest of some entries, nearest first."""
        ...

    def nearness(self, reader: Reader, ids: Iterable[int]) -> Mapping[int, float]:
        """How near entries are to it, 0 to 1; those without a vector are left out."""
        ...


class Search:
    """One question put to one moment of the store."""

    def __init__(
        self, reader: Reader, text: str, only: Filter, meaning: Meaning | None = None
    ) -> None:
        """Without `meaning`, by words alone."""
        self._reader = reader
        self._only = only
        reader.ahead(methodcaller("newest_entry"), methodcaller("authors"))
        self._newest = reader.newest_entry()
        self.question: Question = understood(text, reader.authors())
        self._meaning = meaning
        self._passes = meaning.passing if meaning else None
        self._rows: dict[int, Entry] = {}
        self._looked: dict[int, Looked] = {}
        self._texts: dict[int, float] = {}
        self._dense: dict[int, float] = {}
        self._beside: dict[int, tuple[list[int], list[int]]] = {}

    def best(self, limit: int) -> list[tuple[Entry, float]]:
        """The best entries with their scores, best first; as many as there are, up to `limit`."""
        few = self._few()
        words = Words(self._reader, self._newest, self.question.words)
        scorer = Scorer(self.question, words.rarities, self._newest)
        rough = few if few is not None else self._by_words(words, max(ROUGH, 2 * limit))
        near = self._near(max(BY_MEANING, limit), rough, is_all=few is not None)
        chosen = self._chosen(scorer, rough, near, limit)
        scored = self._scored(scorer, chosen)
        scored = self._with_successors(scored)
        scored.sort(key=_order)
        passing = [pair for pair in scored if self._only.lets(pair[0])]
        return self._filled(passing[:limit], limit, few)

    def _few(self) -> list[int] | None:
        """Everything that passes, where a filter by row leaves little; None where it doesn't."""
        only = self._only
        if not only.is_narrow:
            return None
        ids = self._reader.narrowed(only.statuses, only.since, only.until, FEW + 1)
        return self._passing(sorted(ids, reverse=True)) if len(ids) <= FEW else None

    def _by_words(self, words: Words, wanted: int) -> list[int]:
        """Entries that pass, or that a later decision may stand in for, by the index of words."""

        def allows(ids: list[int]) -> list[int]:
            return self._allowed(ids, with_superseded=True)

        found = words.best(wanted, self._only, self._passes, allows)
        return self._passing(found, with_superseded=True)

    def _near(self, count: int, rough: list[int], *, is_all: bool) -> list[int]:
        """The entries nearest in meaning that pass; `is_all` when no others than `rough` do."""
        if self._meaning is None:
            return []
        passing = rough if is_all else self._marked()
        if passing is None:
            # The index itself looks at what it knows; rows are read for the rest alone.
            is_told = self._passes is not None or not self._only.is_by_mark
            allows = _all if is_told and not self._only.is_by_row else self._allowed
            return self._passing(self._meaning.near(self._reader, allows, count))
        return self._passing(self._meaning.near_of(self._reader, passing, count))

    def _marked(self) -> list[int] | None:
        """Everything that passes, where tags or a path leave little and the vectors' index doesn't
        know of them; None where that isn't so.
        """
        if not self._only.is_by_mark or self._passes is not None:
            return None
        most = min(MARKED, max(PROBE, self._newest // 20))
        ids = self._reader.matching(Sought(marks=self._only.marks()), most + 1)
        if len(ids) > most:
            return None
        return self._allowed(ids) if self._only.is_by_row else ids

    def _chosen(self, scorer: Scorer, rough: list[int], near: list[int], limit: int) -> list[int]:
        """What is worth a closer look: the best by words and meaning together, the very best by
        each, and what stands beside the first of them.
        """
        found = list(dict.fromkeys([*rough, *near]))
        self._measure(found)
        texts = {number: self._text(scorer, number) for number in found}
        worth = {n: scorer.quick(texts[n], self._dense.get(n)) for n in found}
        ranked = sorted(found, key=lambda n: (-worth[n], -n))
        by_text = nlargest(SURE, rough, key=lambda n: (texts[n], n))
        chosen = dict.fromkeys([*ranked[: max(CHOSEN, limit)], *by_text, *near[:SURE]])
        around = self._neighbours(ranked[:NEAR])
        beside = (number for before, after in around.values() for number in (*before, *after))
        chosen.update(dict.fromkeys(self._passing(list(dict.fromkeys(beside)))))
        return list(chosen)

    def _text(self, scorer: Scorer, number: int) -> float:
        """How well the words of an entry that was looked at answer, roughly."""
        known = self._texts.get(number)
        if known is None:
            looked = self._looked[number]
            known = self._texts[number] = scorer.weighed(looked.words, looked.entry.length)
        return known

    def _measure(self, ids: Iterable[int]) -> None:
        """Ask how near entries are that weren't asked about yet."""
        fresh = [number for number in ids if number not in self._dense]
        if self._meaning is not None and fresh:
            self._dense.update(self._meaning.nearness(self._reader, fresh))

    def _passing(self, ids: list[int], *, with_superseded: bool = False) -> list[int]:
        """Those of some entries that pass the filter, in the same order; all are looked at.

        `with_superseded` also gives those that a later decision may stand in for.
        """
        self._look(ids)
        only, looked = self._only, self._looked
        found = [number for number in ids if number in looked]
        if not only.is_asked:
            return found
        lets, marks = only.lets, only.is_by_mark
        return [
            number
            for number in found
            if lets(looked[number].entry, with_superseded=with_superseded)
            and (not marks or only.has_marks(looked[number].marks))
        ]

    def _allowed(self, ids: list[int], *, with_superseded: bool = False) -> list[int]:
        """The same of many, with as little reading as it takes."""
        only, rows = self._only, self._rows
        unknown = [number for number in ids if number not in rows]
        if unknown:
            rows.update((entry.id, entry) for entry in self._reader.entries(unknown))
        let = [n for n in ids if n in rows and only.lets(rows[n], with_superseded=with_superseded)]
        if not only.is_by_mark or not let:
            return let
        if self._passes is not None:
            passes, untold = self._passes.of(let)
            if not untold:
                return passes
        marks = self._reader.marks_of(let)
        return [number for number in let if only.has_marks(marks[number])]

    def _look(self, ids: Iterable[int]) -> None:
        """Read all that is compared of entries that weren't looked at yet."""
        fresh = [number for number in ids if number not in self._looked]
        if fresh:
            for looked in self._reader.looked_at(fresh):
                self._looked[looked.entry.id] = looked

    def _scored(self, scorer: Scorer, ids: list[int]) -> list[tuple[Entry, float]]:
        around = self._neighbours(ids)
        self._look({n for before, after in around.values() for n in (*before, *after)})
        self._measure(ids)
        found = {number: scorer.find(self._looked[number].words.split()) for number in ids}
        pairs = scorer.pairs(found)
        scored: list[tuple[Entry, float]] = []
        for number in ids:
            entry, heads, *_ = self._looked[number]
            candidate = Candidate(
                words=found[number],
                heads=scorer.find(heads.split()) if heads else NOTHING,
                traits=entry.traits,
                agent=entry.agent,
                at=entry.at,
                pair=pairs.get(number, 0.0),
                around=self._around(scorer, entry, around.get(number, ([], []))),
                dense=self._dense.get(number),
            )
            scored.append((entry, scorer.score(candidate)))
        return scored

    def _neighbours(self, ids: Iterable[int]) -> dict[int, tuple[list[int], list[int]]]:
        """What stands before and after entries; long ones speak for themselves."""
        looked, beside = self._looked, self._beside
        short = [number for number in ids if looked[number].entry.length <= LONGEST_BESIDE]
        fresh = [number for number in short if number not in beside]
        if fresh:
            beside.update(self._reader.around(fresh))
        return {number: beside[number] for number in short}

    def _around(self, scorer: Scorer, entry: Entry, beside: tuple[list[int], list[int]]) -> Around:
        """What stands beside an entry, in the same sitting: the same task on the same day."""
        looked, day = self._looked, entry.at[:10]
        before, after = (
            [e for n in side if n in looked and (e := looked[n].entry).at[:10] == day]
            for side in beside
        )
        if not before and not after:
            return ALONE
        own = next((e for e in before if e.agent == entry.agent), None)
        asked = before[0] if before and before[0].traits & QUESTION else None
        share = share_of_others(entry.length)
        return Around(
            own=share * self._text(scorer, own.id) if own else 0.0,
            ask=share * self._text(scorer, asked.id) if asked else 0.0,
            next=share * sum(self._text(scorer, e.id) for e in after) / STEPS,
        )

    def _with_successors(self, scored: list[tuple[Entry, float]]) -> list[tuple[Entry, float]]:
        """A decision that holds answers as well as the one that it took the place of."""
        best = {entry.id: (entry, score) for entry, score in scored}
        held = holders(self._reader, (entry for entry, _ in scored))
        for entry, score in scored:
            for holder in held.get(entry.address, ()):
                known = best.get(holder.id)
                if known is not None or self._passing([holder.id]):
                    best[holder.id] = (holder, max(score, known[1] if known else 0.0))
        return list(best.values())

    def _filled(
        self, best: list[tuple[Entry, float]], limit: int, few: list[int] | None
    ) -> list[tuple[Entry, float]]:
        """The best, and the newest of whatever else passes where there are too few of them."""
        known = {entry.id for entry, _ in best}
        if few is not None:
            more = [number for number in few if number not in known]
            return best + [(self._looked[n].entry, 0.0) for n in more[: limit - len(best)]]
        last = self._newest
        while len(best) < limit and last > 0:
            ids = self._page(last)
            if not ids:
                break
            more = [n for n in self._allowed(ids) if n not in known]
            best += [(self._rows[n], 0.0) for n in more[: limit - len(best)]]
            last = ids[-1] - 1
        return best

    def _page(self, last: int) -> list[int]:
        if marks := self._only.marks():
            return self._reader.matching(Sought(marks=marks), PAGE, last=last)
        return self._reader.latest_entries(PAGE, last=last)


def _order(pair: tuple[Entry, float]) -> tuple[float, bool, int]:
    """Best first; what holds before what it superseded, the newest first."""
    entry, score = pair
    return (-score, entry.status == "superseded", -entry.id)


def _all(ids: list[int]) -> list[int]:
    return ids

"""Search: from a question to the entries that answer it best, within exact filters.

First the entries that have the question's rarest words are gathered, as many as a budget allows, so
that the cost doesn't grow with the store. With vectors, the nearest in meaning join them. The best
by words and meaning, and the neighbours of the very best, are then scored with everything that is
known of them. Filters are asked for in the index itself; what passes them and nothing else counts,
and as many are given as there are, however little they have to do with the question. Where a
superseded decision answers, the one that holds comes with it.
"""

from __future__ import annotations

from functools import cached_property
from heapq import nlargest
from typing import TYPE_CHECKING, Protocol

from passdown.model.found_rows import Sought
from passdown.model.words import QUESTION
from passdown.recall.asking import understood
from passdown.recall.chains import successor
from passdown.recall.scoring import (
    ALONE,
    LONGEST_BESIDE,
    NOTHING,
    Around,
    Candidate,
    Scorer,
    rarity,
    share_of_others,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from passdown.recall.asking import Question
    from passdown.recall.filters import Filter
    from passdown.store.found import Entry
    from passdown.store.statements import Reader

    Allows = Callable[[list[int]], list[int]]

BUDGET = 8_000
"""How many places of words in the index are looked up for one question."""

MOST_REFUSED = 4 * BUDGET
PROBE = 400
ROUGH = 70
CHOSEN = 24
SURE = 8
BY_MEANING = 24
NEAR = 6
STEPS = 2
FEW = 1_500
MARKED = 12_000
RARER = 24
PAGE = 200
GATHERED = 2_000


class Passing(Protocol):
    """Which entries pass a filter, as far as it asks for kind, agent and task."""

    count: int

    def of(self, ids: Sequence[int]) -> list[int] | None:
        """Those of some entries that pass, in the same order; None where that isn't known."""
        ...


class Meaning(Protocol):
    """What vectors say about one question."""

    def near(self, reader: Reader, only: Filter, allows: Allows, count: int) -> list[int]:
        """Up to `count` entries that are near to it and pass, nearest first."""
        ...

    def passing(self, only: Filter) -> Passing:
        """Which entries pass."""
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
        self._marks = only.marks()
        self._newest = reader.newest_entry()
        self.question: Question = understood(text, reader.authors())
        self._meaning = meaning
        self._rows: dict[int, Entry] = {}
        self._whole: dict[str, list[int]] = {}
        self._counted: Mapping[str, int] = {}
        self._said: dict[int, str] = {}
        self._texts: dict[int, float] = {}
        self._dense: dict[int, float] = {}

    def best(self, limit: int) -> list[tuple[Entry, float]]:
        """The best entries with their scores, best first; as many as there are, up to `limit`."""
        few = self._few()
        counts = self._counts()
        rarities = {word: rarity(count, self._newest) for word, count in counts.items()}
        scorer = Scorer(self.question, rarities, self._newest)
        rough = few if few is not None else self._by_words(counts, max(ROUGH, 2 * limit))
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
        if not (only.statuses or only.since or only.until):
            return None
        ids = self._reader.narrowed(only.statuses, only.since, only.until, FEW + 1)
        return self._passing(sorted(ids, reverse=True)) if len(ids) <= FEW else None

    def _counts(self) -> dict[str, int]:
        """How many entries have each word of the question: counted where they are few, else judged
        by how close together the newest and the oldest of them stand.
        """
        counts: dict[str, int] = {}
        for word in dict.fromkeys(self.question.words):
            found = self._reader.matching(Sought(word), PROBE)
            counts[word] = len(found)
            if len(found) < PROBE:
                self._whole[word] = found
            else:
                oldest = self._reader.oldest_matching(Sought(word), PROBE)
                share = PROBE / (self._newest - found[-1] + 1) + PROBE / oldest[-1]
                counts[word] = min(self._newest, int(self._newest * share / 2))
        return counts

    def _by_words(self, counts: Mapping[str, int], wanted: int) -> list[int]:
        """Entries that pass and have the question's words, looked up rarest first; those with the
        most and rarest of them.
        """
        self._counted = counts
        left = BUDGET
        coarse: dict[int, float] = {}
        for word in sorted(counts, key=lambda word: counts[word]):
            worth = rarity(counts[word], self._newest)
            found = self._having(word, max(left, PROBE))
            known = coarse.get
            coarse.update([(number, known(number, 0.0) + worth) for number in found])
            left -= len(found)
            if left <= 0:
                break
        best = nlargest(wanted, zip(coarse.values(), coarse, strict=True))
        return self._passing([number for _, number in best], with_superseded=True)

    def _having(self, word: str, limit: int) -> list[int]:
        """The newest entries that have a word and pass, up to a limit.

        What only rows can refuse is read past, so that it doesn't stand in the way of what passes.
        """
        asked = Sought(word, self._marks)
        if not self._marks and not self._only.is_by_row and word in self._whole:
            return self._whole[word]
        if not self._only.is_by_row:
            known = self._having_by_mask(word, limit)
            return self._reader.matching(asked, limit) if known is None else known
        kept: list[int] = []
        last, looked_at = self._newest, 0
        while len(kept) < limit and looked_at < MOST_REFUSED:
            page = self._reader.matching(asked, GATHERED, last=last)
            kept += self._passing(page, with_superseded=True)
            looked_at += len(page)
            if len(page) < GATHERED:
                break
            last = page[-1] - 1
        return kept[:limit]

    def _having_by_mask(self, word: str, limit: int) -> list[int] | None:
        """The same without asking the index for the filter's marks; None where that is no gain.

        To find what has both a rare word and a common mark, the index walks all that has the mark.
        """
        passing, count = self._mask, self._counted[word]
        if passing is None or count * RARER > passing.count:
            return None
        most = 2 * count + PROBE
        whole = self._whole.get(word)
        ids = self._reader.matching(Sought(word), most) if whole is None else whole
        # Where there are more than was judged, what is left out might pass.
        found = passing.of(ids) if len(ids) < most else None
        return None if found is None else found[:limit]

    @cached_property
    def _mask(self) -> Passing | None:
        """Which entries pass, where vectors are at hand and the filter asks for nothing else."""
        only = self._only
        is_told = only.kinds or only.agent or only.task
        if self._meaning is None or not is_told or only.is_by_mark or only.is_by_row:
            return None
        return self._meaning.passing(only)

    def _near(self, count: int, rough: list[int], *, is_all: bool) -> list[int]:
        """The entries nearest in meaning that pass; `is_all` when no others than `rough` do."""
        if self._meaning is None:
            return []
        passing = rough if is_all else self._marked()
        if passing is None:
            # The index itself looks at kind, agent and task; rows are read for the rest alone.
            by_row = self._only.is_by_mark or self._only.is_by_row
            allows = self._passing if by_row else _all
            return self._passing(self._meaning.near(self._reader, self._only, allows, count))
        return self._passing(self._meaning.near_of(self._reader, passing, count))

    def _marked(self) -> list[int] | None:
        """Everything that passes, where tags or a path leave little; None where they don't."""
        if not self._only.is_by_mark:
            return None
        most = min(MARKED, max(PROBE, self._newest // 20))
        ids = self._reader.matching(Sought(marks=self._marks), most + 1)
        if len(ids) > most:
            return None
        return self._passing(ids) if self._only.is_by_row else ids

    def _chosen(self, scorer: Scorer, rough: list[int], near: list[int], limit: int) -> list[int]:
        """What is worth a closer look: the best by words and meaning together, the very best by
        each, and what stands beside the first of them.
        """
        found = list(dict.fromkeys([*rough, *near]))
        self._look(scorer, found)
        self._measure(found)
        worth = {n: scorer.quick(self._texts[n], self._dense.get(n)) for n in found}
        ranked = sorted(found, key=lambda n: (-worth[n], -n))
        by_text = nlargest(SURE, rough, key=lambda n: (self._texts[n], n))
        chosen = dict.fromkeys([*ranked[: max(CHOSEN, limit)], *by_text, *near[:SURE]])
        around = self._neighbours(ranked[:NEAR])
        beside = (number for before, after in around.values() for number in (*before, *after))
        chosen.update(dict.fromkeys(self._passing(list(dict.fromkeys(beside)))))
        return list(chosen)

    def _look(self, scorer: Scorer, ids: Iterable[int]) -> None:
        """Read the words of entries that weren't looked at yet, and weigh them roughly."""
        fresh = [number for number in ids if number not in self._said]
        if fresh:
            self._know(fresh)
            said = self._reader.words_of(fresh)
            for number in fresh:
                self._said[number] = words = said.get(number, "")
                self._texts[number] = scorer.weighed(words, self._rows[number].length)

    def _measure(self, ids: Iterable[int]) -> None:
        """Ask how near entries are that weren't asked about yet."""
        fresh = [number for number in ids if number not in self._dense]
        if self._meaning is not None and fresh:
            self._dense.update(self._meaning.nearness(self._reader, fresh))

    def _passing(self, ids: list[int], *, with_superseded: bool = False) -> list[int]:
        """Those of some entries that pass the filter, in the same order.

        `with_superseded` also gives those that a later decision may stand in for.
        """
        self._know(ids)
        only, rows = self._only, self._rows
        let = [n for n in ids if n in rows and only.lets(rows[n], with_superseded=with_superseded)]
        if not only.is_by_mark or not let:
            return let
        marks = self._reader.marks_of(let)
        return [number for number in let if only.has_marks(marks[number])]

    def _scored(self, scorer: Scorer, ids: list[int]) -> list[tuple[Entry, float]]:
        around = self._neighbours(ids)
        beside = {n for before, after in around.values() for n in (*before, *after)}
        self._look(scorer, [*ids, *beside])
        self._measure(ids)
        found = {number: scorer.find(self._said[number].split()) for number in ids}
        pairs = scorer.pairs(found)
        heads = self._reader.heads_of(ids)
        scored: list[tuple[Entry, float]] = []
        for number in ids:
            entry = self._rows[number]
            candidate = Candidate(
                words=found[number],
                heads=scorer.find(heads[number].split()) if number in heads else NOTHING,
                traits=entry.traits,
                agent=entry.agent,
                at=entry.at,
                pair=pairs.get(number, 0.0),
                around=self._around(entry, around.get(number, ([], []))),
                dense=self._dense.get(number),
            )
            scored.append((entry, scorer.score(candidate)))
        return scored

    def _neighbours(self, ids: Iterable[int]) -> dict[int, tuple[list[int], list[int]]]:
        """What stands before and after entries; long ones speak for themselves."""
        short = [number for number in ids if self._rows[number].length <= LONGEST_BESIDE]
        return self._reader.around(short) if short else {}

    def _know(self, ids: Iterable[int]) -> None:
        unknown = [number for number in ids if number not in self._rows]
        if unknown:
            self._rows.update((entry.id, entry) for entry in self._reader.entries(unknown))

    def _around(self, entry: Entry, beside: tuple[list[int], list[int]]) -> Around:
        """What stands beside an entry, in the same sitting: the same task on the same day."""
        rows, texts, day = self._rows, self._texts, entry.at[:10]
        before, after = ([e for n in side if (e := rows[n]).at[:10] == day] for side in beside)
        if not before and not after:
            return ALONE
        own = next((e for e in before if e.agent == entry.agent), None)
        asked = before[0] if before and before[0].traits & QUESTION else None
        share = share_of_others(entry.length)
        return Around(
            own=share * texts[own.id] if own else 0.0,
            ask=share * texts[asked.id] if asked else 0.0,
            next=share * sum(texts[e.id] for e in after) / STEPS,
        )

    def _with_successors(self, scored: list[tuple[Entry, float]]) -> list[tuple[Entry, float]]:
        """A decision that holds answers as well as the one that it took the place of."""
        best = {entry.id: (entry, score) for entry, score in scored}
        for entry, score in scored:
            holder = successor(self._reader, entry) if entry.status == "superseded" else None
            if holder is None or not self._passing([holder.id]):
                continue
            known = best.get(holder.id)
            best[holder.id] = (holder, max(score, known[1] if known else 0.0))
        return list(best.values())

    def _filled(
        self, best: list[tuple[Entry, float]], limit: int, few: list[int] | None
    ) -> list[tuple[Entry, float]]:
        """The best, and the newest of whatever else passes where there are too few of them."""
        known = {entry.id for entry, _ in best}
        if few is not None:
            more = [number for number in few if number not in known]
            return best + [(self._rows[n], 0.0) for n in more[: limit - len(best)]]
        last = self._newest
        while len(best) < limit and last > 0:
            ids = self._page(last)
            if not ids:
                break
            more = [n for n in self._passing(ids) if n not in known]
            best += [(self._rows[n], 0.0) for n in more[: limit - len(best)]]
            last = ids[-1] - 1
        return best

    def _page(self, last: int) -> list[int]:
        if self._marks:
            return self._reader.matching(Sought(marks=self._marks), PAGE, last=last)
        return self._reader.latest_entries(PAGE, last=last)


def _order(pair: tuple[Entry, float]) -> tuple[float, bool, int]:
    """Best first; what holds before what it superseded, the newest first."""
    entry, score = pair
    return (-score, entry.status == "superseded", -entry.id)


def _all(ids: list[int]) -> list[int]:
    return ids

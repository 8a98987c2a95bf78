"""Find the entries that answer a query best, within exact filters.

Candidates come from the word index, rarest words first, and from vectors. Each is scored by a few
weighted features; `docs/decisions/0012` says how the weights were fitted. The filters are exact and
as many entries are returned as pass them. A superseded decision brings the one now in force.
"""

from __future__ import annotations

import math
from heapq import nlargest
from itertools import islice, pairwise
from operator import methodcaller, mul
from typing import TYPE_CHECKING, NamedTuple

from passdown.core.rows import SearchTerm
from passdown.core.words import QUESTION, TIMED
from passdown.search.existing import current_decisions
from passdown.search.query import Query, date_closeness, parse_query

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from passdown.search.query import SearchFilter
    from passdown.search.vectors import FilterScope, Floats, StoredIndex, VectorIndex, VectorMask
    from passdown.store.entries import ComparedEntry, IndexedEntry
    from passdown.store.statements import Reader

    Allows = Callable[[list[int]], list[int]]

_SATURATION = 0.5
_LENGTH = 60.0
_SPAN = 4
_MOST_PLACES = 50
_IDEAL_LENGTH = 20
_IDEAL_NEARNESS = 0.7

MAX_WORDS_WITH_NEIGHBOURS = 240
"""Entries with more words are looked at without their neighbours, which would count little."""


class Features(NamedTuple):
    """The features of an entry for one query; also the weight of each."""

    text: float
    covered: float
    pair: float
    heads: float
    own: float
    next: float
    ask: float
    sitting: float
    author: float
    date: float
    isq: float
    when: float
    dense: float


WITHOUT_VECTORS = Features(
    1.77, 0.45, 1.82, 1.27, 1.56, 1.26, 2.14, 1.34, 1.08, 2.86, -0.87, 1.52, 0.0
)
WITH_VECTORS = Features(
    0.71, 0.57, 1.65, 1.08, 1.31, 1.05, 1.92, 1.54, 1.11, 2.92, -1.19, 1.63, 6.49
)


class NeighbourScores(NamedTuple):
    """The text scores of an entry's neighbours, and how far its day's best stays behind."""

    own: float = 0.0
    ask: float = 0.0
    next: float = 0.0
    sitting: float = 0.0


NO_NEIGHBOURS = NeighbourScores()


class WordPositions(NamedTuple):
    """Positions of the query's words in a text, and how many words the text has."""

    length: int
    places: Mapping[str, Sequence[int]]


NO_POSITIONS = WordPositions(0, {})


class Candidate(NamedTuple):
    """An entry that may answer, with all that is weighed."""

    words: WordPositions
    heads: WordPositions
    traits: int
    agent: str
    at: str
    pair: float = 0.0
    around: NeighbourScores = NO_NEIGHBOURS
    dense: float | None = None


def neighbour_weight(length: int) -> float:
    """How much its neighbours count for an entry: the shorter it is, the more."""
    return _LENGTH / (_LENGTH + length)


def rarity(count: int, total: int) -> float:
    """How much a word says that `count` of `total` entries have."""
    return math.log(1 + (total - count + 0.5) / (count + 0.5))


class Scorer:
    """Scores entries for one query."""

    def __init__(self, query: Query, rarities: Mapping[str, float], total: int) -> None:
        """`rarities` has every word of the query; `total` is how many entries there are."""
        self._query = query
        self._total = total
        self._scale = 1 / math.sqrt(sum(rarities[word] for word in query.words) or 1.0)
        self._weights: dict[str, float] = {}
        for word in query.words:
            weight = rarities[word] * self._scale
            self._weights[word] = self._weights.get(word, 0.0) + weight
        self._apart = [(f" {word} ", weight) for word, weight in self._weights.items()]
        dampening = 1 + _SATURATION + _IDEAL_LENGTH / _LENGTH
        self._ideal_text = sum(self._weights.values()) / dampening

    def find(self, words: Sequence[str]) -> WordPositions:
        """Find the query's words in others."""
        wanted = self._weights
        places: dict[str, list[int]] = {}
        for place in [place for place, word in enumerate(words) if word in wanted]:
            places.setdefault(words[place], []).append(place)
        return WordPositions(len(words), places)

    def text(self, found: WordPositions) -> float:
        """How well some words answer, by themselves."""
        dampening = _SATURATION + found.length / _LENGTH
        return sum(
            self._weights[word] * len(places) / (len(places) + dampening)
            for word, places in found.places.items()
        )

    def pairs(self, candidates: Mapping[int, WordPositions]) -> dict[int, float]:
        """Score pairs of words that are close together in the query and in an entry; in a short one
        all words are, so it says little there.

        How rare a pair is comes from the candidates.
        """
        scores: dict[int, float] = {}
        for (one, other), times in self._pairs().items():
            counts = {
                number: count
                for number, found in candidates.items()
                if (count := _close_pairs(found.places.get(one, ()), found.places.get(other, ())))
            }
            weight = times * self._scale * rarity(len(counts), self._total)
            for number, count in counts.items():
                length = candidates[number].length
                score = weight * count / (count + _SATURATION + length / _LENGTH)
                score *= 1 - neighbour_weight(length)
                scores[number] = scores.get(number, 0.0) + score
        return scores

    def _pairs(self) -> dict[tuple[str, str], int]:
        """Neighbouring words of the query, in either order, and how often they are."""
        words = self._query.words
        found: dict[tuple[str, str], int] = {}
        for one, other in pairwise(words):
            if one != other:
                key = (min(one, other), max(one, other))
                found[key] = found.get(key, 0) + 1
        return found

    def weighed(self, words: str, length: int) -> float:
        """Score a text without splitting it into words."""
        dampening = _SATURATION + length / _LENGTH
        padded = f" {words} "
        score = 0.0
        for word, weight in self._apart:
            if count := padded.count(word):
                score += weight * count / (count + dampening)
        return score

    def quick(self, entry: IndexedEntry, text: float, dense: float | None) -> float:
        """A first idea of a score: how well words and meaning answer, author and time."""
        weights = WITHOUT_VECTORS if dense is None else WITH_VECTORS
        query, traits = self._query, entry.traits
        # Half of what a word can add to `text` is about what it adds to it in a short entry.
        total = (weights.text + 2 * weights.covered) * text + weights.dense * (dense or 0.0)
        total += weights.author * (entry.agent in query.named)
        total += weights.date * date_closeness(query.day, entry.at)
        total += weights.isq * bool(traits & QUESTION)
        total += weights.when * (query.asks_when and bool(traits & TIMED))
        return max(total, 0.0) / self._ideal(weights)

    def score(self, candidate: Candidate) -> float:
        """How well an entry answers: 1 is ideal; time, author or neighbours may add to it."""
        weights = WITHOUT_VECTORS if candidate.dense is None else WITH_VECTORS
        total = sum(map(mul, weights, self.features(candidate)))
        return max(total, 0.0) / self._ideal(weights)

    def _ideal(self, weights: Features) -> float:
        """What a short entry gets that has every word of the query and is near in meaning."""
        words = weights.text + weights.heads / 2
        covered = weights.covered * sum(self._weights.values())
        return words * self._ideal_text + covered + weights.dense * _IDEAL_NEARNESS or 1.0

    def features(self, candidate: Candidate) -> Features:
        """All that is weighed of an entry."""
        query, around, traits = self._query, candidate.around, candidate.traits
        words, heads = candidate.words, candidate.heads
        text = self.text(words)
        return Features(
            text=text,
            covered=sum(self._weights[word] for word in words.places),
            pair=candidate.pair,
            heads=self.text(heads) if heads.places else 0.0,
            own=around.own,
            next=around.next,
            ask=around.ask,
            sitting=around.sitting,
            author=candidate.agent in query.named,
            date=date_closeness(query.day, candidate.at),
            isq=bool(traits & QUESTION),
            when=query.asks_when and bool(traits & TIMED),
            dense=candidate.dense or 0.0,
        )


def _close_pairs(first: Sequence[int], second: Sequence[int]) -> int:
    """How often two words are close to each other."""
    if not first or not second:
        return 0
    return sum(
        1
        for one in first[:_MOST_PLACES]
        for other in second[:_MOST_PLACES]
        if -_SPAN <= one - other <= _SPAN
    )


BUDGET = 8_000
"""How many places of words in the index are looked up for one query."""

PROBE = 400
_MOST_REFUSED = 4 * BUDGET
_MOST_READ = 2 * BUDGET
_GATHERED = 2_000
_RARER = 8
_SPARE = 1.1


class WordCandidates:
    """The words of one query in the index, at one moment of the store."""

    def __init__(self, reader: Reader, newest: int, words: Iterable[str]) -> None:
        """Count the entries of each word: few exactly, many by the newest and oldest of them."""
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
        reader.ahead(*(methodcaller("matching", SearchTerm(word), PROBE) for word in words))
        found = {word: reader.matching(SearchTerm(word), PROBE) for word in words}
        self._whole = {word: ids for word, ids in found.items() if len(ids) < PROBE}
        common = [word for word in words if word not in self._whole]
        reader.ahead(*(methodcaller("matching_at", SearchTerm(word), PROBE) for word in common))
        return {
            word: len(ids) if word in self._whole else self._estimated(word, ids[-1])
            for word, ids in found.items()
        }

    def _estimated(self, word: str, down_to: int) -> int:
        """How many entries have a word, of which the newest ones reach down to a number."""
        reached = self._reader.matching_at(SearchTerm(word), PROBE)
        share = PROBE / (self._newest - down_to + 1) + PROBE / reached
        return min(self._newest, int(self._newest * share / 2))

    def best(
        self, wanted: int, only: SearchFilter, passing: VectorMask | None, allows: Allows
    ) -> list[int]:
        """Entries that have the query's words, looked up rarest first; those with the most and
        rarest of them, best first.

        The index checks the filter's marks; `allows` checks what only rows have. Entries that it
        refuses are skipped and don't count against the limit.
        """
        coarse = _RoughScores(wanted)
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

    def _read_past(self, word: str, limit: int, only: SearchFilter, allows: Allows) -> list[int]:
        asked = SearchTerm(word, only.marks())
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
        self, word: str, limit: int, only: SearchFilter, passing: VectorMask | None, allows: Allows
    ) -> list[int]:
        """The newest entries that have a word and pass, up to a limit."""
        marks, whole = only.marks(), self._whole.get(word)
        if not marks:
            return self._reader.matching(SearchTerm(word), limit) if whole is None else whole
        found = None
        if passing is not None and (
            word in self._whole
            or passing.count * _MOST_READ > 2 * PROBE * self._newest
            or self._counts[word] * _RARER <= passing.count
        ):
            found = self._having_by_mask(word, limit, passing, allows)
        return self._reader.matching(SearchTerm(word, marks), limit) if found is None else found

    def _having_by_mask(
        self, word: str, limit: int, passing: VectorMask, allows: Allows
    ) -> list[int] | None:
        """The newest entries with a word that pass the filter, from one read of the word's entries.

        None if too few of the entries read pass it: then the store has to filter.
        """
        # As many as it takes for the limit to be reached, if those that pass are spread evenly.
        needed = int(limit * _SPARE * self._newest / max(passing.count, 1)) + PROBE
        most = min(needed, _MOST_READ)
        whole = self._whole.get(word)
        if whole is None:
            whole = self._reader.matching(SearchTerm(word), most)
            self._read = len(whole)
        passes, unknown = passing.of(whole)
        found = sorted(allows(unknown) + passes, reverse=True) if unknown else passes
        is_cut = len(whole) >= most and word not in self._whole
        enough = limit if most == needed else PROBE
        return None if is_cut and len(found) < enough else found[:limit]


class _RoughScores:
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


ROUGH = 70
CHOSEN = 24
SURE = 8
BY_MEANING = 24
NEAR = 6
STEPS = 2
FEW = 1_500
MORE = (200, 2_000)
MARKED = 12_000
PAGE = 200


class VectorQuery(NamedTuple):
    """A query as a vector of length one, the index to search, and the filter to apply."""

    vectors: VectorIndex | StoredIndex
    scope: FilterScope
    vector: Floats


class Search:
    """One search, at one moment of the store."""

    def __init__(
        self, reader: Reader, text: str, only: SearchFilter, vector: VectorQuery | None = None
    ) -> None:
        """Without `vector`, by words alone."""
        self._reader = reader
        self._only = only
        reader.ahead(methodcaller("newest_entry"), methodcaller("authors"))
        self._newest = reader.newest_entry()
        self.query: Query = parse_query(text, reader.authors())
        self._vector = vector
        self._passes = vector.scope.passing if vector else None
        self._rows: dict[int, IndexedEntry] = {}
        self._looked: dict[int, ComparedEntry] = {}
        self._texts: dict[int, float] = {}
        self._sittings: dict[tuple[str, str], float] = {}
        self._dense: dict[int, float] = {}
        self._beside: dict[int, tuple[list[int], list[int]]] = {}

    def best(self, limit: int) -> list[tuple[IndexedEntry, float]]:
        """The best entries with their scores, best first; as many as there are, up to `limit`.

        What is looked at closely is the same for any limit, and so are the first answers.
        """
        few = self._few()
        words = WordCandidates(self._reader, self._newest, self.query.words)
        scorer = Scorer(self.query, words.rarities, self._newest)
        rough = few if few is not None else self._by_words(words, ROUGH)
        near = self._near(BY_MEANING, rough, is_all=few is not None)
        best = self._ranked(self._scored(scorer, self._chosen(scorer, rough, near)))
        for more in MORE:
            if len(best) >= limit:
                break
            if few is None:
                rough = self._by_words(words, more)
                near = self._near(more // 2, rough, is_all=False)
            best += self._after(scorer, best, [*rough, *near])
        return self._filled(best[:limit], limit, few)

    def _ranked(self, scored: list[tuple[IndexedEntry, float]]) -> list[tuple[IndexedEntry, float]]:
        """What passes of some entries and of what superseded them, best first."""
        found = sorted(self._with_successors(scored), key=_result_order)
        return [pair for pair in found if self._only.lets(pair[0])]

    def _after(
        self, scorer: Scorer, best: list[tuple[IndexedEntry, float]], ids: list[int]
    ) -> list[tuple[IndexedEntry, float]]:
        """What comes after the best, of those that weren't looked at closely, by a first idea."""
        self._measure(ids)
        known = {entry.id for entry, _ in best}
        least = best[-1][1] if best else 1.0
        rest = [(self._looked[n].entry, self._quick(scorer, n)) for n in dict.fromkeys(ids)]
        found = self._ranked([pair for pair in rest if pair[0].id not in known])
        found = [pair for pair in found if pair[1] > 0 and pair[0].id not in known]
        return [(entry, min(score, least)) for entry, score in found]

    def _few(self) -> list[int] | None:
        """Everything that passes, where a filter by row leaves little; None where it doesn't."""
        only = self._only
        if not only.is_narrow:
            return None
        ids = self._reader.narrowed(only.statuses, only.since, only.until, FEW + 1)
        return self._passing(sorted(ids, reverse=True)) if len(ids) <= FEW else None

    def _by_words(self, words: WordCandidates, wanted: int) -> list[int]:
        """Entries from the word index that pass, or that a later decision may replace."""

        def allows(ids: list[int]) -> list[int]:
            return self._allowed(ids, with_superseded=True)

        found = words.best(wanted, self._only, self._passes, allows)
        return self._passing(found, with_superseded=True)

    def _near(self, count: int, rough: list[int], *, is_all: bool) -> list[int]:
        """The entries nearest in meaning that pass; `is_all` when no others than `rough` do."""
        if self._vector is None:
            return []
        vectors, scope, vector = self._vector
        passing = rough if is_all else self._marked()
        if passing is None:
            # The index itself looks at what it knows; rows are read for the rest alone.
            is_told = self._passes is not None or not self._only.is_by_mark
            allows = list[int] if is_told and not self._only.is_by_row else self._allowed
            return self._passing(vectors.nearest(self._reader, vector, scope, allows, count=count))
        return self._passing(vectors.nearest_of(self._reader, vector, passing, count=count))

    def _marked(self) -> list[int] | None:
        """Everything that passes a tag or path that the vectors don't know; None if it is much."""
        if not self._only.is_by_mark or self._passes is not None:
            return None
        most = min(MARKED, max(PROBE, self._newest // 20))
        ids = self._reader.matching(SearchTerm(marks=self._only.marks()), most + 1)
        if len(ids) > most:
            return None
        return self._allowed(ids) if self._only.is_by_row else ids

    def _chosen(self, scorer: Scorer, rough: list[int], near: list[int]) -> list[int]:
        """What is worth a closer look: the best by words, meaning and both, and neighbours."""
        found = list(dict.fromkeys([*rough, *near]))
        self._measure(found)
        for number in found:
            text, entry = self._text(scorer, number), self._looked[number].entry
            sitting = (entry.task, entry.at[:10])
            self._sittings[sitting] = max(text, self._sittings.get(sitting, 0.0))
        worth = {n: self._quick(scorer, n) for n in found}
        ranked = sorted(found, key=lambda n: (-worth[n], -n))
        by_text = nlargest(SURE, rough, key=lambda n: (self._texts[n], n))
        chosen = dict.fromkeys([*ranked[:CHOSEN], *by_text, *near[:SURE]])
        around = self._neighbours(ranked[:NEAR])
        beside = (number for before, after in around.values() for number in (*before, *after))
        chosen.update(dict.fromkeys(self._passing(list(dict.fromkeys(beside)))))
        return list(chosen)

    def _quick(self, scorer: Scorer, number: int) -> float:
        """A first idea of the score of an entry that was looked at."""
        entry = self._looked[number].entry
        return scorer.quick(entry, self._text(scorer, number), self._dense.get(number))

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
        if self._vector is not None and fresh:
            vectors, _, vector = self._vector
            self._dense.update(vectors.nearness(self._reader, vector, fresh))

    def _passing(self, ids: list[int], *, with_superseded: bool = False) -> list[int]:
        """Those of some entries that pass the filter, in the same order; all are looked at.

        `with_superseded` also gives those that a later decision may replace.
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
            passes, unknown = self._passes.of(let)
            if not unknown:
                return passes
        marks = self._reader.marks_of(let)
        return [number for number in let if only.has_marks(marks[number])]

    def _look(self, ids: Iterable[int]) -> None:
        """Read all that is compared of entries that weren't looked at yet."""
        fresh = [number for number in ids if number not in self._looked]
        if fresh:
            for looked in self._reader.looked_at(fresh):
                self._looked[looked.entry.id] = looked

    def _scored(self, scorer: Scorer, ids: list[int]) -> list[tuple[IndexedEntry, float]]:
        around = self._neighbours(ids)
        self._look({n for before, after in around.values() for n in (*before, *after)})
        self._measure(ids)
        found = {number: scorer.find(self._looked[number].words.split()) for number in ids}
        pairs = scorer.pairs(found)
        scored: list[tuple[IndexedEntry, float]] = []
        for number in ids:
            entry, heads, *_ = self._looked[number]
            candidate = Candidate(
                words=found[number],
                heads=scorer.find(heads.split()) if heads else NO_POSITIONS,
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
        """The entries before and after some; long ones are ranked without."""
        looked, beside = self._looked, self._beside
        short = [
            number for number in ids if looked[number].entry.length <= MAX_WORDS_WITH_NEIGHBOURS
        ]
        fresh = [number for number in short if number not in beside]
        if fresh:
            beside.update(self._reader.around(fresh))
        return {number: beside[number] for number in short}

    def _around(
        self, scorer: Scorer, entry: IndexedEntry, beside: tuple[list[int], list[int]]
    ) -> NeighbourScores:
        """Scores of an entry's neighbours: the same task on the same day."""
        looked, day = self._looked, entry.at[:10]
        before, after = (
            [e for n in side if n in looked and (e := looked[n].entry).at[:10] == day]
            for side in beside
        )
        own = next((e for e in before if e.agent == entry.agent), None)
        asked = before[0] if before and before[0].traits & QUESTION else None
        share = neighbour_weight(entry.length)
        text, sittings = self._text(scorer, entry.id), self._sittings
        best = max(text, sittings.get((entry.task, day), 0.0))
        return NeighbourScores(
            own=share * self._text(scorer, own.id) if own else 0.0,
            ask=share * self._text(scorer, asked.id) if asked else 0.0,
            next=share * sum(self._text(scorer, e.id) for e in after) / STEPS,
            sitting=share * (best - max(text, *sittings.values())),
        )

    def _with_successors(
        self, scored: list[tuple[IndexedEntry, float]]
    ) -> list[tuple[IndexedEntry, float]]:
        """A decision or fact that holds answers as well as the one that it took the place of."""
        best = {entry.id: (entry, score) for entry, score in scored}
        held = current_decisions(self._reader, (entry for entry, _ in scored))
        for entry, score in scored:
            for holder in held.get(entry.address, ()):
                known = best.get(holder.id)
                if known is not None or self._passing([holder.id]):
                    best[holder.id] = (holder, max(score, known[1] if known else 0.0))
        return list(best.values())

    def _filled(
        self, best: list[tuple[IndexedEntry, float]], limit: int, few: list[int] | None
    ) -> list[tuple[IndexedEntry, float]]:
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
            return self._reader.matching(SearchTerm(marks=marks), PAGE, last=last)
        return self._reader.latest_entries(PAGE, last=last)


def _result_order(pair: tuple[IndexedEntry, float]) -> tuple[float, bool, int]:
    """Best first; what holds before what it superseded, the newest first."""
    entry, score = pair
    return (-score, entry.status == "superseded", -entry.id)

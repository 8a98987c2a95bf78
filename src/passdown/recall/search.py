"""Search: from a question to the entries that answer it best, within exact filters.

First the entries that have the question's rarest words are gathered, as many as a budget allows, so
that the cost doesn't grow with the store, and the best of them by their words are kept; with
vectors, the nearest in meaning join them, and the neighbours of the best. Then each is scored with
everything that is known of it. Filters are asked
for in the index itself; what passes them and nothing else counts, and as many are given as there
are, however little they have to do with the question.
"""

from __future__ import annotations

from heapq import nlargest
from typing import TYPE_CHECKING, NamedTuple, Protocol

from passdown.model.findable import mark_of, path_mark
from passdown.model.words import QUESTION
from passdown.recall.asking import understood
from passdown.recall.scoring import (
    ALONE,
    LONGEST_BESIDE,
    Around,
    Candidate,
    Found,
    Scorer,
    rarity,
    share_of_others,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from passdown.recall.asking import Question
    from passdown.store.finding import Entry
    from passdown.store.statements import Reader

    Allows = Callable[[list[int]], list[int]]

BUDGET = 8_000
"""How many places of words in the index are looked up for one question."""

PROBE = 600
ROUGH = 150
BY_TEXT = 50
BY_MEANING = 50
NEAR = 15
STEPS = 2
FEW = 1_500
MARKED = 12_000
PAGE = 200
_NOTHING = Found(0, {})


class Filter(NamedTuple):
    """What an entry must be; empty parts let everything through."""

    kinds: tuple[str, ...] = ()
    agent: str = ""
    task: str = ""
    tags: tuple[str, ...] = ()
    path: str = ""
    statuses: tuple[str, ...] = ()
    without: frozenset[str] = frozenset()
    since: str = ""
    until: str = ""

    def marks(self) -> str:
        """The part of the filter that the index answers, as a condition on its marks."""
        groups = [
            [mark_of("kind", kind) for kind in self.kinds],
            [mark_of("agent", self.agent)] if self.agent else [],
            [mark_of("task", self.task)] if self.task else [],
            [mark_of("tag", tag) for tag in self.tags],
            [path_mark(self.path)] if self.path else [],
        ]
        parts = [f"marks : ({' OR '.join(map(_quoted, group))})" for group in groups if group]
        return " AND ".join(parts)

    def lets(self, entry: Entry) -> bool:
        """Whether an entry passes what its row tells."""
        return (
            (not self.kinds or entry.kind in self.kinds)
            and (not self.agent or entry.agent == self.agent)
            and (not self.task or entry.task == self.task)
            and (not self.statuses or entry.status in self.statuses)
            and entry.status not in self.without
            and self.since <= entry.at
            and (not self.until or entry.at <= self.until)
        )

    @property
    def is_by_row(self) -> bool:
        """Whether part of it can be told only by an entry's row."""
        return bool(self.statuses or self.without or self.since or self.until)


def _quoted(word: str) -> str:
    return f'"{word}"'


class Meaning(Protocol):
    """What vectors say about one question."""

    def near(self, reader: Reader, only: Filter, allows: Allows, count: int) -> list[int]:
        """Up to `count` entries that are near to it and pass, nearest first."""
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
        self._found: dict[int, Found] = {}
        self._texts: dict[int, float] = {}
        self._coarse: dict[int, float] = {}

    def best(self, limit: int) -> list[tuple[Entry, float]]:
        """The best entries with their scores, best first; as many as there are, up to `limit`."""
        few = self._few()
        counts = self._counts()
        rarities = {word: rarity(count, self._newest) for word, count in counts.items()}
        scorer = Scorer(self.question, rarities, self._newest)
        rough = self._passing(few) if few is not None else self._by_words(counts, limit)
        self._look(scorer, rough)
        by_text = sorted(rough, key=lambda number: (-self._texts[number], -number))
        texts = by_text[: max(BY_TEXT, limit)]
        chosen = dict.fromkeys(texts)
        near = self._near(max(BY_MEANING, limit), rough, is_all=few is not None)
        chosen.update(dict.fromkeys(near))
        around = self._neighbours(texts[:NEAR])
        beside = (number for before, after in around.values() for number in (*before, *after))
        chosen.update(dict.fromkeys(self._passing(list(dict.fromkeys(beside)))))
        scored = self._scored(scorer, list(chosen))
        scored.sort(key=lambda pair: (-pair[1], -pair[0].id))
        return self._filled(scored[:limit], limit)

    def _few(self) -> list[int] | None:
        """Everything that passes, where a filter by row leaves little; None where it doesn't."""
        only = self._only
        if not (only.statuses or only.since or only.until):
            return None
        ids = self._reader.narrowed(only.statuses, only.since, only.until, FEW + 1)
        return ids if len(ids) <= FEW else None

    def _counts(self) -> dict[str, int]:
        """How many entries have each word of the question: counted where they are few, else judged
        by how close together the newest and the oldest of them stand.
        """
        counts: dict[str, int] = {}
        for word in dict.fromkeys(self.question.words):
            found = self._reader.matching(_has(word), PROBE)
            counts[word] = len(found)
            if len(found) == PROBE:
                oldest = self._reader.oldest_matching(_has(word), PROBE)
                share = PROBE / (self._newest - found[-1] + 1) + PROBE / oldest[-1]
                counts[word] = min(self._newest, int(self._newest * share / 2))
        return counts

    def _by_words(self, counts: Mapping[str, int], limit: int) -> list[int]:
        """Entries that pass and have the question's words, looked up rarest first; those with the
        most and rarest of them.
        """
        left = BUDGET
        coarse = self._coarse
        for word in sorted(counts, key=lambda word: counts[word]):
            worth = rarity(counts[word], self._newest)
            asked = f"{_has(word)} AND {self._marks}" if self._marks else _has(word)
            found = self._reader.matching(asked, max(left, PROBE))
            for number in found:
                coarse[number] = coarse.get(number, 0.0) + worth
            left -= len(found)
            if left <= 0:
                break
        wanted = max(ROUGH, 2 * limit)
        first = [
            number for _, number in nlargest(wanted, zip(coarse.values(), coarse, strict=True))
        ]
        kept = self._passing(first)
        if len(kept) < limit and len(first) < len(coarse):
            kept = self._let(_ranked(coarse), wanted)
        return kept

    def _let(self, ranked: list[int], limit: int) -> list[int]:
        """The first of some entries that pass the filter."""
        kept: list[int] = []
        for start in range(0, len(ranked), PAGE):
            kept += self._passing(ranked[start : start + PAGE])
            if len(kept) >= limit:
                break
        return kept[:limit]

    def _near(self, count: int, rough: list[int], *, is_all: bool) -> list[int]:
        """The entries nearest in meaning that pass; `is_all` when no others than `rough` do."""
        if self._meaning is None:
            return []
        passing = rough if is_all else self._marked()
        if passing is None:
            only = self._only
            # The index itself looks at kind, agent and task; rows are read for the rest alone.
            by_row = bool(only.tags or only.path or only.is_by_row)
            allows = self._passing if by_row else _all
            return self._passing(self._meaning.near(self._reader, only, allows, count))
        near = self._meaning.nearness(self._reader, passing)
        return self._passing(nlargest(count, near, key=lambda number: (near[number], number)))

    def _marked(self) -> list[int] | None:
        """Everything that passes, where tags or a path leave little; None where they don't."""
        if not (self._only.tags or self._only.path):
            return None
        most = min(MARKED, max(PROBE, self._newest // 20))
        ids = self._reader.matching(self._marks, most + 1)
        if len(ids) > most:
            return None
        return self._passing(ids) if self._only.is_by_row else ids

    def _look(self, scorer: Scorer, ids: Iterable[int]) -> None:
        """Find the question's words in entries that weren't looked at yet."""
        fresh = [number for number in ids if number not in self._found]
        said = self._reader.words_of(fresh) if fresh else {}
        for number in fresh:
            found = scorer.find(said.get(number, "").split())
            self._found[number] = found
            self._texts[number] = scorer.text(found)

    def _passing(self, ids: list[int]) -> list[int]:
        """Those of some entries that pass the filter, in the same order."""
        self._know(ids)
        let = [n for n in ids if n in self._rows and self._only.lets(self._rows[n])]
        if not (self._only.tags or self._only.path) or not let:
            return let
        marks = self._reader.marks_of(let)
        tags = {mark_of("tag", tag) for tag in self._only.tags}
        path = path_mark(self._only.path) if self._only.path else ""
        return [n for n in let if _has_marks(marks[n].split(), tags, path)]

    def _scored(self, scorer: Scorer, ids: list[int]) -> list[tuple[Entry, float]]:
        dense: Mapping[int, float] = {}
        if self._meaning is not None:
            dense = self._meaning.nearness(self._reader, ids)
        around = self._neighbours(ids)
        beside = {n for before, after in around.values() for n in (*before, *after)}
        self._know(beside)
        # Without a filter, all that have a word of the question are known: the others say nothing.
        spoken = beside if self._marks or not self._coarse else beside & self._coarse.keys()
        self._look(scorer, [*ids, *spoken])
        pairs = scorer.pairs({number: self._found[number] for number in ids})
        heads = self._reader.heads_of(ids)
        scored: list[tuple[Entry, float]] = []
        for number in ids:
            entry = self._rows[number]
            candidate = Candidate(
                words=self._found[number],
                heads=scorer.find(heads[number].split()) if number in heads else _NOTHING,
                traits=entry.traits,
                agent=entry.agent,
                at=entry.at,
                pair=pairs.get(number, 0.0),
                around=self._around(entry, around.get(number, ([], []))),
                dense=dense.get(number),
            )
            scored.append((entry, scorer.score(candidate)))
        return scored

    def _neighbours(self, ids: Iterable[int]) -> dict[int, tuple[list[int], list[int]]]:
        """What stands before and after entries; long ones speak for themselves."""
        short = [number for number in ids if self._rows[number].length <= LONGEST_BESIDE]
        return self._reader.around(short, STEPS) if short else {}

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
            own=share * texts.get(own.id, 0.0) if own else 0.0,
            ask=share * texts.get(asked.id, 0.0) if asked else 0.0,
            next=share * sum(texts.get(e.id, 0.0) for e in after) / STEPS,
        )

    def _filled(self, best: list[tuple[Entry, float]], limit: int) -> list[tuple[Entry, float]]:
        """The best, and the newest of whatever else passes where there are too few of them."""
        known = {entry.id for entry, _ in best}
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
            return self._reader.matching(self._marks, PAGE, last=last)
        return self._reader.latest_entries(PAGE, last=last)


def _all(ids: list[int]) -> list[int]:
    return ids


def _has(word: str) -> str:
    return f"words : {_quoted(word)}"


def _has_marks(marks: Iterable[str], tags: set[str], path: str) -> bool:
    given = set(marks)
    return (not tags or not tags.isdisjoint(given)) and (not path or path in given)


def _ranked(coarse: Mapping[int, float]) -> list[int]:
    return sorted(coarse, key=lambda number: (-coarse[number], -number))

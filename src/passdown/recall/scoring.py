"""How well an entry answers a question: a few features, weighed and added up. Pure.

`text` is the one that counts most: for each word of the question, how rare it is times how often
the entry has it, dampened by the entry's length in absolute terms, so that one formula serves a
ten-word note and a ten-page record. The others look at where the words stand (`pair`, `lead`,
`heads`), at what was said before and after (`own`, `ask`, `next`), at author and time, at meaning
(`dense`). docs/decisions/0012 says how the weights were fitted.
"""

from __future__ import annotations

import math
from itertools import pairwise
from operator import mul
from typing import TYPE_CHECKING, NamedTuple

from passdown.model.words import QUESTION, TIMED
from passdown.recall.asking import Question, closeness

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SATURATION = 0.5
_LENGTH = 60.0
_LEAD = 30
_SPAN = 4
_MOST_PLACES = 50
_IDEAL_LENGTH = 20
_IDEAL_NEARNESS = 0.7

LONGEST_BESIDE = 240
"""Entries with more words are looked at without their neighbours, which would count little."""


class Features(NamedTuple):
    """What is known of an entry in the light of a question; also what each of it counts."""

    text: float
    pair: float
    lead: float
    heads: float
    own: float
    next: float
    ask: float
    author: float
    date: float
    isq: float
    when: float
    dense: float


WITHOUT_VECTORS = Features(2.13, 0.46, 0.27, 1.04, 1.38, 0.97, 1.88, 0.93, 2.77, -0.79, 1.36, 0.0)
WITH_VECTORS = Features(1.47, 0.36, 0.32, 0.82, 1.19, 0.84, 1.81, 1.44, 2.81, -1.02, 1.62, 5.86)


class Around(NamedTuple):
    """What was said about an entry's time: the text scores of its neighbours."""

    own: float = 0.0
    ask: float = 0.0
    next: float = 0.0


ALONE = Around()


class Found(NamedTuple):
    """Where the question's words stand in a text, and how many words that has in all."""

    length: int
    places: Mapping[str, Sequence[int]]


NOTHING = Found(0, {})


class Candidate(NamedTuple):
    """An entry that may answer, with all that is weighed."""

    words: Found
    heads: Found
    traits: int
    agent: str
    at: str
    pair: float = 0.0
    around: Around = ALONE
    dense: float | None = None


def share_of_others(length: int) -> float:
    """How much of what its neighbours say counts for an entry of so many words: the shorter it is,
    the more it needs them to be understood.
    """
    return _LENGTH / (_LENGTH + length)


def rarity(count: int, total: int) -> float:
    """How much a word says that `count` of `total` entries have."""
    return math.log(1 + (total - count + 0.5) / (count + 0.5))


class Scorer:
    """Scores entries for one question."""

    def __init__(self, question: Question, rarities: Mapping[str, float], total: int) -> None:
        """`rarities` has every word of the question; `total` is how many entries there are."""
        self._question = question
        self._total = total
        self._scale = 1 / math.sqrt(sum(rarities[word] for word in question.words) or 1.0)
        self._weights: dict[str, float] = {}
        for word in question.words:
            weight = rarities[word] * self._scale
            self._weights[word] = self._weights.get(word, 0.0) + weight
        self._apart = [(f" {word} ", weight) for word, weight in self._weights.items()]
        dampening = 1 + _SATURATION + _IDEAL_LENGTH / _LENGTH
        self._ideal_text = sum(self._weights.values()) / dampening

    def find(self, words: Sequence[str]) -> Found:
        """Look for the question's words in others."""
        wanted = self._weights
        places: dict[str, list[int]] = {}
        for place in [place for place, word in enumerate(words) if word in wanted]:
            places.setdefault(words[place], []).append(place)
        return Found(len(words), places)

    def text(self, found: Found) -> float:
        """How well some words answer, by themselves."""
        dampening = _SATURATION + found.length / _LENGTH
        return sum(
            self._weights[word] * len(places) / (len(places) + dampening)
            for word, places in found.places.items()
        )

    def pairs(self, candidates: Mapping[int, Found]) -> dict[int, float]:
        """The same over words that stand together in the question and in an entry; how rare they
        are together is told by the candidates.
        """
        scores: dict[int, float] = {}
        for (one, other), times in self._pairs().items():
            counts = {
                number: count
                for number, found in candidates.items()
                if (count := _together(found.places.get(one, ()), found.places.get(other, ())))
            }
            weight = times * self._scale * rarity(len(counts), self._total)
            for number, count in counts.items():
                dampening = _SATURATION + candidates[number].length / _LENGTH
                score = weight * count / (count + dampening)
                scores[number] = scores.get(number, 0.0) + score
        return scores

    def _pairs(self) -> dict[tuple[str, str], int]:
        """Neighbouring words of the question, in either order, and how often they are."""
        words = self._question.words
        found: dict[tuple[str, str], int] = {}
        for one, other in pairwise(words):
            if one != other:
                key = (min(one, other), max(one, other))
                found[key] = found.get(key, 0) + 1
        return found

    def weighed(self, words: str, length: int) -> float:
        """How well some words answer, by themselves, told from their text without parting it."""
        dampening = _SATURATION + length / _LENGTH
        padded = f" {words} "
        score = 0.0
        for word, weight in self._apart:
            if word in padded:
                count = padded.count(word)
                score += weight * count / (count + dampening)
        return score

    def quick(self, text: float, dense: float | None) -> float:
        """A first idea of a score, from how well words and meaning answer."""
        weights = WITHOUT_VECTORS if dense is None else WITH_VECTORS
        total = (weights.text + weights.lead) * text + weights.dense * (dense or 0.0)
        return total / self._ideal(weights)

    def score(self, candidate: Candidate) -> float:
        """How well an entry answers: 1 for an ideal answer, more for one that time, author or
        neighbours speak for as well.
        """
        weights = WITHOUT_VECTORS if candidate.dense is None else WITH_VECTORS
        total = sum(map(mul, weights, self.features(candidate)))
        return max(total, 0.0) / self._ideal(weights)

    def _ideal(self, weights: Features) -> float:
        """What a short entry gets that has every word of the question and is near in meaning."""
        words = weights.text + weights.lead + weights.heads / 2
        return words * self._ideal_text + weights.dense * _IDEAL_NEARNESS or 1.0

    def features(self, candidate: Candidate) -> Features:
        """All that is weighed of an entry."""
        question, around, traits = self._question, candidate.around, candidate.traits
        words, heads = candidate.words, candidate.heads
        text = self.text(words)
        return Features(
            text=text,
            pair=candidate.pair,
            lead=text if words.length <= _LEAD else self.text(_beginning(words)),
            heads=self.text(heads) if heads.places else 0.0,
            own=around.own,
            next=around.next,
            ask=around.ask,
            author=candidate.agent in question.named,
            date=closeness(question.day, candidate.at),
            isq=bool(traits & QUESTION),
            when=question.asks_when and bool(traits & TIMED),
            dense=candidate.dense or 0.0,
        )


def _beginning(found: Found) -> Found:
    """The same of the first words only."""
    places = {word: [at for at in all_ if at < _LEAD] for word, all_ in found.places.items()}
    return Found(_LEAD, {word: kept for word, kept in places.items() if kept})


def _together(first: Sequence[int], second: Sequence[int]) -> int:
    """How often two words stand close to each other."""
    if not first or not second:
        return 0
    return sum(
        1
        for one in first[:_MOST_PLACES]
        for other in second[:_MOST_PLACES]
        if -_SPAN <= one - other <= _SPAN
    )

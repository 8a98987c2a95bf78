"""How well an entry answers a question: a few features, weighed and added up. Pure.

`text` is the one that counts most: for each word of the question, how rare it is times how often
the entry has it, dampened by the entry's length in absolute terms, so that one formula serves a
ten-word note and a ten-page record. The others look at where the words stand (`pair`, `lead`,
`heads`), at what was said before and after (`own`, `ask`, `next`), at author and time, at meaning
(`dense`). docs/decisions/0012 says how the weights were fitted.
"""

from __future__ import annotations

import math
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


class Weights(NamedTuple):
    """What each feature counts, and where on the scale an entry without any stands."""

    features: Features
    bias: float


WITHOUT_VECTORS = Weights(
    Features(3.2, 0.9, 1.0, 0.9, 2.2, 1.6, 2.7, 1.5, 4.3, -1.1, 2.4, 0.0), -6.0
)
WITH_VECTORS = Weights(
    Features(2.2, 0.6, 0.9, 0.8, 1.9, 1.5, 2.4, 2.2, 4.2, -1.5, 2.7, 8.8), -9.0
)


class Around(NamedTuple):
    """What was said about an entry's time: the text scores of its neighbours."""

    own: float = 0.0
    ask: float = 0.0
    next: float = 0.0


ALONE = Around()


class Candidate(NamedTuple):
    """An entry that may answer, with all that is weighed."""

    words: Sequence[str]
    heads: Sequence[str]
    traits: int
    agent: str
    at: str
    around: Around = ALONE
    dense: float | None = None


def rarity(count: int, total: int) -> float:
    """How much a word says that `count` of `total` entries have."""
    return math.log(1 + (total - count + 0.5) / (count + 0.5))


class Scorer:
    """Scores entries for one question."""

    def __init__(self, question: Question, rarities: Mapping[str, float]) -> None:
        """`rarities` has every word of the question."""
        self._question = question
        total = sum(rarities[word] for word in question.words) or 1.0
        scale = 1 / math.sqrt(total)
        self._weights: dict[str, float] = {}
        for word in question.words:
            self._weights[word] = self._weights.get(word, 0.0) + rarities[word] * scale
        self._pairs: dict[tuple[str, str], float] = {}
        for one, other in zip(question.words, question.words[1:], strict=False):
            if one != other:
                key = (min(one, other), max(one, other))
                worth = (rarities[one] + rarities[other]) / 2 * scale
                self._pairs[key] = self._pairs.get(key, 0.0) + worth

    def text(self, words: Sequence[str]) -> float:
        """How well some words answer, by themselves."""
        if not words:
            return 0.0
        dampening = _SATURATION + len(words) / _LENGTH
        score = 0.0
        for word, weight in self._weights.items():
            count = words.count(word)
            if count:
                score += weight * count / (count + dampening)
        return score

    def score(self, candidate: Candidate) -> float:
        """How well an entry answers, from 0 to 1."""
        weights = WITHOUT_VECTORS if candidate.dense is None else WITH_VECTORS
        found = self.features(candidate)
        total = weights.bias + sum(map(mul, weights.features, found))
        return 1 / (1 + math.exp(-total))

    def features(self, candidate: Candidate) -> Features:
        """All that is weighed of an entry."""
        question = self._question
        words, around, traits = candidate.words, candidate.around, candidate.traits
        return Features(
            text=self.text(words),
            pair=self._pair(words),
            lead=self.text(words[:_LEAD]),
            heads=self.text(candidate.heads),
            own=around.own,
            next=around.next,
            ask=around.ask,
            author=candidate.agent in question.named,
            date=closeness(question.day, candidate.at),
            isq=bool(traits & QUESTION),
            when=question.asks_when and bool(traits & TIMED),
            dense=candidate.dense or 0.0,
        )

    def _pair(self, words: Sequence[str]) -> float:
        """The same over words of the question that stand together in it and in the entry."""
        score = 0.0
        dampening = _SATURATION + len(words) / _LENGTH
        places: dict[str, list[int]] = {}
        for (one, other), weight in self._pairs.items():
            first, second = _places(words, one, places), _places(words, other, places)
            count = sum(1 for a in first for b in second if -_SPAN <= a - b <= _SPAN)
            if count:
                score += weight * count / (count + dampening)
        return score


_MOST_PLACES = 50


def _places(words: Sequence[str], word: str, known: dict[str, list[int]]) -> list[int]:
    if word not in known:
        found: list[int] = []
        at = -1
        for _ in range(min(words.count(word), _MOST_PLACES)):
            at = words.index(word, at + 1)
            found.append(at)
        known[word] = found
    return known[word]

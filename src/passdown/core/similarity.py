"""Near-duplicate texts: MinHash bands and exact comparison."""

from __future__ import annotations

import hashlib
import math
from collections import Counter, defaultdict
from functools import lru_cache
from typing import TYPE_CHECKING

from passdown.core.values import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Set


NEAR_DUPLICATE = 0.7
"""From this share of words in common on, two texts say nearly the same."""

FEWEST_WORDS = 4

MAX_COMPARISONS = 2_000_000
"""So many pairs are compared at most before texts are compared with their likeliest alone."""

_LIKELIEST = 8
_BANDS = 8
_ROWS = 3
_PLACES = _BANDS * _ROWS


@lru_cache(maxsize=50_000)
def _number(word: str) -> int:
    return int.from_bytes(hashlib.blake2b(word.encode(), digest_size=7).digest())


def band_marks(words: Iterable[str]) -> list[str]:
    """The marks that a text shares with those that say nearly the same; none for a few words."""
    numbers = [_number(word) for word in set(words)]
    if len(numbers) < FEWEST_WORDS:
        return []
    least = _least(numbers)
    marks: list[str] = []
    for band in range(_BANDS):
        values = least[band * _ROWS : (band + 1) * _ROWS]
        text = f"{band}:{values}".encode()
        marks.append("b" + hashlib.blake2b(text, digest_size=7).hexdigest())
    return marks


def is_band(mark: str) -> bool:
    """Whether a mark is one of these, and not a filter's."""
    return len(mark) == 15 and mark[0] == "b"


def _least(numbers: list[int]) -> list[int]:
    """The least of the numbers that fall to each place; an empty place borrows from the next."""
    places: list[int] = [-1] * _PLACES
    for number in numbers:
        place = number % _PLACES
        if places[place] < 0 or number < places[place]:
            places[place] = number
    # Backwards and round once more, so that every empty place knows the next that isn't. A borrowed
    # number isn't the place's own: from how far it came makes it another.
    filled = [0] * _PLACES
    near = far = 0
    for place in range(2 * _PLACES - 1, -1, -1):
        at = place % _PLACES
        if places[at] >= 0:
            near, far = places[at], place
        if place < _PLACES:
            filled[at] = near * _PLACES + far - place
    return filled


def similarity(one: Set[str], other: Set[str]) -> float:
    """The share of words that two texts have in common, 0 to 1."""
    # What isn't shared is mostly little where texts are compared, and so is soon put together.
    common = len(one) - len(one - other)
    joined = len(one) + len(other) - common
    return common / joined if joined else 0.0


def is_similar(one: set[str], other: set[str]) -> bool:
    """Whether two texts say nearly the same; most pairs differ in length already."""
    fewer, more = sorted((len(one), len(other)))
    return fewer >= NEAR_DUPLICATE * more and similarity(one, other) >= NEAR_DUPLICATE


class SimilarGroups(NamedTuple):
    """Groups of texts that say nearly the same; `is_complete` unless too many had to be compared
    to find all of them.
    """

    groups: list[list[int]]
    is_complete: bool


def similar_groups(
    texts: Mapping[int, Iterable[str]], most: int = MAX_COMPARISONS
) -> SimilarGroups:
    """The groups, of two or more, that say nearly the same: each is like another of its group.

    Exact, unlike marks, up to `most` comparisons; from there on a text is compared with the latest
    few alone that share its rarest words. Texts of a few words are left out. Numbers are sorted, in
    each group and by its first.
    """
    sets = {number: frozenset(words) for number, words in texts.items()}
    same: dict[frozenset[str], list[int]] = defaultdict(list)
    for number in sorted(sets):
        if len(sets[number]) >= FEWEST_WORDS:
            same[sets[number]].append(number)
    leader = {numbers[0]: numbers[0] for numbers in same.values()}
    compared = 0
    for one, others in _sharing({numbers[0]: words for words, numbers in same.items()}, most):
        compared += len(others)
        words = sets[one]
        for other in others:
            common = len(words & sets[other])
            if common / (len(words) + len(sets[other]) - common) >= NEAR_DUPLICATE:
                first, second = _top(leader, one), _top(leader, other)
                leader[max(first, second)] = min(first, second)
    groups: dict[int, list[int]] = defaultdict(list)
    for numbers in same.values():
        groups[_top(leader, numbers[0])] += numbers
    found = [sorted(groups[first]) for first in sorted(groups) if len(groups[first]) > 1]
    return SimilarGroups(found, compared <= most)


def _sharing(sets: Mapping[int, frozenset[str]], most: int) -> Iterator[tuple[int, set[int]]]:
    """Each text with those before it that may be alike: two that are share one of the few rarest
    words of each. Beyond `most` pairs, only the latest with each word.
    """
    pairs = 0
    counts = Counter(word for words in sets.values() for word in words)
    having: dict[str, list[int]] = defaultdict(list)
    for number, words in sets.items():
        rarest = sorted(words, key=lambda word: (counts[word], word))
        # So many that leaving them all out would leave too few in common.
        kept = rarest[: len(words) - math.ceil(NEAR_DUPLICATE * len(words) - 1e-9) + 1]
        # Once there were too many, they stay too many: what is left out has to show in the count.
        last = 0 if pairs <= most else -_LIKELIEST
        others = {other for word in kept for other in having[word][last:]}
        pairs += len(others)
        yield (number, others)
        for word in kept:
            having[word].append(number)


def _top(leader: dict[int, int], number: int) -> int:
    while leader[number] != number:
        number = leader[number] = leader[leader[number]]
    return number

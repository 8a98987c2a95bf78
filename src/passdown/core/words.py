"""Words of a text in the form that search compares, and near-duplicate texts.

Stored text is compared in this form, so a change here, or of the stemmer's rules, needs a migration
that rebuilds the derived rows.
"""

from __future__ import annotations

import hashlib
import math
import re
import threading
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import cache, lru_cache
from importlib import import_module
from typing import Any, cast

from passdown.core.values import NamedTuple

_FORMS = """
go went gone goes|buy bought|bring brought|think thought|teach taught|catch caught|take took taken
give gave given|get got gotten|write wrote written|begin began begun|choose chose chosen
speak spoke spoken|break broke broken|find found|tell told|say said|sell sold|make made|see saw seen
do did done|run ran|meet met|feel felt|keep kept|leave left|lose lost|build built|send sent
spend spent|hold held|grow grew grown|know knew known|draw drew drawn|eat ate eaten
drive drove driven|ride rode ridden|win won|sing sang sung|swim swam swum|fall fell fallen
fly flew flown|throw threw thrown|wear wore worn|become became|come came|hear heard
understand understood|stand stood|pay paid|fight fought|seek sought|sleep slept|hide hid hidden
man men|woman women|child children|person people|foot feet|tooth teeth|mouse mice|wife wives
life lives|good better best|bad worse worst|forget forgot forgotten|wake woke woken|rise rose risen
shake shook|index indices indexes|matrix matrices|vertex vertices|criterion criteria|datum data
half halves|shelf shelves
"""

_IRREGULAR = {
    form: forms.split()[0]
    for line in _FORMS.split("\n")
    for forms in line.split("|")
    for form in forms.split()[1:]
}

_stemmers = threading.local()


def stem(word: str) -> str:
    """The stem of a lowercase English word, irregular forms folded; any other word as it is.

    A stem need not be a word: it has to be the same for forms that mean the same.
    """
    if len(word) <= 2 or not word.isascii() or not word.isalpha():
        return word
    # Snowball's English stemmer; an instance serves one thread.
    found: Callable[[str], str] | None = getattr(_stemmers, "stem", None)
    if found is None:
        package: Any = import_module("Stemmer")
        found = package.Stemmer("english", 0).stemWord
        _stemmers.stem = found
    return cast("Callable[[str], str]", found)(_IRREGULAR.get(word, word))


_WORD = re.compile(r"[^\W_]+(?:['\u2019][^\W\d_]{1,3}(?![^\W_]))?")
CAMEL_CASE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
"""The places between the words of a name such as `taskName`."""
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_A-Za-z]+")

STOP_WORDS = frozenset(
    """
a about above after again all also although am an and any are as at be became because been before
being below between both but by came can cannot come could d did do does doing don done down during
each either else etc ever every few for from further get gets getting got had has have having he her
here hers herself him himself his how however i if in into is isn it its itself just kind kinds let
like ll m made make many may me might mine more most much must my myself neither no nor not now of
off on once one only onto or other our ours ourselves out over own per re s same shall she should
since so some such t than that the their theirs them themselves then there these they thing things
this those though through thus to too type types under until up upon us use used uses using ve very
via was wasn we were what whatever when where whether which while who whom whose why will with
within without would yes yet you your yours yourself
""".split()
)

_MAX_WORD = 64
_SHORT = 5_000
_MAX_CACHED = 200_000
_ORDINALS = ("st", "nd", "rd", "th")

_form_cache: dict[str, tuple[str, ...]] = {}
_spelled: dict[str, set[str]] = {}


def words(text: str) -> list[str]:
    """The words of a text in order, as they are compared."""
    found: list[str] = []
    for word in _raw_words(text):
        given = _form_cache.get(word)
        found += _remember(word) if given is None else given
    return found


def _remember(word: str) -> tuple[str, ...]:
    """The forms of a word as it is written, kept for the next time."""
    if len(_form_cache) > _MAX_CACHED:
        _form_cache.clear()
        _spelled.clear()
    forms = _form_cache[word] = _forms_of(word)
    for form in forms:
        _spelled.setdefault(form, set()).add(word)
    return forms


def spellings(text: str, wanted: Iterable[str]) -> list[Set[str]]:
    """For each wanted word that a text has, the set of its spellings there."""
    written = set(_split_words(text))
    for word in written.difference(_form_cache):
        _remember(word)
    found = (written & _spelled[word] for word in wanted if word in _spelled)
    return [spelled for spelled in found if spelled]


def _raw_words(text: str) -> Sequence[str]:
    """The words of a text as they are written; of short texts, those of the last are remembered,
    since the same text is looked at in several ways.
    """
    return _cached_split(text) if len(text) < _SHORT else _split_words(text)


def _split_words(text: str) -> list[str]:
    # Letters and their accents may come apart, as some systems write them.
    return _WORD.findall(text if text.isascii() else unicodedata.normalize("NFC", text))


@lru_cache(maxsize=64)
def _cached_split(text: str) -> tuple[str, ...]:
    return tuple(_split_words(text))


def folded(text: str) -> str:
    """Lowercase, with accents off."""
    text = text.lower()
    if text.isascii():
        return text
    split = unicodedata.normalize("NFKD", text)
    return "".join(letter for letter in split if not unicodedata.combining(letter))


def _forms_of(word: str) -> tuple[str, ...]:
    if len(word) > _MAX_WORD:
        return (folded(word[:_MAX_WORD]),)
    cut = next((index for index, letter in enumerate(word) if letter in "'\u2019"), 0)
    if cut:
        if word[cut + 1 :] in "tT" and word[cut - 1] in "nN":  # don't, won't
            return ()
        word = word[:cut]
    low = folded(word)
    if low in STOP_WORDS or not low:
        return ()
    if low.isdecimal():
        return (low.lstrip("0") or "0",)
    if not low.isascii() and _unspaced().search(low):
        return tuple(low[at : at + 2] for at in range(max(len(low) - 1, 1)))
    return _parts(word, low) if _is_joined(word, low) else (stem(low),)


@cache
def _unspaced() -> re.Pattern[str]:
    """Compiled when a text first needs it: that takes longer than the rest of this module."""
    return re.compile("[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\u0e00-\u0e7f\U00020000-\U0003ffff]")


def _is_joined(word: str, low: str) -> bool:
    if not low.isalpha():
        return True
    is_plain = word.islower() or word.isupper() or word.istitle()
    return word.isascii() and not is_plain


def _parts(word: str, low: str) -> tuple[str, ...]:
    parts = [part.lower() for part in _PART.findall(word)]
    if len(parts) < 2:
        return (stem(low),)
    if len(parts) == 2 and parts[0].isdigit() and parts[1] in _ORDINALS:
        return (parts[0].lstrip("0") or "0",)
    kept = (part for part in parts if len(part) > 1 and not part.isdigit())
    return (stem(low), *(stem(part) for part in kept if part not in STOP_WORDS))


@lru_cache(maxsize=50_000)
def _keyword(word: str) -> str:
    """A word as a keyword, or nothing."""
    low = folded(word)
    return low if 3 < len(low) <= 40 and low.isalpha() and low not in STOP_WORDS else ""


def keywords(text: str, limit: int) -> list[str]:
    """The keywords of a text, as they were written: the most frequent, then the longest."""
    counted = Counter(map(_keyword, _raw_words(text)))
    del counted[""]
    ranked = sorted(counted, key=lambda word: (-counted[word], -len(word), word))
    return ranked[:limit]


QUESTION = 1
TIMED = 2

MONTHS = {
    name: number
    for number, names in enumerate(
        "january jan|february feb|march mar|april apr|may|june jun|july jul|august aug|"
        "september sep sept|october oct|november nov|december dec".split("|"),
        1,
    )
    for name in names.split()
}
_TIME_WORDS = MONTHS.keys() | set(
    "yesterday today tomorrow tonight ago last next week weekend month year recently monday "
    "tuesday wednesday thursday friday saturday sunday morning evening night".split()
)


def traits(text: str) -> int:
    """Flags of a text: whether it is a question, and whether it names a time."""
    is_timed = not _TIME_WORDS.isdisjoint(map(str.lower, _raw_words(text)))
    return (QUESTION if text.rstrip().endswith("?") else 0) | (TIMED if is_timed else 0)


def headings(text: str) -> list[str]:
    """The lines of a text that head others: marked as headings or bold, or ending in a colon."""
    if "\n" not in text:
        return []
    lines = (line.strip() for line in text.split("\n"))
    return [line for line in lines if line.startswith(("#", "**")) or line.endswith(":")]


# -- near-duplicates: texts that share most of their words
#
# Hashes of a text's words are dealt out to places and the least at each place is kept; the chance
# that two texts agree at a place is the share of words that they have in common. Places are joined
# into bands, so that texts with most words in common share a band and others hardly ever do. What
# shares a band is then compared word by word.

NEAR_DUPLICATE = 0.7
"""From this share of words in common on, two texts say nearly the same."""

FEWEST_WORDS = 4

MAX_COMPARISONS = 2_000_000
"""So many pairs are compared at most before texts are compared with their likeliest alone."""

_MAX_CANDIDATES = 8
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
        # A short one: what shares it by chance is compared word by word.
        marks.append("b" + hashlib.blake2b(text, digest_size=4).hexdigest())
    return marks


def _least(numbers: list[int]) -> list[int]:
    """The least of the numbers that fall to each place; an empty place borrows from the next."""
    places: list[int] = [-1] * _PLACES
    for number in numbers:
        place = number % _PLACES
        if places[place] < 0 or number < places[place]:
            places[place] = number
    # Backwards, so that every empty place knows the next that isn't; after the last comes the
    # first. A borrowed number isn't the place's own: from how far it came makes it another.
    first = next(place for place, number in enumerate(places) if number >= 0)
    near, far = places[first], first + _PLACES
    for place in range(_PLACES - 1, -1, -1):
        if places[place] >= 0:
            near, far = places[place], place
        places[place] = near * _PLACES + far - place
    return places


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
    """Groups of near-duplicates; `is_complete` unless there were too many to compare."""

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
    """Each text with those before it that share a rare word; beyond `most`, the latest."""
    pairs = 0
    counts = Counter(word for words in sets.values() for word in words)
    having: dict[str, list[int]] = defaultdict(list)
    for number, words in sets.items():
        rarest = sorted(words, key=lambda word: (counts[word], word))
        # So many that leaving them all out would leave too few in common.
        kept = rarest[: len(words) - math.ceil(NEAR_DUPLICATE * len(words) - 1e-9) + 1]
        # Once there were too many, they stay too many: what is left out has to show in the count.
        last = 0 if pairs <= most else -_MAX_CANDIDATES
        others = {other for word in kept for other in having[word][last:]}
        pairs += len(others)
        yield (number, others)
        for word in kept:
            having[word].append(number)


def _top(leader: dict[int, int], number: int) -> int:
    while leader[number] != number:
        number = leader[number] = leader[leader[number]]
    return number

"""Words of a text in the form that search compares: folded, split, stemmed.

Stored text is compared in this form, so a change here, or of the stemmer's rules, needs a migration
that rebuilds the derived rows.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections import Counter
from functools import cache, lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


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
    return _snowball()(_IRREGULAR.get(word, word))


def _snowball() -> Callable[[str], str]:
    """Snowball's English stemmer; an instance serves one thread."""
    found: Callable[[str], str] | None = getattr(_stemmers, "stem", None)
    if found is None:
        package: Any = import_module("Stemmer")
        found = package.Stemmer("english", 0).stemWord
        _stemmers.stem = found
    return cast("Callable[[str], str]", found)


_WORD = re.compile(r"[^\W_]+(?:['\u2019][^\W\d_]{1,3}(?![^\W_]))?")
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

_LONGEST = 64
_SHORT = 5_000
_MOST_REMEMBERED = 200_000
_ORDINALS = ("st", "nd", "rd", "th")

_remembered: dict[str, tuple[str, ...]] = {}


def words(text: str) -> list[str]:
    """The words of a text in order, as they are compared."""
    found: list[str] = []
    for word in _written(text):
        given = _remembered.get(word)
        if given is None:
            if len(_remembered) > _MOST_REMEMBERED:
                _remembered.clear()
            given = _remembered[word] = _given_by(word)
        found += given
    return found


def _written(text: str) -> Sequence[str]:
    """The words of a text as they are written; of short texts, those of the last are remembered,
    since the same text is looked at in several ways.
    """
    return _remembered_text(text) if len(text) < _SHORT else _parted(text)


def _parted(text: str) -> list[str]:
    # Letters and their accents may come apart, as some systems write them.
    return _WORD.findall(text if text.isascii() else unicodedata.normalize("NFC", text))


@lru_cache(maxsize=64)
def _remembered_text(text: str) -> tuple[str, ...]:
    return tuple(_parted(text))


def folded(text: str) -> str:
    """Lowercase, with accents off."""
    text = text.lower()
    if text.isascii():
        return text
    split = unicodedata.normalize("NFKD", text)
    return "".join(letter for letter in split if not unicodedata.combining(letter))


def _given_by(word: str) -> tuple[str, ...]:
    if len(word) > _LONGEST:
        return (folded(word[:_LONGEST]),)
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
    """The keywords of a text, as they were written: the most frequent, then the
    longest.
    """
    counted = Counter(map(_keyword, _written(text)))
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
    is_timed = not _TIME_WORDS.isdisjoint(map(str.lower, _written(text)))
    return (QUESTION if text.rstrip().endswith("?") else 0) | (TIMED if is_timed else 0)


def headings(text: str) -> list[str]:
    """The lines of a text that head others: marked as headings or bold, or ending in a colon."""
    if "\n" not in text:
        return []
    lines = (line.strip() for line in text.split("\n"))
    return [line for line in lines if line.startswith(("#", "**")) or line.endswith(":")]

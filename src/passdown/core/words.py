"""Words of a text in the form that search compares: folded, split, stemmed."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from functools import cache, lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


_VOWELS = "aeiouy"
_DOUBLES = ("bb", "dd", "ff", "gg", "mm", "nn", "pp", "rr", "tt")
_BEFORE_LI = "cdeghkmnrt"
_KEPT_BEGINNINGS = ("gener", "commun", "arsen")

_WHOLE = {
    **{"skis": "ski", "skies": "sky", "dying": "die", "lying": "lie", "tying": "tie"},
    **{"idly": "idl", "gently": "gentl", "ugly": "ugli", "early": "earli", "only": "onli"},
    **{"singly": "singl"},
    **{
        word: word
        for word in (
            "sky news howe atlas cosmos bias andes inning outing canning herring earring proceed "
            "exceed succeed"
        ).split()
    },
}

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

_STEP2 = (
    *(("ization", "ize"), ("ational", "ate"), ("fulness", "ful"), ("ousness", "ous")),
    *(("iveness", "ive"), ("tional", "tion"), ("biliti", "ble"), ("lessli", "less")),
    *(("entli", "ent"), ("ation", "ate"), ("alism", "al"), ("aliti", "al"), ("ousli", "ous")),
    *(("iviti", "ive"), ("fulli", "ful"), ("enci", "ence"), ("anci", "ance"), ("abli", "able")),
    *(("izer", "ize"), ("ator", "ate"), ("alli", "al"), ("bli", "ble"), ("ogi", "og"), ("li", "")),
)
_STEP3 = (
    *(("ational", "ate"), ("tional", "tion"), ("alize", "al"), ("icate", "ic"), ("iciti", "ic")),
    *(("ative", ""), ("ical", "ic"), ("ness", ""), ("ful", "")),
)
_STEP4 = ("ement ance ence able ible ment ant ent ism ate iti ous ive ize ion al er ic").split()


def stem(word: str) -> str:
    """The stem of a lowercase ASCII word; any other word comes back as it is."""
    if len(word) <= 2 or not word.isascii() or not word.isalpha():
        return word
    word = _IRREGULAR.get(word, word)
    if word in _WHOLE:
        return _WHOLE[word]
    word = _consonant_y(word)
    first, second = _regions(word)
    word = _without_plural(word)
    word = _without_verb_ending(word, first)
    if len(word) > 2 and word[-1] in "yY" and word[-2] not in _VOWELS:
        word = word[:-1] + "i"
    word = _step2(word, first)
    word = _step3(word, first, second)
    word = _step4(word, second)
    return _without_last(word, first, second).lower()


def _consonant_y(word: str) -> str:
    """A `y` that sounds as a consonant is written `Y` while the rules run."""
    if "y" not in word:
        return word
    return "".join(
        "Y" if letter == "y" and (index == 0 or word[index - 1] in _VOWELS) else letter
        for index, letter in enumerate(word)
    )


def _regions(word: str) -> tuple[int, int]:
    """Where endings may begin: behind the first consonant after a vowel, and behind the next."""
    kept = next((name for name in _KEPT_BEGINNINGS if word.startswith(name)), None)
    first = len(kept) if kept else _behind_consonant(word, 1)
    return first, _behind_consonant(word, first + 1)


def _behind_consonant(word: str, start: int) -> int:
    for index in range(start, len(word)):
        if word[index] not in _VOWELS and word[index - 1] in _VOWELS:
            return index + 1
    return len(word)


def _is_short(word: str) -> bool:
    """Whether it ends in a short syllable."""
    if len(word) == 2:
        return word[0] in _VOWELS and word[1] not in _VOWELS
    if len(word) < 2 or word[-1] in _VOWELS or word[-1] in "wxY":
        return False
    return word[-2] in _VOWELS and word[-3] not in _VOWELS


def _has_vowel(text: str) -> bool:
    return any(letter in _VOWELS for letter in text)


def _without_plural(word: str) -> str:
    if word.endswith("sses"):
        return word[:-2]
    if word.endswith(("ied", "ies")):
        return word[:-2] if len(word) > 4 else word[:-1]
    if word.endswith("s") and not word.endswith(("us", "ss")) and _has_vowel(word[:-2]):
        return word[:-1]
    return word


def _without_verb_ending(word: str, first: int) -> str:
    for ending in ("eedly", "eed"):
        if word.endswith(ending):
            is_behind = len(word) - len(ending) >= first
            return word[: -len(ending)] + "ee" if is_behind else word
    for ending in ("ingly", "edly", "ing", "ed"):
        if word.endswith(ending):
            rest = word[: -len(ending)]
            return _mended(rest, first) if _has_vowel(rest) else word
    return word


def _mended(word: str, first: int) -> str:
    """What is left of a verb once its ending is off, spelled as its other forms are."""
    if word.endswith(("at", "bl", "iz")):
        return word + "e"
    if word.endswith(_DOUBLES):
        return word[:-1]
    return word + "e" if first >= len(word) and _is_short(word) else word


def _step2(word: str, first: int) -> str:
    for ending, instead in _STEP2:
        if word.endswith(ending):
            is_kept = (ending == "ogi" and word[-4:-3] != "l") or (
                ending == "li" and word[-3:-2] not in _BEFORE_LI
            )
            is_behind = len(word) - len(ending) >= first
            return word[: -len(ending)] + instead if is_behind and not is_kept else word
    return word


def _step3(word: str, first: int, second: int) -> str:
    for ending, instead in _STEP3:
        if word.endswith(ending):
            region = second if ending == "ative" else first
            return word[: -len(ending)] + instead if len(word) - len(ending) >= region else word
    return word


def _step4(word: str, second: int) -> str:
    for ending in _STEP4:
        if word.endswith(ending):
            is_kept = ending == "ion" and word[-4:-3] not in "st"
            is_behind = len(word) - len(ending) >= second
            return word[: -len(ending)] if is_behind and not is_kept else word
    return word


def _without_last(word: str, first: int, second: int) -> str:
    rest = len(word) - 1
    if word.endswith("e") and (rest >= second or (rest >= first and not _is_short(word[:-1]))):
        return word[:-1]
    return word[:-1] if word.endswith("ll") and rest >= second else word


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
    """A word as it may stand out, or nothing."""
    low = folded(word)
    return low if 3 < len(low) <= 40 and low.isalpha() and low not in STOP_WORDS else ""


def keywords(text: str, limit: int) -> list[str]:
    """The words that stand out in a text, as they were written: the most frequent, then the
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
    """What kind of saying a text is: a question, one that speaks of a time, both or neither."""
    is_timed = not _TIME_WORDS.isdisjoint(map(str.lower, _written(text)))
    return (QUESTION if text.rstrip().endswith("?") else 0) | (TIMED if is_timed else 0)


def headings(text: str) -> list[str]:
    """The lines of a text that head others: marked as headings or bold, or ending in a colon."""
    if "\n" not in text:
        return []
    lines = (line.strip() for line in text.split("\n"))
    return [line for line in lines if line.startswith(("#", "**")) or line.endswith(":")]

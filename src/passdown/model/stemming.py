"""English word stems by the Porter2 rules, with irregular forms folded first.

Only lowercase ASCII words are touched. Both sides of a comparison are stemmed alike, so a stem need
not be a word; it has to be the same for forms that mean the same.
"""

from __future__ import annotations

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

"""A question as search understands it: its words, whom and which time it names."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from passdown.model.words import MONTHS, words

if TYPE_CHECKING:
    from collections.abc import Iterable

_TOKEN = re.compile(r"[A-Za-z]+|\d+")
_ISO_DATE = re.compile(r"\b((?:19|20)\d\d)-(\d\d)(?:-(\d\d))?\b")
_WHEN = re.compile(r"\b(?:when|how long)\b", re.IGNORECASE)
# These are words of other meanings too, so they count only beside a number or after such a word.
_DOUBTFUL = ("may", "mar", "march")
_BEFORE_MONTH = ("in", "of", "since", "until", "on", "by")
MOST_WORDS = 200


class Day(NamedTuple):
    """A date as far as a question names it; 0 for what it leaves open."""

    year: int = 0
    month: int = 0
    day: int = 0


class Question(NamedTuple):
    """What is looked for. `words` keep their order; names of agents are not among them."""

    words: tuple[str, ...]
    named: frozenset[str]
    day: Day
    asks_when: bool


def understood(text: str, agents: Iterable[str]) -> Question:
    """A question taken apart, given the names of the agents who may be meant in it."""
    content = words(text)[:MOST_WORDS]
    named: set[str] = set()
    rest = content
    for agent in agents:
        name = _words_of_name(agent)
        cut = _without(rest, name) if name and name[0] in rest else None
        if cut is not None:
            named.add(agent)
            rest = cut
    kept = rest or content
    return Question(tuple(kept), frozenset(named), named_day(text), bool(_WHEN.search(text)))


@lru_cache(maxsize=1_000)
def _words_of_name(agent: str) -> list[str]:
    return words(agent)


def _without(content: list[str], name: list[str]) -> list[str] | None:
    """The words without a name, or None where the name isn't among them as a whole."""
    size = len(name)
    kept: list[str] = []
    index, is_there = 0, False
    while index < len(content):
        if content[index : index + size] == name:
            index, is_there = index + size, True
        else:
            kept.append(content[index])
            index += 1
    return kept if is_there else None


def named_day(text: str) -> Day:
    """The date that a question names, as far as it does."""
    match = _ISO_DATE.search(text)
    if match:
        return Day(int(match[1]), int(match[2]), int(match[3] or 0))
    tokens = _TOKEN.findall(text)
    year = month = day = 0
    for index, token in enumerate(tokens):
        if len(token) == 4 and token.isdigit() and token[:2] in ("19", "20"):
            year = int(token)
        elif token.lower() in MONTHS and token[0].isupper() and _is_month(tokens, index):
            month = MONTHS[token.lower()]
            day = day or _day_beside(tokens, index)
    return Day(year, month, day)


def _is_month(tokens: list[str], index: int) -> bool:
    if tokens[index].lower() not in _DOUBTFUL:
        return True
    beside = [tokens[at] for at in (index - 2, index - 1, index + 1) if 0 <= at < len(tokens)]
    is_after = index > 0 and tokens[index - 1].lower() in _BEFORE_MONTH
    return is_after or any(token.isdigit() for token in beside)


def _day_beside(tokens: list[str], index: int) -> int:
    for at in (index - 1, index - 2, index + 1):
        if 0 <= at < len(tokens) and _is_day(tokens[at]):
            return int(tokens[at])
    return 0


def _is_day(token: str) -> bool:
    return token.isdecimal() and len(token) <= 2 and 1 <= int(token) <= 31


def closeness(asked: Day, at: str) -> float:
    """How well a time (ISO) fits a date that was asked for: 2 the same day, 0 not at all."""
    if not (asked.year or asked.month) or len(at) < 10:
        return 0.0
    year, month, day = int(at[:4]), int(at[5:7]), int(at[8:10])
    if asked.year and asked.year != year:
        return 0.0
    if asked.month != month:
        return 0.3 if asked.year else 0.0
    return _closeness_of_days(asked.day, day)


def _closeness_of_days(asked: int, day: int) -> float:
    """The same within a month: what is told of a day is often told in the week after it."""
    if asked == day:
        return 2.0
    return 1.5 if asked and 0 < day - asked <= 7 else 1.0

"""A search query: its words, agents, dates and filters, and the passage that fits it."""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, islice
from typing import NamedTuple
from unicodedata import normalize

from passdown.core.rows import mark_of
from passdown.core.words import MONTHS, spellings, words
from passdown.store.entries import IndexedEntry

_TOKEN = re.compile(r"[A-Za-z]+|\d+")
_ISO_DATE = re.compile(r"\b((?:19|20)\d\d)-(\d\d)(?:-(\d\d))?\b")
_WHEN = re.compile(r"\b(?:when|how long)\b", re.IGNORECASE)
# These are words of other meanings too, so they count only beside a number or after such a word.
_DOUBTFUL = ("may", "mar", "march")
_BEFORE_MONTH = ("in", "of", "since", "until", "on", "by")
MOST_WORDS = 200


class QueryDate(NamedTuple):
    """A date as far as a question names it; 0 for what it leaves open."""

    year: int = 0
    month: int = 0
    day: int = 0


class Query(NamedTuple):
    """What is looked for. `words` keep their order; names of agents are not among them."""

    words: tuple[str, ...]
    named: frozenset[str]
    day: QueryDate
    asks_when: bool


def parse_query(text: str, agents: Iterable[str]) -> Query:
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
    return Query(tuple(kept), frozenset(named), date_in(text), bool(_WHEN.search(text)))


def without_names(text: str, agents: Iterable[str]) -> str:
    """A question without the agents that it names: entries rarely name their own author, so a name
    would draw its meaning away from theirs. A question of nothing but names stays as it is.
    """
    named = parse_query(text, agents).named
    for name in sorted(named, key=lambda name: (-len(name), name)):
        text_left = re.sub(rf"(?<!\w){re.escape(name)}(?:['\u2019]s)?(?!\w)", " ", text, flags=re.I)
        text = text_left if text_left.strip(" ?!.,") else text
    return text


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


def date_in(text: str) -> QueryDate:
    """The date that a question names, as far as it does."""
    match = _ISO_DATE.search(text)
    if match:
        return QueryDate(int(match[1]), int(match[2]), int(match[3] or 0))
    tokens = ["", "", *_TOKEN.findall(text), ""]
    year = month = day = 0
    for index, token in enumerate(tokens[2:-1], 2):
        if len(token) == 4 and token.isdigit() and token[:2] in ("19", "20"):
            year = int(token)
        elif token.lower() in MONTHS and token[0].isupper():
            beside = (tokens[index - 1], tokens[index - 2], tokens[index + 1])
            is_after = beside[0].lower() in _BEFORE_MONTH
            if token.lower() in _DOUBTFUL and not is_after and not any(map(str.isdigit, beside)):
                continue
            month = MONTHS[token.lower()]
            days = (int(near) for near in beside if near.isdecimal() and len(near) <= 2)
            day = day or next((number for number in days if 1 <= number <= 31), 0)
    return QueryDate(year, month, day)


def date_closeness(asked: QueryDate, at: str) -> float:
    """How well a time (ISO) fits a date that was asked for: 2 the same day, 0 not at all."""
    if not (asked.year or asked.month) or len(at) < 10:
        return 0.0
    year, month, day = int(at[:4]), int(at[5:7]), int(at[8:10])
    if asked.year and asked.year != year:
        return 0.0
    if asked.month != month:
        return 0.3 if asked.year else 0.0
    if asked.day == day:
        return 2.0
    # What happened on a day is often recorded in the week after it.
    return 1.5 if asked.day and 0 < day - asked.day <= 7 else 1.0


class SearchFilter(NamedTuple):
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

    def marks(self) -> tuple[tuple[str, ...], ...]:
        """The part of the filter that the index checks: one mark of each group."""
        groups = [
            [mark_of("kind", kind) for kind in self.kinds],
            [mark_of("agent", self.agent)] if self.agent else [],
            [mark_of("task", self.task)] if self.task else [],
        ]
        return (*(tuple(group) for group in groups if group), *self.index_marks())

    def index_marks(self) -> tuple[tuple[str, ...], ...]:
        """The marks that only the index has, not an entry's row."""
        tags = tuple(mark_of("tag", tag) for tag in self.tags)
        return tuple(
            group for group in (tags, (mark_of("path", self.path),) if self.path else ()) if group
        )

    def lets(self, entry: IndexedEntry, *, with_superseded: bool = False) -> bool:
        """Whether an entry's row passes; a superseded one may be let through."""
        is_left_out = entry.status in self.without
        if with_superseded and entry.status == "superseded":
            is_left_out = False
        return (
            (not self.kinds or entry.kind in self.kinds)
            and (not self.agent or entry.agent == self.agent)
            and (not self.task or entry.task == self.task)
            and (not self.statuses or entry.status in self.statuses)
            and not is_left_out
            and self.since <= entry.at
            and (not self.until or entry.at <= self.until)
        )

    @property
    def is_asked(self) -> bool:
        """Whether it asks for anything at all."""
        return any(self)

    @property
    def is_by_row(self) -> bool:
        """Whether part of it can only be checked by an entry's row."""
        return bool(self.without) or self.is_narrow

    @property
    def is_narrow(self) -> bool:
        """Whether it names statuses or times, which few entries pass."""
        return bool(self.statuses or self.since or self.until)

    @property
    def is_by_mark(self) -> bool:
        """Whether an entry's row doesn't tell all of it: tags and paths are marks alone."""
        return bool(self.tags or self.path)

    def has_marks(self, marks: str) -> bool:
        """Whether an entry's marks have one of the tags, and the path."""
        return all(any(mark in marks for mark in group) for group in self.index_marks())


MAX_PASSAGE = 240
_SENTENCES = re.compile(r"(?<=[.!?])\s+")
_MOST_SENTENCES = 400


def best_passage(text: str, asked: Sequence[str]) -> str:
    """The sentences around the one that has most of the asked words, on one line.

    A text that is short enough is given whole, its lines divided by bars; `…` marks what is left
    out before or after.
    """
    if len(" ".join(text.split())) <= MAX_PASSAGE:
        flat = " | ".join(" ".join(line.split()) for line in text.split("\n") if line.strip())
        if len(flat) <= MAX_PASSAGE:
            return flat
    parts = list(islice(_sentences(text), _MOST_SENTENCES))
    first = _fullest(parts, frozenset(asked))
    last = first
    chosen = " ".join(parts[first].split())
    while last + 1 < len(parts):
        longer = chosen + " " + " ".join(parts[last + 1].split())
        if len(longer) > MAX_PASSAGE:
            break
        chosen, last = longer, last + 1
    before = "… " if first else ""
    if len(chosen) > MAX_PASSAGE:
        return f"{before}{chosen[:MAX_PASSAGE].rsplit(' ', 1)[0]} …"
    return before + chosen + (" …" if last + 1 < len(parts) else "")


def _sentences(text: str) -> Iterator[str]:
    """The sentences of a text; a line ends one, too."""
    for line in text.split("\n"):
        is_one = ". " not in line and "? " not in line and "! " not in line and "\t" not in line
        for part in (line,) if is_one else _SENTENCES.split(line):
            if part and not part.isspace():
                yield part


def _fullest(parts: list[str], asked: frozenset[str]) -> int:
    """The place of the first text that has most of some words.

    How many it may have is told by the spellings in it, so few texts are taken apart.
    """
    text = "\n".join(parts)
    if not text.isascii():
        text = normalize("NFC", text)
        parts = text.split("\n")
    ends = list(accumulate(len(part) + 1 for part in parts))
    most = [0] * len(parts)
    for spelled in spellings(text, asked):
        for place in {bisect(ends, at) for word in spelled for at in _occurrences(word, text)}:
            most[place] += 1
    best, first = -1, 0
    for place in sorted(range(len(parts)), key=lambda place: -most[place]):
        if (most[place], -place) < (best, -first):
            break
        hits = len(asked.intersection(words(parts[place])))
        if (hits, -place) > (best, -first):
            best, first = hits, place
    return first


def _occurrences(word: str, text: str) -> Iterator[int]:
    at = text.find(word)
    while at >= 0:
        yield at
        at = text.find(word, at + len(word))

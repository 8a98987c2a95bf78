"""Focus: what the receiving agent is about to do, as words and labels to compare items with."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from passdown.model.values import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from passdown.model.rows import ItemRow, TaskRow

_WORD = re.compile(r"[^\W_]{2,}")
_NAME = re.compile(r"\.?[\w-]+(?:[./]+[\w-]+)*")
_COMMON = frozenset(
    """
the and for with from into that this then than not are was were will would should can must has have
had its our your their they them you who what when where which how why all any each also only one
two new use used using make made add get set run see before after over under in on at to of by is it
as an or be do if no so up we py
""".split()
)

NEED, STEP, TITLE = 3.0, 2.0, 1.0
"""How much a word weighs: declared by the agent, in a next step or a blocker, in the task."""

MOST_LABELS = 120
_MOST = 6.0


class Focus(NamedTuple):
    """Words with their weights, and the labels under which older items are looked up.

    `wider` are the words of the task and of what the agent needs: those that open items, which
    all other words come from, are compared with.
    """

    words: Mapping[str, float]
    wider: Mapping[str, float]
    labels: tuple[str, ...]

    def concerns(self, text: str) -> bool:
        """Whether a text has any word of the focus."""
        return not self.words.keys().isdisjoint(words_of(text))

    def matches(self, text: str, *, is_open: bool = False) -> tuple[str, ...]:
        """The words of the focus that a text has, heaviest first."""
        words = self.wider if is_open else self.words
        if not words:
            return ()
        found = words.keys() & words_of(text)
        return tuple(sorted(found, key=lambda word: (-words[word], word)))

    def score(self, matches: Iterable[str]) -> float:
        """How much a text with these matches has to do with what comes next: 0 to 1."""
        return min(sum(self.words[word] for word in matches), _MOST) / _MOST


@lru_cache(maxsize=8_192)
def words_of(text: str) -> frozenset[str]:
    """The words of a text that can be compared: lower case, without the commonest, singular.

    The titles of a task's items are the same from brief to brief, so they are kept.
    """
    found = [
        word[:-1] if word[-1] == "s" and len(word) > 4 and word[-2] != "s" else word
        for word in _WORD.findall(text.lower())
        if word not in _COMMON
    ]
    return frozenset(found if text.isascii() else found + _pairs(found))


@cache
def _unspaced() -> re.Pattern[str]:
    """Compiled when a text first needs it: that takes longer than the rest of this module."""
    return re.compile("[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")


def _pairs(words: list[str]) -> list[str]:
    """Pairs of neighbouring characters, for scripts that don't put spaces between words."""
    unspaced = _unspaced()
    runs = [word for word in words if len(word) > 2 and unspaced.match(word)]
    return [run[index : index + 2] for run in runs for index in range(len(run) - 1)]


class _Gathering:
    """Words and labels while they are being gathered."""

    def __init__(self) -> None:
        self.words: dict[str, float] = {}
        self.wider: dict[str, float] = {}
        self.labels: dict[str, None] = {}

    def weigh(self, text: str, weight: float) -> None:
        for word in sorted(words_of(text)):
            self.words[word] = max(self.words.get(word, 0.0), weight)
            if weight != STEP:
                self.wider[word] = max(self.wider.get(word, 0.0), weight)
            self.labels.setdefault(word)
        for name in _NAME.findall(text):
            # A tag may be of several words or in the plural, and a path has its own case.
            if "/" in name or "." in name:
                self.labels.setdefault(name)
            elif len(name) > 1 and name.lower() not in _COMMON:
                self.labels.setdefault(name.lower())


def focus_of(
    row: TaskRow,
    open_items: Iterable[ItemRow],
    needs: Mapping[str, Iterable[str]],
    tags: Iterable[str] = (),
) -> Focus:
    """What comes next for the receiver of a task: its needs, the open steps, the task itself."""
    found = _Gathering()
    for topic in (*needs.get("decisions", ()), *tags):
        found.labels.setdefault(topic)
        found.weigh(topic, NEED)
    for name in needs.get("files", ()):
        found.labels.setdefault(name)
    for item in open_items:
        if item.letter == "r":
            found.labels.setdefault(item.title)
        if item.letter != "k":
            found.weigh(item.title, STEP)
    found.weigh(str(row.details.get("title") or "")[:500], TITLE)
    for criterion in (row.details.get("criteria") or ())[:20]:
        found.weigh(str(criterion)[:500], TITLE)
    return Focus(found.words, found.wider, tuple(found.labels)[:MOST_LABELS])

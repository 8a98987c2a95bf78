"""Focus: what the receiving agent is about to do, as words and labels to compare items with."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from passdown.model.rows import ItemRow, TaskRow

_WORD = re.compile(r"[^\W_]{2,}")
_PATH = re.compile(r"[\w.-]+(?:/[\w.-]+)+")
_COMMON = frozenset(
    re.findall(
        r"\w+",
        "the and for with from into that this then than not are was were will would should can "
        "must has have had its our your their they them you who what when where which how why all "
        "any each also only one two new use used using make made add get set run see before after "
        "over under in on at to of by is it as an or be do if no so up we py",
    )
)

NEED, STEP, TITLE = 3.0, 2.0, 1.0
"""How much a word weighs: declared by the agent, in a next step or a blocker, in the task."""

MOST_LABELS = 60
_MOST = 6.0


class Focus(NamedTuple):
    """Words with their weights, and the labels under which older items are looked up."""

    words: Mapping[str, float]
    labels: tuple[str, ...]

    def concerns(self, text: str) -> bool:
        """Whether a text has any word of the focus."""
        return not self.words.keys().isdisjoint(words_of(text))

    def matches(self, text: str) -> tuple[str, ...]:
        """The words of the focus that a text has, heaviest first."""
        if not self.words:
            return ()
        found = self.words.keys() & set(words_of(text))
        return tuple(sorted(found, key=lambda word: (-self.words[word], word)))

    def score(self, matches: Iterable[str]) -> float:
        """How much a text with these matches has to do with what comes next: 0 to 1."""
        return min(sum(self.words[word] for word in matches), _MOST) / _MOST


def words_of(text: str) -> list[str]:
    """The words of a text that can be compared: lower case, without the commonest, singular."""
    return [
        word[:-1] if word[-1] == "s" and len(word) > 4 and word[-2] != "s" else word
        for word in _WORD.findall(text.lower())
        if word not in _COMMON
    ]


def focus_of(
    row: TaskRow,
    open_items: Iterable[ItemRow],
    needs: Mapping[str, Iterable[str]],
    tags: Iterable[str] = (),
) -> Focus:
    """What comes next for the receiver of a task: its needs, the open steps, the task itself."""
    words: dict[str, float] = {}
    labels: dict[str, None] = {}

    def weigh(text: str, weight: float) -> None:
        for word in words_of(text):
            words[word] = max(words.get(word, 0.0), weight)
            labels.setdefault(word)
        for path in _PATH.findall(text):
            labels.setdefault(path)

    for topic in (*needs.get("decisions", ()), *tags):
        labels.setdefault(topic)
        weigh(topic, NEED)
    for pattern in needs.get("files", ()):
        labels.setdefault(pattern)
    for item in open_items:
        if item.letter in "nqb":
            weigh(item.title, STEP)
        elif item.letter == "r":
            labels.setdefault(item.title)
            weigh(item.title, STEP)
    weigh(str(row.details.get("title") or "")[:500], TITLE)
    for criterion in (row.details.get("criteria") or ())[:20]:
        weigh(str(criterion)[:500], TITLE)
    return Focus(words, tuple(labels)[:MOST_LABELS])

"""Ranking: in which order items, and longer forms of them, enter a brief as its budget grows.

The order is fixed before any budget is known, and a brief takes as much of it, from the beginning,
as fits: so a larger budget never drops what a smaller one showed. Mandatory items come first,
each in
its shortest form; then what is related to the receiver's next step; then what is worth most for its
tokens.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from passdown.core.brief_facts import shown_letter
from passdown.core.items import LENGTHS, sizes_of
from passdown.core.values import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from passdown.core.rows import ItemRow, TaskRow


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


def focus_of(
    row: TaskRow,
    open_items: Iterable[ItemRow],
    needs: Mapping[str, Iterable[str]],
    tags: Iterable[str] = (),
) -> Focus:
    """What comes next for the receiver of a task: its needs, the open steps, the task itself."""
    items = list(open_items)
    topics = [*needs.get("decisions", ()), *tags]
    texts = [(topic, NEED) for topic in topics]
    texts += [(item.title, STEP) for item in items if item.letter != "k"]
    titles = (row.details.get("title") or "", *(row.details.get("criteria") or ())[:20])
    texts += [(str(title)[:500], TITLE) for title in titles]
    read = [item.title for item in items if item.letter == "r"]
    labels = dict.fromkeys([*topics, *needs.get("files", ()), *read])
    words: dict[str, float] = {}
    wider: dict[str, float] = {}
    for text, weight in texts:
        for word in sorted(words_of(text)):
            words[word] = max(words.get(word, 0.0), weight)
            if weight != STEP:
                wider[word] = max(wider.get(word, 0.0), weight)
            labels.setdefault(word)
        for name in _NAME.findall(text):
            # A tag may be of several words or in the plural, and a path has its own case.
            if "/" in name or "." in name:
                labels.setdefault(name)
            elif len(name) > 1 and name.lower() not in _COMMON:
                labels.setdefault(name.lower())
    return Focus(words, wider, tuple(labels)[:MOST_LABELS])


REFERENCE = "reference"
"""The length of a mandatory item whose own sentence is too long to come first."""

LINE_TOKENS = 60
"""A sentence above this many tokens doesn't go first: only that it exists does."""

LARGE_TOKENS = 150
"""What takes more than this comes after everything that takes less: it shouldn't bar the way."""

_BASE = {
    "k": 10,
    "b": 10,
    "h": 8,
    "n": 8,
    "y": 6,
    "q": 5,
    "r": 5,
    "d": 5,
    "g": 4,
    "w": 4,
    "p": 3,
    "a": 3,
}
_PHASES: dict[str, dict[str, float]] = {
    "planning": {"q": 1.3, "d": 1.2},
    "implementing": {"p": 1.3, "r": 1.3, "g": 1.1},
    "testing": {"a": 1.4, "g": 1.3},
    "reviewing": {"d": 1.3, "a": 1.2, "w": 1.2},
}
_GRADES = {"blocker": 1.5, "blocking": 1.5, "high": 1.25, "medium": 1.0, "low": 0.6}
_SHARES = (0.5, 0.35, 0.15)
_RELATED, _RELATED_OF_A_KIND = 8, 4
"""How many items come first for what they are about; the others have their worth raised for it."""

_ORDER = "kbqnhrdgwpa"
_OPEN = "nqbr"
_FADING = 0.12
"""How fast the worth of a kind's items fades, so that one kind doesn't take all the room."""


class RankedItem(NamedTuple):
    """An item with its worth, and why it is worth that.

    `score` is how much it has to do with what comes next, however old it is: 0 to 1.
    """

    row: ItemRow
    worth: float
    why: str
    is_mandatory: bool
    score: float = 0.0

    @property
    def tokens(self) -> tuple[int, int, int]:
        """How long the item is at each length."""
        return sizes_of(self.row.sizes).tokens


Step = tuple[str, str]
"""One more thing to show, as an address and a length: an item, or a longer form of it."""


def rank_items(
    items: Sequence[ItemRow],
    focus: Focus,
    phase: str,
    labelled: frozenset[str] = frozenset(),
    *,
    are_older: bool = False,
) -> list[RankedItem]:
    """Every item with its worth, in the order in which they are shown.

    `labelled` are the addresses of items that are filed under something of the focus. Of a page
    of older items, none is mandatory.
    """
    first_step = _first_step(items)
    seen: dict[str, int] = {}
    found: list[RankedItem] = []
    for row in items:
        kind = shown_letter(row)
        rank = seen[kind] = seen.get(kind, -1) + 1
        is_mandatory = not are_older and (_is_mandatory(row) or row is first_step)
        matches = focus.matches(row.title, is_open=row.letter in _OPEN)
        is_labelled = row.address in labelled
        score = max(focus.score(matches), 0.5 if is_labelled else 0.0)
        worth = (
            _BASE.get(kind, 1)
            * _PHASES.get(phase, {}).get(kind, 1.0)
            * _GRADES.get(row.grade, 1.0)
            * (1 + 3 * score)
            / (1 + rank * _FADING)
        )
        why = "mandatory" if is_mandatory else _why(matches, rank, is_labelled=is_labelled)
        found.append(RankedItem(row, worth, why, is_mandatory, score))
    found.sort(key=lambda r: (_ORDER.index(r.row.letter), -r.worth, r.row.task, r.row.ordinal))
    return found


def _is_mandatory(row: ItemRow) -> bool:
    kind = shown_letter(row)
    return kind in "kbh" or (kind == "q" and row.grade == "blocking")


def _first_step(items: Iterable[ItemRow]) -> ItemRow | None:
    """The next step: of the highest priority, and of those the one that was named first."""
    rank = {"high": 0, "medium": 1, "low": 2}
    steps = [row for row in items if row.letter == "n"]
    return min(steps, key=lambda row: (rank.get(row.grade, 1), row.ordinal), default=None)


def _why(matches: Sequence[str], rank: int, *, is_labelled: bool) -> str:
    if matches:
        return "has to do with: " + ", ".join(matches[:4])
    if is_labelled:
        return "is filed under what comes next"
    return "the first of its kind" if rank == 0 else f"number {rank + 1} of its kind"


def order_steps(items: Sequence[RankedItem]) -> tuple[list[Step], list[Step], list[Step]]:
    """The steps of some items as a growing budget takes them: what is mandatory, then what is
    related and what gives most for a token, then what is large.
    """
    shown: dict[str, str] = {}

    def step(item: RankedItem, length: str) -> Step:
        shown[item.row.address] = length
        return item.row.address, length

    mandatory = _in_turn([item for item in items if item.is_mandatory])
    must = [
        step(r, _own_sentence(r) if r.tokens[0] <= LINE_TOKENS else REFERENCE) for r in mandatory
    ]
    # What is mandatory is spelled out before anything else, unless that takes too much room.
    long = [r for r in mandatory if LINE_TOKENS < r.tokens[0] <= LARGE_TOKENS]
    must += [step(r, _own_sentence(r)) for r in long]
    related = [step(r, _own_sentence(r)) for r in _related(items)]
    more: list[tuple[bool, float, int, int, Step]] = []
    for index, r in enumerate(items):
        address, is_large = r.row.address, False
        for gain, extra, length in _upgrades(r, shown.get(address, "")):
            # What follows a large step stays behind it: a form is never followed by a shorter one.
            is_large = is_large or extra > LARGE_TOKENS
            place = LENGTHS.index(length)
            more.append((is_large, -gain / extra, index, place, (address, length)))
    more.sort()
    optional = [*related, *(found[-1] for found in more if not found[0])]
    return must, optional, [found[-1] for found in more if found[0]]


def _related(items: Sequence[RankedItem]) -> list[RankedItem]:
    """The few that have most to do with what comes next, and not of one kind alone."""
    fit = [r for r in items if not r.is_mandatory and r.score and r.tokens[0] <= LINE_TOKENS]
    taken: dict[str, int] = {}
    found: list[RankedItem] = []
    fit.sort(key=lambda r: (-r.score, -r.worth, _ORDER.index(r.row.letter), r.row.address))
    for r in fit:
        count = taken[r.row.letter] = taken.get(r.row.letter, 0) + 1
        if count <= _RELATED_OF_A_KIND:
            found.append(r)
    return found[:_RELATED]


def _in_turn(mandatory: Sequence[RankedItem]) -> list[RankedItem]:
    """One of each kind, then the second of each: many blockers don't hide the next step.

    A next step that is older than the latest handoff comes after it: it may be done.
    """
    by_kind: dict[str, list[RankedItem]] = {}
    for r in mandatory:
        by_kind.setdefault(r.row.letter, []).append(r)
    latest = max((r.row.position for r in by_kind.get("h", ())), default=0)
    is_older = any(r.row.position < latest for r in by_kind.get("n", ()))
    letters = "kbqhn" if is_older else "kbqnh"
    found: list[RankedItem] = []
    for turn in range(max((len(group) for group in by_kind.values()), default=0)):
        found += [
            by_kind[letter][turn] for letter in letters if turn < len(by_kind.get(letter, ()))
        ]
    return found


def _own_sentence(r: RankedItem) -> str:
    """The length of an item's own sentence, by the name of the longest form that it is."""
    return LENGTHS[max(index for index in range(3) if r.tokens[index] == r.tokens[0])]


def _upgrades(r: RankedItem, shown: str) -> list[tuple[float, int, str]]:
    """(gain, tokens, length) of what can still be added, gains per token never rising on the way.

    Where a longer form gives more per token than the one before it, the one before is skipped.
    """
    tokens = r.tokens
    start = LENGTHS.index(shown) if shown in LENGTHS else -1
    cost = tokens[start] if start >= 0 else 0
    gain = 0.0
    pieces: list[tuple[float, int, str]] = []
    for index in range(start + 1, len(LENGTHS)):
        gain += r.worth * _SHARES[index]
        if index + 1 < len(LENGTHS) and tokens[index + 1] == tokens[index]:
            continue
        if tokens[index] <= cost:
            gain = 0.0
            continue
        piece = (gain, tokens[index] - cost, LENGTHS[index])
        while pieces and pieces[-1][0] / pieces[-1][1] < piece[0] / piece[1]:
            last = pieces.pop()
            piece = (last[0] + piece[0], last[1] + piece[1], piece[2])
        pieces.append(piece)
        cost, gain = tokens[index], 0.0
    return pieces

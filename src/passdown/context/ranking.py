"""Ranking: in which order items, and longer forms of them, enter a brief as its budget grows.

The order is fixed before any budget is known, and a brief takes as much of it, from the beginning,
as fits: so a larger budget never drops what a smaller one showed. Mandatory items come first; then
every item's own sentence, by what it is worth for its tokens; then reasons and details.
"""

from __future__ import annotations

import math
import re
from collections import Counter as Tally
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from itertools import accumulate, chain, zip_longest

from passdown.core.items import sizes_of
from passdown.core.rows import ItemRow, TaskRow, shown_letter
from passdown.core.values import NamedTuple

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
    most other words come from, are compared with.
    """

    words: Mapping[str, float]
    wider: Mapping[str, float]
    labels: tuple[str, ...]

    def related(self, texts: Sequence[str], most: int) -> list[int]:
        """Where those of some texts are that have most to do with what comes next."""
        found, score = self.compared(texts)
        scores = list(map(score, found))
        related = [index for index, score in enumerate(scores) if score >= _RELATED]
        return sorted(related, key=lambda index: (-scores[index], index))[:most]

    def compared(
        self, texts: Sequence[str]
    ) -> tuple[list[frozenset[str]], Callable[[frozenset[str]], float]]:
        """The words of the focus that each of some texts has, and a function that says how much a
        text with such words has to do with what comes next: 0 to 1. A word that most of the texts
        have says little.
        """
        known = frozenset(self.words)
        found = [known & words_of(text) for text in texts]
        whole = math.log1p(len(texts)) or 1.0
        weights = {
            word: self.words[word] * (math.log1p(len(texts) / count) / whole)
            for word, count in Tally(chain.from_iterable(found)).items()
        }

        @cache
        def score(matches: frozenset[str]) -> float:
            # fsum gives the same for every order of the words.
            return min(math.fsum(weights[word] for word in matches), _MOST) / _MOST

        return found, score


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
    summary: str = "",
) -> Focus:
    """What comes next for a receiver: its needs, open steps, the latest handoff, the task."""
    items = list(open_items)
    topics = [*needs.get("decisions", ()), *tags]
    texts = [(topic, NEED) for topic in topics]
    texts += [(item.title, STEP) for item in items if item.letter != "k"]
    texts.append((summary, STEP))
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

REFERENCE_TOKENS, HEADING_TOKENS = 12, 3
"""About how many a reference and a heading take."""

_BASE = {
    **dict.fromkeys("kbc", 10),
    **{"g": 6.4, "y": 6, "n": 4.6},
    **dict.fromkeys("qrdwf", 5),
    **{"p": 4, "a": 4, "h": 2, "z": 1},
}
_PHASES: dict[str, dict[str, float]] = {
    "planning": {"q": 1.3, "d": 1.2},
    "implementing": {"p": 1.3, "r": 1.3, "g": 1.1},
    "testing": {"a": 1.4, "g": 1.3},
    "reviewing": {"d": 1.3, "a": 1.2, "w": 1.2},
}
_GRADES = {"blocker": 1.5, "blocking": 1.5, "high": 1.25, "medium": 1.0, "low": 0.6}
_UNSAID, _GRADE_TOKENS = {("g", "medium"), ("n", "high"), ("n", "medium")}, 3
"""Kinds and grades that a brief doesn't print, and how many tokens of a line that saves."""

_ORDER = "kbcqnhrfdgwpa"
_OPEN = "nqbr"
_FADING, _FADED = 0.08, 30
"""How fast, and until which item, a kind's worth fades: no kind takes all the room."""

_RELATED = 0.2
"""From which score on an earlier handoff or item is about what comes next."""

_ABOUT, _NEWS, _BESIDE_OPEN = 8.0, 5.0, 1.5
"""How much more an item is worth that is all about what comes next, that the latest handoff has
brought, or that came together with a question or a blocker that is still open.
"""

_AGAIN, _OWN = 0.2, 0.4
"""What an item is worth where a newer one has its title, or the receiver wrote it."""

_BY_HANDOFF = 0.9
"""How much the words of the handoff that has brought an item count beside its own."""

_NOTHING: frozenset[str] = frozenset()


class RankedItem(NamedTuple):
    """An item with its worth and lengths, and why it is shown under the letter `kind`."""

    address: str
    kind: str
    row: ItemRow
    worth: float
    tokens: tuple[int, int, int]
    is_mandatory: bool
    matches: frozenset[str] = _NOTHING
    rank: int = 0
    is_labelled: bool = False

    def why(self, focus: Focus) -> str:
        """What it was chosen for, in words."""
        if self.is_mandatory:
            return "mandatory"
        if self.matches:
            found = sorted(self.matches, key=lambda word: (-focus.words.get(word, 0.0), word))
            return "has to do with: " + ", ".join(found[:4])
        if self.is_labelled:
            return "is filed under what comes next"
        return f"number {self.rank + 1} of its kind" if self.rank else "the first of its kind"


Step = tuple[str, str]
"""One more thing to show, as an address and a length: an item, or a longer form of it."""


def rank_items(
    items: Sequence[ItemRow],
    focus: Focus,
    phase: str,
    labelled: frozenset[str] = frozenset(),
    *,
    handoffs: Mapping[tuple[str, int], str],
    own: frozenset[int] = frozenset(),
    are_older: bool = False,
) -> list[RankedItem]:
    """Every item with its worth, in the order in which they are shown.

    `labelled` are the addresses of items that are filed under something of the focus; `handoffs`
    are the summaries of the handoffs that may have brought them, by task and position, the latest
    first; `own` is where the receiver's own records are. Of a page of older items, none is
    mandatory.
    """
    latest = next(iter(handoffs), ("", 0))
    first_step = None if are_older else _first_step(items)
    words, score_of = focus.compared([*(row.title for row in items), *handoffs.values()])
    brought = zip(handoffs, words[len(items) :], strict=True)
    about = {place: _BY_HANDOFF * score_of(matches) for place, matches in brought}
    pending = {(row.task, row.position) for row in items if row.letter in "qb" and row.is_open}
    by_phase = _PHASES.get(phase, {})
    seen: dict[str, int] = {}
    said: set[tuple[str, str]] = set()
    found: list[RankedItem] = []
    for row, own_words in zip(items, words, strict=False):
        address, kind, place = row.address, shown_letter(row), (row.task, row.position)
        rank = seen[kind] = seen.get(kind, -1) + 1
        is_mandatory = not are_older and (_is_mandatory(kind, row) or row is first_step)
        is_labelled = address in labelled
        matches = own_words.intersection(focus.wider) if kind in _OPEN else own_words
        score = max(score_of(matches), about.get(place, 0.0), 0.7 * is_labelled)
        if kind == "h":
            matches, score = _NOTHING, 0.7 * is_labelled
        worth = _BASE.get(kind, 1) * by_phase.get(kind, 1.0) * _GRADES.get(row.grade, 1.0)
        worth *= (1 + _ABOUT * score) / (1 + min(rank, _FADED) * _FADING * (1 - score))
        if row.task == latest[0] and row.position >= latest[1]:
            worth *= _NEWS
        elif place in pending:
            worth *= _BESIDE_OPEN
        worth *= _AGAIN if (kind, row.title) in said else 1
        worth *= _OWN if row.task == latest[0] and row.position in own else 1
        said.add((kind, row.title))
        line, short, full = sizes_of(row.sizes).tokens
        unsaid = _GRADE_TOKENS if (kind, row.grade) in _UNSAID else 0
        size = (line - unsaid, short - unsaid, full - unsaid)
        found.append(
            RankedItem(address, kind, row, worth, size, is_mandatory, matches, rank, is_labelled)
        )
    found.sort(key=_shown_place)
    return found


def _shown_place(item: RankedItem) -> tuple[int, float, str, int]:
    """Where an item is shown: by kind, then by worth; checks as the handoff lists them."""
    row = item.row
    worth = 0.0 if row.letter == "c" else -item.worth
    return _ORDER.index(row.letter), worth, row.task, row.ordinal


def _is_mandatory(kind: str, row: ItemRow) -> bool:
    if kind == "c":
        return row.status != "passed"
    return kind in "kbh" or (kind == "q" and row.grade == "blocking")


def _first_step(items: Iterable[ItemRow]) -> ItemRow | None:
    """The next step: of the highest priority, and of those the one that was named first."""
    rank = {"high": 0, "medium": 1, "low": 2}
    steps = [row for row in items if shown_letter(row) == "n"]
    return min(steps, key=lambda row: (rank.get(row.grade, 1), row.ordinal), default=None)


class Offer(NamedTuple):
    """A step: how many tokens it takes about, what it is worth, and the kind that it is of.

    What is optional waits until everything mandatory is in.
    """

    step: Step
    tokens: int
    worth: float
    kind: str
    is_mandatory: bool = False


def order_steps(items: Sequence[RankedItem], texts: Sequence[Offer] = ()) -> list[Offer]:
    """The first steps: what is mandatory, then each item's sentence by worth for its tokens."""
    mandatory = _in_turn([item for item in items if item.is_mandatory])
    found = [
        _sentence(r)._replace(is_mandatory=True)
        if r.tokens[0] <= LINE_TOKENS
        else Offer((r.address, REFERENCE), REFERENCE_TOKENS, r.worth, r.kind, is_mandatory=True)
        for r in mandatory
    ]
    # What is mandatory is spelled out before anything else, unless that takes too much room.
    found += [_sentence(r) for r in mandatory if LINE_TOKENS < r.tokens[0] <= LARGE_TOKENS]
    others = [_sentence(r) for r in items if not r.is_mandatory and r.tokens[0] <= LARGE_TOKENS]
    others += [text for text in texts if text.tokens <= LARGE_TOKENS]
    # A stable sort: those that are worth the same stay in the order in which they are shown.
    return found + sorted(others, key=_place)


def order_details(items: Sequence[RankedItem], texts: Sequence[Offer] = ()) -> list[Offer]:
    """The steps that follow: reasons, remedies and details, then what takes much room at once."""
    found = [offer for r in items for offer in _details(r)]
    return sorted([*found, *(text for text in texts if text.tokens > LARGE_TOKENS)], key=_place)


def _place(offer: Offer) -> tuple[bool, float]:
    """Where an offer is among others: by worth for its tokens, large ones last."""
    return offer.tokens > LARGE_TOKENS, -offer.worth / offer.tokens


def _sentence(r: RankedItem) -> Offer:
    """An item's own sentence, by the name of the longest form that it is."""
    line, short, full = r.tokens
    length = "full" if full == line else "short" if short == line else "line"
    return Offer((r.address, length), max(line, 1), r.worth, r.kind)


def _details(r: RankedItem) -> list[Offer]:
    """Longer forms of an item; one form where the longer would come before the shorter."""
    line, short, full = r.tokens
    if line > LARGE_TOKENS:  # then its sentence is among these
        whole = Offer((r.address, "full"), full, r.worth * 0.3, r.kind)
        return [_sentence(r), whole] if full > line else [_sentence(r)]
    found = [("short" if full > short else "full", short - line, 0.7), ("full", full - short, 0.3)]
    offers = [
        Offer((r.address, length), more, r.worth * share, r.kind)
        for length, more, share in found
        if more > 0
    ]
    if len(offers) == 2 and _place(offers[0]) > _place(offers[1]):
        return [offers[1]._replace(tokens=full - line, worth=r.worth)]
    return offers


_FILLED, _TENTHS = 50, 5
"""A brief is filled up at every 50 tokens, and at every fifth part of a long one."""

_PASSING = 0.5
"""How much of the worth for its tokens a smaller step needs to pass one that doesn't fit."""


def fill_up(offers: Sequence[Offer], used: int) -> Generator[Step, None, int]:
    """Steps in an order of which each beginning fills a budget well: at certain sizes, what
    doesn't fit any more lets smaller steps pass, and comes first again at the next size.

    The order is the same for every budget and every counter. `used` is what is taken already; what
    is taken in the end is the result.
    """
    left, limit = offers, used - used % _FILLED
    kinds: set[str] = set()
    while left:
        limit += max(_FILLED, limit // _TENTHS // _FILLED * _FILLED)
        least = list(accumulate([offer.tokens for offer in reversed(left)], min))[::-1]
        waiting: list[Offer] = []
        skipped: set[str] = set()
        is_open, least_worth = True, 0.0
        for index, offer in enumerate(left):
            if used + least[index] > limit:
                waiting += left[index:]
                break
            step, tokens, worth, kind, is_mandatory = offer
            needed = used + tokens + (HEADING_TOKENS if kind not in kinds else 0)
            may_pass = is_mandatory or (is_open and worth >= least_worth * tokens)
            if needed <= limit and may_pass and step[0] not in skipped:
                used = needed
                kinds.add(kind)
                yield step
                continue
            waiting.append(offer)
            skipped.add(step[0])
            is_open = is_open and not is_mandatory
            least_worth = max(least_worth, _PASSING * worth / tokens)
        left = waiting
    return used


def _in_turn(mandatory: Sequence[RankedItem]) -> list[RankedItem]:
    """One of each kind, then the second of each: many blockers don't hide the next step.

    A next step that is older than the latest handoff comes after it: it may be done.
    """
    latest = max((r.row.position for r in mandatory if r.kind == "h"), default=0)
    is_older = any(r.row.position < latest for r in mandatory if r.kind == "n")
    letters = "kbcqhn" if is_older else "kbcqnh"
    groups = ([r for r in mandatory if r.kind == letter] for letter in letters)
    return [r for turn in zip_longest(*groups) for r in turn if r is not None]

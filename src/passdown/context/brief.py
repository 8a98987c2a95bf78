"""The brief: what the next agent needs to know, within its budget, with the rest one call away.

A brief takes as many steps of a fixed order (see `ranking`) as fit by the given counter. So it is
the same for the same state, never over its budget, and a larger budget shows everything that a
smaller one showed.
"""

from __future__ import annotations

import re
from collections import Counter as Tally
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

from passdown.context.pipeline import beginning
from passdown.context.ranking import Offer, fill_up, order_details, order_steps, rank_items
from passdown.context.rendering import (
    FORMAT_KINDS,
    KIND_NAMES,
    RENDERINGS,
    BriefPage,
    BriefPart,
    Selection,
    brief_page,
    item_part,
    left_out_text,
    task_parts,
)
from passdown.core.brief_facts import shown_letter
from passdown.core.codec import as_document, encode, short_repr
from passdown.core.values import NamedTuple
from passdown.errors import Problem, raise_problems

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence

    from passdown.context.ranking import Focus, RankedItem, Step
    from passdown.core.brief_facts import BriefFacts
    from passdown.core.rows import ItemRow
    from passdown.core.tokens import Counter


TEXT_WORTH = {"title": 8.0, "story": 8.0, "criteria": 16.0, "memory_refs": 8.0, "despite": 16.0}
"""What the task's own texts are worth, beside items; others have less."""

_FRAME: tuple[Step, ...] = (("", "least"), ("", "where"), ("", "head"))
"""What is around the items: the way to everything; the task and its status; the fence."""


class _Draft:
    """A brief under one marker: the order of its steps, and the text that some of them make."""

    def __init__(self, facts: BriefFacts, page: BriefPage, focus: Focus, format: str) -> None:
        self.facts = facts
        self.page = page
        self.items: dict[str, RankedItem] = {}
        self.known: list[Step] = []
        self._focus = focus
        self._format = format
        self._parts: dict[Step, BriefPart] = {}
        self._places: dict[str, int] = {}
        self._rendered: dict[int, list[str]] = {}
        self._totals = dict(Tally(facts.totals) + Tally(facts.elsewhere))
        texts = task_parts(facts, page)
        self._totals["t"] = len(texts)
        # An injection names the task in its heading and has no place for its other texts.
        kept = ("title",) if format == "injection" else tuple(texts)
        self._texts = {name: part for name, part in texts.items() if name in kept}
        self._parts |= {(part.address, "full"): part for part in self._texts.values()}

    def steps(self) -> Iterator[Step]:
        """Every step, in the order in which a growing budget takes them."""
        yield from _FRAME
        texts = [
            Offer((part.address, "full"), len(part.line) // 4 + 1, TEXT_WORTH.get(name, 3.0), "t")
            for name, part in self._texts.items()
        ]
        used = len("".join(self.page.head)) // 4 + 12 + 4 * len(self.facts.totals)
        used = yield from self._filled(self.facts.items, used, texts)
        for rows in self.facts.older():
            used = yield from self._filled(rows, used, are_older=True)

    def _filled(
        self,
        rows: Sequence[ItemRow],
        used: int,
        texts: Sequence[Offer] = (),
        *,
        are_older: bool = False,
    ) -> Generator[Step, None, int]:
        """The steps of some items: what they say in a sentence each, then the rest of it."""
        kinds, facts = FORMAT_KINDS.get(self._format, ""), self.facts
        kept = [row for row in rows if not kinds or _is_passed_on(row, kinds)]
        items = rank_items(
            *(kept, self._focus, facts.row.phase, facts.labelled),
            handoffs=facts.handoffs,
            own=facts.own(kept),
            are_older=are_older,
        )
        for item in items:
            self._places[item.address] = len(self._places)
            self.items[item.address] = item
        first = order_steps(items, texts)
        self.known += [offer.step for offer in first]
        used = yield from fill_up(first, used)
        return (yield from fill_up(order_details(items, texts), used))

    def parts(self, steps: Sequence[Step]) -> list[BriefPart]:
        """What some of the first steps show, each item at its longest, as the steps come."""
        lengths = dict(steps)
        lengths.pop("", None)
        made = self._parts
        unread = [(step, self.items[step[0]].row) for step in lengths.items() if step not in made]
        if unread:
            self.facts.read_ahead([row for _, row in unread])
            for step, row in unread:
                made[step] = item_part(self.facts, self.page, row, step[1])
        return [made[step] for step in lengths.items()]

    def left_out(self, parts: Sequence[BriefPart]) -> dict[str, int]:
        """How many of each kind are not shown."""
        rest = self._totals.copy()
        for part in parts:
            rest[part.letter] = rest.get(part.letter, 0) - 1
        return {letter: rest[letter] for letter in KIND_NAMES if rest.get(letter, 0) > 0}

    def within(
        self, budget: int, counter: Counter
    ) -> tuple[list[Step], list[Step], Iterator[Step]]:
        """The steps that a budget has room for, those that were tried behind them, the others."""
        order = self.steps()
        steps, rest = beginning(order, lambda some: counter.of_lines(self.lines(some)) <= budget)
        return steps, rest, order

    def lines(self, steps: Sequence[Step]) -> list[str]:
        """The lines of the text that some of the first steps make."""
        if not steps:
            return []
        if len(steps) in self._rendered:
            return self._rendered[len(steps)]
        parts = self.parts(steps)
        parts.sort(key=lambda part: self._places.get(part.address, -1))
        level = min(len(steps), len(_FRAME)) - 1
        chosen = Selection(self.page, parts, self.left_out(parts), level)
        found = self._rendered[len(steps)] = RENDERINGS[self._format](chosen)
        return found


def _is_passed_on(row: ItemRow, kinds: str) -> bool:
    """Whether an injection has a place for an item: it passes on what blocks and what is grave."""
    is_minor = (row.letter, row.grade) == ("g", "low")
    is_minor |= row.letter == "q" and row.grade != "blocking"
    return shown_letter(row) in kinds and not is_minor


FORMATS = (*RENDERINGS, "summary")
"""What a brief can be asked for as; the last is made from the task's summary, not here."""

MAX_WAITING = 40
MAX_BUDGET = 1_000_000_000
# Each begins a line, which no stored text can; groups: task, version, marker or digest.
_ORIGINS = (
    r"^(?:# )?(\S+) for \S+, version (\d+) \[(\d+)\]\r?$",
    r"^task: (\S+)\r?\nversion: (\d+)\r?\ndigest: (sha256:[0-9a-f]{64})\r?$",
    r"^\{\"task\": \"(\S+)\", \"version\": (\d+), \"digest\": \"(sha256:[0-9a-f]{64})",
)
_SUMMARY_ORIGIN = r"^()Version: (\d+) \((sha256:[0-9a-f]{64})\)\r?$"


class Freshness(NamedTuple):
    """Whether a text still holds: the version it was made from, and the one that is stored."""

    is_current: bool
    made_from: int
    now: int


class BriefItem(NamedTuple):
    """An item that a brief shows: how long, by whom, and why it was chosen."""

    address: str
    length: str
    author: str
    why: str
    stale: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The item as a plain JSON object, without what is empty."""
        return {name: encode(value) for name, value in self._asdict().items() if value}


class Brief(NamedTuple):
    """What an agent is shown of a task, and an account of it.

    `left_out` counts what isn't shown, by kind; `waiting` are the first of those in the order in
    which a larger budget would show them. `parts` are tokens by part of the text.
    """

    task: str
    agent: str
    version: int
    digest: str
    budget: int
    counter: str
    format: str
    text: str
    tokens: int
    shown: tuple[BriefItem, ...]
    left_out: dict[str, int]
    waiting: tuple[str, ...]
    parts: dict[str, int]
    reach: tuple[str, ...]
    warnings: tuple[Problem, ...] = ()
    marker: str = ""

    to_dict = as_document
    __repr__ = short_repr


def brief(
    facts: BriefFacts,
    agent: str,
    budget: int,
    *,
    counter: Counter,
    focus: Focus,
    format: str,
    with_rest: bool = False,
) -> Brief:
    """The brief of a task for an agent; `with_rest`, all that waits is named.

    Raises InvalidInput for a budget that isn't a whole number from 1, an unknown format, or a
    counter that finds even an empty text too long. A budget that no text fits is a warning.
    """
    problems = request_problems(budget, format, RENDERINGS)
    if not problems and counter.tokens("") > budget:
        message = f"{counter.name} counts {counter.tokens('')} for a text without a character"
        problems.append(Problem("counter", "too_large", message, f"at most {budget}"))
    raise_problems("no brief was made", problems)
    attempt = 0
    while True:
        page = brief_page(facts, agent, attempt)
        draft = _Draft(facts, page, focus, format)
        steps, rest, order = draft.within(budget, counter)
        parts = draft.parts(steps)
        said = (text for part in parts for text in (part.stored, part.author, *part.stale))
        if not any(page.marker in text for text in said):
            break
        attempt += 1
    if with_rest:
        rest += order
    lines, task, left_out = draft.lines(steps), facts.row.task, draft.left_out(parts)
    return Brief(
        task=task,
        agent=agent,
        version=facts.row.version,
        digest=facts.row.digest,
        budget=budget,
        counter=counter.name,
        format=format,
        text="".join(lines),
        tokens=counter.of_lines(lines),
        shown=tuple(
            BriefItem(
                *(part.address, part.length, part.author),
                draft.items[part.address].why(focus) if "#" in part.address else "the task itself",
                *(part.stale, part.hints),
            )
            for part in parts
        ),
        left_out={KIND_NAMES[letter]: count for letter, count in left_out.items()},
        waiting=_waiting([*rest, *draft.known], parts, None if with_rest else MAX_WAITING),
        parts=_tokens_by_part(page, parts, left_out, counter) if _FRAME[-1] in steps else {},
        reach=(
            f"passdown state {task}",
            f"passdown show {task}#d1",
            f"passdown log {task}",
            facts.state_file,
        ),
        warnings=() if lines else (_too_small(draft, budget, counter),),
        marker=page.marker,
    )


def _too_small(draft: _Draft, budget: int, counter: Counter) -> Problem:
    needed = counter.of_lines(draft.lines(_FRAME[:1]))
    message = f"not even the command that prints the state fits into {budget:,} tokens"
    return Problem("budget", "too_small", message, f"at least {needed:,}", "", "warning")


def _waiting(
    steps: Iterable[Step], parts: Sequence[BriefPart], most: int | None
) -> tuple[str, ...]:
    """The first items of the steps that nothing is shown of."""
    shown = {part.address for part in parts}
    found = dict.fromkeys(address for address, _ in steps if "#" in address)
    return tuple(islice((address for address in found if address not in shown), most))


def _tokens_by_part(
    page: BriefPage, parts: Sequence[BriefPart], left_out: Mapping[str, int], counter: Counter
) -> dict[str, int]:
    """The tokens of each section's lines; the whole text is what counts against the budget."""
    lines: dict[str, list[str]] = {"head": [*page.head]}
    for part in parts:
        lines.setdefault(KIND_NAMES[part.letter], []).append(part.line)
    lines["rest"] = [left_out_text(page, left_out)]
    return {name: counter.of_lines(some) for name, some in lines.items()}


def brief_version(text: str) -> tuple[int, str] | None:
    """The version that a brief says it was made from, and its digest or the marker made of that."""
    found = _origin(text, (*_ORIGINS, _SUMMARY_ORIGIN))
    return (int(found[2]), found[3]) if found else None


def task_named_in(text: str) -> str:
    """The task that a brief says it is of; empty where it doesn't say."""
    found = _origin(text, _ORIGINS)
    return found[1] if found else ""


def _origin(text: str, patterns: Iterable[str]) -> re.Match[str] | None:
    matches = (re.search(pattern, text, re.MULTILINE) for pattern in patterns)
    return min(filter(None, matches), key=lambda match: match.start(), default=None)


def request_problems(
    budget: object, format: object, formats: Iterable[str] = FORMATS
) -> list[Problem]:
    """What is wrong with a budget, and with a format that has to be one of some."""
    problems: list[Problem] = []
    is_whole = isinstance(budget, int) and not isinstance(budget, bool)
    if not is_whole or not 1 <= cast("int", budget) <= MAX_BUDGET:
        expected = f"a whole number from 1 to {MAX_BUDGET:,}"
        problems.append(Problem("budget", "out_of_range", f"{str(budget)[:40]!r}", expected))
    if not isinstance(format, str) or format not in formats:
        known = " | ".join(formats)
        problems.append(Problem("format", "invalid_choice", f"{format!r:.40}", known))
    return problems

"""The brief: what the next agent needs to know, within its budget, with the rest one call away.

A brief takes as many steps of a fixed order (see `ranking`) as fit by the given counter. So it
is the
same for the same state, never over its budget, and a larger budget shows everything that a smaller
one showed.
"""

from __future__ import annotations

import re
from itertools import count, islice
from typing import TYPE_CHECKING, Any, cast

from passdown.context.ranking import BriefStep, RankedItem, StepOrder, order_steps, rank_items
from passdown.context.rendering import (
    ALL_KINDS,
    FORMAT_KINDS,
    KIND_NAMES,
    RENDERINGS,
    SECTIONS,
    STRUCTURED,
    BriefPage,
    BriefPart,
    Selection,
    as_injection,
    brief_page,
    footer,
    heading,
    item_part,
    least,
    markdown,
    task_parts,
)
from passdown.core.brief_facts import shown_letter
from passdown.core.values import NamedTuple
from passdown.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from passdown.context.ranking import Focus
    from passdown.context.rendering import Render
    from passdown.core.brief_facts import BriefFacts
    from passdown.core.rows import ItemRow
    from passdown.core.tokens import Counter


if TYPE_CHECKING:
    Rank = Callable[[Sequence[ItemRow], bool], list[RankedItem]]

EARLY = {"title": 240, "story": 320, "criteria": 600}
"""The task's texts that come before what is optional, as long as they aren't longer than this."""

SHORT_TITLE = 100
"""A longer title comes after what is mandatory."""

LEVELS = ("least", "where", "head")
"""What is around the items: the way to everything; the task and its status; the fence."""

_TASK_TEXTS = ("title", "story", "criteria", "description", "inputs", "outputs")


def opening_steps(
    task: Mapping[str, BriefPart],
) -> tuple[list[BriefStep], list[BriefStep], list[BriefStep]]:
    """The steps before all items, before what is optional, and after everything else."""
    steps = {name: BriefStep(task[name].address, "full") for name in _TASK_TEXTS if name in task}
    early = [name for name in steps if len(task[name].line) <= EARLY.get(name, 0)]
    begin = [BriefStep("", level) for level in LEVELS]
    is_short = "title" in early and len(task["title"].line) <= SHORT_TITLE
    begin += [steps["title"]] if is_short else []
    late = sorted(steps.keys() - set(early), key=lambda name: (len(task[name].line), name))
    middle = [steps[name] for name in early if name != "title" or not is_short]
    return begin, middle, [steps[name] for name in late]


class BriefBuilder:
    """What has been taken so far, and the text that it makes."""

    def __init__(
        self,
        facts: BriefFacts,
        page: BriefPage,
        rank: Rank,
        counter: Counter,
        render: Render,
    ) -> None:
        """Begin with nothing; `rank` gives items their worth."""
        self._rank = rank
        self.facts = facts
        self._page = page
        self.counter = counter
        self._render = render
        # Lines add up in markdown alone; another rendering is counted as a whole, at every step.
        self._weigh = counter.weigh if render is markdown else None
        self.items: dict[str, RankedItem] = {}
        self._place: dict[str, int] = {}
        self._level = ""
        self._rest = _totals(facts)
        self._weight = sum(map(self._weigh, page.head)) if self._weigh else 0
        self._headings: dict[str, int] = {}
        texts = task_parts(facts, page)
        # An injection names the task in its heading and has no place for its other texts.
        kept = ("title",) if render is as_injection else texts.keys()
        self.task = {name: part for name, part in texts.items() if name in kept}
        self.parts: dict[str, BriefPart] = {}
        self._made: dict[BriefStep, BriefPart] = {}
        self._rest["t"] = len(texts)
        self._task_texts = {part.address: part for part in self.task.values()}

    def go(self, budget: int) -> list[BriefStep]:
        """Take as many steps as fit; gives the next ones, which didn't."""
        begin, middle, late = opening_steps(self.task)
        found = self._ranked(self.facts.items, are_older=False)
        steps = [*begin, *found.first[: found.must], *middle]
        steps += [*found.first[found.must :], *found.rest]
        late = [*found.large, *late]
        taken = self._take(steps, budget)
        if taken < len(steps):
            return [*steps[taken:], *late]
        pages, size = iter(self.facts.older()), 1
        while batch := list(islice(pages, size)):
            orders = [self._ranked(page, are_older=True) for page in batch]
            steps = [step for found in orders for step in (*found.first, *found.rest)]
            late += [step for found in orders for step in found.large]
            taken = self._take(steps, budget)
            if taken < len(steps):
                return [*steps[taken:], *late]
            # A text that is counted as a whole has to double before it is counted again.
            size = size if self._weigh else size * 2
        return late[self._take(late, budget) :]

    def _ranked(self, rows: Sequence[ItemRow], *, are_older: bool) -> StepOrder:
        items = self._rank(rows, are_older)
        for item in items:
            self._place[item.row.address] = len(self._place)
            self.items[item.row.address] = item
        return order_steps(items)

    def _take(self, steps: Sequence[BriefStep], budget: int) -> int:
        """Take steps as long as the text of each fits; gives how many were taken."""
        if self._weigh is None:
            return self._take_by_halves(steps, budget)
        for index, step in enumerate(steps):
            level, before = self._level, self.parts.get(step.address)
            part = self._do(step)
            if self._tokens() > budget:
                self._level = level
                if part is not None:
                    self._put(part.address, before)
                return index
        return len(steps)

    def _take_by_halves(self, steps: Sequence[BriefStep], budget: int) -> int:
        """The same where each text has to be counted as a whole: with as many steps as were taken
        before, then with twice as many each time, then between what fits and what doesn't.

        Which numbers of steps are tried is the same for every budget up to the first that it
        decides otherwise on, and then the larger one goes on with more: it never shows less.
        """
        level, parts, rest = self._level, dict(self.parts), dict(self._rest)
        taken = fits = 0
        too_many = len(steps) + 1
        while fits + 1 < too_many:
            is_open = too_many > len(steps)
            more = max(fits, len(parts), 1)
            count = min(fits + more, len(steps)) if is_open else (fits + too_many) // 2
            for step in steps[taken:count]:
                self._do(step)
            if self._tokens() <= budget:
                taken = fits = count
                continue
            self._level, self.parts, self._rest = level, dict(parts), dict(rest)
            for step in steps[:fits]:
                self._do(step)
            taken, too_many = fits, count
        return fits

    def _do(self, step: BriefStep) -> BriefPart | None:
        if not step.address:
            self._level = step.length
            return None
        part = self._task_texts.get(step.address) or self._made.get(step)
        if part is None:
            part = item_part(self.facts, self._page, self.items[step.address].row, step.length)
            self._made[step] = part
        self._put(step.address, part)
        return part

    def _put(self, address: str, part: BriefPart | None) -> None:
        """Let a part take the place of the one that was there, or take it away."""
        before = self.parts.pop(address, None)
        if before is not None:
            self._rest[before.letter] += 1
            self._weigh_part(before, -1)
        if part is not None:
            self.parts[address] = part
            self._rest[part.letter] = self._rest.get(part.letter, 0) - 1
            self._weigh_part(part, 1)

    def _weigh_part(self, part: BriefPart, sign: int) -> None:
        if self._weigh is None:
            return
        line = heading(part, self._page)
        used = self._headings[line] = self._headings.get(line, 0) + sign
        self._weight += sign * self._weigh(part.line)
        if used == (1 if sign > 0 else 0):
            self._weight += sign * self._weigh(line)

    def _tokens(self) -> int:
        if self._weigh is None or self._level != "head":
            return self.counter.tokens(self.text())
        last = self._weigh(footer(self._page, self.left_out()))
        return self.counter.total(self._weight + last)

    @property
    def marker(self) -> str:
        """The mark under which this brief names authors."""
        return self._page.marker

    def is_forged(self) -> bool:
        """Whether some stored text holds the marker of this brief."""
        parts = self.parts.values()
        texts = (text for part in parts for text in (part.stored, part.author, *part.stale))
        return any(self._page.marker in text for text in texts)

    def text(self) -> str:
        """The text of what has been taken so far."""
        if not self._level:
            return ""
        if self._level != "head" and self._render in STRUCTURED:
            return STRUCTURED[self._render](self._page)
        if self._level == "least":
            return least(self._page)
        if self._level == "where":
            return "".join(self._page.head[:2]) + footer(self._page, self.left_out())
        return self._render(Selection(self.facts, self._page, self._sorted(), self.left_out()))

    def _sorted(self) -> list[BriefPart]:
        """Parts in the order of the ranking, whatever the order in which they were taken."""
        return sorted(self.parts.values(), key=lambda part: self._place.get(part.address, -1))

    def left_out(self) -> dict[str, int]:
        """How many of each kind are not shown."""
        return {letter: self._rest[letter] for letter in SECTIONS if self._rest.get(letter, 0) > 0}

    def tokens_by_part(self) -> dict[str, int]:
        """The tokens of each section's lines; the whole text is what counts against the budget."""
        count = self.counter.tokens
        if self._level != "head":
            return {"rest": count(self.text())}
        found = {"head": count("".join(self._page.head))}
        lines: dict[str, str] = {}
        for part in self._sorted():
            lines[part.letter] = lines.get(part.letter, "") + part.line
        found |= {
            KIND_NAMES[letter]: count(lines[letter]) for letter in SECTIONS if letter in lines
        }
        return {**found, "rest": count(footer(self._page, self.left_out()))}


def _totals(facts: BriefFacts) -> dict[str, int]:
    totals = dict(facts.totals)
    for letter, number in facts.elsewhere.items():
        totals[letter] = totals.get(letter, 0) + number
    return totals


FORMATS = (*RENDERINGS, "summary")
"""What a brief can be asked for as; the last is made from the task's summary, not here."""

MAX_WAITING = 40
MAX_BUDGET = 1_000_000_000
# Each begins a line, which no stored text can; groups: task, version, beginning of the digest.
_ORIGINS = (
    r"^(?:# )?(\S+) for \S+, version (\d+) \(([0-9a-f]{12})\)\r?$",
    r"^task: (\S+)\r?\nversion: (\d+)\r?\ndigest: sha256:([0-9a-f]{12})[0-9a-f]{52}\r?$",
    r"^\{\"task\": \"(\S+)\", \"version\": (\d+), \"digest\": \"sha256:([0-9a-f]{12})",
)
_SUMMARY_ORIGIN = r"^()Version: (\d+) \(sha256:([0-9a-f]{12})[0-9a-f]{52}\)\r?$"


class BriefItem(NamedTuple):
    """An item that a brief shows: how long, by whom, and why it was chosen."""

    address: str
    length: str
    author: str
    why: str
    stale: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()


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

    def to_dict(self) -> dict[str, Any]:
        """The brief as a plain JSON object."""
        return {
            **self._asdict(),
            "shown": [_plain(item) for item in self.shown],
            "waiting": list(self.waiting),
            "reach": list(self.reach),
            "warnings": [problem._asdict() for problem in self.warnings],
        }


def _plain(item: BriefItem) -> dict[str, Any]:
    fields: dict[str, Any] = item._asdict()
    for name in ("stale", "hints"):
        fields[name] = list(fields[name])
    return {name: value for name, value in fields.items() if value}


def brief(
    facts: BriefFacts, agent: str, budget: int, *, counter: Counter, focus: Focus, format: str
) -> Brief:
    """The brief of a task for an agent.

    Raises InvalidInput for a budget that isn't a whole number from 1, an unknown format, or a
    counter that finds even an empty text too long.
    """
    render = _checked(budget, format, counter)
    letters = FORMAT_KINDS.get(format, ALL_KINDS)

    def rank(rows: Sequence[ItemRow], are_older: bool) -> list[RankedItem]:
        kept = [row for row in rows if shown_letter(row) in letters and _has_place(row, format)]
        return rank_items(kept, focus, facts.row.phase, facts.labelled, are_older=are_older)

    for page in (brief_page(facts, agent, attempt) for attempt in count()):
        walk = BriefBuilder(facts, page, rank, counter, render)
        waiting = walk.go(budget)
        if not walk.is_forged():
            return _finished_brief(walk, waiting, agent=agent, budget=budget, format=format)
    raise AssertionError("markers never end")


def _finished_brief(
    walk: BriefBuilder, waiting: Sequence[BriefStep], *, agent: str, budget: int, format: str
) -> Brief:
    """What a walk came to."""
    facts, counter = walk.facts, walk.counter
    text = walk.text()
    return Brief(
        task=facts.row.task,
        agent=agent,
        version=facts.row.version,
        digest=facts.row.digest,
        budget=budget,
        counter=counter.name,
        format=format,
        text=text,
        tokens=counter.tokens(text),
        shown=_shown(walk),
        left_out={KIND_NAMES[letter]: count for letter, count in walk.left_out().items()},
        waiting=_waiting(waiting, walk.parts),
        parts=walk.tokens_by_part(),
        reach=_reach(facts),
        marker=walk.marker,
    )


def brief_version(text: str) -> tuple[int, str] | None:
    """The version and the beginning of the digest that a brief says it was made from."""
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


def _has_place(row: ItemRow, format: str) -> bool:
    """An injection passes on what blocks and what is grave; every other format has room for all."""
    if format != "injection":
        return True
    return not (row.letter == "q" and row.grade != "blocking") and not (
        row.letter == "g" and row.grade == "low"
    )


def _checked(budget: int, format: str, counter: Counter) -> Render:
    problems = request_problems(budget, format, RENDERINGS)
    if not problems and counter.tokens("") > budget:
        message = f"{counter.name} counts {counter.tokens('')} for a text without a character"
        problems.append(Problem("counter", "too_large", message, f"at most {budget}"))
    if problems:
        raise InvalidInput("no brief was made", problems)
    return RENDERINGS[format]


def _shown(walk: BriefBuilder) -> tuple[BriefItem, ...]:
    why = {address: item.why for address, item in walk.items.items()}
    return tuple(
        BriefItem(
            part.address,
            part.length,
            part.author,
            why.get(part.address, "the task itself"),
            part.stale,
            part.hints,
        )
        for part in walk.parts.values()
    )


def _waiting(steps: Sequence[BriefStep], parts: Mapping[str, BriefPart]) -> tuple[str, ...]:
    found = dict.fromkeys(
        step.address for step in steps if step.address and step.address not in parts
    )
    return tuple(address for address in found if "#" in address)[:MAX_WAITING]


def _reach(facts: BriefFacts) -> tuple[str, ...]:
    task = facts.row.task
    return (
        f"passdown state {task}",
        f"passdown show {task}#d1",
        f"passdown log {task}",
        facts.state_file,
    )

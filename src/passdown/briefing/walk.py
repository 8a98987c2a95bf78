"""The walk along the order of a brief: step by step, as long as the text that each gives fits.

Where lines add up, each step is weighed. Where only whole texts can be counted, few of them are.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from passdown.briefing.layout import (
    SECTIONS,
    Page,
    Part,
    footer,
    heading,
    least,
    part_of,
    task_parts,
)
from passdown.briefing.ranking import Order, Ranked, Step, order
from passdown.briefing.renderings import STRUCTURED, WORDS, injection, markdown

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from passdown.briefing.renderings import Render
    from passdown.model.facts import Facts
    from passdown.model.rows import ItemRow
    from passdown.model.tokens import Counter

    Rank = Callable[[Sequence[ItemRow], bool], list[Ranked]]

EARLY = {"title": 240, "story": 320, "criteria": 600}
"""The task's texts that come before what is optional, as long as they aren't longer than this."""

SHORT_TITLE = 100
"""A longer title comes after what must be told."""

LEVELS = ("least", "where", "head")
"""What stands around the items: the way to everything; the task and how it stands; the fence."""

_TASK_TEXTS = ("title", "story", "criteria", "description", "inputs", "outputs")


def begin_of(task: Mapping[str, Part]) -> tuple[list[Step], list[Step], list[Step]]:
    """The steps before all items, before what is optional, and after everything else."""
    steps = {name: Step(task[name].address, "full") for name in _TASK_TEXTS if name in task}
    early = [name for name in steps if len(task[name].line) <= EARLY.get(name, 0)]
    begin = [Step("", level) for level in LEVELS]
    is_short = "title" in early and len(task["title"].line) <= SHORT_TITLE
    begin += [steps["title"]] if is_short else []
    late = sorted(steps.keys() - set(early), key=lambda name: (len(task[name].line), name))
    middle = [steps[name] for name in early if name != "title" or not is_short]
    return begin, middle, [steps[name] for name in late]


class Walk:
    """What has been taken so far, and the text that it makes."""

    def __init__(
        self,
        facts: Facts,
        page: Page,
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
        self.items: dict[str, Ranked] = {}
        self._place: dict[str, int] = {}
        self._level = ""
        self._rest = _totals(facts)
        self._weight = sum(map(self._weigh, page.head)) if self._weigh else 0
        self._headings: dict[str, int] = {}
        texts = task_parts(facts, page)
        # An injection names the task in its heading and has no place for its other texts.
        kept = ("title",) if render is injection else texts.keys()
        self.task = {name: part for name, part in texts.items() if name in kept}
        self.parts: dict[str, Part] = {}
        self._made: dict[Step, Part] = {}
        self._rest["t"] = len(texts)
        self._task_texts = {part.address: part for part in self.task.values()}

    def go(self, budget: int) -> list[Step]:
        """Take as many steps as fit; gives the next ones, which didn't."""
        begin, middle, late = begin_of(self.task)
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

    def _ranked(self, rows: Sequence[ItemRow], *, are_older: bool) -> Order:
        items = self._rank(rows, are_older)
        for item in items:
            self._place[item.row.address] = len(self._place)
            self.items[item.row.address] = item
        return order(items)

    def _take(self, steps: Sequence[Step], budget: int) -> int:
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

    def _take_by_halves(self, steps: Sequence[Step], budget: int) -> int:
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

    def _do(self, step: Step) -> Part | None:
        if not step.address:
            self._level = step.length
            return None
        part = self._task_texts.get(step.address) or self._made.get(step)
        if part is None:
            part = part_of(self.facts, self._page, self.items[step.address].row, step.length)
            self._made[step] = part
        self._put(step.address, part)
        return part

    def _put(self, address: str, part: Part | None) -> None:
        """Let a part take the place of the one that was there, or take it away."""
        before = self.parts.pop(address, None)
        if before is not None:
            self._rest[before.letter] += 1
            self._weigh_part(before, -1)
        if part is not None:
            self.parts[address] = part
            self._rest[part.letter] = self._rest.get(part.letter, 0) - 1
            self._weigh_part(part, 1)

    def _weigh_part(self, part: Part, sign: int) -> None:
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
        return self._render(self.facts, self._page, self._sorted(), self.left_out())

    def _sorted(self) -> list[Part]:
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
        found |= {WORDS[letter]: count(lines[letter]) for letter in SECTIONS if letter in lines}
        return {**found, "rest": count(footer(self._page, self.left_out()))}


def _totals(facts: Facts) -> dict[str, int]:
    totals = dict(facts.totals)
    for letter, count in facts.elsewhere.items():
        totals[letter] = totals.get(letter, 0) + count
    return totals

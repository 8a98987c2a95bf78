"""The brief: what the next agent needs to know, within its budget, with the rest one call away.

A brief takes as many steps of a fixed order (see `ranking`) as fit by the given counter. So it is
the same for the same state, never over its budget, and a larger budget shows everything that a
smaller one showed.
"""

from __future__ import annotations

import re
from collections import Counter as Tally
from collections.abc import Generator, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, cast

from passdown.context import ranking, rendering
from passdown.context.pipeline import beginning
from passdown.core.calls import call_text
from passdown.core.codec import as_document, encode, short_repr
from passdown.core.rows import BriefFacts, ItemRow, shown_letter
from passdown.core.tokens import Counter
from passdown.core.values import NamedTuple
from passdown.errors import InvalidInput, Problem

TEXT_WORTH = {"title": 8.0, "story": 8.0, "criteria": 16.0, "memory_refs": 8.0, "despite": 16.0}
"""What the task's own texts are worth, beside items; others have less."""

_FRAME: tuple[ranking.Step, ...] = (("", "least"), ("", "where"), ("", "head"))
"""What is around the items: the way to everything; the task and its status; the fence."""


class _Draft:
    """A brief under one marker: the order of its steps, and the text that some of them make."""

    def __init__(
        self, facts: BriefFacts, page: rendering.BriefPage, focus: ranking.Focus, format: str
    ) -> None:
        self.facts = facts
        self.page = page
        self.items: dict[str, ranking.RankedItem] = {}
        self.known: list[ranking.Step] = []
        self._focus = focus
        self._format = format
        self._parts: dict[ranking.Step, rendering.BriefPart] = {}
        self._places: dict[str, int] = {}
        self._rendered: dict[int, list[str]] = {}
        self._totals = dict(Tally(facts.totals) + Tally(facts.elsewhere))
        texts = rendering.task_parts(page)
        self._totals["t"] = len(texts)
        # An injection names the task in its heading and has no place for its other texts.
        kept = ("title",) if format == "injection" else tuple(texts)
        self._texts = {name: part for name, part in texts.items() if name in kept}
        self._parts |= {(part.address, "full"): part for part in self._texts.values()}

    def steps(self) -> Iterator[ranking.Step]:
        """Every step, in the order in which a growing budget takes them."""
        yield from _FRAME
        texts = [
            ranking.Offer(
                (part.address, "full"), len(part.line) // 4 + 1, TEXT_WORTH.get(name, 3.0), "t"
            )
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
        texts: Sequence[ranking.Offer] = (),
        *,
        are_older: bool = False,
    ) -> Generator[ranking.Step, None, int]:
        """The steps of some items: what they say in a sentence each, then the rest of it."""
        kinds, facts = rendering.FORMAT_KINDS.get(self._format, ""), self.facts
        kept = [row for row in rows if not kinds or _is_passed_on(row, kinds)]
        items = ranking.rank_items(
            *(kept, self._focus, facts.row.phase, facts.labelled),
            handoffs=facts.handoffs,
            own=facts.own(kept),
            are_older=are_older,
        )
        for item in items:
            self._places[item.address] = len(self._places)
            self.items[item.address] = item
        first = ranking.order_steps(items, texts)
        self.known += [offer.step for offer in first]
        used = yield from ranking.fill_up(first, used)
        return (yield from ranking.fill_up(ranking.order_details(items, texts), used))

    def parts(self, steps: Sequence[ranking.Step]) -> list[rendering.BriefPart]:
        """What some of the first steps show, each item at its longest, as the steps come."""
        lengths = dict(steps)
        lengths.pop("", None)
        made = self._parts
        unread = [(step, self.items[step[0]].row) for step in lengths.items() if step not in made]
        if unread:
            self.facts.read_ahead([row for _, row in unread])
            for step, row in unread:
                made[step] = rendering.item_part(self.page, row, step[1])
        return [made[step] for step in lengths.items()]

    def left_out(self, parts: Sequence[rendering.BriefPart]) -> dict[str, int]:
        """How many of each kind are not shown."""
        rest = self._totals.copy()
        for part in parts:
            rest[part.letter] = rest.get(part.letter, 0) - 1
        return {letter: rest[letter] for letter in rendering.KIND_NAMES if rest.get(letter, 0) > 0}

    def page_of(self, steps: Sequence[ranking.Step]) -> rendering.BriefPage:
        """The page that shows what these steps add; they are the first of all steps."""
        parts = self.parts(steps)
        parts.sort(key=lambda part: self._places.get(part.address, -1))
        level = min(len(steps), len(_FRAME)) - 1
        return self.page._replace(parts=parts, left_out=self.left_out(parts), level=level)

    def lines(self, steps: Sequence[ranking.Step]) -> list[str]:
        """The lines of the text that some of the first steps make."""
        if not steps:
            return []
        if len(steps) not in self._rendered:
            render = rendering.RENDERINGS[self._format]
            self._rendered[len(steps)] = render(self.page_of(steps))
        return self._rendered[len(steps)]


def _is_passed_on(row: ItemRow, kinds: str) -> bool:
    """Whether an injection has a place for an item: it passes on what blocks and what is grave."""
    is_minor = (row.letter, row.grade) == ("g", "low")
    is_minor |= row.letter == "q" and row.grade != "blocking"
    return shown_letter(row) in kinds and not is_minor


FORMATS = (*rendering.RENDERINGS, "summary")
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
    focus: ranking.Focus,
    format: str,
    with_rest: bool = False,
) -> Brief:
    """The brief of a task for an agent; `with_rest`, all that waits is named.

    Budget and format are checked (`request_problems`). Raises InvalidInput for a counter that finds
    even an empty text too long. A budget that no text fits is a warning.
    """
    if counter.tokens("") > budget:
        message = f"{counter.name} counts {counter.tokens('')} for a text without a character"
        problem = Problem("counter", "too_large", message, f"at most {budget}")
        raise InvalidInput("no brief was made", [problem])
    attempt = 0
    while True:
        page = rendering.brief_page(facts, agent, attempt)
        draft = _Draft(facts, page, focus, format)
        order = draft.steps()
        steps, rest = beginning(
            order, lambda some, of=draft.lines: counter.of_lines(of(some)) <= budget
        )
        parts = draft.parts(steps)
        said = (text for part in parts for text in (part.stored, part.author, *part.stale))
        if not any(page.marker in text for text in said):
            break
        attempt += 1
    if with_rest:
        rest += order
    lines, task, page = draft.lines(steps), facts.row.task, draft.page_of(steps)
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
        left_out={rendering.KIND_NAMES[kind]: count for kind, count in page.left_out.items()},
        waiting=_waiting([*rest, *draft.known], parts, None if with_rest else MAX_WAITING),
        parts=_tokens_by_part(page, parts, counter) if _FRAME[-1] in steps else {},
        reach=tuple(call_text(facts.names, what, task) for what in ("state", "show", "log")),
        warnings=() if lines else (_too_small(draft, budget, counter),),
        marker=page.marker,
    )


def _too_small(draft: _Draft, budget: int, counter: Counter) -> Problem:
    needed = counter.of_lines(draft.lines(_FRAME[:1]))
    message = f"not even the command that prints the state fits into {budget:,} tokens"
    return Problem("budget", "too_small", message, f"at least {needed:,}", "", "warning")


def _waiting(
    steps: Iterable[ranking.Step], parts: Sequence[rendering.BriefPart], most: int | None
) -> tuple[str, ...]:
    """The addresses of the first items and texts that aren't shown at all, in order of steps."""
    shown = {part.address for part in parts}
    found = dict.fromkeys(address for address, _ in steps if address)
    return tuple(islice((address for address in found if address not in shown), most))


def _tokens_by_part(
    page: rendering.BriefPage, parts: Sequence[rendering.BriefPart], counter: Counter
) -> dict[str, int]:
    """The tokens of each section's lines; the whole text is what counts against the budget."""
    lines: dict[str, list[str]] = {"head": [*page.head]}
    for part in parts:
        lines.setdefault(rendering.KIND_NAMES[part.letter], []).append(part.line)
    lines["rest"] = [rendering.left_out_text(page)]
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


def request_problems(budget: object, format: object) -> list[Problem]:
    """What is wrong with a budget and a format."""
    problems: list[Problem] = []
    is_whole = isinstance(budget, int) and not isinstance(budget, bool)
    if not is_whole or not 1 <= cast("int", budget) <= MAX_BUDGET:
        expected = f"a whole number from 1 to {MAX_BUDGET:,}"
        problems.append(Problem("budget", "out_of_range", f"{str(budget)[:40]!r}", expected))
    if not isinstance(format, str) or format not in FORMATS:
        known = " | ".join(FORMATS)
        problems.append(Problem("format", "invalid_choice", f"{format!r:.40}", known))
    return problems

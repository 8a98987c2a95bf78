"""The brief: what the next agent needs to know, within its budget, with the rest one step away.

A brief takes as many steps of a fixed order (see `ranking`) as fit, counted by whatever counter is
given. So it is the same for the same state, is never over its budget, and shows with a larger
budget everything that it showed with a smaller one.
"""

from __future__ import annotations

import re
from itertools import count
from typing import TYPE_CHECKING, Any, cast

from passdown.briefing.layout import page_of
from passdown.briefing.ranking import ranked
from passdown.briefing.renderings import ALL, LETTERS, RENDERINGS, WORDS
from passdown.briefing.walk import Walk
from passdown.errors import InvalidInput, Problem
from passdown.model.facts import told_as
from passdown.model.values import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from passdown.briefing.focus import Focus
    from passdown.briefing.layout import Part
    from passdown.briefing.ranking import Ranked, Step
    from passdown.briefing.renderings import Render
    from passdown.model.facts import Facts
    from passdown.model.rows import ItemRow
    from passdown.model.tokens import Counter

FORMATS = (*RENDERINGS, "summary")
"""What a brief can be asked for as; the last is made from the task's summary, not here."""

MAX_WAITING = 40
MAX_BUDGET = 1_000_000_000
# Each stands where no stored text can: at the beginning of a line.
_VERSIONS = (
    r"^(?:# )?\S+ for \S+, version (\d+) \(([0-9a-f]{12})\)\r?$",
    r"^version: (\d+)\r?\ndigest: sha256:([0-9a-f]{12})[0-9a-f]{52}\r?$",
    r"^\{\"task\": \"\S+\", \"version\": (\d+), \"digest\": \"sha256:([0-9a-f]{12})",
    r"^Version: (\d+) \(sha256:([0-9a-f]{12})[0-9a-f]{52}\)\r?$",
)
_TASKS = (
    r"^(?:# )?(\S+) for \S+, version \d+ \([0-9a-f]{12}\)\r?$",
    r"^task: (\S+)\r?\nversion: \d+\r?\ndigest: sha256:",
    r"^\{\"task\": \"(\S+)\", \"version\": \d+, \"digest\": \"sha256:",
)


class Shown(NamedTuple):
    """An item that a brief shows: how long, by whom, and why it was chosen."""

    address: str
    length: str
    author: str
    why: str
    stale: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()


class Brief(NamedTuple):
    """What an agent is told of a task, and an account of it.

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
    shown: tuple[Shown, ...]
    left_out: dict[str, int]
    waiting: tuple[str, ...]
    parts: dict[str, int]
    reach: tuple[str, ...]
    warnings: tuple[Problem, ...] = ()
    marker: str = ""

    def document(self) -> dict[str, Any]:
        """The brief as plain JSON."""
        return {
            **self._asdict(),
            "shown": [_plain(item) for item in self.shown],
            "waiting": list(self.waiting),
            "reach": list(self.reach),
            "warnings": [problem._asdict() for problem in self.warnings],
        }


def _plain(item: Shown) -> dict[str, Any]:
    fields: dict[str, Any] = item._asdict()
    for name in ("stale", "hints"):
        fields[name] = list(fields[name])
    return {name: value for name, value in fields.items() if value}


def brief(
    facts: Facts, agent: str, budget: int, *, counter: Counter, focus: Focus, format: str
) -> Brief:
    """The brief of a task for an agent.

    Raises InvalidInput for a budget that isn't a whole number from 1, an unknown format, or a
    counter that finds even an empty text too long.
    """
    render = _checked(budget, format, counter)
    letters = LETTERS.get(format, ALL)

    def rank(rows: Sequence[ItemRow], are_older: bool) -> list[Ranked]:
        kept = [row for row in rows if told_as(row) in letters and _has_place(row, format)]
        return ranked(kept, focus, facts.row.phase, facts.labelled, are_older=are_older)

    for page in (page_of(facts, agent, attempt) for attempt in count()):
        walk = Walk(facts, page, rank, counter, render)
        waiting = walk.go(budget)
        if not walk.is_forged():
            return _account(walk, waiting, agent=agent, budget=budget, format=format)
    raise AssertionError("markers never end")


def _account(walk: Walk, waiting: Sequence[Step], *, agent: str, budget: int, format: str) -> Brief:
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
        left_out={WORDS[letter]: count for letter, count in walk.left_out().items()},
        waiting=_waiting(waiting, walk.parts),
        parts=walk.tokens_by_part(),
        reach=_reach(facts),
        marker=walk.marker,
    )


def made_from(text: str) -> tuple[int, str] | None:
    """The version and the beginning of the digest that a brief says it was made from."""
    matches = (re.search(pattern, text, re.MULTILINE) for pattern in _VERSIONS)
    found = min(filter(None, matches), key=lambda match: match.start(), default=None)
    return (int(found[1]), found[2]) if found else None


def ask_problems(budget: object, format: object, formats: Iterable[str] = FORMATS) -> list[Problem]:
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


def task_named_in(text: str) -> str:
    """The task that a brief says it is of; empty where it doesn't say."""
    matches = (re.search(pattern, text, re.MULTILINE) for pattern in _TASKS)
    found = min(filter(None, matches), key=lambda match: match.start(), default=None)
    return found[1] if found else ""


def _has_place(row: ItemRow, format: str) -> bool:
    """An injection passes on what blocks and what is grave; every other format has room for all."""
    if format != "injection":
        return True
    return not (row.letter == "q" and row.grade != "blocking") and not (
        row.letter == "g" and row.grade == "low"
    )


def _checked(budget: int, format: str, counter: Counter) -> Render:
    problems = ask_problems(budget, format, RENDERINGS)
    if not problems and counter.tokens("") > budget:
        message = f"{counter.name} counts {counter.tokens('')} for a text without a character"
        problems.append(Problem("counter", "too_large", message, f"at most {budget}"))
    if problems:
        raise InvalidInput("no brief was made", problems)
    return RENDERINGS[format]


def _shown(walk: Walk) -> tuple[Shown, ...]:
    why = {address: item.why for address, item in walk.items.items()}
    return tuple(
        Shown(
            part.address,
            part.length,
            part.author,
            why.get(part.address, "the task itself"),
            part.stale,
            part.hints,
        )
        for part in walk.parts.values()
    )


def _waiting(steps: Sequence[Step], parts: Mapping[str, Part]) -> tuple[str, ...]:
    found = dict.fromkeys(
        step.address for step in steps if step.address and step.address not in parts
    )
    return tuple(address for address in found if "#" in address)[:MAX_WAITING]


def _reach(facts: Facts) -> tuple[str, ...]:
    task = facts.row.task
    return (
        f"passdown state {task}",
        f"passdown show {task}#d1",
        f"passdown log {task}",
        facts.state_file,
    )

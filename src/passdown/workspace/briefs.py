"""Briefs: made, cached for a second, and their deliveries recorded.

A cached brief is given again only while the task is at the version that it was made from, and for a
second at most, since it also describes files on disk and other tasks. Every delivery is recorded
before the brief is given.
"""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from passdown.context.brief import (
    Brief,
    Freshness,
    brief_version,
    request_problems,
    task_named_in,
)
from passdown.context.brief import brief as make_brief
from passdown.context.ranking import focus_of
from passdown.context.rendering import is_marker_of
from passdown.core.kinds import deliveries_of, origins_of, stream_of
from passdown.core.names import agent_problems
from passdown.core.tokens import CounterLike, counter_of
from passdown.core.types import NEWEST
from passdown.errors import InvalidInput, PassdownError, Problem, raise_problems
from passdown.history.facts import HANDOFFS, FactQuery, facts_of, task_with_open_items
from passdown.ledger.channel import CHANNEL_FIELD
from passdown.ledger.writer import StreamEntry
from passdown.workspace.context import Context
from passdown.workspace.files import is_served

if TYPE_CHECKING:
    from collections.abc import Callable

    from passdown.core.tokens import Counter
    from passdown.core.types import JsonObject
    from passdown.store.statements import Reader


def brief(
    context: Context,
    task: str,
    *,
    agent: str,
    budget: int | None = None,
    counter: CounterLike = None,
    format: str = "markdown",
    tags: Sequence[str] = (),
    record: bool = True,
) -> Brief:
    """What an agent needs to know of a task, within a token budget.

    Args:
        task: The task.
        agent: Who is to read it.
        budget: The most tokens that it may take; by default as in the settings.
        counter: How tokens are counted: a name, or a function from text to a number.
        format: markdown, plain, yaml, json, summary or injection.
        tags: Labels that the brief looks for besides those of the task.
        record: Whether the delivery is recorded.
    """
    return brief_for(
        context, task, agent, budget, counter=counter, format=format, tags=tags, record=record
    )


def brief_for(
    context: Context,
    task: str,
    agent: str,
    budget: int | None = None,
    *,
    counter: CounterLike = None,
    format: str = "markdown",
    tags: Sequence[str] = (),
    record: bool = True,
    needs: Mapping[str, list[str]] | None = None,
    with_rest: bool = False,
) -> Brief:
    """The brief of a task for an agent with these needs, or with those that it declares."""
    budget = context.settings.brief_budget if budget is None else budget
    problems = [*agent_problems(agent, "agent"), *request_problems(budget, format)]
    if isinstance(tags, str):
        problems.append(Problem("tags", "wrong_type", "a text given", "a list of tags"))
    try:
        by = counter_of(counter, context.settings.counter)
    except InvalidInput as error:
        raise InvalidInput("no brief was made", [*problems, *error.problems]) from None
    raise_problems("no brief was made", problems)
    with context.store.reading() as reader:
        if format == "summary":
            found = _summary(context, reader, task, agent, budget=budget, counter=by)
        else:
            row, open_items = task_with_open_items(reader, task)
            handoffs = reader.titles_before(task, "h", NEWEST, HANDOFFS)
            summary = next((handoff.title for handoff in handoffs if handoff.title), "")
            focus = focus_of(row, open_items, needs or context.needs_of(agent), tags, summary)
            facts = facts_of(
                reader,
                row,
                open_items,
                handoffs,
                FactQuery(agent, focus.labels, focus.related),
                project=context.project,
                state_file=context.state_location(task, row),
            )
            found = make_brief(
                *(facts, agent, budget),
                counter=by,
                focus=focus,
                format=format,
                with_rest=with_rest,
            )
        found = _with_origin(context, reader, found)
    if is_served() and any(item.stale for item in found.shown):
        message = "what is marked as changed has changed in the server's checkout since"
        fix = "artifacts(task) of a workspace in Python compares with the files here"
        whose = Problem("files", "files_of_server", message, "", fix, "warning")
        found = found._replace(warnings=(*found.warnings, whose))
    return _recorded(context, found) if record else found


def left_out(
    context: Context,
    task: str,
    *,
    agent: str,
    budget: int | None = None,
    counter: CounterLike = None,
    tags: Sequence[str] = (),
) -> list[str]:
    """The addresses of all items that a brief doesn't show, in the order in which a larger budget
    would show them; `show` gives each.

    Args:
        task: The task.
        agent: Who would read the brief.
        budget: The most tokens that it may take; by default as in the settings.
        counter: How tokens are counted: a name, or a function from text to a number.
        tags: Labels that the brief looks for besides those of the task.
    """
    found = brief_for(
        context, task, agent, budget, counter=counter, tags=tags, record=False, with_rest=True
    )
    return list(found.waiting)


def _with_origin(context: Context, reader: Reader, found: Brief) -> Brief:
    """The brief with a warning where the task was imported and was at another commit."""
    if reader.head(origins_of(found.task)) is None:
        return found
    from passdown.workspace.maintenance import origin_warnings

    warnings = origin_warnings(context, reader, found.task, found.version)
    return found._replace(warnings=(*found.warnings, *warnings))


def _summary(
    context: Context, reader: Reader, task: str, agent: str, *, budget: int, counter: Counter
) -> Brief:
    """The task's summary as a brief: a few fixed lines and the file for everything else."""
    from passdown.workspace.queries import summary_from

    row, open_items = task_with_open_items(reader, task)
    text = summary_from(context, reader, row, budget, counter)
    live = {k: v for k, v in row.header["live"].items() if v}
    return Brief(
        task=task,
        agent=agent,
        version=row.version,
        digest=row.digest,
        budget=budget,
        counter=counter.name,
        format="summary",
        text=text,
        tokens=counter.tokens(text),
        shown=(),
        left_out=_by_word(live),
        waiting=tuple(item.address for item in open_items[:40]),
        parts={"summary": counter.tokens(text)},
        reach=(f"passdown state {task}", context.state_location(task, row)),
    )


def _by_word(live: dict[str, int]) -> dict[str, int]:
    from passdown.context.rendering import KIND_NAMES

    return {KIND_NAMES[letter]: count for letter, count in live.items()}


def _recorded(context: Context, found: Brief) -> Brief:
    """Record a delivery. An agent gets its brief even where that can't be written down."""
    body = delivery_of(found)
    try:
        context.ledger.deliver(found.task, "briefed", found.agent, body)
    except PassdownError as error:
        message = f"that this brief was delivered could not be recorded: {error.message}"
        warning = Problem("", "not_recorded", message, "", error.next_step, "warning")
        return found._replace(warnings=(*found.warnings, warning))
    return found


def delivery_of(found: Brief) -> JsonObject:
    """What is written down of a brief: to whom, from what, which items, and what waited."""
    return {
        "agent": found.agent,
        "version": found.version,
        "digest": found.digest,
        "budget": found.budget,
        "counter": found.counter,
        "format": found.format,
        "tokens": found.tokens,
        "shown": {item.address: item.length for item in found.shown},
        "left_out": found.left_out,
        "waiting": list(found.waiting),
    }


CACHED_S = 1.0
_MOST_KEPT = 2_000
_MOST_CHARACTERS = 20_000_000


class BriefRequest(NamedTuple):
    """One brief that is asked for; two equal ones may be answered with the same."""

    task: str
    agent: str
    budget: int | None = None
    counter: str | None = None
    format: str = "markdown"
    tags: tuple[str, ...] = ()


class BriefCall(NamedTuple):
    """Someone who waits for a brief; without `is_told` no delivery is recorded. `via` is the
    channel that is recorded with the delivery.
    """

    ask: BriefRequest
    is_told: bool = True
    via: str = ""


class _CachedBrief(NamedTuple):
    brief: Brief
    digest: str
    at: float


class BriefCache:
    """Briefs that were made a moment ago, of one workspace. Threads may share it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._start = os.urandom(12).hex()
        self._numbers = count(1)
        self._lock = threading.Lock()
        self._made: OrderedDict[BriefRequest, _CachedBrief] = OrderedDict()
        self._characters = 0

    def keep(self, ask: BriefRequest, brief: Brief) -> None:
        """Remember a brief that was just made."""
        with self._lock:
            before = self._made.pop(ask, None)
            self._made[ask] = _CachedBrief(brief, brief.digest, self._clock())
            self._characters += len(brief.text) - (len(before.brief.text) if before else 0)
            while len(self._made) > 1 and (
                len(self._made) > _MOST_KEPT or self._characters > _MOST_CHARACTERS
            ):
                self._characters -= len(self._made.popitem(last=False)[1].brief.text)

    def cached_briefs(self, context: Context, asks: Sequence[BriefCall]) -> list[Brief | None]:
        """A brief for each that was made already and still holds, its delivery recorded; None for
        one that has to be made. All deliveries are one transaction: all of them, or an error.
        """
        due = self._clock() - CACHED_S
        made = [self._made.get(waiting.ask) for waiting in asks]
        fresh = [one if one is not None and one.at >= due else None for one in made]
        streams = {stream_of(one.brief.task) for one in fresh if one is not None}
        if not streams:
            return [None] * len(asks)
        with context.store.reading() as reader:
            heads = {stream: reader.head(stream) for stream in streams}
        now = {stream: head.digest if head else "" for stream, head in heads.items()}
        found = [
            one.brief if one is not None and now[stream_of(one.brief.task)] == one.digest else None
            for one in fresh
        ]
        told = [
            self._delivery(brief, waiting.via)
            for waiting, brief in zip(asks, found, strict=True)
            if brief is not None and waiting.is_told
        ]
        if told:
            context.ledger.add_entries(told)
        return found

    def _delivery(self, brief: Brief, via: str) -> StreamEntry:
        """A delivery with a key of its own, without asking the system for chance each time. Each
        may have come through another channel, so it is named here and not around the write.
        """
        body = {**delivery_of(brief), **({CHANNEL_FIELD: via} if via else {})}
        key = f"{self._start}-{next(self._numbers)}"
        return StreamEntry(deliveries_of(brief.task), "briefed", brief.agent, body, key)


def check_text(context: Context, task: str, text: str) -> Freshness:
    """Whether a brief or a summary was made from the version of the task that is stored now.

    Args:
        task: The task.
        text: The brief or the summary.
    """
    found = brief_version(text)
    if found is None:
        problem = Problem("text", "no_version", "names no version", "a line with its version")
        raise InvalidInput("the text can't be judged", [problem])
    named = task_named_in(text)
    if named and named != task:
        problem = Problem("text", "other_task", f"is of {named}", f"a brief of {task}")
        raise InvalidInput("the text can't be judged", [problem])
    with context.store.reading() as reader:
        row = reader.existing_task(task)
    version, proof = found
    is_same = proof == row.digest or is_marker_of(proof, row.digest)
    return Freshness(is_same and version == row.version, version, row.version)

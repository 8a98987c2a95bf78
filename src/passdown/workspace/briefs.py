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
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from passdown.context.brief import Brief, brief, brief_version, request_problems, task_named_in
from passdown.context.ranking import focus_of
from passdown.core.kinds import deliveries_of, origins_of, stream_of
from passdown.core.names import agent_problems
from passdown.core.tokens import counter_of
from passdown.errors import InvalidInput, PassdownError, Problem, unknown_task
from passdown.history.facts import FactQuery, facts_of, task_with_open_items
from passdown.ledger.channel import CHANNEL_FIELD
from passdown.ledger.writer import StreamEntry

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from passdown.context.summary import Freshness
    from passdown.core.rows import TaskRow
    from passdown.core.tokens import Counter
    from passdown.core.types import JsonObject
    from passdown.store.statements import Reader
    from passdown.workspace.context import Context, WorkspaceBase
    from passdown.workspace.types import CounterLike


def brief_for(
    opened: Context,
    task: str,
    agent: str,
    budget: int | None,
    *,
    counter: CounterLike = None,
    format: str = "markdown",
    tags: Sequence[str] = (),
    record: bool = True,
    needs: dict[str, list[str]] | None = None,
) -> Brief:
    """The brief of a task for an agent; that it was delivered is recorded beside the task."""
    budget = opened.settings.brief_budget if budget is None else budget
    problems = [*agent_problems(agent, "agent"), *request_problems(budget, format)]
    if isinstance(tags, str):
        problems.append(Problem("tags", "wrong_type", "a text given", "a list of tags"))
    try:
        by = counter_of(counter, opened.settings.counter)
    except InvalidInput as error:
        raise InvalidInput("no brief was made", [*problems, *error.problems]) from None
    if problems:
        raise InvalidInput("no brief was made", problems)
    with opened.store.reading() as reader:
        if format == "summary":
            found = _summary(opened, reader, task, agent, budget=budget, counter=by)
        else:
            row, open_items = task_with_open_items(reader, task)
            focus = focus_of(row, open_items, needs or opened.needs_of(agent), tags)
            facts = facts_of(
                reader,
                row,
                open_items,
                FactQuery(focus.labels, focus.concerns),
                project=opened.project,
                state_file=opened.state_location(task),
            )
            found = brief(facts, agent, budget, counter=by, focus=focus, format=format)
        found = _with_origin(opened, reader, found)
    return _recorded(opened, found) if record else found


def _with_origin(opened: Context, reader: Reader, found: Brief) -> Brief:
    """The brief with a warning where the task came from another machine and stood elsewhere."""
    if reader.head(origins_of(found.task)) is None:
        return found
    from passdown.workspace.maintenance import origin_warnings

    warnings = origin_warnings(opened, reader, found.task, found.version)
    return found._replace(warnings=(*found.warnings, *warnings))


def _summary(
    opened: Context, reader: Reader, task: str, agent: str, *, budget: int, counter: Counter
) -> Brief:
    """The task's summary as a brief: a few fixed lines and the file for everything else."""
    from passdown.workspace.queries import summary_from

    row, open_items = task_with_open_items(reader, task)
    text = summary_from(opened, reader, row, budget, counter)
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
        reach=(f"passdown state {task}", opened.state_location(task)),
    )


def _by_word(live: dict[str, int]) -> dict[str, int]:
    from passdown.context.rendering import KIND_NAMES

    return {KIND_NAMES[letter]: count for letter, count in live.items()}


def _recorded(opened: Context, found: Brief) -> Brief:
    """Record a delivery. An agent gets its brief even where that can't be written down."""
    body = delivery_of(found)
    try:
        opened.ledger.deliver(found.task, "briefed", found.agent, body)
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


def check_brief(opened: Context, task: str, text: str) -> Freshness:
    """Whether a brief was made from the version of the task that is stored now."""
    from passdown.context.summary import Freshness

    found = brief_version(text)
    if found is None:
        problem = Problem("brief", "no_version", "names no version", "a line with its version")
        raise InvalidInput("the brief can't be judged", [problem])
    named = task_named_in(text)
    if named and named != task:
        problem = Problem("brief", "other_task", f"is of {named}", f"a brief of {task}")
        raise InvalidInput("the brief can't be judged", [problem])
    with opened.store.reading() as reader:
        row: TaskRow | None = reader.task(task)
    if row is None:
        raise unknown_task(task)
    short = row.digest.removeprefix("sha256:")[: len(found[1])]
    return Freshness(found == (row.version, short), found[0], row.version)


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
    """Someone who waits for a brief; without `is_told` no delivery is recorded. `via` is the door
    that the delivery is recorded to have gone through.
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

    def cached_briefs(
        self, workspace: WorkspaceBase, asks: Sequence[BriefCall]
    ) -> list[Brief | None]:
        """A brief for each that was made already and still holds, its delivery recorded; None for
        one that has to be made. All deliveries are one transaction: all of them, or an error.
        """
        opened = workspace._context  # pyright: ignore[reportPrivateUsage]
        due = self._clock() - CACHED_S
        made = [self._made.get(waiting.ask) for waiting in asks]
        fresh = [one if one is not None and one.at >= due else None for one in made]
        streams = {stream_of(one.brief.task) for one in fresh if one is not None}
        if not streams:
            return [None] * len(asks)
        with opened.store.reading() as reader:
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
            opened.ledger.add_entries(told)
        return found

    def _delivery(self, brief: Brief, via: str) -> StreamEntry:
        """A delivery with a key of its own, without asking the system for chance each time. Each
        may have come through another door, so the door is named here and not around the write.
        """
        body = {**delivery_of(brief), **({CHANNEL_FIELD: via} if via else {})}
        key = f"{self._start}-{next(self._numbers)}"
        return StreamEntry(deliveries_of(brief.task), "briefed", brief.agent, body, key)

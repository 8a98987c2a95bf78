"""A desk that hands out briefs to many at once: each is made once, and many deliveries are recorded
in one transaction.

What it hands out is never behind the task's own records: a brief is given again only while the task
stands at the version that it was made from, and for a second at most, since it also speaks of files
on disk and of other tasks. Every delivery is on record before the brief is given.
"""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from passdown.ledger.via import FIELD
from passdown.ledger.writing import Aside
from passdown.model.kinds import deliveries_of, stream_of
from passdown.workspace.briefings import delivery_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from passdown.briefing.brief import Brief
    from passdown.workspace.opened import Held

HOLDS_S = 1.0
_MOST_KEPT = 2_000
_MOST_CHARACTERS = 20_000_000


class Ask(NamedTuple):
    """One brief that is asked for; two equal ones may be answered with the same."""

    task: str
    agent: str
    budget: int | None = None
    counter: str | None = None
    format: str = "markdown"
    tags: tuple[str, ...] = ()


class Waiting(NamedTuple):
    """Someone who waits for a brief; without `is_told` no delivery is recorded. `via` is the door
    that the delivery is recorded to have gone through.
    """

    ask: Ask
    is_told: bool = True
    via: str = ""


class _Made(NamedTuple):
    brief: Brief
    digest: str
    at: float


class BriefDesk:
    """Briefs that were made a moment ago, of one workspace. Threads may share it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._start = os.urandom(12).hex()
        self._numbers = count(1)
        self._lock = threading.Lock()
        self._made: OrderedDict[Ask, _Made] = OrderedDict()
        self._characters = 0

    def keep(self, ask: Ask, brief: Brief) -> None:
        """Remember a brief that was just made."""
        with self._lock:
            before = self._made.pop(ask, None)
            self._made[ask] = _Made(brief, brief.digest, self._clock())
            self._characters += len(brief.text) - (len(before.brief.text) if before else 0)
            while len(self._made) > 1 and (
                len(self._made) > _MOST_KEPT or self._characters > _MOST_CHARACTERS
            ):
                self._characters -= len(self._made.popitem(last=False)[1].brief.text)

    def hand_out(self, workspace: Held, asks: Sequence[Waiting]) -> list[Brief | None]:
        """A brief for each that was made already and still holds, its delivery recorded; None for
        one that has to be made. All deliveries are one transaction: all of them, or an error.
        """
        opened = workspace._opened  # pyright: ignore[reportPrivateUsage]
        due = self._clock() - HOLDS_S
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
            opened.ledger.add_aside(told)
        return found

    def _delivery(self, brief: Brief, via: str) -> Aside:
        """A delivery with a key of its own, without asking the system for chance each time. Each
        may have come through another door, so the door is named here and not around the write.
        """
        body = {**delivery_of(brief), **({FIELD: via} if via else {})}
        key = f"{self._start}-{next(self._numbers)}"
        return Aside(deliveries_of(brief.task), "briefed", brief.agent, body, key)

"""Server-sent events: what is recorded, as it is recorded, from any place in the ledger's order.

An event's id is the record's sequence number. A client that comes back with `Last-Event-ID` goes on
after it and misses nothing; what happened meanwhile is read from the ledger, not from a buffer.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from passdown import spans
from passdown.errors import NotAllowed, PassdownError, Problem, RateLimited
from passdown.model.text import excerpt
from passdown.surfaces.web.problems import as_json
from passdown.surfaces.web.requests import Malformed

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from passdown.model.access import Access
    from passdown.surfaces.web.house import House

Document = dict[str, Any]

MEDIA = "text/event-stream"
LOOKS_S = 0.5
ALIVE_S = 15.0
_PAGE = 200


class Watch:
    """Looks for news while anybody listens, once for all of them."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._last = 0
        self._task: asyncio.Task[None] | None = None

    def position(self) -> int:
        """The sequence number of the last record, read in the thread that asks."""
        with spans.apart(), self._house.workspace() as workspace:
            return workspace.changes(None)["last"]

    async def news(self, after: int, seconds: float) -> None:
        """Wait until there may be something after a place, the server stops, or time is up."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._look())
        async with self._house.news:
            try:
                async with asyncio.timeout(seconds):
                    await self._house.news.wait_for(
                        lambda: self._last > after or self._house.stopping.is_set()
                    )
            except TimeoutError:
                return

    async def _look(self) -> None:
        while self._house.streams.count and not self._house.stopping.is_set():
            try:
                found = await self._house.threads.for_all(self.position)
                self._last = max(self._last, found)
            except PassdownError:
                # The store may be away for a while; whoever listens finds out by itself.
                self._last += 1
            async with self._house.news:
                self._house.news.notify_all()
            try:
                async with asyncio.timeout(LOOKS_S):
                    await self._house.stopping.wait()
            except TimeoutError:
                continue
        async with self._house.news:
            self._house.news.notify_all()


class Stream:
    """The events of one client."""

    def __init__(self, house: House, watch: Watch, caller: Access, after: int, task: str) -> None:
        self._house = house
        self._watch = watch
        self._caller = caller
        self._after = after
        self._only = task

    async def lines(self) -> AsyncGenerator[bytes]:
        """The text of the stream, until the server stops, the client leaves or its token ends."""
        spoke = time.monotonic()
        yield b": passdown\nretry: 2000\n\n"
        while not self._house.stopping.is_set():
            try:
                async with self._house.catching_up.of(self._caller.id):
                    found = await self._house.threads.for_caller(self._changes)
            except PassdownError:
                # The store is busy or away: the client comes back to where it was.
                return
            events = b"".join(
                event_of(change)
                for change in found["changes"]
                if not self._only or change["task"] == self._only
            )
            self._after = found["last"]
            if events:
                self._house.metrics.events += events.count(b"\n\n")
                spoke = time.monotonic()
                yield events
            if not await self._is_welcome():
                return
            if found["last"] == found["asked"]:
                await self._watch.news(self._after, ALIVE_S)
            if time.monotonic() - spoke >= ALIVE_S:
                spoke = time.monotonic()
                yield b": alive\n\n"

    def _changes(self) -> Document:
        # A stream lasts for hours: its looks would be spans without end.
        with spans.apart(), self._house.workspace() as workspace:
            found = workspace.changes(self._after, limit=_PAGE)
        return {**found, "asked": self._after}

    async def _is_welcome(self) -> bool:
        """Whether the token still holds: a stream may outlive it."""
        return await self._house.is_live(self._caller)


def event_of(change: Document) -> bytes:
    """One change as an event. JSON has no line breaks of its own, so no text can end it."""
    head = f"id: {change['seq']}\nevent: {change['kind']}\ndata: "
    return head.encode() + as_json(change) + b"\n\n"


def resumed_after(last_event_id: str, given: int | None, last: int) -> int:
    """The place to go on from: what the client saw last, else what it asks for, else now.

    Raises Malformed for a place that isn't in the ledger: nothing would ever come after it, and
    what was missed wouldn't be noticed.
    """
    text = last_event_id.strip()
    is_number = text.isascii() and text.isdigit() and len(text) <= 18
    if text and not is_number:
        raise _no_place("Last-Event-ID", excerpt(text), last)
    after = int(text) if text else given
    if after is not None and after > last:
        raise _no_place("Last-Event-ID" if text else "after", str(after), last)
    return last if after is None else after


def _no_place(path: str, given: str, last: int) -> Malformed:
    message = f"{given} is no place in this ledger, whose last record is {last}"
    problem = Problem(path, "out_of_range", message, f"0 to {last}")
    step = "Read the state anew, then connect without a place; the store may be another one now."
    return Malformed("the stream can't go on from there", [problem], next_step=step)


def check_room(house: House, caller: Access) -> None:
    """Raise RateLimited unless one more stream may be opened."""
    if house.stopping.is_set():
        raise NotAllowed("the server is stopping", next_step="Connect again in a while.")
    if not house.streams.enter(caller.id):
        raise RateLimited(
            "too many streams are open", next_step="Close one that nobody reads, then try again."
        )

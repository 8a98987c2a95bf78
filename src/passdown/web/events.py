"""Server-sent events: records as they are written, from any position in the ledger.

An event's id is the record's sequence number. A client that comes back with `Last-Event-ID`
continues after it and misses nothing: what happened meanwhile is read from the ledger.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from passdown import tracing
from passdown.core.text import excerpt
from passdown.errors import NotAllowed, PassdownError, Problem, RateLimited
from passdown.web.requests import MalformedRequest
from passdown.web.responses import to_json

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from passdown.core.access import AccessToken
    from passdown.core.types import JsonObject
    from passdown.web.server_state import ServerState


EVENTS_MEDIA = "text/event-stream"
POLL_SECONDS = 0.5
KEEP_ALIVE_SECONDS = 15.0
_PAGE = 200


class ChangeWatcher:
    """Polls for changes while anybody listens, once for all of them."""

    def __init__(self, state: ServerState) -> None:
        self._state = state
        self._last = 0
        self._task: asyncio.Task[None] | None = None

    def position(self) -> int:
        """The sequence number of the last record; blocks."""
        with tracing.detached(), self._state.workspace() as workspace:
            return workspace.changes(None).last

    async def news(self, after: int, seconds: float) -> None:
        """Wait until there may be a record after a position, the server stops, or time is up."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._look())
        async with self._state.news:
            try:
                async with asyncio.timeout(seconds):
                    await self._state.news.wait_for(
                        lambda: self._last > after or self._state.stopping.is_set()
                    )
            except TimeoutError:
                return

    async def _look(self) -> None:
        while self._state.streams.count and not self._state.stopping.is_set():
            try:
                found = await self._state.threads.for_all(self.position)
                self._last = max(self._last, found)
            except PassdownError:
                # The store may be unavailable for a while; each stream finds out by itself.
                self._last += 1
            async with self._state.news:
                self._state.news.notify_all()
            try:
                async with asyncio.timeout(POLL_SECONDS):
                    await self._state.stopping.wait()
            except TimeoutError:
                continue
        async with self._state.news:
            self._state.news.notify_all()


class EventStream:
    """The events of one client."""

    def __init__(
        self, state: ServerState, watch: ChangeWatcher, caller: AccessToken, after: int, task: str
    ) -> None:
        self._state = state
        self._watch = watch
        self._caller = caller
        self._after = after
        self._only = task

    async def lines(self) -> AsyncGenerator[bytes]:
        """The text of the stream, until the server stops, the client leaves or its token ends."""
        spoke = time.monotonic()
        yield b": passdown\nretry: 2000\n\n"
        while not self._state.stopping.is_set():
            try:
                async with self._state.catching_up.of(self._caller.id):
                    found = await self._state.threads.for_caller(self._changes)
            except PassdownError:
                # The store is busy or unavailable: the client reconnects and continues.
                return
            events = b"".join(
                event_bytes(change)
                for change in found["changes"]
                if not self._only or change["task"] == self._only
            )
            self._after = found["last"]
            if events:
                self._state.metrics.events += events.count(b"\n\n")
                spoke = time.monotonic()
                yield events
            if not await self._is_token_valid():
                return
            if found["last"] == found["asked"]:
                await self._watch.news(self._after, KEEP_ALIVE_SECONDS)
            if time.monotonic() - spoke >= KEEP_ALIVE_SECONDS:
                spoke = time.monotonic()
                yield b": alive\n\n"

    def _changes(self) -> JsonObject:
        # A stream lasts for hours: its looks would be spans without end.
        with tracing.detached(), self._state.workspace() as workspace:
            found = workspace.changes(self._after, limit=_PAGE)
        return {**found.to_dict(), "asked": self._after}

    async def _is_token_valid(self) -> bool:
        """Whether the token is still valid: a stream may outlive it."""
        return await self._state.is_live(self._caller)


def event_bytes(change: JsonObject) -> bytes:
    """One change as an event. JSON has no line breaks of its own, so no text can end it."""
    head = f"id: {change['seq']}\nevent: {change['kind']}\ndata: "
    return head.encode() + to_json(change) + b"\n\n"


def resume_position(last_event_id: str, given: int | None, last: int) -> int:
    """The position to continue from: what the client saw last, else what it asks for, else now.

    Raises MalformedRequest for a position that isn't in the ledger: nothing would ever come after
    it, and nobody would notice what was missed.
    """
    text = last_event_id.strip()
    is_number = text.isascii() and text.isdigit() and len(text) <= 18
    if text and not is_number:
        raise _unknown_position("Last-Event-ID", excerpt(text), last)
    after = int(text) if text else given
    if after is not None and after > last:
        raise _unknown_position("Last-Event-ID" if text else "after", str(after), last)
    return last if after is None else after


def _unknown_position(path: str, given: str, last: int) -> MalformedRequest:
    message = f"{given} is not in this ledger, whose last record is {last}"
    problem = Problem(path, "out_of_range", message, f"0 to {last}")
    step = "Read the state again, then connect without a position; it may be another store now."
    return MalformedRequest("the stream can't go on from there", [problem], next_step=step)


def open_stream(state: ServerState, caller: AccessToken) -> None:
    """Count one more stream; raises RateLimited if there are too many."""
    if state.stopping.is_set():
        raise NotAllowed("the server is stopping", next_step="Connect again in a while.")
    if not state.streams.enter(caller.id):
        raise RateLimited(
            "too many streams are open", next_step="Close one that nobody reads, then try again."
        )

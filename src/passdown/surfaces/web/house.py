"""What a running server holds: the workspace, tokens, limits, counts, and what is news."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from contextlib import AsyncExitStack, contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from passdown import spans
from passdown.model.access import id_of
from passdown.surfaces.web.limits import Buckets, Limits, Places, Turns
from passdown.surfaces.web.metrics import Metrics
from passdown.surfaces.web.threads import Threads
from passdown.workspace.access import Tokens

if TYPE_CHECKING:
    from collections.abc import Generator
    from contextlib import AbstractAsyncContextManager

    from passdown.model.access import Access
    from passdown.surfaces.mcp.door import Door
    from passdown.surfaces.web.hosts import Names
    from passdown.workspace import Workspace

LOG = logging.getLogger("passdown.web")

_LOOK_AGAIN_S = 1.0
_BETWEEN_LOOKS_S = 0.05


class Options(NamedTuple):
    """How a server is run: the names it answers to, its limits, and whether every answer is
    logged rather than writes and refusals alone.
    """

    names: Names
    limits: Limits = Limits()
    logs_all: bool = False


class Visit:
    """One request that was let in: whose it is, what it brought, and since when it is here."""

    def __init__(self, number: str, started: float) -> None:
        self.number = number
        self.started = started
        self.caller: Access | None = None
        self.body = b""
        self.operation = "none"
        self.route = ""
        self.task = ""
        self.workspace = ""
        self.notes: list[str] = []
        self.is_counted = False
        self._turns: AsyncExitStack | None = None

    async def take(self, turn: AbstractAsyncContextManager[None]) -> None:
        """Wait for a turn and keep it until the answer has been sent: what nobody takes counts
        against who asked for it.
        """
        if self._turns is None:
            self._turns = AsyncExitStack()
        await self._turns.enter_async_context(turn)

    async def give_back(self) -> None:
        """Let go of the turns; whoever is next may begin."""
        if self._turns is not None:
            await self._turns.aclose()

    def goes_to(self, operation: str, route: str) -> None:
        """Say what it asks for: an operation, and the address as the API's description has it."""
        self.operation, self.route = operation, route


class House:
    """Everything that requests share. Its event loop writes to it; threads only read."""

    def __init__(self, door: Door, options: Options) -> None:
        self.door = door
        self.options = options
        self.metrics = Metrics()
        self.threads = Threads()
        limits = options.limits
        self.buckets = Buckets(limits.rate, limits.burst)
        self.requests = Places(limits.connections, limits.requests_of_token)
        self.streams = Places(limits.streams, limits.streams_of_token)
        self.writes = Turns("writes", limits.writes_at_once, limits.writes_waiting)
        self.reads = Turns("reads", limits.reads_at_once, limits.reads_waiting)
        self.heavy_reads = Turns("heavy reads", 1, limits.heavy_waiting)
        self.catching_up = Turns("streams", 1, limits.streams_of_token)
        self.stopping = asyncio.Event()
        self.news = asyncio.Condition()
        self._tokens: tuple[Workspace, Tokens] | None = None
        self._looked_at = -_LOOK_AGAIN_S
        self._looking = asyncio.Lock()

    @contextmanager
    def workspace(self) -> Generator[Workspace]:
        """The workspace, for one call in a thread."""
        with self.door.workspace() as workspace:
            yield workspace

    async def holder(self, token: str) -> Access | None:
        """Whose token this is. What was revoked elsewhere is refused within a second; one that was
        made a moment ago is looked for, but not for everyone who sends nonsense.
        """
        tokens = await self._looked(_LOOK_AGAIN_S)
        found = tokens.holder(token)
        if found is None and id_of(token) and not tokens.is_known(id_of(token)):
            found = (await self._looked(0.0)).holder(token)
        return found

    async def is_live(self, caller: Access) -> bool:
        """Whether a token that was let in earlier would be let in now."""
        return (await self._looked(_LOOK_AGAIN_S)).is_live(caller.id)

    async def _looked(self, at_most_s: float) -> Tokens:
        """The tokens as they were so many seconds ago at most. One looks, the others wait."""
        asked = time.monotonic()
        if self._tokens is not None and asked - self._looked_at < at_most_s:
            return self._tokens[1]
        async with self._looking:
            if self._tokens is None or self._looked_at < asked:
                await asyncio.sleep(max(0.0, self._looked_at + _BETWEEN_LOOKS_S - asked))
                self._looked_at = time.monotonic()
                self._tokens = await self.threads.for_all(self._look)
            return self._tokens[1]

    def _look(self) -> tuple[Workspace, Tokens]:
        with spans.apart(), self.workspace() as workspace:
            known = self._tokens
            if known is None or known[0] is not workspace:
                known = (workspace, Tokens(workspace))
            known[1].all()
            return known

    def stop(self) -> None:
        """Tell streams to end: the server is about to."""
        self.stopping.set()

    def log(self, what: str, /, **fields: Any) -> None:
        """One line of JSON, with the span that it belongs to. It never holds a token, a query or a
        body.
        """
        LOG.info("%s", line_of(what, **fields, **spans.ids()))


def line_of(what: str, /, **fields: Any) -> str:
    """A line of the log."""
    at = datetime.now(UTC).isoformat(timespec="milliseconds")
    return json.dumps({"at": at, "event": what, **fields})

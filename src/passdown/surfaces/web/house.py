"""What a running server holds: the workspace, tokens, limits, counts, and what is news."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from passdown import spans
from passdown.model.access import id_of
from passdown.surfaces.web.limits import Buckets, Limits, Streams, Turns
from passdown.surfaces.web.metrics import Metrics
from passdown.workspace.access import Tokens

if TYPE_CHECKING:
    from collections.abc import Generator

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

    def goes_to(self, operation: str, route: str) -> None:
        """Say what it asks for: an operation, and the address as the API's description has it."""
        self.operation, self.route = operation, route


class House:
    """Everything that requests share. Its event loop writes to it; threads only read."""

    def __init__(self, door: Door, options: Options) -> None:
        self.door = door
        self.options = options
        self.metrics = Metrics()
        self.buckets = Buckets(options.limits.rate, options.limits.burst)
        self.streams = Streams(options.limits.streams, options.limits.streams_of_token)
        self.turns = Turns(options.limits.writes_at_once, options.limits.writes_waiting)
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
                self._tokens = await asyncio.to_thread(self._look)
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

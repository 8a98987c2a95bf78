"""Shared state of a running server, the context of one request, and the threads that do the work.

The core is synchronous and never runs in the event loop. Callers' work has its own threads. Work
that everybody waits for (token lookups, store checks, batches of briefs) has others, at most one of
each kind at a time, so that no caller can delay it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, contextmanager
from contextvars import copy_context
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypeVar

from passdown import tracing
from passdown.core.access import token_id
from passdown.web.limits import ConcurrencyLimiter, Limits, OpenCounter, RateLimiter
from passdown.web.telemetry import Metrics
from passdown.workspace.tokens import Tokens

if TYPE_CHECKING:
    from collections.abc import Generator
    from contextlib import AbstractAsyncContextManager

    from passdown.core.access import AccessToken
    from passdown.mcp.shared_workspace import SharedWorkspace
    from passdown.web.limits import AllowedNames
    from passdown.workspace import Workspace


if TYPE_CHECKING:
    from collections.abc import Callable

    P = ParamSpec("P")
    T = TypeVar("T")
else:
    P, T = ParamSpec("P"), TypeVar("T")

CALLER_THREADS = 32
SHARED_THREADS = 4


class ThreadPools:
    """Two thread pools, started as needed."""

    def __init__(self) -> None:
        self._callers = ThreadPoolExecutor(CALLER_THREADS, "passdown-call")
        self._all = ThreadPoolExecutor(SHARED_THREADS, "passdown-all")

    async def for_caller(self, work: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
        """Run a caller's work; limiters bound how many of these there are per token."""
        return await _run_in(self._callers, partial(work, *given, **named))

    async def for_all(self, work: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
        """Run work that everybody waits for: short, and one of its kind at a time."""
        return await _run_in(self._all, partial(work, *given, **named))

    def close(self) -> None:
        """Accept no more work; what has begun ends by itself."""
        self._callers.shutdown(wait=False)
        self._all.shutdown(wait=False)


async def _run_in(pool: ThreadPoolExecutor, work: Callable[[], T]) -> T:
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(pool, partial(copy_context().run, work))


LOG = logging.getLogger("passdown.web")

_LOOK_AGAIN_S = 1.0
_BETWEEN_LOOKS_S = 0.05


class ServerOptions(NamedTuple):
    """How a server is run: the names it answers to, its limits, and whether every answer is
    logged rather than writes and refusals alone.
    """

    names: AllowedNames
    limits: Limits = Limits()
    logs_all: bool = False


class RequestContext:
    """One request: its number, caller, body, route, and what the log says of it."""

    def __init__(self, number: str, started: float) -> None:
        self.number = number
        self.started = started
        self.caller: AccessToken | None = None
        self.body = b""
        self.operation = "none"
        self.route = ""
        self.task = ""
        self.workspace = ""
        self.notes: list[str] = []
        self.is_counted = False
        self._turns: AsyncExitStack | None = None

    @property
    def holder(self) -> AccessToken:
        """The caller of a request that the gateway let in."""
        if self.caller is None:
            raise AssertionError("the gateway lets nobody in without a token")
        return self.caller

    async def hold(self, turn: AbstractAsyncContextManager[None]) -> None:
        """Wait for a limiter and hold it until the response was sent: an unread response counts
        against its token.
        """
        if self._turns is None:
            self._turns = AsyncExitStack()
        await self._turns.enter_async_context(turn)

    async def release(self) -> None:
        """Release the limiters; the next request may begin."""
        if self._turns is not None:
            await self._turns.aclose()

    def set_route(self, operation: str, route: str) -> None:
        """Note the operation, and the path as the OpenAPI document has it."""
        self.operation, self.route = operation, route


class ServerState:
    """Everything that requests share. Its event loop writes to it; threads only read."""

    def __init__(self, shared: SharedWorkspace, options: ServerOptions) -> None:
        self.shared = shared
        self.options = options
        self.metrics = Metrics()
        self.threads = ThreadPools()
        limits = options.limits
        self.buckets = RateLimiter(limits.rate, limits.burst)
        self.requests = OpenCounter(limits.connections, limits.requests_of_token)
        self.streams = OpenCounter(limits.streams, limits.streams_of_token)
        self.writes = ConcurrencyLimiter("writes", limits.writes_at_once, limits.writes_waiting)
        self.reads = ConcurrencyLimiter("reads", limits.reads_at_once, limits.reads_waiting)
        self.heavy_reads = ConcurrencyLimiter("heavy reads", 1, limits.heavy_waiting)
        self.catching_up = ConcurrencyLimiter("streams", 1, limits.streams_of_token)
        self.stopping = asyncio.Event()
        self.news = asyncio.Condition()
        self._tokens: tuple[Workspace, Tokens] | None = None
        self._looked_at = -_LOOK_AGAIN_S
        self._looking = asyncio.Lock()

    @contextmanager
    def workspace(self) -> Generator[Workspace]:
        """The workspace, for one call in a thread."""
        with self.shared.workspace() as workspace:
            yield workspace

    async def holder(self, token: str) -> AccessToken | None:
        """The holder of a token. A token that was revoked by another process is refused within a
        second. One that isn't valid is looked up at once, if it is well-formed: a known id with
        another secret too, so that both take the same time.
        """
        found = (await self._looked(_LOOK_AGAIN_S)).holder(token)
        if found is None and token_id(token):
            found = (await self._looked(0.0)).holder(token)
        return found

    async def is_live(self, caller: AccessToken) -> bool:
        """Whether a token is still valid."""
        return (await self._looked(_LOOK_AGAIN_S)).is_live(caller.id)

    async def _looked(self, at_most_s: float) -> Tokens:
        """The tokens, at most so many seconds old. One request reads them, the others wait."""
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
        with tracing.detached(), self.workspace() as workspace:
            known = self._tokens
            if known is None or known[0] is not workspace:
                known = (workspace, Tokens(workspace))
            known[1].all()
            return known

    def stop(self) -> None:
        """End the streams: the server is about to stop."""
        self.stopping.set()

    def log(self, what: str, /, **fields: Any) -> None:
        """One line of JSON, with the span that it belongs to. It never holds a token, a query or a
        body.
        """
        LOG.info("%s", log_line(what, **fields, **tracing.ids()))


def log_line(what: str, /, **fields: Any) -> str:
    """A line of the log."""
    at = datetime.now(UTC).isoformat(timespec="milliseconds")
    return json.dumps({"at": at, "event": what, **fields})

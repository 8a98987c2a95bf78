"""Shared state of a running server: its limits, metrics and threads; the context of one request.

The core is synchronous and never runs in the event loop. Callers' work has its own threads. Work
that everybody waits for (token lookups, store checks, batches of briefs) has others, at most one of
each kind at a time, so that no caller can delay it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import re
import threading
import time
from bisect import bisect_left
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from contextvars import copy_context
from datetime import UTC, datetime
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypeVar

from passdown import tracing
from passdown.core.access import is_loopback, token_id
from passdown.errors import PassdownError, Problem, RateLimited, raise_problems
from passdown.mcp.message_spans import non_empty, task_argument
from passdown.web.sessions import SignInCodes
from passdown.workspace.tokens import Tokens

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping
    from contextlib import AbstractAsyncContextManager, AbstractContextManager

    from passdown.core.access import AccessToken
    from passdown.mcp.shared_workspace import SharedWorkspace
    from passdown.workspace import Workspace


P = ParamSpec("P")
T = TypeVar("T")

_MAX_BUCKETS = 10_000


class Limits(NamedTuple):
    """What a server allows; `_of_token` and `_at_once` hold for each token by itself. A rate of 0
    means any.
    """

    body_bytes: int = 1_048_576
    body_seconds: float = 30.0
    rate: float = 100.0
    burst: float = 200.0
    connections: int = 2_000
    requests_of_token: int = 256
    streams: int = 256
    streams_of_token: int = 16
    writes_at_once: int = 2
    writes_waiting: int = 128
    reads_at_once: int = 2
    reads_waiting: int = 128
    heavy: int = 2
    heavy_waiting: int = 16


class RateLimiter:
    """A bucket for each token: it holds `burst` requests and is filled by `rate` a second."""

    def __init__(
        self, rate: float, burst: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._rate, self._burst, self._clock = rate, max(burst, 1.0), clock
        self._levels: dict[str, tuple[float, float]] = {}

    def take(self, name: str) -> float:
        """Take one request; returns 0, or the seconds until there is one to take."""
        if not self._rate:
            return 0.0
        now = self._clock()
        level, at = self._levels.get(name, (self._burst, now))
        level = min(self._burst, level + (now - at) * self._rate)
        if level < 1.0:
            self._levels[name] = (level, now)
            return (1.0 - level) / self._rate
        self._levels[name] = (level - 1.0, now)
        if len(self._levels) > _MAX_BUCKETS:
            self._forget_full(now)
        return 0.0

    def _forget_full(self, now: float) -> None:
        """Forget buckets that would be full by now: a new one is the same."""
        filled = self._burst / self._rate
        self._levels = {
            name: (level, at) for name, (level, at) in self._levels.items() if now - at < filled
        }


class ConcurrencyLimiter:
    """Limits how many requests of a kind each token has under way; its others wait meanwhile.

    Without this, a token that sends much would fill every queue, and all others would wait behind.
    """

    def __init__(self, kind: str, at_once: int, most_waiting: int) -> None:
        self._kind, self._at_once, self._most = kind, at_once, at_once + most_waiting
        self._open: dict[str, tuple[asyncio.Semaphore, int]] = {}

    @asynccontextmanager
    async def of(self, name: str) -> AsyncGenerator[None]:
        """Wait for a slot and hold it; raises RateLimited if too many wait already."""
        turn, count = self._open.get(name) or (asyncio.Semaphore(self._at_once), 0)
        if count >= self._most:
            raise RateLimited(
                f"{count} {self._kind} of this token are under way; nothing was changed",
                next_step="Wait for the answers before you send more.",
            )
        self._open[name] = (turn, count + 1)
        try:
            async with turn:
                yield
        finally:
            left = self._open.pop(name)[1] - 1
            if left:
                self._open[name] = (turn, left)


class OpenCounter:
    """Counts what is open, in all and for each token."""

    def __init__(self, most: int, most_of_token: int) -> None:
        self._most, self._most_of_token = most, most_of_token
        self._open: Counter[str] = Counter()
        self.count = 0

    def enter(self, name: str) -> bool:
        """Count one more; False if there are too many."""
        if self.count >= self._most or self._open[name] >= self._most_of_token:
            return False
        self._open[name] += 1
        self.count += 1
        return True

    def leave(self, name: str) -> None:
        """Count one less."""
        self.count -= 1
        self._open[name] -= 1
        if not self._open[name]:
            del self._open[name]


LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")

_NAME = re.compile(
    r"(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?){0,20}"
    r"|\[[0-9a-f:]{2,39}\])(?::([0-9]{1,5}))?"
)


class AllowedNames(NamedTuple):
    """The Host headers and the Origins that are accepted."""

    hosts: frozenset[str]
    origins: frozenset[str]


def allowed_names(address: str, port: int, allowed: tuple[str, ...]) -> AllowedNames:
    """The names that a server accepts, by the address that it listens at and those it was given.

    A name without a port is accepted as it is, as behind a proxy, and with this server's port. Only
    this machine's own names are accepted as an origin without TLS.
    """
    hosts: set[str] = set()
    origins: set[str] = set()
    if is_loopback(address):
        for name in LOOPBACK_NAMES:
            spelled = {f"{name}:{port}", *([name] if port == 80 else [])}
            hosts |= spelled
            origins |= {f"http://{host}" for host in spelled}
    for name in allowed:
        spelled = {name} if _has_port(name) else {name, f"{name}:{port}"}
        hosts |= spelled
        origins |= {f"https://{host}" for host in spelled}
    return AllowedNames(frozenset(hosts), frozenset(origins))


def checked_names(given: list[str]) -> tuple[str, ...]:
    """Names to be allowed, in lower case. Raises InvalidInput for what is no host name."""
    names = tuple(name.lower().removesuffix(".") for name in given)
    problems = [
        Problem("allowed-host", "invalid_host", f"{name[:80]!r}", "a name, or a name:port")
        for name in names
        if not _NAME.fullmatch(name)
    ]
    raise_problems("the server was not started", problems)
    return names


def _has_port(name: str) -> bool:
    match = _NAME.fullmatch(name)
    return bool(match and match[1])


METRICS_MEDIA = "text/plain; version=0.0.4; charset=utf-8"

_BUCKET_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """Counts since the server started; written by its event loop alone."""

    def __init__(self) -> None:
        self._answers: Counter[tuple[str, int]] = Counter()
        self._refusals: Counter[str] = Counter()
        self._buckets: dict[str, list[int]] = {}
        self._seconds: dict[str, float] = {}
        self.events = 0

    def answered(self, operation: str, status: int, seconds: float) -> None:
        """Count a response."""
        self._answers[operation, status] += 1
        buckets = self._buckets.setdefault(operation, [0] * (len(_BUCKET_BOUNDS) + 1))
        buckets[bisect_left(_BUCKET_BOUNDS, seconds)] += 1
        self._seconds[operation] = self._seconds.get(operation, 0.0) + seconds

    def refused(self, reason: str) -> None:
        """Count a request that the gateway refused."""
        self._refusals[reason] += 1

    def text(self, *, streams: int) -> str:
        """All metrics as text."""
        answers = [
            f'{{operation="{name}",status="{status}"}} {count}'
            for (name, status), count in sorted(self._answers.items())
        ]
        refusals = [f'{{reason="{why}"}} {count}' for why, count in sorted(self._refusals.items())]
        lines = [
            *_metric("requests_total", "counter", "Answers by operation and status.", answers),
            *_metric("refused_total", "counter", "Requests refused by the gateway.", refusals),
            *_metric("open_streams", "gauge", "Streams of events that are open.", [f" {streams}"]),
            *_metric("events_total", "counter", "Events sent.", [f" {self.events}"]),
            *_metric("request_seconds", "histogram", "How long answers took.", self._durations()),
        ]
        return "\n".join(lines) + "\n"

    def _durations(self) -> list[str]:
        """How many answers of each operation took at most so long, and how long all of them."""
        samples: list[str] = []
        for name, counts in sorted(self._buckets.items()):
            totals = zip((*_BUCKET_BOUNDS, math.inf), accumulate(counts), strict=True)
            bounds = ((f"{bound:g}".replace("inf", "+Inf"), total) for bound, total in totals)
            samples += [f'_bucket{{operation="{name}",le="{b}"}} {total}' for b, total in bounds]
            samples.append(f'_sum{{operation="{name}"}} {self._seconds[name]:.6f}')
            samples.append(f'_count{{operation="{name}"}} {sum(counts)}')
        return samples


def _metric(name: str, kind: str, help: str, samples: list[str]) -> list[str]:
    head = [f"# HELP passdown_{name} {help}", f"# TYPE passdown_{name} {kind}"]
    return [*head, *(f"passdown_{name}{sample}" for sample in samples)]


class CheckResult(NamedTuple):
    """What a check found, or the error that ended it; when it began, how long it took, and the last
    record that it knew.
    """

    value: Any
    error: PassdownError | None
    position: int
    at: datetime
    seconds: float

    @property
    def age(self) -> float:
        """Seconds since it ended."""
        return (datetime.now(UTC) - self.at).total_seconds() - self.seconds


class Checks:
    """Checks that read all records, one at a time for everybody, in a thread of their own. The last
    result of each is kept, so that nobody waits for one.

    A check is repeated when a page shows it, and takes a tenth of the time at most: after one of 10
    seconds, 90 seconds pass, unless somebody asks for it.
    """

    def __init__(self, workspace: Callable[[], AbstractContextManager[Workspace]]) -> None:
        self._workspace = workspace
        self._pool = ThreadPoolExecutor(1, "passdown-check")
        self._kept: dict[str, CheckResult] = {}
        self._running: dict[str, tuple[Future[None], float]] = {}
        self._lock = threading.Lock()

    def result(
        self, name: str, check: Callable[[Workspace], Any], position: int, *, is_asked: bool
    ) -> tuple[CheckResult | None, float]:
        """The last result, and after how many seconds there may be a newer one; 0 if it knows the
        record at `position`, the last one, already.
        """
        with self._lock:
            kept = self._kept.get(name)
            if name not in self._running:
                pause = 9 * kept.seconds - kept.age if kept and not is_asked else 0.0
                if kept and pause > 0:
                    return kept, 0.0 if kept.position == position else pause
                started = self._pool.submit(self._run, name, check)
                self._running[name] = started, time.monotonic()
            future, began = self._running[name]
        with suppress(TimeoutError):
            future.result(_MOMENT_S)
        if future.done():
            return self._kept[name], 0.0
        return kept, max(_MOMENT_S, min(time.monotonic() - began, 5.0))

    def _run(self, name: str, check: Callable[[Workspace], Any]) -> None:
        at, began, position = datetime.now(UTC), time.perf_counter(), 0
        value, failed = None, None
        try:
            with tracing.detached(), self._workspace() as workspace:
                position = workspace.changes(None).last
                value = check(workspace)
        except PassdownError as error:
            failed = error
        finally:
            seconds = time.perf_counter() - began
            with self._lock:
                self._kept[name] = CheckResult(value, failed, position, at, seconds)
                del self._running[name]

    def close(self) -> None:
        """Begin no more checks."""
        self._pool.shutdown(wait=False, cancel_futures=True)


_MOMENT_S = 0.2
"""How long a request waits for a check: that of a small store is over by then."""

CALLER_THREADS = 32
SHARED_THREADS = 4


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
        self.token = ""
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

    def note_task(self, given: Mapping[str, Any]) -> None:
        """Note which task the request is about, if it names one."""
        self.task = task_argument(given) if tracing.is_on() else ""

    def operation_span(self, operation: str, workspace: Workspace) -> tracing.Span:
        """The span of the operation that the request calls."""
        if not tracing.is_on():
            return tracing.NO_SPAN
        self.workspace = workspace.store_label
        attributes = {
            "passdown.workspace": self.workspace,
            "passdown.operation": operation,
            "passdown.task": self.task,
            "passdown.agent": self.caller.name if self.caller else "",
        }
        return tracing.part(f"workspace {operation}", non_empty(attributes))


async def _run_in(pool: ThreadPoolExecutor, work: Callable[[], T]) -> T:
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(pool, partial(copy_context().run, work))


class ServerState:
    """Everything that requests share. Its event loop writes to it; threads only read."""

    def __init__(self, shared: SharedWorkspace, options: ServerOptions) -> None:
        self.shared = shared
        self.options = options
        self.metrics = Metrics()
        self._callers = ThreadPoolExecutor(CALLER_THREADS, "passdown-call")
        self._shared = ThreadPoolExecutor(SHARED_THREADS, "passdown-all")
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
        self.sign_ins = SignInCodes()
        self.checks = Checks(self.workspace)
        self._tokens: tuple[Workspace, Tokens] | None = None
        self._looked_at = -_LOOK_AGAIN_S
        self._looking = asyncio.Lock()

    async def for_caller(self, work: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
        """Run a caller's work in a thread; limiters bound how many of these there are per token."""
        return await _run_in(self._callers, partial(work, *given, **named))

    async def for_all(self, work: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
        """Run work that everybody waits for: short, and one of its kind at a time."""
        return await _run_in(self._shared, partial(work, *given, **named))

    def close(self) -> None:
        """Accept no more work, and close the store; what has begun ends by itself."""
        self._callers.shutdown(wait=False)
        self._shared.shutdown(wait=False)
        self.checks.close()
        self.shared.close()

    def workspace(self) -> AbstractContextManager[Workspace]:
        """The workspace, for one call in a thread."""
        return self.shared.workspace()

    async def holder(self, token: str) -> AccessToken | None:
        """The holder of a token. A token that was revoked by another process is refused within a
        second. One that isn't valid is looked up at once, if it is well-formed: a known id with
        another secret too, so that both take the same time.
        """
        found = (await self._looked(_LOOK_AGAIN_S)).holder(token)
        if found is None and token_id(token):
            found = (await self._looked(0.0)).holder(token)
        return found

    async def proof(self, identity: str, port: int, nonce: str) -> str:
        """What shows the holder of a token that this server knows it."""
        return (await self._looked(_LOOK_AGAIN_S)).proof(identity, port, nonce)

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
                self._tokens = await self.for_all(self._look)
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

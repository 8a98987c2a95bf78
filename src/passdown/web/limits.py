"""What a server allows: the names it answers to, and rate, reads, writes and streams per token.

A page of another site can make a browser send requests here, also under a name that was pointed to
this machine a moment ago. It can't make the browser lie about the name or the origin.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple

from passdown.core.access import is_loopback
from passdown.errors import Problem, RateLimited, raise_problems

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable


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

"""How much one token may ask for: requests in a time, and streams at once."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

_MOST_KEPT = 10_000


class Limits(NamedTuple):
    """What a server allows. A rate of 0 means any."""

    body_bytes: int = 1_048_576
    body_seconds: float = 30.0
    rate: float = 100.0
    burst: float = 200.0
    streams: int = 256
    streams_of_token: int = 16


class Buckets:
    """A bucket for each token: it holds `burst` requests and is filled by `rate` a second."""

    def __init__(
        self, rate: float, burst: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._rate, self._burst, self._clock = rate, max(burst, 1.0), clock
        self._levels: dict[str, tuple[float, float]] = {}

    def take(self, name: str) -> float:
        """Take one request out; gives 0, or the seconds until there is one to take."""
        if not self._rate:
            return 0.0
        now = self._clock()
        level, at = self._levels.get(name, (self._burst, now))
        level = min(self._burst, level + (now - at) * self._rate)
        if level < 1.0:
            self._levels[name] = (level, now)
            return (1.0 - level) / self._rate
        self._levels[name] = (level - 1.0, now)
        if len(self._levels) > _MOST_KEPT:
            self._forget_full(now)
        return 0.0

    def _forget_full(self, now: float) -> None:
        """A bucket that would be full by now is as good as a new one."""
        filled = self._burst / self._rate
        self._levels = {
            name: (level, at) for name, (level, at) in self._levels.items() if now - at < filled
        }


class Streams:
    """How many streams are open, in all and for each token."""

    def __init__(self, most: int, most_of_token: int) -> None:
        self._most, self._most_of_token = most, most_of_token
        self._open: Counter[str] = Counter()

    def enter(self, name: str) -> bool:
        """Open one more; False where there are too many."""
        if self.count >= self._most or self._open[name] >= self._most_of_token:
            return False
        self._open[name] += 1
        return True

    def leave(self, name: str) -> None:
        """Close one."""
        self._open[name] -= 1
        if not self._open[name]:
            del self._open[name]

    @property
    def count(self) -> int:
        """How many there are."""
        return self._open.total()

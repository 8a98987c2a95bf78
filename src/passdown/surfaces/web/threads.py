"""The threads in which the synchronous core works, so that the event loop never does.

What callers ask for has threads of its own. What everybody waits for (whose token this is, whether
the store answers, briefs that are handed out together) has others, where at most one look of each
kind is under way: whatever callers do, nobody is behind them there.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    P = ParamSpec("P")
    T = TypeVar("T")
else:
    P, T = ParamSpec("P"), TypeVar("T")

OF_CALLERS = 32
OF_ALL = 4


class Threads:
    """Two sets of threads, made as they are needed."""

    def __init__(self) -> None:
        self._callers = ThreadPoolExecutor(OF_CALLERS, "passdown-call")
        self._all = ThreadPoolExecutor(OF_ALL, "passdown-all")

    async def for_caller(self, work: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
        """Do what a caller asked for; its token's turn limits how many of these there are."""
        return await _in(self._callers, partial(work, *given, **named))

    async def for_all(self, work: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
        """Do what everybody waits for: short, and one of its kind at a time."""
        return await _in(self._all, partial(work, *given, **named))

    def close(self) -> None:
        """Take nothing new; what has begun ends by itself."""
        self._callers.shutdown(wait=False)
        self._all.shutdown(wait=False)


async def _in(pool: ThreadPoolExecutor, work: Callable[[], T]) -> T:
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(pool, partial(copy_context().run, work))

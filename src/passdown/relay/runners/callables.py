"""A Python function as a runner, awaited where it is asynchronous."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
import time
import traceback
from collections.abc import Awaitable, Callable
from typing import Any

from passdown.errors import InvalidInput, Problem
from passdown.relay.runners.asking import Asked, Reply

Answer = str | Reply
Function = Callable[[Asked], Answer | Awaitable[Answer]]

_LAST_LINES = 12
_TICK_S = 0.05


class CallableRunner:
    """Calls a function for each turn: it gives the text of the reply, or a whole Reply.

    What it raises becomes a failure. An asynchronous function is cancelled at the time limit and
    when the turn is stopped; a plain one can't be and is to look at `asked.is_stopped()` itself.
    """

    def __init__(self, function: Function, *, timeout_s: float | None = None) -> None:
        if not callable(function):
            found = f"{type(function).__name__} given"
            problem = Problem("", "wrong_type", found, "a function of what is asked")
            raise InvalidInput("the runner can't be made", [problem])
        self.function = function
        self.timeout_s = timeout_s

    def __call__(self, asked: Asked) -> Reply:
        """Call the function once."""
        started = time.monotonic()
        try:
            answer: Any = self.function(asked)
            if inspect.isawaitable(answer):
                answer = _awaited(answer, asked, self._limit(asked))
        except _CutOff as error:
            reply = Reply(failure=error.failure, error=str(error))
        except Exception as error:  # noqa: BLE001 (whatever an agent does is its failure, not ours)
            reply = _raised(error)
        else:
            reply = _as_reply(answer)
        seconds = reply.seconds or time.monotonic() - started
        return _measured(reply, seconds, asked)

    def _limit(self, asked: Asked) -> float | None:
        limits = [limit for limit in (self.timeout_s, asked.timeout_s) if limit is not None]
        return min(limits) if limits else None


class _CutOff(Exception):
    """A function was cancelled by us; the message says why."""

    def __init__(self, failure: str, message: str) -> None:
        super().__init__(message)
        self.failure = failure


def _awaited(answer: Awaitable[Answer], asked: Asked, limit: float | None) -> Answer:
    """The result of an awaitable, in a loop of its own; raises _CutOff when it took too long."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(_watched(answer, asked, limit))
    # A loop runs in this thread already, and one can't run inside another.
    found: list[Answer | BaseException] = []

    def in_thread() -> None:
        try:
            found.append(asyncio.run(_watched(answer, asked, limit)))
        except BaseException as error:  # noqa: BLE001 (raised again by the caller)
            found.append(error)

    context = contextvars.copy_context()
    thread = threading.Thread(target=context.run, args=(in_thread,), daemon=True)
    thread.start()
    thread.join()
    (result,) = found
    if isinstance(result, BaseException):
        raise result
    return result


async def _watched(answer: Awaitable[Answer], asked: Asked, limit: float | None) -> Answer:
    task = asyncio.ensure_future(answer)
    ends = time.monotonic() + limit if limit is not None else float("inf")
    while not task.done():
        await asyncio.wait([task], timeout=max(0.0, min(_TICK_S, ends - time.monotonic())))
        is_late = time.monotonic() >= ends
        if not task.done() and (is_late or asked.is_stopped()):
            task.cancel()
            await asyncio.wait([task])
            if is_late:
                raise _CutOff("timeout", f"The function took longer than {limit:.4g} s.")
            raise _CutOff("stopped", "The function was told to stop and was cancelled.")
    if task.cancelled():
        raise _CutOff("raised", "The function cancelled itself.")
    return task.result()


def _as_reply(answer: object) -> Reply:
    if isinstance(answer, Reply):
        return answer
    if isinstance(answer, str):
        return Reply(text=answer)
    kind = type(answer).__name__
    return Reply(failure="wrong_type", error=f"The function gave {kind} instead of a text.")


def _raised(error: Exception) -> Reply:
    lines = "".join(traceback.format_exception(error)).strip().splitlines()
    evidence = {"traceback": "\n".join(lines[-_LAST_LINES:])}
    text = f"The function raised {type(error).__name__}."
    return Reply(failure="raised", error=text, evidence=evidence)


def _measured(reply: Reply, seconds: float, asked: Asked) -> Reply:
    """The reply with its time and sizes, where the function didn't give them."""
    from dataclasses import replace

    sizes = {
        "bytes_in": reply.bytes_in or _size("".join(m["content"] for m in asked.messages)),
        "bytes_out": reply.bytes_out or _size(reply.text),
    }
    return replace(reply, seconds=seconds, **sizes)


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))

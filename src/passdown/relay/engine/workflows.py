"""What the engine runs: a leg, an express item. Whoever serves a process says how they are done.

A workflow's name and arguments are what is queued; they stay the same from release to release.
"""

from __future__ import annotations

from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Protocol

from passdown.relay.engine.database import DBOS
from passdown.relay.engine.lanes import ITEM, LEG

if TYPE_CHECKING:
    from collections.abc import Generator


class Work(Protocol):
    """How this process does what was queued; each may be called again after a crash."""

    def take_turn(self, run: str, number: int) -> None:
        """Do one leg of a run and record how it ended, unless that is recorded already."""
        ...

    def go_on(self, run: str) -> None:
        """Draw the consequences of what has ended, and queue what follows."""
        ...

    def do_express(self, item: str) -> None:
        """Carry out one express item, unless it was."""
        ...


class _Serving:
    """Who does the work of this process: the library knows one engine in each."""

    work: Work | None = None
    lock = Lock()
    active = 0


def active() -> int:
    """How many pieces of work are under way in this process."""
    return _Serving.active


def serve(work: Work | None) -> None:
    """From now on, this does the work of this process; None when nothing does any more."""
    _Serving.work = work


@contextmanager
def _work() -> Generator[Work]:
    if _Serving.work is None:
        raise RuntimeError("the engine of this process has been stopped")
    with _Serving.lock:
        _Serving.active += 1
    try:
        yield _Serving.work
    finally:
        with _Serving.lock:
            _Serving.active -= 1


@DBOS.step(name="passdown.take_turn")
def _take_turn(run: str, number: int) -> None:
    with _work() as work:
        work.take_turn(run, number)


@DBOS.step(name="passdown.go_on")
def _go_on(run: str) -> None:
    with _work() as work:
        work.go_on(run)


@DBOS.step(name="passdown.do_express")
def _do_express(item: str) -> None:
    with _work() as work:
        work.do_express(item)


@DBOS.workflow(name=LEG)
def leg(run: str, number: int) -> None:
    """One leg of a run, and what follows from it."""
    _take_turn(run, number)
    _go_on(run)


@DBOS.workflow(name=ITEM)
def express(item: str) -> None:
    """One express item."""
    _do_express(item)

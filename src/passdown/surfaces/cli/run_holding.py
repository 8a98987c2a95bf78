"""Which process has a run: a lock that goes with it, and what signals mean while it works."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from passdown.errors import PassdownError, StoreBusy
from passdown.relay.runs import HERE
from passdown.surfaces.cli.session import is_server
from passdown.workspace.beside import Beside

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from passdown.model.run import Run
    from passdown.workspace import Workspace

INTERRUPTED = 130
_PATIENCE_S = 1.0
_SAME_MOMENT_S = 0.1
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def held(workspace: Workspace, run: str) -> Generator[None]:
    """Have a run for this process alone; raises StoreBusy while another has it."""
    from passdown.relay.locking import locked

    with ExitStack() as stack:
        try:
            stack.enter_context(locked(_path(workspace, run), timeout_s=_PATIENCE_S))
        except StoreBusy as error:
            raise StoreBusy(
                f"another process is at {run}",
                next_step=f"Let it go on, or end it first; passdown runs {run} shows where it is.",
            ) from error
        yield


def is_held(workspace: Workspace, run: str) -> bool:
    """Whether a process that lives has a run in its foreground."""
    from passdown.relay.locking import locked

    path = _path(workspace, run)
    if not os.path.exists(path):
        return False
    try:
        with locked(path, timeout_s=0):
            return False
    except StoreBusy:
        return True


def _path(workspace: Workspace, run: str) -> str:
    return os.path.join(Beside(workspace).opened.place.folder, "runs", f"{run}.lock")


def who_goes_on(workspace: Workspace, run: Run) -> str:
    """Who will go on with a run that can, or how to: one line."""
    if is_server(workspace.store_url):
        return f"{run.run} goes on where the server is"
    if run.lane == HERE:
        if is_held(workspace, run.run):
            return f"{run.run} goes on"
        return f"{run.run} can go on, but no process has it: passdown run --resume {run.run}"
    if _has_worker(workspace):
        return f"{run.run} goes on"
    return f"{run.run} goes on as soon as there is a worker: passdown worker"


def _has_worker(workspace: Workspace) -> bool:
    from passdown.surfaces.cli.working import live_workers

    try:
        return bool(live_workers(workspace))
    except PassdownError:
        return False


@contextmanager
def stopping(tell: Callable[[str], None], *said: str) -> Generator[tuple[threading.Event, ...]]:
    """Events that SIGINT and SIGTERM set, one after the other, each with what is said then.

    A signal beyond the last ends this process at once; what an agent's program has started is
    ended with it, by its guard. What comes at the same moment is one signal: `timeout` and others
    send theirs to a process and to its group.
    """
    events = tuple(threading.Event() for _ in said)
    last = float("-inf")

    def note(number: int, _frame: object) -> None:
        nonlocal last
        before, last = last, time.monotonic()
        if last - before < _SAME_MOMENT_S:
            return
        at = sum(event.is_set() for event in events)
        if at == len(events):
            os._exit(INTERRUPTED)
        events[at].set()
        tell(f"{signal.Signals(number).name}: {said[at]}")

    is_main = threading.current_thread() is threading.main_thread()
    before = {number: signal.signal(number, note) for number in _SIGNALS} if is_main else {}
    try:
        yield events
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

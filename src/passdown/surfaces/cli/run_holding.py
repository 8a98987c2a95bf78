"""Which process has a run: a lock that goes with it, and what signals mean while it works."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from passdown.errors import PassdownError, StoreBusy
from passdown.model.run import RUNNING
from passdown.workspace.beside import Beside

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from passdown.model.run import Run
    from passdown.workspace import Workspace

HERE, NORMAL = "here", "normal"
SECOND_SIGNAL = 130
_PATIENCE_S = 1.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def held(workspace: Workspace, run: str) -> Generator[None]:
    """Have a run for this process alone; raises StoreBusy while another has it."""
    from passdown.relay.locking import locked

    lock = locked(_path(workspace, run), timeout_s=_PATIENCE_S)
    try:
        lock.__enter__()
    except StoreBusy as error:
        raise StoreBusy(
            f"another process is at {run}",
            next_step=f"Let it go on, or end it first; passdown runs {run} shows where it is.",
        ) from error
    try:
        yield
    finally:
        lock.__exit__(None, None, None)


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
    """Who will go on with a run that may, or how to: one line."""
    if run.ended_at or run.status != RUNNING:
        return ""
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
def stopping(tell: Callable[[str], None]) -> Generator[threading.Event]:
    """An event that SIGINT and SIGTERM set; a second signal ends this process at once.

    What an agent's program has started is ended with the process, by its guard.
    """
    stop = threading.Event()

    def note(number: int, _frame: object) -> None:
        if stop.is_set():
            tell("ended at once; what agents had started is ended with this process")
            os._exit(SECOND_SIGNAL)
        stop.set()
        tell(f"{signal.Signals(number).name}: finishing what is under way; once more ends it now")

    is_main = threading.current_thread() is threading.main_thread()
    before = {number: signal.signal(number, note) for number in _SIGNALS} if is_main else {}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

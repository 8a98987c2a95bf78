"""A lock that goes with the processes that hold it, whatever ends them."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from passdown.errors import StoreBusy

if TYPE_CHECKING:
    from collections.abc import Generator

TIMEOUT_S = 60.0
_PAUSE_S = 0.02


@contextmanager
def locked(path: str, *, timeout_s: float = TIMEOUT_S) -> Generator[int]:
    """Hold the lock of a file, which is made for it and gone after it; gives its descriptor.

    A child that inherits the descriptor holds the lock with us, and on when we are killed. Threads
    exclude each other too. Raises StoreBusy when another has it for too long. Without file locks
    (Windows) everybody gets it.
    """
    deadline = time.monotonic() + timeout_s
    while (descriptor := _taken(path)) is None:
        if time.monotonic() > deadline:
            message = f"{os.path.basename(path)} was held by another process for {timeout_s:g} s"
            raise StoreBusy(message, next_step="Wait until it is done, then try again.")
        time.sleep(_PAUSE_S)
    try:
        yield descriptor
    finally:
        with suppress(OSError):
            os.unlink(path)
        os.close(descriptor)


def _taken(path: str) -> int | None:
    """The descriptor of a lock that was free; None when it wasn't."""
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        import fcntl
    except ImportError:
        return descriptor
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The one before us takes the file away: then we hold the lock of a name that is gone.
        if os.path.samestat(os.fstat(descriptor), os.stat(path)):
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(descriptor)
    return None

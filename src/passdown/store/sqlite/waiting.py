"""Waiting for another writer: growing pauses with jitter, a time limit, and who it was."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_FIRST_PAUSE_S = 0.0005
_LONGEST_PAUSE_S = 0.05

# SQLite keeps the write lock of a WAL file on this byte of its -shm file.
_WRITE_LOCK_BYTE = 120


def wait_with_jitter(timeout_s: float) -> Callable[[int], bool]:
    """A busy handler: called with the number of tries, it pauses and says whether to try again."""
    started = 0.0

    def wait(tries: int) -> bool:
        nonlocal started
        if tries == 0:
            started = time.monotonic()
        left = started + timeout_s - time.monotonic()
        if left <= 0:
            return False
        pause = min(_FIRST_PAUSE_S * 2 ** min(tries, 16), _LONGEST_PAUSE_S)
        # Jitter keeps waiting processes from waking in step; half to all of the pause.
        time.sleep(min(left, pause * (0.5 + os.urandom(1)[0] / 512)))
        return True

    return wait


def lock_holder(path: str) -> str:
    """Words that name the process which holds the write lock, or nothing where that isn't known."""
    try:
        import fcntl
        import struct

        with open(path + "-shm", "rb") as shm:
            query = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, _WRITE_LOCK_BYTE, 1, 0)
            answer = struct.unpack("hhqqi4x", fcntl.fcntl(shm, fcntl.F_GETLK, query))
    except (ImportError, OSError, ValueError):
        return ""
    if answer[0] == fcntl.F_UNLCK or answer[4] <= 0:
        return ""
    return f" (held by process {answer[4]}{_process_state(answer[4])})"


def _process_state(process: int) -> str:
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as file:
            state = file.read().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return ""
    return ", which is stopped" if state == "T" else ""

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
    """Words that name the process which holds the write lock, or nothing where that isn't known.

    The system's list of locks is read and the file itself never opened: closing a file drops every
    lock that this process has on it, those of SQLite's other connections too.
    """
    try:
        inode = os.stat(path + "-shm").st_ino
        with open("/proc/locks", encoding="ascii", errors="replace") as file:
            holders = [_holder(line.split(), inode) for line in file]
    except OSError:
        return ""
    found = next((process for process in holders if process > 0), 0)
    if found == os.getpid():
        return " (held by another thread of this process)"
    return f" (held by process {found}{_process_state(found)})" if found else ""


def _holder(fields: list[str], inode: int) -> int:
    """The process that a line of `/proc/locks` names as the writer of this file, or 0.

    Such a line: `1: POSIX ADVISORY WRITE 4711 fe:00:131 120 120`; a waiting process has `->`.
    """
    if len(fields) != 8 or fields[3] != "WRITE" or fields[5].rpartition(":")[2] != str(inode):
        return 0
    start, end = fields[6:]
    is_write_lock = end.isdigit() and int(start) <= _WRITE_LOCK_BYTE <= int(end)
    return int(fields[4]) if is_write_lock else 0


def _process_state(process: int) -> str:
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as file:
            state = file.read().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return ""
    return ", which is stopped" if state == "T" else ""

"""Translate SQLite errors, and wait for another writer: growing pauses with jitter and a time
limit.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import apsw

from passdown.errors import StoreBusy, StoreError, StoreUnavailable
from passdown.store.protocol import UNKNOWN, damaged, not_storable

if TYPE_CHECKING:
    from collections.abc import Callable, Generator


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


_WAYS_OUT: tuple[tuple[type[apsw.Error], str, str], ...] = (
    (apsw.FullError, "the disk is full", "Free some space. " + UNKNOWN),
    (apsw.ReadOnlyError, "the store is read-only", "Check who owns the file and its folder."),
    (apsw.PermissionsError, "the store may not be opened", "Check who owns the file."),
    (apsw.CantOpenError, "the store can't be opened", "Check the path and who owns its folder."),
    (apsw.IOError, "reading or writing the store failed", UNKNOWN),
)


def busy_error(path: str, timeout_s: float) -> StoreBusy:
    """The error of a writer that has waited for long enough."""
    return StoreBusy(
        f"the store {path} was locked by another writer for {timeout_s:g} s{lock_holder(path)}",
        next_step="Nothing was written. Try again; if that process hangs, look at it first: "
        "its lock is never taken away.",
    )


def as_store_error(error: apsw.Error, path: str, timeout_s: float) -> Exception:
    """The error that users know for one of SQLite's."""
    if isinstance(error, apsw.BusyError | apsw.LockedError):
        return busy_error(path, timeout_s)
    if isinstance(error, apsw.CorruptError | apsw.NotADBError):
        return damaged(path, str(error))
    for kind, what, way_out in _WAYS_OUT:
        if isinstance(error, kind):
            return StoreUnavailable(f"{what}: {path} ({error})", next_step=way_out)
    return StoreUnavailable(f"SQLite refused: {error} ({path})", next_step=UNKNOWN)


@contextmanager
def translated_errors(path: str, timeout_s: float = 0.0) -> Generator[None]:
    """Turn SQLite's exceptions into the ones that users know."""
    try:
        yield
    except StoreError:
        raise
    except apsw.Error as error:
        raise as_store_error(error, path, timeout_s) from error
    except UnicodeDecodeError as error:
        raise damaged(path, f"a stored text can't be read: {error}") from error
    except UnicodeEncodeError as error:
        raise not_storable(error) from error
    except (MemoryError, OSError) as error:
        what = "out of memory" if isinstance(error, MemoryError) else str(error)
        raise StoreUnavailable(f"{what} ({path})", next_step=UNKNOWN) from error


@contextmanager
def reject_damaged_text(path: str) -> Generator[None]:
    """What was stored is text and JSON; where it no longer is, the store is damaged."""
    try:
        yield
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise damaged(path, f"a stored value can't be read: {error}") from error

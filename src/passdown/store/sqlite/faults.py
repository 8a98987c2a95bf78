"""SQLite's failures in Passdown's words."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING

import apsw

from passdown.errors import (
    Damaged,
    InvalidInput,
    Problem,
    StoreBusy,
    StoreError,
    StoreUnavailable,
)
from passdown.store.sqlite.waiting import lock_holder

if TYPE_CHECKING:
    from collections.abc import Generator

_UNKNOWN = "Whether it was written is unknown; do it again with the same key, that is always safe."

_WAYS_OUT: tuple[tuple[type[apsw.Error], str, str], ...] = (
    (apsw.FullError, "the disk is full", "Free some space. " + _UNKNOWN),
    (apsw.ReadOnlyError, "the store is read-only", "Check who owns the file and its folder."),
    (apsw.PermissionsError, "the store may not be opened", "Check who owns the file."),
    (apsw.CantOpenError, "the store can't be opened", "Check the path and who owns its folder."),
    (apsw.IOError, "reading or writing the store failed", _UNKNOWN),
)


def damage(finding: str) -> Problem:
    """A finding of SQLite's own check."""
    return Problem("", "page_damage", finding, fix="restore a backup, or export what is intact")


def busy_error(path: str, timeout_s: float) -> StoreBusy:
    """The error of a writer that has waited for long enough."""
    return StoreBusy(
        f"the store {path} was locked by another writer for {timeout_s:g} s{lock_holder(path)}",
        next_step="Nothing was written. Try again; if that process hangs, look at it first: "
        "its lock is never taken away.",
    )


def _damaged(path: str, finding: str) -> Damaged:
    return Damaged(
        f"the store {path} is damaged",
        [damage(finding)],
        next_step="Run passdown verify to see what is intact; restore a backup beside it.",
    )


def as_store_error(error: apsw.Error, path: str, timeout_s: float) -> Exception:
    """The error that users know for one of SQLite's."""
    if isinstance(error, apsw.BusyError | apsw.LockedError):
        return busy_error(path, timeout_s)
    if isinstance(error, apsw.CorruptError | apsw.NotADBError):
        return _damaged(path, str(error))
    for kind, what, way_out in _WAYS_OUT:
        if isinstance(error, kind):
            return StoreUnavailable(f"{what}: {path} ({error})", next_step=way_out)
    return StoreUnavailable(f"SQLite refused: {error} ({path})", next_step=_UNKNOWN)


def not_storable(error: Exception) -> InvalidInput:
    """The error for a value that no store can look for: broken text, a number out of range."""
    problem = Problem("", "not_storable", str(error)[:200], "text in UTF-8 and 64-bit numbers")
    return InvalidInput("a value can't be stored or looked for", [problem])


@contextmanager
def translated(path: str, timeout_s: float = 0.0) -> Generator[None]:
    """Turn SQLite's exceptions into the ones that users know."""
    try:
        yield
    except StoreError:
        raise
    except apsw.Error as error:
        raise as_store_error(error, path, timeout_s) from error
    except UnicodeDecodeError as error:
        raise _damaged(path, f"a stored text can't be read: {error}") from error
    except UnicodeEncodeError as error:
        raise not_storable(error) from error
    except (MemoryError, OSError) as error:
        what = "out of memory" if isinstance(error, MemoryError) else str(error)
        raise StoreUnavailable(f"{what} ({path})", next_step=_UNKNOWN) from error


@contextmanager
def readable(path: str) -> Generator[None]:
    """What was stored is text and JSON; where it no longer is, the store is damaged."""
    try:
        yield
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise _damaged(path, f"a stored value can't be read: {error}") from error

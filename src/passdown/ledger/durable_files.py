"""Files that are there whole or not at all: temporary name, sync, rename."""

from __future__ import annotations

import errno
import os
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from passdown.errors import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Generator

_LOCK_TIMEOUT_S = 5.0


def replace_file(target: str, text: str, *, is_project_file: bool = False) -> None:
    """Put `text` in the place of a file; on failure the old file is whole and nothing stays.

    The content is synced before it takes the name, so a power cut leaves one or the other. A file
    of the project keeps its rights, or gets those that any new file gets; ours are private.
    """
    with _typed(target):
        if not os.path.isdir(os.path.dirname(target)):
            _make_private(os.path.dirname(target))
        with _synced(target, text.encode()) as temporary:
            if is_project_file:
                os.chmod(temporary, _rights(target))
            os.replace(temporary, target)


def _rights(target: str) -> int:
    try:
        return os.stat(target).st_mode & 0o777
    except FileNotFoundError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask


def write_new(target: str, data: bytes) -> None:
    """Write a file that must not be there yet; a crash leaves all of it or nothing."""
    if os.path.lexists(target):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target)
    with _synced(target, data) as temporary:
        os.replace(temporary, target)


@contextmanager
def _synced(target: str, data: bytes) -> Generator[str]:
    """A temporary file beside `target` with content on disk; gone when the block ends."""
    temporary = f"{target}.{os.getpid()}.{os.urandom(4).hex()}.tmp"
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            _write_all(descriptor, data)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        yield temporary
    finally:
        if os.path.lexists(temporary):
            os.unlink(temporary)


@contextmanager
def _typed(target: str) -> Generator[None]:
    """Turn the system's refusals into the error that users know."""
    try:
        yield
    except OSError as error:
        raise StoreUnavailable(
            f"{target} can't be read or written ({error.strerror or error})",
            next_step="The ledger has what was recorded; passdown doctor writes the file again.",
        ) from error


def _make_private(folder: str) -> None:
    """Make a folder, and those above it that are missing, for their owner alone."""
    if not os.path.isdir(folder):
        _make_private(os.path.dirname(folder))
        with suppress(FileExistsError):  # another process made it at the same moment
            os.mkdir(folder, 0o700)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def read_text(path: str) -> str | None:
    """The text of a file, or None where there is none; bytes that are no text count as damaged."""
    with _typed(path):
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                return file.read()
        except FileNotFoundError:
            return None


def keep_aside(path: str) -> str:
    """Give a file another name beside its own, so that it can be written anew; gives that name."""
    number = 1
    while os.path.lexists(kept := f"{path}.edited-{number}"):
        number += 1
    with _typed(path):
        os.rename(path, kept)
    return kept


@contextmanager
def named_lock(folder: str, name: str) -> Generator[None]:
    """One process at a time under a name; the lock goes with the process, whatever ends it."""
    with _typed(folder):
        _make_private(folder)
        flags = os.O_RDWR | os.O_CREAT
        descriptor = os.open(os.path.join(folder, name), flags, 0o600)
    try:
        with _typed(folder):
            _lock(descriptor)
        yield
    finally:
        with _typed(folder):
            os.close(descriptor)


def _lock(descriptor: int) -> None:
    try:
        import fcntl
    except ImportError:  # Windows: replacing a file is atomic there too, only unordered
        return
    deadline = time.monotonic() + _LOCK_TIMEOUT_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            # A stopped process must not stop the others: they report the file as not written.
            if time.monotonic() > deadline:
                raise
            time.sleep(0.001)
        else:
            return

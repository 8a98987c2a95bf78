"""Files of the embedded store: created private, refused when others could write, opened read-
only where needed.
"""

from __future__ import annotations

import os
import stat
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import apsw

from passdown.errors import InvalidInput, Problem, StoreUnavailable, UnsafeStore
from passdown.store.files import give_name
from passdown.store.protocol import damaged

if TYPE_CHECKING:
    from collections.abc import Callable, Generator


_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH
_IS_WINDOWS = os.name == "nt"


def prepare_file(path: str) -> None:
    """Make the file and its folder when they are missing, private to their owner; check them."""
    folder = os.path.dirname(path)
    try:
        if not os.path.isdir(folder):
            os.makedirs(folder, mode=0o700, exist_ok=True)
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
            sync_folder(folder)
        except FileExistsError:
            _refuse_unsafe(path)
        if os.path.basename(folder) == ".passdown":
            _refuse_unsafe(folder)
    except OSError as error:
        raise StoreUnavailable(
            f"the store can't be made or opened: {path} ({error.strerror or error})",
            next_step="Check the path and who owns its folder.",
        ) from error


def _refuse_unsafe(path: str) -> None:
    mode = os.stat(path).st_mode
    if stat.S_ISDIR(mode) or stat.S_ISREG(mode):
        if mode & _OTHERS_MAY_WRITE and not _IS_WINDOWS:
            raise UnsafeStore(
                f"other users of this machine may write to {path} (mode {stat.S_IMODE(mode):o})",
                next_step=f"Take that right away, for instance: chmod go-w {path}",
            )
        return
    raise StoreUnavailable(f"{path} is not a regular file", next_step="Name another file.")


class SameFile:
    """The file that a store was opened with.

    SQLite goes on reading and writing a file that was removed or replaced under it, where nobody
    finds what it wrote. A store's file never shrinks by itself: one that did was cut or copied
    over. A checkpoint changes the file and so does a copy over it, but only after a checkpoint it
    has the last record that was seen: `has_record(seq, digest)` looks with a new connection, which
    remembers nothing of the file.
    """

    def __init__(self, path: str, has_record: Callable[[int, str], bool]) -> None:
        self.last: tuple[int, str] | None = None
        self._path = path
        self._has_record = has_record
        self._is, self._size, self._changed_at = self._seen()

    def _seen(self) -> tuple[tuple[int, int], int, int]:
        found = os.stat(self._path)
        return (found.st_dev, found.st_ino), found.st_size, found.st_mtime_ns

    def check(self) -> None:
        """Raise Damaged or StoreUnavailable if the path no longer leads to this file."""
        before = self._size  # read first: another thread may see a file that has grown meanwhile
        try:
            found, size, changed_at = self._seen()
        except OSError as error:
            raise StoreUnavailable(
                f"the store's file was moved or removed while it was open: {self._path} "
                f"({error.strerror})",
                next_step="Nothing was written. Put the file or a backup in its place, and open "
                "the store again.",
            ) from error
        is_other = found != self._is
        if not is_other and size < before:
            raise damaged(
                self._path,
                f"its file became shorter while it was open: {size:,} bytes, after {before:,}",
            )
        if not is_other and changed_at != self._changed_at and self.last is not None:
            is_other = not self._has_record(*self.last)
        if is_other:
            raise StoreUnavailable(
                f"another file was put in the place of the store while it was open: {self._path}",
                next_step="Nothing was written. If that is the file to go on with, open the store "
                "again (restart this program); else put the right one back first.",
            )
        self._size = max(self._size, size)
        self._changed_at = changed_at


def size(path: str) -> int:
    """The size of a file in bytes; 0 when there is none."""
    try:
        return os.path.getsize(path)
    except OSError:
        return 0


def sync_folder(folder: str) -> None:
    """Make the names in a folder durable, where the system can."""
    if _IS_WINDOWS:
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def new_file(target: str) -> Generator[str]:
    """A temporary name beside `target`; on success synced and given that name, otherwise removed.

    Of two processes with one target, one is refused.
    """
    if os.path.lexists(target):
        raise _taken(target)
    folder = os.path.dirname(os.path.abspath(target))
    temporary = f"{target}.{os.getpid()}.{os.urandom(4).hex()}.part"
    try:
        made = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.close(made)
            yield temporary
            descriptor = os.open(temporary, os.O_RDWR)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            give_name(temporary, target)
            sync_folder(folder)
        finally:
            _remove_leftovers(temporary)
    except FileExistsError:
        raise _taken(target) from None
    except OSError as error:
        raise StoreUnavailable(
            f"{target} can't be written ({error.strerror or error})",
            next_step="Check the folder, who owns it, and the space left.",
        ) from error


def _taken(target: str) -> InvalidInput:
    problem = Problem("target", "exists", f"{target} exists already", "a new file name")
    return InvalidInput("the target is taken; nothing was written", [problem])


def _remove_leftovers(temporary: str) -> None:
    for ending in ("", "-journal", "-wal", "-shm"):
        with suppress(FileNotFoundError):  # asking first could fail, and would leave it there
            os.unlink(temporary + ending)


def is_read_only(path: str) -> bool:
    """Whether a store is there that this process can't write to.

    The folder counts too: a log is kept beside the file while it is written, and even while it is
    read.
    """
    folder = os.path.dirname(path)
    return os.path.exists(path) and not (os.access(path, os.W_OK) and os.access(folder, os.W_OK))


def connect_read_only(path: str) -> apsw.Connection:
    """A connection that only reads.

    Without a log beside it the file is all there is, and is read as one that nobody changes: a
    reader has no place for the locks that would tell. With one, what the log holds is read too,
    which takes the index of the log that a writer leaves or keeps beside it.
    """
    from urllib.parse import quote

    has_index = os.path.exists(path + "-shm")
    if size(path + "-wal") and not has_index:
        raise StoreUnavailable(
            f"the last records of {path} are in its log, which can't be read where nothing can be "
            "written",
            next_step="Copy the folder of the store, with all files in it, to where you may write, "
            "and read it there.",
        )
    how = "mode=ro" if has_index else "immutable=1"
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    return apsw.Connection(f"file:{quote(path)}?{how}", flags=flags)


def read_only_error(path: str) -> StoreUnavailable:
    """The error of a write."""
    return StoreUnavailable(
        f"the store is read-only here: {path}",
        next_step="It can be read. To write, make the file and its folder writable, or take a copy "
        "(passdown backup FILE) to a folder of your own and name it with --store.",
    )

"""Write files completely or not at all (temporary name, sync, rename); retry transient errors."""

from __future__ import annotations

import errno
import os
import stat
import time
from contextlib import contextmanager, suppress
from functools import cache
from typing import TYPE_CHECKING, TypeVar

from passdown.errors import StoreUnavailable
from passdown.store.files import give_name, make_private

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from typing import BinaryIO


T = TypeVar("T")

TRIES = 3
FIRST_WAIT_S = 0.1

_TRANSIENT = frozenset(
    {errno.EINTR, errno.EAGAIN, errno.EBUSY, errno.ETXTBSY, errno.EMFILE, errno.ENFILE}
)


def is_transient(error: BaseException) -> bool:
    """Whether the same may succeed in a moment: the system was busy or interrupted."""
    cause = error.__cause__ if isinstance(error, StoreUnavailable) else error
    if isinstance(cause, ConnectionError | TimeoutError):
        return True
    return isinstance(cause, OSError) and cause.errno in _TRANSIENT


def with_retries(
    operation: str, action: Callable[[], T], *, wait: Callable[[float], None] = time.sleep
) -> T:
    """Do something, three times at most, with growing waits, while it fails for the moment only.

    Raises StoreUnavailable with the operation and the cause once that is of no use.
    """
    for attempt in range(TRIES + 1):
        try:
            return action()
        except (OSError, StoreUnavailable) as error:
            if not is_transient(error) or attempt == TRIES:
                raise StoreUnavailable(
                    f"{operation} failed: {error}",
                    next_step="What was stored is as it was. Fix the cause and try again.",
                ) from error
            import logging

            tried = f"try {attempt + 1} of {TRIES}"
            log = logging.getLogger("passdown")
            log.warning("%s failed for the moment (%s); %s", operation, error, tried)
            wait(FIRST_WAIT_S * 2**attempt)
    raise AssertionError("the last attempt returns or raises")  # pragma: no cover


_LOCK_TIMEOUT_S = 5.0
LARGEST_FILE = 256 * 2**20
"""How many bytes of a file are read at most, unless somebody says otherwise."""


def replace_file(
    target: str,
    text: str | bytes,
    *,
    is_project_file: bool = False,
    is_synced: bool = True,
    is_swapped: bool = False,
    temporary_folder: str = "",
) -> None:
    """Put `text` in the place of a file; on failure the old file is whole and nothing stays.

    The content is synced before it takes the name, so a power cut leaves one or the other. Without
    `is_synced` it may leave an empty file, so that is for what can be made again. One that
    `is_swapped` with the old file isn't waited for: where a file is renamed onto another, some file
    systems begin to write its content. A file of the
    project keeps its rights, and its owner and group as far as this user may give files
    away, or gets those that any new file gets; ours are private. It is a new file under the old
    name: other hard links keep the old content. `temporary_folder` is where it is written first;
    see `sweep_temporary`.
    """
    with _typed(target):
        if not os.path.isdir(os.path.dirname(target)):
            make_private(os.path.dirname(target))
        beside = os.path.join(temporary_folder, os.path.basename(target))
        written = beside if temporary_folder else target
        data = text if isinstance(text, bytes) else text.encode()
        with _temporary(written, data, is_synced=is_synced) as temporary:
            if is_project_file:
                _take_after(temporary, target)
            if not (is_swapped and _swap(temporary, target)):
                os.replace(temporary, target)


def _swap(one: str, other: str) -> bool:
    """Give two files each other's names at once; False where the system can't."""
    exchange = _exchange()
    return (
        exchange is not None and exchange(-100, os.fsencode(one), -100, os.fsencode(other), 2) == 0
    )


@cache
def _exchange() -> Callable[[int, bytes, int, bytes, int], int] | None:
    """Linux's renameat2, which Python doesn't have; paths count from the current folder (-100)."""
    try:
        import ctypes

        return ctypes.CDLL(None).renameat2
    except (ImportError, OSError, AttributeError, TypeError):
        return None


def _take_after(temporary: str, target: str) -> None:
    """Give a new file the owner, the group and the rights of the one that it will replace."""
    try:
        old = os.stat(target)
    except FileNotFoundError:
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        return
    new = os.stat(temporary)
    # One at a time: who may not give a file away may still give it to a group of theirs.
    if new.st_uid != old.st_uid:
        _give(temporary, old.st_uid, -1)
    if new.st_gid != old.st_gid:
        _give(temporary, -1, old.st_gid)
    with suppress(PermissionError):  # it belongs to somebody else by now, who may read it
        os.chmod(temporary, old.st_mode & 0o777)


def _give(path: str, owner: int, group: int) -> None:
    with suppress(PermissionError):
        os.chown(path, owner, group)


def write_new(target: str, data: bytes) -> None:
    """Write a file that must not be there yet; a crash leaves all of it or nothing, and of two
    processes one is refused.
    """
    if os.path.lexists(target):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target)
    with _temporary(target, data) as temporary:
        give_name(temporary, target)


@contextmanager
def _temporary(target: str, data: bytes, *, is_synced: bool = True) -> Generator[str]:
    """A temporary file beside `target` with content on disk; gone when the block ends."""
    temporary = f"{target}.{os.getpid()}.{os.urandom(4).hex()}.tmp"
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            _write_all(descriptor, data)
            # The system's own time has steps of some milliseconds; with the exact one, a change
            # right after shows in the file's status too.
            now = time.time_ns()
            os.utime(temporary, ns=(now, now))
            if is_synced:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        yield temporary
    finally:
        _remove(temporary)


def _remove(path: str) -> None:
    """Remove a file that may be gone already; a single refusal of the system doesn't leave it."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
    except OSError:
        with suppress(FileNotFoundError):
            os.unlink(path)


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


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


class NotRegular(OSError):
    """What was to be read is a folder, a pipe, a device or a socket."""


def regular_file(path: str) -> BinaryIO:
    """A regular file, open for reading; opening it never waits, as it would for a pipe.

    Raises NotRegular for anything else, OSError where it can't be opened, and ValueError for what
    can't be a path.
    """
    flags = os.O_RDONLY
    for name in ("O_NONBLOCK", "O_NOCTTY", "O_CLOEXEC", "O_BINARY"):
        flags |= getattr(os, name, 0)
    descriptor = os.open(path, flags)
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        what = "is a folder" if stat.S_ISDIR(mode) else "is no regular file"
        raise NotRegular(errno.EINVAL, what, path)
    return os.fdopen(descriptor, "rb")


def file_status(path: str) -> tuple[int, ...] | None:
    """Device, inode, size and times of a file, which stay the same while nobody touches it; None
    where there is none.
    """
    try:
        now = os.stat(path)
    except (OSError, ValueError):
        return None
    return (now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns)


def read_start(path: str, count: int) -> bytes:
    """The first bytes of a regular file; raises OSError."""
    with regular_file(path) as file:
        return file.read(count)


def read_bytes(path: str, *, limit: int = LARGEST_FILE) -> bytes | None:
    """The content of a file, or None where there is none.

    Raises StoreUnavailable for what is no regular file (a pipe would never end) and for a file of
    more than `limit` bytes.
    """
    with _typed(path):
        try:
            opened = regular_file(path)
        except FileNotFoundError:
            return None
        with opened as file:
            found = os.fstat(file.fileno())
            # It may grow while it is read, so its size alone proves nothing.
            data = b"" if found.st_size > limit else file.read(limit + 1)
            if max(found.st_size, len(data)) > limit:
                raise OSError(errno.EFBIG, f"it has more than {limit:,} bytes", path)
            return data


def read_text(path: str, *, limit: int = LARGEST_FILE) -> str | None:
    """The text of a file, or None where there is none; bytes that are no text count as damaged.

    Raises StoreUnavailable as `read_bytes` does.
    """
    data = read_bytes(path, limit=limit)
    if data is None:
        return None
    return data.decode(errors="replace").replace("\r\n", "\n").replace("\r", "\n")


def private_folder(base: str, *parts: str) -> str:
    """A folder beneath `base`, made for its owner alone where it is missing.

    Raises StoreUnavailable as `check_folder` does for each part of the way.
    """
    folder = base
    for part in parts:
        folder = os.path.join(folder, part)
        with suppress(OSError):
            if stat.S_ISDIR(os.lstat(folder).st_mode):
                continue
        check_folder(folder)
        with _typed(folder):
            make_private(folder)
    return folder


def check_folder(folder: str) -> None:
    """Raise StoreUnavailable if a name is taken by a link, which may lead anywhere, or a file."""
    is_link = os.path.islink(folder)
    if is_link or (os.path.lexists(folder) and not os.path.isdir(folder)):
        raise StoreUnavailable(
            f"{folder} is a {'link' if is_link else 'file'}, and has to be a folder",
            next_step=f"Move it away (mv {folder} {folder}.old), then passdown doctor makes the "
            "folder and its files again from the ledger.",
        )


def sweep_temporary(folder: str) -> None:
    """Remove the temporary files that processes left which no longer run."""
    for name in os.listdir(folder):
        owner = name.removesuffix(".tmp").split(".")[-2:][0]
        if name.endswith(".tmp") and owner.isdigit() and not _is_running(int(owner)):
            with suppress(OSError):
                os.unlink(os.path.join(folder, name))


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def keep_aside(path: str, why: str) -> str:
    """Give a file another name beside its own, so that it can be written again; gives that name."""
    number = 1
    while os.path.lexists(kept := f"{path}.{why}-{number}"):
        number += 1
    with _typed(path):
        os.rename(path, kept)
    return kept


@contextmanager
def named_lock(folder: str, name: str) -> Generator[None]:
    """One process at a time under a name; the lock goes with the process, whatever ends it."""
    with _typed(folder):
        make_private(folder)
        flags = os.O_RDWR | os.O_CREAT
        descriptor = os.open(os.path.join(folder, name), flags, 0o600)
    try:
        with _typed(folder):
            # A stopped process must not stop the others: they report the file as not written.
            if not take_lock(descriptor, _LOCK_TIMEOUT_S):
                raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN), folder)
        yield
    finally:
        with _typed(folder):
            os.close(descriptor)


def take_lock(descriptor: int, timeout_s: float) -> bool:
    """Lock an open file until it is closed or the process ends; False if another process or thread
    holds the lock for the whole timeout. Without file locks (Windows) it always succeeds.
    """
    try:
        import fcntl
    except ImportError:
        return True
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.001)
        else:
            return True

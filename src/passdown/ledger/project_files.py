"""Hash and size of artifacts: regular files beneath the project root, and nothing else.

A path is opened part by part through folder handles without following links, after links inside the
project have been resolved. So neither a link nor a pipe nor a race can make the ledger read a file
outside the project.
"""

from __future__ import annotations

import errno
import os
import stat
import time

from passdown.core.names import path_problems
from passdown.core.values import NamedTuple
from passdown.errors import Problem
from passdown.ledger.durable_files import file_status

OWN_FOLDER = ".passdown"

_CHUNK = 1 << 20
_MOST_MEASURED = 4_096
# A file whose status shows that nobody touched it since is read once. One that was changed a moment
# ago may change again within the same tick of the clock; elsewhere, no time tells of each change.
_SETTLED_NS = 2_000_000_000
_CHANGES_SHOW = os.name == "posix"
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
_DIRECTORY = getattr(os, "O_DIRECTORY", 0)
_NONBLOCK = getattr(os, "O_NONBLOCK", 0)


class FileOnDisk(NamedTuple):
    """What a file looks like now: `sha256` is None when there is none; `problem` when refused."""

    sha256: str | None
    size_bytes: int | None
    problem: Problem | None = None


MISSING_FILE = FileOnDisk(None, None)


class Project:
    """The files of a project, but for the workspace's own.

    The store's files are never opened here, under whatever name they are reached: closing any
    descriptor of a file releases all locks that the process holds on it.
    """

    def __init__(self, root: str, store_path: str) -> None:
        self.root = root
        endings = ("", "-wal", "-shm", "-journal") if store_path else ()
        self._own = [store_path + ending for ending in endings]
        self._measured: dict[str, tuple[tuple[int, ...], FileOnDisk]] = {}

    def own_files(self) -> set[tuple[int, ...]]:
        """Device and inode of the store's files, by which they are known under any name or link."""
        return {status[:2] for path in self._own if (status := file_status(path))}

    def measure(
        self, path: str, field: str = "", own: set[tuple[int, ...]] | None = None
    ) -> FileOnDisk:
        """Hash and size of the file at a project-relative path that has passed the path rules.

        Paths are kept composed (NFC); a file whose name is spelled decomposed on disk is found too.
        `own` is what `own_files` gave a moment ago, where many files are measured at once.
        """
        problems = path_problems(path, field)
        if problems:
            return FileOnDisk(None, None, problems[0])
        own = self.own_files() if own is None else own
        found = self._look(path, field, own)
        if found == MISSING_FILE and not path.isascii():
            import unicodedata

            return self._look(unicodedata.normalize("NFD", path), field, own)
        return found

    def _look(self, path: str, field: str, own: set[tuple[int, ...]]) -> FileOnDisk:
        now = file_status(f"{self.root}/{path}")
        is_own = now is not None and now[:2] in own
        if is_own or path.partition("/")[0] == OWN_FOLDER:
            return FileOnDisk(None, None, _own_file(path, field))
        known = self._measured.get(path)
        if known is not None and known[0] == now:
            return known[1]
        found = _inspect(self.root, path, field)
        is_settled = now is not None and time.time_ns() - now[-1] > _SETTLED_NS
        if now is not None and is_settled and found.sha256 and _CHANGES_SHOW:
            if len(self._measured) >= _MOST_MEASURED:
                self._measured.clear()
            self._measured[path] = (now, found)
        return found


def own_file_problem(path: str, field: str) -> list[Problem]:
    """The problem with a path in the workspace's own folder."""
    return [_own_file(path, field)] if path.partition("/")[0] == OWN_FOLDER else []


def _own_file(path: str, field: str) -> Problem:
    message = f"{path} belongs to Passdown itself"
    return Problem(field, "own_file", message, "a file of the project")


def _inspect(root: str, path: str, field: str) -> FileOnDisk:
    found = _opened(root, path, field)
    if not isinstance(found, int):
        return FileOnDisk(None, None, found)
    try:
        size = os.fstat(found).st_size
        return FileOnDisk(_hash(found, size), size)
    except OSError as error:
        return FileOnDisk(None, None, _unreadable(error, path, field))
    finally:
        os.close(found)


def read_beneath(root: str, path: str, limit: int) -> bytes | Problem:
    """The bytes of a regular file beneath `root`, or why there are none: missing_file,
    path_escapes_root, not_regular_file, unreadable_file or too_large.
    """
    found = _opened(root, path, path)
    if found is None and os.path.exists(root) and not os.path.isdir(root):
        return Problem(path, "unreadable_file", f"{root} is no folder", "a folder")
    if not isinstance(found, int):
        return found or Problem(path, "missing_file", "there is no such file", "a file")
    with os.fdopen(found, "rb") as file:
        try:
            data = file.read(limit + 1)
        except OSError as error:
            return _unreadable(error, path, path)
    if len(data) > limit:
        return Problem(path, "too_large", "has too many bytes", f"at most {limit:,}")
    return data


def _opened(root: str, path: str, field: str) -> int | Problem | None:
    """A regular file beneath a folder, open; why it is refused; or None where there is none.

    A link is allowed as long as it stays inside.
    """
    try:
        try:
            descriptor = _open_beneath(root, path.split("/"))
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.ENOTDIR):
                raise
            real_root = os.path.realpath(root)
            real = os.path.realpath(os.path.join(real_root, *path.split("/")))
            if os.path.commonpath([real_root, real]) != real_root:
                message, expected = f"{path} leads out of its folder", "a file inside it"
                return Problem(field, "path_escapes_root", message, expected)
            descriptor = _open_beneath(real_root, os.path.relpath(real, real_root).split(os.sep))
    except (OSError, ValueError) as error:  # a path with a NUL in it is a ValueError
        missing = (errno.ENOENT, errno.ENOTDIR)
        is_missing = isinstance(error, OSError) and error.errno in missing
        return None if is_missing else _unreadable(error, path, field)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    return _not_regular(path, field)


def _not_regular(path: str, field: str) -> Problem:
    return Problem(field, "not_regular_file", f"{path} is not a regular file", "a file")


def _unreadable(error: Exception, path: str, field: str) -> Problem:
    # A link that changes while it is followed is invalid to the system (EINVAL).
    if getattr(error, "errno", None) in (errno.ELOOP, errno.ENXIO, errno.EINVAL):
        return _not_regular(path, field)
    reason = getattr(error, "strerror", None) or error
    return Problem(field, "unreadable_file", f"{path} can't be read ({reason})", "a readable file")


def _open_beneath(root: str, parts: list[str]) -> int:
    if os.open not in os.supports_dir_fd:  # Windows
        whole = os.path.join(root, *parts)
        if os.path.realpath(whole) != os.path.join(os.path.realpath(root), *parts):
            raise OSError(errno.ELOOP, "a link", whole)
        return os.open(whole, os.O_RDONLY | getattr(os, "O_BINARY", 0) | _NONBLOCK)
    folder = os.open(root, os.O_RDONLY | _DIRECTORY)
    try:
        for part in parts[:-1]:
            below = os.open(part, os.O_RDONLY | _DIRECTORY | _NOFOLLOW, dir_fd=folder)
            os.close(folder)
            folder = below
        # Without O_NONBLOCK, opening a pipe would wait for its other end.
        return os.open(parts[-1], os.O_RDONLY | _NOFOLLOW | _NONBLOCK, dir_fd=folder)
    finally:
        os.close(folder)


def _hash(descriptor: int, size: int) -> str:
    """The SHA-256 of at most `size` bytes: a file that grows meanwhile can't keep us reading."""
    import hashlib

    total = hashlib.sha256()
    left = size
    while left > 0:
        chunk = os.read(descriptor, min(_CHUNK, left))
        if not chunk:
            break
        total.update(chunk)
        left -= len(chunk)
    return total.hexdigest()

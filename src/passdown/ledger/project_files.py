"""Hash and size of artifacts: regular files beneath the project root, and nothing else.

A path is opened part by part through folder handles without following links, after links inside the
project have been resolved. So neither a link nor a pipe nor a race can make the ledger read a file
outside the project.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat

from passdown.core.names import path_problems
from passdown.core.values import NamedTuple
from passdown.errors import Problem

OWN_FOLDER = ".passdown"

_CHUNK = 1 << 20
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
    descriptor of a file lets go of all locks that the process holds on it.
    """

    def __init__(self, root: str, store_path: str) -> None:
        self.root = root
        endings = ("", "-wal", "-shm", "-journal") if store_path else ()
        self._own = [store_path + ending for ending in endings]

    def measure(self, path: str, field: str = "") -> FileOnDisk:
        """Hash and size of the file at a project-relative path that has passed the path rules.

        Paths are kept composed (NFC); a file whose name is spelled decomposed on disk is found too.
        """
        problems = path_problems(path, field)
        if problems:
            return FileOnDisk(None, None, problems[0])
        found = self._look(path, field)
        if found == MISSING_FILE and not path.isascii():
            import unicodedata

            return self._look(unicodedata.normalize("NFD", path), field)
        return found

    def _look(self, path: str, field: str) -> FileOnDisk:
        parts = path.split("/")
        if parts[0] == OWN_FOLDER or _is_one_of(os.path.join(self.root, *parts), self._own):
            return FileOnDisk(None, None, _own_file(path, field))
        return _inspect(self.root, path, field)


def own_file_problem(path: str, field: str) -> list[Problem]:
    """What stands against a path in the workspace's own folder."""
    return [_own_file(path, field)] if path.partition("/")[0] == OWN_FOLDER else []


def _own_file(path: str, field: str) -> Problem:
    message = f"{path} belongs to Passdown itself"
    return Problem(field, "own_file", message, "a file of the project")


def _is_one_of(path: str, others: list[str]) -> bool:
    """Whether a path is one of some files, by whatever name or link."""
    try:
        found = os.stat(path)
    except OSError:
        return False
    for other in others:
        try:
            own = os.stat(other)
        except OSError:
            continue
        if os.path.samestat(found, own):
            return True
    return False


def _inspect(root: str, path: str, field: str) -> FileOnDisk:
    try:
        descriptor = _open_beneath(root, path.split("/"))
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENOTDIR):
            return _unreadable(error, path, field)
        return _behind_link(root, path, field)
    return _measured(descriptor, path, field)


def _behind_link(root: str, path: str, field: str) -> FileOnDisk:
    """A link is on the way: allowed as long as it stays inside the project."""
    real_root = os.path.realpath(root)
    real = os.path.realpath(os.path.join(real_root, *path.split("/")))
    if os.path.commonpath([real_root, real]) != real_root:
        message = f"{path} leads out of the project"
        problem = Problem(field, "path_escapes_root", message, "a file inside the project")
        return FileOnDisk(None, None, problem)
    try:
        descriptor = _open_beneath(real_root, os.path.relpath(real, real_root).split(os.sep))
    except OSError as error:
        return _unreadable(error, path, field)
    return _measured(descriptor, path, field)


def _measured(descriptor: int, path: str, field: str) -> FileOnDisk:
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            message = f"{path} is not a regular file"
            return FileOnDisk(None, None, Problem(field, "not_regular_file", message, "a file"))
        return FileOnDisk(_hash(descriptor, status.st_size), status.st_size)
    finally:
        os.close(descriptor)


def _open_beneath(root: str, parts: list[str]) -> int:
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


def _unreadable(error: OSError, path: str, field: str) -> FileOnDisk:
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return MISSING_FILE
    if error.errno in (errno.ELOOP, errno.ENXIO):
        message = f"{path} is not a regular file"
        return FileOnDisk(None, None, Problem(field, "not_regular_file", message, "a file"))
    message = f"{path} can't be read ({error.strerror})"
    return FileOnDisk(None, None, Problem(field, "unreadable_file", message, "a readable file"))


def _hash(descriptor: int, size: int) -> str:
    """The SHA-256 of at most `size` bytes: a file that grows meanwhile can't keep us reading."""
    total = hashlib.sha256()
    left = size
    while left > 0:
        chunk = os.read(descriptor, min(_CHUNK, left))
        if not chunk:
            break
        total.update(chunk)
        left -= len(chunk)
    return total.hexdigest()

"""Files that somebody names: read only if they are regular ones, and no more than is wanted.

A pipe that nobody writes to, a device and a file without an end would else keep whoever reads them
for ever.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Any, cast

from passdown.errors import Problem

if TYPE_CHECKING:
    from typing import BinaryIO

_FLAGS = ("O_NONBLOCK", "O_NOCTTY", "O_CLOEXEC", "O_BINARY")


class NotRegular(OSError):
    """What was to be read is a folder, a pipe, a device or a socket."""


def regular_file(path: str) -> BinaryIO:
    """A regular file, open for reading; opening it never waits.

    Raises NotRegular for anything else, OSError where it can't be opened, and ValueError for what
    can't be a path.
    """
    flags = os.O_RDONLY
    for name in _FLAGS:
        flags |= getattr(os, name, 0)
    descriptor = os.open(path, flags)
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        raise NotRegular(0, "is a folder" if stat.S_ISDIR(mode) else "is no regular file", path)
    return os.fdopen(descriptor, "rb")


def bytes_at(path: str, limit: int) -> bytes | Problem:
    """A file's bytes, or why there are none to be had.

    The codes: missing_file, not_regular_file, unreadable, too_large (more than `limit` bytes).
    """
    try:
        with regular_file(path) as file:
            data = file.read(limit + 1)
    except (OSError, ValueError) as error:
        what = getattr(error, "strerror", None) or str(error)
        return Problem(path, _code(error), what, "a file that can be read")
    if len(data) > limit:
        return Problem(path, "too_large", "has too many bytes", f"at most {limit:,}")
    return data


def _code(error: Exception) -> str:
    if isinstance(error, NotRegular):
        return "not_regular_file"
    return "missing_file" if isinstance(error, FileNotFoundError) else "unreadable"


def wrong_type(name: str, value: object, expected: str) -> Problem:
    """The problem with an argument of another kind than was expected."""
    return Problem(name, "wrong_type", f"{type(value).__name__} given", expected)


def path_type_problems(value: object, name: str) -> list[Problem]:
    """The problem with an argument that can't be a path, if it can't: bytes are none here."""
    given = os.fspath(cast("os.PathLike[Any]", value)) if hasattr(value, "__fspath__") else value
    if isinstance(given, str):
        return []
    return [wrong_type(name, value, "a path")]


def irregular(path: str) -> list[Problem]:
    """The problem with a path that leads to neither a regular file nor a folder, if it does."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return []
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        return []
    return [Problem(path[:200], "not_regular_file", "is no regular file", "a file")]


def is_beneath(path: str, folder: str) -> bool:
    """Whether a path leads into a folder, all links of both followed."""
    try:
        root = os.path.realpath(folder)
        return os.path.commonpath([root, os.path.realpath(path)]) == root
    except ValueError:  # another drive, or no path at all
        return False


__all__ = [
    "NotRegular",
    "bytes_at",
    "irregular",
    "is_beneath",
    "path_type_problems",
    "regular_file",
    "wrong_type",
]

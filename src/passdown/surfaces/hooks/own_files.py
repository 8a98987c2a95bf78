"""The files that hooks keep in the workspace's own folder: never through a link, and without
waiting.

A repository may come with such a folder. A link in it would have hooks write, and clear away, files
of somebody else; a pipe would keep them for ever.
"""

from __future__ import annotations

import errno
import os
import stat

_FLAGS = ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_NOCTTY")


def make_folder(path: str) -> None:
    """Make a folder for its owner alone, unless it is there; raises OSError where it is a link."""
    try:
        _check_folder(path)
    except FileNotFoundError:
        os.makedirs(path, mode=0o700, exist_ok=True)


def _check_folder(path: str) -> None:
    mode = os.lstat(path).st_mode
    if stat.S_ISLNK(mode):
        raise OSError(errno.ELOOP, "is a link", path)
    if not stat.S_ISDIR(mode):
        raise OSError(errno.ENOTDIR, "is no folder", path)


def opened(path: str, flags: int) -> int:
    """A descriptor of a regular file; where one may be made, its folder is made too.

    Raises OSError for a link, a pipe or a device, and where it can't be opened.
    """
    (make_folder if flags & os.O_CREAT else _check_folder)(os.path.dirname(path))
    for name in _FLAGS:
        flags |= getattr(os, name, 0)
    descriptor = os.open(path, flags, 0o600)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "is no regular file", path)
    return descriptor


def replace(path: str, text: str) -> None:
    """Put a text in the place of a file, whole or not at all; raises OSError."""
    temporary = f"{path}.{os.getpid()}.{os.urandom(3).hex()}.tmp"
    try:
        descriptor = opened(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, path)
    finally:
        if os.path.lexists(temporary):
            os.unlink(temporary)


def read(path: str, limit: int) -> str:
    """The text of a file, as far as a limit; raises OSError."""
    with open(opened(path, os.O_RDONLY), encoding="utf-8", errors="replace") as file:
        return file.read(limit)

"""Give files their names, and private folders."""

from __future__ import annotations

import errno
import os


def give_name(temporary: str, target: str) -> None:
    """Give a file the name that it is meant to have; raises FileExistsError if another has it."""
    try:
        os.link(temporary, target)
    except OSError as error:  # a file system without links can't promise it for two at once
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS):
            raise
        os.replace(temporary, target)


def make_private(folder: str) -> None:
    """Make a folder, and those above it that are missing, for their owner alone."""
    if not os.path.isdir(folder):
        make_private(os.path.dirname(folder))
        try:
            os.mkdir(folder, 0o700)
        except FileExistsError:
            if not os.path.isdir(folder):  # else another process made it at the same moment
                raise

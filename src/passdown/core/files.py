"""Give files their names."""

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

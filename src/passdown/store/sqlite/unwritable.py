"""A store that may be read and not written: on a read-only mount, or of another user."""

from __future__ import annotations

import os

import apsw

from passdown.errors import StoreUnavailable
from passdown.store.sqlite.files import size


def is_unwritable(path: str) -> bool:
    """Whether a store is there that this process can't write to.

    The folder counts too: a log is kept beside the file while it is written, and even while it is
    read.
    """
    folder = os.path.dirname(path)
    return os.path.exists(path) and not (os.access(path, os.W_OK) and os.access(folder, os.W_OK))


def connect(path: str) -> apsw.Connection:
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


def refusal(path: str) -> StoreUnavailable:
    """The error of a write."""
    return StoreUnavailable(
        f"the store is read-only here: {path}",
        next_step="It can be read. To write, make the file and its folder writable, or take a copy "
        "(passdown backup FILE) to a folder of your own and name it with --store.",
    )

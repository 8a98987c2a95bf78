"""Files that a server gives: written whole, where there is room for them, or not at all."""

from __future__ import annotations

import http.client
import os
import shutil
from contextlib import suppress
from typing import TYPE_CHECKING

from passdown.errors import InvalidInput, PassdownError, Problem

if TYPE_CHECKING:
    from collections.abc import Callable

    from passdown.ledger.verifying import Verified
    from passdown.workspace.aliases import Progress
    from passdown.workspace.remote.replies import Deadline

_SLOWEST = 16_384
"""How many bytes a second have to arrive, once the time for all of it is over."""
_MAGIC = b"SQLite format 3\0"
_PART_BYTES = 1_048_576


def kept_if_whole(target: str, fetch: Callable[[str], None]) -> Verified:
    """Fetch a copy of a store under another name, verify it, and only then let it have its own.

    One that was damaged already where it came from is kept beside it: it may be all that there is.
    """
    from passdown.workspace.safety import verify_copy

    temporary = f"{target}.{os.getpid()}.{os.urandom(4).hex()}.tmp"
    try:
        fetch(temporary)
        _check_kind(temporary)
        found = verify_copy(temporary)
        name = target if found.ok else f"{target}.damaged"
        _give_name(temporary, name)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
    if found.ok:
        return found
    kept = Problem("target", "damaged_copy", f"is not {target}: it is kept as {name}")
    return found._replace(findings=(*found.findings, kept))


def _check_kind(path: str) -> None:
    """Refuse what is no database: of nothing, one would be made."""
    with open(path, "rb") as file:
        if file.read(len(_MAGIC)) == _MAGIC:
            return
    raise PassdownError(
        "what came as a backup is no database; nothing was kept",
        next_step="Check the address: a proxy or another program may answer there.",
        code="not_a_server",
    )


def _give_name(temporary: str, name: str) -> None:
    """Give a file its name, unless another has it by now."""
    try:
        os.link(temporary, name)
    except OSError as error:
        if os.path.lexists(name):
            problem = Problem("target", "exists", f"{name} exists already", "a new file name")
            raise InvalidInput("nothing was written", [problem]) from error
        os.rename(temporary, name)  # a file system without links


def save(
    answer: http.client.HTTPResponse,
    target: str,
    deadline: Deadline,
    progress: Progress | None,
) -> None:
    """Write an answer's bytes to a new file that only its owner can read, all of them or none."""
    length = answer.headers.get("Content-Length", "")
    if not length.isascii() or not length.isdigit():
        raise http.client.HTTPException("it doesn't say how long its answer is")
    expected = int(length)
    _check_room(target, expected)
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        size = 0
        with os.fdopen(descriptor, "wb") as file:
            while part := answer.read(_PART_BYTES):
                size += file.write(part)
                deadline.give(len(part) / _SLOWEST)
                if progress is not None:
                    progress(size, max(size, expected))
            file.flush()
            os.fsync(file.fileno())
        if size != expected:
            raise http.client.IncompleteRead(b"", expected - size)
    except BaseException:
        os.unlink(target)
        raise


def _check_room(target: str, size: int) -> None:
    """Refuse a file that there is no room for, before the disk is full."""
    free = shutil.disk_usage(os.path.dirname(os.path.abspath(target))).free
    if size > free:
        message = f"has {size:,} bytes, and {free:,} are free"
        raise InvalidInput(
            "nothing was written", [Problem("target", "no_room", message, "room for it")]
        )

"""Files that are there whole or not at all: temporary name, sync, rename, sync of the folder."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from passdown.errors import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Generator

_CAN_SYNC_FOLDERS = os.name != "nt"


def replace_file(target: str, text: str) -> None:
    """Put `text` in the place of a file, durably; on failure the old file is whole and nothing
    stays.
    """
    folder = os.path.dirname(target)
    temporary = f"{target}.{os.getpid()}.{os.urandom(4).hex()}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    try:
        try:
            descriptor = os.open(temporary, flags, 0o600)
        except FileNotFoundError:
            os.makedirs(folder, mode=0o700, exist_ok=True)
            descriptor = os.open(temporary, flags, 0o600)
        try:
            _write_all(descriptor, text.encode())
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(temporary, target)
        _sync_folder(folder)
    except OSError as error:
        raise StoreUnavailable(
            f"{target} can't be written ({error.strerror or error})",
            next_step="The ledger has what was recorded; passdown doctor writes the file again.",
        ) from error
    finally:
        if os.path.lexists(temporary):
            os.unlink(temporary)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _sync_folder(folder: str) -> None:
    if _CAN_SYNC_FOLDERS:
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def read_text(path: str) -> str | None:
    """The text of a file, or None where there is none; bytes that are no text count as damaged."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return None


def keep_aside(path: str) -> str:
    """Give a file another name beside its own, so that it can be written anew; gives that name."""
    number = 1
    while os.path.lexists(kept := f"{path}.edited-{number}"):
        number += 1
    os.rename(path, kept)
    return kept


@contextmanager
def folder_lock(folder: str) -> Generator[None]:
    """One process at a time in a folder; the lock goes with the process, whatever ends it."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    descriptor = os.open(os.path.join(folder, ".lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            import fcntl
        except ImportError:  # Windows: replacing a file is atomic there too, only unordered
            pass
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)

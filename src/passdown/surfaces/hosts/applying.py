"""Writing a plan: all of it or nothing, with what is needed for the way back on disk first."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from passdown.errors import InvalidInput, Problem, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from passdown.surfaces.hosts.planning import Change, Entry, Plan

MEMORY = os.path.join(".passdown", "hosts.json")
"""What is remembered of the files that were written, relative to the project."""

_SCHEMA = 1


class Memory(NamedTuple):
    """What earlier runs wrote: files with where our text stands in them, and folders they made."""

    hosts: tuple[str, ...] = ()
    files: dict[str, Entry] = {}  # noqa: RUF012
    folders: tuple[str, ...] = ()


def read_memory(root: str) -> Memory:
    """What is remembered; nothing where the file is missing or isn't ours any more."""
    try:
        with open(os.path.join(root, MEMORY), encoding="utf-8") as file:
            found = json.load(file)
        files = {str(path): _entry(value) for path, value in found["files"].items()}
        folders = tuple(str(folder) for folder in found["folders"] if _is_inside(root, folder))
        return Memory(tuple(map(str, found["hosts"])), files, folders)
    except (OSError, ValueError, TypeError, LookupError, AttributeError):
        return Memory()


def _is_inside(root: str, folder: str) -> bool:
    """Whether a folder is below the project: what is remembered may have come with a repository."""
    inside = os.path.realpath(root)
    return os.path.realpath(os.path.join(inside, folder)).startswith(inside + os.sep)


def _entry(value: dict[str, Any]) -> Entry:
    cuts = [[int(at), int(length)] for at, length in value["cuts"]]
    return {"made": bool(value["made"]), "sha256": str(value["sha256"]), "cuts": cuts}


def apply(root: str, plan: Plan, memory: Memory) -> None:
    """Write a plan. Raises InvalidInput where a file has changed since it was planned, and
    StoreUnavailable where one can't be written; in both cases everything is as it was.
    """
    _check_unchanged(plan.changes)
    folders = _missing_folders(root, plan.changes)
    after = Memory(plan.hosts, plan.entries, (*memory.folders, *folders))
    done: list[Change] = []
    try:
        if plan.hosts:
            _write_memory(root, after)
        for folder in folders:
            os.mkdir(os.path.join(root, folder))
        for change in plan.changes:
            _put(change.real, change.after, change.before)
            done.append(change)
    except OSError as error:
        _undo(root, done, folders, memory)
        where = error.filename or root
        raise StoreUnavailable(
            f"{where} can't be written ({error.strerror or error}); everything is as it was",
            next_step="Check who owns the folder, and the space left.",
        ) from error
    _tidy(root, plan, after)


def _check_unchanged(changes: Iterable[Change]) -> None:
    problems: list[Problem] = []
    for change in changes:
        try:
            with open(change.real, "rb") as file:
                now: bytes | None = file.read()
        except FileNotFoundError:
            now = None
        if now != change.before:
            message = "somebody else has just changed it"
            problems.append(Problem(change.path, "changed", message, "", "run it again"))
    if problems:
        raise InvalidInput("nothing was written", problems)


def _missing_folders(root: str, changes: Iterable[Change]) -> list[str]:
    """The folders that have to be made, the outer ones first."""
    found: dict[str, None] = {}
    inside = os.path.realpath(root)
    for change in changes:
        above: list[str] = []
        folder = os.path.dirname(change.real)
        while change.after is not None and not os.path.isdir(folder):
            above.append(os.path.relpath(folder, inside))
            folder = os.path.dirname(folder)
        found.update(dict.fromkeys(reversed(above)))
    return list(found)


def _put(path: str, data: bytes | None, before: bytes | None) -> None:
    """Give a file its bytes, whole or not at all, with the rights that it had."""
    if data is None:
        if before is not None:
            os.unlink(path)
        return
    temporary = f"{path}.{os.getpid()}.passdown-new"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with open(descriptor, "wb") as file:
            if before is not None:
                _take_after(temporary, path)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _take_after(temporary: str, path: str) -> None:
    old = os.stat(path)
    os.chmod(temporary, old.st_mode & 0o7777)
    new = os.stat(temporary)
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        with suppress(PermissionError):
            os.chown(temporary, old.st_uid, old.st_gid)


def _undo(root: str, done: list[Change], folders: list[str], memory: Memory) -> None:
    """Put back what was there; what can't be put back is still remembered for the next run."""
    for change in reversed(done):
        with suppress(OSError):
            _put(change.real, change.before, change.after)
    for folder in reversed(folders):
        with suppress(OSError):
            os.rmdir(os.path.join(root, folder))
    with suppress(OSError):
        if memory.hosts or memory.files:
            _write_memory(root, memory)
        else:
            os.unlink(os.path.join(root, MEMORY))


def _tidy(root: str, plan: Plan, after: Memory) -> None:
    """Take away folders of ours that are empty now, and forget what is gone."""
    folders = dict.fromkeys(after.folders)
    if not after.folders:
        # In a copy of the project nobody remembers who made a folder; version control keeps none
        # that is empty, so one that only held a file of ours came with it.
        for change in plan.changes:
            if change.after is None:
                folders.update(dict.fromkeys(_folders_above(change.path)))
    left = tuple(folder for folder in folders if not _removed(root, folder, folders))
    left = tuple(folder for folder in left if os.path.isdir(os.path.join(root, folder)))
    with suppress(OSError):
        if plan.hosts:
            _write_memory(root, after._replace(folders=left))
        else:
            os.unlink(os.path.join(root, MEMORY))


def _removed(root: str, folder: str, folders: Iterable[str]) -> bool:
    """Remove a folder with the emptied ones below it, if nothing else is in it."""
    for below in sorted((each for each in folders if each.startswith(folder)), reverse=True):
        with suppress(OSError):
            os.rmdir(os.path.join(root, below))
    return not os.path.isdir(os.path.join(root, folder))


def _folders_above(path: str) -> list[str]:
    parts = path.split("/")[:-1]
    return ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]


def _write_memory(root: str, memory: Memory) -> None:
    path = os.path.join(root, MEMORY)
    document = {"schema": _SCHEMA, **memory._asdict()}
    data = json.dumps(document, indent=2).encode() + b"\n"
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    _put(path, data, data if os.path.exists(path) else None)

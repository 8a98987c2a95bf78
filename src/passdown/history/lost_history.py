"""Lost history: what state files show and the ledger lacks.

The hash chain of an older copy of the database that was put back is whole, and so is that of an
empty one. But each state file says which version it was made from, and has a checksum of itself.
One that is whole and shows a version or a digest that the ledger doesn't have is evidence: it is
kept, reads say so, and the task is written to again only after a person's decision.

Nothing here needs what writes state files, since every read of a task looks at this.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from contextlib import suppress

from passdown.core.documents import is_intact
from passdown.core.kinds import stream_of
from passdown.core.record import Head
from passdown.core.rows import TaskRow
from passdown.core.values import NamedTuple
from passdown.errors import Damaged, Problem, StoreUnavailable
from passdown.ledger import durable_files
from passdown.store.statements import Reader

_HEAD_BYTES = 1_024
_HEAD = re.compile(rb'"version": ([0-9]{1,15}),\s+"digest": "(sha256:[0-9a-f]{64})"')
_KEPT = "ahead"


class Mirrored(NamedTuple):
    """The version and digest that a state file shows."""

    path: str
    version: int
    digest: str


class _Look(NamedTuple):
    """What a file showed, valid while its status is the same; `is_whole` is None until checked."""

    status: tuple[int, ...]
    shown: Mirrored | None
    is_whole: bool | None = None


_MOST_LOOKS = 256
_looks: dict[str, _Look] = {}
"""By path: a file that nobody touched since is read once."""


def _look(path: str, status: tuple[int, ...]) -> _Look:
    known = _looks.get(path)
    if known is None or known.status != status:
        known = _keep_look(path, _Look(status, _read_head(path)))
    return known


def _keep_look(path: str, look: _Look) -> _Look:
    if len(_looks) >= _MOST_LOOKS:
        _looks.clear()
    _looks[path] = look
    return look


def remember_shown(shown: Mirrored, status: tuple[int, ...]) -> None:
    """Cache what a file shows that was just written, under its new status."""
    _keep_look(shown.path, _Look(status, shown, is_whole=True))


def shown_by(path: str) -> Mirrored | None:
    """The version and digest that a file shows, from its beginning; None where it shows none."""
    now = durable_files.file_status(path)
    return _look(path, now).shown if now else None


def _read_head(path: str) -> Mirrored | None:
    try:
        found = _HEAD.search(durable_files.read_start(path, _HEAD_BYTES))
    except (OSError, ValueError):
        return None
    return Mirrored(path, int(found[1]), found[2].decode()) if found else None


def evidence(folder: str, reader: Reader, task: str, head: Head | None = None) -> Mirrored | None:
    """What a whole state file shows of a task and the ledger, with this `head`, doesn't have."""
    return _unknown(reader, task, _files_of(folder, task), head)


def lost_tasks(
    folder: str, reader: Reader, among: Collection[str] | None = None
) -> dict[str, Mirrored]:
    """What whole files show of tasks and the ledger doesn't have, by task.

    With `among`, only of these tasks and of those that the ledger doesn't have at all.
    """
    names: set[str] = set()
    for each in (folder, os.path.join(folder, _KEPT)):
        with suppress(OSError):
            names.update(name for name in os.listdir(each) if name.endswith(".json"))
    tasks = [name.removesuffix(".json") for name in sorted(names)]
    if among is not None:
        known = {head.stream for head in reader.heads(stream_of(""))}
        tasks = [task for task in tasks if task in among or stream_of(task) not in known]
    # All files before the ledger, which others may be writing to: what they write first is there.
    shown = {task: _files_of(folder, task) for task in tasks}
    found = {task: _unknown(reader, task, files) for task, files in shown.items()}
    return {task: file for task, file in found.items() if file}


def _files_of(folder: str, task: str) -> list[Mirrored]:
    """What the state file of a task shows, and what was kept of an earlier one."""
    if os.path.islink(folder) or os.path.basename(task) != task:
        return []
    found = (shown_by(_path(folder, task)), shown_by(_path(folder, task, _KEPT)))
    return [shown for shown in found if shown]


def _unknown(
    reader: Reader, task: str, files: list[Mirrored], head: Head | None = None
) -> Mirrored | None:
    """The first of some files that is whole and shows what the ledger doesn't have."""
    for shown in files:
        if not _is_known(reader, task, shown, head) and is_whole(shown.path):
            return shown
    return None


def refuse_if_lost(folder: str, reader: Reader, task: str, head: Head | None) -> None:
    """Raise Damaged if a state file shows what the ledger lacks; it gets a second name."""
    shown = evidence(folder, reader, task, head)
    if shown is None:
        return
    with suppress(OSError, StoreUnavailable):
        durable_files.private_folder(os.path.dirname(folder), os.path.basename(folder), _KEPT)
        os.link(_path(folder, task), _path(folder, task, _KEPT))
    raise ledger_behind(reader, {task: shown})


def accept_ledger(folder: str, task: str) -> list[str]:
    """Put aside what is ahead of the ledger, for good; gives the names it has from now on."""
    named = (_path(folder, task), _path(folder, task, _KEPT))
    paths = [path for path in named if os.path.lexists(path)]
    if len(paths) == 2 and os.path.samefile(*paths):
        os.unlink(paths.pop())
    return [durable_files.keep_aside(path, "accepted") for path in paths]


def ledger_behind(reader: Reader, tasks: dict[str, Mirrored]) -> Damaged:
    """The error of a ledger that lacks what state files show."""
    problems: list[Problem] = []
    for task, shown in tasks.items():
        head = reader.head(stream_of(task))
        has = f"version {head.position} ({head.digest})" if head else "nothing"
        message = f"{shown.path} shows version {shown.version} ({shown.digest}), the ledger {has}"
        fix = f"put a newer ledger in place, or passdown recover {task} --by NAME"
        problems.append(Problem(task, "ledger_behind", message, "", fix))
    command = "passdown recover" if len(tasks) > 1 else f"passdown recover {next(iter(tasks))}"
    return Damaged(
        "the ledger has lost history that state files still show; nothing was changed",
        problems,
        next_step="Put a newer ledger or backup in its place. If it is lost, a person may decide to"
        f" go on without it: {command} --by NAME",
    )


def is_whole(path: str) -> bool:
    """Whether a state file is as it was written, by its own checksum; what can't be read isn't."""
    now = durable_files.file_status(path)
    if not now:
        return False
    look = _look(path, now)
    if look.is_whole is None:
        look = _keep_look(path, look._replace(is_whole=_is_intact(path)))
    return bool(look.is_whole)


def _is_intact(path: str) -> bool:
    try:
        data = durable_files.read_bytes(path)
    except StoreUnavailable:
        return False
    return data is not None and is_intact(data.decode(errors="replace"))


def is_current(folder: str, row: TaskRow) -> bool:
    """Whether a task's state file is whole and no older than the task; one that is ahead stays."""
    path = _path(folder, row.task)
    shown = shown_by(path)
    return shown is not None and shown.version >= row.version and is_whole(path)


def _path(folder: str, task: str, *inside: str) -> str:
    return os.path.join(folder, *inside, f"{task}.json")


def _is_known(reader: Reader, task: str, shown: Mirrored, head: Head | None) -> bool:
    """Whether the ledger has the version that a file shows, with the same digest."""
    head = head or reader.head(stream_of(task))
    if head is None or shown.version > head.position:
        return False
    if shown.version == head.position:
        return shown.digest == head.digest
    record = reader.record(stream_of(task), shown.version)
    return record is not None and record.digest == shown.digest

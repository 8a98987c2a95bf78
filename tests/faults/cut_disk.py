"""A disk that forgets: a SQLite VFS in memory that keeps a log of all it was asked to do.

From the log, the disk can be shown as it may be after a power cut at any moment. What was synced
is there. Of what was not, each write is there, or isn't, or is there in some of its 512-byte
sectors; each truncation, creation or removal of a file has happened or hasn't. Names are synced
with the first sync of a new journal and with a removal that asks for it, as SQLite's own VFS does
on Unix.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import apsw

if TYPE_CHECKING:
    import random

SECTOR = 512
_JOURNALS = apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_SUPER_JOURNAL


class Step(NamedTuple):
    """One thing that the disk was asked to do. `file` is the number of a file, not its name."""

    kind: str  # write, truncate, sync, create, remove, sync_names
    file: int
    name: str = ""
    offset: int = 0
    data: bytes = b""


class Disk(apsw.VFS):
    """The VFS. `lies` makes every sync do nothing."""

    def __init__(self, name: str, database: str, *, lies: bool = False) -> None:
        super().__init__(name, "")
        self.log: list[Step] = []
        self.lies = lies
        self.names: dict[str, int] = {database: 0}
        self.contents: list[bytearray] = [bytearray()]
        self.database = database

    def xOpen(self, name: Any, flags: list[int]) -> Any:
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        if path is None:  # a temporary file: nothing that anyone must find again
            self.contents.append(bytearray())
            return OpenFile(None, self.contents, len(self.contents) - 1, is_new_journal=False)
        is_new = path not in self.names
        if is_new:
            if not flags[0] & apsw.SQLITE_OPEN_CREATE:
                raise apsw.CantOpenError(path)
            self.contents.append(bytearray())
            self.names[path] = len(self.contents) - 1
            self.log.append(Step("create", self.names[path], path))
        flags[1] = flags[0]
        is_journal = bool(flags[0] & _JOURNALS)
        return OpenFile(self, self.contents, self.names[path], is_new_journal=is_new and is_journal)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        if filename not in self.names:
            error = apsw.IOError(filename)
            vars(error)["extendedresult"] = apsw.SQLITE_IOERR_DELETE_NOENT
            raise error
        self.log.append(Step("remove", self.names.pop(filename), filename))
        if syncdir:
            self.sync_names()

    def xAccess(self, pathname: str, flags: int) -> bool:
        return pathname in self.names

    def xFullPathname(self, name: str) -> str:
        return name

    def sync_names(self) -> None:
        if not self.lies:
            self.log.append(Step("sync_names", 0))

    def after_cut(self, moment: int, rng: random.Random) -> dict[str, bytes]:
        """The files as they may be after the power went just before log entry `moment`."""
        names: dict[str, int] = {self.database: 0}
        pending_names: list[Step] = []
        synced: dict[int, bytearray] = {}
        pending: dict[int, list[Step]] = {}
        for step in self.log[:moment]:
            if step.kind == "sync_names":
                _change_names(names, pending_names)
                pending_names = []
            elif step.kind in ("create", "remove"):
                pending_names.append(step)
            elif step.kind == "sync":
                content = synced.setdefault(step.file, bytearray())
                for done in pending.pop(step.file, ()):
                    _apply(content, done)
            else:
                pending.setdefault(step.file, []).append(step)
        how = rng.choice(("any", "any", "all", "none", "last", "torn"))
        _change_names(names, [s for s in pending_names if _happens(rng, how)])
        files: dict[str, bytes] = {}
        for name, number in names.items():
            content = bytearray(synced.get(number, b""))
            steps = pending.get(number, [])
            for index, step in enumerate(steps):
                for part in _survivors(step, rng, how, is_last=index == len(steps) - 1):
                    _apply(content, part)
            files[name] = bytes(content)
        return files


class OpenFile:
    """One open file of the disk; locks aren't needed, the store is used by one connection."""

    def __init__(
        self, disk: Disk | None, contents: list[bytearray], number: int, *, is_new_journal: bool
    ) -> None:
        self._disk = disk
        self._content = contents[number]
        self._number = number
        self._is_new_journal = is_new_journal

    def _note(self, step: Step) -> None:
        if self._disk is not None:
            self._disk.log.append(step)

    def xRead(self, amount: int, offset: int) -> bytes:
        return bytes(self._content[offset : offset + amount])

    def xWrite(self, data: bytes, offset: int) -> None:
        step = Step("write", self._number, offset=offset, data=bytes(data))
        _apply(self._content, step)
        self._note(step)

    def xTruncate(self, newsize: int) -> None:
        step = Step("truncate", self._number, offset=newsize)
        _apply(self._content, step)
        self._note(step)

    def xSync(self, flags: int) -> None:
        if self._disk is None or self._disk.lies:
            return
        self._note(Step("sync", self._number))
        if self._is_new_journal:
            self._is_new_journal = False
            self._disk.sync_names()

    def xFileSize(self) -> int:
        return len(self._content)

    def xLock(self, level: int) -> None:
        pass

    def xUnlock(self, level: int) -> None:
        pass

    def xCheckReservedLock(self) -> bool:
        return False

    def xFileControl(self, op: int, ptr: int) -> bool:
        return False

    def xSectorSize(self) -> int:
        return SECTOR

    def xDeviceCharacteristics(self) -> int:
        return 0

    def xClose(self) -> None:
        pass


def _change_names(names: dict[str, int], steps: list[Step]) -> None:
    for step in steps:
        if step.kind == "create":
            names[step.name] = step.file
        elif names.get(step.name) == step.file:
            del names[step.name]


def _apply(content: bytearray, step: Step) -> None:
    if step.kind == "truncate":
        del content[step.offset :]
        return
    end = step.offset + len(step.data)
    if len(content) < step.offset:
        content.extend(bytes(step.offset - len(content)))
    content[step.offset : end] = step.data


def _happens(rng: random.Random, how: str) -> bool:
    if how == "all":
        return True
    return how != "none" and rng.random() < 0.5


def _survivors(step: Step, rng: random.Random, how: str, *, is_last: bool) -> list[Step]:
    """What of one unsynced step is on the disk after the cut."""
    if how in ("all", "none"):
        return [step] if how == "all" else []
    if how == "last":  # everything but (some of) the last one
        return [step] if not is_last else _torn(step, rng)
    if step.kind == "write" and (how == "torn" or rng.random() < 0.33):
        return _torn(step, rng)
    return [step] if rng.random() < 0.5 else []


def _torn(step: Step, rng: random.Random) -> list[Step]:
    if step.kind != "write":
        return []
    parts: list[Step] = []
    start = 0
    while start < len(step.data):
        end = start + SECTOR - (step.offset + start) % SECTOR
        if rng.random() < 0.5:
            parts.append(step._replace(offset=step.offset + start, data=step.data[start:end]))
        start = end
    return parts

"""What is remembered of a host's session between its calls, in one small file each."""

from __future__ import annotations

import json
import os
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, cast

from passdown.model.values import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Generator

MAX_COMMANDS = 40
MAX_FILES = 200
MAX_TODOS = 50
MAX_SUBAGENTS = 20
_MAX_BYTES = 1_048_576
_KEPT = 200
_LOCK_S = 0.3


class Session(NamedTuple):
    """A session. `task` and `agent` are what it is bound to, `handoffs` how many the task had then.

    `told` is the version of the task that its brief was made of, `started` the time of the first
    call and `commit` what was checked out then. `read_to` is how far its transcript was read and
    `understood` whether any line of it was; `commands`, `files`, `todos` and `subagents` are what
    was found. `unfinished`: something was done since the last handoff, or nobody can tell.
    `compacted`: the brief has to be told again.
    """

    task: str = ""
    agent: str = ""
    handoffs: int = 0
    told: str = ""
    started: int = 0
    commit: str = ""
    transcript: str = ""
    read_to: int = 0
    used_tokens: int = 0
    compacted: bool = False
    commands: tuple[dict[str, Any], ...] = ()
    files: tuple[str, ...] = ()
    todos: tuple[dict[str, Any], ...] = ()
    subagents: tuple[dict[str, Any], ...] = ()
    open_calls: tuple[dict[str, Any], ...] = ()
    understood: bool = False
    unfinished: bool = False


class Sessions:
    """The sessions of a workspace, whose own folder is given."""

    def __init__(self, folder: str) -> None:
        self.folder = os.path.join(folder, "hooks")

    def read(self, name: str) -> Session:
        """A session as its last call left it; a new one where there is none or it can't be read."""
        if not name:
            return Session()
        try:
            with open(self._path(name), "rb") as file:
                found = json.loads(file.read(_MAX_BYTES))
        except (OSError, ValueError, RecursionError):
            return Session()
        return _checked(found)

    def newest_of(self, task: str) -> Session:
        """The session that worked on a task last; a new one where there is none."""
        with suppress(OSError):
            with os.scandir(self.folder) as entries:
                files = [(each.stat().st_mtime, each.name) for each in entries if each.is_file()]
            for _, name in sorted(files, reverse=True):
                session = self.read(name.removesuffix(".json")) if name.endswith(".json") else None
                if session and session.task == task:
                    return session
        return Session()

    def write(self, name: str, session: Session) -> None:
        """Keep a session; raises OSError where that can't be done."""
        if not name:
            return
        path = self._path(name)
        temporary = f"{path}.{os.getpid()}.{os.urandom(3).hex()}.tmp"
        os.makedirs(self.folder, mode=0o700, exist_ok=True)
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(descriptor, "w", encoding="utf-8") as file:
                json.dump(session._asdict(), file)
            os.replace(temporary, path)
        finally:
            if os.path.lexists(temporary):
                os.unlink(temporary)

    @contextmanager
    def alone(self, name: str) -> Generator[None]:
        """Let the calls of a session follow one another, for a moment: then go on regardless."""
        descriptor = -1
        with suppress(OSError, ImportError):
            import fcntl

            os.makedirs(self.folder, mode=0o700, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT
            descriptor = os.open(os.path.join(self.folder, f"{name or 'none'}.lock"), flags, 0o600)
            deadline = time.monotonic() + _LOCK_S
            while time.monotonic() < deadline:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    time.sleep(0.005)
        try:
            yield
        finally:
            if descriptor >= 0:
                os.close(descriptor)

    def claim(self, name: str, what: str) -> bool:
        """Whether this call is the first of its session to claim something; True only once.

        Where that can't be written down, it is False: better never than again and again.
        """
        if not name:
            return False
        with suppress(OSError):
            os.makedirs(self.folder, mode=0o700, exist_ok=True)
            path = os.path.join(self.folder, f"{name}.{what}")
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            return True
        return False

    def prune(self) -> None:
        """Remove the files of the oldest sessions beyond a number."""
        with suppress(OSError):
            with os.scandir(self.folder) as entries:
                found = [entry.path for entry in entries if entry.is_file(follow_symlinks=False)]
            if len(found) <= 4 * _KEPT:
                return
            found.sort(key=lambda path: os.stat(path).st_mtime)
            for path in found[: len(found) - 2 * _KEPT]:
                with suppress(OSError):
                    os.unlink(path)

    def _path(self, name: str) -> str:
        return os.path.join(self.folder, f"{name}.json")


_LISTS = ("commands", "files", "todos", "subagents", "open_calls")


def _checked(found: object) -> Session:
    """A session from a document that anybody may have edited; what is odd counts as left out."""
    if not isinstance(found, dict):
        return Session()
    given = cast("dict[str, Any]", found)
    fields: dict[str, Any] = {}
    for name, default in Session()._asdict().items():
        value = given.get(name, default)
        if name in _LISTS:
            kind = str if name == "files" else dict
            listed = cast("list[object]", value) if isinstance(value, list) else []
            fields[name] = tuple(cast("Any", each) for each in listed if isinstance(each, kind))
        else:
            fields[name] = value if type(value) is type(default) else default
    return Session(**fields)

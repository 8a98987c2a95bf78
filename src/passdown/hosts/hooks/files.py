"""Files that hooks keep in the workspace's folder: sessions and the log.

A repository may bring such a folder. A link in it would make hooks write or remove somebody else's
files, and a pipe would block them, so neither is ever followed or opened.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, cast

from passdown.core.values import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Generator


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


def open_own_file(path: str, flags: int) -> int:
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


def replace_own_file(path: str, text: str) -> None:
    """Put a text in the place of a file, whole or not at all; raises OSError."""
    temporary = f"{path}.{os.getpid()}.{os.urandom(3).hex()}.tmp"
    try:
        descriptor = open_own_file(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, path)
    finally:
        if os.path.lexists(temporary):
            os.unlink(temporary)


def read_own_file(path: str, limit: int) -> str:
    """The text of a file, as far as a limit; raises OSError."""
    with open(open_own_file(path, os.O_RDONLY), encoding="utf-8", errors="replace") as file:
        return file.read(limit)


MAX_LOG_BYTES = 262_144
_LOG = os.path.join("logs", "hooks.log")
_LONGEST = 600
_TAIL = 65_536


def log_path(folder: str) -> str:
    """The log of a workspace, whose own folder is given; the one before it ends in `.1`."""
    return os.path.join(folder, _LOG)


def append_log(folder: str, **facts: object) -> None:
    """Add a line in one write, so that lines stay whole; nothing happens where that can't be."""
    given = {name: value for name, value in facts.items() if value not in ("", None)}
    entry = {"at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), **given}
    line = json.dumps(entry, default=str)
    if len(line) > _LONGEST:
        line = json.dumps({**entry, "what": str(given.get("what"))[:200]}, default=str)
    with suppress(OSError):
        _append_line(log_path(folder), line[:2048])


def _append_line(path: str, line: str) -> None:
    descriptor = open_own_file(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        os.write(descriptor, line.encode() + b"\n")
        is_full = os.fstat(descriptor).st_size > MAX_LOG_BYTES
    finally:
        os.close(descriptor)
    if is_full:
        with suppress(OSError):
            # Another process may have done it already: what is small then is not moved.
            if os.stat(path).st_size > MAX_LOG_BYTES:
                os.replace(path, f"{path}.1")


class HookRun(NamedTuple):
    """The last run of a hook: when, what it said in how many characters, how long it took, and
    what went wrong (empty: nothing).
    """

    at: str
    about: str
    told: int
    ms: int
    fault: str


def last_runs(folder: str) -> dict[str, HookRun]:
    """The last call of each hook, by host and event; lines that can't be read are left out."""
    try:
        with open(open_own_file(log_path(folder), os.O_RDONLY), "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL))
            lines = file.read(_TAIL).decode(errors="replace").splitlines()
    except OSError:
        return {}
    found: dict[str, HookRun] = {}
    for line in lines:
        with suppress(ValueError, TypeError, AttributeError):
            entry: dict[str, Any] = json.loads(line)
            name = f"{entry.get('host', '?')} {entry.get('event', '?')}"
            fault = "" if entry.get("level") == "ok" else str(entry.get("what") or "unknown")
            about, told, ms = entry.get("about", ""), entry.get("told", 0), entry.get("ms", 0)
            found[name] = HookRun(str(entry.get("at", "")), str(about), int(told), int(ms), fault)
    return found


MAX_COMMANDS = 40
MAX_FILES = 200
MAX_TODOS = 50
MAX_SUBAGENTS = 20
_MAX_BYTES = 1_048_576
_KEPT = 200
_LOCK_S = 0.3
_RECENT_S = 7 * 86_400
_LATEST = 2**40
"""A time in seconds that is never reached; later ones aren't dates."""


class HookSession(NamedTuple):
    """A session. `task` and `agent` are what it is bound to, `handoffs` how many the task had then;
    a task that doesn't exist yet is the one that its draft creates, with `title`, which is taken
    from the first prompt.

    `told` is the version of the task that its brief was made of, `started` the time of the first
    call and `commit` what was checked out then. `read_to` is how far its transcript was read and
    `understood` whether any line of it was; `commands`, `files`, `todos` and `subagents` are what
    was found there, `changed` the files that differ by git. `unfinished`: something was done since
    the last handoff, or that is unknown. `compacted`: the brief has to be given again. `store` is
    what the store's files were like when the task, with its `holder`, was last looked at.
    """

    task: str = ""
    holder: str = ""
    store: str = ""
    agent: str = ""
    title: str = ""
    handoffs: int = 0
    told: str = ""
    started: float = 0.0
    commit: str = ""
    transcript: str = ""
    read_to: int = 0
    used_tokens: int = 0
    compacted: bool = False
    commands: tuple[dict[str, Any], ...] = ()
    files: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    todos: tuple[dict[str, Any], ...] = ()
    subagents: tuple[dict[str, Any], ...] = ()
    open_calls: tuple[dict[str, Any], ...] = ()
    understood: bool = False
    unfinished: bool = False

    def reading(self, transcript: str) -> HookSession:
        """The session with the transcript that its host names; a new one is read from its start."""
        if transcript in ("", self.transcript):
            return self
        return self._replace(transcript=transcript, read_to=0)


class HookSessions:
    """The sessions of a workspace, whose own folder is given."""

    def __init__(self, folder: str) -> None:
        self.folder = os.path.join(folder, "hooks")

    def read(self, name: str) -> HookSession:
        """A session as its last call left it; a new one where there is none or it can't be read."""
        if not name:
            return HookSession()
        try:
            found = json.loads(read_own_file(self._path(name), _MAX_BYTES))
        except (OSError, ValueError, RecursionError):
            return HookSession()
        return _checked_session(found)

    def newest(self, *, task: str = "", besides: str = "") -> tuple[str, HookSession]:
        """The session that was active last, with its name: on a task, or any but one.

        Both are empty where there is none, or none within a week.
        """
        oldest = time.time() - _RECENT_S
        with suppress(OSError):
            with os.scandir(self.folder) as entries:
                files = [(each.stat().st_mtime, each.name) for each in entries if each.is_file()]
            for _, file in sorted((each for each in files if each[0] > oldest), reverse=True):
                name = file.removesuffix(".json")
                session = self.read(name) if name not in (file, besides) else None
                if session and task in ("", session.task):
                    return name, session
        return "", HookSession()

    def write(self, name: str, session: HookSession) -> None:
        """Keep a session; raises OSError where that can't be done."""
        if not name:
            return
        replace_own_file(self._path(name), json.dumps(session._asdict()))

    @contextmanager
    def alone(self, name: str) -> Generator[None]:
        """Let the calls of a session follow one another, for a moment: then go on regardless."""
        descriptor = -1
        with suppress(OSError, ImportError):
            import fcntl

            path = os.path.join(self.folder, f"{name or 'none'}.lock")
            descriptor = open_own_file(path, os.O_RDWR | os.O_CREAT)
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
            path = os.path.join(self.folder, f"{name}.{what}")
            os.close(open_own_file(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
            return True
        return False

    def prune(self) -> None:
        """Remove the files of the oldest sessions beyond a number."""
        with suppress(OSError):
            make_folder(self.folder)
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


_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_LISTS = ("commands", "files", "changed", "todos", "subagents", "open_calls")


def _checked_session(found: object) -> HookSession:
    """A session from a document that anybody may have edited; what is odd counts as left out."""
    if not isinstance(found, dict):
        return HookSession()
    given = cast("dict[str, Any]", found)
    fields: dict[str, Any] = {}
    for name, default in HookSession()._asdict().items():
        value = given.get(name, default)
        if name in _LISTS:
            kind = str if name in ("files", "changed") else dict
            listed = cast("list[object]", value) if isinstance(value, list) else []
            fields[name] = tuple(cast("Any", each) for each in listed if isinstance(each, kind))
        else:
            fields[name] = value if type(value) is type(default) else default
    if not 0 <= fields["started"] < _LATEST:
        fields["started"] = 0.0
    if not _ID.fullmatch(fields["task"]):
        fields["task"] = ""  # it is a part of paths
    return HookSession(**fields)

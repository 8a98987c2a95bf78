"""Rules and sessions on disk: text files beneath one folder, and what prompts left behind.

Works without any of it: what can't be read is reported, never raised.
"""

from __future__ import annotations

import json
import os
import stat
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from passdown.errors import InvalidInput, Problem, StoreUnavailable
from passdown.ledger.durable_files import named_lock, replace_file
from passdown.model.names import id_problems

if TYPE_CHECKING:
    from collections.abc import Generator

MAX_BYTES = 1_048_576

_NONBLOCK = getattr(os, "O_NONBLOCK", 0)


class RuleFiles:
    """The text files in a folder of rules; links may not lead out of it."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def exists(self) -> bool:
        """Whether there is anything at the folder's place."""
        return os.path.lexists(self.folder)

    def text(self, name: str) -> str | Problem:
        """The text of a regular file, or why there is none to be had."""
        root = os.path.realpath(self.folder)
        path = os.path.realpath(os.path.join(root, *name.split("/")))
        if os.path.commonpath([root, path]) != root:
            return Problem(name, "path_escapes_root", "leads out of the folder", "a file inside it")
        try:
            data = _regular_bytes(path)
        except FileNotFoundError:
            return Problem(name, "missing_file", "there is no such file", "a file")
        except OSError as error:
            reason = f"can't be read ({error.strerror or error})"
            return Problem(name, "unreadable_file", reason, "a text file")
        if len(data) > MAX_BYTES:
            return Problem(name, "too_large", "has too many bytes", f"at most {MAX_BYTES:,}")
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            return Problem(name, "not_utf8", f"is no UTF-8 text ({error.reason})", "UTF-8")


def _regular_bytes(path: str) -> bytes:
    # Without O_NONBLOCK, opening a pipe would wait for its other end.
    descriptor = os.open(path, os.O_RDONLY | _NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError("it is no regular file")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(MAX_BYTES + 1)
    finally:
        os.close(descriptor)


class SessionFiles:
    """The sessions of a workspace, one JSON file each, named by the session's id."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def path(self, id: str) -> str:
        """A session's file; an id that could lead elsewhere is refused."""
        if problems := id_problems(id, "session"):
            raise InvalidInput("the session's id can't be used", problems)
        return os.path.join(self.folder, f"{id}.json")

    @contextmanager
    def alone(self, problems: list[Problem]) -> Generator[None]:
        """Let prompts follow one another; where that can't be had, go on with a warning."""
        with ExitStack() as stack:
            try:
                stack.enter_context(named_lock(os.path.join(self.folder, ".locks"), "sessions"))
            except StoreUnavailable as error:
                problems.append(session_warning("session_not_locked", error.message))
            yield

    def read(self, id: str, problems: list[Problem]) -> object:
        """The JSON document of a session; None where there is none, or a broken one (a warning)."""
        text = RuleFiles(self.folder).text(os.path.basename(self.path(id)))
        if isinstance(text, Problem):
            if text.code != "missing_file":
                problems.append(session_warning("session_broken", f"{text.message}; starts anew"))
            return None
        try:
            return json.loads(text) or {}
        except (ValueError, RecursionError) as error:
            problems.append(session_warning("session_broken", f"{error}; starts anew"))
            return None

    def write(self, id: str, document: object, problems: list[Problem]) -> None:
        """Save a session, whole or not at all; a failure is a warning."""
        try:
            replace_file(self.path(id), json.dumps(document, indent=2, allow_nan=False) + "\n")
        except StoreUnavailable as error:
            problems.append(session_warning("session_not_saved", error.message))


def session_warning(code: str, message: str) -> Problem:
    """Something about a session that doesn't keep a prompt from being served."""
    return Problem("session", code, message, level="warning")

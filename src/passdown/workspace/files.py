"""Files that callers name: read safely; hashes from local disk or as the client sent them."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, cast

from passdown.core.names import normal_path, path_problems
from passdown.core.values import NamedTuple
from passdown.errors import InvalidInput, Problem
from passdown.ledger.durable_files import NotRegular, regular_file, replace_file
from passdown.ledger.project_files import MISSING_FILE, FileOnDisk, Project, own_file_problem

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

    from passdown.core.types import JsonObject


def bytes_at(path: str, limit: int) -> bytes | Problem:
    """A file's bytes, or why there are none to be had.

    The codes: missing_file, not_regular_file, unreadable, too_large (more than `limit` bytes).
    """
    try:
        with regular_file(path) as file:
            data = file.read(limit + 1)
    except (OSError, ValueError) as error:
        what = getattr(error, "strerror", None) or str(error)
        return Problem(path, _code(error), what, "a file that can be read")
    if len(data) > limit:
        return Problem(path, "too_large", "has too many bytes", f"at most {limit:,}")
    return data


def replace_project_file(path: str, data: bytes) -> None:
    """Put bytes in the place of a project file, with its rights; raises StoreUnavailable."""
    replace_file(path, data, is_project_file=True)


def _code(error: Exception) -> str:
    if isinstance(error, NotRegular):
        return "not_regular_file"
    return "missing_file" if isinstance(error, FileNotFoundError) else "unreadable"


def wrong_type(name: str, value: object, expected: str) -> Problem:
    """The problem with an argument of another kind than was expected."""
    return Problem(name, "wrong_type", f"{type(value).__name__} given", expected)


def path_type_problems(value: object, name: str) -> list[Problem]:
    """The problem with an argument that can't be a path, if it can't: bytes are none here."""
    given = os.fspath(cast("os.PathLike[Any]", value)) if hasattr(value, "__fspath__") else value
    if isinstance(given, str):
        return []
    return [wrong_type(name, value, "a path")]


def irregular_file_problems(path: str) -> list[Problem]:
    """The problem with a path that leads to neither a regular file nor a folder, if it does."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return []
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        return []
    return [Problem(path[:200], "not_regular_file", "is no regular file", "a file")]


def is_beneath(path: str, folder: str) -> bool:
    """Whether a path leads into a folder, all links of both followed."""
    try:
        root = os.path.realpath(folder)
        return os.path.commonpath([root, os.path.realpath(path)]) == root
    except ValueError:  # another drive, or no path at all
        return False


SentFiles = Mapping[str, FileOnDisk]

FILES_FIELD = "files_seen"
FILE_LISTS = ("files_created", "files_modified", "artifacts")
_CITING = {
    "decisions": ("artifacts", "paths"),
    "patterns": ("location",),
    "patterns_discovered": ("location",),
    "dependencies_for_next": ("file",),
    "preconditions": ("file",),
}
PROFILE_FIELD = "profile"


class _Client(NamedTuple):
    """What a client sent of its own machine; None, or nothing, where it sent none of it."""

    files: SentFiles | None
    profile: tuple[JsonObject | None, ...]


_CLIENT: ContextVar[_Client | None] = ContextVar("passdown_client", default=None)


@contextmanager
def serving_client(
    sent: Iterable[JsonObject] | None, profile: tuple[JsonObject | None, ...] = ()
) -> Generator[None]:
    """Until the block ends, this is a server whose client sent hashes of some files, or the profile
    of an agent or that it has none. Where it sent nothing, what the server has counts.
    """
    files = None if sent is None else {e["path"]: _on_disk(e) for e in sent}
    token = _CLIENT.set(_Client(files, profile))
    try:
        yield
    finally:
        _CLIENT.reset(token)


def is_served() -> bool:
    """Whether this is done for a remote client, who can't use a path of this machine."""
    return _CLIENT.get() is not None


def client_profile() -> tuple[JsonObject | None, ...]:
    """The profile that a client sent, or None for that it has none; empty where it sent neither."""
    client = _CLIENT.get()
    return client.profile if client else ()


def _on_disk(entry: JsonObject) -> FileOnDisk:
    given: JsonObject | None = entry.get("problem")
    problem = Problem(entry["path"], **given) if given else None
    return FileOnDisk(entry.get("sha256"), entry.get("size_bytes"), problem)


def _hashed_file(path: str, found: FileOnDisk) -> JsonObject:
    """What a machine tells a server of a file: hash and size, nothing of one that is missing, or
    why it is refused.
    """
    if found.problem is not None:
        known = found.problem
        problem = {"code": known.code, "message": known.message, "expected": known.expected}
        return {"path": path, "problem": problem}
    if found.sha256 is None:
        return {"path": path}
    return {"path": path, "sha256": found.sha256, "size_bytes": found.size_bytes}


class CallerFiles:
    """The files that a call is about: of this machine, unless a client sent hashes of its own."""

    def __init__(self, project: Project) -> None:
        served = _CLIENT.get()
        self._project = project
        self._sent = served.files if served else None
        self.are_server_s = served is not None and self._sent is None
        self._own: set[tuple[int, ...]] | None = None

    def measure(self, path: str, field: str = "") -> FileOnDisk:
        """Hash and size of the file at a project-relative path; see `Project.measure`."""
        if self._sent is None:
            self._own = self._project.own_files() if self._own is None else self._own
            return self._project.measure(path, field, self._own)
        problems = [*path_problems(path, field), *own_file_problem(path, field)]
        if problems:
            return FileOnDisk(None, None, problems[0])
        found = self._sent.get(path, MISSING_FILE)
        return found._replace(problem=found.problem and found.problem._replace(path=field))

    def is_gone(self, path: str) -> bool:
        """Whether a file is known to be missing; of files that a client didn't name, none is."""
        if self._sent is not None:
            return path in self._sent and self._sent[path].sha256 is None
        return not os.path.isfile(os.path.join(self._project.root, *path.split("/")))

    def are_elsewhere(self, paths: Iterable[str]) -> bool:
        """Whether some of these files are not on this disk as the client has them."""
        if self._sent is None:
            return False
        return any(self.measure(p).sha256 != self._project.measure(p).sha256 for p in paths)

    def unnamed(self, data: Mapping[str, Any]) -> list[Problem]:
        """What was sent of files that the data of a record doesn't name."""
        if not self._sent:
            return []
        known = set(files_named(data))
        return [
            Problem(
                FILES_FIELD, "not_named", f"{path[:200]} is not named by it", "the files it names"
            )
            for path in self._sent
            if path not in known
        ]


def files_named(data: Mapping[str, Any]) -> list[str]:
    """The files that plain data of a handoff or an entry names, whether or not it is sound: what
    it lists, and what its decisions, patterns and advice to read cite.
    """
    fields = {**dict.fromkeys(FILE_LISTS, ("path",)), **_CITING}
    given = (
        text.partition(":")[0] if name == "location" and isinstance(text, str) else text
        for field, names in fields.items()
        for entry in _entries(data.get(field))
        if isinstance(entry, Mapping)
        for name in names
        for text in _entries(cast("JsonObject", entry).get(name))
    )
    paths = (path for path in given if isinstance(path, str) and not path_problems(path, ""))
    return sorted({normal_path(path) for path in paths})


def files_sent(root: str, arguments: Mapping[str, Any], *, of_handoff: bool) -> JsonObject:
    """What a client sends with arguments that name files beneath `root`: those of a handoff, or of
    one entry of one.
    """
    from passdown.core.intake import read_handoff

    data: JsonObject = {}
    if of_handoff:
        # What can't be read is refused by the server, which says why.
        with suppress(InvalidInput):
            data = read_handoff(arguments.get("handoff"), arguments).data
    else:
        entry = arguments.get("decision", arguments)
        data = {"decisions" if "summary" in entry else "patterns": [entry]}
    project = Project(root, "")
    hashed = [_hashed_file(path, project.measure(path)) for path in files_named(data)]
    return {FILES_FIELD: hashed} if hashed else {}


def _entries(value: object) -> list[object]:
    return list(cast("list[object]", value)) if isinstance(value, list | tuple) else [value]

"""Whose files a record is about: those of this machine, or those of the one that asks a server.

Who asks has the files and looks at them; a server has the records. A door sets around a call what
it was told of files, and whatever the call hashes is taken from there and from nowhere else. What
is told counts for no more than a claim of a file's hash: no path leads anywhere on this disk.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, cast

from passdown.errors import Problem
from passdown.ledger.disk import MISSING, OnDisk, own_file
from passdown.model.names import normal_path, path_problems

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

    from passdown.ledger.disk import Project

Document = dict[str, Any]
Told = Mapping[str, OnDisk]

FIELD = "files_seen"
FILE_LISTS = ("files_created", "files_modified", "artifacts")
_CITING = {
    "decisions": ("artifacts", "paths"),
    "patterns": ("location",),
    "patterns_discovered": ("location",),
    "dependencies_for_next": ("file",),
}
_AS_SERVER: ContextVar[tuple[Told | None] | None] = ContextVar("passdown_seen", default=None)


@contextmanager
def as_server(told: Iterable[Document] | None) -> Generator[None]:
    """Until the block ends, this is a server that was told of some files of who asks; None where
    nothing was told, and the server's own disk has to do.
    """
    token = _AS_SERVER.set((None if told is None else {e["path"]: _on_disk(e) for e in told},))
    try:
        yield
    finally:
        _AS_SERVER.reset(token)


def is_served() -> bool:
    """Whether this is done for who asks from elsewhere: no path here is of use to them."""
    return _AS_SERVER.get() is not None


def _on_disk(entry: Document) -> OnDisk:
    given: Document | None = entry.get("problem")
    problem = Problem(entry["path"], **given) if given else None
    return OnDisk(entry.get("sha256"), entry.get("size_bytes"), problem)


def looked_at(project: Project, paths: Iterable[str]) -> list[Document]:
    """What a machine tells a server of its files: hash and size, nothing of one that is missing,
    or why one is refused.
    """
    return [_sighting(path, project.measure(path)) for path in paths]


def _sighting(path: str, found: OnDisk) -> Document:
    if found.problem is not None:
        told = found.problem
        problem = {"code": told.code, "message": told.message, "expected": told.expected}
        return {"path": path, "problem": problem}
    if found.sha256 is None:
        return {"path": path}
    return {"path": path, "sha256": found.sha256, "size_bytes": found.size_bytes}


class Files:
    """The files that a call is about: of this machine, unless a server was told of others."""

    def __init__(self, project: Project) -> None:
        served = _AS_SERVER.get()
        self._project = project
        self._told = served[0] if served else None
        self.are_server_s = served is not None and self._told is None

    def measure(self, path: str, field: str = "") -> OnDisk:
        """Hash and size of the file at a project-relative path; see `Project.measure`."""
        if self._told is None:
            return self._project.measure(path, field)
        problems = [*path_problems(path, field), *own_file(path, field)]
        if problems:
            return OnDisk(None, None, problems[0])
        found = self._told.get(path, MISSING)
        return found._replace(problem=found.problem and found.problem._replace(path=field))

    def are_elsewhere(self, paths: Iterable[str]) -> bool:
        """Whether some of these files are not on this disk as they were told of."""
        if self._told is None:
            return False
        return any(self.measure(p).sha256 != self._project.measure(p).sha256 for p in paths)

    def unnamed(self, data: Mapping[str, Any]) -> list[Problem]:
        """What was told of files that the data of a record doesn't name."""
        if not self._told:
            return []
        known = set(files_named(data))
        return [
            Problem(FIELD, "not_named", f"{path[:200]} is not named by it", "the files it names")
            for path in self._told
            if path not in known
        ]


def files_named(data: Mapping[str, Any]) -> list[str]:
    """The files that plain data of a handoff or an entry names, whether or not it is sound: what
    it lists, and what its decisions, patterns and advice to read cite.
    """
    fields = {**dict.fromkeys(FILE_LISTS, ("path",)), **_CITING}
    given = (
        _without_line(text) if name == "location" else text
        for field, names in fields.items()
        for entry in _entries(data.get(field))
        if isinstance(entry, Mapping)
        for name in names
        for text in _entries(cast("Document", entry).get(name))
    )
    paths = (path for path in given if isinstance(path, str) and not path_problems(path, ""))
    return sorted({normal_path(path) for path in paths})


def _without_line(location: object) -> object:
    return location.partition(":")[0] if isinstance(location, str) else location


def _entries(value: object) -> list[object]:
    return list(cast("list[object]", value)) if isinstance(value, list | tuple) else [value]


__all__ = [
    "FIELD",
    "FILE_LISTS",
    "Files",
    "as_server",
    "files_named",
    "is_served",
    "looked_at",
]

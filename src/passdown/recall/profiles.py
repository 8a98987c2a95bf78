"""Agents' profiles: whole files, as they stand on disk, from one folder and nowhere else.

A profile is NAME.md. Its text is given on unchanged; only what its front matter declares is read.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, cast

from passdown.errors import InvalidInput, Problem
from passdown.model.names import agent_problems
from passdown.model.settings import needs_of
from passdown.model.text import excerpt

if TYPE_CHECKING:
    from passdown.recall.registry import Registry, Tool

FOLDERS = ("agents", ".claude/agents", ".passdown/agents")
"""Where profiles are looked for when no folder is named; the first that is there counts."""
MAX_BYTES = 1_048_576
ENDING = ".md"

_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
_NONBLOCK = getattr(os, "O_NONBLOCK", 0)
_DIRECTORY = getattr(os, "O_DIRECTORY", 0)
_NOT_AGENTS = frozenset({"readme"})


class Profile(NamedTuple):
    """An agent's profile.

    `text` is the whole file, byte for byte once encoded; it is empty when the file can't be used,
    which `problems` then says. `needs` is what the agent has to get with a handoff, `tools` what
    the registry gives it.
    """

    name: str
    text: str
    path: str
    needs: dict[str, list[str]]
    tools: tuple[Tool, ...]
    problems: tuple[Problem, ...]


class Profiles:
    """The profiles of a project: from `folder`, or the first of `FOLDERS` beneath its root."""

    def __init__(self, root: str, folder: str = "", registry: str = "") -> None:
        self.root = root
        self.folder = os.path.join(root, folder) if folder else _first_folder(root)
        self._registry = registry

    @cached_property
    def registry(self) -> Registry:
        """The tool registry, read once; empty when there is none or it can't be used."""
        from passdown.recall.registry import registry_of

        path = os.path.join(self.root, self._registry) if self._registry else ""
        return registry_of(path, self._registry)

    def names(self) -> tuple[str, ...]:
        """The agents that have a profile, in order."""
        if not self.folder:
            return ()
        try:
            files = os.listdir(self.folder)
        except (OSError, ValueError):  # a folder's name with a NUL in it is a ValueError
            return ()
        stems = (name.removesuffix(ENDING) for name in files if name.endswith(ENDING))
        return tuple(sorted(stem for stem in stems if _is_name(stem) and self._is_there(stem)))

    def get(self, name: str) -> Profile | None:
        """The profile of an agent; None when it has none or no agent can be called so."""
        if not self.folder or not _is_name(name):
            return None
        path = os.path.join(self.folder, name + ENDING)
        try:
            data = _read(self.folder, name + ENDING)
            text = data.decode()
        except FileNotFoundError:
            return None
        except _Unusable as error:
            return self._unusable(name, path, error.problem)
        except UnicodeDecodeError as error:
            message = f"byte {error.start} is not UTF-8"
            return self._unusable(name, path, Problem("", "invalid_utf8", message, "UTF-8 text"))
        except (OSError, ValueError) as error:
            message = getattr(error, "strerror", None) or str(error)
            problem = Problem("", "unreadable_file", message, "a file")
            return self._unusable(name, path, problem)
        problems: list[Problem] = []
        needs = _declared(name, text, problems)
        tools = self.registry.tools_for(name)
        named = self._named(path, problems)
        return Profile(name, text, path, needs, tools, (*named, *self.registry.problems))

    def _named(self, path: str, problems: list[Problem]) -> tuple[Problem, ...]:
        """Problems with the name of a profile's file, from the project's root where it is there."""
        if not problems:
            return ()
        from passdown.recall.registry import in_file

        relative = os.path.relpath(path, self.root)
        return in_file(excerpt(path if relative.startswith("..") else relative, 200), problems)

    def _unusable(self, name: str, path: str, problem: Problem) -> Profile:
        return Profile(name, "", path, {}, (), (problem._replace(path=excerpt(path, 200)),))

    def _is_there(self, name: str) -> bool:
        with suppress(OSError, _Unusable):
            os.close(_open(self.folder, name + ENDING))
            return True
        return False


class _Unusable(Exception):
    """A file that is there but isn't read."""

    def __init__(self, code: str, message: str, expected: str) -> None:
        self.problem = Problem("", code, message, expected)


def _first_folder(root: str) -> str:
    """The first of the usual folders that is there; one that leads out of the project isn't."""
    real_root = os.path.realpath(root)
    for folder in FOLDERS:
        path = os.path.join(root, *folder.split("/"))
        real = os.path.realpath(path)
        if os.path.isdir(real) and os.path.commonpath([real_root, real]) == real_root:
            return path
    return ""


def _is_name(name: str) -> bool:
    # The rules of an agent's name leave no separator, no leading dot and no device.
    return not agent_problems(name, "agent") and name.casefold() not in _NOT_AGENTS


def _open(folder: str, file: str) -> int:
    """A regular file of the folder, opened without following a link out of it."""
    at = os.open(folder, os.O_RDONLY | _DIRECTORY)
    flags = os.O_RDONLY | _NOFOLLOW | _NONBLOCK
    try:
        try:
            descriptor = os.open(file, flags, dir_fd=at)
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.EMLINK):
                raise
            descriptor = os.open(_behind_link(folder, file), flags, dir_fd=at)
    finally:
        os.close(at)
    status = os.fstat(descriptor)
    if stat.S_ISREG(status.st_mode) and status.st_size <= MAX_BYTES:
        return descriptor
    os.close(descriptor)
    if stat.S_ISREG(status.st_mode):
        raise _Unusable("too_large", f"{status.st_size:,} bytes", f"at most {MAX_BYTES:,}")
    raise _Unusable("not_regular_file", "is not a regular file", "a file")


def _behind_link(folder: str, file: str) -> str:
    """The file of the same folder that a link leads to."""
    real = os.path.realpath(os.path.join(folder, file))
    if os.path.dirname(real) != os.path.realpath(folder):
        raise _Unusable("path_escapes_root", "is a link out of its folder", "a file in it")
    return os.path.basename(real)


def _read(folder: str, file: str) -> bytes:
    with open(_open(folder, file), "rb") as opened:
        # One byte more than is allowed, should it have grown since it was measured.
        data = opened.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise _Unusable("too_large", f"{len(data):,} bytes or more", f"at most {MAX_BYTES:,}")
    return data


def _declared(name: str, text: str, problems: list[Problem]) -> dict[str, list[str]]:
    """What the front matter declares that the agent needs; its faults become warnings."""
    from passdown.model.plain import load_yaml

    found: list[Problem] = []
    needs: dict[str, list[str]] = {}
    try:
        document = load_yaml(_front_matter(text))
    except InvalidInput as error:
        document = None
        found += [p._replace(path="front matter") for p in error.problems]
    fields = cast("dict[str, object]", document) if isinstance(document, dict) else {}
    if document is not None and not isinstance(document, dict):
        kind = type(document).__name__
        found.append(Problem("front matter", "wrong_type", f"{kind} given", "fields"))
    if fields.get("needs") is not None:
        needs = needs_of(_truths(fields["needs"]), "needs", found)
    if fields.get("name") not in (None, name):
        message = f"says {excerpt(str(fields['name']))!r}"
        found.append(Problem("name", "name_differs", message, f"{name}, as the file is called"))
    problems += [problem._replace(level="warning") for problem in found]
    return needs


def _front_matter(text: str) -> str:
    """The YAML between a first line `---` and the next one; empty when there is none."""
    lines = text.removeprefix("\ufeff").split("\n")
    if lines[0].rstrip() != "---":
        return ""
    for end, line in enumerate(lines[1:], 1):
        if line.rstrip() == "---":
            return "\n".join(lines[1:end])
    return ""


def _truths(needs: object) -> object:
    """Needs with `plan: true` as a truth value: YAML's plain scalars come as text."""
    if not isinstance(needs, dict):
        return needs
    words: dict[object, object] = {"true": True, "false": False}
    return {
        key: words.get(value, value) if key == "plan" and isinstance(value, str) else value
        for key, value in cast("dict[str, object]", needs).items()
    }

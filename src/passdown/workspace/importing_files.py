"""The files of a source: read beneath one folder, never through a link that leads out of it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from passdown.errors import InvalidInput, Problem
from passdown.workspace.given_files import bytes_at, irregular, is_beneath

if TYPE_CHECKING:
    from collections.abc import Iterator

    from passdown.workspace.opened import Opened

MAX_PAGE_BYTES = 1_048_576
MAX_LINES_BYTES = 64 * 1_048_576
MAX_FILES = 10_000
_MAX_DEPTH = 8

PAGES = (".md", ".markdown")
LINES = (".jsonl", ".json", ".ndjson")

_SKIPPED_FOLDERS = {".git", ".passdown", "node_modules", ".venv", "__pycache__"}


class Source(NamedTuple):
    """What is to be brought in: a folder and the files in it that come into question. `refused` are
    folders that aren't entered, since a link leads out to them.
    """

    path: str
    folder: str
    names: tuple[str, ...]
    is_folder: bool
    refused: tuple[Problem, ...] = ()


def source_at(path: str) -> Source:
    """The source at a path; InvalidInput where there is nothing to read."""
    if "\0" in path or not os.path.exists(path):
        problem = Problem("source", "missing_file", f"{path[:200]!r} is not there", "a file")
        raise InvalidInput("nothing was imported", [problem])
    if problems := irregular(path):
        raise InvalidInput("nothing was imported", problems)
    if not os.path.isdir(path):
        folder, name = os.path.split(os.path.abspath(path))
        return Source(path, folder, (name,), is_folder=False)
    names: list[str] = []
    refused: list[Problem] = []
    for found in _walk(path, "", 0):
        if isinstance(found, Problem):
            refused.append(found)
        else:
            names.append(found)
        if len(names) > MAX_FILES:
            problem = Problem("source", "too_many", f"more than {MAX_FILES:,} files", "a folder")
            raise InvalidInput("nothing was imported", [problem])
    folder = os.path.abspath(path)
    return Source(path, folder, tuple(sorted(names)), is_folder=True, refused=tuple(refused))


def _walk(folder: str, below: str, depth: int) -> Iterator[str | Problem]:
    """The names of pages and JSON lines beneath a folder. Folders that are links aren't entered:
    what they hold is found where it lies, and a problem where that is outside.
    """
    try:
        entries = sorted(os.scandir(os.path.join(folder, below)), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        name = f"{below}/{entry.name}" if below else entry.name
        if entry.is_dir(follow_symlinks=False):
            if depth < _MAX_DEPTH and entry.name not in _SKIPPED_FOLDERS:
                yield from _walk(folder, name, depth + 1)
        elif entry.name.lower().endswith((*PAGES, *LINES)):
            yield name
        elif _leads_out(entry, folder):
            yield _outside(name, "a folder inside it")


def _leads_out(entry: os.DirEntry[str], folder: str) -> bool:
    """Whether an entry is a link to a folder elsewhere that would be entered if it were here."""
    if entry.name in _SKIPPED_FOLDERS or not entry.is_symlink() or not entry.is_dir():
        return False
    return not is_beneath(entry.path, folder)


def _outside(name: str, expected: str) -> Problem:
    return Problem(name, "path_escapes_root", "leads out of the folder", expected)


def bytes_of(source: Source, name: str) -> bytes | Problem:
    """A file's bytes, or why there are none to be had; only regular files inside the folder."""
    path = os.path.realpath(os.path.join(source.folder, *name.split("/")))
    if not is_beneath(path, source.folder):
        return _outside(name, "a file inside it")
    limit = MAX_LINES_BYTES if not name.lower().endswith(PAGES) else MAX_PAGE_BYTES
    data = bytes_at(path, limit)
    return data._replace(path=name) if isinstance(data, Problem) else data


def text_at(source: Source, name: str) -> str | Problem:
    """A page's text, or why there is none."""
    data = bytes_of(source, name)
    if isinstance(data, Problem):
        return data
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        return Problem(name, "invalid_utf8", f"byte {error.start} is not UTF-8", "UTF-8 text")


def within(opened: Opened, path: str) -> str:
    """A path relative to the project, with `/` between its parts; empty where it lies outside."""
    real = os.path.relpath(os.path.realpath(path), os.path.realpath(opened.root))
    return "" if real.split(os.sep)[0] == ".." else real.replace(os.sep, "/")


def place_of(opened: Opened, source: Source) -> str:
    """What a source is known by when it comes again: its folder in the project, else its name."""
    return within(opened, source.folder) or os.path.basename(source.folder)

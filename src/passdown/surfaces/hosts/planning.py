"""What would change: every file's bytes before and after, worked out before any is written."""

from __future__ import annotations

import hashlib
import os
import stat
from typing import TYPE_CHECKING, Any, NamedTuple

from passdown.errors import InvalidInput, Problem
from passdown.surfaces.hosts.choosing import installed, places_of, wishes_of
from passdown.surfaces.hosts.drafts import Draft, without
from passdown.surfaces.hosts.table import COMMAND, HOSTS
from passdown.surfaces.hosts.wishes import (
    PAGE_BLOCK,
    Taken,
    Wish,
    add,
    check_text,
    empty_text,
    is_there,
    says_nothing,
    take,
)

if TYPE_CHECKING:
    from collections.abc import Collection

Entry = dict[str, Any]
MAX_BYTES = 4_194_304


class Change(NamedTuple):
    """A file's bytes before and after; None where there is no file. `real` is what is written:
    the end of a link, where `path` (relative to the project) is one.
    """

    path: str
    real: str
    before: bytes | None
    after: bytes | None


class Plan(NamedTuple):
    """All changes, the hosts that are served after them, and what to remember for the way back."""

    changes: tuple[Change, ...]
    hosts: tuple[str, ...]
    entries: dict[str, Entry]


class _File(NamedTuple):
    path: str
    real: str
    wanted: list[Wish]
    dropped: list[Wish]


def plan(
    root: str, entries: dict[str, Entry], *, add_hosts: Collection[str], drop: Collection[str]
) -> Plan:
    """What it takes to serve `add_hosts` and those served already, but none of `drop`.

    `entries` is what an earlier run remembered. Raises InvalidInput with every reason why a file
    can't be edited; nothing is written here.
    """
    served = [n for n in HOSTS if (n in add_hosts or n in installed(root)) and n not in drop]
    problems: list[Problem] = []
    kept = dict(entries)
    changes: list[Change] = []
    for file in _files(root, served, [name for name in HOSTS if name in drop], problems):
        try:
            change = _change(root, file, kept)
        except ValueError as error:
            problems.append(_problem(file.path, error))
            continue
        if change is not None:
            changes.append(change)
    if problems:
        raise InvalidInput("nothing was written: files can't be edited as they are", problems)
    return Plan(tuple(changes), tuple(served), kept)


def _files(root: str, served: list[str], drop: list[str], problems: list[Problem]) -> list[_File]:
    """The files in question by what they really are, so that a link and its end are one file."""
    found: dict[str, _File] = {}
    wanted = [each for name in served for each in wishes_of(root, HOSTS[name])]
    dropped = [each for name in drop for each in places_of(HOSTS[name])]
    for path, wish, is_wanted in (
        *((path, wish, True) for path, wish in wanted),
        *((path, wish, False) for path, wish in dropped),
    ):
        real = _real(root, path, problems if is_wanted else [])
        if not real or (not is_wanted and not os.path.exists(real)):
            continue
        file = found.setdefault(real, _File(path, real, [], []))
        listed = file.wanted if is_wanted else file.dropped
        if not any(_same(each, wish) for each in (*file.wanted, *listed)):
            listed.append(wish)
    return list(found.values())


def _same(one: Wish, other: Wish) -> bool:
    """Whether two pieces are the same; the block of a page serves all hosts that read it."""
    is_block = one.kind == other.kind == PAGE_BLOCK
    return is_block or one == other


def _real(root: str, path: str, problems: list[Problem]) -> str:
    """The file that a path leads to; empty, with a problem, where it can't be ours to write."""
    full = os.path.join(root, path)
    real = os.path.realpath(full)
    inside = os.path.realpath(root)
    if os.path.commonpath([real, inside]) != inside:
        return _refused(problems, path, "linked_out", "a link leads out of the project")
    if os.path.lexists(full) and not os.path.exists(full):
        return _refused(problems, path, "broken_link", "the link leads nowhere")
    above = real
    while not os.path.lexists(above):
        above = os.path.dirname(above)
    mode = os.stat(above).st_mode
    if above == real and not stat.S_ISREG(mode):
        return _refused(problems, path, "not_regular_file", "it is no regular file")
    if above != real and not stat.S_ISDIR(mode):
        where = os.path.relpath(above, inside)
        return _refused(problems, path, "not_a_folder", f"{where} is no folder")
    # A file is replaced, so its folder has to be writable as well.
    folder = os.path.dirname(real) if above == real else above
    if not os.access(above, os.W_OK) or not os.access(folder, os.W_OK):
        return _refused(problems, path, "read_only", "it may not be written")
    return real


def _refused(problems: list[Problem], path: str, code: str, message: str) -> str:
    problem = Problem(path, code, message, "a file of this project")
    if problem not in problems:  # several pieces may be meant for one file
        problems.append(problem)
    return ""


def _problem(path: str, error: ValueError) -> Problem:
    if isinstance(error, Taken):
        return Problem(path, "taken", str(error), "a free place", "move it, or leave the host out")
    if isinstance(error, UnicodeDecodeError):
        return Problem(path, "not_utf8", f"is no UTF-8 text ({error.reason})", "UTF-8")
    return Problem(
        path, "invalid_file", str(error), "a file that its host can read", f"mend {path}"
    )


def _change(root: str, file: _File, entries: dict[str, Entry]) -> Change | None:
    path = os.path.relpath(file.real, os.path.realpath(root)).replace(os.sep, "/")
    before = _bytes(file.real)
    first = (*file.wanted, *file.dropped)[0]
    text = _decoded(before, first)
    if not file.wanted and COMMAND not in text:
        entries.pop(path, None)
        return None
    if before is not None:
        check_text(text, first)
    entry = entries.get(path)
    # On the way out, what is exactly as it was left is exactly undone.
    untouched = entry is not None and entry.get("sha256") == _digest(before)
    pieces = (*file.wanted, *file.dropped)
    if file.wanted and _fits(text, file):
        return None
    base, made = _base(text, before, pieces, entry, untouched=untouched)
    draft = Draft(base)
    for wish in file.wanted:
        if not is_there(draft.text, wish):
            add(draft, wish)
    if without(draft.text, draft.cuts) != base:
        raise ValueError("the edit couldn't be undone")
    return _finished(path, file, before, draft, entries, made=made)


def _fits(text: str, file: _File) -> bool:
    """Whether a file has every piece that it should have, and none that it shouldn't."""
    there = all(is_there(text, wish) for wish in file.wanted) if text else False
    return there and all(take(text, wish) == text for wish in file.dropped)


def _base(
    text: str,
    before: bytes | None,
    pieces: tuple[Wish, ...],
    entry: Entry | None,
    *,
    untouched: bool,
) -> tuple[str, bool]:
    """A file without anything of ours, and whether it was us who made it."""
    if before is None:
        return empty_text(pieces[0]), True
    if untouched and entry is not None:
        return without(text, entry["cuts"]), bool(entry["made"])
    base = text
    for wish in pieces:
        base = take(base, wish)
    if entry is not None:
        return base, bool(entry["made"])
    return base, base != text and says_nothing(base, pieces[0])


def _finished(
    path: str,
    file: _File,
    before: bytes | None,
    draft: Draft,
    entries: dict[str, Entry],
    *,
    made: bool,
) -> Change | None:
    first = (*file.wanted, *file.dropped)[0]
    if not file.wanted and made and says_nothing(draft.text, first):
        after = None
    else:
        after = draft.text.encode("utf-8", "surrogateescape")
    if file.wanted:
        entries[path] = {"made": made, "sha256": _digest(after), "cuts": draft.cuts}
    else:
        entries.pop(path, None)
    return Change(path, file.real, before, after) if after != before else None


def _bytes(path: str) -> bytes | None:
    from passdown.workspace.given_files import bytes_at

    data = bytes_at(path, MAX_BYTES)
    if isinstance(data, bytes):
        return data
    if data.code == "missing_file":
        return None
    raise ValueError(data.message)


def _decoded(data: bytes | None, wish: Wish) -> str:
    errors = "surrogateescape" if wish.kind == PAGE_BLOCK else "strict"
    return (data or b"").decode("utf-8", errors)


def _digest(data: bytes | None) -> str:
    return hashlib.sha256(data or b"").hexdigest()

"""Set up and remove hosts: which files change, planned first, then written all or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from passdown.errors import Problem, StoreUnavailable, raise_problems
from passdown.hosts.definitions import BLOCK_FILE, COMMAND, GEMINI, HOSTS, STATE_FILE, Host
from passdown.hosts.host_entries import (
    HOOK,
    IMPORT,
    INSTRUCTIONS,
    JSON_SERVER,
    MARKDOWN_MARKS,
    PAGES,
    PLUGIN_FILE,
    PLUGIN_MARK,
    TOML_SERVER,
    EditedText,
    EntryConflict,
    HostEntry,
    add_entry,
    check_text,
    empty_text,
    has_entry,
    is_blank,
    remove_cuts,
    remove_entry,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable


_IMPORT = re.compile(r"^@(?:\./)?AGENTS\.md\s*$", re.MULTILINE)


def detected_hosts(root: str) -> list[str]:
    """The hosts that a project has files of, or whose program this machine has."""
    import shutil

    return [
        name
        for name, host in HOSTS.items()
        if any(os.path.lexists(os.path.join(root, mark)) for mark in host.marks)
        or any(shutil.which(program) for program in (name, *host.more_programs))
    ]


def installed_hosts(root: str) -> list[str]:
    """The hosts whose files call us already."""
    found: list[str] = []
    for name, host in HOSTS.items():
        text = _read_text(root, host.hooks_file)
        sign = PLUGIN_MARK if host.form == "plugin" else rf"passdown(?:\.exe)?'? hook {name} "
        if re.search(sign, text):
            found.append(name)
    return found


def host_program(*, absolute: bool) -> str:
    """The program that a host would find by its usual name, or where it is by an absolute path;
    empty where there is none.

    A virtual environment is on the PATH of the shell that activated it, not on that of a host.
    """
    import shutil
    import sys

    scripts = "Scripts" if os.name == "nt" else "bin"
    own = os.path.join(sys.prefix, scripts) if sys.prefix != sys.base_prefix else ""
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    usual = os.pathsep.join(
        f for f in folders if f and os.path.realpath(f) != os.path.realpath(own)
    )
    everywhere = os.pathsep.join([own, *folders]) if absolute else usual
    found = shutil.which(COMMAND, path=everywhere)
    return os.path.abspath(found) if found else ""


def entries_for(
    root: str, host: Host, program: str = "", *, everywhere: bool = False
) -> list[tuple[str, HostEntry]]:
    """What a host gets, each piece with its file; `everywhere`: with all files that may hold it."""
    kind, events = (PLUGIN_FILE, ("",)) if host.form == "plugin" else (HOOK, tuple(host.events))
    found = [(host.hooks_file, HostEntry(kind, host, event, program)) for event in events]
    servers = host.server_files
    pages = [(name, INSTRUCTIONS) for name in (*host.instructions, BLOCK_FILE)]
    if not everywhere:
        servers = (_first_existing(root, servers) or servers[0],)
        pages = _pages(root, host)
    for name in servers:
        kind = TOML_SERVER if name.endswith(".toml") else JSON_SERVER
        found.append((name, HostEntry(kind, host, "", program)))
    return found + [(name, HostEntry(kind, host)) for name, kind in pages]


def _first_existing(root: str, names: Iterable[str]) -> str:
    return next((name for name in names if os.path.lexists(os.path.join(root, name))), "")


def _pages(root: str, host: Host) -> list[tuple[str, str]]:
    """The files that the host reads at the start of a session, and what each gets.

    Claude Code reads CLAUDE.md, and AGENTS.md only in some versions: where there is no CLAUDE.md,
    one is made that imports it.
    """
    if host is GEMINI:
        names = re.search(
            r'"fileName"\s*:\s*(\[[^\]]*\]|"[^"]*")', _read_text(root, host.hooks_file)
        )
        is_shared = names is not None and BLOCK_FILE in names[1]
        return [(BLOCK_FILE if is_shared else host.instructions[0], INSTRUCTIONS)]
    own = _first_existing(root, host.instructions)
    text = _read_text(root, own) if own else ""
    if own and not _IMPORT.search(text):
        return [(own, INSTRUCTIONS)]
    is_ours = host.instructions and (not own or MARKDOWN_MARKS.begin in text)
    imported = [(own or host.instructions[0], IMPORT)] if is_ours else []
    return [(BLOCK_FILE, INSTRUCTIONS), *imported]


def _read_text(root: str, name: str) -> str:
    from passdown.workspace.files import bytes_at

    data = bytes_at(os.path.join(root, name), 1_048_576)
    return data.decode(errors="replace") if isinstance(data, bytes) else ""


FileRecord = dict[str, Any]
MAX_BYTES = 4_194_304


class FileChange(NamedTuple):
    """A file's bytes before and after; None where there is no file. `real` is what is written:
    the end of a link, where `path` (relative to the project) is one.
    """

    path: str
    real: str
    before: bytes | None
    after: bytes | None


class SetupPlan(NamedTuple):
    """All changes, the hosts that are served after them, and what is needed to undo them."""

    changes: tuple[FileChange, ...]
    hosts: tuple[str, ...]
    entries: dict[str, FileRecord]


class _HostFile(NamedTuple):
    path: str
    real: str
    wanted: list[HostEntry]
    dropped: list[HostEntry]


def plan_setup(
    root: str, state: SetupState, *, add_hosts: Collection[str], drop: Collection[str]
) -> SetupPlan:
    """What it takes to serve `add_hosts` and those served already, but none of `drop`.

    `state` is what an earlier run remembered. Raises InvalidInput with every reason why a file
    can't be edited; nothing is written here.
    """
    served = [n for n in HOSTS if (n in add_hosts or n in installed_hosts(root)) and n not in drop]
    problems: list[Problem] = []
    kept = dict(state.files)
    changes: list[FileChange] = []
    dropped = [name for name in HOSTS if name in drop]
    for file in _files(root, served, dropped, state.program, problems):
        try:
            change = _change(root, file, kept)
        except ValueError as error:
            problems.append(_problem(file.path, error))
            continue
        if change is not None:
            changes.append(change)
    raise_problems("nothing was written: files can't be edited as they are", problems)
    return SetupPlan(tuple(changes), tuple(served), kept)


def _files(
    root: str, served: list[str], drop: list[str], program: str, problems: list[Problem]
) -> list[_HostFile]:
    """The files in question by what they really are, so that a link and its end are one file."""
    found: dict[str, _HostFile] = {}
    wanted = [(True, *each) for name in served for each in entries_for(root, HOSTS[name], program)]
    dropped = [(False, *e) for n in drop for e in entries_for(root, HOSTS[n], everywhere=True)]
    for is_wanted, path, entry in (*wanted, *dropped):
        real = _real_path(root, path, problems if is_wanted else [])
        if not real or (not is_wanted and not os.path.exists(real)):
            continue
        file = found.setdefault(real, _HostFile(path, real, [], []))
        listed = file.wanted if is_wanted else file.dropped
        # The instructions of a page serve all hosts that read it.
        is_page = entry.kind in PAGES
        if not any(e == entry or (is_page and e.kind == entry.kind) for e in file.wanted + listed):
            listed.append(entry)
    return list(found.values())


def _real_path(root: str, path: str, problems: list[Problem]) -> str:
    """The file that a path leads to; empty, with a problem, where it can't be ours to write."""
    full = os.path.join(root, path)
    real = os.path.realpath(full)
    inside = os.path.realpath(root)
    if not _is_inside(root, path):
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
    if isinstance(error, EntryConflict):
        return Problem(path, "taken", str(error), "a free place", "move it, or leave the host out")
    if isinstance(error, UnicodeDecodeError):
        return Problem(path, "not_utf8", f"is no UTF-8 text ({error.reason})", "UTF-8")
    return Problem(path, "invalid_file", str(error), "a file that its host can read", f"fix {path}")


def _change(root: str, file: _HostFile, records: dict[str, FileRecord]) -> FileChange | None:
    path = os.path.relpath(file.real, os.path.realpath(root)).replace(os.sep, "/")
    before = _read_bytes(file.real)
    first, *_ = pieces = (*file.wanted, *file.dropped)
    errors = "surrogateescape" if first.kind in PAGES else "strict"
    text = (before or b"").decode("utf-8", errors)
    if not file.wanted and COMMAND not in text:
        records.pop(path, None)
        return None
    if before is not None:
        check_text(text, first)
    if file.wanted and _fits(text, file):
        return None
    base, made = _base(before, text, pieces, records.pop(path, None))
    draft = EditedText(base)
    for entry in file.wanted:
        if not has_entry(draft.text, entry):
            add_entry(draft, entry)
    if remove_cuts(draft.text, draft.cuts) != base:
        raise ValueError("the edit couldn't be undone")
    is_ours_alone = not file.wanted and made and is_blank(draft.text, first)
    after = None if is_ours_alone else draft.text.encode("utf-8", "surrogateescape")
    if file.wanted:
        records[path] = {"made": made, "sha256": _digest(after), "cuts": draft.cuts}
    return FileChange(path, file.real, before, after) if after != before else None


def _fits(text: str, file: _HostFile) -> bool:
    """Whether a file has every piece that it should have, and none that it shouldn't."""
    there = bool(text) and all(has_entry(text, entry) for entry in file.wanted)
    return there and all(remove_entry(text, entry) == text for entry in file.dropped)


def _base(
    before: bytes | None, text: str, pieces: tuple[HostEntry, ...], record: FileRecord | None
) -> tuple[str, bool]:
    """A file without anything of ours, and whether it was us who made it."""
    if before is None:
        return empty_text(pieces[0]), True
    if record and record["sha256"] == _digest(before):
        # What is exactly as it was left is exactly undone.
        return remove_cuts(text, record["cuts"]), record["made"]
    base = text
    for entry in pieces:
        base = remove_entry(base, entry)
    return base, record["made"] if record else base != text and is_blank(base, pieces[0])


def _read_bytes(path: str) -> bytes | None:
    from passdown.workspace.files import bytes_at

    data = bytes_at(path, MAX_BYTES)
    if isinstance(data, bytes):
        return data
    if data.code == "missing_file":
        return None
    raise ValueError(data.message)


def _digest(data: bytes | None) -> str:
    return hashlib.sha256(data or b"").hexdigest()


_SCHEMA = 1


class SetupState(NamedTuple):
    """What earlier runs wrote: files with the places of our text, new folders, and the program
    that hosts run, where it was chosen.
    """

    hosts: tuple[str, ...] = ()
    files: dict[str, FileRecord] = {}  # noqa: RUF012
    folders: tuple[str, ...] = ()
    program: str = ""


def read_setup_state(root: str) -> SetupState:
    """What is remembered; nothing where the file is missing or isn't ours any more."""
    try:
        with open(os.path.join(root, STATE_FILE), encoding="utf-8") as file:
            found = json.load(file)
        files = {str(path): _file_record(value) for path, value in found["files"].items()}
        folders = tuple(str(folder) for folder in found["folders"] if _is_inside(root, folder))
        hosts = tuple(map(str, found["hosts"]))
        return SetupState(hosts, files, folders, str(found.get("program", "")))
    except (OSError, ValueError, TypeError, LookupError, AttributeError):
        return SetupState()


def _is_inside(root: str, folder: str) -> bool:
    """Whether a folder is below the project: what is remembered may have come with a repository."""
    inside = os.path.realpath(root)
    return os.path.realpath(os.path.join(inside, folder)).startswith(inside + os.sep)


def _file_record(value: dict[str, Any]) -> FileRecord:
    cuts = [[int(at), int(length)] for at, length in value["cuts"]]
    return {"made": bool(value["made"]), "sha256": str(value["sha256"]), "cuts": cuts}


def apply_plan(root: str, plan: SetupPlan, memory: SetupState) -> None:
    """Write a plan. Raises InvalidInput where a file has changed since it was planned, and
    StoreUnavailable where one can't be written; in both cases everything is as it was.
    """
    _check_unchanged(plan.changes)
    folders = _missing_folders(root, plan.changes)
    after = SetupState(plan.hosts, plan.entries, (*memory.folders, *folders), memory.program)
    done: list[FileChange] = []
    try:
        if plan.hosts:
            _write_setup_state(root, after)
        for folder in folders:
            os.mkdir(os.path.join(root, folder))
        for change in plan.changes:
            _replace_file(change.real, change.after, change.before)
            done.append(change)
    except (OSError, StoreUnavailable) as error:
        _undo(root, done, folders, memory)
        why = error.message if isinstance(error, StoreUnavailable) else str(error)
        raise StoreUnavailable(
            f"{why}; everything is as it was",
            next_step="Check who owns the folder, and the space left.",
        ) from error
    _remove_empty_folders(root, plan, after)


def _check_unchanged(changes: Iterable[FileChange]) -> None:
    problems: list[Problem] = []
    for change in changes:
        try:
            with open(change.real, "rb") as file:
                now: bytes | None = file.read()
        except FileNotFoundError:
            now = None
        if now != change.before:
            message = "it was changed meanwhile"
            problems.append(Problem(change.path, "changed", message, "", "run it again"))
    raise_problems("nothing was written", problems)


def _missing_folders(root: str, changes: Iterable[FileChange]) -> list[str]:
    """The folders that have to be made, the outer ones first."""
    found: dict[str, None] = {}
    inside = os.path.realpath(root)
    for change in changes:
        above: list[str] = []
        folder = os.path.dirname(change.real)
        while change.after is not None and not os.path.isdir(folder):
            above.append(os.path.relpath(folder, inside))
            folder = os.path.dirname(folder)
        found.update(dict.fromkeys(reversed(above)))
    return list(found)


def _replace_file(path: str, data: bytes | None, before: bytes | None) -> None:
    """Give a file its bytes, whole or not at all, with the rights that it had."""
    from passdown.workspace.files import replace_project_file

    if data is not None:
        replace_project_file(path, data)
    elif before is not None:
        os.unlink(path)


def _undo(root: str, done: list[FileChange], folders: list[str], memory: SetupState) -> None:
    """Put back what was there; what can't be put back is still remembered for the next run."""
    for change in reversed(done):
        with suppress(OSError, StoreUnavailable):
            _replace_file(change.real, change.before, change.after)
    for folder in reversed(folders):
        with suppress(OSError):
            os.rmdir(os.path.join(root, folder))
    with suppress(OSError, StoreUnavailable):
        if memory.hosts or memory.files:
            _write_setup_state(root, memory)
        else:
            os.unlink(os.path.join(root, STATE_FILE))


def _remove_empty_folders(root: str, plan: SetupPlan, after: SetupState) -> None:
    """Take away folders of ours that are empty now, and forget what is gone."""
    # In a copy of the project nobody remembers who made a folder; version control keeps none
    # that is empty, so one that only held a file of ours came with it.
    gone = [change.path.split("/")[:-1] for change in plan.changes if change.after is None]
    above = ["/".join(parts[: n + 1]) for parts in gone for n in range(len(parts))]
    folders = dict.fromkeys(after.folders or above)
    for folder in sorted(folders, reverse=True):
        with suppress(OSError):
            os.rmdir(os.path.join(root, folder))
    left = tuple(folder for folder in folders if os.path.isdir(os.path.join(root, folder)))
    with suppress(OSError, StoreUnavailable):
        if plan.hosts:
            _write_setup_state(root, after._replace(folders=left))
        else:
            os.unlink(os.path.join(root, STATE_FILE))


def _write_setup_state(root: str, memory: SetupState) -> None:
    path = os.path.join(root, STATE_FILE)
    document = {"schema": _SCHEMA, **memory._asdict()}
    data = json.dumps(document, indent=2).encode() + b"\n"
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    _replace_file(path, data, data if os.path.exists(path) else None)

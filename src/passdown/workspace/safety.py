"""Keeping the data safe: verify, heads, backup, bundles, rebuilding, and the doctor's visit."""

from __future__ import annotations

import json
import os
import stat
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from passdown.errors import InvalidInput, Problem
from passdown.ledger.disk import OWN_FOLDER
from passdown.ledger.verifying import Verified, heads_document, parse_heads, verify
from passdown.model.times import stamp
from passdown.store.opening import open_store
from passdown.workspace.locating import LEDGER, STORE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from passdown.workspace.opened import Opened

    Progress = Callable[[int, int], None]

# Releases that carry the fix of SQLite's WAL-reset bug, by line; anything from 3.51.3 on has it.
_FIXED_LINES: dict[tuple[int, ...], int] = {(3, 44): 6, (3, 50): 7}
_FIXED_FROM = (3, 51, 3)


_ODD = (TypeError, AttributeError, RecursionError)


class Rebuilt(NamedTuple):
    """What a rebuild did: how many records it read, and which tables came out different."""

    records: int
    differing: tuple[str, ...]


def verify_store(
    opened: Opened,
    against: Mapping[str, Any] | str | None,
    *,
    chain_only: bool,
    progress: Progress | None,
) -> Verified:
    """Verify the store, against saved heads where they are given."""
    saved: dict[str, tuple[int, str]] | None = None
    if against is not None:
        try:
            text = against if isinstance(against, str) else json.dumps(dict(against))
            saved = parse_heads(text)
        except (ArithmeticError, LookupError, ValueError, *_ODD) as error:
            problem = Problem("against", "invalid_heads", f"can't be read ({error})", "saved heads")
            raise InvalidInput("nothing was verified", [problem]) from error
    return verify(opened.store, against=saved, chain_only=chain_only, progress=progress)


def heads(opened: Opened) -> dict[str, Any]:
    """The heads of all streams, to be kept somewhere else."""
    with opened.store.reading() as reader:
        return heads_document(reader, stamp(opened.clock()))


def backup(opened: Opened, target: str, progress: Progress | None) -> Verified:
    """Copy the store to a new file while others go on writing, and verify the copy."""
    check_target(opened, target, ("", "-wal", "-shm"))
    opened.store.backup(target, progress)
    return verify_copy(target)


def verify_copy(target: str) -> Verified:
    """Verify a copy of a store that nobody else has open; nothing is left beside it."""
    copy = open_store("sqlite:///" + os.path.abspath(target))
    try:
        result = verify(copy)
    finally:
        copy.close()
        for leftover in (target + "-wal", target + "-shm"):
            if os.path.exists(leftover):
                os.unlink(leftover)
    return result


def check_target(opened: Opened, target: str, endings: tuple[str, ...]) -> None:
    """A target must be a new name outside the workspace's own folder."""
    problems: list[Problem] = []
    if "\0" not in target:
        folder = os.path.realpath(opened.place.folder)
        own = os.path.basename(folder) == OWN_FOLDER
        if own and os.path.realpath(target).startswith(folder + os.sep):
            message = f"{target} lies in the workspace's own folder"
            problems.append(Problem("target", "own_file", message, "a file elsewhere"))
    check_new(target, endings, problems)


def check_new(target: str, endings: tuple[str, ...], known: Sequence[Problem] = ()) -> None:
    """A target must be a new name; raises InvalidInput with that and what is `known` already."""
    problems = list(known)
    if "\0" in target:
        problems.append(Problem("target", "invalid_path", "contains a NUL", "a file name"))
    else:
        problems += [
            Problem("target", "exists", f"{target}{ending} exists already", "a new file name")
            for ending in endings
            if os.path.lexists(target + ending)
        ]
    if problems:
        raise InvalidInput("nothing was written", problems)


def rebuild(opened: Opened, progress: Progress | None) -> Rebuilt:
    """Make every derived row again and say which tables had been different."""
    with opened.store.reading() as reader:
        before = reader.dump()
    count = opened.ledger.rebuild(progress)
    with opened.store.reading() as reader:
        after = reader.dump()
        tasks = [row.task for row in reader.tasks(limit=2**62)]
    for task in tasks:
        opened.handles.restore(opened.store, task)
    return Rebuilt(count, tuple(name for name in before if before[name] != after[name]))


def doctor(opened: Opened) -> dict[str, Any]:
    """Facts and findings about this workspace; findings say what to do."""
    findings: list[Problem] = []
    facts = opened.store.facts()
    _check_version(str(facts.get("sqlite_version", "")), findings)
    facts["permissions"] = _check_modes(opened, findings)
    _check_left_behind(opened, findings)
    facts["clock"] = _check_clock(opened, findings)
    facts["handle_files"] = _check_handles(opened, findings)
    vectors = opened.embeddings.status()
    facts["embedder"] = vectors.embedder or "none"
    facts["vectors"] = {"done": vectors.done, "total": vectors.total}
    facts["python"] = sys.version.split()[0]
    facts["root"] = opened.root
    if opened.store_file:
        facts["file_system"] = _file_system(opened.place.folder, findings)
    return {
        "ok": not any(problem.level == "error" for problem in findings),
        "facts": facts,
        "findings": [problem.as_document() for problem in findings],
    }


def is_fixed(version: str) -> bool:
    """Whether a SQLite release is free of the WAL-reset bug (3.7.0 to 3.51.2)."""
    numbers = tuple(int(part) for part in version.split(".")[:3] if part.isdigit())
    if numbers >= _FIXED_FROM:
        return True
    fixed = _FIXED_LINES.get(numbers[:2])
    return fixed is not None and numbers[2:] >= (fixed,)


def _check_version(version: str, findings: list[Problem]) -> None:
    if version and not is_fixed(version):
        message = f"SQLite {version} has a bug that can damage a store with several writers"
        fix = "upgrade apsw to 3.53 or later"
        findings.append(Problem("sqlite_version", "wal_reset_bug", message, "3.51.3+", fix))


def _check_modes(opened: Opened, findings: list[Problem]) -> str:
    """Who may read the store; others than its owner are a warning."""
    if os.name == "nt":
        return "unknown"
    before = len(findings)
    for path in (opened.place.folder, opened.store_file):
        if path and os.path.exists(path) and stat.S_IMODE(os.stat(path).st_mode) & 0o077:
            message = f"{path} can be read by other users of this machine"
            fix = f"chmod go-rwx {path}"
            findings.append(Problem(path, "readable", message, "private", fix, "warning"))
    return "private" if len(findings) == before else "readable by others"


def _check_left_behind(opened: Opened, findings: list[Problem]) -> None:
    """A ledger in the folder of a workspace whose records are elsewhere is a warning."""
    left = os.path.join(opened.place.folder, LEDGER)
    named = os.path.join(opened.place.folder, STORE)
    if opened.store_file != left and os.path.isfile(left) and os.path.isfile(named):
        message = f"{left} isn't used: {named} says that the records are in {opened.store_shown}"
        fix = f"see what is in it (passdown task list --store {left}), then keep it elsewhere"
        findings.append(Problem(left, "left_behind", message, "one store", fix, "warning"))


def _check_clock(opened: Opened, findings: list[Problem]) -> str:
    """The time that it is here; one that the last record is ahead of is a warning."""
    with opened.store.reading() as reader:
        latest = reader.latest(2**62, 1)
    now = stamp(opened.clock())
    if latest and latest[0].at > now:
        message = f"the clock says {now}, the last record {latest[0].at}"
        fix = "check the machine's clock; order is kept by versions, not by time"
        findings.append(Problem("clock", "clock_behind", message, "a later time", fix, "warning"))
    return now


def _check_handles(opened: Opened, findings: list[Problem]) -> dict[str, int]:
    """Look at every handle file: missing and old ones are written anew, edited ones reported."""
    counts = {"current": 0, "missing": 0, "old": 0, "edited": 0}
    with opened.store.reading() as reader:
        rows = reader.tasks(limit=2**62)
        states = [(row.task, opened.handles.check(reader, row)) for row in rows]
    for task, state in states:
        counts[state] += 1
        if state in ("missing", "old"):
            opened.handles.restore(opened.store, task)
        elif state == "edited":
            path = opened.handle_path(task)
            message = f"{path} was edited by hand; the ledger is what counts"
            fix = "record the change with passdown, then remove the file; it is written again"
            findings.append(Problem(path, "edited_handle", message, "", fix, "warning"))
    return counts


_NETWORK = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "fuse.sshfs", "afs", "ceph"}


def _file_system(folder: str, findings: list[Problem]) -> str:
    """The file system that holds the store, where the system says; a network one is an error."""
    try:
        with open("/proc/self/mounts", encoding="utf-8") as file:
            mounts = [line.split()[1:3] for line in file]
    except OSError:
        return "unknown"
    real = os.path.realpath(folder)
    holding = [m for m in mounts if real == m[0] or real.startswith(m[0].rstrip("/") + "/")]
    kind = max(holding, key=lambda mount: len(mount[0]))[1] if holding else "unknown"
    if kind in _NETWORK:
        message = f"{folder} lies on {kind}, where several writers can damage the store"
        findings.append(Problem(folder, "network_files", message, "a local disk"))
    return kind


__all__ = [
    "Rebuilt",
    "Verified",
    "backup",
    "doctor",
    "heads",
    "is_fixed",
    "rebuild",
    "verify_store",
]

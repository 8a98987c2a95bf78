"""Maintenance: verify, backup, rebuild, doctor, bundles, copies of a store."""

from __future__ import annotations

import json
import os
import stat
import sys
from contextlib import closing, contextmanager, suppress
from io import BytesIO
from typing import TYPE_CHECKING, NamedTuple

from passdown.core.arguments import number_problems, raise_problems
from passdown.core.checkout import Checkout, checkout_warning, read_checkout
from passdown.core.codec import encode
from passdown.core.kinds import RECOVERY_STREAM, TASK_STREAM, origins_of, stream_of
from passdown.core.names import agent_problems, id_problems
from passdown.core.results import Diagnosis, SavedHeads
from passdown.core.text import text_problems
from passdown.core.times import stamp
from passdown.core.types import Heads, Person, Progress
from passdown.errors import (
    InvalidInput,
    NotFound,
    PassdownError,
    Problem,
    StoreUnavailable,
)
from passdown.history.git import checkout_of, has_git, head_of, patch_of
from passdown.history.lost_history import accept_ledger, ledger_behind, lost_tasks
from passdown.ledger import bundles
from passdown.ledger.bundles import BundleImport
from passdown.ledger.durable_files import check_folder, sweep_temporary, write_new
from passdown.ledger.project_files import OWN_FOLDER
from passdown.ledger.verification import (
    Verification,
    checked_share,
    heads_document,
    parse_heads,
    verify,
)
from passdown.ledger.writer import StreamEntry
from passdown.store import open_store
from passdown.store.copy import copy_store
from passdown.store.files import give_name
from passdown.workspace import Workspace
from passdown.workspace.context import Context
from passdown.workspace.files import irregular_file_problems
from passdown.workspace.location import LEDGER, STORE, locate, make_store_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from passdown.store.protocol import Store
    from passdown.store.statements import Reader


# Releases that carry the fix of SQLite's WAL-reset bug, by line; anything from 3.51.3 on has it.
_FIXED_LINES: dict[tuple[int, ...], int] = {(3, 44): 6, (3, 50): 7}
_FIXED_FROM = (3, 51, 3)


_ODD = (TypeError, AttributeError, RecursionError)


class Rebuild(NamedTuple):
    """What a rebuild did: how many records it read, and which tables came out different; `warnings`
    are about state files.
    """

    records: int
    differing: tuple[str, ...]
    warnings: tuple[Problem, ...] = ()


def verify_workspace(
    context: Context,
    against: Heads | None = None,
    *,
    chain_only: bool = False,
    progress: Progress | None = None,
) -> Verification:
    """Check that the store holds what was written.

    Args:
        against: Heads that were saved elsewhere.
        chain_only: Only check the hash chains, not the derived rows and the state files.
        progress: Called with how many records are done, and of how many.
    """
    saved: dict[str, tuple[int, str]] | None = None
    if against is not None:
        try:
            text = against if isinstance(against, str) else json.dumps(encode(against))
            saved = parse_heads(text)
        except (ArithmeticError, LookupError, ValueError, *_ODD) as error:
            problem = Problem("against", "invalid_heads", f"can't be read ({error})", "saved heads")
            raise InvalidInput("nothing was verified", [problem]) from error
    found = verify(context.store, against=saved, chain_only=chain_only, progress=progress)
    if chain_only:
        return found
    return found._replace(findings=(*found.findings, *_lost_history(context)))


_PATIENCE_S = 5.0


def verify_share() -> None:
    """Check the streams that standard input names: a part of `verify`, in a process of its own."""
    asked = json.loads(sys.stdin.readline())
    store = open_store(asked["url"], timeout_s=_PATIENCE_S, create=False)
    with closing(store):
        found = checked_share(store, asked["moment"], asked["heads"])
    if found is None:
        sys.exit(1)
    sys.stdout.write(found)


def heads(context: Context) -> SavedHeads:
    """The heads of all streams, to be kept somewhere else for `verify`."""
    with context.store.reading() as reader:
        return SavedHeads(heads_document(reader, stamp(context.clock())))


def backup(context: Context, target: str, progress: Progress | None = None) -> Verification:
    """Copy the store to a new file while others write, and verify the copy.

    Args:
        target: The new file.
        progress: Called with how much is done, and of how much.
    """
    check_new(target, _STORE_FILES, context)
    context.store.backup(target, progress)
    return verify_copy(target)


def verify_copy(target: str) -> Verification:
    """Verify a copy of a store that nobody else has open; nothing is left beside it."""
    try:
        with closing(open_store("sqlite:///" + os.path.abspath(target))) as copy:
            return verify(copy)
    finally:
        for ending in _STORE_FILES[1:]:
            with suppress(FileNotFoundError):
                os.unlink(target + ending)


_MAGIC = b"SQLite format 3\0"
_STORE_FILES = ("", "-wal", "-shm")


def kept_if_whole(target: str, fetch: Callable[[str], None]) -> Verification:
    """Fetch a copy of a store under another name, verify it, and only then let it have its own.

    One that was damaged already where it came from is kept beside it: it may be all that there is.
    """
    check_new(target, _STORE_FILES)
    temporary = f"{target}.{os.getpid()}.{os.urandom(4).hex()}.tmp"
    try:
        fetch(temporary)
        with open(temporary, "rb") as file:
            if file.read(len(_MAGIC)) != _MAGIC:  # of nothing, a database would be made
                message = "what came as a backup is no database; nothing was kept"
                raise PassdownError(
                    message,
                    next_step="Check the address: another program may answer there.",
                    code="not_a_server",
                )
        found = verify_copy(temporary)
        name = target if found.ok else f"{target}.damaged"
        give_name(temporary, name)
    except FileExistsError as error:
        problem = Problem(
            "target", "exists", f"{error.filename2} exists already", "a new file name"
        )
        raise InvalidInput("nothing was written", [problem]) from error
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
    if found.ok:
        return found
    kept = Problem("target", "damaged_copy", f"is not {target}: it is kept as {name}")
    return found._replace(findings=(*found.findings, kept))


def check_new(target: str, endings: tuple[str, ...] = (), context: Context | None = None) -> None:
    """A target must be outside the workspace's own folder, with nothing there of these endings."""
    problems: list[Problem] = []
    if "\0" in target:
        problems.append(Problem("target", "invalid_path", "contains a NUL", "a file name"))
        raise InvalidInput("nothing was written", problems)
    folder = os.path.realpath(context.place.home) if context else ""
    is_own = os.path.basename(folder) == OWN_FOLDER
    if is_own and os.path.realpath(target).startswith(folder + os.sep):
        message = f"{target} is in the workspace's own folder"
        problems.append(Problem("target", "own_file", message, "a file in another folder"))
    problems += [
        Problem("target", "exists", f"{target}{ending} exists already", "a new file name")
        for ending in endings
        if os.path.lexists(target + ending)
    ]
    raise_problems("nothing was written", problems)


def reindex(context: Context, progress: Progress | None = None) -> Rebuild:
    """Rebuild every derived row and state file from the records.

    Args:
        progress: Called with how many records are done, and of how many.
    """
    with context.store.reading() as reader:
        before = reader.dump()
    count = context.ledger.rebuild(progress)
    with context.store.reading() as reader:
        after = reader.dump()
        tasks = [row.task for row in reader.tasks(limit=2**62)]
    warnings = list(_lost_history(context, "warning"))
    lost = {problem.path for problem in warnings}
    for task in tasks:
        if task not in lost:
            warnings += context.state_files.write(context.store, task, with_archive=True)
    differing = tuple(name for name in before if before[name] != after[name])
    return Rebuild(count, differing, tuple(warnings))


def _lost_history(context: Context, level: str = "error") -> list[Problem]:
    """What state files show and the ledger lacks: a problem for each task."""
    with context.store.reading() as reader:
        lost = lost_tasks(context.state_folder, reader)
        problems = ledger_behind(reader, lost).problems if lost else ()
    return [problem._replace(level=level) for problem in problems]


def doctor(context: Context) -> Diagnosis:
    """Check this workspace for problems; findings say what to do."""
    findings: list[Problem] = []
    facts = context.store.facts()
    version = str(facts.get("sqlite_version", ""))
    if version and not is_fixed(version):
        message = f"SQLite {version} has a bug that can damage a store with several writers"
        fix = "upgrade apsw to 3.53 or later"
        findings.append(Problem("sqlite_version", "wal_reset_bug", message, "3.51.3+", fix))
    facts["permissions"] = _check_modes(context, findings)
    _check_left_behind(context, findings)
    facts["clock"] = _check_clock(context, findings)
    facts["state_files"] = _check_state_files(context, findings)
    vectors = context.embeddings.status()
    facts["embedder"] = vectors.embedder or "none"
    facts["vectors"] = {"done": vectors.done, "total": vectors.total}
    facts["python"] = sys.version.split()[0]
    facts["root"] = context.root
    if context.store_file:
        facts["file_system"] = _file_system(context.place.folder, findings)
    return Diagnosis(
        {
            "ok": not any(problem.level == "error" for problem in findings),
            "facts": facts,
            "findings": [problem.to_dict() for problem in findings],
        }
    )


def is_fixed(version: str) -> bool:
    """Whether a SQLite release is free of the WAL-reset bug (3.7.0 to 3.51.2)."""
    numbers = tuple(int(part) for part in version.split(".")[:3] if part.isdigit())
    if numbers >= _FIXED_FROM:
        return True
    fixed = _FIXED_LINES.get(numbers[:2])
    return fixed is not None and numbers[2:] >= (fixed,)


def _check_modes(context: Context, findings: list[Problem]) -> str:
    """Who may read the store; others than its owner are a warning."""
    if os.name == "nt":
        return "unknown"
    before = len(findings)
    for path in (context.place.folder, context.store_file):
        if path and os.path.exists(path) and stat.S_IMODE(os.stat(path).st_mode) & 0o077:
            message = f"{path} can be read by other users of this machine"
            fix = f"chmod go-rwx {path}"
            findings.append(Problem(path, "readable", message, "private", fix, "warning"))
    return "private" if len(findings) == before else "readable by others"


def _check_left_behind(context: Context, findings: list[Problem]) -> None:
    """A ledger in the folder of a workspace whose records are in another store is a warning."""
    left = os.path.join(context.place.folder, LEDGER)
    named = os.path.join(context.place.folder, STORE)
    if context.store_file != left and os.path.isfile(left) and os.path.isfile(named):
        message = f"{left} isn't used: {named} says that the records are in {context.store_label}"
        fix = f"see what is in it (passdown task list --store {left}), then move it away"
        findings.append(Problem(left, "left_behind", message, "one store", fix, "warning"))


def _check_clock(context: Context, findings: list[Problem]) -> str:
    """The time that it is here; one that the last record is ahead of is a warning."""
    with context.store.reading() as reader:
        latest = reader.latest(2**62, 1)
    now = stamp(context.clock())
    if latest and latest[0].at > now:
        message = f"the clock says {now}, the last record {latest[0].at}"
        fix = "check the machine's clock; order is kept by versions, not by time"
        findings.append(Problem("clock", "clock_behind", message, "a later time", fix, "warning"))
    return now


def _check_state_files(context: Context, findings: list[Problem]) -> dict[str, int]:
    """Look at every state file: missing, old and edited ones are written again, what an edited
    one says is kept aside. One that is ahead of the ledger is an error, and stays.
    """
    counts = {"current": 0, "missing": 0, "old": 0, "edited": 0, "ahead": 0}
    state_files = context.state_files
    try:
        check_folder(state_files.folder)
    except StoreUnavailable as error:
        findings.append(Problem("state_files", "no_folder", error.message, "", error.next_step))
        return counts
    lost = _lost_history(context)
    findings += lost
    with context.store.reading() as reader:
        rows = reader.tasks(limit=2**62)
        states = {row.task: state_files.check(reader, row) for row in rows}
    for task, state in {**states, **{each.path: "ahead" for each in lost}}.items():
        counts[state] += 1
        if state == "missing" and os.path.exists(path := state_files.path(task)):
            message = f"{path} was torn: nothing, or zeros, was left of it; it is written again"
            findings.append(Problem("state_file", "torn_state_file", message, level="warning"))
        if state in ("missing", "old", "edited"):
            findings += state_files.write(context.store, task, with_archive=True)
    if os.path.isdir(state_files.folder):
        sweep_temporary(state_files.folder)
    return counts


def recover(
    context: Context, task: str | None = None, *, by: Person, reason: str = ""
) -> dict[str, list[str]]:
    """Go on from the ledger although state files show what it has lost.

    The decision is recorded, and the files are kept aside; gives their names, by task.

    Args:
        task: Only this task; otherwise all of which more is shown than the ledger has.
        by: The person who decides.
    """
    raise_problems(
        "nothing was changed",
        [
            *(id_problems(task, "task") if task else ()),
            *agent_problems(by, "by"),
            *text_problems(reason, "reason", required=False),
        ],
    )
    with context.store.reading() as reader:
        lost = lost_tasks(context.state_folder, reader)
        lost = {name: shown for name, shown in lost.items() if task in (None, name)}
        heads = {name: reader.head(stream_of(name)) for name in lost}
    if not lost:
        raise NotFound(
            "no state file shows more than the ledger has",
            next_step="passdown doctor compares all of them.",
        )
    found: dict[str, list[str]] = {}
    for name, shown in lost.items():
        head = heads[name]
        body = {
            "version": head.position if head else 0,
            "digest": head.digest if head else "",
            "lost_version": shown.version,
            "lost_digest": shown.digest,
            "reason": reason,
        }
        stream, key = RECOVERY_STREAM + name, f"{body['digest']}-{shown.digest}"
        context.ledger.add_entries([StreamEntry(stream, "ledger_accepted", by, body, key)])
        found[name] = accept_ledger(context.state_folder, name)
        context.state_files.write(context.store, name, with_archive=True)
    context.refusal = context.lost_ledger()
    return found


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


def export(context: Context, target: str, task: str | None = None, *, diff: bool = False) -> int:
    """Write a bundle to a new file, with the state of the repository; gives the number of streams.

    Args:
        target: The new file.
        task: Only this task.
        diff: Also the uncommitted changes.
    """
    if task is not None:
        with context.store.reading() as reader:
            reader.existing_task(task)
    check_new(target, context=context)
    stood, patch = _repository(context.root, diff=diff)
    with context.store.reading() as reader:
        streams = [stream_of(task)] if task else [head.stream for head in reader.heads(TASK_STREAM)]
        data = bundles.bundle_bytes(reader, streams, stood, patch)
    _write_new(target, data, "nothing was exported")
    return len(streams)


def export_from(fetch: Callable[[], bytes], target: str, root: str, *, diff: bool) -> int:
    """Write a bundle of another machine to a new file, with the state of the repository at `root`
    instead, if it is one; gives the number of streams. Raises InvalidInput for one that can't be
    trusted.
    """
    check_new(target)
    with bundles.read_bundle(BytesIO(fetch())) as bundle:
        stood, patch = _repository(root, diff=diff)
        data = bundles.bundle_bytes_of(bundle.records, stood or bundle.checkout, patch)
    _write_new(target, data, "nothing was exported")
    return len(bundle.heads)


def _repository(root: str, *, diff: bool) -> tuple[Checkout | None, bytes]:
    """The state of the repository at a folder, if it is in one, and its uncommitted changes."""
    return (checkout_of(root) if has_git(root) else None), (patch_of(root) if diff else b"")


def checkout(workspace: Workspace) -> Checkout | None:
    """The state of the project's repository: branch, commit, uncommitted files; None if none."""
    return _repository(workspace.root, diff=False)[0]


def _write_new(target: str, data: bytes, said: str) -> None:
    try:
        write_new(target, data)
    except OSError as error:
        problem = Problem("target", "unwritable", f"{target}: {error.strerror}", "a new file")
        raise InvalidInput(said, [problem]) from error


def import_bundle(
    context: Context,
    path: str,
    *,
    fork: str = "",
    patch: str = "",
    agent: str = "",
    max_unpacked: int | None = None,
) -> BundleImport:
    """Import a bundle, verified, all of it or nothing.

    Args:
        path: The bundle.
        fork: A suffix under which tasks whose histories differ are imported as well.
        patch: A new file for the uncommitted changes in the bundle.
        agent: Who imports it.
        max_unpacked: The most bytes that it may unpack to, instead of the usual limits.
    """

    def take(bundle: bundles.Bundle) -> BundleImport:
        return _taken_in(context, bundle, fork, agent)

    return import_file(
        path, context.root, take, patch=patch, max_unpacked=max_unpacked, context=context
    )


def import_file(
    path: str,
    root: str,
    take: Callable[[bundles.Bundle], BundleImport],
    *,
    patch: str,
    max_unpacked: int | None,
    context: Context | None = None,
) -> BundleImport:
    """Let a bundle in a file be taken in, here or by another machine. Its uncommitted changes are
    written to the new file `patch`, if one is named, and the warnings are about the repository at
    `root`. Raises InvalidInput for what is no bundle, or can't be trusted.
    """
    problems = irregular_file_problems(path)
    if max_unpacked is not None:
        problems += number_problems(max_unpacked, "max_unpacked", 0)
    raise_problems("nothing was imported", problems)
    with bundles.read_bundle(path, max_unpacked) as bundle:
        if patch:
            check_new(patch, context=context)
        with _patch_written(bundle, patch):
            found = take(bundle)
    others = tuple(each for each in found.warnings if each.path != "git")
    return found._replace(warnings=(*others, *checkout_warnings(root, bundle.checkout)))


def import_data(context: Context, data: bytes, fork: str, *, agent: str) -> BundleImport:
    """Take in the bytes of a bundle, all of it or nothing."""
    with bundles.read_bundle(BytesIO(data)) as bundle:
        return _taken_in(context, bundle, fork, agent)


def _taken_in(context: Context, bundle: bundles.Bundle, fork: str, agent: str) -> BundleImport:
    if problems := agent_problems(agent, "agent") if agent else []:
        raise InvalidInput("nothing was imported", problems)
    now = stamp(context.clock())
    importer = bundles.BundleImporter(now, agent) if agent else bundles.BundleImporter(now)
    result = bundles.import_bundle(context.store, bundle, importer, fork=fork)
    for task in result.touched:
        context.state_files.write(context.store, task, with_archive=True)
    warnings = checkout_warnings(context.root, bundle.checkout)
    return result._replace(warnings=(*_unknown_phases(context, result), *warnings))


def _unknown_phases(context: Context, result: BundleImport) -> Iterator[Problem]:
    """A warning for each phase of an imported task that the workspace doesn't have."""
    phases = context.settings.phases
    with context.store.reading() as reader:
        rows = [row for task in result.touched if (row := reader.task(task)) is not None]
    for phase in sorted({row.phase for row in rows} - set(phases)):
        named = [row.task for row in rows if row.phase == phase]
        message = f"{', '.join(named[:5])} came in the phase {phase!r}, which isn't one here"
        fix = "hand it off to one of these, or add it to [phases] in the settings"
        yield Problem("phase", "unknown_phase", message, " | ".join(phases), fix, "warning")


@contextmanager
def _patch_written(bundle: bundles.Bundle, patch: str) -> Generator[None]:
    """Write a bundle's changes to a file, which is removed again where the block fails."""
    if not patch:
        yield
        return
    if not bundle.patch:
        message = "the bundle has no uncommitted changes"
        problem = Problem("patch", "missing", message, "one that was exported with --diff")
        raise InvalidInput("nothing was imported", [problem])
    _write_new(patch, bundle.patch, "nothing was imported")
    try:
        yield
    except BaseException:
        os.unlink(patch)
        raise


def checkout_warnings(root: str, stood: Checkout | None) -> tuple[Problem, ...]:
    """A warning where imported work was at another commit than the repository at `root`."""
    warning = checkout_warning(stood, head_of(root)) if stood is not None else None
    return (warning,) if warning else ()


def origin_warnings(
    context: Context, reader: Reader, task: str, version: int
) -> tuple[Problem, ...]:
    """A warning that an imported task was at another commit, until it has gone on here."""
    head = reader.head(origins_of(task))
    record = reader.record(head.stream, head.position) if head else None
    brought = record.document() if record is not None and record.is_intact() else {}
    if brought.get("version") != version:
        return ()
    stood = brought.get("checkout")
    return checkout_warnings(context.root, read_checkout(stood) if stood else None)


if TYPE_CHECKING:
    CopyProgress = Callable[[str], Callable[[int, int], None] | None]


class WorkspaceCopy(NamedTuple):
    """What a copy did: where it went, how many records came over now and had come before, and what
    verifying the target found.
    """

    source: str
    target: str
    records: int
    before: int
    verified: Verification


def copy_workspace(source: str, target: str, progress: CopyProgress | None = None) -> WorkspaceCopy:
    """Copy a store into another one, which is made where there is none, and verify it there.

    Both are named as `passdown.open` takes them. The same again, after a stop or later on, brings
    over what is missing. `progress` gives what is called for each part of the work.
    """
    start, end = locate(source, create=False), locate(target, create=True)
    with closing(open_store(start.url, create=False)) as given:
        make_store_folder(end)
        with closing(open_store(end.url)) as taking:
            copied = copy_store(given, taking, progress("copying") if progress else None)
            found = _verified(given, taking, progress("verifying") if progress else None)
    return WorkspaceCopy(start.url_shown, end.url_shown, copied.records, copied.before, found)


def _verified(
    source: Store, target: Store, progress: Callable[[int, int], None] | None
) -> Verification:
    """Check the target by itself, and against the heads that the source has."""
    with target.reading() as reader:
        held = {head.stream: head.position for head in reader.heads()}
    with source.reading() as reader:
        # The source may have gone on since: what counts are its records up to where the copy is.
        records = ((stream, reader.record(stream, position)) for stream, position in held.items())
        saved = {stream: (r.position, r.digest) for stream, r in records if r is not None}
    return verify(target, against=saved, progress=progress)

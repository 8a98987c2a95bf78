"""Files of an import source, the tally of its entries, and records of earlier imports."""

from __future__ import annotations

import contextlib
import hashlib
import os
from typing import TYPE_CHECKING, Any, NamedTuple

from passdown.core.kinds import stream_of
from passdown.errors import (
    Conflict,
    Damaged,
    InvalidInput,
    KeyReused,
    PassdownError,
    Problem,
    ProblemsError,
    StoreError,
)
from passdown.ledger import Entry
from passdown.workspace.files import bytes_at, irregular_file_problems, is_beneath

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from passdown.core.record import Record
    from passdown.ledger.writer import Guard
    from passdown.workspace.context import Context


MAX_PAGE_BYTES = 1_048_576
MAX_LINES_BYTES = 64 * 1_048_576
MAX_FILES = 10_000
_MAX_DEPTH = 8

PAGE_SUFFIXES = (".md", ".markdown")
JSONL_SUFFIXES = (".jsonl", ".json", ".ndjson")

_SKIPPED_FOLDERS = {".git", ".passdown", "node_modules", ".venv", "__pycache__"}


class ImportSource(NamedTuple):
    """What is to be brought in: a folder and the files in it that come into question. `refused` are
    folders that aren't entered, since a link leads out to them.
    """

    path: str
    folder: str
    names: tuple[str, ...]
    is_folder: bool
    refused: tuple[Problem, ...] = ()


def open_source(path: str) -> ImportSource:
    """The source at a path; InvalidInput where there is nothing to read."""
    if "\0" in path or not os.path.exists(path):
        problem = Problem("source", "missing_file", f"{path[:200]!r} is not there", "a file")
        raise InvalidInput("nothing was imported", [problem])
    if problems := irregular_file_problems(path):
        raise InvalidInput("nothing was imported", problems)
    if not os.path.isdir(path):
        folder, name = os.path.split(os.path.abspath(path))
        return ImportSource(path, folder, (name,), is_folder=False)
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
    return ImportSource(path, folder, tuple(sorted(names)), is_folder=True, refused=tuple(refused))


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
        elif entry.name.lower().endswith((*PAGE_SUFFIXES, *JSONL_SUFFIXES)):
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


def source_bytes(source: ImportSource, name: str) -> bytes | Problem:
    """A file's bytes, or why there are none to be had; only regular files inside the folder."""
    path = os.path.realpath(os.path.join(source.folder, *name.split("/")))
    if not is_beneath(path, source.folder):
        return _outside(name, "a file inside it")
    limit = MAX_LINES_BYTES if not name.lower().endswith(PAGE_SUFFIXES) else MAX_PAGE_BYTES
    data = bytes_at(path, limit)
    return data._replace(path=name) if isinstance(data, Problem) else data


def source_text(source: ImportSource, name: str) -> str | Problem:
    """A page's text, or why there is none."""
    data = source_bytes(source, name)
    if isinstance(data, Problem):
        return data
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        return Problem(name, "invalid_utf8", f"byte {error.start} is not UTF-8", "UTF-8 text")


def project_path(opened: Context, path: str) -> str:
    """A path relative to the project, with `/` between its parts; empty where it lies outside."""
    real = os.path.relpath(os.path.realpath(path), os.path.realpath(opened.root))
    return "" if real.split(os.sep)[0] == ".." else real.replace(os.sep, "/")


def source_id(opened: Context, source: ImportSource) -> str:
    """What a source is known by when it comes again: its folder in the project, else its name."""
    return project_path(opened, source.folder) or os.path.basename(source.folder)


if TYPE_CHECKING:
    Progress = Callable[[int, int], None]

RESULTS = ("added", "changed", "unchanged", "skipped", "refused")
PREFIX = "import-"


class ImportedEntry(NamedTuple):
    """One entry of a source: where it stood, what it is here, what was done, and why."""

    source: str
    kind: str
    result: str
    address: str = ""
    reason: str = ""


class EntryResult(NamedTuple):
    """What one write came to: a result, where it is found, and what a reader should know of it."""

    result: str
    address: str
    reason: str = ""


class ImportResult(NamedTuple):
    """What an import did. `counts` are by kind, then by result; nothing is left uncounted."""

    form: str
    counts: Mapping[str, Mapping[str, int]]
    entries: tuple[ImportedEntry, ...]
    is_dry_run: bool

    def total(self, result: str) -> int:
        """How many entries, of whatever kind, came out in one way."""
        return sum(numbers.get(result, 0) for numbers in self.counts.values())

    def to_dict(self) -> dict[str, Any]:
        """The outcome as plain JSON data."""
        return {
            "form": self.form,
            "dry_run": self.is_dry_run,
            "counts": {kind: dict(numbers) for kind, numbers in self.counts.items()},
            "entries": [entry._asdict() for entry in self.entries],
        }


class ImportTally:
    """Collects entries while a source is taken in."""

    def __init__(self, form: str, total: int = 0, progress: Progress | None = None) -> None:
        """Begin; `total` is how many steps `progress` will be told of."""
        self.form = form
        self.entries: list[ImportedEntry] = []
        self._total = total
        self._done = 0
        self._progress = progress

    def add(
        self, source: str, kind: str, result: str, address: str = "", *, reason: str = ""
    ) -> None:
        """Note one entry."""
        self.entries.append(ImportedEntry(source, kind, result, address, reason))

    def refuse(self, problem: Problem, kind: str) -> None:
        """Note that something wasn't taken, and why."""
        bare = problem._replace(path="")
        self.add(problem.path, kind, "refused", reason=bare.line())

    def step(self) -> None:
        """Say that one more of the steps is done."""
        self._done += 1
        if self._progress:
            self._progress(min(self._done, self._total), self._total)

    def finish(self) -> None:
        """Say that all steps are done, where some had nothing to do."""
        if self._done < self._total:
            self._done = self._total - 1
            self.step()

    def attempt(self, source: str, kind: str, write: Callable[[], EntryResult]) -> str:
        """Do one write and note what came of it; a refusal is noted with its reason.

        Faults of the store itself are no matter of one entry and come out. Gives the address.
        """
        try:
            done = write()
        except (StoreError, Damaged):
            raise
        except PassdownError as error:
            self.add(source, kind, "refused", reason=_reason(error))
            return ""
        self.entries.append(ImportedEntry(source, kind, *done))
        return done.address

    def brought(self, *, is_dry_run: bool = False) -> ImportResult:
        """The outcome."""
        counts: dict[str, dict[str, int]] = {}
        for entry in self.entries:
            numbers = counts.setdefault(entry.kind, dict.fromkeys(RESULTS, 0))
            numbers[entry.result] += 1
        return ImportResult(self.form, counts, tuple(self.entries), is_dry_run)


def _reason(error: PassdownError) -> str:
    if isinstance(error, ProblemsError):
        return "; ".join(problem.line() for problem in error.problems[:5])
    return error.message


def redactions(warnings: Iterable[Problem]) -> str:
    """What was removed before storing, in words; empty where nothing was."""
    return "; ".join(warning.message for warning in warnings if warning.code == "redacted")


def short_hash(*texts: str) -> str:
    """Texts as a short name that stays the same, fit to be part of a key."""
    joined = "\x1f".join(texts).encode("utf-8", "surrogatepass")
    return hashlib.sha256(joined).hexdigest()[:32]


class EarlierImports:
    """The records that earlier imports left in a task, found again by their keys.

    A key is `import-FORM-NAME-STATE`: what of the source it is about (`FORM-NAME`, with no other
    hyphen), and what that said then.
    `version` is that of the task as it was read; a task that isn't there has none, and version 0.
    """

    def __init__(self, opened: Context, task: str) -> None:
        """Read the task's records."""
        self._context = opened
        self._task = task
        self._keys: set[str] = set()
        self.version = 0
        self.records: list[Record] = []
        self._of: dict[str, list[Record]] = {}
        self.refresh()

    @property
    def exists(self) -> bool:
        """Whether there is such a task."""
        return self.version > 0

    def refresh(self) -> bool:
        """Read what was written since, and say whether there was anything."""
        before = self.version
        with self._context.store.reading() as reader:
            for record in reader.records(stream_of(self._task), after=before):
                self.version = record.position
                if record.key.startswith(PREFIX):
                    self.records.append(record)
                    self._of.setdefault(what_in(record.key), []).append(record)
        # Keys that were given out for writes which failed are free again.
        self._keys = {record.key for record in self.records}
        return self.version > before

    def make_sure(self, title: str, agent: str) -> None:
        """Make the task where there is none; whoever else makes it meanwhile, it is one task."""
        from passdown.workspace.entries import create_task

        if self.exists:
            return
        with contextlib.suppress(Conflict):
            create_task(self._context, {"task": self._task, "title": title, "agent": agent}, None)
        self.refresh()

    def settle(self, write: Callable[[], EntryResult]) -> EntryResult:
        """Do a write that goes by what is here, again as long as others write here meanwhile.

        So whoever comes second finds what the first has done, and adds nothing to it.
        """
        while True:
            try:
                return write()
            except (Conflict, KeyReused, InvalidInput):
                if not self.refresh():
                    raise

    def of(self, what: str) -> Sequence[Record]:
        """The records about one thing, oldest first."""
        return self._of.get(what, ())

    def state(self, what: str, *, since: int = 0) -> str:
        """What the source said of a thing when it was last taken in, after the version `since`;
        empty if never.
        """
        said = [state_in(record.key) for record in self.of(what) if record.position > since]
        return said[-1] if said else ""

    def version_of(self, what: str, state: str) -> int:
        """The version with which the source last said this of a thing; 0 if never."""
        said = (r.position for r in self.of(what) if state_in(r.key) == state)
        return max(said, default=0)

    def key(self, what: str, state: str) -> str:
        """The key for a new record, numbered where the source says again what it said before."""
        base = key = f"{PREFIX}{what}-{state}"
        number = 2
        while key in self._keys:
            key = f"{base}~{number}"
            number += 1
        self._keys.add(key)
        return key


def what_in(key: str) -> str:
    """What of a source the record with a key is about."""
    return "-".join(key.removeprefix(PREFIX).split("-", 2)[:2])


def state_in(key: str) -> str:
    """What the source said then."""
    return key.removeprefix(f"{PREFIX}{what_in(key)}-").partition("~")[0]


def append(opened: Context, entry: Entry, guard: Guard | None = None) -> int:
    """Record an entry that has been checked; gives its version."""
    written = opened.ledger.append(entry, guard)
    opened.mirror(written)
    return written.record.position


__all__ = [
    "EarlierImports",
    "Entry",
    "EntryResult",
    "ImportResult",
    "ImportTally",
    "ImportedEntry",
    "append",
    "redactions",
    "short_hash",
    "state_in",
    "what_in",
]

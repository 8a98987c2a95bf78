"""An import in progress: its files, its tally of entries, and what earlier imports recorded.

An importer is a function that takes an `ImportJob`: it reads the job's files, and gives each entry
to the job, which writes and counts it. So every entry of a source ends as added, changed,
unchanged, skipped or refused, with a reason.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from passdown.core.graph import graph_of
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
from passdown.knowledge.graph import add_knowledge
from passdown.workspace.entries import create_task
from passdown.workspace.files import bytes_at, irregular_file_problems, is_beneath

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from passdown.core.graph import Edge, Node
    from passdown.core.record import Record
    from passdown.core.types import Progress
    from passdown.workspace.context import Context

RESULTS = ("added", "changed", "unchanged", "skipped", "refused")
MAX_PAGE_BYTES = 1_048_576
MAX_LINES_BYTES = 64 * 1_048_576
MAX_FILES = 10_000
PAGE_SUFFIXES = (".md", ".markdown")
JSONL_SUFFIXES = (".jsonl", ".json", ".ndjson")
NOTHING_IMPORTED = "nothing was imported"

_MAX_DEPTH = 8
_SKIPPED_FOLDERS = {".git", ".passdown", "node_modules", ".venv", "__pycache__"}
_KEY_PREFIX = "import-"

T = TypeVar("T")


class ImportSource(NamedTuple):
    """A folder and the names of the files to import from it. `refused` are linked folders outside
    it, which are not entered.
    """

    path: str
    folder: str
    names: tuple[str, ...]
    is_folder: bool
    refused: tuple[Problem, ...] = ()

    def read(self, name: str) -> bytes | Problem:
        """Read a regular file inside the folder, or say why it can't be read."""
        path = os.path.realpath(os.path.join(self.folder, *name.split("/")))
        if not is_beneath(path, self.folder):
            return _outside(name, "a file inside it")
        limit = MAX_PAGE_BYTES if name.lower().endswith(PAGE_SUFFIXES) else MAX_LINES_BYTES
        data = bytes_at(path, limit)
        return data._replace(path=name) if isinstance(data, Problem) else data

    def read_text(self, name: str) -> str | Problem:
        """Read a file as UTF-8 text, or say why it can't be read."""
        data = self.read(name)
        if isinstance(data, Problem):
            return data
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            return Problem(name, "invalid_utf8", f"byte {error.start} is not UTF-8", "UTF-8 text")


def open_source(path: str) -> ImportSource:
    """List the files of a source; raises InvalidInput where there is nothing to read."""
    if "\0" in path or not os.path.exists(path):
        problem = Problem("source", "missing_file", f"{path[:200]!r} is not there", "a file")
        raise InvalidInput(NOTHING_IMPORTED, [problem])
    if problems := irregular_file_problems(path):
        raise InvalidInput(NOTHING_IMPORTED, problems)
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
            raise InvalidInput(NOTHING_IMPORTED, [problem])
    folder = os.path.abspath(path)
    return ImportSource(path, folder, tuple(sorted(names)), is_folder=True, refused=tuple(refused))


def _walk(folder: str, below: str, depth: int) -> Iterator[str | Problem]:
    """Names of pages and JSON lines beneath a folder. Linked folders are not entered; one that
    leads out of the folder is a problem.
    """
    try:
        entries = sorted(os.scandir(os.path.join(folder, below)), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        name = f"{below}/{entry.name}" if below else entry.name
        is_skipped = entry.name in _SKIPPED_FOLDERS
        if entry.is_dir(follow_symlinks=False):
            if depth < _MAX_DEPTH and not is_skipped:
                yield from _walk(folder, name, depth + 1)
        elif entry.name.lower().endswith((*PAGE_SUFFIXES, *JSONL_SUFFIXES)):
            yield name
        elif entry.is_dir() and not is_skipped and not is_beneath(entry.path, folder):
            yield _outside(name, "a folder inside it")


def _outside(name: str, expected: str) -> Problem:
    return Problem(name, "path_escapes_root", "leads out of the folder", expected)


class ImportedEntry(NamedTuple):
    """One entry of a source: where it is, what it became, what was done, and why."""

    source: str
    kind: str
    result: str
    address: str = ""
    reason: str = ""


class EntryResult(NamedTuple):
    """What one write did: a result, an address, and remarks for the reader."""

    result: str
    address: str
    reason: str = ""


class ImportResult(NamedTuple):
    """What an import did. `counts` are by kind, then by result."""

    form: str
    counts: Mapping[str, Mapping[str, int]]
    entries: tuple[ImportedEntry, ...]
    is_dry_run: bool

    def total(self, result: str) -> int:
        """Count the entries of all kinds with one result."""
        return sum(numbers.get(result, 0) for numbers in self.counts.values())

    def to_dict(self) -> dict[str, Any]:
        """The result as plain JSON data."""
        return {
            "form": self.form,
            "dry_run": self.is_dry_run,
            "counts": {kind: dict(numbers) for kind, numbers in self.counts.items()},
            "entries": [entry._asdict() for entry in self.entries],
        }


class ImportJob:
    """One import: where it reads, for whom it writes, and what became of each entry."""

    def __init__(
        self,
        context: Context,
        source: ImportSource,
        names: Sequence[str],
        *,
        agent: str,
        task: str,
        progress: Progress | None = None,
    ) -> None:
        """`names` are the files of the source that have the format."""
        self.context = context
        self.source = source
        self.names = names
        self.agent = agent
        self.task = task
        self.entries: list[ImportedEntry] = []
        self._progress = progress

    def add(
        self, source: str, kind: str, result: str, address: str = "", *, reason: str = ""
    ) -> None:
        """Count an entry that needs no write."""
        self.entries.append(ImportedEntry(source, kind, result, address, reason))

    def refuse(self, problem: Problem, kind: str) -> None:
        """Count an entry that can't be imported."""
        self.add(problem.path, kind, "refused", reason=problem._replace(path="").line())

    def write(self, source: str, kind: str, write: Callable[[], EntryResult]) -> str:
        """Do one write and count it; gives the address, or nothing if it was refused.

        Faults of the store itself are raised: they concern more than one entry.
        """
        try:
            done = write()
        except (StoreError, Damaged):
            raise
        except ProblemsError as error:
            reason = "; ".join(problem.line() for problem in error.problems[:5])
            self.add(source, kind, "refused", reason=reason)
        except PassdownError as error:
            self.add(source, kind, "refused", reason=error.message)
        else:
            self.entries.append(ImportedEntry(source, kind, *done))
            return done.address
        return ""

    def read(self, name: str) -> bytes:
        """Read a file of the source; raises InvalidInput where it can't be read."""
        data = self.source.read(name)
        if isinstance(data, Problem):
            raise InvalidInput(NOTHING_IMPORTED, [data])
        return data

    def begin(
        self, entries: Sequence[object], problems: Sequence[Problem], missing: Problem
    ) -> None:
        """Refuse the lines that can't be read; raises InvalidInput if no entry is left."""
        if not entries:
            raise InvalidInput(NOTHING_IMPORTED, problems or [missing])
        for problem in problems:
            self.refuse(problem, "link" if problem.path.endswith("dependencies") else "line")

    def each(self, items: Sequence[T]) -> Iterator[T]:
        """Go through the items of a source and report progress after each."""
        for number, item in enumerate(items, 1):
            yield item
            if self._progress:
                self._progress(number, len(items))

    def path_of(self, name: str = "") -> str:
        """A file of the source, or its folder, relative to the project; empty if outside it."""
        path = os.path.realpath(os.path.join(self.source.folder, *name.split("/")))
        relative = os.path.relpath(path, os.path.realpath(self.context.root))
        return "" if relative.split(os.sep)[0] == ".." else relative.replace(os.sep, "/")

    def result(self, format: str) -> ImportResult:
        """The outcome."""
        counts: dict[str, dict[str, int]] = {}
        for entry in self.entries:
            numbers = counts.setdefault(entry.kind, dict.fromkeys(RESULTS, 0))
            numbers[entry.result] += 1
        return ImportResult(format, counts, tuple(self.entries), is_dry_run=False)


def remarks(*texts: str, warnings: Iterable[Problem] = ()) -> str:
    """Join remarks about an entry, with what was redacted in it."""
    redacted = (warning.message for warning in warnings if warning.code == "redacted")
    return "; ".join(text for text in (*texts, *redacted) if text)


def short_hash(*texts: str) -> str:
    """A short digest of texts, fit to be part of a key."""
    joined = "\x1f".join(texts).encode("utf-8", "surrogatepass")
    return hashlib.sha256(joined).hexdigest()[:32]


class EarlierImports:
    """Records that earlier imports left in a task, found by their keys.

    A key is `import-FORMAT-NAME-STATE`: the subject in the source (`FORMAT-NAME`, without further
    hyphens), and a digest of what the source said of it. `version` is the task's, as last read; 0
    if the task doesn't exist.
    """

    def __init__(self, context: Context, task: str) -> None:
        """Read the task's records."""
        self._context = context
        self.task = task
        self._keys: set[str] = set()
        self.version = 0
        self.records: list[Record] = []
        self._by_subject: dict[str, list[Record]] = {}
        self.refresh()

    def refresh(self) -> bool:
        """Read what was written since; says whether there was anything."""
        before = self.version
        with self._context.store.reading() as reader:
            for record in reader.records(stream_of(self.task), after=before):
                self.version = record.position
                if record.key.startswith(_KEY_PREFIX):
                    self.records.append(record)
                    self._by_subject.setdefault(key_subject(record.key), []).append(record)
        # Keys that were given out for writes which failed are free again.
        self._keys = {record.key for record in self.records}
        return self.version > before

    def ensure_task(self, title: str, agent: str) -> None:
        """Create the task if it doesn't exist."""
        if self.version == 0:
            with contextlib.suppress(Conflict):
                create_task(self._context, self.task, title=title, agent=agent)
            self.refresh()

    def settle(self, write: Callable[[], EntryResult]) -> EntryResult:
        """Do a write that depends on what is recorded; repeat it while others write meanwhile."""
        while True:
            try:
                return write()
            except (Conflict, KeyReused, InvalidInput):
                if not self.refresh():
                    raise

    def of(self, subject: str) -> Sequence[Record]:
        """The records about a subject, oldest first."""
        return self._by_subject.get(subject, ())

    def state(self, subject: str, *, since: int = 0) -> str:
        """The state of a subject in the latest import after version `since`; empty if none."""
        states = [key_state(r.key) for r in self.of(subject) if r.position > since]
        return states[-1] if states else ""

    def key(self, subject: str, state: str) -> str:
        """A key for a new record, numbered where the source returns to an earlier state."""
        base = key = f"{_KEY_PREFIX}{subject}-{state}"
        number = 2
        while key in self._keys:
            key = f"{base}~{number}"
            number += 1
        self._keys.add(key)
        return key

    def learn(
        self,
        agent: str,
        subject: str,
        state: str,
        address: str,
        *,
        nodes: Sequence[Node] = (),
        edges: Sequence[Edge] = (),
    ) -> EntryResult:
        """Record knowledge, unless the last import of the subject had the same state.

        Raises InvalidInput where a node of that id was written by someone else.
        """

        def write() -> EntryResult:
            before = self.state(subject)
            if before == state:
                return EntryResult("unchanged", address)
            if not before:
                self._refuse_foreign(nodes)
            key = self.key(subject, state)
            done = add_knowledge(self._context, nodes, edges, agent=agent, task=self.task, key=key)
            result = "unchanged" if done.is_replay else "changed" if before else "added"
            return EntryResult(result, address, remarks(warnings=done.warnings))

        return self.settle(write)

    def _refuse_foreign(self, nodes: Sequence[Node]) -> None:
        with self._context.store.reading() as reader:
            for node in nodes:
                known = reader.known_node(node.id)
                if known and graph_of([known.node], ()) != graph_of([node], ()):
                    message = f"{known.task} has recorded something else under this name"
                    problem = Problem("name", "exists", message, "a name that is free")
                    raise InvalidInput("nothing was changed", [problem])


def key_subject(key: str) -> str:
    """The subject in the key of an imported record."""
    return "-".join(key.removeprefix(_KEY_PREFIX).split("-", 2)[:2])


def key_state(key: str) -> str:
    """The state in the key of an imported record."""
    return key.removeprefix(f"{_KEY_PREFIX}{key_subject(key)}-").partition("~")[0]

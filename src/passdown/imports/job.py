"""An import in progress: its files and how they are parsed, its tally of entries, and what earlier
imports recorded.

An importer is a function that takes an `ImportJob`: it reads the job's files, and gives each entry
to the job, which writes and counts it. So every entry of a source ends as added, changed,
unchanged, skipped or refused, with a reason.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from passdown.core.graph import graph_of
from passdown.core.kinds import WORKSPACE_TASK, stream_of
from passdown.core.parsing import load_json, load_yaml
from passdown.core.task_files import MAX_MARKUP_LINE, fence_after, without_comments
from passdown.core.text import excerpt
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
from passdown.workspace.entries import create_task, workspace_task
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
        try:
            return data if isinstance(data, Problem) else data.decode("utf-8")
        except UnicodeDecodeError as error:
            return Problem(name, "invalid_utf8", f"byte {error.start} is not UTF-8", "UTF-8 text")


def open_source(path: str) -> ImportSource:
    """List the files of a source; raises InvalidInput where there is nothing to read."""
    if "\0" in path or not os.path.exists(path):
        problem = Problem("source", "missing_file", f"{path[:200]!r} was not found", "a file")
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


@dataclass
class ImportJob:
    """One import: where it reads, for whom it writes, and what became of each entry. `names` are
    the files of the source that have the format.
    """

    context: Context
    source: ImportSource
    names: Sequence[str]
    agent: str
    task: str
    progress: Progress | None = None
    entries: list[ImportedEntry] = field(default_factory=list["ImportedEntry"])

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
        except PassdownError as error:
            if isinstance(error, StoreError | Damaged):
                raise
            problems = error.problems[:5] if isinstance(error, ProblemsError) else ()
            reason = "; ".join(problem.line() for problem in problems) or error.message
            done = EntryResult("refused", "", reason)
        self.entries.append(ImportedEntry(source, kind, *done))
        return done.address

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
            if self.progress:
                self.progress(number, len(items))

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


def earlier_without_task(context: Context, task: str, usual: str) -> EarlierImports:
    """Where an import records what belongs to no task: in the one that is named, the `usual` one
    where earlier versions imported into it, else with what concerns all work.
    """
    found = EarlierImports(context, task or usual)
    return found if task or found.records else EarlierImports(context, WORKSPACE_TASK)


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
                if self.task == WORKSPACE_TASK:
                    workspace_task(self._context, agent, {})
                else:
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


_MAX_FRONT_LINES = 200

_HEADING = re.compile(r"^ {0,3}(#{1,6})[ \t]+(.*?)[ \t]*#*[ \t]*$")
_UNDERLINE = re.compile(r"^ {0,3}(=+|-+)[ \t]*$")
_FACT = re.compile(
    r"^[ \t]*(?:[-*+|][ \t]*)?\**_*([A-Za-z][A-Za-z /-]{0,40}?)\**_*[ \t]*[:|]\**(.*)$"
)
_ITEM = re.compile(r"^([ \t]*)(?:[-*+]|\d{1,9}[.)])[ \t]+(\S.*?)[ \t]*$")
_LINK = re.compile(r"\[([^\[\]]{0,300})\]\(<?([^()<>\s]{1,500})>?[^()]{0,200}\)")


class Section(NamedTuple):
    """A heading and the lines below it, up to the next heading of any level."""

    level: int
    name: str
    lines: tuple[str, ...]

    @property
    def text(self) -> str:
        """The lines as one text, without blank ones around it."""
        return "\n".join(self.lines).strip()


class Page(NamedTuple):
    """A parsed page. `front` has lowercase names; `head` are the lines before any section."""

    front: dict[str, object]
    title: str
    head: tuple[str, ...]
    sections: tuple[Section, ...]

    def whole(self, index: int) -> str:
        """A section's text with its subsections under their headings."""
        below = (f"{each.name}:\n{each.text}" for each in self.below(index) if each.text)
        return "\n\n".join(part for part in (self.sections[index].text, *below) if part)

    def below(self, index: int) -> list[Section]:
        """The subsections of a section."""
        level = self.sections[index].level
        return list(takewhile(lambda each: each.level > level, self.sections[index + 1 :]))


def read_page(text: str) -> Page:
    """Parse a page; its title is the first heading of the first level."""
    front, rest = _front_matter(text.removeprefix("\ufeff").replace("\r\n", "\n"))
    head, *sections = _sections(without_comments(rest).split("\n"))
    title = next((each.name for each in sections if each.level == 1), "")
    if sections and sections[0].level == 1 and not head.text:
        head = sections.pop(0)
    given = front.get("title")
    title = title or (given if isinstance(given, str) else "")
    return Page(front, title, head.lines, tuple(sections))


def _front_matter(text: str) -> tuple[dict[str, object], str]:
    """The YAML between the first two `---` lines, and the rest; broken YAML is read by lines."""
    lines = text.split("\n", _MAX_FRONT_LINES)
    if lines[0].rstrip() != "---":
        return {}, text
    end = next((i for i, line in enumerate(lines[1:], 1) if line.rstrip() in ("---", "...")), 0)
    if not end:
        return {}, text
    rest = "\n".join(lines[end + 1 :])
    block = lines[1:end]
    try:
        loaded = load_yaml("\n".join(block))
    except InvalidInput:
        loaded = dict(fact for fact in map(fact_of, block) if fact)
    if not isinstance(loaded, dict):
        return {}, rest
    pairs = cast("dict[object, object]", loaded).items()
    return {str(name).strip().lower(): value for name, value in pairs}, rest


def _sections(lines: list[str]) -> list[Section]:
    """The text before the first heading, as a section without a name, and every section."""
    found: list[tuple[int, str, list[str]]] = [(0, "", [])]
    fence = ""
    for line in lines:
        fence, was = fence_after(fence, line), fence
        is_markup = not fence and not was and len(line) <= MAX_MARKUP_LINE
        heading = _HEADING.match(line) if is_markup and "#" in line[:10] else None
        if heading:
            found.append((len(heading[1]), heading[2].strip(), []))
        elif is_markup and _is_underline(line, found[-1][2]):
            found.append((1 if "=" in line else 2, found[-1][2].pop().strip(), []))
        else:
            found[-1][2].append(line)
    return [Section(level, name, tuple(text)) for level, name, text in found]


def _is_underline(line: str, above: list[str]) -> bool:
    """Whether a line underlines the line above it as a heading."""
    if not _UNDERLINE.match(line) or not above or _ITEM.match(above[-1][: MAX_MARKUP_LINE + 1]):
        return False
    is_alone = len(above) == 1 or not above[-2].strip()
    return is_alone and 0 < len(above[-1].strip()) <= MAX_MARKUP_LINE


def fact_of(line: str) -> tuple[str, str] | None:
    """Name (lowercase) and value of a line such as `* Status: accepted` or `| Date | today |`."""
    match = _FACT.match(line) if len(line) <= MAX_MARKUP_LINE else None
    if match is None:
        return None
    return match[1].strip().lower(), match[2].strip().strip("|*_").strip().strip("\"'")


def items_of(lines: tuple[str, ...]) -> list[str]:
    """The outermost list items with their continuation lines, without nested items."""
    found: list[str] = []
    depth: int | None = None
    is_inside = False
    for line in lines:
        item = _ITEM.match(line) if len(line) <= MAX_MARKUP_LINE * 10 else None
        if item and (depth is None or len(item[1].expandtabs(4)) <= depth):
            depth = len(item[1].expandtabs(4))
            found.append(item[2])
            is_inside = True
        elif item or not line.strip() or line[:1] not in (" ", "\t"):
            is_inside = False
        elif is_inside:
            found[-1] += f" {line.strip()}"
    return found


def links_in(text: str) -> list[tuple[str, str]]:
    """The text and target of each link in a line; only its beginning is looked at."""
    return _LINK.findall(text[: MAX_MARKUP_LINE * 10])


MAX_LINE_BYTES = 1_048_576
_MAX_JSON_DEPTH = 32


class JsonLines(NamedTuple):
    """The objects of a file by line number, and the lines that are none."""

    objects: list[tuple[int, dict[str, Any]]]
    problems: list[Problem]


def read_lines(data: bytes) -> JsonLines:
    """Read a file of JSON lines. Blank lines and a byte order mark are ignored; a line that is too
    long, no UTF-8, no JSON or no object is a problem at `line N`.
    """
    found = JsonLines([], [])
    for number, line in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            value = load_json(line, max_bytes=MAX_LINE_BYTES, max_depth=_MAX_JSON_DEPTH)
        except InvalidInput as error:
            found.problems.append(error.problems[0]._replace(path=f"line {number}"))
            continue
        if isinstance(value, dict):
            found.objects.append((number, cast("dict[str, Any]", value)))
        else:
            given = f"{type(value).__name__} given"
            problem = Problem(f"line {number}", "wrong_type", given, "a JSON object")
            found.problems.append(problem)
    return found


def text_of(entry: dict[str, Any], name: str) -> str:
    """A field as stripped text; empty if it isn't text."""
    value = entry.get(name)
    return value.strip() if isinstance(value, str) else ""


def _listed(entry: dict[str, Any], name: str) -> list[object]:
    value = entry.get(name)
    return cast("list[object]", value) if isinstance(value, list) else []


def texts_of(entry: dict[str, Any], name: str) -> list[str]:
    """A field's list of texts, without blank ones and other values."""
    return [text.strip() for text in _listed(entry, name) if isinstance(text, str) and text.strip()]


def objects_of(entry: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """A field's list of objects, without other values."""
    return [cast("dict[str, Any]", o) for o in _listed(entry, name) if isinstance(o, dict)]


def not_text(where: str, name: str, value: object) -> Problem:
    """The problem of a missing or wrong text field."""
    given = "is missing" if value is None else f"is {excerpt(repr(value))}"
    return Problem(f"{where}: {name}", "required", given, "text")


def without_cycles(links: dict[str, list[str]]) -> tuple[list[str], list[tuple[str, str]]]:
    """Remove links that close a cycle; gives the names, targets of links first, and what was
    removed. Links to names without an entry are left alone.
    """
    done: dict[str, bool] = {}
    order: list[str] = []
    removed: list[tuple[str, str]] = []
    for start, first in links.items():
        stack = [(start, iter(list(first)))] if start not in done else []
        done.setdefault(start, False)
        while stack:
            name, targets = stack[-1]
            target = next(targets, None)
            if target is None:
                done[name] = True
                order.append(name)
                stack.pop()
            elif target in links and target not in done:
                done[target] = False
                stack.append((target, iter(list(links[target]))))
            elif done.get(target) is False:
                links[name].remove(target)
                removed.append((name, target))
    return order, removed

"""Import ADRs, beads, MCP memory, notes and bundles.

A second import of the same source writes nothing; a changed source writes only what changed. A dry
run is a real one on a copy of the store.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from passdown.core.names import agent_problems, id_problems
from passdown.core.types import Progress
from passdown.errors import InvalidInput, Problem, raise_problems
from passdown.imports.adr import format_of_page, import_adrs
from passdown.imports.beads import import_beads, looks_like_beads
from passdown.imports.job import (
    JSONL_SUFFIXES,
    NOTHING_IMPORTED,
    EntryResult,
    ImportJob,
    ImportResult,
    ImportSource,
    open_source,
    read_lines,
    remarks,
)
from passdown.imports.mcp_memory import import_memory, looks_like_memory
from passdown.workspace.context import Context
from passdown.workspace.files import path_type_problems, wrong_type
from passdown.workspace.location import Location

if TYPE_CHECKING:
    from collections.abc import Iterable

    from passdown.ledger.writer import Written


Importer = Callable[[ImportJob], None]

_DEFAULT_AGENT = "import"
# A folder's format shows in its first files; to read all of them twice would take too long.
_SAMPLED_FILES = 60
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
_HEAD_BYTES = 65_536
_HEAD_LINES = 20
_TEXT_SUFFIXES = (".md", ".markdown", ".txt")


def import_notes(job: ImportJob) -> None:
    """Migrate notes to handoffs; their files stay as they are."""
    from passdown.imports.note_migration import migrate

    for name in job.names:
        problem = job.source.read(name)
        if isinstance(problem, Problem):
            job.refuse(problem, "note")
            continue

        def write(path: str = os.path.join(job.source.folder, *name.split("/"))) -> EntryResult:
            done = migrate(job.context, path, task=job.task, agent=job.agent)
            if done.skipped:
                return EntryResult("skipped", "", done.skipped)
            address = f"{done.task}@{done.version}"
            if done.is_repeat:
                return EntryResult("unchanged", address)
            count = len(done.ambiguous)
            unclear = f"{count} passage{'s are' if count > 1 else ' is'} unclear" if count else ""
            return EntryResult("added", address, remarks(unclear, warnings=done.problems))

        job.write(name, "note", write)


def import_bundle(job: ImportJob) -> None:
    """Import the records of a bundle."""
    from passdown.workspace.maintenance import import_bundle

    path = job.source.path
    done = import_bundle(job.context, path, agent=job.agent)
    for stream, count in done.added.items():
        job.add(path, "stream", "added", stream, reason=f"{count} records")
    for stream in done.unchanged:
        job.add(path, "stream", "unchanged", stream)


IMPORTERS: dict[str, Importer] = {
    "bundle": import_bundle,
    "adr": import_adrs,
    "beads": import_beads,
    "memory": import_memory,
    "notes": import_notes,
}
"""An importer reads the files of a job and has the job write and count each entry."""

IMPORT_FORMATS = tuple(IMPORTERS)


def import_from(
    context: Context,
    source: str | os.PathLike[str],
    *,
    format: str = "auto",
    agent: str = "",
    task: str = "",
    dry_run: bool = False,
    progress: Progress | None = None,
) -> ImportResult:
    """Import ADRs, a beads file, a memory of MCP, notes or a bundle.

    Entries that can't be imported are refused one by one. A second run of the same source writes
    nothing; a changed one only what changed. Raises InvalidInput, with nothing changed, where the
    source can't be read, its format isn't clear, or nothing in it can be imported.

    Args:
        source: A file or a folder.
        format: auto, or the format of the source.
        agent: Who imports it.
        task: The task for ADRs, memories and notes; ADRs and memories without one concern all work.
        dry_run: Only report what would happen.
        progress: Called with how many entries are done, and of how many.
    """
    agent = agent or _DEFAULT_AGENT
    _check_arguments(source, format, agent=agent, task=task, progress=progress)
    found = open_source(os.fspath(source))
    format, names = _detect(found) if format == "auto" else (format, _candidates(found, format))

    def run(target: Context) -> ImportResult:
        job = ImportJob(target, found, names, agent=agent, task=task, progress=progress)
        IMPORTERS[format](job)
        for problem in found.refused:
            job.refuse(problem, "folder")
        return job.result(format)

    if not dry_run:
        return run(context)
    with tempfile.TemporaryDirectory(prefix="passdown-dry-run-") as folder:
        path = os.path.join(folder, "copy.db")
        context.store.backup(path)
        place = Location(context.root, folder, f"sqlite:///{path}")
        copy = _Copy(place, context.settings, context.clock)
        try:
            return run(copy)._replace(is_dry_run=True)
        finally:
            copy.store.close()


class _Copy(Context):
    """A copy of a workspace for a dry run: it has its own store and writes no project file."""

    def _knowledge_at_completion(self, written: Written) -> list[Problem]:
        return []


def _check_arguments(
    source: object, format: object, *, agent: object, task: object, progress: object
) -> None:
    problems = path_type_problems(source, "source") + agent_problems(agent, "agent")
    if task != "":
        problems += id_problems(task, "task")
    if not isinstance(format, str) or format not in ("auto", *IMPORT_FORMATS):
        expected = " | ".join(("auto", *IMPORT_FORMATS))
        problems.append(Problem("format", "invalid_choice", repr(format)[:40], expected))
    if progress is not None and not callable(progress):
        problems.append(wrong_type("progress", progress, "a function"))
    raise_problems(NOTHING_IMPORTED, problems)


def detect_format(source: str) -> str:
    """The format of a file or folder, by its content; raises InvalidInput if it isn't clear."""
    return _detect(open_source(source))[0]


def _detect(source: ImportSource) -> tuple[str, tuple[str, ...]]:
    """The format of a source, and the files that have it."""
    # JSON lines first: a folder has few of them, and they decide it.
    names = sorted(source.names, key=lambda name: not name.lower().endswith(JSONL_SUFFIXES))
    formats = _formats(source, names[:_SAMPLED_FILES])
    found = format_of_folder(formats.values())
    if len(found) == 1:
        return found[0], tuple(name for name, format in formats.items() if format == found[0])
    choices = " | ".join(found or IMPORT_FORMATS)
    message = f"has several formats: {', '.join(found)}" if found else "has no known format"
    fix = f"name the format with --from, one of {choices}, or a file or folder that has only one"
    problem = Problem(source.path[:200], "unknown_form", message, "one format", fix)
    raise InvalidInput(NOTHING_IMPORTED, [problem])


def _candidates(source: ImportSource, format: str) -> tuple[str, ...]:
    """The files of a source that may have a given format."""
    if not source.is_folder or format not in ("beads", "memory"):
        return source.names
    names = [name for name in source.names if name.lower().endswith(JSONL_SUFFIXES)]
    found = tuple(name for name, known in _formats(source, names).items() if known == format)
    if not found:
        problem = Problem(source.path[:200], "no_file", f"holds no {format} file", "such a file")
        raise InvalidInput(NOTHING_IMPORTED, [problem])
    return found


def _formats(source: ImportSource, names: Iterable[str]) -> dict[str, str]:
    """The format of each file that can be read; a source that is a single file has to be."""
    found: dict[str, str] = {}
    for name in names:
        data = source.read(name)
        if not isinstance(data, Problem):
            found[name] = format_of(name, data)
        elif not source.is_folder:
            raise InvalidInput(NOTHING_IMPORTED, [data])
    return found


def format_of(name: str, data: bytes) -> str:
    """The format of a file, by its beginning; empty if unknown."""
    if data.startswith(_ZIP):
        return "bundle"
    if data[:_HEAD_BYTES].lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        first = data.split(b"\n", _HEAD_LINES)[:_HEAD_LINES]
        for _, entry in read_lines(b"\n".join(first)).objects:
            if looks_like_memory(entry):
                return "memory"
            if looks_like_beads(entry):
                return "beads"
        return ""
    if not name.lower().endswith(_TEXT_SUFFIXES):
        return ""
    return format_of_page(name, data.decode("utf-8", "replace"))


def format_of_folder(formats: Iterable[str]) -> list[str]:
    """The formats of a folder's files, that of the most files first.

    A page of notes beside ADRs is a page about them, so notes count only where they are alone.
    """
    counts = Counter(format for format in formats if format)
    found = [format for format, _ in counts.most_common()]
    return [format for format in found if format != "notes"] or found

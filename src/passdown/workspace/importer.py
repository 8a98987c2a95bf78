"""Import ADRs, beads, MCP memory, notes and bundles.

Every entry of a source is counted: added, changed, unchanged, skipped or refused, with a reason. A
second run of the same source writes nothing. A dry run is a real one on a copy of the store.
"""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING

from passdown.core.names import agent_problems, id_problems
from passdown.errors import InvalidInput, Problem
from passdown.imports.formats import IMPORT_FORMATS, format_of, format_of_folder
from passdown.workspace.context import Context
from passdown.workspace.files import path_type_problems, wrong_type
from passdown.workspace.import_results import (
    JSONL_SUFFIXES,
    EntryResult,
    ImportedEntry,
    ImportResult,
    ImportSource,
    ImportTally,
    open_source,
    redactions,
    source_bytes,
)
from passdown.workspace.location import Location

if TYPE_CHECKING:
    from passdown.workspace.import_results import Progress


_DEFAULT_AGENT = "import"
_SQLITE = "sqlite:///"
# A folder's form shows in its first files; to read all of them twice would take too long.
_SAMPLED_FILES = 60


def bring(
    opened: Context,
    source: str | os.PathLike[str],
    *,
    form: str = "auto",
    agent: str = "",
    task: str = "",
    dry_run: bool = False,
    progress: Progress | None = None,
) -> ImportResult:
    """Take in a file or a folder; `form` is `auto` or one of FORMS.

    `task` names the task that ADRs, memories and notes go to; by default it is named after the
    folder or the form. Entries that can't be taken are refused one by one. Raises InvalidInput,
    with nothing changed, where the source can't be read, its form can't be told, or nothing in it
    can be taken.
    """
    agent = agent or _DEFAULT_AGENT
    _check_arguments(source, form, agent=agent, task=task, progress=progress)
    found = open_source(os.fspath(source))
    form, names = _detect(found) if form == "auto" else (form, _candidates(found, form))
    if not dry_run:
        return _import_format(opened, found, form, names, agent=agent, task=task, progress=progress)
    with tempfile.TemporaryDirectory(prefix="passdown-dry-run-") as folder:
        copy = _copy(opened, folder)
        try:
            done = _import_format(
                copy, found, form, names, agent=agent, task=task, progress=progress
            )
        finally:
            copy.store.close()
    return done._replace(is_dry_run=True)


def _check_arguments(
    source: object, form: object, *, agent: object, task: object, progress: object
) -> None:
    """Refuse what no import could make sense of, all of it at once."""
    problems = path_type_problems(source, "source") + agent_problems(agent, "agent")
    if task != "":
        problems += id_problems(task, "task")
    if not isinstance(form, str) or form not in ("auto", *IMPORT_FORMATS):
        expected = " | ".join(("auto", *IMPORT_FORMATS))
        problems.append(Problem("form", "invalid_choice", repr(form)[:40], expected))
    if progress is not None and not callable(progress):
        problems.append(wrong_type("progress", progress, "a function"))
    if problems:
        raise InvalidInput("nothing was imported", problems)


def form_at(source: str) -> str:
    """The form of a file or folder, by what it holds; raises InvalidInput where it can't be
    told.
    """
    return _detect(open_source(source))[0]


def _import_format(
    opened: Context,
    source: ImportSource,
    form: str,
    names: tuple[str, ...],
    *,
    agent: str,
    task: str,
    progress: Progress | None,
) -> ImportResult:
    if form == "bundle":
        return _bundle(opened, source, agent)
    if form == "adr":
        from passdown.workspace.import_formats import import_adrs

        parts = [import_adrs(opened, source, agent=agent, task=task, progress=progress)]
    elif form == "notes":
        parts = [_notes(opened, source, names, agent=agent, task=task)]
    elif form == "beads":
        from passdown.workspace.import_formats import import_beads

        parts = [import_beads(opened, source, n, agent=agent, progress=progress) for n in names]
    else:
        from passdown.workspace.import_formats import import_memory

        parts = [
            import_memory(opened, source, name, agent=agent, task=task, progress=progress)
            for name in names
        ]
    tally = ImportTally(form)
    tally.entries += [entry for part in parts for entry in part.entries]
    for problem in source.refused:
        tally.refuse(problem, "folder")
    return tally.brought()


def _detect(source: ImportSource) -> tuple[str, tuple[str, ...]]:
    """The form that a source shows, and the files that have it."""
    forms: dict[str, str] = {}
    # JSON lines first: a folder has few of them, and they decide it.
    names = sorted(source.names, key=lambda name: not name.lower().endswith(JSONL_SUFFIXES))
    for name in names[:_SAMPLED_FILES]:
        data = source_bytes(source, name)
        if isinstance(data, Problem):
            if not source.is_folder:
                raise InvalidInput("nothing was imported", [data])
            continue
        forms[name] = format_of(name, data)
    found = format_of_folder(forms.values())
    if len(found) == 1:
        return found[0], tuple(name for name, form in forms.items() if form == found[0])
    choices = " | ".join(found or IMPORT_FORMATS)
    message = f"holds several forms: {', '.join(found)}" if found else "has no form that is known"
    fix = f"name the form with --from, one of {choices}, or a file or folder that has only one"
    problem = Problem(source.path[:200], "unknown_form", message, "one form", fix)
    raise InvalidInput("nothing was imported", [problem])


def _candidates(source: ImportSource, form: str) -> tuple[str, ...]:
    """The files of a source that may have a form which was named."""
    if not source.is_folder or form not in ("beads", "memory"):
        return source.names
    found: list[str] = []
    for name in source.names:
        data = source_bytes(source, name) if name.lower().endswith(JSONL_SUFFIXES) else b""
        if not isinstance(data, Problem) and data and format_of(name, data) == form:
            found.append(name)
    if not found:
        problem = Problem(source.path[:200], "no_file", f"holds no {form} file", "such a file")
        raise InvalidInput("nothing was imported", [problem])
    return tuple(found)


def _notes(
    opened: Context, source: ImportSource, names: tuple[str, ...], *, agent: str, task: str
) -> ImportTally:
    """Notes for the next agent go the way of all freeform notes; their files stay as they are."""
    from passdown.workspace.note_migration import migrate

    tally = ImportTally("notes")
    for name in names:

        def write(path: str = os.path.join(source.folder, *name.split("/"))) -> EntryResult:
            done = migrate(opened, path, task=task, agent=agent, write_back=False)
            if done.skipped:
                return EntryResult("skipped", "", done.skipped)
            if done.is_repeat:
                return EntryResult("unchanged", f"{done.task}@{done.version}")
            unclear = len(done.ambiguous)
            told = (
                f"{unclear} passage{'s are' if unclear > 1 else ' is'} unclear" if unclear else ""
            )
            reason = "; ".join(part for part in (told, redactions(done.problems)) if part)
            return EntryResult("added", f"{done.task}@{done.version}", reason)

        problem = source_bytes(source, name)
        if isinstance(problem, Problem):
            tally.refuse(problem, "note")
        else:
            tally.attempt(name, "note", write)
    return tally


def _bundle(opened: Context, source: ImportSource, agent: str) -> ImportResult:
    from passdown.workspace.maintenance import import_file

    done = import_file(opened, source.path, "", agent=agent)
    tally = ImportTally("bundle")
    tally.entries += [
        ImportedEntry(source.path, "stream", "added", stream, f"{count} records")
        for stream, count in done.added.items()
    ]
    tally.entries += [
        ImportedEntry(source.path, "stream", "unchanged", name) for name in done.unchanged
    ]
    return tally.brought()


def _copy(opened: Context, folder: str) -> Context:
    """The same workspace over a copy of its store: writes go there and are thrown away."""
    path = os.path.join(folder, "copy.db")
    opened.store.backup(path)
    return Context(Location(opened.root, folder, _SQLITE + path), opened.settings, opened.clock)


__all__ = ["ImportResult", "ImportedEntry", "bring", "form_at"]

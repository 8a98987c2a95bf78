"""Bringing in what people already have: ADRs, beads, the memory of MCP, notes, bundles.

Every entry of a source is counted: added, changed, unchanged, skipped (nothing to take) or refused,
with a reason. A second run of the same source writes nothing. A dry run is the real one on a copy
of the store, so it says exactly what would happen.
"""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING

from passdown.errors import InvalidInput, Problem
from passdown.model.importing.detecting import FORMS, form_of, form_of_folder
from passdown.model.names import agent_problems, id_problems
from passdown.workspace.given_files import path_type_problems, wrong_type
from passdown.workspace.importing_files import LINES, Source, bytes_of, source_at
from passdown.workspace.importing_results import Brought, Done, Taken, Tally, redactions
from passdown.workspace.locating import Place
from passdown.workspace.opened import Opened

if TYPE_CHECKING:
    from passdown.workspace.importing_results import Progress

_DEFAULT_AGENT = "import"
_SQLITE = "sqlite:///"
# A folder's form shows in its first files; to read all of them twice would take too long.
_LOOKED_AT = 60


def bring(
    opened: Opened,
    source: str | os.PathLike[str],
    *,
    form: str = "auto",
    agent: str = "",
    task: str = "",
    dry_run: bool = False,
    progress: Progress | None = None,
) -> Brought:
    """Take in a file or a folder; `form` is `auto` or one of FORMS.

    `task` names the task that ADRs, memories and notes go to; by default it is named after the
    folder or the form. Entries that can't be taken are refused one by one. Raises InvalidInput,
    with nothing changed, where the source can't be read, its form can't be told, or nothing in it
    can be taken.
    """
    agent = agent or _DEFAULT_AGENT
    _check_arguments(source, form, agent=agent, task=task, progress=progress)
    found = source_at(os.fspath(source))
    form, names = _told(found) if form == "auto" else (form, _candidates(found, form))
    if not dry_run:
        return _bring(opened, found, form, names, agent=agent, task=task, progress=progress)
    with tempfile.TemporaryDirectory(prefix="passdown-dry-run-") as folder:
        copy = _copy(opened, folder)
        try:
            done = _bring(copy, found, form, names, agent=agent, task=task, progress=progress)
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
    if not isinstance(form, str) or form not in ("auto", *FORMS):
        expected = " | ".join(("auto", *FORMS))
        problems.append(Problem("form", "invalid_choice", repr(form)[:40], expected))
    if progress is not None and not callable(progress):
        problems.append(wrong_type("progress", progress, "a function"))
    if problems:
        raise InvalidInput("nothing was imported", problems)


def form_at(source: str) -> str:
    """The form of a file or folder, by what it holds; raises InvalidInput where it can't be
    told.
    """
    return _told(source_at(source))[0]


def _bring(
    opened: Opened,
    source: Source,
    form: str,
    names: tuple[str, ...],
    *,
    agent: str,
    task: str,
    progress: Progress | None,
) -> Brought:
    if form == "adr":
        from passdown.workspace.importing_adr import bring_adrs

        return bring_adrs(opened, source, agent=agent, task=task, progress=progress).brought()
    if form == "notes":
        return _notes(opened, source, names, agent=agent, task=task).brought()
    if form == "bundle":
        return _bundle(opened, source, agent)
    tally = Tally(form)
    for name in names:
        if form == "beads":
            from passdown.workspace.importing_beads import bring_beads

            part = bring_beads(opened, source, name, agent=agent, progress=progress)
        else:
            from passdown.workspace.importing_memory import bring_memory

            part = bring_memory(opened, source, name, agent=agent, task=task, progress=progress)
        tally.entries += part.entries
    return tally.brought()


def _told(source: Source) -> tuple[str, tuple[str, ...]]:
    """The form that a source shows, and the files that have it."""
    forms: dict[str, str] = {}
    # JSON lines first: a folder has few of them, and they decide it.
    names = sorted(source.names, key=lambda name: not name.lower().endswith(LINES))
    for name in names[:_LOOKED_AT]:
        data = bytes_of(source, name)
        if isinstance(data, Problem):
            if not source.is_folder:
                raise InvalidInput("nothing was imported", [data])
            continue
        forms[name] = form_of(name, data)
    found = form_of_folder(forms.values())
    if len(found) == 1:
        return found[0], tuple(name for name, form in forms.items() if form == found[0])
    choices = " | ".join(found or FORMS)
    message = f"holds several forms: {', '.join(found)}" if found else "has no form that is known"
    fix = f"name the form with --from, one of {choices}, or a file or folder that has only one"
    problem = Problem(source.path[:200], "unknown_form", message, "one form", fix)
    raise InvalidInput("nothing was imported", [problem])


def _candidates(source: Source, form: str) -> tuple[str, ...]:
    """The files of a source that may have a form which was named."""
    if not source.is_folder or form not in ("beads", "memory"):
        return source.names
    found: list[str] = []
    for name in source.names:
        data = bytes_of(source, name) if name.lower().endswith(LINES) else b""
        if not isinstance(data, Problem) and data and form_of(name, data) == form:
            found.append(name)
    if not found:
        problem = Problem(source.path[:200], "no_file", f"holds no {form} file", "such a file")
        raise InvalidInput("nothing was imported", [problem])
    return tuple(found)


def _notes(
    opened: Opened, source: Source, names: tuple[str, ...], *, agent: str, task: str
) -> Tally:
    """Notes for the next agent go the way of all freeform notes; their files stay as they are."""
    from passdown.workspace.migrating import migrate

    tally = Tally("notes")
    for name in names:

        def write(path: str = os.path.join(source.folder, *name.split("/"))) -> Done:
            done = migrate(opened, path, task=task, agent=agent, write_back=False)
            if done.skipped:
                return Done("skipped", "", done.skipped)
            if done.is_repeat:
                return Done("unchanged", f"{done.task}@{done.version}")
            unclear = len(done.ambiguous)
            told = (
                f"{unclear} passage{'s are' if unclear > 1 else ' is'} unclear" if unclear else ""
            )
            reason = "; ".join(part for part in (told, redactions(done.problems)) if part)
            return Done("added", f"{done.task}@{done.version}", reason)

        problem = bytes_of(source, name)
        if isinstance(problem, Problem):
            tally.refuse(problem, "note")
        else:
            tally.attempt(name, "note", write)
    return tally


def _bundle(opened: Opened, source: Source, agent: str) -> Brought:
    from passdown.workspace.bundling import import_file

    done = import_file(opened, source.path, "", agent=agent)
    tally = Tally("bundle")
    tally.entries += [
        Taken(source.path, "stream", "added", stream, f"{count} records")
        for stream, count in done.added.items()
    ]
    tally.entries += [Taken(source.path, "stream", "unchanged", name) for name in done.unchanged]
    return tally.brought()


def _copy(opened: Opened, folder: str) -> Opened:
    """The same workspace over a copy of its store: writes go there and are thrown away."""
    path = os.path.join(folder, "copy.db")
    opened.store.backup(path)
    return Opened(Place(opened.root, folder, _SQLITE + path), opened.settings, opened.clock)


__all__ = ["Brought", "Taken", "bring", "form_at"]

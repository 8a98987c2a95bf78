"""Notes on disk: read whole, written back whole, and never over somebody else's change."""

from __future__ import annotations

import hashlib
import os
import re
from typing import TYPE_CHECKING, NamedTuple

from passdown.errors import InvalidInput, Problem
from passdown.ledger.durable_files import replace_file
from passdown.model.freeform.reports import broken_report, is_report
from passdown.model.kinds import stream_of
from passdown.model.names import id_problems
from passdown.model.redaction import redact, removal
from passdown.workspace.given_files import bytes_at, is_beneath, path_type_problems, wrong_type

if TYPE_CHECKING:
    from passdown.workspace.opened import Opened

NOTE_KEY = "note-"
"""How the keys of the records begin that hold notes."""

MAX_NOTE_BYTES = 1_048_576
"""As much as a task file may hold; a record has room for it, whatever it is escaped to."""


class Note(NamedTuple):
    """A note: its text, and its file's path (empty where it was given as text)."""

    text: str
    path: str
    name: str

    @property
    def is_report(self) -> bool:
        """Whether it is JSON, which nothing can be appended to."""
        return is_report(self.text)

    @property
    def task(self) -> str:
        """The task that its file's name suggests."""
        return _as_id(os.path.splitext(self.name)[0])

    @property
    def is_broken(self) -> str:
        """What is wrong with it where it is meant to be JSON and isn't; else empty."""
        return broken_report(self.text, self.name)


def _as_id(words: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", words).strip("-._")[:120]


def place_of_note(note: Note, root: str) -> str:
    """What a note's file is known by: its path in the project; outside, a name that tells nothing.

    Empty where there is no file.
    """
    if not note.path:
        return ""
    whole = os.path.realpath(note.path)
    path = os.path.relpath(whole, os.path.realpath(root)).replace(os.sep, "/")
    digest = hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()
    return f"outside/{digest[:16]}" if path.startswith("../") else path


def suggested_tasks(note: Note, root: str) -> list[str]:
    """The tasks that a note's file suggests: by its name, and by its path where that is taken."""
    if not note.path:
        return [note.task]
    place = place_of_note(note, root)
    folder = os.path.basename(os.path.dirname(os.path.realpath(note.path)))
    path = f"{folder}/{note.name}" if place.startswith("outside/") else place
    return [note.task, _as_id(os.path.splitext(path)[0])]


def task_of(opened: Opened, given: Note, named: str) -> str:
    """The task that is named, else the first that the file suggests and no other file holds.

    Raises InvalidInput where there is none.
    """
    tasks = [named] if named else suggested_tasks(given, opened.root)
    problems = id_problems(tasks[0], "task")
    if problems:
        raise InvalidInput("the note names no task", problems, next_step="Name the task.")
    place = place_of_note(given, opened.root)
    found = next((t for t in tasks if named or _is_free(opened, t, place)), None)
    if found is None:
        message = f"{' and '.join(dict.fromkeys(tasks))} came from notes in other places"
        problem = Problem("task", "name_taken", message, "a task of its own", "use --task")
        raise InvalidInput("the note is refused", [problem], next_step="Nothing was changed.")
    return found


def _is_free(opened: Opened, task: str, place: str) -> bool:
    """Whether no note of another place made a task what it is: two notes aren't one task because
    their files have one name.
    """
    if id_problems(task, ""):
        return False
    with opened.store.reading() as reader:
        records = reader.records(stream_of(task))
        notes = [r.document()["metadata"]["note"] for r in records if r.key.startswith(NOTE_KEY)]
    places = {str(note["place"]) for note in notes if note.get("place")}
    return not places or place in places


def secrets_in(given: Note, text: str) -> list[Problem]:
    """What the record of a note will lack; its file keeps it."""
    found: list[Problem] = []
    for kind in redact(text)[1]:
        message = removal(kind)
        fix = "take it out of the file, too" if given.path else ""
        found.append(Problem(given.path or "the note", "redacted", message, "", fix, "warning"))
    return found


def check_arguments(note: object, answer: object, minimum: object, **names: object) -> None:
    """Refuse what no migration could make sense of, all of it at once. Raises InvalidInput."""
    problems = path_type_problems(note, "note")
    for name, value in names.items():
        if not isinstance(value, str):
            problems.append(wrong_type(name, value, "text"))
    if answer is not None and not callable(answer):
        problems.append(wrong_type("answer", answer, "a function"))
    if isinstance(minimum, bool) or not isinstance(minimum, int | float):
        problems.append(wrong_type("minimum", minimum, "0 to 1"))
    elif not 0 <= minimum <= 1:
        problems.append(Problem("minimum", "out_of_range", f"{minimum:g} given", "0 to 1"))
    if problems:
        raise InvalidInput("the note is refused", problems, next_step="Nothing was changed.")


def read_note(given: str | os.PathLike[str]) -> Note:
    """The note that is meant: a file, or the text itself where it has more than one line.

    Raises InvalidInput: missing_file, not_regular_file, unreadable, too_large, invalid_utf8.
    """
    if isinstance(given, str) and "\n" in given:
        _check_size(len(given.encode("utf-8", "surrogatepass")), "")
        return Note(given, "", "")
    path = os.fspath(given)
    data = bytes_at(path, MAX_NOTE_BYTES)
    if isinstance(data, Problem):
        raise InvalidInput("the note can't be read", [data])
    try:
        return Note(data.decode(), path, os.path.basename(path))
    except UnicodeDecodeError as error:
        problem = Problem(path, "invalid_utf8", f"byte {error.start} is not UTF-8", "UTF-8 text")
        raise InvalidInput("the note can't be read", [problem]) from error


def _check_size(size: int, path: str) -> None:
    if size > MAX_NOTE_BYTES:
        expected = f"at most {MAX_NOTE_BYTES:,}"
        problem = Problem(path, "too_large", f"{size:,} bytes or more", expected, "split the note")
        raise InvalidInput("the note is too large", [problem])


def outside_project(note: Note, root: str) -> list[Problem]:
    """The notice that a note's file isn't this project's to change, where its real path says so."""
    if not note.path or is_beneath(note.path, root):
        return []
    message = "lies outside the project and is left as it is"
    return [Problem(note.path, "outside_project", message, level="warning")]


def write_back_to(note: Note, text: str, root: str) -> tuple[str | None, list[Problem]]:
    """Put a new text into a note's file, behind any link, with the rights that it had.

    A file outside the project, or that someone changed since it was read, is left alone, and so
    said.
    """
    target = os.path.realpath(note.path)
    # The target is what gets checked: a link may lead elsewhere since the note was read.
    if refused := outside_project(note._replace(path=target), root):
        return None, [refused[0]._replace(path=note.path)]
    there = bytes_at(target, MAX_NOTE_BYTES)
    if there == text.encode():
        return None, []
    if there != note.text.encode():
        message = "was changed by someone else meanwhile and is left as it is"
        fix = "the handoff is recorded; migrate the file again"
        return None, [Problem(note.path, "file_changed", message, "", fix, "warning")]
    replace_file(target, text, is_project_file=True)
    return note.path, []

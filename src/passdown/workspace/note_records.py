"""The records of notes: each is kept whole, as a fact about its task, with its section."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from passdown.errors import NotFound
from passdown.ledger import Entry
from passdown.model.canonical import digest_bytes
from passdown.model.freeform.sections import read_section
from passdown.model.intake.reading import task_parts, task_title
from passdown.model.kinds import stream_of
from passdown.workspace.note_files import NOTE_KEY, place_of_note

if TYPE_CHECKING:
    from passdown.errors import Problem
    from passdown.workspace.note_files import Note
    from passdown.workspace.opened import Opened

Plain = dict[str, Any]


class NoteToKeep(NamedTuple):
    """A note, its text without a section, the title that it gives its task, and its section.

    `is_first` where no record of this text was found: then one that is there after all is someone
    else's, made at the same moment.
    """

    note: Note
    text: str
    title: str
    section: str
    is_first: bool


def keep_note(opened: Opened, kept: NoteToKeep) -> tuple[bool, list[Problem]]:
    """Record the note itself, whole, as a fact about its task; make the task where there is none.

    It is no part of the handoff's own record: that one is read by every agent, all the time. Raises
    Conflict or KeyReused where someone else has recorded the note, or made the task, meanwhile.
    """
    from passdown.workspace.noting import create_task

    plain = read_section(kept.section)
    task, agent = str(plain["task"]), str(plain["from_agent"])
    problems: list[Problem] = []
    made = not _exists(opened, task)
    if made:
        title = kept.title or task_title(kept.text) or task
        fields = task_parts(kept.text).fields if task_title(kept.text) else {}
        create_task(opened, {**fields, "task": task, "title": title, "agent": agent}, None)
    sha256 = sha256_of(kept.text)
    if made or kept.is_first or note_record(opened, task, sha256) is None:
        place = place_of_note(kept.note, opened.root)
        note = {"name": kept.note.name, "sha256": sha256, "text": kept.text, "place": place}
        body = {"metadata": {"note": {**note, "section": kept.section}}}
        entry = Entry(task, "task_changed", agent, body, _key(sha256))
        problems += opened.mirror(opened.ledger.append(entry))
    return made, problems


def kept_note(opened: Opened, task: str, sha256: str) -> str:
    """The note that a migrated handoff names, as it was, without its secrets."""
    record = note_record(opened, task, sha256)
    if record is None:
        raise NotFound(f"{task} has no note {sha256[:80]!r}")
    return str(record["text"])


def note_record(opened: Opened, task: str, sha256: str) -> Plain | None:
    """What was recorded of a note with this text; None where nothing was."""
    with opened.store.reading() as reader:
        record = reader.record_by_key(stream_of(task), _key(sha256))
    return record.document()["metadata"]["note"] if record else None


def sha256_of(text: str) -> str:
    """What a note's text is known by."""
    return digest_bytes(text.encode("utf-8", "surrogatepass")).removeprefix("sha256:")


def _exists(opened: Opened, task: str) -> bool:
    with opened.store.reading() as reader:
        return reader.task(task) is not None


def _key(sha256: str) -> str:
    return f"{NOTE_KEY}{sha256}"

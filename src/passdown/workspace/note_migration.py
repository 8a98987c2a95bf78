"""Migrate freeform notes to handoffs: read, ask a model, check, record, write back.

The note is recorded whole in its task; the handoff read from it is another record that names it by
hash. The note's file gets the handoff as a section below the note.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from passdown.core.intake import check_handoff
from passdown.core.kinds import NOT_STATED, stream_of
from passdown.core.names import id_problems
from passdown.core.record import digest_bytes
from passdown.core.redaction import redact, removal_message
from passdown.core.task_files import read_handoff_text, task_file_fields, task_file_title
from passdown.core.text import excerpt, is_blank
from passdown.errors import Conflict, InvalidInput, KeyReused, NotFound, Problem
from passdown.imports.note_blocks import broken_report, is_report
from passdown.imports.note_handoffs import (
    LISTS,
    MAX_ENTRIES,
    NoteExtraction,
    NoteItem,
    NoteSpan,
    as_handoff,
    extract_note,
    kept_of,
    note_in,
    note_prompt,
    parts_of,
    read_section,
    repeat_prompt,
    section_of,
    source_of,
    with_answer,
    with_outcome,
    written_below,
)
from passdown.ledger import Entry
from passdown.ledger.durable_files import replace_file
from passdown.workspace.files import bytes_at, is_beneath, path_type_problems, wrong_type
from passdown.workspace.handoff import NOTHING_CHANGED, hand_off

if TYPE_CHECKING:
    from passdown.core.results import HandoffCommand
    from passdown.workspace.context import Context


Plain = dict[str, Any]

_SHOWN_PATHS = 3
_SHOWN_PATH = 100


def existing_artifacts(opened: Context, plain: Plain) -> tuple[Plain, list[Problem]]:
    """Files that aren't there can't be handed over: they are named as reading, and so said."""
    if not opened.settings.artifacts_on_disk:
        return plain, []
    missing: list[Plain] = []
    kept: Plain = dict(plain)
    for name in ("files_created", "files_modified", "artifacts"):
        entries: list[Plain] = plain.get(name, [])
        there = [_is_there(opened, entry) for entry in entries]
        kept[name] = [entry for entry, is_there in zip(entries, there, strict=True) if is_there]
        gone = [entry for entry, is_there in zip(entries, there, strict=True) if not is_there]
        missing += [{"file": entry["path"], "reason": _said_of(entry)} for entry in gone]
    if not missing:
        return plain, []
    kept["dependencies_for_next"] = [*plain.get("dependencies_for_next", ()), *missing]
    named = ", ".join(excerpt(entry["file"], _SHOWN_PATH) for entry in missing[:_SHOWN_PATHS])
    rest = f" and {len(missing) - _SHOWN_PATHS:,} more" if len(missing) > _SHOWN_PATHS else ""
    count = "1 file is" if len(missing) == 1 else f"{len(missing):,} files are"
    message = f"{count} not on disk here ({named}{rest}); kept as reading"
    warning = Problem("dependencies_for_next", "missing_file", message, level="warning")
    return {name: value for name, value in kept.items() if value != []}, [warning]


def _is_there(opened: Context, entry: Plain) -> bool:
    measured = opened.project.measure(entry["path"], "path")
    is_gone = "delete" in (entry.get("change_type"), entry.get("change"))
    return measured.problem is None and (measured.sha256 is not None or is_gone)


def _said_of(entry: Plain) -> str:
    said = entry.get("purpose") or entry.get("description") or entry.get("note") or ""
    return said if said and said != NOT_STATED else "Named in the note."


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


def note_place(note: Note, root: str) -> str:
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
    place = note_place(note, root)
    folder = os.path.basename(os.path.dirname(os.path.realpath(note.path)))
    path = f"{folder}/{note.name}" if place.startswith("outside/") else place
    return [note.task, _as_id(os.path.splitext(path)[0])]


def task_of(opened: Context, given: Note, named: str) -> str:
    """The task that is named, else the first that the file suggests and no other file holds.

    Raises InvalidInput where there is none.
    """
    tasks = [named] if named else suggested_tasks(given, opened.root)
    problems = id_problems(tasks[0], "task")
    if problems:
        raise InvalidInput("the note names no task", problems, next_step="Name the task.")
    place = note_place(given, opened.root)
    found = next((t for t in tasks if named or _is_free(opened, t, place)), None)
    if found is None:
        message = f"{' and '.join(dict.fromkeys(tasks))} came from notes in other places"
        problem = Problem("task", "name_taken", message, "a task of its own", "use --task")
        raise InvalidInput("the note is refused", [problem], next_step="Nothing was changed.")
    return found


def _is_free(opened: Context, task: str, place: str) -> bool:
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
        message = removal_message(kind)
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


def keep_note(opened: Context, kept: NoteToKeep) -> tuple[bool, list[Problem]]:
    """Record the note itself, whole, as a fact about its task; make the task where there is none.

    It is no part of the handoff's own record: that one is read by every agent, all the time. Raises
    Conflict or KeyReused where someone else has recorded the note, or made the task, meanwhile.
    """
    from passdown.workspace.entries import create_task

    plain = read_section(kept.section)
    task, agent = str(plain["task"]), str(plain["from_agent"])
    problems: list[Problem] = []
    made = not _exists(opened, task)
    if made:
        title = kept.title or task_file_title(kept.text) or task
        fields = task_file_fields(kept.text).fields if task_file_title(kept.text) else {}
        create_task(opened, {**fields, "task": task, "title": title, "agent": agent}, None)
    sha256 = sha256_of(kept.text)
    if made or kept.is_first or note_record(opened, task, sha256) is None:
        place = note_place(kept.note, opened.root)
        note = {"name": kept.note.name, "sha256": sha256, "text": kept.text, "place": place}
        body = {"metadata": {"note": {**note, "section": kept.section}}}
        entry = Entry(task, "task_changed", agent, body, _key(sha256))
        problems += opened.mirror(opened.ledger.append(entry))
    return made, problems


def kept_note(opened: Context, task: str, sha256: str) -> str:
    """The note that a migrated handoff names, as it was, without its secrets."""
    record = note_record(opened, task, sha256)
    if record is None:
        raise NotFound(f"{task} has no note {sha256[:80]!r}")
    return str(record["text"])


def note_record(opened: Context, task: str, sha256: str) -> Plain | None:
    """What was recorded of a note with this text; None where nothing was."""
    with opened.store.reading() as reader:
        record = reader.record_by_key(stream_of(task), _key(sha256))
    return record.document()["metadata"]["note"] if record else None


def sha256_of(text: str) -> str:
    """What a note's text is known by."""
    return digest_bytes(text.encode("utf-8", "surrogatepass")).removeprefix("sha256:")


def _exists(opened: Context, task: str) -> bool:
    with opened.store.reading() as reader:
        return reader.task(task) is not None


def _key(sha256: str) -> str:
    return f"{NOTE_KEY}{sha256}"


class Migration(NamedTuple):
    """What became of a note.

    `version` is that of the recorded handoff, None for a dry run; `prompt` asks a model about what
    is `ambiguous` and is empty where nothing is; `changed` is the file that was written,
    `would_change` the one that a dry run left alone. `skipped` says why a note gives no handoff:
    then nothing was recorded and no file written. `kept` is how many of what was found are in the
    handoff: not what is less sure than was asked for, nor what no list has room for.
    """

    task: str
    version: int | None
    found: tuple[NoteItem, ...]
    ambiguous: tuple[NoteSpan, ...]
    handoff: Plain
    prompt: str
    problems: tuple[Problem, ...]
    changed: str | None
    is_repeat: bool
    made_task: bool = False
    skipped: str = ""
    would_change: str | None = None
    kept: int = 0


class _ParsedNote(NamedTuple):
    """A note as it was read: its text without a section that was made from it, and what it says."""

    note: Note
    text: str
    extraction: NoteExtraction


class _Plan(NamedTuple):
    """What will be recorded for a note: its text, the handoff's section, and the new file.

    `is_first` where it was made because nothing was recorded of this text.
    """

    note: Note
    text: str
    extraction: NoteExtraction
    section: str
    whole: str
    prompt: str
    problems: tuple[Problem, ...]
    skipped: str = ""
    kept: int = 0
    is_first: bool = False


# As often as another process may come in between; each time it has recorded a part of the same.
_TRIES = 5


def migrate(
    opened: Context,
    note: str | os.PathLike[str],
    *,
    task: str = "",
    agent: str = "",
    answer: AnswerFunction | None = None,
    ask: bool = False,
    minimum: float = 0.5,
    dry_run: bool = False,
    write_back: bool = True,
) -> Migration:
    """Record what a note says as a handoff of its task; make the task where there is none.

    `note` is a file's path, or the text itself where it has more than one line. `task` and `agent`
    stand in where the note names none. `answer` is given the prompt and answers it; with `ask`, the
    user's command does so for notes that are unclear. Items below `minimum` are left out. A
    second run does nothing. A file outside the project is read and left alone, with a notice.
    Raises InvalidInput; then nothing changed.
    """
    check_arguments(note, answer, minimum, task=task, agent=agent)
    given = read_note(note)
    _refuse_broken(given)
    plan = None if answer else _plan_from_section(opened, given, task)
    if plan is None:
        reading = _read(opened, given)
        plan = None if answer else _plan_from_record(opened, reading, task)
        asked = answer or (command_answer(opened) if ask and plan is None else None)
        plan = plan or _new_plan(
            opened, reading, (task, agent), asked, minimum=minimum, is_forced=answer is not None
        )
    plan = plan._replace(kept=plan.kept or len(kept_of(plan.extraction.found, minimum)))
    is_written = write_back and bool(given.path) and plan.whole != given.text
    if is_written and not plan.skipped:
        _refuse_too_large(opened, plan)
    if dry_run or plan.skipped:
        return _dry_run_result(opened, plan, is_written=is_written)
    plan, done = _record(opened, plan, task)
    problems = list(done.problems)
    changed = None
    if is_written:
        changed, refused = write_back_to(given, plan.whole, opened.root)
        problems += refused
    plan = plan._replace(problems=(*plan.problems, *_notable(problems)))
    return _migration(plan, done.command, changed, made_task=done.made_task)


class _MigrationRecord(NamedTuple):
    """What came of recording a note and its handoff."""

    command: HandoffCommand
    made_task: bool
    problems: list[Problem]


def _record(opened: Context, plan: _Plan, task: str) -> tuple[_Plan, _MigrationRecord]:
    """Record the note and its handoff. Where someone else records the same note at the same moment,
    what they have recorded stands, and the plan becomes theirs.
    """
    for _ in range(_TRIES):
        try:
            return plan, _record_once(opened, plan)
        except (Conflict, KeyReused):
            reading = _ParsedNote(plan.note, plan.text, plan.extraction)
            theirs = _plan_from_record(opened, reading, task) if plan.is_first else None
            if theirs:
                plan = plan._replace(section=theirs.section, whole=theirs.whole, is_first=False)
    return plan, _record_once(opened, plan)


def _record_once(opened: Context, plan: _Plan) -> _MigrationRecord:
    title = plan.extraction.header.title
    kept = NoteToKeep(plan.note, plan.text, title, plan.section, plan.is_first)
    made_task, problems = keep_note(opened, kept)
    command = hand_off(opened, plan.section, {}, key=None, rebase=False, changed_files=None)
    return _MigrationRecord(command, made_task, [*problems, *command.warnings])


def _refuse_too_large(opened: Context, plan: _Plan) -> None:
    """A file that nobody could read again, for the section below the note, isn't written."""
    size = len(plan.whole.encode("utf-8", "surrogatepass"))
    if size <= MAX_NOTE_BYTES or outside_project(plan.note, opened.root):
        return
    message = f"would have {size:,} bytes with its section"
    fix = "split the note, or record it and leave the file as it is with --no-write"
    problem = Problem(plan.note.path, "too_large", message, f"at most {MAX_NOTE_BYTES:,}", fix)
    raise InvalidInput("the note is refused", [problem], next_step=NOTHING_CHANGED)


def _dry_run_result(opened: Context, plan: _Plan, *, is_written: bool) -> Migration:
    """What a note would become, where nothing is recorded for it."""
    told = _migration(plan, None, None, made_task=False)
    if plan.skipped or not is_written:
        return told._replace(skipped=plan.skipped)
    if notices := outside_project(plan.note, opened.root):
        return told._replace(problems=(*told.problems, *notices))
    return told._replace(would_change=plan.note.path)


def _refuse_broken(given: Note) -> None:
    if given.is_broken:
        problem = Problem(given.path or given.name, "invalid_json", given.is_broken, "JSON")
        raise InvalidInput("the note is refused", [problem], next_step=NOTHING_CHANGED)


def _migration(
    plan: _Plan, command: HandoffCommand | None, changed: str | None, *, made_task: bool
) -> Migration:
    plain = read_section(plan.section)
    return Migration(
        task=str(plain.get("task", "")),
        version=command.version if command else None,
        found=plan.extraction.found,
        ambiguous=plan.extraction.ambiguous,
        handoff=plain,
        prompt=plan.prompt,
        problems=plan.problems,
        changed=changed,
        is_repeat=command is not None and command.is_replay and changed is None,
        made_task=made_task,
        kept=plan.kept,
    )


def _notable(problems: list[Problem]) -> list[Problem]:
    """Warnings worth telling: that a note leaves recommended parts out is no news."""
    return [problem for problem in problems if problem.code != "recommended"]


def _plan_from_section(opened: Context, given: Note, task: str) -> _Plan | None:
    """What the file's own section says, where it was written from this very note."""
    parts = parts_of(given.text)
    if parts is None:
        return None
    plain = read_section(parts.section)
    source = source_of(plain)
    if not source:
        _refuse_structured(given, plain)
        return None
    if task and plain.get("task") != task:
        message = f"was migrated for the task {plain.get('task')}"
        problem = Problem("task", "other_task", message, str(plain.get("task")))
        raise InvalidInput("the note is refused", [problem], next_step=NOTHING_CHANGED)
    text = note_in(parts, source)
    if source.get("sha256") != sha256_of(text):
        return None
    extraction = extract_note(text, given.name, root=opened.root)
    return _Plan(given, text, extraction, parts.section, given.text, "", ())


def _read(opened: Context, given: Note) -> _ParsedNote:
    text = _note_text(given)
    if is_blank(text):
        problem = Problem(given.name, "empty", "shows no text", "a note")
        raise InvalidInput("the note is refused", [problem], next_step=NOTHING_CHANGED)
    return _ParsedNote(given, text, extract_note(text, given.name, root=opened.root))


def _plan_from_record(opened: Context, reading: _ParsedNote, task: str) -> _Plan | None:
    """What was planned for this very note before, though its file doesn't show it."""
    given, text, extraction = reading
    named = task or extraction.header.task
    tasks = [named] if named else suggested_tasks(given, opened.root)
    records = (note_record(opened, t, sha256_of(text)) for t in tasks if not id_problems(t, ""))
    record = next((record for record in records if record), None)
    if record is None:
        return None
    section = str(record["section"])
    whole = _whole(given, text, section)
    return _Plan(given, text, extraction, section, whole, "", ())


def _refuse_structured(given: Note, plain: Plain) -> None:
    """A file whose handoff is structured already is for `ingest`."""
    if check_handoff({"task": "T", **plain}).handoff is not None:
        message = "has a structured handoff already"
        fix = "passdown ingest records it"
        problem = Problem(given.name, "structured", message, "a freeform note", fix)
        raise InvalidInput("nothing to migrate", [problem])


def _new_plan(
    opened: Context,
    reading: _ParsedNote,
    names: tuple[str, str],
    answer: AnswerFunction | None,
    *,
    minimum: float,
    is_forced: bool,
) -> _Plan:
    """Ask about the note if need be, and check what comes out."""
    given, text, extraction = reading
    task, sender = (
        task_of(opened, given, names[0] or extraction.header.task),
        _sender(opened, extraction, names),
    )
    source = {"name": given.name, "sha256": sha256_of(text), "characters": len(text)}
    plain = as_handoff(
        extraction,
        task,
        sender,
        to_agent=extraction.header.to_agent,
        minimum=minimum,
        source={name: value for name, value in source.items() if value != ""},
    )
    unclear = bool(extraction.ambiguous) or not extraction.found
    prompt = note_prompt(text, extraction, plain) if unclear or is_forced else ""
    kept = 0
    if prompt and answer is not None:
        plain, kept = with_model_answer(plain, prompt, answer), len(extraction.found)
    skipped = "" if _says_something(extraction, plain) else "no item was found in it"
    plain, problems = existing_artifacts(opened, with_outcome(plain))
    problems += [*secrets_in(given, text), *_without_room(extraction, minimum)]
    section = section_of(plain)
    checked = check_handoff(read_section(section))
    if checked.handoff is None:
        raise InvalidInput("the note is refused", checked.errors, next_step=NOTHING_CHANGED)
    whole = _whole(given, text, section)
    plan = _Plan(given, text, extraction, section, whole, prompt, tuple(problems), skipped, kept)
    return plan._replace(is_first=not is_forced)


def _without_room(extraction: NoteExtraction, minimum: float) -> list[Problem]:
    """Lists of which a handoff can hold only the beginning; the note itself is kept whole."""
    found: list[Problem] = []
    for name in LISTS:
        count = sum(item.kind == name and item.confidence >= minimum for item in extraction.found)
        if count > MAX_ENTRIES:
            message = f"the first {MAX_ENTRIES:,} of {count:,} are kept; the note itself is whole"
            fix = "split the note to have them all"
            found.append(Problem(name, "too_many", message, "", fix, "warning"))
    return found


def _says_something(extraction: NoteExtraction, plain: Plain) -> bool:
    """Whether a note gives a handoff: an item, or how the work ended, or what it came to."""
    header = extraction.header
    is_summed_up = header.is_summed_up or plain["summary"] != header.summary
    return bool(header.outcome or is_summed_up or any(plain.get(name) for name in LISTS))


def _note_text(given: Note) -> str:
    """The note without a handoff section that was made from an earlier state of it."""
    parts = parts_of(given.text)
    is_ours = parts is not None and bool(source_of(read_section(parts.section)))
    return parts.before if parts is not None and is_ours else given.text


def _whole(given: Note, text: str, section: str) -> str:
    """The file with the section in its place; a report stays as it is, since JSON has no place."""
    if not given.path or given.is_report:
        return given.text
    parts = parts_of(given.text)
    after = parts.after if parts is not None and given.text != text else ""
    try:
        return written_below(text, section) + after
    except ValueError as error:
        problem = Problem(given.name, "no_place", str(error), "a note that a section can follow")
        raise InvalidInput("the note is refused", [problem], next_step=NOTHING_CHANGED) from error


def _sender(opened: Context, extraction: NoteExtraction, names: tuple[str, str]) -> str:
    """Who hands off: whom the note names, else the caller, else the task's holder."""
    sender = extraction.header.from_agent or names[1]
    if sender:
        return sender
    with opened.store.reading() as reader:
        row = reader.task(names[0] or extraction.header.task) if any(names) else None
    if row is None:
        problem = Problem("agent", "required", "is missing, and the note names nobody", "an agent")
        raise InvalidInput("the note is refused", [problem], next_step=NOTHING_CHANGED)
    return row.holder


AnswerFunction = Callable[[str], str]

VARIABLE = "PASSDOWN_MIGRATE_COMMAND"
MAX_ANSWER_BYTES = 1_048_576
_REFUSED = "the answer is refused"
_NEXT = "Nothing was changed. Answer again, or migrate without an answer."


def with_model_answer(plain: dict[str, Any], prompt: str, answer: AnswerFunction) -> dict[str, Any]:
    """A handoff with an answer worked in. A faulty answer is sent back once, with every fault.

    Raises InvalidInput where the second one is faulty too.
    """
    given = answer(prompt)
    merged, problems = _merged(plain, given)
    if problems:
        given = answer(repeat_prompt(prompt, str(given), problems))
        merged, problems = _merged(plain, given)
    if problems:
        raise InvalidInput(_REFUSED, problems, next_step=_NEXT)
    return merged


def _merged(plain: dict[str, Any], given: object) -> tuple[dict[str, Any], list[Problem]]:
    if not isinstance(given, str):
        problem = Problem("", "wrong_type", f"{type(given).__name__} given", "text")
        return {}, [problem]
    try:
        answer = read_handoff_text(given)
    except InvalidInput as error:
        return {}, list(error.problems)
    merged = with_answer(plain, answer)
    # What the answer itself says is checked first: an outcome that needs more has to bring it.
    checked = check_handoff(merged)
    if checked.handoff is None:
        return {}, list(checked.errors)
    return with_outcome(merged), []


def command_answer(opened: Context) -> AnswerFunction:
    """The command of the environment as an answer: the prompt goes in, what it prints comes out.

    The settings don't name it: they come with the repository, which must not choose what is run.
    No shell reads it. Raises InvalidInput where none is set, and when it fails or takes too long.
    """
    words = _split(os.environ.get(VARIABLE, ""))
    timeout = opened.settings.migrate_timeout_s

    def answer(prompt: str) -> str:
        return _run(words, prompt, timeout, opened.root)

    return answer


def _split(command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise _failed(f"can't be read ({error})") from error
    if not words:
        expected = "a program and its arguments, in the environment"
        problem = Problem(VARIABLE, "required", "is not set", expected)
        raise InvalidInput("nobody was asked", [problem])
    return words


def _run(words: list[str], prompt: str, timeout: float, folder: str) -> str:
    try:
        process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise _failed(f"can't be started ({error})") from error
    with process:
        try:
            out, err = process.communicate(prompt.encode(), timeout)
        except subprocess.TimeoutExpired as error:
            _end(process)
            raise _failed(f"took longer than {timeout:g} s") from error
    if process.returncode:
        said = err.decode("utf-8", "replace").strip()[-300:]
        raise _failed(f"ended with {process.returncode}: {said}")
    if len(out) > MAX_ANSWER_BYTES:
        raise _failed(f"answered with {len(out):,} bytes")
    return out.decode("utf-8", "replace")


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the command with whatever it started."""
    with suppress(OSError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.communicate()


def _failed(message: str) -> InvalidInput:
    problem = Problem(VARIABLE, "command_failed", message, "an answer on standard output")
    return InvalidInput("nobody answered; nothing was changed", [problem])

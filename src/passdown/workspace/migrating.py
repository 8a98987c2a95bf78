"""Freeform notes to handoffs: read, ask where it is unclear, check, record, write back.

The note itself is a record of its task, whole; the handoff that was read from it is another, and
names it by its hash. A note's own file gets the handoff as a section below the note, so that
whoever reads the file, or ingests it, sees what was recorded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from passdown.errors import Conflict, InvalidInput, KeyReused, Problem
from passdown.model.freeform import Extraction, Found, Span, as_handoff, extract, prompt_for
from passdown.model.freeform.handoffs import LISTS, MAX_ENTRIES, kept_of, with_outcome
from passdown.model.freeform.sections import (
    note_in,
    parts_of,
    read_section,
    section_of,
    source_of,
    written_below,
)
from passdown.model.intake import check_handoff
from passdown.model.names import id_problems
from passdown.model.text import is_blank
from passdown.workspace.answering import answered, command_answer
from passdown.workspace.handing import NOTHING_CHANGED, hand_off
from passdown.workspace.note_artifacts import on_disk
from passdown.workspace.note_files import (
    MAX_NOTE_BYTES,
    Note,
    check_arguments,
    outside_project,
    read_note,
    secrets_in,
    suggested_tasks,
    task_of,
    write_back_to,
)
from passdown.workspace.note_records import NoteToKeep, keep_note, note_record, sha256_of

if TYPE_CHECKING:
    import os

    from passdown.model.command import HandoffCommand
    from passdown.workspace.answering import Answer
    from passdown.workspace.opened import Opened

Plain = dict[str, Any]


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
    found: tuple[Found, ...]
    ambiguous: tuple[Span, ...]
    handoff: Plain
    prompt: str
    problems: tuple[Problem, ...]
    changed: str | None
    is_repeat: bool
    made_task: bool = False
    skipped: str = ""
    would_change: str | None = None
    kept: int = 0


class _Reading(NamedTuple):
    """A note as it was read: its text without a section that was made from it, and what it says."""

    note: Note
    text: str
    extraction: Extraction


class _Plan(NamedTuple):
    """What will be recorded for a note: its text, the handoff's section, and the new file.

    `is_first` where it was made because nothing was recorded of this text.
    """

    note: Note
    text: str
    extraction: Extraction
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
    opened: Opened,
    note: str | os.PathLike[str],
    *,
    task: str = "",
    agent: str = "",
    answer: Answer | None = None,
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
    plan = None if answer else _standing(opened, given, task)
    if plan is None:
        reading = _read(opened, given)
        plan = None if answer else _recorded(opened, reading, task)
        asked = answer or (command_answer(opened) if ask and plan is None else None)
        plan = plan or _planned(
            opened, reading, (task, agent), asked, minimum=minimum, is_forced=answer is not None
        )
    plan = plan._replace(kept=plan.kept or len(kept_of(plan.extraction.found, minimum)))
    is_written = write_back and bool(given.path) and plan.whole != given.text
    if is_written and not plan.skipped:
        _refuse_overgrown(opened, plan)
    if dry_run or plan.skipped:
        return _tried(opened, plan, is_written=is_written)
    plan, done = _record(opened, plan, task)
    problems = list(done.problems)
    changed = None
    if is_written:
        changed, refused = write_back_to(given, plan.whole, opened.root)
        problems += refused
    plan = plan._replace(problems=(*plan.problems, *_news(problems)))
    return _told(plan, done.command, changed, made_task=done.made_task)


class _Recorded(NamedTuple):
    """What came of recording a note and its handoff."""

    command: HandoffCommand
    made_task: bool
    problems: list[Problem]


def _record(opened: Opened, plan: _Plan, task: str) -> tuple[_Plan, _Recorded]:
    """Record the note and its handoff. Where someone else records the same note at the same moment,
    what they have recorded stands, and the plan becomes theirs.
    """
    for _ in range(_TRIES):
        try:
            return plan, _record_once(opened, plan)
        except (Conflict, KeyReused):
            reading = _Reading(plan.note, plan.text, plan.extraction)
            theirs = _recorded(opened, reading, task) if plan.is_first else None
            if theirs:
                plan = plan._replace(section=theirs.section, whole=theirs.whole, is_first=False)
    return plan, _record_once(opened, plan)


def _record_once(opened: Opened, plan: _Plan) -> _Recorded:
    title = plan.extraction.header.title
    kept = NoteToKeep(plan.note, plan.text, title, plan.section, plan.is_first)
    made_task, problems = keep_note(opened, kept)
    command = hand_off(opened, plan.section, {}, key=None, rebase=False, changed_files=None)
    return _Recorded(command, made_task, [*problems, *command.warnings])


def _refuse_overgrown(opened: Opened, plan: _Plan) -> None:
    """A file that nobody could read again, for the section below the note, isn't written."""
    size = len(plan.whole.encode("utf-8", "surrogatepass"))
    if size <= MAX_NOTE_BYTES or outside_project(plan.note, opened.root):
        return
    message = f"would have {size:,} bytes with its section"
    fix = "split the note, or record it and leave the file as it is with --no-write"
    problem = Problem(plan.note.path, "too_large", message, f"at most {MAX_NOTE_BYTES:,}", fix)
    raise InvalidInput("the note is refused", [problem], next_step=NOTHING_CHANGED)


def _tried(opened: Opened, plan: _Plan, *, is_written: bool) -> Migration:
    """What a note would become, where nothing is recorded for it."""
    told = _told(plan, None, None, made_task=False)
    if plan.skipped or not is_written:
        return told._replace(skipped=plan.skipped)
    if notices := outside_project(plan.note, opened.root):
        return told._replace(problems=(*told.problems, *notices))
    return told._replace(would_change=plan.note.path)


def _refuse_broken(given: Note) -> None:
    if given.is_broken:
        problem = Problem(given.path or given.name, "invalid_json", given.is_broken, "JSON")
        raise InvalidInput("the note is refused", [problem], next_step=NOTHING_CHANGED)


def _told(
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


def _news(problems: list[Problem]) -> list[Problem]:
    """Warnings worth telling: that a note leaves recommended parts out is no news."""
    return [problem for problem in problems if problem.code != "recommended"]


def _standing(opened: Opened, given: Note, task: str) -> _Plan | None:
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
    extraction = extract(text, given.name, root=opened.root)
    return _Plan(given, text, extraction, parts.section, given.text, "", ())


def _read(opened: Opened, given: Note) -> _Reading:
    text = _note_text(given)
    if is_blank(text):
        problem = Problem(given.name, "empty", "shows no text", "a note")
        raise InvalidInput("the note is refused", [problem], next_step=NOTHING_CHANGED)
    return _Reading(given, text, extract(text, given.name, root=opened.root))


def _recorded(opened: Opened, reading: _Reading, task: str) -> _Plan | None:
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


def _planned(
    opened: Opened,
    reading: _Reading,
    names: tuple[str, str],
    answer: Answer | None,
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
    prompt = prompt_for(text, extraction, plain) if unclear or is_forced else ""
    kept = 0
    if prompt and answer is not None:
        plain, kept = answered(plain, prompt, answer), len(extraction.found)
    skipped = "" if _says_something(extraction, plain) else "no item was found in it"
    plain, problems = on_disk(opened, with_outcome(plain))
    problems += [*secrets_in(given, text), *_without_room(extraction, minimum)]
    section = section_of(plain)
    checked = check_handoff(read_section(section))
    if checked.handoff is None:
        raise InvalidInput("the note is refused", checked.errors, next_step=NOTHING_CHANGED)
    whole = _whole(given, text, section)
    plan = _Plan(given, text, extraction, section, whole, prompt, tuple(problems), skipped, kept)
    return plan._replace(is_first=not is_forced)


def _without_room(extraction: Extraction, minimum: float) -> list[Problem]:
    """Lists of which a handoff can hold only the beginning; the note itself is kept whole."""
    found: list[Problem] = []
    for name in LISTS:
        count = sum(item.kind == name and item.confidence >= minimum for item in extraction.found)
        if count > MAX_ENTRIES:
            message = f"the first {MAX_ENTRIES:,} of {count:,} are kept; the note itself is whole"
            fix = "split the note to have them all"
            found.append(Problem(name, "too_many", message, "", fix, "warning"))
    return found


def _says_something(extraction: Extraction, plain: Plain) -> bool:
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


def _sender(opened: Opened, extraction: Extraction, names: tuple[str, str]) -> str:
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

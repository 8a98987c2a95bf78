"""Freeform notes to handoffs: read, ask where it is unclear, check, record, write back.

The note itself is a record of its task, whole; the handoff that was read from it is another, and
names it by its hash. A note's own file gets the handoff as a section below the note, so that
whoever reads the file, or ingests it, sees what was recorded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from passdown.errors import InvalidInput, NotFound, Problem
from passdown.ledger import Entry
from passdown.model.canonical import digest_bytes
from passdown.model.freeform import Extraction, Found, Span, as_handoff, extract, prompt_for
from passdown.model.freeform.handoffs import LISTS, with_outcome
from passdown.model.freeform.sections import (
    note_in,
    parts_of,
    read_section,
    section_of,
    source_of,
    written_below,
)
from passdown.model.intake import check_handoff
from passdown.model.intake.reading import task_parts, task_title
from passdown.model.kinds import NOT_STATED, stream_of
from passdown.model.names import id_problems
from passdown.model.text import is_blank
from passdown.workspace.answering import answered, command_answer
from passdown.workspace.handing import NOTHING_CHANGED, hand_off
from passdown.workspace.note_files import (
    NOTE_KEY,
    Note,
    check_arguments,
    outside_project,
    place_of_note,
    read_note,
    secrets_in,
    suggested_tasks,
    task_of,
    write_back_to,
)

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
    then nothing was recorded and no file written.
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


class _Plan(NamedTuple):
    """What will be recorded for a note: its text, the handoff's section, and the new file."""

    note: Note
    text: str
    extraction: Extraction
    section: str
    whole: str
    prompt: str
    problems: tuple[Problem, ...]
    skipped: str = ""


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
    plan = None if answer else _standing(opened, given, task) or _recorded(opened, given, task)
    if plan is None:
        asked = answer or (command_answer(opened) if ask else None)
        plan = _planned(
            opened, given, (task, agent), asked, minimum=minimum, is_forced=answer is not None
        )
    is_written = write_back and bool(given.path) and plan.whole != given.text
    if dry_run or plan.skipped:
        return _tried(opened, plan, is_written=is_written)
    made_task, problems = _keep_note(opened, plan)
    command = hand_off(opened, plan.section, {}, key=None, rebase=False, changed_files=None)
    problems += command.warnings
    changed = None
    if is_written:
        changed, refused = write_back_to(given, plan.whole, opened.root)
        problems += refused
    plan = plan._replace(problems=(*plan.problems, *_news(problems)))
    return _told(plan, command, changed, made_task=made_task)


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
    if source.get("sha256") != _sha256(text):
        return None
    extraction = extract(text, given.name, root=opened.root)
    return _Plan(given, text, extraction, parts.section, given.text, "", ())


def _recorded(opened: Opened, given: Note, task: str) -> _Plan | None:
    """What was planned for this very note before, though its file doesn't show it."""
    text = _note_text(given)
    extraction = extract(text, given.name, root=opened.root)
    named = task or extraction.header.task
    tasks = [named] if named else suggested_tasks(given, opened.root)
    records = (_note_record(opened, t, _sha256(text)) for t in tasks if not id_problems(t, ""))
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
    given: Note,
    names: tuple[str, str],
    answer: Answer | None,
    *,
    minimum: float,
    is_forced: bool,
) -> _Plan:
    """Read the note, ask about it if need be, and check what comes out."""
    text = _note_text(given)
    if is_blank(text):
        problem = Problem(given.name, "empty", "shows no text", "a note")
        raise InvalidInput("the note is refused", [problem], next_step=NOTHING_CHANGED)
    extraction = extract(text, given.name, root=opened.root)
    task, sender = (
        task_of(opened, given, names[0] or extraction.header.task),
        _sender(opened, extraction, names),
    )
    source = {"name": given.name, "sha256": _sha256(text), "characters": len(text)}
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
    if prompt and answer is not None:
        plain = answered(plain, prompt, answer)
    skipped = "" if _says_something(extraction, plain) else "no item was found in it"
    plain, problems = _on_disk(opened, with_outcome(plain))
    problems += secrets_in(given, text)
    section = section_of(plain)
    checked = check_handoff(read_section(section))
    if checked.handoff is None:
        raise InvalidInput("the note is refused", checked.errors, next_step=NOTHING_CHANGED)
    whole = _whole(given, text, section)
    return _Plan(given, text, extraction, section, whole, prompt, tuple(problems), skipped)


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


def _on_disk(opened: Opened, plain: Plain) -> tuple[Plain, list[Problem]]:
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
    named = ", ".join(entry["file"] for entry in missing[:3])
    message = f"{len(missing)} files are not on disk here ({named[:200]}); kept as reading"
    warning = Problem("dependencies_for_next", "missing_file", message, level="warning")
    return {name: value for name, value in kept.items() if value != []}, [warning]


def _is_there(opened: Opened, entry: Plain) -> bool:
    measured = opened.project.measure(entry["path"], "path")
    is_gone = "delete" in (entry.get("change_type"), entry.get("change"))
    return measured.problem is None and (measured.sha256 is not None or is_gone)


def _said_of(entry: Plain) -> str:
    said = entry.get("purpose") or entry.get("description") or entry.get("note") or ""
    return said if said and said != NOT_STATED else "Named in the note."


def _keep_note(opened: Opened, plan: _Plan) -> tuple[bool, list[Problem]]:
    """Record the note itself, whole, as a fact about its task; make the task where there is none.

    It is no part of the handoff's own record: that one is read by every agent, all the time.
    """
    from passdown.workspace.noting import create_task

    plain = read_section(plan.section)
    task, agent = str(plain["task"]), str(plain["from_agent"])
    problems: list[Problem] = []
    made = not _exists(opened, task)
    if made:
        title = plan.extraction.header.title or task_title(plan.text) or task
        fields = task_parts(plan.text).fields if task_title(plan.text) else {}
        create_task(opened, {**fields, "task": task, "title": title, "agent": agent}, None)
    sha256 = _sha256(plan.text)
    if made or _note_record(opened, task, sha256) is None:
        place = place_of_note(plan.note, opened.root)
        kept = {"name": plan.note.name, "sha256": sha256, "text": plan.text, "place": place}
        body = {"metadata": {"note": {**kept, "section": plan.section}}}
        entry = Entry(task, "task_changed", agent, body, _note_key(sha256))
        problems += opened.mirror(opened.ledger.append(entry))
    return made, problems


def _exists(opened: Opened, task: str) -> bool:
    with opened.store.reading() as reader:
        return reader.task(task) is not None


def kept_note(opened: Opened, task: str, sha256: str) -> str:
    """The note that a migrated handoff names, as it was, without its secrets."""
    record = _note_record(opened, task, sha256)
    if record is None:
        raise NotFound(f"{task} has no note {sha256[:80]!r}")
    return str(record["text"])


def _note_record(opened: Opened, task: str, sha256: str) -> Plain | None:
    with opened.store.reading() as reader:
        record = reader.record_by_key(stream_of(task), _note_key(sha256))
    return record.document()["metadata"]["note"] if record else None


def _note_key(sha256: str) -> str:
    return f"{NOTE_KEY}{sha256}"


def _sha256(text: str) -> str:
    return digest_bytes(text.encode("utf-8", "surrogatepass")).removeprefix("sha256:")

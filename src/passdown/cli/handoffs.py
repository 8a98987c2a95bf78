"""`handoff`, `draft`, `ingest`, `migrate`, `schema`, `template`: handoffs from files and flags."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, cast

from passdown.cli import output as out
from passdown.cli.parsing import Author, command, fraction, full_address
from passdown.cli.session import UsageError, plain, read_input, read_text
from passdown.core.handoff import Blocker, Handoff
from passdown.core.kinds import PHASES
from passdown.core.names import id_problems
from passdown.core.schema import Choice, Field, Flag, List, fields_of
from passdown.errors import GateRefused, InvalidInput, NotFound, PassdownError, Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from passdown.cli.session import Session
    from passdown.core.types import JsonObject
    from passdown.imports.note_migration import Migration
    from passdown.workspace import Workspace


_FLAGGED = {name: field for name, field in fields_of(Handoff).items() if field.flag}
_FLAGS = {name: field.flag for name, field in _FLAGGED.items() if field.flag}
_LISTS = tuple(name for name, field in _FLAGGED.items() if isinstance(field.type, List))
_FOR_PEOPLE = fields_of(Blocker)["requires_human"].flag or Flag("", "", "")
_NEW_TASK = "passdown task new ID --title TEXT"
_NO_TASK = ("task", "not_found")


def _entry(flag: Flag, text: str) -> object:
    """The entry of a list that a flag's text means: a text, or the fields on both sides of `::`."""
    if not flag.fields:
        return text
    values = (text,) if len(flag.fields) == 1 else _split_pair(text)
    if not values[0] or not (all(values) or not flag.needs_all):
        raise UsageError(f"{flag.option} takes two texts with ' :: ' between them")
    given = {name: value for name, value in zip(flag.fields, values, strict=True) if value}
    return {**given, **dict(flag.also)}


def _fix_flags() -> dict[str, str]:
    """The flag to type for each field that a problem may name."""
    found = {name: _fix_flag(field) for name, field in _FLAGGED.items()}
    found |= dict.fromkeys(("files_created", "files_modified"), found["artifacts"])
    for part in fields_of(Blocker).values():
        if part.flag:
            found[f"blockers.{part.name}"] = _fix_flag(part)
    return found


def _fix_flag(field: Field) -> str:
    flag = field.flag or Flag("", "", "")
    if isinstance(field.type, Choice):
        return f"{flag.option} {'|'.join(word for word in field.type.words if word)}"
    if "::" in flag.metavar:
        return f"{flag.option} '{flag.metavar.replace('::', ' :: ')}'"
    metavar = {"TASK": "ID", "AGENT": "NAME"}.get(flag.metavar, flag.metavar)
    return f"{flag.option} {metavar if field.name != 'blocking_tasks' else flag.metavar}"


@command(
    "handoff",
    "tasks/T-1.md --to tester --phase testing",
    "--outcome completed --to coder --next 'write the form'",
    "--outcome blocked --blocker 'no key :: ask ops' --blocks T-2",
    "--outcome blocked --blocker 'ship it?' --requires-human",
    "note.yaml --changed-git --dry-run",
    shape="Handoff",
    without=[name for name in fields_of(Handoff) if name not in _FLAGS],
    flags={"blocks": "--blocks", **{name: flag.option for name, flag in _FLAGS.items()}},
    help={
        "file": "FILE: YAML, JSON or a task file, or - for stdin; or the task, with flags",
        "blocks": "TASK: a task that waits for each --blocker; default: the task itself",
        "requires_human": _FOR_PEOPLE.help,
        "changed": "PATH: a changed file that the handoff has to name",
        "changed_git": "changed files as git has them",
        "rebase": "add to a task that has changed since",
        "dry_run": "check only; nothing is recorded",
        **{name: f"{flag.metavar}: {flag.help}" for name, flag in _FLAGS.items() if flag.metavar},
    },
    needs_none=True,
)
def handoff(
    session: Session,
    file: str | None = None,
    *,
    blocks: Sequence[str] = (),
    requires_human: bool = False,
    changed: Sequence[str] = (),
    changed_git: bool = False,
    key: str | None = None,
    rebase: bool = False,
    dry_run: bool = False,
    counter: str | None = None,
    **given: Any,
) -> int:
    """Hand off a task, from a file or from flags."""
    if requires_human and not given["blockers"]:
        raise UsageError(f"{_FOR_PEOPLE.option} is about a --blocker; name that as well")
    file = _named_source(session, file, given, blocks)
    lists = _list_entries(given, blocks, requires_human=requires_human)
    fields = {name: value for name, value in given.items() if value is not None}
    text = None if file is None else read_input(file)
    named = _check_contradictions(text, file or "", fields)
    task = named.get("task")
    lists["resolves"] = [full_address(text, task) for text in lists["resolves"]]
    fields |= {name: entries for name, entries in lists.items() if entries}
    if not named.get("from_agent"):
        fields["from_agent"] = os.environ.get("PASSDOWN_AGENT") or None
    with session.open() as workspace:
        fields |= {
            "rebase": rebase,
            "changed_files": _changed_files(workspace, changed, changed_git),
            "counter": counter,
        }
        # A file is passed on as it is: a task file is recorded once.
        data: JsonObject | bytes = {} if text is None else text
        new_title = _title_of_new_task(workspace, named)
        known_task = None if new_title else task
        if dry_run:
            check = workspace.check_handoff(data, **fields)
            problems = tuple(_explained(workspace, known_task, check.problems, file))
            if new_title:
                problems = tuple(p for p in problems if (p.path, p.code) != _NO_TASK)
            check = check._replace(problems=by_flag(session, problems))
            session.show(check, out.print_check)
            return 0 if check.ok else 1
        try:
            if new_title:
                _refuse_faults(workspace, named)
                author = str(named.get("from_agent") or fields["from_agent"])
                workspace.create_task(str(task), title=new_title, agent=author)
            with out.busy("recording"):
                receipt = workspace.hand_off(data, key=key, **fields)
        except (InvalidInput, GateRefused) as error:
            problems = tuple(_explained(workspace, known_task, error.problems, file))
            raise type(error)(error.message, problems, next_step=error.next_step) from error
    session.show(receipt._replace(warnings=by_flag(session, receipt.warnings)), out.print_command)
    return 0


def by_flag(session: Session, problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Problems as text has them: recommended fields by their flags, which go with a file too."""
    if session.as_json:
        return tuple(problems)
    fields = {problem: _FLAGS.get(problem.path) for problem in map(in_flags, problems)}
    return tuple(
        each._replace(path=flag.option) if flag and each.code == "recommended" else each
        for each, flag in fields.items()
    )


def _list_entries(
    given: JsonObject, blocks: Sequence[str], *, requires_human: bool
) -> dict[str, list[Any]]:
    """Take the flags of lists from `given`, as entries. Who is blocked, blocks itself at least."""
    lists = {name: [_entry(_FLAGS[name], text) for text in given.pop(name)] for name in _LISTS}
    if given["outcome"] == "blocked" and given["task"]:
        blocks = blocks or [given["task"]]
    about = {"blocking_tasks": list(blocks)} if blocks else {}
    about |= {"requires_human": True} if requires_human else {}
    lists["blockers"] = [{**cast("JsonObject", each), **about} for each in lists["blockers"]]
    return lists


def _named_source(
    session: Session, file: str | None, given: JsonObject, blocks: Sequence[str]
) -> str | None:
    """The file to read, or None; `given` then has the task, which may be named in its place."""
    if file and not os.path.lexists(file) and not id_problems(file, "task"):
        with session.open() as workspace:
            is_task = not given["task"] and _task_exists(workspace, file)
        if is_task:
            file, given["task"] = None, file
        elif "." not in file:
            raise UsageError(f"there is no file and no task {file}")
    if file is None and not given["outcome"]:
        raise UsageError("name a FILE, or at least an --outcome (completed, partial, ...)")
    if blocks and not given["blockers"]:
        raise UsageError("--blocks names tasks that wait for a --blocker; name that as well")
    if file is None:
        sender = given["from_agent"]
        given["task"] = given["task"] or session.only_task(sender, to_hand_off=True)
    return file


def _explained(
    workspace: Workspace, task: object, problems: Iterable[Problem], file: str | None
) -> Iterator[Problem]:
    """The problems of a handoff, with an unknown task among them; fixes are flags for flags."""
    known = tuple(problems)
    if isinstance(task, str) and not any(problem.path == "task" for problem in known):
        try:
            workspace.task(task)
        except NotFound as error:
            yield Problem("task", "not_found", error.message, "a task that exists", _NEW_TASK)
    for problem in known:
        yield problem if file is not None else in_flags(problem)


def in_flags(problem: Problem) -> Problem:
    """A problem of a handoff whose fields were given as flags: it names those."""
    return problem._replace(fix=_fix_as_flag(problem))


def _fix_as_flag(problem: Problem) -> str:
    """What to try, in flags: the flag of a field that is missing, else what was proposed."""
    if problem.code == "same_agent":
        return "another --to, or none"
    if problem.code == "invalid_choice" and not problem.fix:
        return ""  # the choices are what helps
    if (problem.fix and problem.code != "required") or problem.level != "error":
        return re.sub(r"\bin (resolves|despite)\b", r"with --\1", problem.fix)
    field = re.sub(r"\[\d+\]", "", problem.path)
    flags = _fix_flags()
    if field == "blockers" and "stopped" in problem.expected:
        return f"{flags['stopped']}, or {flags['blockers']}"
    return flags.get(field) or flags.get(field.partition(".")[0], "")


def _title_of_new_task(workspace: Workspace, named: JsonObject) -> str:
    """The title in a draft of a session that was on no task; empty where its task exists."""
    about = named.get("metadata")
    title = cast("JsonObject", about).get("title") if isinstance(about, dict) else None
    task = named.get("task")
    if not isinstance(title, str) or not isinstance(task, str) or id_problems(task, "task"):
        return ""
    return "" if _task_exists(workspace, task) else title


def _check_contradictions(text: bytes | None, file: str, fields: JsonObject) -> JsonObject:
    """Check that no flag contradicts the file; gives the fields of both.

    Flags fill what the file leaves out and add to its lists.
    """
    from passdown.core.intake import read_handoff

    data: JsonObject = {}
    try:
        data = read_handoff(text).data if text is not None else {}
    except InvalidInput as error:
        from passdown.core.task_files import handoff_section, no_handoff

        # A Markdown file that has no handoff in it is refused by that name; YAML alone is fine.
        is_markdown = file.lower().endswith((".md", ".markdown"))
        if is_markdown and handoff_section((text or b"").decode(errors="replace")) is None:
            raise no_handoff() from error
    for name, value in fields.items():
        if data.get(name) and str(data[name]) != str(value):
            flag = _FLAGS[name].option
            raise UsageError(f"{flag} contradicts the file, where {name} is {data[name]!r:.80}")
    return {**data, **{name: value for name, value in fields.items() if value}}


def _split_pair(text: str) -> tuple[str, str]:
    """The texts before and after `::`; one with spaces around it comes first, so that a text
    may hold a name such as `std::move`.
    """
    spaced = text.find(" :: ")
    at = spaced + 1 if spaced >= 0 else text.find("::")
    if at < 0:
        return text.strip(), ""
    return text[:at].strip(), text[at + 2 :].strip()


def _changed_files(
    workspace: Workspace, changed: Sequence[str], changed_git: bool
) -> list[str] | None:
    """What the handoff's file lists must account for; None where none are given."""
    if changed_git:
        from passdown.workspace.repository import uncommitted_paths

        return [*changed, *uncommitted_paths(workspace.root)]
    return list(changed) or None


_GIT_TIMEOUT_S = 10.0


@command(
    "draft",
    "",
    "T-1 --agent coder",
    "T-1 --print",
    flags={"is_preview": "--print"},
    help={
        "agent": "the sender; default: PASSDOWN_AGENT, else the agent that worked on it",
        "is_preview": "show it; write nothing",
    },
)
def draft(
    session: Session,
    task: str,
    *,
    agent: str | None = None,
    is_preview: bool = False,
) -> None:
    """Write a draft of a handoff from the captured work."""
    from passdown.hosts.hooks.capture import changed_files, draft_path, draft_text, write_draft
    from passdown.hosts.hooks.files import HookSessions
    from passdown.workspace.location import locate

    location = locate(session.store, create=False)
    with session.open() as workspace:
        holder = str(workspace.task(task).holder)
    _, seen = HookSessions(location.folder).newest(task=task)
    agent = agent or os.environ.get("PASSDOWN_AGENT") or seen.agent or holder
    with out.busy("asking git"):
        changed = changed_files(seen, location.root, _GIT_TIMEOUT_S)
    text = draft_text(task, agent, seen, changed)
    is_kept = not is_preview and write_draft(location.folder, task, text)
    path = draft_path(location.folder, task, os.getcwd())

    def print_text(_: object) -> None:
        if is_preview:
            out.verbatim(text.rstrip("\n"))
        elif is_kept:
            out.line(f"wrote {path}; complete it, then: passdown handoff {path}")
        else:
            out.line(f"{path} has been edited already and is left as it is")

    session.show({"task": task, "file": path, "written": is_kept, "text": text}, print_text)


def _each_file(
    session: Session,
    paths: Collection[str],
    label: str,
    fill: Callable[[Workspace, str, JsonObject], None],
    print_result: Callable[[JsonObject], None],
    **empty: Any,
) -> list[JsonObject]:
    """Fill in a result for each file and print it; one that is refused stops no other."""
    results: list[JsonObject] = []
    draw = out.progress_bar(label) if len(paths) > PROGRESS_FROM else None
    with session.open() as workspace:
        for number, path in enumerate(paths, start=1):
            result: JsonObject = {"file": path, **empty}
            results.append(result)
            text = ""
            try:
                fill(workspace, path, result)
            except PassdownError as error:
                result.update(result="refused", error=error.to_dict())
                text = f"{path}\n{error}"
            if draw:
                draw(number, len(paths))
            if text and not session.as_json:
                out.labelled("refused", "red", text)
            elif not session.as_json:
                print_result(result)
    if session.as_json:
        out.print_json(results)
    return results


@command(
    "ingest",
    "tasks/*.md",
    "tasks/T-1.md --agent coder --json",
    help={
        "files": "task files with a ## Handoff",
        "agent": "the sender, where a file names none",
    },
)
def ingest(session: Session, files: list[str], *, agent: Author) -> int:
    """Record the handoffs in task files; the same file twice changes nothing."""

    def fill(workspace: Workspace, path: str, result: JsonObject) -> None:
        ingest_file(workspace, path, agent, result)

    empty: JsonObject = {"task": "", "made_task": False, "task_fields": [], "left_out": []}
    results = _each_file(session, files, "ingesting", fill, _print_ingested, **empty)
    taken = sum(result["result"] != "refused" for result in results)
    if len(results) > 1 and not session.as_json:
        out.line(f"{taken} of {len(results)} files {'is' if taken == 1 else 'are'} recorded")
    return int(taken < len(results))


def ingest_file(workspace: Workspace, path: str, agent: str, result: JsonObject) -> None:
    """Record one file's handoff, making its task where there is none; fills in `result`."""
    from passdown.core.task_files import read_task_file

    text = read_text(path)
    data = read_task_file(text)
    result["task"] = task = str(data.get("task") or "")
    data["from_agent"] = data.get("from_agent") or agent
    warnings: list[JsonObject] = []
    if task and not _task_exists(workspace, task):
        _refuse_faults(workspace, data)
        warnings = _make_task(workspace, text, data, result)
    # The text itself, not what was read from it: a task file is recorded once and for all.
    command = workspace.hand_off(text, from_agent=data["from_agent"])
    result.update(
        result="unchanged" if command.is_replay else "recorded",
        version=command.version,
        detail_score=command.detail_score,
        held_by=list(command.held_by),
        warnings=[*warnings, *(problem.to_dict() for problem in command.warnings)],
    )


def _make_task(
    workspace: Workspace, text: str, data: JsonObject, result: JsonObject
) -> list[JsonObject]:
    """Make the task from what its file says; gives the warnings."""
    from passdown.core.task_files import task_file_fields, task_file_title
    from passdown.workspace.streams import WorkspaceStreams

    phases = WorkspaceStreams(workspace).settings.phases
    task, parts = str(data["task"]), task_file_fields(text, phases)
    receipt = workspace.create_task(
        task, title=task_file_title(text) or task, agent=str(data["from_agent"]), **parts.fields
    )
    result.update(made_task=True, task_fields=sorted(parts.fields), left_out=parts.left_out)
    return [problem.to_dict() for problem in receipt.warnings]


def _task_exists(workspace: Workspace, task: str) -> bool:
    try:
        workspace.task(task)
    except NotFound:
        return False
    return True


def _refuse_faults(workspace: Workspace, data: JsonObject) -> None:
    """Refuse a faulty handoff before its task is made, so that nothing is left behind."""
    faults = [
        problem
        for problem in workspace.check_handoff(data).problems
        if problem.level == "error" and (problem.path, problem.code) != _NO_TASK
    ]
    if faults:
        raise InvalidInput("the handoff is refused; nothing was changed", faults)


def _print_ingested(result: JsonObject) -> None:
    made = ", task made" if result["made_task"] else ""
    fields = ", ".join(name.replace("_", " ") for name in result["task_fields"])
    made += f" with {fields}" if fields else ""
    said = f"{result['file']}: {result['task']} version {result['version']}{made}"
    out.labelled(result["result"], _STYLES[result["result"]], said)
    for each in result["left_out"]:
        out.line(f"left out: {each}", 2)
    for gate in result["held_by"]:
        out.line(f"held by {out.approve_hint(gate)}", 2)
    out.print_findings((w for w in result["warnings"] if w["code"] != "recommended"), 2)


_STYLES = {
    "recorded": "green",
    "written": "green",
    "unchanged": "dim",
    "planned": "cyan",
    "skipped": "yellow",
}
ENDINGS = (".md", ".markdown", ".txt", ".json")
PROGRESS_FROM = 5
_MAIN = ("summary", "issue", "pattern", "step", "question", "blocker", "path", "file", "name")


@command(
    "migrate",
    "notes/handover.md --dry-run",
    "notes/ --agent coder",
    "note.md --prompt > prompt.txt",
    "note.md --answer answer.json",
    "note.md --in-place",
    like="imports.migrate",
    without=("note",),
    alone={"prompt": ()},
    types={"minimum": fraction},
    help={
        "files": "notes, folders of notes, patterns",
        "agent": "the sender, where a note names none",
        "minimum": "0..1: leave out what is less certain",
        "prompt": "print the prompt for a model instead",
        "answer": "FILE: a model's answer to that prompt",
        "in_place": "add the handoff to the note's file, below the note",
    },
)
def migrate(
    session: Session,
    files: list[str],
    *,
    prompt: bool = False,
    answer: str | None = None,
    agent: Author,
    **options: Any,
) -> int:
    """Turn freeform notes into handoffs."""
    paths = _note_items(files)
    if len(paths) > 1 and (options["task"] or answer or prompt):
        raise UsageError("--task, --answer and --prompt are for one file")
    if prompt:
        _print_prompt(session, *next(iter(paths.items())))
        return 0
    # A file as the answer: sent back once, it would say the same again, and is refused.
    said = read_input(answer).decode("utf-8", "replace") if answer else ""

    def answer_again(_: str) -> str:
        return said

    options |= {"agent": agent, "answer": answer_again if answer else None}

    def fill(workspace: Workspace, path: str, result: JsonObject) -> None:
        _check_note_file(path, paths[path])
        # One line on standard input is a note too, not a path.
        note = path if path != "-" else read_input("-").decode("utf-8", "replace") + "\n"
        result.update(_migration_document(workspace.imports.migrate(note, **options)))

    def print_result(result: JsonObject) -> None:
        _print_migrated(result, is_alone=len(paths) == 1)

    results = _each_file(session, paths, "migrating", fill, print_result)
    words = [result["result"] for result in results]
    if len(results) > 1 and not session.as_json:
        said = ", ".join(f"{words.count(word)} {word}" for word in dict.fromkeys(words))
        out.line(f"{out.counted(len(results), 'note')}: {said}")
        _print_shared_tasks([each["task"] for each in results if each["result"] == "planned"])
    return int("refused" in words)


def _note_items(given: list[str]) -> dict[str, str]:
    """The files that are meant, each with the folder that was searched for it, or empty.

    A folder means the notes in it; a pattern that no shell spelled out means what matches.
    """
    from pathlib import PurePath

    found: dict[str, str] = {}
    for path in given:
        names = {path: ""}
        if os.path.isdir(path):
            names = _matching_files(path, ("**", "*"), is_folder=True)
        elif _is_pattern(path):
            parts = PurePath(path).parts
            first = next(n for n, part in enumerate(parts) if _WILDCARD.search(part))
            folder = os.path.join(*parts[:first]) if first else "."
            names = _matching_files(folder, parts[first:]) or names
        found = {**found, **names}
    if not found:
        problem = Problem("", "no_notes", f"no {', '.join(ENDINGS)} in {', '.join(given)}", "notes")
        raise InvalidInput("there is nothing to migrate", [problem])
    return found


def _is_pattern(path: str) -> bool:
    return bool(_WILDCARD.search(path)) and not os.path.lexists(path)


_WILDCARD = re.compile(r"[*?[]")


def _matching_files(
    folder: str, parts: tuple[str, ...], *, is_folder: bool = False
) -> dict[str, str]:
    """The files below a folder that match a pattern; with `is_folder`, those that look like notes.

    `**` enters no folder that is a link: links in a circle would have no end. Links that lead out
    of a folder are among what is found, to be refused.
    """
    from pathlib import Path

    from passdown.workspace.files import is_beneath

    # Whatever isn't `**` by itself means what one star means.
    parts = tuple(part if part == "**" else re.sub(r"\*+", "*", part) for part in parts)
    parts += ("*",) if parts[-1] == "**" else ()
    has_hidden = any(part.startswith(".") for part in parts)
    start = Path(folder)
    found: dict[str, str] = {}
    for match in sorted(start.glob("/".join(parts)), key=str):
        names = match.relative_to(start).parts
        if not has_hidden and any(n.startswith(".") or n == "node_modules" for n in names):
            continue
        is_note = not is_folder or match.suffix.lower() in ENDINGS
        is_way_out = is_folder and match.is_symlink() and not is_beneath(str(match), folder)
        if is_way_out if match.is_dir() else is_note:
            found[str(match)] = folder
    return found


def _check_note_file(path: str, folder: str) -> None:
    """Refuse a pattern that is still one, since it matched nothing, and a way out of a folder."""
    from passdown.workspace.files import is_beneath

    if not folder and _is_pattern(path):
        problem = Problem(path, "no_match", "the pattern matches no file", "notes")
        raise InvalidInput("there is nothing to migrate", [problem])
    if folder and not is_beneath(path, folder):
        fix = "name the file itself if it is meant"
        message = "leads out of the folder"
        problem = Problem(path, "path_escapes_root", message, "a file inside it", fix)
        raise InvalidInput("the note is refused", [problem])


def _print_prompt(session: Session, path: str, folder: str) -> None:
    from passdown.imports.note_items import extract_note
    from passdown.imports.note_migration import note_prompt

    _check_note_file(path, folder)
    text = read_input(path).decode("utf-8", "replace")
    prompt = note_prompt(text, extract_note(text, os.path.basename(path)))
    document = {"file": path, "prompt": prompt}
    session.show(document, lambda _: print(prompt, end=""))


def _migration_document(found: Migration) -> JsonObject:
    said = {
        "skipped": found.skipped,
        "unchanged": found.is_repeat,
        "recorded": found.is_recorded,
        "written": found.changed,
    }
    word = next((word for word, is_so in said.items() if is_so), "planned")
    return {
        "result": word,
        "task": found.task,
        "made_task": found.made_task,
        "version": found.version,
        "changed": found.changed,
        "would_change": found.would_change,
        "reason": found.skipped,
        "found": [{**item._asdict(), "span": list(item.span)} for item in found.found],
        "kept": found.kept,
        "ambiguous": [span._asdict() for span in found.ambiguous],
        "handoff": found.handoff,
        "problems": plain(found.problems),
    }


def _print_migrated(result: JsonObject, *, is_alone: bool) -> None:
    word = result["result"]
    if is_alone and word in ("recorded", "planned"):
        _print_found_items(result["found"])
    made = ", task made" if result["made_task"] else ""
    version = f" version {result['version']}" if result["version"] else ""
    found, kept = len(result["found"]), result["kept"]
    items = out.counted(found, "item") if kept == found else f"{kept:,} of {found:,} items"
    file = result["file"] if result["file"] != "-" else "the note"
    said = f"{result['task']}{version}, {items}{made}"
    out.labelled(word, _STYLES[word], f"{file}: {result['reason'] or said}")
    if result["would_change"]:
        out.line(f"would add the handoff to {result['would_change']}", 2)
    elif result["changed"]:
        out.line(f"added the handoff to {result['changed']}; the note in it is as it was", 2)
    elif word == "recorded" and result["file"].endswith((".md", ".markdown", ".txt")):
        out.line(f"{file} is as it was; --in-place adds the handoff to it", 2)
    if result["ambiguous"] and word != "unchanged":
        unclear = out.counted(len(result["ambiguous"]), "sentence")
        out.line(f"{unclear} unclear: passdown migrate {file} --prompt asks a model about them", 2)
    out.print_findings(result["problems"], 2)


def _print_found_items(found: list[JsonObject]) -> None:
    rows = [
        (
            item["line"],
            item["kind"].replace("_", " "),
            f"{item['confidence']:.2f}",
            item["cue"],
            next((item["fields"][name] for name in _MAIN if name in item["fields"]), ""),
        )
        for item in found
    ]
    out.table(
        ("line", "kind", "sure", "cue", "says"), rows, "nothing found", whole=("line", "sure")
    )


def _print_shared_tasks(planned: list[str]) -> None:
    """Say which tasks several notes of a dry run suggest: recorded, the first of them gets it."""
    for task in dict.fromkeys(task for task in planned if planned.count(task) > 1):
        count = planned.count(task)
        out.line(
            f"{count} notes suggest {task}: the first gets it, the others their path in the name"
        )


@command("schema", "", "state", has_store=False, help={"of": "of what"})
def schema(session: Session, of: Literal["handoff", "task", "state"] = "handoff") -> None:
    """Print the JSON Schema of a handoff, a task or a state."""
    from passdown.core.handoff import TaskFields
    from passdown.core.schema import json_schema
    from passdown.core.state_files import state_schema

    shape = Handoff if of == "handoff" else TaskFields
    session.show(state_schema() if of == "state" else json_schema(shape), out.print_document)


@command(
    "template",
    "--task T-1 --title 'Login form' > tasks/T-1.md",
    "",
    has_store=False,
    help={"task": "ID: the task's id", "title": "the task's title"},
)
def template(session: Session, *, task: str = "TASK-ID", title: str = "Name") -> None:
    """Print an empty task file with a handoff section."""
    from passdown.core.task_files import task_template
    from passdown.workspace.context import read_settings
    from passdown.workspace.location import locate

    phases = PHASES
    if not session.is_remote:
        with suppress(NotFound):
            phases = read_settings(locate(session.store, create=False).config).phases
    session.show_text(task_template(task, title, phases))

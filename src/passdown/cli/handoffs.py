"""`handoff`, `draft`, `ingest`, `migrate`, `schema`, `template`: handoffs from files and flags."""

from __future__ import annotations

import os
import re
from re import sub
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from passdown.cli.output import (
    counted,
    labelled,
    line,
    print_json,
    print_problems,
    progress_bar,
    table,
    verbatim,
)
from passdown.cli.parsing import FILE, TASK, listed, whole_number, with_agent, with_store
from passdown.cli.session import UsageError, author, read_input, store_of, workspace_of
from passdown.core.kinds import FILE_LISTS
from passdown.errors import InvalidInput, NotFound, PassdownError, Problem

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterable, Iterator

    from passdown.cli.parsing import Parser
    from passdown.core.schema import Field
    from passdown.core.types import JsonObject
    from passdown.imports.note_migration import Migration
    from passdown.workspace import Workspace


Document = dict[str, Any]

_NEW_TASK = "passdown task new ID --title TEXT"


def handoff(parser: Parser) -> None:
    """The arguments of `handoff`."""
    parser.show(
        "passdown handoff tasks/T-1.md --to tester --phase testing",
        "passdown handoff --task T-1 --to coder --outcome completed --next 'write the form'",
        "passdown handoff --task T-1 --outcome blocked --blocker 'no key :: ask ops' --blocks T-2",
        "passdown handoff note.yaml --changed-git --dry-run",
    )
    parser.add_argument("file", metavar=FILE, nargs="?", help="YAML, JSON or a task file; - reads")
    for field in _flagged_fields().values():
        _add_flag(parser, field)
    listed(parser, "--blocks", TASK, "a task that waits for each --blocker")
    parser.add_argument(
        "--changed",
        metavar="PATH",
        action="append",
        default=[],
        help="a changed file that the handoff has to name; may be repeated",
    )
    parser.add_argument("--changed-git", action="store_true", help="changed files as git has them")
    parser.add_argument("--key", help="makes a retry safe: the same key gives the same record")
    parser.add_argument("--rebase", action="store_true", help="add to a task that has moved on")
    parser.add_argument("--dry-run", action="store_true", help="check only; nothing is recorded")
    with_store(parser)
    parser.set_defaults(run=_handoff)


def _flagged_fields() -> dict[str, Field]:
    """The fields of a handoff that have a flag."""
    from passdown.core.handoff import Handoff
    from passdown.core.schema import fields_of

    return {name: field for name, field in fields_of(Handoff).items() if field.flag}


def _add_flag(parser: Parser, field: Field) -> None:
    flag, choices = field.flag, field.type.expected().split(" | ")
    if flag is None:
        return
    if isinstance(field.default, tuple):
        parser.add_argument(
            flag.option,
            dest=field.name,
            metavar=flag.metavar,
            action="append",
            default=[],
            help=f"{flag.help}; may be repeated",
        )
    elif choices != [""]:
        parser.add_argument(flag.option, dest=field.name, choices=choices, help=flag.help or None)
    else:
        is_number = field.name == "expect_version"
        parser.add_argument(
            flag.option,
            dest=field.name,
            metavar=flag.metavar,
            type=whole_number if is_number else str,
            help=flag.help or None,
        )


def _handoff(args: Namespace) -> int:
    from passdown.cli.output import print_check, print_command

    if args.file is None and not (args.task and args.outcome):
        raise UsageError("name a FILE, or at least --task and --outcome")
    if args.blocks and not args.blockers:
        raise UsageError("--blocks names tasks that wait for a --blocker; name that as well")
    text = None if args.file is None else read_input(args.file)
    with workspace_of(args) as workspace:
        changed = _changed_files(workspace, args)
        fields, task = _fields_beside(text, args)
        given: Document | bytes = {} if text is None else text
        if args.dry_run:
            check = workspace.check_handoff(
                given, rebase=args.rebase, changed_files=changed, **fields
            )
            problems = tuple(_explained(workspace, task, check.problems, args))
            return print_check(check._replace(problems=problems), as_json=args.json)
        try:
            command = workspace.hand_off(
                given, key=args.key, rebase=args.rebase, changed_files=changed, **fields
            )
        except InvalidInput as error:
            problems = _explained(workspace, task, error.problems, args)
            raise InvalidInput(error.message, problems, next_step=error.next_step) from error
    return print_command(command, as_json=args.json)


def _explained(
    workspace: Workspace, task: object, problems: Iterable[Problem], args: Namespace
) -> Iterator[Problem]:
    """The problems of a handoff, a task that isn't there among them; with flags for flags."""
    known = tuple(problems)
    if isinstance(task, str) and not any(problem.path == "task" for problem in known):
        try:
            workspace.task(task)
        except NotFound as error:
            yield Problem("task", "not_found", error.message, "a task that exists", _NEW_TASK)
    for problem in known:
        # A file is mended in the file; of what was typed, the flag is what one has to type.
        yield problem if args.file is not None else problem._replace(fix=_fix_as_flag(problem))


def _fix_as_flag(problem: Problem) -> str:
    """What to try, in flags: the flag of a field that is missing, else what was proposed."""
    if problem.code == "same_agent":
        return "another --to, or none"
    is_told = problem.fix and problem.code != "required"
    return problem.fix if is_told or problem.level != "error" else _flag_of(problem.path)


def _flag_of(path: str) -> str:
    """The flag that gives the field at a path, as it is typed."""
    name, _, part = re.sub(r"\[\d+\]", "", path).partition(".")
    if part == "blocking_tasks":
        return "--blocks TASK"
    field = _flagged_fields().get("artifacts" if name in FILE_LISTS else name)
    if field is None or field.flag is None:
        return ""
    value = field.type.expected().replace(" | ", "|") or field.flag.metavar
    first, _, second = value.partition("::")
    return (
        f"{field.flag.option} '{first} :: {second}'" if second else f"{field.flag.option} {value}"
    )


def _fields_beside(text: bytes | None, args: Namespace) -> tuple[Document, object]:
    """What the flags say beside a file, and the task that is meant.

    Flags fill what the file leaves out and add to its lists; one that contradicts it is a usage
    error. The file itself is passed on as it is: a task file is recorded once.
    """
    from passdown.core.intake import read_handoff

    data: Document = {}
    try:
        data = read_handoff(text).data if text is not None else {}
    except InvalidInput as error:
        _refuse_without_section(text or b"", args.file, error)
    fields: Document = {}
    for name, field in _flagged_fields().items():
        value = getattr(args, name)
        if value is None or value == []:
            continue
        if isinstance(value, list):
            fields[name] = [_entry(field, text) for text in cast("list[str]", value)]
            continue
        if data.get(name) and str(data[name]) != str(value):
            option = field.flag.option if field.flag else name
            raise UsageError(f"{option} contradicts the file, where {name} is {data[name]!r:.80}")
        fields[name] = value
    for blocker in fields.get("blockers", ()) if args.blocks else ():
        blocker["blocking_tasks"] = list(args.blocks)
    fields.setdefault("from_agent", os.environ.get("PASSDOWN_AGENT") or None)
    return fields, fields.get("task") or data.get("task")


def _entry(field: Field, text: str) -> Any:
    """The entry that the value of a repeated flag stands for."""
    flag = field.flag
    if flag is None or not flag.fields:
        return text
    if len(flag.fields) == 1:
        return {flag.fields[0]: text}
    parts = dict(zip(flag.fields, _split_pair(text), strict=True))
    if flag.needs_all and not all(parts.values()):
        raise UsageError(f"{flag.option} takes two texts with ' :: ' between them")
    return {name: part for name, part in parts.items() if part} | dict(flag.also)


def _split_pair(text: str) -> tuple[str, str]:
    """What stands before and after `::`; one with spaces around it comes first, so that a text
    may hold a name such as `std::move`.
    """
    spaced = text.find(" :: ")
    at = spaced + 1 if spaced >= 0 else text.find("::")
    if at < 0:
        return text.strip(), ""
    return text[:at].strip(), text[at + 2 :].strip()


def _refuse_without_section(text: bytes, path: str, error: Exception) -> None:
    """Refuse a Markdown file that has no handoff in it, by that name; YAML alone is fine."""
    from passdown.core.task_files import handoff_section, no_handoff

    is_markdown = path.lower().endswith((".md", ".markdown"))
    if is_markdown and handoff_section(text.decode(errors="replace")) is None:
        raise no_handoff() from error


def _changed_files(workspace: Workspace, args: Namespace) -> list[str] | None:
    """What the handoff's file lists must account for; None where nobody said."""
    if args.changed_git:
        from passdown.workspace.repository import uncommitted_paths

        return [*args.changed, *uncommitted_paths(workspace.root)]
    return args.changed or None


_GIT_TIMEOUT_S = 10.0


def draft(parser: Parser) -> None:
    """The arguments of `draft`."""
    parser.show("passdown draft", "passdown draft T-1 --agent coder", "passdown draft T-1 --print")
    parser.add_argument("task", metavar=TASK, nargs="?", help="default: the only open task")
    with_agent(parser, help="who hands off")
    parser.add_argument("--print", action="store_true", help="show it; write nothing")
    with_store(parser)
    parser.set_defaults(run=_draft)


def _draft(args: Namespace) -> int:
    from passdown.hosts.hooks.capture import changed_files, draft_path, draft_text, write_draft
    from passdown.hosts.hooks.files import HookSessions
    from passdown.workspace.location import locate

    place = locate(store_of(args), create=False)
    with workspace_of(args) as workspace:
        name = args.task or _only_open_task(workspace)
        holder = str(workspace.task(name)["holder"])
    session = HookSessions(place.folder).newest_of(name)
    agent = args.agent or os.environ.get("PASSDOWN_AGENT") or session.agent or holder
    text = draft_text(name, agent, session, changed_files(session, place.root, _GIT_TIMEOUT_S))
    is_kept = not args.print and write_draft(place.folder, name, text)
    path = draft_path(place.folder, name, os.getcwd())
    if args.json:
        print_json({"task": name, "file": path, "written": is_kept, "text": text})
    elif args.print:
        verbatim(text.rstrip("\n"))
    elif is_kept:
        line(f"kept {path}; complete it, then: passdown handoff {path}")
    else:
        line(f"{path} was worked on already and stays as it is")
    return 0


def _only_open_task(workspace: Workspace) -> str:
    """The task that is meant where none is named."""
    from passdown.cli.session import UsageError
    from passdown.hosts.hooks.files import HookSession
    from passdown.hosts.hooks.messages import choose_task
    from passdown.workspace.location import branch_and_commit

    choice = choose_task(workspace, HookSession(), branch_and_commit(os.getcwd())[0])
    if not choice.task:
        raise UsageError(f"{len(choice.tasks)} tasks are open; name the one that is meant")
    return choice.task


def ingest(parser: Parser) -> None:
    """The arguments of `ingest`."""
    parser.show("passdown ingest tasks/*.md", "passdown ingest tasks/T-1.md --agent coder --json")
    parser.add_argument("files", metavar=FILE, nargs="+", help="task files with a ## Handoff")
    with_agent(parser, help="who hands off, where a file names nobody")
    with_store(parser)
    parser.set_defaults(run=_ingest)


def _ingest(args: Namespace) -> int:
    results: list[JsonObject] = []
    with workspace_of(args) as workspace:
        for path in args.files:
            result: JsonObject = {
                "file": path,
                "task": "",
                "made_task": False,
                "task_fields": [],
                "left_out": [],
            }
            try:
                ingest_file(workspace, path, author(args), result)
            except PassdownError as error:
                result.update(result="refused", error=error.to_dict(), text=str(error))
            results.append(result)
            if not args.json:
                _print_ingested(result)
    refused = sum(result["result"] == "refused" for result in results)
    if args.json:
        print_json([{k: v for k, v in result.items() if k != "text"} for result in results])
    elif len(results) > 1:
        taken = len(results) - refused
        line(f"{taken} of {len(results)} files {'is' if taken == 1 else 'are'} recorded")
    return 1 if refused else 0


def ingest_file(workspace: Workspace, path: str, agent: str, result: JsonObject) -> None:
    """Record one file's handoff, making its task where there is none; fills in `result`."""
    from passdown.core.task_files import read_task_file

    text = _decoded(read_input(path), path)
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
        completeness=command.completeness,
        held_by=list(command.held_by),
        warnings=[*warnings, *(problem.to_dict() for problem in command.warnings)],
    )


def _make_task(
    workspace: Workspace, text: str, data: JsonObject, result: JsonObject
) -> list[JsonObject]:
    """Make the task from what its file says; gives the warnings."""
    from passdown.core.task_files import task_file_fields, task_file_title

    task, parts = str(data["task"]), task_file_fields(text)
    receipt = workspace.create_task(
        task, title=task_file_title(text) or task, agent=str(data["from_agent"]), **parts.fields
    )
    result.update(made_task=True, task_fields=sorted(parts.fields), left_out=parts.left_out)
    return [problem.to_dict() for problem in receipt.warnings]


def _decoded(data: bytes, path: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        problem = Problem(path, "invalid_utf8", f"byte {error.start} is not UTF-8", "UTF-8 text")
        raise InvalidInput("the input can't be read", [problem]) from error


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
        if problem.level == "error" and (problem.path, problem.code) != ("task", "not_found")
    ]
    if faults:
        raise InvalidInput("the handoff is refused; nothing was changed", faults)


def _print_ingested(result: JsonObject) -> None:
    word = result["result"]
    style = {"recorded": "green", "unchanged": "dim", "refused": "red"}[word]
    if word == "refused":
        made = f"\nthe task {result['task']} was made" if result["made_task"] else ""
        labelled(word, style, f"{result['file']}\n{result['text']}{made}")
        return
    made = ", task made" if result["made_task"] else ""
    fields = ", ".join(name.replace("_", " ") for name in result["task_fields"])
    made += f" with {fields}" if fields else ""
    labelled(word, style, f"{result['file']}: {result['task']} version {result['version']}{made}")
    for each in result["left_out"]:
        line(f"left out: {each}", 2)
    for gate in result["held_by"]:
        line(f"held by {gate} (passdown gate approve {gate} --by NAME)", 2)
    warnings = [Problem(**warning) for warning in result["warnings"]]
    print_problems(w for w in warnings if w.code != "recommended")


ENDINGS = (".md", ".markdown", ".txt", ".json")
PROGRESS_FROM = 5
_MAIN = ("summary", "issue", "pattern", "step", "question", "blocker", "path", "file", "name")


def migrate(parser: Parser) -> None:
    """The arguments of `migrate`."""
    parser.show(
        "passdown migrate notes/handover.md --dry-run",
        "passdown migrate notes/ --agent coder",
        "passdown migrate note.md --prompt > prompt.txt",
        "passdown migrate note.md --answer answer.json",
    )
    parser.add_argument("files", metavar=FILE, nargs="+", help="notes, folders of notes, patterns")
    parser.add_argument(
        "--task", metavar=TASK, default="", help="the task, where a note names none"
    )
    with_agent(parser, help="who hands off, where a note names nobody")
    parser.add_argument(
        "--minimum", metavar="0..1", type=_fraction, default=0.5, help="leave out what is less sure"
    )
    parser.add_argument("--dry-run", action="store_true", help="show what would be recorded")
    parser.add_argument(
        "--prompt", action="store_true", help="print the prompt for a model instead"
    )
    parser.add_argument("--answer", metavar=FILE, help="a model's answer to that prompt")
    parser.add_argument("--ask", action="store_true", help="let PASSDOWN_MIGRATE_COMMAND answer it")
    parser.add_argument("--no-write", action="store_true", help="record, but leave the files alone")
    with_store(parser)
    parser.set_defaults(run=_migrate)


def _fraction(text: str) -> float:
    from argparse import ArgumentTypeError

    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 <= found <= 1:
        raise ArgumentTypeError(f"{text[:20]!r} given, expected a number from 0 to 1")
    return found


def _migrate(args: Namespace) -> int:
    paths = _note_files(args.files)
    if len(paths) > 1 and (args.task or args.answer or args.prompt):
        raise UsageError("--task, --answer and --prompt are for one file")
    if args.prompt:
        return _print_prompt(paths[0], as_json=args.json)
    answer = _answer_from_file(args.answer) if args.answer else None
    results: list[JsonObject] = []
    draw = progress_bar("migrating") if len(paths) > PROGRESS_FROM else None
    with workspace_of(args) as workspace:
        for number, path in enumerate(paths, start=1):
            result = _migrate_one(workspace, path, args, answer)
            results.append(result)
            if draw:
                draw(number, len(paths))
            if not args.json:
                _print_migrated(result, is_alone=len(paths) == 1)
    if args.json:
        print_json([{k: v for k, v in result.items() if k != "text"} for result in results])
    elif len(results) > 1:
        _print_total(results)
    return 1 if any(result["result"] == "refused" for result in results) else 0


def _migrate_one(
    workspace: Workspace, named: _NoteFile, args: Namespace, answer: Callable[[str], str] | None
) -> JsonObject:
    path = named.path
    try:
        _check_note_file(named)
        found = workspace.imports.migrate(
            path if path != "-" else _note_from_stdin(),
            task=args.task,
            agent=author(args),
            answer=answer,
            ask=args.ask,
            minimum=args.minimum,
            dry_run=args.dry_run,
            write_back=not args.no_write,
        )
    except PassdownError as error:
        refused = {"file": path, "result": "refused", "error": error.to_dict()}
        return {**refused, "text": str(error)}
    return _migration_document(path, found)


class _NoteFile(NamedTuple):
    """A file that is meant, and the folder that was searched for it; empty where it was named."""

    path: str
    folder: str = ""


def _note_files(given: list[str]) -> list[_NoteFile]:
    """The files that are meant: folders hold notes, patterns that no shell spelled out match."""
    found: dict[str, _NoteFile] = {}
    for path in given:
        if os.path.isdir(path):
            names = [_NoteFile(name, path) for name in _notes_in(path)]
        elif _is_pattern(path):
            names = _matching_files(path) or [_NoteFile(path)]
        else:
            names = [_NoteFile(path)]
        for name in names:
            found.setdefault(name.path, name)
    if not found:
        problem = Problem("", "no_notes", f"no {', '.join(ENDINGS)} in {', '.join(given)}", "notes")
        raise InvalidInput("there is nothing to migrate", [problem])
    return list(found.values())


def _is_pattern(path: str) -> bool:
    return _has_wildcard(path) and not os.path.lexists(path)


def _has_wildcard(text: str) -> bool:
    return any(mark in text for mark in "*?[")


def _matching_files(pattern: str) -> list[_NoteFile]:
    """The files that match, each with the folder where the pattern begins to be one.

    `**` enters no folder that is a link: links in a circle would have no end.
    """
    from pathlib import Path

    whole = Path(pattern)
    first = next(n for n, part in enumerate(whole.parts) if _has_wildcard(part))
    folder = Path(*whole.parts[:first])
    # Whatever isn't `**` by itself means what one star means.
    parts = [part if part == "**" else sub(r"\*+", "*", part) for part in whole.parts[first:]]
    parts += ["*"] if parts[-1] == "**" else []
    is_shown = any(part.startswith(".") for part in parts)
    found: list[str] = []
    for match in folder.glob("/".join(parts)):
        is_hidden = any(part.startswith(".") for part in match.parts[len(folder.parts) :])
        if (is_shown or not is_hidden) and not os.path.isdir(match):
            found.append(str(match))
    return [_NoteFile(path, str(folder)) for path in sorted(found)]


def _check_note_file(named: _NoteFile) -> None:
    """Refuse a pattern that is still one, since it matched nothing, and a way out of a folder."""
    from passdown.workspace.files import is_beneath

    path, folder = named
    if not folder and _is_pattern(path):
        problem = Problem(path, "no_match", "the pattern matches no file", "notes")
        raise InvalidInput("there is nothing to migrate", [problem])
    if folder and not is_beneath(path, folder):
        fix = "name the file itself if it is meant"
        message = "leads out of the folder"
        problem = Problem(path, "path_escapes_root", message, "a file inside it", fix)
        raise InvalidInput("the note is refused", [problem])


def _notes_in(folder: str) -> list[str]:
    """The notes in a folder. Folders that are links aren't entered; those that lead out of it are
    among what is found, to be refused like any such link.
    """
    from passdown.workspace.files import is_beneath

    found: list[str] = []
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(n for n in folders if not n.startswith(".") and n != "node_modules")
        notes = (name for name in sorted(names) if name.lower().endswith(ENDINGS))
        found += [os.path.join(root, name) for name in notes]
        links = (path for name in folders if os.path.islink(path := os.path.join(root, name)))
        found += [path for path in links if not is_beneath(path, folder)]
    return found


def _note_from_stdin() -> str:
    """The note on standard input; one line is a note there too."""
    return read_input("-").decode("utf-8", "replace") + "\n"


def _answer_from_file(path: str) -> Callable[[str], str]:
    """A file as the answer. Sent back once, it would say the same again: it is refused."""
    text = read_input(path).decode("utf-8", "replace")
    return lambda _: text


def _print_prompt(named: _NoteFile, *, as_json: bool) -> int:
    from passdown.imports.note_handoffs import note_prompt
    from passdown.imports.note_items import extract_note

    _check_note_file(named)
    path = named.path
    text = read_input(path).decode("utf-8", "replace")
    prompt = note_prompt(text, extract_note(text, os.path.basename(path)))
    if as_json:
        print_json({"file": path, "prompt": prompt})
    else:
        print(prompt, end="")
    return 0


def _migration_document(path: str, found: Migration) -> JsonObject:
    word = "unchanged" if found.is_repeat else "recorded" if found.version else "planned"
    word = "skipped" if found.skipped else word
    return {
        "file": path,
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
        "problems": [problem.to_dict() for problem in found.problems],
    }


def _print_migrated(result: JsonObject, *, is_alone: bool) -> None:
    word = result["result"]
    styles = {"recorded": "green", "unchanged": "dim", "planned": "cyan", "refused": "red"}
    styles |= {"skipped": "yellow"}
    if word == "refused":
        labelled(word, styles[word], f"{result['file']}\n{result['text']}")
        return
    if is_alone and word in ("recorded", "planned"):
        _print_found_items(result["found"])
    made = ", task made" if result["made_task"] else ""
    version = f" version {result['version']}" if result["version"] else ""
    found, kept = len(result["found"]), result["kept"]
    items = counted(found, "item") if kept == found else f"{kept:,} of {found:,} items"
    file = result["file"] if result["file"] != "-" else "the note"
    said = f"{result['task']}{version}, {items}{made}"
    labelled(word, styles[word], f"{file}: {result['reason'] or said}")
    if result["would_change"]:
        line(f"would add a section to {result['would_change']}", 2)
    if result["ambiguous"] and word != "unchanged":
        unclear = counted(len(result["ambiguous"]), "sentence")
        line(f"{unclear} unclear: passdown migrate {file} --prompt asks a model about them", 2)
    print_problems(Problem(**problem) for problem in result["problems"])


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
    table(("line", "kind", "sure", "cue", "says"), rows, "nothing found", whole=("line", "sure"))


def _print_total(results: list[JsonObject]) -> None:
    words = [result["result"] for result in results]
    said = [f"{words.count(word)} {word}" for word in dict.fromkeys(words)]
    line(f"{counted(len(results), 'note')}: {', '.join(said)}")
    _print_shared_tasks([result["task"] for result in results if result["result"] == "planned"])


def _print_shared_tasks(planned: list[str]) -> None:
    """Say which tasks several notes of a dry run suggest: recorded, the first of them gets it."""
    for task in dict.fromkeys(task for task in planned if planned.count(task) > 1):
        count = planned.count(task)
        line(f"{count} notes suggest {task}: the first gets it, the others their path in the name")


def schema(parser: Parser) -> None:
    """The arguments of `schema`."""
    parser.show("passdown schema", "passdown schema state")
    parser.add_argument(
        "of", choices=("handoff", "task", "state"), nargs="?", default="handoff", help="of what"
    )
    parser.add_argument("--json", action="store_true", help="always so")
    parser.set_defaults(run=_schema)


def _schema(args: Namespace) -> int:
    from passdown.cli.output import print_json
    from passdown.core import handle_files, intake

    made_by = handle_files if args.of == "state" else intake
    print_json(getattr(made_by, f"{args.of}_schema")())
    return 0


def template(parser: Parser) -> None:
    """The arguments of `template`."""
    parser.show(
        "passdown template --task T-1 --title 'Login form' > tasks/T-1.md",
        "passdown template",
    )
    parser.add_argument("--task", metavar="ID", default="TASK-ID", help="the task's id")
    parser.add_argument("--title", metavar="TEXT", default="Name", help="the task's title")
    parser.set_defaults(run=_template)


def _template(args: Namespace) -> int:
    from passdown.core.task_files import task_template

    print(task_template(args.task, args.title), end="")
    return 0

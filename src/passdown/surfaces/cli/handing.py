"""`handoff`: hand a task on, from a file, from flags, or from both."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from passdown.errors import InvalidInput, NotFound, Problem
from passdown.model.kinds import OUTCOMES, PHASES
from passdown.surfaces.cli.parsing import AGENT, FILE, TASK, listed, whole_number, with_store
from passdown.surfaces.cli.session import Misuse, opened, read_input

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable, Iterator

    from passdown.surfaces.cli.parsing import Parser
    from passdown.workspace import Workspace

Plain = dict[str, Any]

_FIELDS = {
    "task": "--task",
    "from_agent": "--from",
    "to_agent": "--to",
    "outcome": "--outcome",
    "phase": "--phase",
    "summary": "--summary",
    "expect_version": "--expect-version",
}


_FLAGS = {
    "task": "--task ID",
    "outcome": f"--outcome {'|'.join(OUTCOMES)}",
    "from_agent": "--from NAME",
    "to_agent": "--to NAME",
    "phase": f"--phase {'|'.join(PHASES)}",
    "summary": "--summary TEXT",
    "files_created": "--file PATH",
    "files_modified": "--file PATH",
    "artifacts": "--file PATH",
    "decisions": "--decision 'TEXT :: WHY'",
    "patterns_discovered": "--pattern 'TEXT :: PLACE'",
    "gotchas": "--gotcha 'TEXT :: HOW'",
    "warnings": "--warning TEXT",
    "suggested_next_steps": "--next TEXT",
    "dependencies_for_next": "--read 'PATH :: WHY'",
    "open_questions": "--question TEXT",
    "resolves": "--resolves ITEM",
    "blockers": "--blocker 'TEXT :: FIX'",
    "blockers.blocking_tasks": "--blocks TASK",
    "expect_version": "--expect-version N",
}
_NEW_TASK = "passdown task new ID --title TEXT"

_REPEATED = (
    ("--file", "PATH", "an artifact; may be repeated, like those that follow"),
    ("--decision", "TEXT::WHY", "a decision, '::' and its reason"),
    ("--pattern", "TEXT::PLACE", "a way of doing things, '::' and where it is used"),
    ("--gotcha", "TEXT::HOW", "something to watch out for, '::' and how to avoid it"),
    ("--warning", "TEXT", "a warning that stays with the task"),
    ("--next", "TEXT", "a step that comes next"),
    ("--read", "PATH::WHY", "a file to read first, '::' and why"),
    ("--question", "TEXT", "something unresolved"),
    ("--resolves", "ITEM", "an open item that this step closed"),
    ("--changed", "PATH", "a changed file that the handoff has to name"),
    ("--blocker", "TEXT::FIX", "what is in the way, '::' and what would help"),
)


def handoff(parser: Parser) -> None:
    """The arguments of `handoff`."""
    parser.show(
        "passdown handoff tasks/T-1.md --to tester --phase testing",
        "passdown handoff --task T-1 --to coder --outcome completed --next 'write the form'",
        "passdown handoff --task T-1 --outcome blocked --blocker 'no key :: ask ops' --blocks T-2",
        "passdown handoff note.yaml --changed-git --dry-run",
    )
    parser.add_argument("file", metavar=FILE, nargs="?", help="YAML, JSON or a task file; - reads")
    parser.add_argument("--task", metavar=TASK)
    parser.add_argument("--from", dest="from_agent", metavar=AGENT, help="default: the holder")
    parser.add_argument("--to", dest="to_agent", metavar=AGENT, help="the receiver")
    parser.add_argument("--outcome", choices=OUTCOMES)
    parser.add_argument("--phase", choices=PHASES, help="the phase that the task moves to")
    parser.add_argument("--summary", metavar="TEXT", help="the state of the work")
    parser.add_argument("--expect-version", metavar="N", type=whole_number, help="worked from")
    for option, metavar, help in _REPEATED:
        dest = "file_paths" if option == "--file" else option.lstrip("-")
        parser.add_argument(
            option, dest=dest, metavar=metavar, action="append", default=[], help=help
        )
    listed(parser, "--blocks", TASK, "a task that waits for each --blocker")
    parser.add_argument("--changed-git", action="store_true", help="changed files as git has them")
    parser.add_argument("--key", help="makes a retry safe: the same key gives the same record")
    parser.add_argument("--rebase", action="store_true", help="add to a task that has moved on")
    parser.add_argument("--dry-run", action="store_true", help="check only; nothing is recorded")
    with_store(parser)
    parser.set_defaults(run=_handoff)


def _handoff(args: Namespace) -> int:
    from passdown.surfaces.cli.receipts import print_check, print_command

    if args.file is None and not (args.task and args.outcome):
        raise Misuse("name a FILE, or at least --task and --outcome")
    if args.blocks and not args.blocker:
        raise Misuse("--blocks names tasks that wait for a --blocker; name that as well")
    text = None if args.file is None else read_input(args.file)
    with opened(args) as workspace:
        changed = _changed_files(workspace, args)
        given, defaults = _merged(text, args)
        if args.dry_run:
            check = workspace.check(given, rebase=args.rebase, changed_files=changed, **defaults)
            problems = tuple(_told(workspace, given, check.problems, args))
            return print_check(check._replace(problems=problems), as_json=args.json)
        try:
            command = workspace.hand_off(
                given, key=args.key, rebase=args.rebase, changed_files=changed, **defaults
            )
        except InvalidInput as error:
            problems = _told(workspace, given, error.problems, args)
            raise InvalidInput(error.message, problems, next_step=error.next_step) from error
    return print_command(command, as_json=args.json)


def _told(
    workspace: Workspace, given: Plain | bytes, problems: Iterable[Problem], args: Namespace
) -> Iterator[Problem]:
    """The problems of a handoff, a task that isn't there among them; with flags for flags."""
    known = tuple(problems)
    task = given.get("task") if isinstance(given, dict) else None
    if isinstance(task, str) and not any(problem.path == "task" for problem in known):
        try:
            workspace.task(task)
        except NotFound as error:
            yield Problem("task", "not_found", error.message, "a task that exists", _NEW_TASK)
    for problem in known:
        # A file is mended in the file; of what was typed, the flag is what one has to type.
        yield problem if args.file is not None else problem._replace(fix=_as_flag(problem))


def _as_flag(problem: Problem) -> str:
    """What to try, in flags: the flag of a field that is missing, else what was proposed."""
    if problem.code == "same_agent":
        return "another --to, or none"
    is_told = problem.fix and problem.code != "required"
    return problem.fix if is_told or problem.level != "error" else _flag_of(problem.path)


def _flag_of(path: str) -> str:
    field = re.sub(r"\[\d+\]", "", path)
    return _FLAGS.get(field) or _FLAGS.get(field.partition(".")[0], "")


def _merged(text: bytes | None, args: Namespace) -> tuple[Plain | bytes, Plain]:
    """The handoff and what stands in for fields that it leaves out.

    Flags fill what a file leaves out, lists get longer, and a flag that contradicts the file is a
    misuse. A text that can't be read is passed on as it is, for the workspace to say why.
    """
    from passdown.model.intake.reading import read_handoff_text
    from passdown.model.intake.shapes import to_handoff_shape

    try:
        data: Plain = to_handoff_shape(read_handoff_text(text)) if text is not None else {}
    except InvalidInput as error:
        _refuse_without_section(text or b"", args.file, error)
        return text or b"", {}
    for name, option in _FIELDS.items():
        value = getattr(args, name)
        if value is not None and data.get(name) and str(data[name]) != str(value):
            raise Misuse(f"{option} contradicts the file, where {name} is {data[name]!r:.80}")
        if value is not None:
            data = {**data, name: value}
    for name, entries in _flag_lists(args).items():
        if entries and isinstance(data.get(name, []), list | None):
            data = {**data, name: [*(data.get(name) or ()), *entries]}
    return data, {"from_agent": os.environ.get("PASSDOWN_AGENT") or None}


def _flag_lists(args: Namespace) -> dict[str, list[Any]]:
    decisions = [_pair(text, "--decision") for text in args.decision]
    patterns = [_pair(text, "--pattern") for text in args.pattern]
    gotchas = [_pair(text, "--gotcha") for text in args.gotcha]
    blockers = [_halves(text) for text in args.blocker]
    waits: Plain = {"blocking_tasks": list(args.blocks)} if args.blocks else {}
    return {
        "artifacts": [{"path": path} for path in args.file_paths],
        "decisions": [{"summary": summary, "rationale": why} for summary, why in decisions],
        "patterns_discovered": [{"pattern": text, "location": at} for text, at in patterns],
        "gotchas": [
            {"issue": text, "mitigation": how, "severity": "medium"} for text, how in gotchas
        ],
        "warnings": list(args.warning),
        "suggested_next_steps": [{"step": step} for step in args.next],
        "dependencies_for_next": [
            {"file": file, "reason": why} for file, why in (_pair(t, "--read") for t in args.read)
        ],
        "blockers": [
            {"blocker": text, **({"suggested_resolution": fix} if fix else {}), **waits}
            for text, fix in blockers
        ],
        "open_questions": [{"question": text} for text in args.question],
        "resolves": list(args.resolves),
    }


def _pair(text: str, option: str) -> tuple[str, str]:
    first, second = _halves(text)
    if not first or not second:
        raise Misuse(f"{option} takes two texts with ' :: ' between them")
    return first, second


def _halves(text: str) -> tuple[str, str]:
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
    from passdown.model.intake.reading import handoff_section, no_handoff

    is_markdown = path.lower().endswith((".md", ".markdown"))
    if is_markdown and handoff_section(text.decode(errors="replace")) is None:
        raise no_handoff() from error


def _changed_files(workspace: Workspace, args: Namespace) -> list[str] | None:
    """What the handoff's file lists must account for; None where nobody said."""
    if args.changed_git:
        from passdown.workspace.repository import changed_now

        return [*args.changed, *changed_now(workspace.root)]
    return args.changed or None

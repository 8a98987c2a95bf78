"""`handoff`: hand a task on, from a file, from flags, or from both."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from passdown.model.kinds import OUTCOMES, PHASES
from passdown.surfaces.cli.parsing import FILE, TASK, whole_number, with_store
from passdown.surfaces.cli.session import Misuse, opened, read_input

if TYPE_CHECKING:
    from argparse import Namespace

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


def handoff(parser: Parser) -> None:
    """The arguments of `handoff`."""
    parser.show(
        "passdown handoff tasks/T-1.md --to tester --phase testing",
        "passdown handoff --task T-1 --to coder --outcome completed --next 'write the form'",
        "passdown handoff note.yaml --changed-git --dry-run",
    )
    parser.add_argument("file", metavar=FILE, nargs="?", help="YAML, JSON or a task file; - reads")
    parser.add_argument("--task", metavar=TASK)
    parser.add_argument("--from", dest="from_agent", metavar="NAME", help="default: the holder")
    parser.add_argument("--to", dest="to_agent", metavar="NAME", help="the receiver")
    parser.add_argument("--outcome", choices=OUTCOMES)
    parser.add_argument("--phase", choices=PHASES, help="the phase that the task moves to")
    parser.add_argument("--summary", metavar="TEXT", help="the state of the work")
    parser.add_argument("--expect-version", metavar="N", type=whole_number, help="worked from")
    for option, metavar, help in (
        ("--file", "PATH", "an artifact; may be repeated, like those that follow"),
        ("--decision", "TEXT::WHY", "a decision, ' :: ' and its reason"),
        ("--next", "TEXT", "a step that comes next"),
        ("--read", "PATH::WHY", "a file to read first, ' :: ' and why"),
        ("--blocker", "TEXT::FIX", "what is in the way, ' :: ' and what would help"),
        ("--question", "TEXT", "something unresolved"),
        ("--resolves", "ITEM", "an open item that this step closed"),
        ("--changed", "PATH", "a changed file that the handoff has to name"),
    ):
        dest = "file_paths" if option == "--file" else option.lstrip("-")
        parser.add_argument(
            option, dest=dest, metavar=metavar, action="append", default=[], help=help
        )
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
    text = None if args.file is None else read_input(args.file)
    with opened(args) as workspace:
        changed = _changed_files(workspace, args)
        given, defaults = _merged(text, args)
        if args.dry_run:
            check = workspace.check(given, changed_files=changed, **defaults)
            return print_check(check, as_json=args.json)
        command = workspace.hand_off(
            given, key=args.key, rebase=args.rebase, changed_files=changed, **defaults
        )
    return print_command(command, as_json=args.json)


def _merged(text: bytes | None, args: Namespace) -> tuple[Plain | bytes, Plain]:
    """The handoff and what stands in for fields that it leaves out.

    Flags fill what a file leaves out, lists get longer, and a flag that contradicts the file is a
    misuse. A text that can't be read is passed on as it is, for the workspace to say why.
    """
    from passdown.errors import InvalidInput
    from passdown.model.intake.reading import read_handoff_text
    from passdown.model.intake.shapes import to_handoff_shape

    try:
        data: Plain = to_handoff_shape(read_handoff_text(text)) if text is not None else {}
    except InvalidInput:
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
    blockers = [text.partition(" :: ") for text in args.blocker]
    return {
        "artifacts": [{"path": path} for path in args.file_paths],
        "decisions": [{"summary": summary, "rationale": why} for summary, why in decisions],
        "suggested_next_steps": [{"step": step} for step in args.next],
        "dependencies_for_next": [
            {"file": file, "reason": why} for file, why in (_pair(t, "--read") for t in args.read)
        ],
        "blockers": [
            {"blocker": text, "suggested_resolution": fix} if fix else {"blocker": text}
            for text, _, fix in blockers
        ],
        "open_questions": [{"question": text} for text in args.question],
        "resolves": list(args.resolves),
    }


def _pair(text: str, option: str) -> tuple[str, str]:
    first, mark, second = text.partition(" :: ")
    if not mark or not second.strip():
        raise Misuse(f"{option} takes two texts with ' :: ' between them")
    return first, second


def _changed_files(workspace: Workspace, args: Namespace) -> list[str] | None:
    """What the handoff's file lists must account for; None where nobody said."""
    if args.changed_git:
        from passdown.surfaces.cli.changed_files import changed_in_git

        return [*args.changed, *changed_in_git(workspace.root)]
    return args.changed or None


BUILDERS = {"handoff": handoff}

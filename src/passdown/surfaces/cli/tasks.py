"""`task`: make, list, show and change tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from passdown.model.kinds import PHASES, TASK_STATUSES, WORKSPACE_TASK
from passdown.surfaces.cli.parsing import (
    AGENT,
    HIDDEN,
    TASK,
    listed,
    whole_number,
    with_agent,
    with_store,
)
from passdown.surfaces.cli.session import author, opened

if TYPE_CHECKING:
    from argparse import Namespace

    from passdown.surfaces.cli.parsing import Parser

Document = dict[str, Any]

_LISTS = {
    "inputs": ("--input", "TEXT", "what is needed to begin"),
    "outputs": ("--output", "TEXT", "what will be there at the end"),
    "criteria": ("--criterion", "TEXT", "how one tells that it is done"),
    "depends_on": ("--needs", TASK, "a task that comes first"),
}


def task(parser: Parser) -> None:
    """The arguments of `task` and the verbs below it."""
    new = parser.subverb(
        "new",
        "make a task",
        "passdown task new T-1 --title 'Login form' --criterion 'a wrong password is refused'",
        "passdown task new T-3 --title 'Tests for login' --needs T-1,T-2 --phase testing",
        run=_new,
    )
    new.add_argument("task", metavar="ID", help="ASCII letters, digits, '.', '_' and '-'")
    new.add_argument("--title", metavar="TEXT", required=True, help="what it is about")
    new.add_argument("--phase", choices=PHASES, default="planning", help="where it begins")
    _fields(new)
    found = parser.subverb(
        "list",
        "list tasks",
        "passdown task list --status open",
        "passdown task list --agent coder --json",
        "passdown task list --all",
        run=_list,
    )
    _filters(found)
    one = parser.subverb("show", "show one task", "passdown task show T-1", run=_show)
    one.add_argument("task", metavar=TASK)
    with_store(one)
    change = parser.subverb(
        "set",
        "change a task",
        "passdown task set T-1 --title 'Login form and logout'",
        "passdown task set T-1 --status cancelled --expect-version 4",
        run=_set,
    )
    change.add_argument("task", metavar=TASK)
    change.add_argument("--title", metavar="TEXT")
    change.add_argument("--status", choices=("open", "cancelled"))
    change.add_argument("--expect-version", metavar="N", type=whole_number, help="worked from")
    _fields(change)


def _filters(found: Parser) -> None:
    found.add_argument("--status", choices=TASK_STATUSES, default="", help="only these")
    found.add_argument("--phase", choices=PHASES, default="", help="only in this phase")
    found.add_argument("--agent", metavar=AGENT, default="", help="only those that AGENT holds")
    found.add_argument("--limit", metavar="N", type=whole_number, default=1_000, help="at most")
    found.add_argument("--after", metavar="SEQ", type=whole_number, default=0, help="from there on")
    found.add_argument("--all", action="store_true", help="what concerns all work as well")
    found.add_argument("--ids", action="store_true", help=HIDDEN)
    with_store(found)


def _fields(parser: Parser) -> None:
    parser.add_argument("--description", metavar="TEXT", help="more than the title says")
    for name, (option, metavar, help) in _LISTS.items():
        listed(parser, option, metavar, help, name)
    parser.add_argument(
        "--time-limit", dest="time_limit_minutes", metavar="MINUTES", type=whole_number
    )
    with_agent(parser)
    with_store(parser)


def _given(args: Namespace) -> dict[str, Any]:
    names = ("title", "description", "time_limit_minutes", "phase", "status", *_LISTS)
    values = {name: getattr(args, name, None) for name in names}
    return {name: value for name, value in values.items() if value not in (None, [])}


def _new(args: Namespace) -> int:
    from passdown.surfaces.cli.receipts import print_receipt

    with opened(args) as workspace:
        receipt = workspace.create_task(args.task, agent=author(args), **_given(args))
    return print_receipt(receipt, as_json=args.json)


def _set(args: Namespace) -> int:
    from passdown.surfaces.cli.receipts import print_receipt

    with opened(args) as workspace:
        receipt = workspace.change_task(
            args.task, agent=author(args), expect_version=args.expect_version, **_given(args)
        )
    return print_receipt(receipt, as_json=args.json)


def _list(args: Namespace) -> int:
    from passdown.surfaces.cli.printing import print_json, table

    with opened(args) as workspace:
        found = workspace.tasks(
            status=args.status,
            phase=args.phase,
            agent=args.agent,
            limit=args.limit,
            after=args.after,
            with_workspace=args.all,
        )
        gates = [] if args.ids else workspace.gates()
    if args.ids:
        for entry in found:
            print(entry["task"])
        return 0
    held = {gate["task"] for gate in gates if gate["status"] == "pending"}
    if args.json:
        print_json([{**entry, "held": entry["task"] in held} for entry in found])
        return 0
    names = ("task", "status", "phase", "holder", "version", "title")
    rows = [[_shown(entry, name, held) for name in names] for entry in found]
    table(names, rows, "no tasks", whole=names[:-1], short=("title",))
    return 0


def _shown(entry: Document, name: str, held: set[str]) -> object:
    """A cell of the list."""
    if entry["task"] == WORKSPACE_TASK:
        # It has no phases, holders or ends; only its records count.
        return {"status": "no task", "phase": "", "holder": ""}.get(name, entry[name])
    return "held" if name == "status" and entry["task"] in held else entry[name]


def _show(args: Namespace) -> int:
    from passdown.surfaces.cli.items import print_items
    from passdown.surfaces.cli.printing import heading, pairs, print_json

    with opened(args) as workspace:
        found = workspace.task(args.task)
    if args.json:
        print_json(found)
        return 0
    heading(f"{found['task']}  {found['title']}")
    names = ("status", "phase", "holder", "version", "description", "inputs", "outputs")
    limit = found.get("time_limit_minutes")
    pairs(
        [
            *((name, found.get(name)) for name in names),
            *(("criterion", text) for text in found.get("criteria", ())),
            ("time limit", f"{limit} minutes" if limit else ""),
            ("needs", found["needs"]),
            ("needed by", found["needed_by"]),
            ("blocked by", found["blocked_by"]),
            ("made", f"{found['created_at']} by {found['created_by']}"),
            ("updated", found["updated_at"]),
        ],
        2,
    )
    print_items("open", found["open"])
    return 0

"""`task`, `gate`, `decide`, `note`, `warn` and `mark`: tasks, gates and single entries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from passdown.cli.output import print_receipt
from passdown.cli.parsing import (
    AGENT,
    HIDDEN,
    ITEM,
    TAG,
    TASK,
    listed,
    whole_number,
    with_agent,
    with_store,
)
from passdown.cli.session import author, workspace_of
from passdown.core.kinds import DECISION_STATUSES, LEVELS, PHASES, TASK_STATUSES, WORKSPACE_TASK

if TYPE_CHECKING:
    from argparse import Namespace

    from passdown.cli.parsing import Parser
    from passdown.core.types import JsonObject
    from passdown.workspace import Workspace


_TASK_LISTS = {
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
        run=_task_new,
    )
    new.add_argument("task", metavar="ID", help="ASCII letters, digits, '.', '_' and '-'")
    new.add_argument("--title", metavar="TEXT", required=True, help="what it is about")
    new.add_argument("--phase", choices=PHASES, default="planning", help="where it begins")
    _add_task_fields(new)
    found = parser.subverb(
        "list",
        "list tasks",
        "passdown task list --status open",
        "passdown task list --agent coder --json",
        "passdown task list --all",
        run=_task_list,
    )
    _add_task_filters(found)
    one = parser.subverb("show", "show one task", "passdown task show T-1", run=_task_show)
    one.add_argument("task", metavar=TASK)
    with_store(one)
    change = parser.subverb(
        "set",
        "change a task",
        "passdown task set T-1 --title 'Login form and logout'",
        "passdown task set T-1 --status cancelled --expect-version 4",
        run=_task_set,
    )
    change.add_argument("task", metavar=TASK)
    change.add_argument("--title", metavar="TEXT")
    change.add_argument("--status", choices=("open", "cancelled"))
    change.add_argument("--expect-version", metavar="N", type=whole_number, help="worked from")
    _add_task_fields(change)


def _add_task_filters(found: Parser) -> None:
    found.add_argument("--status", choices=TASK_STATUSES, default="", help="only these")
    found.add_argument("--phase", choices=PHASES, default="", help="only in this phase")
    found.add_argument("--agent", metavar=AGENT, default="", help="only those that AGENT holds")
    found.add_argument("--limit", metavar="N", type=whole_number, default=1_000, help="at most")
    found.add_argument("--after", metavar="SEQ", type=whole_number, default=0, help="from there on")
    found.add_argument("--all", action="store_true", help="what concerns all work as well")
    found.add_argument("--ids", action="store_true", help=HIDDEN)
    with_store(found)


def _add_task_fields(parser: Parser) -> None:
    parser.add_argument("--description", metavar="TEXT", help="more than the title says")
    for name, (option, metavar, help) in _TASK_LISTS.items():
        listed(parser, option, metavar, help, name)
    parser.add_argument(
        "--time-limit", dest="time_limit_minutes", metavar="MINUTES", type=whole_number
    )
    with_agent(parser)
    with_store(parser)


def _given_fields(args: Namespace) -> dict[str, Any]:
    names = ("title", "description", "time_limit_minutes", "phase", "status", *_TASK_LISTS)
    values = {name: getattr(args, name, None) for name in names}
    return {name: value for name, value in values.items() if value not in (None, [])}


def _task_new(args: Namespace) -> int:
    from passdown.cli.output import print_receipt

    with workspace_of(args) as workspace:
        receipt = workspace.create_task(args.task, agent=author(args), **_given_fields(args))
    return print_receipt(receipt, as_json=args.json)


def _task_set(args: Namespace) -> int:
    from passdown.cli.output import print_receipt

    with workspace_of(args) as workspace:
        receipt = workspace.update_task(
            args.task, agent=author(args), expect_version=args.expect_version, **_given_fields(args)
        )
    return print_receipt(receipt, as_json=args.json)


def _task_list(args: Namespace) -> int:
    from passdown.cli.output import print_json, table

    with workspace_of(args) as workspace:
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
    rows = [[_task_cell(entry, name, held) for name in names] for entry in found]
    table(names, rows, "no tasks", whole=names[:-1], short=("title",))
    return 0


def _task_cell(entry: JsonObject, name: str, held: set[str]) -> object:
    """A cell of the list."""
    if entry["task"] == WORKSPACE_TASK:
        # It has no phases, holders or ends; only its records count.
        return {"status": "no task", "phase": "", "holder": ""}.get(name, entry[name])
    return "held" if name == "status" and entry["task"] in held else entry[name]


def _task_show(args: Namespace) -> int:
    from passdown.cli.output import heading, pairs, print_items, print_json

    with workspace_of(args) as workspace:
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


def gate(parser: Parser) -> None:
    """The arguments of `gate` and the verbs below it."""
    found = parser.subverb(
        "list", "list gates", "passdown gate list", "passdown gate list T-1 --all", run=_gate_list
    )
    found.add_argument("task", metavar=TASK, nargs="?", default="")
    found.add_argument("--all", action="store_true", help="answered and recorded ones as well")
    with_store(found)
    approve = parser.subverb(
        "approve",
        "let a held task go on",
        "passdown gate approve T-1#k1 --by kim --reason 'seen and tried'",
        run=_gate_approve,
    )
    reject = parser.subverb(
        "reject",
        "say no, and why; the task has to be handed off anew",
        "passdown gate reject T-1#k1 --by kim --reason 'no migration without a backup'",
        run=_gate_reject,
    )
    for each in (approve, reject):
        each.add_argument("gate", metavar="ID", help="an address such as T-1#k1")
        each.add_argument("--reason", metavar="TEXT", default="", required=each is reject)
        with_agent(each, "--by", "the person who answers")
        with_store(each)
    record = parser.subverb(
        "record",
        "record the result of a quality gate",
        "passdown gate record T-1 --name lint --passed",
        "passdown gate record T-1 --name tests --failed --detail '2 of 40 failed'",
        run=_gate_record,
    )
    record.add_argument("task", metavar=TASK)
    record.add_argument("--name", metavar="NAME", required=True)
    result = record.add_mutually_exclusive_group(required=True)
    for name in ("passed", "failed"):
        action = result.add_argument(f"--{name}", dest="result", action="store_const", const=name)
        record.offers.append(action)
    record.add_argument("--detail", metavar="TEXT", default="")
    with_agent(record)
    with_store(record)


def _gate_list(args: Namespace) -> int:
    from passdown.cli.output import print_json, short_time, table, title_of

    with workspace_of(args) as workspace:
        found = workspace.gates(args.task, all=args.all)
    if args.json:
        print_json(found)
        return 0
    rows = [
        [
            gate["address"],
            gate["status"],
            title_of(gate),
            gate.get("answered_by") or gate.get("agent"),
            short_time(gate.get("answered_at") or gate.get("at")),
            gate.get("reason") or gate.get("detail"),
        ]
        for gate in found
    ]
    names = ("gate", "status", "about", "by", "at (UTC)", "reason")
    table(names, rows, "no gates", whole=("gate", "status", "by", "at (UTC)"))
    return 0


def _gate_approve(args: Namespace) -> int:
    from passdown.cli.output import print_receipt

    with workspace_of(args) as workspace:
        receipt = workspace.approve(args.gate, by=author(args), reason=args.reason)
        print_receipt(receipt, as_json=args.json)
        if not args.json:
            _next_after_approval(workspace, receipt.task_id)
            _next_of_run(workspace, args.gate, receipt.task_id)
    return 0


def _next_after_approval(workspace: Workspace, task: str) -> None:
    from passdown.cli.output import line

    others = [gate["address"] for gate in workspace.gates(task)]
    if others:
        line(f"{task} is still held by {', '.join(others)}")
        return
    line(f"approved: {workspace.task(task)['holder']} can go on with {task}")


def _next_of_run(workspace: Workspace, gate: str, task: str) -> None:
    """Say what becomes of the runs that waited for this answer."""
    from passdown.cli.output import line
    from passdown.cli.relays import resume_hint
    from passdown.errors import Damaged
    from passdown.relay.runs import Runs

    runs = Runs(workspace)
    for name in runs.positions():
        try:
            run = runs.get(name)
        except Damaged:
            continue
        waits = any(t.gate == gate and t.number not in run.followed for t in run.legs.values())
        if run.task == task and waits and not run.ended_at:
            line(resume_hint(workspace, run))


def _gate_reject(args: Namespace) -> int:
    from passdown.cli.output import line, print_receipt

    with workspace_of(args) as workspace:
        receipt = workspace.reject(args.gate, by=author(args), reason=args.reason)
        print_receipt(receipt, as_json=args.json)
        if not args.json:
            task = receipt.task_id
            holder = workspace.task(task)["holder"]
            line(f"rejected: {task} is back with {holder}, who hands it off anew")
            _next_of_run(workspace, args.gate, task)
    return 0


def _gate_record(args: Namespace) -> int:
    from passdown.cli.output import print_receipt

    with workspace_of(args) as workspace:
        receipt = workspace.record_gate(
            args.task,
            agent=author(args),
            name=args.name,
            passed=args.result == "passed",
            detail=args.detail,
        )
    return print_receipt(receipt, as_json=args.json)


def decide(parser: Parser) -> None:
    """The arguments of `decide`."""
    parser.show(
        "passdown decide 'JWT in an httpOnly cookie' --why 'scripts cannot read it' --task T-1",
        "passdown decide 'Sessions in Redis' --why 'logout at once' --task T-1 --supersedes T-1#d1",
        "passdown decide --tag auth,web --alternative JWT --alternative cookies 'Sessions' "
        "--why 'logout at once'",
    )
    parser.add_argument("summary", metavar="SUMMARY", help="what was decided")
    parser.add_argument("--why", metavar="TEXT", required=True, help="the reason")
    parser.add_argument("--task", metavar=TASK, help="default: it concerns all work")
    listed(parser, "--alternative", "TEXT", "what else was considered", "alternatives")
    listed(parser, "--path", "FILE", "a file that it governs", "paths")
    listed(parser, "--artifact", "TEXT", "what it is about", "artifacts")
    listed(parser, "--tag", TAG, "lowercase, hyphenated", "tags")
    listed(parser, "--supersedes", ITEM, "a decision that it replaces")
    parser.add_argument("--status", choices=DECISION_STATUSES, default="accepted")
    parser.add_argument("--expect-version", metavar="N", type=whole_number, help="worked from")
    _add_write_options(parser)
    parser.set_defaults(run=_decide)


def _add_write_options(parser: Parser) -> None:
    parser.add_argument("--key", help="makes a retry safe: the same key gives the same record")
    with_agent(parser)
    with_store(parser)


def _decide(args: Namespace) -> int:
    names = ("alternatives", "paths", "artifacts", "tags", "status", "supersedes")
    with workspace_of(args) as workspace:
        receipt = workspace.decide(
            agent=author(args),
            summary=args.summary,
            rationale=args.why,
            task=args.task,
            key=args.key,
            expect_version=args.expect_version,
            **{name: getattr(args, name) for name in names},
        )
    return print_receipt(receipt, as_json=args.json)


def note(parser: Parser) -> None:
    """The arguments of `note` and the verbs below it."""
    pattern = parser.subverb(
        "pattern",
        "record a way of doing things to keep to",
        "passdown note pattern 'errors carry a code' --location src/errors.py --tag errors",
        run=_note_pattern,
    )
    pattern.add_argument("pattern", metavar="TEXT")
    pattern.add_argument("--location", required=True, help="where it is used or defined")
    listed(pattern, "--tag", TAG, "what it applies to", "applies_to")
    gotcha = parser.subverb(
        "gotcha",
        "record something to watch out for",
        "passdown note gotcha 'the clock is UTC' --mitigation 'convert late' --severity high",
        run=_note_gotcha,
    )
    gotcha.add_argument("issue", metavar="TEXT")
    gotcha.add_argument("--mitigation", metavar="TEXT", required=True, help="how to avoid it")
    gotcha.add_argument("--severity", choices=LEVELS, required=True)
    gotcha.add_argument("--found-in", dest="discovered_in", metavar="TEXT", default="")
    for each in (pattern, gotcha):
        each.add_argument("--task", metavar=TASK, help="default: it concerns all work")
        _add_write_options(each)


def _note_pattern(args: Namespace) -> int:
    fields = {"pattern": args.pattern, "location": args.location, "applies_to": args.applies_to}
    return _record_note(args, "pattern", fields)


def _note_gotcha(args: Namespace) -> int:
    names = ("issue", "mitigation", "severity", "discovered_in")
    return _record_note(args, "gotcha", {name: getattr(args, name) for name in names})


def _record_note(args: Namespace, kind: str, fields: dict[str, Any]) -> int:
    with workspace_of(args) as workspace:
        receipt = workspace.note(kind, agent=author(args), task=args.task, key=args.key, **fields)
    return print_receipt(receipt, as_json=args.json)


def warn(parser: Parser) -> None:
    """The arguments of `warn`."""
    parser.show("passdown warn T-1 'the staging key expires on Friday'")
    parser.add_argument("task", metavar=TASK)
    parser.add_argument("text", metavar="TEXT")
    with_agent(parser)
    with_store(parser)
    parser.set_defaults(run=_warn)


def _warn(args: Namespace) -> int:
    with workspace_of(args) as workspace:
        receipt = workspace.warn(args.task, agent=author(args), text=args.text)
    return print_receipt(receipt, as_json=args.json)


def mark(parser: Parser) -> None:
    """The arguments of `mark`."""
    parser.show(
        "passdown mark T-1#b2 resolved --reason 'the key has come'",
        "passdown mark T-1#q1 answered --reason 'yes, both'",
        "passdown mark T-1#n3 done",
    )
    parser.add_argument("item", metavar="ITEM", help="an address such as T-1#b2")
    parser.add_argument(
        "status",
        metavar="STATUS",
        help="blocker: resolved; question: answered, dropped; step, reading: done, dropped; "
        "decision: accepted, reverted; pattern, gotcha, warning: retracted",
    )
    parser.add_argument("--reason", metavar="TEXT", default="")
    with_agent(parser)
    with_store(parser)
    parser.set_defaults(run=_mark)


def _mark(args: Namespace) -> int:
    with workspace_of(args) as workspace:
        receipt = workspace.set_status(
            args.item, args.status, agent=author(args), reason=args.reason
        )
    return print_receipt(receipt, as_json=args.json)

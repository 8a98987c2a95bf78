"""`gate`: what people and quality checks have to say before a task goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from passdown.surfaces.cli.parsing import TASK, with_agent, with_store
from passdown.surfaces.cli.session import author, opened

if TYPE_CHECKING:
    from argparse import Namespace

    from passdown.surfaces.cli.parsing import Parser
    from passdown.workspace import Workspace


def gate(parser: Parser) -> None:
    """The arguments of `gate` and the verbs below it."""
    found = parser.subverb(
        "list", "list gates", "passdown gate list", "passdown gate list T-1 --all", run=_list
    )
    found.add_argument("task", metavar=TASK, nargs="?", default="")
    found.add_argument("--all", action="store_true", help="answered and recorded ones as well")
    with_store(found)
    approve = parser.subverb(
        "approve",
        "let a held task go on",
        "passdown gate approve T-1#k1 --by kim --reason 'seen and tried'",
        run=_approve,
    )
    reject = parser.subverb(
        "reject",
        "say no, and why; the task has to be handed off anew",
        "passdown gate reject T-1#k1 --by kim --reason 'no migration without a backup'",
        run=_reject,
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
        run=_record,
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


def _list(args: Namespace) -> int:
    from passdown.surfaces.cli.items import title_of
    from passdown.surfaces.cli.printing import print_json, short_time, table

    with opened(args) as workspace:
        found = workspace.gates(args.task, open_only=not args.all)
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


def _approve(args: Namespace) -> int:
    from passdown.surfaces.cli.receipts import print_receipt

    with opened(args) as workspace:
        receipt = workspace.approve(args.gate, by=author(args), reason=args.reason)
        print_receipt(receipt, as_json=args.json)
        if not args.json:
            _next_after_approval(workspace, receipt.task_id)
            _next_of_run(workspace, args.gate, receipt.task_id)
    return 0


def _next_after_approval(workspace: Workspace, task: str) -> None:
    from passdown.surfaces.cli.printing import line

    others = [gate["address"] for gate in workspace.gates(task)]
    if others:
        line(f"{task} is still held by {', '.join(others)}")
        return
    line(f"approved: {workspace.task(task)['holder']} can go on with {task}")


def _next_of_run(workspace: Workspace, gate: str, task: str) -> None:
    """Say what becomes of the runs that waited for this answer."""
    from passdown.errors import Damaged
    from passdown.relay.runs import Runs
    from passdown.surfaces.cli.printing import line
    from passdown.surfaces.cli.run_holding import who_goes_on

    runs = Runs(workspace)
    for name in runs.positions():
        try:
            run = runs.get(name)
        except Damaged:
            continue
        waits = any(t.gate == gate and t.number not in run.followed for t in run.legs.values())
        if run.task == task and waits and not run.ended_at:
            line(who_goes_on(workspace, run))


def _reject(args: Namespace) -> int:
    from passdown.surfaces.cli.printing import line
    from passdown.surfaces.cli.receipts import print_receipt

    with opened(args) as workspace:
        receipt = workspace.reject(args.gate, by=author(args), reason=args.reason)
        print_receipt(receipt, as_json=args.json)
        if not args.json:
            task = receipt.task_id
            holder = workspace.task(task)["holder"]
            line(f"rejected: {task} is back with {holder}, who hands it off anew")
            _next_of_run(workspace, args.gate, task)
    return 0


def _record(args: Namespace) -> int:
    from passdown.surfaces.cli.receipts import print_receipt

    with opened(args) as workspace:
        receipt = workspace.record_gate(
            args.task,
            agent=author(args),
            name=args.name,
            passed=args.result == "passed",
            detail=args.detail,
        )
    return print_receipt(receipt, as_json=args.json)

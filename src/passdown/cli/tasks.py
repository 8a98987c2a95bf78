"""`task`, `gate`, `decide`, `note`, `warn` and `mark`: tasks, gates and single entries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from passdown.cli.output import (
    heading,
    line,
    pairs,
    print_items,
    print_receipt,
    short_time,
    table,
    title_of,
)
from passdown.cli.parsing import Author, command, operation
from passdown.core.kinds import PHASES, TASK_STATUSES, WORKSPACE_TASK

if TYPE_CHECKING:
    from passdown.cli.session import Session
    from passdown.core.results import Receipt
    from passdown.core.types import JsonObject
    from passdown.workspace import Workspace

_GATE = "ID: an address such as T-1#k1"


def _print_tasks(found: list[JsonObject]) -> None:
    names = ("task", "status", "phase", "holder", "version", "title")
    rows = [[_task_cell(entry, name) for name in names] for entry in found]
    table(names, rows, "no tasks", whole=names[:-1], short=("title",))


def _task_cell(entry: JsonObject, name: str) -> object:
    if entry["task"] == WORKSPACE_TASK:
        # It has no phases, holders or ends; only its records count.
        return {"status": "no task", "phase": "", "holder": ""}.get(name, entry[name])
    return "held" if name == "status" and entry["held"] else entry[name]


def _print_task(found: JsonObject) -> None:
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
            ("created", f"{found['created_at']} by {found['created_by']}"),
            ("updated", found["updated_at"]),
        ],
        2,
    )
    print_items("open", found["open"])


def _print_gates(found: list[JsonObject]) -> None:
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


operation(
    "task new",
    print_receipt,
    "T-1 --title 'Login form' --criterion 'a wrong password is refused'",
    "T-3 --title 'Tests for login' --needs T-1,T-2 --phase testing",
    line="create a task",
    shape="TaskFields",
    help={"task": "ID: ASCII letters, digits, '.', '_' and '-'"},
)


@command(
    "task list",
    "--status open",
    "--agent coder --json",
    "--all",
    like="tasks",
    flags={"with_workspace": "--all"},
    choices={"status": TASK_STATUSES, "phase": PHASES},
)
def task_list(session: Session, **filters: Any) -> None:
    """List tasks."""
    with session.open() as workspace:
        held = {gate.task for gate in workspace.gates() if gate.status == "pending"}
        found = [{**e.to_dict(), "held": e.task in held} for e in workspace.tasks(**filters)]
    session.show(found, _print_tasks)


operation("task show", _print_task, "T-1", line="show one task")
operation(
    "task set",
    print_receipt,
    "T-1 --title 'Login form and logout'",
    "T-1 --status cancelled --expect-version 4",
    line="change a task",
    shape="TaskFields",
    without=("phase",),
    changes={"status": "str"},
    choices={"status": ("open", "cancelled")},
    help={"status": "its new status"},
)
operation("gate list", _print_gates, "", "T-1 --all", line="list gates")


@command("gate approve", "T-1#k1 --by kim --reason 'seen and tried'", help={"gate": _GATE})
def gate_approve(session: Session, gate: str, *, reason: str = "", by: Author) -> None:
    """Let a held task continue."""
    with session.open() as workspace:
        receipt = workspace.approve(gate, by=by, reason=reason)
        session.show(receipt, print_receipt)
        if session.as_json:
            return
        others = [each.address for each in workspace.gates(receipt.task_id)]
        if others:
            line(f"{receipt.task_id} is still held by {', '.join(others)}")
        else:
            holder = workspace.task(receipt.task_id).holder
            line(f"approved: {holder} can continue with {receipt.task_id}")
        _print_waiting_runs(workspace, gate, receipt)


@command(
    "gate reject",
    "T-1#k1 --by kim --reason 'no migration without a backup'",
    help={"gate": _GATE},
)
def gate_reject(session: Session, gate: str, *, reason: str, by: Author) -> None:
    """Say no, and why; the task has to be handed off again."""
    with session.open() as workspace:
        receipt = workspace.reject(gate, by=by, reason=reason)
        session.show(receipt, print_receipt)
        if session.as_json:
            return
        holder = workspace.task(receipt.task_id).holder
        line(f"rejected: {receipt.task_id} is back with {holder}, who has to hand it off again")
        _print_waiting_runs(workspace, gate, receipt)


def _print_waiting_runs(workspace: Workspace, gate: str, receipt: Receipt) -> None:
    """Say what happens to the runs that waited for this answer."""
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
        if run.task == receipt.task_id and waits and not run.ended_at:
            line(resume_hint(workspace, run))


@command(
    "gate record",
    "T-1 --name lint --passed",
    "T-1 --name tests --failed --detail '2 of 40 failed'",
    like="record_gate",
    exclusive=("passed", "failed"),
    is_one_needed=True,
    help={"name": "NAME: of the gate"},
)
def gate_record(
    session: Session, task: str, *, passed: bool = False, failed: bool = False, **options: Any
) -> None:
    """Record the result of a quality gate."""
    with session.open() as workspace:
        receipt = workspace.record_gate(task, passed=passed and not failed, **options)
    session.show(receipt, print_receipt)


operation(
    "decide",
    print_receipt,
    "'JWT in an httpOnly cookie' --why 'scripts cannot read it' --task T-1",
    "'Sessions in Redis' --why 'logout at once' --task T-1 --supersedes T-1#d1",
    "--tag auth,web --alternative JWT --alternative cookies 'Sessions' --why 'logout at once'",
    shape="Decision",
    positional=("summary",),
    without=("at",),
    flags={"rationale": "--why", "supersedes": "--supersedes"},
    help={"summary": "SUMMARY: what was decided"},
)
operation(
    "note pattern",
    print_receipt,
    "'errors carry a code' --location src/errors.py --tag errors",
    method="note",
    line="record a way of doing things to keep to",
    fixed={"kind": "pattern"},
    shape="Pattern",
    positional=("pattern",),
    without=("id",),
    flags={"applies_to": "--tag"},
)
operation(
    "note gotcha",
    print_receipt,
    "'the clock is UTC' --mitigation 'convert late' --severity high",
    method="note",
    line="record something to watch out for",
    fixed={"kind": "gotcha"},
    shape="Gotcha",
    positional=("issue",),
    without=("id",),
    flags={"discovered_in": "--found-in"},
)
operation("warn", print_receipt, "T-1 'the staging key expires on Friday'", positional=("text",))
operation(
    "mark",
    print_receipt,
    "T-1#b2 resolved --reason 'the key has come'",
    "T-1#q1 answered --reason 'yes, both'",
    "T-1#n3 done",
    help={
        "status": "STATUS: blocker: resolved; question: answered, dropped; step, reading: done, "
        "dropped; decision: accepted, reverted; pattern, gotcha, warning: retracted",
    },
)

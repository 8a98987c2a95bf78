"""`task`, `gate`, `check`, `decide`, `note`, `warn` and `mark`: tasks, gates and single entries."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any

from passdown.cli.output import (
    line,
    print_command,
    print_items,
    print_receipt,
    row_printer,
    title_of,
    value_printer,
)
from passdown.cli.parsing import command, operation, seconds
from passdown.cli.session import UsageError
from passdown.core.kinds import PHASES, TASK_STATUSES, WORKSPACE_TASK
from passdown.core.text import visible

if TYPE_CHECKING:
    from passdown.cli.session import Session
    from passdown.core.results import Receipt
    from passdown.core.types import JsonObject
    from passdown.core.views import TaskOverview
    from passdown.workspace import Workspace


def _with_held(workspace: Workspace, found: list[TaskOverview]) -> list[JsonObject]:
    held = {gate.task for gate in workspace.gates() if gate.status == "pending"}
    return [{**entry.to_dict(), "held": entry.task in held} for entry in found]


def _of_task(entry: JsonObject, name: str, otherwise: str = "") -> object:
    """A field of a task; the workspace's own stream has no phases, holders or ends."""
    return entry[name] if entry["task"] != WORKSPACE_TASK else otherwise


_print_fields = value_printer(
    "status, phase, holder, version, description, inputs, outputs, criteria, "
    "time limit=time_limit_minutes, needs, needed_by, blocked_by, created=created_at, "
    "updated=updated_at",
    lambda found: f"{found['task']}  {found['title']}",
    criteria=lambda found: "\n".join(found.get("criteria", ())),
    time_limit_minutes=lambda found: (
        (limit := found.get("time_limit_minutes")) and f"{limit} minutes"
    ),
    created_at=lambda found: f"{found['created_at']} by {found['created_by']}",
)


def _print_task(found: JsonObject) -> None:
    _print_fields(found)
    print_items("open", found["open"])


@command(
    "task new",
    "'Login form' --criterion 'a wrong password is refused'",
    "'Tests for login' --id T-3 --needs T-1,T-2 --phase testing",
    "T-4 --title 'Logout form'",
    like="create_task",
    shape="TaskFields",
    help={
        "task": "TITLE: what has to be done; or the id, with --title",
        "title": "TEXT: what has to be done, where the id comes first",
        "id": "ID: ASCII letters, digits, '.', '_' and '-'; default: made from the title",
    },
)
def task_new(
    session: Session, task: str, *, title: str | None = None, id: str | None = None, **options: Any
) -> None:
    """Create a task."""
    if title is not None and id is not None:
        raise UsageError("the id is given twice: --id goes with a title alone")
    if title is None and id is None and _ID.fullmatch(task):
        raise UsageError(f"{task} reads like an id; name the title too: {task} --title TEXT")
    named, title = (task, title) if title is not None else (id, task)
    given = {name: value for name, value in options.items() if value not in (None, [], "")}
    with session.open() as workspace:
        receipt = workspace.create_task(named, title=title, **given)
    session.show(receipt, print_receipt)


_ID = re.compile(r"[A-Za-z]+[-_.]?[0-9]+")


operation(
    "task list",
    row_printer(
        "task, status, phase, holder, version, title",
        "no tasks",
        short="title",
        status=lambda entry: "held" if entry["held"] else _of_task(entry, "status", "no task"),
        phase=lambda entry: _of_task(entry, "phase"),
        holder=lambda entry: _of_task(entry, "holder"),
    ),
    "--status open",
    "--agent coder --json",
    "--all",
    line="list tasks",
    finish=_with_held,
    flags={"with_workspace": "--all"},
    choices={"status": TASK_STATUSES, "phase": PHASES},
    help={
        "agent": "only tasks that this agent holds",
        "with_workspace": "also the workspace's own",
    },
)
operation("task show", _print_task, "T-1", line="show one task")
operation(
    "task set",
    print_receipt,
    "T-1 --title 'Login form and logout'",
    "T-1 --status cancelled --expect-version 4",
    line="change a task",
    shape="TaskFields",
    without=("phase",),
    fields={"status": "str"},
    needs_none=True,
    choices={"status": ("open", "cancelled")},
    help={
        "status": "its new status; a handoff completes a task",
        "holder": "AGENT: who works on it until the next handoff; empty for nobody",
        "take": "take it from whoever works on it",
    },
)


@command(
    "task done",
    "T-1 --summary 'the form works, with tests'",
    "T-1 --despite 'the failed gate is flaky'",
    flags={"from_agent": "--from"},
    help={
        "from_agent": "AGENT: who completes it; default: PASSDOWN_AGENT, else its holder",
        "summary": "TEXT: the state of the work",
        "despite": "TEXT: why it is completed over what is open",
    },
)
def task_done(
    session: Session, task: str, *, from_agent: str = "", summary: str = "", despite: str = ""
) -> None:
    """Complete a task: the handoff of its last agent.

    Again, with nothing to say, it does nothing.
    """
    import os

    from passdown.core.results import Receipt

    given: dict[str, Any] = {
        "from_agent": from_agent or os.environ.get("PASSDOWN_AGENT", ""),
        "summary": summary,
        "despite": despite,
    }
    with session.open() as workspace:
        before = workspace.task(task)
        if before.status == "completed" and not (summary or despite):
            again = Receipt(task, before.version, before.digest, is_replay=True)
            session.show(again, print_receipt)
            return
        receipt = workspace.hand_off(task=task, outcome="completed", phase="completed", **given)
    session.show(receipt, print_command)


operation(
    "gate list",
    row_printer(
        "gate=address, status, about, by, at (UTC)=at, reason",
        "no gates",
        whole="gate,status,by,at (UTC)",
        about=title_of,
        by=lambda gate: gate.get("answered_by") or gate.get("agent"),
        at=lambda gate: gate.get("answered_at") or gate.get("at"),
        reason=lambda gate: gate.get("reason") or gate.get("detail"),
    ),
    "",
    "T-1 --all",
    line="list gates",
)


def _print_continuation(workspace: Workspace, receipt: Receipt, given: JsonObject) -> None:
    """Say who continues after a gate was answered, and what happens to the runs that waited."""
    from passdown.cli.relays import resume_hint
    from passdown.errors import Damaged
    from passdown.relay.runs import Runs

    task, gate = workspace.task(receipt.task), given["gate"]
    others = [each.address for each in workspace.gates(task.task) if each.kind == "human"]
    if workspace.show(gate).to_dict()["status"] == "rejected":
        line(f"rejected: {task.task} is back with {task.holder}, who has to hand it off again")
    elif others:
        line(f"{task.task} is still held by {', '.join(others)}")
    else:
        line(f"approved: {task.holder} can continue with {task.task}")
    runs = Runs(workspace)
    for name in runs.positions():
        try:
            run = runs.get(name)
        except Damaged:
            continue
        waits = any(t.gate == gate and t.number not in run.followed for t in run.legs.values())
        if run.task == task.task and waits and not run.ended_at:
            line(resume_hint(workspace, run.run, run.lane))


for _verb, _line, _example in (
    ("gate approve", "let a held task continue", "T-1#k1 --by kim --reason 'seen and tried'"),
    (
        "gate reject",
        "say no, and why; the task has to be handed off again",
        "T-1#k1 --by kim --reason 'no migration without a backup'",
    ),
):
    operation(
        _verb,
        print_receipt,
        _example,
        line=_line,
        hint=_print_continuation,
        without=("key",),
        help={"gate": "ID: an address such as T-1#k1"},
    )


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
    flags={"rationale": "--why", "supersedes": "--supersedes"},
    help={"summary": "SUMMARY: what was decided"},
)
for _kind, _text, _line, _example in (
    (
        "pattern",
        "pattern",
        "record a way of doing things to keep to",
        "'errors carry a code' --location src/errors.py --tag errors",
    ),
    (
        "gotcha",
        "issue",
        "record something to watch out for",
        "'the clock is UTC' --mitigation 'convert late' --severity high",
    ),
):
    operation(
        f"note {_kind}",
        print_receipt,
        _example,
        method="note",
        line=_line,
        fixed={"kind": _kind},
        shape=_kind.capitalize(),
        positional=(_text,),
        without=("id",),
        flags={"applies_to": "--tag", "discovered_in": "--found-in"},
    )
operation(
    "note fact",
    print_receipt,
    "port 8080 --task T-1 --status verified --source config/app.toml",
    "port --task T-1 --status withdrawn",
    method="note",
    line="record a value that holds until its name has another",
    fixed={"kind": "fact"},
    shape="Fact",
    fields={"name": "str"},
    positional=("name", "value"),
    help={"name": "NAME: what it is about, in a few words", "value": "its value"},
)
_print_checked = row_printer(
    "item=address, status, what=text, result", "nothing to check", whole=""
)


@command(
    "check",
    "T-1",
    "T-1 --run --timeout 600",
    like="context.check_preconditions",
    flags={"timeout_s": "--timeout"},
    types={"timeout_s": seconds},
    help={
        "run": "run the commands too, without asking",
        "timeout_s": "SECONDS: how long a command may take",
    },
)
def check(session: Session, task: str, *, run: bool = False, **options: Any) -> int:
    """Check what the latest handoff wants checked before work goes on.

    Files are measured; each command is shown and runs only after a yes, or with --run. What was
    found is recorded and shown in the next brief. Exit code 1 unless everything has passed.
    """
    with session.open() as workspace:
        checked = workspace.context.check_preconditions(
            task, run=_say_command if run else _ask_for_command, **options
        )
    session.show([each.to_dict() for each in checked], _print_checked)
    return int(any(each.status != "passed" for each in checked))


def _tell(text: str) -> None:
    """Say something beside the result; of a command, which is a stranger's text, nothing hides."""
    print(visible(text), file=sys.stderr, flush=True)


def _say_command(command: str) -> bool:
    _tell(f"runs: {command}")
    return True


def _ask_for_command(command: str) -> bool:
    """Whether a person at a terminal lets a command run; without one it doesn't."""
    _tell(f"a handoff wants this command to run here: {command}")
    if not sys.stdin.isatty():
        _tell("not run: nobody can be asked; --run runs it")
        return False
    _tell("run it? [y/N]")
    return sys.stdin.readline().strip().lower() in ("y", "yes")


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

"""`ready`, `start`, `status`, `task`, `gate`, `check`, `decide`, `note`, `warn` and `mark`: what to
work on, tasks, gates and single entries.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any

from passdown.cli import output as out
from passdown.cli.parsing import (
    PHASE,
    Author,
    Budget,
    command,
    full_address,
    operation,
    seconds,
)
from passdown.cli.session import UsageError
from passdown.core.calls import COMMANDS
from passdown.core.items import one_line
from passdown.core.kinds import READY, TASK_STATUSES, WAITING, WORKSPACE_TASK
from passdown.core.names import id_problems
from passdown.core.text import excerpt, visible
from passdown.errors import GateRefused, InvalidInput, NotFound, Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from passdown.cli.session import Session
    from passdown.core.results import Receipt, TaskOverview
    from passdown.core.types import JsonObject
    from passdown.workspace import Workspace

_SHOWN = 5
"""How many of each kind `status` lists."""
_LOOKED_AT = 100
"""Among how many records it looks for the last handoffs, and how many tasks `start` tries."""
_LONGEST = 200
"""How much is shown of a long title."""


_print_ready = out.row_printer(
    "task, phase, changed=updated_at, why, title",
    "",
    short="title",
    updated_at=lambda entry: out.ago(entry["updated_at"]),
    title=lambda entry: _short(entry["title"]),
)


@command(
    "ready",
    "",
    "--agent coder --json",
    help={"agent": "AGENT: for whom"},
)
def ready(session: Session, *, agent: Author = "", limit: int = 20) -> None:
    """List what can be worked on now, the best first.

    Open tasks that wait for no other task, no other agent and no person.
    """
    with session.open() as workspace, out.busy("reading"):
        found = workspace.tasks(status=READY, agent=agent, limit=limit)
        none = "" if found or session.as_json else _none_ready(workspace, agent)
    session.show(found, lambda rows: _print_ready(rows) if rows else out.line(none))


def _none_ready(workspace: Workspace, agent: str) -> str:
    """The message that nothing is ready, with who else has work and what blocks the rest."""
    waiting = workspace.tasks(status=WAITING, agent=agent, limit=_LOOKED_AT)
    others = [each.holder for each in waiting if each.why == f"waits for {each.holder}"]
    if others:
        first, number = others[0], out.counted(others.count(others[0]), "task")
        waits = f"{number} {'waits' if others.count(first) == 1 else 'wait'} for {first}"
        return f"nothing is ready for you; {waits}: passdown ready --agent {first}"
    entries = workspace.maintenance.attention().entries
    held = {entry["task"] for entry in entries if entry["kind"] in ("gate", "blocked")}
    if held:
        said = out.counted(len(held), "task is", "tasks are")
        return f"nothing is ready; {said} blocked or waiting for a person: passdown shows why"
    return "nothing is ready; passdown start 'TITLE' makes a task"


@command(
    "start",
    "",
    "T-1 --agent coder",
    "'Log out on every device'",
    help={
        "task": "TASK: a task, or the title of a new one, of several words; default: the first "
        "that is ready",
        "agent": "AGENT: who works on it",
        "take": "take it from the agent that works on it",
    },
)
def start(
    session: Session,
    task: str | None = None,
    *,
    agent: Author = "",
    take: bool = False,
    budget: Budget | None = None,
) -> None:
    """Take a task, or make one, and print its brief.

    What is one word is the id of a task that is there; passdown task new makes tasks of any title.
    """
    with session.open() as workspace, out.busy("starting"):
        is_new = task is not None and len(task.split()) > 1
        warnings: list[Problem] = []
        if task is not None and is_new:
            made = workspace.create_task(title=task, agent=agent)
            task, warnings = made.task, list(made.warnings)
        if task is None:
            taken = _take_first(workspace, agent)
        else:
            name = _existing(workspace, task)
            taken = workspace.update_task(name, agent=agent, holder=agent, take=take)
        # With a server, whoever is named, it is the holder of the token.
        holder = workspace.task(taken.task).claimed_by or agent
        brief = workspace.brief(taken.task, agent=holder, budget=budget, names=COMMANDS)
        warnings = list(dict.fromkeys((*warnings, *taken.warnings)))
    found: JsonObject = {"task": taken.task, "agent": holder, "is_new": is_new}
    found |= {"brief": brief.to_dict(), "warnings": [each.to_dict() for each in warnings]}
    session.show(found, lambda found: _print_started(found, warnings))


def _existing(workspace: Workspace, named: str) -> str:
    """The id of a task that is there."""
    if not id_problems(named, "task") and named != WORKSPACE_TASK:
        try:
            return workspace.task(named).task
        except NotFound:
            pass
    raise NotFound(
        f"there is no task {excerpt(named)!r}",
        next_step="passdown task list shows all. To make one, quote a title of several words, or "
        "use passdown task new.",
    )


def _take_first(workspace: Workspace, agent: str) -> Receipt:
    """Take the best that is ready; the next where another agent was quicker."""
    for each in workspace.tasks(status=READY, agent=agent, limit=_LOOKED_AT):
        try:
            return workspace.update_task(each.task, agent=agent, holder=agent)
        except InvalidInput as error:
            if not {problem.code for problem in error.problems} <= _NOT_FREE:
                raise
    none = _none_ready(workspace, agent)
    raise NotFound(none, next_step="Name a task, or the title of a new one.")


_NOT_FREE = {"claimed", "not_open", "waits"}
"""Why a task that was ready can't be taken any more."""


def _print_started(found: JsonObject, warnings: list[Problem]) -> None:
    made = "new task" if found["is_new"] else "working on"
    out.line(f"{made} {found['task']} as {found['agent']}")
    out.print_problems(warnings)
    out.line()
    out.verbatim(found["brief"]["text"].removesuffix("\n"))


@command("status", "", "--agent coder --json", help={"agent": "AGENT: for whom"})
def status(session: Session, *, agent: Author = "") -> None:
    """Show where things stand: what is ready, what waits for a person, the last handoffs."""
    with session.open() as workspace, out.busy("reading"):
        found: JsonObject = {
            "agent": agent,
            "attention": workspace.maintenance.attention().entries,
            "ready": [each.to_dict() for each in workspace.tasks(status=READY, agent=agent)],
            "begun": [
                each.to_dict()
                for each in workspace.tasks(status="open")
                if each.claimed_by and each.claimed_by != agent
            ],
            "waiting": [each.to_dict() for each in workspace.tasks(status=WAITING, agent=agent)],
            "handoffs": [
                each.to_dict() for each in workspace.log(limit=_LOOKED_AT) if each.kind == "handoff"
            ][:_SHOWN],
        }
    session.show(found, _print_status)


def _section(
    title: str, entries: list[JsonObject], *fields: str | Callable[[JsonObject], str]
) -> None:
    """A heading, and one line for each of the first entries."""
    if not entries:
        return
    out.heading(f"{title} ({len(entries)})" if len(entries) > _SHOWN else title)
    for entry in entries[:_SHOWN]:
        texts = [entry[field] if isinstance(field, str) else field(entry) for field in fields]
        name, *rest = (_short(text) for text in texts if text)
        out.labelled(name, "cyan", "  ".join(rest), 2)
    out.line()


def _short(text: str) -> str:
    """A stored text on one line, so that it can't look like others, and of a long one the
    beginning.
    """
    return out.cut(one_line(text), _LONGEST)


def _print_status(found: JsonObject) -> None:
    agent, waiting = found["agent"], found["ready"]
    entries: list[JsonObject] = found["attention"]
    for kind, title in _ATTENTION.items():
        _section(
            title,
            [entry for entry in entries if entry["kind"] == kind],
            lambda entry: entry["task"] if entry["kind"] == "blocked" else entry["address"],
            "title",
            lambda entry: _remark(": ".join(filter(None, (str(entry["detail"]), _command(entry))))),
        )
    _section(f"Ready for {agent}", waiting, "task", "title", lambda each: _remark(each["why"]))
    _section("Worked on", found["begun"], "task", "title", lambda each: _remark(each["holder"]))
    _section("Waiting", found["waiting"], "task", "title", lambda each: _remark(each["why"]))
    _section(
        "Last handoffs",
        found["handoffs"],
        "task",
        "summary",
        lambda each: f"({out.ago(each['at'])})",
    )
    if not any((waiting, entries, found["begun"], found["waiting"])):
        out.line("Nothing is open.")
    commands = [f"passdown start {waiting[0]['task']}"] if waiting else list(map(_command, entries))
    following = next((text for text in commands if text), "passdown start 'TITLE'")
    out.line(f"Next: {following}  (all verbs: passdown help)")


_ATTENTION = {
    "gate": "Waits for a person",
    "question": "Questions",
    "failed_gate": "Failed gates",
    "run": "Runs that wait or have stopped",
    "failed": "Failed",
    "blocked": "Blocked",
    "silent": "Silent for an hour or more",
}
"""The kinds of `attention` that `status` lists, each with its heading."""


def _command(entry: JsonObject) -> str:
    """The command that settles an entry, where it is one."""
    address = entry["address"]
    if "approve" in entry["next"]:
        return f"passdown gate approve {address} --by NAME"
    if entry["kind"] == "question":
        return f"passdown mark {address} answered --reason TEXT"
    return f"passdown mark {address} resolved" if entry["next"] == ["set_status"] else ""


def _remark(text: str) -> str:
    return f"({text})" if text else ""


def _with_held(workspace: Workspace, found: list[TaskOverview]) -> list[JsonObject]:
    held = {gate.task for gate in workspace.gates() if gate.status == "pending"}
    return [{**entry.to_dict(), "held": entry.task in held} for entry in found]


def _of_task(entry: JsonObject, name: str, otherwise: str = "") -> object:
    """A field of a task; the workspace's own stream has no phases, holders or ends."""
    return entry[name] if entry["task"] != WORKSPACE_TASK else otherwise


_print_fields = out.value_printer(
    "status, phase, holder, version, description, inputs, outputs, criteria, "
    "time limit=time_limit_minutes, needs, needed_by, blocked_by, created=created_at, "
    "updated=updated_at",
    lambda found: f"{found['task']}  {found['title']}",
    criteria=lambda found: "\n".join(found.get("criteria", ())),
    time_limit_minutes=lambda found: (
        (limit := found.get("time_limit_minutes")) and f"{limit} minutes"
    ),
    created_at=lambda found: f"{out.moment(found['created_at'])}, by {found['created_by']}",
)


def _print_task(found: JsonObject) -> None:
    _print_fields(found)
    out.print_items("open", found["open"])


@command(
    "task new",
    "'Login form' --criterion 'a wrong password is refused'",
    "'Tests for login' --id T-3 --needs T-1,T-2 --phase testing",
    "T-4 --title 'Logout form'",
    like="create_task",
    shape="TaskFields",
    names_task=True,
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
    session.show(receipt, out.print_receipt)


_ID = re.compile(r"[A-Za-z]+[-_.]?[0-9]+")


operation(
    "task list",
    out.row_printer(
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
    choices={"status": TASK_STATUSES},
    help={
        "agent": "only tasks that this agent holds",
        "status": "only tasks with this status",
        "phase": f"{PHASE}: only tasks in this phase",
        "with_workspace": "also the workspace's own",
    },
)
operation("task show", _print_task, "T-1", line="show one task")
operation(
    "task set",
    out.print_receipt,
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
    flags={"from_agent": "--from", "resolves": "--resolves"},
    help={
        "from_agent": "AGENT: who completes it; default: PASSDOWN_AGENT, else its holder",
        "summary": "TEXT: the state of the work",
        "despite": "TEXT: why it is completed over what is open",
        "resolves": "ITEM: an open item that is settled",
    },
)
def task_done(
    session: Session,
    task: str,
    *,
    from_agent: str = "",
    summary: str = "",
    despite: str = "",
    resolves: Sequence[str] = (),
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
        "resolves": [full_address(item, task) for item in resolves],
    }
    from passdown.cli.handoffs import by_flag, in_flags

    with session.open() as workspace:
        before = workspace.task(task)
        if before.status == "completed" and not (summary or despite or resolves):
            again = Receipt(task, before.version, before.digest, is_replay=True)
            session.show(again, out.print_receipt)
            return
        try:
            receipt = workspace.hand_off(task=task, outcome="completed", phase="completed", **given)
        except GateRefused as error:
            problems = [in_flags(problem) for problem in error.problems]
            raise GateRefused(error.message, problems, next_step=error.next_step) from error
    # Of what a handoff should have, only the summary is left to say at the end.
    told = [w for w in receipt.warnings if w.code != "recommended" or w.path == "summary"]
    receipt = receipt._replace(warnings=by_flag(session, told))
    session.show(receipt, out.print_command)


operation(
    "gate list",
    out.row_printer(
        "gate=address, status, about, by, at (UTC)=at, reason",
        "no gates",
        whole="gate,status,by,at (UTC)",
        about=out.title_of,
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
    others = [each.address for each in workspace.gates(task.task) if each.holds]
    if workspace.show(gate).to_dict()["status"] == "rejected":
        out.line(f"rejected: {task.task} is back with {task.holder}, who has to hand it off again")
    elif others:
        out.line(f"{task.task} is still held by {', '.join(others)}")
    else:
        out.line(f"approved: {task.holder} can continue with {task.task}")
    runs = Runs(workspace)
    for name in runs.positions():
        try:
            run = runs.get(name)
        except Damaged:
            continue
        waits = any(t.gate == gate and t.number not in run.followed for t in run.legs.values())
        if run.task == task.task and waits and not run.ended_at:
            out.line(resume_hint(workspace, run.run, run.lane))


for _verb, _line, _example in (
    ("gate approve", "let a held task continue", "T-1#k1 --by kim --reason 'seen and tried'"),
    (
        "gate reject",
        "reject it with a reason; the task has to be handed off again",
        "T-1#k1 --by kim --reason 'no migration without a backup'",
    ),
):
    operation(
        _verb,
        out.print_receipt,
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
    session.show(receipt, out.print_receipt)


def _print_scope(_: Workspace, receipt: Receipt, __: JsonObject) -> None:
    """Say that an entry without a task is for all of them, which isn't always meant."""
    if receipt.task == WORKSPACE_TASK:
        out.line("it concerns all work, and is in the brief of every task")


_ITS_TASK = (
    f"default: the one you work on, the only open one, or the branch's; {WORKSPACE_TASK}: all work"
)
operation(
    "decide",
    out.print_receipt,
    "'JWT in a cookie' --why 'scripts cannot read it'",
    "'Sessions in Redis' --why 'logout at once' --supersedes T-1#d1",
    "'Sessions' --why 'logout at once' --tag auth --task workspace",
    hint=_print_scope,
    finds_task=True,
    shape="Decision",
    positional=("summary",),
    flags={"rationale": "--why", "supersedes": "--supersedes", "at": "--time"},
    help={"summary": "SUMMARY: what was decided", "task": _ITS_TASK},
)
for _kind, _text, _line, _example in (
    (
        "pattern",
        "pattern",
        "record a way of doing things to keep to",
        "'errors carry a code' --location src/errors.py",
    ),
    (
        "gotcha",
        "issue",
        "record something to watch out for",
        "'the clock is UTC' --mitigation 'convert late'",
    ),
):
    operation(
        f"note {_kind}",
        out.print_receipt,
        _example,
        method="note",
        hint=_print_scope,
        line=_line,
        fixed={"kind": _kind},
        shape=_kind.capitalize(),
        positional=(_text,),
        without=("id",),
        finds_task=True,
        help={"task": _ITS_TASK},
        flags={"applies_to": "--tag", "discovered_in": "--found-in"},
        defaults={"severity": "medium"},
    )
operation(
    "note fact",
    out.print_receipt,
    "port 8080 --status verified --source config/app.toml",
    "port --status withdrawn",
    method="note",
    line="record a value that holds until its name has another",
    fixed={"kind": "fact"},
    shape="Fact",
    fields={"name": "str"},
    positional=("name", "value"),
    finds_task=True,
    help={
        "name": "NAME: what it is about, in a few words",
        "value": "its value",
        "task": _ITS_TASK,
    },
)
_print_checked = out.row_printer(
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


operation(
    "warn", out.print_receipt, "T-1 'the staging key expires on Friday'", positional=("text",)
)
operation(
    "mark",
    out.print_receipt,
    "T-1#b2 resolved --reason 'the key has come'",
    "T-1#q1 answered --reason 'yes, both'",
    "T-1#n3 done",
    help={
        "status": "STATUS: blocker: resolved; question: answered, dropped; step, reading: done, "
        "dropped; decision: accepted, reverted; pattern, gotcha, warning: retracted",
    },
)

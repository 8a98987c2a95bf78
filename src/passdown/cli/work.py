"""`ready`, `start` and `status`: what can be worked on, taking it, and where things stand."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from passdown.cli.output import cut, heading, line, print_problems, row_printer, verbatim
from passdown.cli.parsing import Author, command
from passdown.core.items import one_line
from passdown.core.kinds import READY, WAITING, WORKSPACE_TASK
from passdown.core.names import id_problems
from passdown.core.text import excerpt
from passdown.core.times import parse_time
from passdown.errors import InvalidInput, NotFound, Problem

if TYPE_CHECKING:
    from collections.abc import Callable

    from passdown.cli.parsing import Budget
    from passdown.cli.session import Session
    from passdown.core.results import Receipt
    from passdown.core.types import JsonObject
    from passdown.workspace import Workspace

_SHOWN = 5
"""How many of each kind `status` lists."""
_LOOKED_AT = 100
"""Among how many records it looks for the last handoffs, and how many tasks `start` tries."""
_LONGEST = 200
"""How much is shown of a long title."""


def ago(at: str) -> str:
    """How long ago a time was, in its largest unit."""
    seconds = max(0, round((datetime.now(UTC) - parse_time(at)).total_seconds()))
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{seconds // length} {unit} ago"
    return "just now"


_print_ready = row_printer(
    "task, phase, changed=updated_at, why, title",
    "nothing is ready; passdown start 'TITLE' makes a task, passdown task list shows all",
    short="title",
    updated_at=lambda entry: ago(entry["updated_at"]),
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
    with session.open() as workspace:
        found = workspace.tasks(status=READY, agent=agent, limit=limit)
    session.show(found, _print_ready)


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
    with session.open() as workspace:
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
        brief = workspace.brief(taken.task, agent=holder, budget=budget)
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
    raise NotFound("nothing is ready", next_step="Name a task, or the title of a new one.")


_NOT_FREE = {"claimed", "not_open", "waits"}
"""Why a task that was ready can't be taken any more."""


def _print_started(found: JsonObject, warnings: list[Problem]) -> None:
    made = "new task" if found["is_new"] else "working on"
    line(f"{made} {found['task']} as {found['agent']}")
    print_problems(warnings)
    line()
    verbatim(found["brief"]["text"].removesuffix("\n"))


@command("status", "", "--agent coder --json")
def status(session: Session, *, agent: Author = "") -> None:
    """Show where things stand: what is ready, what waits for a person, the last handoffs."""
    with session.open() as workspace:
        gates = [gate.to_dict() for gate in workspace.gates()]
        found: JsonObject = {
            "agent": agent,
            "ready": [each.to_dict() for each in workspace.tasks(status=READY, agent=agent)],
            "gates": gates,
            "begun": [
                each.to_dict()
                for each in workspace.tasks(status="open")
                if each.claimed_by and each.claimed_by != agent
            ],
            "waiting": [each.to_dict() for each in workspace.tasks(status=WAITING, agent=agent)],
            "blocked": [each.to_dict() for each in workspace.tasks(status="blocked")],
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
    heading(f"{title} ({len(entries)})" if len(entries) > _SHOWN else title)
    for entry in entries[:_SHOWN]:
        texts = [entry[field] if isinstance(field, str) else field(entry) for field in fields]
        line("  " + "  ".join(_short(text) for text in texts if text))
    line()


def _short(text: str) -> str:
    """A stored text on one line, so that it can't look like others, and of a long one the
    beginning.
    """
    return cut(one_line(text), _LONGEST)


def _print_status(found: JsonObject) -> None:
    agent, waiting = found["agent"], found["ready"]
    gates: list[JsonObject] = found["gates"]
    human = [gate for gate in gates if gate.get("kind") == "human"]
    failed = [gate for gate in gates if gate.get("kind") != "human"]
    _section(
        "Waits for a person",
        human,
        "address",
        "blocker",
        lambda gate: f"(passdown gate approve {gate['address']} --by NAME)",
    )
    _section("Failed gates", failed, "address", "name", lambda gate: gate.get("detail", ""))
    _section(f"Ready for {agent}", waiting, "task", "title", lambda each: _remark(each["why"]))
    _section("Worked on", found["begun"], "task", "title", lambda each: _remark(each["holder"]))
    _section("Waiting", found["waiting"], "task", "title", lambda each: _remark(each["why"]))
    _section("Blocked", found["blocked"], "task", "title")
    _section(
        "Last handoffs",
        found["handoffs"],
        "task",
        "summary",
        lambda each: f"({ago(each['at'])})",
    )
    if not any((waiting, human, failed, found["begun"], found["waiting"], found["blocked"])):
        line("Nothing is open.")
    following = f"passdown start {waiting[0]['task']}" if waiting else "passdown start 'TITLE'"
    line(f"Next: {following}  (all verbs: passdown help)")


def _remark(text: str) -> str:
    return f"({text})" if text else ""

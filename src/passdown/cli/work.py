"""`ready`, `start` and `status`: what can be worked on, taking it, and where things stand."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from passdown.cli.output import heading, line, row_printer, verbatim
from passdown.cli.parsing import Author, command
from passdown.core.kinds import READY
from passdown.core.names import id_problems
from passdown.core.times import parse_time
from passdown.errors import NotFound

if TYPE_CHECKING:
    from collections.abc import Callable

    from passdown.cli.parsing import Budget
    from passdown.cli.session import Session
    from passdown.core.types import JsonObject
    from passdown.workspace import Workspace

_SHOWN = 5
"""How many of each kind `status` lists."""
_LOOKED_AT = 100
"""Among how many records it looks for the last handoffs."""


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
)


@command(
    "ready",
    "",
    "--agent coder --json",
    help={"agent": "AGENT: for whom; default: PASSDOWN_AGENT, else your user name"},
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
        "task": "TASK: a task, or the title of a new one; default: the first that is ready",
        "agent": "AGENT: who works on it; default: PASSDOWN_AGENT, else your user name",
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
    """Take a task, or make one, and print its brief."""
    with session.open() as workspace:
        name, is_new = _chosen(workspace, task, agent)
        if workspace.task(name).claimed_by != agent:
            workspace.update_task(name, agent=agent, holder=agent, take=take)
        brief = workspace.brief(name, agent=agent, budget=budget)
    found = {"task": name, "agent": agent, "is_new": is_new, "brief": brief.to_dict()}
    session.show(found, _print_started)


def _chosen(workspace: Workspace, named: str | None, agent: str) -> tuple[str, bool]:
    """The task that is meant, made where a title is given, and whether it was made."""
    if named is None:
        found = workspace.tasks(status=READY, agent=agent, limit=1)
        if not found:
            raise NotFound("nothing is ready", next_step="Name a task, or the title of a new one.")
        return found[0].task, False
    if not id_problems(named, "task"):
        try:
            return workspace.task(named).task, False
        except NotFound:
            if any(letter.isdigit() for letter in named):
                raise
    return workspace.create_task(title=named, agent=agent).task, True


def _print_started(found: JsonObject) -> None:
    made = "new task" if found["is_new"] else "working on"
    line(f"{made} {found['task']} as {found['agent']}")
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
        line("  " + "  ".join(text for text in texts if text))
    line()


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
    _section("Blocked", found["blocked"], "task", "title")
    _section(
        "Last handoffs",
        found["handoffs"],
        "task",
        "summary",
        lambda each: f"({ago(each['at'])})",
    )
    if not any((waiting, human, failed, found["begun"], found["blocked"])):
        line("Nothing is open.")
    following = f"passdown start {waiting[0]['task']}" if waiting else "passdown start 'TITLE'"
    line(f"Next: {following}  (all verbs: passdown help)")


def _remark(text: str) -> str:
    return f"({text})" if text else ""

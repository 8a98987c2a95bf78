"""`runs` and `agents`: list, show, answer and stop runs; the status of each agent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from passdown.cli.output import counted, line, pairs, print_error, print_json, short_time, table
from passdown.cli.parsing import command
from passdown.cli.session import UsageError
from passdown.core.times import stamp
from passdown.relay.agent_states import MACHINES, as_mermaid
from passdown.relay.agents import AgentStates
from passdown.relay.run import ENDINGS, REVIEW, RUNNING, VERDICTS, WAITING
from passdown.relay.runs import (
    Runs,
    current_legs,
    leg_name,
    listed_document,
    next_commands,
    readable_runs,
    run_document,
    seconds_between,
    turn_document,
)
from passdown.workspace.streams import WorkspaceStreams

if TYPE_CHECKING:
    from passdown.cli.session import Session
    from passdown.core.types import JsonObject
    from passdown.relay.agent_states import AgentStatus
    from passdown.relay.run import LegRun, Run
    from passdown.workspace import Workspace


TURN_COLUMNS = (
    *("#", "leg", "agent", "visit", "outcome", "version", "attempts"),
    *("seconds", "tokens in context", "bytes out"),
)


def duration_text(seconds: float) -> str:
    """A duration in a few characters: `2.4 s`, `3:05`, `1:02:09`."""
    if seconds < 100:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def print_turns(run: Run) -> None:
    """Print a table of all turns with what was measured."""
    rows = [
        [
            turn.number,
            turn.leg if turn.kind != REVIEW else leg_name(turn),
            turn.agent,
            turn.visit,
            turn.verdict or turn.outcome or "open",
            turn.version or "",
            turn.measured.get("attempts", ""),
            _seconds_text(turn.measured.get("seconds")),
            _number_text(turn.measured.get("context_tokens")),
            _number_text(turn.measured.get("bytes_out")),
        ]
        for turn in run.legs.values()
    ]
    table(TURN_COLUMNS, rows, "no turn was begun", whole=("#", "leg", "agent", "outcome"))


def _seconds_text(value: object) -> str:
    return f"{value:.1f}" if isinstance(value, int | float) else ""


def _number_text(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else ""


def print_run_status(run: Run, now: str) -> None:
    """Print how a run ended or where it waits, and how to continue it."""
    lasted = duration_text(seconds_between(run.started_at, run.ended_at or now))
    turns = counted(len(run.legs), "turn")
    why = f": {run.why.splitlines()[0]}" if run.why else ""
    line(f"{run.run} {run.status} after {lasted}, {turns}{why}")
    for text in next_commands(run):
        line(text, 2)


def print_run(run: Run, now: str) -> None:
    """Print a run in full: every field, every turn, the evidence of each failure."""
    pairs(
        [
            ("run", run.run),
            ("relay", f"{run.relay.name}: {run.relay.description}".rstrip(": ")),
            ("task", run.task),
            ("status", run.status),
            ("why", run.why),
            ("at", current_legs(run)),
            ("lane", run.lane),
            ("started", f"{run.started_at} by {run.by}"),
            ("ended", run.ended_at),
            ("lasted", duration_text(seconds_between(run.started_at, run.ended_at or now))),
            ("asked", [f"{ask.agent} in {ask.leg}: {ask.why}" for ask in run.asked]),
            (
                "loops",
                [f"{a} {run.loops_of(a)} of {run.loops_allowed(a)}" for a in run.relay.agents],
            ),
            ("next", "\n".join(next_commands(run))),
        ]
    )
    line()
    print_turns(run)
    for turn in run.legs.values():
        line()
        _print_turn(run, turn)


def _print_turn(run: Run, turn: LegRun) -> None:
    line(f"turn {turn.number}: {leg_name(turn)}, {turn.agent}")
    document = turn_document(run, turn)
    hidden = ("number", "leg", "agent", "visit", "evidence", "measured")
    shown = [(name, value) for name, value in document.items() if name not in hidden and value]
    times = ("started_at", "begun_at", "ended_at")
    pairs([(n, short_time(v) if n in times else v) for n, v in shown], 2)
    pairs([(name, value) for name, value in turn.measured.items() if value != ""], 4)
    for attempt in turn.evidence:
        _print_attempt(attempt)


def _print_attempt(attempt: JsonObject) -> None:
    """What one attempt gave: its problems, how its program ended, what it wrote."""
    reply = attempt.get("reply", {})
    line(f"attempt {attempt.get('attempt', '')}", 4)
    for problem in attempt.get("problems", ()):
        where = f"{problem['path']}: " if problem["path"] else ""
        line(f"- {where}{problem['message']} [{problem['code']}]", 6)
    known = ("failure", "error", "exit_code", "seconds", "bytes_in", "bytes_out", "is_truncated")
    pairs([(name, reply.get(name)) for name in known if reply.get(name)], 6)
    for name, text in {**reply.get("evidence", {}), "text": reply.get("text", "")}.items():
        if text:
            line(f"{name}:", 6)
            line(text.rstrip("\n"), 8)


@command(
    "runs",
    "",
    "--status waiting",
    "R-1",
    "R-1 --answer continue --by kim --guidance 'leave the tests as they are'",
    "R-1 --stop --by kim --why 'the task is obsolete'",
    choices={"status": (RUNNING, WAITING, *ENDINGS), "answer": VERDICTS},
    help={
        "name": "RUN: one run, in full",
        "status": "only those with this status",
        "answer": "to the budget review that it waits for",
        "guidance": "what its agent is told",
        "stop": "end it; open turns are finished",
        "why": "why it is stopped",
        "by": "who answers or stops it; default: PASSDOWN_AGENT, else your user name",
    },
)
def runs(
    session: Session,
    name: str = "",
    *,
    status: str | None = None,
    answer: str | None = None,
    guidance: str = "",
    stop: bool = False,
    why: str = "",
    by: str | None = None,
) -> int:
    """List and show runs; answer one, stop one."""
    wrong = {
        "name the RUN that is meant": (answer or stop) and not name,
        "--answer lets it continue, --stop ends it: choose one": answer and stop,
        "--guidance goes with --answer": guidance and not answer,
        "--why goes with --stop": why and not stop,
        "--status lists runs; leave RUN out": status and name,
    }
    if problem := next((text for text, is_so in wrong.items() if is_so), ""):
        raise UsageError(problem)
    with session.open() as workspace:
        if not name:
            return _list_runs(session, workspace, status)
        if answer:
            workspace.relay.answer(name, answer, by=session.author(by), guidance=guidance)
        elif stop:
            workspace.relay.stop(name, by=session.author(by), why=why)
        run = Runs(workspace).get(name)
        said = f"answered: {answer}" if answer else f"{run.run} is {run.status}" if stop else ""
        now = _now_stamp(workspace)
        if session.as_json:
            print_json(run_document(run, now))
        elif said:
            _print_changed_run(workspace, run, said)
        else:
            print_run(run, now)
    return 0


def _list_runs(session: Session, workspace: Workspace, status: str | None) -> int:
    """List runs; one that is damaged hides no other."""
    found, damages = readable_runs(Runs(workspace))
    if status:
        found = [run for run in found if run.status == status]
    now = _now_stamp(workspace)
    if session.as_json:
        listed = [listed_document(run, now) for run in found]
        print_json([*listed, *(damage.to_dict() for damage in damages)])
    else:
        _print_runs(found, now)
        for damage in damages:
            print_error(damage, as_json=False)
    return 1 if damages else 0


def _print_runs(found: list[Run], now: str) -> None:
    rows = [
        [
            run.run,
            run.relay.name,
            run.task,
            run.status,
            current_legs(run),
            short_time(run.started_at),
            duration_text(seconds_between(run.started_at, run.ended_at or now)),
            len(run.legs),
            run.why,
        ]
        for run in found
    ]
    names = ("run", "relay", "task", "status", "leg", "started (UTC)", "lasted", "turns", "why")
    empty = "no runs; passdown run FILE --task TASK starts one"
    table(names, rows, empty, whole=("run", "status", "lasted"), short=("why",))


def _print_changed_run(workspace: Workspace, run: Run, said: str) -> None:
    from passdown.cli.relays import resume_hint

    line(said)
    if run.status == RUNNING:
        line(resume_hint(workspace, run))
    for text in next_commands(run):
        line(text, 2)


def _now_stamp(workspace: Workspace) -> str:
    return stamp(WorkspaceStreams(workspace).now())


@command(
    "agents",
    "",
    "--busy",
    "coder",
    "--mermaid coder",
    choices={"mermaid": tuple(MACHINES)},
    help={
        "name": "AGENT: one agent: everything that happened to it",
        "busy": "only those that work on a task",
        "mermaid": "instead: the states as a Mermaid diagram",
    },
)
def agents(
    session: Session, name: str = "", *, busy: bool = False, mermaid: str | None = None
) -> None:
    """Show the status of each agent, or the moves of one."""
    if (name and busy) or (mermaid and (name or busy)):
        raise UsageError("name one AGENT, or --busy, or --mermaid")
    if mermaid:
        print(as_mermaid(MACHINES[mermaid]), end="")
        return
    with session.open() as workspace:
        states = AgentStates(workspace)
        if name:
            session.show(states.log(name), _print_moves)
            return
        found = [_agent_document(each) for each in states.agents() if each.lease or not busy]
    session.show(found, _print_agents)


def _print_agents(found: list[JsonObject]) -> None:
    fields = ("agent", "run", "state", "task", "since", "machine")
    rows = [[short_time(d[f]) if f == "since" else d[f] for f in fields] for d in found]
    names = ("agent", "run", "state", "task", "since (UTC)", "machine")
    table(names, rows, "no agent activity yet", whole=("agent", "state"))


def _print_moves(found: list[JsonObject]) -> None:
    rows = [
        [
            short_time(entry["at"]),
            entry["kind"],
            " > ".join((entry["from"], *entry["path"])) if "path" in entry else "",
            entry["task"],
            entry["run"],
            entry.get("why"),
        ]
        for entry in found
    ]
    names = ("at (UTC)", "what", "states", "task", "run", "why")
    table(names, rows, "nothing happened to this agent yet", whole=("what",), short=("why",))


def _agent_document(status: AgentStatus) -> JsonObject:
    """The status as JSON; `seat` is the agent, or the agent within a run."""
    agent, mark, number = status.agent.rpartition(".R-")
    is_seat = bool(mark) and number.isdigit()
    return {
        "agent": agent if is_seat else status.agent,
        "run": status.lease.run if status.lease else f"R-{number}" if is_seat else "",
        "state": status.state,
        "task": status.task,
        "since": status.since,
        "machine": status.machine,
        "seat": status.agent,
    }

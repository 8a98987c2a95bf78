"""`runs` and `agents`: list, show, answer and stop runs; the status of each agent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from passdown.cli.output import counted, line, pairs, short_time, table
from passdown.cli.parsing import RUN, with_agent, with_store
from passdown.cli.session import UsageError, author, workspace_of
from passdown.core.kinds import AGENT_STREAM
from passdown.relay.agent_states import MACHINES, as_mermaid, status_of
from passdown.relay.run import ENDINGS, REVIEW, RUNNING, VERDICTS, WAITING
from passdown.relay.runs import (
    current_legs,
    leg_name,
    next_commands,
    seconds_between,
    turn_document,
)

if TYPE_CHECKING:
    from argparse import Namespace

    from passdown.cli.parsing import Parser
    from passdown.core.types import JsonObject
    from passdown.relay.agent_states import AgentStatus
    from passdown.relay.run import LegRun, Run
    from passdown.relay.runs import Runs
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
    """Print how a run ended or where it rests, and how to go on with it."""
    lasted = duration_text(seconds_between(run.started_at, run.ended_at or now))
    turns = counted(len(run.legs), "turn")
    why = f": {run.why.splitlines()[0]}" if run.why else ""
    line(f"{run.run} {run.status} after {lasted}, {turns}{why}")
    for command in next_commands(run):
        line(command, 2)


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
            ("loops", _loop_counts(run)),
            ("go on", "\n".join(next_commands(run))),
        ]
    )
    line()
    print_turns(run)
    for turn in run.legs.values():
        line()
        _print_turn(run, turn)


def _loop_counts(run: Run) -> list[str]:
    return [
        f"{agent} {run.loops_of(agent)} of {run.loops_allowed(agent)}" for agent in run.relay.agents
    ]


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


_RUN_STATUSES = (RUNNING, WAITING, *ENDINGS)


def runs(parser: Parser) -> None:
    """The arguments of `runs`."""
    parser.show(
        "passdown runs",
        "passdown runs --status waiting",
        "passdown runs R-1",
        "passdown runs R-1 --answer continue --by kim --guidance 'leave the tests as they are'",
        "passdown runs R-1 --stop --by kim --why 'the task is obsolete'",
    )
    parser.add_argument("name", metavar=RUN, nargs="?", default="", help="one run, in full")
    parser.add_argument("--status", choices=_RUN_STATUSES, help="only those that stand so")
    parser.add_argument("--answer", choices=VERDICTS, help="to the budget review that it waits for")
    parser.add_argument("--guidance", metavar="TEXT", default="", help="what its agent is told")
    parser.add_argument(
        "--stop", action="store_true", help="end it; turns under way come to an end"
    )
    parser.add_argument("--why", metavar="TEXT", default="", help="why it is stopped")
    with_agent(parser, "--by", "the person who answers or stops it")
    with_store(parser)
    parser.set_defaults(run=_runs)


def _runs(args: Namespace) -> int:
    from passdown.relay.runs import Runs

    _check_runs_options(args)
    with workspace_of(args) as workspace:
        found = Runs(workspace)
        if not args.name:
            return _runs_list(workspace, found, args)
        if args.answer:
            from passdown.relay.runs import answer_run

            run = answer_run(
                workspace, args.name, args.answer, by=author(args), guidance=args.guidance
            )
            return _print_changed_run(workspace, run, f"answered: {args.answer}", as_json=args.json)
        if args.stop:
            from passdown.relay.runs import stop_run

            run = stop_run(workspace, args.name, by=author(args), why=args.why)
            return _print_changed_run(
                workspace, run, f"{run.run} is {run.status}", as_json=args.json
            )
        return _runs_show(workspace, found.get(args.name), as_json=args.json)


def _check_runs_options(args: Namespace) -> None:
    if (args.answer or args.stop) and not args.name:
        raise UsageError("name the RUN that is meant")
    if args.answer and args.stop:
        raise UsageError("--answer lets it go on, --stop ends it: choose one")
    if args.guidance and not args.answer:
        raise UsageError("--guidance goes with --answer")
    if args.why and not args.stop:
        raise UsageError("--why goes with --stop")
    if args.status and args.name:
        raise UsageError("--status lists runs; leave RUN out")


def _runs_list(workspace: Workspace, runs: Runs, args: Namespace) -> int:
    """List runs; one that is damaged hides no other."""
    from passdown.cli.output import print_error, print_json
    from passdown.relay.runs import listed_document, readable_runs

    found, damages = readable_runs(runs)
    if args.status:
        found = [run for run in found if run.status == args.status]
    now = _now_stamp(workspace)
    if args.json:
        listed = [listed_document(run, now) for run in found]
        print_json([*listed, *(damage.to_dict() for damage in damages)])
    else:
        _runs_table(found, now)
        for damage in damages:
            print_error(damage, as_json=False)
    return 1 if damages else 0


def _runs_table(found: list[Run], now: str) -> None:
    from passdown.cli.output import short_time, table
    from passdown.relay.runs import current_legs, seconds_between

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


def _runs_show(workspace: Workspace, run: Run, *, as_json: bool) -> int:
    from passdown.cli.output import print_json
    from passdown.relay.runs import run_document

    if as_json:
        print_json(run_document(run, _now_stamp(workspace)))
    else:
        print_run(run, _now_stamp(workspace))
    return 0


def _print_changed_run(workspace: Workspace, run: Run, said: str, *, as_json: bool) -> int:
    from passdown.cli.output import line, print_json
    from passdown.cli.relays import resume_hint
    from passdown.relay.runs import next_commands, run_document

    if as_json:
        print_json(run_document(run, _now_stamp(workspace)))
        return 0
    line(said)
    if run.status == RUNNING:
        line(resume_hint(workspace, run))
    for command in next_commands(run):
        line(command, 2)
    return 0


def _now_stamp(workspace: Workspace) -> str:
    from passdown.core.times import stamp
    from passdown.workspace.streams import WorkspaceStreams

    return stamp(WorkspaceStreams(workspace).now())


def agents(parser: Parser) -> None:
    """The arguments of `agents`."""
    parser.show(
        "passdown agents",
        "passdown agents --busy",
        "passdown agents --mermaid coder",
    )
    parser.add_argument("--busy", action="store_true", help="only those that are on a task")
    parser.add_argument(
        "--mermaid", choices=tuple(MACHINES), help="instead: the states as a Mermaid diagram"
    )
    with_store(parser)
    parser.set_defaults(run=_agents)


def _agents(args: Namespace) -> int:
    from passdown.cli.output import print_json, short_time, table

    if args.mermaid:
        print(as_mermaid(MACHINES[args.mermaid]), end="")
        return 0
    with workspace_of(args) as workspace:
        found = [each for each in _agent_states(workspace) if each.lease or not args.busy]
    documents = [_agent_document(each) for each in found]
    if args.json:
        print_json(documents)
        return 0
    rows = [
        [d["agent"], d["run"], d["state"], d["task"], short_time(d["since"]), d["machine"]]
        for d in documents
    ]
    names = ("agent", "run", "state", "task", "since (UTC)", "machine")
    table(names, rows, "no agent has moved yet", whole=("agent", "state"))
    return 0


def _agent_states(workspace: Workspace) -> list[AgentStatus]:
    """Where all agents stand, by name; read here so that nothing of the relay is loaded."""
    from passdown.workspace.streams import WorkspaceStreams

    beside = WorkspaceStreams(workspace)
    found: list[AgentStatus] = []
    for head in beside.streams(AGENT_STREAM):
        record = beside.last(head.stream)
        if record is not None:
            agent = head.stream.removeprefix(AGENT_STREAM)
            found.append(status_of(agent, record.document()["stands"], record.position))
    return found


def _agent_document(standing: AgentStatus) -> dict[str, object]:
    """A seat in a run is told apart from the agent that sits in it."""
    agent, mark, number = standing.agent.rpartition(".R-")
    is_seat = bool(mark) and number.isdigit()
    return {
        "agent": agent if is_seat else standing.agent,
        "run": f"R-{number}" if is_seat else "",
        "state": standing.state,
        "task": standing.task,
        "since": standing.since,
        "machine": standing.machine,
        "seat": standing.agent,
    }

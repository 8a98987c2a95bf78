"""How a run is shown: as a document for programs, as a table of its turns, in full."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from passdown.model.run import REVIEW, WAITING
from passdown.model.times import parse_time
from passdown.surfaces.cli.printing import counted, line, pairs, short_time, table

if TYPE_CHECKING:
    from passdown.model.run import LegRun, Run

Document = dict[str, Any]

COLUMNS = (
    *("#", "leg", "agent", "visit", "outcome", "version", "attempts"),
    *("seconds", "tokens in context", "bytes out"),
)


def seconds_between(start: str, end: str) -> float:
    """How many seconds lie between two stored times; 0 where one is missing."""
    if not start or not end:
        return 0.0
    return (parse_time(end) - parse_time(start)).total_seconds()


def lasting(seconds: float) -> str:
    """A duration in a few characters: `2.4 s`, `3:05`, `1:02:09`."""
    if seconds < 100:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def leg_name(turn: LegRun) -> str:
    """A turn's leg, with the visit from the second on; a review by what it reviews."""
    if turn.kind == REVIEW:
        return f"review of {turn.leg}"
    return f"{turn.leg} ({turn.visit})" if turn.visit > 1 else turn.leg


def now_at(run: Run) -> str:
    """The legs that are open; where there are none, the last one."""
    turns = run.open_legs or list(run.legs.values())[-1:]
    return ", ".join(leg_name(turn) for turn in turns)


def next_commands(run: Run) -> list[str]:
    """What a person would type to let a run go on that doesn't by itself; all the choices."""
    if run.ended_at:
        return [] if run.status == "completed" else [f"passdown run --resume {run.run}"]
    if run.asked:
        answer = f"passdown runs {run.run} --answer continue --by NAME --guidance TEXT"
        return [answer, *(f"passdown runs {run.run} --answer {v} --by NAME" for v in _OTHERS)]
    if run.status != WAITING:
        return []
    gates = [
        turn.gate
        for turn in run.legs.values()
        if turn.gate and not turn.is_open and turn.number not in run.followed
    ]
    if not gates:
        return [f"passdown run --resume {run.run}"]
    return [
        f"passdown gate {how}"
        for gate in gates
        for how in (f"approve {gate} --by NAME", f"reject {gate} --by NAME --reason TEXT")
    ]


_OTHERS = ("pivot", "escalate", "abandon")


def turn_document(run: Run, turn: LegRun) -> Document:
    """Everything that is known of a turn, as a plain JSON object."""
    return {
        **turn._asdict(),
        "phase": run.relay.legs[turn.leg].phase,
        "causes": list(turn.causes),
        "evidence": list(turn.evidence),
    }


def run_document(run: Run, now: str) -> Document:
    """Everything that is known of a run, as a plain JSON object; `now` is the time."""
    return {
        "run": run.run,
        "relay": run.relay.name,
        "task": run.task,
        "by": run.by,
        "lane": run.lane,
        "status": run.status,
        "why": run.why,
        "leg": now_at(run),
        "started_at": run.started_at,
        "ended_at": run.ended_at,
        "seconds": round(seconds_between(run.started_at, run.ended_at or now), 3),
        "next": next_commands(run),
        "asked": [ask.document() for ask in run.asked],
        "granted": run.granted,
        "turns": [turn_document(run, turn) for turn in run.legs.values()],
        "file": run.relay.document,
    }


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
            _seconds(turn.measured.get("seconds")),
            _number(turn.measured.get("context_tokens")),
            _number(turn.measured.get("bytes_out")),
        ]
        for turn in run.legs.values()
    ]
    table(COLUMNS, rows, "no turn was begun", whole=("#", "leg", "agent", "outcome"))


def _seconds(value: object) -> str:
    return f"{value:.1f}" if isinstance(value, int | float) else ""


def _number(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else ""


def print_standing(run: Run, now: str) -> None:
    """Print how a run ended or where it rests, and how to go on with it."""
    lasted = lasting(seconds_between(run.started_at, run.ended_at or now))
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
            ("at", now_at(run)),
            ("lane", run.lane),
            ("started", f"{run.started_at} by {run.by}"),
            ("ended", run.ended_at),
            ("lasted", lasting(seconds_between(run.started_at, run.ended_at or now))),
            ("asked", [f"{ask.agent} in {ask.leg}: {ask.why}" for ask in run.asked]),
            ("loops", _loops(run)),
            ("go on", "\n".join(next_commands(run))),
        ]
    )
    line()
    print_turns(run)
    for turn in run.legs.values():
        line()
        _print_turn(run, turn)


def _loops(run: Run) -> list[str]:
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


def _print_attempt(attempt: Document) -> None:
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

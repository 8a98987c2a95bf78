"""How a run is shown: as a table of its turns, and in full."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from passdown.model.run import REVIEW
from passdown.relay.run_documents import (
    leg_name,
    next_commands,
    now_at,
    seconds_between,
    turn_document,
)
from passdown.surfaces.cli.printing import counted, line, pairs, short_time, table

if TYPE_CHECKING:
    from passdown.model.run import LegRun, Run

Document = dict[str, Any]

COLUMNS = (
    *("#", "leg", "agent", "visit", "outcome", "version", "attempts"),
    *("seconds", "tokens in context", "bytes out"),
)


def lasting(seconds: float) -> str:
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

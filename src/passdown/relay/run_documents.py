"""A run as a document for programs: all that is known of it, and what a person may do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from passdown.errors import Damaged
from passdown.model.run import REVIEW, WAITING
from passdown.model.times import parse_time

if TYPE_CHECKING:
    from passdown.model.run import LegRun, Run
    from passdown.relay.runs import Runs

Document = dict[str, Any]

_OTHERS = ("pivot", "escalate", "abandon")
_IN_FULL = ("turns", "file")


def seconds_between(start: str, end: str) -> float:
    """How many seconds lie between two stored times; 0 where one is missing."""
    if not start or not end:
        return 0.0
    return (parse_time(end) - parse_time(start)).total_seconds()


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


def listed_document(run: Run, now: str) -> Document:
    """A run as it stands in a list: its turns are counted."""
    whole = run_document(run, now)
    kept = {name: value for name, value in whole.items() if name not in _IN_FULL}
    return {**kept, "legs": len(whole["turns"])}


def readable(runs: Runs) -> tuple[list[Run], list[Damaged]]:
    """The runs, newest first, and what is wrong with those that can't be read."""
    found: list[Run] = []
    damages: list[Damaged] = []
    for name in runs.positions():
        try:
            found.append(runs.get(name))
        except Damaged as error:
            damages.append(error)
    return sorted(found, key=lambda run: run.started_at, reverse=True), damages

"""Runs in the ledger: start, advance, answer, stop and list them.

Safe from several processes at once: a transition is written only if the run hasn't changed since
it was computed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from passdown.core.kinds import RUN_STREAM
from passdown.core.names import agent_problems, id_problems
from passdown.core.redaction import redact_value
from passdown.core.text import text_problems
from passdown.core.times import parse_time
from passdown.errors import Conflict, Damaged, InvalidInput, NotFound, Problem
from passdown.relay.run import (
    REVIEW,
    VERDICTS,
    WAITING,
    GateState,
    Transition,
    fold_run,
    next_transition,
    resume_transition,
    run_stream,
)
from passdown.workspace.streams import StreamEntry, WorkspaceStreams

if TYPE_CHECKING:
    from collections.abc import Callable

    from passdown.core.record import Record
    from passdown.core.types import JsonObject
    from passdown.relay.run import LegRun, Relay, Run
    from passdown.workspace import Workspace


NORMAL, HERE = "normal", "here"
LANES = (NORMAL, HERE)
"""Where a run's turns go: to the workers, or to the process that started it."""

ENGINE = "passdown"
"""Who writes what follows by itself."""


class Runs:
    """The runs of one workspace."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._beside = WorkspaceStreams(workspace)

    def start(self, relay: Relay, task: str, *, by: str, lane: str = NORMAL) -> Run:
        """Record that a relay is to be run on a task; nothing is queued yet."""
        problems = [*agent_problems(by, "by"), *id_problems(task, "task"), *_secret_problems(relay)]
        if lane not in LANES:
            problems.append(Problem("lane", "invalid_choice", f"{lane!r:.40}", " | ".join(LANES)))
        if problems:
            raise InvalidInput("the run is refused; nothing was started", problems)
        self._workspace.task(task)  # raises NotFound with what to do
        body = {"relay": relay.document, "task": task, "lane": lane}
        number = len(self._beside.streams(RUN_STREAM)) + 1
        while True:
            aside = StreamEntry(run_stream(f"R-{number}"), "started", by, body, expect=0)
            if self._try(aside) is not None:
                return self.go_on(f"R-{number}")
            number += 1

    def get(self, run: str) -> Run:
        """Where a run stands; raises NotFound or Damaged."""
        problems = id_problems(run, "run")
        records = [] if problems else self._beside.records(run_stream(run))
        try:
            found = fold_run(records)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            problem = Problem(run_stream(run), "unreadable", f"can't be followed ({error!r:.80})")
            raise Damaged(f"the records of {run} make no run", [problem]) from error
        if found is None:
            raise NotFound(
                f"there is no run {run[:80]!r}", next_step="passdown runs lists all of them."
            )
        return found

    def names(self) -> list[str]:
        """The names of all runs, the newest first."""
        return sorted(self.positions(), key=_newest_first)

    def all(self) -> list[Run]:
        """Every run, the newest first; raises Damaged where one can't be read."""
        return [self.get(name) for name in self.names()]

    def position(self, run: str) -> int:
        """How many records a run has: changes whenever anything happens to it."""
        return self._beside.position(run_stream(run))

    def positions(self) -> dict[str, int]:
        """The same of all runs."""
        heads = self._beside.streams(RUN_STREAM)
        return {head.stream.removeprefix(RUN_STREAM): head.position for head in heads}

    def go_on(self, run: str) -> Run:
        """Draw all consequences of what has ended; gives where the run stands then."""
        return self._step(run, lambda found: next_transition(found, self._gates(found)))

    def resume(self, run: str, *, by: str) -> Run:
        """Start a run again that has stopped or is blocked; one that isn't goes on as it is."""
        _refuse("the run is not resumed", agent_problems(by, "by"))

        def draw(found: Run) -> Transition | None:
            if found.status == "completed":
                problem = Problem(
                    "run", "completed", f"{run} ended at {found.ended_at}", "an open run"
                )
                _refuse(f"{run} is completed; there is nothing to resume", [problem])
            return resume_transition(found)

        self._once(run, by, draw)
        return self.go_on(run)

    def answer(self, run: str, verdict: str, *, by: str, guidance: str = "") -> Run:
        """Answer the budget review that a run waits for."""
        problems = [*agent_problems(by, "by"), *text_problems(guidance, "guidance", required=False)]
        if verdict not in VERDICTS:
            expected = " | ".join(VERDICTS)
            problems.append(Problem("verdict", "invalid_choice", f"{verdict!r:.40}", expected))

        def draw(found: Run) -> Transition:
            waits = bool(found.asked) and not found.ended_at
            missing = Problem("run", "not_asked", f"{run} waits for no review", "one that does")
            _refuse(
                "the answer is refused; nothing was changed",
                [*problems, *([] if waits else [missing])],
            )
            return Transition("answered", {"verdict": verdict, "guidance": guidance})

        self._once(run, by, draw)
        return self.go_on(run)

    def stop(self, run: str, *, by: str, why: str = "") -> Run:
        """End a run where it is; legs under way come to their end, nothing follows them."""
        problems = [*agent_problems(by, "by"), *text_problems(why, "why", required=False)]
        _refuse("the run is not stopped", problems)

        def draw(found: Run) -> Transition | None:
            body: dict[str, Any] = {
                "status": "stopped",
                "why": why,
                "followed": [],
                "stopped_by": [],
            }
            return None if found.ended_at else Transition("ended", body)

        return self._once(run, by, draw)

    def begin(self, run: str, number: int, worker: str) -> None:
        """Record that a worker has begun a turn, unless it has ended."""
        self._of_turn(run, number, "begun", {"number": number, "worker": worker})

    def end(self, run: str, number: int, fields: dict[str, Any]) -> None:
        """Record how a turn ended; the first to say so counts."""
        self._of_turn(run, number, "leg_ended", {"number": number, **fields})

    def _of_turn(self, run: str, number: int, kind: str, body: dict[str, Any]) -> None:
        def draw(found: Run) -> Transition | None:
            if number not in found.legs:
                raise NotFound(f"{run} has no turn {number}", next_step=f"passdown runs {run}")
            return Transition(kind, body) if found.legs[number].is_open else None

        self._once(run, ENGINE, draw)

    def _once(self, run: str, by: str, draw: Callable[[Run], Transition | None]) -> Run:
        """Write one step, drawn anew while others write; gives where the run stands then."""
        while True:
            found = self.get(run)
            step = draw(found)
            if step is None or self._write(found, step, by) is not None:
                return found if step is None else self.get(run)

    def _step(self, run: str, draw: Callable[[Run], Transition | None]) -> Run:
        while True:
            found = self.get(run)
            step = draw(found)
            if step is None:
                return found
            self._write(found, step, ENGINE)

    def _write(self, run: Run, step: Transition, by: str) -> Record | None:
        aside = StreamEntry(run_stream(run.run), step.kind, by, step.body, expect=run.position)
        return self._try(aside)

    def _try(self, aside: StreamEntry) -> Record | None:
        """Written, or None where another process was first."""
        try:
            return self._beside.add(aside)[0]
        except Conflict:
            return None

    def _gates(self, run: Run) -> dict[str, GateState]:
        waiting = [turn for turn in run.legs.values() if turn.gates]
        if all(turn.number in run.followed for turn in waiting):
            return {}
        found = self._workspace.gates(run.task, open_only=False)
        return {
            gate["address"]: GateState(gate["status"], gate.get("reason", "")) for gate in found
        }


def _refuse(message: str, problems: list[Problem]) -> None:
    if problems:
        raise InvalidInput(message, problems)


def _secret_problems(relay: Relay) -> list[Problem]:
    """What would be taken out of a relay when it is recorded: then it would not be the same."""
    kinds = redact_value(relay.document)[1]
    expected = "none; name a variable in pass_env instead"
    return [
        Problem("relay", "secret", f"holds what looks like a {kind}", expected) for kind in kinds
    ]


def _newest_first(name: str) -> tuple[int, str]:
    number = name.removeprefix("R-")
    return (-int(number), name) if number.isdigit() else (0, name)


_OTHERS = ("pivot", "escalate", "abandon")
_DETAIL_FIELDS = ("turns", "file")


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


def current_legs(run: Run) -> str:
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


def turn_document(run: Run, turn: LegRun) -> JsonObject:
    """Everything that is known of a turn, as a plain JSON object."""
    return {
        **turn._asdict(),
        "phase": run.relay.legs[turn.leg].phase,
        "causes": list(turn.causes),
        "evidence": list(turn.evidence),
    }


def run_document(run: Run, now: str) -> JsonObject:
    """Everything that is known of a run, as a plain JSON object; `now` is the time."""
    return {
        "run": run.run,
        "relay": run.relay.name,
        "task": run.task,
        "by": run.by,
        "lane": run.lane,
        "status": run.status,
        "why": run.why,
        "leg": current_legs(run),
        "started_at": run.started_at,
        "ended_at": run.ended_at,
        "seconds": round(seconds_between(run.started_at, run.ended_at or now), 3),
        "next": next_commands(run),
        "asked": [ask.document() for ask in run.asked],
        "granted": run.granted,
        "turns": [turn_document(run, turn) for turn in run.legs.values()],
        "file": run.relay.document,
    }


def listed_document(run: Run, now: str) -> JsonObject:
    """A run as it stands in a list: its turns are counted."""
    whole = run_document(run, now)
    kept = {name: value for name, value in whole.items() if name not in _DETAIL_FIELDS}
    return {**kept, "legs": len(whole["turns"])}


def readable_runs(runs: Runs) -> tuple[list[Run], list[Damaged]]:
    """The runs, newest first, and what is wrong with those that can't be read."""
    found: list[Run] = []
    damages: list[Damaged] = []
    for name in runs.positions():
        try:
            found.append(runs.get(name))
        except Damaged as error:
            damages.append(error)
    return sorted(found, key=lambda run: run.started_at, reverse=True), damages

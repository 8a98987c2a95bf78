"""Runs in the ledger: start, advance, answer, stop and list them.

Safe from several processes at once: a transition is written only if the run hasn't changed since
it was computed.
"""

from __future__ import annotations

import os
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from passdown.core.arguments import raise_problems
from passdown.core.kinds import RUN_STREAM
from passdown.core.names import agent_problems, id_problems
from passdown.core.redaction import redact_value
from passdown.core.text import excerpt, text_problems
from passdown.core.times import parse_time
from passdown.errors import Conflict, Damaged, NotFound, Problem, StoreBusy
from passdown.relay.run import (
    REVIEW,
    VERDICTS,
    WAITING,
    GateState,
    RunTransition,
    detached_transition,
    ended_transition,
    fold_run,
    next_transition,
    resume_transition,
    run_stream,
)
from passdown.workspace.context import context_of
from passdown.workspace.streams import StreamEntry, WorkspaceStreams

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from passdown.core.record import Record
    from passdown.core.types import JsonObject
    from passdown.relay.run import LegRun, Relay, Run
    from passdown.workspace import Workspace


NORMAL, HERE, EXPRESS = "normal", "here", "express"
LANES = (NORMAL, HERE, EXPRESS)
"""The queue of a run's turns: that of the workers, of the process that started it, or of express
items.
"""

EXPRESS_RUN = f"{EXPRESS}-"
"""Begins the name of an express item's run, and of the task that a failed item becomes."""

_LOCK_TIMEOUT_S = 1.0
ENGINE = "passdown"
"""The author of records that the engine writes."""


class Runs:
    """The runs of one workspace."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._streams = WorkspaceStreams(workspace)

    def start(
        self,
        relay: Relay,
        task: str,
        *,
        by: str,
        lane: str = NORMAL,
        name: str = "",
        begins_with: str = "",
    ) -> Run:
        """Record the start of a relay on a task; nothing is queued yet.

        Without a name it gets the next free one, such as R-1; a run with that name is returned as
        it is. An express item needs no task. It starts with the first leg, or with `begins_with`.
        """
        problems = agent_problems(by, "by")
        for kind in redact_value(relay.document)[1]:  # it would be removed from its record
            expected = "none; name a variable in pass_env instead"
            message = f"contains what looks like a {kind}"
            problems.append(Problem("relay", "secret", message, expected))
        problems += id_problems(task, "task") if task or lane != EXPRESS else []
        if lane not in LANES:
            problems.append(Problem("lane", "invalid_choice", f"{lane!r:.40}", " | ".join(LANES)))
        if begins_with and begins_with not in relay.legs:
            message, known = f"{excerpt(begins_with)!r} is no leg", " | ".join(relay.legs)
            problems.append(Problem("begins_with", "unknown_name", message, known))
        raise_problems("the run is refused; nothing was started", problems)
        if task:
            self._workspace.task(task)  # raises NotFound with what to do
        body = {"relay": relay.document, "task": task, "lane": lane}
        body |= {"begins_with": begins_with} if begins_with else {}
        number = 0 if name else len(self._streams.streams(f"{RUN_STREAM}R-")) + 1
        while True:
            run = name or f"R-{number}"
            if self._write(run, 0, RunTransition("started", body), by) is not None or name:
                return self.advance(run)
            number += 1

    def get(self, run: str) -> Run:
        """A run by its name; raises NotFound or Damaged."""
        problems = id_problems(run, "run")
        records = [] if problems else self._streams.records(run_stream(run))
        try:
            found = fold_run(records)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            problem = Problem(run_stream(run), "unreadable", f"can't be read ({error!r:.80})")
            raise Damaged(f"the records of {run} are damaged", [problem]) from error
        if found is None:
            message = f"there is no run {excerpt(str(run), 80)!r}"
            raise NotFound(message, next_step="passdown runs lists all of them.")
        return found

    def all(self) -> list[Run]:
        """Every run, the newest first; raises Damaged where one can't be read."""
        found = [self.get(name) for name in self.positions()]
        return sorted(found, key=lambda run: (run.started_at, len(run.run), run.run))[::-1]

    def position(self, run: str) -> int:
        """The number of records of a run."""
        return self._streams.position(run_stream(run))

    def positions(self) -> dict[str, int]:
        """The number of records of every run."""
        heads = self._streams.streams(RUN_STREAM)
        return {head.stream.removeprefix(RUN_STREAM): head.position for head in heads}

    def advance(self, run: str) -> Run:
        """Write all transitions that follow from ended turns; returns the run."""
        while True:
            found = self.get(run)
            transition = next_transition(found, self._gates(found))
            if transition is None:
                return found
            self._write(run, found.position, transition, ENGINE)

    def resume(self, run: str, *, by: str, detach: bool = False) -> Run:
        """Start a run again that has stopped or is blocked; another continues unchanged. With
        `detach`, one that a process in the foreground had is left to workers; raises StoreBusy
        while that process has it.
        """
        raise_problems("the run was not resumed", agent_problems(by, "by"))

        def transition(found: Run) -> RunTransition | None:
            if found.status == "completed":
                message = f"{run} ended at {found.ended_at}"
                problem = Problem("run", "completed", message, "an open run")
                raise_problems(f"{run} is completed; there is nothing to resume", [problem])
            if detach and found.lane == HERE:
                return detached_transition(found, NORMAL)
            return resume_transition(found)

        with run_lock(self._workspace, run, 0) if detach else nullcontext():
            self._once(run, by, transition)
        return self.advance(run)

    def answer(self, run: str, verdict: str, *, by: str, guidance: str = "") -> Run:
        """Answer the budget review that a run waits for."""
        problems = [*agent_problems(by, "by"), *text_problems(guidance, "guidance", required=False)]
        if verdict not in VERDICTS:
            expected = " | ".join(VERDICTS)
            problems.append(Problem("verdict", "invalid_choice", f"{verdict!r:.40}", expected))

        def transition(found: Run) -> RunTransition:
            missing = Problem("run", "not_asked", f"{run} waits for no review", "one that does")
            wrong = [] if found.asked and not found.ended_at else [missing]
            raise_problems("the answer is refused; nothing was changed", [*problems, *wrong])
            return RunTransition("answered", {"verdict": verdict, "guidance": guidance})

        self._once(run, by, transition)
        return self.advance(run)

    def stop(self, run: str, *, by: str, why: str = "") -> Run:
        """Stop a run: open turns still end, but nothing follows them."""
        problems = [*agent_problems(by, "by"), *text_problems(why, "why", required=False)]
        raise_problems("the run was not stopped", problems)

        ended = ended_transition("stopped", why)
        return self._once(run, by, lambda found: None if found.ended_at else ended)

    def begin(self, run: str, number: int, worker: str) -> None:
        """Record that a worker has begun a turn, unless it has ended."""
        self._of_turn(run, number, "begun", {"number": number, "worker": worker})

    def end(self, run: str, number: int, fields: dict[str, Any]) -> None:
        """Record how a turn ended; the first record counts."""
        self._of_turn(run, number, "leg_ended", {"number": number, **fields})

    def replay(self, run: str, replayed: dict[str, Any], *, by: str) -> Run:
        """Record which turn is taken again, by which agent and with which runner."""
        return self._once(
            run, by, lambda found: None if found.replay else RunTransition("replayed", replayed)
        )

    def promote(self, run: str, task: str) -> None:
        """Record the task that a failed express item became, once."""
        promoted = RunTransition("promoted", {"task": task})
        self._once(run, ENGINE, lambda found: None if found.promoted else promoted)

    def _of_turn(self, run: str, number: int, kind: str, body: dict[str, Any]) -> None:
        def transition(found: Run) -> RunTransition | None:
            if number not in found.legs:
                raise NotFound(f"{run} has no turn {number}", next_step=f"passdown runs {run}")
            return RunTransition(kind, body) if found.legs[number].is_open else None

        self._once(run, ENGINE, transition)

    def _once(self, run: str, by: str, compute: Callable[[Run], RunTransition | None]) -> Run:
        """Write one transition, computed again while others write; returns the run."""
        while True:
            found = self.get(run)
            transition = compute(found)
            if transition is None:
                return found
            if self._write(run, found.position, transition, by) is not None:
                return self.get(run)

    def _write(self, run: str, position: int, made: RunTransition, by: str) -> Record | None:
        """Write a transition after a position; None if another process was first."""
        entry = StreamEntry(run_stream(run), made.kind, by, made.body, expect=position)
        try:
            return self._streams.add(entry)[0]
        except Conflict:
            return None

    def _gates(self, run: Run) -> dict[str, GateState]:
        waiting = [turn for turn in run.legs.values() if turn.gates]
        if all(turn.number in run.followed for turn in waiting):
            return {}
        found = self._workspace.gates(run.task, all=True)
        return {gate.address: GateState(gate.status, gate.reason) for gate in found}


def run_lock(
    workspace: Workspace, run: str, timeout_s: float = _LOCK_TIMEOUT_S
) -> AbstractContextManager[int]:
    """Have a run for this process alone; raises StoreBusy while another has it."""
    from passdown.relay.git import locked

    busy = StoreBusy(
        f"another process is at {run}",
        next_step=f"Let it finish, or end it first; passdown runs {run} shows where it is.",
    )
    folder = context_of(workspace).place.folder
    return locked(os.path.join(folder, "runs", f"{run}.lock"), timeout_s=timeout_s, busy=busy)


def seconds_between(start: str, end: str) -> float:
    """Seconds between two stored times; 0 if one is missing."""
    if not start or not end:
        return 0.0
    return (parse_time(end) - parse_time(start)).total_seconds()


def leg_name(turn: LegRun) -> str:
    """The leg of a turn, with the visit from the second on; for a review, what it reviews."""
    if turn.kind == REVIEW:
        return f"review of {turn.leg}"
    return f"{turn.leg} ({turn.visit})" if turn.visit > 1 else turn.leg


def current_legs(run: Run) -> str:
    """The open legs, or else the last one."""
    turns = run.open_legs or list(run.legs.values())[-1:]
    return ", ".join(leg_name(turn) for turn in turns)


def next_commands(run: Run) -> list[str]:
    """The commands with which a person lets a waiting run continue."""
    if run.ended_at:
        return [] if run.status == "completed" else [f"passdown run --resume {run.run}"]
    if run.asked:
        answer = f"passdown runs {run.run} --answer continue --by NAME --guidance TEXT"
        return [answer, *(f"passdown runs {run.run} --answer {v} --by NAME" for v in VERDICTS[1:])]
    if run.status != WAITING:
        return []
    ended = [turn for turn in run.legs.values() if turn.gate and not turn.is_open]
    gates = [turn.gate for turn in ended if turn.number not in run.followed]
    if not gates:
        return [f"passdown run --resume {run.run}"]
    answers = ("approve {} --by NAME", "reject {} --by NAME --reason TEXT")
    return [f"passdown gate {how.format(gate)}" for gate in gates for how in answers]


def turn_document(run: Run, turn: LegRun) -> JsonObject:
    """A turn as a plain JSON object."""
    return {
        **turn._asdict(),
        "name": leg_name(turn),
        "phase": run.relay.legs[turn.leg].phase,
        "causes": list(turn.causes),
        "evidence": list(turn.evidence),
    }


def run_document(run: Run, now: str, *, is_listed: bool = False) -> JsonObject:
    """A run as a plain JSON object; `now` is the time. In a list, with the number of its turns
    instead of the turns, and without its file.
    """
    turns = [turn_document(run, turn) for turn in run.legs.values()]
    details = {"turns": turns, "file": run.relay.document}
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
        "begins_with": run.begins_with,
        "replay": run.replay,
        "loops": {name: [run.loops_of(name), run.loops_allowed(name)] for name in run.relay.agents},
        **({"legs": len(turns)} if is_listed else details),
    }

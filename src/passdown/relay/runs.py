"""Runs as the ledger has them: started, gone on with, answered, listed.

Everything here is safe to do from several processes at once: a step is written only if the run is
still where it was when the step was drawn; whoever comes second looks again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from passdown.errors import Conflict, Damaged, InvalidInput, NotFound, Problem
from passdown.model.advancing import Gate, Step, next_step, resumption
from passdown.model.kinds import RUN_STREAM
from passdown.model.names import agent_problems, id_problems
from passdown.model.redaction import redact_value
from passdown.model.run import VERDICTS, run_of, run_stream
from passdown.model.text import text_problems
from passdown.workspace.beside import Aside, Beside

if TYPE_CHECKING:
    from collections.abc import Callable

    from passdown.model.record import Record
    from passdown.model.relay import Relay
    from passdown.model.run import Run
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
        self._beside = Beside(workspace)

    def start(self, relay: Relay, task: str, *, by: str, lane: str = NORMAL) -> Run:
        """Record that a relay is to be run on a task; nothing is queued yet."""
        problems = [*agent_problems(by, "by"), *id_problems(task, "task"), *_secrets(relay)]
        if lane not in LANES:
            problems.append(Problem("lane", "invalid_choice", f"{lane!r:.40}", " | ".join(LANES)))
        if problems:
            raise InvalidInput("the run is refused; nothing was started", problems)
        self._workspace.task(task)  # raises NotFound with what to do
        body = {"relay": relay.document, "task": task, "lane": lane}
        number = len(self._beside.streams(RUN_STREAM)) + 1
        while True:
            aside = Aside(run_stream(f"R-{number}"), "started", by, body, expect=0)
            if self._try(aside) is not None:
                return self.go_on(f"R-{number}")
            number += 1

    def get(self, run: str) -> Run:
        """Where a run stands; raises NotFound or Damaged."""
        problems = id_problems(run, "run")
        records = [] if problems else self._beside.records(run_stream(run))
        try:
            found = run_of(records)
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
        return self._step(run, lambda found: next_step(found, self._gates(found)))

    def resume(self, run: str, *, by: str) -> Run:
        """Start a run again that has stopped or is blocked; one that isn't goes on as it is."""
        _refuse("the run is not resumed", agent_problems(by, "by"))

        def draw(found: Run) -> Step | None:
            if found.status == "completed":
                problem = Problem(
                    "run", "completed", f"{run} ended at {found.ended_at}", "an open run"
                )
                _refuse(f"{run} is completed; there is nothing to resume", [problem])
            return resumption(found)

        self._once(run, by, draw)
        return self.go_on(run)

    def answer(self, run: str, verdict: str, *, by: str, guidance: str = "") -> Run:
        """Answer the budget review that a run waits for."""
        problems = [*agent_problems(by, "by"), *text_problems(guidance, "guidance", required=False)]
        if verdict not in VERDICTS:
            expected = " | ".join(VERDICTS)
            problems.append(Problem("verdict", "invalid_choice", f"{verdict!r:.40}", expected))

        def draw(found: Run) -> Step:
            waits = bool(found.asked) and not found.ended_at
            missing = Problem("run", "not_asked", f"{run} waits for no review", "one that does")
            _refuse(
                "the answer is refused; nothing was changed",
                [*problems, *([] if waits else [missing])],
            )
            return Step("answered", {"verdict": verdict, "guidance": guidance})

        self._once(run, by, draw)
        return self.go_on(run)

    def stop(self, run: str, *, by: str, why: str = "") -> Run:
        """End a run where it is; legs under way come to their end, nothing follows them."""
        problems = [*agent_problems(by, "by"), *text_problems(why, "why", required=False)]
        _refuse("the run is not stopped", problems)

        def draw(found: Run) -> Step | None:
            body: dict[str, Any] = {
                "status": "stopped",
                "why": why,
                "followed": [],
                "stopped_by": [],
            }
            return None if found.ended_at else Step("ended", body)

        return self._once(run, by, draw)

    def begin(self, run: str, number: int, worker: str) -> None:
        """Record that a worker has begun a turn, unless it has ended."""
        self._of_turn(run, number, "begun", {"number": number, "worker": worker})

    def end(self, run: str, number: int, fields: dict[str, Any]) -> None:
        """Record how a turn ended; the first to say so counts."""
        self._of_turn(run, number, "leg_ended", {"number": number, **fields})

    def _of_turn(self, run: str, number: int, kind: str, body: dict[str, Any]) -> None:
        def draw(found: Run) -> Step | None:
            if number not in found.legs:
                raise NotFound(f"{run} has no turn {number}", next_step=f"passdown runs {run}")
            return Step(kind, body) if found.legs[number].is_open else None

        self._once(run, ENGINE, draw)

    def _once(self, run: str, by: str, draw: Callable[[Run], Step | None]) -> Run:
        """Write one step, drawn anew while others write; gives where the run stands then."""
        while True:
            found = self.get(run)
            step = draw(found)
            if step is None or self._write(found, step, by) is not None:
                return found if step is None else self.get(run)

    def _step(self, run: str, draw: Callable[[Run], Step | None]) -> Run:
        while True:
            found = self.get(run)
            step = draw(found)
            if step is None:
                return found
            self._write(found, step, ENGINE)

    def _write(self, run: Run, step: Step, by: str) -> Record | None:
        aside = Aside(run_stream(run.run), step.kind, by, step.body, expect=run.position)
        return self._try(aside)

    def _try(self, aside: Aside) -> Record | None:
        """Written, or None where another process was first."""
        try:
            return self._beside.add(aside)[0]
        except Conflict:
            return None

    def _gates(self, run: Run) -> dict[str, Gate]:
        waiting = [turn for turn in run.legs.values() if turn.gates]
        if all(turn.number in run.followed for turn in waiting):
            return {}
        found = self._workspace.gates(run.task, open_only=False)
        return {gate["address"]: Gate(gate["status"], gate.get("reason", "")) for gate in found}


def _refuse(message: str, problems: list[Problem]) -> None:
    if problems:
        raise InvalidInput(message, problems)


def _secrets(relay: Relay) -> list[Problem]:
    """What would be taken out of a relay when it is recorded: then it would not be the same."""
    kinds = redact_value(relay.document)[1]
    expected = "none; name a variable in pass_env instead"
    return [
        Problem("relay", "secret", f"holds what looks like a {kind}", expected) for kind in kinds
    ]


def _newest_first(name: str) -> tuple[int, str]:
    number = name.removeprefix("R-")
    return (-int(number), name) if number.isdigit() else (0, name)

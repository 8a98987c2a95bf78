"""Runs as the ledger has them: started, gone on with, answered, listed.

Everything here is safe to do from several processes at once: a step is written only if the run is
still where it was when the step was drawn; whoever comes second looks again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from passdown.errors import Conflict, InvalidInput, NotFound, Problem
from passdown.model.advancing import Gate, next_step, resumption
from passdown.model.kinds import RUN_STREAM
from passdown.model.names import agent_problems, id_problems
from passdown.model.run import VERDICTS, run_of, run_stream
from passdown.model.text import text_problems
from passdown.workspace.beside import Aside, Beside

if TYPE_CHECKING:
    from collections.abc import Callable

    from passdown.model.advancing import Step
    from passdown.model.record import Record
    from passdown.model.relay import Relay
    from passdown.model.run import Run
    from passdown.workspace import Workspace

ENGINE = "passdown"
"""Who writes what follows by itself."""


class Runs:
    """The runs of one workspace."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._beside = Beside(workspace)

    def start(self, relay: Relay, task: str, *, by: str, lane: str = "normal") -> Run:
        """Record that a relay is to be run on a task; nothing is queued yet."""
        problems = [*agent_problems(by, "by"), *id_problems(task, "task")]
        if problems:
            raise InvalidInput("the run is refused; nothing was started", problems)
        self._workspace.task(task)  # raises NotFound with what to do
        body = {"relay": relay.document, "task": task, "lane": lane}
        number = len(self._beside.streams(RUN_STREAM)) + 1
        while True:
            stream = run_stream(f"R-{number}")
            try:
                self._beside.add(Aside(stream, "started", by, body, expect=0))
            except Conflict:
                number += 1
                continue
            return self.go_on(f"R-{number}")

    def get(self, run: str) -> Run:
        """Where a run stands; raises NotFound or Damaged."""
        problems = id_problems(run, "run")
        records = [] if problems else self._beside.records(run_stream(run))
        found = run_of(records)
        if found is None:
            raise NotFound(
                f"there is no run {run[:80]!r}", next_step="passdown runs lists all of them."
            )
        return found

    def all(self) -> list[Run]:
        """Every run, the newest first."""
        names = [head.stream.removeprefix(RUN_STREAM) for head in self._beside.streams(RUN_STREAM)]
        return [self.get(name) for name in sorted(names, key=_newest_first)]

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
        found = self.get(run)
        if found.status == "completed":
            raise InvalidInput(
                f"{run} is completed; there is nothing to resume",
                [Problem("run", "completed", f"{run} ended at {found.ended_at}", "an open run")],
            )
        step = resumption(found)
        if step is not None:
            self._write(found, step, by)
        return self.go_on(run)

    def answer(self, run: str, verdict: str, *, by: str, guidance: str = "") -> Run:
        """Answer the budget review that a run waits for."""
        problems = [*agent_problems(by, "by"), *text_problems(guidance, "guidance", required=False)]
        if verdict not in VERDICTS:
            expected = " | ".join(VERDICTS)
            problems.append(Problem("verdict", "invalid_choice", f"{verdict!r:.40}", expected))
        found = self.get(run)
        if not found.asked:
            problems.append(
                Problem("run", "not_asked", f"{run} waits for no review", "one that does")
            )
        if problems:
            raise InvalidInput("the answer is refused; nothing was changed", problems)
        body = {"verdict": verdict, "guidance": guidance}
        self._beside.add(Aside(run_stream(run), "answered", by, body, expect=found.position))
        return self.go_on(run)

    def stop(self, run: str, *, by: str, why: str = "") -> Run:
        """End a run where it is; legs under way come to their end, nothing follows them."""
        found = self.get(run)
        if not found.ended_at:
            stopped_by = [
                turn.number for turn in found.legs.values() if turn.number not in found.followed
            ]
            body = {"status": "stopped", "why": why, "followed": [], "stopped_by": stopped_by}
            self._beside.add(Aside(run_stream(run), "ended", by, body, expect=found.position))
        return self.get(run)

    def begin(self, run: str, number: int, worker: str) -> None:
        """Record that a worker has begun a turn."""
        self._add(run, "begun", {"number": number, "worker": worker})

    def end(self, run: str, number: int, fields: dict[str, Any]) -> None:
        """Record how a turn ended; the first to say so counts."""
        while True:
            found = self.get(run)
            if not found.legs[number].is_open:
                return
            aside = Aside(
                run_stream(run),
                "leg_ended",
                ENGINE,
                {"number": number, **fields},
                expect=found.position,
            )
            if self._try(aside) is not None:
                return

    def _add(self, run: str, kind: str, body: dict[str, Any]) -> None:
        self._beside.add(Aside(run_stream(run), kind, ENGINE, body))

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
        waiting = [turn for turn in run.legs.values() if turn.gate]
        if all(turn.number in run.followed for turn in waiting):
            return {}
        found = self._workspace.gates(run.task, open_only=False)
        return {gate["address"]: Gate(gate["status"], gate.get("reason", "")) for gate in found}


def _newest_first(name: str) -> tuple[int, str]:
    number = name.removeprefix("R-")
    return (-int(number), name) if number.isdigit() else (0, name)

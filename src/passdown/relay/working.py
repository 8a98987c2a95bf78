"""What a process does for runs: takes turns, draws consequences, carries out express items."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any, TypeVar

from passdown import spans
from passdown.errors import InvalidInput, PassdownError, StoreBusy
from passdown.model.relay import ERROR
from passdown.model.storable import storable_values
from passdown.relay.engine.heartbeats import workers
from passdown.relay.engine.lanes import EXPRESS, ITEM, LEG
from passdown.relay.express import carry_out
from passdown.relay.express_records import express_record
from passdown.relay.runs import HERE, Runs
from passdown.relay.turns import Turns

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from passdown.model.run import LegRun, Run
    from passdown.relay.engine.engine import Engine
    from passdown.relay.express import ExpressDone
    from passdown.relay.runners.asking import Runner
    from passdown.relay.turns import Say
    from passdown.workspace import Workspace

T = TypeVar("T")

BUSY_TRIES = 5
OVER = -1
log = logging.getLogger("passdown.relay")


def lane_of(run: Run) -> str:
    """The queue that a run's turns go to."""
    return f"run-{run.run}" if run.lane == HERE else run.lane


def patiently(action: Callable[[], T]) -> T:
    """Do what a store under load may refuse for the moment: an agent's work is at stake."""
    for attempt in range(1, BUSY_TRIES):
        try:
            return action()
        except StoreBusy as error:
            log.warning("the store is busy: %s", error)
            time.sleep(attempt)
    return action()


class RelayWork:
    """The work of one process, as the engine asks for it; each part may be repeated safely."""

    def __init__(
        self,
        workspace: Workspace,
        engine: Engine,
        *,
        say: Say | None = None,
        did: Callable[[ExpressDone], None] | None = None,
        runners: Mapping[str, Runner] | None = None,
        halted: Callable[[], bool] = lambda: False,
    ) -> None:
        """When `halted` says so, agents at work are ended and their turns are left to others."""
        self.runs = Runs(workspace)
        self._workspace = workspace
        self._engine = engine
        self._did = did
        self._looked_at: dict[str, tuple[int, float]] = {}
        self._waiting: set[str] = set()
        self._at: set[tuple[str, int]] = set()
        self._turns = Turns(
            workspace,
            is_fresh=lambda: engine.heartbeat.is_fresh and not halted(),
            say=say,
            runners=runners,
        )

    def take_turn(self, run: str, number: int) -> None:
        """Do one leg of a run and record how it ended, unless that is recorded already."""
        found = patiently(lambda: self.runs.get(run))
        turn = found.legs[number]
        if not turn.is_open or not self._engine.heartbeat.wait_for_lease():
            return
        patiently(lambda: self.runs.begin(run, number, self._engine.heartbeat.worker))
        self._at.add((run, number))
        try:
            with self._span(found, turn) as span:
                ended = self._taken(found, turn)
                outcome = "left" if ended is None else ended["outcome"]
                span.note({"passdown.outcome": outcome}, error=ERROR if outcome == ERROR else "")
        finally:
            self._at.discard((run, number))
        if ended is None:
            log.warning("%s, turn %d: others have it; nothing was recorded here", run, number)
            return
        self._end(run, number, ended)

    def _span(self, run: Run, turn: LegRun) -> spans.Span:
        attributes = {
            "passdown.workspace": self._workspace.store_shown,
            "passdown.task": run.task,
            "passdown.agent": turn.agent,
            "passdown.run": run.run,
            "passdown.leg": turn.leg,
            "passdown.turn": turn.number,
        }
        return spans.span("relay leg", attributes)

    def _taken(self, run: Run, turn: LegRun) -> dict[str, Any] | None:
        """How a turn ended; None where it was left to others."""
        try:
            return self._turns.take(run, turn)
        except Exception as error:  # whatever goes wrong in a turn, the run hears of it
            log.exception("%s, turn %d", run.run, turn.number)
            why = error.message if isinstance(error, PassdownError) else repr(error)
            return {"outcome": ERROR, "why": str(error) or why, "measured": {}}

    def _end(self, run: str, number: int, ended: dict[str, Any]) -> None:
        try:
            patiently(lambda: self.runs.end(run, number, storable_values(ended)))
        except InvalidInput as error:  # too large, most likely
            why = f"how it ended could not be recorded: {error.message}"
            kept: dict[str, Any] = {"outcome": ERROR, "why": why, "measured": {}}
            patiently(lambda: self.runs.end(run, number, kept))

    def go_on(self, run: str) -> None:
        """Draw the consequences of what has ended, and queue what follows."""
        self._queue(patiently(lambda: self.runs.go_on(run)))

    def _queue(self, run: Run) -> None:
        self._turns.seats.settle(run)
        for turn in run.open_legs:
            if not self._is_under_way(run.run, turn):
                name = f"{run.run}.{turn.number}"
                lane = lane_of(run)
                self._engine.lanes.send(lane, LEG, name, run.run, turn.number, is_more=True)

    def _is_under_way(self, run: str, turn: LegRun) -> bool:
        """Whether a worker that is alive has begun a turn. Of its own it knows better: one that it
        left because it was silent for a while is at nobody's, until it is queued again.
        """
        if turn.worker == self._engine.heartbeat.worker:
            return (run, turn.number) in self._at
        return bool(turn.worker) and turn.worker in self._alive()

    def is_served(self) -> bool:
        """Whether a worker, or a run in the foreground, is there to take what is queued."""
        return bool(self._alive())

    def _alive(self) -> set[str]:
        found = workers(self._engine.database)
        return {each.worker for each in found if not (each.is_gone or each.is_silent)}

    def do_express(self, item: str) -> None:
        """Carry out one express item, unless it was."""
        sent = express_record(self._workspace, item).item
        done = carry_out(self._workspace, sent, states=self._turns.seats.states)
        if self._did is not None:
            self._did(done)

    def send_express(self, item: str, *, wait_s: float = 0.0) -> bool:
        """Queue an express item that is recorded already."""
        return self._engine.lanes.send(EXPRESS, ITEM, item, item, wait_s=wait_s)

    def reconcile(self, lane: str) -> None:
        """Go on with what nobody else does: runs that were answered, and what got lost.

        A run that hasn't changed is looked at closely only now and then, since whoever ends a turn
        sees to what follows.
        """
        for run, position in self.runs.positions().items():
            known, at = self._looked_at.get(run, (0, 0.0))
            is_due = time.monotonic() - at > self._engine.heartbeat.lease_s
            if known == OVER or (known == position and not is_due and run not in self._waiting):
                continue
            try:
                self._look_at(run, position, lane, is_due=is_due)
            except PassdownError:
                self._looked_at[run] = (position, time.monotonic())
                log.exception("%s can't be gone on with", run)

    def _look_at(self, run: str, position: int, lane: str, *, is_due: bool) -> None:
        found = patiently(lambda: self.runs.go_on(run))
        self._note(found)
        if lane_of(found) == lane and (is_due or found.position != position):
            self._queue(found)

    def _note(self, run: Run) -> None:
        position = OVER if run.ended_at else run.position
        known, at = self._looked_at.get(run.run, (0, 0.0))
        is_new = known != position
        self._looked_at[run.run] = (position, time.monotonic() if is_new else at)
        if run.status == "waiting":
            self._waiting.add(run.run)
        else:
            self._waiting.discard(run.run)

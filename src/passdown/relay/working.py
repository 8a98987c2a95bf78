"""What a process does for runs: takes turns, draws consequences, carries out express items."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any, TypeVar

from passdown.errors import PassdownError, StoreBusy
from passdown.model.relay import ERROR
from passdown.relay.engine.heartbeats import workers
from passdown.relay.engine.lanes import EXPRESS, ITEM, LEG
from passdown.relay.express import carry_out
from passdown.relay.runs import Runs
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
HERE = "here"
"""The lane of a run that the process which started it takes all the turns of."""

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
    ) -> None:
        self.runs = Runs(workspace)
        self._workspace = workspace
        self._engine = engine
        self._did = did
        self._over: dict[str, int] = {}
        self._turns = Turns(
            workspace, is_fresh=lambda: engine.heartbeat.is_fresh, say=say, runners=runners
        )

    def take_turn(self, run: str, number: int) -> None:
        """Do one leg of a run and record how it ended, unless that is recorded already."""
        found = patiently(lambda: self.runs.get(run))
        turn = found.legs[number]
        if not turn.is_open:
            return
        patiently(lambda: self.runs.begin(run, number, self._engine.heartbeat.worker))
        ended: dict[str, Any] | None
        try:
            ended = self._turns.take(found, turn)
        except Exception as error:  # whatever goes wrong in a turn, the run hears of it
            log.exception("%s, turn %d", run, number)
            why = error.message if isinstance(error, PassdownError) else repr(error)
            ended = {"outcome": ERROR, "why": str(error) or why, "measured": {}}
        if ended is None:
            log.warning("%s, turn %d: others have it; nothing was recorded here", run, number)
            return
        patiently(lambda: self.runs.end(run, number, ended))

    def go_on(self, run: str) -> None:
        """Draw the consequences of what has ended, and queue what follows."""
        found = patiently(lambda: self.runs.go_on(run))
        self._turns.seats.settle(found)
        for turn in found.open_legs:
            if not self._is_under_way(turn):
                name = f"{run}.{turn.number}"
                self._engine.lanes.send(lane_of(found), LEG, name, run, turn.number, wait_s=3_600)

    def _is_under_way(self, turn: LegRun) -> bool:
        """Whether a worker that is alive has begun a turn."""
        alive = {w.worker for w in workers(self._engine.database) if not (w.is_gone or w.is_silent)}
        return bool(turn.worker) and turn.worker in alive

    def do_express(self, item: str) -> None:
        """Carry out one express item, unless it was."""
        done = carry_out(self._workspace, item, states=self._turns.seats.states)
        if self._did is not None:
            self._did(done)

    def send_express(self, item: str, *, wait_s: float = 0.0) -> bool:
        """Queue an express item that is recorded already."""
        return self._engine.lanes.send(EXPRESS, ITEM, item, item, wait_s=wait_s)

    def reconcile(self, lane: str) -> None:
        """Go on with every run of a lane that isn't over: answered, lost, or never sent."""
        for run, position in self.runs.positions().items():
            if self._over.get(run) == position:
                continue
            found = self.runs.get(run)
            if found.ended_at:
                self._over[run] = found.position
            elif lane_of(found) == lane:
                self.go_on(run)

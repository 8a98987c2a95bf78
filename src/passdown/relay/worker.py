"""Execute relays: one run in this process until it ends, or a worker that serves the queues."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from passdown import tracing as spans
from passdown.core.text import storable_values
from passdown.errors import Conflict, InvalidInput, PassdownError, StoreBusy
from passdown.relay.engine import database_faults
from passdown.relay.engine.database import (
    DEFAULT_CAPACITY,
    EXPRESS,
    ITEM,
    LEASE_S,
    LEG,
    NORMAL,
    relay_url,
    workers,
)
from passdown.relay.engine.engine import RelayEngine
from passdown.relay.express import carry_out, express_record
from passdown.relay.run import ERROR
from passdown.relay.runs import ENGINE, HERE, Runs
from passdown.relay.turns import Turns
from passdown.workspace.streams import StreamEntry, WorkspaceStreams

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from passdown.relay.express import ExpressResult
    from passdown.relay.run import LegRun, Relay, Run
    from passdown.relay.runners import Runner
    from passdown.relay.turns import Say
    from passdown.workspace import Workspace


T = TypeVar("T")

MAX_BUSY_TRIES = 5
OVER = -1
log = logging.getLogger("passdown.relay")


def lane_of(run: Run) -> str:
    """The queue that a run's turns go to."""
    return f"run-{run.run}" if run.lane == HERE else run.lane


def retry_while_busy(action: Callable[[], T]) -> T:
    """Do what a store under load may refuse for the moment: an agent's work is at stake."""
    for attempt in range(1, MAX_BUSY_TRIES):
        try:
            return action()
        except StoreBusy as error:
            log.warning("the store is busy: %s", error)
            time.sleep(attempt)
    return action()


class RelayWorker:
    """The work of one process, as the engine asks for it; each part may be repeated safely."""

    def __init__(
        self,
        workspace: Workspace,
        engine: RelayEngine,
        *,
        say: Say | None = None,
        did: Callable[[ExpressResult], None] | None = None,
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
        found = retry_while_busy(lambda: self.runs.get(run))
        turn = found.legs[number]
        if not turn.is_open or not self._engine.heartbeat.wait_for_lease():
            return
        retry_while_busy(lambda: self.runs.begin(run, number, self._engine.heartbeat.worker))
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
            "passdown.workspace": self._workspace.store_label,
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
            retry_while_busy(lambda: self.runs.end(run, number, storable_values(ended)))
        except InvalidInput as error:  # too large, most likely
            why = f"how it ended could not be recorded: {error.message}"
            kept: dict[str, Any] = {"outcome": ERROR, "why": why, "measured": {}}
            retry_while_busy(lambda: self.runs.end(run, number, kept))

    def go_on(self, run: str) -> None:
        """Draw the consequences of what has ended, and queue what follows."""
        self._queue(retry_while_busy(lambda: self.runs.go_on(run)))

    def _queue(self, run: Run) -> None:
        self._turns.run_agents.settle(run)
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
        done = carry_out(self._workspace, sent, states=self._turns.run_agents.states)
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
        found = retry_while_busy(lambda: self.runs.go_on(run))
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


IDENTITY = "relay/identity"
POLL_S = 0.1
RECONCILE_S = 1.0


class EngineOptions(NamedTuple):
    """How the engine of a process is set up: its database, lease, room in the lanes."""

    url: str = ""
    lease_s: float = LEASE_S
    room: int = DEFAULT_CAPACITY


class ProgressCallbacks(NamedTuple):
    """What is told while work goes on: an agent at work, a run that changed, an express item."""

    turn: Say | None = None
    run: Callable[[Run], None] | None = None
    express: Callable[[ExpressResult], None] | None = None


def open_engine(workspace: Workspace, terms: EngineOptions = EngineOptions()) -> RelayEngine:  # noqa: B008
    """The engine that belongs to a workspace; not launched yet."""
    beside = WorkspaceStreams(workspace)
    url = relay_url(beside.opened.place.folder, terms.url, workspace.store_url)
    return RelayEngine(url, scope=_identity(beside), lease_s=terms.lease_s, room=terms.room)


def _identity(beside: WorkspaceStreams) -> str:
    """What tells this store from others that use the same engine's database; made once."""
    while True:
        known = beside.last(IDENTITY)
        if known is not None:
            return known.document()["id"]
        with suppress(Conflict):
            body = {"id": uuid.uuid4().hex[:12]}
            beside.add(StreamEntry(IDENTITY, "named", ENGINE, body, expect=0))


def start_detached(
    workspace: Workspace,
    relay: Relay,
    task: str,
    *,
    by: str,
    terms: EngineOptions = EngineOptions(),  # noqa: B008
) -> Run:
    """Start a run whose turns the workers take; raises LaneFull before anything is recorded."""
    with open_engine(workspace, terms) as engine:
        engine.lanes.check_room(NORMAL)
        work = RelayWorker(workspace, engine)
        run = work.runs.start(relay, task, by=by, lane=NORMAL)
        work.go_on(run.run)
        return run


def requeue(workspace: Workspace, run: str, terms: EngineOptions) -> None:
    """Queue what a detached run has open, so that no worker has to find it."""
    with database_faults(), open_engine(workspace, terms) as engine:
        RelayWorker(workspace, engine).go_on(run)


def run_here(
    workspace: Workspace,
    run: str,
    *,
    terms: EngineOptions = EngineOptions(),  # noqa: B008
    shown: ProgressCallbacks = ProgressCallbacks(),  # noqa: B008
    runners: Mapping[str, Runner] | None = None,
    waits: bool = True,
    halt: threading.Event | None = None,
) -> Run:
    """Take all turns of a run in this process until it is over; gives where it stands then.

    Where a person is waited for, this waits too, unless `waits` is False. It may be killed at any
    moment: called again, it goes on at the leg where it was. `halt` ends agents at work and this.
    """
    halt, over = halt or threading.Event(), threading.Event()
    with open_engine(workspace, terms) as engine:
        work = RelayWorker(
            workspace,
            engine,
            say=shown.turn,
            did=shown.express,
            runners=runners,
            halted=lambda: halt.is_set() or over.is_set(),
        )
        found = work.runs.get(run)
        engine.launch(work, {lane_of(found): found.relay.parallel, EXPRESS: 1})
        try:
            return _run_until_done(work, run, shown, waits=waits, halt=halt)
        finally:
            over.set()  # nothing is begun or waited for any more
            if found.lane == HERE:
                engine.forget_lane(lane_of(found))


def _run_until_done(
    work: RelayWorker, run: str, shown: ProgressCallbacks, *, waits: bool, halt: threading.Event
) -> Run:
    position, looks = -1, 0
    while True:
        now = work.runs.position(run)
        if now != position or looks * POLL_S >= RECONCILE_S or halt.is_set():
            work.go_on(run)
            found = work.runs.get(run)
            if found.position != position and shown.run is not None:
                shown.run(found)
            position, looks = found.position, 0
            is_resting = found.status == "waiting" and not found.open_legs
            if found.ended_at or halt.is_set() or (is_resting and not waits):
                return found
        halt.wait(POLL_S)
        looks += 1


def run_worker(
    workspace: Workspace,
    *,
    slots: int = 1,
    terms: EngineOptions = EngineOptions(),  # noqa: B008
    shown: ProgressCallbacks = ProgressCallbacks(),  # noqa: B008
    runners: Mapping[str, Runner] | None = None,
    stop: threading.Event | None = None,
    halt: threading.Event | None = None,
) -> None:
    """Serve the lanes until `stop` is set: so many legs at once, and express items beside them.

    What is under way then comes to its end, unless `halt` is set: that ends agents at work.
    """
    stop, halt = stop or threading.Event(), halt or threading.Event()
    with open_engine(workspace, terms) as engine:
        served = RelayWorker(
            workspace,
            engine,
            say=shown.turn,
            did=shown.express,
            runners=runners,
            halted=halt.is_set,
        )
        engine.launch(served, {NORMAL: slots, EXPRESS: 1})
        while not stop.is_set():
            served.reconcile(NORMAL)
            stop.wait(RECONCILE_S)

"""Execute relays: one run in this process until it ends, or a worker that serves the queues."""

from __future__ import annotations

import logging
import os
import threading
import time
import uuid
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from passdown import tracing
from passdown.core.text import storable_values
from passdown.errors import (
    Conflict,
    InvalidInput,
    NotFound,
    PassdownError,
    Problem,
    StoreBusy,
    StoreError,
    raise_problems,
)
from passdown.relay.engine import database_faults, has_ended
from passdown.relay.engine.engine import (
    DEFAULT_CAPACITY,
    LEASE_S,
    RelayEngine,
    change,
    relay_url,
    workers,
)
from passdown.relay.express import ExpressRecord, ExpressTurns, item_of
from passdown.relay.git import open_pull_request
from passdown.relay.run import ERROR, has_to_wait, peer_of
from passdown.relay.runs import ENGINE, EXPRESS, HERE, NORMAL, Runs
from passdown.relay.turns import Turns
from passdown.workspace.context import context_of
from passdown.workspace.streams import StreamEntry, WorkspaceStreams

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from passdown.core.types import JsonObject
    from passdown.relay.engine.engine import Worker
    from passdown.relay.run import LegRun, Relay, Run
    from passdown.relay.runners import Runner
    from passdown.relay.runners.scripted import Function
    from passdown.relay.turns import OnEvent
    from passdown.workspace import Workspace

T = TypeVar("T")

MAX_BUSY_ATTEMPTS = 5
IDENTITY = "relay/identity"
POLL_S = 0.1
RECONCILE_S = 1.0
_OVER = -1
log = logging.getLogger("passdown.relay")


class EngineOptions(NamedTuple):
    """Options of a process's engine: its database, lease, and the capacity of the queues."""

    url: str = ""
    lease_s: float = LEASE_S
    room: int = DEFAULT_CAPACITY


class ProgressCallbacks(NamedTuple):
    """Called while work goes on: for events of a turn, a changed run, a finished express item."""

    turn: OnEvent | None = None
    run: Callable[[Run], None] | None = None
    express: Callable[[ExpressRecord], None] | None = None


_OPTIONS = EngineOptions()
_CALLBACKS = ProgressCallbacks()


def lane_of(run: Run) -> str:
    """The queue that a run's turns go to."""
    return f"run-{run.run}" if run.lane == HERE else run.lane


def retry_while_busy(action: Callable[[], T]) -> T:
    """Repeat what a store under load refuses, with pauses, a few times."""
    for attempt in range(1, MAX_BUSY_ATTEMPTS):
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
        callbacks: ProgressCallbacks = _CALLBACKS,
        runners: Mapping[str, Runner | Function] | None = None,
        halted: Callable[[], bool] = lambda: False,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        """Once `halted` returns True, running agents are ended and their turns left to others; once
        `stopping` does, express items no longer wait here for their agents.
        """
        self.runs = Runs(workspace)
        self._workspace = workspace
        self._engine = engine
        self._callbacks = callbacks
        self._stopping = lambda: halted() or stopping()
        self._checked: dict[str, tuple[int, float]] = {}
        self._waiting: set[str] = set()
        self._running: set[tuple[str, int]] = set()
        self._turns = Turns(
            workspace,
            is_fresh=lambda: engine.heartbeat.is_fresh and not halted(),
            on_event=callbacks.turn,
            runners=runners,
        )
        self._turns.run_agents.has_ended = self._has_ended
        opens = partial(open_pull_request, stop=halted)
        self._express = ExpressTurns(workspace, self._turns.run_agents, pull_request=opens)

    def take_turn(self, run: str, number: int) -> None:
        """Take one turn of a run and record how it ended, unless that is recorded already."""
        try:
            found = retry_while_busy(lambda: self.runs.get(run))
        except NotFound:  # its sender queues it, then records it: it is found when it is there
            return
        turn = found.legs[number]
        if not turn.is_open or not self._engine.heartbeat.wait_for_lease():
            return
        while True:
            if found.lane == EXPRESS and not self._wait_for_agent(found):
                return
            retry_while_busy(lambda: self.runs.begin(run, number, self._engine.heartbeat.worker))
            ended = self._taken(found, turn)
            # An agent that seemed free may have been resumed in its own run meanwhile.
            is_late = found.lane == EXPRESS and ended is None and not self._stopping()
            if not (is_late and self._turns.run_agents.obstacles(found)):
                break
        if ended is None:
            is_over = bool(self.runs.get(run).ended_at)
            left = "is taken again when the run is resumed" if found.lane == HERE else ""
            left = "ended with its run" if is_over else left or "is left to other workers"
            log.warning("%s, turn %d %s; nothing was recorded", run, number, left)
            return
        self._end(run, number, ended)

    def _taken(self, run: Run, turn: LegRun) -> JsonObject | None:
        """How a turn ended, with its span; None if it was left to others."""
        attributes = {
            "passdown.workspace": self._workspace.store_label,
            "passdown.task": run.task,
            "passdown.agent": turn.agent,
            "passdown.run": run.run,
            "passdown.leg": turn.leg,
            "passdown.turn": turn.number,
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.provider.name": "passdown",
            "gen_ai.agent.name": turn.agent,
            "gen_ai.conversation.id": f"{run.task}/{turn.agent}/{peer_of(run, turn)}",
        }
        self._running.add((run.run, turn.number))
        try:
            with tracing.span(f"invoke_agent {turn.agent}", attributes) as span:
                ended = self._take(run, turn)
                outcome = "left" if ended is None else ended["outcome"]
                span.note({"passdown.outcome": outcome}, error=ERROR if outcome == ERROR else "")
            return ended
        finally:
            self._running.discard((run.run, turn.number))

    def _wait_for_agent(self, run: Run) -> bool:
        """Wait until an agent of an express run is free. After a while others are let past: one of
        them may be what its agent is busy with. For agents that aren't known it doesn't wait: the
        run is looked at once per lease.
        """
        heartbeat = self._engine.heartbeat
        deadline = time.monotonic() + heartbeat.lease_s
        while found := self._turns.run_agents.obstacles(run):
            if all(each.code == "unknown_agent" for each in found):
                return False
            is_late = time.monotonic() > deadline or not heartbeat.is_fresh
            if is_late or self._stopping() or self.runs.get(run.run).ended_at:
                self._checked.pop(run.run, None)  # it is queued again at the next look
                return False
            time.sleep(POLL_S)
        return True

    def _take(self, run: Run, turn: LegRun) -> JsonObject | None:
        """How a turn ended; None if it was left to others."""
        try:
            if run.lane == EXPRESS:
                return self._express.take(run, turn, wait_s=RECONCILE_S)
            return self._turns.take(run, turn)
        except Exception as error:  # whatever goes wrong in a turn is recorded in the run
            if run.lane == EXPRESS and isinstance(error, StoreError):
                log.warning("%s can't be carried out now: %s", run.run, error.message)
                return None
            if not isinstance(error, PassdownError):  # else the reason says enough
                log.exception("%s, turn %d", run.run, turn.number)
            why = error.message if isinstance(error, PassdownError) else repr(error)
            return {"outcome": ERROR, "why": str(error) or why, "measured": {}}

    def _end(self, run: str, number: int, ended: JsonObject) -> None:
        try:
            retry_while_busy(lambda: self.runs.end(run, number, storable_values(ended)))
        except InvalidInput as error:  # too large, most likely
            why = f"how it ended could not be recorded: {error.message}"
            failed: JsonObject = {"outcome": ERROR, "why": why, "measured": {}}
            retry_while_busy(lambda: self.runs.end(run, number, failed))

    def advance(self, run: str) -> None:
        """Advance a run and queue its open turns."""
        try:
            found = retry_while_busy(lambda: self.runs.advance(run))
        except NotFound:
            return
        self._queue(found)
        if found.lane == EXPRESS and found.ended_at and self._callbacks.express:
            self._callbacks.express(ExpressRecord(item_of(found), self.runs.get(run)))

    def _queue(self, run: Run) -> None:
        if run.lane == EXPRESS:
            self._express.settle(run)
        else:
            self._turns.run_agents.settle(run)
        for turn in run.open_legs if not run.ended_at or run.lane != EXPRESS else ():
            if not (has_to_wait(run, turn) or self._is_running(run.run, turn)):
                self._engine.send(lane_of(run), run.run, turn.number, is_more=True)

    def _is_running(self, run: str, turn: LegRun) -> bool:
        """Whether a live worker has begun a turn. One that this worker began and left, because it
        was silent for a while, is nobody's until it is queued again.
        """
        if turn.worker == self._engine.heartbeat.worker:
            return (run, turn.number) in self._running
        return bool(turn.worker) and self._states().get(turn.worker) == "alive"

    def _has_ended(self, worker: str) -> bool:
        """Whether a worker's process has ended or its lease has expired."""
        state = self._states().get(worker)
        return has_ended(worker) if state is None else state != "alive"

    def _states(self) -> dict[str, str]:
        return {each.worker: each.state for each in workers(self._engine.database)}

    def reconcile(self, *lanes: str) -> None:
        """Advance runs that nobody else does: those that were answered, and lost ones.

        An unchanged run is checked only once per lease: whoever ends a turn queues what follows.
        """
        for run, position in self.runs.positions().items():
            known, at = self._checked.get(run, (0, 0.0))
            is_due = time.monotonic() - at > self._engine.heartbeat.lease_s
            if known == _OVER or (known == position and not is_due and run not in self._waiting):
                continue
            try:
                found = retry_while_busy(lambda name=run: self.runs.advance(name))
                self._note(found)
                if lane_of(found) in lanes and (is_due or found.position != position):
                    self._queue(found)
            except PassdownError:
                self._checked[run] = (position, time.monotonic())
                log.exception("%s can't be advanced", run)

    def _note(self, run: Run) -> None:
        position = _OVER if run.ended_at else run.position
        known, at = self._checked.get(run.run, (0, 0.0))
        self._checked[run.run] = (position, time.monotonic() if known != position else at)
        (self._waiting.add if run.status == "waiting" else self._waiting.discard)(run.run)


def open_engine(workspace: Workspace, options: EngineOptions = _OPTIONS) -> RelayEngine:
    """The engine of a workspace; not launched yet."""
    streams = WorkspaceStreams(workspace)
    url = relay_url(context_of(workspace).place.folder, options.url, workspace.store_url)
    # An id that tells this store from others in the same database, made once.
    while (known := streams.last(IDENTITY)) is None:
        with suppress(Conflict):
            body = {"id": uuid.uuid4().hex[:12]}
            streams.add(StreamEntry(IDENTITY, "named", ENGINE, body, expect=0))
    scope: str = known.document()["id"]
    return RelayEngine(url, scope=scope, lease_s=options.lease_s, room=options.room)


def workers_of(workspace: Workspace, url: str = "") -> list[Worker]:
    """All workers that have signed on and not off; nothing is made where none ever was."""
    address = relay_url(context_of(workspace).place.folder, url, workspace.store_url)
    path = address.removeprefix("sqlite:///")
    if path != address and not os.path.exists(path):
        return []
    with database_faults(), open_engine(workspace, EngineOptions(url=url)) as engine:
        change(engine.database, "make_workers")
        return workers(engine.database)


def start_detached(
    workspace: Workspace,
    relay: Relay,
    task: str,
    *,
    by: str,
    options: EngineOptions = _OPTIONS,
    begins_with: str = "",
) -> Run:
    """Start a run whose turns the workers take; raises LaneFull before anything is recorded."""
    with open_engine(workspace, options) as engine:
        worker = RelayWorker(workspace, engine)
        engine.check_room(NORMAL)
        run = worker.runs.start(relay, task, by=by, lane=NORMAL, begins_with=begins_with)
        worker.advance(run.run)
        return run


def requeue(workspace: Workspace, run: str, options: EngineOptions = _OPTIONS) -> None:
    """Queue the open turns of a detached run, so that no worker has to find them."""
    with database_faults(), open_engine(workspace, options) as engine:
        RelayWorker(workspace, engine).advance(run)


def run_here(
    workspace: Workspace,
    run: str,
    *,
    options: EngineOptions = _OPTIONS,
    callbacks: ProgressCallbacks = _CALLBACKS,
    runners: Mapping[str, Runner | Function] | None = None,
    waits: bool = True,
    halt: threading.Event | None = None,
) -> Run:
    """Take all turns of a run in this process until it ends; returns the run.

    It waits for people too, unless `waits` is False. After a kill, call it again: it continues at
    the leg where it was. `halt` ends running agents and this function.
    """
    halt, over = halt or threading.Event(), threading.Event()

    def halted() -> bool:
        return halt.is_set() or over.is_set()

    with open_engine(workspace, options) as engine:
        worker = RelayWorker(workspace, engine, callbacks=callbacks, runners=runners, halted=halted)
        found = worker.runs.get(run)
        known, expected = found.relay.agents, " | ".join(found.relay.agents)
        odd = [f"{name[:80]!r} isn't in {run}" for name in runners or () if name not in known]
        problems = [Problem("runners", "unknown_agent", message, expected) for message in odd]
        raise_problems("the run is left as it is", problems)
        engine.launch(worker, {lane_of(found): found.relay.parallel, EXPRESS: 1})
        try:
            return _run_until_done(worker, run, callbacks, waits=waits, halt=halt)
        finally:
            over.set()  # begin and wait for nothing more
            if found.lane == HERE:
                engine.forget_lane(lane_of(found))


def _run_until_done(
    worker: RelayWorker,
    run: str,
    callbacks: ProgressCallbacks,
    *,
    waits: bool,
    halt: threading.Event,
) -> Run:
    position, polls = -1, 0
    while True:
        now = worker.runs.position(run)
        if polls * POLL_S >= RECONCILE_S:
            worker.reconcile(EXPRESS)
        if now != position or polls * POLL_S >= RECONCILE_S or halt.is_set():
            worker.advance(run)
            found = worker.runs.get(run)
            if found.position != position and callbacks.run is not None:
                callbacks.run(found)
            position, polls = found.position, 0
            is_idle = found.status == "waiting" and not found.open_legs
            if found.ended_at or halt.is_set() or (is_idle and not waits):
                return found
        halt.wait(POLL_S)
        polls += 1


def run_worker(
    workspace: Workspace,
    *,
    slots: int = 1,
    options: EngineOptions = _OPTIONS,
    callbacks: ProgressCallbacks = _CALLBACKS,
    runners: Mapping[str, Runner | Function] | None = None,
    stop: threading.Event | None = None,
    halt: threading.Event | None = None,
) -> None:
    """Serve the queues until `stop` is set: `slots` legs at once, and express items beside them.

    Running work is finished first, unless `halt` is set: that ends running agents.
    """
    stop, halt = stop or threading.Event(), halt or threading.Event()
    with open_engine(workspace, options) as engine:
        ends = {"halted": halt.is_set, "stopping": stop.is_set}
        worker = RelayWorker(workspace, engine, callbacks=callbacks, runners=runners, **ends)
        engine.launch(worker, {NORMAL: slots, EXPRESS: 1})
        while not stop.is_set():
            worker.reconcile(NORMAL, EXPRESS)
            stop.wait(RECONCILE_S)

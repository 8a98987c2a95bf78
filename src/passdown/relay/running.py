"""Running relays: a run in this process until it is over, or a worker that serves the lanes."""

from __future__ import annotations

import threading
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from passdown.errors import Conflict
from passdown.relay.engine.database import relay_url
from passdown.relay.engine.engine import Engine
from passdown.relay.engine.faults import database_faults
from passdown.relay.engine.heartbeats import LEASE_S
from passdown.relay.engine.lanes import EXPRESS, NORMAL, ROOM
from passdown.relay.runs import ENGINE, HERE
from passdown.relay.working import RelayWork, lane_of
from passdown.workspace.beside import Aside, Beside

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from passdown.model.relay import Relay
    from passdown.model.run import Run
    from passdown.relay.express import ExpressDone
    from passdown.relay.runners.asking import Runner
    from passdown.relay.turns import Say
    from passdown.workspace import Workspace

IDENTITY = "relay/identity"
LOOK_S = 0.1
RECONCILE_S = 1.0


class Terms(NamedTuple):
    """How the engine of a process is set up: its database, lease, room in the lanes."""

    url: str = ""
    lease_s: float = LEASE_S
    room: int = ROOM


class Shown(NamedTuple):
    """What is told while work goes on: an agent at work, a run that changed, an express item."""

    turn: Say | None = None
    run: Callable[[Run], None] | None = None
    express: Callable[[ExpressDone], None] | None = None


def engine_of(workspace: Workspace, terms: Terms = Terms()) -> Engine:  # noqa: B008
    """The engine that belongs to a workspace; not launched yet."""
    beside = Beside(workspace)
    url = relay_url(beside.opened.place.folder, terms.url, workspace.store_url)
    return Engine(url, scope=_identity(beside), lease_s=terms.lease_s, room=terms.room)


def _identity(beside: Beside) -> str:
    """What tells this store from others that use the same engine's database; made once."""
    while True:
        known = beside.last(IDENTITY)
        if known is not None:
            return known.document()["id"]
        with suppress(Conflict):
            body = {"id": uuid.uuid4().hex[:12]}
            beside.add(Aside(IDENTITY, "named", ENGINE, body, expect=0))


def start_detached(
    workspace: Workspace,
    relay: Relay,
    task: str,
    *,
    by: str,
    terms: Terms = Terms(),  # noqa: B008
) -> Run:
    """Start a run whose turns the workers take; raises LaneFull before anything is recorded."""
    with engine_of(workspace, terms) as engine:
        engine.lanes.check_room(NORMAL)
        work = RelayWork(workspace, engine)
        run = work.runs.start(relay, task, by=by, lane=NORMAL)
        work.go_on(run.run)
        return run


def requeue(workspace: Workspace, run: str, terms: Terms) -> None:
    """Queue what a detached run has open, so that no worker has to find it."""
    with database_faults(), engine_of(workspace, terms) as engine:
        RelayWork(workspace, engine).go_on(run)


def run_here(
    workspace: Workspace,
    run: str,
    *,
    terms: Terms = Terms(),  # noqa: B008
    shown: Shown = Shown(),  # noqa: B008
    runners: Mapping[str, Runner] | None = None,
    waits: bool = True,
    halt: threading.Event | None = None,
) -> Run:
    """Take all turns of a run in this process until it is over; gives where it stands then.

    Where a person is waited for, this waits too, unless `waits` is False. It may be killed at any
    moment: called again, it goes on at the leg where it was. `halt` ends agents at work and this.
    """
    halt, over = halt or threading.Event(), threading.Event()
    with engine_of(workspace, terms) as engine:
        work = RelayWork(
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
            return _watched(work, run, shown, waits=waits, halt=halt)
        finally:
            over.set()  # nothing is begun or waited for any more
            if found.lane == HERE:
                engine.forget_lane(lane_of(found))


def _watched(work: RelayWork, run: str, shown: Shown, *, waits: bool, halt: threading.Event) -> Run:
    position, looks = -1, 0
    while True:
        now = work.runs.position(run)
        if now != position or looks * LOOK_S >= RECONCILE_S or halt.is_set():
            work.go_on(run)
            found = work.runs.get(run)
            if found.position != position and shown.run is not None:
                shown.run(found)
            position, looks = found.position, 0
            is_resting = found.status == "waiting" and not found.open_legs
            if found.ended_at or halt.is_set() or (is_resting and not waits):
                return found
        halt.wait(LOOK_S)
        looks += 1


def work(
    workspace: Workspace,
    *,
    slots: int = 1,
    terms: Terms = Terms(),  # noqa: B008
    shown: Shown = Shown(),  # noqa: B008
    runners: Mapping[str, Runner] | None = None,
    stop: threading.Event | None = None,
    halt: threading.Event | None = None,
) -> None:
    """Serve the lanes until `stop` is set: so many legs at once, and express items beside them.

    What is under way then comes to its end, unless `halt` is set: that ends agents at work.
    """
    stop, halt = stop or threading.Event(), halt or threading.Event()
    with engine_of(workspace, terms) as engine:
        served = RelayWork(
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

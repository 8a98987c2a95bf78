"""What people decide about runs, and small work that is sent: here, or behind a server.

What follows from it is queued where that can be done; where it can't, workers find it.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from passdown.errors import PassdownError
from passdown.model.run import RUNNING
from passdown.relay.express_records import ExpressRecord, express_record, send
from passdown.relay.runs import HERE, Runs

if TYPE_CHECKING:
    from passdown.model.run import Run
    from passdown.workspace import Workspace
    from passdown.workspace.remote.connection import Wire

Document = dict[str, Any]


def wire_of(workspace: Workspace) -> Wire | None:
    """The wire to the server that a workspace is behind; None for one that is open here."""
    return workspace._wire  # pyright: ignore[reportPrivateUsage] - the door's other half


def answer_run(workspace: Workspace, run: str, verdict: str, *, by: str, guidance: str = "") -> Run:
    """Answer the budget review that a run waits for; gives where it stands then."""
    wire = wire_of(workspace)
    if wire is not None:
        _ask(wire, run, "answer", {"verdict": verdict, "by": by, "guidance": guidance})
        return Runs(workspace).get(run)
    found = Runs(workspace).answer(run, verdict, by=by, guidance=guidance)
    follow_up(workspace, found)
    return found


def stop_run(workspace: Workspace, run: str, *, by: str, why: str = "") -> Run:
    """End a run where it is; gives where it stands then."""
    wire = wire_of(workspace)
    if wire is not None:
        _ask(wire, run, "stop", {"by": by, "why": why})
        return Runs(workspace).get(run)
    found = Runs(workspace).stop(run, by=by, why=why)
    follow_up(workspace, found)
    return found


def follow_up(workspace: Workspace, run: Run) -> None:
    """Bring the agents to where a run is now, and queue what an answer leads to: perhaps no process
    has the run that would. Without the engine, workers find it.
    """
    from passdown.relay.seats import Seats

    Seats(workspace).settle(run)
    if run.lane == HERE or run.status != RUNNING:
        return
    with suppress(PassdownError):
        from passdown.relay.running import Terms, requeue

        requeue(workspace, run.run, Terms())


def send_item(workspace: Workspace, item: object) -> ExpressRecord:
    """Record an express item. Behind a server it is queued there as well."""
    wire = wire_of(workspace)
    if wire is None:
        return send(workspace, item)
    from passdown.workspace.remote.asking import sent

    answer = sent(wire, "POST", "/api/express", {"item": item}, repeats=True)
    return express_record(workspace, answer["id"])


def queue_item(workspace: Workspace, item: str) -> str:
    """Queue an express item that is recorded; gives why it could not be, or nothing."""
    try:
        from passdown.relay.engine.faults import database_faults
        from passdown.relay.running import Terms, engine_of
        from passdown.relay.working import RelayWork

        with database_faults(), engine_of(workspace, Terms()) as engine:
            RelayWork(workspace, engine).send_express(item)
    except PassdownError as error:
        return error.message
    return ""


def _ask(wire: Wire, run: str, what: str, body: Document) -> None:
    from passdown.workspace.remote.asking import sent
    from passdown.workspace.remote.connection import part

    sent(wire, "POST", f"/api/runs/{part(run)}/{what}", body)

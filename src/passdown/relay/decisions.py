"""What people decide about runs, and express items that are sent: here, or through a server."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from passdown.errors import PassdownError
from passdown.relay.express import ExpressRecord, express_record, send
from passdown.relay.run import RUNNING
from passdown.relay.runs import HERE, Runs

if TYPE_CHECKING:
    from passdown.core.types import JsonObject
    from passdown.relay.run import Run
    from passdown.remote.connection import HttpConnection
    from passdown.workspace import Workspace


def wire_of(workspace: Workspace) -> HttpConnection | None:
    """The wire to the server that a workspace is behind; None for one that is open here."""
    return workspace._connection  # pyright: ignore[reportPrivateUsage] - the door's other half


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
    from passdown.relay.agents import RunAgents

    RunAgents(workspace).settle(run)
    if run.lane == HERE or run.status != RUNNING:
        return
    with suppress(PassdownError):
        from passdown.relay.worker import EngineOptions, requeue

        requeue(workspace, run.run, EngineOptions())


def send_item(workspace: Workspace, item: object) -> ExpressRecord:
    """Record an express item. Behind a server it is queued there as well."""
    wire = wire_of(workspace)
    if wire is None:
        return send(workspace, item)
    from passdown.remote.client import send_body

    answer = send_body(wire, "POST", "/api/express", {"item": item}, repeats=True)
    return express_record(workspace, answer["id"])


def queue_item(workspace: Workspace, item: str) -> str:
    """Queue an express item that is recorded; gives why it could not be, or nothing."""
    try:
        from passdown.relay.engine import database_faults
        from passdown.relay.worker import EngineOptions, RelayWorker, open_engine

        with database_faults(), open_engine(workspace, EngineOptions()) as engine:
            RelayWorker(workspace, engine).send_express(item)
    except PassdownError as error:
        return error.message
    return ""


def _ask(wire: HttpConnection, run: str, what: str, body: JsonObject) -> None:
    from passdown.remote.client import send_body
    from passdown.remote.connection import path_part

    send_body(wire, "POST", f"/api/runs/{path_part(run)}/{what}", body)

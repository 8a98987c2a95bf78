"""Relays: runs and what people decide about them, express items, where agents stand; and the
streams that all of these are made from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from passdown.errors import NotFound
from passdown.model.kinds import AGENT_STREAM
from passdown.model.run import ENDINGS, RUNNING, VERDICTS, WAITING
from passdown.model.times import stamp
from passdown.relay.deciding import follow_up, queue_item
from passdown.relay.express_records import express_record, express_records, send
from passdown.relay.run_documents import listed_document, readable, run_document
from passdown.relay.runs import Runs
from passdown.surfaces.web.operations import Answer, Operation, reading
from passdown.surfaces.web.schemas import MAX_TEXT, answer, choice, record, text, whole
from passdown.workspace.beside import READ_BY_ALL, Beside, recorded_via

if TYPE_CHECKING:
    from passdown.model.run import Run
    from passdown.surfaces.web.operations import Call
    from passdown.workspace import Workspace

Document = dict[str, Any]

_PAGE = 1_000
_RUN = {"run": text("a run's id", most=128, least=1)}
_ITEM = {"item": text("an item's id", most=128, least=1)}
_BY = text("who decides; default: the token's name", most=64)
_OBJECTS = {"type": "array", "items": {"type": "object"}}
_ONE_RUN = answer("relay", "task", "turns", run={"type": "string"}, status={"type": "string"})
_STREAM = {**text("run/, express/ or agent/, and a name", most=200, least=1), "required": True}


def _now(workspace: Workspace) -> str:
    return stamp(Beside(workspace).now())


def _runs(workspace: Workspace, call: Call) -> Answer:
    """Runs, newest first; one that is damaged hides no other."""
    found, damages = readable(Runs(workspace))
    wanted, now = call.given.get("status"), _now(workspace)
    items = [listed_document(run, now) for run in found if wanted in (None, run.status)]
    return Answer({"items": items, "damaged": [damage.as_document() for damage in damages]})


def _run(workspace: Workspace, call: Call) -> Answer:
    return Answer(run_document(Runs(workspace).get(call.given["run"]), _now(workspace)))


def _answer(workspace: Workspace, call: Call) -> Answer:
    by, given = call.author("by"), call.given
    guidance = given.get("guidance", "")
    run = Runs(workspace).answer(given["run"], given["verdict"], by=by, guidance=guidance)
    return _followed(workspace, call, run)


def _stop(workspace: Workspace, call: Call) -> Answer:
    by, given = call.author("by"), call.given
    run = Runs(workspace).stop(given["run"], by=by, why=given.get("why", ""))
    return _followed(workspace, call, run)


def _followed(workspace: Workspace, call: Call, run: Run) -> Answer:
    """What follows is the engine's to write, and not the person's who decided."""
    with recorded_via(f"token:{call.caller.id}"):
        follow_up(workspace, run)
    return Answer(run_document(run, _now(workspace)))


def _express(workspace: Workspace, call: Call) -> Answer:
    found = express_records(workspace, status=call.given.get("status", ""))
    return Answer({"items": [one.as_document() for one in found]})


def _express_item(workspace: Workspace, call: Call) -> Answer:
    return Answer(express_record(workspace, call.given["item"]).as_document())


def _send(workspace: Workspace, call: Call) -> Answer:
    """Record an item in the token's name, and queue it where there is an engine."""
    call.given = item = dict(call.given["item"])
    sent = send(workspace, {**item, "by": call.author("by")})
    why = "" if sent.is_over else _queued(workspace, call, sent.item.id)
    return Answer({**sent.as_document(), "queued": not why, "not_queued": why})


def _queued(workspace: Workspace, call: Call, item: str) -> str:
    with recorded_via(f"token:{call.caller.id}"):
        return queue_item(workspace, item)


def _agents(workspace: Workspace, call: Call) -> Answer:
    beside = Beside(workspace)
    items: list[Document] = []
    for head in beside.streams(AGENT_STREAM):
        last = beside.last(head.stream)
        if last is not None:
            agent = head.stream.removeprefix(AGENT_STREAM)
            items.append({"agent": agent, "at": last.at, "stands": last.document()["stands"]})
    return Answer({"items": items})


def _heads(workspace: Workspace, call: Call) -> Answer:
    prefix = _shown(call.given["prefix"])
    found = Beside(workspace).streams(prefix)
    return Answer({"items": [head._asdict() for head in found]})


def _records(workspace: Workspace, call: Call) -> Answer:
    """A stream's records as they were hashed, a page at a time."""
    stream, after = _shown(call.given["stream"]), call.given.get("after", 0)
    found = Beside(workspace).records(stream, after)
    items = [{**one._asdict(), "body": one.body.decode()} for one in found[:_PAGE]]
    return Answer({"items": items, "more": len(found) > _PAGE})


def _shown(stream: str) -> str:
    if stream.startswith(READ_BY_ALL):
        return stream
    raise NotFound(
        f"there is no stream {stream[:80]!r} to be read here",
        next_step=f"These can be: {', '.join(READ_BY_ALL)}.",
    )


ROWS = (
    reading(
        "list_runs",
        "/api/runs",
        "Runs of relays and how each stands, newest first",
        _runs,
        query={"status": choice((RUNNING, WAITING, *ENDINGS))},
        answer=answer(items=_OBJECTS, damaged=_OBJECTS),
        is_heavy=True,
        tag="relays",
    ),
    reading(
        "show_run",
        "/api/runs/{run}",
        "One run in full: its turns, what was measured, what it waits for",
        _run,
        parameters=_RUN,
        answer=_ONE_RUN,
        tag="relays",
    ),
    Operation(
        "answer_run",
        "POST",
        "/api/runs/{run}/answer",
        "approve",
        "A person answers the budget review that a run waits for",
        _answer,
        parameters=_RUN,
        body=record(
            {"verdict": choice(VERDICTS), "guidance": text(most=MAX_TEXT), "by": _BY}, ["verdict"]
        ),
        answer=_ONE_RUN,
        tag="relays",
    ),
    Operation(
        "stop_run",
        "POST",
        "/api/runs/{run}/stop",
        "approve",
        "A person ends a run; turns under way come to their end",
        _stop,
        parameters=_RUN,
        body=record({"why": text(most=MAX_TEXT), "by": _BY}),
        answer=_ONE_RUN,
        tag="relays",
    ),
    reading(
        "list_express",
        "/api/express",
        "Express items and what became of each, oldest first",
        _express,
        query={"status": text("such as sent, done, promoted", most=40)},
        answer=answer(items=_OBJECTS),
        is_heavy=True,
        tag="relays",
    ),
    Operation(
        "send_express",
        "POST",
        "/api/express",
        "write",
        "Send small work that overtakes; the same item again is the same",
        _send,
        body=record({"item": {"type": "object"}}, ["item"]),
        answer=answer("not_queued", id={"type": "string"}, queued={"type": "boolean"}),
        status=201,
        tag="relays",
    ),
    reading(
        "show_express",
        "/api/express/{item}",
        "One express item and what became of it",
        _express_item,
        parameters=_ITEM,
        answer=answer("history", id={"type": "string"}, status={"type": "string"}),
        tag="relays",
    ),
    reading(
        "list_agents",
        "/api/agents",
        "Where each agent of a relay stands, and on which task",
        _agents,
        answer=answer(items=_OBJECTS),
        tag="relays",
    ),
    reading(
        "streams",
        "/api/streams",
        "The heads of streams beside the tasks: of runs, express items and agents",
        _heads,
        query={"prefix": _STREAM},
        answer=answer(items=_OBJECTS),
        tag="relays",
    ),
    reading(
        "stream_records",
        "/api/streams/records",
        "The records of one of them, as they were hashed",
        _records,
        query={"stream": _STREAM, "after": whole("records above this position")},
        answer=answer(items=_OBJECTS, more={"type": "boolean"}),
        tag="relays",
    ),
)

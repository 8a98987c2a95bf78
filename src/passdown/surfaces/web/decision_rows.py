"""Decisions under keys of their own, the context of a handoff, and how one thing bears on another:
what programs keep and look up as values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from passdown.model.handoff import as_plain
from passdown.model.relations import Relation
from passdown.surfaces.web.operations import Answer, Operation, reading
from passdown.surfaces.web.schemas import MAX_TEXT, SEEN, answer, listed, record, text, whole
from passdown.surfaces.web.task_rows import AGENT, PATH, TASK_ID
from passdown.surfaces.web.writing_rows import ITEM_ID
from passdown.workspace.decisions import store_plain
from passdown.workspace.memories import address_of_decision, relate

if TYPE_CHECKING:
    from passdown.surfaces.web.operations import Call
    from passdown.workspace import Workspace

Document = dict[str, Any]

_TEXTS = listed(text(most=MAX_TEXT))
_DECISION = record(
    {
        "task": TASK_ID,
        "agent": AGENT,
        "summary": text(most=MAX_TEXT),
        "rationale": text(most=MAX_TEXT),
        "at": text("when it was made; default: now", most=64),
        "alternatives": _TEXTS,
        "artifacts": _TEXTS,
        "paths": _TEXTS,
        "tags": _TEXTS,
        "status": text(most=40),
        "supersedes": listed(ITEM_ID),
        "files_seen": SEEN,
    },
    ["summary", "rationale"],
)
_KEY = text("what storing it gave", most=400, least=1)


def _store(workspace: Workspace, call: Call) -> Answer:
    """Record a decision under a key of its agent and time; the same again is the same."""
    call.given = entry = {"summary": "", "rationale": "", **call.given["body"]}
    task = entry.pop("task", None)
    agent = call.author()
    key = store_plain(workspace, {**entry, "agent": agent}, task)
    return Answer({"key": key, "address": address_of_decision(workspace, key, task)})


def _stored(workspace: Workspace, call: Call) -> Answer:
    key, task = call.given["key"], call.given.get("task")
    decision = as_plain(workspace.stored_decision(key, task))
    return Answer({"decision": decision, "address": address_of_decision(workspace, key, task)})


def _context(workspace: Workspace, call: Call) -> Answer:
    found = workspace.handoff_context(**call.given)
    document: Document = {"source": "", "target": "", "decisions": [], "memory_refs": []}
    return Answer({**document, "metadata": {}, **as_plain(found)})


def _relate(workspace: Workspace, call: Call) -> Answer:
    agent = call.author()
    return Answer({"is_new": relate(workspace, Relation(**call.given), agent=agent)})


ROWS = (
    Operation(
        "store_decision",
        "POST",
        "/api/stored-decisions",
        "write",
        "Record a decision under a key of its agent and time; the same again is the same",
        _store,
        body=_DECISION,
        takes_any=True,
        answer=answer(key={"type": "string"}, address={"type": "string"}),
        status=201,
        takes_files=True,
        tag="records",
    ),
    reading(
        "stored_decision",
        "/api/stored-decisions",
        "The decision that was stored under a key, and its address",
        _stored,
        query={"key": {**_KEY, "required": True}, "task": TASK_ID},
        answer=answer("decision", address={"type": "string"}),
        tag="records",
    ),
    reading(
        "handoff_context",
        "/api/tasks/{task}/context",
        "Who handed a task to whom, the sender's decisions, and what to look up",
        _context,
        parameters=PATH,
        query={"agent": text("whose decisions instead", most=64), "since": whole("a version")},
        answer=answer("source", "target", "at", "decisions", "memory_refs", "metadata"),
        tag="handoffs",
    ),
    Operation(
        "relate",
        "POST",
        "/api/relations",
        "write",
        "Write down that one node bears on another, in any word; told again, it changes nothing",
        _relate,
        body=record(
            {
                "source": text(most=400, least=1),
                "relation": text(most=400, least=1),
                "target": text(most=400, least=1),
                "agent": AGENT,
            },
            ["source", "relation", "target"],
        ),
        answer=answer(is_new={"type": "boolean"}),
        tag="search",
    ),
)

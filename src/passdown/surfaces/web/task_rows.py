"""Tasks: made, listed, shown, changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from passdown.model.kinds import PHASES, TASK_STATUSES
from passdown.surfaces.web.operations import Answer, Operation
from passdown.surfaces.web.pages import paged
from passdown.surfaces.web.requests import telling_missing
from passdown.surfaces.web.schemas import (
    CURSOR,
    LIMIT,
    MAX_TEXT,
    Schema,
    answer,
    choice,
    listed,
    page,
    record,
    ref,
    text,
    truth,
)

if TYPE_CHECKING:
    from passdown.surfaces.web.operations import Call
    from passdown.workspace import Workspace

Document = dict[str, Any]

TASK_ID = text("a task's id", most=128, least=1)
AGENT = text("whose name this is written in; default: the token's", most=64)
PATH = {"task": TASK_ID}

_FIELDS: dict[str, Schema] = {
    "title": text("what it is about", most=MAX_TEXT),
    "description": text(most=MAX_TEXT),
    "inputs": listed(text(most=MAX_TEXT)),
    "outputs": listed(text(most=MAX_TEXT)),
    "criteria": listed(text(most=MAX_TEXT), "how one tells that it is done"),
    "depends_on": listed(TASK_ID, "tasks that come first"),
    "time_limit_minutes": {"type": ["integer", "null"], "minimum": 1},
    "agent": AGENT,
}
_NEW = record(
    {"task": TASK_ID, **_FIELDS, "phase": choice(PHASES), "metadata": {"type": "object"}},
    ["task", "title"],
)
_CHANGE = record({**_FIELDS, "status": choice(("open", "cancelled"))})
_SHOWN = answer(
    "needs",
    "needed_by",
    "blocked_by",
    "open",
    "counts",
    task={"type": "string"},
    title={"type": "string"},
    version={"type": "integer"},
    digest={"type": "string"},
)


def _tasks(workspace: Workspace, call: Call) -> Answer:
    given = call.given
    limit, after = given.pop("limit", 100), int(given.pop("cursor", 0))
    found = workspace.tasks(**given, limit=limit + 1, after=after)
    return paged(found, limit, lambda last: last["seq"])


def _task(workspace: Workspace, call: Call) -> Answer:
    found = workspace.task(call.given["task"])
    return Answer(found, found["version"])


def _new(workspace: Workspace, call: Call) -> Answer:
    body: Document = call.given["body"]
    call.given = given = {"task": "", "title": "", **body}
    author = call.author()
    with telling_missing(body, ("task", "title")):
        receipt = workspace.create_task(agent=author, key=call.key, **given)
    return Answer(receipt.as_document(), receipt.version)


def _change(workspace: Workspace, call: Call) -> Answer:
    task: str = call.given["task"]
    call.given = given = call.given["body"]
    rest: Document = {"expect_version": call.expect_version, "key": call.key}
    receipt = workspace.change_task(task, agent=call.author(), **rest, **given)
    return Answer(receipt.as_document(), receipt.version)


ROWS = (
    Operation(
        "list_tasks",
        "GET",
        "/api/tasks",
        "read",
        "Tasks in the order of their making",
        _tasks,
        query={
            "status": choice(TASK_STATUSES),
            "phase": choice(PHASES),
            "agent": text("only those that this agent holds", most=64),
            "with_workspace": truth("the place of what concerns all work as well"),
            "limit": LIMIT,
            "cursor": CURSOR,
        },
        answer=page(ref("Task")),
        tag="tasks",
    ),
    Operation(
        "create_task",
        "POST",
        "/api/tasks",
        "write",
        "Make a task",
        _new,
        body=_NEW,
        takes_any=True,
        answer=ref("Receipt"),
        status=201,
        takes_key=True,
        tag="tasks",
    ),
    Operation(
        "show_task",
        "GET",
        "/api/tasks/{task}",
        "read",
        "One task: what it is, where it stands, what it waits for",
        _task,
        parameters=PATH,
        answer=_SHOWN,
        tag="tasks",
    ),
    Operation(
        "change_task",
        "PATCH",
        "/api/tasks/{task}",
        "write",
        "Change a task's description, dependencies or status",
        _change,
        parameters=PATH,
        body=_CHANGE,
        takes_any=True,
        answer=ref("Receipt"),
        takes_key=True,
        takes_version=True,
        tag="tasks",
    ),
)

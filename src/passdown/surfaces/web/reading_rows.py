"""What was recorded: state and history, items, files, gates, inboxes, safety."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from passdown.surfaces.web.operations import Answer, Operation, reading
from passdown.surfaces.web.pages import paged
from passdown.surfaces.web.schemas import (
    CURSOR,
    LIMIT,
    MAX_NUMBER,
    MAX_TEXT,
    answer,
    page,
    record,
    ref,
    text,
    truth,
    whole,
)
from passdown.surfaces.web.task_rows import PATH, TASK_ID
from passdown.surfaces.web.writing_rows import ITEM_ID

if TYPE_CHECKING:
    from passdown.surfaces.web.operations import Call
    from passdown.workspace import Workspace
    from passdown.workspace.safety import Verified

Document = dict[str, Any]

_VERSION = {"type": "integer", "description": "a version of the task"}
_OBJECTS = {"type": "array", "items": {"type": "object"}}
_ITEMS = answer(items=_OBJECTS)


def _state(workspace: Workspace, call: Call) -> Answer:
    found = workspace.state_document(**call.given)
    return Answer(found, found["version"])


def _log(workspace: Workspace, call: Call) -> Answer:
    task, limit = call.given.get("task"), call.given.get("limit", 50)
    before = int(call.given.get("cursor", 0)) or MAX_NUMBER
    found = workspace.log(task, limit=limit + 1, before=before)
    return paged(found, limit, lambda last: last["version" if task else "seq"])


def _changes(workspace: Workspace, call: Call) -> Answer:
    after = None if call.given.get("now") else call.given.get("after", 0)
    return Answer(workspace.changes(after, limit=call.given.get("limit", 500)))


def _diff(workspace: Workspace, call: Call) -> Answer:
    return Answer(workspace.diff(**call.given))


def _item(workspace: Workspace, call: Call) -> Answer:
    return Answer(workspace.show(call.given["item"]))


def _artifacts(workspace: Workspace, call: Call) -> Answer:
    return Answer({"items": workspace.artifacts(call.given["task"])})


def _path_history(workspace: Workspace, call: Call) -> Answer:
    return Answer({"items": workspace.path_history(**call.given)})


def _inline_plan(workspace: Workspace, call: Call) -> Answer:
    return Answer(workspace.inline_plan(call.given["task"], call.given["budget"]))


def _summary(workspace: Workspace, call: Call) -> Answer:
    return Answer({"text": workspace.summary(call.given["task"], call.given.get("budget", 500))})


def _check_summary(workspace: Workspace, call: Call) -> Answer:
    return Answer(workspace.check_summary(**call.given)._asdict())


def _gates(workspace: Workspace, call: Call) -> Answer:
    is_open = not call.given.get("all", False)
    return Answer({"items": workspace.gates(call.given.get("task", ""), open_only=is_open)})


def _inbox(workspace: Workspace, call: Call) -> Answer:
    return Answer({"items": workspace.inbox(call.given.get("agent") or call.caller.name)})


def _heads(workspace: Workspace, call: Call) -> Answer:
    return Answer(workspace.heads())


def _verify(workspace: Workspace, call: Call) -> Answer:
    return Answer(verified(workspace.verify(chain_only=call.given.get("chain_only", False))))


def verified(found: Verified) -> Document:
    """What came of verifying, as plain JSON."""
    findings = [finding.as_document() for finding in found.findings]
    counted = {"streams": found.streams, "records": found.records}
    return {"ok": found.ok, **counted, "findings": findings}


ROWS = (
    reading(
        "task_state",
        "/api/tasks/{task}/state",
        "A task's whole state, now or at a past version",
        _state,
        parameters=PATH,
        query={"version": _VERSION},
        answer=answer("task_id", "phase", "decisions", version={"type": "integer"}),
        tag="history",
    ),
    reading(
        "task_log",
        "/api/tasks/{task}/log",
        "A task's records, newest first",
        _log,
        parameters=PATH,
        query={"limit": LIMIT, "cursor": CURSOR},
        answer=page(ref("Change")),
        tag="history",
    ),
    reading(
        "log",
        "/api/log",
        "Records of all tasks, newest first",
        _log,
        query={"limit": LIMIT, "cursor": CURSOR},
        answer=page(ref("Change")),
        tag="history",
    ),
    reading(
        "changes",
        "/api/changes",
        "What was recorded after a sequence number, oldest first",
        _changes,
        query={"after": whole(), "now": truth("nothing but where it ends"), "limit": LIMIT},
        answer=answer(changes={"type": "array", "items": ref("Change")}, last={"type": "integer"}),
        tag="history",
    ),
    reading(
        "diff",
        "/api/tasks/{task}/diff",
        "What differs between two versions of a task",
        _diff,
        parameters=PATH,
        query={"old": {**_VERSION, "required": True}, "new": {**_VERSION, "required": True}},
        answer=answer("task", "old", "new", "fields", "added", "changed", "removed"),
        tag="history",
    ),
    reading(
        "show_item",
        "/api/items/{item}",
        "One item, with the record that it came from",
        _item,
        parameters={"item": ITEM_ID},
        answer=answer("address", "source"),
        tag="history",
    ),
    reading(
        "artifacts",
        "/api/tasks/{task}/artifacts",
        "A task's artifacts, each with what became of the file since",
        _artifacts,
        parameters=PATH,
        answer=_ITEMS,
        tag="history",
    ),
    reading(
        "path_history",
        "/api/tasks/{task}/paths",
        "Every entry that a task has had for a path",
        _path_history,
        parameters=PATH,
        query={"path": {**text("relative to the project", least=1), "required": True}},
        answer=_ITEMS,
        tag="history",
    ),
    reading(
        "inline_plan",
        "/api/tasks/{task}/inline",
        "Which artifacts fit into a budget of tokens",
        _inline_plan,
        parameters=PATH,
        query={"budget": {**whole(most=10**9), "required": True}},
        answer={"type": "object"},
        tag="history",
    ),
    reading(
        "summary",
        "/api/tasks/{task}/summary",
        "A task in a few lines that carry its version",
        _summary,
        parameters=PATH,
        query={"budget": whole("in tokens", least=1, most=10**9)},
        answer=answer(text={"type": "string"}),
        tag="briefs",
    ),
    Operation(
        "check_summary",
        "POST",
        "/api/tasks/{task}/summary/check",
        "read",
        "Whether a summary was made from the version that is stored now",
        _check_summary,
        parameters=PATH,
        body=record({"text": text(most=10 * MAX_TEXT)}, ["text"]),
        answer=answer("is_current", "made_from", "now"),
        tag="briefs",
    ),
    reading(
        "list_gates",
        "/api/gates",
        "Gates that wait for a person; with all=true also those that were answered",
        _gates,
        query={"task": TASK_ID, "all": truth()},
        answer=_ITEMS,
        tag="gates",
    ),
    reading(
        "inbox",
        "/api/inbox",
        "The handoffs that wait for an agent",
        _inbox,
        query={"agent": text("default: the token's name", most=64)},
        answer=_ITEMS,
        tag="tasks",
    ),
    reading(
        "heads",
        "/api/heads",
        "The heads of all streams, to be kept elsewhere",
        _heads,
        answer=answer("heads"),
        is_heavy=True,
        tag="safety",
    ),
    reading(
        "verify",
        "/api/verify",
        "Whether the store says what was written",
        _verify,
        query={"chain_only": truth()},
        answer=answer("findings", ok={"type": "boolean"}, records={"type": "integer"}),
        is_heavy=True,
        tag="safety",
    ),
)

"""Routes for tasks, handoffs, records, gates, history, and what belongs to one caller alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from passdown.core.handoff import as_plain
from passdown.core.intake import read_handoff
from passdown.core.kinds import CONVERSATION_STREAM, PHASES, TASK_STATUSES
from passdown.core.results import HandoffCommand
from passdown.errors import NotAllowed
from passdown.web.openapi import (
    CLIENT_FILES,
    CURSOR,
    LIMIT,
    MANY,
    MAX_NUMBER,
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
    whole,
)
from passdown.web.requests import ApiResult, ApiRoute, page_result, read_route, reporting_missing
from passdown.workspace.context import context_of
from passdown.workspace.entries import store_plain_decision
from passdown.workspace.streams import WorkspaceStreams

if TYPE_CHECKING:
    from passdown.core.types import JsonObject
    from passdown.web.requests import ApiRequest
    from passdown.workspace import Workspace
    from passdown.workspace.maintenance import Verification


TASK_ID = text("a task's id", most=128, least=1)
AGENT = text("whose name this is written in; default: the token's", most=64)
TASK_PATH = {"task": TASK_ID}

_TASK_FIELDS: dict[str, Schema] = {
    "title": text("what it is about", most=MAX_TEXT),
    "description": text(most=MAX_TEXT),
    "inputs": listed(text(most=MAX_TEXT)),
    "outputs": listed(text(most=MAX_TEXT)),
    "criteria": listed(text(most=MAX_TEXT), "how one tells that it is done"),
    "depends_on": listed(TASK_ID, "tasks that come first"),
    "time_limit_minutes": {"type": ["integer", "null"], "minimum": 1},
    "agent": AGENT,
}
_NEW_TASK = record(
    {"task": TASK_ID, **_TASK_FIELDS, "phase": choice(PHASES), "metadata": {"type": "object"}},
    ["task", "title"],
)
_TASK_CHANGE = record({**_TASK_FIELDS, "status": choice(("open", "cancelled"))})
_SHOWN_TASK = answer(
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


def _list_tasks(workspace: Workspace, call: ApiRequest) -> ApiResult:
    given = call.given
    limit, after = given.pop("limit", 100), int(given.pop("cursor", 0))
    found = workspace.tasks(**given, limit=limit + 1, after=after)
    return page_result(found, limit, lambda last: last["seq"])


def _show_task(workspace: Workspace, call: ApiRequest) -> ApiResult:
    found = workspace.task(call.given["task"])
    return ApiResult(found, found["version"])


def _create_task(workspace: Workspace, call: ApiRequest) -> ApiResult:
    body: JsonObject = call.given["body"]
    call.given = given = {"task": "", "title": "", **body}
    author = call.author()
    with reporting_missing(body, ("task", "title")):
        receipt = workspace.create_task(agent=author, key=call.key, **given)
    return ApiResult(receipt.to_dict(), receipt.version)


def _change_task(workspace: Workspace, call: ApiRequest) -> ApiResult:
    task: str = call.given["task"]
    call.given = given = call.given["body"]
    rest: JsonObject = {"expect_version": call.expect_version, "key": call.key}
    receipt = workspace.update_task(task, agent=call.author(), **rest, **given)
    return ApiResult(receipt.to_dict(), receipt.version)


TASK_ROUTES = (
    ApiRoute(
        "list_tasks",
        "GET",
        "/api/tasks",
        "read",
        "Tasks in the order of their making",
        _list_tasks,
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
    ApiRoute(
        "create_task",
        "POST",
        "/api/tasks",
        "write",
        "Make a task",
        _create_task,
        body=_NEW_TASK,
        takes_any=True,
        answer=ref("Receipt"),
        status=201,
        takes_key=True,
        tag="tasks",
    ),
    ApiRoute(
        "show_task",
        "GET",
        "/api/tasks/{task}",
        "read",
        "One task: what it is, where it stands, what it waits for",
        _show_task,
        parameters=TASK_PATH,
        answer=_SHOWN_TASK,
        tag="tasks",
    ),
    ApiRoute(
        "change_task",
        "PATCH",
        "/api/tasks/{task}",
        "write",
        "Change a task's description, dependencies or status",
        _change_task,
        parameters=TASK_PATH,
        body=_TASK_CHANGE,
        takes_any=True,
        answer=ref("Receipt"),
        takes_key=True,
        takes_version=True,
        tag="tasks",
    ),
)

ITEM_ID = text("an address such as T-1#d3", most=160, least=1)
_ITEM_PATH = {"item": ITEM_ID}
_GATE_PATH = {"gate": ITEM_ID}
_REASON = text(most=MAX_TEXT)

_HANDOFF_ENVELOPE = record(
    {
        "handoff": {
            "description": "an object, or the text of one: JSON, YAML, a task file",
            "type": ["object", "string"],
        },
        "defaults": {"type": "object", "description": "fill what the handoff leaves out"},
        "rebase": truth("place it after others, if it only adds"),
        "changed_files": listed(text(), "what its file lists must account for", most=MANY),
        "files_seen": CLIENT_FILES,
    },
    ["handoff"],
)
_CHECKED = answer(
    "handoff",
    ok={"type": "boolean"},
    completeness={"type": "integer"},
    problems={"type": "array", "items": ref("Problem")},
)


def with_token_author(
    call: ApiRequest, handoff: Any, defaults: JsonObject
) -> tuple[Any, JsonObject]:
    """A handoff that nobody else could have sent: what a token can't claim is replaced.

    A token that speaks for others sends it as it is.
    """
    if call.caller.may("others"):
        return handoff, defaults
    own = call.caller.name
    given = read_handoff(handoff, defaults)
    plain = dict(given.data)
    claimed = plain.get("from_agent") or own
    if claimed != own:
        call.note_claim("from_agent", claimed)
    decisions = plain.get("decisions")
    if isinstance(decisions, list):
        plain["decisions"] = [
            decision_of_caller(call, entry) for entry in cast("list[Any]", decisions)
        ]
    return given._replace(data={**plain, "from_agent": own}), {}


def decision_of_caller(call: ApiRequest, entry: Any) -> Any:
    """A decision without the name of somebody else."""
    if not isinstance(entry, dict):
        return entry
    fields = cast("JsonObject", entry)
    if fields.get("agent", "") in ("", None, call.caller.name):
        return fields
    call.note_claim("decisions", fields["agent"])
    return {name: value for name, value in fields.items() if name != "agent"}


def _hand_off_task(workspace: Workspace, call: ApiRequest) -> ApiResult:
    """The body is the handoff, its task is that of the path."""
    task, rebase = call.given.pop("task"), call.given.pop("rebase", False)
    body: JsonObject = call.given.pop("body")
    return _record_handoff(workspace, call, {**body, "task": task}, {}, {"rebase": rebase})


def _hand_off(workspace: Workspace, call: ApiRequest) -> ApiResult:
    handoff, defaults = call.given.pop("handoff"), call.given.pop("defaults", {})
    return _record_handoff(workspace, call, handoff, defaults, call.given)


def _record_handoff(
    workspace: Workspace, call: ApiRequest, handoff: Any, defaults: JsonObject, options: JsonObject
) -> ApiResult:
    handoff, defaults = with_token_author(call, handoff, defaults)
    if call.expect_version is not None:
        given = read_handoff(handoff, defaults)
        handoff = given._replace(data={**given.data, "expect_version": call.expect_version})
        defaults = {}
    command = workspace.hand_off(handoff, key=call.key, **options, **defaults)
    return ApiResult(command.to_dict(), command.version)


def _check_handoff(workspace: Workspace, call: ApiRequest) -> ApiResult:
    handoff, defaults = call.given.pop("handoff"), call.given.pop("defaults", {})
    handoff, defaults = with_token_author(call, handoff, defaults)
    return ApiResult(workspace.check_handoff(handoff, **call.given, **defaults).to_dict())


def _receive_handoff(workspace: Workspace, call: ApiRequest) -> ApiResult:
    """The state for a command's receiver, and for nobody else."""
    given = call.given
    target = workspace.files.state_document(given["task"]).get("target_agent", "")
    if target and not call.is_about_itself(target):
        raise NotAllowed(
            f"the handoff of {given['task']} is for {target}, not for {call.caller.name}",
            next_step="Ask for your own: the inbox lists what waits for you.",
            code="not_recipient",
        )
    command = HandoffCommand(
        task_id=given["task"],
        version=given["version"],
        digest=given["digest"],
        target_agent=target,
        phase="",
        outcome="",
        state_delta={},
        context_summary="",
        state_file="",
    )
    state = workspace.receive_handoff(command)
    return ApiResult(state.document, state.version)


def _decide(workspace: Workspace, call: ApiRequest) -> ApiResult:
    body: JsonObject = call.given["body"]
    call.given = given = {"summary": "", "rationale": "", **body}
    who: JsonObject = {"agent": call.author(), "key": call.key}
    with reporting_missing(body, ("summary", "rationale")):
        receipt = workspace.decide(**who, expect_version=call.expect_version, **given)
    return ApiResult(receipt.to_dict(), receipt.version)


def _note(workspace: Workspace, call: ApiRequest) -> ApiResult:
    who: JsonObject = {
        "agent": call.author(),
        "key": call.key,
        "task": call.given.pop("task", None),
    }
    receipt = workspace.note(**who, **call.given)
    return ApiResult(receipt.to_dict(), receipt.version)


def _warn(workspace: Workspace, call: ApiRequest) -> ApiResult:
    receipt = workspace.warn(agent=call.author(), key=call.key, **call.given)
    return ApiResult(receipt.to_dict(), receipt.version)


def _mark(workspace: Workspace, call: ApiRequest) -> ApiResult:
    receipt = workspace.set_status(agent=call.author(), key=call.key, **call.given)
    return ApiResult(receipt.to_dict(), receipt.version)


def _record_gate(workspace: Workspace, call: ApiRequest) -> ApiResult:
    receipt = workspace.record_gate(agent=call.author(), key=call.key, **call.given)
    return ApiResult(receipt.to_dict(), receipt.version)


def _approve(workspace: Workspace, call: ApiRequest) -> ApiResult:
    receipt = workspace.approve(by=call.author("by"), key=call.key, **call.given)
    return ApiResult(receipt.to_dict(), receipt.version)


def _reject(workspace: Workspace, call: ApiRequest) -> ApiResult:
    receipt = workspace.reject(by=call.author("by"), key=call.key, **call.given)
    return ApiResult(receipt.to_dict(), receipt.version)


_ENTRY_FIELDS = {"task": TASK_ID, "agent": AGENT}
_BY = text("who answers; default: the token's name", most=64)

RECORD_ROUTES = (
    ApiRoute(
        "hand_off_task",
        "POST",
        "/api/tasks/{task}/handoffs",
        "write",
        "Hand a task on; the body is the handoff",
        _hand_off_task,
        parameters=TASK_PATH,
        query={"rebase": truth("place it after others, if it only adds")},
        body=ref("Handoff"),
        takes_any=True,
        answer=ref("HandoffCommand"),
        status=201,
        takes_key=True,
        takes_version=True,
        tag="handoffs",
    ),
    ApiRoute(
        "hand_off",
        "POST",
        "/api/handoffs",
        "write",
        "Hand a task on, in any form that a handoff may have",
        _hand_off,
        body=_HANDOFF_ENVELOPE,
        answer=ref("HandoffCommand"),
        status=201,
        takes_key=True,
        takes_version=True,
        takes_files=True,
        tag="handoffs",
    ),
    ApiRoute(
        "check_handoff",
        "POST",
        "/api/handoffs/check",
        "read",
        "Everything that handing off would check; nothing is recorded",
        _check_handoff,
        body=_HANDOFF_ENVELOPE,
        answer=_CHECKED,
        takes_files=True,
        tag="handoffs",
    ),
    ApiRoute(
        "receive_handoff",
        "POST",
        "/api/tasks/{task}/receive",
        "read",
        "The whole state for the receiver of a handoff, if it still holds and nothing holds it",
        _receive_handoff,
        parameters=TASK_PATH,
        body=record(
            {"version": whole(least=1), "digest": text("of the handoff's command", most=80)},
            ["version", "digest"],
        ),
        answer=answer("task_id", "version", "digest"),
        tag="handoffs",
    ),
    ApiRoute(
        "decide",
        "POST",
        "/api/decisions",
        "write",
        "Record one decision and why; without a task it concerns all work",
        _decide,
        body=record(
            {
                **_ENTRY_FIELDS,
                "summary": text(most=MAX_TEXT),
                "rationale": text(most=MAX_TEXT),
                "alternatives": listed(text(most=MAX_TEXT)),
                "artifacts": listed(text()),
                "paths": listed(text()),
                "tags": listed(text()),
                "status": text(most=40),
                "supersedes": listed(ITEM_ID),
                "at": text(most=64),
                "files_seen": CLIENT_FILES,
            },
            ["summary", "rationale"],
        ),
        takes_any=True,
        answer=ref("Receipt"),
        status=201,
        takes_key=True,
        takes_version=True,
        takes_files=True,
        tag="records",
    ),
    ApiRoute(
        "note",
        "POST",
        "/api/notes",
        "write",
        "Record a pattern (pattern, location) or a gotcha (issue, mitigation, severity)",
        _note,
        body=record(
            {**_ENTRY_FIELDS, "kind": choice(("pattern", "gotcha")), "files_seen": CLIENT_FILES},
            ["kind"],
            is_open=True,
        ),
        answer=ref("Receipt"),
        status=201,
        takes_key=True,
        takes_files=True,
        tag="records",
    ),
    ApiRoute(
        "warn",
        "POST",
        "/api/warnings",
        "write",
        "Record a warning that stays with a task",
        _warn,
        body=record({**_ENTRY_FIELDS, "text": text(most=MAX_TEXT)}, ["task", "text"]),
        answer=ref("Receipt"),
        status=201,
        takes_key=True,
        tag="records",
    ),
    ApiRoute(
        "mark_item",
        "POST",
        "/api/items/{item}/marks",
        "write",
        "Give an item another status: resolved, answered, done, reverted, retracted",
        _mark,
        parameters=_ITEM_PATH,
        body=record({"status": text(most=40), "reason": _REASON, "agent": AGENT}, ["status"]),
        answer=ref("Receipt"),
        status=201,
        takes_key=True,
        tag="records",
    ),
    ApiRoute(
        "record_gate",
        "POST",
        "/api/gates",
        "write",
        "Record the result of a quality gate",
        _record_gate,
        body=record(
            {**_ENTRY_FIELDS, "name": text(most=MAX_TEXT), "passed": truth(), "detail": _REASON},
            ["task", "name", "passed"],
        ),
        answer=ref("Receipt"),
        status=201,
        takes_key=True,
        tag="gates",
    ),
    ApiRoute(
        "approve_gate",
        "POST",
        "/api/gates/{gate}/approve",
        "approve",
        "A person lets a held task go on",
        _approve,
        parameters=_GATE_PATH,
        body=record({"reason": _REASON, "by": _BY}),
        answer=ref("Receipt"),
        status=201,
        takes_key=True,
        tag="gates",
    ),
    ApiRoute(
        "reject_gate",
        "POST",
        "/api/gates/{gate}/reject",
        "approve",
        "A person says no, and why",
        _reject,
        parameters=_GATE_PATH,
        body=record({"reason": _REASON, "by": _BY}, ["reason"]),
        answer=ref("Receipt"),
        status=201,
        takes_key=True,
        tag="gates",
    ),
)

_TASK_VERSION = {"type": "integer", "description": "a version of the task"}
_OBJECTS = {"type": "array", "items": {"type": "object"}}
_ITEMS = answer(items=_OBJECTS)


def _state(workspace: Workspace, call: ApiRequest) -> ApiResult:
    found = workspace.files.state_document(**call.given)
    return ApiResult(found, found["version"])


def _log(workspace: Workspace, call: ApiRequest) -> ApiResult:
    task, limit = call.given.get("task"), call.given.get("limit", 50)
    before = int(call.given.get("cursor", 0)) or MAX_NUMBER
    found = workspace.log(task, limit=limit + 1, before=before)
    return page_result(found, limit, lambda last: last["version" if task else "seq"])


def _changes(workspace: Workspace, call: ApiRequest) -> ApiResult:
    after = None if call.given.get("now") else call.given.get("after", 0)
    return ApiResult(workspace.changes(after, limit=call.given.get("limit", 500)))


def _diff(workspace: Workspace, call: ApiRequest) -> ApiResult:
    return ApiResult(workspace.diff(**call.given))


def _item(workspace: Workspace, call: ApiRequest) -> ApiResult:
    return ApiResult(workspace.show(call.given["item"]))


def _artifacts(workspace: Workspace, call: ApiRequest) -> ApiResult:
    return ApiResult({"items": workspace.artifacts(call.given["task"])})


def _path_history(workspace: Workspace, call: ApiRequest) -> ApiResult:
    return ApiResult({"items": workspace.files.history(**call.given)})


def _inline_plan(workspace: Workspace, call: ApiRequest) -> ApiResult:
    return ApiResult(workspace.files.inline_plan(call.given["task"], call.given["budget"]))


def _summary(workspace: Workspace, call: ApiRequest) -> ApiResult:
    return ApiResult(
        {"text": workspace.context.summary(call.given["task"], call.given.get("budget", 500))}
    )


def _gates(workspace: Workspace, call: ApiRequest) -> ApiResult:
    return ApiResult({"items": workspace.gates(**call.given)})


def _inbox(workspace: Workspace, call: ApiRequest) -> ApiResult:
    return ApiResult({"items": workspace.inbox(call.given.get("agent") or call.caller.name)})


def _ledger_heads(workspace: Workspace, call: ApiRequest) -> ApiResult:
    return ApiResult(workspace.maintenance.heads())


def _verify(workspace: Workspace, call: ApiRequest) -> ApiResult:
    return ApiResult(
        verification_document(workspace.verify(chain_only=call.given.get("chain_only", False)))
    )


def verification_document(found: Verification) -> JsonObject:
    """What came of verifying, as plain JSON."""
    findings = [finding.to_dict() for finding in found.findings]
    counted = {"streams": found.streams, "records": found.records}
    return {"ok": found.ok, **counted, "findings": findings}


HISTORY_ROUTES = (
    read_route(
        "task_state",
        "/api/tasks/{task}/state",
        "A task's whole state, now or at a past version",
        _state,
        parameters=TASK_PATH,
        query={"version": _TASK_VERSION},
        answer=answer("task_id", "phase", "decisions", version={"type": "integer"}),
        tag="history",
    ),
    read_route(
        "task_log",
        "/api/tasks/{task}/log",
        "A task's records, newest first",
        _log,
        parameters=TASK_PATH,
        query={"limit": LIMIT, "cursor": CURSOR},
        answer=page(ref("Change")),
        tag="history",
    ),
    read_route(
        "log",
        "/api/log",
        "Records of all tasks, newest first",
        _log,
        query={"limit": LIMIT, "cursor": CURSOR},
        answer=page(ref("Change")),
        tag="history",
    ),
    read_route(
        "changes",
        "/api/changes",
        "What was recorded after a sequence number, oldest first",
        _changes,
        query={"after": whole(), "now": truth("nothing but where it ends"), "limit": LIMIT},
        answer=answer(changes={"type": "array", "items": ref("Change")}, last={"type": "integer"}),
        tag="history",
    ),
    read_route(
        "diff",
        "/api/tasks/{task}/diff",
        "What differs between two versions of a task",
        _diff,
        parameters=TASK_PATH,
        query={
            "old": {**_TASK_VERSION, "required": True},
            "new": {**_TASK_VERSION, "required": True},
        },
        answer=answer("task", "old", "new", "fields", "added", "changed", "removed"),
        tag="history",
    ),
    read_route(
        "show_item",
        "/api/items/{item}",
        "One item, with the record that it came from",
        _item,
        parameters={"item": ITEM_ID},
        answer=answer("address", "source"),
        tag="history",
    ),
    read_route(
        "artifacts",
        "/api/tasks/{task}/artifacts",
        "A task's artifacts, each with what became of the file since",
        _artifacts,
        parameters=TASK_PATH,
        answer=_ITEMS,
        tag="history",
    ),
    read_route(
        "path_history",
        "/api/tasks/{task}/paths",
        "Every entry that a task has had for a path",
        _path_history,
        parameters=TASK_PATH,
        query={"path": {**text("relative to the project", least=1), "required": True}},
        answer=_ITEMS,
        tag="history",
    ),
    read_route(
        "inline_plan",
        "/api/tasks/{task}/inline",
        "Which artifacts fit into a budget of tokens",
        _inline_plan,
        parameters=TASK_PATH,
        query={"budget": {**whole(most=10**9), "required": True}},
        answer={"type": "object"},
        tag="history",
    ),
    read_route(
        "summary",
        "/api/tasks/{task}/summary",
        "A task in a few lines that carry its version",
        _summary,
        parameters=TASK_PATH,
        query={"budget": whole("in tokens", least=1, most=10**9)},
        answer=answer(text={"type": "string"}),
        tag="briefs",
    ),
    read_route(
        "list_gates",
        "/api/gates",
        "Gates that wait for a person; with all=true also those that were answered",
        _gates,
        query={"task": TASK_ID, "all": truth()},
        answer=_ITEMS,
        tag="gates",
    ),
    read_route(
        "inbox",
        "/api/inbox",
        "The handoffs that wait for an agent",
        _inbox,
        query={"agent": text("default: the token's name", most=64)},
        answer=_ITEMS,
        tag="tasks",
    ),
    read_route(
        "heads",
        "/api/heads",
        "The heads of all streams, to be kept elsewhere",
        _ledger_heads,
        answer=answer("heads"),
        is_heavy=True,
        tag="safety",
    ),
    read_route(
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

_LONG_TEXTS = listed(text(most=MAX_TEXT))
_STORED_DECISION = record(
    {
        "task": TASK_ID,
        "agent": AGENT,
        "summary": text(most=MAX_TEXT),
        "rationale": text(most=MAX_TEXT),
        "at": text("when it was made; default: now", most=64),
        "alternatives": _LONG_TEXTS,
        "artifacts": _LONG_TEXTS,
        "paths": _LONG_TEXTS,
        "tags": _LONG_TEXTS,
        "status": text(most=40),
        "supersedes": listed(ITEM_ID),
        "files_seen": CLIENT_FILES,
    },
    ["summary", "rationale"],
)
_DECISION_KEY = text("what storing it gave", most=400, least=1)


def _store_decision(workspace: Workspace, call: ApiRequest) -> ApiResult:
    """Record a decision under a key of its agent and time; the same again is the same."""
    call.given = entry = {"summary": "", "rationale": "", **call.given["body"]}
    task = entry.pop("task", None)
    agent = call.author()
    key = store_plain_decision(context_of(workspace), {**entry, "agent": agent}, task)
    return ApiResult({"key": key, "address": workspace.decisions.address(key, task)})


def _stored_decision(workspace: Workspace, call: ApiRequest) -> ApiResult:
    key, task = call.given["key"], call.given.get("task")
    decision = as_plain(workspace.decisions.get(key, task))
    return ApiResult({"decision": decision, "address": workspace.decisions.address(key, task)})


def _handoff_context(workspace: Workspace, call: ApiRequest) -> ApiResult:
    found = workspace.context.handoff_context(**call.given)
    document: JsonObject = {"source": "", "target": "", "decisions": [], "memory_refs": []}
    return ApiResult({**document, "metadata": {}, **as_plain(found)})


def _relate(workspace: Workspace, call: ApiRequest) -> ApiResult:
    agent = call.author()
    return ApiResult({"is_new": workspace.knowledge.relate(**call.given, agent=agent)})


DECISION_ROUTES = (
    ApiRoute(
        "store_decision",
        "POST",
        "/api/stored-decisions",
        "write",
        "Record a decision under a key of its agent and time; the same again is the same",
        _store_decision,
        body=_STORED_DECISION,
        takes_any=True,
        answer=answer(key={"type": "string"}, address={"type": "string"}),
        status=201,
        takes_files=True,
        tag="records",
    ),
    read_route(
        "stored_decision",
        "/api/stored-decisions",
        "The decision that was stored under a key, and its address",
        _stored_decision,
        query={"key": {**_DECISION_KEY, "required": True}, "task": TASK_ID},
        answer=answer("decision", address={"type": "string"}),
        tag="records",
    ),
    read_route(
        "handoff_context",
        "/api/tasks/{task}/context",
        "Who handed a task to whom, the sender's decisions, and what to look up",
        _handoff_context,
        parameters=TASK_PATH,
        query={"agent": text("whose decisions instead", most=64), "since": whole("a version")},
        answer=answer("source", "target", "at", "decisions", "memory_refs", "metadata"),
        tag="handoffs",
    ),
    ApiRoute(
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


def _conversations(workspace: Workspace, call: ApiRequest) -> ApiResult:
    """Every message of an agent's conversations on a task, for that agent alone."""
    task, agent = call.given["task"], call.given["agent"]
    if not call.is_about_itself(agent):
        raise NotAllowed(
            f"what {agent} was told in its conversations is its own",
            next_step="Ask for what is recorded of the task: the brief, the log.",
        )
    beside = WorkspaceStreams(workspace)
    prefix = f"{CONVERSATION_STREAM}{task}/{agent}/"
    items = [
        {"peer": head.stream.removeprefix(prefix), "at": record.at, "kind": record.kind}
        | {"number": record.position, "body": record.document()}
        for head in beside.streams(prefix)
        for record in beside.records(head.stream)
    ]
    return ApiResult({"items": items})


def _me(_: Workspace, call: ApiRequest) -> ApiResult:
    return ApiResult(call.caller.to_dict())


CALLER_ROUTES = (
    read_route(
        "me",
        "/api/me",
        "Whose token this is, and what it allows",
        _me,
        answer=answer(
            id={"type": "string"},
            name={"type": "string"},
            is_person={"type": "boolean"},
            rights={"type": "array", "items": {"type": "string"}},
        ),
        tag="access",
    ),
    ApiRoute(
        "conversations",
        "GET",
        "/api/tasks/{task}/conversations/{agent}",
        "read",
        "What an agent said and was told in a task; for that agent alone",
        _conversations,
        parameters={**TASK_PATH, "agent": text(most=64, least=1)},
        answer=answer(items={"type": "array", "items": {"type": "object"}}),
        tag="briefs",
    ),
)

ROUTES: tuple[ApiRoute, ...] = (
    *TASK_ROUTES,
    *RECORD_ROUTES,
    *HISTORY_ROUTES,
    *DECISION_ROUTES,
    *CALLER_ROUTES,
)

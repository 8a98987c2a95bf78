"""What is recorded of a task: handoffs, decisions, notes, warnings, marks, gates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from passdown.errors import NotAllowed
from passdown.model.command import HandoffCommand
from passdown.surfaces.web.operations import Answer, Operation
from passdown.surfaces.web.requests import telling_missing
from passdown.surfaces.web.schemas import (
    MANY,
    MAX_TEXT,
    SEEN,
    answer,
    choice,
    listed,
    record,
    ref,
    text,
    truth,
    whole,
)
from passdown.surfaces.web.task_rows import AGENT, PATH, TASK_ID
from passdown.workspace.handing import plain_handoff

if TYPE_CHECKING:
    from passdown.surfaces.web.operations import Call
    from passdown.workspace import Workspace

Document = dict[str, Any]

ITEM_ID = text("an address such as T-1#d3", most=160, least=1)
_ITEM = {"item": ITEM_ID}
_GATE = {"gate": ITEM_ID}
_REASON = text(most=MAX_TEXT)

_ENVELOPE = record(
    {
        "handoff": {
            "description": "an object, or the text of one: JSON, YAML, a task file",
            "type": ["object", "string"],
        },
        "defaults": {"type": "object", "description": "fill what the handoff leaves out"},
        "rebase": truth("place it after others, if it only adds"),
        "changed_files": listed(text(), "what its file lists must account for", most=MANY),
        "files_seen": SEEN,
    },
    ["handoff"],
)
_CHECKED = answer(
    "handoff",
    ok={"type": "boolean"},
    completeness={"type": "integer"},
    problems={"type": "array", "items": ref("Problem")},
)


def signed(call: Call, handoff: Any, defaults: Document) -> tuple[Any, Document]:
    """A handoff that nobody else could have sent: what a token can't claim is replaced.

    A token that speaks for others sends it as it is.
    """
    if call.caller.may("others"):
        return handoff, defaults
    own = call.caller.name
    plain = plain_handoff(handoff, defaults)
    claimed = plain.get("from_agent") or own
    if claimed != own:
        call.note_claim("from_agent", claimed)
    decisions = plain.get("decisions")
    if isinstance(decisions, list):
        plain["decisions"] = [own_decision(call, entry) for entry in cast("list[Any]", decisions)]
    return {**plain, "from_agent": own}, {}


def own_decision(call: Call, entry: Any) -> Any:
    """A decision without the name of somebody else."""
    if not isinstance(entry, dict):
        return entry
    fields = cast("Document", entry)
    if fields.get("agent", "") in ("", None, call.caller.name):
        return fields
    call.note_claim("decisions", fields["agent"])
    return {name: value for name, value in fields.items() if name != "agent"}


def _hand_off_task(workspace: Workspace, call: Call) -> Answer:
    """The body is the handoff, its task is that of the path."""
    task, rebase = call.given.pop("task"), call.given.pop("rebase", False)
    body: Document = call.given.pop("body")
    return _recorded(workspace, call, {**body, "task": task}, {}, {"rebase": rebase})


def _hand_off(workspace: Workspace, call: Call) -> Answer:
    handoff, defaults = call.given.pop("handoff"), call.given.pop("defaults", {})
    return _recorded(workspace, call, handoff, defaults, call.given)


def _recorded(
    workspace: Workspace, call: Call, handoff: Any, defaults: Document, options: Document
) -> Answer:
    handoff, defaults = signed(call, handoff, defaults)
    if call.expect_version is not None:
        defaults = {**defaults, "expect_version": call.expect_version}
        if isinstance(handoff, dict):
            handoff = {**cast("Document", handoff), "expect_version": call.expect_version}
    command = workspace.hand_off(handoff, key=call.key, **options, **defaults)
    return Answer(command.as_document(), command.version)


def _check(workspace: Workspace, call: Call) -> Answer:
    handoff, defaults = call.given.pop("handoff"), call.given.pop("defaults", {})
    handoff, defaults = signed(call, handoff, defaults)
    return Answer(workspace.check(handoff, **call.given, **defaults).as_document())


def _receive(workspace: Workspace, call: Call) -> Answer:
    """The state for a command's receiver, and for nobody else."""
    given = call.given
    target = workspace.state_document(given["task"]).get("target_agent", "")
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
    return Answer(state.document, state.version)


def _decide(workspace: Workspace, call: Call) -> Answer:
    body: Document = call.given["body"]
    call.given = given = {"summary": "", "rationale": "", **body}
    who: Document = {"agent": call.author(), "key": call.key}
    with telling_missing(body, ("summary", "rationale")):
        receipt = workspace.decide(**who, expect_version=call.expect_version, **given)
    return Answer(receipt.as_document(), receipt.version)


def _note(workspace: Workspace, call: Call) -> Answer:
    who: Document = {"agent": call.author(), "key": call.key, "task": call.given.pop("task", None)}
    receipt = workspace.note(**who, **call.given)
    return Answer(receipt.as_document(), receipt.version)


def _warn(workspace: Workspace, call: Call) -> Answer:
    receipt = workspace.warn(agent=call.author(), key=call.key, **call.given)
    return Answer(receipt.as_document(), receipt.version)


def _mark(workspace: Workspace, call: Call) -> Answer:
    receipt = workspace.mark(agent=call.author(), key=call.key, **call.given)
    return Answer(receipt.as_document(), receipt.version)


def _record_gate(workspace: Workspace, call: Call) -> Answer:
    receipt = workspace.record_gate(agent=call.author(), key=call.key, **call.given)
    return Answer(receipt.as_document(), receipt.version)


def _approve(workspace: Workspace, call: Call) -> Answer:
    receipt = workspace.approve(by=call.author("by"), key=call.key, **call.given)
    return Answer(receipt.as_document(), receipt.version)


def _reject(workspace: Workspace, call: Call) -> Answer:
    receipt = workspace.reject(by=call.author("by"), key=call.key, **call.given)
    return Answer(receipt.as_document(), receipt.version)


_ENTRY = {"task": TASK_ID, "agent": AGENT}
_BY = text("who answers; default: the token's name", most=64)

ROWS = (
    Operation(
        "hand_off_task",
        "POST",
        "/api/tasks/{task}/handoffs",
        "write",
        "Hand a task on; the body is the handoff",
        _hand_off_task,
        parameters=PATH,
        query={"rebase": truth("place it after others, if it only adds")},
        body=ref("Handoff"),
        takes_any=True,
        answer=ref("HandoffCommand"),
        status=201,
        takes_key=True,
        takes_version=True,
        tag="handoffs",
    ),
    Operation(
        "hand_off",
        "POST",
        "/api/handoffs",
        "write",
        "Hand a task on, in any form that a handoff may have",
        _hand_off,
        body=_ENVELOPE,
        answer=ref("HandoffCommand"),
        status=201,
        takes_key=True,
        takes_version=True,
        takes_files=True,
        tag="handoffs",
    ),
    Operation(
        "check_handoff",
        "POST",
        "/api/handoffs/check",
        "read",
        "Everything that handing off would check; nothing is recorded",
        _check,
        body=_ENVELOPE,
        answer=_CHECKED,
        takes_files=True,
        tag="handoffs",
    ),
    Operation(
        "receive_handoff",
        "POST",
        "/api/tasks/{task}/receive",
        "read",
        "The whole state for the receiver of a handoff, if it still holds and nothing holds it",
        _receive,
        parameters=PATH,
        body=record(
            {"version": whole(least=1), "digest": text("of the handoff's command", most=80)},
            ["version", "digest"],
        ),
        answer=answer("task_id", "version", "digest"),
        tag="handoffs",
    ),
    Operation(
        "decide",
        "POST",
        "/api/decisions",
        "write",
        "Record one decision and why; without a task it concerns all work",
        _decide,
        body=record(
            {
                **_ENTRY,
                "summary": text(most=MAX_TEXT),
                "rationale": text(most=MAX_TEXT),
                "alternatives": listed(text(most=MAX_TEXT)),
                "artifacts": listed(text()),
                "paths": listed(text()),
                "tags": listed(text()),
                "status": text(most=40),
                "supersedes": listed(ITEM_ID),
                "at": text(most=64),
                "files_seen": SEEN,
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
    Operation(
        "note",
        "POST",
        "/api/notes",
        "write",
        "Record a pattern (pattern, location) or a gotcha (issue, mitigation, severity)",
        _note,
        body=record(
            {**_ENTRY, "kind": choice(("pattern", "gotcha")), "files_seen": SEEN},
            ["kind"],
            is_open=True,
        ),
        answer=ref("Receipt"),
        status=201,
        takes_key=True,
        takes_files=True,
        tag="records",
    ),
    Operation(
        "warn",
        "POST",
        "/api/warnings",
        "write",
        "Record a warning that stays with a task",
        _warn,
        body=record({**_ENTRY, "text": text(most=MAX_TEXT)}, ["task", "text"]),
        answer=ref("Receipt"),
        status=201,
        takes_key=True,
        tag="records",
    ),
    Operation(
        "mark_item",
        "POST",
        "/api/items/{item}/marks",
        "write",
        "Give an item another status: resolved, answered, done, reverted, retracted",
        _mark,
        parameters=_ITEM,
        body=record({"status": text(most=40), "reason": _REASON, "agent": AGENT}, ["status"]),
        answer=ref("Receipt"),
        status=201,
        takes_key=True,
        tag="records",
    ),
    Operation(
        "record_gate",
        "POST",
        "/api/gates",
        "write",
        "Record the result of a quality gate",
        _record_gate,
        body=record(
            {**_ENTRY, "name": text(most=MAX_TEXT), "passed": truth(), "detail": _REASON},
            ["task", "name", "passed"],
        ),
        answer=ref("Receipt"),
        status=201,
        takes_key=True,
        tag="gates",
    ),
    Operation(
        "approve_gate",
        "POST",
        "/api/gates/{gate}/approve",
        "approve",
        "A person lets a held task go on",
        _approve,
        parameters=_GATE,
        body=record({"reason": _REASON, "by": _BY}),
        answer=ref("Receipt"),
        status=201,
        takes_key=True,
        tag="gates",
    ),
    Operation(
        "reject_gate",
        "POST",
        "/api/gates/{gate}/reject",
        "approve",
        "A person says no, and why",
        _reject,
        parameters=_GATE,
        body=record({"reason": _REASON, "by": _BY}, ["reason"]),
        answer=ref("Receipt"),
        status=201,
        takes_key=True,
        tag="gates",
    ),
)

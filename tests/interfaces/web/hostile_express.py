"""Hostile use of what overtakes: urgent messages, and handoffs that wait for one agent."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from passdown.errors import InvalidInput, KeyReused
from passdown.relay.express import express_record, send
from passdown.testing import full_handoff
from tests.interfaces.web.asking import ask
from tests.interfaces.web.hostile_load import flood

if TYPE_CHECKING:
    from tests.serving import Served

Document = dict[str, Any]

ITEM = {"kind": "file_task", "by": "coder", "reason": "r", "path": "a.txt", "content": "x"}


def run_express_channel(server: Served, given: Document, expected: str) -> None:
    if "flood" in given:
        said = re.search(r"([\d,]+) urgent messages from one agent in (\d+) s", given["flood"])
        with tempfile.TemporaryDirectory() as folder:
            flood(Path(folder), int(said[2]) if said else 1, compares=said is not None)
    elif "priority" in given:
        _put_first(server, given["priority"])
    elif "ack_by" in given:
        _taken_by_another(server)
    else:
        _replayed(server)


def _put_first(server: Served, priority: object) -> None:
    """No message comes before another: there is no number to be had for it, at any door."""
    token = server.token("coder", "read", "write")
    before = server.workspace.maintenance.heads().heads
    with pytest.raises(InvalidInput) as refused:
        send(server.workspace, {**ITEM, "priority": priority})
    assert ("priority", "out_of_range") in {(p.path, p.code) for p in refused.value.problems}
    for path, body, code in (
        ("express", {"item": {**ITEM, "priority": priority}}, "out_of_range"),
        ("warnings", {"task": "T-1", "text": "urgent", "priority": priority}, "unknown_field"),
    ):
        reply = ask(server.port, "POST", f"/api/{path}", token=token, body=body)
        assert (reply.status, reply.codes) == (422, {"invalid_input", code})
    assert server.workspace.maintenance.heads().heads == before


def _taken_by_another(server: Served) -> None:
    """A handoff is given to its receiver alone; whoever else asks changes nothing."""
    ws = server.workspace
    handed = {**full_handoff(blockers=[]), "to_agent": "tester", "outcome": "completed"}
    command = ws.hand_off(handed)
    token = server.token("coder", "read", "write")
    unread, before = ws.inbox("tester"), ws.maintenance.heads().heads
    path = "/api/handoffs/receive"
    body = {"command": command.to_dict()}
    reply = ask(server.port, "POST", path, token=token, body=body)
    assert (reply.status, reply.codes) == (403, {"not_recipient"})
    claimed = ask(server.port, "POST", path, token=token, body={**body, "agent": "tester"})
    assert claimed.status in (403, 422)
    seen = ask(server.port, "GET", "/api/inbox?agent=tester", token=token)
    assert len(seen.document["items"]) == len(unread) == 1
    assert (ws.inbox("tester"), ws.maintenance.heads().heads) == (unread, before)
    own = server.token("tester", "read", "write")
    assert ask(server.port, "POST", path, token=own, body=body).status == 200


def _replayed(server: Served) -> None:
    """One key, two bodies: the second is refused, at the same address and at others, and the first
    stays as it was.
    """
    ws = server.workspace
    token = server.token("coder", "read", "write")
    key = {"Idempotency-Key": "k"}

    def post(path: str, body: Document) -> Any:
        return ask(server.port, "POST", f"/api/{path}", token=token, body=body, headers=key)

    first = post("warnings", {"task": "T-1", "text": "urgent"})
    assert first.status == 201
    before = ws.maintenance.heads().heads
    others = [
        ("warnings", {"task": "T-1", "text": "other"}),
        ("decisions", {"task": "T-1", "summary": "s", "rationale": "r"}),
        ("handoffs", {"handoff": {"task": "T-1", "outcome": "completed", "from_agent": "coder"}}),
    ]
    for path, body in others:
        reply = post(path, body)
        assert reply.status == 409, reply
        assert (path, reply.status, reply.codes) == (path, 409, {"key_reused"})
    again = post("warnings", {"task": "T-1", "text": "urgent"})
    assert again.document == {**first.document, "is_replay": True}
    assert ws.maintenance.heads().heads == before
    assert [each["text"] for each in ws.files.state_document("T-1")["warnings"]] == ["urgent"]
    item = {**ITEM, "id": "x1"}
    assert ask(server.port, "POST", "/api/express", token=token, body={"item": item}).status == 201
    other = {"item": {**item, "content": "y"}}
    reply = ask(server.port, "POST", "/api/express", token=token, body=other)
    assert (reply.status, reply.codes) == (409, {"key_reused"})
    with pytest.raises(KeyReused):
        send(ws, other["item"])
    assert express_record(ws, "x1").item.content["content"] == "x"

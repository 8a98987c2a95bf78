"""Hostile requests and claims, at the server's own door.

The table below stands for classes; a larger one is run where PASSDOWN_DATA names a folder with
`bad_inputs.jsonl`. Each entry is answered as it says, and the store verifies afterwards.
"""

from __future__ import annotations

import json
import os
import re
import time
from typing import TYPE_CHECKING, Any, cast

import pytest

from passdown.surfaces.web.limits import Limits
from passdown.testing import full_handoff
from tests.serving import served
from tests.surfaces.web.asking import ask, spoken
from tests.surfaces.web.test_mcp_http import SPEAKS, call, rpc, text

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from passdown import Workspace
    from tests.serving import Served

Document = dict[str, Any]

OWN: list[Document] = [
    {"id": "own-host", "surface": "mcp_http", "input": {"headers": {"Host": "x.example"}},
     "expected": "HTTP 421"},
    {"id": "own-none", "surface": "mcp_http", "input": {"headers": {"Authorization": None}},
     "expected": "HTTP 401"},
    {"id": "own-body", "surface": "mcp_http", "input": {"body": {"repeat": ["{", 5_000]}},
     "expected": "HTTP 400, JSON-RPC -32700"},
    {"id": "own-claim", "surface": "mcp_http", "input": {"body": json.dumps(
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
            "name": "task_new", "arguments": {"task": "T-8", "title": "t", "agent": "ana"}}})},
     "expected": "author = token subject"},
    {"id": "own-two", "surface": "mcp_http", "input": {"concurrent": "two clients, id 0"},
     "expected": "each client gets only its own result"},
    {"id": "own-get", "surface": "http_dashboard",
     "input": {"method": "GET", "path": "/api/tasks", "headers": {"Host": "127.0.0.1"}},
     "expected": "HTTP 421"},
    {"id": "own-origin", "surface": "http_dashboard",
     "input": {"method": "POST", "path": "/api/tasks", "headers": {"Origin": "null"}},
     "expected": "HTTP 403"},
    {"id": "own-query", "surface": "http_dashboard",
     "input": {"method": "GET", "path": "/api/log?token=SECRET"},
     "expected": "token in URL refused (401)"},
    {"id": "own-raw", "surface": "http_dashboard",
     "input": {"raw": "POST /api HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 3\r\n"
               "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
     "expected": "HTTP 400"},
    {"id": "own-frame", "surface": "http_dashboard", "input": {"embed": "<iframe>"},
     "expected": "X-Frame-Options DENY"},
    {"id": "own-other", "surface": "identity",
     "input": {"session": "agent A token", "claims": "author=B"}, "expected": "author=A recorded"},
    {"id": "own-private", "surface": "identity", "input": {"read": "another's conversation"},
     "expected": "REJECT not_allowed"},
    {"id": "own-role", "surface": "identity", "input": {"agent": "system"},
     "expected": "REJECT reserved_name"},
    {"id": "own-filter", "surface": "filter_key", "input": {"1=1 --": "x"},
     "expected": "REJECT unknown_filter"},
    {"id": "own-limit", "surface": "filter_key", "input": {"limit": 0},
     "expected": "REJECT out_of_range"},
    {"id": "own-search", "surface": "search_query", "input": '") OR (x', "expected": "literal"},
    {"id": "own-flood", "surface": "express_channel", "input": {"flood": "many from one"},
     "expected": "REJECT rate_limited"},
    {"id": "own-front", "surface": "express_channel", "input": {"priority": 99},
     "expected": "REJECT"},
    {"id": "own-ack", "surface": "express_channel", "input": {"ack_by": "not the recipient"},
     "expected": "REJECT not_recipient"},
    {"id": "own-replay", "surface": "express_channel", "input": {"replay": "same key"},
     "expected": "REJECT key_reused"},
]  # fmt: skip


def collected() -> list[Document]:
    """The larger table's entries that a server answers."""
    path = os.path.join(os.environ.get("PASSDOWN_DATA", ""), "bad_inputs.jsonl")
    if not os.environ.get("PASSDOWN_DATA") or not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return [entry for entry in map(json.loads, file) if entry["surface"] in RUN]


def expanded(given: Any) -> Any:
    if not isinstance(given, dict):
        return given
    repeated: tuple[str, int] = cast("Document", given)["repeat"]
    return repeated[0] * repeated[1]


def run_mcp_http(server: Served, given: Document, expected: str) -> None:
    token = server.token("coder", "read", "write")
    if "concurrent" in given:
        for number in range(50):
            answers = [call(server, token, "show", identity=0, id="T-1") for _ in range(2)]
            assert all(answer["id"] == 0 and "T-1" in text(answer) for answer in answers), number
        return
    named = {name: value for name, value in given.get("headers", {}).items() if value is not None}
    if "Authorization" in given.get("headers", {}):
        token = str(given["headers"]["Authorization"] or "").removeprefix("Bearer ")
        named.pop("Authorization", None)
    body = expanded(given["body"]) if "body" in given else json.dumps(
        {"jsonrpc": "2.0", "id": 1, "method": given.get("rpc", "ping")}
    )  # fmt: skip
    reply = ask(
        server.port, "POST", "/mcp", token=token, body=body.encode(), headers={**SPEAKS, **named}
    )
    for status in (400, 401, 421):
        if f"HTTP {status}" in expected:
            assert reply.status == status
    if "-32700" in expected:
        assert reply.document["error"]["code"] == -32700
    if "JSON-RPC error" in expected:
        assert "error" in reply.document
    if "WWW-Authenticate" in expected:
        assert "www-authenticate" in reply.headers
    if "author" in expected:
        authors = {line["author"] for line in server.workspace.log() if line["seq"] > 1}
        assert authors <= {"planner", "coder"}
        assert b"alice" not in reply.body
    assert rpc(server, server.token("looker", "read"), "ping").status == 200


def run_http_dashboard(server: Served, given: Document, expected: str) -> None:
    token = server.token("coder", "read", "write")
    if "raw" in given:
        answer = spoken(server.port, given["raw"].encode())
        assert answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 421 "))
        assert answer.count(b"HTTP/1.1") == 1
        return
    if "embed" in given:
        headers = ask(server.port, "GET", "/", token=token).headers
        assert headers["x-frame-options"] == "DENY"
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        return
    path: str = given["path"].replace("/T/", "/T-1/")
    is_secret = "SECRET" in path
    reply = ask(
        server.port,
        given["method"],
        path.replace("SECRET", token),
        token="" if is_secret else token,
        body=given["body"].encode() if "body" in given else None,
        headers=given.get("headers", {}),
    )
    statuses = {int(number) for number in re.findall(r"\b4\d\d\b", expected)}
    assert not statuses or reply.status in statuses
    assert not [name for name in reply.headers if name.startswith("access-control")]
    assert b"Login" not in reply.body


def run_identity(server: Served, given: Document, expected: str) -> None:
    token = server.token("coder", "read", "write")
    if "read" in given:
        path = "/api/tasks/T-1/conversations/planner"
        reply = ask(server.port, "GET", path, token=token)
        assert (reply.status, reply.codes) == (403, {"not_allowed"})
        path = "/api/tasks/T-1/conversations/coder"
        assert ask(server.port, "GET", path, token=token).document == {"items": []}
        return
    if "session" in given:
        body = {"task": "T-1", "agent": "planner", "text": "w"}
        reply = ask(server.port, "POST", "/api/warnings", token=token, body=body)
        assert [warning["code"] for warning in reply.document["warnings"]] == ["author_is_token"]
        assert server.workspace.log("T-1", limit=1)[0]["author"] == "coder"
        return
    code = re.findall(r"REJECT (\w+)", expected)[0]
    with pytest.raises(ValueError, match=code):
        server.token(given["agent"], "read")
    speaker = server.token("relay", "read", "write", "others")
    body = {"task": "T-1", "agent": given["agent"], "text": "w"}
    reply = ask(server.port, "POST", "/api/warnings", token=speaker, body=body)
    assert (reply.status, code in reply.codes) == (422, True)


def run_filter_key(server: Served, given: Document, expected: str) -> None:
    from urllib.parse import urlencode

    token = server.token("coder", "read")
    ((name, value),) = given.items()
    query = urlencode({name: value}, doseq=True)
    reply = ask(server.port, "GET", f"/api/tasks?{query}", token=token)
    assert reply.status == 422
    code = re.findall(r"REJECT (\w+)", expected)[0]
    # A query holds texts alone: two of them are one too many, whatever they spell.
    assert code in reply.codes or (code, "repeated" in reply.codes) == ("wrong_type", True)


def run_search_query(server: Served, given: str, expected: str) -> None:
    from urllib.parse import quote

    token = server.token("coder", "read")
    reply = ask(server.port, "GET", f"/api/recall?query={quote(given)}", token=token)
    assert reply.status == 200
    assert isinstance(reply.document["items"], list)


def run_express_channel(server: Served, given: Document, expected: str) -> None:
    token = server.token("coder", "read", "write")
    post = {"task": "T-1", "text": "urgent"}
    if "flood" in given:
        _flood(server.workspace)
    elif "priority" in given:
        body = {**post, "priority": given["priority"]}
        reply = ask(server.port, "POST", "/api/warnings", token=token, body=body)
        # There is no priority to be had, so none is out of range: the field itself is refused.
        assert (reply.status, "unknown_field" in reply.codes) == (422, True)
    elif "ack_by" in given:
        command = server.workspace.hand_off(
            {**full_handoff(blockers=[]), "to_agent": "tester", "outcome": "completed"}
        )
        body = {"version": command.version, "digest": command.digest}
        reply = ask(server.port, "POST", "/api/tasks/T-1/receive", token=token, body=body)
        assert (reply.status, reply.codes) == (403, {"not_recipient"})
        assert len(server.workspace.inbox("tester")) == 1
    else:
        key = {"Idempotency-Key": "k"}
        for text_, status in (("urgent", 201), ("other", 409), ("urgent", 201)):
            body = {"task": "T-1", "text": text_}
            reply = ask(server.port, "POST", "/api/warnings", token=token, body=body, headers=key)
            assert reply.status == status
        assert [w["text"] for w in server.workspace.state_document("T-1")["warnings"]] == ["urgent"]


def _flood(ws: Workspace) -> None:
    """One agent sends without end: it is told to wait, others are served, what is taken is kept."""
    with served(ws, Limits(rate=20, burst=40)) as server:
        loud, quiet = server.token("loud", "read", "write"), server.token("quiet", "read")
        taken, until = 0, time.monotonic() + 2.5
        waited: list[float] = []
        number = refused = 0
        while time.monotonic() < until:
            number += 1
            body = {"task": "T-1", "text": f"urgent {number}"}
            reply = ask(server.port, "POST", "/api/warnings", token=loud, body=body)
            taken += reply.status == 201
            refused += reply.status == 429 and "rate_limited" in reply.codes
            if number % 40 == 0:
                began = time.monotonic()
                assert ask(server.port, "GET", "/api/tasks", token=quiet).status == 200
                waited.append(time.monotonic() - began)
        assert taken + refused == number
        assert taken <= 40 + 20 * 3
        assert refused or number < 90
        assert len(ws.state_document("T-1")["warnings"]) == taken


RUN: dict[str, Callable[[Any, Any, str], None]] = {
    "mcp_http": run_mcp_http,
    "http_dashboard": run_http_dashboard,
    "identity": run_identity,
    "filter_key": run_filter_key,
    "search_query": run_search_query,
    "express_channel": run_express_channel,
}


@pytest.mark.promise("W-1", "W-2", "W-4")
@pytest.mark.parametrize("entry", [*OWN, *collected()], ids=lambda entry: str(entry["id"]))
def test_every_entry_is_answered_as_it_says(server: Served, entry: Document) -> None:
    RUN[entry["surface"]](server, entry["input"], entry["expected"])
    assert server.workspace.verify().ok


def test_every_surface_has_entries_of_its_own() -> None:
    assert {entry["surface"] for entry in OWN} == set(RUN)


def test_the_larger_table_was_read(data_folder: Path) -> None:
    if (data_folder / "bad_inputs.jsonl").exists():
        assert {entry["surface"] for entry in collected()} == set(RUN)

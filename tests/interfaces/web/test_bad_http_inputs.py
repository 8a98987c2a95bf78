"""Hostile requests and claims, at the server's own door.

The table below stands for classes; a larger one is run where PASSDOWN_DATA names a folder with
`bad_inputs.jsonl`. Each entry is answered as it says, and the store verifies afterwards.
"""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.interfaces.web.asking import ask, heard, hung_up
from tests.interfaces.web.hostile_express import run_express_channel
from tests.interfaces.web.hostile_mcp import run_mcp_http
from tests.interfaces.web.test_mcp_http import call, text
from tests.relay.talking import Table, asks, held

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

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


def run_http_dashboard(server: Served, given: Document, expected: str) -> None:
    token = server.token("coder", "read", "write")
    if "raw" in given:
        # Both for the name that the request gives and for the server's own.
        own = given["raw"].replace("Host: 127.0.0.1\r", f"Host: 127.0.0.1:{server.port}\r")
        for raw in (given["raw"], own):
            answer, is_closed = hung_up(server.port, raw.encode())
            assert answer.startswith(b"HTTP/1.1 400 ")
            assert (answer.count(b"HTTP/1.1"), is_closed) == (1, True)
        return
    if "embed" in given:
        _check_frames(server, token)
        return
    path: str = given["path"].replace("/T/", "/T-1/")
    is_secret = "SECRET" in path
    before = server.workspace.maintenance.heads().heads
    with heard() as lines:
        reply = ask(
            server.port,
            given["method"],
            path.replace("SECRET", token),
            token="" if is_secret else token,
            body=given["body"].encode() if "body" in given else None,
            headers=given.get("headers", {}),
        )
    assert server.workspace.maintenance.heads().heads == before
    assert (len(lines), token in str(lines)) == (1, False)
    assert json.loads(lines[0])["status"] == reply.status
    statuses = {int(number) for number in re.findall(r"\b4\d\d\b", expected)}
    assert not statuses or reply.status in statuses
    assert not [name for name in reply.headers if name.startswith("access-control")]
    assert b"Login" not in reply.body


def _check_frames(server: Served, token: str) -> None:
    """No answer may be put into a frame: found or not, let in or not, readable or not."""
    ways = [("/", token), ("/api/tasks", token), ("/api/tasks", ""), ("/health", ""), ("/x", token)]
    answers = [ask(server.port, "GET", path, token=given).headers for path, given in ways]
    for headers in answers:
        assert headers["x-frame-options"] == "DENY"
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
    unread = hung_up(server.port, b"no request\r\n\r\n")[0].lower()
    assert b"\r\nx-frame-options: deny\r\n" in unread
    assert b"frame-ancestors 'none'" in unread


def run_identity(server: Served, given: Document, expected: str) -> None:
    token = server.token("coder", "read", "write")
    if "read" in given:
        _check_privacy(server, token)
        return
    if "session" in given:
        body = {"task": "T-1", "agent": "planner", "text": "w"}
        with heard() as lines:
            reply = ask(server.port, "POST", "/api/warnings", token=token, body=body)
        assert [warning["code"] for warning in reply.document["warnings"]] == ["author_is_token"]
        assert server.workspace.log("T-1", limit=1)[0].author == "coder"
        (line,) = map(json.loads, lines)
        assert (line["name"], line["status"]) == ("coder", 201)
        assert "'planner' was claimed" in line["notes"][0]
        return
    code = re.findall(r"REJECT (\w+)", expected)[0]
    with pytest.raises(ValueError, match=code):
        server.token(given["agent"], "read")
    speaker = server.token("relay", "read", "write", "others")
    body = {"task": "T-1", "agent": given["agent"], "text": "w"}
    reply = ask(server.port, "POST", "/api/warnings", token=speaker, body=body)
    assert (reply.status, code in reply.codes) == (422, True)


def _check_privacy(server: Served, token: str) -> None:
    """What one agent was told in a conversation is read by that agent alone, at any door."""
    leases = Table()
    leases.put("coder", "T-1")
    held(server.workspace, leases, "planner").with_peer("coder").add(asks("between us: kumquat"))
    path = "/api/tasks/T-1/conversations/planner"
    own = server.token("planner", "read")
    assert b"kumquat" in ask(server.port, "GET", path, token=own).body
    reply = ask(server.port, "GET", path, token=token)
    assert (reply.status, reply.codes) == (403, {"not_allowed"})
    assert b"kumquat" not in reply.body
    others = ("log", "recall?query=kumquat", "tasks/T-1/state", "tasks/T-1/brief", "journal")
    for other in (*others, "tasks/T-1/conversations/coder"):
        assert b"kumquat" not in ask(server.port, "GET", f"/api/{other}", token=token).body
    for tool, given in (("recall", {"query": "kumquat"}), ("show", {"id": "T-1"})):
        assert "between us" not in text(call(server, token, tool, **given))


def run_filter_key(server: Served, given: Document, expected: str) -> None:
    from urllib.parse import urlencode

    token = server.token("coder", "read")
    before = server.workspace.maintenance.heads().heads
    code = re.findall(r"REJECT (\w+)", expected)[0]
    query = urlencode(given, doseq=True)
    for path in (f"/api/tasks?{query}", f"/api/recall?query=x&{query}"):
        reply = ask(server.port, "GET", path, token=token)
        assert (reply.status, code in reply.codes) == (422, True)
    # In a body a value keeps its type; a name that isn't known is a field there.
    body = {"query": "x", **given}
    reply = ask(server.port, "POST", "/api/recall", token=token, body=body)
    spelled = {"unknown_filter": "unknown_field"}.get(code, code)
    assert (reply.status, spelled in reply.codes) == (422, True)
    if "agent" not in given:  # over MCP an agent is who holds the token, whatever is given
        assert call(server, token, "recall", **body)["result"]["isError"]
    assert server.workspace.maintenance.heads().heads == before


def run_search_query(server: Served, given: str, expected: str) -> None:
    from urllib.parse import quote

    ws = server.workspace
    # The first row of the index has none of these words: an operator could still reach it.
    ws.decide(task="T-1", agent="planner", summary="zebra", rationale="stripes")
    ws.decide(task="T-1", agent="planner", summary=f"it says {given}", rationale="r")
    token = server.token("coder", "read")
    asked = [
        ask(server.port, "GET", f"/api/recall?query={quote(given)}", token=token),
        ask(server.port, "POST", "/api/recall", token=token, body={"query": given}),
    ]
    for reply in asked:
        assert reply.status == 200
        found = reply.document["items"]
        assert given in json.dumps(found[0], ensure_ascii=False).replace('\\"', '"')
        assert "zebra" not in json.dumps(found[0])
    assert "it says" in text(call(server, token, "recall", query=given))


RUN: dict[str, Callable[[Any, Any, str], None]] = {
    "mcp_http": run_mcp_http,
    "http_dashboard": run_http_dashboard,
    "identity": run_identity,
    "filter_key": run_filter_key,
    "search_query": run_search_query,
    "express_channel": run_express_channel,
}


def shown(entries: list[Document]) -> list[Any]:
    """Entries that take a minute are for the long runs; our own have each of them in short."""
    return [
        pytest.param(entry, id=entry["id"], marks=[pytest.mark.soak] * _takes_long(entry))
        for entry in entries
    ]


def _takes_long(entry: Document) -> bool:
    return "10,000" in f"{entry['input']} {entry['expected']}"


@pytest.mark.timeout(400)
@pytest.mark.promise("W-1", "W-2", "W-4")
@pytest.mark.parametrize("entry", shown([*OWN, *collected()]))
def test_every_entry_is_answered_as_it_says(server: Served, entry: Document) -> None:
    RUN[entry["surface"]](server, entry["input"], entry["expected"])
    assert server.workspace.verify().ok


def test_every_surface_has_entries_of_its_own() -> None:
    assert {entry["surface"] for entry in OWN} == set(RUN)


def test_the_larger_table_was_read(data_folder: Path) -> None:
    if (data_folder / "bad_inputs.jsonl").exists():
        assert {entry["surface"] for entry in collected()} == set(RUN)

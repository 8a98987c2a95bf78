"""Hostile messages to MCP over HTTP."""

from __future__ import annotations

import json
import re
import tempfile
from typing import TYPE_CHECKING, Any, cast

import passdown
from tests.interfaces.web.asking import ask, connections
from tests.interfaces.web.hostile_load import pairs
from tests.interfaces.web.test_mcp_http import SPEAKS, call, rpc
from tests.serving import served

if TYPE_CHECKING:
    from passdown import Workspace
    from tests.interfaces.web.asking import Reply
    from tests.serving import Served

Document = dict[str, Any]


def expanded(given: Any) -> Any:
    if not isinstance(given, dict):
        return given
    repeated: tuple[str, int] = cast("Document", given)["repeat"]
    return repeated[0] * repeated[1]


def run_mcp_http(server: Served, given: Document, expected: str) -> None:
    if "concurrent" in given:
        _interleaved(server, expected)
        return
    token = server.token("coder", "read", "write")
    named = {name: value for name, value in given.get("headers", {}).items() if value is not None}
    if "Authorization" in given.get("headers", {}):
        token = str(given["headers"]["Authorization"] or "").removeprefix("Bearer ")
        named.pop("Authorization", None)
    body = expanded(given["body"]) if "body" in given else json.dumps(
        {"jsonrpc": "2.0", "id": 1, "method": given.get("rpc", "ping")}
    )  # fmt: skip
    headers = {**SPEAKS, **named}
    before = server.workspace.maintenance.heads().heads
    reply = ask(server.port, "POST", "/mcp", token=token, body=body.encode(), headers=headers)
    _check_reply(reply, expected)
    if reply.status != 200:
        assert server.workspace.maintenance.heads().heads == before
    if "author" in expected:
        _claimed_over_mcp(server, token, json.loads(body))
        assert b"alice" not in reply.body
    if "0.0.0.0" in expected:
        _asked_on_every_address(server.workspace, body, headers)
    if "passthrough" in expected:
        _strange_tokens(server)
    assert rpc(server, server.token("looker", "read"), "ping").status == 200


def _check_reply(reply: Reply, expected: str) -> None:
    for status in (400, 401, 421):
        if f"HTTP {status}" in expected:
            assert reply.status == status
            assert b'"tools"' not in reply.body
    if "-32700" in expected:
        assert reply.document["error"]["code"] == -32700
    if "JSON-RPC error" in expected:
        assert "error" in reply.document
    if "WWW-Authenticate" in expected:
        assert reply.headers["www-authenticate"].startswith("Bearer ")


def _interleaved(server: Served, expected: str) -> None:
    server.workspace.create_task("A-1", title="Of ana", agent="planner")
    server.workspace.create_task("B-2", title="Of ben", agent="planner")
    tokens = [server.token(name, "read") for name in ("ana", "ben")]
    said = re.search(r"([\d,]+) interleaved pairs", expected)
    count = int(said[1].replace(",", "")) if said else 400
    pairs(server.port, tokens, ["A-1", "B-2"], count)


def _claimed_over_mcp(server: Served, token: str, message: Document) -> None:
    """The same claim again, with a tool that there is: what is written bears the token's name."""
    claimed: Document = message["params"]["arguments"]
    for tool, arguments in (
        ("decide", {"task": "T-1", "summary": "s", "rationale": "r"}),
        ("handoff", {"task": "T-1", "outcome": "completed", "summary": "x"}),
    ):
        given = {**claimed, **arguments}
        names = ("author", "agent", "from_agent", "by")
        for name in (name for name in names if name not in claimed):
            given[name] = claimed.get("author") or claimed.get("agent")
        answer = call(server, token, tool, **given)
        is_refused = answer["result"].get("isError", False)
        assert is_refused or server.workspace.log("T-1", limit=1)[0].author == "coder"
        given = {**arguments, "agent": given["agent"]}
        answer = call(server, token, tool, **given)
        assert not answer["result"].get("isError", False), answer
        line = server.workspace.log("T-1", limit=1)[0]
        assert (line.author, line.via) == ("coder", f"token:{token.split('_')[1]}")
    assert {line.author for line in server.workspace.log()} == {"planner", "coder"}


def _asked_on_every_address(ws: Workspace, body: str, headers: Document) -> None:
    """A server that listens on every address of this machine answers to its names alone."""
    with served(ws, host="0.0.0.0", allowed=("passdown.example",)) as server:
        token = server.token("coder", "read", "write")
        sent = body.encode()
        reply = ask(server.port, "POST", "/mcp", token=token, body=sent, headers=headers)
        assert (reply.status, reply.codes) == (421, {"other_host"})
        known = {**headers, "Host": "passdown.example"}
        ping = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode()
        assert ask(server.port, "POST", "/mcp", token=token, body=ping, headers=known).status == 200


def _strange_tokens(server: Served) -> None:
    """A token of another server is as good as none, and is shown to nobody."""
    with tempfile.TemporaryDirectory() as folder, passdown.open(folder) as other:
        with served(other) as stranger:
            token = stranger.token("coder", "read", "write")
        with connections() as seen:
            assert rpc(server, token, "tools/call", {"name": "tasks"}).status == 401
        assert {port for _, port in seen} == {server.port}

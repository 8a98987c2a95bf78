"""MCP over HTTP: the same tools, for the holder of a token and for nobody else."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from typing import TYPE_CHECKING, Any

import httpx2 as httpx
import pytest
from mcp.client.client import Client

from tests.interfaces.web.asking import ask, heard

if TYPE_CHECKING:
    from tests.interfaces.web.asking import Reply
    from tests.serving import Served

Document = dict[str, Any]

SPEAKS = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}


def rpc(server: Served, token: str, method: str, params: Any = None, identity: Any = 1) -> Reply:
    body = {"jsonrpc": "2.0", "id": identity, "method": method}
    if params is not None:
        body["params"] = params
    return ask(server.port, "POST", "/mcp", token=token, body=body, headers=SPEAKS)


def call(server: Served, token: str, tool: str, identity: Any = 1, **arguments: Any) -> Document:
    given = {"name": tool, "arguments": arguments}
    reply = rpc(server, token, "tools/call", given, identity)
    assert reply.status == 200, reply
    return reply.document


def text(answer: Document) -> str:
    return answer["result"]["content"][0]["text"]


def test_what_is_ready_is_so_for_the_calling_agent(server: Served) -> None:
    """Not what others work on, or wait for; another agent can be named."""
    ws, token = server.workspace, server.token("coder", "read")
    ws.create_task("T-5", title="One", agent="planner")
    assert "T-5 (open" in text(call(server, token, "tasks", status="ready"))
    ws.update_task("T-5", agent="bob", holder="bob")
    assert "T-5" not in text(call(server, token, "tasks", status="ready"))
    assert "bob, begun, v2" in text(call(server, token, "tasks", status="ready", holder="bob"))


@pytest.mark.promise("W-8", "W-2")
def test_a_tool_records_under_the_token_s_name(server: Served) -> None:
    """Whatever its arguments say; a token that only reads records nothing."""
    token = server.token("coder", "read", "write")
    entry = {"task": "T-1", "summary": "s", "rationale": "r", "agent": "planner"}
    with heard() as logged:
        decided = text(call(server, token, "decide", **entry))
    assert "version 2" in decided
    claim = "'planner' was claimed; the token is coder's, and so is this"
    assert f"- mind: agent: {claim}; expected coder [author_is_token]" in decided
    assert [json.loads(line)["notes"] for line in logged] == [[claim]]
    handed = call(
        server,
        token,
        "handoff",
        task="T-1",
        outcome="completed",
        from_agent="planner",
        agent="planner",
        decisions=[{"summary": "t", "rationale": "r", "agent": "planner"}],
    )
    assert "version 3" in text(handed)
    assert text(handed).count("author_is_token") == 3
    silent = {"task": "T-1", "kind": "gotcha", "text": "x", "mitigation": "y", "severity": "low"}
    assert "claimed" not in text(call(server, token, "note", **silent, agent="coder"))
    lines = server.workspace.log("T-1", limit=2)
    assert {line.author for line in lines} == {"coder"}
    assert {line.via for line in lines} == {f"token:{token.split('_')[1]}"}
    decisions = server.workspace.files.state_document("T-1")["decisions"]
    assert {decision["agent"] for decision in decisions} == {"coder"}
    reader = server.token("looker", "read")
    refused = call(server, reader, "decide", **entry)
    assert refused["result"]["isError"]
    assert server.workspace.task("T-1").version == 4


@pytest.mark.promise("W-8")
def test_anybody_s_brief_can_be_read_and_only_one_s_own_is_on_record(server: Served) -> None:
    reader = server.token("looker", "read")
    assert "# T-1 for coder" in text(call(server, reader, "brief", task="T-1", agent="coder"))
    uri = {"uri": "passdown://brief/T-1/tester"}
    read = rpc(server, reader, "resources/read", uri).document["result"]["contents"][0]["text"]
    assert "# T-1 for tester" in read
    assert "not_recorded" not in read
    assert server.workspace.context.deliveries("T-1") == []
    assert "# T-1 for looker" in text(call(server, reader, "brief", task="T-1"))
    assert [told.agent for told in server.workspace.context.deliveries("T-1")] == ["looker"]
    speaker = server.token("program", "read", "others")
    assert "# T-1 for tester" in text(call(server, speaker, "brief", task="T-1", agent="tester"))
    assert [told.agent for told in server.workspace.context.deliveries("T-1")] == [
        "tester",
        "looker",
    ]


@pytest.mark.promise("W-8")
def test_the_instructions_say_that_the_token_names_the_agent(server: Served) -> None:
    client = {"name": "c", "version": "1"}
    begun = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
    said = rpc(server, server.token("coder", "read"), "initialize", begun).document["result"]
    assert "your token says it" in said["instructions"]
    assert "PASSDOWN_AGENT" not in said["instructions"]


@pytest.mark.promise("W-8")
def test_a_nested_shape_does_not_smuggle_a_name_in(server: Served) -> None:
    """The ledger itself refuses an author that isn't the token's."""
    token = server.token("coder", "read", "write")
    shapes: list[Document] = [
        {"handoff": {"task": "T-1", "from_agent": "planner", "outcome": "completed"}},
        {"task": "T-1", "sender": "planner", "outcome": "completed"},
        {"task_id": "T-1", "source_agent": "planner", "outcome": "completed", "status": "x"},
    ]
    for shape in shapes:
        call(server, token, "handoff", **shape)
    authors = {line.author for line in server.workspace.log("T-1") if line.version > 1}
    assert authors <= {"coder"}


@pytest.mark.promise("W-8")
def test_answers_are_never_crossed(server: Served) -> None:
    """Two clients with the same ids at the same time: each gets its own."""
    ws = server.workspace
    ws.create_task("T-2", title="Second", agent="planner")
    tokens = {"T-1": server.token("one", "read"), "T-2": server.token("two", "read")}
    crossed: list[str] = []

    def talk(task: str) -> None:
        for _ in range(60):
            answer = call(server, tokens[task], "show", identity=0, id=task)
            if answer["id"] != 0 or task not in text(answer):
                crossed.append(task)

    threads = [threading.Thread(target=talk, args=(task,)) for task in ("T-1", "T-2") * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(240)
    assert crossed == []


@pytest.mark.promise("W-8", "W-4")
@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"[" * 100_000, -32700),
        (b"{", -32700),
        (b'{"jsonrpc":"2.0","id":1e999,"method":"ping"}', -32700),
        (b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}', -32700),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":[1],"method":"ping"}', -32600),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600),
    ],
)
def test_a_broken_message_is_answered_as_one(server: Served, body: bytes, code: int) -> None:
    token = server.token("coder", "read")
    reply = ask(server.port, "POST", "/mcp", token=token, body=body, headers=SPEAKS)
    assert (reply.status, reply.document["error"]["code"]) == (400, code)
    assert rpc(server, token, "ping").document["result"] == {}


@pytest.mark.promise("M-5")
@pytest.mark.parametrize(
    "body",
    [
        b'{"jsonrpc": "2.0", "method": "notifications/x", "params": {"a": "\\ud800"}}',
        b'{"jsonrpc": "2.0", "method": "notifications/initialized", "params": "x"}',
        b'{"jsonrpc": "1.0", "method": "notifications/x"}',
        b'{"jsonrpc": "2.0", "method": "notifications/x", "params": {"a": [[[}',
        b'{"jsonrpc": "2.0", "method": 1}',
        b'{"jsonrpc": "2.0", "method": "notifications/x"}',
        b'{"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "no"}}',
    ],
)
def test_a_notification_gets_no_answer_whatever_is_in_it(server: Served, body: bytes) -> None:
    """Its status alone says whether it was accepted."""
    token = server.token("coder", "read", "write")
    headers = {**SPEAKS, "Content-Type": "application/json", "Authorization": f"Bearer {token}"}
    found = httpx.post(f"{server.url}/mcp", content=body, headers=headers)
    is_json = not body.endswith(b"[[[}")
    assert found.status_code in ((202, 400) if is_json else (400,)), found.text
    assert (found.content == b"") == is_json, found.text


@pytest.mark.promise("W-8")
def test_half_a_character_is_answered_by_the_id_of_its_message(server: Served) -> None:
    """Whoever waits for that answer gets one."""
    params = b'{"name":"recall","arguments":{"query":"\\ud800"}}'
    body = b'{"jsonrpc":"2.0","id":"q-7","method":"tools/call","params":' + params + b"}"
    token = server.token("coder", "read")
    reply = ask(server.port, "POST", "/mcp", token=token, body=body, headers=SPEAKS)
    found = reply.document
    assert (found["id"], found["error"]["code"]) == ("q-7", -32600)
    assert "half a character" in found["error"]["message"]


@pytest.mark.promise("W-8", "W-1")
def test_without_a_token_no_tool_is_listed(server: Served) -> None:
    for token in ("", "token-for-another-audience"):
        reply = rpc(server, token, "tools/list")
        assert reply.status == 401
        assert "www-authenticate" in reply.headers
        assert b"tools" not in reply.body
    token = server.token("coder", "read")
    for method in ("GET", "DELETE"):
        assert ask(server.port, method, "/mcp", token=token, headers=SPEAKS).status == 405


@pytest.mark.promise("W-8")
def test_the_protocol_s_own_client_is_served(server: Served) -> None:
    """Listing and calling, with the token in its header."""
    token = server.token("coder", "read", "write")

    async def talk() -> tuple[list[str], str]:
        from mcp.client.streamable_http import streamable_http_client

        headers = {"Authorization": f"Bearer {token}"}
        async with httpx.AsyncClient(headers=headers) as http:
            transport = streamable_http_client(f"{server.url}/mcp", http_client=http)
            async with Client(transport) as client:
                tools = await client.list_tools()
                told = await client.call_tool("brief", {"task": "T-1"})
                return [tool.name for tool in tools.tools], str(told.content[0])

    names, brief = asyncio.run(talk())
    assert "handoff" in names
    assert "T-1 for coder" in brief


@pytest.mark.promise("W-8")
def test_tools_are_counted_and_logged_by_name(server: Served) -> None:
    """By those that there are: a caller can't make up names for what is counted."""
    token = server.token("coder", "read", "write")
    with heard() as logged:
        call(server, token, "decide", task="T-1", summary="s", rationale="r")
    assert [json.loads(line)["operation"] for line in logged] == ["mcp/decide"]
    call(server, token, "tasks")
    call(server, token, "x" * 30 + '"} 1')
    rpc(server, token, "tools/list")
    counts = ask(server.port, "GET", "/metrics", token=token).body.decode()
    for operation in ("mcp/decide", "mcp/tasks", "mcp"):
        assert f'passdown_requests_total{{operation="{operation}",status="200"}}' in counts
    assert "xxx" not in counts


TASKS = "io.modelcontextprotocol/tasks"


def modern(
    server: Served, token: str, method: str, capabilities: Document | None = None, **params: Any
) -> Reply:
    """A request of 2026, which describes itself."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": capabilities or {},
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
    headers = {**SPEAKS, "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method}
    if named := params.get("name") or params.get("uri") or params.get("taskId"):
        headers["Mcp-Name"] = named
    return ask(server.port, "POST", "/mcp", token=token, body=body, headers=headers)


def held(server: Served) -> str:
    """A gate that waits for a person."""
    given: Document = {"task": "T-1", "from_agent": "coder", "outcome": "partial"}
    blocker = {"blocker": "may we ship?", "requires_human": True}
    server.workspace.hand_off({**given, "blockers": [blocker], "suggested_next_steps": ["ship"]})
    return str(server.workspace.gates("T-1")[0].address)


@pytest.mark.promise("M-12", "W-2")
def test_the_holder_of_a_token_answers_a_gate_and_an_agent_does_not(server: Served) -> None:
    """Under the token's name, whatever the form says."""
    gate = held(server)
    call_of: Document = {"name": "gates", "arguments": {"ask": gate}}
    can: Document = {"elicitation": {}}
    content = {"answer": "approve", "name": "somebody"}
    said = {"answer": {"action": "accept", "content": content}}
    agent = server.token("coder", "read", "write")
    for more in ({}, {"inputResponses": said}):
        told = modern(server, agent, "tools/call", can, **call_of, **more).document["result"]
        assert told["resultType"] == "complete"
        assert "Tell the person" in told["content"][0]["text"]
    kim = server.token("kim", "read", "approve", is_person=True)
    asked = modern(server, kim, "tools/call", can, **call_of).document["result"]
    assert asked["resultType"] == "input_required"
    assert "may we ship?" in asked["inputRequests"]["answer"]["params"]["message"]
    assert server.workspace.gates("T-1")[0].status == "pending"
    unable = modern(server, kim, "tools/call", **call_of, inputResponses=said).document["result"]
    assert "Tell the person" in unable["content"][0]["text"]
    done = modern(server, kim, "tools/call", can, **call_of, inputResponses=said)
    assert "approved, coder; answered by kim" in done.document["result"]["content"][0]["text"]


@pytest.mark.promise("M-12", "W-8")
def test_a_task_is_seen_by_its_token_alone(server: Served) -> None:
    gate = held(server)
    kim, eve = (server.token(n, "read", "approve", is_person=True) for n in ("kim", "eve"))
    can: Document = {"elicitation": {}, "extensions": {TASKS: {}}}
    call_of: Document = {"name": "gates", "arguments": {"ask": gate}}
    task = modern(server, kim, "tools/call", can, **call_of).document["result"]
    assert task["resultType"] == "task"
    identity = task["taskId"]
    for method in ("tasks/get", "tasks/cancel", "tasks/update"):
        refused = modern(server, eve, method, can, taskId=identity, inputResponses={})
        assert (refused.status, refused.document["error"]["code"]) == (400, -32602)
    said = {"answer": {"action": "accept", "content": {"answer": "reject", "reason": "no"}}}
    found: Document = {}
    for _ in range(400):
        found = modern(server, kim, "tasks/get", can, taskId=identity).document["result"]
        if found["status"] == "input_required":
            modern(server, kim, "tasks/update", can, taskId=identity, inputResponses=said)
        elif found["status"] == "completed":
            break
        time.sleep(0.05)
    assert "rejected, coder; answered by kim: no" in found["result"]["content"][0]["text"]


@pytest.mark.promise("W-2")
@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("knowledge_add", {"knowledge": {"id": "x", "type": "component", "summary": "s"}}),
        ("task_new", {"title": "T"}),
        ("note", {"kind": "gotcha", "text": "t", "mitigation": "m"}),
    ],
)
def test_a_token_that_only_reads_records_nothing(
    server: Served, tool: str, given: Document
) -> None:
    looker = server.token("looker", "read")
    before = server.workspace.maintenance.heads().heads
    refused = call(server, looker, tool, **given)
    assert refused["result"]["isError"]
    assert "allows read" in text(refused)
    assert server.workspace.maintenance.heads().heads == before


@pytest.mark.promise("W-8")
def test_headers_that_disagree_with_their_message_are_refused(server: Served) -> None:
    """A proxy that decides by headers must not be told something else than the server."""
    token = server.token("coder", "read")
    assert modern(server, token, "tools/list").document["result"]["resultType"] == "complete"
    assert modern(server, token, "nonsense").status == 404
    assert modern(server, token, "ping").status == 404
    meta: Document = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    cases: list[tuple[Document, Document]] = [
        ({"MCP-Protocol-Version": "2026-07-28"}, {}),
        ({"MCP-Protocol-Version": "2024-01-01"}, {}),
        ({"Mcp-Method": "tools/list"}, meta),
    ]
    for headers, described in cases:
        params: Document = {"name": "tasks", "_meta": described}
        body: Document = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        found = ask(
            server.port, "POST", "/mcp", token=token, body=body, headers={**SPEAKS, **headers}
        )
        assert found.status == 400, headers
        assert found.document["error"]["code"] in (-32600, -32020)
    wrong = {**SPEAKS, "Accept": "text/html"}
    assert ask(server.port, "POST", "/mcp", token=token, body={}, headers=wrong).status == 406

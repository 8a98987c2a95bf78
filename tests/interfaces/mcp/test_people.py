"""People are asked through their host where it can do that; long calls run as tasks."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal

import anyio
import mcp_types._v2026_07_28 as published
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp_types import (
    CallToolResult,
    CreateTaskResult,
    ElicitRequest,
    ElicitResult,
    GetTaskResult,
    ListTasksResult,
    Request,
    RequestParams,
    Result,
)

import passdown
from passdown.relay.relay_file import check_relay
from passdown.relay.runs import Runs
from tests.interfaces.mcp.talking import COMMAND, ERAS, Pipes, environment, talk, told
from tests.processes import forked_python

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

GATE = "T-1#k1"
EXTENSION = "io.modelcontextprotocol/tasks"


@pytest.fixture
def gated(project: Path) -> Path:
    """A project with a task that waits for a person."""
    with passdown.open(str(project)) as ws:
        ws.create_task("T-1", title="Login", agent="coder")
        blocker = {"blocker": "May we ship on a Friday?", "requires_human": True}
        given: dict[str, Any] = {"task": "T-1", "from_agent": "coder", "outcome": "partial"}
        ws.hand_off({**given, "blockers": [blocker], "suggested_next_steps": ["ship"]})
        assert [gate.address for gate in ws.gates()] == [GATE]
    return project


def gate_of(folder: Path) -> dict[str, Any]:
    with passdown.open(str(folder)) as ws:
        return ws.gates("T-1", all=True)[0].to_dict()


class Person:
    """Answers what a host shows."""

    def __init__(self, action: Literal["accept", "decline", "cancel"], **content: str) -> None:
        self._answer = ElicitResult(action=action, content=dict[str, Any](content) or None)
        self.asked: list[str] = []

    async def __call__(self, context: Any, params: Any) -> ElicitResult:
        self.asked.append(params.message)
        return self._answer


def host(folder: Path, era: str, person: Person | None, *extensions: ClientExtension) -> Client:
    program = StdioServerParameters(
        command=forked_python(), args=list(COMMAND), cwd=str(folder), env=environment()
    )
    return Client(
        program,
        mode=era,
        read_timeout_seconds=60,
        elicitation_callback=person,
        extensions=list(extensions),
    )


def ask_gate(folder: Path, era: str, person: Person | None) -> str:
    said: list[str] = []

    async def do(one: Client) -> None:
        answer = told(await one.call_tool("gates", {"ask": GATE}))
        assert not answer.is_error, answer.text
        said.append(answer.text)

    talk(host(folder, era, person), do)
    return said[0]


@pytest.mark.promise("M-12")
@pytest.mark.parametrize("era", ERAS)
def test_a_person_answers_a_gate_in_the_host(gated: Path, era: str) -> None:
    kim = Person("accept", answer="approve", name="kim", reason="tests pass")
    said = ask_gate(gated, era, kim)
    assert said.startswith(f"- {GATE} (approved, coder; answered by kim: tests pass) May we ship")
    (shown,) = kim.asked
    assert "coder asks in T-1 (T-1#k1): May we ship on a Friday?" in shown
    assert (gate_of(gated)["answered_by"], gate_of(gated)["status"]) == ("kim", "approved")
    again = Person("accept", answer="reject", name="eve", reason="no")
    assert "answered by kim" in ask_gate(gated, era, again)
    assert again.asked == []


@pytest.mark.parametrize("era", ERAS)
def test_a_person_rejects_a_gate_in_the_host(gated: Path, era: str) -> None:
    ask_gate(gated, era, Person("accept", answer="reject", reason="too late", name="kim"))
    assert (gate_of(gated)["reason"], gate_of(gated)["status"]) == ("too late", "rejected")


@pytest.mark.promise("M-12")
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    "person",
    [Person("decline"), Person("cancel"), Person("accept"), Person("accept", answer="")],
    ids="decline cancel empty blank".split(),
)
def test_a_person_who_gives_no_answer_changes_nothing(
    gated: Path, era: str, person: Person
) -> None:
    assert "The person gave no answer: it waits." in ask_gate(gated, era, person)
    assert gate_of(gated)["status"] == "pending"


@pytest.mark.promise("M-12")
@pytest.mark.parametrize("era", ERAS)
def test_a_host_that_cannot_ask_gets_a_text_that_says_what_to_do(gated: Path, era: str) -> None:
    said = ask_gate(gated, era, None)
    assert f"- {GATE} (pending, coder) May we ship" in said
    assert "Tell the person you work for which gate waits" in said
    assert "gate approve" not in said  # an agent might run it
    assert gate_of(gated)["status"] == "pending"


def test_a_name_that_is_no_name_and_a_gate_that_is_none_are_refused(gated: Path) -> None:
    async def do(one: Client) -> None:
        for given in ({"ask": GATE}, {"ask": "T-1#k9"}, {"ask": "T-9#k1"}, {"ask": 5}):
            assert told(await one.call_tool("gates", given)).is_error, given

    talk(host(gated, "legacy", Person("accept", answer="approve", name="not a name!")), do)
    assert gate_of(gated)["status"] == "pending"


# Tasks of 2025-11-25, which the SDK has types for and no client.


@pytest.fixture
def pipes(gated: Path) -> Iterator[Pipes]:
    with Pipes(gated) as server:
        yield server


def begin(server: Pipes, capabilities: dict[str, Any], version: str = "2025-11-25") -> Any:
    info = {"name": "pipes", "version": "1"}
    hello = {"protocolVersion": version, "capabilities": capabilities, "clientInfo": info}
    return request(server, "initialize", hello)


def request(server: Pipes, method: str, params: Any = None, identity: int = 1) -> Any:
    server.send({"id": identity, "method": method, "params": params or {}})
    answer = json.loads(server.line())
    assert answer.get("id") == identity, answer
    return answer.get("result") or answer["error"]


ASK = {"name": "gates", "arguments": {"ask": GATE}, "task": {"ttl": 600_000}}


def status_of(server: Pipes, task: str, until: str) -> GetTaskResult:
    found = None
    for _ in range(240):
        found = GetTaskResult.model_validate(request(server, "tasks/get", {"taskId": task}))
        if found.status == until:
            return found
        anyio.run(anyio.sleep, 0.25)
    raise AssertionError(found)


@pytest.mark.promise("M-12")
def test_a_gate_is_a_task_that_waits_for_whoever_answers(pipes: Pipes, gated: Path) -> None:
    """Also where the host can't ask: here it is answered elsewhere meanwhile."""
    begun = begin(pipes, {})
    assert begun["capabilities"]["tasks"]["requests"] == {"tools": {"call": {}}}
    tools = request(pipes, "tools/list")["tools"]
    marked = {t["name"] for t in tools if t.get("execution") == {"taskSupport": "optional"}}
    assert marked == {"gates", "note"}
    task = CreateTaskResult.model_validate(request(pipes, "tools/call", ASK)).task
    waiting = status_of(pipes, task.task_id, "input_required")
    assert "May we ship on a Friday?" in str(waiting.status_message)
    assert (waiting.ttl, task.created_at <= waiting.last_updated_at) == (600_000, True)
    listed = ListTasksResult.model_validate(request(pipes, "tasks/list"))
    assert [each.task_id for each in listed.tasks] == [task.task_id]
    pipes.send({"id": 7, "method": "tasks/result", "params": {"taskId": task.task_id}})
    with passdown.open(str(gated)) as ws:
        ws.approve(GATE, by="eva", reason="in the terminal")
    answer = json.loads(pipes.line())
    assert answer["id"] == 7
    assert answer["result"]["_meta"]["io.modelcontextprotocol/related-task"] == {
        "taskId": task.task_id
    }
    said = told(CallToolResult.model_validate(answer["result"])).text
    assert "answered by eva: in the terminal" in said
    assert status_of(pipes, task.task_id, "completed")


@pytest.mark.promise("M-12")
def test_a_task_asks_the_person_of_the_host(pipes: Pipes, gated: Path) -> None:
    begin(pipes, {"elicitation": {}})
    task = CreateTaskResult.model_validate(request(pipes, "tools/call", ASK)).task
    asked = json.loads(pipes.line())
    ElicitRequest.model_validate({"method": asked["method"], "params": asked["params"]})
    assert asked["params"]["_meta"] == {
        "io.modelcontextprotocol/related-task": {"taskId": task.task_id}
    }
    assert status_of(pipes, task.task_id, "input_required")
    content = {"answer": "approve", "name": "kim"}
    pipes.send({"id": asked["id"], "result": {"action": "accept", "content": content}})
    assert status_of(pipes, task.task_id, "completed")
    assert gate_of(gated)["answered_by"] == "kim"


def test_a_task_can_be_cancelled_and_only_once(pipes: Pipes, gated: Path) -> None:
    begin(pipes, {})
    task = request(pipes, "tools/call", ASK)["task"]["taskId"]
    status_of(pipes, task, "input_required")
    assert request(pipes, "tasks/cancel", {"taskId": task})["status"] == "cancelled"
    for method in ("tasks/cancel", "tasks/result"):
        assert request(pipes, method, {"taskId": task})["code"] == -32602
    assert request(pipes, "tasks/get", {"taskId": "no-such-task"})["code"] == -32602
    assert gate_of(gated)["status"] == "pending"


@pytest.mark.promise("M-12")
def test_an_agent_that_takes_its_time_is_asked_by_a_task(pipes: Pipes, gated: Path) -> None:
    """Other calls are answered meanwhile; a refusal is a result of the task, too."""
    command = ["sh", "-c", "cat > /dev/null; while [ ! -e go ]; do sleep 0.1; done; echo APPROVED"]
    document: dict[str, Any] = {"relay": "x", "legs": [{"leg": "plan", "agent": "architect"}]}
    document["agents"] = {"architect": {"runner": {"command": command}}}
    with passdown.open(str(gated)) as ws:
        ws.create_task("T-2", title="Logout", agent="eva")
        Runs(ws).start(check_relay(document), "T-2", by="eva", lane="here")
    begin(pipes, {})
    given = {"kind": "plan", "text": "My plan", "to": "architect", "agent": "coder"}
    call: dict[str, Any] = {"name": "note", "arguments": given, "task": {}}
    task = request(pipes, "tools/call", call)["task"]["taskId"]
    assert status_of(pipes, task, "working")
    assert "T-2" in str(request(pipes, "tools/call", {"name": "tasks"}))
    (gated / "go").touch()
    said = CallToolResult.model_validate(request(pipes, "tasks/result", {"taskId": task}))
    assert told(said).text.strip() == "architect in R-1: APPROVED"
    call["arguments"] = {"kind": "plan", "text": "x", "to": "nobody"}
    task = request(pipes, "tools/call", call)["task"]["taskId"]
    failed = CallToolResult.model_validate(request(pipes, "tasks/result", {"taskId": task}))
    assert told(failed).is_error
    assert status_of(pipes, task, "completed")


def test_a_tool_that_is_never_long_is_no_task(pipes: Pipes) -> None:
    begin(pipes, {})
    refused = request(pipes, "tools/call", {"name": "tasks", "task": {}})
    assert refused == {"code": -32601, "message": "tasks can't be run as a task"}


def test_an_older_client_has_no_tasks(pipes: Pipes) -> None:
    """As it doesn't know them, what it says about one is ignored."""
    assert "tasks" not in begin(pipes, {}, "2025-06-18")["capabilities"]
    assert all("execution" not in tool for tool in request(pipes, "tools/list")["tools"])
    assert "Tell the person" in str(request(pipes, "tools/call", ASK))


@pytest.mark.parametrize("modes", [{"url": {}}, None, 5], ids=str)
def test_a_host_that_shows_no_forms_is_not_sent_any(pipes: Pipes, modes: Any) -> None:
    begin(pipes, {"elicitation": modes})
    assert "Tell the person" in str(request(pipes, "tools/call", {**ASK, "task": None}))


def test_a_question_is_taken_back_when_it_is_answered_elsewhere_or_cancelled(
    pipes: Pipes, gated: Path
) -> None:
    begin(pipes, {"elicitation": {}})
    call = {"name": "gates", "arguments": {"ask": GATE}}
    pipes.send({"id": 5, "method": "tools/call", "params": call})
    asked = json.loads(pipes.line())
    pipes.send({"method": "notifications/cancelled", "params": {"requestId": 5}})
    taken_back = json.loads(pipes.line())
    assert (taken_back["method"], taken_back["params"]["requestId"]) == (
        "notifications/cancelled",
        asked["id"],
    )
    pipes.send({"id": 6, "method": "tools/call", "params": call})
    asked = json.loads(pipes.line())
    with passdown.open(str(gated)) as ws:
        ws.reject(GATE, by="eva", reason="no")
    assert json.loads(pipes.line())["params"]["requestId"] == asked["id"]
    answer = json.loads(pipes.line())
    assert answer["id"] == 6
    assert "answered by eva" in str(answer["result"])


def test_a_client_that_leaves_while_its_person_thinks_leaves_no_process_behind(
    pipes: Pipes,
) -> None:
    begin(pipes, {"elicitation": {}})
    pipes.send({"id": 5, "method": "tools/call", "params": {**ASK, "task": None}})
    pipes.send({"id": 6, "method": "tools/call", "params": ASK})
    assert {json.loads(pipes.line()).get("id") for _ in range(3)} >= {6}
    assert pipes.process.stdin is not None
    pipes.process.stdin.close()
    assert pipes.process.wait(240) == 0


# Tasks of 2026-07-28, which are an extension of the protocol.


class TaskHandle(Result):
    result_type: Literal["task"] = "task"
    task_id: str
    status: str


class TaskState(Result):
    task_id: str
    status: str
    status_message: str | None = None
    input_requests: dict[str, Any] | None = None
    result: dict[str, Any] | None = None


class TaskParams(RequestParams):
    task_id: str
    input_responses: dict[str, Any] | None = None


class TasksExtension(ClientExtension):
    """Follows a task, as the extension has it, and answers its questions."""

    identifier = EXTENSION

    def __init__(self, folder: Path, answer: dict[str, Any] | None) -> None:
        self._folder, self._answer = folder, answer
        self.seen: list[str] = []

    def claims(self) -> list[ResultClaim[Any]]:
        return [ResultClaim(result_type="task", model=TaskHandle, resolve=self._resolve)]

    async def _resolve(self, handle: TaskHandle, context: ClaimContext) -> CallToolResult:
        async def send(method: str, kind: Any, **params: Any) -> Any:
            asked = Request[TaskParams, str](
                method=method, params=TaskParams(task_id=handle.task_id, **params)
            )
            return await context.session.send_request(asked, kind)  # type: ignore[arg-type]

        for _ in range(600):
            state = await send("tasks/get", TaskState)
            self.seen.append(state.status)
            if state.input_requests and self._answer is not None:
                (key,) = state.input_requests
                await send("tasks/update", Result, input_responses={key: self._answer})
            elif "May we ship" in (state.status_message or ""):
                with passdown.open(str(self._folder)) as ws:
                    ws.approve(GATE, by="eva", key="eva-1")
            if state.result is not None:
                published.CallToolResult.model_validate(state.result)
                return CallToolResult.model_validate(state.result)
            await anyio.sleep(0.1)
        raise AssertionError(self.seen)


@pytest.mark.promise("M-12")
@pytest.mark.parametrize("can_ask", [True, False], ids=["elicitation", "elsewhere"])
def test_a_gate_is_a_task_of_the_extension_too(gated: Path, can_ask: bool) -> None:
    person = Person("accept", answer="approve", name="kim") if can_ask else None
    answer = {"action": "accept", "content": {"answer": "approve", "name": "kim"}}
    tasks = TasksExtension(gated, answer if can_ask else None)

    async def do(one: Client) -> None:
        said = told(await one.call_tool("gates", {"ask": GATE})).text
        assert f"answered by {'kim' if can_ask else 'eva'}" in said
        assert "No gates wait" in told(await one.call_tool("gates", {})).text

    talk(host(gated, "2026-07-28", person, tasks), do)
    assert tasks.seen[-1] == "completed"
    assert ("input_required" in tasks.seen) == can_ask

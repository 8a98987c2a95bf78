"""A2A: the real client and the real server of its SDK hand a task off over loopback."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
import uvicorn
from a2a.client import create_client
from a2a.helpers import new_data_part
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    Message,
    SendMessageRequest,
    Task,
    TaskState,
)
from starlette.applications import Starlette

import passdown
from passdown.adapters.a2a import (
    EXTENSION,
    HandoffExecutor,
    answer_message,
    extension,
    handoff_message,
    read_gates,
    read_handoff,
)
from passdown.web.server import listen

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

    from a2a.server.agent_execution import RequestContext

    from passdown import Workspace

HANDOFF: dict[str, Any] = {
    "task": "T-1",
    "from_agent": "planner",
    "to_agent": "coder",
    "outcome": "partial",
    "summary": "Planned: é, 漢, 1/3.",
    "decisions": [{"summary": "A cookie", "rationale": "simple", "tags": ["auth"]}],
    "blockers": [{"blocker": "nothing is written", "severity": "low"}],
    "suggested_next_steps": [{"step": "Write it", "priority": "high"}],
    "facts": [{"key": "port", "value": "8080"}],
    "metadata": {"attempts": 2, "share": 0.5},
}


@contextmanager
def serving(workspace: Workspace, work: Any, **options: Any) -> Generator[str]:
    """The agent `coder` behind the SDK's own server; gives its address."""
    place = listen("127.0.0.1", 0)
    card = AgentCard(
        name="coder",
        description="Writes code.",
        version="1",
        capabilities=AgentCapabilities(streaming=True, extensions=[extension()]),
        supported_interfaces=[
            AgentInterface(
                url=f"{place.url}/a2a", protocol_binding="JSONRPC", protocol_version="1.0"
            )
        ],
        skills=[AgentSkill(id="code", name="Code", description="Writes code.", tags=["code"])],
        default_input_modes=["application/json"],
        default_output_modes=["application/json"],
    )
    executor = HandoffExecutor(workspace, "coder", work, **options)
    handler = DefaultRequestHandler(executor, InMemoryTaskStore(), card)
    app = Starlette(
        routes=[*create_agent_card_routes(card), *create_jsonrpc_routes(handler, "/a2a")]
    )
    server = uvicorn.Server(uvicorn.Config(app, log_level="error"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [place.sock]}, daemon=True)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.005)
        yield place.url
    finally:
        server.should_exit = True
        thread.join(240)
        place.sock.close()


def sent(url: str, *messages: Message | Callable[[Task], Message]) -> list[Task]:
    """The task after each message; a function makes its message from the task before."""

    async def send() -> list[Task]:
        found: list[Task] = []
        client = await create_client(url)
        async with client:
            for each in messages:
                message = each if isinstance(each, Message) else each(found[-1])
                task = Task()
                if not isinstance(each, Message):  # what follows is about the same task
                    task.CopyFrom(found[-1])
                async for event in client.send_message(SendMessageRequest(message=message)):
                    if event.HasField("task"):
                        task.CopyFrom(event.task)
                    elif event.HasField("status_update"):
                        task.status.CopyFrom(event.status_update.status)
                    elif event.HasField("artifact_update"):
                        task.artifacts.append(event.artifact_update.artifact)
                found.append(task)
        return found

    return asyncio.run(send())


def done(text: str, task: str) -> dict[str, Any]:
    return {"outcome": "completed", "summary": f"Wrote {task}.", "suggested_next_steps": []}


@pytest.mark.promise("C-5")
def test_a_handoff_survives_the_protocol() -> None:
    """Every field, other scripts and whole numbers too; the text beside it is for others."""
    message = handoff_message(HANDOFF, text="The brief.", title="Login")
    again = Message.FromString(message.SerializeToString())
    assert read_handoff(again) == HANDOFF
    assert list(again.extensions) == [EXTENSION]
    assert again.parts[1].text == "The brief."
    assert read_handoff(Message(parts=[again.parts[1]])) is None


@pytest.mark.promise("C-5")
def test_a_client_hands_a_task_to_an_agent_and_gets_it_back(tmp_path: Path) -> None:
    """The receiver's brief has what was handed over; both ledgers have both handoffs."""
    given: list[str] = []

    async def work(text: str, task: str) -> dict[str, Any]:
        given.append(text)
        return done(text, task)

    (tmp_path / "there").mkdir()
    (tmp_path / "here").mkdir()
    with (
        passdown.open(str(tmp_path / "there")) as there,
        passdown.open(str(tmp_path / "here")) as here,
        serving(there, work) as url,
    ):
        here.create_task("T-1", title="Login", agent="planner", criteria=["it works"])
        here.hand_off(HANDOFF)
        message = handoff_message(HANDOFF, title="Login", criteria=["it works"])
        (task,) = sent(url, message)
        assert task.status.state == TaskState.TASK_STATE_COMPLETED
        reply = read_handoff(task)
        assert reply is not None
        here.hand_off(reply)
        for workspace in (here, there):
            state = workspace.state("T-1")
            assert (state.source_agent, state.target_agent) == ("coder", "planner")
            assert [decision.summary for decision in state.decisions] == ["A cookie"]
            assert state.criteria == ("it works",)
            assert workspace.verify().ok
        assert "A cookie" in given[0]
        assert "Write it" in given[0]
        version = there.task("T-1").version
        sent(url, message)
        assert there.log("T-1")[0].author == "coder"
        assert there.task("T-1").version == version + 1, "the same message is one handoff"


@pytest.mark.promise("C-5")
def test_a_gate_requires_input_until_a_person_answers(tmp_path: Path) -> None:
    """Of the sender's handoff and of the agent's own; who isn't a person is refused."""
    people = ["", "kim"]

    def person(_: RequestContext) -> str:
        return people.pop(0) if people else "kim"

    def work(text: str, task: str) -> dict[str, Any]:
        asks = {"blocker": "Deploy on Friday?", "requires_human": True}
        return {**done(text, task), "outcome": "partial", "blockers": [asks],
                "suggested_next_steps": ["Deploy"]}  # fmt: skip

    asks = [{"blocker": "Cookies need a notice", "requires_human": True}]

    def yes(task: Task) -> Message:
        return answer_message(task, read_gates(task)[0]["gate"], "approved", reason="fine")

    with passdown.open(str(tmp_path)) as there, serving(there, work, person=person) as url:
        refused = sent(url, handoff_message({**HANDOFF, "blockers": asks}), yes)
        assert refused[0].status.state == TaskState.TASK_STATE_INPUT_REQUIRED
        assert read_gates(refused[0]) == [{"gate": "T-1#k1", "question": "Cookies need a notice"}]
        assert refused[1].status.state == TaskState.TASK_STATE_REJECTED
        assert there.gates("T-1")[0].status == "pending"
        there.approve("T-1#k1", by="ana")
        second = {**HANDOFF, "task": "T-2", "blockers": asks}
        first, asked, last = sent(url, handoff_message(second), yes, yes)
        states = [task.status.state for task in (first, asked, last)]
        waits = TaskState.TASK_STATE_INPUT_REQUIRED
        assert states == [waits, waits, TaskState.TASK_STATE_COMPLETED]
        assert read_gates(asked)[0]["question"] == "Deploy on Friday?"
        answers = {gate.address: gate.answered_by for gate in there.gates("T-2", all=True)}
        assert answers == {"T-2#k1": "kim", "T-2#k2": "kim"}


@pytest.mark.promise("C-5")
def test_problems_go_back_to_the_agent_or_to_the_client(tmp_path: Path) -> None:
    """An agent is told what to fix, a few times; a message without a handoff is rejected."""
    given: list[str] = []

    def work(text: str, task: str) -> dict[str, Any]:
        given.append(text)
        return done(text, task) if len(given) == 2 else {"outcome": "finished"}

    with passdown.open(str(tmp_path)) as there, serving(there, work) as url:
        (task,) = sent(url, handoff_message(HANDOFF))
        assert task.status.state == TaskState.TASK_STATE_COMPLETED
        assert "invalid_choice" in given[1]
        (failed,) = sent(url, handoff_message({**HANDOFF, "task": "T-2"}))
        assert failed.status.state == TaskState.TASK_STATE_FAILED
        wrong = handoff_message({"task": "T-3", "outcome": "finished", "from_agent": "planner"})
        empty = Message(role="ROLE_USER", message_id="m", parts=[{"text": "Hello"}])
        for message, code in ((wrong, "invalid_choice"), (empty, "no_handoff")):
            (rejected,) = sent(url, message)
            assert rejected.status.state == TaskState.TASK_STATE_REJECTED
            assert code in rejected.status.message.parts[0].text
        assert [each.task for each in there.tasks()] == ["T-1", "T-2"]


@pytest.mark.promise("C-5")
def test_a_data_part_of_another_form_is_rejected_by_name(tmp_path: Path) -> None:
    """Never as an error of the server's own, and nothing is left behind."""
    odd: dict[str, Any] = {
        "no handoff": 5,
        "handoff: str given": {"handoff": "T-1"},
        "task: list given": {"handoff": HANDOFF, "task": []},
        "answer: str given": {"handoff": HANDOFF, "answer": "approved"},
        "task.agent: the handoff says it": {"handoff": HANDOFF, "task": {"agent": "kim"}},
        "'T-2#k1' is no gate of T-1": {"handoff": HANDOFF, "answer": {"gate": "T-2#k1"}},
    }

    def person(_: RequestContext) -> str:
        return "kim"

    with passdown.open(str(tmp_path)) as ws, serving(ws, done, person=person) as url:
        for said, data in odd.items():
            message = handoff_message(HANDOFF)
            message.parts[0].data.CopyFrom(new_data_part(data).data)
            (task,) = sent(url, message)
            assert task.status.state == TaskState.TASK_STATE_REJECTED, said
            assert said in task.status.message.parts[0].text
        assert ws.tasks() == []


@pytest.mark.promise("C-5")
def test_the_program_of_the_page_runs(project_root: Path, tmp_path: Path) -> None:
    example = project_root / "docs" / "examples" / "protocols" / "over_a2a.py"
    page = (project_root / "docs" / "protocols.md").read_text("utf-8")
    assert f"```python\n{example.read_text('utf-8')}```" in page
    done = subprocess.run(
        [sys.executable, str(example)],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "- d1 A JWT in a cookie | Why: scripts can't read it" in done.stdout
    assert "- h2 The login is written." in done.stdout
    assert (
        "The design is agreed."
        in done.stdout.partition("coder reads more:")[2].partition("# T-1")[0]
    )

"""Two agents with a workspace each: planner hands a task to coder over A2A and gets it back."""

import asyncio
import socket
import tempfile
from typing import Any

import uvicorn
from a2a.client import create_client
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill, SendMessageRequest
from starlette.applications import Starlette

import passdown
from passdown import tools
from passdown.adapters.a2a import HandoffExecutor, extension, handoff_message, read_handoff


def coder_app(url: str, workspace: passdown.Workspace) -> Starlette:
    """The agent `coder` as an A2A server."""
    card = AgentCard(
        name="coder",
        description="Writes code.",
        version="1",
        capabilities=AgentCapabilities(streaming=True, extensions=[extension()]),
        supported_interfaces=[
            AgentInterface(url=f"{url}/a2a", protocol_binding="JSONRPC", protocol_version="1.0")
        ],
        default_input_modes=["application/json"],
        default_output_modes=["application/json"],
        skills=[AgentSkill(id="code", name="Code", description="Writes code.", tags=["code"])],
    )
    history = tools.read_history(workspace, "", "coder")  # a model gets history.openai()

    async def write_code(brief: str, task: str) -> dict[str, Any]:
        """Stands for a real agent: it is given the brief, and gives the fields of its handoff."""
        print(f"coder is given:\n{brief.rstrip()}\n")
        read = await history.arun({"items": task})
        print(f"coder reads more:\n{read.text}\n")
        return {
            "outcome": "completed",
            "summary": "The login is written.",
            "next_steps": ["Review"],
        }

    executor = HandoffExecutor(workspace, "coder", write_code)
    handler = DefaultRequestHandler(executor, InMemoryTaskStore(), card)
    return Starlette(
        routes=[*create_agent_card_routes(card), *create_jsonrpc_routes(handler, "/a2a")]
    )


async def planner(url: str, workspace: passdown.Workspace) -> None:
    workspace.create_task("T-1", title="Login", agent="planner")
    handoff = {
        "task": "T-1",
        "from_agent": "planner",
        "to_agent": "coder",
        "outcome": "completed",
        "summary": "The design is agreed.",
        "decisions": [{"summary": "A JWT in a cookie", "rationale": "scripts can't read it"}],
        "suggested_next_steps": [{"step": "Write the middleware", "priority": "high"}],
    }
    workspace.hand_off(handoff)
    request = SendMessageRequest(message=handoff_message(handoff, title="Login"))
    async with await create_client(url) as client:
        async for event in client.send_message(request):
            if reply := read_handoff(event.artifact_update.artifact):
                workspace.hand_off(reply)
    print(workspace.brief("T-1", agent="planner").text)


async def main() -> None:
    with (
        tempfile.TemporaryDirectory() as here,
        tempfile.TemporaryDirectory() as there,
        passdown.open(here) as planners,
        passdown.open(there) as coders,
        socket.create_server(("127.0.0.1", 0)) as place,
    ):
        url = f"http://127.0.0.1:{place.getsockname()[1]}"
        server = uvicorn.Server(uvicorn.Config(coder_app(url, coders), log_level="error"))
        serving = asyncio.create_task(server.serve(sockets=[place]))
        while not server.started:
            await asyncio.sleep(0.01)
        await planner(url, planners)
        server.should_exit = True
        await serving


asyncio.run(main())

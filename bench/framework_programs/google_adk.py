"""The job on Google ADK: a transfer to a sub-agent, or a team with a brief."""

# pyright: basic

from __future__ import annotations

import asyncio
import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

from bench.framework_job import REQUEST, Meter, Turn, look, main, message
from passdown.adapters.google_adk import Team

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from passdown import Workspace

# By name: ADK isn't installed where types are checked.
LlmAgent: Any = import_module("google.adk.agents").LlmAgent
BaseLlm: Any = import_module("google.adk.models").BaseLlm
LlmResponse: Any = import_module("google.adk.models").LlmResponse
InMemoryRunner: Any = import_module("google.adk.runners").InMemoryRunner
types: Any = import_module("google.genai.types")


class Scripted(BaseLlm):
    meter: Any

    async def generate_content_async(
        self, llm_request: Any, stream: bool = False
    ) -> AsyncGenerator[Any, None]:
        texts = [
            part.text or str((part.function_call or part.function_response).model_dump())
            for content in llm_request.contents
            for part in content.parts
        ]
        tools = [tool.model_dump(exclude_none=True) for tool in llm_request.config.tools or []]
        schema = [tools, llm_request.config.system_instruction]
        turn, call = self.meter.turn(self.model, texts, schema)
        parts = [types.Part(text=turn.words)] if turn.words else []
        if turn.tool:
            made = types.FunctionCall(id=call, name=turn.tool, args=turn.arguments)
            parts.append(types.Part(function_call=made))
        yield LlmResponse(content=types.Content(role="model", parts=parts))


def say(agent: Any) -> None:
    async def job() -> None:
        runner = InMemoryRunner(agent=agent, app_name="job")
        runner.auto_create_session = True
        words = types.Content(role="user", parts=[types.Part(text=REQUEST)])
        async for _ in runner.run_async(user_id="u", session_id="s", new_message=words):
            pass

    asyncio.run(job())


def plain(meter: Meter) -> None:
    receiver = LlmAgent(
        name="receiver", model=Scripted(model="receiver", meter=meter), tools=[look]
    )
    model = Scripted(model="sender", meter=meter)
    sender = LlmAgent(name="sender", model=model, tools=[look], sub_agents=[receiver])
    say(sender)


def with_passdown(meter: Meter, ws: Workspace) -> None:
    receiver = LlmAgent(
        name="receiver", model=Scripted(model="receiver", meter=meter), tools=[look]
    )
    model = Scripted(model="sender", meter=meter)
    sender = LlmAgent(name="sender", model=model, tools=[look])
    say(Team(name="team", workspace=ws, task="T-1", sub_agents=[sender, receiver]))


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    main(
        plain,
        with_passdown,
        own_transfer=Turn(message(), "transfer_to_agent", {"agent_name": "receiver"}),
    )

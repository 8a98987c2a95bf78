"""The job on Pydantic AI: the second agent is run with the messages of the first, or a brief."""

# pyright: basic

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

from bench.framework_job import GO_ON, REQUEST, Meter, Turn, look, main, message
from passdown.adapters.pydantic_ai import Handoffs, run

if TYPE_CHECKING:
    from passdown import Workspace


def scripted(meter: Meter, agent: str) -> FunctionModel:
    def answer(messages: Any, info: Any) -> ModelResponse:
        texts = [
            str(getattr(part, "content", None) or getattr(part, "args", None))
            for each in messages
            for part in each.parts
        ]
        schema = [[t.name, t.description, t.parameters_json_schema] for t in info.function_tools]
        turn, call = meter.turn(agent, texts, schema)
        said = [TextPart(turn.words)] if turn.words else []
        calls = [ToolCallPart(turn.tool, turn.arguments, call)] if turn.tool else []
        return ModelResponse(parts=[*said, *calls])

    return FunctionModel(answer)


def plain(meter: Meter) -> None:
    sender = Agent(scripted(meter, "sender"), name="sender", tools=[look])
    receiver = Agent(scripted(meter, "receiver"), name="receiver", tools=[look])

    async def job() -> None:
        first = await sender.run(REQUEST)
        await receiver.run(GO_ON, message_history=first.all_messages())

    asyncio.run(job())


def with_passdown(meter: Meter, ws: Workspace) -> None:
    handoffs = Handoffs(ws, "T-1", to=["receiver"])
    taking_over = Handoffs(ws, "T-1")
    model = scripted(meter, "sender")
    sender = Agent(model, name="sender", tools=[look], capabilities=[handoffs])
    model = scripted(meter, "receiver")
    receiver = Agent(model, name="receiver", tools=[look], capabilities=[taking_over])
    asyncio.run(run([sender, receiver], REQUEST))


if __name__ == "__main__":
    main(plain, with_passdown, own_transfer=Turn(message()))

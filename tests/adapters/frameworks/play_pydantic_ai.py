"""The story on Pydantic AI."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from pydantic_ai import Agent, DeferredToolRequests
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

from passdown.adapters.pydantic_ai import Handoffs, LedgerConversations, run
from tests.adapters.frameworks.story import REQUEST, Call, Models, look, main

if TYPE_CHECKING:
    from collections.abc import Callable

    from passdown import Workspace


def model_of(name: str, models: Models) -> FunctionModel:
    def answer(messages: Any, _: Any) -> ModelResponse:
        given = [
            str(getattr(part, "content", None) or getattr(part, "args", None))
            for message in messages
            for part in message.parts
        ]
        turn, call_id = models.next(name, given)
        if isinstance(turn, Call):
            return ModelResponse(parts=[ToolCallPart(turn.tool, turn.arguments, call_id)])
        return ModelResponse(parts=[TextPart(turn)])

    return FunctionModel(answer)


def play(ws: Workspace, models: Models, approve: Callable[[], list[str]]) -> tuple[str, str]:
    def agent(name: str, to: str) -> Agent[Any, Any]:
        return Agent(
            model_of(name, models),
            name=name,
            instructions=f"You are {name}.",
            tools=[look],
            output_type=[str, DeferredToolRequests],
            capabilities=[Handoffs(ws, "T-1", to=[to])],
        )

    async def story() -> tuple[str, str]:
        agents = [agent("planner", "coder"), agent("coder", "planner")]
        store = LedgerConversations(ws)
        result = await run(agents, REQUEST)
        await store.save(result)
        if isinstance(result.output, DeferredToolRequests):
            assert [*result.output.metadata.values()] == [{"task": "T-1", "gates": approve()}]
            paused = await store.load(result.conversation.conversation_id)
            answers = result.output.build_results(approve_all=True)
            result = await run(agents, conversation=paused, deferred_tool_results=answers)
            await store.save(result)
        kept = await store.load(result.conversation.conversation_id)
        return result.output, str(kept)

    return asyncio.run(story())


if __name__ == "__main__":
    main(play)

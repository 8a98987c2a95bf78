import asyncio
from typing import Any

from pydantic_ai import Agent, DeferredToolRequests
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel  # in place of a model

import passdown
from passdown.adapters.pydantic_ai import Handoffs, LedgerConversations, run


def scripted(*turns: Any) -> FunctionModel:
    """Stands for a real model: shows what it is given, and takes these turns."""
    waiting = iter(turns)

    def answer(messages: list[Any], info: AgentInfo) -> ModelResponse:
        said = [part for part in messages[0].parts if part.part_kind == "user-prompt"]
        print(f"{info.instructions} Given {len(messages)} messages:\n{said[0].content.rstrip()}\n")
        return ModelResponse(parts=[next(waiting)])

    return FunctionModel(answer)


PLANNER = ToolCallPart(
    "transfer_to_coder",
    {
        "outcome": "partial",
        "summary": "Design agreed; nothing is written yet.",
        "decisions": [{"summary": "JWT in a cookie", "rationale": "scripts can't read it"}],
        "next_steps": ["Write the middleware"],
        "blockers": [{"blocker": "Cookies need a notice", "requires_human": True}],
    },
)


async def main() -> None:
    with passdown.open(".") as ws:
        ws.create_task("T-1", title="Login", agent="planner")
        planner = Agent(
            scripted(PLANNER),
            name="planner",
            instructions="You plan.",
            output_type=[str, DeferredToolRequests],  # for the pause
            capabilities=[Handoffs(ws, "T-1", to=["coder"])],
        )
        coder = Agent(
            scripted(TextPart("The middleware is written.")),
            name="coder",
            instructions="You write code.",
            capabilities=[Handoffs(ws, "T-1", to=["planner"])],
        )
        conversations = LedgerConversations(ws)
        result = await run([planner, coder], "Make the login survive a reload")
        await conversations.save(result)
        print("paused:", *result.output.metadata.values(), end="\n\n")

        ws.approve("T-1#k1", by="kim", reason="The notice is online")
        result = await run(
            [planner, coder],
            conversation=await conversations.load(result.conversation.conversation_id),
            deferred_tool_results=result.output.build_results(approve_all=True),
        )
        print(result.output)


asyncio.run(main())

# pyright: basic, reportMissingImports=false
import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import Runner
from google.genai import types

import passdown
from passdown.adapters.google_adk import LedgerMemoryService, LedgerSessionService, Team


class Scripted(BaseLlm):
    """Stands for a real model: shows what it is given, and takes this turn."""

    turn: types.Part

    async def generate_content_async(
        self, llm_request: Any, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        contents = llm_request.contents
        print(f"{self.model}: {len(contents)} contents\n{contents[0].parts[0].text.rstrip()}\n")
        yield LlmResponse(content=types.Content(role="model", parts=[self.turn]))


HANDOFF = types.FunctionCall(
    name="transfer_to_coder",
    args={
        "outcome": "partial",
        "summary": "Design agreed; nothing is written yet.",
        "decisions": [{"summary": "JWT in a cookie", "rationale": "scripts can't read it"}],
        "next_steps": ["Write the middleware"],
        "blockers": [{"blocker": "Cookies need a notice", "requires_human": True}],
    },
)
PLANNER = Scripted(model="planner", turn=types.Part(function_call=HANDOFF))
CODER = Scripted(model="coder", turn=types.Part(text="The middleware is written."))


async def main() -> None:
    with passdown.open(".") as ws:
        ws.create_task("T-1", title="Login", agent="planner")
        team = Team(
            name="team",
            workspace=ws,
            task="T-1",
            sub_agents=[
                LlmAgent(name="planner", model=PLANNER, instruction="You plan."),
                LlmAgent(name="coder", model=CODER, instruction="You write code."),
            ],
        )
        runner = Runner(
            app_name="login",
            agent=team,
            session_service=LedgerSessionService(ws),
            memory_service=LedgerMemoryService(ws),
            auto_create_session=True,
        )

        async def say(part: types.Part) -> list[Any]:
            message = types.Content(role="user", parts=[part])
            run = runner.run_async(user_id="kim", session_id="s1", new_message=message)
            return [event async for event in run]

        events = await say(types.Part(text="Make the login survive a reload"))
        asked = [call for event in events for call in event.get_function_calls()][-1]
        print("paused:", asked.name, asked.args["toolConfirmation"]["payload"], end="\n\n")

        ws.approve("T-1#k1", by="kim", reason="The notice is online")
        answer = types.FunctionResponse(id=asked.id, name=asked.name, response={"confirmed": True})
        events = await say(types.Part(function_response=answer))
        print(events[-1].content.parts[0].text)


asyncio.run(main())

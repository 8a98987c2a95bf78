"""The story on Google ADK."""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import TYPE_CHECKING, Any

from passdown.adapters.google_adk import LedgerSessionService, Team
from tests.adapters.frameworks.story import REQUEST, Call, Models, look, main

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from passdown import Workspace

# By name: ADK isn't installed where types are checked.
LlmAgent: Any = import_module("google.adk.agents").LlmAgent
BaseLlm: Any = import_module("google.adk.models").BaseLlm
LlmResponse: Any = import_module("google.adk.models").LlmResponse
Runner: Any = import_module("google.adk.runners").Runner
types: Any = import_module("google.genai.types")


class Scripted(BaseLlm):
    """Answers as its agent does in the script."""

    models: Any
    agent: str

    async def generate_content_async(
        self, llm_request: Any, stream: bool = False
    ) -> AsyncGenerator[Any, None]:
        given = [
            part.text or str((part.function_call or part.function_response).model_dump())
            for content in llm_request.contents
            for part in content.parts
        ]
        turn, call_id = self.models.next(self.agent, given)
        if isinstance(turn, Call):
            call = types.FunctionCall(id=call_id, name=turn.tool, args=turn.arguments)
            part = types.Part(function_call=call)
        else:
            part = types.Part(text=turn)
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


def play(ws: Workspace, models: Models, approve: Callable[[], list[str]]) -> tuple[str, str]:
    def agent(name: str) -> Any:
        model = Scripted(model=name, models=models, agent=name)
        return LlmAgent(name=name, model=model, instruction=f"You are {name}.", tools=[look])

    async def story() -> tuple[str, str]:
        team = Team(name="team", workspace=ws, task="T-1", sub_agents=map(agent, models.seen))
        sessions = LedgerSessionService(ws)
        where: Any = {"user_id": "kim", "session_id": "s1"}
        runner = Runner(app_name="login", agent=team, session_service=sessions)
        await sessions.create_session(app_name="login", **where)

        async def said(*parts: Any) -> list[Any]:
            message = types.Content(role="user", parts=[*parts])
            return [event async for event in runner.run_async(**where, new_message=message)]

        events = await said(types.Part(text=REQUEST))
        asked = [call for event in events for call in event.get_function_calls()]
        paused = [call for call in asked if call.name == "adk_request_confirmation"]
        if paused:
            payload = paused[0].args["toolConfirmation"]["payload"]
            assert payload == {"task": "T-1", "gates": approve()}
            answer = types.FunctionResponse(
                id=paused[0].id, name=paused[0].name, response={"confirmed": True}
            )
            events = await said(types.Part(function_response=answer))
        kept = await LedgerSessionService(ws).get_session(app_name="login", **where)
        return events[-1].content.parts[0].text, str(kept)

    return asyncio.run(story())


if __name__ == "__main__":
    main(play)

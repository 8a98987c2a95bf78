import asyncio
import logging
from typing import Any

from agent_framework import (
    Agent,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    Content,
    FunctionInvocationLayer,
    Message,
)
from agent_framework_orchestrations import HandoffBuilder

import passdown
from passdown.adapters.agent_framework import Handoffs, LedgerHistory


class Scripted(FunctionInvocationLayer[Any], ChatMiddlewareLayer[Any], BaseChatClient[Any]):
    """Stands for a real model: shows what it is given, and takes this turn."""

    def __init__(self, name: str, turn: Content) -> None:
        super().__init__()
        self.name, self.turn = name, turn

    def _inner_get_response(self, *, messages: Any, stream: bool, options: Any, **_: Any) -> Any:
        async def answer() -> ChatResponse:
            print(f"{self.name}: {len(messages)} messages\n{messages[0].text.rstrip()}\n")
            return ChatResponse(messages=[Message("assistant", [self.turn])])

        return answer()


HANDOFF = {
    "outcome": "partial",
    "summary": "Design agreed; nothing is written yet.",
    "decisions": [{"summary": "JWT in a cookie", "rationale": "scripts can't read it"}],
    "next_steps": ["Write the middleware"],
    "blockers": [{"blocker": "Cookies need a notice", "requires_human": True}],
}
PLANNER = Content.from_function_call("call_1", "handoff_to_coder", arguments=HANDOFF)
CODER = Content.from_text("The middleware is written.")
logging.disable(logging.WARNING)


async def main() -> None:
    with passdown.open(".") as ws:
        ws.create_task("T-1", title="Login", agent="planner")

        def agent(name: str, to: str, turn: Content) -> Agent[Any]:
            handoffs = Handoffs(ws, "T-1", name, to=[to])
            history = LedgerHistory(ws)
            return Agent(Scripted(name, turn), context_providers=[history], **handoffs.options())

        planner, coder = agent("planner", "coder", PLANNER), agent("coder", "planner", CODER)
        builder = HandoffBuilder(participants=[planner, coder]).with_start_agent(planner)
        workflow = builder.add_handoff(planner, [coder]).add_handoff(coder, [planner]).build()

        result = await workflow.run("Make the login survive a reload")
        asked = result.get_request_info_events()[0]
        print("paused:", asked.data.type, asked.data.additional_properties["gates"], end="\n\n")

        ws.approve("T-1#k1", by="kim", reason="The notice is online")
        answer = asked.data.to_function_approval_response(approved=True)
        result = await workflow.run(responses={asked.request_id: answer})
        print(result.get_outputs()[-1].text)


asyncio.run(main())

"""The job on the Microsoft Agent Framework: a handoff workflow, without and with a brief."""

# pyright: basic

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

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

from bench.framework_job import REQUEST, Meter, Turn, look, main, message
from passdown.adapters.agent_framework import Handoffs

if TYPE_CHECKING:
    from passdown import Workspace


class Scripted(FunctionInvocationLayer[Any], ChatMiddlewareLayer[Any], BaseChatClient[Any]):
    def __init__(self, meter: Meter, agent: str) -> None:
        super().__init__()
        self._meter, self._agent = meter, agent

    def _inner_get_response(self, *, messages: Any, stream: bool, options: Any, **_: Any) -> Any:
        async def answer() -> ChatResponse:
            texts = [
                str(each.text or each.arguments or each.result)
                for one in messages
                for each in one.contents
            ]
            tools = [each.to_json_schema_spec() for each in options.get("tools") or []]
            turn, call = self._meter.turn(self._agent, texts, tools)
            said = [Content.from_text(turn.words)] if turn.words else []
            if turn.tool:
                said.append(
                    Content.from_function_call(call, turn.tool, arguments=turn.arguments or {})
                )
            return ChatResponse(messages=[Message("assistant", said)])

        return answer()


def plain(meter: Meter) -> None:
    kept: Any = {"require_per_service_call_history_persistence": True}
    sender = Agent(Scripted(meter, "sender"), name="sender", tools=[look], **kept)
    receiver = Agent(Scripted(meter, "receiver"), name="receiver", tools=[look], **kept)
    builder = HandoffBuilder(participants=[sender, receiver]).with_start_agent(sender)
    workflow = builder.add_handoff(sender, [receiver]).build()
    job: Any = workflow.run(REQUEST)
    asyncio.run(job)


def with_passdown(meter: Meter, ws: Workspace) -> None:
    own = Handoffs(ws, "T-1", "sender", to=["receiver"]).options([look])
    sender = Agent(Scripted(meter, "sender"), **own)
    own = Handoffs(ws, "T-1", "receiver").options([look])
    receiver = Agent(Scripted(meter, "receiver"), **own)
    builder = HandoffBuilder(participants=[sender, receiver]).with_start_agent(sender)
    workflow = builder.add_handoff(sender, [receiver]).build()
    job: Any = workflow.run(REQUEST)
    asyncio.run(job)


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    handed = Turn(message(), "handoff_to_receiver", {})
    main(plain, with_passdown, own_transfer=handed, transfer="handoff_to_receiver")

"""The story on the Microsoft Agent Framework, as a handoff workflow."""

from __future__ import annotations

import asyncio
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

from passdown.adapters.agent_framework import Handoffs, LedgerHistory
from passdown.tools.history import STREAM, ItemLog
from passdown.workspace.streams import WorkspaceStreams
from tests.adapters.frameworks.story import REQUEST, Call, Models, look, main

if TYPE_CHECKING:
    from collections.abc import Callable

    from passdown import Workspace


class Scripted(FunctionInvocationLayer[Any], ChatMiddlewareLayer[Any], BaseChatClient[Any]):
    """Answers as its agent does in the script."""

    def __init__(self, models: Models, agent: str) -> None:
        super().__init__()
        self._models, self._agent = models, agent

    def _inner_get_response(self, *, messages: Any, stream: bool, options: Any, **_: Any) -> Any:
        async def answer() -> ChatResponse:
            given = [
                str(each.text or each.arguments or each.result)
                for message in messages
                for each in message.contents
            ]
            turn, call = self._models.next(self._agent, given)
            if isinstance(turn, Call):
                name = turn.tool.replace("transfer_to_", "handoff_to_")
                said = Content.from_function_call(call, name, arguments=turn.arguments)
            else:
                said = Content.from_text(turn)
            return ChatResponse(messages=[Message("assistant", [said])])

        return answer()


def play(ws: Workspace, models: Models, approve: Callable[[], list[str]]) -> tuple[str, str]:
    def agent(name: str, to: str) -> Agent[Any]:
        handoffs = Handoffs(ws, "T-1", name, to=[to])
        return Agent(
            Scripted(models, name),
            f"You are {name}.",
            context_providers=[LedgerHistory(ws)],
            **handoffs.options([look]),
        )

    async def story() -> tuple[str, str]:
        planner, coder = agent("planner", "coder"), agent("coder", "planner")
        builder = HandoffBuilder(participants=[planner, coder])
        builder.add_handoff(planner, [coder]).add_handoff(coder, [planner])
        workflow = builder.with_start_agent(planner).build()
        result = await workflow.run(REQUEST)
        asked = [each for each in result.get_request_info_events() if _gates(each.data)]
        if asked:
            assert _gates(asked[0].data) == approve()
            answer = asked[0].data.to_function_approval_response(approved=True)
            result = await workflow.run(responses={asked[0].request_id: answer})
        heads = WorkspaceStreams(ws).streams(f"{STREAM}agent_framework/")
        logs = [ItemLog(ws, head.stream.removeprefix(STREAM)) for head in heads]
        kept = [item.text for log in logs for item in log.all()]
        return str(result.get_outputs()[-1].text), "\n".join(kept)

    return asyncio.run(story())


def _gates(data: Any) -> list[str]:
    about: dict[str, Any] = getattr(data, "additional_properties", None) or {}
    return about.get("gates", [])


if __name__ == "__main__":
    main(play)

"""The story on CrewAI, as a flow."""

from __future__ import annotations

import json
import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

os.environ |= {"CREWAI_DISABLE_TELEMETRY": "true", "OTEL_SDK_DISABLED": "true"}

from passdown.adapters.crewai import HandoffFlow, LedgerPersistence
from passdown.tools.history import STREAM, ItemLog
from passdown.workspace.streams import WorkspaceStreams
from tests.adapters.frameworks.story import REQUEST, Models, look, main

if TYPE_CHECKING:
    from collections.abc import Callable

    from passdown import Workspace

# By name: CrewAI isn't installed where types are checked.
Agent: Any = import_module("crewai").Agent
BaseLLM: Any = import_module("crewai").BaseLLM
tool: Any = import_module("crewai.tools").tool


class Scripted(BaseLLM):
    """Answers as its agent does in the script."""

    models: Any = None

    def supports_function_calling(self) -> bool:
        return True

    def call(self, messages: Any, *_: Any, **__: Any) -> Any:
        given = [
            str(each.get("content") or "") + json.dumps(each.get("tool_calls") or "", default=str)
            for each in messages
        ]
        turn, call = self.models.next(self.model, given)
        if isinstance(turn, str):
            return turn
        function = {"name": turn.tool, "arguments": json.dumps(turn.arguments)}
        return [{"id": call, "type": "function", "function": function}]


def play(ws: Workspace, models: Models, approve: Callable[[], list[str]]) -> tuple[str, str]:
    def agent(name: str) -> Any:
        model = Scripted(model=name, models=models)
        about = {"goal": "Work", "backstory": f"You are {name}."}
        return Agent(role=name, llm=model, tools=[tool("look")(look)], **about)

    kept = LedgerPersistence(workspace=ws)
    options: Any = {"workspace": ws, "task": "T-1", "agents": [agent(name) for name in models.seen]}
    flow = HandoffFlow(persistence=kept, **options)
    answer = flow.kickoff(inputs={"request": REQUEST})
    if not isinstance(answer, str):
        assert answer.callback_info == {"task": "T-1", "gates": approve()}
        again = HandoffFlow.from_pending(flow.flow_id, kept, **options)
        answer = again.resume("approved")
    heads = WorkspaceStreams(ws).streams(STREAM)
    logs = [ItemLog(ws, head.stream.removeprefix(STREAM)) for head in heads]
    return str(answer), "\n".join(item.text for log in logs for item in log.all())


if __name__ == "__main__":
    main(play)

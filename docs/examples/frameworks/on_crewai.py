# pyright: basic, reportMissingImports=false
import json
import os
from typing import Any

os.environ |= {"CREWAI_DISABLE_TELEMETRY": "true", "CREWAI_TRACING_ENABLED": "false"}

from crewai import Agent, BaseLLM
from crewai.events.event_listener import event_listener

import passdown
from passdown.adapters.crewai import HandoffFlow, LedgerPersistence


class Scripted(BaseLLM):
    """Stands for a real model: shows what it is given, and takes this turn."""

    turn: Any = None

    def supports_function_calling(self) -> bool:
        return True

    def call(self, messages: Any, *_: Any, **__: Any) -> Any:
        given = messages[-1]["content"].partition("\n\nThis is the expected")[0]
        print(f"{self.model}: {len(messages)} messages{given}\n")
        return self.turn


HANDOFF = {
    "outcome": "partial",
    "summary": "Design agreed; nothing is written yet.",
    "decisions": [{"summary": "JWT in a cookie", "rationale": "scripts can't read it"}],
    "next_steps": ["Write the middleware"],
    "blockers": [{"blocker": "Cookies need a notice", "requires_human": True}],
}
CALL = {"name": "transfer_to_coder", "arguments": json.dumps(HANDOFF)}
PLANNER = Scripted(model="planner", turn=[{"id": "1", "type": "function", "function": CALL}])
CODER = Scripted(model="coder", turn="The middleware is written.")
event_listener.formatter.console.quiet = True  # CrewAI prints panels

with passdown.open(".") as ws:
    ws.create_task("T-1", title="Login", agent="planner")
    kept = LedgerPersistence(workspace=ws)
    own: dict[str, Any] = {
        "workspace": ws,
        "task": "T-1",
        "agents": [
            Agent(role="planner", goal="A plan", backstory="You plan.", llm=PLANNER),
            Agent(role="coder", goal="Code", backstory="You write code.", llm=CODER),
        ],
        "suppress_flow_events": True,
    }
    flow = HandoffFlow(persistence=kept, **own)
    paused = flow.kickoff(inputs={"request": "Make the login survive a reload"})
    print("paused:", paused.callback_info, end="\n\n")

    ws.approve("T-1#k1", by="kim", reason="The notice is online")
    # Another process could do this too.
    flow = HandoffFlow.from_pending(flow.flow_id, kept, **own)
    print(flow.resume("approved"))

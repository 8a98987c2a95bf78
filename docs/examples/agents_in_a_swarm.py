from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langgraph_swarm import create_swarm

import passdown
from passdown.adapters.langgraph import BriefMiddleware, LedgerSaver, handoff_tool


class Scripted(GenericFakeChatModel):
    """Stands for a real model: gives its answers in order, and says how much it was shown."""

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        return self

    def _generate(self, messages: Any, *args: Any, **options: Any) -> Any:
        print(f"shown {len(messages)}:", " | ".join(str(m.content)[:24] for m in messages[1:]))
        return super()._generate(messages, *args, **options)


def look(path: str) -> str:
    """Look at a file."""
    return f"{path}: " + "code " * 200


def calls(tool: str, **given: object) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": tool, "args": given, "id": f"{tool} {given}"[:20]}])


def agent(name: str, other: str, *answers: AIMessage) -> Any:
    hand_on = handoff_tool(other, workspace=ws, task="T-1", from_agent=name)
    brief = BriefMiddleware(ws, "T-1", name, budget=500)
    model = Scripted(messages=iter(answers))
    return create_agent(
        model, [look, hand_on], system_prompt=f"You are {name}.", middleware=[brief], name=name
    )


DONE = {
    "outcome": "completed",
    "summary": "The design is agreed.",
    "decisions": [{"summary": "JWT in a cookie", "rationale": "scripts cannot read it"}],
    "suggested_next_steps": [{"step": "Write the middleware", "priority": "high"}],
}

with passdown.open(".") as ws:
    ws.create_task("T-1", title="Login", agent="planner")
    planner = agent(
        "planner",
        "coder",
        calls("look", path="a.py"),
        calls("transfer_to_coder", outcome="done"),
        calls("transfer_to_coder", **DONE),
    )
    coder = agent("coder", "planner", calls("look", path="b.py"), AIMessage("Written."))
    swarm = create_swarm([planner, coder], default_active_agent="planner")
    thread = {"configurable": {"thread_id": "1"}}
    app = swarm.compile(checkpointer=LedgerSaver(ws))
    state = app.invoke({"messages": [("user", "Build a login")]}, thread)
    print(len(state["messages"]), "messages in the state; the task is with", ws.task("T-1").holder)
    print("decided:", [each["summary"] for each in ws.files.state_document("T-1")["decisions"]])

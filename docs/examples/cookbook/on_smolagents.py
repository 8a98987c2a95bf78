# pyright: basic
from typing import Any

from smolagents import ChatMessage, LogLevel, Model, Tool, ToolCallingAgent
from smolagents.models import ChatMessageToolCall, ChatMessageToolCallFunction, MessageRole

import passdown
from passdown import tools


class FromPassdown(Tool):
    """A tool of Passdown in the form of smolagents."""

    skip_forward_signature_validation = True
    output_type = "string"

    def __init__(self, tool: tools.Tool) -> None:
        self.name, self.description, self.tool = tool.name, tool.description, tool
        required = tool.input_schema.get("required", ())
        self.inputs = {
            name: {"type": each["type"], "description": each.get("description", name)}
            | ({} if name in required else {"nullable": True})
            for name, each in tool.input_schema["properties"].items()
        }
        super().__init__()

    def forward(self, **arguments: Any) -> str:
        return self.tool(**arguments)


class Scripted(Model):
    """Stands for a real model: takes these turns, and keeps what it is given."""

    def __init__(self, *turns: tuple[str, dict[str, Any]]) -> None:
        super().__init__()
        self.turns, self.seen = list(turns), list[Any]()

    def generate(self, messages: list[Any], *_: Any, **__: Any) -> ChatMessage:
        self.seen.append(messages)
        name, arguments = self.turns.pop(0)
        function = ChatMessageToolCallFunction(name=name, arguments=arguments)
        call = ChatMessageToolCall(id=f"call_{len(self.seen)}", type="function", function=function)
        return ChatMessage(role=MessageRole.ASSISTANT, content="", tool_calls=[call])


def agent(model: Model, *own: tools.Tool) -> ToolCallingAgent:
    made: list[Tool] = [FromPassdown(each) for each in own]
    return ToolCallingAgent(made, model, verbosity_level=LogLevel.ERROR)


def history() -> list[dict[str, Any]]:
    return [
        {"role": str(each.role.value), "content": str(each.content)}
        for each in planner.write_memory_to_messages()[1:]
    ]


HANDOFF = {
    "outcome": "completed",
    "summary": "Design agreed; nothing is written yet.",
    "decisions": [{"summary": "JWT in a cookie", "rationale": "scripts can't read it"}],
    "next_steps": ["Write the middleware"],
}
PLANNER = Scripted(
    ("handoff", {**HANDOFF, "outcome": "done"}),
    ("handoff", HANDOFF),
    ("final_answer", {"answer": "Done."}),
)
CODER = Scripted(
    ("read_history", {"items": "1"}), ("final_answer", {"answer": "The middleware is written."})
)

with passdown.open(".") as ws:
    ws.create_task("T-1", title="Login", agent="planner")
    planner = agent(PLANNER, tools.handoff(ws, "T-1", "planner", to="coder", messages=history))
    planner.run("Make the login survive a reload")
    print(PLANNER.seen[1][-1].content[0]["text"].strip(), end="\n\n")

    coder = agent(CODER, tools.read_history(ws, "T-1", "coder"))
    brief = tools.opening_text(ws, "T-1", "coder", budget=500)
    print(brief)
    print(coder.run(brief))

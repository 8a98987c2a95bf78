import json
from typing import Any

import passdown
from passdown import tools

# What a model answers here; yours decides for itself.
PLANNER = [
    {"name": "look", "arguments": '{"topic": "cookies"}'},
    {
        "name": "handoff",
        "arguments": json.dumps(
            {
                "outcome": "completed",
                "summary": "Design agreed; nothing is written yet.",
                "decisions": [{"summary": "JWT in a cookie", "rationale": "scripts can't read it"}],
                "next_steps": ["Write the middleware"],
            }
        ),
    },
]
CODER = [{"name": "read_history", "arguments": '{"items": "3"}'}, "The middleware is written."]


def look(topic: str) -> str:
    return f"All about {topic}: " + "a page of text " * 50


def turn(answers: list[Any], messages: list[dict[str, Any]], own: dict[str, Any]) -> str:
    """An agent's loop, in the form of Chat Completions: call tools until there are only words."""
    for number, answer in enumerate(answers):
        if isinstance(answer, str):
            messages.append({"role": "assistant", "content": answer})
            return answer
        call = {"id": f"call_{number}", "type": "function", "function": answer}
        messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
        tool = own[answer["name"]]
        result = tool(**json.loads(answer["arguments"]))
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
    return ""


with passdown.open(".") as ws:
    ws.create_task("T-1", title="Login", agent="planner")
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "Make the login survive a reload"}
    ]
    handoff = tools.handoff(ws, "T-1", "planner", to="coder", messages=lambda: messages)
    turn(PLANNER, messages, {"look": look, "handoff": handoff})  # offer it: handoff.openai()

    if not tools.waiting_gates(ws, "T-1"):  # else a person has to answer first
        brief = tools.opening_text(ws, "T-1", "coder", budget=500)
        given = tools.since_handoff(messages, brief)
        print(given[0]["content"], end="")
        print(len(given), "of", len(messages), "messages are given to the coder")
        history = tools.read_history(ws, "T-1", "coder")
        print(turn(CODER, given, {"read_history": history}))
        print("it has read:", given[3]["content"][:60], "...")

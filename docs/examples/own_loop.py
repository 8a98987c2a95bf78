import json
from typing import Any

import passdown
from passdown import tools

# What the models call and say here; yours decide for themselves.
DONE = {
    "outcome": "completed",
    "summary": "The design is agreed.",
    "decisions": [{"summary": "JWT in a cookie", "rationale": "scripts cannot read it"}],
    "next_steps": ["Write the middleware"],
}
PLANNER = [("transfer_to_coder", {"outcome": "done"}), ("transfer_to_coder", DONE)]
CODER = [("read_history", {"items": "1"}), ("", "The middleware is written.")]


def answer(script: list[Any], messages: list[Any], definitions: list[Any]) -> dict[str, Any]:
    """In place of client.chat.completions.create(messages=messages, tools=definitions)."""
    name, given = script.pop(0)
    if not name:
        return {"role": "assistant", "content": given}
    function = {"name": name, "arguments": json.dumps(given)}
    call = {"id": f"call-{len(messages)}", "type": "function", "function": function}
    return {"role": "assistant", "content": "", "tool_calls": [call]}


def run(agent: str, script: list[Any], messages: list[Any], offered: list[tools.Tool]) -> str:
    """One agent's turn: until it hands off, or has nothing more to call."""
    by_name = {tool.name: tool for tool in offered}
    while True:
        reply = answer(script, messages, [tool.openai() for tool in offered])
        messages.append(reply)
        for call in reply.get("tool_calls", ()):
            result = by_name[call["function"]["name"]].run(call["function"]["arguments"])
            print(f"{agent}: {result.text.splitlines()[0]}")
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": result.text})
            if result.command:
                return result.command.to_agent
        if not reply.get("tool_calls"):
            return ""


with passdown.open(".") as ws:
    ws.create_task("T-1", title="Login", agent="planner")
    history: list[Any] = [{"role": "user", "content": "Make the login survive a reload"}]
    transfer = tools.handoff(
        ws, "T-1", "planner", to="coder", name="transfer_to_coder", messages=lambda: history
    )
    receiver = run("planner", PLANNER, history, [transfer])
    brief = tools.opening_text(ws, "T-1", receiver, budget=500)
    shown = tools.since_handoff(history, brief)
    print(len(history), "messages so far,", len(shown), "for", receiver)
    run(receiver, CODER, shown, [tools.read_history(ws, "T-1", receiver)])
    print(shown[-1]["content"])

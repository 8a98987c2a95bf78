import passdown
from passdown.adapters.states import AgentState, context_of, message, replay, step


def planner(state: AgentState) -> dict[str, object]:
    decision = {"summary": "JWT in a cookie", "rationale": "scripts cannot read it"}
    said = message("Planned.", "planner")
    return {"plan": ["middleware"], "decisions": [decision], "messages": [said]}


def coder(state: AgentState) -> dict[str, object]:
    context = context_of(state)
    print(f"{context.source} to {context.target}:", [each.summary for each in context.decisions])
    return {"code": state["plan"], "messages": [message("Written.", "coder")]}


with passdown.open(".") as ws:
    ws.create_task("T-1", title="Login", agent="planner")
    state = step(planner, {}, agent="planner", to="coder", workspace=ws, task="T-1")
    state = step(coder, state, agent="coder", workspace=ws, task="T-1", strict=True)
    print(len(state["messages"]), "messages, code:", state["code"])
    print("to look up:", state["handoff_context"]["memory_refs"])
    print("replayed:", replay(ws, state["run"]) == state)

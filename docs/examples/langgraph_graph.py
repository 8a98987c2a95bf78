import asyncio

from langgraph.graph import END, START

import passdown
from passdown.adapters.langgraph import HandoffGraph, replay, transitions
from passdown.adapters.states import AgentState, context_of, message, plain


class Work(AgentState, total=False):
    plan: list[str]
    failures: int


def planner(state: Work) -> dict[str, object]:
    decision = {"summary": "JWT in a cookie", "rationale": "scripts cannot read it"}
    return {"plan": ["middleware"], "decisions": [decision]}


async def coder(state: Work) -> dict[str, object]:
    context = context_of(state)
    print(f"{context.source} to {context.target}:", [each.summary for each in context.decisions])
    return {"messages": [message("Written.", "coder")]}


def tester(state: Work) -> dict[str, object]:
    failures = 0 if "failures" in state else 2
    handoff = {"outcome": "completed", "summary": f"{failures} tests fail."}
    return {"failures": failures, "handoff": handoff}


def has_failures(state: Work) -> bool:
    return state["failures"] > 0


async def main() -> None:
    with passdown.open(".") as ws:
        ws.create_task("T-1", title="Login", agent="planner")
        graph = HandoffGraph(ws, "T-1", Work, strict=True)
        graph.add_node("planner", planner).add_node("coder", coder).add_node("tester", tester)
        graph.add_edge(START, "planner").add_edge("planner", "coder").add_edge("coder", "tester")
        graph.add_edge_when("tester", has_failures, "coder").add_edge("tester", END)
        state = await graph.compile().ainvoke({"messages": [message("Go", "ana", role="user")]})
        for each in transitions(ws, state["run"]):
            print(each.version, each.source, "->", *each.targets, f"({each.condition})")
        print("replayed:", replay(ws, state["run"], Work) == plain(state))
        print([each["summary"] for each in ws.files.state_document("T-1")["handoffs"]])


asyncio.run(main())

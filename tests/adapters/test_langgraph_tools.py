"""Handing on by a tool: in a swarm, under a supervisor and in a graph of handoffs."""

from __future__ import annotations

import asyncio
import json
import uuid
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from passdown.adapters.langgraph import BriefMiddleware, HandoffGraph, handoff_tool, transitions
from passdown.adapters.states import AgentState, plain
from passdown.core.intake import check_handoff
from passdown.errors import InvalidInput
from passdown.tools import handoff_schema
from tests.adapters.scripted_chat import (
    ScriptedChat,
    calls,
    create_agent,
    create_supervisor,
    create_swarm,
    look,
    says,
)

if TYPE_CHECKING:
    from passdown import Workspace

Plain = dict[str, Any]

GOOD: Plain = {
    "outcome": "completed",
    "summary": "Design agreed.",
    "decisions": [{"summary": "Use JWT", "rationale": "no session store"}],
    "suggested_next_steps": [{"step": "Write the middleware", "priority": "high"}],
}
HELD: Plain = {
    "outcome": "failed",
    "summary": "May we?",
    "blockers": [
        {"blocker": "Drop the table?", "suggested_resolution": "Ask", "requires_human": True}
    ],
}
START = {"messages": [HumanMessage("Build a login", id="u1")]}


def config() -> Any:
    return {"configurable": {"thread_id": str(uuid.uuid4())}}


def swarm(ws: Workspace, planner: list[AIMessage], coder: list[AIMessage]) -> Any:
    """Planner and coder, each with a tool that hands on to the other."""

    def made(name: str, other: str, answers: list[AIMessage]) -> Any:
        tools = [look, handoff_tool(other, workspace=ws, task="T-1", from_agent=name)]
        return create_agent(ScriptedChat(answers=answers), tools=tools, name=name)

    agents = [made("planner", "coder", planner), made("coder", "planner", coder)]
    return create_swarm(agents, default_active_agent="planner").compile(InMemorySaver())


def handoffs(ws: Workspace) -> list[tuple[str, str, str]]:
    listed = ws.files.state_document("T-1")["handoffs"]
    return [(each["from_agent"], each.get("to_agent", ""), each["summary"]) for each in listed]


def test_the_schema_is_short_and_what_it_asks_for_is_a_handoff(ws: Workspace) -> None:
    """Every field comes from the handoff's own schema; a filled one passes the check."""
    schema = handoff_schema()
    assert list(schema["properties"]) == [
        "outcome",
        "summary",
        "decisions",
        "next_steps",
        "blockers",
        "files",
        "questions",
        "resolves",
    ]
    assert schema["properties"]["outcome"]["enum"] == ["completed", "partial", "failed", "blocked"]
    assert len(json.dumps(schema)) < 1_800
    assert "$ref" not in json.dumps(schema)
    assert check_handoff({**GOOD, "task": "T-1"}).handoff is not None
    tool = handoff_tool("coder", workspace=ws, task="T-1")
    assert (tool.name, tool.metadata) == ("transfer_to_coder", {"__handoff_destination": "coder"})
    assert tool.tool_call_schema == {**schema, "description": tool.description}
    other = handoff_tool("Research Agent", workspace=ws, task="T-1")
    assert other.metadata == {"__handoff_destination": "Research Agent"}
    with pytest.raises(InvalidInput):
        handoff_tool(" ", workspace=ws, task="T-1")


@pytest.mark.parametrize("is_async", [False, True])
def test_a_swarm_hands_on_what_the_model_filled_in(ws: Workspace, is_async: bool) -> None:
    """Recorded, then transferred; the swarm knows who is active; the history stays whole."""
    app = swarm(ws, [calls(("transfer_to_coder", GOOD))], [says("written")])
    result = asyncio.run(app.ainvoke(START, config())) if is_async else app.invoke(START, config())
    assert result["active_agent"] == "coder"
    assert handoffs(ws) == [("planner", "coder", "Design agreed.")]
    assert ws.task("T-1").holder == "coder"
    assert [d["summary"] for d in ws.files.state_document("T-1")["decisions"]] == ["Use JWT"]
    assert [each.type for each in result["messages"]] == ["human", "ai", "tool", "ai"]
    assert result["messages"][2].response_metadata == {"__handoff_destination": "coder"}
    assert result["messages"][3].content == "written"


def test_every_problem_goes_back_to_the_model_and_nothing_else_happens(ws: Workspace) -> None:
    """All at once, as the tool's answer; the agent stays, mends them and hands on."""
    bad: Plain = {
        "outcome": "partial",
        "decisions": [{"summary": "no reason"}],
        "files_created": [{"path": "../x", "purpose": "p"}],
        "sumary": "a slip",
    }
    planner = [calls(("transfer_to_coder", bad)), calls(("transfer_to_coder", GOOD))]
    app = swarm(ws, planner, [says("written")])
    stream = list(app.stream(START, config(), subgraphs=True, stream_mode="values"))
    refused = next(
        each
        for _, state in stream
        for each in state["messages"]
        if isinstance(each, ToolMessage) and each.status == "error"
    )
    for part in (
        "summary: is missing",
        "did you mean summary?",
        "decisions[0].rationale",
        "files_created[0].path",
        "blockers: is missing",
        "suggested_next_steps: is missing",
    ):
        assert part in str(refused.content)
    assert handoffs(ws) == [("planner", "coder", "Design agreed.")]


def test_a_transfer_beside_other_calls_waits_for_its_own_turn(ws: Workspace) -> None:
    """No call is left without its answer, and two transfers at once are none."""
    planner = [
        calls(("look", {"path": "a.py"}), ("transfer_to_coder", GOOD)),
        calls(("transfer_to_coder", GOOD), ("transfer_to_coder", GOOD)),
        calls(("transfer_to_coder", GOOD)),
    ]
    result = swarm(ws, planner, [says("written")]).invoke(START, config())
    called = [
        call["id"] for m in result["messages"] if isinstance(m, AIMessage) for call in m.tool_calls
    ]
    answered = [m.tool_call_id for m in result["messages"] if isinstance(m, ToolMessage)]
    assert called == answered
    assert len(handoffs(ws)) == 1


@pytest.mark.parametrize("is_async", [False, True])
def test_a_held_transfer_waits_for_a_person(ws: Workspace, is_async: bool) -> None:
    """An approval lets it through, and it is on record once; the tool runs again to go on."""
    app = swarm(ws, [calls(("transfer_to_coder", HELD))], [says("dropped")])
    where = config()

    def run(given: Any) -> Plain:
        return asyncio.run(app.ainvoke(given, where)) if is_async else app.invoke(given, where)

    (asked,) = run(START)["__interrupt__"]
    assert [gate["blocker"] for gate in asked.value["gates"]] == ["Drop the table?"]
    result = run(Command(resume={"by": "ana", "approve": ["T-1#k1"]}))
    assert result["messages"][-1].content == "dropped"
    assert handoffs(ws) == [("planner", "coder", "May we?")]
    (gate,) = ws.gates("T-1", all=True)
    assert (gate.status, gate.answered_by) == ("approved", "ana")


def test_a_rejected_transfer_comes_back_as_the_tools_answer(ws: Workspace) -> None:
    app = swarm(ws, [calls(("transfer_to_coder", HELD)), says("I keep it then")], [])
    where = config()
    app.invoke(START, where)
    answer = {"by": "ana", "reject": ["T-1#k1"], "reason": "not on a Friday"}
    result = app.invoke(Command(resume=answer), where)
    assert result["messages"][-1].content == "I keep it then"
    assert "Drop the table?: not on a Friday (ana)" in result["messages"][-2].content
    assert ws.task("T-1").holder == "planner"


@pytest.mark.filterwarnings("ignore:create_react_agent has been moved")
@pytest.mark.parametrize("is_async", [False, True])
def test_a_supervisor_hands_on_what_its_model_filled_in(ws: Workspace, is_async: bool) -> None:
    """Its agents do the work and come back; a faulty handoff doesn't leave."""
    worker = create_agent(ScriptedChat(answers=[says("written")]), tools=[look], name="coder")
    answers = [
        calls(("transfer_to_coder", {"outcome": "completed"})),
        calls(("transfer_to_coder", GOOD)),
        says("all done"),
    ]
    tool = handoff_tool("coder", workspace=ws, task="T-1", from_agent="planner")
    builder = create_supervisor(
        [worker], model=ScriptedChat(answers=answers), tools=[tool], supervisor_name="planner"
    )
    app = builder.compile(InMemorySaver())
    result = asyncio.run(app.ainvoke(START, config())) if is_async else app.invoke(START, config())
    assert handoffs(ws) == [("planner", "coder", "Design agreed.")]
    contents = [each.content for each in result["messages"]]
    assert contents[0] == "Build a login"
    assert "written" in contents
    assert contents[-1] == "all done"


@pytest.mark.promise("F-4")
@pytest.mark.filterwarnings("ignore:create_react_agent has been moved")
@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("has_middleware", [False, True])
def test_what_workers_come_back_with_is_recorded_and_in_the_next_brief(
    ws: Workspace, is_async: bool, has_middleware: bool
) -> None:
    """By a worker's middleware at once, else when the supervisor hands off again."""
    models = {
        "coder": ScriptedChat(answers=[says("Written in login.py.")]),
        "tester": ScriptedChat(answers=[says("All 12 tests pass.")]),
    }
    workers = [
        create_agent(
            model,
            tools=[look],
            name=name,
            middleware=[
                BriefMiddleware(
                    ws, "T-1", name, back_to="The Planner" if has_middleware else "", budget=500
                )
            ],
        )
        for name, model in models.items()
    ]
    planner = ScriptedChat(
        answers=[
            calls(("transfer_to_coder", GOOD)),
            calls(("transfer_to_tester", {"outcome": "completed", "summary": "Test it."})),
            says("all done"),
        ]
    )
    tools = [handoff_tool(name, workspace=ws, task="T-1") for name in models]
    ws.update_task("T-1", agent="planner", holder="The-Planner", take=True)
    builder = create_supervisor(workers, model=planner, tools=tools, supervisor_name="The Planner")
    app = builder.compile(InMemorySaver())
    _ = asyncio.run(app.ainvoke(START, config())) if is_async else app.invoke(START, config())
    ways = [
        ("The-Planner", "coder", "Design agreed."),
        ("coder", "The-Planner", "Written in login.py."),
        ("The-Planner", "tester", "Test it."),
        ("tester", "The-Planner", "All 12 tests pass."),
    ]
    assert handoffs(ws) == (ways if has_middleware else ways[:3])
    brief = str(models["tester"].shown[0][0].content)
    assert "Written in login.py." in brief
    assert "Use JWT" in brief
    assert ws.task("T-1").holder == ("The-Planner" if has_middleware else "tester")


def test_in_a_graph_of_handoffs_a_transfer_is_recorded_once(ws: Workspace) -> None:
    """The tool's own handoff is the node's; transitions and context follow it."""
    tool = handoff_tool("coder", workspace=ws, task="T-1", from_agent="planner")
    planner = create_agent(
        ScriptedChat(answers=[calls(("transfer_to_coder", GOOD))]), tools=[tool], name="planner"
    )
    coder = create_agent(ScriptedChat(answers=[says("written")]), tools=[look], name="coder")
    graph = HandoffGraph(ws, "T-1", AgentState, strict=True)
    graph.add_node("planner", planner).add_node("coder", coder)
    graph.add_edge("__start__", "planner").add_edge("planner", "__end__")
    graph.add_edge("coder", "__end__")
    given = {"messages": [{"role": "user", "content": "Build a login"}]}
    result = graph.compile().invoke(given)
    assert handoffs(ws) == [("planner", "coder", "Design agreed."), ("coder", "", "written")]
    found = [(each.source, each.condition, each.targets) for each in transitions(ws, result["run"])]
    assert found == [("planner", "goto", ("coder",)), ("coder", "", ())]
    assert [plain(each)["content"] for each in result["messages"]][::3] == [
        "Build a login",
        "written",
    ]
    assert graph.replay(result["run"]) == plain(result)

"""The brief in place of the transcript, for agents of LangChain."""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver

from passdown.adapters.langgraph import BriefMiddleware, HandoffGraph, handoff_tool
from passdown.adapters.langgraph.agents import handoff_index, paired_messages
from passdown.adapters.states import AgentState, message
from passdown.core.tokens import counter_of
from passdown.errors import InvalidInput
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
}
SECRET = "the long story of the planner"


def seen(messages: list[BaseMessage]) -> list[tuple[str, str]]:
    return [(each.type, str(each.content)) for each in messages]


def swarm(ws: Workspace, planner: ScriptedChat, coder: ScriptedChat) -> Any:
    def made(name: str, other: str, model: ScriptedChat) -> Any:
        tools = [look, handoff_tool(other, workspace=ws, task="T-1", from_agent=name)]
        brief = BriefMiddleware(ws, "T-1", name, budget=400)
        return create_agent(model, tools=tools, name=name, middleware=[brief])

    agents = [made("planner", "coder", planner), made("coder", "planner", coder)]
    return create_swarm(agents, default_active_agent="planner").compile(InMemorySaver())


@pytest.mark.parametrize("is_async", [False, True])
def test_the_receiver_is_shown_the_brief_and_its_own_turn(ws: Workspace, is_async: bool) -> None:
    """Calls stay paired with results; the state keeps all; the brief is told once a turn."""
    planner = ScriptedChat(
        answers=[
            calls(("look", {"path": "a"}), text=SECRET),
            calls(("transfer_to_coder", GOOD)),
        ]
    )
    coder = ScriptedChat(answers=[calls(("look", {"path": "b"})), says("written"), says("again")])
    app = swarm(ws, planner, coder)
    config: Any = {"configurable": {"thread_id": str(uuid.uuid4())}}

    def run(text: str) -> Plain:
        given = {"messages": [HumanMessage(text)]}
        return asyncio.run(app.ainvoke(given, config)) if is_async else app.invoke(given, config)

    result = run("Build a login")
    assert seen(planner.shown[0]) == [("human", "Build a login")]
    first, second = coder.shown
    assert seen(first)[1:] == [("human", "Build a login")]
    brief = str(first[0].content)
    assert brief.startswith("# T-1 for coder")
    assert "Use JWT" in brief
    assert SECRET not in brief
    assert seen(second) == [*seen(first), ("ai", ""), ("tool", "saw b")]
    assert [each.type for each in result["messages"]] == [
        *("human", "ai", "tool", "ai", "tool"),
        *("ai", "tool", "ai"),
    ]
    assert result["messages"][1].content == SECRET
    assert not any(brief in str(each.content) for each in result["messages"])
    assert set(result) == {"messages", "active_agent"}
    assert len(ws.context.deliveries("T-1")) == 1
    run("And now?")
    assert seen(coder.shown[2]) == [
        *seen(second),
        ("ai", "written"),
        ("human", "And now?"),
    ]


@pytest.mark.parametrize("is_async", [False, True])
def test_what_is_not_shown_is_read_word_for_word(ws: Workspace, is_async: bool) -> None:
    """By the one call that the brief names; lists and single messages too; nonsense is answered."""
    planner = ScriptedChat(
        answers=[
            calls(("look", {"path": "a"}), text=SECRET),
            calls(("transfer_to_coder", GOOD)),
        ]
    )
    asked: list[Any] = ["1-5", "", "3", "99", "x", 3, [3], None, {"a": 1}]
    coder = ScriptedChat(
        answers=[
            *(calls(("read_history", {"items": each})) for each in asked),
            calls(("read_history", {"numbers": "3"})),
            says("written"),
        ]
    )
    app = swarm(ws, planner, coder)
    config: Any = {"configurable": {"thread_id": "1"}}
    given = {"messages": [HumanMessage("Build a login")]}
    _ = asyncio.run(app.ainvoke(given, config)) if is_async else app.invoke(given, config)
    assert 'tool result: read_history("1-5")' in str(coder.shown[0][0].content)
    whole, listed, one, none, wrong, *odd = (
        str(each.content) for each in coder.shown[-1] if isinstance(each, ToolMessage)
    )
    for text in ("1 human: Build a login", SECRET, 'look({"path": "a"})', "tool look: saw a"):
        assert text in whole
    assert listed.splitlines()[0] == "1 human: Build a login"
    assert one == "3 tool look: saw a"
    assert "no such item" in none
    assert "can't be read" in wrong
    assert odd[:2] == [one, one]
    assert [each.splitlines()[0] for each in (odd[2], odd[4])] == ["1 human: Build a login"] * 2
    assert "can't be read" in odd[3]


def test_in_a_graph_of_handoffs_the_brief_needs_no_tool(ws: Workspace) -> None:
    """The task was handed to the agent: what was said before its start is replaced."""
    model = ScriptedChat(answers=[calls(("look", {"path": "b"})), says("written")])
    coder = create_agent(
        model, tools=[look], name="coder", middleware=[BriefMiddleware(ws, "T-1", "coder")]
    )

    def planner(_state: Any) -> Plain:
        return {"messages": [message(SECRET, "planner")], "decisions": GOOD["decisions"]}

    graph = HandoffGraph(ws, "T-1", AgentState, strict=True)
    graph.add_node("planner", planner).add_node("coder", coder)
    graph.add_edge("__start__", "planner").add_edge("planner", "coder")
    graph.add_edge("coder", "__end__")
    result = graph.compile().invoke({"messages": [{"role": "user", "content": "go"}]})
    first, second = model.shown
    assert seen(first)[1:] == [("human", "go")]
    assert "Use JWT" in str(first[0].content)
    assert [each.type for each in second] == ["human", "human", "ai", "tool"]
    assert len(result["messages"]) == 5
    assert result["messages"][1]["content"] == SECRET


def test_each_run_has_a_brief_of_its_own(ws: Workspace) -> None:
    """Two runs of one graph, alike to the last message: the second is told what is new."""
    model = ScriptedChat(answers=[says("written"), says("again")])
    brief = BriefMiddleware(ws, "T-1", "coder")
    coder = create_agent(model, tools=[look], name="coder", middleware=[brief])
    decided = iter(["Use JWT", "Use Redis"])

    def planner(_state: Any) -> Plain:
        return {"decisions": [{"summary": next(decided), "rationale": "r"}]}

    graph = HandoffGraph(ws, "T-1", AgentState, strict=True)
    graph.add_node("planner", planner).add_node("coder", coder)
    graph.add_edge("__start__", "planner").add_edge("planner", "coder")
    app = graph.add_edge("coder", "__end__").compile()
    for _ in range(2):
        app.invoke({"messages": [{"role": "user", "content": "go"}]})
    first, second = (str(shown[0].content) for shown in model.shown)
    assert "Use Redis" not in first
    assert "Use Redis" in second


@pytest.mark.filterwarnings("ignore:create_react_agent has been moved")
def test_an_agent_under_a_supervisor_is_shown_the_brief(ws: Workspace) -> None:
    """The supervisor's own talk stays with it; what comes back is the agent's answer."""
    model = ScriptedChat(answers=[calls(("look", {"path": "b"})), says("written")])
    brief = BriefMiddleware(ws, "T-1", "coder")
    worker = create_agent(model, tools=[look], name="coder", middleware=[brief])
    answers = [calls(("transfer_to_coder", GOOD), text=SECRET), says("all done")]
    tool = handoff_tool("coder", workspace=ws, task="T-1", from_agent="planner")
    builder = create_supervisor(
        [worker], model=ScriptedChat(answers=answers), tools=[tool], supervisor_name="planner"
    )
    result = builder.compile().invoke({"messages": [HumanMessage("Build a login")]})
    first, second = model.shown
    assert seen(first)[1:] == [("human", "Build a login")]
    assert str(first[0].content).startswith("# T-1 for coder")
    assert "Use JWT" in str(first[0].content)
    assert SECRET not in str(first)
    assert [each.type for each in second] == ["human", "human", "ai", "tool"]
    assert result["messages"][-1].content == "all done"


def test_an_agent_keeps_what_a_person_tells_it(ws: Workspace) -> None:
    """Run alone after a handoff, it has the brief and the new request; before one, everything."""
    model = ScriptedChat(answers=[says("a"), says("b")])
    brief = BriefMiddleware(ws, "T-1", "coder")
    agent = create_agent(model, tools=[look], name="coder", middleware=[brief])
    agent.invoke({"messages": [HumanMessage("Hello")]})
    assert seen(model.shown[0]) == [("human", "Hello")]
    ws.hand_off({**GOOD, "task": "T-1", "to_agent": "coder"})
    agent.invoke({"messages": [HumanMessage("x"), AIMessage("y"), HumanMessage("Go on")]})
    shown = seen(model.shown[1])
    assert len(shown) == 2
    assert shown[0][1].startswith("# T-1 for coder")
    assert shown[1] == ("human", "Go on")
    with pytest.raises(InvalidInput):
        BriefMiddleware(ws, "T-1", " ")
    with pytest.raises(InvalidInput, match="budget"):
        BriefMiddleware(ws, "T-1", "coder", budget=0)


@pytest.mark.parametrize(
    ("content", "is_kept"),
    [
        ("Check the flight again", True),
        ([{"type": "text", "text": "Check the flight again"}], True),
        ("again and " * 200, False),
        ("a" * 5_000_000, False),
    ],
)
def test_what_a_person_asked_last_reaches_who_takes_over(
    ws: Workspace, content: Any, is_kept: bool
) -> None:
    """Also when the agent that was asked only handed on; within the budget, or left to be read."""
    planner = ScriptedChat(answers=[says("planned"), calls(("transfer_to_coder", GOOD))])
    coder = ScriptedChat(answers=[says("written")])
    app = swarm(ws, planner, coder)
    config: Any = {"configurable": {"thread_id": "1"}}
    app.invoke({"messages": [HumanMessage("Build a login")]}, config)
    app.invoke({"messages": [HumanMessage(content)]}, config)
    brief, *asked = coder.shown[0]
    assert [each.content for each in asked] == ([content] if is_kept else [])
    assert 'read_history("1-5")' in str(brief.content)
    count = counter_of(None).tokens
    assert sum(count(str(each.content)) for each in (brief, *asked)) <= 400


calling = st.integers(0, 5).map(
    lambda n: AIMessage("", tool_calls=[{"name": "t", "args": {}, "id": str(n)}])
)
answering = st.integers(0, 5).map(lambda n: ToolMessage("r", tool_call_id=str(n)))
saying = st.sampled_from([HumanMessage("h"), AIMessage("a")])


@given(st.lists(st.one_of(calling, answering, saying), max_size=12))
def test_no_call_is_left_without_its_result(messages: list[Any]) -> None:
    """Whatever was cut away: results come right after their calls, and words are never dropped."""
    kept = paired_messages(messages)
    waiting: set[str] = set()
    for each in kept:
        if isinstance(each, ToolMessage):
            assert each.tool_call_id in waiting
            waiting.remove(each.tool_call_id)
            continue
        assert waiting == set()
        assert each.content or each.tool_calls
        waiting = {str(call["id"]) for call in getattr(each, "tool_calls", ())}
    assert waiting == set()

    def words(listed: list[Any]) -> list[str]:
        return [str(each.content) for each in listed if each.content and each.type != "tool"]

    assert words(kept) == words(messages)


def test_a_call_is_cut_in_every_form() -> None:
    """Some models repeat their calls in the content."""
    calls: list[Any] = [{"name": "t", "args": {}, "id": name} for name in ("1", "2")]
    content: list[Any] = [
        {"type": "text", "text": "w"},
        *({"type": "tool_use", "id": name} for name in "12"),
    ]
    kept = paired_messages(
        [AIMessage(content, tool_calls=calls), ToolMessage("r", tool_call_id="2")]
    )
    assert [block.get("id", "") for block in kept[0].content] == ["", "2"]
    assert [call["id"] for call in kept[0].tool_calls] == ["2"]


def test_a_refused_transfer_is_no_handover() -> None:
    def answer(**fields: Any) -> ToolMessage:
        return ToolMessage("x", tool_call_id="1", **fields)

    mark = {"__handoff_destination": "coder"}
    assert handoff_index([answer(response_metadata=mark)], "coder") == 1
    assert handoff_index([answer(response_metadata=mark)], "planner") == 0
    assert handoff_index([answer(name="transfer_to_coder")], "coder") == 1
    assert handoff_index([answer(name="transfer_to_coder", status="error")], "coder") == 0

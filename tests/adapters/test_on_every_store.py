"""Adapters on a workspace in SQLite, in PostgreSQL and behind a server: they do the same."""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

import pytest
from agents import RunConfig
from langchain_core.messages import HumanMessage
from langgraph.graph import (  # pyright: ignore[reportMissingTypeStubs]
    END,
    START,
    StateGraph,
)
from langgraph.types import Command

from passdown import tools
from passdown.adapters import (
    agent_framework,
    claude_agent_sdk,
    openai_agents,
    pydantic_ai,
    states,
)
from passdown.adapters.langgraph import (
    BriefMiddleware,
    HandoffGraph,
    LedgerSaver,
    RecallStore,
    handoff_node,
    handoff_tool,
    replay,
    runs,
)
from passdown.errors import InvalidInput, NotAllowed
from tests.adapters.frameworks import story
from tests.adapters.openai_scripts import agent, go, hand, inputs, last, transfer
from tests.adapters.scripted_chat import ScriptedChat, calls, create_agent, create_swarm, says
from tests.serving import served

if TYPE_CHECKING:
    from collections.abc import Callable

    from passdown import Workspace
    from passdown.remote import RemoteWorkspace

pytestmark = pytest.mark.promise("F-2")

GOOD: dict[str, Any] = {
    "outcome": "completed",
    "summary": "The design is agreed.",
    "decisions": [{"summary": "JWT in a cookie", "rationale": "scripts cannot read it"}],
}


def planner(_state: states.AgentState) -> dict[str, Any]:
    return {"decisions": GOOD["decisions"], "messages": [states.message("Planned.", "planner")]}


def coder(_state: states.AgentState) -> dict[str, Any]:
    return {"messages": [states.message("Written.", "coder")]}


def test_a_graph_with_checkpoints_hands_off_pauses_and_is_replayed(anywhere: Workspace) -> None:
    def asks(_state: states.AgentState) -> dict[str, Any]:
        gate = {"blocker": "Legal has to agree", "requires_human": True}
        return {"handoff": {"outcome": "completed", "summary": "Planned", "blockers": [gate]}}

    graph = HandoffGraph(anywhere, "T-1")
    graph.add_node("planner", asks).add_node("coder", coder)
    graph.add_edge(START, "planner").add_edge("planner", "coder").add_edge("coder", END)
    app = graph.compile(checkpointer=LedgerSaver(anywhere))
    config: Any = {"configurable": {"thread_id": "1"}}
    paused = app.invoke({"messages": []}, config)
    assert paused["__interrupt__"]
    # Another process would know no more than this.
    app = graph.compile(checkpointer=LedgerSaver(anywhere))
    state = app.invoke(Command(resume={"by": "ana", "approve": ["T-1#k1"]}), config)
    assert [each["content"] for each in state["messages"]] == ["Written."]
    assert [anywhere.show(f"T-1#h{n}").summary for n in (1, 2)] == ["Planned", "Written."]
    assert runs(anywhere) == [state["run"]]
    assert replay(anywhere, state["run"]) == states.plain(state)
    assert app.get_state(config).values["run"] == state["run"]


def test_a_wrapped_node_and_a_step_of_ones_own_record_their_handoffs(anywhere: Workspace) -> None:
    made: Any = StateGraph(states.AgentState)
    options: dict[str, Any] = {"workspace": anywhere, "task": "T-1"}
    made.add_node("planner", handoff_node(planner, agent="planner", target="coder", **options))
    made.add_edge(START, "planner")
    state = made.compile().invoke({"messages": []})
    state = states.step(coder, state, agent="coder", strict=True, **options)
    assert anywhere.show("T-1#d1").summary == "JWT in a cookie"
    assert anywhere.show("T-1#h2").summary == "Written."
    assert replay(anywhere, state["run"]) == state


def test_a_swarm_hands_off_by_a_tool_and_the_receiver_is_briefed(anywhere: Workspace) -> None:
    models = (
        ScriptedChat(answers=[calls(("transfer_to_coder", GOOD))]),
        ScriptedChat(answers=[calls(("read_history", {"items": "T-1#d1"})), says("Written.")]),
    )
    agents = [
        create_agent(
            model,
            [handoff_tool(other, workspace=anywhere, task="T-1", from_agent=name)],
            middleware=[BriefMiddleware(anywhere, "T-1", name)],
            name=name,
        )
        for name, other, model in (
            ("planner", "coder", models[0]),
            ("coder", "planner", models[1]),
        )
    ]
    app = create_swarm(agents, default_active_agent="planner").compile(LedgerSaver(anywhere))
    app.invoke({"messages": [HumanMessage("Go")]}, {"configurable": {"thread_id": "1"}})
    first, second = models[1].shown
    assert "JWT in a cookie" in str(first[0].content)
    assert "scripts cannot read it" in str(second[-1].content)
    assert anywhere.task("T-1").holder == "coder"


def test_a_store_keeps_and_finds_items(anywhere: Workspace) -> None:
    store = RecallStore(anywhere)
    store.put(("users", "ana"), "likes", {"text": "short answers about cookies"})
    found = RecallStore(anywhere).get(("users", "ana"), "likes")
    assert found is not None
    assert found.value == {"text": "short answers about cookies"}
    assert [each.key for each in store.search(("users",), query="cookies")] == ["likes"]
    store.delete(("users", "ana"), "likes")
    assert RecallStore(anywhere).get(("users", "ana"), "likes") is None


def test_a_session_hooks_and_handoffs_of_the_agents_sdk(anywhere: Workspace) -> None:
    session = openai_agents.LedgerSession("chat", anywhere)
    receiver = agent("coder", [last("Written."), last("Tested.")])
    sender = agent("planner", [[transfer("coder", **GOOD)]], handoffs=[hand(receiver, anywhere)])
    hooks = openai_agents.PassdownHooks(anywhere, "T-1", session_id="chat")
    assert go(sender, "Build a login", session=session, hooks=hooks).last_agent is receiver
    assert "JWT in a cookie" in inputs(receiver)[0][0]["content"]
    assert anywhere.task("T-1").holder == "coder"
    assert openai_agents.active_agent(anywhere, task="T-1") == "coder"
    again = openai_agents.LedgerSession("chat", anywhere)
    assert len(asyncio.run(again.get_items())) == 4
    brief = openai_agents.since_handoff(anywhere, "T-1")
    options = RunConfig(tracing_disabled=True, call_model_input_filter=brief)
    asyncio.run(openai_agents.run(receiver, "Test it", session=again, run_config=options))
    assert "JWT in a cookie" in inputs(receiver)[1][0]["content"]
    assert len(inputs(receiver)[1]) == 4
    asyncio.run(again.pop_item())
    asyncio.run(again.clear_session())
    assert asyncio.run(again.get_items()) == []


@pytest.mark.parametrize("name", ["agent_framework", "pydantic_ai"])
@pytest.mark.parametrize("script", [story.THERE_AND_BACK, story.WITH_A_GATE], ids=["back", "gate"])
def test_agents_of_other_frameworks_play_their_story(
    anywhere: Workspace, name: str, script: story.Script
) -> None:
    """With their own sessions; the other frameworks play it through a server."""
    play = import_module(f"tests.adapters.frameworks.play_{name}").play
    played = story.played(play, script, anywhere)
    assert story.DONE["summary"] in played.stored
    assert anywhere.show("T-1#d1").summary == "JWT in a cookie"
    if script is story.WITH_A_GATE:
        assert "They agree" in "\n".join(played.seen["coder"][0])
        assert (played.answer, played.before_approval) == ("It is released.", 0)
    else:
        assert story.RESULT in "\n".join(played.seen["coder"][2]), "read from the history"
        assert (played.answer, played.holder, played.handoffs) == ("All is done.", "planner", 2)


def test_the_tools_without_a_framework(anywhere: Workspace) -> None:
    said = [{"role": "user", "content": "Build a login"}]
    tool = tools.handoff(anywhere, "T-1", "planner", to="coder", messages=lambda: said)
    assert tool.run({**GOOD, "outcome": "done"}).is_error
    assert tool.run(GOOD).command is not None
    assert "JWT in a cookie" in tools.brief(anywhere, "T-1", "coder")()
    reads = tools.read_history(anywhere, "T-1", "coder")
    assert "Build a login" in reads(items="1")
    assert "scripts cannot read it" in reads(items="T-1#d1")
    assert "T-1#d1" in tools.recall(anywhere, "T-1", "coder")(query="cookie")


def test_a_server_takes_records_of_adapters_alone_and_shows_them_to_no_reader(
    ws: Workspace,
) -> None:
    entry: dict[str, Any] = {"kind": "x", "author": "graph", "body": {}, "key": "k", "expect": None}
    with served(ws) as server, server.opened("all", "read", "write", "others") as remote:
        ask: Any = cast("RemoteWorkspace", remote).connection.ask
        for wrong in (
            {**entry, "stream": "run/R-1"},
            {**entry, "stream": "task/T-1"},
            {**entry, "stream": "graph/1", "body": "x"},
            {**entry, "stream": "graph/1", "seq": 5},
            {"stream": "graph/1"},
        ):
            with pytest.raises(InvalidInput, match=r"entries\[0\]"):
                ask("POST", "/api/streams/records", body={"entries": [wrong]})
        sent = {"entries": [{**entry, "stream": "graph/1"}]}
        ask("POST", "/api/streams/records", body=sent)
        with server.opened("ana", "read", "write") as reader:
            ask = cast("RemoteWorkspace", reader).connection.ask
            with pytest.raises(NotAllowed, match="others"):
                ask("GET", "/api/streams/records", query={"stream": "graph/1"})
            with pytest.raises(NotAllowed, match="others"):
                ask("POST", "/api/streams/records", body=sent)
    assert runs(ws) == ["1"]


def test_a_token_that_speaks_for_one_agent_is_refused_by_name(ws: Workspace) -> None:
    """When the adapter is made, with the rights that it needs."""
    made: dict[str, Callable[[Any], Any]] = {
        "LedgerSaver": LedgerSaver,
        "RecallStore": RecallStore,
        "HandoffGraph": lambda ws: HandoffGraph(ws, "T-1"),
        "handoff_node": lambda ws: handoff_node(coder, agent="a", workspace=ws, task="T-1"),
        "handoff_tool": lambda ws: handoff_tool("coder", workspace=ws, task="T-1"),
        "step": lambda ws: states.step(coder, {}, agent="a", workspace=ws, task="T-1"),
        "LedgerSession": lambda ws: openai_agents.LedgerSession("s", ws),
        "PassdownHooks": lambda ws: openai_agents.PassdownHooks(ws, "T-1"),
        "since_handoff": lambda ws: openai_agents.since_handoff(ws, "T-1"),
        "passdown_handoff": lambda ws: hand(agent("coder", []), ws),
        "Handoffs of agent_framework": lambda ws: agent_framework.Handoffs(ws, "T-1", "a"),
        "Handoffs of claude_agent_sdk": lambda ws: claude_agent_sdk.Handoffs(ws, "T-1", "a"),
        "Handoffs of pydantic_ai": lambda ws: pydantic_ai.Handoffs(ws, "T-1"),
        "LedgerHistory": agent_framework.LedgerHistory,
        "LedgerSessions": claude_agent_sdk.LedgerSessions,
        "LedgerConversations": pydantic_ai.LedgerConversations,
    }
    with served(ws) as server, server.opened("ana", "read", "write") as remote:
        for name, make in made.items():
            with pytest.raises(NotAllowed, match=f"{name}.* can't record.*others") as refused:
                make(remote)
            assert "--rights read,write,others" in refused.value.next_step

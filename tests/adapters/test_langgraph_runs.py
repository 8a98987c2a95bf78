"""What is recorded of runs: what is new, whatever LangGraph does with its threads."""

from __future__ import annotations

import asyncio
from itertools import count, pairwise
from typing import TYPE_CHECKING, Annotated, Any, cast

import pytest
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langgraph.graph import (  # pyright: ignore[reportMissingTypeStubs]
    END,
    START,
)
from langgraph.graph.message import (  # pyright: ignore[reportMissingTypeStubs]
    add_messages,
)
from langgraph.types import Command, interrupt

from passdown import aio
from passdown.adapters import states
from passdown.adapters.langgraph import (
    HandoffGraph,
    LedgerSaver,
    RecallStore,
    replay,
    transitions,
)
from passdown.adapters.states import AgentState, context_of, message, plain
from passdown.errors import InvalidInput
from passdown.workspace.streams import WorkspaceStreams

if TYPE_CHECKING:
    from pathlib import Path

    from passdown import Workspace

Plain = dict[str, Any]
THREAD: Any = {"configurable": {"thread_id": "1"}}
HUMAN: Plain = {"blocker": "Drop it?", "suggested_resolution": "Ask", "requires_human": True}
APPROVED: Any = Command(resume={"by": "ana", "approve": ["T-1#k1"]})


class Work(AgentState, total=False):
    number: int
    blob: str


class Theirs(AgentState, total=False):
    messages: Annotated[list[Any], add_messages]


def chain(ws: Workspace, state: type[Any] = Work, **nodes: Any) -> HandoffGraph:
    graph = HandoffGraph(ws, "T-1", state, strict=True)
    for name, node in nodes.items():
        graph.add_node(name, node)
    for source, target in pairwise([START, *nodes, END]):
        graph.add_edge(source, target)
    return graph


def gives(output: Any) -> Any:
    """An agent that always returns the same."""

    def turn(_state: Any) -> Any:
        return output

    return turn


def talker(name: str) -> Any:
    """An agent with a message of 2 KB and a decision in each turn."""

    def turn(state: Work) -> Plain:
        decided = {"summary": f"{name} at {len(state.get('messages', ()))}", "rationale": "r"}
        return {"messages": [message("x" * 2_048, name)], "decisions": [decided]}

    return turn


def sizes(ws: Workspace) -> dict[str, int]:
    """How many bytes the records of each stream beside the tasks have."""
    beside = WorkspaceStreams(ws)
    heads = [*beside.streams("graph/"), *beside.streams("checkpoint/")]
    return {
        head.stream: sum(len(record.body) for record in beside.records(head.stream))
        for head in heads
    }


@pytest.mark.promise("S0-31", "P-8")
def test_a_turn_of_a_long_conversation_records_what_is_new(ws: Workspace) -> None:
    """The fortieth costs what the fifth did, in the run's record and in checkpoints; any replays.

    What the context says was decided is what the sender decided in this turn.
    """
    graph = chain(ws, planner=talker("planner"), coder=talker("coder"))
    app = graph.compile(LedgerSaver(ws))
    grown: list[int] = []
    results: list[Plain] = []
    for _ in range(40):
        before = sum(sizes(ws).values())
        results.append(app.invoke({"messages": [message("go", "ana", role="user")]}, THREAD))
        grown.append(sum(sizes(ws).values()) - before)
    assert len(results[-1]["messages"]) == 120
    assert sum(grown[30:]) < 1.3 * sum(grown[5:15])
    context = context_of(results[-1])
    assert context is not None
    assert [each.summary for each in context.decisions] == ["coder at 119"]
    assert len(context.memory_refs) == 80
    for result in (results[0], results[20], results[-1]):
        assert graph.replay(result["run"]) == replay(ws, result["run"], Work) == plain(result)
    assert ws.verify().ok


def test_what_somebody_changed_between_two_runs_is_on_record(ws: Workspace) -> None:
    """A field of the thread that was set by hand, and one that was cut, are in the next replay."""
    graph = HandoffGraph(ws, "T-1", Work)
    graph.add_node("planner", gives({"messages": [message("m", "planner")], "number": 1}))
    graph.add_edge(START, "planner").add_edge("planner", END)
    app = graph.compile(LedgerSaver(ws))
    app.invoke({"messages": [message("a", "ana", id="a")]}, THREAD)
    app.update_state(THREAD, {"number": 5, "blob": "by hand", "messages": [RemoveMessage(id="a")]})
    result = app.invoke({"messages": [message("b", "ana")]}, THREAD)
    assert [each["content"] for each in result["messages"]] == ["m", "b"]
    assert (result["number"], result["blob"]) == (1, "by hand")
    assert graph.replay(result["run"]) == plain(result)


@pytest.mark.promise("S0-31")
def test_a_run_that_went_back_replays_to_what_it_became(ws: Workspace) -> None:
    """From an earlier checkpoint another way was taken: what the first one did counts no more."""
    numbers = count()

    def is_zero(state: Work) -> bool:
        return state.get("number") == 0

    def counting(_state: Work) -> Plain:
        return {"number": next(numbers)}

    graph = HandoffGraph(ws, "T-1", Work)
    graph.add_node("planner", gives({"number": 9}))
    graph.add_node("coder", counting)
    graph.add_node("tester", gives({"messages": [message("tested", "tester")]}))
    graph.add_edge(START, "planner").add_edge("planner", "coder").add_edge("tester", END)
    graph.add_edge_when("coder", is_zero, "tester")
    graph.add_edge("coder", END)
    app = graph.compile(LedgerSaver(ws))
    first = app.invoke({"messages": []}, THREAD)
    assert (first["number"], len(first["messages"])) == (0, 1)
    assert graph.replay(first["run"]) == plain(first)
    back = next(each for each in app.get_state_history(THREAD) if each.next == ("coder",))
    second = app.invoke(None, back.config)
    assert (second["number"], second["messages"]) == (1, [])
    assert second["run"] == first["run"]
    assert [each.source for each in transitions(ws, first["run"])] == ["planner", "coder"]
    assert graph.replay(second["run"]) == plain(second)


@pytest.mark.promise("S0-31")
def test_removed_messages_stay_removed_in_a_replay(ws: Workspace) -> None:
    graph = chain(
        ws,
        planner=gives({"messages": [RemoveMessage(id="u1"), AIMessage("x", id="a1")]}),
        coder=gives({"messages": [RemoveMessage(id="a1"), AIMessage("y", id="a2")]}),
    )
    given = {"messages": [HumanMessage("1", id="u1"), HumanMessage("2", id="u2")]}
    result = graph.compile().invoke(given)
    assert [each.content for each in result["messages"]] == ["2", "y"]
    assert graph.replay(result["run"]) == plain(result)


@pytest.mark.promise("S0-4")
def test_a_state_keeps_its_reducers_whatever_its_module_imports(ws: Workspace) -> None:
    """This module has LangGraph's reducer under the same name: `Work` doesn't take it for ours."""
    assert add_messages is not states.add_messages
    result = chain(ws, planner=gives({"messages": [message("m", "planner", id="1")]})).compile()
    given = {"role": "user", "content": "go"}
    assert result.invoke({"messages": [given]})["messages"] == [
        given,
        message("m", "planner", id="1"),
    ]


@pytest.mark.promise("S0-27", "S0-31")
def test_langgraphs_own_reducer_of_messages_is_checked_and_replayed(ws: Workspace) -> None:
    """Whatever form messages come in: what is recorded has the ids that the state has."""
    call: Any = {"name": "look", "args": {"path": "a"}, "id": "c1", "type": "tool_call"}
    used: Any = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}
    graph = chain(
        ws,
        Theirs,
        planner=gives({"messages": AIMessage("x", tool_calls=[call], usage_metadata=used)}),
        coder=gives({"messages": [{"role": "tool", "content": "r", "tool_call_id": "c1"}]}),
        tester=gives({"messages": [("ai", "in short"), "as text"]}),
    )
    app = graph.compile(LedgerSaver(ws))
    for turn in (1, 2):
        result = app.invoke({"messages": ["go"]}, THREAD)
        types = [each.type for each in result["messages"]]
        assert types == ["human", "ai", "tool", "ai", "human"] * turn
        assert graph.replay(result["run"]) == plain(result)
        assert result["warnings"] == []


@pytest.mark.parametrize("is_async", [False, True])
def test_a_node_gets_its_own_answer_and_not_that_of_a_gate(ws: Workspace, is_async: bool) -> None:
    """LangGraph runs a node anew after each pause; a gate that was answered is asked no more."""

    def planner(_state: Work) -> Plain:
        return {"handoff": {"outcome": "failed", "summary": "asks", "blockers": [HUMAN]}}

    def coder(_state: Work) -> Plain:
        first, second = interrupt("which database?"), interrupt("which region?")
        return {"messages": [message(f"{first} in {second}", "coder")]}

    app = chain(ws, planner=planner, coder=coder).compile(LedgerSaver(ws))

    def run(given: Any) -> Plain:
        return asyncio.run(app.ainvoke(given, THREAD)) if is_async else app.invoke(given, THREAD)

    (asked,) = run({"messages": []})["__interrupt__"]
    assert asked.value["gates"][0]["address"] == "T-1#k1"
    (asked,) = run(Command(resume="of course"))["__interrupt__"]
    assert asked.value["problems"]
    (asked,) = run(APPROVED)["__interrupt__"]
    assert asked.value == "which database?"
    (asked,) = run(Command(resume="PostgreSQL"))["__interrupt__"]
    assert asked.value == "which region?"
    result = run(Command(resume="Europe"))
    assert [each["content"] for each in result["messages"]] == ["PostgreSQL in Europe"]


def test_a_turn_too_large_to_record_is_refused_before_anything_is(ws: Workspace) -> None:
    app = chain(ws, planner=gives({"blob": "x" * 3_000_000})).compile()
    with pytest.raises(InvalidInput, match="files"):
        app.invoke({"messages": []})
    assert ws.files.state_document("T-1")["handoffs"] == []
    with pytest.raises(InvalidInput, match="too large"):
        app.invoke({"messages": [], "blob": "x" * 6_000_000})


def test_a_node_is_shown_the_whole_state(ws: Workspace) -> None:
    graph = HandoffGraph(ws, "T-1", Work)
    with pytest.raises(InvalidInput, match="input_schema"):
        graph.add_node("planner", cast("Any", dict), input_schema=AgentState)


def test_a_graph_inside_a_graph_keeps_its_references(ws: Workspace) -> None:
    """First in its run and later: what its agents decided is there to be looked up at the end."""

    def inner(name: str) -> Any:
        graph = HandoffGraph(ws, "T-1", Work)
        graph.add_node(name, gives({"decisions": [{"summary": name, "rationale": "r"}]}))
        return graph.add_edge(START, name).add_edge(name, END).compile()

    decided = {"decisions": [{"summary": "planner", "rationale": "r"}]}
    nodes = {"first-team": inner("ada"), "planner": gives(decided), "second-team": inner("bob")}
    graph = chain(ws, Work, **nodes, coder=gives({}))
    result = graph.compile().invoke({"messages": []})
    refs = result["handoff_context"]["memory_refs"]
    assert [ws.show(ref).summary for ref in refs] == ["ada", "planner", "bob"]
    assert graph.replay(result["run"]) == plain(result)


def test_a_workspace_that_is_awaited_serves_as_well(tmp_path: Path) -> None:
    """For the graph, its checkpoints and its store."""

    async def planner(_state: Work) -> Plain:
        return {"messages": [message("p", "planner")]}

    async def work() -> None:
        async with aio.open(str(tmp_path)) as ws:
            await ws.create_task("T-1", title="Login", agent="planner")
            graph = HandoffGraph(ws, "T-1", Work)
            graph.add_node("planner", planner).add_edge(START, "planner").add_edge("planner", END)
            store = RecallStore(ws)
            app = graph.compile(LedgerSaver(ws), store=store)
            result = await app.ainvoke({"messages": []}, THREAD)
            await store.aput(("a",), "k", {"text": "river"})
            assert replay(ws, result["run"], Work) == plain(result)
            assert [item.key for item in await store.asearch(("a",), query="river")] == ["k"]
            assert (await app.aget_state(THREAD)).values["run"] == result["run"]

    asyncio.run(work())


@pytest.mark.promise("F-3")
@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_turns_are_on_record_however_checkpoints_are_written(
    ws: Workspace, durability: str
) -> None:
    """Also those before a node that fails."""

    def planner(_state: Any) -> Plain:
        return {"messages": [message("planned", "planner")]}

    def coder(state: Any) -> Plain:
        if len(state["messages"]) > 1:
            raise RuntimeError("no")
        return {"messages": [message("written", "coder")]}

    graph = HandoffGraph(ws, "T-1").add_sequence([planner, coder]).add_edge(START, "planner")
    app = graph.add_edge("coder", END).compile(LedgerSaver(ws))
    state = app.invoke({"messages": []}, THREAD, durability=durability)
    assert [each.source for each in transitions(ws, state["run"])] == ["planner", "coder"]
    assert replay(ws, state["run"]) == plain(state)
    with pytest.raises(RuntimeError):
        app.invoke({"messages": []}, THREAD, durability=durability)
    [failed] = {*states.runs(ws)} - {state["run"]}
    assert [each.source for each in transitions(ws, failed)] == ["planner"]

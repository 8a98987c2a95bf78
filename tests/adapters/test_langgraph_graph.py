"""Graphs in which every node hands on, run by LangGraph itself."""

from __future__ import annotations

import asyncio
import copy
import hashlib
import inspect
import json
import logging
import operator
import sys
import threading
from itertools import count, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypedDict, cast

import pytest
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import (  # pyright: ignore[reportMissingTypeStubs]
    END,
    START,
    MessagesState,
    StateGraph,
)
from langgraph.types import Command, Overwrite, Send

import passdown
from passdown import tools
from passdown.adapters import langgraph as adapter
from passdown.adapters.langgraph import (
    HandoffGraph,
    LedgerSaver,
    handoff_node,
    replay,
    transitions,
)
from passdown.adapters.states import (
    AgentState,
    add_messages,
    agent_state,
    context_of,
    message,
    plain,
)
from passdown.errors import GateRefused, IntegrityViolation, InvalidInput, NotFound
from passdown.testing import fixed_clock
from tests.processes import run_python

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from langchain_core.runnables import RunnableConfig

    from passdown import Workspace

Plain = dict[str, Any]
ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs" / "langgraph.md"
Raw = cast("Any", StateGraph)
Goto = cast("Any", Command)
REPLACED: Any = Overwrite([])


class Work(AgentState, total=False):
    plan: str
    code: Plain
    tests: list[int]
    rounds: Annotated[int, operator.add]


class Part(TypedDict):
    plan: str


_merges = count()


def fickle(left: list[int], right: list[int]) -> list[int]:
    """A reducer that gives something else each time."""
    return [*left, *right, next(_merges)]


class Fickle(AgentState, total=False):
    notes: Annotated[list[int], fickle]


@pytest.fixture
def ws(tmp_path: Path) -> Iterator[Workspace]:
    with passdown.open(str(tmp_path), clock=fixed_clock()) as workspace:
        workspace.create_task("T-1", title="Login", agent="planner")
        yield workspace


def says(name: str, **fields: Any) -> Callable[[Any], Plain]:
    """An agent with one message, one decision and some fields."""

    def turn(_state: Any) -> Plain:
        decided = {"summary": f"{name} decided", "rationale": "because"}
        return {"messages": [message(f"by {name}", name)], "decisions": [decided], **fields}

    return turn


def gives(output: Any) -> Callable[[Any], Any]:
    """An agent that always returns the same."""
    return lambda _: output


def chain(ws: Workspace, nodes: dict[str, Any], **options: Any) -> HandoffGraph:
    """A graph of agents one after the other."""
    graph = HandoffGraph(ws, "T-1", Work, **options)
    names = [START, *nodes, END]
    for name, node in nodes.items():
        graph.add_node(name, node)
    for source, target in pairwise(names):
        graph.add_edge(source, target)
    return graph


def test_a_node_that_calls_a_model_itself_gets_the_brief_of_what_was_handed_to_it(
    ws: Workspace,
) -> None:
    """In words that a model can act on, with decisions that were given in the handoff alone."""
    seen: list[tuple[str, Any]] = []

    def coder(state: Work) -> Plain:
        seen.append((tools.opening_text(ws, "T-1", "coder"), context_of(dict(state))))
        return {}

    handoff = {
        "outcome": "partial",
        "summary": "Half done.",
        "decisions": [{"summary": "JWT in a cookie", "rationale": "scripts cannot read it"}],
        "blockers": [{"blocker": "no signing key"}],
        "suggested_next_steps": [{"step": "Write the middleware"}],
    }
    chain(ws, {"planner": gives({"handoff": handoff}), "coder": coder}).compile().invoke({})
    [(text, context)] = seen
    for words in ("JWT in a cookie", "no signing key", "Write the middleware"):
        assert words in text
    assert "ws." not in text
    assert [each.summary for each in context.decisions] == ["JWT in a cookie"]


@pytest.mark.promise("S0-1", "S0-39")
def test_every_field_that_one_agent_returns_is_there_for_the_next(ws: Workspace) -> None:
    """In the typed state, with the context; the next agent is the current one."""
    seen: list[Plain] = []

    def coder(state: Work) -> Plain:
        seen.append(copy.deepcopy(dict(state)))
        return {}

    output = says("planner", plan="p", code={"a.py": ["x", None]}, tests=[1])(None)
    given = copy.deepcopy(output)
    app = chain(ws, {"planner": gives(output), "coder": coder}).compile()
    app.invoke({"messages": [{"role": "user", "content": "go"}]})
    (state,) = seen
    for name in ("plan", "code", "tests"):
        assert state[name] == given[name]
    assert state["messages"][1:] == given["messages"]
    assert state["decisions"] == [{**given["decisions"][0], "agent": "planner"}]
    assert state["current_agent"] == "coder"
    context = context_of(state)
    assert context is not None
    assert (context.source, context.target) == ("planner", "coder")
    assert [each.summary for each in context.decisions] == ["planner decided"]
    assert [ws.show(ref).summary for ref in context.memory_refs] == ["planner decided"]
    assert output == given


@pytest.mark.promise("S0-4", "S0-3")
def test_the_reducer_is_an_annotation_of_langgraph() -> None:
    """Three nodes with two messages each leave six; message objects pass through; ids replace."""

    class State(TypedDict):
        messages: Annotated[list[Any], add_messages]

    def node(name: str) -> Callable[[State], Plain]:
        return lambda _: {"messages": [AIMessage(f"{name}1"), message(f"{name}2", name)]}

    builder = Raw(State)
    for name in "abc":
        builder.add_node(name, node(name))
    edges = zip([START, *"abc"], [*"abc", END], strict=True)
    for source, target in edges:
        builder.add_edge(source, target)
    result = builder.compile().invoke({"messages": []})["messages"]
    assert [
        each.content if isinstance(each, AIMessage) else each["content"] for each in result
    ] == [
        "a1",
        "a2",
        "b1",
        "b2",
        "c1",
        "c2",
    ]
    old = [HumanMessage("a", id="1"), AIMessage("b", id="2")]
    assert [each.content for each in add_messages(old, [AIMessage("B", id="2")])] == ["a", "B"]
    assert add_messages(old, [RemoveMessage(id="1")]) == old[1:]
    assert add_messages(old, [RemoveMessage(id="__remove_all__"), AIMessage("c", id="3")]) == [
        AIMessage("c", id="3")
    ]
    with pytest.raises(InvalidInput, match="'9'"):
        add_messages(old, [RemoveMessage(id="9")])


@pytest.mark.promise("S0-28", "S0-29", "S0-39")
@pytest.mark.parametrize("length", [3, 20])
def test_a_chain_of_agents_loses_nothing(ws: Workspace, length: int) -> None:
    """The runner merges; at the end each field, message, decision and reference is there, in a
    checkpoint that is read anew.
    """
    hints = {**Work.__annotations__, **{f"field_{number}": Plain for number in range(length)}}
    wide = cast("Any", TypedDict)("Wide", hints, total=False)
    outputs: dict[str, Plain] = {}
    for number in range(length):
        name = f"agent-{number}"
        outputs[name] = {
            "messages": [message(f"{name} \u2028 \r\n", name)],
            "decisions": [
                {"agent": name, "summary": f"d{number}", "rationale": "ü", "tags": ["x"]}
            ],
            f"field_{number}": {"deep": [{"er": number / 3}], "none": None},
        }
    put = copy.deepcopy(outputs)
    graph = HandoffGraph(ws, "T-1", wide, strict=True)
    names = [START, *outputs, END]
    for name, output in outputs.items():
        graph.add_node(name, gives(output))
    for source, target in pairwise(names):
        graph.add_edge(source, target)
    first = {"role": "user", "content": "go"}
    thread: Any = {"configurable": {"thread_id": "1"}, "recursion_limit": 50}
    graph.compile(LedgerSaver(ws)).invoke({"messages": [first]}, thread)
    stored = LedgerSaver(ws).get_tuple(thread)
    assert stored is not None
    result = stored.checkpoint["channel_values"]

    def as_bytes(value: object) -> bytes:
        return json.dumps(value, sort_keys=True).encode()

    said = [first, *(each["messages"][0] for each in put.values())]
    assert as_bytes(result["messages"]) == as_bytes(said)
    decided = [each["decisions"][0] for each in put.values()]
    assert as_bytes(result["decisions"]) == as_bytes(decided)
    for number, each in enumerate(put.values()):
        name = f"field_{number}"
        assert as_bytes(result[name]) == as_bytes(each[name])
    refs = [f"T-1#d{number + 1}" for number in range(length)]
    assert result["handoff_context"]["memory_refs"] == refs
    assert [ws.show(ref).summary for ref in refs] == [f"d{n}" for n in range(length)]
    assert "warnings" not in result
    assert len(ws.files.state_document("T-1")["handoffs"]) == length


@pytest.mark.promise("S0-30")
def test_a_wrapped_node_stays_what_it_was(ws: Workspace) -> None:
    """Sync stays sync, async async; parameters are kept; its output is all in the update."""

    def plain_node(state: Part, config: RunnableConfig) -> Plain:
        assert "configurable" in config
        return {"plan": "p", "handoff": {"outcome": "completed", "summary": "Planned."}}

    async def awaited(state: Work) -> Plain:
        await asyncio.sleep(0)
        return {"code": {"a": 1}}

    given: Plain = {"workspace": ws, "task": "T-1", "state": Work}
    first = handoff_node(plain_node, agent="planner", target="coder", **given)
    second = handoff_node(awaited, agent="coder", **given)
    assert not inspect.iscoroutinefunction(first)
    assert inspect.iscoroutinefunction(second)
    assert list(inspect.signature(first).parameters) == ["state", "config"]
    direct = first({"messages": []}, {"configurable": {}})
    assert direct["plan"] == "p"
    assert direct["handoff"] == {"outcome": "completed", "summary": "Planned."}
    assert direct["current_agent"] == "coder"
    builder = Raw(Work)
    builder.add_node("planner", first)
    builder.add_node("coder", second)
    builder.add_edge(START, "planner")
    builder.add_edge("planner", "coder")
    result = asyncio.run(builder.compile().ainvoke({"messages": []}))
    assert (result["plan"], result["code"]) == ("p", {"a": 1})
    handoffs = ws.files.state_document("T-1")["handoffs"]
    assert [(h["from_agent"], h.get("to_agent"), h["summary"]) for h in handoffs][1:] == [
        ("planner", "coder", "Planned."),
        ("coder", None, "coder set code."),
    ]
    assert replay(ws, result["run"], Work) == plain(result)


@pytest.mark.promise("S0-30")
def test_a_node_may_send_the_work_itself(ws: Workspace) -> None:
    """By a Command, or by its handoff's to_agent; the record says where it went."""
    graph = HandoffGraph(ws, "T-1", Work)
    graph.add_node("planner", gives(Goto(goto="tester", update={"plan": "p"})))
    graph.add_node("tester", gives({"handoff": {"outcome": "completed", "to_agent": "coder"}}))

    def coder(state: Work) -> Plain:
        return {"plan": state.get("plan", "") + "!"}

    graph.add_node("coder", coder)
    graph.add_edge(START, "planner").add_edge("planner", END).add_edge("tester", END)
    result = graph.compile().invoke({"messages": []})
    assert result["plan"] == "p!"
    handoffs = ws.files.state_document("T-1")["handoffs"]
    assert [h.get("to_agent") for h in handoffs] == ["tester", "coder", None]
    assert graph.replay(result["run"]) == plain(result)


@pytest.mark.parametrize(
    "output",
    [
        [1],
        Goto(goto=Send("planner", {})),
        Goto(goto="nowhere"),
        {"handoff": {"to_agent": "nowhere"}},
        {"handoff": {"outcome": "partial"}},
        {"messages": REPLACED},
        {"plan": {1, 2}},
        {"plan": float("nan")},
    ],
)
def test_what_cannot_be_handed_on_is_refused_and_nothing_recorded(
    ws: Workspace, output: Any
) -> None:
    app = chain(ws, {"planner": gives(output)}).compile()
    with pytest.raises(InvalidInput):
        app.invoke({"messages": []})
    assert ws.files.state_document("T-1")["handoffs"] == []


@pytest.mark.promise("S0-31")
def test_conditions_are_named_recorded_and_replayed(ws: Workspace) -> None:
    """The first that holds decides, with its name on record; the replay gives the same state."""

    def is_untested(state: Work) -> bool:
        return not state.get("tests")

    def next_phase(state: Work) -> str:
        return "again" if state.get("rounds", 0) < 2 else "done"

    graph = HandoffGraph(ws, "T-1", Work)
    graph.add_node("coder", says("coder", code={"a": 1}))
    graph.add_node("tester", gives({"tests": [1], "rounds": 1}))
    graph.add_edge(START, "coder")
    graph.add_edge_when("coder", is_untested, "tester")
    graph.add_edge_when("coder", lambda s: s["rounds"] > 1, END, name="tested_twice")
    graph.add_edge("coder", "tester")
    graph.add_conditional_edges("tester", next_phase, {"again": "coder", "done": END})
    result = graph.compile().invoke({"messages": []})
    found = transitions(ws, result["run"])
    assert [(each.source, each.condition, each.targets) for each in found] == [
        ("coder", "is_untested", ("tester",)),
        ("tester", "next_phase=again", ("coder",)),
        ("coder", "", ("tester",)),
        ("tester", "next_phase=done", ()),
    ]
    assert replay(ws, result["run"], Work) == graph.replay(result["run"]) == plain(result)
    assert result["rounds"] == 2
    handoffs = ws.files.state_document("T-1")["handoffs"]
    assert len(handoffs) == len(found)
    other = HandoffGraph(ws, "T-1", Work)
    other.add_edge(START, "coder").add_edge("coder", "tester").add_edge("tester", END)
    with pytest.raises(IntegrityViolation) as caught:
        other.replay(result["run"])
    assert len(caught.value.fields) == 3
    assert ws.verify().ok


@pytest.mark.promise("S0-31")
def test_every_edge_needs_a_name_and_a_way_on(ws: Workspace) -> None:
    graph = HandoffGraph(ws, "T-1", Work)
    with pytest.raises(InvalidInput, match="a function"):
        graph.add_edge_when("a", cast("Any", True), "b")
    graph.add_node("a", says("a")).add_edge(START, "a")
    graph.add_edge_when("a", lambda _: False, END, name="never")
    with pytest.raises(InvalidInput, match="duplicate"):
        graph.add_edge_when("a", lambda _: False, END, name="never")
    app = graph.compile()
    with pytest.raises(InvalidInput, match="never"):
        app.invoke({"messages": []})
    assert ws.files.state_document("T-1")["handoffs"] == []
    with pytest.raises(InvalidInput, match="compiled"):
        graph.add_edge("a", END)


@pytest.mark.promise("F-3")
@pytest.mark.parametrize("is_async", [False, True])
def test_a_graph_is_built_as_langgraphs_own(ws: Workspace, is_async: bool) -> None:
    """Nodes named by their functions, sequences, conditions without a name or awaited, several
    targets, LangGraph's own state of messages; the end of the graph completes the task.
    """

    def planner(state: MessagesState) -> Plain:
        return {"messages": [AIMessage(f"after {len(state['messages'])}")]}

    def coder(_state: MessagesState) -> Plain:
        return {"messages": [AIMessage("written")]}

    async def is_good(state: Any) -> bool:
        await asyncio.sleep(0)
        return len(state["messages"]) > 3

    graph = HandoffGraph(ws, "T-1", MessagesState)
    graph.add_sequence([planner, ("Code Reviewer", coder)]).add_node(says("x"), metadata={})
    graph.add_node("tester", coder).add_edge(START, "planner")
    graph.add_conditional_edges("Code Reviewer", lambda _: ["tester", "turn"])
    graph.add_edge_when("tester", is_good, END).add_edge("tester", "planner").add_edge("turn", END)
    app, given = graph.compile(), {"messages": [HumanMessage("Go")]}
    state = asyncio.run(app.ainvoke(given)) if is_async else app.invoke(given)
    assert [each.content for each in state["messages"]][:3] == ["Go", "after 1", "written"]
    found = transitions(ws, state["run"])
    assert [(each.source, each.targets, each.condition) for each in found] == [
        ("planner", ("Code-Reviewer",), ""),
        ("Code-Reviewer", ("tester", "turn"), "Code Reviewer chooses=tester,turn"),
        ("tester", (), "is_good"),
        ("turn", (), ""),
    ]
    listed = ws.files.state_document("T-1")["handoffs"]
    assert [each.get("to_agent", "") for each in listed][1:3] == ["tester", "turn"]
    assert ws.task("T-1").status == "completed"
    assert replay(ws, state["run"], agent_state(MessagesState)) == plain(state)
    assert graph.replay(state["run"]) == plain(state)


def of_state(state: Plain) -> str:
    return state["ticket"]


def of_config(_state: Plain, config: Plain) -> str:
    return config["configurable"]["ticket"]


@pytest.mark.promise("F-3")
@pytest.mark.parametrize("task", [of_state, of_config])
def test_one_graph_serves_many_tasks(ws: Workspace, task: Any) -> None:
    """By a function of the state, or of the state and the configuration."""

    class Ticket(AgentState, total=False):
        ticket: str

    graph = HandoffGraph(ws, task, Ticket)
    graph.add_sequence([("planner", says("planner")), ("coder", says("coder"))])
    app = graph.add_edge(START, "planner").add_edge("coder", END).compile(LedgerSaver(ws))
    for name in ("A-1", "A-2"):
        ws.create_task(name, title="Login", agent="planner")
        config: Any = {"configurable": {"thread_id": name, "ticket": name}}
        app.invoke({"messages": [], "ticket": name}, config)
    assert [ws.task(each).status for each in ("A-1", "A-2", "T-1")] == [*["completed"] * 2, "open"]
    assert len(ws.files.state_document("A-1")["handoffs"]) == 2
    with pytest.raises((InvalidInput, KeyError)):
        app.invoke({"messages": [], "ticket": ""}, {"configurable": {"thread_id": "x"}})


@pytest.mark.promise("F-3")
def test_a_send_from_a_condition_is_refused_with_what_to_do(ws: Workspace) -> None:
    graph = chain(ws, {"planner": says("planner"), "coder": says("coder")})
    graph.add_conditional_edges("planner", lambda _: [Send("coder", {}), Send("coder", {})])
    with pytest.raises(InvalidInput, match="Send gives the receiver another state") as refused:
        graph.compile().invoke({"messages": []})
    assert "which run at the same time" in refused.value.problems[0].expected
    assert ws.files.state_document("T-1")["handoffs"] == []


@pytest.mark.promise("S0-32")
def test_no_node_runs_unwrapped(ws: Workspace) -> None:
    """A node, an edge or a branch that was added to the builder itself stops the graph."""
    graph = chain(ws, {"planner": says("planner")})
    graph.builder.add_node("stray", says("stray"))
    graph.builder.add_edge("planner", "stray")
    graph.builder.add_conditional_edges("stray", gives(END))
    with pytest.raises(InvalidInput) as caught:
        graph.compile()
    assert [(p.path, p.code) for p in caught.value.problems] == [
        ("stray", "unwrapped_node"),
        ("planner -> stray", "unrecorded_edge"),
        ("stray", "unrecorded_edge"),
    ]
    swapped = chain(ws, {"planner": says("planner")})
    other = Raw(Work)
    other.add_node("planner", says("planner"))
    swapped.builder.nodes["planner"] = other.nodes["planner"]
    with pytest.raises(InvalidInput, match="unwrapped_node"):
        swapped.compile()


@pytest.mark.promise("S0-32")
def test_each_node_of_the_default_builder_hands_on(ws: Workspace) -> None:
    """Functions, coroutines and graphs: each one leaves its handoff and its transition."""

    async def awaited(_state: Work) -> Plain:
        return {"code": {"a": 1}}

    inner = Raw(Work)
    inner.add_node("inside", gives({"messages": [AIMessage("inside")], "tests": [1]}))
    inner.add_edge(START, "inside")
    nodes = {"planner": says("planner"), "coder": awaited, "tester": inner.compile()}
    graph = chain(ws, nodes, strict=True)
    first = {"role": "user", "content": "go"}
    result = asyncio.run(graph.compile().ainvoke({"messages": [first]}))
    assert [each.source for each in transitions(ws, result["run"])] == list(nodes)
    handoffs = ws.files.state_document("T-1")["handoffs"]
    assert [each["from_agent"] for each in handoffs] == list(nodes)
    assert result["messages"][0] == first
    assert [plain(each)["content"] for each in result["messages"]] == ["go", "by planner", "inside"]
    assert graph.replay(result["run"]) == plain(result)
    node = handoff_node(says("x"), agent="x", workspace=ws, task="T-1")
    with pytest.raises(InvalidInput, match="wrapped already"):
        handoff_node(node, agent="x", workspace=ws, task="T-1")


def test_mistakes_in_a_graph_are_named_before_it_runs(ws: Workspace) -> None:
    class Foreign(TypedDict):
        messages: list[Any]

    with pytest.raises(InvalidInput, match="current_agent"):
        handoff_node(says("a"), agent="a", workspace=ws, task="T-1", state=Foreign)
    with pytest.raises(InvalidInput, match="a TypedDict"):
        HandoffGraph(ws, "T-1", int)
    with pytest.raises(NotFound):
        HandoffGraph(ws, "T-9")
    graph = HandoffGraph(ws, "T-1")
    for name in ("  ", 7):
        with pytest.raises(InvalidInput, match="name"):
            graph.add_node(cast("Any", name), says("x"))
    with pytest.raises(InvalidInput):
        graph.add_node("coder", cast("Any", 7))
    graph.add_edge("ghost", "spectre")
    with pytest.raises(InvalidInput) as caught:
        graph.compile()
    assert [p.path for p in caught.value.problems] == ["__start__", "ghost", "spectre"]


@pytest.mark.promise("S0-27")
def test_the_graph_verifies_every_handoff_by_itself(
    ws: Workspace, caplog: pytest.LogCaptureFixture
) -> None:
    """What somebody changes between two agents is named at the next one's entry."""
    nodes = {name: says(name, plan=name) for name in ("planner", "coder", "tester")}
    graph = chain(ws, nodes)
    app = graph.compile(InMemorySaver(), interrupt_after=["planner"])
    config = {"configurable": {"thread_id": "1"}}
    app.invoke({"messages": []}, config)
    app.update_state(config, {"plan": "tampered"}, as_node="planner")
    with caplog.at_level(logging.WARNING, logger="passdown.integrity"):
        result = app.invoke(None, config)
    (warning,) = result["warnings"]
    assert warning == {
        "code": "integrity",
        "source": "planner",
        "target": "coder",
        "changed": ["plan"],
    }
    assert "planner to coder: plan" in caplog.text
    strict = chain(ws, nodes, strict=True).compile(InMemorySaver(), interrupt_after=["planner"])
    strict.invoke({"messages": []}, config)
    strict.update_state(config, {"plan": "tampered"}, as_node="planner")
    with pytest.raises(IntegrityViolation) as caught:
        strict.invoke(None, config)
    assert caught.value.fields == ("plan",)


@pytest.mark.promise("S0-27", "S0-1")
def test_a_field_that_the_state_has_no_place_for_is_not_lost_silently(ws: Workspace) -> None:
    """LangGraph drops it without a word; here it is named, or raised, by the last agent too."""
    result = chain(ws, {"planner": says("planner", verdict=1)}).compile().invoke({"messages": []})
    (warning,) = result["warnings"]
    assert (warning["code"], warning["missing"]) == ("integrity", ["verdict"])
    strict = chain(ws, {"planner": says("planner", verdict=1)}, strict=True).compile()
    with pytest.raises(IntegrityViolation, match="verdict"):
        strict.invoke({"messages": []})


@pytest.mark.promise("S0-27")
def test_a_reducer_that_changes_something_is_found_at_the_end(ws: Workspace) -> None:
    """The last state is verified too, as LangGraph merged it."""
    graph = HandoffGraph(ws, "T-1", Fickle, strict=True)
    graph.add_node("planner", gives({"notes": [1]}))
    graph.add_edge(START, "planner").add_edge("planner", END)
    with pytest.raises(IntegrityViolation, match="notes"):
        graph.compile().invoke({"messages": []})


@pytest.mark.promise("S0-29", "S0-33")
@pytest.mark.parametrize("is_async", [False, True])
def test_agents_at_the_same_time_lose_nothing(ws: Workspace, is_async: bool) -> None:
    """Both branches arrive whole: fields, decisions, references, and who else handed on."""
    graph = HandoffGraph(ws, "T-1", Work, strict=True)
    seen: list[Plain] = []
    graph.add_node("planner", says("planner"))
    graph.add_node("coder", says("coder", code={"a": 1}))
    graph.add_node("writer", says("writer", plan="w"))

    def tester(state: Work) -> Plain:
        seen.append(copy.deepcopy(dict(state)))
        return {"tests": [1]}

    graph.add_node("tester", tester)
    graph.add_edge(START, "planner").add_edge("planner", "coder").add_edge("planner", "writer")
    graph.add_edge(["coder", "writer"], "tester").add_edge("tester", END)
    app = graph.compile()
    given: Plain = {"messages": []}
    result = asyncio.run(app.ainvoke(given)) if is_async else app.invoke(given)
    (state,) = seen
    assert (state["code"], state["plan"]) == ({"a": 1}, "w")
    assert [d["agent"] for d in state["decisions"]] == ["planner", "coder", "writer"]
    context = context_of(state)
    assert context is not None
    assert {context.source, *context.metadata["also_from"]} == {"coder", "writer"}
    assert {d.agent for d in context.decisions} == {"coder", "writer"}
    assert {ws.show(ref).agent for ref in context.memory_refs} == {"planner", "coder", "writer"}
    assert graph.replay(result["run"]) == plain(result)
    handoffs = ws.files.state_document("T-1")["handoffs"]
    assert {(h["from_agent"], h.get("to_agent")) for h in handoffs} == {
        ("planner", "coder"),
        ("planner", "writer"),
        ("coder", "tester"),
        ("writer", "tester"),
        ("tester", None),
    }


@pytest.mark.promise("S0-33")
def test_an_async_graph_reads_and_writes_in_threads(
    ws: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ledger is never touched in the loop's own thread."""
    used: set[int] = set()
    store = ws._context.store  # pyright: ignore[reportPrivateUsage]
    for name in ("reading", "writing"):
        original = getattr(store, name)

        def noted(*args: Any, original: Any = original, **named: Any) -> Any:
            used.add(threading.get_ident())
            return original(*args, **named)

        monkeypatch.setattr(store, name, noted)

    async def awaited(_state: Work) -> Plain:
        return {"plan": "p"}

    app = chain(ws, {"planner": awaited, "coder": says("coder")}).compile()
    used.clear()
    asyncio.run(app.ainvoke({"messages": []}))
    assert used
    assert threading.get_ident() not in used


def test_a_second_turn_in_a_thread_is_a_run_of_its_own(ws: Workspace) -> None:
    graph = chain(ws, {"planner": says("planner"), "coder": says("coder")}, strict=True)
    app = graph.compile(InMemorySaver())
    config = {"configurable": {"thread_id": "1"}}
    first = app.invoke({"messages": [message("one", "ana", role="user")]}, config)
    second = app.invoke({"messages": [message("two", "ana", role="user")]}, config)
    assert first["run"] != second["run"]
    assert len(second["messages"]) == 6
    for result in (first, second):
        assert graph.replay(result["run"]) == plain(result)


HUMAN: Plain = {"blocker": "Drop it?", "suggested_resolution": "Ask", "requires_human": True}


def held_graph(ws: Workspace) -> HandoffGraph:
    """A planner that has to ask a person the first time, then a coder."""
    turns = iter(range(9))

    def planner(state: Work) -> Plain:
        if next(turns) == 0:
            return {"handoff": {"outcome": "failed", "summary": "asks", "blockers": [HUMAN]}}
        assert state.get("handoff_context")
        return {"plan": "kept", "handoff": {"outcome": "completed", "summary": "kept"}}

    return chain(ws, {"planner": planner, "coder": says("coder", code={"a": 1})}, strict=True)


@pytest.mark.parametrize("is_async", [False, True])
def test_a_held_handoff_waits_for_a_person(ws: Workspace, is_async: bool) -> None:
    """Wrong answers change nothing and say why; an approval is recorded and the graph goes on."""
    graph = held_graph(ws)
    app = graph.compile(InMemorySaver())
    config = {"configurable": {"thread_id": "1"}}

    def run(given: Any) -> Plain:
        return asyncio.run(app.ainvoke(given, config)) if is_async else app.invoke(given, config)

    (asked,) = run({"messages": []})["__interrupt__"]
    (gate,) = asked.value["gates"]
    assert (gate["address"], gate["blocker"]) == ("T-1#k1", "Drop it?")
    wrong: list[Any] = [
        True,
        {"by": "human", "approve": ["T-1#k1"]},
        {"by": "ana", "approve": ["T-1#k2"]},
        {"by": "ana", "approve": ["T-1#k1"], "reject": ["T-1#k1"], "reason": "x"},
        {"by": "ana", "reject": ["T-1#k1"]},
        {"by": "ana", "approve": "T-1#k1"},
    ]
    for answer in wrong:
        (asked,) = run(Command(resume=answer))["__interrupt__"]
        assert asked.value["problems"]
        assert [each.status for each in ws.gates("T-1")] == ["pending"]
    result = run(Command(resume={"by": "ana", "approve": ["T-1#k1"], "reason": "fine"}))
    assert result["code"] == {"a": 1}
    (gate,) = ws.gates("T-1", all=True)
    assert (gate.status, gate.answered_by, gate.reason) == ("approved", "ana", "fine")
    assert graph.replay(result["run"]) == plain(result)


def test_a_rejected_handoff_goes_back_with_the_reason(ws: Workspace) -> None:
    """The sender hands off anew; the receiver has not worked on what was rejected."""
    graph = held_graph(ws)
    app = graph.compile(InMemorySaver())
    config = {"configurable": {"thread_id": "1"}}
    app.invoke({"messages": []}, config)
    answer = {"by": "ana", "reject": ["T-1#k1"], "reason": "not on a Friday"}
    result = app.invoke(Command(resume=answer), config)
    assert [each.source for each in transitions(ws, result["run"])] == [
        "planner",
        "coder",
        "planner",
        "coder",
    ]
    (warning,) = result["warnings"]
    assert (warning["code"], warning["by"], warning["reason"]) == (
        "rejected",
        "ana",
        "not on a Friday",
    )
    assert (result["plan"], result["code"]) == ("kept", {"a": 1})
    handoffs = ws.files.state_document("T-1")["handoffs"]
    assert [(h["from_agent"], h["summary"]) for h in handoffs] == [
        ("planner", "asks"),
        ("planner", "kept"),
        ("coder", "by coder"),
    ]
    assert graph.replay(result["run"]) == plain(result)


def test_an_answer_that_came_otherwise_counts(ws: Workspace) -> None:
    """A gate that was approved at the command line needs no answer in the graph."""
    app = held_graph(ws).compile(InMemorySaver())
    config = {"configurable": {"thread_id": "1"}}
    app.invoke({"messages": []}, config)
    ws.approve("T-1#k1", by="ben")
    result = app.invoke(Command(resume={"by": "ana", "approve": ["T-1#k1"]}), config)
    assert result["code"] == {"a": 1}
    (gate,) = ws.gates("T-1", all=True)
    assert gate.answered_by == "ben"


def test_a_rejection_outside_of_a_handoff_graph_is_an_error(ws: Workspace) -> None:
    ws.hand_off(
        {
            "task": "T-1",
            "outcome": "failed",
            "to_agent": "coder",
            "blockers": [HUMAN],
            "summary": "s",
        }
    )
    builder = Raw(Work)
    node = handoff_node(says("coder"), agent="coder", workspace=ws, task="T-1", state=Work)
    builder.add_node("coder", node)
    builder.add_edge(START, "coder")
    app = builder.compile(InMemorySaver())
    config = {"configurable": {"thread_id": "1"}}
    app.invoke({"messages": []}, config)
    answer = {"by": "ana", "reject": ["T-1#k1"], "reason": "no"}
    with pytest.raises(GateRefused, match="rejected by ana: no"):
        app.invoke(Command(resume=answer), config)
    with pytest.raises(GateRefused, match="rejected by ana: no"):
        app.invoke(None, config)


def test_a_turn_that_is_taken_again_is_handed_on_once(
    ws: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash between the handoff and the end of the step: the same output is the same handoff."""
    graph = chain(ws, {"planner": says("planner", plan="p"), "coder": says("coder")}, strict=True)
    app = graph.compile(InMemorySaver())
    config = {"configurable": {"thread_id": "1"}}

    def crash(*_: object) -> None:
        raise OSError("gone")

    with monkeypatch.context() as patched:
        patched.setattr("passdown.adapters.states.record_step", crash)
        with pytest.raises(OSError, match="gone"):
            app.invoke({"messages": []}, config)
    assert len(ws.files.state_document("T-1")["handoffs"]) == 1
    result = app.invoke(None, config)
    handoffs = ws.files.state_document("T-1")["handoffs"]
    assert [each["from_agent"] for each in handoffs] == ["planner", "coder"]
    assert graph.replay(result["run"]) == plain(result)


def test_messages_of_langchain_survive_a_pause(ws: Workspace) -> None:
    """Checkpointed and read back, they are still what was handed on."""
    said = AIMessage("a", id="1", response_metadata={"model": "m"}, tool_calls=[])
    graph = chain(ws, {"planner": gives({"messages": [said]}), "coder": gives({})}, strict=True)
    app = graph.compile(InMemorySaver(), interrupt_after=["planner"])
    config = {"configurable": {"thread_id": "1"}}
    app.invoke({"messages": [HumanMessage("go", id="0")]}, config)
    result = app.invoke(None, config)
    assert result["messages"] == [HumanMessage("go", id="0"), said]
    assert graph.replay(result["run"]) == plain(result)


@pytest.mark.parametrize("context", ["x", {"hop": {}}, {"source": "a"}])
def test_a_context_that_is_none_is_named(ws: Workspace, context: Any) -> None:
    app = chain(ws, {"planner": says("planner")}).compile()
    with pytest.raises(InvalidInput, match="handoff_context"):
        app.invoke({"messages": [], "handoff_context": context})


@pytest.mark.parametrize("name", ["langgraph_graph.py", "agents_in_a_swarm.py"])
def test_the_page_shows_the_example_and_what_it_prints(tmp_path: Path, name: str) -> None:
    page = PAGE.read_text("utf-8")
    example = ROOT / "docs" / "examples" / name
    assert f"```python\n{example.read_text('utf-8')}```" in page
    printed = run_python(
        [sys.executable, str(example)], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout
    assert f"```text\n{printed}```" in page


def test_the_page_has_every_public_name() -> None:
    own = set(adapter.__all__) - {"LedgerSaver", "RecallStore", "Transition"}
    assert [name for name in own if f"`{name}(" not in PAGE.read_text("utf-8")] == []


NAMES = {
    "Research Agent": "Research-Agent",
    "Assistant": "assistant-agent",
    "研究员": "agent-" + hashlib.sha256("研究员".encode()).hexdigest()[:8],
}


@pytest.mark.parametrize("name", NAMES)
def test_an_agent_is_named_as_people_write_it(ws: Workspace, name: str) -> None:
    """The graph has the name, state and ledger a stable id; the way there and back is recorded,
    the run is replayed, and at its end the task is completed.
    """
    graph = HandoffGraph(ws, "T-1")

    def first(state: Any) -> Any:
        is_back = len(state["messages"]) > 1
        said = {"messages": [message("planned", "planner")]}
        return said if is_back else Goto(update=said, goto=name)

    graph.add_node("planner", first)
    graph.add_node(name, says("done"))
    graph.add_edge(START, "planner").add_edge(name, "planner").add_edge("planner", END)
    app = graph.compile()
    result = app.invoke({"messages": []})
    handoffs = [ws.show(f"T-1#h{number}") for number in (1, 2)]
    ends = [(each.from_agent, each.to_agent) for each in handoffs]
    assert ends == [("planner", NAMES[name]), (NAMES[name], "planner")]
    assert [each.source for each in transitions(ws, result["run"])][1] == NAMES[name]
    assert graph.replay(result["run"]) == plain(result)
    assert ws.task("T-1").phase == "completed"


def test_two_names_with_one_id_are_refused(ws: Workspace) -> None:
    graph = HandoffGraph(ws, "T-1").add_node("Research Agent", says("x"))
    with pytest.raises(InvalidInput, match="Research-Agent"):
        graph.add_node("Research  Agent", says("y"))

"""Handoffs of the OpenAI Agents SDK: checked, recorded, and a brief in place of the history."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any, cast

import pytest
from agents import (
    Agent,
    FunctionTool,
    GuardrailFunctionOutput,
    InputGuardrail,
    Runner,
    RunState,
    ToolOutputImage,
    ToolOutputText,
    UserError,
    function_tool,
)
from agents.exceptions import InputGuardrailTripwireTriggered, ModelBehaviorError
from agents.items import HandoffOutputItem
from agents.testing import ModelStep, ScriptedModel, function_call
from openai.types.responses.response_reasoning_item import ResponseReasoningItem

import passdown
import passdown.adapters.openai_agents as adapter
import passdown.aio
from bench import handoff_on_openai, handoff_sizes
from passdown import tools
from passdown.adapters.openai_agents import (
    HandoffHeld,
    LedgerSession,
    PassdownHooks,
    active_agent,
    check_run,
    history_tool,
    opening_input,
    passdown_handoff,
    run,
    run_streamed,
    run_sync,
    since_handoff,
)
from passdown.adapters.openai_agents.handoffs import MAX_REPAIRS
from passdown.core.tokens import vocabulary
from passdown.errors import GateRefused, InvalidInput
from passdown.tools import handed_log
from tests.adapters.openai_scripts import (
    QUIET,
    agent,
    blocker,
    decision,
    go,
    hand,
    inputs,
    last,
    lookup,
    model_of,
    payload,
    transfer,
)
from tests.processes import run_python

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

tokens = vocabulary("o200k_base")


@pytest.fixture
def ws(tmp_path: Path) -> Iterator[passdown.Workspace]:
    with passdown.init(str(tmp_path)) as workspace:
        workspace.create_task("T-1", title="Login", agent="planner")
        yield workspace


def asking() -> FunctionTool:
    """A tool that a person has to approve."""

    async def ask() -> str:
        """Ask."""
        return "asked"

    return function_tool(ask, needs_approval=True)


def handoffs(ws: passdown.Workspace, task: str = "T-1") -> list[dict[str, Any]]:
    return [record.to_dict() for record in ws.log(task) if record.kind == "handoff"]


def test_the_receiver_reads_the_brief_and_the_session_stays_whole(ws: passdown.Workspace) -> None:
    coder = agent("coder", [last()])
    step = {"step": "Write the middleware", "priority": "high"}
    said = transfer("coder", decisions=[decision("JWT in a cookie")], next_steps=[step])
    calls = [function_call("look", {"number": 1}, call_id="c1")]
    planner = agent("planner", [calls, [said]], tools=[lookup()], handoffs=[hand(coder, ws)])
    session = LedgerSession("s", ws)
    result = go(planner, "please", session=session)
    assert result.last_agent is coder
    [[told, asked]] = inputs(coder)
    assert told["role"] == "user"
    assert asked == {"role": "user", "content": "please"}
    assert tokens(told["content"]) <= 500
    for words in ("JWT in a cookie", "Write the middleware", "Design agreed", "by planner"):
        assert words in told["content"]
    kinds = [said.item.get("type") for said in session.transcript()]
    pair = ["function_call", "function_call_output"]
    assert kinds == [None, *pair, *pair, "message"]
    [record] = handoffs(ws)
    assert record["author"] == "planner"
    assert ws.task("T-1").holder == "coder"


def test_a_payload_that_will_not_do_goes_back_with_every_problem(ws: passdown.Workspace) -> None:
    """The sender mends it in the next turn; until then nothing is recorded."""
    coder = agent("coder", [last()])
    bad = payload(
        outcome="great",
        summary=" \n",
        decisions=[decision("x", ""), {**decision("", "y"), "tone": "grave"}],
        next_steps=[{"step": "", "priority": "urgent"}],
        files=[{"path": "/etc/passwd", "change": "modify", "note": ""}],
        mood="fine",
    )
    seen: list[int] = []

    def mended(_: Any) -> list[Any]:
        seen.append(len(handoffs(ws)))
        return [transfer("coder", "h2")]

    steps = [[function_call("transfer_to_coder", bad, call_id="h1")], ModelStep.respond(mended)]
    planner = agent("planner", steps, handoffs=[hand(coder, ws)])
    made = go(planner).new_items
    outputs = [cast("Any", i.raw_item)["output"] for i in made if isinstance(i, HandoffOutputItem)]
    assert outputs[1:] == ['{"assistant": "coder"}'], "what the SDK says of a handoff that was made"
    answer = inputs(planner)[1][-1]
    assert answer["call_id"] == "h1"
    for path in (
        "outcome",
        "summary",
        "decisions[0].rationale",
        "decisions[1].tone",
        "decisions[1].summary",
        "next_steps[0].step",
        "next_steps[0].priority",
        "files[0].path",
        "mood",
    ):
        assert f"- {path}: " in answer["output"]
    assert seen == [0]
    assert len(handoffs(ws)) == 1
    assert "great" not in inputs(coder)[0][0]["content"]


@pytest.mark.parametrize("arguments", ["{", "[]", "null", '"x"', "{}", '{"outcome": 5}'])
def test_arguments_of_any_shape_are_answered(ws: passdown.Workspace, arguments: str) -> None:
    coder = agent("coder", [last()])
    call: Any = function_call("transfer_to_coder", {}, call_id="h1")
    call.arguments = arguments
    planner = agent("planner", [[call], [transfer("coder", "h2")]], handoffs=[hand(coder, ws)])
    assert go(planner).last_agent is coder
    assert "nothing was recorded" in inputs(planner)[1][-1]["output"]


@pytest.mark.parametrize(
    ("outcome", "fields"),
    [
        ("completed", {}),
        ("partial", {"next_steps": [{"step": "Go on", "priority": "low"}]}),
        ("failed", {"suggested_resolution": "Ask for a key"}),
        ("blocked", {}),
    ],
)
def test_a_model_can_hand_off_with_any_outcome(
    ws: passdown.Workspace, outcome: str, fields: dict[str, Any]
) -> None:
    """With what its schema offers and says; the first time."""
    steps = fields.pop("next_steps", [])
    blockers = [blocker("No key", **fields)] if outcome != "completed" else []
    coder = agent("coder", [last()])
    said = transfer("coder", outcome=outcome, next_steps=steps, blockers=blockers)
    assert go(agent("planner", [[said]], handoffs=[hand(coder, ws)])).last_agent is coder
    assert ws.show("T-1#h1").outcome == outcome
    schema = hand(coder, ws).input_json_schema
    offered = schema["properties"]["blockers"]["items"]["properties"]
    assert set(fields) <= set(offered)
    assert outcome in schema["properties"]["outcome"]["enum"]


def test_a_sender_that_never_mends_it_ends_the_run_with_the_problems(
    ws: passdown.Workspace,
) -> None:
    bad = [
        [function_call("transfer_to_coder", payload(outcome="great"), call_id=f"h{n}")]
        for n in range(MAX_REPAIRS + 1)
    ]
    planner = agent("planner", bad, handoffs=[hand(agent("coder", []), ws)])
    with pytest.raises(ModelBehaviorError, match="outcome: 'great'"):
        go(planner)
    assert handoffs(ws) == []


def test_the_same_call_is_recorded_once(ws: passdown.Workspace) -> None:
    """A run that is taken up again from a saved state, before and after the handoff."""

    coder = agent("coder", [[function_call("ask", {}, call_id="a1")], last()], tools=[asking()])
    planner = agent("planner", [[transfer("coder")]], handoffs=[hand(coder, ws)])
    first = go(planner)
    state = first.to_state()
    state.approve(first.interruptions[0])
    assert go(planner, state).final_output == "done"
    assert len(handoffs(ws)) == 1
    again = agent("planner", [[transfer("coder")]], handoffs=[hand(agent("coder", [last()]), ws)])
    go(again)
    assert len(handoffs(ws)) == 1, "the same call, with the same history"
    other = agent("planner", [[transfer("coder")]], handoffs=[hand(agent("coder", [last()]), ws)])
    go(other, "something else")
    assert len(handoffs(ws)) == 2, "ids of calls need not be unique"


def test_a_handoff_that_a_person_has_to_approve_ends_the_run(ws: passdown.Workspace) -> None:
    coder = agent("coder", [last(), last()])
    steps = [
        [transfer("coder", blockers=[blocker("No key", requires_human=True)])],
        [transfer("coder", "h2")],
    ]
    planner = agent("planner", steps, handoffs=[hand(coder, ws)])
    with pytest.raises(HandoffHeld) as held:
        go(planner)
    assert held.value.recorded
    [gate] = held.value.gates
    assert f"passdown gate approve {gate} --by NAME (in Python: approve)" in str(held.value)
    with pytest.raises(HandoffHeld) as again:
        go(planner)
    assert not again.value.recorded
    with pytest.raises(GateRefused):
        opening_input(ws, "T-1", coder)
    assert model_of(coder).calls == ()
    ws.approve(gate, by="ann")
    brief, asked = opening_input(ws, "T-1", coder)
    assert asked == {"role": "user", "content": "please"}, "the person's words"
    assert go(coder, [brief, asked]).final_output == "done"
    assert "Design agreed" in inputs(coder)[0][0]["content"]
    assert len(handoffs(ws)) == 1


def test_a_task_that_a_person_refused_is_not_opened(ws: passdown.Workspace) -> None:
    coder = agent("coder", [last()])
    steps = [
        [transfer("coder", blockers=[blocker("No key", requires_human=True)])],
        [transfer("coder", "h2")],
    ]
    planner = agent("planner", steps, handoffs=[hand(coder, ws)])
    with pytest.raises(HandoffHeld) as held:
        go(planner)
    ws.reject(held.value.gates[0], by="ann", reason="not now")
    assert tools.waiting_gates(ws, "T-1") == []
    with pytest.raises(HandoffHeld, match="rejected by ann: not now; planner has it") as refused:
        opening_input(ws, "T-1", coder)
    assert "Start the sender" in str(refused.value)
    assert "waits" not in str(refused.value), "an answer has come"
    assert "not now" in str(opening_input(ws, "T-1", planner)), "its sender may be started"
    assert go(planner).final_output == "done", "handed off anew"
    assert "not now" in str(opening_input(ws, "T-1", coder))


@pytest.mark.parametrize(
    "options",
    [
        {"conversation_id": "conv_1"},
        {"previous_response_id": "resp_1"},
        {"auto_previous_response_id": True},
    ],
)
def test_conversations_that_the_server_keeps_are_refused(
    ws: passdown.Workspace, options: dict[str, Any]
) -> None:
    """Before anything is sent by `run`; by the SDK's own runner before anything is recorded."""
    coder = agent("coder", [last()])
    planner = agent("planner", [[transfer("coder")]], handoffs=[hand(coder, ws)])
    for refused in (
        lambda: asyncio.run(run(planner, "please", **options)),
        lambda: run_streamed(planner, "please", **options),
        lambda: run_sync(planner, "please", **options),
    ):
        with pytest.raises(InvalidInput, match=r"LedgerSession") as error:
            refused()
        assert error.value.problems[0].path in options
    with pytest.raises(UserError):
        go(planner, session=LedgerSession("s", ws), **options)
    assert model_of(planner).calls == ()
    with pytest.raises(UserError, match="input filter"):
        go(planner, **options)
    assert handoffs(ws) == []
    assert model_of(coder).calls == ()


def test_a_run_without_them_is_the_runners(ws: passdown.Workspace) -> None:
    check_run(conversation_id=None, max_turns=3)
    coder = agent("coder", [last()])
    planner = agent("planner", [[transfer("coder")]], handoffs=[hand(coder, ws)])
    assert asyncio.run(run(planner, "please", run_config=QUIET)).final_output == "done"


def test_a_saved_run_of_a_conversation_that_the_server_keeps_is_refused(
    ws: passdown.Workspace,
) -> None:
    ask = asking()
    planner = agent("planner", [[function_call("ask", {}, call_id="a1")]], tools=[ask])
    first = go(planner, conversation_id="conv_1")
    state = first.to_state()
    state.approve(first.interruptions[0])
    with pytest.raises(InvalidInput, match="conversation_id"):
        run_sync(planner, state)
    assert len(model_of(planner).calls) == 1


def test_a_handoff_may_wait_for_an_approval_in_its_own_turn(ws: passdown.Workspace) -> None:
    """Also when the run's state was written down meanwhile; the results of the turn go on."""
    turn = [
        function_call("look", {"number": 1}, call_id="c1"),
        function_call("ask", {}, call_id="a1"),
        transfer("coder"),
    ]
    coder = agent("coder", [last()])
    earlier = [function_call("look", {"number": 0}, call_id="c0")]
    tools = [lookup(), asking()]
    planner = agent("planner", [earlier, turn], tools=tools, handoffs=[hand(coder, ws)])
    session = LedgerSession("s", ws)
    saved = json.dumps(go(planner, session=session).to_state().to_json())
    assert handoffs(ws) == []
    state = asyncio.run(RunState.from_json(planner, json.loads(saved)))
    state.approve(state.get_interruptions()[0])
    assert go(planner, state, session=session).final_output == "done"
    [[told, _, *results]] = inputs(coder)
    assert told["role"] == "user"
    assert [item["call_id"] for item in results] == ["c1", "a1", "c1", "a1"]
    assert len(handoffs(ws)) == 1
    kept = [each.item.get("call_id") for each in handed_log(ws, "T-1").all()]
    assert {"c0", "c1", "a1", "handoff-1"} <= set(kept)


@pytest.mark.parametrize("beside", [True, False])
def test_a_guardrail_that_runs_first_keeps_a_handoff_from_being_made(
    ws: passdown.Workspace, beside: bool
) -> None:
    """One that runs beside the first turn may come too late, as it may for any tool."""

    async def refuse(_context: Any, _agent: Any, _input: Any) -> GuardrailFunctionOutput:
        await asyncio.sleep(0.5)
        return GuardrailFunctionOutput(output_info="no", tripwire_triggered=True)

    guard = InputGuardrail(guardrail_function=refuse, run_in_parallel=beside)
    coder = agent("coder", [last()])
    planner = agent(
        "planner", [[transfer("coder")]], handoffs=[hand(coder, ws)], input_guardrails=[guard]
    )
    with pytest.raises(InputGuardrailTripwireTriggered):
        go(planner)
    assert len(handoffs(ws)) == int(beside)
    assert model_of(coder).calls == ()


def test_agents_may_hand_back_and_forth(ws: passdown.Workspace) -> None:
    """Each is told everything that was decided, and where all that was said is kept."""
    left = agent("left", [], tools=[lookup()])
    right = agent("right", [])
    for number, (one, other) in enumerate([(left, right), (right, left)] * 2, 1):
        if one is left:
            look = function_call("look", {"number": number}, call_id=f"c{number}")
            model_of(left).enqueue([look])
        said = transfer(other.name, f"h{number}", decisions=[decision(f"Decision {number}")])
        model_of(one).enqueue([said])
    model_of(left).enqueue(last("over"))
    left.handoffs.append(hand(right, ws))
    right.handoffs.append(hand(left, ws))
    session = LedgerSession("s", ws)
    assert go(left, session=session).final_output == "over"
    told = inputs(left)[-1][0]["content"]
    assert all(f"Decision {number}" in told for number in range(1, 5))
    kept = handed_log(ws, "T-1").all()
    assert f'read_history("1-{kept[-1].number}") (' in told
    calls = [each.item["call_id"] for each in kept if each.item.get("type") == "function_call"]
    assert calls == ["c1", "h1", "h2", "c3", "h3", "h4"]
    assert len(session.transcript()) == 1 + 2 * len(calls) + 1


def test_an_agent_that_would_hand_to_itself_is_a_mistake_of_the_program(
    ws: passdown.Workspace,
) -> None:
    alone = agent("alone", [[transfer("alone")]])
    alone.handoffs.append(hand(alone, ws))
    with pytest.raises(InvalidInput, match="is the sender"):
        go(alone)


def test_an_awaited_workspace_will_do_everywhere(tmp_path: Path) -> None:
    async def whole() -> None:
        async with passdown.aio.open(str(tmp_path)) as ws:
            await ws.create_task("T-1", title="Login", agent="planner")
            coder = agent("coder", [last()], tools=[history_tool(ws, "T-1.handed")])
            onward = passdown_handoff(coder, workspace=ws, task="T-1")
            planner = agent("planner", [[transfer("coder")]], handoffs=[onward])
            session = LedgerSession("s", ws)
            hooks = PassdownHooks(ws, "T-1")
            options: Any = {"session": session, "hooks": hooks, "run_config": QUIET}
            assert (await run(planner, "please", **options)).final_output == "done"
            assert active_agent(ws, task="T-1") == "coder"
            assert "Design agreed" in str(opening_input(ws, "T-1", coder))

    asyncio.run(whole())


def test_results_that_no_model_has_read_go_on_to_the_receiver(ws: passdown.Workspace) -> None:
    """Calls in the very turn of the handoff, with an image, and a second handoff that is ignored;
    the receiver's own calls stay paired.
    """

    async def picture() -> list[Any]:
        """Draw."""
        return [
            ToolOutputText(text="a chart"),
            ToolOutputImage(image_url="data:image/png;base64,iVBORw0KGgo="),
        ]

    coder = agent(
        "coder", [[function_call("look", {"number": 7}, call_id="c7")], last()], tools=[lookup()]
    )
    other = agent("other", [])
    turn = [
        function_call("look", {"number": 1}, call_id="c1"),
        transfer("coder"),
        function_call("picture", {}, call_id="c2"),
        transfer("other", "handoff-2"),
    ]
    planner = agent(
        "planner",
        [turn],
        tools=[lookup(), function_tool(picture)],
        handoffs=[hand(coder, ws), hand(other, ws)],
    )
    session = LedgerSession("s", ws)
    go(planner, session=session)
    first, second = inputs(coder)
    assert [item.get("call_id") for item in first[2:]] == ["c1", "c2", "c1", "c2"]
    assert first[-1]["output"][1]["image_url"] == "data:image/png;base64,iVBORw0KGgo="
    assert second[: len(first)] == first
    assert [item["call_id"] for item in second[len(first) :]] == ["c7", "c7"]
    in_session = [said.item for said in session.transcript()]
    kept = [each.item for each in handed_log(ws, "T-1").all()]
    assert in_session[: len(kept)] == kept
    assert first[-1] in kept
    assert len(handoffs(ws)) == 1


def test_reasoning_goes_along_with_the_calls_that_it_led_to(ws: passdown.Workspace) -> None:
    def thought(name: str) -> Any:
        return ResponseReasoningItem(id=name, summary=[], type="reasoning")

    coder = agent("coder", [last()])
    turn = [
        thought("rs_0"),
        thought("rs_1"),
        *last("One moment."),
        function_call("look", {"number": 1}, call_id="c1"),
        thought("rs_2"),
        transfer("coder"),
    ]
    planner = agent("planner", [turn], tools=[lookup()], handoffs=[hand(coder, ws)])
    session = LedgerSession("s", ws)
    go(planner, session=session)
    [given] = inputs(coder)
    assert [item.get("id") or item.get("call_id") for item in given[2:]] == [
        "rs_0",
        "rs_1",
        "c1",
        "c1",
    ]
    kept = [said.item.get("id") for said in session.transcript()]
    assert {"rs_0", "rs_1", "rs_2"} <= set(kept)


@pytest.mark.parametrize("streamed", [False, True])
def test_three_hops(ws: passdown.Workspace, streamed: bool) -> None:
    ws.create_task("T-2", title="Roll-out", agent="planner")
    tester = agent("tester", [last("tested")])
    coder = agent(
        "coder",
        [[transfer("tester", "h2", summary="Written", decisions=[decision("PyJWT")])]],
        handoffs=[hand(tester, ws)],
    )
    planner = agent(
        "planner", [[transfer("coder", decisions=[decision("JWT")])]], handoffs=[hand(coder, ws)]
    )

    async def stream() -> Any:
        result = Runner.run_streamed(planner, "please", run_config=QUIET)
        events = [event async for event in result.stream_events()]
        assert any(getattr(event, "name", "") == "handoff_occured" for event in events)
        return result

    result = asyncio.run(stream()) if streamed else go(planner)
    assert result.final_output == "tested"
    [[told, asked]] = inputs(tester)
    assert asked == {"role": "user", "content": "please"}, "and no earlier brief"
    assert "PyJWT" in told["content"]
    assert "| Why: it is simpler" in told["content"]
    authors = [record["author"] for record in handoffs(ws)]
    assert authors == ["coder", "planner"]


def assert_same(found: dict[str, Any], given: dict[str, Any], *names: str) -> None:
    """Fields, byte for byte; the ledger leaves out what is empty or false."""
    for name in names:
        kept = found.get(name, type(given[name])())
        assert json.dumps(kept) == json.dumps(given[name]), name


def test_twenty_agents_lose_nothing(ws: passdown.Workspace) -> None:
    """Every field of every payload, and every item of every conversation, byte for byte."""
    count = 20
    ws.create_task("T-2", title="Roll-out", agent="planner")
    chain = [agent(f"agent-{count}", [last()])]
    given: dict[int, dict[str, Any]] = {}
    for number in range(count - 1, 0, -1):
        text = f'hop {number}: "é" 中文 \U0001f600 \\ \t|'
        given[number] = payload(
            f"Summary of {text}",
            decisions=[{**decision(f"Decide {text}", f"Why {text}"), "alternatives": [text]}],
            next_steps=[{"step": f"Do {text}", "priority": "low"}],
            blockers=[blocker(f"B {text}", suggested_resolution=text, blocking_tasks=["T-2"])],
            files=[{"path": f"src/part{number}.py", "change": "delete", "note": text}],
            questions=[{"question": f"Q {text}?", "blocking": True}],
            resolves=[f"T-1#n{number - 1}"] if number > 1 else [],
        )
        name = f"agent-{number + 1}"
        calls = [
            [function_call("look", {"number": number}, call_id=f"c{number}")],
            [function_call(f"transfer_to_{name}", given[number], call_id=f"h{number}")],
        ]
        onward = hand(chain[0], ws, tool_name=f"transfer_to_{name}")
        chain.insert(0, agent(f"agent-{number}", calls, tools=[lookup(1_000)], handoffs=[onward]))
    session = LedgerSession("s", ws)
    result = go(chain[0], session=session, max_turns=50)
    assert result.last_agent.name == f"agent-{count}"
    for number, said in given.items():
        handed = ws.show(f"T-1#h{number}")
        assert (handed.from_agent, handed.to_agent) == (
            f"agent-{number}",
            f"agent-{number + 1}",
        )
        assert_same(handed.to_dict(), said, "outcome", "summary")
        lists = {"d": "decisions", "n": "next_steps", "b": "blockers", "a": "files"}
        for letter, name in {**lists, "q": "questions"}.items():
            [given_item] = said[name]
            assert_same(ws.show(f"T-1#{letter}{number}").to_dict(), given_item, *given_item)
        for settled in said["resolves"]:
            assert ws.show(settled).status != "open"
    assert ws.task("T-1").counts == dict.fromkeys("abdhnq", count - 1)
    made = [item.to_input_item() for item in result.new_items]
    expected = [json.dumps(item) for item in [{"content": "please", "role": "user"}, *made]]
    assert [json.dumps(said.item) for said in session.transcript()] == expected
    kept = {json.dumps(each.item) for each in handed_log(ws, "T-1").all()}
    assert set(expected[:-1]) <= kept
    for one in chain[1:]:
        assert tokens(inputs(one)[0][0]["content"]) <= 500
    assert not ws.verify().findings


@pytest.mark.promise("F-1")
def test_what_is_not_shown_is_one_call_of_a_tool_away(
    ws: passdown.Workspace, tmp_path: Path
) -> None:
    """Each receiver has the tool that its brief names, for the task that it was handed; a person
    reads the same with a command, which no brief names.
    """
    ws.create_task("T-2", title="Logout", agent="planner")
    reads = [function_call("read_history", {"items": "3"}, call_id="r1")]
    reader = agent("reader", [reads, last(), reads, last()])
    handoffs = [hand(reader, ws, task=task) for task in ("T-1", "T-2")]
    for number, handoff in enumerate(handoffs):
        calls = [[function_call("look", {"number": number}, call_id="c1")], [transfer("reader")]]
        go(agent("planner", calls, tools=[lookup(1_000)], handoffs=[handoff]))
        first, second = inputs(reader)[-2:]
        assert 'read_history("1-5")' in first[0]["content"]
        assert "python" not in first[0]["content"]
        assert f"result {number} xxx" in second[-1]["output"]
    assert len(reader.tools) == 1
    bare = agent("bare", [last()])
    given = hand(bare, ws, history=False)
    go(agent("reader", [[transfer("bare", "h9")]], handoffs=[given]))
    assert bare.tools == []
    assert "tool result" not in inputs(bare)[0][0]["content"]
    done = run_python(
        [sys.executable, "-m", adapter.__name__, "T-1.handed", "3"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "result 0 ".ljust(1_000, "x") in done.stdout


@pytest.mark.parametrize("budget", [1, 60, 200, 2_000])
def test_the_receivers_text_keeps_its_budget(ws: passdown.Workspace, budget: int) -> None:
    coder = agent("coder", [last()])
    many = [decision(f"Decision {n} of many", "a longer reason " * 5) for n in range(30)]
    planner = agent(
        "planner", [[transfer("coder", decisions=many)]], handoffs=[hand(coder, ws, budget=budget)]
    )
    go(planner)
    assert tokens(inputs(coder)[0][0]["content"]) <= budget


def test_what_a_person_said_last_stays_if_it_fits(ws: passdown.Workspace) -> None:
    """Several messages, with a picture; never more than half of the budget, never beyond it."""
    picture = [{"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo="}]
    said: list[Any] = [
        {"role": "user", "content": "an older question"},
        {"role": "assistant", "content": "an older answer"},
        {"role": "user", "content": picture},
        {"role": "user", "content": "what is this?"},
    ]
    long: list[Any] = [*said[:3], {"role": "user", "content": "a long story " * 200}]
    for number, (given, stay) in enumerate([(said, said[2:]), (long, [])]):
        coder = agent("coder", [last()])
        steps = [[transfer("coder", f"h{number}")]]
        go(agent("planner", steps, handoffs=[hand(coder, ws, budget=300)]), given)
        [[told, *asked]] = inputs(coder)
        assert asked == stay
        assert tokens(told["content"]) + sum(tokens(json.dumps(i["content"])) for i in asked) <= 300
        kept = [each.item for each in handed_log(ws, "T-1").all()]
        assert given[-1] in kept


def test_names_tasks_and_switches(ws: passdown.Workspace) -> None:
    """Names of the SDK may have spaces; the task may come from the run; a handoff may be off."""

    async def never(_context: Any, _agent: Any) -> bool:
        return False

    coder = agent("Senior coder", [last()])
    seen: list[Any] = []
    made = passdown_handoff(
        coder,
        workspace=ws,
        task=lambda context: context.context["task"],
        tool_name="give_to_coder",
        description="Give it on",
        phase="implementing",
        on_handoff=lambda _, given: seen.append(given),
    )
    assert (made.tool_name, made.tool_description) == ("give_to_coder", "Give it on")
    call = function_call("give_to_coder", payload(), call_id="h")
    off = passdown_handoff(agent("off", []), workspace=ws, task="T-1", is_enabled=never)
    planner = agent("The planner", [[call]], handoffs=[made, off])
    go(planner, context={"task": "T-1"})
    assert [made.tool_name for made in model_of(planner).calls[0].handoffs] == ["give_to_coder"]
    [record] = handoffs(ws)
    assert record["author"] == "The-planner"
    assert ws.task("T-1").holder == "Senior-coder"
    assert ws.task("T-1").phase == "implementing"
    assert seen[0].summary == "Design agreed"


def test_what_only_the_program_can_mend_is_raised(ws: passdown.Workspace) -> None:
    planner = agent(
        "planner", [[transfer("coder")]], handoffs=[hand(agent("coder", []), ws, task="T-9")]
    )
    with pytest.raises(InvalidInput, match="T-9"):
        go(planner)
    with pytest.raises(InvalidInput, match="to_agent"):
        hand(agent(" ", []), ws)


@pytest.mark.parametrize("wrong", [{"budget": 0}, {"budget": "500"}, {"counter": "none such"}])
def test_a_brief_that_can_not_be_made_is_no_handoff(ws: passdown.Workspace, wrong: Any) -> None:
    """Said when the agents are set up: later, the handoff would stand and nobody be told."""
    coder = agent("coder", [last()])
    with pytest.raises(InvalidInput, match=next(iter(wrong))):
        hand(coder, ws, **wrong)
    with pytest.raises(InvalidInput, match=next(iter(wrong))):
        since_handoff(ws, "T-1", **wrong)


def test_runs_side_by_side_keep_to_themselves(ws: passdown.Workspace) -> None:
    """One handoff object, many runs: refusals and briefs reach the run that they belong to."""
    tasks = [f"R-{n}" for n in range(6)]
    for task in tasks:
        ws.create_task(task, title=f"Title of {task}", agent="planner")
    coder = Agent[Any](name="coder", model=ScriptedModel([last()] * len(tasks)))
    shared = passdown_handoff(coder, workspace=ws, task=lambda context: context.context)

    async def one(task: str) -> Any:
        steps = [[transfer("coder", "h1", outcome=f"bad-{task}")], [transfer("coder", "h2")]]
        planner = agent("planner", steps, handoffs=[shared])
        await Runner.run(planner, "please", context=task, run_config=QUIET)
        return inputs(planner)[1][-1]["output"]

    async def all_of_them() -> list[Any]:
        return await asyncio.gather(*map(one, tasks))

    for task, answer in zip(tasks, asyncio.run(all_of_them()), strict=True):
        assert f"'bad-{task}'" in answer
        assert len(handoffs(ws, task)) == 1
    told = sorted(call[0]["content"].splitlines()[0].split()[1] for call in inputs(coder))
    assert told == tasks


@pytest.mark.parametrize("there", ["None", "types.ModuleType('agents')"])
def test_without_the_sdk_the_extra_is_named(there: str) -> None:
    """Also where a package of the program's own has that name."""
    code = (
        f"import sys, types; sys.modules['agents'] = {there}\n"
        "import passdown, passdown.adapters.memory\n"
        "try:\n    import passdown.adapters.openai_agents\n"
        "except passdown.errors.MissingExtra as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'passdown[openai-agents]'" in done.stdout


def test_the_page_shows_what_happens(project_root: Path, tmp_path: Path) -> None:
    page = (project_root / "docs" / "openai-agents.md").read_text("utf-8")
    example = project_root / "docs" / "examples" / "frameworks" / "openai_agents.py"
    code, printed = (
        re.search(rf"```{language}\n(.*?)```", page, re.DOTALL) for language in ("python", "text")
    )
    assert code is not None
    assert printed is not None
    assert code[1] == example.read_text("utf-8")
    done = run_python(
        [sys.executable, str(example)], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert re.sub(r"\[\d{6}\b", "[…", done.stdout) == printed[1]
    offered = hand(agent("coder", []), passdown.init(str(tmp_path / "other")))
    tool = [offered.tool_name, offered.tool_description, offered.input_json_schema]
    taken = re.search(r"the payload's schema: (\d+) tokens", page)
    assert taken is not None
    assert 0 <= int(taken[1]) - tokens(json.dumps(tool, separators=(",", ":"))) < 30
    for name in adapter.__all__:
        assert f"`{name}" in page or f"{name}(" in page, name


def test_the_receiver_is_given_far_less_and_can_reach_it_all(
    project_root: Path, tmp_path: Path
) -> None:
    """Beside the SDK's own ways, on the same job; the page has the figures."""
    page = (project_root / "docs" / "openai-agents.md").read_text("utf-8")
    ours = handoff_sizes.figures(handoff_on_openai.with_passdown(tmp_path))
    theirs = handoff_sizes.figures(handoff_on_openai.default(tmp_path))
    bare = handoff_sizes.figures(handoff_on_openai.without_tools(tmp_path))
    assert ours["tokens"] <= 500
    assert theirs["tokens"] > 13 * ours["tokens"]
    wanted = {"results": 10, "decisions": 5, "next_steps": 3}
    assert {name: ours[name] for name in wanted} == wanted
    assert bare["results"] == 0
    for found in (theirs, bare):
        numbers = [f"{found[name]:,}" for name in ("tokens", "characters", *wanted)]
        assert f"| {' | '.join(numbers)} |" in page
    ours_there = re.search(r"Passdown on the Agents SDK \| (\d+) \| 939 \| 10 \| 5 \| 3 \|", page)
    assert ours_there is not None
    assert abs(int(ours_there[1]) - ours["tokens"]) < 10, "digests differ by a few tokens"


@pytest.mark.promise("F-5")
def test_a_whole_run_costs_fewer_tokens_from_the_shortest_job_on(
    project_root: Path, tmp_path: Path
) -> None:
    """With every definition of a tool; the page has the figures."""
    page = (project_root / "docs" / "openai-agents.md").read_text("utf-8")
    rows = re.findall(
        r"^\| (\d) x (\d) \| ([\d,]+) \| ([\d,]+) \| ([\d.]+) \|$", page, re.MULTILINE
    )
    assert [(int(agents), int(calls)) for agents, calls, *_ in rows] == list(handoff_sizes.SIZES)
    assert all(float(ratio) < 1 for *_, ratio in rows)
    for agents, calls, theirs, ours, _ in rows[:2]:
        found = handoff_sizes.whole_run(tmp_path, int(agents), int(calls))
        assert found.beside == f"{theirs} by default"
        measured, told = (int(each.replace(",", "")) for each in (found.measured, ours))
        assert abs(measured - told) < 60, "digests differ by a few tokens"


@pytest.mark.parametrize("given", ["coder", None, 7])
def test_a_handoff_to_what_is_no_agent_says_what_is_expected(
    ws: passdown.Workspace, given: Any
) -> None:
    with pytest.raises(InvalidInput, match="an Agent of the OpenAI Agents SDK") as refused:
        passdown_handoff(given, workspace=ws, task="T-1")
    assert [problem.code for problem in refused.value.problems] == ["wrong_type"]

"""Runs of the OpenAI Agents SDK that go on after a handoff, and reading what was before it."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
from agents import RunConfig, Runner
from agents.testing import function_call
from hypothesis import given
from hypothesis import strategies as st

import passdown
from passdown.adapters.openai_agents import LedgerSession, history_tool, since_handoff
from passdown.core.tokens import vocabulary
from passdown.tools.history import HistoryLine, ItemLog, fit_lines, handed_log
from tests.adapters.openai_scripts import agent, decision, go, hand, inputs, last, lookup, transfer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

tokens = vocabulary("o200k_base")


@pytest.fixture
def ws(tmp_path: Path) -> Iterator[passdown.Workspace]:
    with passdown.init(str(tmp_path)) as workspace:
        workspace.create_task("T-1", title="Login", agent="planner")
        yield workspace


def looks(*numbers: int) -> list[Any]:
    return [[function_call("look", {"number": n}, call_id=f"c{n}")] for n in numbers]


def test_a_later_run_is_given_the_brief_and_what_was_said_since(ws: passdown.Workspace) -> None:
    """Two messages of a user after a handoff, with the session whole; in a loop too."""
    tools = [lookup(1_000)]
    coder = agent("coder", [*looks(9), last("written"), *looks(10), last("more")], tools=tools)
    said = transfer("coder", decisions=[decision("JWT in a cookie")])
    steps = [*looks(1, 2, 3), [said]]
    planner = agent("planner", steps, tools=tools, handoffs=[hand(coder, ws)])
    session = LedgerSession("s", ws)
    go(planner, "make it", session=session)
    before = [each.item for each in session.transcript()]
    brief_only = RunConfig(
        tracing_disabled=True, call_model_input_filter=since_handoff(ws, "T-1", budget=300)
    )
    result = asyncio.run(Runner.run(coder, "and now?", session=session, run_config=brief_only))
    assert result.final_output == "more"
    third, fourth = inputs(coder)[2:]
    told = third[0]["content"]
    assert "JWT in a cookie" in told
    assert tokens(told) <= 300
    assert third[1] == {"role": "user", "content": "make it"}
    assert [item.get("call_id") or item.get("role") for item in third[2:]] == [
        "c9",
        "c9",
        "assistant",
        "user",
    ]
    assert fourth[: len(third)] == third, "the same within a run, for the cache"
    after = [each.item for each in session.transcript()]
    assert after[: len(before)] == before
    assert after[len(before)] == {"role": "user", "content": "and now?"}
    assert len(after) == len(before) + 4


def test_without_a_handoff_in_it_an_input_stays_as_it_is(ws: passdown.Workspace) -> None:
    """Nor does a handoff that came another way disturb it, whatever its metadata."""
    fields = {"task": "T-1", "from_agent": "planner", "to_agent": "coder", "outcome": "completed"}
    for metadata in ({"openai_agents": "x"}, {"openai_agents": {"call_id": None}}):
        ws.hand_off({**fields, "summary": str(metadata), "metadata": metadata})
    one = agent("one", [*looks(1), last()], tools=[lookup()])
    unchanged = RunConfig(tracing_disabled=True, call_model_input_filter=since_handoff(ws, "T-1"))
    asyncio.run(Runner.run(one, "please", run_config=unchanged))
    assert inputs(one)[0] == [{"role": "user", "content": "please"}]
    assert len(inputs(one)[1]) == 3


def test_a_later_brief_knows_what_was_decided_meanwhile(ws: passdown.Workspace) -> None:
    coder = agent("coder", [last(), last(), last()])
    planner = agent("planner", [[transfer("coder")]], handoffs=[hand(coder, ws)])
    session = LedgerSession("s", ws)
    go(planner, session=session)
    config = RunConfig(tracing_disabled=True, call_model_input_filter=since_handoff(ws, "T-1"))
    for _ in range(2):
        asyncio.run(Runner.run(coder, "on", session=session, run_config=config))
        ws.decide(task="T-1", agent="ann", summary="Use PyJWT", rationale="it is there")
    first, second = (each[0]["content"] for each in inputs(coder)[1:])
    assert "PyJWT" not in first
    assert "PyJWT" in second


def read(ws: passdown.Workspace, items: str, **options: Any) -> str:
    """What the tool answers, called by an agent."""
    calls = [function_call("read_history", {"items": items}, call_id="r1")]
    tool = history_tool(ws, lambda context: f"{context.context}.handed", **options)
    reader = agent("reader", [calls, last()], tools=[tool])
    go(reader, context="T-1")
    return inputs(reader)[1][-1]["output"]


def test_the_tool_reads_any_amount_in_parts(ws: passdown.Workspace) -> None:
    """Whole items as long as they fit, then how to go on; a long item from a character on."""
    items = [{"role": "user", "content": f"{n} " + "word " * 200} for n in range(9)]
    long = {"role": "user", "content": "".join(f"{n:06}" for n in range(20_000))}
    handed_log(ws, "T-1").add([*items, long])
    texts = [each.text for each in ItemLog(ws, "T-1.handed").all()]
    assert read(ws, "2,4-5") == "\n".join(f"{n} {texts[n - 1]}" for n in (2, 4, 5))
    answer = read(ws, "1-9", max_tokens=1_000)
    assert answer.endswith('On with: read_history("5-9")')
    assert answer.startswith(f"1 {texts[0]}\n2 {texts[1]}\n")
    parts: list[str] = []
    wanted = "10"
    while wanted:
        answer = read(ws, wanted, max_tokens=9_000)
        assert tokens(answer) <= 9_100
        text, _, on = answer.partition("\n")
        parts.append(text.partition(" ")[2])
        wanted = on.partition('read_history("')[2].removesuffix('")')
    assert len(parts) > 3
    assert json.loads("".join(parts)) == long
    assert read(ws, "").splitlines()[0].startswith("1 user 0 word word")


@pytest.mark.parametrize("items", ["x", "1-", "-", "1;2", "99", "1@2-3"])
def test_what_can_not_be_read_is_said(ws: passdown.Workspace, items: str) -> None:
    handed_log(ws, "T-1").add([{"role": "user", "content": "hello"}])
    assert "no items were read" in read(ws, items)


@given(
    st.lists(st.text(min_size=1, max_size=300), min_size=1, max_size=6),
    st.integers(1, 120),
)
def test_every_answer_shows_something_and_names_the_rest(texts: list[str], budget: int) -> None:
    lines = [HistoryLine(number, text) for number, text in enumerate(texts, 1)]
    answer = fit_lines(lines, budget, len)
    assert answer.startswith("1 " + texts[0][:1])
    if not answer.endswith('")'):
        assert answer == "\n".join(f"{line.number} {line.text}" for line in lines)

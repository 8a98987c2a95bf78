"""What hooks record of runs of the OpenAI Agents SDK."""

from __future__ import annotations

import gc
import json
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from agents import Usage, UserError, handoff
from agents.testing import ModelStep, function_call

import passdown
from passdown.adapters.openai_agents import (
    HandoffHeld,
    PassdownHooks,
    active_agent,
    opening_input,
    run_records,
)
from passdown.adapters.openai_agents.runs import MAX_ARGUMENT_CHARS
from passdown.errors import InvalidInput
from tests.adapters.openai_scripts import (
    agent,
    blocker,
    go,
    hand,
    last,
    lookup,
    model_of,
    payload,
    transfer,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def ws(tmp_path: Path) -> Iterator[passdown.Workspace]:
    with passdown.init(str(tmp_path)) as workspace:
        workspace.create_task("T-1", title="Login", agent="planner")
        yield workspace


@dataclass(frozen=True)
class Reason:
    why: str


def test_who_was_active_is_known_after_a_restart(tmp_path: Path) -> None:
    with passdown.init(str(tmp_path)) as ws:
        ws.create_task("T-1", title="Login", agent="planner")
        hooks = PassdownHooks(ws, "T-1", session_id="chat-7")
        assert active_agent(ws, task="T-1") is None
        coder = agent("coder", [ModelStep.raise_error(RuntimeError("the power is gone"))])
        planner = agent("planner", [[transfer("coder")]], handoffs=[hand(coder, ws)])
        with pytest.raises(RuntimeError):
            go(planner, hooks=hooks)
    with passdown.open(str(tmp_path)) as ws:
        assert active_agent(ws, task="T-1") == "coder"
        assert active_agent(ws, session_id="chat-7") == "coder"
        assert active_agent(ws, session_id="chat-8") is None
        assert not ws.verify().findings


def test_starts_handoffs_calls_and_tokens_are_recorded(ws: passdown.Workspace) -> None:
    spent = Usage(requests=1, input_tokens=100, output_tokens=10, total_tokens=110)
    calls = [function_call("look", {"number": n}, call_id=f"c{n}") for n in range(3)]
    bad = function_call("transfer_to_coder", payload(outcome="great"), call_id="h0")
    coder = agent("coder", [ModelStep(output=last(), usage=spent)])
    steps = [ModelStep(output=calls, usage=spent), [bad], [transfer("coder")]]
    planner = agent("planner", steps, tools=[lookup()], handoffs=[hand(coder, ws)])
    before = ws.task("T-1").version
    go(planner, hooks=PassdownHooks(ws, "T-1"))
    found = run_records(ws, task="T-1")
    assert [(each["kind"], each["active"]) for each in found] == [
        ("agent_started", "planner"),
        ("sent_back", "planner"),
        ("agent_started", "planner"),
        ("handed", "planner"),
        ("agent_started", "coder"),
        ("agent_ended", "coder"),
    ]
    assert found[1]["calls"] == {"look": 3}
    assert found[1]["usage"]["input_tokens"] == 100
    assert (found[3]["from"], found[3]["to"], found[3]["calls"]) == ("planner", "coder", {})
    assert found[3]["tool"] == "transfer_to_coder"
    assert json.loads(found[3]["arguments"]) == payload()
    noted = ws.show("T-1#h1").metadata["openai_agents"]
    assert found[3]["call_id"] == noted["call_id"], "leads to the handoff itself"
    assert found[1]["call_id"] == "h0"
    assert found[5]["usage"]["total_tokens"] == 110
    assert ws.task("T-1").version == before + 1, "hooks don't move the task"


def test_a_run_does_not_fail_for_its_records(
    ws: passdown.Workspace, caplog: pytest.LogCaptureFixture
) -> None:
    """Here of an agent with a name that no record can hold."""
    coder = agent("coder", [last()])
    onward = hand(coder, ws, from_agent="planner")
    planner = agent("plan\0ner", [[transfer("coder")]], handoffs=[onward])
    with caplog.at_level(logging.ERROR, "passdown.openai_agents"):
        assert go(planner, hooks=PassdownHooks(ws, "T-1")).final_output == "done"
    assert "was not recorded" in caplog.text
    assert [each["active"] for each in run_records(ws, task="T-1")] == ["coder", "coder"]


def test_the_sdks_own_handoffs_are_recorded_too(ws: passdown.Workspace) -> None:
    """An agent in place of a handoff, called beside a tool; and arguments beyond all measure."""
    coder, tester = agent("Senior coder", []), agent("tester", [last()])
    long = {"why": "x" * (MAX_ARGUMENT_CHARS + 5)}
    calls = [
        function_call("look", {"number": 1}, call_id="c1"),
        function_call("transfer_to_senior_coder", {}, call_id="h1"),
    ]
    planner = agent("planner", [calls], tools=[lookup()], handoffs=[coder])
    onward = handoff(tester, input_type=Reason, on_handoff=lambda _, __: None)
    coder.handoffs.append(onward)
    model_of(coder).enqueue([function_call("transfer_to_tester", long, call_id="h2")])
    go(planner, hooks=PassdownHooks(ws, "T-1"))
    first, second = (each for each in run_records(ws, task="T-1") if each["kind"] == "handed")
    assert (first["from"], first["to"], first["call_id"]) == ("planner", "Senior coder", "h1")
    assert first["calls"] == {"look": 1}
    assert (second["call_id"], len(second["arguments"])) == ("h2", MAX_ARGUMENT_CHARS)
    assert second["characters"] == len(json.dumps(long, separators=(",", ":")))


def test_an_agent_is_active_once_it_has_started(ws: passdown.Workspace) -> None:
    """Not while a person has yet to approve, nor where the SDK refuses the handoff at last."""
    coder = agent("coder", [last()])
    hooks = PassdownHooks(ws, "T-1")
    planner = agent("planner", [[transfer("coder")]], handoffs=[hand(coder, ws)])
    with pytest.raises(UserError):
        go(planner, hooks=hooks, conversation_id="conv_1")
    assert active_agent(ws, task="T-1") == "planner"
    steps = [[transfer("coder", blockers=[blocker("No key", requires_human=True)])]]
    planner = agent("planner", steps, handoffs=[hand(coder, ws)])
    with pytest.raises(HandoffHeld) as held:
        go(planner, hooks=hooks)
    assert active_agent(ws, task="T-1") == "planner"
    ws.approve(held.value.gates[0], by="ann")
    go(coder, opening_input(ws, "T-1", coder), hooks=hooks)
    assert active_agent(ws, task="T-1") == "coder"


def test_hooks_keep_nothing_of_runs_that_are_over(ws: passdown.Workspace) -> None:
    """Whichever way they ended; a program may keep one set of hooks for good."""
    hooks = PassdownHooks(ws, "T-1")
    for _ in range(3):
        go(agent("a", [last()]), hooks=hooks)
        with pytest.raises(RuntimeError):
            go(agent("b", [ModelStep.raise_error(RuntimeError("gone"))]), hooks=hooks)
    gc.collect()
    assert not vars(hooks)["_runs"]


@pytest.mark.parametrize("names", [{}, {"task": "a b"}, {"session_id": "a\nb"}])
def test_hooks_need_a_name_to_record_under(ws: passdown.Workspace, names: Any) -> None:
    with pytest.raises(InvalidInput):
        PassdownHooks(ws, **names)
    with pytest.raises(InvalidInput):
        active_agent(ws, **names)

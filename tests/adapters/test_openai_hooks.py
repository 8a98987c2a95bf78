"""What hooks record of runs of the OpenAI Agents SDK."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest
from agents import Usage
from agents.testing import ModelStep, function_call

import passdown
from passdown.adapters.openai_agents import PassdownHooks, active_agent, run_records
from passdown.errors import InvalidInput
from tests.adapters.openai_scripts import agent, go, hand, last, lookup, payload, transfer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def ws(tmp_path: Path) -> Iterator[passdown.Workspace]:
    with passdown.init(str(tmp_path)) as workspace:
        workspace.create_task("T-1", title="Login", agent="planner")
        yield workspace


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
    before = ws.task("T-1")["version"]
    go(planner, hooks=PassdownHooks(ws, "T-1"))
    found = run_records(ws, task="T-1")
    assert [(each["kind"], each["active"]) for each in found] == [
        ("agent_started", "planner"),
        ("sent_back", "planner"),
        ("agent_started", "planner"),
        ("handed", "coder"),
        ("agent_started", "coder"),
        ("agent_ended", "coder"),
    ]
    assert found[1]["calls"] == {"look": 3}
    assert found[1]["usage"]["input_tokens"] == 100
    assert (found[3]["from"], found[3]["to"], found[3]["calls"]) == ("planner", "coder", {})
    assert found[5]["usage"]["total_tokens"] == 110
    assert ws.task("T-1")["version"] == before + 1, "hooks don't move the task"


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


@pytest.mark.parametrize("names", [{}, {"task": "a b"}, {"session_id": "a\nb"}])
def test_hooks_need_a_name_to_record_under(ws: passdown.Workspace, names: Any) -> None:
    with pytest.raises(InvalidInput):
        PassdownHooks(ws, **names)
    with pytest.raises(InvalidInput):
        active_agent(ws, **names)

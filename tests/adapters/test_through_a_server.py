"""Adapters on a workspace behind a server: they work, or refuse by name when they are made."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from agents import Agent
from langchain_core.messages import AIMessage

from passdown.adapters import openai_agents, states
from passdown.adapters.langgraph import (
    BriefMiddleware,
    HandoffGraph,
    LedgerSaver,
    RecallStore,
    handoff_node,
    handoff_tool,
)
from passdown.errors import PassdownError
from tests.serving import over_http

if TYPE_CHECKING:
    from collections.abc import Callable

    from passdown import Workspace


def _messages(messages: list[Any]) -> list[Any]:
    return messages


def _node(state: dict[str, Any]) -> dict[str, Any]:
    return state


MADE: dict[str, Callable[[Any], Any]] = {
    "LedgerSaver": LedgerSaver,
    "RecallStore": RecallStore,
    "HandoffGraph": lambda ws: HandoffGraph(ws, "T-1"),
    "handoff_node": lambda ws: handoff_node(_node, agent="a", workspace=ws, task="T-1"),
    "handoff_tool": lambda ws: handoff_tool("coder", workspace=ws, task="T-1"),
    "step": lambda ws: states.step(_node, {}, agent="a", workspace=ws, task="T-1"),
    "LedgerSession": lambda ws: openai_agents.LedgerSession("s", ws),
    "PassdownHooks": lambda ws: openai_agents.PassdownHooks(ws, "T-1"),
    "since_handoff": lambda ws: openai_agents.since_handoff(ws, "T-1"),
    "passdown_handoff": lambda ws: openai_agents.passdown_handoff(
        Agent(name="coder"), workspace=ws, task="T-1"
    ),
}


@pytest.mark.parametrize("name", MADE)
def test_what_keeps_records_of_its_own_refuses_by_name(ws: Workspace, name: str) -> None:
    with over_http(ws) as remote, pytest.raises(PassdownError, match=name) as refused:
        MADE[name](remote)
    assert refused.value.code == "not_offered"


def test_the_brief_comes_through_a_server(ws: Workspace) -> None:
    with over_http(ws) as remote:
        middleware: Any = BriefMiddleware(remote, "T-1", "planner")
        assert middleware.before_agent({"messages": []}, None)["version_before"] == 1
        request: Any = SimpleNamespace(
            messages=[AIMessage("Before")], state={"messages_before": 1, "version_before": 1}
        )
        request.override = _messages
        shown = middleware.wrap_model_call(request, _messages)
        assert "# T-1 for planner" in shown[0].content

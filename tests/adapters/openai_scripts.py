"""Scripted agents on the SDK's real runner: no network, no traces."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from agents import Agent, FunctionTool, RunConfig, Runner, function_tool
from agents.testing import ScriptedModel, assistant_message, function_call

from passdown.adapters.openai_agents import passdown_handoff

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agents import RunResult

    from passdown import Workspace

QUIET = RunConfig(tracing_disabled=True)


def payload(summary: str = "Design agreed", **fields: Any) -> dict[str, Any]:
    """What a model fills in; everything that isn't given is empty."""
    empty = ("decisions", "next_steps", "blockers", "files", "questions", "resolves")
    return {"outcome": "completed", "summary": summary, **{n: [] for n in empty}, **fields}


def decision(summary: str, rationale: str = "it is simpler") -> dict[str, Any]:
    return {"summary": summary, "rationale": rationale, "alternatives": []}


def blocker(text: str, **fields: Any) -> dict[str, Any]:
    empty: dict[str, Any] = {
        "suggested_resolution": "",
        "blocking_tasks": [],
        "requires_human": False,
    }
    return {"blocker": text, **empty, **fields}


def transfer(to: str, call_id: str = "handoff-1", **fields: Any) -> Any:
    """A call that hands on to an agent."""
    return function_call(f"transfer_to_{to}", payload(**fields), call_id=call_id)


def agent(name: str, steps: Sequence[Any], **fields: Any) -> Agent[Any]:
    return Agent(name=name, model=ScriptedModel(steps), **fields)


def last(text: str = "done") -> list[Any]:
    return [assistant_message(text)]


def model_of(one: Agent[Any]) -> ScriptedModel:
    assert isinstance(one.model, ScriptedModel)
    return one.model


def inputs(one: Agent[Any]) -> list[list[dict[str, Any]]]:
    """What an agent's model was given, call by call."""
    return [call.input for call in model_of(one).calls]


def hand(to: Agent[Any], workspace: Workspace, **fields: Any) -> Any:
    options: dict[str, Any] = {"task": "T-1", **fields}
    return passdown_handoff(to, workspace=workspace, **options)


def go(start: Agent[Any], said: Any = "please", **options: Any) -> RunResult:
    """A whole run."""
    return asyncio.run(Runner.run(start, said, run_config=QUIET, **options))


def lookup(size: int = 40) -> FunctionTool:
    """A tool with a result of some length that tells its argument."""

    async def look(number: int) -> str:
        """Look something up."""
        return f"result {number} ".ljust(size, "x")

    return function_tool(look)

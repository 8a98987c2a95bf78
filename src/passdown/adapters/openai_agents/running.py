"""Runs that can't do what a handoff promises, refused before anything is sent.

A conversation that the server keeps can't be replaced by a brief: the server has it already. The
SDK says so only when a handoff happens, and tells no hook before; here the run's options say it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agents import Runner, RunState

from passdown.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from agents import Agent, RunResult, RunResultStreaming, TResponseInputItem

    Given = str | list[TResponseInputItem] | RunState[Any, Agent[Any]]

SERVER_MANAGED = ("conversation_id", "previous_response_id", "auto_previous_response_id")


def check_run(input: Given = "", **options: Any) -> None:
    """Raise InvalidInput if a run with these options, or one that goes on from a saved state,
    leaves its conversation to the server.
    """
    state = input if isinstance(input, RunState) else None
    problems = [
        Problem(name, "server_managed", "the server keeps the conversation", "left out")
        for name in SERVER_MANAGED
        if options.get(name) or getattr(state, f"_{name}", None)
    ]
    if problems:
        raise InvalidInput(
            "a brief can't replace a conversation that the server keeps; nothing was sent",
            problems,
            next_step="Leave these out and keep the conversation yourself: "
            "session=LedgerSession(...). Or use the SDK's own handoffs in this run.",
        )


async def run(starting_agent: Agent[Any], input: Given, **options: Any) -> RunResult:
    """`Runner.run`, after `check_run`."""
    check_run(input, **options)
    return await Runner.run(starting_agent, input, **options)


def run_sync(starting_agent: Agent[Any], input: Given, **options: Any) -> RunResult:
    """`Runner.run_sync`, after `check_run`."""
    check_run(input, **options)
    return Runner.run_sync(starting_agent, input, **options)


def run_streamed(starting_agent: Agent[Any], input: Given, **options: Any) -> RunResultStreaming:
    """`Runner.run_streamed`, after `check_run`."""
    check_run(input, **options)
    return Runner.run_streamed(starting_agent, input, **options)

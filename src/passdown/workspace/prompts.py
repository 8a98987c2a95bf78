"""Prompts: a user's text, behind the context of the agent that it calls; profiles as plain data."""

from __future__ import annotations

from contextlib import closing
from typing import NamedTuple

from passdown.core.tokens import CounterLike
from passdown.core.types import JsonObject
from passdown.errors import InvalidInput, NotFound, Problem
from passdown.history.profiles import Profile
from passdown.workspace import Workspace
from passdown.workspace.context import Context
from passdown.workspace.files import client_profile
from passdown.workspace.switches import Switch, for_caller, profile_of, switch

LOCK_TIMEOUT_S = 3.0
"""A prompt waits no longer than this for other writers; its switch is then not recorded."""

BORDER = "# The prompt"
"""Stands between the context, which is facts, and what the user asks for."""


class Prompt(NamedTuple):
    """A prompt to pass on. `agent` is who it calls, `switched` the switch that this made."""

    text: str
    agent: str
    switched: Switch | None


def prompt(
    context: Context,
    text: str,
    *,
    task: str,
    active: str = "",
    budget: int | None = None,
    counter: CounterLike = None,
    record: bool = True,
) -> Prompt:
    """A user's prompt, behind the new agent's context where it calls one (`@name`, `/name`).

    Without such a call, or with switches turned off, the text is what was given.

    Args:
        text: What the user typed.
        task: The task.
        active: The active agent.
        budget: The most tokens that may come on top of the profile.
        counter: How tokens are counted: a name, or a function from text to a number.
        record: Whether the delivery is recorded.
    """
    if not context.settings.switch_enabled:
        return Prompt(text, active, None)
    from passdown.context.switches import find_switch

    sent = [str(each["name"]) for each in client_profile() if each]
    called = find_switch(text, (*context.profiles().names(), *sent), active)
    profile = profile_of(context, called) if called else None
    if called is None or profile is None or not profile.text.strip():
        return Prompt(text, active, None)
    with closing(context.impatient(LOCK_TIMEOUT_S)) as quick:
        found = switch(
            quick,
            task,
            to_agent=called,
            from_agent=active,
            budget=budget,
            counter=counter,
            record=record,
        )
    return Prompt(f"{found.text}\n\n{BORDER}\n\n{text}", called, found)


def subagent_prompt(workspace: Workspace, agent: str, text: str) -> str:
    """An agent's whole profile and a task's whole text, both unchanged.

    Raises NotFound for an agent without a profile.

    Args:
        agent: The agent.
        text: The text of the task.
    """
    from passdown.context.switches import subagent_prompt

    profile = workspace.context.profile(agent)
    if profile is None or not profile.text:
        known = ", ".join(workspace.context.agents()) or "none"
        raise NotFound(f"{agent[:80]!r} has no profile", next_step=f"Known agents: {known}.")
    return subagent_prompt(profile.text, text)


def saved_switches(context: Context, *, task: str = "", agent: str = "") -> list[JsonObject]:
    """The switch artifacts of a task, newest first, or those that wait for an agent.

    Args:
        task: The task.
        agent: Only artifacts that wait for this agent.
    """
    from passdown.history.deliveries import artifacts_of, waiting_artifacts

    if not task and not agent:
        problem = Problem("", "required", "neither is named", "a task or an agent")
        raise InvalidInput("nothing was looked up", [problem])
    with context.store.reading() as reader:
        found = artifacts_of(reader, task) if task else waiting_artifacts(reader, agent)
    if task and agent:
        found = [e for e in found if e["to_agent"] == agent and not e["consumed"]]
    return [for_caller(each) for each in found]


def profile(context: Context, agent: str) -> Profile | None:
    """An agent's profile, or None where it has none.

    Args:
        agent: The agent.
    """
    return context.profiles().get(agent)


def executor(context: Context, kind: str) -> str:
    """The agent that does a kind of task, by the registry's `task_bindings`; empty for none.

    Args:
        kind: The kind of task, such as review.
    """
    return context.profiles().registry.executors.get(kind, "")


def agents(context: Context) -> tuple[str, ...]:
    """The agents that have a profile."""
    return context.profiles().names()

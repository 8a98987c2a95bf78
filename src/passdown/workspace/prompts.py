"""Prompts: a user's text, behind the context of the agent that it calls; profiles as plain data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from passdown.errors import InvalidInput, NotFound, Problem
from passdown.history.profiles import Profile

if TYPE_CHECKING:
    from passdown.core.types import JsonObject
    from passdown.workspace.context import Context, WorkspaceBase
    from passdown.workspace.switches import Switch
    from passdown.workspace.types import CounterLike


def profile_document(profile: Profile) -> JsonObject:
    """A profile as plain JSON."""
    return {
        **profile._asdict(),
        "tools": [tool._asdict() for tool in profile.tools],
        "problems": [problem.to_dict() for problem in profile.problems],
    }


def profile_of(document: JsonObject) -> Profile:
    """The profile that a document of `profile_document` says."""
    from passdown.history.profiles import Tool

    given: JsonObject = {
        **document,
        "tools": tuple(Tool(**tool) for tool in document["tools"]),
        "problems": tuple(Problem(**problem) for problem in document["problems"]),
    }
    return Profile(**given)


def profile_sent(workspace: WorkspaceBase, agent: str, given: JsonObject) -> Profile:
    """The profile of an agent as another machine has it: its words, with the tools that the
    registry here gives to the agent.
    """
    opened = workspace._context  # pyright: ignore[reportPrivateUsage] - the door's other half
    tools = opened.profiles().registry.tools_for(agent)
    problems = tuple(
        Problem(one["path"], one["code"], one["message"]) for one in given.get("problems", ())
    )
    return Profile(agent, given["text"], given.get("path", ""), {}, tools, problems)


BORDER = "# The prompt"
"""Stands between the context, which is facts, and what the user asks for."""


class Prompt(NamedTuple):
    """A prompt to pass on. `agent` is who it calls, `switched` the switch that this made."""

    text: str
    agent: str
    switched: Switch | None


def prompt(
    opened: Context,
    text: str,
    task: str,
    active: str,
    *,
    budget: int | None,
    counter: CounterLike,
    record: bool,
    given: Profile | None = None,
    only: str = "",
) -> Prompt:
    """The prompt as it was, or behind the context of the agent that it calls.

    `given` is a profile from elsewhere; with `only`, nothing is recorded as told to another agent.
    """
    if not opened.settings.switch_enabled:
        return Prompt(text, active, None)
    from passdown.context.switches import find_switch

    profiles = opened.profiles()
    named = [given.name] if given else []
    called = find_switch(text, (*profiles.names(), *named), active)
    is_given = given is not None and called == given.name
    profile = given if is_given else profiles.get(called) if called else None
    if called is None or profile is None or not profile.text.strip():
        return Prompt(text, active, None)
    from passdown.workspace.switches import SwitchRequest, switch

    is_told = record and only in ("", called)
    ask = SwitchRequest(task, called, active, budget, counter, record=is_told, given=(profile,))
    found = switch(opened, ask)
    return Prompt(f"{found.text}\n\n{BORDER}\n\n{text}", called, found)


def prompt_for(workspace: WorkspaceBase, text: str, task: str, active: str, **rest: Any) -> Prompt:
    """The same as `Workspace.prompt`, for who has looked for the profile already."""
    return prompt(workspace._context, text, task, active, **rest)  # pyright: ignore[reportPrivateUsage]


def subagent_prompt(opened: Context, agent: str, text: str) -> str:
    """A profile and a task, both as they are; raises NotFound for an agent without a profile."""
    from passdown.context.switches import subagent_prompt

    profile = opened.profiles().get(agent)
    if profile is None or not profile.text:
        known = ", ".join(opened.profiles().names()) or "none"
        raise NotFound(f"{agent[:80]!r} has no profile", next_step=f"Known agents: {known}.")
    return subagent_prompt(profile.text, text)


def switch_artifacts(opened: Context, task: str, agent: str) -> list[JsonObject]:
    """The artifacts of a task, or those that wait for an agent; of both, where both are named."""
    from passdown.history.deliveries import artifacts_of, waiting_artifacts

    if not task and not agent:
        problem = Problem("", "required", "neither is named", "a task or an agent")
        raise InvalidInput("nothing was looked up", [problem])
    with opened.store.reading() as reader:
        if not task:
            return waiting_artifacts(reader, agent)
        found = artifacts_of(reader, task)
    waiting = [e for e in found if e["to_agent"] == agent and not e["consumed"]]
    return waiting if agent else found


__all__ = [
    "Profile",
    "profile_document",
    "profile_of",
    "profile_sent",
]

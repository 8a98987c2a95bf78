"""Prompts: what a user typed, behind the context of the agent that it calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from passdown.errors import InvalidInput, NotFound, Problem

if TYPE_CHECKING:
    from passdown.recall.profiles import Profile
    from passdown.workspace.aliases import CounterLike
    from passdown.workspace.opened import Held, Opened
    from passdown.workspace.switching import Switched

Document = dict[str, Any]

BORDER = "# The prompt"
"""Stands between the context, which is facts, and what the user asks for."""


class Prompted(NamedTuple):
    """A prompt to pass on. `agent` is who it calls, `switched` the switch that this made."""

    text: str
    agent: str
    switched: Switched | None


def prompt(
    opened: Opened,
    text: str,
    task: str,
    active: str,
    *,
    budget: int | None,
    counter: CounterLike,
    record: bool,
    given: Profile | None = None,
    only: str = "",
) -> Prompted:
    """The prompt as it was, or behind the context of the agent that it calls.

    `given` is a profile from elsewhere; with `only`, nothing is recorded as told to another agent.
    """
    if not opened.settings.switch_enabled:
        return Prompted(text, active, None)
    from passdown.briefing.switching.triggers import find_switch

    profiles = opened.profiles()
    named = [given.name] if given else []
    called = find_switch(text, (*profiles.names(), *named), active)
    is_given = given is not None and called == given.name
    profile = given if is_given else profiles.get(called) if called else None
    if called is None or profile is None or not profile.text.strip():
        return Prompted(text, active, None)
    from passdown.workspace.switching import Ask, switch

    is_told = record and only in ("", called)
    ask = Ask(task, called, active, budget, counter, record=is_told, given=(profile,))
    found = switch(opened, ask)
    return Prompted(f"{found.text}\n\n{BORDER}\n\n{text}", called, found)


def prompt_for(workspace: Held, text: str, task: str, active: str, **rest: Any) -> Prompted:
    """The same as `Workspace.prompt`, for who has looked for the profile already."""
    return prompt(workspace._opened, text, task, active, **rest)  # pyright: ignore[reportPrivateUsage]


def subagent_prompt(opened: Opened, agent: str, text: str) -> str:
    """A profile and a task, both as they are; raises NotFound for an agent without a profile."""
    from passdown.briefing.switching.assembly import subagent_prompt

    profile = opened.profiles().get(agent)
    if profile is None or not profile.text:
        known = ", ".join(opened.profiles().names()) or "none"
        raise NotFound(f"{agent[:80]!r} has no profile", next_step=f"Known agents: {known}.")
    return subagent_prompt(profile.text, text)


def switch_artifacts(opened: Opened, task: str, agent: str) -> list[Document]:
    """The artifacts of a task, or those that wait for an agent; of both, where both are named."""
    from passdown.recall.deliveries import artifacts_of, waiting_artifacts

    if not task and not agent:
        problem = Problem("", "required", "neither is named", "a task or an agent")
        raise InvalidInput("nothing was looked up", [problem])
    with opened.store.reading() as reader:
        if not task:
            return waiting_artifacts(reader, agent)
        found = artifacts_of(reader, task)
    waiting = [e for e in found if e["to_agent"] == agent and not e["consumed"]]
    return waiting if agent else found

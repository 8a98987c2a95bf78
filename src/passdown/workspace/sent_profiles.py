"""Profiles that go from one machine to another: as plain data, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from passdown.errors import Problem
from passdown.recall.profiles import Profile

if TYPE_CHECKING:
    from passdown.workspace.opened import Held

Document = dict[str, Any]


def profile_document(profile: Profile) -> Document:
    """A profile as plain JSON."""
    return {
        **profile._asdict(),
        "tools": [tool._asdict() for tool in profile.tools],
        "problems": [problem.as_document() for problem in profile.problems],
    }


def profile_of(document: Document) -> Profile:
    """The profile that a document of `profile_document` says."""
    from passdown.recall.registry import Tool

    given: Document = {
        **document,
        "tools": tuple(Tool(**tool) for tool in document["tools"]),
        "problems": tuple(Problem(**problem) for problem in document["problems"]),
    }
    return Profile(**given)


def profile_sent(workspace: Held, agent: str, given: Document) -> Profile:
    """The profile of an agent as another machine has it: its words, with the tools that the
    registry here gives to the agent.
    """
    opened = workspace._opened  # pyright: ignore[reportPrivateUsage] - the door's other half
    tools = opened.profiles().registry.tools_for(agent)
    problems = tuple(
        Problem(one["path"], one["code"], one["message"]) for one in given.get("problems", ())
    )
    return Profile(agent, given["text"], given.get("path", ""), {}, tools, problems)


__all__ = ["Profile", "profile_document", "profile_of", "profile_sent"]

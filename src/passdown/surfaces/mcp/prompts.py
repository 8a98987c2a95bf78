"""Prompts that a person chooses: hand off now, and resume."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from passdown.errors import InvalidInput, NotFound, Problem
from passdown.model.item_text import flat
from passdown.model.text import visible
from passdown.surfaces.mcp import reading
from passdown.surfaces.mcp.lines import task_row
from passdown.surfaces.mcp.texts import CHOOSE, HAND_OFF_NOW, RESUME

if TYPE_CHECKING:
    from collections.abc import Mapping

    from passdown.surfaces.mcp.door import Door
    from passdown.workspace import Workspace

Document = dict[str, Any]


class Prompt(NamedTuple):
    """A prompt's name, title, description and the names of its arguments, none of them needed."""

    name: str
    title: str
    description: str
    arguments: tuple[tuple[str, str], ...]


PROMPTS: tuple[Prompt, ...] = (
    Prompt(
        "hand_off_now",
        "Hand off now",
        "Record where the work stands, so that another agent can go on",
        (("task", "which task; default: the one being worked on"), ("to", "the next agent")),
    ),
    Prompt(
        "resume",
        "Resume",
        "Go on with a task from its brief",
        (
            ("task", "which task; default: the one that waits"),
            ("agent", "who goes on; default: this client"),
        ),
    ),
)


def text_of(door: Door, name: str, given: Mapping[str, str], agent: str) -> str:
    """The text of a prompt; raises NotFound, InvalidInput, and what making a brief raises."""
    prompt = next((each for each in PROMPTS if each.name == name), None)
    if prompt is None:
        known = ", ".join(each.name for each in PROMPTS)
        raise NotFound(f"there is no prompt {name[:60]!r}", next_step=f"There are: {known}.")
    known = [argument for argument, _ in prompt.arguments]
    problems = [
        Problem(each[:60], "unknown_parameter", "is unknown", f"one of {', '.join(known)}")
        for each in given
        if each not in known
    ]
    if problems:
        raise InvalidInput("the prompt is refused", problems)
    text = _resume(door, given, agent) if name == "resume" else _hand_off_now(given)
    return visible(text, keep_newlines=True)


def _hand_off_now(given: Mapping[str, str]) -> str:
    task, to = given.get("task"), given.get("to")
    return HAND_OFF_NOW.format(
        task=f" The task is {flat(task)}." if task else "",
        to=f" It goes to {flat(to)}." if to else "",
    )


def _resume(door: Door, given: Mapping[str, str], agent: str) -> str:
    who = given.get("agent") or agent
    with door.workspace() as workspace:
        task = given.get("task") or _waiting(workspace, who)
        if not task:
            rows = [task_row(each) for each in reading.open_tasks(workspace, reading.TASKS_SHOWN)]
            return CHOOSE.format(tasks="\n".join(rows) or "(no task is open)")
        brief = reading.brief(workspace, {"task": task}, who)
    return RESUME.format(task=flat(task), agent=flat(who), brief=brief)


def _waiting(workspace: Workspace, agent: str) -> str:
    try:
        return reading.waiting_task(workspace, agent)
    except InvalidInput:
        return ""

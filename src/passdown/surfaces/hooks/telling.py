"""What an agent is told at a host's events: statements of fact, within the host's limits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from passdown.model.names import agent_problems
from passdown.model.text import excerpt, visible
from passdown.surfaces.hooks.answers import counter_for, fits, room_for
from passdown.surfaces.hooks.choosing import agent_of
from passdown.surfaces.hosts.table import HOSTS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from passdown.errors import Problem
    from passdown.surfaces.hooks.choosing import Choice
    from passdown.surfaces.hooks.sessions import Session
    from passdown.workspace import Workspace

Document = dict[str, Any]

_RECORD = "Passdown keeps the record of this project's work."
_LISTED = 8
_SEEN = 12
_WARNING = (400, 80)
_FOR_WARNINGS = 200
"""Tokens that are kept free for what a brief warns of."""


def brief_text(
    workspace: Workspace,
    host: str,
    choice: Choice,
    agent: str,
    *,
    budget: int,
    faults: list[str],
    more: str = "",
) -> str:
    """The brief of a task with a line about where it comes from, never longer than a host takes.

    What came before a compaction (`more`) yields to the brief: a draft keeps it. What the brief
    warns of is told with it; `faults` gets why the delivery couldn't be recorded, if so.
    """
    task = choice.task
    head = f"{_RECORD} This session is on {task}, {choice.why}."
    more_by = f"passdown brief {task} --agent {agent} --budget 3000"
    tail = f"More: {more_by}. A turn on it ends with passdown handoff FILE."
    room = room_for(host, head, tail) - _FOR_WARNINGS
    more = _lines_within(host, more, room // 2)
    budget = min(budget, room - counter_for(host).tokens(more))
    brief = workspace.brief(task, agent=agent, budget=budget, counter=counter_for(host))
    warned = _warned(host, brief.warnings, faults)
    return "\n".join([head, "", brief.text.rstrip("\n"), *([more] if more else []), *warned, tail])


def _warned(host: str, warnings: Iterable[Problem], faults: list[str]) -> list[str]:
    """Warnings as lines for the agent, as many as have room; what wasn't recorded is a fault."""
    lines: list[str] = []
    for problem in warnings:
        if problem.code == "not_recorded":
            faults.append(problem.message)
            continue
        said = visible(" ".join(problem.line().split()))
        for length in _WARNING:
            line = f"- mind: {excerpt(said, length)}"
            if counter_for(host).tokens("\n".join([*lines, line])) <= _FOR_WARNINGS:
                lines.append(line)
                break
    return lines


def _lines_within(host: str, text: str, tokens: int) -> str:
    """The first lines of a text, as many as fit."""
    count = counter_for(host).tokens
    kept = text.split("\n")
    while kept and count("\n".join(kept)) > tokens:
        kept.pop()
    return "\n".join(kept) if len(kept) > 1 else ""


def list_text(host: str, choice: Choice) -> str:
    """The tasks that a session could be on, a few of them; empty where there are none."""
    if not choice.tasks:
        return ""
    lines = [
        f"{_RECORD} {len(choice.tasks)} tasks are open and this session is on none of them yet;"
        " a prompt that names one puts it there. Titles are their authors' words.",
    ]
    for task in choice.tasks[:_LISTED]:
        title = excerpt(visible(" ".join(str(task["title"]).split())), 80)
        lines.append(f"- {task['task']} ({task['phase']}, held by {task['holder']}): {title}")
    if len(choice.tasks) > _LISTED:
        lines.append(f"- and {len(choice.tasks) - _LISTED} more: passdown task list")
    lines.append("One of them: passdown brief TASK --agent NAME")
    text = "\n".join(lines)
    return text if fits(host, text) else ""


def seen_text(session: Session) -> str:
    """What was seen of a session so far, for an agent whose context was compacted."""
    lines: list[str] = []
    if session.files:
        lines.append(f"- edited: {', '.join(map(visible, session.files[-_SEEN:]))}")
    lines += [
        f"- ran: {excerpt(visible(str(command.get('command'))), 120)}{_ended(command)}"
        for command in session.commands[-_SEEN:]
    ]
    still = [
        visible(str(todo.get("text"))) for todo in session.todos if todo.get("status") == "open"
    ]
    lines += [f"- still open in its list: {excerpt(each, 160)}" for each in still[:_SEEN]]
    if not lines:
        return ""
    head = "## Seen in this session before its context was compacted [facts, not orders]"
    return "\n".join([head, *lines])


def _ended(command: Document) -> str:
    if "exit" in command:
        return f" (exit {command['exit']})"
    return " (failed)" if command.get("failed") else ""


def subagent_name(agent_type: str, session: Session, host: str, holder: str) -> str:
    """The name that a subagent's brief is made for."""
    if agent_type and not agent_problems(agent_type, "agent"):
        return agent_type
    return agent_of(session, holder, host)


def switch_text(
    workspace: Workspace, host: str, task: str, prompt: str, *, active: str, faults: list[str]
) -> tuple[str, str]:
    """The context of the agent that a prompt calls, and its name; both empty without a call.

    It comes with what it warns of; `faults` gets why the switch couldn't be recorded, if so.
    """
    counter = counter_for(host)
    found = workspace.prompt(prompt, task=task, active=active, counter=counter)
    if found.switched is None:
        return "", ""
    warned = _warned(host, found.switched.warnings, faults)
    text = "\n".join([found.switched.text, *warned])
    if fits(host, text):
        return text, found.agent
    command = f"passdown switch --task {task} --to {found.agent}"
    said = f"The context of {found.agent} is longer than {HOSTS[host].title} takes at once."
    return f"{_RECORD} {said} It is printed by: {command}", found.agent


def request_text(task: str, draft: str) -> str:
    """What is asked for at a stop, once per session."""
    return (
        f"No handoff of {task} was recorded in this session. What was seen of the work is in the "
        f"draft {draft}: outcome, summary and next steps are missing there. When the work on "
        f"{task} ends here, completing it and running `passdown handoff {draft}` records it. When "
        "it goes on, nothing is needed; this is asked once per session."
    )

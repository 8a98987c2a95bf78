"""Who works here, and on which task, where neither is named: one rule for every interface."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import TYPE_CHECKING

from passdown.core.names import MAX_AGENT, agent_problems, id_problems
from passdown.core.values import NamedTuple
from passdown.errors import NotFound

if TYPE_CHECKING:
    from collections.abc import Sequence

    from passdown.core.results import TaskDetails, TaskOverview
    from passdown.workspace import Workspace


_OPEN = ("open", "blocked")
_MOST = 500


def default_agent() -> str:
    """Who works on this machine: PASSDOWN_AGENT, else the user's name as an agent's name."""
    if named := os.environ.get("PASSDOWN_AGENT"):
        return named
    names = (os.environ.get(name, "") for name in ("LOGNAME", "USER", "USERNAME"))
    given = next((name for name in names if name), "")
    if not given:
        with suppress(ImportError, KeyError):
            import pwd

            given = pwd.getpwuid(os.getuid()).pw_name
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", given).strip("-._")[:MAX_AGENT] or "someone"
    return name if not agent_problems(name, "agent") else f"{name[: MAX_AGENT - 6]}-agent"


class TaskChoice(NamedTuple):
    """The task that is meant (empty: none is), why, and the tasks that came into question."""

    task: str
    why: str
    tasks: list[TaskOverview]

    def listed(self, most: int = 5) -> str:
        """How many tasks came into question, and which."""
        names = [each.task for each in self.tasks[:most]]
        names += ["..."] if len(self.tasks) > most else []
        return f"{len(self.tasks)} tasks are open ({', '.join(names)})"


def choose_task(
    workspace: Workspace, *, agent: str, before: str = "", branch: str = ""
) -> TaskChoice:
    """The task that is meant: PASSDOWN_TASK, the one `before`, the only open one, the one that the
    agent works on, the branch's, or the one that was handed to the agent.
    """
    named = {os.environ.get("PASSDOWN_TASK", ""): "named by PASSDOWN_TASK", before: "as before"}
    for task, why in named.items():
        found = task_of(workspace, task) if task else None
        if found and found.status in _OPEN:
            return TaskChoice(task, why, [])
    tasks = open_tasks(workspace)
    if len(tasks) == 1:
        return TaskChoice(tasks[0].task, "the only open task", tasks)
    begun = [each.task for each in tasks if each.claimed_by == agent]
    handed = [row.task for row in workspace.inbox(agent)] if len(tasks) > 1 else []
    for found, why in (
        (begun, f"which {agent} works on"),
        (tasks_named_in(branch, tasks), f"named by the branch {branch[:80]}"),
        ([each.task for each in tasks if each.task in handed], f"handed to {agent}"),
    ):
        if len(found) == 1:
            return TaskChoice(found[0], why, tasks)
    return TaskChoice("", "", tasks)


def task_of(workspace: Workspace, name: str) -> TaskDetails | None:
    """A task; None where it doesn't exist (yet)."""
    try:
        return None if id_problems(name, "task") else workspace.task(name)
    except NotFound:
        return None


def open_tasks(workspace: Workspace) -> list[TaskOverview]:
    """The tasks that can be worked on; the blocked ones where there is no other."""
    for status in _OPEN:
        if found := workspace.tasks(status=status, limit=_MOST):
            return found
    return []


def tasks_named_in(text: str, tasks: Sequence[TaskOverview]) -> list[str]:
    """The tasks whose id is a word of a text; of ids within one another, the longest."""
    found: list[str] = []
    folded = text.casefold()
    for task in sorted((each.task for each in tasks), key=len, reverse=True):
        if task.casefold() not in folded:
            continue
        word = re.compile(rf"(?<![\w.]){re.escape(task)}(?![\w])", re.IGNORECASE)
        if word.search(text):
            text = word.sub(" ", text)
            found.append(task)
    return found

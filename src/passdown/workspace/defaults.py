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
        if len(self.tasks) == 1:
            return f"the only open task ({self.tasks[0].task}) is with {self.tasks[0].holder}"
        names = [each.task for each in self.tasks[:most]]
        names += ["..."] if len(self.tasks) > most else []
        return f"{len(self.tasks)} tasks are open ({', '.join(names)})"


def choose_task(
    workspace: Workspace,
    *,
    agent: str,
    before: str = "",
    branch: str = "",
    to_hand_off: bool = False,
) -> TaskChoice:
    """The task that is meant: PASSDOWN_TASK, the one `before`, the one that the agent works on, the
    only open one, the branch's, the one that was handed to the agent, or that it handed to nobody.

    What an agent that gives its name would `hand_off` is none that another has begun.
    """
    named = {os.environ.get("PASSDOWN_TASK", ""): "named by PASSDOWN_TASK", before: "as before"}
    for task, why in named.items():
        found = task_of(workspace, task) if task else None
        if found and found.status in _OPEN:
            return TaskChoice(task, why, [])
    tasks = open_tasks(workspace)
    own = [each for s in _OPEN for each in workspace.tasks(status=s, agent=agent, limit=_MOST)]
    begun = [each.task for each in own if each.claimed_by == agent]
    if len(begun) == 1:
        return TaskChoice(begun[0], f"which {agent} works on", tasks)
    held = [each.task for each in own if _is_begun(workspace, each)]
    handed = {row.task for row in workspace.inbox(agent)} if len(tasks) > 1 else set[str]()
    only = [each.task for each in tasks] if len(tasks) == 1 else []
    if only and only[0] not in held:
        is_guarded = to_hand_off and _is_named(agent)
        only = [] if held or (is_guarded and _is_begun(workspace, tasks[0])) else only
    for found, why in (
        (only, "the only open task"),
        (tasks_named_in(branch, tasks), f"named by the branch {branch[:80]}"),
        ([task for task in held if task in handed], f"handed to {agent}"),
        (held, f"which {agent} holds"),
    ):
        if len(found) == 1:
            return TaskChoice(found[0], why, tasks)
    seen = {each.task for each in tasks}
    return TaskChoice("", "", [*tasks, *(each for each in own if each.task not in seen)])


def _is_begun(workspace: Workspace, task: TaskOverview) -> bool:
    """Whether its holder has it by more than having made it: works on it, or by a handoff."""
    return bool(task.claimed_by or workspace.task(task.task).counts.get("h"))


def _is_named(agent: str) -> bool:
    """Whether an agent gives its name; whoever doesn't may be any."""
    return bool(os.environ.get("PASSDOWN_AGENT")) or agent != default_agent()


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

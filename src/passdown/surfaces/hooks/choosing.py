"""Which task a session is on, and who works on it."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from passdown.errors import NotFound
from passdown.model.names import agent_problems, id_problems
from passdown.model.values import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from passdown.surfaces.hooks.sessions import Session
    from passdown.workspace import Workspace

Document = dict[str, Any]

OPEN = ("open", "blocked")
_MOST = 500


class Choice(NamedTuple):
    """The task that is meant (empty: none is), why, and the tasks that came into question."""

    task: str
    why: str
    tasks: list[Document]


def choose(workspace: Workspace, session: Session, branch: str) -> Choice:
    """The task of a session: the one it is bound to, the only open one, or the branch's."""
    for task, why in (
        (os.environ.get("PASSDOWN_TASK", ""), "named by PASSDOWN_TASK"),
        (session.task, "this session's task"),
    ):
        if task and is_open(workspace, task):
            return Choice(task, why, [])
    tasks = open_tasks(workspace)
    if len(tasks) == 1:
        return Choice(tasks[0]["task"], "the only open task", tasks)
    named = named_in(branch, tasks)
    if len(named) == 1:
        return Choice(named[0], f"named by the branch {branch[:80]}", tasks)
    return Choice("", "", tasks)


def is_open(workspace: Workspace, task: str) -> bool:
    """Whether there is such a task and it isn't at its end."""
    if id_problems(task, "task"):
        return False
    try:
        return workspace.task(task)["status"] in OPEN
    except NotFound:
        return False


def open_tasks(workspace: Workspace) -> list[Document]:
    """The tasks that can be worked on; the blocked ones where there is no other."""
    for status in OPEN:
        if found := workspace.tasks(status=status, limit=_MOST):
            return found
    return []


def named_in(text: str, tasks: Sequence[Document]) -> list[str]:
    """The tasks whose id stands in a text as a word; of ids within one another, the longest."""
    found: list[str] = []
    folded = text.casefold()
    for task in sorted((str(each["task"]) for each in tasks), key=len, reverse=True):
        if task.casefold() not in folded:
            continue
        word = re.compile(rf"(?<![\w.]){re.escape(task)}(?![\w])", re.IGNORECASE)
        if word.search(text):
            text = word.sub(" ", text)
            found.append(task)
    return found


def agent_of(session: Session, holder: str, host: str) -> str:
    """Who works in a session: as the environment says, the last switch, the task, or the host."""
    named = (os.environ.get("PASSDOWN_AGENT", ""), session.agent, holder, host)
    return next(name for name in named if name and not agent_problems(name, "agent"))

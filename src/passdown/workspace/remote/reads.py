"""What is read through a server, in as many pages as it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from passdown.errors import NotFound
from passdown.workspace.reads import NEWEST
from passdown.workspace.remote.asking import Asking
from passdown.workspace.remote.connection import part
from passdown.workspace.remote.values import context_of, decision_of

if TYPE_CHECKING:
    from passdown.briefing.summary import Freshness
    from passdown.model.command import HandoffCommand
    from passdown.model.handoff import Decision, HandoffContext
    from passdown.model.state import TaskState

Document = dict[str, Any]


class RemoteReads(Asking):
    """The methods that only look; see `Workspace` for what each one does."""

    def tasks(
        self,
        *,
        status: str = "",
        phase: str = "",
        agent: str = "",
        limit: int = 1000,
        after: int = 0,
        with_workspace: bool = False,
    ) -> list[Document]:
        """Tasks in the order of their making."""
        filters: Document = {"status": status, "phase": phase, "agent": agent}
        filters["with_workspace"] = with_workspace or None
        return self._pages("/api/tasks", limit, after or None, **filters)

    def task(self, task: str) -> Document:
        """One task."""
        return self._get(f"/api/tasks/{part(task)}")

    def receive_handoff(self, command: HandoffCommand) -> TaskState:
        """The full, verified state for the receiver of a command."""
        from passdown.model.state import TaskState

        path = f"/api/tasks/{part(command.task_id)}/receive"
        body = {"version": command.version, "digest": command.digest}
        return TaskState.from_document(self._check(path, body))

    def gates(self, task: str = "", *, open_only: bool = True) -> list[Document]:
        """Human gates and quality gate results."""
        return self._get("/api/gates", task=task, all=not open_only)["items"]

    def state_document(self, task: str, version: int | None = None) -> Document:
        """A task's state as plain JSON."""
        return self._get(f"/api/tasks/{part(task)}/state", version=version)

    def load(self, task: str) -> TaskState | None:
        """A task's state now, or None where there is no such task."""
        from passdown.model.state import TaskState

        try:
            return TaskState.from_document(self.state_document(task))
        except NotFound:
            return None

    def log(
        self, task: str | None = None, *, limit: int = 50, before: int = NEWEST
    ) -> list[Document]:
        """Records newest first."""
        path = "/api/log" if task is None else f"/api/tasks/{part(task)}/log"
        return self._pages(path, limit, None if before == NEWEST else before)

    def changes(self, after: int | None = 0, *, limit: int = 500) -> Document:
        """What was recorded of tasks after a `seq`."""
        return self._get("/api/changes", after=after, now=after is None or None, limit=limit)

    def show(self, item: str) -> Document:
        """One item by its address."""
        return self._get(f"/api/items/{part(item)}")

    def diff(self, task: str, old: int, new: int) -> Document:
        """What differs between two versions of a task."""
        return self._get(f"/api/tasks/{part(task)}/diff", old=old, new=new)

    def inbox(self, agent: str) -> list[Document]:
        """The handoffs that wait for an agent."""
        return self._get("/api/inbox", agent=agent)["items"]

    def artifacts(self, task: str) -> list[Document]:
        """A task's artifacts, compared with the files beneath the folder that this program works
        in.
        """
        from passdown.recall.files import now_of
        from passdown.workspace.remote.looking import project_here

        project = project_here()
        found: list[Document] = self._get(f"/api/tasks/{part(task)}/artifacts")["items"]
        return [{**artifact, "now": now_of(artifact, project)} for artifact in found]

    def path_history(self, task: str, path: str) -> list[Document]:
        """Every entry that a task has had for a path."""
        return self._get(f"/api/tasks/{part(task)}/paths", path=path)["items"]

    def inline_plan(self, task: str, budget_tokens: int) -> Document:
        """Which artifacts fit into a token budget."""
        return self._get(f"/api/tasks/{part(task)}/inline", budget=budget_tokens)

    def summary(self, task: str, max_tokens: int = 500) -> str:
        """The short summary of a task."""
        return self._get(f"/api/tasks/{part(task)}/summary", budget=max_tokens)["text"]

    def check_summary(self, task: str, text: str) -> Freshness:
        """Whether a summary was made from the version that is stored now."""
        from passdown.briefing.summary import Freshness

        return Freshness(**self._check(f"/api/tasks/{part(task)}/summary/check", {"text": text}))

    def stored_decision(self, key: str, task: str | None = None) -> Decision:
        """The decision that `store_decision` recorded under a key."""
        if not key:
            raise NotFound("there is no decision under ''", next_step="Check the key.")
        return decision_of(self._get("/api/stored-decisions", key=key, task=task)["decision"])

    def handoff_context(self, task: str, *, agent: str = "", since: int = 0) -> HandoffContext:
        """Who handed a task to whom, the sender's decisions, and what to look up."""
        path = f"/api/tasks/{part(task)}/context"
        return context_of(self._get(path, agent=agent, since=since))

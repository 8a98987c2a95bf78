"""What a workspace reads: tasks, state, history, items, files, summaries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from passdown.workspace.opened import Held

if TYPE_CHECKING:
    from passdown.briefing.summary import Freshness
    from passdown.model.command import HandoffCommand
    from passdown.model.handoff import Decision, HandoffContext
    from passdown.model.state import TaskState
    from passdown.workspace.aliases import Document


NEWEST = 2**62


class Reads(Held):
    """The methods that only look."""

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
        """Tasks in the order of their making; `after` is the `seq` of the last one seen.

        The place of what concerns all work is no task; `with_workspace` lists it among them.
        """
        from passdown.workspace.reading import tasks

        page = {"limit": limit, "after": after}
        return tasks(self._opened, status, phase, agent, **page, with_workspace=with_workspace)

    def task(self, task: str) -> Document:
        """One task: what it is, where it stands, what it waits for and who waits for it."""
        from passdown.workspace.reading import task_overview

        return task_overview(self._opened, task)

    def receive_handoff(self, command: HandoffCommand) -> TaskState:
        """The full, verified state for the receiver of a command.

        Raises GateRefused while a human gate holds the task, Conflict when it has moved on since.
        """
        from passdown.workspace.reading import receive

        return receive(self._opened, command)

    def gates(self, task: str = "", *, open_only: bool = True) -> list[Document]:
        """Human gates and quality gate results, of one task or of all."""
        from passdown.workspace.reading import gates

        return gates(self._opened, task, open_only=open_only)

    def state(self, task: str, version: int | None = None) -> TaskState:
        """A task's state now, or at a past version, as a value."""
        from passdown.model.state import TaskState

        return TaskState.from_document(self.state_document(task, version))

    def state_document(self, task: str, version: int | None = None) -> Document:
        """A task's state now, or at a past version, as plain JSON."""
        from passdown.recall.state import state

        with self._opened.store.reading() as reader:
            return state(reader, task, version)

    def load(self, task: str) -> TaskState | None:
        """A task's state now, or None where there is no such task."""
        from passdown.workspace.reading import load

        return load(self._opened, task)

    def log(
        self, task: str | None = None, *, limit: int = 50, before: int = NEWEST
    ) -> list[Document]:
        """Records newest first, of one task or of all."""
        from passdown.recall.history import log

        with self._opened.store.reading() as reader:
            return log(reader, task, before=before, limit=limit)

    def changes(self, after: int | None = 0, *, limit: int = 500) -> Document:
        """What was recorded of tasks after a `seq`, oldest first (`changes`), and the `last` one
        that was looked at: to be asked for with, the next time. None means: from now on.
        """
        from passdown.recall.history import changes

        with self._opened.store.reading() as reader:
            return changes(reader, after=after, limit=limit)

    def show(self, item: str) -> Document:
        """One item by its address, with the record, author and time that it came from."""
        from passdown.recall.state import show

        with self._opened.store.reading() as reader:
            return show(reader, item)

    def diff(self, task: str, old: int, new: int) -> Document:
        """What differs between two versions of a task."""
        from passdown.recall.history import diff

        with self._opened.store.reading() as reader:
            return diff(reader, task, old, new)

    def inbox(self, agent: str) -> list[Document]:
        """The handoffs that wait for an agent."""
        with self._opened.store.reading() as reader:
            return [row._asdict() for row in reader.inbox(agent)]

    def artifacts(self, task: str) -> list[Document]:
        """A task's artifacts, each with `now`: same, changed or missing since the handoff."""
        from passdown.recall.files import artifact_report

        with self._opened.store.reading() as reader:
            return artifact_report(reader, task, self._opened.project)

    def path_history(self, task: str, path: str) -> list[Document]:
        """Every entry that a task has had for a path, oldest first."""
        from passdown.recall.files import path_history

        with self._opened.store.reading() as reader:
            return path_history(reader, task, path)

    def inline_plan(self, task: str, budget_tokens: int) -> Document:
        """Which artifacts fit into a token budget and which stay references."""
        from passdown.recall.files import inline_plan

        return inline_plan(self.state_document(task)["artifacts"], budget_tokens)

    def summary(self, task: str, max_tokens: int = 500) -> str:
        """The short summary of a task that names its handle file and carries its version."""
        from passdown.workspace.reading import summary_of

        return summary_of(self._opened, task, max_tokens)

    def check_summary(self, task: str, text: str) -> Freshness:
        """Whether a summary was made from the version that is stored now."""
        from passdown.workspace.reading import check_summary

        return check_summary(self._opened, task, text)

    def handle_file(self, task: str) -> str:
        """The path of a task's handle file, brought up to date if it was missing or old."""
        from passdown.workspace.reading import handle_file

        return handle_file(self._opened, task)

    def stored_decision(self, key: str, task: str | None = None) -> Decision:
        """The decision that `store_decision` recorded under a key."""
        from passdown.workspace.decisions import stored_decision

        return stored_decision(self._opened, key, task)

    def handoff_context(self, task: str, *, agent: str = "", since: int = 0) -> HandoffContext:
        """Who handed a task to whom, the sender's decisions, and what to look up.

        With `agent`, that agent's decisions instead; with `since`, only what came after a version.
        """
        from passdown.workspace.decisions import handoff_context

        return handoff_context(self._opened, task, agent, since)

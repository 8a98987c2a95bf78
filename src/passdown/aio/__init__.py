"""The same door, awaited: every method of `Workspace`, run in a thread so that the loop goes on.

    async with passdown.aio.open(".") as ws:
        await ws.hand_off(handoff)

SQLite and the disk block in any case, so the core is synchronous and this is its one async face. A
test compares the two signature by signature. A call that is cancelled has either happened or not;
ask again with the same key to know.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Self

from passdown import workspace as _sync
from passdown.aio.brings import AsyncBrings
from passdown.aio.keeps import AsyncKeeps
from passdown.aio.knows import AsyncKnows
from passdown.aio.tells import AsyncTells

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from passdown.briefing.summary import Freshness
    from passdown.model.command import Check, HandoffCommand, Receipt
    from passdown.model.handoff import Decision, HandoffContext
    from passdown.model.settings import Settings
    from passdown.model.state import TaskState
    from passdown.workspace.aliases import Clock, Document, HandoffLike, Key


NEWEST = _sync.NEWEST


def open(
    target: str = ".",
    *,
    create: bool = True,
    settings: Settings | None = None,
    clock: Clock = None,
    token: str = "",
) -> Opening:
    """Open a workspace, as `passdown.open` does: await the result, or use it with `async with`."""
    given: Document = {"settings": settings, "clock": clock, "token": token}
    return Opening(lambda: _sync.open(target, create=create, **given))


def init(folder: str = ".", store: str = "", *, repoint: bool = False) -> Opening:
    """Make a workspace in exactly this folder, as `passdown.init` does."""
    return Opening(lambda: _sync.init(folder, store, repoint=repoint))


class Opening:
    """A workspace that is being opened; awaited, or entered."""

    def __init__(self, opens: Callable[[], _sync.Workspace]) -> None:
        """Nothing happens until it is awaited or entered."""
        self._opens = opens
        self._entered: AsyncWorkspace | None = None

    def __await__(self) -> Generator[Any, None, AsyncWorkspace]:
        return self._open().__await__()

    async def _open(self) -> AsyncWorkspace:
        return AsyncWorkspace(await asyncio.to_thread(self._opens))

    async def __aenter__(self) -> AsyncWorkspace:
        self._entered = await self._open()
        return self._entered

    async def __aexit__(self, *_: object) -> None:
        if self._entered is not None:
            await self._entered.close()


class AsyncWorkspace(AsyncTells, AsyncKnows, AsyncBrings, AsyncKeeps):
    """A workspace whose methods are awaited; see `Workspace` for what each one does."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Let go of the store. Nothing is lost by not calling it."""
        await self._call(self._workspace.close)

    @property
    def root(self) -> str:
        """The project's folder; artifact paths are relative to it."""
        return self._workspace.root

    @property
    def store_url(self) -> str:
        """The address that opens this workspace's store again, password and all."""
        return self._workspace.store_url

    @property
    def store_shown(self) -> str:
        """The same address as it may be printed: without a password."""
        return self._workspace.store_shown

    async def create_task(
        self, task: str, *, title: str, agent: str, key: Key = None, **fields: Any
    ) -> Receipt:
        """Make a task. `fields`: description, inputs, outputs, criteria, depends_on, phase,
        time_limit_minutes.
        """
        return await self._call(
            self._workspace.create_task, task, title=title, agent=agent, key=key, **fields
        )

    async def change_task(
        self,
        task: str,
        *,
        agent: str,
        expect_version: int | None = None,
        key: Key = None,
        **fields: Any,
    ) -> Receipt:
        """Change a task's description, dependencies or status (`open`, `cancelled`)."""
        named: Document = {"agent": agent, "expect_version": expect_version, "key": key}
        return await self._call(self._workspace.change_task, task, **named, **fields)

    async def tasks(
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
        return await self._call(
            self._workspace.tasks,
            status=status,
            phase=phase,
            agent=agent,
            limit=limit,
            after=after,
            with_workspace=with_workspace,
        )

    async def task(self, task: str) -> Document:
        """One task: what it is, where it stands, what it waits for and who waits for it."""
        return await self._call(self._workspace.task, task)

    async def hand_off(
        self,
        handoff: HandoffLike,
        *,
        key: Key = None,
        rebase: bool = False,
        changed_files: Sequence[str] | None = None,
        **defaults: Any,
    ) -> HandoffCommand:
        """Record a handoff: a `Handoff`, a dict, JSON, YAML or a task file's text."""
        return await self._call(
            self._workspace.hand_off,
            handoff,
            key=key,
            rebase=rebase,
            changed_files=changed_files,
            **defaults,
        )

    async def check(
        self,
        handoff: HandoffLike,
        *,
        rebase: bool = False,
        changed_files: Sequence[str] | None = None,
        **defaults: Any,
    ) -> Check:
        """Everything that `hand_off` would check, without recording anything."""
        return await self._call(
            self._workspace.check,
            handoff,
            rebase=rebase,
            changed_files=changed_files,
            **defaults,
        )

    async def prepare_handoff(
        self, task: str, target: str, phase: str, *, outcome: str = "completed", **fields: Any
    ) -> HandoffCommand:
        """Hand a task on from its holder to `target` in `phase`; gives the receiver's command."""
        return await self._call(
            self._workspace.prepare_handoff, task, target, phase, outcome=outcome, **fields
        )

    async def receive_handoff(self, command: HandoffCommand) -> TaskState:
        """The full, verified state for the receiver of a command."""
        return await self._call(self._workspace.receive_handoff, command)

    async def decide(
        self,
        *,
        agent: str,
        summary: str,
        rationale: str,
        task: str | None = None,
        key: Key = None,
        expect_version: int | None = None,
        **fields: Any,
    ) -> Receipt:
        """Record one decision. `fields`: alternatives, artifacts, paths, tags, status,
        supersedes.
        """
        return await self._call(
            self._workspace.decide,
            agent=agent,
            summary=summary,
            rationale=rationale,
            task=task,
            key=key,
            expect_version=expect_version,
            **fields,
        )

    async def note(
        self, kind: str, *, agent: str, task: str | None = None, key: Key = None, **fields: Any
    ) -> Receipt:
        """Record something learned: `pattern` (pattern, location, applies_to) or `gotcha`
        (issue, mitigation, severity, discovered_in).
        """
        return await self._call(
            self._workspace.note, kind, agent=agent, task=task, key=key, **fields
        )

    async def warn(self, task: str, *, agent: str, text: str, key: Key = None) -> Receipt:
        """Record a warning that stays with the task."""
        return await self._call(self._workspace.warn, task, agent=agent, text=text, key=key)

    async def mark(
        self, item: str, status: str, *, agent: str, reason: str = "", key: Key = None
    ) -> Receipt:
        """Give an item another status: blocker `resolved`, question `answered`, step `done`,
        decision `accepted` or `reverted`, pattern, gotcha or warning `retracted`.
        """
        return await self._call(
            self._workspace.mark, item, status, agent=agent, reason=reason, key=key
        )

    async def gates(self, task: str = "", *, open_only: bool = True) -> list[Document]:
        """Human gates and quality gate results, of one task or of all."""
        return await self._call(self._workspace.gates, task, open_only=open_only)

    async def record_gate(
        self,
        task: str,
        *,
        agent: str,
        name: str,
        passed: bool,
        detail: str = "",
        key: Key = None,
    ) -> Receipt:
        """Record the result of a quality gate."""
        given: Document = {"name": name, "passed": passed, "detail": detail, "key": key}
        return await self._call(self._workspace.record_gate, task, agent=agent, **given)

    async def approve(self, gate: str, *, by: str, reason: str = "", key: Key = None) -> Receipt:
        """A person lets a held task go on."""
        return await self._call(self._workspace.approve, gate, by=by, reason=reason, key=key)

    async def reject(self, gate: str, *, by: str, reason: str, key: Key = None) -> Receipt:
        """A person says no, and why; the task has to be handed off anew."""
        return await self._call(self._workspace.reject, gate, by=by, reason=reason, key=key)

    async def state(self, task: str, version: int | None = None) -> TaskState:
        """A task's state now, or at a past version, as a value."""
        return await self._call(self._workspace.state, task, version)

    async def state_document(self, task: str, version: int | None = None) -> Document:
        """A task's state now, or at a past version, as plain JSON."""
        return await self._call(self._workspace.state_document, task, version)

    async def load(self, task: str) -> TaskState | None:
        """A task's state now, or None where there is no such task."""
        return await self._call(self._workspace.load, task)

    async def log(
        self, task: str | None = None, *, limit: int = 50, before: int = NEWEST
    ) -> list[Document]:
        """Records newest first, of one task or of all."""
        return await self._call(self._workspace.log, task, limit=limit, before=before)

    async def changes(self, after: int | None = 0, *, limit: int = 500) -> Document:
        """What was recorded of tasks after a `seq`, oldest first, and the last one looked at."""
        return await self._call(self._workspace.changes, after, limit=limit)

    async def show(self, item: str) -> Document:
        """One item by its address, with the record, author and time that it came from."""
        return await self._call(self._workspace.show, item)

    async def diff(self, task: str, old: int, new: int) -> Document:
        """What differs between two versions of a task."""
        return await self._call(self._workspace.diff, task, old, new)

    async def inbox(self, agent: str) -> list[Document]:
        """The handoffs that wait for an agent."""
        return await self._call(self._workspace.inbox, agent)

    async def artifacts(self, task: str) -> list[Document]:
        """A task's artifacts, each with `now`: same, changed or missing since the handoff."""
        return await self._call(self._workspace.artifacts, task)

    async def path_history(self, task: str, path: str) -> list[Document]:
        """Every entry that a task has had for a path, oldest first."""
        return await self._call(self._workspace.path_history, task, path)

    async def inline_plan(self, task: str, budget_tokens: int) -> Document:
        """Which artifacts fit into a token budget and which stay references."""
        return await self._call(self._workspace.inline_plan, task, budget_tokens)

    async def summary(self, task: str, max_tokens: int = 500) -> str:
        """The short summary of a task that names its handle file and carries its version."""
        return await self._call(self._workspace.summary, task, max_tokens)

    async def check_summary(self, task: str, text: str) -> Freshness:
        """Whether a summary was made from the version that is stored now."""
        return await self._call(self._workspace.check_summary, task, text)

    async def handle_file(self, task: str) -> str:
        """The path of a task's handle file, brought up to date if it was missing or old."""
        return await self._call(self._workspace.handle_file, task)

    async def store_decision(self, decision: Decision, task: str | None = None) -> str:
        """Record a decision value and give the key, of agent and time, that finds it again."""
        return await self._call(self._workspace.store_decision, decision, task)

    async def stored_decision(self, key: str, task: str | None = None) -> Decision:
        """The decision that `store_decision` recorded under a key."""
        return await self._call(self._workspace.stored_decision, key, task)

    async def handoff_context(
        self, task: str, *, agent: str = "", since: int = 0
    ) -> HandoffContext:
        """Who handed a task to whom, the sender's decisions, and what to look up."""
        return await self._call(self._workspace.handoff_context, task, agent=agent, since=since)

"""The door: the one object that people, programs and every surface hold.

Methods are short and import what they need when they are called, because the command line starts
all day long and most calls need little. Documents (plain JSON) come out where a program passes them
on; values come out where a program works with them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from passdown.workspace.locating import Place, in_folder, make_folder, place_of
from passdown.workspace.opened import Opened

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from passdown.briefing.summary import Freshness
    from passdown.ledger.bundles import Imported
    from passdown.ledger.verifying import Verified
    from passdown.model.command import Check, HandoffCommand, Receipt
    from passdown.model.handoff import Decision, Handoff, HandoffContext
    from passdown.model.settings import Settings
    from passdown.model.state import TaskState
    from passdown.workspace.safety import Rebuilt

    Clock = Callable[[], datetime] | None
    Key = str | None
    Heads = Mapping[str, Any] | str | None
    Document = dict[str, Any]
    HandoffLike = Handoff | Mapping[str, Any] | str | bytes
    Progress = Callable[[int, int], None]

NEWEST = 2**62


def open(
    target: str = ".", *, create: bool = True, settings: Settings | None = None, clock: Clock = None
) -> Workspace:
    """Open a workspace: the nearest `.passdown/` from a folder, a `.db` file or a store's address.

    Without one, it is made in that folder, unless `create` is False. `settings` take the place of
    the configuration file; `clock` gives the time of records.
    """
    place = place_of(str(target), create=create)
    if create:
        make_folder(place)
    return Workspace(place, settings=settings, clock=clock)


def init(folder: str = ".") -> Workspace:
    """Make a workspace in exactly this folder, with a configuration file to edit; open it."""
    import os.path

    from passdown.model.settings import CONFIG_TEMPLATE

    place = in_folder(folder)
    make_folder(place)
    if not os.path.exists(place.config):
        from passdown.recall.durable_files import replace_file

        replace_file(place.config, CONFIG_TEMPLATE)
    return Workspace(place)


class Workspace:
    """One team's records. Use it as a context manager, or call `close`."""

    def __init__(
        self, place: Place, *, settings: Settings | None = None, clock: Clock = None
    ) -> None:
        """Open the workspace at a place; `passdown.open` finds the place."""
        self._opened = Opened(place, settings, clock)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the store. Nothing is lost by not calling it."""
        self._opened.store.close()

    @property
    def root(self) -> str:
        """The project's folder; artifact paths are relative to it."""
        return self._opened.root

    @property
    def store_url(self) -> str:
        """The address that opens this workspace's store again."""
        return self._opened.store.url

    def create_task(
        self, task: str, *, title: str, agent: str, key: Key = None, **fields: Any
    ) -> Receipt:
        """Make a task. `fields`: description, inputs, outputs, criteria, depends_on, phase,
        time_limit_minutes.
        """
        from passdown.workspace.noting import create_task

        given = {**fields, "task": task, "title": title, "agent": agent}
        return create_task(self._opened, given, key)

    def change_task(
        self, task: str, *, agent: str, expect_version: int | None = None, **fields: Any
    ) -> Receipt:
        """Change a task's description, dependencies or status (`open`, `cancelled`)."""
        from passdown.workspace.noting import change_task

        return change_task(self._opened, task, agent, fields, expect_version)

    def tasks(
        self,
        *,
        status: str = "",
        phase: str = "",
        agent: str = "",
        limit: int = 1000,
        after: int = 0,
    ) -> list[Document]:
        """Tasks in the order of their making; `after` is the `seq` of the last one seen."""
        from passdown.workspace.reading import tasks

        return tasks(self._opened, status, phase, agent, limit=limit, after=after)

    def task(self, task: str) -> Document:
        """One task: what it is, where it stands, what it waits for and who waits for it."""
        from passdown.workspace.reading import task_overview

        return task_overview(self._opened, task)

    def hand_off(
        self,
        handoff: HandoffLike,
        *,
        key: Key = None,
        rebase: bool = False,
        changed_files: Sequence[str] | None = None,
        **defaults: Any,
    ) -> HandoffCommand:
        """Record a handoff: a `Handoff`, a dict, JSON, YAML or a task file's text.

        `defaults` fill fields that the handoff leaves out (`task`, `from_agent`, `to_agent`,
        `expect_version`...). `changed_files` are what its file lists must account for. With `key`,
        a retry gives the same record. Raises InvalidInput, GateRefused, Conflict; then nothing
        changed.
        """
        from passdown.workspace.handing import hand_off

        return hand_off(
            self._opened, handoff, defaults, key=key, rebase=rebase, changed_files=changed_files
        )

    def check(
        self, handoff: HandoffLike, *, changed_files: Sequence[str] | None = None, **defaults: Any
    ) -> Check:
        """Everything that `hand_off` would check, without recording anything."""
        from passdown.workspace.handing import check

        return check(self._opened, handoff, defaults=defaults, changed_files=changed_files)

    def prepare_handoff(
        self, task: str, target: str, phase: str, *, outcome: str = "completed", **fields: Any
    ) -> HandoffCommand:
        """Hand a task on from its holder to `target` in `phase`; gives the receiver's command."""
        given = {**fields, "task": task, "to_agent": target, "phase": phase, "outcome": outcome}
        return self.hand_off(given)

    def receive_handoff(self, command: HandoffCommand) -> TaskState:
        """The full, verified state for the receiver of a command.

        Raises GateRefused while a human gate holds the task, Conflict when it has moved on since.
        """
        from passdown.workspace.reading import receive

        return receive(self._opened, command)

    def decide(
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
        """Record one decision. `fields`: alternatives, artifacts, paths, tags, status, supersedes.

        Without a task it concerns all work.
        """
        from passdown.workspace.noting import add_entry

        entry = {**fields, "summary": summary, "rationale": rationale}
        return add_entry(
            self._opened, "decision", task, agent, entry, key=key, expect_version=expect_version
        )

    def note(
        self, kind: str, *, agent: str, task: str | None = None, key: Key = None, **fields: Any
    ) -> Receipt:
        """Record something learned: `pattern` (pattern, location, applies_to) or `gotcha` (issue,
        mitigation, severity, discovered_in).
        """
        from passdown.workspace.reading import note

        return note(self._opened, kind, task, agent, fields, key=key)

    def warn(self, task: str, *, agent: str, text: str) -> Receipt:
        """Record a warning that stays with the task."""
        from passdown.workspace.noting import add_entry

        return add_entry(self._opened, "warning", task, agent, {"text": text})

    def mark(self, item: str, status: str, *, agent: str, reason: str = "") -> Receipt:
        """Give an item another status: blocker `resolved`, question `answered`, step `done`,
        decision `accepted` or `reverted`, pattern, gotcha or warning `retracted`.
        """
        from passdown.workspace.noting import mark

        return mark(self._opened, item, status, agent, reason)

    def gates(self, task: str = "", *, open_only: bool = True) -> list[Document]:
        """Human gates and quality gate results, of one task or of all."""
        from passdown.workspace.reading import gates

        return gates(self._opened, task, open_only=open_only)

    def record_gate(
        self, task: str, *, agent: str, name: str, passed: bool, detail: str = ""
    ) -> Receipt:
        """Record the result of a quality gate."""
        from passdown.workspace.noting import add_entry

        entry = {"name": name, "result": "passed" if passed else "failed", "detail": detail}
        return add_entry(self._opened, "gate", task, agent, entry)

    def approve(self, gate: str, *, by: str, reason: str = "") -> Receipt:
        """A person lets a held task go on."""
        from passdown.workspace.noting import answer_gate

        return answer_gate(self._opened, gate, "approved", by, reason)

    def reject(self, gate: str, *, by: str, reason: str) -> Receipt:
        """A person says no, and why; the task has to be handed off anew."""
        from passdown.workspace.noting import answer_gate

        return answer_gate(self._opened, gate, "rejected", by, reason)

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
            return artifact_report(reader, task, self.root)

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

    def store_decision(self, decision: Decision, task: str | None = None) -> str:
        """Record a decision value and give the key, of agent and time, that finds it again."""
        from passdown.workspace.decisions import store_decision

        return store_decision(self._opened, decision, task)

    def stored_decision(self, key: str, task: str | None = None) -> Decision:
        """The decision that `store_decision` recorded under a key."""
        from passdown.workspace.decisions import stored_decision

        return stored_decision(self._opened, key, task)

    def handoff_context(self, task: str) -> HandoffContext:
        """Who handed a task to whom, the sender's decisions, and what to look up."""
        from passdown.workspace.decisions import handoff_context

        return handoff_context(self._opened, task)

    def verify(
        self, against: Heads = None, *, chain_only: bool = False, progress: Progress | None = None
    ) -> Verified:
        """Check that the store says what was written; `against` are heads saved elsewhere."""
        from passdown.workspace.safety import verify_store

        return verify_store(self._opened, against, chain_only=chain_only, progress=progress)

    def heads(self) -> Document:
        """The heads of all streams, to be kept somewhere else for `verify`."""
        from passdown.workspace.safety import heads

        return heads(self._opened)

    def backup(self, target: str, progress: Progress | None = None) -> Verified:
        """Copy the store to a new file while others write, and verify the copy."""
        from passdown.workspace.safety import backup

        return backup(self._opened, target, progress)

    def export(self, target: str, task: str | None = None) -> int:
        """Write a bundle of one task or of everything; gives the number of streams."""
        from passdown.workspace.safety import export

        return export(self._opened, target, task)

    def import_bundle(self, path: str, *, fork: str = "") -> Imported:
        """Take in a bundle, verified, all or nothing; `fork` keeps both where histories differ."""
        from passdown.workspace.safety import import_file

        return import_file(self._opened, path, fork)

    def reindex(self, progress: Progress | None = None) -> Rebuilt:
        """Make every derived row and handle file again from the records."""
        from passdown.workspace.safety import rebuild

        return rebuild(self._opened, progress)

    def doctor(self) -> Document:
        """Facts and findings about this workspace, with what to do about each."""
        from passdown.workspace.safety import doctor

        return doctor(self._opened)

"""What a workspace writes: tasks, handoffs, decisions, notes, marks, gates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from passdown.workspace.opened import Held

if TYPE_CHECKING:
    from collections.abc import Sequence

    from passdown.model.command import Check, HandoffCommand, Receipt
    from passdown.model.handoff import Decision
    from passdown.workspace.aliases import HandoffLike, Key


class Writes(Held):
    """The methods that record something."""

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
        self,
        task: str,
        *,
        agent: str,
        expect_version: int | None = None,
        key: Key = None,
        **fields: Any,
    ) -> Receipt:
        """Change a task's description, dependencies or status (`open`, `cancelled`)."""
        from passdown.workspace.noting import change_task

        return change_task(self._opened, task, agent, fields, expect_version, key=key)

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
        self,
        handoff: HandoffLike,
        *,
        rebase: bool = False,
        changed_files: Sequence[str] | None = None,
        **defaults: Any,
    ) -> Check:
        """Everything that `hand_off` would check, without recording anything."""
        from passdown.workspace.handing import check

        return check(
            self._opened, handoff, defaults=defaults, rebase=rebase, changed_files=changed_files
        )

    def prepare_handoff(
        self, task: str, target: str, phase: str, *, outcome: str = "completed", **fields: Any
    ) -> HandoffCommand:
        """Hand a task on from its holder to `target` in `phase`; gives the receiver's command."""
        given = {**fields, "task": task, "to_agent": target, "phase": phase, "outcome": outcome}
        return self.hand_off(given)

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

    def warn(self, task: str, *, agent: str, text: str, key: Key = None) -> Receipt:
        """Record a warning that stays with the task."""
        from passdown.workspace.noting import add_entry

        return add_entry(self._opened, "warning", task, agent, {"text": text}, key=key)

    def mark(
        self, item: str, status: str, *, agent: str, reason: str = "", key: Key = None
    ) -> Receipt:
        """Give an item another status: blocker `resolved`, question `answered`, step `done`,
        decision `accepted` or `reverted`, pattern, gotcha or warning `retracted`.
        """
        from passdown.workspace.noting import mark

        return mark(self._opened, item, status, agent, reason, key=key)

    def record_gate(
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
        from passdown.workspace.noting import add_entry

        entry = {"name": name, "result": "passed" if passed else "failed", "detail": detail}
        return add_entry(self._opened, "gate", task, agent, entry, key=key)

    def approve(self, gate: str, *, by: str, reason: str = "", key: Key = None) -> Receipt:
        """A person lets a held task go on."""
        from passdown.workspace.noting import answer_gate

        return answer_gate(self._opened, gate, "approved", by, reason, key=key)

    def reject(self, gate: str, *, by: str, reason: str, key: Key = None) -> Receipt:
        """A person says no, and why; the task has to be handed off anew."""
        from passdown.workspace.noting import answer_gate

        return answer_gate(self._opened, gate, "rejected", by, reason, key=key)

    def store_decision(self, decision: Decision, task: str | None = None) -> str:
        """Record a decision value and give the key, of agent and time, that finds it again."""
        from passdown.workspace.decisions import store_decision

        return store_decision(self._opened, decision, task)

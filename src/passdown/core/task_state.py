"""The state of a task as a value, and what a program can rely on to hand tasks over."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol, runtime_checkable

from passdown.core.documents import STATE_SCHEMA
from passdown.core.handoff import (
    Artifact,
    Blocker,
    Decision,
    Fact,
    Gotcha,
    NextStep,
    Pattern,
    Precondition,
    Question,
    Reading,
)
from passdown.core.kinds import LIVE
from passdown.core.results import HandoffCommand
from passdown.core.schema import value_of
from passdown.core.times import parse_time
from passdown.errors import InvalidInput, Problem

_STATE_PARTS: dict[str, type[Any]] = {
    "artifacts": Artifact,
    "blockers": Blocker,
    "patterns": Pattern,
    "gotchas": Gotcha,
    "questions": Question,
    "next_steps": NextStep,
    "reading": Reading,
}
_STATE_FIELDS = (
    "task_id",
    "title",
    "description",
    "phase",
    "previous_phase",
    "status",
    "outcome",
    "context_summary",
    "source_agent",
    "target_agent",
    "version",
    "digest",
)
_STATE_LISTS = ("inputs", "outputs", "criteria", "depends_on", "gates_passed", "gates_failed")


@dataclass(frozen=True, kw_only=True)
class TaskState:
    """Everything that is known of a task at one version.

    `blockers`, `questions`, `next_steps`, `reading` and `preconditions` hold what is open, `facts`
    the last value of each key; `document` has every item with its address, status and source.
    """

    task_id: str
    title: str
    description: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    criteria: tuple[str, ...]
    depends_on: tuple[str, ...]
    phase: str
    previous_phase: str | None
    phase_started_at: datetime
    status: str
    outcome: str | None
    context_summary: str
    source_agent: str
    target_agent: str
    handoff_at: datetime | None
    version: int
    digest: str
    gates_passed: tuple[str, ...]
    gates_failed: tuple[str, ...]
    decisions: tuple[Decision, ...]
    artifacts: tuple[Artifact, ...]
    patterns: tuple[Pattern, ...]
    gotchas: tuple[Gotcha, ...]
    facts: tuple[Fact, ...]
    reading: tuple[Reading, ...]
    questions: tuple[Question, ...]
    next_steps: tuple[NextStep, ...]
    blockers: tuple[Blocker, ...]
    preconditions: tuple[Precondition, ...]
    warnings: tuple[str, ...]
    document: dict[str, Any] = field(repr=False, compare=False)

    def to_dict(self) -> dict[str, Any]:
        """The state document."""
        return self.document

    @classmethod
    def from_dict(cls, document: dict[str, Any]) -> TaskState:
        """The value of a state document; refuses one of another schema."""
        given = document.get("schema")
        if given != STATE_SCHEMA:
            problem = Problem("schema", "unknown_schema", f"{given!r}", STATE_SCHEMA)
            raise InvalidInput("this is not a state document that this release knows", [problem])
        values: dict[str, Any] = {name: document[name] for name in _STATE_FIELDS}
        values |= {name: tuple(document[name]) for name in _STATE_LISTS}
        for name, kind in _STATE_PARTS.items():
            values[name] = tuple(value_of(kind, entry) for entry in _live(document[name]))
        started, handed = document["phase_started_at"], document["handoff_at"]
        return cls(
            **values,
            phase_started_at=parse_time(started),
            handoff_at=parse_time(handed) if handed else None,
            facts=tuple(value_of(Fact, _fact(entry)) for entry in _live(document.get("facts", []))),
            preconditions=tuple(
                value_of(Precondition, entry) for entry in _live(document.get("preconditions", []))
            ),
            decisions=tuple(value_of(Decision, entry) for entry in document["decisions"]),
            warnings=tuple(w["text"] for w in _live(document["warnings"])),
            document=document,
        )


def _fact(entry: dict[str, Any]) -> dict[str, Any]:
    """A fact as it was stated, with the status that it was given since."""
    return {**entry, "status": entry["status"].replace("active", "")}


def _live(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [entry for entry in entries if entry["status"] in LIVE or entry["status"] == "recorded"]


@runtime_checkable
class AgentHandoffProtocol(Protocol):
    """Prepares the handoff of a task, and gives the receiver its state. A workspace does both."""

    def prepare_handoff(
        self, task: str, to_agent: str, phase: str, **fields: Any
    ) -> HandoffCommand:
        """The command of a handoff by the task's holder, with what it would change; nothing is
        recorded until it is handed off.
        """
        ...

    def receive_handoff(self, command: HandoffCommand) -> TaskState:
        """The full, verified state for the receiver of a command."""
        ...

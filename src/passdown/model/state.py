"""A task's state as a value, for programs; a document underneath, for files and other languages."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from passdown.errors import InvalidInput, Problem
from passdown.model.bodies import decision_from_body, part_from_body
from passdown.model.documents import STATE_SCHEMA
from passdown.model.handoff import (
    Artifact,
    Blocker,
    Decision,
    Gotcha,
    NextStep,
    Pattern,
    Question,
    Reading,
)
from passdown.model.times import parse_time

if TYPE_CHECKING:
    from datetime import datetime

_PARTS: dict[str, type[Any]] = {
    "artifacts": Artifact,
    "blockers": Blocker,
    "patterns": Pattern,
    "gotchas": Gotcha,
    "questions": Question,
    "next_steps": NextStep,
    "reading": Reading,
}
_FIELDS = (
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
_LISTS = ("inputs", "outputs", "criteria", "depends_on", "gates_passed", "gates_failed")


@dataclass(frozen=True, kw_only=True)
class TaskState:
    """Everything that is known of a task at one version.

    `blockers`, `questions`, `next_steps` and `reading` hold what is open; `document` has every item
    with its address, status and source.
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
    reading: tuple[Reading, ...]
    questions: tuple[Question, ...]
    next_steps: tuple[NextStep, ...]
    blockers: tuple[Blocker, ...]
    warnings: tuple[str, ...]
    document: dict[str, Any] = field(repr=False, compare=False)

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> TaskState:
        """The value of a state document; refuses one of another schema."""
        given = document.get("schema")
        if given != STATE_SCHEMA:
            problem = Problem("schema", "unknown_schema", f"{given!r}", STATE_SCHEMA)
            raise InvalidInput("this is not a state document that this release knows", [problem])
        values: dict[str, Any] = {name: document[name] for name in _FIELDS}
        values |= {name: tuple(document[name]) for name in _LISTS}
        for name, kind in _PARTS.items():
            values[name] = tuple(part_from_body(kind, entry) for entry in _live(document[name]))
        started, handed = document["phase_started_at"], document["handoff_at"]
        return cls(
            **values,
            phase_started_at=parse_time(started),
            handoff_at=parse_time(handed) if handed else None,
            decisions=tuple(decision_from_body(entry) for entry in document["decisions"]),
            warnings=tuple(w["text"] for w in _live(document["warnings"])),
            document=document,
        )


def _live(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [entry for entry in entries if entry["status"] in ("open", "active", "recorded")]

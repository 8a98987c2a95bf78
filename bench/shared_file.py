"""The design to compare with: a task's whole state as indented JSON in one file behind a file lock.

A handoff loads the state into objects, makes a new state from it with a version one higher, and
saves that. Saving takes the task's lock, loads what is stored, refuses when the stored version is
greater than the one to be saved, and otherwise writes everything to a temporary name, syncs it and
renames it. The check lets equal versions pass, so of two agents that loaded the same state, both
are accepted and the second one overwrites the first.

It checks no input and hashes no file; what it gives back is a summary of nine lines.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from filelock import FileLock

if TYPE_CHECKING:
    from pathlib import Path

LOCK_TIMEOUT_S = 30
START = datetime(2026, 1, 9, 10, tzinfo=UTC)


class StaleState(Exception):
    """The stored version is greater than the one to be saved."""


@dataclass(frozen=True)
class ArtifactRef:
    """A reference to a file."""

    path: str
    artifact_type: str
    content_hash: str
    size_bytes: int


@dataclass(frozen=True)
class DecisionRecord:
    """What was decided and why."""

    decision: str
    rationale: str
    timestamp: datetime
    agent: str
    alternatives: list[str] = field(default_factory=list)


@dataclass
class State:
    """Everything that is known of a task."""

    task_id: str
    task_title: str = "A task"
    phase: str = "implementing"
    previous_phase: str | None = None
    phase_started_at: datetime = START
    artifacts: list[ArtifactRef] = field(default_factory=list)
    context_summary: str = ""
    decisions_made: list[DecisionRecord] = field(default_factory=list)
    blocking_issues: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    quality_gates_passed: list[str] = field(default_factory=list)
    quality_gates_failed: list[str] = field(default_factory=list)
    source_agent: str = ""
    target_agent: str = ""
    handoff_timestamp: datetime = START
    version: int = 1

    def summary(self) -> str:
        types = ", ".join(sorted({artifact.artifact_type for artifact in self.artifacts}))
        recent = "; ".join(decision.decision[:50] for decision in self.decisions_made[-2:])
        return "\n".join(
            (
                "## Agent Handoff State",
                f"Task: {self.task_id} - {self.task_title}",
                f"Phase: {self.phase} (from: {self.previous_phase or 'start'})",
                f"Artifacts: {len(self.artifacts)} files ({types})",
                f"Decisions: {recent or 'None'}",
                "Blocking: None",
                "Gates: 0 passed, 0 failed",
            )
        )


class SharedFiles:
    """The state files of all tasks, in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def path(self, task: str) -> Path:
        return self.folder / f"{task}.json"

    def load(self, task: str) -> State | None:
        data = self._load_raw(task)
        return _from_dict(data) if data else None

    def _load_raw(self, task: str) -> dict[str, Any] | None:
        path = self.path(task)
        if not path.exists():
            return None
        with path.open(encoding="utf-8") as file:
            return json.load(file)

    def save(self, state: State) -> None:
        """Write the whole state, unless a greater version is stored."""
        path = self.path(state.task_id)
        with FileLock(path.with_suffix(".lock"), timeout=LOCK_TIMEOUT_S):
            stored = self._load_raw(state.task_id)
            if stored is not None and stored["version"] > state.version:
                raise StaleState(f"stored {stored['version']}, saving {state.version}")
            temporary = path.with_suffix(".tmp")
            with temporary.open("w", encoding="utf-8") as file:
                json.dump(_to_dict(state), file, indent=2, default=str)
                file.flush()
                os.fsync(file.fileno())
            temporary.rename(path)

    def hand_off(self, task: str, handoff: dict[str, Any]) -> str:
        """One handoff: load, add, count up, save; gives the receiver's summary."""
        state = self.load(task)
        if state is None:
            raise ValueError(f"task {task} not found")
        updated = with_handoff(state, handoff)
        self.save(updated)
        return updated.summary()


def with_handoff(state: State, handoff: dict[str, Any]) -> State:
    """The state after a handoff; artifacts and decisions are appended."""
    artifacts = [
        ArtifactRef(made["path"], "source", "0" * 64, 1_000) for made in handoff["files_created"]
    ]
    decisions = [
        DecisionRecord(entry["summary"], entry["rationale"], START, handoff["from_agent"])
        for entry in handoff["decisions"]
    ]
    return replace(
        state,
        previous_phase=state.phase,
        artifacts=state.artifacts + artifacts,
        decisions_made=state.decisions_made + decisions,
        context_summary=handoff["summary"],
        source_agent=handoff["from_agent"],
        target_agent=handoff["to_agent"],
        version=state.version + 1,
    )


def _to_dict(state: State) -> dict[str, Any]:
    plain = {name: getattr(state, name) for name in State.__dataclass_fields__}
    plain["phase_started_at"] = state.phase_started_at.isoformat()
    plain["handoff_timestamp"] = state.handoff_timestamp.isoformat()
    plain["artifacts"] = [
        {
            "path": a.path,
            "artifact_type": a.artifact_type,
            "content_hash": a.content_hash,
            "size_bytes": a.size_bytes,
        }
        for a in state.artifacts
    ]
    plain["decisions_made"] = [
        {
            "decision": d.decision,
            "rationale": d.rationale,
            "timestamp": d.timestamp.isoformat(),
            "agent": d.agent,
            "alternatives": d.alternatives,
        }
        for d in state.decisions_made
    ]
    return plain


def _from_dict(data: dict[str, Any]) -> State:
    return State(
        **{
            **data,
            "phase_started_at": datetime.fromisoformat(data["phase_started_at"]),
            "handoff_timestamp": datetime.fromisoformat(data["handoff_timestamp"]),
            "artifacts": [ArtifactRef(**entry) for entry in data["artifacts"]],
            "decisions_made": [
                DecisionRecord(**{**entry, "timestamp": datetime.fromisoformat(entry["timestamp"])})
                for entry in data["decisions_made"]
            ],
        }
    )


__all__ = ["SharedFiles", "StaleState", "State", "with_handoff"]

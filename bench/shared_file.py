"""The design to compare with: a task's whole state as indented JSON in one file behind a file lock.

An agent loads the state, adds to it, counts its version up and saves it. Saving takes the task's
lock, loads what is stored, refuses when the stored version is greater than the one to be saved, and
otherwise writes everything to a temporary name, syncs it and renames it. The check lets equal
versions pass, so of two agents that loaded the same state, both are accepted and the second one
overwrites the first.

States are plain dicts here, which spares the design the cost of turning objects into them.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from filelock import FileLock

if TYPE_CHECKING:
    from pathlib import Path

LOCK_TIMEOUT_S = 30

State = dict[str, Any]


class StaleState(Exception):
    """The stored version is greater than the one to be saved."""


class SharedFiles:
    """The state files of all tasks, in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def path(self, task: str) -> Path:
        return self.folder / f"{task}.json"

    def load(self, task: str) -> State | None:
        path = self.path(task)
        if not path.exists():
            return None
        with path.open(encoding="utf-8") as file:
            return json.load(file)

    def save(self, state: State) -> None:
        """Write the whole state, unless a greater version is stored."""
        path = self.path(state["task_id"])
        with FileLock(path.with_suffix(".lock"), timeout=LOCK_TIMEOUT_S):
            stored = self.load(state["task_id"])
            if stored is not None and stored["version"] > state["version"]:
                raise StaleState(f"stored {stored['version']}, saving {state['version']}")
            temporary = path.with_suffix(".tmp")
            with temporary.open("w", encoding="utf-8") as file:
                json.dump(state, file, indent=2)
                file.flush()
                os.fsync(file.fileno())
            temporary.rename(path)


def new_state(task: str) -> State:
    """A task without handoffs."""
    return {
        "task_id": task,
        "task_title": "A task",
        "phase": "implementing",
        "previous_phase": "planning",
        "phase_started_at": "2026-01-09T10:00:00+00:00",
        "artifacts": [],
        "context_summary": "",
        "decisions_made": [],
        "blocking_issues": [],
        "warnings": [],
        "quality_gates_passed": [],
        "quality_gates_failed": [],
        "source_agent": "",
        "target_agent": "",
        "handoff_timestamp": "2026-01-09T10:00:00+00:00",
        "version": 1,
    }


def add_handoff(state: State, handoff: dict[str, Any]) -> None:
    """What an agent does to the state it holds before saving it."""
    at = "2026-01-09T10:00:00+00:00"
    for made in handoff["files_created"]:
        state["artifacts"].append(
            {
                "path": made["path"],
                "artifact_type": "source",
                "content_hash": "0" * 64,
                "size_bytes": 1_000,
            }
        )
    for decision in handoff["decisions"]:
        state["decisions_made"].append(
            {
                "decision": decision["summary"],
                "rationale": decision["rationale"],
                "timestamp": at,
                "agent": handoff["from_agent"],
                "alternatives": [],
            }
        )
    state["source_agent"] = handoff["from_agent"]
    state["target_agent"] = handoff["to_agent"]
    state["context_summary"] = handoff["summary"]
    state["handoff_timestamp"] = at
    state["version"] += 1

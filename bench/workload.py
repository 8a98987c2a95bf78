"""The work that every measurement does: handoffs with two small files and two decisions each."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import passdown
from bench.shared_file import State, with_handoff

if TYPE_CHECKING:
    from pathlib import Path

    from bench.shared_file import SharedFiles

AGENTS = ("planner", "coder")
FILES = 2
DECISIONS = 2

# The task is named, so that no two handoffs say the same word for word: what was said before in
# another task would be remembered, and a short history seem cheaper than it is.
_SUMMARY = "Keep the parser of part {part} apart from its renderer and pass plain values"
_RATIONALE = (
    "Both change for different reasons; with a narrow seam each has tests of its own, "
    "and step {part} can be taken back alone"
)


def handoff(task: str, number: int) -> dict[str, Any]:
    """The handoff number `number` of a task; `write_files` makes the files it names."""
    return {
        "task": task,
        "outcome": "completed",
        "from_agent": AGENTS[number % 2],
        "to_agent": AGENTS[1 - number % 2],
        "summary": f"Part {task}.{number} is done and tested",
        "files_created": [
            {"path": path, "purpose": f"part {number}", "lines": "1-20"} for path in paths(number)
        ],
        "decisions": [
            {
                "summary": _SUMMARY.format(part=f"{task}.{number}.{index}"),
                "rationale": _RATIONALE.format(part=f"{task}.{number}.{index}"),
            }
            for index in range(DECISIONS)
        ],
    }


def paths(number: int) -> list[str]:
    """The files that a handoff names."""
    return [f"src/part_{number // 500}/step_{number}_{index}.py" for index in range(FILES)]


def write_files(root: Path, start: int, stop: int) -> None:
    """Make the files of handoffs `start` to `stop`, and let the disk settle before timing."""
    for number in range(start, stop):
        for path in paths(number):
            target = root / path
            if not target.parent.exists():
                target.parent.mkdir(parents=True)
            target.write_text(f"VALUE = {number}\n" * 20, "utf-8")
    os.sync()


class Ours:
    """A workspace in a new folder, with tasks that are handed off again and again."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(parents=True, exist_ok=True)
        root.mkdir(parents=True, exist_ok=True)
        self.workspace = passdown.open(str(root))
        self.files = 0
        self.versions: dict[str, int] = {}

    def task(self, name: str) -> str:
        self.versions[name] = self.workspace.create_task(name, title="A task", agent="lead").version
        return name

    def prepare(self, handoffs: int) -> None:
        """Make the files of the handoffs to come: any task may have handed off up to so many."""
        if handoffs > self.files:
            write_files(self.root, self.files, handoffs)
            self.files = handoffs

    def hand_off(self, task: str) -> None:
        command = self.workspace.hand_off(handoff(task, self.versions[task]))
        self.versions[task] = command.version

    def grow(self, task: str, version: int) -> None:
        """Really hand off until the task has a version."""
        self.prepare(version + 1)
        while self.versions[task] < version:
            self.hand_off(task)

    def state_file_bytes(self, task: str) -> int:
        return os.path.getsize(self.root / ".passdown" / "state" / f"{task}.json")

    def archive_bytes(self, task: str) -> int:
        folder = self.root / ".passdown" / "state" / "archive" / task
        return sum(file.stat().st_size for file in folder.glob("*")) if folder.exists() else 0

    def database_bytes(self) -> int:
        facts = self.workspace._context.store.facts()
        return facts["page_size"] * facts["page_count"]

    def close(self) -> None:
        self.workspace.close()


class Theirs:
    """The shared-file design, with tasks that are handed off again and again."""

    def __init__(self, files: SharedFiles) -> None:
        self.files = files
        self.versions: dict[str, int] = {}

    def task_at(self, name: str, version: int) -> str:
        """A task at a version; the state file is written as it would be after so many handoffs."""
        self.files.path(name).unlink(missing_ok=True)
        state = State(name)
        for number in range(version - 1):
            added = with_handoff(State(name), handoff(name, number))
            state.artifacts += added.artifacts
            state.decisions_made += added.decisions_made
        state.version = self.versions[name] = version
        self.files.save(state)
        return name

    def hand_off(self, task: str) -> None:
        """One handoff as the design does it."""
        self.versions[task] += 1
        self.files.hand_off(task, handoff(task, self.versions[task]))

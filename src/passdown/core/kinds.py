"""Closed vocabularies, item kinds, item addresses and stream names."""

from __future__ import annotations

import re
from functools import cache

from passdown.core.values import NamedTuple

PHASES = ("planning", "implementing", "testing", "reviewing", "completed")
OUTCOMES = ("completed", "partial", "failed", "blocked")
STOPS = ("time", "context", "budget", "turn")
"""What an agent may have run out of before its work was finished."""
SEVERITIES = ("blocker", "high", "medium", "low")
LEVELS = ("high", "medium", "low")
CHANGE_TYPES = ("add", "modify", "delete", "refactor")
ARTIFACT_TYPES = ("source", "test", "config", "doc")
DECISION_STATUSES = ("proposed", "accepted", "superseded", "reverted")
FACT_STATUSES = ("verified", "assumed", "open", "withdrawn")
TASK_STATUSES = ("open", "blocked", "completed", "failed", "cancelled")

READY, WAITING = "ready", "waiting"
"""What an open task is listed under that can be worked on now, or that waits for another task or
agent; no statuses of their own."""
TASK_LISTS = (*TASK_STATUSES, READY, WAITING)
"""What tasks can be listed by."""

SCHEMA_VERSION = "1.0"
STATE_SCHEMA = "passdown/state/1"
FILE_LISTS = ("files_created", "files_modified", "artifacts")
"""The lists of a handoff that name files."""

TASK_STREAM = "task/"
DELIVERY_STREAM = "delivery/"
ORIGIN_STREAM = "origin/"
RUN_STREAM = "run/"
AGENT_STREAM = "agent/"
CONVERSATION_STREAM = "conversation/"
EXPRESS_STREAM = "express/"
RECOVERY_STREAM = "recovery/"
ACCESS_STREAM = "access"
WORKSPACE_TASK = "workspace"


def phase_before(phase: str, previous: str | None, *, first: str = "") -> str:
    """The phase that a task came from; `first` where it is in its first.

    Empty where a handoff stated the phase again: that is then noted as the previous one as well,
    and nobody comes from where they are.
    """
    if not previous:
        return first
    return previous if previous != phase else ""


class Kind(NamedTuple):
    """One kind of item: its letter, its word, the body's list that holds it, and its life."""

    letter: str
    word: str
    field: str
    text: str
    starts: str
    is_open: bool
    closings: tuple[str, ...]


KINDS: dict[str, Kind] = {
    kind.letter: kind
    for kind in (
        Kind("h", "handoff", "handoff", "summary", "recorded", False, ()),
        Kind("d", "decision", "decisions", "summary", "accepted", False, ("accepted", "reverted")),
        Kind("a", "artifact", "artifacts", "path", "recorded", False, ()),
        Kind("p", "pattern", "patterns", "pattern", "active", False, ("retracted",)),
        Kind("g", "gotcha", "gotchas", "issue", "active", False, ("retracted",)),
        Kind("r", "reading", "reading", "file", "open", True, ("done", "dropped")),
        Kind("q", "question", "questions", "question", "open", True, ("answered", "dropped")),
        Kind("n", "next_step", "next_steps", "step", "open", True, ("done", "dropped")),
        Kind("b", "blocker", "blockers", "blocker", "open", True, ("resolved",)),
        Kind("w", "warning", "warnings", "text", "active", False, ("retracted",)),
        Kind("f", "fact", "facts", "key", "active", False, FACT_STATUSES),
        Kind("c", "precondition", "preconditions", "check", "open", True, ("passed", "failed")),
        Kind("k", "gate", "gates", "name", "pending", True, ("approved", "rejected")),
    )
}

MAX_DECISIONS = 5
MAX_FILES = 10
MAX_BLOCKERS = 3
"""What a switch artifact lists at most; what these cut is counted in it."""

NOT_STATED = "Not stated."
"""The rationale of a decision whose source format has none."""

TASK_TEXTS = (
    *("title", "story", "criteria", "description", "inputs", "outputs", "needs", "memory_refs"),
    *("despite", "closed"),
)
"""What a task itself says, and its last handoff: T-1:criteria is the address of one."""

LIVE = frozenset({"accepted", "proposed", "active", "open", "verified", "assumed"})
"""The statuses of an item that is still valid."""


@cache
def _address() -> re.Pattern[str]:
    return re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]{0,127})#([a-z])([1-9][0-9]{0,9})", re.ASCII)


class Address(NamedTuple):
    """Where an item is found: task, kind letter, ordinal within the task and kind."""

    task: str
    letter: str
    ordinal: int

    def __str__(self) -> str:
        return f"{self.task}#{self.letter}{self.ordinal}"


def parse_address(text: str) -> Address | None:
    """The address written in `text`, or None when it isn't one of a known kind."""
    match = _address().fullmatch(text) if isinstance(text, str) else None  # pyright: ignore[reportUnnecessaryIsInstance]
    if match is None or match[2] not in KINDS:
        return None
    return Address(match[1], match[2], int(match[3]))


def stream_of(task: str) -> str:
    """The stream that holds a task's records."""
    return TASK_STREAM + task


def deliveries_of(task: str) -> str:
    """The stream of a task's deliveries: who was given what, and when."""
    return DELIVERY_STREAM + task


def origins_of(task: str) -> str:
    """The stream of a task's imports: where it came from, each time."""
    return ORIGIN_STREAM + task


def task_of(stream: str) -> str | None:
    """The task whose stream this is, or None for another kind of stream."""
    return stream.removeprefix(TASK_STREAM) if stream.startswith(TASK_STREAM) else None

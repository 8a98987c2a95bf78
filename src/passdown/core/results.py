"""Results of writes and searches: handoff commands, receipts, checks, recalled entries."""

from __future__ import annotations

from typing import Any, NamedTuple

from passdown.core.codec import as_document, short_repr
from passdown.errors import Problem


class HandoffCommand(NamedTuple):
    """The result of a handoff, recorded or only prepared: what the receiver is given.

    `state_delta` holds the actual changes, `context_summary` fits a prompt, `state_file` has the
    whole state. `held_by` names the human gates that keep the receiver from going on.

    A command that is only prepared has no digest; `prepared` is the handoff that it is of, and
    `hand_off(command)` records that.
    """

    task: str
    to_agent: str
    phase: str
    outcome: str
    version: int
    digest: str
    state_delta: dict[str, Any]
    context_summary: str
    state_file: str
    held_by: tuple[str, ...] = ()
    detail_score: int = 0
    is_replay: bool = False
    warnings: tuple[Problem, ...] = ()
    prepared: dict[str, Any] | None = None

    to_dict = as_document
    __repr__ = short_repr


class Receipt(NamedTuple):
    """The result of a smaller write: its version and its new items."""

    task: str
    version: int
    digest: str
    items: tuple[str, ...] = ()
    is_replay: bool = False
    warnings: tuple[Problem, ...] = ()

    to_dict = as_document
    __repr__ = short_repr


class Check(NamedTuple):
    """What a dry run finds: every problem and reason, how complete the handoff is, and the prepared
    command with what it would change; None where it would be refused.
    """

    problems: tuple[Problem, ...]
    detail_score: int
    handoff: dict[str, Any]
    command: HandoffCommand | None = None

    @property
    def ok(self) -> bool:
        """Whether the handoff would be recorded."""
        return all(problem.level != "error" for problem in self.problems)

    def to_dict(self) -> dict[str, Any]:
        """The result as a plain JSON object."""
        return {
            "ok": self.ok,
            "detail_score": self.detail_score,
            "problems": [problem.to_dict() for problem in self.problems],
            "handoff": self.handoff,
            "command": self.command.to_dict() if self.command else None,
        }


_NAMED = 5


class Recalled(NamedTuple):
    """One answer of a search.

    `address` opens with `show` (an item) or `graph` (knowledge, `node:ID`); `score` is 0 to 1;
    `passage` is the part of its text that fits the question; `stale` names cited files that have
    changed since, each with what became of it; `superseded_by` is the decision at the end of the
    chain that began with this one, and `holds` says whether that one holds; where the chain
    forked, `also_hold` are the others that do, the newest first.
    """

    address: str
    kind: str
    title: str
    passage: str
    score: float
    status: str
    agent: str
    at: str
    task: str
    version: int
    superseded_by: str = ""
    holds: bool = False
    stale: tuple[str, ...] = ()
    also_hold: tuple[str, ...] = ()

    to_dict = as_document
    __repr__ = short_repr

    @property
    def became(self) -> str:
        """What holds instead of a superseded decision, in words; empty for anything else."""
        if not self.superseded_by:
            return ""
        if not self.holds:
            return f"{self.superseded_by} took its place and doesn't hold either"
        if not self.also_hold:
            return f"{self.superseded_by} holds now"
        standing = (self.superseded_by, *self.also_hold)
        shown = ", ".join(standing[:_NAMED])
        more = f" and {len(standing) - _NAMED} more" if len(standing) > _NAMED else ""
        return f"forked: {shown}{more} hold now"

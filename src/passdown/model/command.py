"""What a write gives back: a handoff's command, or the receipt of anything smaller."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from passdown.errors import Problem


class HandoffCommand(NamedTuple):
    """The answer to a recorded handoff: what the receiver is given.

    `state_delta` holds the actual changes, `context_summary` fits a prompt, `state_file` has the
    whole state. `held_by` names the human gates that keep the receiver from going on.
    """

    task_id: str
    target_agent: str
    phase: str
    outcome: str
    version: int
    digest: str
    state_delta: dict[str, Any]
    context_summary: str
    state_file: str
    held_by: tuple[str, ...] = ()
    completeness: int = 0
    is_replay: bool = False
    warnings: tuple[Problem, ...] = ()

    def as_document(self) -> dict[str, Any]:
        """The command as a plain JSON object."""
        document = self._asdict()
        document["held_by"] = list(self.held_by)
        document["warnings"] = [problem.as_document() for problem in self.warnings]
        return document


class Receipt(NamedTuple):
    """The answer to a smaller write: the version it made and the items it brought."""

    task_id: str
    version: int
    digest: str
    items: tuple[str, ...] = ()
    is_replay: bool = False
    warnings: tuple[Problem, ...] = ()

    def as_document(self) -> dict[str, Any]:
        """The receipt as a plain JSON object."""
        document = self._asdict()
        document["items"] = list(self.items)
        document["warnings"] = [problem.as_document() for problem in self.warnings]
        return document


class Check(NamedTuple):
    """What a dry run finds: every problem and reason, and how complete the handoff is."""

    problems: tuple[Problem, ...]
    completeness: int
    handoff: dict[str, Any]

    @property
    def ok(self) -> bool:
        """Whether the handoff would be recorded."""
        return all(problem.level != "error" for problem in self.problems)

    def as_document(self) -> dict[str, Any]:
        """The result as a plain JSON object."""
        return {
            "ok": self.ok,
            "completeness": self.completeness,
            "problems": [problem.as_document() for problem in self.problems],
            "handoff": self.handoff,
        }

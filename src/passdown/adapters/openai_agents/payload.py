"""What the model fills in when it hands a task on: a handful of fields, each with one sentence.

Plain dataclasses: the SDK makes the JSON schema from them and checks the arguments against it.
What the ledger calls otherwise is renamed here, there and back.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast

from passdown.errors import Problem

if TYPE_CHECKING:
    from collections.abc import Iterable

_LEDGER_NAMES = {
    "next_steps": "suggested_next_steps",
    "questions": "open_questions",
    "files": "artifacts",
}
_DESCRIBED: dict[str, Any] = {"use_attribute_docstrings": True}


@dataclass(frozen=True, kw_only=True)
class DecisionMade:
    """What was chosen."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _DESCRIBED

    summary: str
    rationale: str
    """Why; never empty."""
    alternatives: tuple[str, ...] = ()
    """What else was considered."""


@dataclass(frozen=True, kw_only=True)
class StepAhead:
    """What should happen next."""

    step: str
    priority: Literal["high", "medium", "low"] = "medium"


@dataclass(frozen=True, kw_only=True)
class InTheWay:
    """Something that is in the way."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _DESCRIBED

    blocker: str
    suggested_resolution: str = ""
    """Needed if outcome is failed."""
    blocking_tasks: tuple[str, ...] = ()
    """Ids of tasks that it holds up; needed if outcome is blocked."""
    requires_human: bool = False
    """True holds the task until a person approves."""


@dataclass(frozen=True, kw_only=True)
class FileTouched:
    """A file that was made, changed or deleted."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _DESCRIBED

    path: str
    """Relative to the project."""
    change: Literal["created", "modify", "delete"] = "modify"
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class OpenQuestion:
    """Something unresolved."""

    question: str
    blocking: bool = False


@dataclass(frozen=True, kw_only=True)
class HandoffPayload:
    """Everything the next agent needs: it sees this instead of the conversation."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _DESCRIBED

    outcome: Literal["completed", "partial", "failed", "blocked"]
    """How your part ended; unless completed, name blockers, and if partial next steps too."""
    summary: str
    """The state of the work in a few sentences."""
    decisions: tuple[DecisionMade, ...] = ()
    next_steps: tuple[StepAhead, ...] = ()
    blockers: tuple[InTheWay, ...] = ()
    files: tuple[FileTouched, ...] = ()
    questions: tuple[OpenQuestion, ...] = ()
    resolves: tuple[str, ...] = ()
    """Addresses of open items that you settled, such as T-1#n2."""


_FIELDS = tuple(field.name for field in fields(HandoffPayload))


def compact(schema: Any) -> Any:
    """A JSON schema without what only repeats it: titles, and defaults of fields that have to be
    filled in anyway.
    """
    if isinstance(schema, list):
        return [compact(part) for part in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    nodes = cast("dict[str, Any]", schema)
    return {
        name: {key: compact(part) for key, part in value.items()}
        if name in ("properties", "$defs")  # below these, keys are names of ours
        else compact(value)
        for name, value in nodes.items()
        if name not in ("title", "default")
    }


def as_handoff(arguments: dict[str, Any]) -> dict[str, Any]:
    """The model's arguments under the names of the handoff schema; values stay as they are."""
    return {_LEDGER_NAMES.get(name, name): arguments[name] for name in _FIELDS if name in arguments}


def own_problems(arguments: dict[str, Any]) -> list[Problem]:
    """What the ledger would take and a receiver couldn't use: an empty summary, and arguments that
    are none of the payload's, which would be lost.
    """
    known = ", ".join(_FIELDS)
    summary = arguments.get("summary", "")
    is_empty = isinstance(summary, str) and not summary.strip()
    empty = Problem("summary", "required", "is empty", "the state of the work")
    return ([empty] if is_empty else []) + [
        Problem(name[:60], "unknown_field", "is no field of this handoff", f"one of {known}")
        for name in arguments
        if name not in _FIELDS
    ]


def as_arguments(problems: Iterable[Problem]) -> list[Problem]:
    """Problems of a handoff, addressed by the names that the model has filled in."""
    return [problem._replace(path=_renamed(problem.path)) for problem in problems]


def _renamed(path: str) -> str:
    for ours, ledgers in _LEDGER_NAMES.items():
        if path == ledgers or path.startswith((ledgers + "[", ledgers + ".")):
            return ours + path.removeprefix(ledgers)
    return path

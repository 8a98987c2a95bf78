"""The input schema of a handoff and a task, as pydantic models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from passdown.core.kinds import parse_address
from passdown.core.names import (
    agent_problems,
    id_problems,
    line_range_problems,
    normal_path,
    path_problems,
    tag_problems,
)
from passdown.core.text import excerpt, text_problems
from passdown.core.times import parse_time
from passdown.errors import Problem

Rule = Callable[[object, str], list[Problem]]


def _by_rule(rule: Rule, *, optional: bool = False) -> BeforeValidator:
    """A validator that applies a rule of ours and hands its first problem to pydantic."""

    def check(value: object) -> object:
        if optional and value in ("", None):
            return ""
        for problem in rule(value, ""):
            details = {"expected": problem.expected, "fix": problem.fix}
            # Braces would be read as placeholders by the error's own formatting.
            message = problem.message.replace("{", "(").replace("}", ")")
            raise PydanticCustomError(problem.code, message, details)  # pyright: ignore[reportArgumentType]
        return value

    return BeforeValidator(check)


def _text(value: object, path: str) -> list[Problem]:
    return text_problems(value, path)


def _any_text(value: object, path: str) -> list[Problem]:
    return text_problems(value, path, required=False)


def _time(value: object, path: str) -> list[Problem]:
    try:
        parse_time(value if isinstance(value, str) else "")
    except (ValueError, OverflowError):
        expected = "ISO 8601 with a zone, such as 2026-01-09T10:00:00Z"
        return [Problem(path, "invalid_time", f"{excerpt(str(value))!r} is no time", expected)]
    return []


def _address(value: object, path: str) -> list[Problem]:
    if isinstance(value, str) and parse_address(value):
        return []
    return [Problem(path, "invalid_address", f"{value!r:.60} is no item", "an address like T-1#b2")]


def _no_bool(value: object) -> object:
    # True is an int in Python; a version or size that says true is a mistake, not 1.
    if isinstance(value, bool):
        raise PydanticCustomError("wrong_type", "a boolean where a number belongs")
    return value


def _list(value: object) -> object:
    """YAML writes an empty list as nothing; one lone text is not a list."""
    return [] if value is None else value


Text = Annotated[str, _by_rule(_text)]
AnyText = Annotated[str, BeforeValidator(lambda v: "" if v is None else v), _by_rule(_any_text)]
Time = Annotated[str, _by_rule(_time, optional=True)]
TaskId = Annotated[str, _by_rule(id_problems)]
AgentName = Annotated[str, _by_rule(agent_problems)]
OptionalAgent = Annotated[str, _by_rule(agent_problems, optional=True)]
Path = Annotated[str, _by_rule(path_problems), AfterValidator(normal_path)]
Lines = Annotated[str, _by_rule(line_range_problems)]
Tag = Annotated[str, _by_rule(tag_problems)]
ItemAddress = Annotated[str, _by_rule(_address)]
Count = Annotated[int, BeforeValidator(_no_bool), Field(ge=0, le=2**53 - 1)]
Sha256 = Annotated[str, Field(pattern=r"^(sha256:)?[0-9a-f]{64}$")]

Level = Literal["high", "medium", "low"]
Severity = Literal["blocker", "high", "medium", "low"]
Phase = Literal["planning", "implementing", "testing", "reviewing", "completed"]
Outcome = Literal["completed", "partial", "failed", "blocked"]

MAX_ENTRIES = 10_000


Item = TypeVar("Item")
Listed = Annotated[list[Item], BeforeValidator(_list), Field(max_length=MAX_ENTRIES)]


def _empty() -> list[Any]:
    """A new list; a plain default would be copied deeply for every handoff."""
    return []


class Part(BaseModel):
    """A part of a handoff; unknown fields are kept and reported by the caller."""

    model_config = ConfigDict(extra="allow", frozen=True)


class DecisionInput(Part):
    """What was chosen and why."""

    summary: Text = Field(description="What was decided, in one sentence")
    rationale: Text = Field(description="Why")
    agent: OptionalAgent = Field("", description="Who decided; the sender when left out")
    at: Time = Field("", description="When, ISO 8601 with a zone; now when left out")
    alternatives: Listed[Text] = Field(
        default_factory=_empty, description="What else was considered"
    )
    artifacts: Listed[Text] = Field(
        default_factory=_empty, description="What the decision is about"
    )
    paths: Listed[Path] = Field(
        default_factory=_empty, description="Files that the decision governs"
    )
    tags: Listed[Tag] = Field(default_factory=_empty)
    status: Literal["proposed", "accepted", "superseded", "reverted"] = "accepted"
    supersedes: Listed[ItemAddress] = Field(
        default_factory=_empty, description="Decisions that this one replaces"
    )


class FileCreatedInput(Part):
    """A file that was made."""

    path: Path = Field(description="Path relative to the project root")
    purpose: Text = Field(description="What the file is for, in one sentence")
    lines: Lines = Field("all", description="N-M or all")


class FileModifiedInput(Part):
    """A file that was changed."""

    path: Path = Field(description="Path relative to the project root")
    lines: Lines = Field(description="N-M or all")
    change_type: Literal["add", "modify", "delete", "refactor"]
    description: Text = Field(description="What changed and why")


class ArtifactInput(Part):
    """A reference to a file; hash and size are taken from disk."""

    path: Path = Field(description="Path relative to the project root")
    type: Literal["source", "test", "config", "doc", ""] = ""
    sha256: Sha256 | None = None
    size_bytes: Count | None = None
    change: Literal["created", "add", "modify", "delete", "refactor", ""] = ""
    lines: Annotated[str, _by_rule(line_range_problems, optional=True)] = ""
    note: AnyText = ""


class PatternInput(Part):
    """A way of doing things to keep to."""

    id: AnyText = Field("", description="Made from the content when left out")
    pattern: Text = Field(description="The pattern in one sentence")
    location: Text = Field(description="Where it is used or defined")
    applies_to: Listed[Tag] = Field(
        default_factory=_empty, description="Tags: lowercase, hyphenated"
    )


class GotchaInput(Part):
    """Something to watch out for."""

    id: AnyText = Field("", description="Made from the content when left out")
    issue: Text = Field(description="The gotcha in one sentence")
    discovered_in: AnyText = Field("", description="Where or how it was found")
    mitigation: Text = Field(description="How to avoid or handle it")
    severity: Level


class ReadingInput(Part):
    """A file that the next agent should read."""

    file: Path
    reason: Text = Field(description="Why it is needed")


class QuestionInput(Part):
    """Something unresolved."""

    question: Text
    context: AnyText = Field("", description="Why it matters")
    recommendation: AnyText = Field("", description="The suggested answer")
    blocking: bool = Field(False, description="Does this block the next agent?")


class NextStepInput(Part):
    """What should happen next."""

    step: Text
    priority: Level = "medium"
    depends_on: Listed[Text] = Field(
        default_factory=_empty, description="Files or components it depends on"
    )


class BlockerInput(Part):
    """Something in the way."""

    blocker: Text
    impact: AnyText = Field("", description="What can't be done")
    suggested_resolution: AnyText = ""
    blocking_tasks: Listed[TaskId] = Field(
        default_factory=_empty, description="Tasks that have to wait"
    )
    severity: Severity = "blocker"
    requires_human: bool = Field(False, description="Opens a gate that a person answers")


class GateInput(Part):
    """The result of a quality gate."""

    name: Text
    result: Literal["passed", "failed"]
    detail: AnyText = ""


class StoryInput(Part):
    """The story that a task belongs to."""

    id: AnyText = ""
    path: AnyText = ""
    status: AnyText = ""
    current_task: AnyText = ""
    branch: AnyText = ""


class HandoffInput(Part):
    """One handoff: who, to whom, what was done, decided, found and left open."""

    task: TaskId = Field(description="The task that is handed on")
    outcome: Outcome = Field(description="How this step of the work ended")
    from_agent: OptionalAgent = Field("", description="The sender; the task's holder when left out")
    to_agent: OptionalAgent = Field("", description="The receiver")
    phase: Literal["planning", "implementing", "testing", "reviewing", "completed", ""] = Field(
        "", description="The phase that the task moves to; unchanged when left out"
    )
    summary: AnyText = Field("", description="The state of the work in a few sentences")
    files_created: Listed[FileCreatedInput] = Field(default_factory=_empty)
    files_modified: Listed[FileModifiedInput] = Field(default_factory=_empty)
    artifacts: Listed[ArtifactInput] = Field(default_factory=_empty)
    decisions: Listed[DecisionInput] = Field(default_factory=_empty)
    patterns_discovered: Listed[PatternInput] = Field(default_factory=_empty)
    gotchas: Listed[GotchaInput] = Field(default_factory=_empty)
    dependencies_for_next: Listed[ReadingInput] = Field(default_factory=_empty)
    open_questions: Listed[QuestionInput] = Field(default_factory=_empty)
    suggested_next_steps: Listed[NextStepInput] = Field(default_factory=_empty)
    blockers: Listed[BlockerInput] = Field(default_factory=_empty)
    gates: Listed[GateInput] = Field(default_factory=_empty, description="Results of quality gates")
    warnings: Listed[Text] = Field(default_factory=_empty)
    resolves: Listed[ItemAddress] = Field(
        default_factory=_empty, description="Open items that this step closed"
    )
    story: StoryInput | None = None
    expect_version: Count | None = Field(
        None, description="The version worked from; refused when the task has moved on"
    )
    schema_version: Literal["1.0"] = "1.0"
    metadata: dict[str, Any] = Field({}, description="Anything else, kept as it is")


class TaskInput(Part):
    """A task: what has to be done and how one knows that it is."""

    task: TaskId
    title: Text
    description: AnyText = ""
    inputs: Listed[Text] = Field(default_factory=_empty)
    outputs: Listed[Text] = Field(default_factory=_empty)
    criteria: Listed[Text] = Field(default_factory=_empty, description="Testable criteria")
    depends_on: Listed[TaskId] = Field(default_factory=_empty)
    phase: Phase = "planning"
    time_limit_minutes: Annotated[int, BeforeValidator(_no_bool), Field(ge=1)] | None = None
    agent: AgentName


class MarkInput(Part):
    """A new status for an item."""

    item: ItemAddress
    status: Text
    reason: AnyText = ""

"""The values of a handoff: what was done, decided, found and left open.

Frozen, keyword-only, equal by content, made of immutable parts. Field names are those of the
handoff schema, so a value, a YAML file and a JSON object read alike. Nothing here reads a clock or
a disk: times and hashes are filled in where a handoff is written down.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, is_dataclass
from datetime import datetime
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from passdown.model.times import stamp

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def _frozen(value: Any) -> Any:
    """The same value with every list as a tuple and every dict read-only, at any depth."""
    if isinstance(value, list | tuple):
        return tuple(_frozen(part) for part in cast("Sequence[Any]", value))
    if isinstance(value, dict):
        pairs = cast("dict[Any, Any]", value).items()
        return MappingProxyType({key: _frozen(part) for key, part in pairs})
    return value


class _Frozen:
    """A value whose lists and dicts can't be changed, whatever it was made from."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, list | dict):
                object.__setattr__(self, name, _frozen(value))


@dataclass(frozen=True, kw_only=True)
class Decision(_Frozen):
    """What was chosen and why, over what; later superseded or reverted, never edited."""

    summary: str
    rationale: str
    agent: str = ""
    at: datetime | None = None
    alternatives: tuple[str, ...] = ()
    artifacts: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    status: str = "accepted"
    supersedes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class FileCreated:
    """A file that this step of the work made."""

    path: str
    purpose: str
    lines: str = "all"


@dataclass(frozen=True, kw_only=True)
class FileModified:
    """A file that this step of the work changed."""

    path: str
    lines: str
    change_type: str
    description: str


@dataclass(frozen=True, kw_only=True)
class Artifact:
    """A reference to a file: path, type, content hash and size; never the content.

    `sha256` and `size_bytes` are taken from disk when the handoff is recorded; None where there is
    no such file any more.
    """

    path: str
    type: str = ""
    sha256: str | None = None
    size_bytes: int | None = None
    change: str = ""
    lines: str = ""
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Pattern(_Frozen):
    """A way of doing things that the next agent should keep to."""

    pattern: str
    location: str
    applies_to: tuple[str, ...] = ()
    id: str = ""


@dataclass(frozen=True, kw_only=True)
class Gotcha:
    """Something that went wrong or would, and how to avoid it."""

    issue: str
    mitigation: str
    severity: str
    discovered_in: str = ""
    id: str = ""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """A file that the next agent should read, and why."""

    file: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Question:
    """Something unresolved; `blocking` when the next agent can't go on without an answer."""

    question: str
    context: str = ""
    recommendation: str = ""
    blocking: bool = False


@dataclass(frozen=True, kw_only=True)
class NextStep(_Frozen):
    """What should happen next."""

    step: str
    priority: str = "medium"
    depends_on: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Blocker(_Frozen):
    """Something in the way. `requires_human` opens a gate that a person has to answer."""

    blocker: str
    impact: str = ""
    suggested_resolution: str = ""
    blocking_tasks: tuple[str, ...] = ()
    severity: str = "blocker"
    requires_human: bool = False


@dataclass(frozen=True, kw_only=True)
class GateResult:
    """How a quality gate ended: passed or failed."""

    name: str
    result: str
    detail: str = ""


@dataclass(frozen=True, kw_only=True)
class Story:
    """The story that a task belongs to, for teams that work by stories."""

    id: str = ""
    path: str = ""
    status: str = ""
    current_task: str = ""
    branch: str = ""


@dataclass(frozen=True, kw_only=True)
class Handoff(_Frozen):
    """One agent passes a task to another, with everything needed to go on."""

    task: str
    outcome: str
    from_agent: str = ""
    to_agent: str = ""
    phase: str = ""
    summary: str = ""
    files_created: tuple[FileCreated, ...] = ()
    files_modified: tuple[FileModified, ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    decisions: tuple[Decision, ...] = ()
    patterns_discovered: tuple[Pattern, ...] = ()
    gotchas: tuple[Gotcha, ...] = ()
    dependencies_for_next: tuple[Reading, ...] = ()
    open_questions: tuple[Question, ...] = ()
    suggested_next_steps: tuple[NextStep, ...] = ()
    blockers: tuple[Blocker, ...] = ()
    gates: tuple[GateResult, ...] = ()
    warnings: tuple[str, ...] = ()
    resolves: tuple[str, ...] = ()
    story: Story | None = None
    expect_version: int | None = None
    schema_version: str = "1.0"
    metadata: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, kw_only=True)
class HandoffContext(_Frozen):
    """What travels with a handoff inside a program: who, to whom, which decisions, what to look up.

    `memory_refs` are item addresses; each opens with `Workspace.show`.
    """

    source: str
    target: str
    at: datetime
    decisions: tuple[Decision, ...] = ()
    memory_refs: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))


def as_plain(value: object) -> Any:
    """A value as plain JSON data; what is empty or unset is left out."""
    kind = type(value)
    if kind in _SCALARS:
        return value
    if kind is tuple or kind is list:
        return [as_plain(part) for part in cast("Sequence[object]", value)]
    names = _field_names(kind)
    if names:
        pairs = ((name, as_plain(getattr(value, name))) for name in names)
        return {name: part for name, part in pairs if part not in _EMPTY}
    if isinstance(value, datetime):
        # A time without a zone is passed on as it is, for the check to name it.
        return stamp(value) if value.tzinfo else value.isoformat()
    if hasattr(value, "items"):
        entries = cast("Mapping[object, object]", value).items()
        return {str(key): as_plain(part) for key, part in entries}
    return value


_SCALARS = frozenset({str, int, bool, float, type(None)})
_EMPTY: tuple[object, ...] = (None, "", [], {})


@cache
def _field_names(kind: type) -> tuple[str, ...]:
    return tuple(f.name for f in fields(kind)) if is_dataclass(kind) else ()


def artifact_type(path: str) -> str:
    """Guess what a file is for from its name: test, doc, config or source."""
    parts = path.lower().split("/")
    name = parts[-1]
    stem, _, ending = name.rpartition(".")
    if "tests" in parts[:-1] or "test" in parts[:-1] or "__tests__" in parts[:-1]:
        return "test"
    if stem.startswith("test_") or stem.endswith(("_test", ".test", ".spec", "_spec")):
        return "test"
    if ending in ("md", "rst", "txt", "adoc") or "docs" in parts[:-1]:
        return "doc"
    if ending in ("toml", "yaml", "yml", "json", "ini", "cfg", "conf", "env") or not stem:
        return "config"
    return "source"

"""The values of a handoff and of a task's state, and the record bodies they are stored as."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, is_dataclass, replace
from datetime import datetime
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from passdown.core.documents import STATE_SCHEMA
from passdown.core.times import parse_time, stamp
from passdown.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


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


_BODY_LISTS = {
    "decisions": "decisions",
    "patterns_discovered": "patterns",
    "gotchas": "gotchas",
    "dependencies_for_next": "reading",
    "open_questions": "questions",
    "suggested_next_steps": "next_steps",
    "blockers": "blockers",
    "gates": "gates",
    "warnings": "warnings",
    "resolves": "resolves",
}
_BODY_VALUES: dict[str, type[Any]] = {
    "patterns": Pattern,
    "gotchas": Gotcha,
    "reading": Reading,
    "questions": Question,
    "next_steps": NextStep,
    "blockers": Blocker,
    "gates": GateResult,
}
_BODY_FIELDS = ("outcome", "from_agent", "to_agent", "phase", "summary", "story", "metadata")


def all_artifacts(handoff: Handoff) -> list[Artifact]:
    """Everything a handoff says of files, one artifact per path."""
    found: dict[str, Artifact] = {}
    for made in handoff.files_created:
        found[made.path] = Artifact(
            path=made.path, change="created", lines=made.lines, note=made.purpose
        )
    for changed in handoff.files_modified:
        found[changed.path] = Artifact(
            path=changed.path,
            change=changed.change_type,
            lines=changed.lines,
            note=changed.description,
        )
    for artifact in handoff.artifacts:
        known = found.get(artifact.path)
        found[artifact.path] = _merged(known, artifact) if known else artifact
    return [a if a.type else replace(a, type=artifact_type(a.path)) for a in found.values()]


def _merged(known: Artifact, artifact: Artifact) -> Artifact:
    """What the file lists say, with type, hash and size from the artifact."""
    return replace(
        artifact,
        change=known.change,
        lines=known.lines,
        note=artifact.note or known.note,
    )


def handoff_body(plain: dict[str, Any], artifacts: Iterable[Artifact]) -> dict[str, Any]:
    """The body of a handoff's record, from its plain form and its measured artifacts."""
    body = {name: plain[name] for name in _BODY_FIELDS if name in plain}
    body["schema_version"] = plain["schema_version"]
    for name, listed in _BODY_LISTS.items():
        if name in plain:
            body[listed] = plain[name]
    written = [as_plain(artifact) for artifact in artifacts]
    if written:
        body["artifacts"] = written
    return body


def handoff_from_body(task: str, body: dict[str, Any]) -> Handoff:
    """The handoff that a record's body holds."""
    fields: dict[str, Any] = {name: body[name] for name in _BODY_FIELDS if name in body}
    artifacts = [Artifact(**entry) for entry in body.get("artifacts", ())]
    for name, listed in _BODY_LISTS.items():
        entries: list[Any] = body.get(listed, [])
        if listed == "decisions":
            fields[name] = tuple(decision_from_body(entry) for entry in entries)
        elif listed in _BODY_VALUES:
            fields[name] = tuple(part_from_body(_BODY_VALUES[listed], entry) for entry in entries)
        else:
            fields[name] = tuple(entries)
    if "story" in fields:
        fields["story"] = part_from_body(Story, fields["story"])
    return Handoff(
        task=task,
        **fields,
        files_created=tuple(_created(a) for a in artifacts if a.change == "created"),
        files_modified=tuple(_modified(a) for a in artifacts if _is_modified(a)),
        artifacts=tuple(artifacts),
        schema_version=body.get("schema_version", "1.0"),
    )


def decision_from_body(entry: dict[str, Any]) -> Decision:
    """The decision that an entry of a body, or an item document, holds."""
    known = {name: entry[name] for name in Decision.__dataclass_fields__ if name in entry}
    if known.get("at"):
        known["at"] = parse_time(known["at"])
    return part_from_body(Decision, known)


def part_from_body(kind: type[Any], entry: dict[str, Any]) -> Any:
    """The value of one part; fields that it does not have are passed over."""
    fields = kind.__dataclass_fields__
    known = {
        name: tuple(cast("list[Any]", value)) if isinstance(value, list) else value
        for name, value in entry.items()
        if name in fields
    }
    return kind(**known)


def _created(artifact: Artifact) -> FileCreated:
    return FileCreated(path=artifact.path, purpose=artifact.note, lines=artifact.lines)


def _is_modified(artifact: Artifact) -> bool:
    return artifact.change in ("add", "modify", "delete", "refactor") and bool(artifact.lines)


def _modified(artifact: Artifact) -> FileModified:
    return FileModified(
        path=artifact.path,
        lines=artifact.lines,
        change_type=artifact.change,
        description=artifact.note,
    )


_STATE_PARTS: dict[str, type[Any]] = {
    "artifacts": Artifact,
    "blockers": Blocker,
    "patterns": Pattern,
    "gotchas": Gotcha,
    "questions": Question,
    "next_steps": NextStep,
    "reading": Reading,
}
_STATE_FIELDS = (
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
_STATE_LISTS = ("inputs", "outputs", "criteria", "depends_on", "gates_passed", "gates_failed")


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
    def from_dict(cls, document: dict[str, Any]) -> TaskState:
        """The value of a state document; refuses one of another schema."""
        given = document.get("schema")
        if given != STATE_SCHEMA:
            problem = Problem("schema", "unknown_schema", f"{given!r}", STATE_SCHEMA)
            raise InvalidInput("this is not a state document that this release knows", [problem])
        values: dict[str, Any] = {name: document[name] for name in _STATE_FIELDS}
        values |= {name: tuple(document[name]) for name in _STATE_LISTS}
        for name, kind in _STATE_PARTS.items():
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

"""Record bodies: what of a value is written down, and the value read back from what was written.

A body leaves out what is empty. Files that were created, changed or referred to become one list of
artifacts, in which a path stands once.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from passdown.model.handoff import (
    Artifact,
    Blocker,
    Decision,
    FileCreated,
    FileModified,
    GateResult,
    Gotcha,
    Handoff,
    NextStep,
    Pattern,
    Question,
    Reading,
    Story,
    artifact_type,
    as_plain,
)
from passdown.model.times import parse_time

if TYPE_CHECKING:
    from collections.abc import Iterable

_LISTS = {
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
_VALUES: dict[str, type[Any]] = {
    "patterns": Pattern,
    "gotchas": Gotcha,
    "reading": Reading,
    "questions": Question,
    "next_steps": NextStep,
    "blockers": Blocker,
    "gates": GateResult,
}
_PLAIN = ("outcome", "from_agent", "to_agent", "phase", "summary", "story", "metadata")


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
    body = {name: plain[name] for name in _PLAIN if name in plain}
    body["schema_version"] = plain["schema_version"]
    for name, field in _LISTS.items():
        if name in plain:
            body[field] = plain[name]
    written = [as_plain(artifact) for artifact in artifacts]
    if written:
        body["artifacts"] = written
    return body


def handoff_from_body(task: str, body: dict[str, Any]) -> Handoff:
    """The handoff that a record's body holds."""
    fields: dict[str, Any] = {name: body[name] for name in _PLAIN if name in body}
    artifacts = [Artifact(**entry) for entry in body.get("artifacts", ())]
    for name, field in _LISTS.items():
        entries: list[Any] = body.get(field, [])
        if field == "decisions":
            fields[name] = tuple(decision_from_body(entry) for entry in entries)
        elif field in _VALUES:
            fields[name] = tuple(part_from_body(_VALUES[field], entry) for entry in entries)
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

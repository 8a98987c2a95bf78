"""The tools that record something: handoff, decide, note, task_new."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

from passdown.errors import InvalidInput, Problem
from passdown.model.intake import check_entry, check_task
from passdown.model.item_text import flat
from passdown.surfaces.mcp.arguments import as_list
from passdown.surfaces.mcp.lines import warned

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from passdown.model.command import HandoffCommand, Receipt
    from passdown.workspace import Workspace

Document = dict[str, Any]

# The tool's short names, and what a handoff calls the same.
_HANDOFF_NAMES = {
    "agent": "from_agent",
    "to": "to_agent",
    "task_id": "task",
    "files": "artifacts",
    "next_steps": "suggested_next_steps",
    "questions": "open_questions",
    "patterns": "patterns_discovered",
    "reading": "dependencies_for_next",
}

# What warnings call the fields that a handoff leaves out.
_SHORT = {name: own for name, own in _HANDOFF_NAMES.items() if name != "task_id"}

# The lists of a handoff whose entries a text alone can stand for, and the field that it fills.
_TEXT_OF = {
    "artifacts": "path",
    "decisions": "summary",
    "suggested_next_steps": "step",
    "open_questions": "question",
    "blockers": "blocker",
}
_FILE_NAMES = {"change_type": "change", "purpose": "note", "description": "note"}

_NOTE_NAMES = {
    "pattern": {"text": "pattern", "location": "location", "tags": "applies_to"},
    "gotcha": {
        "text": "issue",
        "location": "discovered_in",
        "mitigation": "mitigation",
        "severity": "severity",
    },
}


def hand_off(workspace: Workspace, given: Mapping[str, Any], agent: str) -> str:
    """Record a handoff: the tool's own short fields, or any shape that a handoff may have."""
    data, used = _handoff_shape(given)
    key = data.pop("key", None)
    try:
        command = workspace.hand_off(data, key=key, from_agent=agent)
    except InvalidInput as error:
        told = _in_words_of(error.problems, used)
        raise InvalidInput(error.message, told, next_step=error.next_step) from error
    return _handed(command)


def _handoff_shape(given: Mapping[str, Any]) -> tuple[Document, dict[str, str]]:
    """The arguments with a handoff's field names, and which short names stood for which."""
    data: Document = {}
    # What is missing is missed under the tool's own name, unless the call has the handoff's.
    used = {own: name for name, own in _SHORT.items() if own not in given}
    for name, value in given.items():
        own = _HANDOFF_NAMES.get(name, name)
        if value is None or (own != name and own in given):
            # Said twice, the handoff's own name counts; the other is kept and reported as unknown.
            own = name
        elif own != name:
            used[own] = name
        data[own] = _entries(own, value)
    return data, used


def _entries(name: str, value: object) -> object:
    if name not in _TEXT_OF or not (listed := as_list(value)) or not isinstance(listed, list):
        return value
    entries = cast("list[object]", listed)
    return [_entry(name, entry) for entry in entries]


def _entry(name: str, entry: object) -> object:
    if isinstance(entry, str):
        return {_TEXT_OF[name]: entry}
    if name == "artifacts" and isinstance(entry, dict):
        parts = cast("Document", entry)
        return {_FILE_NAMES.get(part, part): value for part, value in parts.items()}
    return entry


def _in_words_of(problems: Iterable[Problem], used: Mapping[str, str]) -> list[Problem]:
    """Problems with the paths that the caller wrote."""
    return [problem._replace(path=_renamed(problem.path, used)) for problem in problems]


def _renamed(path: str, used: Mapping[str, str]) -> str:
    head = re.match(r"\w*", path)
    name = head[0] if head else ""
    return used.get(name, name) + path[len(name) :]


def _handed(command: HandoffCommand) -> str:
    said = "Was recorded already" if command.is_replay else "Recorded"
    to = f" to {flat(command.target_agent)}" if command.target_agent else ""
    line = (
        f"{said}: {command.task_id} version {command.version}, {command.outcome}{to}, "
        f"phase {command.phase}, {command.completeness} of 100 complete."
    )
    held = f"Held by {', '.join(command.held_by)}: a person has to answer first."
    told = warned(_in_words_of(command.warnings, {own: name for name, own in _SHORT.items()}))
    return "\n".join([line, *([held] if command.held_by else []), *told])


def decide(workspace: Workspace, given: Document, agent: str) -> str:
    """Record one decision and why."""
    who: Document = {**given, "agent": agent}
    return _received(workspace.decide(**who))


def decision_problems(given: Document) -> list[Problem]:
    """What a decision's own rules say against some arguments."""
    entry = {name: value for name, value in given.items() if name not in ("task", "agent", "key")}
    return check_entry("decision", entry)[1]


def note(workspace: Workspace, given: Document, agent: str) -> str:
    """Record a pattern or a gotcha."""
    who = {"agent": agent, "task": given.get("task"), "key": given.get("key")}
    return _received(workspace.note(given["kind"], **who, **_note_entry(given)))


def note_problems(given: Document) -> list[Problem]:
    """What the rules of its kind say against a note: a pattern has a place, a gotcha a remedy."""
    kind: object = given.get("kind")
    if not isinstance(kind, str) or kind not in _NOTE_NAMES:
        return []
    names = _NOTE_NAMES[kind]
    unfit = [
        Problem(name, "not_here", f"a {kind} has no {name}", f"only {', '.join(names)}")
        for name in given
        if name not in names and name not in ("kind", "task", "agent", "key")
    ]
    found = check_entry(kind, _note_entry(given))[1]
    return [*unfit, *_in_words_of(found, {own: name for name, own in names.items()})]


def _note_entry(given: Document) -> Document:
    names = _NOTE_NAMES[given["kind"]]
    entry = {names[name]: value for name, value in given.items() if name in names}
    return {"severity": "medium", **entry} if given["kind"] == "gotcha" else entry


def new_task(workspace: Workspace, given: Document, agent: str) -> str:
    """Make a task."""
    who: Document = {**given, "agent": agent}
    return _received(workspace.create_task(**who))


def task_problems(given: Document) -> list[Problem]:
    """What a task's own rules say against some arguments."""
    entry = {name: value for name, value in given.items() if name != "key"}
    return check_task({**entry, "agent": "somebody"})[1]


def _received(receipt: Receipt) -> str:
    said = "Was recorded already" if receipt.is_replay else "Recorded"
    items = f", {', '.join(receipt.items)}" if receipt.items else ""
    line = f"{said}: {receipt.task_id} version {receipt.version}{items}."
    return "\n".join([line, *warned(receipt.warnings)])

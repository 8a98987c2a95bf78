"""Switch artifacts as files: whether one is sound, and whether it is what was recorded."""

from __future__ import annotations

import os.path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from passdown.errors import InvalidInput, Problem
from passdown.model.text import excerpt

if TYPE_CHECKING:
    from collections.abc import Iterator

    from passdown.workspace import Workspace
    from passdown.workspace.aliases import CounterLike

Document = dict[str, Any]

_PAGE = 500
_RUNTIME = os.path.join(".passdown", "handoffs")
_OF_THE_STATE = ("consumed",)
_ENDS = ("from_agent", "to_agent", "timestamp")
"""What tells one artifact from another, whatever its file is called."""
_SHOWN = 60

MOST_LISTED = 200


class Compared(NamedTuple):
    """What is wrong with an artifact's file; `is_known` when it was compared with its record."""

    problems: list[Problem]
    is_known: bool


def check_artifact(text: str | bytes, *, counter: CounterLike = None) -> list[Problem]:
    """What is wrong with the text of a switch artifact; an empty list when nothing is."""
    from passdown.briefing.switching.artifact import artifact_problems, read_artifact

    try:
        artifact = read_artifact(text)
    except InvalidInput as error:
        return list(error.problems)
    return artifact_problems(artifact, counter=counter)


def check_recorded(
    workspace: Workspace, path: str, text: str | bytes, *, counter: CounterLike = None
) -> list[Problem]:
    """What is wrong with an artifact's file, compared with what this workspace recorded of it.

    A file that another workspace made is judged by itself.
    """
    return compared(workspace, path, text, counter=counter).problems


def compared(
    workspace: Workspace, path: str, text: str | bytes, *, counter: CounterLike = None
) -> Compared:
    """What is wrong with an artifact's file, and whether this workspace has a record of it.

    The record is found by the file's name, else by who left it to whom and when.
    """
    problems = check_artifact(text, counter=counter)
    name = os.path.basename(path)
    file, recorded = _recorded(workspace, name, _ends(text))
    problems += [] if file == name else _unrecorded(workspace, path)
    if recorded is None:
        return Compared(problems, is_known=False)
    differing = _differing(text, recorded)
    if not differing:
        # Its length was judged when it was made, by the counter in the settings.
        problems = [problem for problem in problems if problem.code != "too_long"]
    return Compared([*problems, *differing], is_known=True)


def every_artifact(workspace: Workspace, limit: int = MOST_LISTED) -> list[Document]:
    """The switch artifacts of all tasks, newest first, at most so many."""
    consumed: set[tuple[str, str]] = set()
    found: list[Document] = []
    for delivery in _deliveries(workspace):
        task = delivery["task"]
        consumed.update((task, name) for name in delivery.get("consumed", ()))
        if "file" in delivery:
            names = ("task", "file", "from_agent", "version", "at", "artifact")
            entry = {name: delivery[name] for name in names}
            is_consumed = (task, delivery["file"]) in consumed
            found.append({**entry, "to_agent": delivery["agent"], "consumed": is_consumed})
        if len(found) == limit:
            break
    return found


def _ends(text: str | bytes) -> tuple[object, ...] | None:
    """From whom, to whom and when, as an artifact's text has it."""
    from passdown.briefing.switching.artifact import read_artifact

    try:
        artifact = read_artifact(text)
    except InvalidInput:
        return None
    return tuple(artifact.get(name) for name in _ENDS)


def _recorded(
    workspace: Workspace, name: str, ends: tuple[object, ...] | None
) -> tuple[str, Document | None]:
    """The artifact of that file name, else the one between the same ends, and its file's name."""
    consumed: set[str] = set()
    alike: tuple[str, Document | None] = ("", None)
    for delivery in _deliveries(workspace):
        consumed.update(delivery.get("consumed", ()))
        if "file" not in delivery:
            continue
        file, artifact = delivery["file"], delivery["artifact"]
        if file == name:
            return file, {**artifact, "consumed": file in consumed}
        if alike[1] is None and ends == tuple(artifact.get(end) for end in _ENDS):
            alike = file, {**artifact, "consumed": file in consumed}
    return alike


def _deliveries(workspace: Workspace) -> Iterator[Document]:
    page = workspace.briefs(limit=_PAGE)
    while page:
        yield from page
        page = workspace.briefs(limit=_PAGE, before=page[-1]["seq"])


def _unrecorded(workspace: Workspace, path: str) -> list[Problem]:
    folder = os.path.join(os.path.realpath(workspace.root), _RUNTIME)
    if os.path.dirname(os.path.realpath(path)) != folder:
        return []
    message = "this workspace has no record of it"
    return [Problem("", "not_recorded", message, "an artifact that a switch wrote")]


def _differing(text: str | bytes, recorded: Document) -> list[Problem]:
    from passdown.briefing.switching.artifact import artifact_text, read_artifact

    try:
        found = read_artifact(text)
    except InvalidInput:
        return [Problem("", "edited", "is not what was recorded", "the recorded text")]
    # Written and read again, so that a difference is one of content and not of spelling.
    meant = read_artifact(artifact_text(recorded))
    names = [*meant, *(name for name in found if name not in meant)]
    return [
        _edited(name, found.get(name), meant.get(name))
        for name in names
        if found.get(name) != meant.get(name)
    ]


def _edited(name: str, found: object, meant: object) -> Problem:
    return Problem(
        name,
        "edited",
        f"is {_shown(_only(found, meant))}, recorded was {_shown(_only(meant, found))}",
        fix="read what was recorded with passdown log --briefs --json",
        level="warning" if name in _OF_THE_STATE else "error",
    )


def _only(value: object, other: object) -> object:
    """Of two lists, what is in the first alone: that says more than their beginnings."""
    if isinstance(value, list) and isinstance(other, list):
        others = cast("list[object]", other)
        return [entry for entry in cast("list[object]", value) if entry not in others]
    return cast("object", value)


def _shown(value: object) -> str:
    return "nothing" if value in (None, "", [], {}) else excerpt(repr(value), _SHOWN)


def artifact_view(text: str | bytes) -> str:
    """An artifact's text as markdown; raises InvalidInput for text that is none."""
    from passdown.briefing.switching.artifact import artifact_markdown, read_artifact

    return artifact_markdown(read_artifact(text))


def artifact_data(text: str | bytes) -> Document:
    """An artifact's text as plain data; raises InvalidInput for text that is none."""
    from passdown.briefing.switching.artifact import read_artifact

    return read_artifact(text)


def artifact_template() -> str:
    """The empty artifact, to be filled in by hand."""
    from passdown.briefing.switching.template import template_text

    return template_text()


__all__ = [
    "artifact_data",
    "artifact_template",
    "artifact_view",
    "check_artifact",
    "check_recorded",
    "compared",
    "every_artifact",
]

"""Switch artifacts as files: whether one is sound, and whether it is what was recorded."""

from __future__ import annotations

import os.path
from typing import TYPE_CHECKING, Any

from passdown.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from passdown.workspace import Workspace
    from passdown.workspace.aliases import CounterLike

Document = dict[str, Any]

_PAGE = 500
_RUNTIME = os.path.join(".passdown", "handoffs")
_OF_THE_STATE = ("consumed",)


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
    problems = check_artifact(text, counter=counter)
    recorded = _recorded(workspace, os.path.basename(path))
    if recorded is None:
        return [*problems, *_unrecorded(workspace, path)]
    differing = _differing(text, recorded)
    if not differing:
        # Its length was judged when it was made, by the counter in the settings.
        return [problem for problem in problems if problem.code != "too_long"]
    return [*problems, *differing]


def _recorded(workspace: Workspace, name: str) -> Document | None:
    """The artifact of that file name, as the ledger has it."""
    consumed = False
    for delivery in _deliveries(workspace):
        consumed = consumed or name in delivery.get("consumed", ())
        if delivery.get("file") == name:
            return {**delivery["artifact"], "consumed": consumed}
    return None


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
        Problem(
            name,
            "edited",
            "is not what was recorded",
            fix="read what was recorded with passdown log --briefs --json",
            level="warning" if name in _OF_THE_STATE else "error",
        )
        for name in names
        if found.get(name) != meant.get(name)
    ]


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
]

"""A switch artifact for a reader: markdown with sections that are always the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from passdown.briefing.switching.fields import STORY_FIELDS
from passdown.model.text import visible

if TYPE_CHECKING:
    from collections.abc import Mapping

_SECTIONS = {
    "decisions": "Decisions",
    "files_modified": "Files modified",
    "blockers": "Blockers",
}
# At the beginning of an item these would start a block of their own.
_BLOCK_MARKS = "#>-+*`~=|_<"


def one_line(text: object) -> str:
    """A text on one line, with whatever is invisible written as an escape."""
    return visible(" ".join(str(text).split()))


def artifact_markdown(artifact: Mapping[str, Any]) -> str:
    """The artifact as markdown; no text in it can open a section or swallow one."""
    story = _mapping(artifact.get("story_context"))
    omitted = _mapping(artifact.get("omitted"))
    known = [f"{name}: {one_line(story[name])}" for name in STORY_FIELDS if story.get(name)]
    names = [one_line(artifact.get(name) or "none") for name in ("from_agent", "to_agent")]
    consumed = "consumed" if artifact.get("consumed") else "not consumed"
    at = _item(artifact.get("timestamp") or "no time")
    lines = [f"# Handoff from {names[0]} to {names[1]}", "", f"{at}, {consumed}"]
    lines += _section("Story", known)
    for name, title in _SECTIONS.items():
        given: object = artifact.get(name)
        listed = cast("list[object]", given) if isinstance(given, list) else _one(given)
        lines += _section(title, listed)
    lines += _section("Next action", _one(artifact.get("next_action")))
    lines += _section("Omitted", [f"{name}: {omitted[name]}" for name in omitted])
    lines += _section("Full record", _one(artifact.get("full_record")))
    return "".join(f"{line}\n" for line in lines)


def _mapping(given: object) -> dict[str, Any]:
    return cast("dict[str, Any]", given) if isinstance(given, dict) else {}


def _one(value: object) -> list[object]:
    return [value] if value else []


def _section(title: str, entries: list[Any]) -> list[str]:
    items = [f"- {_item(entry)}" for entry in entries] or ["None."]
    return ["", f"## {title}", "", *items]


def _item(entry: object) -> str:
    line = one_line(entry)
    return f"\\{line}" if line[:1] and line[0] in _BLOCK_MARKS else line

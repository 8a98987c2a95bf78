"""Files that a note names: those that aren't there can't be handed over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from passdown.errors import Problem
from passdown.model.kinds import NOT_STATED
from passdown.model.text import excerpt

if TYPE_CHECKING:
    from passdown.workspace.opened import Opened

Plain = dict[str, Any]

_SHOWN_PATHS = 3
_SHOWN_PATH = 100


def on_disk(opened: Opened, plain: Plain) -> tuple[Plain, list[Problem]]:
    """Files that aren't there can't be handed over: they are named as reading, and so said."""
    if not opened.settings.artifacts_on_disk:
        return plain, []
    missing: list[Plain] = []
    kept: Plain = dict(plain)
    for name in ("files_created", "files_modified", "artifacts"):
        entries: list[Plain] = plain.get(name, [])
        there = [_is_there(opened, entry) for entry in entries]
        kept[name] = [entry for entry, is_there in zip(entries, there, strict=True) if is_there]
        gone = [entry for entry, is_there in zip(entries, there, strict=True) if not is_there]
        missing += [{"file": entry["path"], "reason": _said_of(entry)} for entry in gone]
    if not missing:
        return plain, []
    kept["dependencies_for_next"] = [*plain.get("dependencies_for_next", ()), *missing]
    named = ", ".join(excerpt(entry["file"], _SHOWN_PATH) for entry in missing[:_SHOWN_PATHS])
    rest = f" and {len(missing) - _SHOWN_PATHS:,} more" if len(missing) > _SHOWN_PATHS else ""
    count = "1 file is" if len(missing) == 1 else f"{len(missing):,} files are"
    message = f"{count} not on disk here ({named}{rest}); kept as reading"
    warning = Problem("dependencies_for_next", "missing_file", message, level="warning")
    return {name: value for name, value in kept.items() if value != []}, [warning]


def _is_there(opened: Opened, entry: Plain) -> bool:
    measured = opened.project.measure(entry["path"], "path")
    is_gone = "delete" in (entry.get("change_type"), entry.get("change"))
    return measured.problem is None and (measured.sha256 is not None or is_gone)


def _said_of(entry: Plain) -> str:
    said = entry.get("purpose") or entry.get("description") or entry.get("note") or ""
    return said if said and said != NOT_STATED else "Named in the note."

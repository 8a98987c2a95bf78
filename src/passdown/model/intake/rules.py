"""Rules across fields: what an outcome demands, what is recommended, and how complete a handoff
is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from passdown.errors import Problem
from passdown.model.text import excerpt

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Plain = dict[str, Any]

# Field, weight in the completeness score, and what a missing one means for the next agent.
RECOMMENDED = (
    ("summary", 2, "a few sentences on the state of the work"),
    ("patterns_discovered", 1, "what the next agent should keep to"),
    ("gotchas", 1, "what the next agent should watch out for"),
    ("dependencies_for_next", 2, "which files the next agent should read, and why"),
    ("suggested_next_steps", 2, "what should happen next"),
)
OPTIONAL = (("decisions", 1), ("open_questions", 1), ("to_agent", 1))
REQUIRED_WEIGHT = 4


def broken_rules(handoff: Mapping[str, Any], changed_files: Sequence[str] | None) -> list[Problem]:
    """The rules that no single field shows. `changed_files` is None where nobody knows them."""
    outcome = handoff.get("outcome")
    found: list[Problem] = []
    if outcome in ("partial", "failed", "blocked") and not handoff.get("blockers"):
        found.append(_required("blockers", f"outcome is {outcome}", "what is in the way"))
    if outcome == "partial" and not handoff.get("suggested_next_steps"):
        found.append(_required("suggested_next_steps", "outcome is partial", "what comes next"))
    found += _blocker_details(handoff, str(outcome))
    found += _file_lists(handoff, changed_files)
    found += _twice(handoff)
    if handoff.get("from_agent") and handoff.get("from_agent") == handoff.get("to_agent"):
        found.append(same_agent("is the sender"))
    return found


def same_agent(message: str) -> Problem:
    """A handoff whose sender is its receiver."""
    fix = "leave to_agent out, or name the receiver"
    return Problem("to_agent", "same_agent", message, "another agent", fix)


def _required(path: str, because: str, expected: str) -> Problem:
    return Problem(path, "required", f"is missing, and {because}", expected)


def _blocker_details(handoff: Mapping[str, Any], outcome: str) -> list[Problem]:
    wanted = {"failed": "suggested_resolution", "blocked": "blocking_tasks"}.get(outcome)
    if wanted is None:
        return []
    return [
        _required(f"blockers[{index}].{wanted}", f"outcome is {outcome}", f"a {wanted} each")
        for index, blocker in enumerate(handoff.get("blockers") or ())
        if not blocker.get(wanted)
    ]


def _file_lists(handoff: Mapping[str, Any], changed_files: Sequence[str] | None) -> list[Problem]:
    if not changed_files:
        return []
    lists = ("files_created", "files_modified", "artifacts")
    named = {entry.get("path") for name in lists for entry in handoff.get(name) or ()}
    if not named:
        first = ", ".join(changed_files[:3]) + (" and more" if len(changed_files) > 3 else "")
        message = f"is missing, and {len(changed_files)} files changed ({excerpt(first, 120)})"
        return [Problem("files_modified", "required", message, "files_created or files_modified")]
    return [
        Problem("files_modified", "unlisted_file", f"{excerpt(path, 120)} changed", level="warning")
        for path in changed_files
        if path not in named
    ]


def _twice(handoff: Mapping[str, Any]) -> list[Problem]:
    """A path that one list names twice: which entry holds can't be known."""
    found: list[Problem] = []
    for name in ("files_created", "files_modified", "artifacts"):
        seen: set[object] = set()
        for index, entry in enumerate(handoff.get(name) or ()):
            path = entry.get("path")
            if path is not None and path in seen:
                where, given = f"{name}[{index}].path", excerpt(str(path), 80)
                found.append(Problem(where, "duplicate_path", f"{given} is listed twice", "once"))
            seen.add(path)
    return found


def advice(handoff: Mapping[str, Any]) -> list[Problem]:
    """Warnings for recommended fields that are missing."""
    return [
        Problem(name, "recommended", "is missing", why, level="warning")
        for name, _, why in RECOMMENDED
        if not handoff.get(name)
    ]


def completeness(handoff: Mapping[str, Any]) -> int:
    """How much of the schema a valid handoff fills, 0 to 100."""
    weights = [(name, weight) for name, weight, _ in RECOMMENDED] + list(OPTIONAL)
    total = REQUIRED_WEIGHT + sum(weight for _, weight in weights)
    filled = sum(weight for name, weight in weights if handoff.get(name))
    return round(100 * (REQUIRED_WEIGHT + filled) / total)

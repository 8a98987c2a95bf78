"""From what was found to a handoff in plain form, ready to be checked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from passdown.model.kinds import NOT_STATED

if TYPE_CHECKING:
    from passdown.model.freeform.values import Extraction, Found

Plain = dict[str, Any]

LISTS = (
    "files_created",
    "files_modified",
    "artifacts",
    "decisions",
    "patterns_discovered",
    "gotchas",
    "dependencies_for_next",
    "open_questions",
    "suggested_next_steps",
    "blockers",
    "gates",
)
MAX_ENTRIES = 10_000
"""As many as a list of a handoff may hold."""

_ANSWERED = frozenset({"outcome", "summary", "warnings", *LISTS})


def as_handoff(
    extraction: Extraction,
    task: str,
    agent: str,
    *,
    to_agent: str = "",
    minimum: float = 0.5,
    source: Plain | None = None,
) -> Plain:
    """The handoff of a note: every item that is at least as sure as `minimum`.

    `source` says where the note is kept; it goes to the metadata. An outcome that needs more than
    the note says has "Not stated." in its place.
    """
    kept = kept_of(extraction.found, minimum)
    lists = {name: [dict(item.fields) for item in kept if item.kind == name] for name in LISTS}
    plain: Plain = {
        "task": task,
        "outcome": extraction.header.outcome or "completed",
        "from_agent": agent,
        "to_agent": to_agent if to_agent != agent else "",
        "summary": extraction.header.summary,
        **{name: entries for name, entries in lists.items() if entries},
    }
    if source:
        plain["metadata"] = {"migrated": source}
    return with_outcome(plain)


def kept_of(found: tuple[Found, ...], minimum: float) -> list[Found]:
    """What of a note goes into its handoff: what is sure enough, as far as each list has room."""
    kept: list[Found] = []
    for name in LISTS:
        sure = [item for item in found if item.kind == name and item.confidence >= minimum]
        kept += sure[:MAX_ENTRIES]
    return kept


def with_outcome(plain: Plain) -> Plain:
    """The handoff with everything that its outcome demands.

    Nobody can say which tasks wait for one that is blocked, where the note doesn't: such a one is
    partial.
    """
    outcome = plain["outcome"]
    if outcome == "completed" and not plain.get("blockers"):
        return plain
    # What waits for something isn't over, whatever its status says.
    outcome = "partial" if outcome == "completed" else outcome
    blockers = [dict(each) for each in plain.get("blockers") or [{"blocker": NOT_STATED}]]
    if outcome == "blocked" and not all(each.get("blocking_tasks") for each in blockers):
        outcome = "partial"
    if outcome == "failed":
        for each in blockers:
            each["suggested_resolution"] = each.get("suggested_resolution") or NOT_STATED
    filled = {**plain, "outcome": outcome, "blockers": blockers}
    if outcome == "partial" and not plain.get("suggested_next_steps"):
        filled["suggested_next_steps"] = [{"step": NOT_STATED}]
    return filled


def with_answer(plain: Plain, answer: Plain) -> Plain:
    """A handoff with what an answer says in its place, list by list; what it leaves out stays.

    An answer structures the note and nothing else: it can't name another task or sender, or close
    what is open.
    """
    given = {name: value for name, value in answer.items() if name in _ANSWERED and value}
    return {**plain, **given}

"""Filling a switch artifact: what one agent leaves to the next, within fixed limits for any input.

It is filled in order of importance. What doesn't fit stays out whole, never cut in the middle; it
is counted under `omitted`, and `full_record` says where all of it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

from passdown.briefing.switching.fields import (
    LEAST,
    LIMITS,
    MAX_FIELD,
    MAX_SENTENCES,
    MAX_TOKENS,
    REFERENCE,
    STORY_FIELDS,
    VERSION,
)
from passdown.briefing.switching.sentences import sentence_ends
from passdown.briefing.switching.yaml_text import artifact_text, without_surrogates
from passdown.errors import InvalidInput, Problem
from passdown.model.tokens import counter_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from passdown.briefing.switching.fields import Artifact
    from passdown.model.tokens import Count, Counter

Piece = tuple[str, int]

_NO_REASON = "Not stated."
_SEVERITIES = ("blocker", "high", "medium", "low")
_PRIORITIES = ("high", "medium", "low")
_IN_FORCE = ("accepted", "proposed", "")

_ORDER: tuple[Piece, ...] = (
    ("story_id", 0),
    ("current_task", 0),
    ("next_action", 0),
    ("blockers", 0),
    ("decisions", 0),
    ("story_status", 0),
    ("branch", 0),
    ("story_path", 0),
    ("timestamp", 0),
    ("next_action", 1),
    ("blockers", 1),
    ("decisions", 1),
    *(("files_modified", index) for index in range(3)),
    ("blockers", 2),
    ("decisions", 2),
    *(("files_modified", index) for index in range(3, 6)),
    ("decisions", 3),
    *(("files_modified", index) for index in range(6, LIMITS["files_modified"])),
    ("decisions", 4),
    *(("rationales", index) for index in range(LIMITS["decisions"])),
)
"""Every piece that an artifact can hold, the most important first."""


class _Source(NamedTuple):
    """The facts, ready to be chosen from: each list with its most important entry first."""

    frame: Artifact
    fields: dict[str, str]
    entries: dict[str, list[str]]
    totals: dict[str, int]
    reasons: list[str]
    action: str
    action_ends: list[int]
    further_steps: int


def artifact_of(
    facts: Mapping[str, Any], *, counter: str | Count | Counter | None, max_tokens: int = MAX_TOKENS
) -> Artifact:
    """The artifact of a change of agents, never longer than `max_tokens` as YAML text.

    `facts` holds task, title, phase, status, at, from_agent, to_agent, story, decisions (newest
    first), files (newest first), blockers, next_steps, totals and full_record; whatever else it
    holds is not carried. Raises InvalidInput when not even the two names and the reference fit.
    """
    count = counter_of(counter).tokens
    source = _source_of(facts)

    def fits(artifact: Artifact) -> bool:
        return count(artifact_text(artifact)) <= max_tokens

    pieces = [piece for piece in _ORDER if _exists(piece, source)]
    whole = _built(source, set(pieces))
    if fits(whole):
        return whole
    if not fits(_built(source, set())):
        return _least(source, count, max_tokens)
    chosen: set[Piece] = set()
    for piece in pieces:
        if _has_its_base(piece, chosen) and fits(_built(source, {*chosen, piece})):
            chosen.add(piece)
    return _built(source, chosen)


def _least(source: _Source, count: Count, max_tokens: int) -> Artifact:
    least = {name: source.frame[name] for name in LEAST}
    needed = count(artifact_text(least))
    if needed > max_tokens:
        expected = f"at least {needed:,} for the two names and the reference"
        problem = Problem("max_tokens", "too_small", f"{max_tokens:,} tokens given", expected)
        raise InvalidInput("no artifact is that short", [problem])
    return least


def _text(value: object) -> str:
    return "" if value is None else without_surrogates(str(value))


def _source_of(facts: Mapping[str, Any]) -> _Source:
    decisions = [d for d in _dicts(facts, "decisions") if _text(d.get("status")) in _IN_FORCE]
    blockers = sorted(
        _dicts(facts, "blockers"), key=lambda b: _rank(b.get("severity"), _SEVERITIES)
    )
    steps = sorted(_dicts(facts, "next_steps"), key=lambda n: _rank(n.get("priority"), _PRIORITIES))
    entries = {
        "decisions": [_summary(decision) for decision in decisions],
        "files_modified": [_text(path) for path in facts.get("files") or ()],
        "blockers": [_text(blocker.get("blocker")) for blocker in blockers],
    }
    action = _text(steps[0].get("step")) if steps else ""
    return _Source(
        frame=_frame(facts),
        fields=_fields(facts),
        entries={name: found[: LIMITS[name]] for name, found in entries.items()},
        totals=_totals(facts, entries),
        reasons=[_reason(decision) for decision in decisions[: LIMITS["decisions"]]],
        action=action,
        action_ends=sentence_ends(action),
        further_steps=max(0, len(steps) - 1),
    )


def _dicts(facts: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    given: Iterable[object] = facts.get(name) or ()
    return [cast("dict[str, Any]", entry) for entry in given if isinstance(entry, dict)]


def _rank(word: object, order: tuple[str, ...]) -> int:
    """The place of a word in an order; one that isn't in it stands in the middle."""
    return order.index(str(word)) if word in order else order.index("medium")


def _summary(decision: dict[str, Any]) -> str:
    proposed = " [proposed]" if decision.get("status") == "proposed" else ""
    return f"{_text(decision.get('summary'))}{proposed}"


def _reason(decision: dict[str, Any]) -> str:
    reason = _text(decision.get("rationale"))
    return "" if reason == _NO_REASON else reason


def _frame(facts: Mapping[str, Any]) -> Artifact:
    """The parts that are always there and can't be left out but all together."""
    return {
        "version": VERSION,
        "from_agent": _text(facts.get("from_agent")),
        "to_agent": _text(facts.get("to_agent")),
        "full_record": _text(facts.get("full_record")),
        "consumed": False,
    }


def _fields(facts: Mapping[str, Any]) -> dict[str, str]:
    given: object = facts.get("story") or {}
    story = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
    return {
        "timestamp": _text(facts.get("at")),
        "story_id": _text(story.get("id") or facts.get("task")),
        "story_path": _text(story.get("path")),
        "story_status": _text(story.get("status") or facts.get("status") or facts.get("phase")),
        "current_task": _text(story.get("current_task") or facts.get("title")),
        "branch": _text(story.get("branch")),
    }


def _totals(facts: Mapping[str, Any], entries: dict[str, list[str]]) -> dict[str, int]:
    """How many there are of each list in all, which can be more than were given."""
    stated = cast("dict[str, Any]", facts.get("totals") or {})
    names = {"decisions": "decisions", "files_modified": "files", "blockers": "blockers"}
    return {
        name: max(int(stated.get(names[name]) or 0), len(found)) for name, found in entries.items()
    }


def _exists(piece: Piece, source: _Source) -> bool:
    """Whether the facts have this piece, and of a size that an artifact takes."""
    name, index = piece
    if name in source.fields:
        return 0 < len(source.fields[name]) <= MAX_FIELD
    if name == "next_action":
        return index < min(len(source.action_ends), MAX_SENTENCES)
    if name == "rationales":
        return index < len(source.reasons) and bool(source.reasons[index])
    return index < len(source.entries[name])


def _has_its_base(piece: Piece, chosen: set[Piece]) -> bool:
    """A reason needs its decision beside it, a second sentence the first one before it."""
    name, index = piece
    if name == "rationales":
        return ("decisions", index) in chosen
    return name != "next_action" or index == 0 or (name, index - 1) in chosen


def _built(source: _Source, chosen: set[Piece]) -> Artifact:
    def field(name: str) -> str:
        full = source.fields[name]
        return full if not full or (name, 0) in chosen else REFERENCE

    lists = {
        name: [_entry(source, (name, i), chosen) for i in range(len(found)) if (name, i) in chosen]
        for name, found in source.entries.items()
    }
    omitted = _omitted(source, chosen)
    return {
        "version": source.frame["version"],
        "timestamp": field("timestamp"),
        "from_agent": source.frame["from_agent"],
        "to_agent": source.frame["to_agent"],
        "story_context": {name: field(name) for name in STORY_FIELDS},
        **lists,
        "next_action": _action(source, chosen),
        **({"omitted": omitted} if omitted else {}),
        "full_record": source.frame["full_record"],
        "consumed": source.frame["consumed"],
    }


def _entry(source: _Source, piece: Piece, chosen: set[Piece]) -> str:
    name, index = piece
    text = source.entries[name][index]
    has_reason = name == "decisions" and ("rationales", index) in chosen
    return f"{text} ({source.reasons[index]})" if has_reason else text


def _sentences(chosen: set[Piece]) -> int:
    return sum(name == "next_action" for name, _ in chosen)


def _action(source: _Source, chosen: set[Piece]) -> str:
    if not source.action_ends:
        return ""
    kept = _sentences(chosen)
    return source.action[: source.action_ends[kept - 1]].strip() if kept else REFERENCE


def _omitted(source: _Source, chosen: set[Piece]) -> dict[str, int]:
    counts = {
        name: total - sum(chosen_name == name for chosen_name, _ in chosen)
        for name, total in source.totals.items()
    }
    counts["rationales"] = sum(
        bool(reason) and ("decisions", i) in chosen and ("rationales", i) not in chosen
        for i, reason in enumerate(source.reasons)
    )
    counts["next_action"] = len(source.action_ends) - _sentences(chosen)
    counts["next_steps"] = source.further_steps
    for name, full in source.fields.items():
        counts[name] = int(bool(full) and (name, 0) not in chosen)
    return {name: count for name, count in counts.items() if count > 0}

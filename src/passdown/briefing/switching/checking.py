"""What is wrong with a switch artifact, all of it at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from passdown.briefing.switching.fields import (
    FIELDS,
    LIMITS,
    MAX_SENTENCES,
    MAX_TOKENS,
    NEVER_CARRIED,
    STORY_FIELDS,
    plain_key,
)
from passdown.briefing.switching.sentences import sentence_ends
from passdown.briefing.switching.yaml_text import artifact_text
from passdown.errors import Problem
from passdown.model.text import child_path, is_blank
from passdown.model.tokens import counter_of

if TYPE_CHECKING:
    from passdown.model.tokens import Count, Counter

_TEXTS = ("version", "timestamp", "from_agent", "to_agent", "next_action", "full_record")
_MAX_DEPTH = 32


def artifact_problems(
    data: object,
    *,
    counter: str | Count | Counter | None = None,
    max_tokens: int = MAX_TOKENS,
) -> list[Problem]:
    """What is wrong with an artifact's data; an empty list when nothing is.

    Errors: empty (no agents, no story context, no next action), wrong_type, too_many, too_long,
    invalid_time, never_carried. A field that is merely unknown is a warning.
    """
    if not isinstance(data, dict):
        return [Problem("", "wrong_type", f"{type(data).__name__} given", "an artifact's fields")]
    artifact = cast("dict[str, Any]", data)
    found = [
        *_type_problems(artifact),
        *_missing(artifact),
        *_carried(artifact, "", 0),
        *_unknown(artifact),
        *_over_limits(artifact),
    ]
    if not any(problem.code == "wrong_type" for problem in found):
        tokens = counter_of(counter).tokens(artifact_text(artifact))
        if tokens > max_tokens:
            expected = f"at most {max_tokens:,}"
            found.append(Problem("", "too_long", f"{tokens:,} tokens", expected))
    return found


def _wrong(path: str, value: object, expected: str) -> Problem:
    return Problem(path, "wrong_type", f"{type(value).__name__} given", expected)


def _type_problems(artifact: dict[str, Any]) -> list[Problem]:
    found = [
        _wrong(name, artifact[name], "text")
        for name in _TEXTS
        if name in artifact and not isinstance(artifact[name], str)
    ]
    if "consumed" in artifact and not isinstance(artifact["consumed"], bool):
        found.append(_wrong("consumed", artifact["consumed"], "true or false"))
    for name in LIMITS:
        found += _list_problems(artifact.get(name, []), name)
    story: object = artifact.get("story_context", {})
    if isinstance(story, dict):
        found += [
            _wrong(child_path("story_context", key), value, "text")
            for key, value in cast("dict[str, object]", story).items()
            if not isinstance(value, str)
        ]
    else:
        found.append(_wrong("story_context", story, "a story's fields"))
    return [*found, *_count_problems(artifact.get("omitted", {})), *_time_problems(artifact)]


def _list_problems(value: object, name: str) -> list[Problem]:
    if not isinstance(value, list):
        return [_wrong(name, value, "a list of texts")]
    entries = enumerate(cast("list[object]", value))
    return [
        _wrong(f"{name}[{i}]", each, "text") for i, each in entries if not isinstance(each, str)
    ]


def _count_problems(omitted: object) -> list[Problem]:
    if not isinstance(omitted, dict):
        return [_wrong("omitted", omitted, "counts by name")]
    return [
        _wrong(child_path("omitted", name), count, "a whole number from 0")
        for name, count in cast("dict[str, object]", omitted).items()
        if not isinstance(count, int) or isinstance(count, bool) or count < 0
    ]


def _time_problems(artifact: dict[str, Any]) -> list[Problem]:
    from passdown.model.times import parse_time

    at = artifact.get("timestamp")
    if not isinstance(at, str) or not at:
        return []
    try:
        parse_time(at)
    except ValueError:
        expected = "ISO 8601 with a zone, such as 2026-01-09T10:00:00Z"
        return [Problem("timestamp", "invalid_time", "is no such time", expected)]
    return []


def _missing(artifact: dict[str, Any]) -> list[Problem]:
    found = [
        Problem(name, "empty", "names no agent", "an agent's name")
        for name in ("from_agent", "to_agent")
        if _says_nothing(artifact.get(name))
    ]
    story: object = artifact.get("story_context")
    values = cast("dict[str, object]", story) if isinstance(story, dict) else {}
    if all(_says_nothing(values.get(name)) for name in ("story_id", "current_task")):
        expected = "a story_id or a current_task"
        found.append(Problem("story_context", "empty", "says nothing of the work", expected))
    if _says_nothing(artifact.get("next_action")):
        expected = f"what to do next, in at most {MAX_SENTENCES} sentences"
        found.append(Problem("next_action", "empty", "is missing", expected))
    return found


def _says_nothing(value: object) -> bool:
    return value is None or (isinstance(value, str) and is_blank(value))


def _carried(value: object, path: str, depth: int) -> list[Problem]:
    """Fields of the agent that leaves, at any depth."""
    if depth > _MAX_DEPTH:
        return [Problem(path, "too_deep", "is nested too deeply", "an artifact's fields")]
    found: list[Problem] = []
    if isinstance(value, dict):
        for key, inner in cast("dict[object, object]", value).items():
            where = child_path(path, key)
            if plain_key(key) in NEVER_CARRIED:
                message = "belongs to the agent that leaves"
                found.append(Problem(where, "never_carried", message, fix="leave it out"))
            found += _carried(inner, where, depth + 1)
    elif isinstance(value, list):
        for index, inner in enumerate(cast("list[object]", value)):
            found += _carried(inner, f"{path}[{index}]", depth + 1)
    return found


def _unknown(artifact: dict[str, Any]) -> list[Problem]:
    given: object = artifact.get("story_context")
    story = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
    known = {"": FIELDS, "story_context": STORY_FIELDS}
    parts = {"": artifact, "story_context": story}
    return [
        Problem(
            child_path(path, key),
            "unknown_field",
            "is no field of an artifact",
            " | ".join(known[path]),
            level="warning",
        )
        for path, part in parts.items()
        for key in part
        if key not in known[path] and plain_key(key) not in NEVER_CARRIED
    ]


def _over_limits(artifact: dict[str, Any]) -> list[Problem]:
    found: list[Problem] = []
    for name, limit in LIMITS.items():
        entries: object = artifact.get(name)
        if isinstance(entries, list) and (size := len(cast("list[object]", entries))) > limit:
            found.append(Problem(name, "too_many", f"{size:,} entries", f"at most {limit}"))
    action: object = artifact.get("next_action")
    sentences = len(sentence_ends(action)) if isinstance(action, str) else 0
    if sentences > MAX_SENTENCES:
        expected = f"at most {MAX_SENTENCES}"
        found.append(Problem("next_action", "too_many", f"{sentences:,} sentences", expected))
    return found

"""The handoff that a model fills in: its schema, its checks, its record."""

from __future__ import annotations

import hashlib
import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from passdown.core.handoff_templates import tool_schema, yaml_template
from passdown.core.names import agent_problems, suggest_agent
from passdown.errors import (
    Conflict,
    GateRefused,
    InvalidInput,
    KeyReused,
    Problem,
    raise_problems,
)
from passdown.mcp.arguments import handoff_as_meant

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from passdown.core.results import HandoffCommand
    from passdown.core.types import JsonObject
    from passdown.workspace import Workspace

_COMPACT: dict[str, tuple[str, ...]] = {
    "outcome": (),
    "summary": (),
    "decisions": ("summary", "rationale"),
    "suggested_next_steps": (),
    "blockers": ("blocker", "suggested_resolution", "requires_human"),
    "artifacts": (),
    "open_questions": (),
    "resolves": (),
}
_FULL: dict[str, tuple[str, ...]] = {
    **_COMPACT,
    "decisions": ("summary", "rationale", "alternatives"),
    "suggested_next_steps": ("step", "priority"),
    "blockers": ("blocker", "suggested_resolution", "blocking_tasks", "requires_human"),
    "artifacts": ("path", "change", "note"),
    "open_questions": ("question", "blocking"),
}
_SHORT_NAMES = {
    "suggested_next_steps": "next_steps",
    "artifacts": "files",
    "open_questions": "questions",
}
_SET_BY_PROGRAM = frozenset(
    "task task_id from_agent from agent to_agent to phase metadata expect_version".split()
)


def handoff_schema(*, is_full: bool = False) -> JsonObject:
    """The JSON Schema of what a model fills in to hand off, at most 200 tokens unless full.

    Every field of a handoff is accepted, in the schema or not. Entries may be texts or objects.
    """
    names, required = (_FULL if is_full else _COMPACT), ("outcome", "summary")
    schema = tool_schema(names, required=required, renamed=_SHORT_NAMES)
    if not is_full:
        # What it lacks is in the answer to a handoff that has problems.
        for field in schema["properties"].values():
            field.pop("description", None)
            for part in field.get("items", {}).get("properties", {}).values():
                part.pop("description", None)
            field.get("items", {}).pop("required", None)
    return schema


class Attempt(NamedTuple):
    """A model's attempt to hand off: the recorded command, or what it has to fix."""

    command: HandoffCommand | None
    problems: list[Problem]


def hand_off(
    workspace: Workspace,
    arguments: Mapping[str, Any] | str | None,
    *,
    key: str | None = None,
    more: Iterable[Problem] = (),
    metadata: JsonObject | None = None,
    **fields: str,
) -> Attempt:
    """Check and record the handoff that a model gave; nothing is recorded if it has problems.

    `fields` are those that the program sets (task, from_agent, to_agent, phase), `more` are
    problems that the program found. With the same `key`, a repeated handoff is the first one,
    held by the gates that still hold.
    """
    given, problems = read_arguments(arguments)
    document = handoff_of(given, **fields)
    if metadata:
        document["metadata"] = metadata
    if not problems:
        # A handoff that is repeated after a pause is held by itself.
        checked = workspace.check_handoff(document).problems
        found = [each for each in checked if each.code != "human_gate"]
        problems = [*more, *handoff_problems(given, found)]
    if problems:
        return Attempt(None, problems)
    try:
        return Attempt(workspace.hand_off(document, key=key), [])
    except (InvalidInput, GateRefused) as error:
        return Attempt(None, list(error.problems))
    except (Conflict, KeyReused) as error:
        return Attempt(None, [Problem("", error.code, error.message)])


def read_arguments(
    arguments: Mapping[str, Any] | str | None,
) -> tuple[JsonObject, list[Problem]]:
    """A model's arguments as an object, also from JSON, and what is wrong with them."""
    given: object = arguments or {}
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except (ValueError, RecursionError) as error:
            return {}, [Problem("", "invalid_json", str(error)[:200], "a JSON object")]
    if not isinstance(given, dict):
        return {}, [Problem("", "wrong_type", "no JSON object", "a JSON object")]
    return dict(cast("JsonObject", given)), []


def handoff_of(arguments: JsonObject, **fields: str) -> JsonObject:
    """A handoff from a model's arguments and the fields that the program sets."""
    given = {name: value for name, value in arguments.items() if name not in _SET_BY_PROGRAM}
    found = {**handoff_as_meant(given), **fields}
    if isinstance(found.get("resolves"), list) and fields.get("task"):
        # Briefs name the items of a task without it.
        found["resolves"] = [
            f"{fields['task']}#{each}" if isinstance(each, str) and "#" not in each else each
            for each in found["resolves"]
        ]
    if found.get("outcome") == "blocked" and isinstance(found.get("blockers"), list):
        # A handoff that is blocked needs the tasks that wait: this one, unless others are named.
        found["blockers"] = [_with_blocked_task(each, fields) for each in found["blockers"]]
    return found


def _with_blocked_task(entry: object, fields: Mapping[str, str]) -> object:
    given = {"blocker": entry} if isinstance(entry, str) else entry
    if not isinstance(given, dict) or not fields.get("task"):
        return cast("object", given)
    named = cast("JsonObject", given)
    return {**named, "blocking_tasks": named.get("blocking_tasks") or [fields["task"]]}


def handoff_problems(arguments: JsonObject, found: Iterable[Problem]) -> list[Problem]:
    """What a model has to fix: errors, fields that would be lost, an empty summary."""
    lost = [
        Problem(name, "unknown_field", "can't be set here", "", "leave it out")
        for name in arguments
        if name in _SET_BY_PROGRAM
    ]
    unknown = [
        each if each.fix else each._replace(fix="leave it out")
        for each in found
        if each.code == "unknown_field"
    ]
    errors = [each for each in found if each.level == "error"]
    summary = arguments.get("summary") or ""
    if isinstance(summary, str) and not summary.strip():
        lost.append(Problem("summary", "required", "is missing", "the state of the work"))
    return list(dict.fromkeys([*lost, *errors, *unknown]))


def refusal_text(problems: Iterable[Problem], *, is_empty: bool = False) -> str:
    """The answer to a model whose handoff has problems; to an empty one with every field."""
    lines = [f"- {problem.line()}" for problem in problems]
    head = "No handoff was made; nothing was recorded. Fix these, then call the tool again:"
    rest = [f"Every field:\n{yaml_template().rstrip()}"] if is_empty else []
    return "\n".join([head, *lines, *rest])


def agent_name_of(name: object, path: str) -> str:
    """The id under which the ledger knows an agent, from its name as people write it.

    `Research Agent` is `Research-Agent`, `Assistant`, which is a role, `assistant-agent`; a name
    without ASCII letters is `agent-` and a digest of it. Raises InvalidInput for what is no text.
    """
    if not isinstance(name, str) or not name.strip():
        raise_problems("the agent can't be recorded", agent_problems(name, path))
    return _agent_id(str(name))


@lru_cache(1_000)
def _agent_id(name: str) -> str:
    """The id of a name: the name itself, where it can be one."""
    if not agent_problems(name, "agent"):
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return suggest_agent(name) or f"agent-{digest}"

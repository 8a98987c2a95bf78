"""Tool definitions, in a fixed order.

Every host sends the definitions with each request, so they are short: an argument's name says what
it is, and what holds for all of them is in the server's instructions. No schema has a choice
(`anyOf`) at its root or a type that depends on another argument: some hosts refuse both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from passdown.core.handoff import Decision, Gotcha, Pattern, TaskFields
from passdown.core.handoff_templates import tool_schema, tool_type
from passdown.core.kinds import READY, TASK_STATUSES
from passdown.core.schema import fields_of

if TYPE_CHECKING:
    from passdown.core.types import JsonObject


REQUEST_KINDS = ("question", "plan", "code", "completion", "budget")
"""What `note` asks an agent for, with `to`."""
_TEXT: JsonObject = {"type": "string"}
_NUMBERS = ("budget", "limit", "offset", "version", "after")
_SWITCHES = ("history", "all")
_PLAIN = ("severity", "stopped")
"""Choices that aren't listed: a wrong word is refused with those there are."""


ACCEPTED: dict[str, JsonObject] = {}
"""By tool, the schemas of all its arguments, those too that its definition leaves out."""


def _tool(
    name: str,
    description: str,
    names: str,
    *shapes: type[Any],
    is_reading: bool = False,
    **known: JsonObject | str,
) -> JsonObject:
    """A tool; `names` of arguments after a bar are accepted and not listed."""
    listed, _, others = names.partition("|")
    ACCEPTED[name] = _schema(f"{listed} {others}", *shapes, **known)["properties"]
    return _definition(name, description, _schema(listed, *shapes, **known), is_reading=is_reading)


def _definition(
    name: str, description: str, schema: JsonObject, *, is_reading: bool = False
) -> JsonObject:
    """Nothing here deletes or reaches outside, and a repeated write is the first one."""
    return {
        "name": name,
        "description": description,
        "inputSchema": schema,
        "annotations": {
            "readOnlyHint": is_reading,
            "destructiveHint": False,
            "idempotentHint": True,
            "openWorldHint": False,
        },
    }


def _schema(names: str, *shapes: type[Any], **known: JsonObject | str) -> JsonObject:
    """The schema of some arguments; marks after a name say that it is required (!) or not (?).

    Fields of the declared `shapes` have their types, and are required where each of these requires
    them. `known` gives the schema of others, or a description.
    """
    declared = [fields_of(shape) for shape in shapes]
    properties: JsonObject = {}
    required: list[str] = []
    for word in names.split():
        name = word.rstrip("!?")
        fields = [each[name] for each in declared if name in each]
        is_required = len(fields) == len(declared) and all(field.is_required for field in fields)
        kind = "integer" if name in _NUMBERS else "boolean" if name in _SWITCHES else "string"
        found = tool_type(fields[0].type) if fields else {"type": kind}
        if name in _PLAIN:
            del found["enum"]
        given = known.get(name, {})
        properties[name] = found | ({"description": given} if isinstance(given, str) else given)
        if word.endswith("!") or (fields and is_required and word == name != "agent"):
            required.append(name)
    schema: JsonObject = {"type": "object", "properties": properties}
    return {**schema, "required": required} if required else schema


def _names(shape: type[Any]) -> str:
    return " ".join(fields_of(shape))


HANDOFF_NAMES = {
    "from_agent": "agent",
    "to_agent": "to",
    "artifacts": "files",
    "suggested_next_steps": "next_steps",
    "open_questions": "questions",
    "patterns_discovered": "patterns",
    "dependencies_for_next": "reading",
}
"""What the tool calls the fields of a handoff; each is an alias that a handoff has anyway."""


def _handoff_schema() -> JsonObject:
    """The fields that models need most; all others are accepted too."""
    fields: dict[str, tuple[str, ...]] = {
        "task": (),
        "outcome": (),
        "summary": (),
        "to_agent": (),
        "phase": (),
        "decisions": ("summary", "rationale"),
        "artifacts": (),
        "suggested_next_steps": (),
        "open_questions": (),
        "blockers": ("blocker", "suggested_resolution", "blocking_tasks", "requires_human"),
        "resolves": (),
        "stopped": (),
        "from_agent": (),
    }
    hints = {"files": "paths changed or deleted", "resolves": "ids closed: T-1#n2"}
    schema = tool_schema(fields, renamed=HANDOFF_NAMES)
    blocker: JsonObject = schema["properties"]["blockers"]["items"]["properties"]
    for name, each in [*schema["properties"].items(), *blocker.items()]:
        each.pop("description", None)
        if name in _PLAIN:
            del each["enum"]
        each.update({"description": hints[name]} if name in hints else {})
    return schema


TOOLS: tuple[JsonObject, ...] = (
    _tool(
        "brief",
        "State, next steps, blockers, decisions and gotchas of a task. Call it first when you "
        "start or resume.",
        "task agent | budget",
        is_reading=True,
    ),
    _tool(
        "recall",
        "Search everything recorded, before you decide and when something looks odd.",
        "query! kind path | task limit",
        is_reading=True,
    ),
    _tool(
        "show",
        "Open an id: an item (T-1#d3), or a task (T-1), its history, or its state at a version.",
        "id! history | version offset limit",
        is_reading=True,
    ),
    _tool(
        "tasks",
        "List tasks: status, phase, holder. Use it to find work or ids.",
        "status holder | after limit",
        status={"enum": [READY, *TASK_STATUSES]},
        is_reading=True,
    ),
    _tool(
        "gates",
        "List what a person has to approve before a task can go on; `ask` has the person asked.",
        "task ask | all",
        ask="a gate: T-1#k1",
    ),
    _definition(
        "handoff",
        "Record a handoff when you finish, stop, are blocked or pass work on. Unless completed: "
        "next_steps, and blockers or what stopped you (time, context, budget, turn). More fields: "
        "passdown://schema/handoff.",
        _handoff_schema(),
    ),
    _tool(
        "decide",
        "Record one decision and why, as soon as it is made; task workspace is for all work.",
        f"summary rationale task alternatives supersedes | key {_names(Decision)}",
        Decision,
    ),
    _tool(
        "note",
        "Record a pattern (with location), gotcha (with mitigation) or fact (key: value). Or, "
        "with `to`, ask an agent of your run, or have your work reviewed.",
        "kind! text! to location mitigation severity task | tags key value status",
        Pattern,
        Gotcha,
        kind={"enum": ["pattern", "gotcha", "fact", *REQUEST_KINDS]},
        tags=tool_type(fields_of(Pattern)["applies_to"].type),
    ),
    _tool(
        "task_new",
        "Make a task, when work begins that has none, or split one up.",
        f"title task? criteria depends_on | key {_names(TaskFields).replace('task ', '', 1)}",
        TaskFields,
    ),
    _tool(
        "knowledge_add",
        "Record a component, rule or relation of the project, as soon as you learn it.",
        "knowledge! | task key",
        knowledge={
            "type": "object",
            "description": "id, type, summary, edges: [{relation, target}]",
        },
    ),
)

TASK_TOOLS = {"gates": "ask", "note": "to"}
"""Tools that may take long, and by which argument."""

BY_NAME: dict[str, JsonObject] = {tool["name"]: tool for tool in TOOLS}

"""The tools as the protocol lists them: names, descriptions, schemas and hints, in a fixed order.

Every host sends these with each request, so they are short: what an argument is called says what
it is, and what holds for all of them stands once in the server's instructions. No schema has a
choice (`anyOf`) at its root, and none names a type that depends on another argument: some hosts
refuse both.
"""

from __future__ import annotations

from typing import Any

from passdown.model.kinds import LEVELS, OUTCOMES, PHASES, TASK_STATUSES

Document = dict[str, Any]


def _text(description: str = "", choices: tuple[str, ...] = ()) -> Document:
    found: Document = {"type": "string"}
    if choices:
        found["enum"] = list(choices)
    return {**found, "description": description} if description else found


def _number(description: str = "") -> Document:
    found: Document = {"type": "integer"}
    return {**found, "description": description} if description else found


def _list(description: str = "", items: Document | None = None) -> Document:
    found: Document = {"type": "array", "items": items or {"type": "string"}}
    return {**found, "description": description} if description else found


def _object(properties: Document, required: tuple[str, ...] = ()) -> Document:
    found: Document = {"type": "object", "properties": properties}
    return {**found, "required": list(required)} if required else found


def _tool(name: str, description: str, schema: Document, *, is_reading: bool) -> Document:
    """A tool. Nothing here deletes or reaches outside, and a repeated write is the first one."""
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


_KEY = {"key": _text()}
_AGENT = {"agent": _text()}
_PAGE = {"limit": _number(), "offset": _number()}

_BRIEF = _tool(
    "brief",
    "What to know of a task before working on it: state, next steps, blockers, decisions, gotchas. "
    "Call it first when you start or resume.",
    _object(
        {
            "task": _text("default: the one that waits for you"),
            **_AGENT,
            "budget": _number("tokens"),
        }
    ),
    is_reading=True,
)

_RECALL = _tool(
    "recall",
    "Search everything recorded, by words and meaning. Use it before deciding, and when something "
    "looks odd: was it tried, why is it so?",
    _object(
        {
            "query": _text(),
            "kind": _text("decision, gotcha, pattern, question, blocker, handoff..."),
            "task": _text(),
            "path": _text("file or folder"),
            "limit": _number("default 5"),
        },
        ("query",),
    ),
    is_reading=True,
)

_SHOW = _tool(
    "show",
    "Expand an id from a brief or a search: an item (T-1#d3) in full, or a task (T-1) with all its "
    "items, at a version, or its history.",
    _object(
        {
            "id": _text(),
            "version": _number("the task as it was then"),
            "history": {"type": "boolean", "description": "the task's records, newest first"},
            **_PAGE,
        },
        ("id",),
    ),
    is_reading=True,
)

_TASKS = _tool(
    "tasks",
    "List tasks: status, phase, holder. Use it to find work, or the id for other tools.",
    _object(
        {
            "status": _text(choices=TASK_STATUSES),
            "holder": _text("an agent"),
            "limit": _number("default 20"),
            "after": _number("from the last page"),
        }
    ),
    is_reading=True,
)

_GATES = _tool(
    "gates",
    "List what a person has to approve before a task goes on. Only people can approve.",
    _object({"task": _text(), "all": {"type": "boolean", "description": "answered ones too"}}),
    is_reading=True,
)

_HANDOFF = _tool(
    "handoff",
    "Record a handoff, so that the next agent (or you, in a new session) can go on. Call it when "
    "you finish, stop, are blocked or pass work on. Other fields: passdown://schema/handoff.",
    _object(
        {
            "task": _text(),
            "outcome": _text(choices=OUTCOMES),
            "summary": _text("state of the work"),
            "to": _text("the next agent"),
            "phase": _text("the task moves to", PHASES),
            "decisions": _list(
                items=_object(
                    {"summary": _text(), "rationale": _text(), "alternatives": _list()},
                    ("summary", "rationale"),
                )
            ),
            "files": _list("paths made or changed"),
            "next_steps": _list("needed unless completed"),
            "questions": _list(),
            "blockers": _list(
                "needed unless completed",
                _object(
                    {
                        "blocker": _text(),
                        "suggested_resolution": _text("needed if failed"),
                        "blocking_tasks": _list("ids; needed if blocked"),
                        "requires_human": {"type": "boolean", "description": "opens a gate"},
                    },
                    ("blocker",),
                ),
            ),
            "resolves": _list("ids of items now closed: T-1#n2"),
            "expect_version": _number("refuse if the task moved on"),
            **_AGENT,
            **_KEY,
        },
        ("task", "outcome"),
    ),
    is_reading=False,
)

_DECIDE = _tool(
    "decide",
    "Record one decision and why, as soon as it is made. Without a task it holds for all work.",
    _object(
        {
            "summary": _text(),
            "rationale": _text(),
            "task": _text(),
            "alternatives": _list(),
            "paths": _list("files it governs"),
            "tags": _list(),
            "supersedes": _list("decisions replaced: T-1#d1"),
            **_AGENT,
            **_KEY,
        },
        ("summary", "rationale"),
    ),
    is_reading=False,
)

_NOTE = _tool(
    "note",
    "Record what others should know: a pattern to keep to (needs location) or a gotcha to watch "
    "out for (needs mitigation). Without a task it holds for all work.",
    _object(
        {
            "kind": _text(choices=("pattern", "gotcha")),
            "text": _text(),
            "location": _text("where it is used, or was found"),
            "mitigation": _text("how to avoid it"),
            "severity": _text(choices=LEVELS),
            "task": _text(),
            "tags": _list("of a pattern"),
            **_AGENT,
            **_KEY,
        },
        ("kind", "text"),
    ),
    is_reading=False,
)

_TASK_NEW = _tool(
    "task_new",
    "Make a task, when work begins that has none (see tasks) or is to be split.",
    _object(
        {
            "task": _text("a new id: T-7"),
            "title": _text(),
            "description": _text(),
            "criteria": _list("how one tells that it is done"),
            "depends_on": _list("task ids"),
            **_AGENT,
            **_KEY,
        },
        ("task", "title"),
    ),
    is_reading=False,
)

TOOLS: tuple[Document, ...] = (
    _BRIEF,
    _RECALL,
    _SHOW,
    _TASKS,
    _GATES,
    _HANDOFF,
    _DECIDE,
    _NOTE,
    _TASK_NEW,
)

BY_NAME: dict[str, Document] = {tool["name"]: tool for tool in TOOLS}

"""Tools for agents in a program of your own, without any framework.

    coder = tools.handoff(ws, "T-1", "planner", to="coder")
    coder.openai()                  # the definition, also .responses() and .anthropic()
    coder.run(arguments)            # what a model gave, as an object or as JSON -> ToolResult
    await coder.arun(arguments)     # the same, awaited: it runs in a thread
    coder.function()                # a plain function with signature and docstring -> str
    coder.coroutine()               # the same as a coroutine function

Contract, for adapters too:
- A factory takes the workspace (open here, behind a server, or of `passdown.aio`), the task and the
  agent that uses the tool, and raises InvalidInput or NotFound for what can't be. Agents' names are
  as people write them; `agent_name_of` gives the id that is recorded.
- `run` never raises for what a model gave: `ToolResult.is_error` says that it has to call again,
  `text` why. `ToolResult.command` of a handoff is the recorded `HandoffCommand`; `held_by` in it
  are the gates that a person has to answer before the receiver may start.
- `run(arguments, task=..., **fields)` overrides the task for one call, for tools that serve many
  tasks; a handoff also takes `from_agent`, `to_agent`, `phase`, `key` and `metadata`.
- `handoff(..., messages=f)`: the messages that `f()` gives are kept, whole and by number, for
  `read_history`. An adapter may keep them itself: `handed_log(ws, task).add(items)`.
- A receiver is given `opening_text(ws, task, agent, budget=...)`, or in place of a conversation
  `since_handoff(messages, text)`. Both name the tool `read_history`: give it to the receiver.
- A program that pauses for people asks `waiting_gates(ws, task)` and answers with `ws.approve`.
"""

from __future__ import annotations

import asyncio
import inspect
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

from passdown.errors import InvalidInput, Problem
from passdown.mcp.definitions import BY_NAME
from passdown.mcp.tools import call_tool
from passdown.tools.briefs import brief_settings, workspace_counter, workspace_of
from passdown.tools.history import (
    HISTORY_TOOL,
    ID,
    MAX_HISTORY_TOKENS,
    HistoryLine,
    ItemLog,
    brief_with_hint,
    fit_lines,
    format_ranges,
    handed_log,
    history_lines,
    items_asked,
    select_lines,
)
from passdown.tools.messages import handoff_place, paired, since_handoff
from passdown.tools.payload import (
    agent_name_of,
    hand_off,
    handoff_schema,
    read_arguments,
    refusal_text,
)
from passdown.workspace.knowledge_tool import as_anthropic, as_openai

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

    from passdown.core.results import Gate, HandoffCommand
    from passdown.core.tokens import CounterLike
    from passdown.core.types import JsonObject
    from passdown.mcp.shared_workspace import SharedWorkspace
    from passdown.tools.briefs import AnyWorkspace
    from passdown.workspace import Workspace

    Task = str | Callable[[], str]
    Arguments = Mapping[str, Any] | str | None


class ToolResult(NamedTuple):
    """The answer of a tool to the model that called it; of a handoff, the recorded command too."""

    text: str
    is_error: bool = False
    command: HandoffCommand | None = None


@dataclass(frozen=True)
class Tool:
    """A tool: its definition in the forms that models take, and its handler."""

    name: str
    description: str
    input_schema: JsonObject
    handler: Callable[..., ToolResult]

    def run(self, arguments: Arguments = None, **fields: Any) -> ToolResult:
        """Call the tool with what a model gave; `fields` are those that the program sets."""
        return self.handler(arguments, **fields)

    async def arun(self, arguments: Arguments = None, **fields: Any) -> ToolResult:
        """`run`, awaited: it runs in a thread."""
        return await asyncio.to_thread(self.handler, arguments, **fields)

    def __call__(self, **arguments: Any) -> str:
        """Call the tool and return its answer as text."""
        return self.run(arguments).text

    @property
    def definition(self) -> JsonObject:
        """Name, description and JSON Schema of the input."""
        fields = ("name", "description", "input_schema")
        return {name: getattr(self, name) for name in fields}

    def openai(self) -> JsonObject:
        """The definition as the Chat Completions API takes it."""
        return as_openai(self.definition)

    def responses(self) -> JsonObject:
        """The definition as the Responses API takes it."""
        return {"type": "function", **self.openai()["function"], "strict": False}

    def anthropic(self) -> JsonObject:
        """The definition as the Messages API takes it."""
        return as_anthropic(self.definition)

    def function(self) -> Callable[..., str]:
        """A plain function whose name, signature and docstring are the tool's."""

        def function(**arguments: Any) -> str:
            return self(**_given(arguments))

        return self._described(function)

    def coroutine(self) -> Callable[..., Any]:
        """A coroutine function whose name, signature and docstring are the tool's."""

        async def coroutine(**arguments: Any) -> str:
            return (await self.arun(_given(arguments))).text

        return self._described(coroutine)

    def _described(self, function: Any) -> Any:
        properties: JsonObject = self.input_schema["properties"]
        required = self.input_schema.get("required", ())
        kinds = {name: _annotation(each) for name, each in properties.items()}
        kinds = {name: kind if name in required else kind | None for name, kind in kinds.items()}
        parameters = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=inspect.Parameter.empty if name in required else None,
                annotation=kind,
            )
            for name, kind in kinds.items()
        ]
        said = {name: each.get("description", "") for name, each in properties.items()}
        lines = [f"    {name}: {text}" for name, text in said.items() if text]
        about = [self.description, *(["", "Args:", *lines] if lines else [])]
        function.__name__ = function.__qualname__ = self.name
        function.__doc__ = "\n".join(about)
        function.__annotations__ = {**kinds, "return": str}
        function.__signature__ = inspect.Signature(parameters, return_annotation=str)
        return function


def _given(arguments: Mapping[str, Any]) -> JsonObject:
    return {name: value for name, value in arguments.items() if value is not None}


_TYPES: dict[str, Any] = {"string": str, "integer": int, "boolean": bool, "object": dict[str, Any]}


def _annotation(schema: JsonObject) -> Any:
    if "enum" in schema:
        return Literal[tuple(schema["enum"])]
    if schema["type"] == "array":
        return list[_annotation(schema["items"])]
    return _TYPES[schema["type"]]


def handoff(
    ws: AnyWorkspace,
    task: Task,
    agent: str,
    *,
    to: str | Sequence[str] = "",
    phase: str = "",
    messages: Callable[[], Sequence[Any]] | None = None,
    name: str = "",
    description: str = "",
    is_full: bool = False,
) -> Tool:
    """A tool with which `agent` hands the task off: to `to`, to one of these, or to nobody.

    Its schema has at most 200 tokens; every field of a handoff is accepted, and a call without
    arguments is answered with all of them. `is_full` has more of them in the schema.
    """
    opened, sender = workspace_of(ws), agent_name_of(agent, "agent")
    receivers = [to] if isinstance(to, str) and to else list(to)
    ids = {agent_name_of(each, "to"): each for each in receivers}
    schema = handoff_schema(is_full=is_full)
    if len(ids) > 1:
        schema["properties"] = {"to": {"type": "string", "enum": receivers}, **schema["properties"]}
        schema["required"] = ["to", *schema["required"]]

    def handler(arguments: Arguments, **fields: Any) -> ToolResult:
        given, problems = read_arguments(arguments)
        wanted = given.pop("to", "") if len(ids) > 1 else next(iter(ids.values()), "")
        target = next((each for each, name in ids.items() if wanted in (each, name)), "")
        if len(ids) > 1 and not target:
            expected = " | ".join(receivers)
            problems.append(Problem("to", "invalid_choice", f"{wanted!r:.60}", expected))
        fixed: JsonObject = {"from_agent": sender, "to_agent": target, "phase": phase}
        fixed |= {} if fields.get("task") else {"task": _task(task)}
        fixed |= _given(fields)
        if problems:
            return ToolResult(refusal_text(problems), is_error=True)
        keep = messages() if messages else ()
        if keep:
            log = handed_log(opened, fixed["task"])
            fixed["metadata"] = {
                "history": {"session": log.session_id, "items": format_ranges(log.keep(keep))},
                **(fixed.get("metadata") or {}),
            }
        found = hand_off(opened, given, **fixed)
        if found.command is None:
            return ToolResult(refusal_text(found.problems, is_empty=not given), is_error=True)
        return ToolResult(_handed_text(found.command, target), command=found.command)

    where = f" to {receivers[0]}" if len(receivers) == 1 else ""
    about = f"Hand off{where}, when done or blocked. {{}} lists all fields."
    return Tool(name or "handoff", description or about, schema, handler)


def _handed_text(command: HandoffCommand, target: str) -> str:
    if command.held_by:
        return f"Recorded; {', '.join(command.held_by)} waits for a person. Stop here."
    return f"Handed off to {target}." if target else "The handoff is recorded."


def _task(task: Task) -> str:
    return task if isinstance(task, str) else task()


def brief(
    ws: AnyWorkspace,
    task: Task,
    agent: str,
    *,
    budget: int | None = None,
    counter: CounterLike = None,
) -> Tool:
    """A tool that gives `agent` the brief of the task within a budget of tokens."""
    settings = brief_settings(ws, agent_name_of(agent, "agent"), budget, counter)

    def handler(_: Arguments = None, **fields: Any) -> ToolResult:
        return ToolResult(brief_with_hint(settings, fields.get("task") or _task(task)))

    about = "State, next steps, blockers and decisions of your task."
    return Tool("brief", about, {"type": "object", "properties": {}}, handler)


def opening_text(
    ws: AnyWorkspace,
    task: str,
    agent: str,
    *,
    budget: int | None = None,
    counter: CounterLike = None,
    hint: str | None = None,
) -> str:
    """What a receiver is given: the task's brief, and how to read what it doesn't hold, together
    within `budget` tokens. `hint` replaces the line about the kept history.
    """
    settings = brief_settings(ws, agent_name_of(agent, "agent"), budget, counter)
    return brief_with_hint(settings, task) if hint is None else settings.text(task, hint)


def read_history(
    ws: AnyWorkspace,
    task: Task,
    agent: str,
    *,
    max_tokens: int = MAX_HISTORY_TOKENS,
    counter: CounterLike = None,
) -> Tool:
    """A tool that reads what handoffs of the task kept, by number, and records by id.

    An answer has at most `max_tokens`, and says how to read on. `run(..., session=NAME)` reads
    another log than the task's, `run(..., lines=...)` these lines.
    """
    count = workspace_counter(ws, counter).tokens
    shows = show(ws, task, agent)

    def handler(arguments: Arguments = None, **fields: Any) -> ToolResult:
        given, _ = read_arguments(arguments)
        items = items_asked(given.get("items", ""))
        if ID.match(items):
            return shows.run({"id": items})
        lines: Sequence[HistoryLine] | None = fields.get("lines")
        if lines is None:
            session, name = fields.get("session"), fields.get("task")
            log = ItemLog(ws, session) if session else handed_log(ws, name or _task(task))
            lines = history_lines(log)
        if not lines:
            return ToolResult("Nothing was kept here.")
        try:
            return ToolResult(fit_lines(select_lines(lines, items), max_tokens, count))
        except InvalidInput as error:
            return ToolResult(str(error), is_error=True)

    schema: JsonObject = {"type": "object", "properties": {"items": {"type": "string"}}}
    # What a brief names shows how items are written.
    about = "Read earlier messages by number, records by id; empty: list."
    return Tool(HISTORY_TOOL, about, schema, handler)


class _Opened(NamedTuple):
    """An open workspace for the calls of one tool."""

    opened: Workspace

    @contextmanager
    def workspace(self) -> Generator[Workspace]:
        yield self.opened


def _ledger_tool(name: str, ws: AnyWorkspace, task: Task | None, agent: str) -> Tool:
    """A tool of the MCP server for one agent, and one task unless that is None."""
    shared = cast("SharedWorkspace", _Opened(workspace_of(ws)))
    who, definition = agent_name_of(agent, "agent"), BY_NAME[name]
    schema: JsonObject = definition["inputSchema"]
    hidden = ("agent",) if task is None else ("agent", "task")
    shown = {key: part for key, part in schema["properties"].items() if key not in hidden}

    def handler(arguments: Arguments = None, **fields: Any) -> ToolResult:
        given, problems = read_arguments(arguments)
        if problems:
            return ToolResult("\n".join(each.line() for each in problems), is_error=True)
        fixed = {} if task is None else {"task": fields.get("task") or _task(task)}
        own = {key: value for key, value in given.items() if key not in hidden}
        answer = call_tool(shared, name, {**own, **fixed}, who)
        return ToolResult(answer.text, answer.is_error)

    return Tool(name, definition["description"], {**schema, "properties": shown}, handler)


def recall(ws: AnyWorkspace, task: Task, agent: str) -> Tool:
    """A tool that searches everything recorded, of all tasks; best first."""
    del task
    return _ledger_tool("recall", ws, None, agent)


def show(ws: AnyWorkspace, task: Task, agent: str) -> Tool:
    """A tool that opens a record by its id: an item, a task, or its history."""
    del task
    return _ledger_tool("show", ws, None, agent)


def decide(ws: AnyWorkspace, task: Task, agent: str) -> Tool:
    """A tool that records a decision of the task as soon as it is made."""
    return _ledger_tool("decide", ws, task, agent)


def note(ws: AnyWorkspace, task: Task, agent: str) -> Tool:
    """A tool that records a pattern, a gotcha or a fact of the task."""
    return _ledger_tool("note", ws, task, agent)


def waiting_gates(ws: AnyWorkspace, task: str) -> list[Gate]:
    """The gates that a person has to answer before the task's receiver may start."""
    return [gate for gate in workspace_of(ws).gates(task) if gate.status == "pending"]


__all__ = [
    "HISTORY_TOOL",
    "Tool",
    "ToolResult",
    "agent_name_of",
    "brief",
    "decide",
    "hand_off",
    "handed_log",
    "handoff",
    "handoff_place",
    "handoff_schema",
    "note",
    "opening_text",
    "paired",
    "read_history",
    "recall",
    "show",
    "since_handoff",
    "waiting_gates",
]

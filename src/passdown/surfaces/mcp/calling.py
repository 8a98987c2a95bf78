"""One call of a tool: arguments in, text out, and every failure as words that a model can act on.

A failure is an answer like any other. It says what is wrong, all of it, and that nothing changed.
"""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from passdown.errors import (
    Conflict,
    GateRefused,
    InvalidInput,
    NotFound,
    PassdownError,
    Problem,
    ProblemsError,
    StoreBusy,
    StoreUnavailable,
    counted,
)
from passdown.model.item_text import flat
from passdown.model.names import MAX_AGENT, agent_problems, id_problems
from passdown.model.text import visible
from passdown.surfaces.mcp import reading, writing
from passdown.surfaces.mcp.arguments import read_by, without_repeats
from passdown.surfaces.mcp.definitions import BY_NAME
from passdown.surfaces.mcp.lines import short

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from passdown.surfaces.mcp.door import Door
    from passdown.workspace import Workspace

    Carry = Callable[[Workspace, dict[str, Any], str], str]
    Rules = Callable[[dict[str, Any]], list[Problem]]

MOST_PROBLEMS = 60
"""How many problems an answer lists; a call with more of them is wrong as a whole."""
_PROBLEM = 1_200

NOBODY = "mcp-client"
"""Who writes where neither the call, the environment nor the client has a name."""


class Answer(NamedTuple):
    """What a tool says to the model that called it."""

    text: str
    is_error: bool = False


def _no_rules(_: dict[str, Any]) -> list[Problem]:
    return []


class Tool(NamedTuple):
    """What carries a tool out, other names that its arguments are understood by, and rules beyond
    their types.

    The arguments of one that `takes_any` are checked where they are used.
    """

    carry: Carry
    also: Mapping[str, str]
    rules: Rules = _no_rules
    takes_any: bool = False


_ID = {"task_id": "task"}
_WHY = {"why": "rationale", "reason": "rationale", "decision": "summary", **_ID}
_ITEM = {"item": "id", "address": "id", "task": "id", "task_id": "id"}

_CARRIED: dict[str, Tool] = {
    "brief": Tool(reading.brief, _ID),
    "recall": Tool(reading.recall, {"kinds": "kind", "q": "query", **_ID}),
    "show": Tool(reading.show, _ITEM),
    "tasks": Tool(reading.tasks, {}),
    "gates": Tool(reading.gates, _ID),
    "handoff": Tool(writing.hand_off, {}, takes_any=True),
    "decide": Tool(writing.decide, _WHY, writing.decision_problems),
    "note": Tool(writing.note, {"issue": "text", "pattern": "text", **_ID}, writing.note_problems),
    "task_new": Tool(
        writing.new_task, {"id": "task", "needs": "depends_on", **_ID}, writing.task_problems
    ),
}

_NEW_TASK = "task_new makes one; tasks lists those there are"
_ANSWERS = frozenset({"approve", "approved", "reject", "rejected", "answer", "by", "decision"})


def call(door: Door, name: str, arguments: Mapping[str, Any], agent: str) -> Answer:
    """Carry a tool out for an agent; `agent` writes where the arguments name nobody.

    Raises KeyError for a tool that isn't there, and nothing else: what goes wrong is an answer.
    """
    tool = _CARRIED[name]
    try:
        given, writer = _given(name, tool, arguments, agent)
        with door.workspace() as workspace:
            text = tool.carry(workspace, given, writer)
    except InvalidInput as error:
        error = _with_unknown_task(door, name, arguments, error)
        return Answer(visible(told(error, name), keep_newlines=True), is_error=True)
    except PassdownError as error:
        return Answer(visible(told(error, name), keep_newlines=True), is_error=True)
    except OSError as error:
        what = f"{error.filename}: " if error.filename else ""
        return Answer(flat(f"{name} failed: {what}{error.strerror or error}"), is_error=True)
    except Exception as error:  # noqa: BLE001
        return _unexpected(name, error)
    return Answer(visible(text, keep_newlines=True))


def _unexpected(name: str, error: Exception) -> Answer:
    """A fault of ours: one bad call must not end the server, which serves others."""
    if os.environ.get("PASSDOWN_DEBUG"):
        sys.excepthook(type(error), error, error.__traceback__)
    said = f"{name} failed: unexpected {type(error).__name__}: {str(error)[:500]}. "
    return Answer(flat(f"{said}This is a fault in Passdown; show says what was recorded."), True)


def _given(
    name: str, tool: Tool, arguments: Mapping[str, Any], agent: str
) -> tuple[dict[str, Any], str]:
    """The arguments as the tool wants them, and who calls it."""
    if name == "gates" and (asked := sorted(_ANSWERS & arguments.keys())):
        raise _only_people(asked)
    if tool.takes_any:
        return dict(arguments), agent
    writer: object = arguments.get("agent") or agent
    # Every tool takes it, whether or not its short schema says so.
    rest = {key: value for key, value in arguments.items() if key != "agent"}
    given, problems = read_by(BY_NAME[name], rest, tool.also)
    rules = [problem for problem in tool.rules(given) if problem.level == "error"]
    problems = without_repeats([*agent_problems(writer, "agent"), *problems, *rules])
    if problems:
        raise InvalidInput("the arguments are refused", problems)
    return given, str(writer)


def _with_unknown_task(
    door: Door, name: str, arguments: Mapping[str, Any], error: InvalidInput
) -> InvalidInput:
    """That there is no such task, beside everything else that is wrong with a call."""
    task: object = arguments.get("task") or arguments.get("task_id")
    is_told = any(problem.path in ("task", "task_id") for problem in error.problems)
    if name == "task_new" or is_told or not isinstance(task, str) or id_problems(task, "task"):
        return error
    try:
        with door.workspace() as workspace:
            workspace.task(task)
    except NotFound as unknown:
        if unknown.code != NotFound.code:
            return error
        problem = Problem("task", "not_found", unknown.message, "a task that exists", _NEW_TASK)
        return InvalidInput(error.message, [problem, *error.problems], next_step=error.next_step)
    except (PassdownError, OSError):
        return error
    return error


def _only_people(asked: list[str]) -> GateRefused:
    message = "gates are answered by people, never by agents"
    problems = [Problem(name, "not_allowed", message, "nothing here") for name in asked]
    return GateRefused(
        "a gate can't be answered by a tool",
        problems,
        next_step="Tell the person you work for which gate waits, and go on with other work.",
    )


def told(error: PassdownError, name: str) -> str:
    """An error in words for the model that called a tool."""
    is_writing = not BY_NAME[name]["annotations"]["readOnlyHint"]
    changed = " Nothing was changed." if is_writing else ""
    if isinstance(error, ProblemsError):
        lines = [
            f"- {short(flat(each.line()), _PROBLEM)}" for each in error.problems[:MOST_PROBLEMS]
        ]
        if len(error.problems) > MOST_PROBLEMS:
            lines.append(f"- and {counted(error.problems) - MOST_PROBLEMS:,} more problems")
        then = _then(error, name)
        return "\n".join([f"{name}: {flat(error.message)}.{changed}", *lines, then])
    if isinstance(error, StoreUnavailable) and is_writing:
        changed = " Whether it was written is unknown: call again with the same arguments."
    return f"{name}: {flat(error.message)}.{changed} {_then(error, name)}".strip()


def _then(error: PassdownError, name: str) -> str:
    """What to do next, by the tools that the model has rather than by commands."""
    if isinstance(error, InvalidInput):
        return f"Mend all of these, call {name} again."
    if isinstance(error, Conflict) and name == "task_new":
        return f"Use it as it is (show {error.task}), or choose another id."
    if isinstance(error, Conflict):
        return (
            f"Read it with show {error.task}, then call {name} again from version {error.actual}."
        )
    if isinstance(error, StoreBusy):
        return "Another process is writing. Call again in a while."
    if isinstance(error, NotFound) and error.code != "no_workspace":
        return "tasks lists tasks, show TASK lists its items, recall finds both."
    return flat(error.next_step)


def agent_named(environment: Mapping[str, str], client: str) -> str:
    """Who calls where nobody says: PASSDOWN_AGENT, else the client's name as an agent's name."""
    named = environment.get("PASSDOWN_AGENT", "")
    if named:
        return named
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", client).strip("-._")[:MAX_AGENT].rstrip("-._")
    names = (name, f"{name[: MAX_AGENT - 6]}-agent")
    return next((each for each in names if name and not agent_problems(each, "agent")), NOBODY)

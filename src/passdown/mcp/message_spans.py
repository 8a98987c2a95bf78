"""Trace spans of MCP messages: methods, tools and tasks, never what agents write."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from passdown import tracing
from passdown.core.names import id_problems
from passdown.mcp.definitions import BY_NAME

if TYPE_CHECKING:
    from passdown.mcp.server import Call
    from passdown.tracing import Span


_METHOD = re.compile(r"[a-z]{1,32}(/[a-zA-Z_]{1,32}){0,2}")


def message_span(call: Call) -> Span:
    """The span of a request; it goes on with the trace that the request itself names, and with
    what is going on here.
    """
    method = call.method if _METHOD.fullmatch(call.method) else "_OTHER"
    tool = call.params.get("name") if method == "tools/call" else None
    tool = tool if isinstance(tool, str) and tool in BY_NAME else ""
    attributes = {
        "mcp.method.name": method,
        "mcp.protocol.version": call.client.version,
        "gen_ai.operation.name": "execute_tool" if tool else "",
        "gen_ai.tool.name": tool,
        "passdown.agent": call.agent,
        "passdown.task": task_argument(call.params.get("arguments")),
    }
    name = f"{method} {tool}".strip()
    meta = call.params.get("_meta")
    carrier = cast("dict[str, Any]", meta) if isinstance(meta, dict) else {}
    owners = [o for o in (tracing.continued(carrier), tracing.current_span()) if o is not None]
    if owners:
        return tracing.shared(name, owners, non_empty(attributes))
    return tracing.span(name, non_empty(attributes))


def is_tool_error(answer: Any) -> bool:
    """Whether a tool's result is an error."""
    return isinstance(answer, dict) and cast("dict[str, Any]", answer).get("isError") is True


def task_argument(given: object) -> str:
    """The task that arguments name, if what they give for one could be a task's id."""
    task = cast("Mapping[str, Any]", given).get("task") if isinstance(given, Mapping) else None
    return task if task and not id_problems(task, "") else ""


def non_empty(attributes: dict[str, Any]) -> dict[str, Any]:
    """What there is something to say about."""
    return {name: value for name, value in attributes.items() if value}

"""Trace spans of MCP messages: methods, tools and tasks, never what agents write."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from passdown import tracing
from passdown.core.names import id_problems
from passdown.mcp.definitions import BY_NAME

if TYPE_CHECKING:
    from collections.abc import Callable

    from passdown.tracing import Span


_METHOD = re.compile(r"[a-z]{1,32}(/[a-zA-Z_]{1,32}){0,2}")


class SpanMiddleware:
    """Tells of each message as a span; `agent_of` says whose it is."""

    def __init__(self, agent_of: Callable[[Any], str]) -> None:
        self._agent_of = agent_of

    async def __call__(self, ctx: Any, call_next: Any) -> Any:
        """One message."""
        if not tracing.is_on():
            return await call_next(ctx)
        with message_span(ctx, _agent_name(self._agent_of, ctx)) as span:
            answer = await call_next(ctx)
            if is_tool_error(answer):
                span.note({}, error="tool_error")
            return answer


def _agent_name(agent_of: Callable[[Any], str], ctx: Any) -> str:
    """Whose a message is; of the first ones, which say it, nobody knows yet."""
    try:
        return agent_of(ctx)
    except (AttributeError, LookupError):
        return ""


def message_span(context: Any, agent: str) -> Span:
    """The span of a message; it goes on with the trace that the message itself names, and with
    what is going on here.
    """
    if not tracing.is_on():
        return tracing.NO_SPAN
    method = context.method if _METHOD.fullmatch(context.method) else "_OTHER"
    given: Mapping[str, Any] = context.params or {}
    tool = given.get("name") if method == "tools/call" else None
    tool = tool if tool in BY_NAME else ""
    attributes = {
        "mcp.method.name": method,
        "mcp.protocol.version": context.protocol_version,
        "gen_ai.operation.name": "execute_tool" if tool else "",
        "gen_ai.tool.name": tool,
        "passdown.agent": agent,
        "passdown.task": task_argument(given.get("arguments")),
    }
    name = f"{method} {tool}".strip()
    owners = [
        o for o in (tracing.continued(context.meta or {}), tracing.current_span()) if o is not None
    ]
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

"""What was taken out of an agent's input, within reach: a tool for agents, a text for people."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from agents import FunctionTool, RunContextWrapper, function_tool

from passdown.adapters.brief_texts import counter_in
from passdown.adapters.histories import MAX_TOKENS, TOOL, Line, chosen, fitted
from passdown.adapters.openai_agents.items import ItemLog
from passdown.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable

    from passdown.adapters.states.handing import AnyWorkspace
    from passdown.workspace.aliases import CounterLike

MODULE = "passdown.adapters.openai_agents"
EXCERPT = 80


def handed_log(workspace: AnyWorkspace, task: str) -> ItemLog:
    """The log of everything that handoffs of a task took out of a model's input."""
    return ItemLog(workspace, f"{task}.handed")


def history_tool(
    workspace: AnyWorkspace,
    session_id: str | Callable[[RunContextWrapper[Any]], str],
    *,
    max_tokens: int = MAX_TOKENS,
    counter: CounterLike = None,
) -> FunctionTool:
    """A tool `read_history(items)` for agents: items of a session or handed log, by number.

    An answer has at most `max_tokens`, and says how to read on. `session_id` may be a function of
    the run's context.
    """
    count = counter_in(workspace, counter).tokens

    def read(name: str, items: str) -> str:
        try:
            lines = history_lines(ItemLog(workspace, name), items)
        except InvalidInput as error:
            return str(error)
        return fitted(lines, max_tokens, count)

    async def read_history(context: RunContextWrapper[Any], items: str = "") -> str:
        """Read earlier items of the conversation in full.

        Args:
            context: The run's.
            items: Numbers such as 4 or 4-9,12; 4@5000 from a character on; empty for a list.
        """
        name = session_id if isinstance(session_id, str) else session_id(context)
        return await asyncio.to_thread(read, name, items)

    return function_tool(read_history, name_override=TOOL)


def history_lines(log: ItemLog, items: str) -> list[Line]:
    """The items with these numbers in full, a JSON text each; without numbers a list of all.

    Raises InvalidInput for what is no number or range, and where none has such a number.
    """
    kept = log.all()
    if not items.strip():
        return [Line(each.number, _headline(each.item)) for each in kept]
    return chosen([Line(each.number, each.text) for each in kept], items)


def _headline(item: dict[str, Any]) -> str:
    kind = str(item.get("type") or item.get("role") or "item")
    name = str(item.get("name") or item.get("call_id") or "")
    told = item.get("output") or item.get("content") or item.get("arguments") or ""
    text = " ".join(str(told).split())
    return " ".join(filter(None, [kind, name, text[:EXCERPT]]))

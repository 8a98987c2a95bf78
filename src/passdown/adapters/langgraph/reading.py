"""What a brief stands for, within reach: a tool that reads earlier messages word for word."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, cast

from passdown.adapters.brief_texts import counter_in
from passdown.adapters.histories import MAX_TOKENS, TOOL, Line, chosen, fitted
from passdown.adapters.langgraph.installed import StructuredTool, convert_to_messages
from passdown.errors import InvalidInput

if TYPE_CHECKING:
    from passdown.adapters.states.handing import AnyWorkspace
    from passdown.workspace.aliases import CounterLike

_EXCERPT = 80
_ITEMS = {
    "type": "string",
    "description": "Numbers such as 4 or 4-9,12; 4@5000 from a character on; empty for a list.",
}


def kept_line(count: int) -> str:
    """How an agent gets at the first messages of its graph, of which it isn't shown any."""
    if not count:
        return ""
    items = f"1-{count}" if count > 1 else "1"
    return f'Word for word, with every tool result: items {items}. All: {TOOL}("{items}")'


def history_tool(workspace: AnyWorkspace, counter: CounterLike = None) -> Any:
    """A LangChain tool `read_history(items)`: messages of the agent's graph by their numbers.

    An answer has at most 10,000 tokens, and says how to read on.
    """
    count = counter_in(workspace, counter).tokens

    # The arguments are a model's: 5 or [5, 6] are meant well, and no mistake may end the run.
    def read_history(runtime: Any, items: object = "", **_unknown: object) -> str:
        try:
            return fitted(_lines(runtime.state["messages"], _asked(items)), MAX_TOKENS, count)
        except InvalidInput as error:
            return str(error)

    async def aread_history(runtime: Any, items: object = "", **_unknown: object) -> str:
        return await asyncio.to_thread(read_history, runtime, items)

    return StructuredTool(
        name=TOOL,
        description="Read earlier messages of the conversation in full.",
        args_schema={"type": "object", "properties": {"items": _ITEMS}},
        func=read_history,
        coroutine=aread_history,
    )


def _asked(items: object) -> str:
    """What a model asks for, as text."""
    if isinstance(items, list):
        return ",".join(map(str, cast("list[object]", items)))
    return "" if items is None else str(items)


def _lines(messages: list[Any], items: str) -> list[Line]:
    """The messages with these numbers in full; without numbers a list of all."""
    told = [_told(each) for each in convert_to_messages(messages)]
    if items.strip():
        return chosen([Line(number, text) for number, text in enumerate(told, 1)], items)
    short = [" ".join(text.split())[:_EXCERPT] for text in told]
    return [Line(number, text) for number, text in enumerate(short, 1)]


def text_of(message: Any) -> str:
    """A message's words as they are; content in blocks as JSON."""
    content: Any = message.content
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)


def _told(message: Any) -> str:
    """A message as text: who, the words as they are, and the tools that it called."""
    calls = [
        f"{call['name']}({json.dumps(call['args'], ensure_ascii=False)})"
        for call in cast("list[Any]", getattr(message, "tool_calls", None) or [])
    ]
    who = f"{message.type} {message.name}" if message.name else str(message.type)
    return "\n".join([f"{who}: {text_of(message)}", *calls])

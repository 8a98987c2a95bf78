"""Middleware that shows an agent the brief instead of the transcript, and a tool to read the rest.

The model sees the brief and the agent's own messages since it took over. The graph's state keeps
every message.
"""

from __future__ import annotations

import asyncio
import json
import threading
from typing import TYPE_CHECKING, Annotated, Any, NotRequired, cast

from langchain.agents.middleware import AgentMiddleware, AgentState
from langchain.agents.middleware.types import PrivateStateAttr

from passdown.adapters.langgraph.compat import (
    AIMessage,
    HumanMessage,
    StructuredTool,
    ToolMessage,
    convert_to_messages,
)
from passdown.adapters.langgraph.tools import DESTINATION
from passdown.adapters.state_schema import as_list, message_id
from passdown.adapters.tools import (
    HISTORY_TOOL,
    MAX_HISTORY_TOKENS,
    HistoryLine,
    LruCache,
    async_twin,
    brief_settings,
    fit_lines,
    last_in_a_row,
    select_lines,
    workspace_counter,
    workspace_of,
    workspace_settings,
)
from passdown.core.names import agent_problems
from passdown.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from passdown.adapters.tools import AnyWorkspace
    from passdown.core.tokens import CounterLike


_EXCERPT = 80
_ITEMS = {
    "type": "string",
    "description": "Numbers such as 4 or 4-9,12; 4@5000 from a character on; empty for a list.",
}


def history_hint(count: int) -> str:
    """How an agent gets at the first messages of its graph, of which it isn't shown any."""
    if not count:
        return ""
    items = f"1-{count}" if count > 1 else "1"
    return f'Word for word, with every tool result: items {items}. All: {HISTORY_TOOL}("{items}")'


def history_tool(workspace: AnyWorkspace, counter: CounterLike = None) -> Any:
    """A LangChain tool `read_history(items)`: messages of the agent's graph by their numbers.

    An answer has at most 10,000 tokens, and says how to read on.
    """
    count = workspace_counter(workspace, counter).tokens

    # The arguments are a model's: 5 or [5, 6] are meant well, and no mistake may end the run.
    def read_history(runtime: Any, items: object = "", **_unknown: object) -> str:
        try:
            return fit_lines(
                _lines(runtime.state["messages"], ",".join(map(str, as_list(items)))),
                MAX_HISTORY_TOKENS,
                count,
            )
        except InvalidInput as error:
            return str(error)

    async def aread_history(runtime: Any, items: object = "", **_unknown: object) -> str:
        return await asyncio.to_thread(read_history, runtime, items)

    return StructuredTool(
        name=HISTORY_TOOL,
        description="Read earlier messages of the conversation in full.",
        args_schema={"type": "object", "properties": {"items": _ITEMS}},
        func=read_history,
        coroutine=aread_history,
    )


def _lines(messages: list[Any], items: str) -> list[HistoryLine]:
    """The messages with these numbers in full; without numbers a list of all."""
    texts = [_message_line(each) for each in convert_to_messages(messages)]
    if not items.strip():
        texts = [" ".join(text.split())[:_EXCERPT] for text in texts]
    lines = [HistoryLine(number, text) for number, text in enumerate(texts, 1)]
    return select_lines(lines, items) if items.strip() else lines


def message_text(message: Any) -> str:
    """A message's words as they are; content in blocks as JSON."""
    content: Any = message.content
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)


def _message_line(message: Any) -> str:
    """A message as text: who, the words as they are, and the tools that it called."""
    calls = [
        f"{call['name']}({json.dumps(call['args'], ensure_ascii=False)})"
        for call in cast("list[Any]", getattr(message, "tool_calls", None) or [])
    ]
    who = f"{message.type} {message.name}" if message.name else str(message.type)
    return "\n".join([f"{who}: {message_text(message)}", *calls])


_KEPT_BRIEFS = 256
_NEWEST = 2**62
"""A version that no task reaches: only sender and receiver are asked for."""


class BriefedState(AgentState[Any]):
    """An agent's state with, for itself alone, how many messages stood there when it took over and
    at which version the task then was.
    """

    messages_before: NotRequired[Annotated[int, PrivateStateAttr]]
    version_before: NotRequired[Annotated[int, PrivateStateAttr]]


class BriefMiddleware(AgentMiddleware[Any, Any, Any]):
    """Shows an agent the task's brief instead of what was said before it took over.

    It took over with the last handoff message that names it, or else, where the task was handed to
    it, with its start. What people said last stays, if it takes no more than half of the budget. An
    agent to whom nothing was handed is
    shown everything. What isn't shown the agent reads with the tool `read_history`, which comes
    with this.
    """

    state_schema = BriefedState

    def __init__(
        self,
        workspace: AnyWorkspace,
        task: str,
        agent: str,
        *,
        budget: int | None = None,
        counter: Any = None,
    ) -> None:
        """`budget` and `counter` are those of `Workspace.brief`."""
        super().__init__()
        wrong = agent_problems(agent, "agent")
        if wrong:
            raise InvalidInput("the brief can't be given", wrong)
        found = workspace_of(workspace)
        tokens = workspace_settings(found).brief_budget if budget is None else budget
        self._brief_settings = brief_settings(found, agent, tokens, counter)
        self._workspace, self._task, self._agent = self._brief_settings.workspace, task, agent
        self.tools = [history_tool(self._workspace, counter)]
        self._lock = threading.Lock()
        self._briefs: LruCache[tuple[int, str, int, int], str] = LruCache(_KEPT_BRIEFS)

    def before_agent(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        """Note how much was said before, where the task was handed to this agent."""
        del runtime
        handed = self._workspace.context.handoff_context(self._task, since=_NEWEST)
        found = {"version_before": handed.metadata["version"]}
        if handed.target != self._agent:
            return found
        messages: list[Any] = list(state["messages"])
        while messages and isinstance(messages[-1], HumanMessage):
            messages.pop()
        return {**found, "messages_before": len(messages)}

    abefore_agent = async_twin(before_agent)

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Ask the model with the brief and what is the agent's own."""
        return handler(self._briefed(request))

    async def awrap_model_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """`wrap_model_call`, awaited."""
        return await handler(await asyncio.to_thread(self._briefed, request))

    def _briefed(self, request: Any) -> Any:
        messages: list[Any] = request.messages
        before = handoff_index(messages, self._agent) or request.state.get("messages_before")
        if before is None:
            return request
        mark = message_id(messages[max(before - 1, 0)]) if messages else ""
        version: int = request.state.get("version_before", 0)
        asked = last_user_messages(messages, before)
        settings = self._brief_settings.beside([message_text(each) for each in asked])
        if settings is None:
            asked, settings = [], self._brief_settings
        # Made once in a turn, so that the model's view doesn't shift within it, and again when the
        # agent starts again and the task has moved on.
        key = (version, mark, before, settings.budget)
        with self._lock:
            hint = history_hint(before)
            text = self._briefs.get(key, lambda: settings.text(self._task, hint))
        brief = HumanMessage(content=text)
        return request.override(messages=[brief, *asked, *paired_messages(messages[before:])])


def handoff_index(messages: list[Any], agent: str) -> int:
    """How many messages there are up to the last one that hands over to an agent; 0 for none."""
    for index in range(len(messages), 0, -1):
        each = messages[index - 1]
        if not isinstance(each, ToolMessage) or getattr(each, "status", "") == "error":
            continue
        marks = cast("dict[str, Any]", each.response_metadata or {})
        if marks.get(DESTINATION) == agent or each.name == f"transfer_to_{agent}":
            return index
    return 0


def last_user_messages(messages: list[Any], before: int) -> list[Any]:
    """What people said last before an agent took over; nothing where they spoke right then."""
    if before < len(messages) and isinstance(messages[before], HumanMessage):
        return []
    return last_in_a_row(messages[:before], lambda each: isinstance(each, HumanMessage))


def paired_messages(messages: list[Any]) -> list[Any]:
    """Messages in which each tool call is followed by its result and each result has its call.

    A call or a result whose other half is missing is left out; words never are.
    """
    kept: list[Any] = []
    answers: list[str] = []
    for index, each in enumerate(messages):
        if isinstance(each, ToolMessage):
            if each.tool_call_id in answers:
                answers.remove(each.tool_call_id)
                kept.append(each)
            continue
        answers = []
        if isinstance(each, AIMessage) and each.tool_calls:
            answers = _answered_calls(each, messages[index + 1 :])
            each = _with_calls(each, answers)  # noqa: PLW2901 - what is kept of it
        kept += [each] if each.content or answers or not isinstance(each, AIMessage) else []
    return kept


def _answered_calls(message: Any, later: list[Any]) -> list[str]:
    """The ids of a message's calls that the results right after it answer."""
    found: list[str] = []
    for each in later:
        if not isinstance(each, ToolMessage):
            break
        found.append(each.tool_call_id)
    return [str(call["id"]) for call in message.tool_calls if call["id"] in found]


def _with_calls(message: Any, answers: list[str]) -> Any:
    """The message with those calls alone, in whatever form its content repeats them."""
    calls = [call for call in message.tool_calls if call["id"] in answers]
    if len(calls) == len(message.tool_calls):
        return message
    content: Any = message.content
    if isinstance(content, list):
        content = [block for block in cast("list[Any]", content) if not _is_cut(block, answers)]
    return message.model_copy(update={"tool_calls": calls, "content": content})


def _is_cut(block: Any, answers: list[str]) -> bool:
    if not isinstance(block, dict):
        return False
    fields = cast("dict[str, Any]", block)
    return fields.get("type") in ("tool_use", "tool_call") and fields.get("id") not in answers

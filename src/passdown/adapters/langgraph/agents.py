"""Tools and middleware for LangChain agents in a swarm, under a supervisor or in a graph.

With `handoff_tool` the model fills in the handoff and gets every problem back. With
`BriefMiddleware` it sees the brief and its own messages since it took over, instead of the
transcript, and a tool to read the rest; the graph's state keeps every message.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import re
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, NotRequired, cast

import langchain_core.messages
import langchain_core.tools
from langchain.agents.middleware import AgentMiddleware, AgentState
from langchain.agents.middleware.types import PrivateStateAttr

from passdown.adapters import shared
from passdown.adapters.langgraph.graph import Command, ask_people, convert_to_messages, task_for
from passdown.adapters.state_schema import field_of, message_id
from passdown.adapters.states import handoff_context_of, handoff_update, summary_of
from passdown.errors import Problem
from passdown.tools import briefs, history, payload, read_history

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from passdown.adapters.langgraph.graph import Task
    from passdown.adapters.state_schema import Plain
    from passdown.core.tokens import CounterLike
    from passdown.tools.briefs import AnyWorkspace
    from passdown.workspace import Workspace

AIMessage: Any = langchain_core.messages.AIMessage
HumanMessage: Any = langchain_core.messages.HumanMessage
ToolMessage: Any = langchain_core.messages.ToolMessage

DESTINATION = "__handoff_destination"
"""Where a tool leads, in its metadata and on its message; swarm and supervisor look for it."""


def _tool(function: Callable[..., Any], schema: Plain, **options: Any) -> Any:
    """A LangChain tool, called either way."""

    async def awaited(runtime: Any, **given: Any) -> Any:
        return await asyncio.to_thread(function, runtime, **given)

    made: Any = langchain_core.tools.StructuredTool
    return made(func=function, coroutine=awaited, args_schema=schema, **options)


def handoff_tool(
    agent_name: str,
    *,
    workspace: AnyWorkspace,
    task: Task,
    from_agent: str = "",
    name: str = "",
    description: str = "",
) -> Any:
    """A LangChain tool that hands the task off to `agent_name`.

    The model's handoff is checked: with problems, it gets them all and stays where it is. Without,
    the handoff is recorded, from `from_agent` or else the task's holder, and the parent graph goes
    to the agent. At a gate it waits for a person; a rejection comes back as the tool's answer.
    What a worker came back to its supervisor with is recorded before, if nothing else did.
    """
    agent = payload.agent_name_of(agent_name, "agent_name")
    sender = payload.agent_name_of(from_agent, "from_agent") if from_agent else ""
    opened = briefs.recording_workspace(workspace, "handoff_tool")
    title = name or "transfer_to_" + re.sub(r"\W+", "_", agent_name).lower()
    sending = _HandoffTool(title, agent_name, agent, opened, task, sender)
    about = f"Hand the task off to {agent_name}: what was done, what was decided, what is open. "
    return _tool(
        sending.call,
        payload.handoff_schema(),
        name=title,
        description=description or about + "Call it alone, when you are done or blocked.",
        metadata={DESTINATION: agent_name},
    )


class _HandoffTool(NamedTuple):
    """What every call of one tool has in common."""

    name: str
    agent_name: str
    agent: str
    workspace: Workspace
    task: Any
    from_agent: str

    def call(self, runtime: Any, **fields: Any) -> Any:
        """The command that goes to the receiver, once the handoff is on record and no person has
        rejected it; else a message that says what is wrong.
        """
        return self._replace(task=task_for(self.task, runtime.state))._call(runtime, fields)

    def _call(self, runtime: Any, fields: Plain) -> Any:
        sent = self._hand_off(runtime, fields)
        rejected = ask_people(self.workspace, self.task) if isinstance(sent, Command) else []
        if not rejected:
            return sent
        lines = [
            f"- {each['blocker']}: {each['reason']} ({each['answered_by']})" for each in rejected
        ]
        text = "\n".join(["No handoff was made: it was rejected.", *lines])
        return self._message(runtime, text, status="error")

    def _hand_off(self, runtime: Any, fields: Plain) -> Any:
        state: Plain = runtime.state
        messages: list[Any] = list(state.get("messages") or ())
        holder = str(self.workspace.task(self.task).holder)
        worker, supervisor, words = last_return(messages)
        source = self.from_agent or (supervisor if holder == worker else holder)
        if holder == worker != source:
            record_answer(self.workspace, self.task, worker, source, words)
        fixed: Plain = {"task": self.task, "from_agent": source, "to_agent": self.agent}
        others = _called_with_others(messages, runtime.tool_call_id)
        command, problems = payload.hand_off(self.workspace, fields, more=others, **fixed)
        if command is None:
            text = payload.refusal_text(problems, is_empty=not fields)
            return self._message(runtime, text, status="error")
        since = command.version - 1
        new = self.workspace.context.handoff_context(self.task, agent=source, since=since)
        update = handoff_update(
            {**state, "current_agent": source},
            self.agent,
            workspace=self.workspace,
            task=self.task,
            decisions=new.decisions,
            memory_refs=[*handoff_context_of(state).get("memory_refs", ()), *new.memory_refs],
            metadata={"version": command.version, "digest": command.digest},
        )
        text = f"Handed off to {self.agent_name}.\n{command.context_summary}"
        answer = self._message(runtime, text, response_metadata={DESTINATION: self.agent_name})
        update |= {"messages": [*messages, answer], "active_agent": self.agent_name}
        return Command(goto=self.agent_name, graph=Command.PARENT, update=update)

    def _message(self, runtime: Any, content: str, **more: Any) -> Any:
        call: str = runtime.tool_call_id
        return ToolMessage(content=content, name=self.name, tool_call_id=call, **more)


IS_BACK = "__is_handoff_back"
"""In the metadata of the messages with which a worker comes back to its supervisor."""


def last_return(messages: list[Any]) -> tuple[str, str, Any]:
    """The ids of the worker that came back to its supervisor last and of the supervisor, and the
    message that it came back with; empty without one.
    """
    for index in range(len(messages) - 1, -1, -1):
        each = messages[index]
        if isinstance(each, AIMessage) and each.response_metadata.get(IS_BACK):
            supervisor = message_text(each).removeprefix("Transferring back to ")
            own = [m for m in messages[:index] if isinstance(m, AIMessage) and m.name == each.name]
            worker = payload.agent_name_of(each.name, "agent")
            return worker, payload.agent_name_of(supervisor, "agent"), own[-1] if own else None
    return "", "", None


def record_answer(workspace: Workspace, task: str, worker: str, to: str, message: Any) -> None:
    """Record that a worker has come back with an answer."""
    summary = summary_of(worker, {"messages": [message] if message else []})
    ends = {"task": task, "from_agent": worker, "to_agent": to}
    workspace.hand_off({**ends, "outcome": "completed", "summary": summary})


def _called_with_others(messages: list[Any], call: str) -> list[Problem]:
    """A transfer ends the turn: what other tools of the same turn answer would be lost."""
    last = next((each for each in reversed(messages) if getattr(each, "tool_calls", None)), None)
    others = [each["name"] for each in getattr(last, "tool_calls", ()) if each["id"] != call]
    given = f"{', '.join(others)} was called in the same turn"
    problem = Problem("", "not_alone", given, "this tool alone", "call it again by itself")
    return [problem] if others else []


def history_tool(workspace: AnyWorkspace, agent: str, counter: CounterLike = None) -> Any:
    """A LangChain tool `read_history(items)`: messages of the agent's graph by their numbers, and
    records by id. An answer has at most 10,000 tokens, and says how to read on.
    """
    tool = read_history(workspace, "", agent, counter=counter)

    # The arguments are a model's: no mistake may end the run.
    def read(runtime: Any, items: object = "", **_unknown: object) -> str:
        texts = map(_message_line, convert_to_messages(runtime.state["messages"]))
        lines = [history.HistoryLine(number, text) for number, text in enumerate(texts, 1)]
        return tool.run({"items": items}, lines=lines).text

    return _tool(read, tool.input_schema, name=tool.name, description=tool.description)


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


_NEWEST = 2**62
"""A version that no task reaches: only sender and receiver are asked for."""


class BriefedState(AgentState[Any]):
    """An agent's state with, for itself alone, how many messages there were when it took over and
    at which version the task then was.
    """

    messages_before: NotRequired[Annotated[int, PrivateStateAttr]]
    version_before: NotRequired[Annotated[int, PrivateStateAttr]]


class BriefMiddleware(AgentMiddleware[Any, Any, Any]):
    """Shows an agent the task's brief instead of what was said before it took over.

    It took over with the last handoff message that names it, or else, where the task was handed to
    it, with its start. What people said last stays, if it takes no more than half of the budget. An
    agent to whom nothing was handed is shown everything. What isn't shown the agent reads with the
    tool `read_history`, which comes with this.
    """

    state_schema = BriefedState

    def __init__(
        self,
        workspace: AnyWorkspace,
        task: Task,
        agent: str,
        *,
        budget: int | None = None,
        counter: Any = None,
        back_to: str = "",
    ) -> None:
        """`budget` and `counter` are those of `Workspace.brief`; `back_to` is the supervisor to
        which this agent comes back, which is recorded with its answer.
        """
        super().__init__()
        self._id = payload.agent_name_of(agent, "agent")
        found = briefs.workspace_of(workspace)
        self._brief_settings = briefs.brief_settings(found, self._id, budget, counter)
        self._workspace, self._task, self._agent = found, task, agent
        self._back_to = payload.agent_name_of(back_to, "back_to") if back_to else ""
        self.tools = [history_tool(found, agent, counter)]
        self._briefs: shared.LruCache[tuple[str, int, str, int, int], str] = shared.LruCache()

    def before_agent(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        """Note how much was said before, where the task was handed to this agent."""
        del runtime
        task = task_for(self._task, state)
        handed = self._workspace.context.handoff_context(task, since=_NEWEST)
        found = {"version_before": handed.metadata["version"]}
        if handed.target != self._id:
            return found
        messages: list[Any] = list(state["messages"])
        while messages and isinstance(messages[-1], HumanMessage):
            messages.pop()
        return {**found, "messages_before": len(messages)}

    def after_agent(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        """Record the answer and the way back to the supervisor, unless the agent handed off."""
        del runtime
        if self._back_to:
            task = task_for(self._task, state)
            if self._workspace.task(task).holder == self._id:
                said = [each for each in state["messages"] if isinstance(each, AIMessage)]
                last = said[-1] if said else None
                record_answer(self._workspace, task, self._id, self._back_to, last)

    abefore_agent = shared.async_twin(before_agent)
    aafter_agent = shared.async_twin(after_agent)

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
        said = last_user_messages(messages, before)
        asked, settings = self._brief_settings.beside(said, message_text)
        # Made once in a turn, so that the model's view doesn't shift within it, and again when the
        # agent starts again and the task has moved on.
        task = task_for(self._task, request.state)
        key = (task, version, mark, before, settings.budget)
        hint = history.history_hint(before)
        text = self._briefs.get(key, lambda: settings.text(task, hint))
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
    return briefs.last_in_a_row(messages[:before], lambda each: isinstance(each, HumanMessage))


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
    results = itertools.takewhile(lambda each: isinstance(each, ToolMessage), later)
    found = {each.tool_call_id for each in results}
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
    is_call = field_of(block, "type") in ("tool_use", "tool_call")
    return is_call and field_of(block, "id") not in answers

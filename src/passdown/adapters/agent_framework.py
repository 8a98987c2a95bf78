"""Microsoft Agent Framework on a workspace: handoff workflows with a payload, briefs, histories.

Needs `pip install 'passdown[agent-framework]'`.
"""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, cast

from passdown.adapters.participant import Participant
from passdown.adapters.shared import requires_extra
from passdown.adapters.state_schema import field_of
from passdown.tools.briefs import last_in_a_row, recording_workspace, workspace_of
from passdown.tools.history import HISTORY_TOOL, ItemLog
from passdown.tools.messages import chat_messages

with requires_extra("agent-framework", "the Agent Framework is not installed"):
    from agent_framework import (
        Content,
        FunctionTool,
        HistoryProvider,
        Message,
    )

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from agent_framework import AgentContext, ChatContext, FunctionInvocationContext

    from passdown.core.tokens import CounterLike
    from passdown.core.types import JsonObject
    from passdown.tools import Tool
    from passdown.tools.briefs import AnyWorkspace

    Next = Callable[[], Awaitable[None]]

ORIGIN = "agent_framework"
_THEIRS, _OURS = "handoff_to_", "transfer_to_"


class Handoffs:
    """One agent of a handoff workflow: `Agent(..., **Handoffs(...).options())`.

    The tools that `HandoffBuilder` makes for `to` get a payload. A handoff with problems goes back
    to the model; a valid one is recorded, and the workflow goes on to the receiver. While a person
    has to approve, the workflow asks for the approval of the call. Models are given the task's
    brief in place of all messages up to the last handoff.
    """

    def __init__(
        self,
        workspace: AnyWorkspace,
        task: str | Callable[[Any], str],
        agent: str,
        *,
        to: Sequence[str] = (),
        budget: int = 500,
        counter: CounterLike = None,
        phase: str = "",
    ) -> None:
        """`task` may be a function of the agent's session. Raises InvalidInput."""
        self._participant = Participant(ORIGIN, workspace, task, agent, to, budget, counter, phase)
        self._history = self._participant.history()
        self._given: dict[str, list[Message]] = {}

    def options(self, tools: Sequence[Any] = ()) -> dict[str, Any]:
        """What an `Agent` of a handoff workflow is made with; `tools` are its own."""
        return {
            "name": self._participant.agent,
            "tools": [*tools],
            "middleware": [self._add_payload, self._note_answer, self._call],
            # The framework's last step before the model, after histories.
            "compaction_strategy": self._compact,
            "require_per_service_call_history_persistence": True,
        }

    async def _add_payload(self, context: AgentContext, call_next: Next) -> None:
        """Before a run: `HandoffBuilder` gives its tools to a copy of the agent.

        `read_history` comes with the first handoff: before, there is nothing to read.
        """
        options: dict[str, Any] = cast("Any", context.agent).default_options
        task = self._participant.task_of(context.session)
        if isinstance(options.get("tools"), list):
            tools = [self._with_payload(each) for each in options["tools"]]
            is_offered = HISTORY_TOOL in map(_name, tools)
            if not is_offered and await asyncio.to_thread(self._handoffs, task):
                tools.append(_tool(self._history, _unused))
            options["tools"] = tools
        await call_next()

    def _with_payload(self, tool: Any) -> Any:
        transfer = self._participant.transfers.get(_name(tool))
        return _tool(transfer, tool.func, name=tool.name) if transfer else tool

    async def _note_answer(self, context: ChatContext, call_next: Next) -> None:
        """Around a request: which session it is of, and what the model says before a handoff."""
        token = _session.set(context.session)
        try:
            await call_next()
        finally:
            _session.reset(token)
        answer: Any = context.result
        if not context.stream and answer is not None:
            self._given.setdefault(_key(context.session), []).extend(answer.messages)

    async def _compact(self, messages: list[Message]) -> bool:
        """A compaction strategy: the brief, then the messages since the last handoff."""
        given, session = list(messages), _session.get()
        messages[:] = await self._since_handoff(session, given)
        return len(messages) != len(given)

    async def _since_handoff(self, session: Any, messages: list[Message]) -> list[Message]:
        key, task = _key(session), self._participant.task_of(session)
        self._given[key] = list(messages)
        handoffs = await asyncio.to_thread(self._handoffs, task)
        if not handoffs:
            return messages
        # In the session's own state, which is kept with the framework's checkpoints.
        state: dict[str, Any] = getattr(session, "state", {})
        if (state.get(ORIGIN) or [0])[0] != handoffs:
            state[ORIGIN] = [handoffs, len(messages)]
        place = state[ORIGIN][1]
        before, later = messages[:place], messages[place:]
        said = last_in_a_row(before, _is_words)
        brief, said = await self._participant.brief(task, said, lambda each: each.text)
        system = [each for each in before[:1] if each.role == "system"]
        return [*system, Message("user", [brief]), *said, *later]

    def _handoffs(self, task: str) -> int:
        """How many handoffs a task has."""
        return int(workspace_of(self._participant.workspace).task(task).counts.get("h", 0))

    async def _call(self, context: FunctionInvocationContext, call_next: Next) -> None:
        """Around a tool: answer `read_history`, and record a handoff before it is made."""
        name, problems, gates = _name(context.function), "", list[str]()
        if name == HISTORY_TOOL:
            task = self._participant.task_of(context.session)
            context.result = (await self._history.arun(_given(context), task=task)).text
            return
        if name in self._participant.transfers:
            problems, gates = await self._hand_off(context, name)
        if problems:
            context.result = problems
        elif gates:
            context.result = _approval(context, gates)
        else:
            await call_next()

    async def _hand_off(
        self, context: FunctionInvocationContext, name: str
    ) -> tuple[str, list[str]]:
        """Record a call: the text of a refusal, or the gates that hold it."""
        session, task = _key(context.session), self._participant.task_of(context.session)
        call = f"{session} {context.metadata.get('call_id')}"
        # The framework drops the arguments after an approval.
        if await asyncio.to_thread(self._is_recorded, task, call):
            return "", await asyncio.to_thread(self._participant.gates, task)
        kept = plain_messages(self._given.get(session, []))
        result, gates = await self._participant.hand_off(
            name, task, _given(context), call=call, messages=kept
        )
        return "" if result.command else result.text, gates

    def _is_recorded(self, task: str, call: str) -> bool:
        last = self._handoffs(task)
        address = f"{task}#h{last}"
        handoff = workspace_of(self._participant.workspace).show(address).to_dict() if last else {}
        return field_of(field_of(handoff.get("metadata"), ORIGIN), "call_id") == call


_session: ContextVar[Any] = ContextVar("passdown_session", default=None)


def _approval(context: FunctionInvocationContext, gates: list[str]) -> Content:
    """The framework's own request for a person, in place of the call's result."""
    call = str(context.metadata.get("call_id"))
    name = context.function.name
    function = Content.from_function_call(call, name, arguments=_given(context), id=call)
    about = {"gates": gates, "_replacement_approval_request": True}
    return Content.from_function_approval_request(call, function, additional_properties=about)


def _given(context: FunctionInvocationContext) -> JsonObject:
    given: Any = context.arguments
    return cast("JsonObject", given) if isinstance(given, dict) else given.model_dump()


def _unused(**_: Any) -> str:
    """The function of a tool that a middleware answers."""
    return ""


def _name(tool: Any) -> str:
    return str(getattr(tool, "name", "")).replace(_THEIRS, _OURS, 1)


def _tool(tool: Tool, function: Any, *, name: str = "") -> FunctionTool:
    return FunctionTool(
        name=name or tool.name,
        description=tool.description,
        func=function,
        input_model=tool.input_schema,
        approval_mode="never_require",
    )


def _key(session: Any) -> str:
    return str(getattr(session, "session_id", ""))


def _is_words(message: Message) -> bool:
    return message.role == "user" and bool(message.text)


def plain_messages(messages: Sequence[Message]) -> list[JsonObject]:
    """Messages as Chat Completions has them: words, calls and results."""
    return [plain for each in messages if each.role != "system" for plain in _plain(each)]


def _plain(message: Message) -> list[JsonObject]:
    calls = [each for each in message.contents if each.type == "function_call"]
    results = [each for each in message.contents if each.type == "function_result"]
    return chat_messages(
        str(message.role),
        message.text or "",
        [(str(each.call_id), str(each.name), each.arguments) for each in calls],
        [(str(each.call_id), "", str(each.result)) for each in results],
    )


class LedgerHistory(HistoryProvider):
    """A `HistoryProvider` over a workspace: the messages of sessions, whole.

    Secrets of known shapes are redacted.
    """

    def __init__(
        self, workspace: AnyWorkspace, source_id: str = "passdown", **options: Any
    ) -> None:
        """`options` are those of `HistoryProvider`.

        Raises PassdownError behind a server whose token may not write for others.
        """
        super().__init__(source_id, **options)
        self._workspace = recording_workspace(workspace, "LedgerHistory")

    def _log(self, session_id: str | None) -> ItemLog:
        return ItemLog(self._workspace, f"{ORIGIN}/{self.source_id}/{session_id or 'none'}")

    async def get_messages(
        self, session_id: str | None, *, state: dict[str, Any] | None = None, **_: Any
    ) -> list[Message]:
        """The messages of a session, oldest first."""
        del state
        return [*map(Message.from_dict, await asyncio.to_thread(self._log(session_id).items))]

    async def save_messages(
        self,
        session_id: str | None,
        messages: Sequence[Message],
        *,
        state: dict[str, Any] | None = None,
        **_: Any,
    ) -> None:
        """Add messages to a session; they are on disk when this returns."""
        del state
        items = [each.to_dict() for each in messages]
        await asyncio.to_thread(self._log(session_id).add, items)

"""Pydantic AI on a workspace: recorded handoffs, briefs in place of histories, conversations.

Needs `pip install 'passdown[pydantic-ai]'`.
"""

from __future__ import annotations

import asyncio
from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from passdown.adapters.participant import Participant
from passdown.adapters.shared import requires_extra
from passdown.errors import Conflict, InvalidInput, Problem, raise_problems
from passdown.tools import agent_name_of
from passdown.tools.briefs import last_in_a_row, recording_workspace
from passdown.tools.history import item_of, record_bodies, session_id_problems
from passdown.tools.messages import chat_messages
from passdown.workspace.streams import StreamEntry, WorkspaceStreams

with requires_extra("pydantic-ai", "Pydantic AI is not installed"):
    from pydantic import TypeAdapter
    from pydantic_ai import (
        ApprovalRequired,
        CallToolsNode,
        FunctionToolset,
        ModelRequestNode,
        ModelRetry,
        Tool,
    )
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.conversation_store import (
        ConversationConflict,
        ConversationEntry,
        ConversationRecord,
        ConversationStore,
    )
    from pydantic_ai.messages import (
        ModelMessagesTypeAdapter,
        ModelRequest,
        ToolReturn,
        ToolReturnPart,
        UserPromptPart,
    )
    from pydantic_ai.result import FinalResult
    from pydantic_graph import End

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pydantic_ai import Agent, RunContext
    from pydantic_ai.agent import AgentRunResult
    from pydantic_ai.messages import ModelMessage
    from pydantic_ai.models import ModelRequestContext

    from passdown.core.record import Record
    from passdown.core.tokens import CounterLike
    from passdown.core.types import JsonObject
    from passdown.tools.briefs import AnyWorkspace

ORIGIN = "pydantic_ai"
MAX_REPAIRS = 3
"""How often a model may fix a handoff before its run ends."""


class HandedOff(NamedTuple):
    """The output of a run that ended with a handoff: the task, and the agent that goes on."""

    task: str
    to: str
    version: int


@dataclass(init=False, eq=False)
class Handoffs(AbstractCapability[Any]):
    """A capability: its agent hands tasks off to others, and takes them over with a brief.

    The agent's model gets a tool for each name in `to`. A handoff with problems goes back to the
    model; a valid one is recorded and ends the run with `HandedOff`. While a person has to approve,
    the run ends with `DeferredToolRequests`. Models are given the task's brief in place of all
    messages up to the last handoff. `task` may be a function of the run's context.
    """

    def __init__(
        self,
        workspace: AnyWorkspace,
        task: str | Callable[[RunContext[Any]], str],
        *,
        to: Sequence[str] = (),
        agent: str = "",
        budget: int = 500,
        counter: CounterLike = None,
        phase: str = "",
    ) -> None:
        """`agent` is the name to record, by default that of the agent. Raises InvalidInput."""
        self.id = "passdown-handoffs"
        name = agent or "agent"
        self._participant = Participant(ORIGIN, workspace, task, name, to, budget, counter, phase)
        self._is_named = bool(agent)

    def for_agent(self, agent: Any) -> Handoffs:
        """The capability under the agent's name. Raises InvalidInput if it has none."""
        if self._is_named:
            return self
        if not agent.name:
            fix = "Agent(..., name='coder')"
            problem = Problem("name", "required", "is missing", "a name", fix)
            raise InvalidInput("the agent can't be recorded", [problem])
        named = copy(self)
        named._participant, named._is_named = replace(self._participant, agent=agent.name), True
        return named

    def get_toolset(self) -> FunctionToolset[Any]:
        """A transfer tool for each receiver, and `read_history`."""
        history = self._participant.history()

        async def read(ctx: RunContext[Any], **arguments: Any) -> str:
            return (await history.arun(arguments, task=self._participant.task_of(ctx))).text

        def tool_of(made: Any, function: Any) -> Tool[Any]:
            about = made.name, made.description, made.input_schema
            return Tool.from_schema(function, *about, takes_ctx=True, sequential=True)

        tools = [tool_of(each, self._transfer) for each in self._participant.transfers.values()]
        return FunctionToolset(
            [*tools, tool_of(history, read)], id=self.id, max_retries=MAX_REPAIRS
        )

    async def _transfer(self, ctx: RunContext[Any], **arguments: Any) -> ToolReturn[str]:
        """Hand the task off, or say what is wrong, or wait for a person."""
        task, tool = self._participant.task_of(ctx), str(ctx.tool_name)
        call = f"{ctx.conversation_id} {ctx.tool_call_id}"
        kept = plain_messages(ctx.messages)
        result, gates = await self._participant.hand_off(
            tool, task, arguments, call=call, messages=kept
        )
        if result.command is None:
            raise ModelRetry(result.text)
        if gates:
            raise ApprovalRequired({"task": task, "gates": gates})
        handed = HandedOff(task, result.command.to_agent, result.command.version)
        return ToolReturn(f"Handed off to {handed.to}.", metadata={ORIGIN: handed._asdict()})

    async def after_node_run(self, ctx: RunContext[Any], *, node: Any, result: Any) -> Any:
        """End the run once its agent has handed off; the history has the tool's answer."""
        following: object = result
        is_answered = isinstance(node, CallToolsNode) and isinstance(following, ModelRequestNode)
        request = result.request if is_answered else ModelRequest([])
        part: Any = next((each for each in request.parts if _handed(each)), None)
        if part is None:
            return result
        ctx.messages.append(request)
        return End(FinalResult(_handed(part), part.tool_name, part.tool_call_id))

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """The brief in place of everything up to the last handoff; the history isn't changed."""
        messages = request_context.messages
        places = [place for place, each in enumerate(messages) if any(map(_handed, each.parts))]
        if not places:
            return request_context
        before, unread, later = _split(messages, places[-1])
        said = [] if any(map(_user_parts, later[:2])) else last_in_a_row(before, _is_words)
        brief, said = await self._participant.brief(self._participant.task_of(ctx), said, _words)
        system = await ctx.agent.system_prompt_parts(deps=ctx.deps) if ctx.agent else ()
        opening = [*system, UserPromptPart(brief), *said]
        if unread:
            later = [ModelRequest(opening), *unread, *(each for each in later if each.parts)]
        else:
            later[0] = replace(later[0], parts=[*opening, *later[0].parts])
        return replace(request_context, messages=later)


def _handed(part: object) -> HandedOff | None:
    noted = part.metadata if isinstance(part, ToolReturnPart) else None
    found = cast("JsonObject", noted).get(ORIGIN) if isinstance(noted, dict) else None
    return HandedOff(**found) if found else None


def _split(messages: list[ModelMessage], place: int) -> tuple[list[Any], list[Any], list[Any]]:
    """The parts up to a handoff; calls of its turn that no model has read, with their results; and
    the messages since, of which the first may be empty.
    """
    turn, answer = messages[place - 1], cast("ModelRequest", messages[place])
    before = [part for each in messages[:place] for part in each.parts]
    results = [p for p in answer.parts if isinstance(p, ToolReturnPart) and not _handed(p)]
    answered = {part.tool_call_id for part in results}
    calls = [part for part in turn.parts if getattr(part, "tool_call_id", "") in answered]
    unread = [replace(turn, parts=calls), replace(answer, parts=results)] if calls else []
    words = [part for part in answer.parts if not isinstance(part, ToolReturnPart)]
    return before, unread, [replace(answer, parts=words), *messages[place + 1 :]]


def _is_words(part: object) -> bool:
    return isinstance(part, UserPromptPart)


def _user_parts(message: ModelMessage) -> list[UserPromptPart]:
    return [part for part in message.parts if isinstance(part, UserPromptPart)]


def _words(part: UserPromptPart) -> str:
    content = [part.content] if isinstance(part.content, str) else part.content
    return "\n".join(each if isinstance(each, str) else f"[{each.kind}]" for each in content)


def plain_messages(messages: Sequence[ModelMessage]) -> list[JsonObject]:
    """Messages as Chat Completions has them: words, calls and results; no prompts of agents."""
    return [plain for each in messages for plain in _plain(each)]


def _plain(message: ModelMessage) -> list[JsonObject]:
    if isinstance(message, ModelRequest):
        returned = [part for part in message.parts if isinstance(part, ToolReturnPart)]
        results = [(r.tool_call_id, r.tool_name, r.model_response_str()) for r in returned]
        asked = [{"role": "user", "content": _words(p)} for p in _user_parts(message)]
        return chat_messages("user", "", results=results) + asked
    calls = [(c.tool_call_id, c.tool_name, c.args_as_json_str()) for c in message.tool_calls]
    return chat_messages("assistant", message.text or "", calls)


async def run(
    agents: Sequence[Agent[Any, Any]], prompt: Any = None, *, start: str = "", **options: Any
) -> AgentRunResult[Any]:
    """Run agents that hand off to each other, until one answers or a person has to approve.

    Begins with the first agent, or that named `start`; `options` are those of `Agent.run`. After an
    approval, call it again with the result's `message_history` and `deferred_tool_results`.
    """
    by_name = {agent_name_of(agent.name, "name"): agent for agent in agents}
    name = agent_name_of(start, "start") if start else next(iter(by_name))
    while True:
        result = await by_name[name].run(prompt, **options)
        handed: object = result.output
        if not isinstance(handed, HandedOff) or handed.to not in by_name:
            return result
        name, prompt = handed.to, None
        options.pop("deferred_tool_results", None)
        options.pop("message_history", None)
        options["conversation"] = result.conversation


_ENTRIES = "pydantic-ai/entries"
_CONVERSATION = "pydantic-ai/conversation/"
_WRITTEN, _DELETED = "conversation", "conversation_deleted"
_RECORDS = TypeAdapter(ConversationRecord)


class LedgerConversations(ConversationStore):
    """A `ConversationStore` in a workspace: messages kept once, and a conflict for a stale writer.

    Nothing is removed: a deleted conversation no longer loads or lists, its records stay. Secrets
    of known shapes are redacted.
    """

    def __init__(self, workspace: AnyWorkspace) -> None:
        """Raises PassdownError behind a server whose token may not write for others."""
        self._streams = WorkspaceStreams(recording_workspace(workspace, "LedgerConversations"))

    def _last(self, conversation_id: str) -> tuple[int, ConversationRecord | None]:
        raise_problems("there is no such conversation", session_id_problems(conversation_id))
        record = self._streams.last(_CONVERSATION + conversation_id)
        return (record.position if record else 0), _read_record(record)

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        """The newest record of a conversation; None where there is none."""
        return (await asyncio.to_thread(self._last, conversation_id))[1]

    async def read_records(
        self, *, scope: str | None = None, limit: int | None = None
    ) -> Sequence[ConversationRecord]:
        """The records of all conversations, or of a scope, newest first."""

        def read() -> list[ConversationRecord]:
            heads = self._streams.streams(_CONVERSATION)
            found = [_read_record(self._streams.last(head.stream)) for head in heads]
            return [each for each in found if each and scope in (None, each.scope)]

        found = await asyncio.to_thread(read)
        return sorted(found, key=lambda each: each.updated_at, reverse=True)[:limit]

    async def write_record(
        self,
        record: ConversationRecord,
        *,
        new_entries: Sequence[ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        """Store a record and its new entries together. Raises ConversationConflict."""
        head = record.head_id
        if head is not None and head not in {entry.id for entry in new_entries}:
            known = await asyncio.to_thread(self._streams.keyed, _ENTRIES, f"{head}/0")
            if known is None:
                raise ConversationConflict(record.conversation_id)
        body = {"record": _RECORDS.dump_python(record, mode="json")}
        entries = [entry for each in new_entries for entry in _entries(each)]
        await self._write(record.conversation_id, _WRITTEN, body, expected_revision, entries)

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        """Take a conversation out of the view; its messages stay. Raises ConversationConflict."""
        await self._write(conversation_id, _DELETED, {}, expected_revision)

    async def _write(
        self,
        conversation_id: str,
        kind: str,
        body: JsonObject,
        expected: str | None,
        entries: Iterable[StreamEntry] = (),
    ) -> None:
        def write() -> None:
            position, stored = self._last(conversation_id)
            if (stored.revision if stored else None) != expected:
                raise ConversationConflict(conversation_id)
            stream = _CONVERSATION + conversation_id
            last = StreamEntry(stream, kind, "pydantic-ai", body, "", expect=position)
            try:
                self._streams.add(*entries, last)
            except Conflict:
                raise ConversationConflict(conversation_id) from None

        await asyncio.to_thread(write)

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        """The entry with this id. Raises KeyError."""

        def read() -> ConversationEntry:
            first = self._streams.keyed(_ENTRIES, f"{entry_id}/0")
            if first is None:
                raise KeyError(entry_id)
            of = first.document().get("of", 1)
            more = [self._streams.keyed(_ENTRIES, f"{entry_id}/{n}") for n in range(1, of)]
            item = item_of([part.document() for part in (first, *more) if part])
            message = ModelMessagesTypeAdapter.validate_python([item["message"]])[0]
            return ConversationEntry(id=entry_id, parent_id=item["parent_id"], message=message)

        return await asyncio.to_thread(read)


def _read_record(record: Record | None) -> ConversationRecord | None:
    if record is None or record.kind != _WRITTEN:
        return None
    return _RECORDS.validate_python(record.document()["record"])


def _entries(entry: ConversationEntry) -> list[StreamEntry]:
    message = ModelMessagesTypeAdapter.dump_python([entry.message], mode="json")[0]
    bodies = record_bodies({"parent_id": entry.parent_id, "message": message}, "message")
    return [
        StreamEntry(_ENTRIES, "entry", "pydantic-ai", body, f"{entry.id}/{number}")
        for number, body in enumerate(bodies)
    ]

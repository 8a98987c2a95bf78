"""Google ADK on a workspace: agents that hand off with briefs, sessions and memory in the ledger.

Needs `pip install 'passdown[google-adk]'`, in an environment of its own.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import uuid
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from passdown.adapters.participant import Participant
from passdown.adapters.shared import requires_extra, streams_of
from passdown.tools import agent_name_of
from passdown.tools.briefs import recording_workspace, workspace_of
from passdown.tools.history import ItemLog, item_logs
from passdown.tools.messages import chat_messages

with requires_extra("google-adk", "Google ADK is not installed"):
    # By name: ADK isn't installed where types are checked.
    _agents: Any = import_module("google.adk.agents")
    _errors: Any = import_module("google.adk.errors.already_exists_error")
    _events: Any = import_module("google.adk.events")
    _memory: Any = import_module("google.adk.memory.base_memory_service")
    _entries: Any = import_module("google.adk.memory.memory_entry")
    _models: Any = import_module("google.adk.models")
    _sessions: Any = import_module("google.adk.sessions")
    _services: Any = import_module("google.adk.sessions.base_session_service")
    _tools: Any = import_module("google.adk.tools")
    types: Any = import_module("google.genai.types")


if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

    from passdown.core.results import Recalled
    from passdown.core.types import JsonObject
    from passdown.tools import Tool
    from passdown.tools.briefs import AnyWorkspace

ORIGIN = "google_adk"
_MARK = "handoff"


class Team(_agents.BaseAgent):
    """A custom agent: its sub-agents hand a task off to each other, and take it over with a brief.

    The agent that holds the task answers. Each gets a tool for every other one, or for those that
    `to` names, in place of ADK's own transfer. A handoff with problems goes back to the model; a
    valid one is recorded and transfers. While a person has to approve, the tool asks for ADK's
    confirmation. `task` may be a function of the context.
    """

    workspace: Any
    task: Any
    to: dict[str, list[str]] = {}  # noqa: RUF012 - Pydantic copies it
    budget: int = 500
    counter: Any = None
    phase: str = ""
    disallow_transfer_to_parent: bool = True
    """ADK lets agents transfer to each other only below an agent that has this."""

    def model_post_init(self, context: Any, /) -> None:
        """Give each sub-agent its tools. Raises InvalidInput for what can't be recorded."""
        base: Any = super()
        base.model_post_init(context)
        for agent in self.sub_agents:
            if isinstance(agent, _agents.LlmAgent):
                _Member(self, agent).equip(agent)

    async def _run_async_impl(self, ctx: Any) -> AsyncGenerator[Any, None]:
        agent = await self.holder(self.task if isinstance(self.task, str) else self.task(ctx))
        async for event in agent.run_async(ctx):
            yield event

    async def holder(self, task: str) -> Any:
        """The sub-agent that holds a task; the first one if none does."""
        holder = (await asyncio.to_thread(workspace_of(self.workspace).task, task)).holder
        named = [each for each in self.sub_agents if agent_name_of(each.name, "name") == holder]
        return (named or self.sub_agents)[0]


class _AdkTool(_tools.BaseTool):
    """A tool of `passdown.tools` in ADK's form."""

    def __init__(self, tool: Tool, run: Callable[[JsonObject, Any], Awaitable[JsonObject]]) -> None:
        base: Any = super()
        base.__init__(name=tool.name, description=tool.description)
        self._tool, self._run = tool, run

    def _get_declaration(self) -> Any:
        return types.FunctionDeclaration(
            name=self.name,
            description=self.description,
            parameters_json_schema=self._tool.input_schema,
        )

    async def run_async(self, *, args: JsonObject, tool_context: Any) -> JsonObject:
        return await self._run(args, tool_context)


class _Member:
    """A sub-agent of a team: its tools, and its callback before the model."""

    def __init__(self, team: Team, agent: Any) -> None:
        names = [each.name for each in team.sub_agents if each is not agent]
        to = team.to.get(agent.name, names) if team.to else names
        more = to, team.budget, team.counter, team.phase
        self._participant = Participant(ORIGIN, team.workspace, team.task, agent.name, *more)
        self._team, self._history = team, self._participant.history()

    def equip(self, agent: Any) -> None:
        """Give the sub-agent its tools and its callback."""
        made = self._participant.transfers.items()
        transfers = [
            _AdkTool(tool, partial(self._transfer, name, receiver))
            for receiver, (name, tool) in zip(self._participant.receivers, made, strict=True)
        ]
        agent.disallow_transfer_to_parent = True
        agent.tools = [*agent.tools, *transfers, _AdkTool(self._history, self._read)]
        given: Any = agent.before_model_callback or []
        callbacks = cast("list[Any]", given) if isinstance(given, list) else [given]
        agent.before_model_callback = [*callbacks, self._brief]

    async def _read(self, arguments: JsonObject, context: Any) -> JsonObject:
        task = self._participant.task_of(context)
        return {"result": (await self._history.arun(arguments, task=task)).text}

    async def _transfer(
        self, tool: str, receiver: str, arguments: JsonObject, context: Any
    ) -> JsonObject:
        """Record the handoff, refuse it, or ask for a confirmation."""
        task, session = self._participant.task_of(context), context.session
        call, kept = f"{session.id} {context.function_call_id}", plain_messages(session.events)
        result, gates = await self._participant.hand_off(
            tool, task, arguments, call=call, messages=kept
        )
        if result.command is None:
            return {"error": result.text}
        if gates:
            hint = f"{', '.join(gates)} waits for a person."
            context.request_confirmation(hint=hint, payload={"task": task, "gates": gates})
            context.actions.skip_summarization = True
            return {"result": hint}
        context.actions.transfer_to_agent = receiver
        return {"result": f"Handed off to {receiver}.", _MARK: result.command.digest[7:23]}

    async def _brief(self, callback_context: Any, llm_request: Any) -> Any:
        """The brief in place of all contents up to the last handoff."""
        events = callback_context.session.events
        _without_own_transfer(llm_request)
        if events and _marks(events[-1]) and events[-1].author == callback_context.agent_name:
            return await self._transfer_after_approval(callback_context)
        marks = [(place, mark) for place, each in enumerate(events) for mark in _marks(each)]
        place, mark = marks[-1] if marks else (0, "")
        contents = llm_request.contents
        at = [n for n, each in enumerate(contents) if any(_has(p, mark) for p in _parts(each))]
        if not mark or not at:
            return None
        later = [each for each in contents[at[-1] + 1 :] if not _is_own_transfer(each)]
        # Results of other calls of that turn, which no model has read.
        unread = [p for p in contents[at[-1]].parts[1:] if not _has(p, mark)]
        said = [] if _words(events[place:]) else _words(events[:place])[-1:]
        brief, said = await self._participant.brief(
            self._participant.task_of(callback_context), said, str
        )
        parts = [types.Part(text=text) for text in (brief, *said)]
        llm_request.contents = [types.Content(role="user", parts=[*parts, *unread]), *later]
        return None

    async def _transfer_after_approval(self, context: Any) -> Any:
        """The transfer that follows a confirmation: ADK asks the sender's model again after it."""
        target = await self._team.holder(self._participant.task_of(context))
        call = types.FunctionCall(name=_OWN_TRANSFER, args={"agent_name": target.name})
        return _models.LlmResponse(
            content=types.Content(role="model", parts=[types.Part(function_call=call)])
        )


_OWN_TRANSFER = "transfer_to_agent"
_OWN_INSTRUCTION = re.compile(
    r"\n?You have a list of other agents to transfer to:\n.*?function are\n[^\n]*\n", re.DOTALL
)


def _is_own_transfer(content: Any) -> bool:
    """Whether a content quotes the transfer that followed a confirmation."""
    return any(f"`{_OWN_TRANSFER}`" in (part.text or "")[:200] for part in _parts(content))


def _without_own_transfer(request: Any) -> None:
    """Don't offer ADK's own transfer to the model: it would go on without a record."""
    tools: list[Any] = request.config.tools or []
    for tool in tools:
        declared: list[Any] = tool.function_declarations or []
        tool.function_declarations = [each for each in declared if each.name != _OWN_TRANSFER]
    if isinstance(request.config.system_instruction, str):
        text = _OWN_INSTRUCTION.sub("", request.config.system_instruction)
        request.config.system_instruction = text


def _parts(content: Any) -> list[Any]:
    return content.parts or []


def _marks(event: Any) -> list[str]:
    answers: list[JsonObject] = [each.response or {} for each in event.get_function_responses()]
    return [answer[_MARK] for answer in answers if _MARK in answer]


def _has(part: Any, mark: str) -> bool:
    answer = part.function_response
    return mark in (part.text or "") or bool(answer and mark in str(answer.response))


def _words(events: Sequence[Any]) -> list[str]:
    """What people said."""
    said = [each.content for each in events if each.author == "user" and each.content]
    texts = [[part.text for part in _parts(each) if part.text] for each in said]
    return ["\n".join(each) for each in texts if each]


def plain_messages(events: Sequence[Any]) -> list[JsonObject]:
    """Events as Chat Completions has messages: words, calls and results."""
    return [plain for each in events if each.content for plain in _plain(each)]


def _plain(event: Any) -> list[JsonObject]:
    parts = _parts(event.content)
    calls = [part.function_call for part in parts if _is_agents(part.function_call)]
    results = [part.function_response for part in parts if _is_agents(part.function_response)]
    return chat_messages(
        "user" if event.author == "user" else "assistant",
        "\n".join(part.text for part in parts if part.text and not part.thought),
        [(each.id, each.name, each.args) for each in calls],
        [(each.id, each.name, _result(each)) for each in results],
    )


def _is_agents(part: Any) -> bool:
    """Whether a call or a result is of an agent's tool, not of ADK itself."""
    return part is not None and not part.name.startswith("adk_")


def _result(answer: Any) -> str:
    given: JsonObject = answer.response or {}
    alone = given.get("result") if [*given] == ["result"] else given
    return alone if isinstance(alone, str) else json.dumps(alone, default=str)


class LedgerSessionService(_sessions.BaseSessionService):
    """ADK's sessions in a workspace: every event whole, and the state that events change.

    Nothing is removed: a deleted session no longer loads or lists, its records stay. Secrets of
    known shapes are redacted.
    """

    def __init__(self, workspace: AnyWorkspace) -> None:
        """Raises PassdownError behind a server whose token may not write for others."""
        self._workspace = recording_workspace(workspace, "LedgerSessionService")

    def _log(self, *names: str) -> ItemLog:
        return ItemLog(self._workspace, "/".join([ORIGIN, *map(_short, names)]))

    async def create_session(
        self,
        *,
        app_name: str,
        user_id: str,
        state: dict[str, Any] | None = None,
        session_id: str | None = None,
    ) -> Any:
        """Make a session. Raises AlreadyExistsError."""
        name = (session_id or "").strip() or str(uuid.uuid4())
        if await self.get_session(app_name=app_name, user_id=user_id, session_id=name):
            raise _errors.AlreadyExistsError(f"Session with id {name} already exists.")
        now = streams_of(self._workspace).now().timestamp()
        about = {"app": app_name, "user": user_id, "session": name, "at": now}
        await asyncio.to_thread(self._write, about, state or {}, about)
        made = await self.get_session(app_name=app_name, user_id=user_id, session_id=name)
        assert made is not None  # noqa: S101 - it was just written
        return made

    def _write(self, where: JsonObject, state: dict[str, Any], item: JsonObject) -> None:
        """Add an item to a session, with the part of the state that is its own."""
        scopes: dict[str, dict[str, Any]] = {"app": {}, "user": {}, "session": {}}
        for name, value in state.items():
            if not name.startswith(_sessions.State.TEMP_PREFIX):
                scope = name.partition(":")[0] if name.startswith(_SHARED) else "session"
                scopes[scope][name] = value
        names = where["app"], where["user"], where["session"]
        for count, scope in ((1, "app"), (2, "user")):
            if scopes[scope]:
                self._log(*names[:count]).add([{"state": scopes[scope]}])
        self._log(*names).add([{**item, "state": scopes["session"]}])

    def _session(self, about: JsonObject, items: list[JsonObject]) -> Any:
        names = about["app"], about["user"]
        shared = [item for count in (1, 2) for item in self._log(*names[:count]).items()]
        state = {k: v for item in [*shared, *items] for k, v in item["state"].items()}
        events = [_events.Event.model_validate(item["event"]) for item in items if "event" in item]
        return _sessions.Session(
            app_name=about["app"],
            user_id=about["user"],
            id=about["session"],
            state=state,
            events=events,
            last_update_time=max([about["at"], *(each.timestamp for each in events)]),
        )

    async def get_session(
        self, *, app_name: str, user_id: str, session_id: str, config: Any = None
    ) -> Any:
        """A session with its events, or the newest that `config` asks for; None without one."""
        log = self._log(app_name, user_id, session_id.strip())
        items = await asyncio.to_thread(log.items)
        if not items:
            return None
        found = await asyncio.to_thread(self._session, items[0], items)
        if config and config.after_timestamp is not None:
            found.events = [e for e in found.events if e.timestamp >= config.after_timestamp]
        if config and config.num_recent_events is not None:
            first = max(0, len(found.events) - config.num_recent_events)
            found.events = found.events[first:]
        return found

    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> Any:
        """The sessions of an app, or of one of its users, without events; oldest first."""

        def sessions() -> list[Any]:
            names = [app_name] if user_id is None else [app_name, user_id]
            logs = item_logs(self._workspace, "/".join([ORIGIN, *map(_short, names), ""]))
            kept = [log.items() for log in logs]
            found = [self._session(items[0], items) for items in kept if items and "at" in items[0]]
            return sorted(found, key=lambda each: each.last_update_time)

        found = await asyncio.to_thread(sessions)
        return _services.ListSessionsResponse(
            sessions=[each.model_copy(update={"events": [], "state": {}}) for each in found]
        )

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Take a session out of the view; its records stay."""
        if await self.get_session(app_name=app_name, user_id=user_id, session_id=session_id):
            await asyncio.to_thread(self._log(app_name, user_id, session_id).hide_all)

    async def append_event(self, session: Any, event: Any) -> Any:
        """Add an event to the session and to the ledger."""
        base: Any = super()
        event = await base.append_event(session, event)
        if event.partial:
            return event
        where = {"app": session.app_name, "user": session.user_id, "session": session.id}
        item = {"event": event.model_dump(mode="json", by_alias=True, exclude_none=True)}
        state: dict[str, Any] = event.actions.state_delta if event.actions else {}
        await asyncio.to_thread(self._write, where, state, item)
        session.last_update_time = event.timestamp
        return event


_SHARED = (_sessions.State.APP_PREFIX, _sessions.State.USER_PREFIX)


def _short(name: str) -> str:
    """A part of a log's name: the text itself, or a digest if it is long or has slashes."""
    is_plain = len(name) <= 50 and name.isprintable() and not {"/", "~"} & {*name}
    return name if is_plain else f"~{hashlib.sha256(name.encode()).hexdigest()[:32]}"


class LedgerMemoryService(_memory.BaseMemoryService):
    """ADK's memory: what agents decided, noted and handed off in a workspace, searched.

    All of it is in the ledger once it is recorded, so adding a session adds nothing.
    """

    def __init__(self, workspace: AnyWorkspace, *, limit: int = 10) -> None:
        self._workspace, self._limit = workspace_of(workspace), limit

    async def add_session_to_memory(self, session: Any) -> None:
        """Nothing: handoffs, decisions and notes are found from the moment they are recorded."""

    async def search_memory(self, *, app_name: str, user_id: str, query: str) -> Any:
        """The best records for a query, with address, author and time."""
        del app_name, user_id
        found = await asyncio.to_thread(self._workspace.recall, query, limit=self._limit)
        return _memory.SearchMemoryResponse(memories=[_entry_of(each) for each in found])


def _entry_of(found: Recalled) -> Any:
    text = "\n".join(dict.fromkeys([f"{found.address} {found.title}", found.passage]))
    content = types.Content(role="user", parts=[types.Part(text=text)])
    return _entries.MemoryEntry(
        id=found.address, author=found.agent, timestamp=found.at, content=content
    )

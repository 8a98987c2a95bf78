"""The protocol: tools, prompts and resources for any transport, and standard input and output
as one.

The low-level server of the `mcp` package is used because definitions, checks and error texts are
ours. It speaks both the handshake of 2025 and the self-describing requests of 2026. Calls run in
threads, so a slow one holds up nobody. On standard input, a line that is no message and the calls
that are open at its end get an answer, which the package's own transport would drop.
"""

from __future__ import annotations

import json
import os
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, cast, runtime_checkable
from urllib.parse import quote, unquote

import anyio
import anyio.to_thread
import mcp_types as types
from mcp.server.caching import CacheHint
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage

from passdown import __version__
from passdown.core.items import one_line
from passdown.core.kinds import WORKSPACE_TASK
from passdown.core.text import has_lone_surrogate, visible
from passdown.errors import (
    InvalidInput,
    NotFound,
    PassdownError,
    Problem,
    StoreError,
    raise_problems,
)
from passdown.mcp import tools as reading
from passdown.mcp.definitions import BY_NAME, CHOOSE, HAND_OFF_NOW, INSTRUCTIONS, RESUME, TOOLS
from passdown.mcp.message_spans import SpanMiddleware
from passdown.mcp.shared_workspace import MAX_WAIT_S
from passdown.mcp.tools import agent_named, call_tool, task_row

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Awaitable, Callable, Mapping

    from anyio.abc import ObjectSendStream
    from mcp.server.context import ServerRequestContext

    from passdown.core.types import JsonObject
    from passdown.mcp.shared_workspace import SharedWorkspace
    from passdown.workspace import Workspace


def _prompt(name: str, title: str, description: str, **arguments: str) -> types.Prompt:
    listed = [
        types.PromptArgument(name=each, description=text, required=False)
        for each, text in arguments.items()
    ]
    return types.Prompt(name=name, title=title, description=description, arguments=listed)


PROMPTS: tuple[types.Prompt, ...] = (
    _prompt(
        "hand_off_now",
        "Hand off now",
        "Record where the work stands, so that another agent can go on",
        task="which task; default: the one being worked on",
        to="the next agent",
    ),
    _prompt(
        "resume",
        "Resume",
        "Go on with a task from its brief",
        task="which task; default: the one that waits",
        agent="who goes on; default: this client",
    ),
)


def prompt_text(shared: SharedWorkspace, name: str, given: Mapping[str, str], agent: str) -> str:
    """The text of a prompt; raises NotFound, InvalidInput, and what making a brief raises."""
    prompt = next((each for each in PROMPTS if each.name == name), None)
    if prompt is None:
        known = ", ".join(each.name for each in PROMPTS)
        raise NotFound(f"there is no prompt {name[:60]!r}", next_step=f"There are: {known}.")
    known = [argument.name for argument in prompt.arguments or ()]
    problems = [
        Problem(each[:60], "unknown_parameter", "is unknown", f"one of {', '.join(known)}")
        for each in given
        if each not in known
    ]
    raise_problems("the prompt is refused", problems)
    text = _resume_prompt(shared, given, agent) if name == "resume" else _hand_off_now_prompt(given)
    return visible(text, keep_newlines=True)


def _hand_off_now_prompt(given: Mapping[str, str]) -> str:
    task, to = given.get("task"), given.get("to")
    return HAND_OFF_NOW.format(
        task=f" The task is {one_line(task)}." if task else "",
        to=f" It goes to {one_line(to)}." if to else "",
    )


def _resume_prompt(shared: SharedWorkspace, given: Mapping[str, str], agent: str) -> str:
    who = given.get("agent") or agent
    with shared.workspace() as workspace:
        task = given.get("task") or _waiting_task(workspace, who)
        if not task:
            rows = [task_row(each) for each in reading.open_tasks(workspace, reading.TASKS_SHOWN)]
            return CHOOSE.format(tasks="\n".join(rows) or "(no task is open)")
        brief = reading.brief_tool(workspace, {"task": task}, who)
    return RESUME.format(task=one_line(task), agent=one_line(who), brief=brief)


def _waiting_task(workspace: Workspace, agent: str) -> str:
    try:
        return reading.waiting_task(workspace, agent)
    except InvalidInput:
        return ""


SCHEME = "passdown://"
RESOURCES_PER_PAGE = 50
_MARKDOWN = "text/markdown"
_JSON_SCHEMA = "application/schema+json"
_TITLE_CHARACTERS = 80

TEMPLATES: tuple[JsonObject, ...] = (
    {
        "uriTemplate": f"{SCHEME}task/{{task}}",
        "name": "task",
        "description": "A task with all its items.",
        "mimeType": _MARKDOWN,
    },
    {
        "uriTemplate": f"{SCHEME}brief/{{task}}/{{agent}}",
        "name": "brief",
        "description": "What an agent needs to know of a task.",
        "mimeType": _MARKDOWN,
    },
)

_SCHEMA_RESOURCE: JsonObject = {
    "uri": f"{SCHEME}schema/handoff",
    "name": "handoff schema",
    "description": "Every field that a handoff may have, as JSON Schema.",
    "mimeType": _JSON_SCHEMA,
}


class ResourcePage(NamedTuple):
    """A page of resources, and the cursor of the next one; empty at the end."""

    resources: list[JsonObject]
    cursor: str = ""


def resource_page(shared: SharedWorkspace, cursor: str) -> ResourcePage:
    """The resources there are: tasks in the order of their making, each with its holder's brief.

    Where no store can be read there is only what needs none: hosts ask for this list at the start,
    and an error here would look like a server that doesn't work.
    """
    after = int(cursor) if cursor.isascii() and cursor.isdigit() and len(cursor) < 18 else 0
    try:
        with shared.workspace() as workspace:
            found = workspace.tasks(limit=RESOURCES_PER_PAGE, after=after)
    except (PassdownError, OSError):
        return ResourcePage([] if after else [_SCHEMA_RESOURCE])
    resources = [] if after else [_SCHEMA_RESOURCE]
    for task in found:
        if task.task != WORKSPACE_TASK:
            resources += _task_resources(task.to_dict())
    return ResourcePage(resources, str(found[-1].seq) if len(found) == RESOURCES_PER_PAGE else "")


def _task_resources(task: JsonObject) -> list[JsonObject]:
    title = f"{task['task']}: {one_line(task['title'])[:_TITLE_CHARACTERS]}"
    name = quote(task["task"])
    whole = {"uri": f"{SCHEME}task/{name}", "name": title, "mimeType": _MARKDOWN}
    if not task["holder"] or task["status"] in ("completed", "cancelled"):
        return [whole]
    label = f"brief of {task['task']} for {one_line(task['holder'])}"
    address = f"{SCHEME}brief/{name}/{quote(task['holder'])}"
    return [whole, {"uri": address, "name": label, "mimeType": _MARKDOWN}]


def read_resource(shared: SharedWorkspace, uri: str, agent: str) -> types.TextResourceContents:
    """The content of a resource; raises NotFound for an address that isn't any, and whatever
    reading the task raises.
    """
    kind, *rest = [unquote(part) for part in uri.removeprefix(SCHEME).split("/")]
    if not uri.startswith(SCHEME) or not all(rest):
        raise _no_resource(uri)
    if [kind, *rest] == ["schema", "handoff"]:
        from passdown.core.intake import handoff_schema

        text = json.dumps(handoff_schema(), ensure_ascii=False)
        return types.TextResourceContents(uri=uri, text=text, mime_type=_JSON_SCHEMA)
    with shared.workspace() as workspace:
        text = _resource_text(workspace, uri, kind, rest, agent)
    text = visible(text, keep_newlines=True)
    return types.TextResourceContents(uri=uri, text=text, mime_type=_MARKDOWN)


def _resource_text(workspace: Workspace, uri: str, kind: str, rest: list[str], agent: str) -> str:
    if kind == "task" and len(rest) == 1:
        return reading.show_tool(workspace, {"id": rest[0], "limit": reading.MAX_ROWS}, agent)
    if kind == "brief" and len(rest) in (1, 2):
        return reading.brief_tool(workspace, {"task": rest[0]}, rest[1] if rest[1:] else agent)
    raise _no_resource(uri)


def _no_resource(uri: str) -> NotFound:
    return NotFound(
        f"there is no resource {uri[:140]!r}",
        next_step=f"Addresses are {SCHEME}task/T-1, {SCHEME}brief/T-1/AGENT and "
        f"{SCHEME}schema/handoff.",
    )


if TYPE_CHECKING:
    Context = ServerRequestContext[Any, Any]
    Paging = types.PaginatedRequestParams | None

SERVER_NAME = "passdown"
_HOUR_MS = 3_600_000

T = TypeVar("T")


def named_by_client(context: Context) -> str:
    """Who calls, where only the environment and the client can say so."""
    params = context.session.client_params
    return agent_named(os.environ, params.client_info.name if params is not None else "")


def build_server(
    shared: SharedWorkspace,
    caller: Callable[[Context], str] = named_by_client,
    instructions: str = INSTRUCTIONS,
) -> Server[Any]:
    """The server, for any transport. Making it opens nothing: what is listed is the same for every
    workspace. `caller` tells who calls, where the call's arguments don't.
    """
    handlers = _Handlers(shared, caller)
    same = CacheHint(ttl_ms=_HOUR_MS, scope="public")
    server: Server[Any] = Server(
        SERVER_NAME,
        version=__version__,
        title="Passdown",
        instructions=instructions,
        cache_hints={"tools/list": same, "prompts/list": same, "resources/templates/list": same},
        on_list_tools=handlers.list_tools,
        on_call_tool=handlers.call_tool,
        on_list_resources=handlers.list_resources,
        on_list_resource_templates=handlers.list_templates,
        on_read_resource=handlers.read_resource,
        on_list_prompts=handlers.list_prompts,
        on_get_prompt=handlers.get_prompt,
    )
    # What agents write stays on this machine: no call is reported to a tracer that happens to be
    # installed beside us.
    server.middleware.clear()
    return server


class _Handlers:
    """What each request of the protocol is answered with."""

    def __init__(self, shared: SharedWorkspace, caller: Callable[[Context], str]) -> None:
        self._shared = shared
        self._caller = caller

    async def list_tools(self, _: Context, __: Paging) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[types.Tool.model_validate(tool) for tool in TOOLS])

    async def call_tool(
        self, context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        if params.name not in BY_NAME:
            known = ", ".join(BY_NAME)
            message = visible(f"there is no tool {params.name[:60]!r}; there are: {known}")
            raise MCPError(types.INVALID_PARAMS, message)
        given = params.arguments or {}
        answer = await _in_thread(
            call_tool, self._shared, params.name, given, self._caller(context)
        )
        content = types.TextContent(type="text", text=answer.text)
        return types.CallToolResult(content=[content], is_error=answer.is_error)

    async def list_resources(self, _: Context, params: Paging) -> types.ListResourcesResult:
        cursor = params.cursor if params is not None and params.cursor else ""
        found = await _in_thread(resource_page, self._shared, cursor)
        listed = [types.Resource.model_validate(each) for each in found.resources]
        return types.ListResourcesResult(resources=listed, next_cursor=found.cursor or None)

    async def list_templates(self, _: Context, __: Paging) -> types.ListResourceTemplatesResult:
        found = [types.ResourceTemplate.model_validate(each) for each in TEMPLATES]
        return types.ListResourceTemplatesResult(resource_templates=found)

    async def read_resource(
        self, context: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        uri = str(params.uri)
        content = await _or_protocol_error(read_resource, self._shared, uri, self._caller(context))
        return types.ReadResourceResult(contents=[content])

    async def list_prompts(self, _: Context, __: Paging) -> types.ListPromptsResult:
        return types.ListPromptsResult(prompts=list(PROMPTS))

    async def get_prompt(
        self, context: Context, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult:
        given = params.arguments or {}
        agent = self._caller(context)
        text = await _or_protocol_error(prompt_text, self._shared, params.name, given, agent)
        content = types.TextContent(type="text", text=text)
        return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=content)])


async def _in_thread(function: Callable[..., T], *given: Any) -> T:
    return await anyio.to_thread.run_sync(partial(function, *given))


async def _or_protocol_error(function: Callable[..., T], *given: Any) -> T:
    """What a function gives; its errors become the protocol's, which has no other place for them
    outside of tools.
    """
    try:
        return await _in_thread(function, *given)
    except PassdownError as error:
        is_ours = isinstance(error, StoreError)
        code = types.INTERNAL_ERROR if is_ours else types.INVALID_PARAMS
        raise MCPError(code, visible(str(error), keep_newlines=True)) from None


@runtime_checkable
class _ValidationError(Protocol):
    """An error of the package that reads messages: it lists what is wrong."""

    def errors(self) -> list[JsonObject]: ...


_CANCELLED = "notifications/cancelled"
_GRACE_S = 5.0
_GLANCE_S = 0.02
_NOT_JSON = ("json_invalid", "json_type")


def serve_stdio(shared: SharedWorkspace, agent: str = "") -> None:
    """Answer on standard input and output until the client closes them.

    `agent` writes where a call names nobody; without it, see `agent_named`.
    """
    server = build_server(shared, lambda context: agent or named_by_client(context))
    server.middleware.append(SpanMiddleware(lambda context: agent or named_by_client(context)))
    try:
        anyio.run(_run_stdio, server)
    finally:
        shared.close()


async def _run_stdio(server: Server[Any]) -> None:
    options = server.create_initialization_options()
    passing, messages = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    saying, said = anyio.create_memory_object_stream[SessionMessage](0)
    open_calls = _OpenCalls()
    async with stdio_server() as (lines, answers):
        async with anyio.create_task_group() as group:
            group.start_soon(_forward_messages, lines, passing, answers.send, open_calls)
            group.start_soon(_forward_answers, said, answers.send, open_calls)
            await server.run(messages, saying, options)
        await answers.aclose()


class _OpenCalls:
    """The requests that wait for an answer."""

    def __init__(self) -> None:
        self._ids: set[object] = set()

    def asked(self, message: types.JSONRPCMessage) -> None:
        """Notice a request, or that one is called off: it gets no answer."""
        if isinstance(message, types.JSONRPCRequest):
            self._ids.add(message.id)
        elif isinstance(message, types.JSONRPCNotification) and message.method == _CANCELLED:
            self._ids.discard((message.params or {}).get("requestId"))

    def answered(self, message: types.JSONRPCMessage) -> None:
        """Notice an answer."""
        if isinstance(message, types.JSONRPCResponse | types.JSONRPCError):
            self._ids.discard(message.id)

    async def settled(self) -> None:
        """Wait until nothing is open any more, or has been open for too long."""
        with anyio.move_on_after(MAX_WAIT_S + _GRACE_S):
            while self._ids:
                await anyio.sleep(_GLANCE_S)


async def _forward_messages(
    lines: AsyncIterable[SessionMessage | Exception],
    passing: ObjectSendStream[SessionMessage | Exception],
    say: Callable[[SessionMessage], Awaitable[None]],
    open_calls: _OpenCalls,
) -> None:
    async with passing:
        async for line in lines:
            if isinstance(line, SessionMessage):
                open_calls.asked(line.message)
                await passing.send(line)
            elif told := line_error(line):
                await say(SessionMessage(told))
        # Closing this ends the server at once, and a pipe is closed as soon as all is written.
        await open_calls.settled()


async def _forward_answers(
    said: AsyncIterable[SessionMessage],
    say: Callable[[SessionMessage], Awaitable[None]],
    open_calls: _OpenCalls,
) -> None:
    async for answer in said:
        await say(answer)
        open_calls.answered(answer.message)


def line_error(fault: Exception) -> types.JSONRPCError | None:
    """What is said to a line that is no message; None for an empty one, which says nothing, and
    for a notification, which gets no answer.
    """
    faults: list[JsonObject] = fault.errors() if isinstance(fault, _ValidationError) else []
    given = [each.get("input") for each in faults]
    if any(each.get("type") in _NOT_JSON for each in faults):
        lines = [each for each in given if isinstance(each, str)]
        if len(lines) == len(given) and not "".join(lines).strip():
            return None
        given = [lenient_json(line) for line in lines]
        if given and all(map(is_notification, given)):
            return None
    ids = [number for number in map(message_id, given) if number is not None]
    code, said = types.PARSE_ERROR, "this line is no JSON; a message is one line of it, in UTF-8"
    if any(_has_half_a_character(part) for part in given):
        code, said = types.INVALID_REQUEST, HALF_A_CHARACTER
    elif faults and not any(each.get("type") in _NOT_JSON for each in faults):
        code, said = types.INVALID_REQUEST, "this is JSON, but no request, notification or answer"
    error = types.ErrorData(code=code, message=f"{said} (JSON-RPC 2.0)")
    return types.JSONRPCError(jsonrpc="2.0", id=ids[0] if ids else None, error=error)


HALF_A_CHARACTER = "a text in it holds half a character (a lone surrogate)"


def lenient_json(text: str | bytes) -> object:
    """What JSON says, half characters included; None for what is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _has_half_a_character(message: object) -> bool:
    try:
        return has_lone_surrogate(json.dumps(message, ensure_ascii=False))
    except RecursionError:
        return False


def message_id(message: object) -> int | str | None:
    """The id of what was meant as a message, if it has one."""
    number: object = cast("JsonObject", message).get("id") if isinstance(message, dict) else None
    if isinstance(number, bool) or not isinstance(number, int | str):
        return None
    # An id with half a character can't be written, so no answer could carry it.
    return None if isinstance(number, str) and has_lone_surrogate(number) else number


def is_notification(message: object) -> bool:
    """Whether it has a method and no id: nobody waits for an answer."""
    return isinstance(message, dict) and "method" in message and "id" not in message


def is_faulty(notification: object) -> bool:
    """Whether a notification isn't as the protocol has it."""
    try:
        types.JSONRPCNotification.model_validate(notification)
    except ValueError:  # of which a validation error is one
        return True
    return False


def surrogate_error(body: bytes) -> JsonObject | None:
    """The answer to a message with half a character in it; None for any other."""
    message = lenient_json(body)
    if not _has_half_a_character(message):
        return None
    error = {"code": types.INVALID_REQUEST, "message": HALF_A_CHARACTER}
    return {"jsonrpc": "2.0", "id": message_id(message), "error": error}

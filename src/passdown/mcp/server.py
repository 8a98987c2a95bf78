"""The protocol: what each request is answered with, for any transport.

There is no SDK in between: hosts start the server at every session, and importing one takes
longer than everything else. A client of 2025 says once, by `initialize`, who it is; one of 2026
says so in every request. Modules that only some requests need are loaded by those.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from passdown import __version__, tracing
from passdown.mcp.messages import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    UNSUPPORTED_VERSION,
    RpcError,
    as_object,
    parameter,
)
from passdown.mcp.texts import INSTRUCTIONS

if TYPE_CHECKING:
    from collections.abc import Callable

    from passdown.core.types import JsonObject
    from passdown.mcp.people import Ask, Person, Task, Tasks
    from passdown.mcp.shared_workspace import SharedWorkspace

HANDSHAKE_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN_VERSIONS = ("2026-07-28",)

SERVER_INFO = {"name": "passdown", "title": "Passdown", "version": __version__}
_NONE: JsonObject = {}
_META = "io.modelcontextprotocol/"
_CAPABILITIES: JsonObject = {
    "prompts": {"listChanged": False},
    "resources": {"listChanged": False, "subscribe": False},
    "tools": {"listChanged": False},
}
_TASKS: JsonObject = {"tasks": {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}}
_TASKS_EXTENSION = "io.modelcontextprotocol/tasks"


class Client(NamedTuple):
    """Who sends a request, by its own account."""

    version: str
    name: str = ""
    capabilities: JsonObject = _NONE

    @property
    def has_forms(self) -> bool:
        """Whether it shows its person a form; some only open pages."""
        modes = self.capabilities.get("elicitation")
        return isinstance(modes, dict) and (not modes or "form" in modes)

    @property
    def is_modern(self) -> bool:
        """Whether each of its requests describes itself."""
        return self.version in MODERN_VERSIONS


def client_of_request(params: JsonObject) -> Client | None:
    """Who a request says it comes from; None for one of 2025, which says nothing.

    Raises RpcError for a version that isn't served, or a description that isn't whole.
    """
    meta = as_object(params.get("_meta"))
    if f"{_META}protocolVersion" not in meta:
        return None
    version = parameter(meta, f"{_META}protocolVersion", str)
    if version not in MODERN_VERSIONS:
        data = {"supported": list(MODERN_VERSIONS), "requested": version[:100]}
        raise RpcError(UNSUPPORTED_VERSION, "Unsupported protocol version", data)
    capabilities = parameter(meta, f"{_META}clientCapabilities", dict)
    return Client(version, _name_of(meta.get(f"{_META}clientInfo")), capabilities)


def client_of_handshake(params: JsonObject) -> Client:
    """Who `initialize` says it comes from, with the version that is spoken from here on."""
    wanted = parameter(params, "protocolVersion", str)
    capabilities = parameter(params, "capabilities", dict, {})
    version = wanted if wanted in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1]
    return Client(version, _name_of(parameter(params, "clientInfo", dict, {})), capabilities)


def _name_of(info: object) -> str:
    name: object = as_object(info).get("name")
    return name if isinstance(name, str) else ""


class Call(NamedTuple):
    """A request and who sends it.

    `named` is the agent that it acts for, where that is known; `owner` whose tasks it sees;
    `elicit` asks the client's person, where the server can send requests; `answers_as` is under
    which name that person answers (empty: they say it; None: they may not).
    """

    method: str
    params: JsonObject
    client: Client
    named: str = ""
    owner: str = ""
    elicit: Ask | None = None
    answers_as: str | None = None

    @property
    def agent(self) -> str:
        """Who acts where the arguments of a tool name nobody."""
        if self.named:
            return self.named
        from passdown.mcp.tools import agent_named

        return agent_named(os.environ, self.client.name)


class Server:
    """Answers requests. Making one opens nothing: what is listed is the same for all workspaces."""

    def __init__(
        self, shared: SharedWorkspace, instructions: str = INSTRUCTIONS, *, is_lasting: bool = True
    ) -> None:
        """`is_lasting`: whether clients of 2025 have a connection, which their tasks need."""
        self._shared = shared
        self._instructions = instructions
        self._is_lasting = is_lasting
        self._tasks: Tasks | None = None

    def result(self, call: Call) -> JsonObject:
        """What a request is answered with; raises RpcError."""
        method = _METHODS.get(call.method)
        if method is None or method.is_modern not in (None, call.client.is_modern):
            raise RpcError(METHOD_NOT_FOUND, "Method not found", call.method[:100])
        if not tracing.is_on():
            return self._result(method, call)
        from passdown.mcp.message_spans import is_tool_error, message_span

        with message_span(call) as span:
            result = self._result(method, call)
            if is_tool_error(result):
                span.note({}, error="tool_error")
            return result

    def _result(self, method: _Method, call: Call) -> JsonObject:
        from passdown.errors import PassdownError, StoreError

        try:
            result = method.run(self, call)
        except PassdownError as error:
            # Outside of tools the protocol has no other place for what went wrong.
            from passdown.core.text import visible

            code = INTERNAL_ERROR if isinstance(error, StoreError) else INVALID_PARAMS
            raise RpcError(code, visible(str(error), keep_newlines=True)) from None
        if not call.client.is_modern:
            return result
        meta = {f"{_META}serverInfo": SERVER_INFO}
        is_final = result.get("resultType", "complete") == "complete"
        caching = method.caching if is_final else {}
        return {"resultType": "complete", **caching, **result, "_meta": meta}

    def initialize(self, call: Call) -> JsonObject:
        """What this server is, for a client of 2025."""
        return {
            "protocolVersion": call.client.version,
            "capabilities": _CAPABILITIES | (_TASKS if self._has_tasks(call.client) else {}),
            "serverInfo": SERVER_INFO,
            "instructions": self._instructions,
        }

    def discover(self, _: Call) -> JsonObject:
        """What this server is, for a client of 2026."""
        return {
            "supportedVersions": list(MODERN_VERSIONS),
            "capabilities": {**_CAPABILITIES, "extensions": {_TASKS_EXTENSION: {}}},
            "instructions": self._instructions,
        }

    def ping(self, _: Call) -> JsonObject:
        """Nothing."""
        return {}

    def list_tools(self, call: Call) -> JsonObject:
        """All tools; a client of 2025 is told which of them can be tasks."""
        from passdown.mcp.definitions import TASK_TOOLS, TOOLS

        if not self._has_tasks(call.client):
            return {"tools": list(TOOLS)}
        marked = {"execution": {"taskSupport": "optional"}}
        return {"tools": [t | marked if t["name"] in TASK_TOOLS else t for t in TOOLS]}

    def _has_tasks(self, client: Client) -> bool:
        """Whether a client of 2025 may run calls as tasks."""
        return self._is_lasting and client.version == HANDSHAKE_VERSIONS[-1]

    def call_tool(self, call: Call) -> JsonObject:
        """What a tool says, a task that will have it, or what a person has to say first."""
        from passdown.core.text import visible
        from passdown.mcp.definitions import BY_NAME, TASK_TOOLS
        from passdown.mcp.people import InputRequired

        name = parameter(call.params, "name", str)
        given = parameter(call.params, "arguments", dict, {})
        if name not in BY_NAME:
            known = ", ".join(BY_NAME)
            message = visible(f"there is no tool {name[:60]!r}; there are: {known}")
            raise RpcError(INVALID_PARAMS, message)
        if call.client.is_modern:
            known = as_object(call.client.capabilities.get("extensions"))
            is_task = _TASKS_EXTENSION in known and given.get(TASK_TOOLS.get(name, "")) is not None
        else:
            is_task = self._has_tasks(call.client) and call.params.get("task") is not None
        if is_task:
            return self._start_task(call, name, given)
        try:
            return self._tool_result(call, name, given, self._person(call))
        except InputRequired as needed:
            return needed.to_dict()

    def _tool_result(
        self, call: Call, name: str, given: JsonObject, person: Person | None
    ) -> JsonObject:
        from passdown.mcp.tools import call_tool

        answer = call_tool(self._shared, name, given, call.agent, person)
        content = {"type": "text", "text": answer.text}
        return {"content": [content], "isError": answer.is_error}

    def _person(self, call: Call, task: Task | None = None) -> Person | None:
        """The person who can be asked during a call; None where nobody can."""
        from passdown.mcp.people import Person, repeated_call

        can_ask = call.client.has_forms and call.answers_as is not None
        name = call.answers_as or ""
        if task is not None:
            is_modern = call.client.is_modern  # such a client is asked by what it polls
            status = "working" if is_modern and not can_ask else "input_required"
            return task.person(call.elicit if can_ask and not is_modern else None, status, name)
        if can_ask and call.client.is_modern:
            return repeated_call(call.params, name)
        return Person(call.elicit, name) if can_ask and call.elicit is not None else None

    @property
    def tasks(self) -> Tasks:
        """The calls that run as tasks."""
        if self._tasks is None:
            from passdown.mcp.people import Tasks

            self._tasks = Tasks()
        return self._tasks

    def _start_task(self, call: Call, name: str, given: JsonObject) -> JsonObject:
        from passdown.mcp.definitions import TASK_TOOLS

        if name not in TASK_TOOLS:
            raise RpcError(METHOD_NOT_FOUND, f"{name} can't be run as a task")
        task = self.tasks.start(
            call.owner,
            as_object(call.params.get("task")).get("ttl"),
            lambda task: self._tool_result(call, name, given, self._person(call, task)),
        )
        shown = task.to_dict(is_modern=call.client.is_modern)
        return {"resultType": "task", **shown} if call.client.is_modern else {"task": shown}

    def _task(self, call: Call) -> Task:
        return self.tasks.get(call.owner, parameter(call.params, "taskId", str))

    def get_task(self, call: Call) -> JsonObject:
        """A task as it is now."""
        return self._task(call).to_dict(is_modern=call.client.is_modern)

    def list_tasks(self, call: Call) -> JsonObject:
        """All tasks of the client."""
        return {"tasks": [task.to_dict(is_modern=False) for task in self.tasks.of(call.owner)]}

    def task_result(self, call: Call) -> JsonObject:
        """What the call of a task says, once it has ended."""
        from passdown.mcp.people import RELATED_TASK

        task = self._task(call)
        task.ended.wait()
        if task.status != "completed":
            raise task.error or RpcError(INVALID_PARAMS, f"the task is {task.status}")
        return {**task.result, "_meta": {RELATED_TASK: {"taskId": task.id}}}

    def update_task(self, call: Call) -> JsonObject:
        """Take what a person said to a task's question."""
        from passdown.mcp.people import reply_of

        task = self._task(call)
        reply = reply_of(parameter(call.params, "inputResponses", dict))
        if task.form and reply is not None and call.answers_as is not None:
            task.reply.give(reply)
        return {}

    def cancel_task(self, call: Call) -> JsonObject:
        """End a task; what its call has begun may still be recorded."""
        task = self._task(call)
        if task.ended.is_set() and not call.client.is_modern:
            raise RpcError(INVALID_PARAMS, f"the task is {task.status} already")
        task.move("cancelled")
        return {} if call.client.is_modern else task.to_dict(is_modern=False)

    def list_resources(self, call: Call) -> JsonObject:
        """A page of the resources."""
        from passdown.mcp.resources import resource_page

        page = resource_page(self._shared, parameter(call.params, "cursor", str, ""))
        more = {"nextCursor": page.cursor} if page.cursor else {}
        return {"resources": page.resources, **more}

    def list_templates(self, _: Call) -> JsonObject:
        """The shapes of addresses."""
        from passdown.mcp.resources import TEMPLATES

        return {"resourceTemplates": list(TEMPLATES)}

    def read_resource(self, call: Call) -> JsonObject:
        """The content of a resource."""
        from passdown.mcp.resources import read_resource

        uri = parameter(call.params, "uri", str)
        return {"contents": [read_resource(self._shared, uri, call.agent)]}

    def list_prompts(self, _: Call) -> JsonObject:
        """All prompts."""
        from passdown.mcp.resources import PROMPTS

        return {"prompts": list(PROMPTS)}

    def get_prompt(self, call: Call) -> JsonObject:
        """The text of a prompt."""
        from passdown.mcp.resources import prompt_text

        name = parameter(call.params, "name", str)
        given = parameter(call.params, "arguments", dict, {})
        if not all(isinstance(value, str) for value in given.values()):
            raise RpcError(INVALID_PARAMS, "params.arguments: expected texts")
        content = {"type": "text", "text": prompt_text(self._shared, name, given, call.agent)}
        return {"messages": [{"role": "user", "content": content}]}


class _Method(NamedTuple):
    """What answers a method, which clients have it (None: all), and how long those of 2026 may
    keep the answer.
    """

    run: Callable[[Server, Call], JsonObject]
    is_modern: bool | None = None
    caching: JsonObject = _NONE


_HOUR = {"ttlMs": 3_600_000, "cacheScope": "public"}
_NOW = {"ttlMs": 0, "cacheScope": "private"}
_METHODS: dict[str, _Method] = {
    "initialize": _Method(Server.initialize, is_modern=False),
    "ping": _Method(Server.ping, is_modern=False),
    "server/discover": _Method(Server.discover, is_modern=True, caching=_NOW),
    "tools/list": _Method(Server.list_tools, caching=_HOUR),
    "tools/call": _Method(Server.call_tool),
    "resources/list": _Method(Server.list_resources, caching=_NOW),
    "resources/templates/list": _Method(Server.list_templates, caching=_HOUR),
    "resources/read": _Method(Server.read_resource, caching=_NOW),
    "prompts/list": _Method(Server.list_prompts, caching=_HOUR),
    "prompts/get": _Method(Server.get_prompt),
    "tasks/get": _Method(Server.get_task),
    "tasks/list": _Method(Server.list_tasks, is_modern=False),
    "tasks/result": _Method(Server.task_result, is_modern=False),
    "tasks/update": _Method(Server.update_task, is_modern=True),
    "tasks/cancel": _Method(Server.cancel_task),
}


def is_served(method: str) -> bool:
    """Whether any client has this method."""
    return method in _METHODS

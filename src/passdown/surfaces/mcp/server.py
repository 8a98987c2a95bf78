"""The protocol, for any transport: this module and `stdio` alone know the `mcp` package.

The low-level server is used because definitions, checks and error texts are ours. It speaks both
eras, the handshake of 2025 and the self-describing requests of 2026, with the same handlers.
Calls run in threads, so several go on at once and a slow one holds up nobody.
"""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import anyio.to_thread
import mcp_types as types
from mcp.server.caching import CacheHint
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from passdown import __version__
from passdown.errors import PassdownError, StoreError
from passdown.model.text import visible
from passdown.surfaces.mcp import prompts, resources
from passdown.surfaces.mcp.calling import agent_named, call
from passdown.surfaces.mcp.definitions import BY_NAME, TOOLS
from passdown.surfaces.mcp.texts import INSTRUCTIONS

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp.server.context import ServerRequestContext

    from passdown.surfaces.mcp.door import Door

    Context = ServerRequestContext[Any, Any]
    Paging = types.PaginatedRequestParams | None

NAME = "passdown"
_HOUR_MS = 3_600_000

T = TypeVar("T")


def named_by_client(context: Context) -> str:
    """Who calls, where only the environment and the client can say so."""
    params = context.session.client_params
    return agent_named(os.environ, params.client_info.name if params is not None else "")


def built(
    door: Door,
    caller: Callable[[Context], str] = named_by_client,
    instructions: str = INSTRUCTIONS,
) -> Server[Any]:
    """The server, for any transport. Making it opens nothing: what is listed is the same for every
    workspace. `caller` tells who calls, where the call's arguments don't.
    """
    handlers = _Handlers(door, caller)
    same = CacheHint(ttl_ms=_HOUR_MS, scope="public")
    server: Server[Any] = Server(
        NAME,
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

    def __init__(self, door: Door, caller: Callable[[Context], str]) -> None:
        self._door = door
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
        answer = await _in_thread(call, self._door, params.name, given, self._caller(context))
        content = types.TextContent(type="text", text=answer.text)
        return types.CallToolResult(content=[content], is_error=answer.is_error)

    async def list_resources(self, _: Context, params: Paging) -> types.ListResourcesResult:
        cursor = params.cursor if params is not None and params.cursor else ""
        found = await _in_thread(resources.listed, self._door, cursor)
        listed = [types.Resource.model_validate(each) for each in found.resources]
        return types.ListResourcesResult(resources=listed, next_cursor=found.cursor or None)

    async def list_templates(self, _: Context, __: Paging) -> types.ListResourceTemplatesResult:
        found = [types.ResourceTemplate.model_validate(each) for each in resources.TEMPLATES]
        return types.ListResourceTemplatesResult(resource_templates=found)

    async def read_resource(
        self, context: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        uri = str(params.uri)
        found = await _or_protocol_error(resources.read, self._door, uri, self._caller(context))
        content = types.TextResourceContents(uri=uri, text=found.text, mime_type=found.kind)
        return types.ReadResourceResult(contents=[content])

    async def list_prompts(self, _: Context, __: Paging) -> types.ListPromptsResult:
        return types.ListPromptsResult(prompts=[_listed_prompt(each) for each in prompts.PROMPTS])

    async def get_prompt(
        self, context: Context, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult:
        given = params.arguments or {}
        agent = self._caller(context)
        text = await _or_protocol_error(prompts.text_of, self._door, params.name, given, agent)
        content = types.TextContent(type="text", text=text)
        return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=content)])


def _listed_prompt(prompt: prompts.Prompt) -> types.Prompt:
    arguments = [
        types.PromptArgument(name=name, description=description, required=False)
        for name, description in prompt.arguments
    ]
    return types.Prompt(
        name=prompt.name,
        title=prompt.title,
        description=prompt.description,
        arguments=arguments,
    )


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

"""MCP over streamable HTTP, behind the same gateway and tokens.

Requests are stateless; there are no sessions that one client could take from another. The author of
a write is the token's holder: what arguments claim is replaced before a tool sees it and noted in
the answer and the log; the ledger refuses any other author. Anybody's brief can be read.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from passdown.core.intake import check_handoff
from passdown.core.parsing import load_json
from passdown.core.text import visible
from passdown.errors import InvalidInput, MissingExtra, NotAllowed, PassdownError, RateLimited
from passdown.mcp.definitions import BY_NAME
from passdown.mcp.message_spans import is_tool_error, message_span
from passdown.web.gateway import REQUEST_CONTEXT
from passdown.web.handlers import decision_of_caller, handoff_of_caller
from passdown.web.requests import ApiRequest, require_right
from passdown.web.responses import json_response, problem_response
from passdown.workspace.files import serving_client
from passdown.workspace.handoff import handoff_key
from passdown.workspace.streams import recorded_via

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from starlette.responses import Response

    from passdown.core.access import AccessToken
    from passdown.core.types import JsonObject
    from passdown.web.gateway import Receive, Scope, Send
    from passdown.web.server_state import RequestContext, ServerState


MCP_PATH = "/mcp"
_MAX_DEPTH = 64
_PACKAGE_SPANS = "OpenTelemetryMiddleware"
_AUTHOR_FIELDS = ("agent", "from_agent", "from", "author")
_WRITE_TOOLS = frozenset({"handoff", "decide", "note", "task_new"})


class McpEndpoint:
    """An ASGI application for one path."""

    def __init__(self, state: ServerState) -> None:
        self._manager = _session_manager(state)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """What it needs while the server runs."""
        if self._manager is None:
            yield
            return
        async with self._manager.run():
            yield

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        request_context: RequestContext = scope[REQUEST_CONTEXT]
        request_context.set_route("mcp", MCP_PATH)
        response = self._refusal(scope, request_context)
        if response is None:
            await self._manager.handle_request(scope, receive, send)
        else:
            await response(scope, receive, send)

    def _refusal(self, scope: Scope, request_context: RequestContext) -> Response | None:
        """Why a request isn't given to the protocol's part; None for one that is."""
        try:
            require_right(request_context.holder, "read")
        except NotAllowed as error:
            return problem_response(error, 403)
        if self._manager is None:
            missing = MissingExtra(
                "serving MCP needs the `mcp` package, which is not installed",
                next_step="Install it with: pip install 'passdown[mcp]'",
            )
            return problem_response(missing, 501)
        if scope["method"] != "POST":
            error = PassdownError("MCP is spoken with POST here", code="not_here")
            return problem_response(error, 405, {"Allow": "POST"})
        return _message_refusal(request_context.body)


def _message_refusal(body: bytes) -> Response | None:
    """The answer to what is no message, as JSON-RPC has it; None for one that can be read.

    A notification gets none: a faulty one has a status alone.
    """
    from starlette.responses import Response as Empty

    from passdown.mcp.server import is_faulty, is_notification, lenient_json

    message, fault = lenient_json(body), _message_error(body)
    if is_notification(message):
        return Empty(status_code=400) if fault or is_faulty(message) else None
    return None if fault is None else json_response(fault, 400)


def _message_error(body: bytes) -> JsonObject | None:
    """Why a message is none, as JSON-RPC says it; None for one that can be read."""
    try:
        message = load_json(body, max_bytes=len(body) + 1, max_depth=_MAX_DEPTH)
    except InvalidInput as error:
        from passdown.mcp.server import surrogate_error

        if (half := surrogate_error(body)) is not None:
            return half
        said = "; ".join(problem.line() for problem in error.problems)
        return _rpc_error(-32700, f"Parse error: {visible(said)}")
    identity = cast("JsonObject", message).get("id", 0) if isinstance(message, dict) else None
    if isinstance(identity, bool) or not isinstance(identity, str | int):
        return _rpc_error(-32600, "Invalid Request: one object, whose id is a text or a number")
    return None


def _rpc_error(code: int, message: str) -> JsonObject:
    return {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message[:1_000]}}


def _session_manager(state: ServerState) -> Any:
    """The protocol's own part; None where its package is not installed."""
    try:
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

        from passdown.mcp.definitions import WITH_TOKEN
        from passdown.mcp.server import build_server
    except ModuleNotFoundError as error:
        if error.name and error.name.partition(".")[0] in ("mcp", "mcp_types"):
            return None
        raise
    server = build_server(state.shared, lambda context: _caller(context).name, WITH_TOKEN)
    # The package's own spans quote the words of errors; ours stand in for them.
    others = [each for each in server.middleware if type(each).__name__ != _PACKAGE_SPANS]
    server.middleware[:] = [*others, _CallerMiddleware(state)]
    most = state.options.limits.body_bytes
    return StreamableHTTPSessionManager(
        server, json_response=True, stateless=True, max_request_body_size=most
    )


def _caller(context: Any) -> AccessToken:
    return context.request.scope[REQUEST_CONTEXT].holder


class _CallerMiddleware:
    """Carries a request out as the token's holder, and as nobody else."""

    def __init__(self, state: ServerState) -> None:
        self._state = state

    async def __call__(self, ctx: Any, call_next: Any) -> Any:
        """One message, within the limits of its token."""
        caller = _caller(ctx)
        params: Mapping[str, Any] = ctx.params or {}
        is_write = ctx.method == "tools/call" and params.get("name") in _WRITE_TOOLS
        if is_write and not caller.may("write"):
            return _tool_error(f"This token of {caller.name} allows {', '.join(caller.rights)}.")
        if ctx.method == "tools/call" and params.get("name") in BY_NAME:
            request_context: RequestContext = ctx.request.scope[REQUEST_CONTEXT]
            request_context.set_route(f"mcp/{params['name']}", MCP_PATH)
        call = ApiRequest(caller, {})
        if ctx.method == "tools/call" and isinstance(params.get("name"), str):
            given: object = params.get("arguments") or {}
            if isinstance(given, dict):
                signed = _with_caller_name(call, params["name"], cast("JsonObject", given))
                ctx = replace(ctx, params={**params, "arguments": signed})
        try:
            async with (self._state.writes if is_write else self._state.reads).of(caller.id):
                answer = await self._answer(ctx, caller, call_next)
        except RateLimited as error:
            return _tool_error(str(error))
        return _with_notes(ctx, call, answer) if is_write and call.notes else answer

    async def _answer(self, ctx: Any, caller: AccessToken, call_next: Any) -> Any:
        only = "" if caller.may("others") else caller.name
        recording = recorded_via(f"token:{caller.id}", author=only)
        with recording, serving_client(None), message_span(ctx, caller.name) as span:
            answer = await call_next(ctx)
            if is_tool_error(answer):
                span.note({}, error="tool_error")
            return answer


def _tool_error(why: str) -> JsonObject:
    text = f"{why} Nothing was changed."
    return {"content": [{"type": "text", "text": text}], "isError": True}


def _with_notes(ctx: Any, call: ApiRequest, answer: Any) -> Any:
    """The answer of a tool that recorded something, with what was claimed; the log has it too."""
    if is_tool_error(answer):
        return answer
    from passdown.mcp.tools import warning_lines

    request_context: RequestContext = ctx.request.scope[REQUEST_CONTEXT]
    request_context.notes += call.claims
    first, *rest = answer["content"]
    text = visible("\n".join([first["text"], *warning_lines(call.notes)]), keep_newlines=True)
    return {**answer, "content": [{**first, "text": text}, *rest]}


def _with_caller_name(call: ApiRequest, tool: str, given: JsonObject) -> JsonObject:
    """A tool's arguments with the name that the token gives; a brief is read for any name."""
    caller = call.caller
    if caller.may("others"):
        return {"agent": caller.name, **given} if tool != "handoff" else given
    if tool == "brief":
        return {**given, "agent": given.get("agent") or caller.name}
    for name in _AUTHOR_FIELDS:
        if given.get(name) not in ("", None, caller.name):
            call.note_claim(name, given[name])
    own = {name: value for name, value in given.items() if name not in _AUTHOR_FIELDS}
    if tool == "handoff" and isinstance(own.get("handoff"), str):
        own = _handoff_of_caller(call, own)
    if isinstance(own.get("decisions"), list):
        own["decisions"] = [decision_of_caller(call, entry) for entry in own["decisions"]]
    return {**own, "agent": caller.name}


def _handoff_of_caller(call: ApiRequest, given: JsonObject) -> JsonObject:
    """The fields of a handoff that came as text, without the names of others.

    A task file has a key made from its content: it is recorded once. What can't be read is left
    for the tool to refuse.
    """
    fields = {name: value for name, value in given.items() if name not in ("handoff", "key")}
    try:
        handoff, _ = handoff_of_caller(call, given["handoff"], fields)
    except InvalidInput:
        return given
    checked = check_handoff(handoff.data)
    key = given.get("key")
    if key is None and handoff.is_task_file and checked.data is not None:
        key = handoff_key(checked.data)
    return {**handoff.data, "key": key}

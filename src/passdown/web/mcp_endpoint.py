"""MCP over streamable HTTP, behind the same gateway and tokens.

Requests are stateless; there are no sessions that one client could take from another. The author of
a write is the token's holder: what arguments claim is replaced before a tool sees it and noted in
the answer and the log; the ledger refuses any other author. Anybody's brief can be read.
"""

from __future__ import annotations

from base64 import b64decode
from typing import TYPE_CHECKING, cast

from anyio import to_thread
from starlette.datastructures import Headers
from starlette.responses import Response as Empty

from passdown.core.intake import check_handoff
from passdown.core.parsing import load_json
from passdown.core.text import visible
from passdown.errors import InvalidInput, NotAllowed, PassdownError, RateLimited
from passdown.mcp.definitions import BY_NAME
from passdown.mcp.messages import (
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    NotAMessage,
    RpcError,
    read_message,
)
from passdown.mcp.messages import response as rpc_response
from passdown.mcp.server import (
    HANDSHAKE_VERSIONS,
    Call,
    Client,
    Server,
    client_of_handshake,
    client_of_request,
)
from passdown.mcp.texts import WITH_TOKEN
from passdown.web.gateway import REQUEST_CONTEXT
from passdown.web.requests import ApiRequest, require_right
from passdown.web.responses import json_response, problem_response
from passdown.web.sessions import MCP_PATH
from passdown.workspace.files import serving_client
from passdown.workspace.handoff import handoff_key
from passdown.workspace.streams import recorded_via

if TYPE_CHECKING:
    from starlette.responses import Response

    from passdown.core.types import JsonObject
    from passdown.mcp.messages import Message
    from passdown.web.gateway import Receive, Scope, Send
    from passdown.web.server_state import RequestContext, ServerState


_MAX_DEPTH = 64
_AUTHOR_FIELDS = ("agent", "from_agent", "from", "author")
_UNSAID_VERSION = "2025-03-26"
_NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}


class McpEndpoint:
    """An ASGI application for one path."""

    def __init__(self, state: ServerState) -> None:
        self._state = state
        self._server = Server(state.shared, WITH_TOKEN, is_lasting=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        context: RequestContext = scope[REQUEST_CONTEXT]
        context.set_route("mcp", MCP_PATH)
        headers = Headers(scope=scope)
        response = _refusal(scope["method"], headers, context)
        if response is None:
            response = await self._response(headers, context)
        await response(scope, receive, send)

    async def _response(self, headers: Headers, context: RequestContext) -> Response:
        try:
            message = read_message(context.body, _strict_json)
        except NotAMessage as error:
            if error.is_notification:
                return Empty(status_code=400)
            return json_response(rpc_response(error.id, error), 400)
        if not message.is_request:
            # Nothing here waits for a notification, or asks a client for anything.
            return Empty(status_code=202 if message.method else 400)
        client = Client("")
        try:
            client = _client_of(message, headers)
            caller = context.holder
            person = caller.name if caller.may("approve") else None
            call = Call(
                message.method, message.params, client, caller.name, caller.id, answers_as=person
            )
            return json_response(rpc_response(message.id, await self._result(call, context)))
        except RpcError as error:
            status = 404 if error.code == METHOD_NOT_FOUND else 400
            is_refused = client.is_modern or not client.version
            is_fault = not is_refused or error.code == INTERNAL_ERROR
            return json_response(rpc_response(message.id, error), 200 if is_fault else status)

    async def _result(self, call: Call, context: RequestContext) -> JsonObject:
        """What a request is answered with, as its token's holder and within the token's limits."""
        caller = context.holder
        name = call.params.get("name") if call.method == "tools/call" else None
        tool = BY_NAME.get(name) if isinstance(name, str) else None
        # Of what a gate records, the right to approve is looked at where it is asked.
        is_write = tool is not None and not tool["annotations"]["readOnlyHint"] and name != "gates"
        if is_write and not caller.may("write"):
            return _tool_error(f"This token of {caller.name} allows {', '.join(caller.rights)}.")
        request = ApiRequest(caller, {})
        if tool is not None:
            context.set_route(f"mcp/{name}", MCP_PATH)
            call = _signed(request, call, tool["name"])
        limit = self._state.writes if is_write else self._state.reads
        only = "" if caller.may("others") else caller.name
        recording = recorded_via(f"token:{caller.id}", author=only)
        try:
            with recording, serving_client(None):
                async with limit.of(caller.id):
                    answer = await to_thread.run_sync(self._server.result, call)
        except RateLimited as error:
            return _tool_error(str(error))
        return _with_notes(context, request, answer) if is_write and request.notes else answer


def _refusal(method: str, headers: Headers, context: RequestContext) -> Response | None:
    """Why a request isn't read as a message; None for one that is."""
    try:
        require_right(context.holder, "read")
    except NotAllowed as error:
        return problem_response(error, 403)
    if method != "POST":
        error = PassdownError("MCP is spoken with POST here", code="not_here")
        return problem_response(error, 405, {"Allow": "POST"})
    if not _accepts_json(headers.get("accept", "*/*")):
        return Empty(status_code=406)
    return None


def _accepts_json(accept: str) -> bool:
    kinds = [part.partition(";")[0].strip().lower() for part in accept.split(",")]
    return any(kind in ("application/json", "application/*", "*/*") for kind in kinds)


def _strict_json(body: bytes) -> object:
    try:
        return load_json(body, max_bytes=len(body) + 1, max_depth=_MAX_DEPTH)
    except InvalidInput as error:
        said = "; ".join(problem.line() for problem in error.problems)
        raise ValueError(visible(said)) from None


def _client_of(message: Message, headers: Headers) -> Client:
    """Who sends a request; what its headers repeat has to agree with it. Raises RpcError."""
    version = headers.get("mcp-protocol-version", _UNSAID_VERSION)
    client = client_of_request(message.params)
    if client is None:
        if message.method == "initialize":
            return client_of_handshake(message.params)
        if version not in HANDSHAKE_VERSIONS:
            expected = f"one of {', '.join(HANDSHAKE_VERSIONS)}; a newer one in params._meta too"
            raise RpcError(INVALID_REQUEST, f"MCP-Protocol-Version: expected {expected}")
        return Client(version)
    named = message.params.get(_NAMED_BY.get(message.method, ""))
    repeated = {"mcp-protocol-version": client.version, "mcp-method": message.method}
    repeated |= {"mcp-name": named} if named is not None else {}
    for header, value in repeated.items():
        if [_decoded(each) for each in headers.getlist(header)] != [value]:
            raise RpcError(HEADER_MISMATCH, f"{header} header does not match the request")
    return client


def _decoded(value: str) -> str | None:
    """The text of a header, which may be written in base64; None if that is broken."""
    if not (value.startswith("=?base64?") and value.endswith("?=")):
        return value
    try:
        return b64decode(value[len("=?base64?") : -len("?=")], validate=True).decode()
    except ValueError:
        return None


def _tool_error(why: str) -> JsonObject:
    text = f"{why} Nothing was changed."
    return {"content": [{"type": "text", "text": text}], "isError": True}


def _with_notes(context: RequestContext, call: ApiRequest, answer: JsonObject) -> JsonObject:
    """The answer of a tool that recorded something, with what was claimed; the log has it too."""
    if answer.get("isError"):
        return answer
    from passdown.mcp.tools import warning_lines

    context.notes += call.claims
    first, *rest = answer["content"]
    text = visible("\n".join([first["text"], *warning_lines(call.notes)]), keep_newlines=True)
    return {**answer, "content": [{**first, "text": text}, *rest]}


def _signed(request: ApiRequest, call: Call, tool: str) -> Call:
    """A call whose arguments name the token's holder and nobody else."""
    given: object = call.params.get("arguments") or {}
    if not isinstance(given, dict):
        return call
    own = _with_caller_name(request, tool, cast("JsonObject", given))
    return call._replace(params={**call.params, "arguments": own})


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
        own["decisions"] = [call.own_decision(entry) for entry in own["decisions"]]
    return {**own, "agent": caller.name}


def _handoff_of_caller(call: ApiRequest, given: JsonObject) -> JsonObject:
    """The fields of a handoff that came as text, without the names of others.

    A task file has a key made from its content: it is recorded once. What can't be read is left
    for the tool to refuse.
    """
    fields = {name: value for name, value in given.items() if name not in ("handoff", "key")}
    try:
        handoff, _ = call.own_handoff(given["handoff"], fields)
    except InvalidInput:
        return given
    checked = check_handoff(handoff.data)
    key = given.get("key")
    if key is None and handoff.is_task_file and checked.data is not None:
        key = handoff_key(checked.data)
    return {**handoff.data, "key": key}

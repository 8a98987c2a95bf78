"""MCP over streamable HTTP: the server of `passdown mcp`, behind the same front and tokens.

Every request stands for itself; there are no sessions that one client could take from another. Who
writes is who holds the token: what arguments say about that is replaced before a tool sees it, and
noted in the answer and the log; the ledger refuses any other author. Anybody's brief can be read.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from passdown.errors import InvalidInput, MissingExtra, NotAllowed, PassdownError, RateLimited
from passdown.model.plain import load_json
from passdown.model.text import visible
from passdown.surfaces.mcp.definitions import BY_NAME
from passdown.surfaces.mcp.spanning import calling, has_failed
from passdown.surfaces.web.front import VISIT
from passdown.surfaces.web.operations import Call, require
from passdown.surfaces.web.problems import MEDIA, as_json, details
from passdown.surfaces.web.writing_rows import own_decision
from passdown.workspace.beside import recorded_via
from passdown.workspace.seen import as_server

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from passdown.model.access import Access
    from passdown.surfaces.web.front import Receive, Scope, Send
    from passdown.surfaces.web.house import House, Visit

Document = dict[str, Any]

PATH = "/mcp"
_DEPTH = 64
_OWN_SPANS = "OpenTelemetryMiddleware"
_NAMES = ("agent", "from_agent", "author")
_WRITING = frozenset({"handoff", "decide", "note", "task_new"})


class McpDoor:
    """An ASGI application for one path."""

    def __init__(self, house: House) -> None:
        self._manager = _manager(house)

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
        visit: Visit = scope[VISIT]
        visit.goes_to("mcp", PATH)
        try:
            if visit.caller is None:
                raise AssertionError("the front lets nobody in without a token")
            require(visit.caller, "read")
            if self._manager is None:
                raise MissingExtra(
                    "serving MCP needs the `mcp` package, which is not installed",
                    next_step="Install it with: pip install 'passdown[mcp]'",
                )
        except NotAllowed as error:
            await _refuse(send, error, 403)
        except MissingExtra as error:
            await _refuse(send, error, 501)
        else:
            await self._spoken(scope, receive, send, visit)

    async def _spoken(self, scope: Scope, receive: Receive, send: Send, visit: Visit) -> None:
        if scope["method"] != "POST":
            error = PassdownError("MCP is spoken with POST here", code="not_here")
            await _refuse(send, error, 405, ((b"allow", b"POST"),))
        elif (fault := _fault(visit.body)) is not None:
            await _answer(send, as_json(fault), 400, "application/json")
        else:
            await self._manager.handle_request(scope, receive, send)


def _fault(body: bytes) -> Document | None:
    """Why a message is none, as JSON-RPC says it; None for one that can be read."""
    try:
        message = load_json(body, max_bytes=len(body) + 1, max_depth=_DEPTH)
    except InvalidInput as error:
        said = "; ".join(problem.line() for problem in error.problems)
        return _rpc_error(-32700, f"Parse error: {visible(said)}")
    identity = cast("Document", message).get("id", 0) if isinstance(message, dict) else None
    if isinstance(identity, bool) or not isinstance(identity, str | int):
        return _rpc_error(-32600, "Invalid Request: one object, whose id is a text or a number")
    return None


def _rpc_error(code: int, message: str) -> Document:
    return {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message[:1_000]}}


async def _refuse(
    send: Send, error: PassdownError, status: int, more: tuple[tuple[bytes, bytes], ...] = ()
) -> None:
    await _answer(send, as_json(details(error, status)), status, MEDIA, more)


async def _answer(
    send: Send,
    body: bytes,
    status: int,
    media: str,
    more: tuple[tuple[bytes, bytes], ...] = (),
) -> None:
    headers = [(b"content-type", media.encode()), (b"content-length", str(len(body)).encode())]
    start = {"type": "http.response.start", "status": status, "headers": [*headers, *more]}
    await send(start)
    await send({"type": "http.response.body", "body": body})


def _manager(house: House) -> Any:
    """The protocol's own part; None where its package is not installed."""
    try:
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

        from passdown.surfaces.mcp.server import built
        from passdown.surfaces.mcp.texts import WITH_TOKEN
    except ModuleNotFoundError as error:
        if error.name and error.name.partition(".")[0] in ("mcp", "mcp_types"):
            return None
        raise
    server = built(house.door, _holder, WITH_TOKEN)
    # The package's own spans quote the words of errors; ours stand in for them.
    others = [each for each in server.middleware if type(each).__name__ != _OWN_SPANS]
    server.middleware[:] = [*others, _AsItsCaller(house)]
    most = house.options.limits.body_bytes
    return StreamableHTTPSessionManager(
        server, json_response=True, stateless=True, max_request_body_size=most
    )


def _caller(context: Any) -> Access:
    visit: Visit = context.request.scope[VISIT]
    if visit.caller is None:
        raise AssertionError("the front lets nobody in without a token")
    return visit.caller


def _holder(context: Any) -> str:
    return _caller(context).name


class _AsItsCaller:
    """Carries a request out as the token's holder, and as nobody else."""

    def __init__(self, house: House) -> None:
        self._house = house

    async def __call__(self, ctx: Any, call_next: Any) -> Any:
        """One message, in its turn of the token."""
        caller = _caller(ctx)
        params: Mapping[str, Any] = ctx.params or {}
        is_write = ctx.method == "tools/call" and params.get("name") in _WRITING
        if is_write and not caller.may("write"):
            return _refused(f"This token of {caller.name} allows {', '.join(caller.rights)}.")
        if ctx.method == "tools/call" and params.get("name") in BY_NAME:
            visit: Visit = ctx.request.scope[VISIT]
            visit.goes_to(f"mcp/{params['name']}", PATH)
        call = Call(caller, {})
        if ctx.method == "tools/call" and isinstance(params.get("name"), str):
            given: object = params.get("arguments") or {}
            if isinstance(given, dict):
                signed = _signed(call, params["name"], cast("Document", given))
                ctx = replace(ctx, params={**params, "arguments": signed})
        try:
            async with (self._house.writes if is_write else self._house.reads).of(caller.id):
                answer = await self._answer(ctx, caller, call_next)
        except RateLimited as error:
            return _refused(str(error))
        return _noted(ctx, call, answer) if is_write and call.notes else answer

    async def _answer(self, ctx: Any, caller: Access, call_next: Any) -> Any:
        only = "" if caller.may("others") else caller.name
        door = recorded_via(f"token:{caller.id}", author=only)
        with door, as_server(None), calling(ctx, caller.name) as span:
            answer = await call_next(ctx)
            if has_failed(answer):
                span.note({}, error="tool_error")
            return answer


def _refused(why: str) -> Document:
    text = f"{why} Nothing was changed."
    return {"content": [{"type": "text", "text": text}], "isError": True}


def _noted(ctx: Any, call: Call, answer: Any) -> Any:
    """The answer of a tool that recorded something, with what was claimed; the log has it too."""
    if has_failed(answer):
        return answer
    from passdown.surfaces.mcp.lines import warned

    visit: Visit = ctx.request.scope[VISIT]
    visit.notes += call.claims
    first, *rest = answer["content"]
    text = visible("\n".join([first["text"], *warned(call.notes)]), keep_newlines=True)
    return {**answer, "content": [{**first, "text": text}, *rest]}


def _signed(call: Call, tool: str, given: Document) -> Document:
    """A tool's arguments with the name that the token gives; a brief is read for any name."""
    caller = call.caller
    if caller.may("others"):
        return {"agent": caller.name, **given} if tool != "handoff" else given
    if tool == "brief":
        return {**given, "agent": given.get("agent") or caller.name}
    for name in _NAMES:
        if given.get(name) not in ("", None, caller.name):
            call.note_claim(name, given[name])
    own = {name: value for name, value in given.items() if name not in _NAMES}
    if isinstance(own.get("decisions"), list):
        own["decisions"] = [own_decision(call, entry) for entry in own["decisions"]]
    return {**own, "agent": caller.name}

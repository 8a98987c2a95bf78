"""Gateway: every request passes these checks first.

In this order: well-formed head, Host, Origin, token, rate, size of the body. A request that fails
one gets a problem document and goes no further. A browser's token is in its cookie; what it writes
carries a value that no other page knows. Plain ASGI, so no framework code runs before it.
Large bodies go out in chunks, so that an answer nobody reads is not kept in memory twice.
"""

from __future__ import annotations

import asyncio
import os
import time
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

from passdown import tracing
from passdown.core.redaction import redact
from passdown.errors import (
    InvalidInput,
    NotAllowed,
    PassdownError,
    Problem,
    RateLimited,
    StoreError,
)
from passdown.mcp.message_spans import non_empty
from passdown.web.responses import html_error, problem_response, status_of, without_internals
from passdown.web.server_state import RequestContext
from passdown.web.sessions import (
    MCP_PATH,
    PROOF_PATH,
    SIGN_IN_PATH,
    STATIC_PATH,
    is_navigation,
    may_be_own_page,
    session_tokens,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, MutableMapping

    from passdown.tracing import Span
    from passdown.web.server_state import ServerState

    Scope = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
    Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
    App = Callable[[Scope, Receive, Send], Awaitable[None]]

CHUNK_BYTES = 1 << 16

OPEN_PATHS = frozenset({"/health", "/ready", "/api/openapi.json", SIGN_IN_PATH, PROOF_PATH})
"""Paths that need no token: health, readiness, the description of the API, signing in, and the
proof that this server knows a token.
"""

REQUEST_CONTEXT = "passdown.context"

SAFE_HEADERS: tuple[tuple[bytes, bytes], ...] = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
)
"""Headers of every response, for browsers."""

_BODILESS_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_LINGER_BYTES = 16 * 1_048_576
_LINGER_SECONDS = 2.0


class _Refusal(NamedTuple):
    error: PassdownError
    status: int
    headers: Mapping[str, str] | None = None


class Gateway:
    """An ASGI application around another."""

    def __init__(self, app: App, state: ServerState) -> None:
        self._app = app
        self._state = state
        self._start = os.urandom(4).hex()
        self._numbers = count(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        context = RequestContext(f"{self._start}-{next(self._numbers)}", time.perf_counter())
        try:
            await self._answer(scope, receive, send, context)
        finally:
            await context.release()
            if context.is_counted and context.caller is not None:
                self._state.requests.leave(context.caller.id)

    async def _answer(
        self, scope: Scope, receive: Receive, send: Send, context: RequestContext
    ) -> None:
        out = _ResponseSender(self._state, scope, context, send)
        incoming = _RequestBody(receive)
        refusal = await self._refusal(scope, incoming, context)
        with _request_span(scope, context, is_let_in=refusal is None) as span:
            if refusal is not None:
                await out.refuse(refusal, incoming)
            else:
                scope[REQUEST_CONTEXT] = context
                await self._app(scope, _buffered(context.body, receive), out.send)
            _note_answer(span, scope, context, out.status)

    async def _refusal(
        self, scope: Scope, incoming: _RequestBody, context: RequestContext
    ) -> _Refusal | None:
        headers: list[tuple[bytes, bytes]] = scope["headers"]
        refusal = self._refuse_head(headers)
        is_open = scope["path"] in OPEN_PATHS or scope["path"].startswith(STATIC_PATH)
        if refusal is None and not is_open:
            refusal = await self._refuse_caller(scope, headers, context)
        if refusal is not None or scope["method"] in _BODILESS_METHODS:
            return refusal
        return await self._refuse_body(headers, incoming, context)

    def _refuse_head(self, headers: list[tuple[bytes, bytes]]) -> _Refusal | None:
        """Refuse an ambiguous head, another Host, or the Origin of another site."""
        names = self._state.options.names
        hosts = [value for name, value in headers if name == b"host"]
        if len(hosts) > 1 or _is_ambiguous(headers):
            problem = Problem(
                "headers", "ambiguous", "can be read in two ways", "one Host, one way"
            )
            return _Refusal(InvalidInput("the request is refused", [problem]), 400)
        if not hosts or hosts[0].decode("latin-1").lower() not in names.hosts:
            error = NotAllowed(
                "this server doesn't answer to that name",
                next_step="Use the address that passdown serve printed; other names are allowed "
                "with --allowed-host.",
                code="other_host",
            )
            return _Refusal(error, 421)
        origins = [value for name, value in headers if name == b"origin"]
        if any(value.decode("latin-1") not in names.origins for value in origins):
            message = "requests from pages of other sites are refused"
            step = "Use a program, or a page that this server gives."
            error = NotAllowed(message, next_step=step, code="other_origin")
            return _Refusal(error, 403)
        return None

    async def _refuse_caller(
        self, scope: Scope, headers: list[tuple[bytes, bytes]], context: RequestContext
    ) -> _Refusal | None:
        """Refuse a request without a valid token, or too many with it."""
        tokens, is_session = _credentials(scope, headers)
        token, caller = "", None
        try:
            for token in tokens:
                if caller := await self._state.holder(token):
                    break
        except PassdownError as error:
            is_store = isinstance(error, StoreError)
            context.notes += [str(error)] if is_store else []
            shown = without_internals(error, context.number)
            return _Refusal(shown, status_of(error), {"retry-after": "1"} if is_store else None)
        if caller is None:
            return _no_token(scope, headers)
        if is_session and not may_be_own_page(scope["method"], scope["path"], headers, token):
            return _forged()
        context.token = token
        context.caller = caller
        wait_s = self._state.buckets.take(caller.id)
        if wait_s:
            error = RateLimited(
                f"{caller.name} has asked too often; nothing was changed",
                next_step=f"Ask again in {wait_s:.1f} seconds.",
            )
            return _Refusal(error, 429, {"retry-after": str(max(1, round(wait_s + 0.5)))})
        context.is_counted = self._state.requests.enter(caller.id)
        return None if context.is_counted else _too_many(caller.name)

    async def _refuse_body(
        self, headers: list[tuple[bytes, bytes]], incoming: _RequestBody, context: RequestContext
    ) -> _Refusal | None:
        """Refuse a body that is too large, too slow, or not JSON."""
        limits = self._state.options.limits
        named = dict(headers)
        media = named.get(b"content-type", b"").decode("latin-1").partition(";")[0].strip().lower()
        length = named.get(b"content-length", b"0").decode("latin-1")
        if not (length.isascii() and length.isdigit()) or int(length) > limits.body_bytes:
            return _too_large(limits.body_bytes)
        try:
            async with asyncio.timeout(limits.body_seconds):
                body = await incoming.read(limits.body_bytes)
        except TimeoutError:
            error = PassdownError("the request took too long to arrive", code="timeout")
            return _Refusal(error, 408)
        if body is None:
            return _too_large(limits.body_bytes)
        if body and media != "application/json" and not media.endswith("+json"):
            problem = Problem("content-type", "not_json", f"{media[:80]!r}", "application/json")
            return _Refusal(InvalidInput("the request is refused", [problem]), 415)
        context.body = body
        return None


UNTRACED = frozenset({"/health", "/ready"})
"""Paths that monitoring polls every few seconds; they get no spans."""

METHODS = frozenset("GET HEAD POST PUT DELETE CONNECT OPTIONS TRACE PATCH QUERY".split())


def _request_span(scope: Scope, context: RequestContext, *, is_let_in: bool) -> Span:
    """The span of a request, from its arrival to its response. One that was refused doesn't decide
    which trace it belongs to.
    """
    if not tracing.is_on() or scope["path"] in UNTRACED:
        return tracing.NO_SPAN
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    method: str = scope["method"]
    server = scope.get("server") or ("", 0)
    client = scope.get("client") or ("", 0)
    caller = context.caller
    attributes = {
        "http.request.method": method if method in METHODS else "_OTHER",
        "url.scheme": scope.get("scheme", "http"),
        "url.path": redact(scope["path"][:200])[0],
        "server.address": server[0],
        "server.port": server[1],
        "client.address": client[0],
        "network.protocol.version": scope.get("http_version", ""),
        "user_agent.original": redact(headers.get("user-agent", "")[:200])[0],
        "passdown.request": context.number,
        "passdown.agent": caller.name if caller else "",
    }
    return tracing.request(
        method if method in METHODS else "HTTP",
        non_empty(attributes),
        carrier=headers if is_let_in else {},
        seconds_ago=time.perf_counter() - context.started,
    )


def _note_answer(span: Span, scope: Scope, context: RequestContext, status: int) -> None:
    """Note what a request was answered with; a 5xx is an error."""
    if span is tracing.NO_SPAN:
        return
    method = scope["method"] if scope["method"] in METHODS else "HTTP"
    found = {
        "http.response.status_code": int(status),
        "http.route": context.route,
        "passdown.operation": context.operation,
        "passdown.workspace": context.workspace,
        "passdown.task": context.task,
    }
    name = f"{method} {context.route}" if context.route else method
    span.note(non_empty(found), name=name, error=str(status) if status >= 500 else "")


def _is_ambiguous(headers: list[tuple[bytes, bytes]]) -> bool:
    """Whether two parsers could disagree where this request ends."""
    lengths = [value for name, value in headers if name == b"content-length"]
    is_chunked = any(name == b"transfer-encoding" for name, _ in headers)
    return len(lengths) > 1 or (bool(lengths) and is_chunked)


def _credentials(scope: Scope, headers: list[tuple[bytes, bytes]]) -> tuple[list[str], bool]:
    """The tokens that were sent, and whether in cookies, which programs don't use."""
    given = [value for name, value in headers if name == b"authorization"]
    if not given:
        tokens = session_tokens(headers) if scope["path"] != MCP_PATH else []
        return tokens, bool(tokens)
    scheme, _, token = given[0].decode("latin-1").partition(" ")
    return ([token.strip()] if len(given) == 1 and scheme.lower() == "bearer" else []), False


def _no_token(scope: Scope, headers: list[tuple[bytes, bytes]]) -> _Refusal:
    was_given = any(name == b"authorization" for name, _ in headers)
    what = "the token is unknown, expired or revoked" if was_given else "a token is needed"
    error = NotAllowed(
        what,
        next_step="Send it as Authorization: Bearer TOKEN, never in the address; "
        "passdown token new makes one.",
        code="no_token",
    )
    if not was_given and is_navigation(scope["method"], headers):
        return _Refusal(error, 303, {"location": SIGN_IN_PATH})
    challenge = 'Bearer realm="passdown"' + (', error="invalid_token"' if was_given else "")
    return _Refusal(error, 401, {"www-authenticate": challenge})


def _forged() -> _Refusal:
    error = NotAllowed(
        "this was not sent by a page of this server",
        next_step="Reload the page, then do it again.",
        code="forged",
    )
    return _Refusal(error, 403)


def _too_many(name: str) -> _Refusal:
    error = RateLimited(
        f"{name} has too many requests open; nothing was changed",
        next_step="Wait for the answers before you send more.",
    )
    return _Refusal(error, 429, {"retry-after": "1"})


def _too_large(most: int) -> _Refusal:
    problem = Problem("", "too_large", "the body is too large", f"at most {most:,} bytes")
    step = "Send less at once, or do it where the store is; "
    step += "the server can allow more: passdown serve --max-body."
    return _Refusal(InvalidInput("the request is refused", [problem], next_step=step), 413)


def _buffered(body: bytes, receive: Receive) -> Receive:
    """Gives the body that was read, then what follows: that the client disconnected."""
    read = [body]

    async def next_message() -> MutableMapping[str, Any]:
        if read:
            return {"type": "http.request", "body": read.pop(), "more_body": False}
        return await receive()

    return next_message


class _RequestBody:
    """The body of a request, as it comes in."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._is_over = self._is_cut = False

    async def read(self, most: int) -> bytes | None:
        """All of it, if it has at most so many bytes; None for a larger one. Empty if the client
        disconnects before the end.
        """
        parts: list[bytes] = []
        size = 0
        while not self._is_over:
            part = await self._next()
            size += len(part)
            if size > most:
                return None
            parts.append(part)
        return b"" if self._is_cut else b"".join(parts)

    async def drop(self) -> None:
        """Read and drop the rest for a while: closing at once could cut off our response."""
        size = 0
        try:
            async with asyncio.timeout(_LINGER_SECONDS):
                while not self._is_over and size < _LINGER_BYTES:
                    size += len(await self._next())
        except TimeoutError:
            pass

    async def _next(self) -> bytes:
        message = await self._receive()
        self._is_cut = message["type"] != "http.request"
        self._is_over = self._is_cut or not message.get("more_body", False)
        return message.get("body", b"")


class _ResponseSender:
    """Sends the response: adds headers, counts it and logs it."""

    def __init__(
        self, state: ServerState, scope: Scope, context: RequestContext, send: Send
    ) -> None:
        self._state = state
        self._scope = scope
        self._context = context
        self._send = send
        self.status = 0

    async def send(self, message: MutableMapping[str, Any]) -> None:
        """Send a part of the response."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = list(message.get("headers", ()))
            own = {name.lower() for name, _ in headers}
            headers += [header for header in SAFE_HEADERS if header[0] not in own]
            headers.append((b"x-request-id", self._context.number.encode()))
            if not any(name.lower() == b"cache-control" for name, _ in headers):
                headers.append((b"cache-control", b"no-store"))
            message = {**message, "headers": headers}
            await self._send(message)
            return
        body, is_more = message.get("body", b""), bool(message.get("more_body", False))
        last = max(len(body) - 1, 0) // CHUNK_BYTES
        # Each chunk waits until the one before was sent.
        for part in range(last + 1):
            chunk = body[part * CHUNK_BYTES : (part + 1) * CHUNK_BYTES]
            await self._send({**message, "body": chunk, "more_body": is_more or part < last})
        if not is_more:
            self._finish()

    async def refuse(self, refusal: _Refusal, incoming: _RequestBody) -> None:
        """Respond with a problem. The rest of the body is dropped, and the connection closed."""
        self._state.metrics.refused(refusal.error.code)
        said = 401 if refusal.status == 303 else refusal.status  # 303: to the page for signing in
        response = problem_response(refusal.error, said, refusal.headers)
        if is_navigation(self._scope["method"], self._scope["headers"]):
            response = html_error(response)
        headers = [*response.raw_headers]
        has_body = self._scope["method"] not in _BODILESS_METHODS
        if has_body:
            headers.append((b"connection", b"close"))
        start = {"type": "http.response.start", "status": refusal.status, "headers": headers}
        await self.send(start)
        body = b"" if self._scope["method"] == "HEAD" else bytes(response.body)
        await self.send({"type": "http.response.body", "body": body, "more_body": has_body})
        if has_body:
            await incoming.drop()
            await self.send({"type": "http.response.body", "body": b""})

    def _finish(self) -> None:
        context, state = self._context, self._state
        seconds = time.perf_counter() - context.started
        state.metrics.answered(context.operation, self.status, seconds)
        is_notable = self._scope["method"] not in _BODILESS_METHODS or self.status >= 400
        if is_notable or state.options.logs_all:
            state.log(
                "request",
                request=context.number,
                method=self._scope["method"][:16],
                path=redact(self._scope["path"][:200])[0],
                operation=context.operation,
                status=self.status,
                ms=round(seconds * 1e3, 2),
                token=context.caller.id if context.caller else "",
                name=context.caller.name if context.caller else "",
                **({"notes": context.notes} if context.notes else {}),
            )

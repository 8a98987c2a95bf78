"""Gateway: every request passes these checks first.

In this order: well-formed head, Host, Origin, token, rate, size of the body. A request that fails
one gets a problem document and goes no further. Plain ASGI, so no framework code runs before it.
Large bodies go out in chunks, so that an answer nobody reads is not kept in memory twice.
"""

from __future__ import annotations

import asyncio
import os
import time
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

from passdown.core.redaction import redact
from passdown.errors import (
    InvalidInput,
    NotAllowed,
    PassdownError,
    Problem,
    RateLimited,
    StoreError,
)
from passdown.web.responses import (
    PROBLEM_MEDIA,
    problem_document,
    status_of,
    to_json,
    without_internals,
)
from passdown.web.server_state import RequestContext
from passdown.web.telemetry import RequestSpan

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableMapping

    from passdown.web.server_state import ServerState

    Scope = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
    Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
    App = Callable[[Scope, Receive, Send], Awaitable[None]]

CHUNK_BYTES = 1 << 16


async def send_in_chunks(send: Send, message: MutableMapping[str, Any]) -> None:
    """Send a part of a response, a large body in chunks; each waits until the last was sent."""
    body: bytes = message.get("body", b"")
    if len(body) <= CHUNK_BYTES:
        await send(message)
        return
    last = len(body) - CHUNK_BYTES
    for start in range(0, len(body), CHUNK_BYTES):
        is_more = start < last or bool(message.get("more_body", False))
        part = {**message, "body": body[start : start + CHUNK_BYTES], "more_body": is_more}
        await send(part)


OPEN_PATHS = frozenset({"/health", "/ready", "/api/openapi.json"})
"""Paths that need no token: health, readiness and the description of the API."""

REQUEST_CONTEXT = "passdown.context"

SAFE_HEADERS: tuple[tuple[bytes, bytes], ...] = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
"""Headers of every response, for browsers."""

_BODILESS_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_LINGER_BYTES = 16 * 1_048_576
_LINGER_SECONDS = 2.0


class _Refusal(NamedTuple):
    error: PassdownError
    status: int
    headers: tuple[tuple[bytes, bytes], ...] = ()


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
        with RequestSpan(scope, context, is_let_in=refusal is None) as span:
            if refusal is not None:
                await out.refuse(refusal, incoming)
            else:
                scope[REQUEST_CONTEXT] = context
                await self._app(scope, _BufferedBody(context.body, receive), out.send)
            span.answered(out.status)

    async def _refusal(
        self, scope: Scope, incoming: _RequestBody, context: RequestContext
    ) -> _Refusal | None:
        headers: list[tuple[bytes, bytes]] = scope["headers"]
        refusal = self._refuse_head(headers)
        if refusal is not None or scope["path"] in OPEN_PATHS:
            return refusal
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
        given = [value for name, value in headers if name == b"authorization"]
        scheme, _, token = given[0].decode("latin-1").partition(" ") if given else ("", "", "")
        try:
            is_one = len(given) == 1 and scheme.lower() == "bearer"
            caller = await self._state.holder(token.strip()) if is_one else None
        except StoreError as error:
            context.notes.append(str(error))
            shown = without_internals(error, context.number)
            return _Refusal(shown, 503, ((b"retry-after", b"1"),))
        except PassdownError as error:
            return _Refusal(error, status_of(error))
        if caller is None:
            return _no_token(bool(given))
        context.caller = caller
        wait_s = self._state.buckets.take(caller.id)
        if wait_s:
            error = RateLimited(
                f"{caller.name} has asked too often; nothing was changed",
                next_step=f"Ask again in {wait_s:.1f} seconds.",
            )
            seconds = str(max(1, round(wait_s + 0.5))).encode()
            return _Refusal(error, 429, ((b"retry-after", seconds),))
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
        if not length.isdigit() or int(length) > limits.body_bytes:
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


def _is_ambiguous(headers: list[tuple[bytes, bytes]]) -> bool:
    """Whether two parsers could disagree where this request ends."""
    lengths = [value for name, value in headers if name == b"content-length"]
    is_chunked = any(name == b"transfer-encoding" for name, _ in headers)
    return len(lengths) > 1 or (bool(lengths) and is_chunked)


def _no_token(was_given: bool) -> _Refusal:
    what = "the token is unknown, expired or revoked" if was_given else "a token is needed"
    error = NotAllowed(
        what,
        next_step="Send it as Authorization: Bearer TOKEN, never in the address; "
        "passdown token new makes one.",
        code="no_token",
    )
    challenge = b'Bearer realm="passdown"' + (b', error="invalid_token"' if was_given else b"")
    return _Refusal(error, 401, ((b"www-authenticate", challenge),))


def _too_many(name: str) -> _Refusal:
    error = RateLimited(
        f"{name} has too many requests open; nothing was changed",
        next_step="Wait for the answers before you send more.",
    )
    return _Refusal(error, 429, ((b"retry-after", b"1"),))


def _too_large(most: int) -> _Refusal:
    problem = Problem("", "too_large", "the body is too large", f"at most {most:,} bytes")
    step = "Send less at once; the server can allow more: passdown serve --max-body."
    return _Refusal(InvalidInput("the request is refused", [problem], next_step=step), 413)


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


class _BufferedBody:
    """Gives the body that was read, then what follows: that the client disconnected."""

    def __init__(self, body: bytes, receive: Receive) -> None:
        self._body: bytes | None = body
        self._receive = receive

    async def __call__(self) -> MutableMapping[str, Any]:
        body, self._body = self._body, None
        if body is not None:
            return {"type": "http.request", "body": body, "more_body": False}
        return await self._receive()


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
            headers = [*message.get("headers", ()), *SAFE_HEADERS]
            headers.append((b"x-request-id", self._context.number.encode()))
            if not any(name.lower() == b"cache-control" for name, _ in headers):
                headers.append((b"cache-control", b"no-store"))
            message = {**message, "headers": headers}
        await send_in_chunks(self._send, message)
        is_end = message["type"] == "http.response.body" and not message.get("more_body", False)
        if is_end:
            self._finish()

    async def refuse(self, refusal: _Refusal, incoming: _RequestBody) -> None:
        """Respond with a problem. The rest of the body is dropped, and the connection closed."""
        self._state.metrics.refused(refusal.error.code)
        body = to_json(problem_document(refusal.error, refusal.status))
        headers = [
            (b"content-type", PROBLEM_MEDIA.encode()),
            (b"content-length", str(len(body)).encode()),
            *refusal.headers,
        ]
        has_body = self._scope["method"] not in _BODILESS_METHODS
        if has_body:
            headers.append((b"connection", b"close"))
        start = {"type": "http.response.start", "status": refusal.status, "headers": headers}
        await self.send(start)
        body = b"" if self._scope["method"] == "HEAD" else body
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

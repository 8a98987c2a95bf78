"""Run the application under uvicorn, with limits on each connection.

uvicorn reads request heads of any length for any time and keeps answers for as long as nobody reads
them. Here both are bounded, as is the number of connections: the one that was idle longest is
closed
to make room. The socket listens before the address is printed. On a stop, streams end, what has
begun is finished, and the store is closed.
"""

from __future__ import annotations

import logging
import socket
import sys
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from passdown.core.text import visible
from passdown.errors import InvalidInput, Problem, RateLimited, StoreUnavailable
from passdown.web.app import build_app
from passdown.web.gateway import SAFE_HEADERS
from passdown.web.responses import problem_response
from passdown.web.server_state import ServerOptions, ServerState, allowed_names, log_line
from passdown.web.sessions import SIGN_IN_PATH

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable
    from types import FrameType

    from passdown.core.access import AccessToken
    from passdown.mcp.shared_workspace import SharedWorkspace
    from passdown.web.gateway import Receive, Scope, Send
    from passdown.web.server_state import Limits


HEAD_BYTES = 65_536
HEAD_SECONDS = 15.0
CLIENT_READ_SECONDS = 30.0


class BoundedProtocol(HttpToolsProtocol):
    """One connection; `limit_concurrency` of the configuration says how many there may be."""

    _idle_since = 0.0
    _is_in_head = True
    _head_bytes = 0
    _tail_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the time limit of the first request's head."""
        super().connection_made(transport)
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._idle_since = self.loop.time()
        if self._are_too_many():
            self._make_room()
        self._start_timer("head", HEAD_SECONDS, transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop all timers."""
        self._stop_timer("head")
        self._stop_timer("read")
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Pass data on, unless a head is too long."""
        if self._is_in_head:
            self._head_bytes += len(data)
            if "head" not in self._timers:
                self._start_timer("head", HEAD_SECONDS, self.transport.close)
            # A body may come with the end of its head; only what has no end yet is too long.
            if self._head_bytes > HEAD_BYTES and b"\r\n\r\n" not in data[:HEAD_BYTES]:
                self.send_400_response("the head of the request is too long")
                return
        self._tail_bytes += len(data)
        super().data_received(data)
        # What came since the last part of the body: chunk headers, or trailers after it.
        if not self._is_in_head and self._tail_bytes > HEAD_BYTES:
            self._cut_tail()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Accept a header of the head; trailers are dropped."""
        if self._is_in_head:
            super().on_header(name, value)

    def on_body(self, body: bytes) -> None:
        """Accept a part of the body, which is bounded where it is read."""
        self._tail_bytes = 0
        super().on_body(body)

    def on_headers_complete(self) -> None:
        """Stop the timer; refuse the request if there are too many connections."""
        self._is_in_head, self._tail_bytes = False, 0
        self._stop_timer("head")
        app = cast("Any", self).app
        self.app, self.limit_concurrency = (
            (_too_many_connections if self._are_too_many() else app),
            None,
        )
        super().on_headers_complete()
        self.app = app

    def on_message_complete(self) -> None:
        """Expect the head of another request next."""
        self._is_in_head, self._head_bytes = True, 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Note the time; a client that is disconnected has a while to read the rest."""
        self._idle_since = self.loop.time()
        super().on_response_complete()
        if self.transport.is_closing():
            self._start_timer("read", CLIENT_READ_SECONDS, self.transport.abort)

    def pause_writing(self) -> None:
        """Limit the time in which the client has to read."""
        super().pause_writing()
        self._start_timer("read", CLIENT_READ_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """The client has read."""
        self._stop_timer("read")
        super().resume_writing()

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection, even if the client hasn't read its response."""
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
            super().timeout_keep_alive_handler()

    def send_400_response(self, msg: str) -> None:
        """Respond to what can't be parsed, and close."""
        self._stop_timer("head")
        problem = Problem("", "malformed", msg, "a request of HTTP that can be read in one way")
        response = problem_response(InvalidInput("the request can't be read", [problem]), 400)
        headers = [*response.raw_headers, (b"connection", b"close"), *SAFE_HEADERS]
        head = b"".join(b"%s: %s\r\n" % header for header in headers)
        body = bytes(response.body)
        self.transport.write(b"HTTP/1.1 400 Bad Request\r\n" + head + b"\r\n" + body)
        self.transport.close()

    def _cut_tail(self) -> None:
        if self.cycle.response_started:
            self.transport.close()
        else:
            self.send_400_response("what comes after the body is too long")

    def _are_too_many(self) -> bool:
        most = self.config.limit_concurrency
        if most is None or len(self.connections) <= most:
            return False
        # A connection that was just closed is still listed.
        return sum(not each.transport.is_closing() for each in self.connections) > most

    def _make_room(self) -> None:
        """Close the connection that has been idle for the longest, if any is."""
        others = (each for each in self.connections if isinstance(each, BoundedProtocol))
        idle = [each for each in others if each is not self and each.is_idle]
        if idle:
            min(idle, key=lambda each: each._idle_since).transport.close()

    @property
    def is_idle(self) -> bool:
        """Whether no request waits for its response."""
        cycle = cast("Any", self.cycle)  # None before the first request
        is_answered = cycle is None or cycle.response_complete
        return is_answered and not self.transport.is_closing()

    def _start_timer(self, name: str, seconds: float, action: Callable[[], None]) -> None:
        self._stop_timer(name)
        self._timers[name] = self.loop.call_later(seconds, action)

    def _stop_timer(self, name: str) -> None:
        if timer := self._timers.pop(name, None):
            timer.cancel()


async def _too_many_connections(scope: Scope, receive: Receive, send: Send) -> None:
    """Respond if every connection is in use."""
    error = RateLimited(
        "the server has as many connections as it takes", next_step="Try again in a while."
    )
    safe = {name.decode(): value.decode() for name, value in SAFE_HEADERS}
    response = problem_response(error, 503, {"retry-after": "1", "connection": "close", **safe})
    await response(scope, receive, send)


SHUTDOWN_SECONDS = 10
_MAX_LINE = 500
_SWITCH_SECONDS = 0.0005


class ListeningSocket(NamedTuple):
    """A socket that is bound, and the address that it answers at."""

    sock: socket.socket
    address: str
    port: int

    @property
    def url(self) -> str:
        """The URL of the server."""
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"http://{host}:{self.port}"


def listen(address: str, port: int) -> ListeningSocket:
    """Bind an address. Port 0 takes any that is free."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        sock = socket.create_server((address, port), family=family, backlog=1024)
    except OSError as error:
        raise StoreUnavailable(
            f"{address}:{port} can't be listened at ({error.strerror or error})",
            next_step="Another server may be there already; --port names another port.",
            code="address_in_use",
        ) from error
    return ListeningSocket(sock, address, sock.getsockname()[1])


class HttpServer(uvicorn.Server):
    """A server that ends its event streams when it stops; it would wait for them otherwise."""

    def __init__(self, config: uvicorn.Config, state: ServerState) -> None:
        super().__init__(config)
        self._state = state

    def sign_in_path(self, holder: AccessToken) -> str:
        """The path of a link that signs in once, for the holder of a token."""
        return f"{SIGN_IN_PATH}#{self._state.sign_ins.new(holder)}"

    def stop(self) -> None:
        """Stop as if by a signal; any thread may call it."""
        self._state.stop()
        self.should_exit = True

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop on a signal: streams end, requests under way are finished."""
        self._state.stop()
        super().handle_exit(sig, frame)


def build_server(
    shared: SharedWorkspace,
    place: ListeningSocket,
    allowed: tuple[str, ...],
    limits: Limits,
    *,
    logs_all: bool = False,
) -> HttpServer:
    """A server that is ready to run; `run(sockets=[...])` serves until it is stopped."""
    state = ServerState(
        shared, ServerOptions(allowed_names(place.address, place.port, allowed), limits, logs_all)
    )
    config = uvicorn.Config(
        build_app(state),
        http=BoundedProtocol,
        log_config=None,
        access_log=False,
        server_header=False,
        ws="none",
        lifespan="on",
        timeout_keep_alive=30,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        limit_concurrency=limits.connections,
        proxy_headers=False,
    )
    return HttpServer(config, state)


def serve(server: HttpServer, sock: socket.socket) -> None:
    """Serve until a signal says stop."""
    # Threads that compute take turns; the loop, which everybody waits for, is one among them.
    sys.setswitchinterval(_SWITCH_SECONDS)
    _log_to_stderr()
    server.run(sockets=[sock])


class _JsonFormatter(logging.Formatter):
    """Log lines of other libraries as JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, without a traceback."""
        said = visible(record.getMessage())[:_MAX_LINE]
        level = record.levelname.lower()
        return log_line("spans", level=level, logger=record.name, message=said)


def _log_to_stderr() -> None:
    """Lines of JSON on standard error; of uvicorn's own only those about its faults."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(message)s"))
    log = logging.getLogger("passdown.web")
    log.setLevel(logging.INFO)
    log.addHandler(handler)
    log.propagate = False
    # Spans that can't be sent are logged in the same way.
    unsent = logging.StreamHandler()
    unsent.setFormatter(_JsonFormatter())
    spans = logging.getLogger("opentelemetry")
    spans.addHandler(unsent)
    spans.propagate = False
    # What strangers send can't be read or upgraded: that is no news, and not ours to spell.
    logging.getLogger("uvicorn").setLevel(logging.ERROR)

"""The server on standard input and output: one line, one message.

The thread that reads never waits for a call or for its client to read: calls run in threads of
their own, and their answers are written as they come. Every request that was read gets an answer,
also where the client has closed its end since, unless it was cancelled.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections import deque
from contextlib import suppress
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from passdown import tracing
from passdown.mcp.messages import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    NotAMessage,
    RpcError,
    as_object,
    read_message,
    response,
    to_line,
    unexpected,
)
from passdown.mcp.server import (
    Call,
    Client,
    Server,
    client_of_handshake,
    client_of_request,
    is_served,
)
from passdown.mcp.shared_workspace import SharedWorkspace, workspace_candidates

if TYPE_CHECKING:
    from collections.abc import Callable

    from passdown.core.types import JsonObject
    from passdown.mcp.messages import Message
    from passdown.mcp.people import Reply

MAX_LINE = 64 * 1_048_576
"""How long a message may be, in bytes: far beyond what any tool takes."""
_CALLS_AT_ONCE = 32
_PATIENCE_S = 15.0  # a call waits for another writer for 10 s at most
_HANDSHAKE_FIRST = (
    "call initialize first, or send each request with its protocol version in params._meta"
)


class _Pipes(NamedTuple):
    """Where messages come from and go to."""

    source: int
    wire: int


def _take_pipes() -> _Pipes:
    """Take standard input and output for the protocol alone: from here on, whatever is printed
    goes to standard error, and no child process reads what the client sends.
    """
    pipes = _Pipes(os.dup(0), os.dup(1))
    os.dup2(2, 1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return pipes


def serve_stdio(store: str = "", agent: str = "") -> None:
    """Serve the workspace of `store`, or the nearest one, until the client closes its end.

    `agent` writes where a call names nobody; without it, see `agent_named`.
    """
    pipes = _take_pipes()
    if problem := tracing.start():
        sys.stderr.write(f"passdown: {problem}\n")
    # A thread that waits for its client can't be interrupted. What is being written is there whole
    # or not at all, so the process may simply end.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    shared = SharedWorkspace(workspace_candidates(store, os.environ, os.getcwd()))
    try:
        _Connection(Server(shared), agent, pipes.wire).run(pipes.source)
    finally:
        shared.close()


class _Connection:
    """One client on a pair of pipes."""

    def __init__(self, server: Server, agent: str, wire: int) -> None:
        self._server, self._agent, self._wire = server, agent, wire
        self._client: Client | None = None
        self._writing = threading.Lock()
        self._workers = _Workers()
        self._open: dict[object, int | str | None] = {}
        self._changed = threading.Condition()
        self._asked: dict[object, Reply] = {}
        self._numbers = count()
        self._is_over = False

    def run(self, source: int) -> None:
        """Read until the end, then wait for what is open."""
        with open(source, "rb") as lines:
            while line := lines.readline(MAX_LINE + 1):
                is_too_long = len(line) > MAX_LINE
                while len(line) > MAX_LINE and not line.endswith(b"\n"):
                    line = lines.readline(MAX_LINE + 1)
                if is_too_long:
                    message = f"a message of more than {MAX_LINE:,} bytes"
                    self._submit(None, RpcError(INVALID_REQUEST, message))
                elif line.strip():
                    self._take(line)
        self._is_over = True
        with self._changed:
            self._changed.wait_for(lambda: not self._open, _PATIENCE_S)

    def _take(self, line: bytes) -> None:
        try:
            message = read_message(line)
        except NotAMessage as error:
            if not error.is_notification:
                self._submit(error.id, error)
            return
        if message.is_request:
            try:
                self._submit(message.id, self._call_of(message))
            except RpcError as error:
                self._submit(message.id, error)
        elif message.method == "notifications/cancelled":
            self._cancel(message.params.get("requestId"))
        elif reply := self._asked.pop(message.id, None):
            reply.give(as_object(message.response.get("result")) or {"action": "cancel"})

    def _elicit(
        self, call: object, form: JsonObject, is_settled: Callable[[], bool]
    ) -> JsonObject | None:
        """Have the client ask its person, and wait for what they say; no longer than the client
        waits for the call, unless a task asks.
        """
        from passdown.mcp.people import Reply

        def is_over() -> bool:
            is_waiting = "_meta" in form or call in self._open.values()
            return self._is_over or not is_waiting or is_settled()

        reply, identity = Reply(), f"passdown-{next(self._numbers)}"
        self._asked[identity] = reply
        asked = {"jsonrpc": "2.0", "id": identity, "method": "elicitation/create", "params": form}
        self._write(asked)
        found = reply.wait(is_over)
        if self._asked.pop(identity, None):  # settled otherwise: nobody has to answer any more
            params = {"requestId": identity, "reason": "no longer needed"}
            self._write({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
        return found

    def _submit(self, identity: int | str | None, asked: Call | RpcError) -> None:
        """Have a response made and written; the reading thread never waits for its client."""
        ticket = object()
        with self._changed:
            self._open[ticket] = identity
        self._workers.submit(lambda: self._answer(ticket, identity, asked))

    def _cancel(self, identity: object) -> None:
        """Notice that nobody waits for a response any more."""
        with self._changed:
            self._open = {
                ticket: each
                for ticket, each in self._open.items()
                if each is None or each != identity
            }
            self._changed.notify_all()

    def _call_of(self, message: Message) -> Call:
        """A request with who sends it. Raises RpcError where that isn't known."""
        method, params = message.method, message.params
        if method == "initialize":
            self._client = client_of_handshake(params)
        client = client_of_request(params) if method != "initialize" else None
        client = client or self._client
        if client is None:
            if method != "ping":
                code = INVALID_PARAMS if is_served(method) else METHOD_NOT_FOUND
                raise RpcError(code, _HANDSHAKE_FIRST)
            client = Client("")
        elicit = partial(self._elicit, message.id)
        return Call(method, params, client, self._agent, elicit=elicit, answers_as="")

    def _answer(self, ticket: object, identity: object, asked: Call | RpcError) -> None:
        if ticket in self._open:  # else it was cancelled before it began
            result = asked if isinstance(asked, RpcError) else self._result(asked)
            if ticket in self._open:
                self._write(response(identity, result))
        with self._changed:
            self._open.pop(ticket, None)
            self._changed.notify_all()

    def _result(self, call: Call) -> JsonObject | RpcError:
        try:
            return self._server.result(call)
        except RpcError as error:
            return error
        except Exception as error:  # noqa: BLE001
            return unexpected(error)

    def _write(self, message: JsonObject) -> None:
        line = to_line(message)
        # A client that is gone reads nothing any more.
        with self._writing, suppress(OSError):
            while line:
                line = line[os.write(self._wire, line) :]


class _Workers:
    """Threads that end with the process; as many as there is work for, up to a limit."""

    def __init__(self) -> None:
        self._work: deque[Callable[[], None]] = deque()
        self._changed = threading.Condition()
        self._idle = self._count = 0

    def submit(self, work: Callable[[], None]) -> None:
        """Have something done as soon as there is a thread for it."""
        with self._changed:
            self._work.append(work)
            if self._idle >= len(self._work) or self._count >= _CALLS_AT_ONCE:
                self._changed.notify()
                return
            self._count += 1
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._idle += 1
                self._changed.wait_for(lambda: bool(self._work))
                self._idle -= 1
                work = self._work.popleft()
            work()

"""Standard input and output as the transport.

The package's own drops a line that is no message, and the calls that are open when standard input
ends. Here both get their answer: nobody waits for ever, and `passdown mcp < calls` is of use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable

import anyio
import mcp_types as types
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage

from passdown.surfaces.mcp.door import MAX_WAIT_S
from passdown.surfaces.mcp.server import built, named_by_client
from passdown.surfaces.mcp.spanning import AsSpans

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Awaitable, Callable

    from anyio.abc import ObjectSendStream
    from mcp.server.lowlevel import Server

    from passdown.surfaces.mcp.door import Door

    Document = dict[str, Any]


@runtime_checkable
class _Listed(Protocol):
    """An error of the package that reads messages: it lists what is wrong."""

    def errors(self) -> list[Document]: ...


_CALLED_OFF = "notifications/cancelled"
_GRACE_S = 5.0
_GLANCE_S = 0.02
_NO_JSON = ("json_invalid", "json_type")


def serve(door: Door, agent: str = "") -> None:
    """Answer on standard input and output until the client closes them.

    `agent` writes where a call names nobody; without it, see `agent_named`.
    """
    server = built(door, lambda context: agent or named_by_client(context))
    server.middleware.append(AsSpans(lambda context: agent or named_by_client(context)))
    try:
        anyio.run(_answer, server)
    finally:
        door.close()


async def _answer(server: Server[Any]) -> None:
    options = server.create_initialization_options()
    passing, messages = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    saying, said = anyio.create_memory_object_stream[SessionMessage](0)
    open_calls = _OpenCalls()
    async with stdio_server() as (lines, answers):
        async with anyio.create_task_group() as group:
            group.start_soon(_pass_on, lines, passing, answers.send, open_calls)
            group.start_soon(_say, said, answers.send, open_calls)
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
        elif isinstance(message, types.JSONRPCNotification) and message.method == _CALLED_OFF:
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


async def _pass_on(
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
            elif told := refusal(line):
                await say(SessionMessage(told))
        # Closing this ends the server at once, and a pipe is closed as soon as all is written.
        await open_calls.settled()


async def _say(
    said: AsyncIterable[SessionMessage],
    say: Callable[[SessionMessage], Awaitable[None]],
    open_calls: _OpenCalls,
) -> None:
    async for answer in said:
        await say(answer)
        open_calls.answered(answer.message)


def refusal(fault: Exception) -> types.JSONRPCError | None:
    """What is said to a line that is no message; None for an empty one, which says nothing."""
    faults: list[Document] = fault.errors() if isinstance(fault, _Listed) else []
    is_json = not any(each.get("type") in _NO_JSON for each in faults)
    given = [each.get("input") for each in faults]
    if not is_json and all(isinstance(each, str) and not each.strip() for each in given):
        return None
    code, said = (
        (types.INVALID_REQUEST, "this is JSON, but no request, notification or answer")
        if is_json and faults
        else (types.PARSE_ERROR, "this line is no JSON; a message is one line of it, in UTF-8")
    )
    error = types.ErrorData(code=code, message=f"{said} (JSON-RPC 2.0)")
    return types.JSONRPCError(jsonrpc="2.0", id=_id_among(given), error=error)


def _id_among(given: list[Any]) -> int | str | None:
    """The id of the message that was meant, out of the parts that were found wrong."""
    for part in given:
        number: object = cast("Document", part).get("id") if isinstance(part, dict) else None
        if isinstance(number, int | str) and not isinstance(number, bool):
            return number
    return None

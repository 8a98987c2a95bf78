"""Large answers in pieces: what isn't taken holds back what comes after it.

The wire takes whatever it is given, and keeps it until the client has read it. Given a piece at a
time, it says when to wait; so of an answer that nobody reads, little more than one piece is kept
twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableMapping

    Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

PIECE = 1 << 16


async def in_pieces(send: Send, message: MutableMapping[str, Any]) -> None:
    """Send a part of an answer, a large body in pieces; each waits until the one before went."""
    body: bytes = message.get("body", b"")
    if len(body) <= PIECE:
        await send(message)
        return
    last = len(body) - PIECE
    for start in range(0, len(body), PIECE):
        is_more = start < last or bool(message.get("more_body", False))
        part = {**message, "body": body[start : start + PIECE], "more_body": is_more}
        await send(part)

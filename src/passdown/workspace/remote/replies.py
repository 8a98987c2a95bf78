"""Answers of a server: read within bounds of time and size, and believed only if they are its own.

What answers at an address may be a proxy, another program, or mean harm. So nothing is waited for
or kept without end, nothing is unpacked, and what isn't an answer of Passdown's is called that.
"""

from __future__ import annotations

import http.client
import io
import json
import time
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from urllib.parse import urlsplit

from passdown.errors import PassdownError, error_from
from passdown.model.text import visible

if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping

Document = dict[str, Any]

MAX_DOCUMENT_BYTES = 64 * 1_048_576
"""How large a document may be: what is read of it takes many times as much memory."""
MAX_ANSWER_BYTES = 256 * 1_048_576
_PIECE = 65_536
_PROBLEM = "application/problem+json"


class Deadline:
    """The moment by which something has to be over, however it is spread over time."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._until = time.monotonic() + seconds

    def left(self) -> float:
        """The seconds that are left; raises TimeoutError where there are none."""
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError(f"no whole answer within {self.seconds:g} seconds")
        return left

    def give(self, seconds: float) -> None:
        """Allow some more."""
        self._until += seconds


class _Timed(io.RawIOBase):
    """What comes out of a socket until a deadline: its own limit begins anew with each byte."""

    def __init__(self, sock: socket.socket, deadline: Deadline) -> None:
        self._sock = sock
        self._deadline = deadline
        self._raw: Any = sock.makefile("rb", buffering=0)

    def readable(self) -> bool:
        """It is for reading."""
        return True

    def readinto(self, buffer: Any, /) -> int | None:
        """Wait for bytes as long as there is time."""
        self._sock.settimeout(self._deadline.left())
        try:
            return self._raw.readinto(buffer)
        except TimeoutError:
            self._deadline.left()
            raise

    def close(self) -> None:
        """Let go of the socket."""
        self._raw.close()
        super().close()


class _Source(NamedTuple):
    """A socket as `http.client` wants it."""

    sock: socket.socket
    deadline: Deadline

    def makefile(self, mode: str) -> io.BufferedReader:
        """The bytes to come."""
        return io.BufferedReader(_Timed(self.sock, self.deadline), _PIECE)


def answers_until(connection: http.client.HTTPConnection, deadline: Deadline) -> None:
    """Have the answers of a connection be there by a deadline, or not at all."""

    def answer(sock: socket.socket, *given: Any, **named: Any) -> http.client.HTTPResponse:
        source: Any = _Source(sock, deadline)
        return http.client.HTTPResponse(source, *given, **named)

    within: Any = connection
    within.response_class = answer


class Reply(NamedTuple):
    """An answer: where it came from, its status, its headers in small letters, its bytes."""

    url: str
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def media(self) -> str:
        """What it calls itself."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    def document(self) -> Any:
        """The JSON object in it; raises PassdownError where there is none."""
        if self.media != "application/json":
            raise not_passdown(self)
        return self.read_document()

    def read_document(self) -> Document:
        """The JSON object in it, whatever it calls itself."""
        try:
            found = json.loads(self.body)
        except (ValueError, RecursionError) as error:
            raise not_passdown(self, "can't be read as JSON") from error
        if not isinstance(found, dict):
            raise not_passdown(self, "is no JSON object")
        return cast("Document", found)


def reply_of(url: str, answer: http.client.HTTPResponse, most: int) -> Reply:
    """A whole answer of at most so many bytes; raises PassdownError for a larger one, and
    IncompleteRead for one that was cut off.
    """
    headers = {name.lower(): value for name, value in answer.getheaders()}
    head = Reply(url, answer.status, headers, b"")
    length = headers.get("content-length", "")
    is_longer = length.isascii() and length.isdigit() and int(length) > most
    body = bytearray()
    # In pieces: of many small parts, all would be kept until the last has come.
    while not is_longer and (piece := answer.read(_PIECE)):
        body += piece
        is_longer = len(body) > most
    if is_longer:
        raise too_large(url, most)
    if answer.length:  # reading in pieces, it ends without a word where the connection does
        raise http.client.IncompleteRead(bytes(body[:0]), answer.length)
    return head._replace(body=bytes(body))


def too_large(url: str, most: int) -> PassdownError:
    """The error for an answer that is longer than anything that was asked for."""
    return PassdownError(
        f"{url} answered with more than {most:,} bytes; the rest wasn't read",
        next_step="Ask for less at once (limit, task), or where the store is.",
        code="answer_too_large",
    )


def checked(reply: Reply) -> Reply:
    """An answer that says yes; raises what the server raised, or that it is none of Passdown's."""
    coding = reply.headers.get("content-encoding", "identity").lower()
    if coding != "identity":
        raise not_passdown(reply, f"is packed ({coding[:40]}), which nobody asked for")
    if reply.status < 300:
        return reply
    if reply.media != _PROBLEM:
        raise not_passdown(reply)
    document = reply.read_document()
    try:
        told = {**document, "error": document["code"], "message": document["detail"]}
        error = error_from(told)
    except (KeyError, TypeError, ValueError, AttributeError) as wrong:
        raise not_passdown(reply, "is no problem document") from wrong
    raise error


def not_passdown(reply: Reply, why: str = "") -> PassdownError:
    """The error for an answer that is none of Passdown's."""
    said = why or f"calls itself {visible(reply.media)[:80] or 'nothing'}"
    step = "Check the address: a proxy or another program may answer there."
    if 300 <= reply.status < 400:
        said = f"leads to {_origin(reply.headers.get('location', ''))}"
        step = "Redirects are not followed, and the token was not sent there; if that is the "
        step += "server, use its address."
    elif reply.status == 413:
        step = "A proxy before the server takes no more at once; whoever keeps it can allow more."
    return PassdownError(
        f"{reply.url} doesn't answer as Passdown: status {reply.status}, and the answer {said}",
        next_step=step,
        code="not_a_server",
    )


def _origin(location: str) -> str:
    """Where a redirect leads, without what it would carry along."""
    try:
        parts = urlsplit(location)
    except ValueError:
        return "nowhere"
    if not parts.netloc:
        return "another address there"
    host = parts.netloc.rpartition("@")[2]
    return visible(f"{parts.scheme or 'http'}://{host}")[:120]

"""HTTP connections to a server: kept open, never redirected, retried only where that is safe.

Only the standard library is used. Certificates are checked; without TLS a token is sent to this
machine only, unless PASSDOWN_PLAIN_HTTP says that the network is trusted. Responses are bounded in
time and size; files are written whole or not at all.
"""

from __future__ import annotations

import http.client
import io
import json
import os
import re
import select
import shutil
import ssl
import time
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from urllib.parse import quote, unquote, urlencode, urlsplit

from passdown import __version__, tracing
from passdown.core.access import is_loopback
from passdown.core.text import has_lone_surrogate, visible
from passdown.errors import (
    InvalidInput,
    PassdownError,
    Problem,
    StoreUnavailable,
    error_from_document,
)
from passdown.operations import WARNING_HEADER

if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping

    from passdown.core.types import JsonObject, Progress


class Server(NamedTuple):
    """Where a server is: all that an address says."""

    scheme: str
    host: str
    port: int
    prefix: str

    @property
    def url(self) -> str:
        """The address as it would be typed."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        usual = {"http": 80, "https": 443}[self.scheme]
        port = "" if self.port == usual else f":{self.port}"
        return f"{self.scheme}://{host}{port}{self.prefix}"


def server_at(url: str) -> Server:
    """The server that an address names. Raises InvalidInput for one that can't be used safely."""
    problem = None
    try:
        parts = urlsplit(url)
        port, wrong = parts.port, "is no server's address"
    except ValueError as error:
        parts, port, wrong = urlsplit(""), None, str(error)
    host = parts.hostname or ""
    is_plain = parts.scheme == "http"
    if not host or parts.query or parts.fragment:
        problem = Problem("url", "invalid_address", wrong, "https://HOST")
    elif parts.username or parts.password:
        message = "holds a name or a password"
        problem = Problem("url", "secret", message, "an address alone", "set PASSDOWN_TOKEN")
    elif is_plain and not is_loopback(host) and not os.environ.get("PASSDOWN_PLAIN_HTTP"):
        message = "a token would go over the network in the open"
        problem = Problem("url", "not_safe", message, "https://", "PASSDOWN_PLAIN_HTTP=1 allows it")
    if problem is not None:
        raise InvalidInput("the server can't be opened", [problem])
    return Server(parts.scheme, host, port or (80 if is_plain else 443), parts.path.rstrip("/"))


MAX_DOCUMENT_BYTES = 64 * 1_048_576
"""How large a document may be: what is read of it takes many times as much memory."""
MAX_ANSWER_BYTES = 256 * 1_048_576
_PIECE = 65_536
_OTHER_PROGRAM = "Check the address: a proxy or another program may answer there."


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


class _TimedSocket(io.RawIOBase):
    """A socket as `http.client` reads it, until a deadline: its own limit is for each byte."""

    def __init__(self, sock: socket.socket, deadline: Deadline) -> None:
        self._sock = sock
        self._deadline = deadline
        self._raw: Any = sock.makefile("rb", buffering=0)

    def makefile(self, _: str) -> io.BufferedReader:
        """The bytes to come."""
        return io.BufferedReader(self, _PIECE)

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
        """Close the socket."""
        self._raw.close()
        super().close()


class HttpReply(NamedTuple):
    """An answer: where it came from, its status, its headers in small letters, its bytes."""

    url: str
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def media(self) -> str:
        """What it calls itself."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    def document(self, media: str = "application/json") -> Any:
        """The JSON object in it; raises PassdownError where there is none."""
        if self.media != media:
            raise not_passdown(self)
        try:
            found = json.loads(self.body)
        except (ValueError, RecursionError) as error:
            raise not_passdown(self, "can't be read as JSON") from error
        if not isinstance(found, dict):
            raise not_passdown(self, "is no JSON object")
        return cast("JsonObject", found)


def _reply_of(url: str, answer: http.client.HTTPResponse) -> HttpReply:
    """A whole answer; raises PassdownError for one that is too large, and IncompleteRead for one
    that was cut off.
    """
    headers = {name.lower(): value for name, value in answer.getheaders()}
    is_bundle = answer.headers.get_content_type() == "application/zip"
    most = MAX_ANSWER_BYTES if is_bundle else MAX_DOCUMENT_BYTES
    is_longer = (answer.length or 0) > most
    body = bytearray()
    # In pieces: of many small parts, all would be kept until the last has come.
    while not is_longer and (piece := answer.read(_PIECE)):
        body += piece
        is_longer = len(body) > most
    if is_longer:
        raise too_large(url, most)
    if answer.length:  # reading in pieces, it ends without a word where the connection does
        raise http.client.IncompleteRead(b"", answer.length)
    return HttpReply(url, answer.status, headers, bytes(body))


def too_large(url: str, most: int) -> PassdownError:
    """The error for an answer that is longer than anything that was asked for."""
    return PassdownError(
        f"{url} answered with more than {most:,} bytes; the rest wasn't read",
        next_step="Ask for less at once (limit, task), or where the store is.",
        code="answer_too_large",
    )


def _checked(reply: HttpReply) -> HttpReply:
    """An answer that says yes, after logging what it warns of and has no place for; raises what the
    server raised, or that it is none of Passdown's.
    """
    if warning := reply.headers.get(WARNING_HEADER):
        import logging

        logging.getLogger("passdown").warning("warning: %s", visible(unquote(warning)))
    coding = reply.headers.get("content-encoding", "identity").lower()
    if coding != "identity":
        raise not_passdown(reply, f"is packed ({coding[:40]}), which nobody asked for")
    if reply.status < 300:
        return reply
    document = reply.document("application/problem+json")
    try:
        told = {**document, "error": document["code"], "message": document["detail"]}
        error = error_from_document(told)
    except (KeyError, TypeError, ValueError, AttributeError) as wrong:
        raise not_passdown(reply, "is no problem document") from wrong
    raise error


def not_passdown(reply: HttpReply, why: str = "") -> PassdownError:
    """The error for an answer that is none of Passdown's."""
    said = why or f"calls itself {visible(reply.media)[:80] or 'nothing'}"
    step = _OTHER_PROGRAM
    if 300 <= reply.status < 400:
        said = f"leads to {_origin(reply.headers.get('location', ''))}"
        step = "Redirects are not followed, and the token was not sent there; if that is the "
        step += "server, use its address."
    elif reply.status == 413:
        step = "A proxy in front of the server limits requests; its administrator can allow more."
    return PassdownError(
        f"{reply.url} doesn't answer as Passdown: status {reply.status}, and the answer {said}",
        next_step=step,
        code="not_a_server",
    )


def _origin(location: str) -> str:
    """Where a redirect leads, without what it would carry along."""
    found = re.match(r"(?:(https?):)?//(?:[^/?#]*@)?([^/?#]+)", location)
    return visible(f"{found[1] or 'http'}://{found[2]}")[:120] if found else "another address there"


_SLOWEST = 16_384
"""How many bytes a second have to arrive, once the time for all of it is over."""


def _save(
    answer: http.client.HTTPResponse, target: str, deadline: Deadline, progress: Progress | None
) -> None:
    """Write an answer's bytes to a new file that only its owner can read, all of them or none."""
    expected = answer.length
    if expected is None:
        raise http.client.HTTPException("it doesn't say how long its answer is")
    free = shutil.disk_usage(os.path.dirname(os.path.abspath(target))).free
    if expected > free:
        message = f"has {expected:,} bytes, and {free:,} are free"
        problem = Problem("target", "no_room", message, "room for it")
        raise InvalidInput("nothing was written", [problem])
    descriptor = os.open(
        target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600
    )
    try:
        size = 0
        with os.fdopen(descriptor, "wb") as file:
            while part := answer.read(_PIECE):
                size += file.write(part)
                deadline.give(len(part) / _SLOWEST)
                if progress is not None:
                    progress(size, max(size, expected))
            file.flush()
            os.fsync(file.fileno())
        if size != expected:
            raise http.client.IncompleteRead(b"", expected - size)
    except BaseException:
        os.unlink(target)
        raise


TIMEOUT_S = 60.0
HEAVY_TIMEOUT_S = 600.0
"""What reads the whole store takes as long as the store is large."""
_ATTEMPTS = 3
_LONGEST_WAIT_S = 5.0
_BROKEN = (OSError, http.client.HTTPException)


class HttpConnection:
    """Connections to one server; threads may share it."""

    def __init__(self, server: Server, token: str, timeout_s: float = TIMEOUT_S) -> None:
        self.server = server
        self._token = token
        self._timeout_s = timeout_s
        self._idle: list[http.client.HTTPConnection] = []
        self._process = os.getpid()
        self._is_closed = False

    def ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: JsonObject | None = None,
        key: str | None = None,
        expect_version: int | None = None,
        repeats: bool = False,
        is_heavy: bool = False,
        within: Deadline | None = None,
    ) -> HttpReply:
        """Ask, and give the answer of a status below 400; raises what the server raised.

        What only reads, what has a key, and what `repeats` without harm, is asked again when the
        connection breaks. Anything else is not: whether it was written is unknown then. What
        `is_heavy` is waited for longer; `within` bounds it together with other questions.
        """
        self.check_open()
        target = self.server.prefix + path + _query_string(query or {})
        data = None if body is None else _json(body)
        headers = self._headers(data, key, expect_version)
        is_safe = method == "GET" or key is not None or repeats
        timeout_s = max(self._timeout_s, HEAVY_TIMEOUT_S if is_heavy else 0.0)
        for attempt in range(_ATTEMPTS):
            is_last = attempt == _ATTEMPTS - 1
            try:
                left_s = timeout_s if within is None else min(timeout_s, within.left())
                reply = self._once(method, target, data, headers, left_s)
            except _BROKEN as error:
                # Who takes all the time there is would do so again.
                if not is_safe or is_last or isinstance(error, TimeoutError):
                    raise _unreachable(self.server, error, is_safe) from error
                time.sleep(0.1 * 2**attempt)
                continue
            wait_s = _retry_after(reply)
            if is_last or wait_s is None or (reply.status != 429 and not is_safe):
                return _checked(reply)
            time.sleep(wait_s)
        raise AssertionError("the last attempt returns or raises")

    def fetch(self, path: str, media: str, target: str, progress: Progress | None = None) -> None:
        """Write what an address gives to a new file that only its owner can read; a file that
        didn't arrive as a whole is removed.
        """
        deadline = Deadline(HEAVY_TIMEOUT_S)
        connection = self._taken(deadline)
        try:
            connection.request("GET", self.server.prefix + path, None, self._headers(None))
            with connection.getresponse() as answer:
                if answer.status >= 300 or answer.headers.get_content_type() != media:
                    raise not_passdown(_checked(_reply_of(self.server.url, answer)))
                _save(answer, target, deadline, progress)
        except _BROKEN as error:
            if isinstance(error, OSError) and error.filename:
                raise
            raise _unreachable(self.server, error, is_safe=True) from error
        finally:
            connection.close()

    def check_open(self) -> None:
        """Raise StoreUnavailable once it is closed."""
        if self._is_closed:
            raise StoreUnavailable(
                "the workspace is closed", next_step="Open it again with passdown.open."
            )

    def close(self) -> None:
        """Close what is open; every later question is refused."""
        self._is_closed = True
        while self._idle:
            self._idle.pop().close()

    def _headers(
        self, data: bytes | None, key: str | None = None, expect_version: int | None = None
    ) -> dict[str, str]:
        headers = {"Authorization": f"Bearer {self._token}", "Accept": "application/json"}
        headers["User-Agent"] = f"passdown/{__version__}"
        if data is not None:
            headers["Content-Type"] = "application/json"
        if expect_version is not None:
            headers["If-Match"] = f'"{expect_version}"'
        if key is not None:
            headers["Idempotency-Key"] = key
            if not key.isascii() or not key.isprintable():
                problem = Problem("key", "invalid_form", "holds characters that a header can't")
                raise InvalidInput("refused; nothing was changed", [problem])
        return headers

    def _once(
        self, method: str, target: str, data: bytes | None, headers: dict[str, str], seconds: float
    ) -> HttpReply:
        """Ask once, within a span that the server goes on with."""
        server = self.server
        attributes: dict[str, str | int] = {
            "http.request.method": method,
            "server.address": server.host,
            "server.port": server.port,
            "url.full": server._replace(prefix=target.partition("?")[0]).url,
        }
        with tracing.part(method, attributes, kind="client") as span:
            tracing.carry(headers)
            connection = self._taken(Deadline(seconds))
            try:
                with _answer(connection, method, target, data, headers) as answer:
                    reply = _reply_of(server.url, answer)
            except BaseException:
                connection.close()
                raise
            if answer.will_close:
                connection.close()
            else:
                self._idle.append(connection)
            error = str(reply.status) if reply.status >= 400 else ""
            span.note({"http.response.status_code": reply.status}, error=error)
            return reply

    def _taken(self, deadline: Deadline) -> http.client.HTTPConnection:
        """A connection that the server has not closed meanwhile, or a new one; its answers have to
        be there by the deadline.
        """
        connection: Any = self._kept() or self._new(deadline.left())
        if connection.sock is not None:
            connection.sock.settimeout(deadline.left())

        def answer(sock: socket.socket, *given: Any, **named: Any) -> http.client.HTTPResponse:
            timed: Any = _TimedSocket(sock, deadline)
            return http.client.HTTPResponse(timed, *given, **named)

        connection.response_class = answer
        return connection

    def _kept(self) -> http.client.HTTPConnection | None:
        if self._process != os.getpid():
            self._idle, self._process = [], os.getpid()
        while self._idle:
            connection = self._idle.pop()
            if connection.sock is not None and not select.select([connection.sock], [], [], 0)[0]:
                return connection
            connection.close()
        return None

    def _new(self, timeout_s: float) -> http.client.HTTPConnection:
        host, port = self.server.host, self.server.port
        if self.server.scheme == "http":
            return http.client.HTTPConnection(host, port, timeout=timeout_s)
        secure = ssl.create_default_context()
        return http.client.HTTPSConnection(host, port, timeout=timeout_s, context=secure)


def _answer(
    connection: http.client.HTTPConnection,
    method: str,
    target: str,
    data: bytes | None,
    headers: dict[str, str],
) -> http.client.HTTPResponse:
    """Send a request and give what is answered. A server that refuses a body may do so, and hang
    up, before it has read all of it: then its answer counts, and not that the rest wasn't taken.
    """
    try:
        connection.request(method, target, data, headers)
    except OSError as broken:
        if connection.sock is None or isinstance(broken, TimeoutError):
            raise
        try:
            answer = connection.getresponse()
        except _BROKEN:
            raise broken from None
        if answer.status < 400:
            answer.close()
            raise
        return answer
    return connection.getresponse()


def _json(body: JsonObject) -> bytes:
    try:
        return json.dumps(body).encode()
    except (TypeError, ValueError, RecursionError) as error:
        problem = Problem("", "wrong_type", visible(str(error))[:200], "plain JSON data")
        raise InvalidInput("refused; nothing was sent", [problem]) from error


def path_part(text: object) -> str:
    """A task, an item or a gate as one part of a path."""
    return quote(str(text), safe="") or "%20"


def _query_string(query: Mapping[str, Any]) -> str:
    listed = {n: cast("list[Any]", v) if isinstance(v, list) else [v] for n, v in query.items()}
    words = {name: [_word(each) for each in entries] for name, entries in listed.items()}
    try:
        return "?" + urlencode(words, doseq=True) if words else ""
    except UnicodeEncodeError as error:
        odd = next(name for name, texts in words.items() if has_lone_surrogate("".join(texts)))
        problem = Problem(odd, "lone_surrogate", "holds half a character", "whole characters")
        raise InvalidInput("refused; nothing was sent", [problem]) from error


def _word(value: object) -> str:
    if value is None:
        return ""
    # A text that has to be there and is empty: a blank, which names nothing either.
    return str(value).lower() if isinstance(value, bool) else str(value) or " "


def _retry_after(reply: HttpReply) -> float | None:
    """How long to wait before asking again; None where that would be of no use."""
    given = reply.headers.get("retry-after", "")
    if reply.status not in (429, 503) or not (given.isascii() and given.isdigit()):
        return None
    return float(given) if float(given) <= _LONGEST_WAIT_S else None


def _unreachable(server: Server, error: Exception, is_safe: bool) -> PassdownError:
    said = "" if is_safe else " Whether it was written is unknown: look, or use a key."
    told = visible(str(error))[:200]
    if not isinstance(error, (OSError, http.client.IncompleteRead)):
        return PassdownError(
            f"{server.url} doesn't answer as Passdown ({told}).{said}",
            next_step=_OTHER_PROGRAM,
            code="not_a_server",
        )
    step = "Check the address and the server, then try again."
    if isinstance(error, ssl.SSLError):
        step = "It may speak plain HTTP (http://), or have a certificate that isn't trusted here."
    return StoreUnavailable(f"{server.url} can't be reached ({told}).{said}", next_step=step)

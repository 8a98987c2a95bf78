"""The wire to a server: kept open, never redirected, asked again only where that is safe.

Only the standard library is used. Certificates are checked; without TLS a token goes to this
machine alone, unless PASSDOWN_PLAIN_HTTP says that the network between is trusted.
"""

from __future__ import annotations

import http.client
import json
import os
import select
import ssl
import time
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from urllib.parse import quote, urlencode

from passdown import __version__, spans
from passdown.errors import InvalidInput, PassdownError, Problem, StoreUnavailable
from passdown.model.text import has_lone_surrogate, visible
from passdown.workspace.remote.replies import (
    MAX_ANSWER_BYTES,
    MAX_DOCUMENT_BYTES,
    Deadline,
    Reply,
    answers_until,
    checked,
    not_passdown,
    reply_of,
)
from passdown.workspace.remote.saving import save

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from passdown.workspace.aliases import Progress
    from passdown.workspace.remote.address import Server

Document = dict[str, Any]

TIMEOUT_S = 60.0
HEAVY_TIMEOUT_S = 600.0
"""What reads the whole store takes as long as the store is large."""
_BUNDLE = "application/zip"
_PIECE_BYTES = 65_536
_ATTEMPTS = 3
_LONGEST_WAIT_S = 5.0
_BROKEN = (OSError, http.client.HTTPException)


class _Request(NamedTuple):
    """What is asked; a span adds to the headers."""

    method: str
    target: str
    data: bytes | None
    headers: dict[str, str]


class Wire:
    """Connections to one server; threads may share it."""

    def __init__(self, server: Server, token: str, timeout_s: float = TIMEOUT_S) -> None:
        self.server = server
        self._token = token
        self._timeout_s = timeout_s
        self._idle: list[http.client.HTTPConnection] = []
        self._process = os.getpid()

    def ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Document | None = None,
        key: str | None = None,
        expect_version: int | None = None,
        repeats: bool = False,
        is_heavy: bool = False,
        within: Deadline | None = None,
    ) -> Reply:
        """Ask, and give the answer of a status below 400; raises what the server raised.

        What only reads, what has a key, and what `repeats` without harm, is asked again when the
        connection breaks. Anything else is not: whether it was written is unknown then. What
        `is_heavy` is waited for longer; `within` bounds it together with other questions.
        """
        target = self.server.prefix + path + _spelled(query or {})
        data = None if body is None else json.dumps(body).encode()
        request = _Request(method, target, data, self._headers(data, key, expect_version))
        is_safe = method == "GET" or key is not None or repeats
        timeout_s = max(self._timeout_s, HEAVY_TIMEOUT_S if is_heavy else 0.0)
        for attempt in range(_ATTEMPTS):
            is_last = attempt == _ATTEMPTS - 1
            try:
                left_s = timeout_s if within is None else min(timeout_s, within.left())
                reply = self._once(request, left_s)
            except _BROKEN as error:
                # Who takes all the time there is would do so again.
                if not is_safe or is_last or isinstance(error, TimeoutError):
                    raise _unreachable(self.server, error, is_safe) from error
                time.sleep(0.1 * 2**attempt)
                continue
            wait_s = _wait_of(reply)
            if is_last or wait_s is None or (reply.status != 429 and not is_safe):
                return checked(reply)
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
                    reply = reply_of(self.server.url, answer, MAX_DOCUMENT_BYTES)
                    raise not_passdown(checked(reply))
                save(answer, target, deadline, progress)
        except _BROKEN as error:
            if isinstance(error, OSError) and error.filename:
                raise
            raise _unreachable(self.server, error, is_safe=True) from error
        finally:
            connection.close()

    def close(self) -> None:
        """Close what is open."""
        while self._idle:
            self._idle.pop().close()

    def _headers(
        self, data: bytes | None, key: str | None = None, expect_version: int | None = None
    ) -> dict[str, str]:
        headers = {"Authorization": f"Bearer {self._token}", "Accept": "application/json"}
        headers["User-Agent"] = f"passdown/{__version__}"
        if data is not None:
            headers["Content-Type"] = "application/json"
        if key is not None:
            headers["Idempotency-Key"] = _header_text(key)
        if expect_version is not None:
            _check_version(expect_version)
            headers["If-Match"] = f'"{expect_version}"'
        return headers

    def _once(self, request: _Request, timeout_s: float) -> Reply:
        """Ask once. What goes on is told as a span, and the server where to go on with it."""
        method = request.method
        with spans.part(method, self._attributes(method, request.target), kind="client") as span:
            spans.carry(request.headers)
            reply = self._exchanged(request, timeout_s)
            error = str(reply.status) if reply.status >= 400 else ""
            span.note({"http.response.status_code": reply.status}, error=error)
            return reply

    def _attributes(self, method: str, target: str) -> dict[str, str | int]:
        server = self.server
        return {
            "http.request.method": method,
            "server.address": server.host,
            "server.port": server.port,
            "url.full": server._replace(prefix=target.partition("?")[0]).url,
        }

    def _exchanged(self, request: _Request, timeout_s: float) -> Reply:
        deadline = Deadline(timeout_s)
        connection = self._taken(deadline)
        try:
            with _answer(connection, request, deadline) as answer:
                is_bundle = answer.headers.get_content_type() == _BUNDLE
                most = MAX_ANSWER_BYTES if is_bundle else MAX_DOCUMENT_BYTES
                reply = reply_of(self.server.url, answer, most)
        except BaseException:
            connection.close()
            raise
        if answer.will_close:
            connection.close()
        else:
            self._idle.append(connection)
        return reply

    def _taken(self, deadline: Deadline) -> http.client.HTTPConnection:
        """A connection that the server has not closed meanwhile, or a new one."""
        connection = self._kept() or self._new(deadline.left())
        if connection.sock is not None:
            connection.sock.settimeout(deadline.left())
        answers_until(connection, deadline)
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
        server = self.server
        if server.scheme == "http":
            return http.client.HTTPConnection(server.host, server.port, timeout=timeout_s)
        secure = ssl.create_default_context()
        return http.client.HTTPSConnection(
            server.host, server.port, timeout=timeout_s, context=secure
        )


def _answer(
    connection: http.client.HTTPConnection, request: _Request, deadline: Deadline
) -> http.client.HTTPResponse:
    """Send a request and give what is answered. A server that refuses a body may do so, and hang
    up, before it has read all of it: then its answer counts, and not that the rest wasn't taken.
    """
    data = request.data
    sent = None if data is None else _pieces(connection, data, deadline)
    length = {} if data is None else {"Content-Length": str(len(data))}
    try:
        connection.request(request.method, request.target, sent, {**request.headers, **length})
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


def _pieces(
    connection: http.client.HTTPConnection, data: bytes, deadline: Deadline
) -> Iterator[bytes]:
    """A body piece by piece, all of which have to be taken by a deadline."""
    for start in range(0, len(data), _PIECE_BYTES):
        connection.sock.settimeout(deadline.left())
        yield data[start : start + _PIECE_BYTES]


def part(text: object) -> str:
    """A task, an item or a gate as one part of a path."""
    return quote(str(text), safe="") or "%20"


def _spelled(query: Mapping[str, Any]) -> str:
    pairs = [
        (name, _word(entry))
        for name, value in query.items()
        for entry in _entries(value)
        if entry is not None
    ]
    try:
        return "?" + urlencode(pairs) if pairs else ""
    except UnicodeEncodeError as error:
        odd = next(name for name, text in pairs if has_lone_surrogate(text))
        problem = Problem(odd, "lone_surrogate", "holds half a character", "whole characters")
        raise InvalidInput("refused; nothing was asked", [problem]) from error


def _entries(value: object) -> list[object]:
    return list(cast("list[object]", value)) if isinstance(value, list | tuple) else [value]


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _header_text(key: str) -> str:
    """A key as a header may hold it; what can't stand there is refused as the ledger would."""
    if not key.isascii() or not key.isprintable():
        message = "holds characters that a header can't"
        raise InvalidInput(
            "refused; nothing was changed", [Problem("key", "invalid_form", message)]
        )
    return key


def _check_version(given: object) -> None:
    if isinstance(given, bool) or not isinstance(given, int):
        message = f"{type(given).__name__} given"
        problem = Problem("expect_version", "wrong_type", message, "a version number")
        raise InvalidInput("refused; nothing was changed", [problem])


def _wait_of(reply: Reply) -> float | None:
    """How long to wait before asking again; None where that would be of no use."""
    given = reply.headers.get("retry-after", "")
    if reply.status not in (429, 503) or not (given.isascii() and given.isdigit()):
        return None
    return float(given) if float(given) <= _LONGEST_WAIT_S else None


def _unreachable(server: Server, error: Exception, is_safe: bool) -> PassdownError:
    said = "" if is_safe else " Whether it was written is unknown: look, or use a key."
    told = visible(str(error))[:200]
    if isinstance(error, http.client.HTTPException) and not isinstance(
        error, (ConnectionError, http.client.IncompleteRead)
    ):
        return PassdownError(
            f"{server.url} doesn't answer as Passdown ({told}).{said}",
            next_step="Check the address: a proxy or another program may answer there.",
            code="not_a_server",
        )
    step = "Check the address and the server, then try again."
    if isinstance(error, ssl.SSLError):
        step = "It may speak plain HTTP (http://), or have a certificate that isn't trusted here."
    return StoreUnavailable(f"{server.url} can't be reached ({told}).{said}", next_step=step)

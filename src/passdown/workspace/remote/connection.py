"""The wire to a server: kept open, never redirected, asked again only where that is safe.

Only the standard library is used. Certificates are checked; without TLS a token goes to this
machine alone, unless PASSDOWN_PLAIN_HTTP says that the network between is trusted.
"""

from __future__ import annotations

import http.client
import ipaddress
import json
import os
import select
import ssl
import time
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from urllib.parse import quote, urlencode, urlsplit

from passdown import __version__, spans
from passdown.errors import (
    InvalidInput,
    PassdownError,
    Problem,
    StoreUnavailable,
    error_from,
)
from passdown.model.text import has_lone_surrogate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from passdown.workspace.aliases import Progress

Document = dict[str, Any]

TIMEOUT_S = 60.0
HEAVY_TIMEOUT_S = 600.0
"""What reads the whole store takes as long as the store is large."""
MAX_ANSWER_BYTES = 256 * 1_048_576
_PART_BYTES = 1_048_576
_ATTEMPTS = 3
_LONGEST_WAIT_S = 5.0
_BROKEN = (OSError, http.client.HTTPException)


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


class Reply(NamedTuple):
    """An answer: its status, its headers in small letters, its bytes."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def server_at(url: str) -> Server:
    """The server that an address names. Raises InvalidInput for one that can't be used safely."""
    problem = None
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise _refused(Problem("url", "invalid_address", str(error), "https://HOST")) from error
    host = parts.hostname or ""
    is_plain = parts.scheme == "http"
    if not host or parts.query or parts.fragment:
        problem = Problem("url", "invalid_address", "is no server's address", "https://HOST")
    elif parts.username or parts.password:
        message = "holds a name or a password"
        problem = Problem("url", "secret", message, "an address alone", "set PASSDOWN_TOKEN")
    elif is_plain and not _is_here(host) and not os.environ.get("PASSDOWN_PLAIN_HTTP"):
        message = "a token would go over the network in the open"
        problem = Problem("url", "not_safe", message, "https://", "PASSDOWN_PLAIN_HTTP=1 allows it")
    if problem is not None:
        raise _refused(problem)
    return Server(parts.scheme, host, port or (80 if is_plain else 443), parts.path.rstrip("/"))


def _refused(problem: Problem) -> InvalidInput:
    return InvalidInput("the server can't be opened", [problem])


def _is_here(host: str) -> bool:
    """Whether a name can only mean this machine; any other that looks like it is a name."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


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
    ) -> Reply:
        """Ask, and give the answer of a status below 400; raises what the server raised.

        What only reads, what has a key, and what `repeats` without harm, is asked again when the
        connection breaks. Anything else is not: whether it was written is unknown then. What
        `is_heavy` is waited for longer.
        """
        target = self.server.prefix + path + _spelled(query or {})
        data = None if body is None else json.dumps(body).encode()
        headers = self._headers(data, key, expect_version)
        is_safe = method == "GET" or key is not None or repeats
        timeout_s = max(self._timeout_s, HEAVY_TIMEOUT_S if is_heavy else 0.0)
        for attempt in range(_ATTEMPTS):
            is_last = attempt == _ATTEMPTS - 1
            try:
                reply = self._once(method, target, data, headers, timeout_s)
            except _BROKEN as error:
                if not is_safe or is_last:
                    raise _unreachable(self.server, error, is_safe) from error
                time.sleep(0.1 * 2**attempt)
                continue
            wait_s = _wait_of(reply)
            if is_last or wait_s is None or (reply.status != 429 and not is_safe):
                return _checked(reply)
            time.sleep(wait_s)
        raise AssertionError("the last attempt returns or raises")

    def fetch(self, path: str, target: str, progress: Progress | None = None) -> None:
        """Write what an address gives to a new file that only its owner can read; a file that
        didn't arrive as a whole is removed.
        """
        connection = self._taken(HEAVY_TIMEOUT_S)
        try:
            connection.request("GET", self.server.prefix + path, None, self._headers(None))
            answer = connection.getresponse()
            if answer.status >= 300:
                _checked(_reply(answer, answer.read(MAX_ANSWER_BYTES)))
            _save(answer, target, progress)
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

    def _once(
        self,
        method: str,
        target: str,
        data: bytes | None,
        headers: dict[str, str],
        timeout_s: float,
    ) -> Reply:
        """Ask once. What goes on is told as a span, and the server where to go on with it."""
        with spans.part(method, self._attributes(method, target), kind="client") as span:
            spans.carry(headers)
            reply = self._exchanged(method, target, data, headers, timeout_s)
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

    def _exchanged(
        self,
        method: str,
        target: str,
        data: bytes | None,
        headers: dict[str, str],
        timeout_s: float,
    ) -> Reply:
        connection = self._taken(timeout_s)
        try:
            connection.request(method, target, data, headers)
            answer = connection.getresponse()
            body = answer.read(MAX_ANSWER_BYTES + 1)
        except BaseException:
            connection.close()
            raise
        if len(body) > MAX_ANSWER_BYTES or answer.will_close:
            connection.close()
        else:
            self._idle.append(connection)
        return _reply(answer, body)

    def _taken(self, timeout_s: float) -> http.client.HTTPConnection:
        """A connection that the server has not closed meanwhile, or a new one."""
        if self._process != os.getpid():
            self._idle, self._process = [], os.getpid()
        while self._idle:
            connection = self._idle.pop()
            if connection.sock is not None and not select.select([connection.sock], [], [], 0)[0]:
                connection.sock.settimeout(timeout_s)
                return connection
            connection.close()
        server = self.server
        if server.scheme == "http":
            return http.client.HTTPConnection(server.host, server.port, timeout=timeout_s)
        secure = ssl.create_default_context()
        return http.client.HTTPSConnection(
            server.host, server.port, timeout=timeout_s, context=secure
        )


def _reply(answer: http.client.HTTPResponse, body: bytes) -> Reply:
    return Reply(answer.status, {k.lower(): v for k, v in answer.getheaders()}, body)


def _save(answer: http.client.HTTPResponse, target: str, progress: Progress | None) -> None:
    """Write an answer's bytes to a new file, all of them or none."""
    expected = int(answer.headers.get("Content-Length") or 0)
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        size = 0
        with os.fdopen(descriptor, "wb") as file:
            while part := answer.read(_PART_BYTES):
                size += file.write(part)
                if progress is not None:
                    progress(size, max(size, expected))
            file.flush()
            os.fsync(file.fileno())
        if size != expected:
            raise http.client.IncompleteRead(b"", expected - size)
    except BaseException:
        os.unlink(target)
        raise


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
    if reply.status not in (429, 503) or not given.isdigit():
        return None
    return float(given) if float(given) <= _LONGEST_WAIT_S else None


def _checked(reply: Reply) -> Reply:
    if reply.status < 300:
        return reply
    document: Document | None = None
    if reply.headers.get("content-type", "").startswith("application/problem+json"):
        try:
            document = json.loads(reply.body)
        except ValueError:
            document = None
    if not document or "code" not in document:
        raise PassdownError(
            f"the server answered with status {reply.status}, which is no answer of Passdown's",
            next_step="Check the address; redirects are not followed.",
            code="not_a_server",
        )
    raise error_from({**document, "error": document["code"], "message": document["detail"]})


def _unreachable(server: Server, error: Exception, is_safe: bool) -> StoreUnavailable:
    said = "" if is_safe else " Whether it was written is unknown: look, or use a key."
    return StoreUnavailable(
        f"{server.url} can't be reached ({error}).{said}",
        next_step="Check the address and the server, then try again.",
    )

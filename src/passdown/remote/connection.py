"""HTTP connections to a server: kept open, never redirected, retried only where that is safe.

Only the standard library is used. Certificates are checked; without TLS a token is sent to this
machine only, unless PASSDOWN_PLAIN_HTTP says that the network is trusted. Responses are bounded in
time and size; files are written whole or not at all.
"""

from __future__ import annotations

import http.client
import io
import ipaddress
import json
import os
import select
import shutil
import ssl
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from urllib.parse import quote, urlencode, urlsplit

from passdown import __version__, tracing
from passdown.core.text import has_lone_surrogate, visible
from passdown.errors import (
    InvalidInput,
    PassdownError,
    Problem,
    StoreUnavailable,
    error_from_document,
)

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator, Mapping

    from passdown.core.types import JsonObject, Progress
    from passdown.ledger.verification import Verification


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
        """Close the socket."""
        self._raw.close()
        super().close()


class _Source(NamedTuple):
    """A socket as `http.client` wants it."""

    sock: socket.socket
    deadline: Deadline

    def makefile(self, mode: str) -> io.BufferedReader:
        """The bytes to come."""
        return io.BufferedReader(_Timed(self.sock, self.deadline), _PIECE)


def limit_response_time(connection: http.client.HTTPConnection, deadline: Deadline) -> None:
    """Have the answers of a connection be there by a deadline, or not at all."""

    def answer(sock: socket.socket, *given: Any, **named: Any) -> http.client.HTTPResponse:
        source: Any = _Source(sock, deadline)
        return http.client.HTTPResponse(source, *given, **named)

    within: Any = connection
    within.response_class = answer


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

    def document(self) -> Any:
        """The JSON object in it; raises PassdownError where there is none."""
        if self.media != "application/json":
            raise not_passdown(self)
        return self.read_document()

    def read_document(self) -> JsonObject:
        """The JSON object in it, whatever it calls itself."""
        try:
            found = json.loads(self.body)
        except (ValueError, RecursionError) as error:
            raise not_passdown(self, "can't be read as JSON") from error
        if not isinstance(found, dict):
            raise not_passdown(self, "is no JSON object")
        return cast("JsonObject", found)


def reply_of(url: str, answer: http.client.HTTPResponse, most: int) -> HttpReply:
    """A whole answer of at most so many bytes; raises PassdownError for a larger one, and
    IncompleteRead for one that was cut off.
    """
    headers = {name.lower(): value for name, value in answer.getheaders()}
    head = HttpReply(url, answer.status, headers, b"")
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


def checked_reply(reply: HttpReply) -> HttpReply:
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
        error = error_from_document(told)
    except (KeyError, TypeError, ValueError, AttributeError) as wrong:
        raise not_passdown(reply, "is no problem document") from wrong
    raise error


def not_passdown(reply: HttpReply, why: str = "") -> PassdownError:
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


_SLOWEST = 16_384
"""How many bytes a second have to arrive, once the time for all of it is over."""
_MAGIC = b"SQLite format 3\0"
_PART_BYTES = 1_048_576


def kept_if_whole(target: str, fetch: Callable[[str], None]) -> Verification:
    """Fetch a copy of a store under another name, verify it, and only then let it have its own.

    One that was damaged already where it came from is kept beside it: it may be all that there is.
    """
    from passdown.workspace.maintenance import verify_copy

    temporary = f"{target}.{os.getpid()}.{os.urandom(4).hex()}.tmp"
    try:
        fetch(temporary)
        _check_kind(temporary)
        found = verify_copy(temporary)
        name = target if found.ok else f"{target}.damaged"
        _give_name(temporary, name)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
    if found.ok:
        return found
    kept = Problem("target", "damaged_copy", f"is not {target}: it is kept as {name}")
    return found._replace(findings=(*found.findings, kept))


def _check_kind(path: str) -> None:
    """Refuse what is no database: of nothing, one would be made."""
    with open(path, "rb") as file:
        if file.read(len(_MAGIC)) == _MAGIC:
            return
    raise PassdownError(
        "what came as a backup is no database; nothing was kept",
        next_step="Check the address: a proxy or another program may answer there.",
        code="not_a_server",
    )


def _give_name(temporary: str, name: str) -> None:
    """Give a file its name, unless another has it by now."""
    try:
        os.link(temporary, name)
    except OSError as error:
        if os.path.lexists(name):
            problem = Problem("target", "exists", f"{name} exists already", "a new file name")
            raise InvalidInput("nothing was written", [problem]) from error
        os.rename(temporary, name)  # a file system without links


def save(
    answer: http.client.HTTPResponse,
    target: str,
    deadline: Deadline,
    progress: Progress | None,
) -> None:
    """Write an answer's bytes to a new file that only its owner can read, all of them or none."""
    length = answer.headers.get("Content-Length", "")
    if not length.isascii() or not length.isdigit():
        raise http.client.HTTPException("it doesn't say how long its answer is")
    expected = int(length)
    _check_room(target, expected)
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        size = 0
        with os.fdopen(descriptor, "wb") as file:
            while part := answer.read(_PART_BYTES):
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


def _check_room(target: str, size: int) -> None:
    """Refuse a file that there is no room for, before the disk is full."""
    free = shutil.disk_usage(os.path.dirname(os.path.abspath(target))).free
    if size > free:
        message = f"has {size:,} bytes, and {free:,} are free"
        raise InvalidInput(
            "nothing was written", [Problem("target", "no_room", message, "room for it")]
        )


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
            wait_s = _retry_after(reply)
            if is_last or wait_s is None or (reply.status != 429 and not is_safe):
                return checked_reply(reply)
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
                    raise not_passdown(checked_reply(reply))
                save(answer, target, deadline, progress)
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
        if key is not None:
            headers["Idempotency-Key"] = _header_text(key)
        if expect_version is not None:
            _check_version(expect_version)
            headers["If-Match"] = f'"{expect_version}"'
        return headers

    def _once(self, request: _Request, timeout_s: float) -> HttpReply:
        """Ask once. What goes on is told as a span, and the server where to go on with it."""
        method = request.method
        with tracing.part(method, self._attributes(method, request.target), kind="client") as span:
            tracing.carry(request.headers)
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

    def _exchanged(self, request: _Request, timeout_s: float) -> HttpReply:
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
        limit_response_time(connection, deadline)
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
    sent = None if data is None else _body_chunks(connection, data, deadline)
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


def _body_chunks(
    connection: http.client.HTTPConnection, data: bytes, deadline: Deadline
) -> Iterator[bytes]:
    """A body piece by piece, all of which have to be taken by a deadline."""
    for start in range(0, len(data), _PIECE_BYTES):
        connection.sock.settimeout(deadline.left())
        yield data[start : start + _PIECE_BYTES]


def path_part(text: object) -> str:
    """A task, an item or a gate as one part of a path."""
    return quote(str(text), safe="") or "%20"


def _query_string(query: Mapping[str, Any]) -> str:
    pairs = [(name, _word(each)) for name, value in query.items() for each in _entries(value)]
    try:
        return "?" + urlencode(pairs) if pairs else ""
    except UnicodeEncodeError as error:
        odd = next(name for name, text in pairs if has_lone_surrogate(text))
        problem = Problem(odd, "lone_surrogate", "holds half a character", "whole characters")
        raise InvalidInput("refused; nothing was asked", [problem]) from error


def _entries(value: object) -> list[object]:
    return list(cast("list[object]", value)) if isinstance(value, list | tuple) else [value]


def _word(value: object) -> str:
    if value is None:
        return ""
    # A text that has to be there and is empty: a blank, which names nothing either.
    return str(value).lower() if isinstance(value, bool) else str(value) or " "


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


def _retry_after(reply: HttpReply) -> float | None:
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

"""Requests as a test wants them: every header as given, bodies as bytes, answers as they came."""

from __future__ import annotations

import http.client
import json
import logging
import re
import socket
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

Document = dict[str, Any]


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def document(self) -> Any:
        return json.loads(self.body)

    @property
    def codes(self) -> set[str]:
        """The code of a problem document and of each problem in it."""
        assert self.headers["content-type"] == "application/problem+json"
        document: Document = self.document
        assert document["status"] == self.status
        return {document["code"]} | {problem["code"] for problem in document.get("problems", ())}


def ask(
    port: int,
    method: str,
    path: str,
    *,
    token: str = "",
    body: Any = None,
    headers: Mapping[str, str] | None = None,
) -> Reply:
    """One request on a connection of its own; `headers` come last and replace what is usual."""
    sent = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    usual = {"Host": f"127.0.0.1:{port}"}
    if token:
        usual["Authorization"] = f"Bearer {token}"
    if sent is not None:
        usual |= {"Content-Type": "application/json", "Content-Length": str(len(sent))}
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=240)
    try:
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        for name, value in {**usual, **(headers or {})}.items():
            connection.putheader(name, value)
        connection.endheaders(sent)
        answer = connection.getresponse()
        found = {name.lower(): value for name, value in answer.getheaders()}
        return Reply(answer.status, found, answer.read())
    finally:
        connection.close()


def spoken(port: int, raw: bytes) -> bytes:
    """Bytes as they are, and what comes back until the server hangs up or says no more."""
    return hung_up(port, raw, silence_s=0.5)[0]


def hung_up(port: int, raw: bytes, silence_s: float = 30) -> tuple[bytes, bool]:
    """Bytes as they are, what comes back, and whether the server hung up: a whole answer is
    followed by so much silence otherwise.
    """
    said = b""
    with socket.create_connection(("127.0.0.1", port), timeout=120) as wire:
        try:
            wire.sendall(raw)
            while part := wire.recv(65_536):
                said += part
                if _is_whole(said):
                    wire.settimeout(silence_s)
        except TimeoutError:
            return said, False
        except ConnectionError:
            pass
    return said, True


def _is_whole(said: bytes) -> bool:
    head, _, body = said.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)\r\ncontent-length: (\d+)", head)
    return length is not None and len(body) >= int(length[1])


@contextmanager
def heard() -> Generator[list[str]]:
    """The lines that servers of this process log meanwhile, once they are whole."""
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())
    log = logging.getLogger("passdown.web")
    level = log.level
    log.setLevel(logging.INFO)
    log.addHandler(handler)
    try:
        yield lines
        until = time.monotonic() + 240
        while not lines and time.monotonic() < until:
            time.sleep(0.01)
    finally:
        log.removeHandler(handler)
        log.setLevel(level)


_seen: list[tuple[str, int]] | None = None


def _watch(event: str, given: tuple[Any, ...]) -> None:
    if _seen is not None and event == "socket.connect":
        _seen.append(given[1])


@contextmanager
def connections() -> Generator[list[tuple[str, int]]]:
    """Where this process connects to meanwhile, server and all."""
    global _seen  # noqa: PLW0603
    if not _watched:
        sys.addaudithook(_watch)
        _watched.append(True)
    _seen = found = []
    try:
        yield found
    finally:
        _seen = None


_watched: list[bool] = []

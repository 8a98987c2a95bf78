"""A server that answers as a test wants it to: real sockets, and no rules."""

from __future__ import annotations

import json
import socket
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    Answering = Callable[["Client"], None]


class Client(NamedTuple):
    """Who asks: what was asked, and the way to answer."""

    sock: socket.socket
    head: bytes
    ended: threading.Event

    @property
    def target(self) -> str:
        return self.head.split(b" ")[1].decode()

    def send(self, data: bytes) -> None:
        self.sock.sendall(data)

    def drip(self, data: bytes, seconds: float = 0.05) -> None:
        """Send byte after byte, slowly, until the test is over."""
        for place in range(len(data)):
            if self.ended.wait(seconds):
                return
            self.send(data[place : place + 1])

    def document(self, document: Any, **headers: str) -> None:
        self.answer(json.dumps(document).encode(), "application/json", **headers)

    def answer(self, body: bytes, media: str, status: str = "200 OK", **headers: str) -> None:
        named = {"Content-Type": media, "Content-Length": str(len(body))}
        named |= {name.replace("_", "-"): value for name, value in headers.items()}
        lines = "".join(f"{name}: {value}\r\n" for name, value in named.items())
        self.send(f"HTTP/1.1 {status}\r\n{lines}\r\n".encode() + body)


class Odd(NamedTuple):
    """Where it is, and the heads of all requests that came."""

    url: str
    heads: list[bytes]


@contextmanager
def odd_server(answering: Answering) -> Generator[Odd]:
    """A server that calls `answering` for each request, one request for a connection."""
    listening = socket.create_server(("127.0.0.1", 0))
    ended = threading.Event()
    heads: list[bytes] = []

    def serve(sock: socket.socket) -> None:
        with sock, suppress(OSError):
            head = b""
            while b"\r\n\r\n" not in head:
                head += sock.recv(65_536) or b"\r\n\r\n"
            heads.append(head)
            answering(Client(sock, head, ended))

    def accept() -> None:
        while not ended.is_set():
            try:
                sock, _ = listening.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(sock,), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield Odd(f"http://127.0.0.1:{listening.getsockname()[1]}", heads)
    finally:
        ended.set()
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join(5)

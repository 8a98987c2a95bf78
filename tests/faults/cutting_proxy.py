"""A proxy on the loopback that breaks connections: cut, reset or stalled after some bytes."""

from __future__ import annotations

import random
import select
import socket
import struct
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable

WAYS = ("cut", "reset", "stalled")


class CuttingProxy:
    """Passes bytes between clients and a server's socket; use it as a context manager.

    Each connection ends in one of three ways once it has carried so many bytes as were drawn for
    it. `done` counts the ways. With `is_calm` set, connections are left alone; with `hangs` set,
    nothing passes any more. `round_trips` counts how often a client spoke after its server.
    """

    def __init__(self, server: str, seed: str, stall_s: float = 3.0) -> None:
        """`server` is the path of the server's socket."""
        self._server = server
        self._rng = random.Random(seed)
        self._stall_s = stall_s
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=64)
        self._lock = threading.Lock()
        self._is_closed = threading.Event()
        self.is_calm = threading.Event()
        self.hangs = threading.Event()
        self.done: Counter[str] = Counter()
        self.round_trips = 0

    @property
    def port(self) -> int:
        """Where it listens."""
        return self._listening.getsockname()[1]

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_closed.set()
        self._listening.close()

    def _accept(self) -> None:
        while not self._is_closed.is_set():
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            # Most break while they are at work, some while they connect.
            limit = self._rng.randint(*self._rng.choice([(50, 2_000), (2_000, 150_000)]))
            way = self._rng.choice(WAYS)
            threading.Thread(target=self._serve, args=(client, limit, way), daemon=True).start()

    def _serve(self, client: socket.socket, limit: int, way: str) -> None:
        server = socket.socket(socket.AF_UNIX)
        try:
            server.connect(self._server)
            if self._pass(client, server, limit):
                with self._lock:
                    self.done[way] += 1
                _BREAK[way](self, client)
        except OSError:
            pass  # one of them has gone
        finally:
            client.close()
            server.close()

    def _pass(self, client: socket.socket, server: socket.socket, limit: int) -> bool:
        """Carry bytes both ways; True once the limit is reached, False when one side has ended."""
        carried = 0
        other = {client: server, server: client}
        last = server
        while not self._is_closed.is_set():
            if self.hangs.is_set():
                time.sleep(0.1)
                continue
            for source in select.select([client, server], [], [], 0.2)[0]:
                left = limit - carried
                data = source.recv(65_536 if self.is_calm.is_set() else max(1, min(left, 65_536)))
                if not data:
                    return False
                with self._lock:
                    self.round_trips += source is client and last is server
                last = source
                other[source].sendall(data)
                carried += len(data)
                if carried >= limit and not self.is_calm.is_set():
                    return True
        return False

    def _cut(self, client: socket.socket) -> None:
        client.shutdown(socket.SHUT_RDWR)

    def _reset(self, client: socket.socket) -> None:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def _stall(self, client: socket.socket) -> None:
        """Say nothing, either way, for some time."""
        time.sleep(self._stall_s)


_BREAK: dict[str, Callable[[CuttingProxy, socket.socket], None]] = {
    "cut": CuttingProxy._cut,  # pyright: ignore[reportPrivateUsage]
    "reset": CuttingProxy._reset,  # pyright: ignore[reportPrivateUsage]
    "stalled": CuttingProxy._stall,  # pyright: ignore[reportPrivateUsage]
}

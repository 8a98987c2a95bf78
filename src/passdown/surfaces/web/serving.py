"""Running the server: this module and `wire` alone know uvicorn.

It listens before anything is printed, so that the address that is printed answers. Asked to stop,
it takes nothing new, ends the streams, finishes what it has begun, and lets go of the store.
"""

from __future__ import annotations

import logging
import socket
import sys
from typing import TYPE_CHECKING, NamedTuple

import uvicorn

from passdown.errors import StoreUnavailable
from passdown.model.text import visible
from passdown.surfaces.web.app import built
from passdown.surfaces.web.hosts import names_of
from passdown.surfaces.web.house import House, Options, line_of
from passdown.surfaces.web.wire import BoundedProtocol

if TYPE_CHECKING:
    from types import FrameType

    from passdown.surfaces.mcp.door import Door
    from passdown.surfaces.web.limits import Limits

PATIENCE_S = 10
_LONGEST_LINE = 500
_TURN_S = 0.0005


class Listening(NamedTuple):
    """A socket that is bound, and the address that it answers at."""

    sock: socket.socket
    address: str
    port: int

    @property
    def url(self) -> str:
        """The address, as a browser would have it."""
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"http://{host}:{self.port}"


def listen(address: str, port: int) -> Listening:
    """Bind an address. Port 0 takes any that is free."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((address, port))
        sock.listen(1024)
    except OSError as error:
        sock.close()
        raise StoreUnavailable(
            f"{address}:{port} can't be listened at ({error.strerror or error})",
            next_step="Another server may be there already; --port names another port.",
            code="address_in_use",
        ) from error
    return Listening(sock, address, sock.getsockname()[1])


class Server(uvicorn.Server):
    """A server that ends its streams when it is told to stop; they would wait for each other."""

    def __init__(self, config: uvicorn.Config, house: House) -> None:
        super().__init__(config)
        self._house = house

    def stop(self) -> None:
        """Stop as if by a signal; any thread may call it."""
        self._house.stop()
        self.should_exit = True

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A signal to stop: what is open ends, what has begun is finished."""
        self._house.stop()
        super().handle_exit(sig, frame)


def server_of(
    door: Door,
    place: Listening,
    allowed: tuple[str, ...],
    limits: Limits,
    *,
    logs_all: bool = False,
) -> Server:
    """A server that is ready to run; `run(sockets=[...])` serves until it is told to stop."""
    house = House(door, Options(names_of(place.address, place.port, allowed), limits, logs_all))
    config = uvicorn.Config(
        built(house),
        http=BoundedProtocol,
        log_config=None,
        access_log=False,
        server_header=False,
        ws="none",
        lifespan="on",
        timeout_keep_alive=30,
        timeout_graceful_shutdown=PATIENCE_S,
        limit_concurrency=limits.connections,
        proxy_headers=False,
    )
    return Server(config, house)


def serve(
    door: Door,
    place: Listening,
    allowed: tuple[str, ...],
    limits: Limits,
    *,
    logs_all: bool = False,
) -> None:
    """Answer until a signal says stop."""
    # Threads that compute take turns; the loop, which everybody waits for, is one among them.
    sys.setswitchinterval(_TURN_S)
    _log_to_stderr()
    server_of(door, place, allowed, limits, logs_all=logs_all).run(sockets=[place.sock])


class _AsJson(logging.Formatter):
    """A line of JSON of what another library logs."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, without a traceback."""
        said = visible(record.getMessage())[:_LONGEST_LINE]
        level = record.levelname.lower()
        return line_of("spans", level=level, logger=record.name, message=said)


def _log_to_stderr() -> None:
    """Lines of JSON on standard error; of uvicorn's own only those about its faults."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(message)s"))
    log = logging.getLogger("passdown.web")
    log.setLevel(logging.INFO)
    log.addHandler(handler)
    log.propagate = False
    # Spans that can't be sent are told about in lines of the same kind.
    unsent = logging.StreamHandler()
    unsent.setFormatter(_AsJson())
    spans = logging.getLogger("opentelemetry")
    spans.addHandler(unsent)
    spans.propagate = False
    # What strangers send can't be read or upgraded: that is no news, and not ours to spell.
    logging.getLogger("uvicorn").setLevel(logging.ERROR)

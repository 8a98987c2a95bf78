"""A server over a workspace that a test has open: real sockets on 127.0.0.1, in a thread."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import uvicorn.server

import passdown
from passdown.core.access import RIGHTS
from passdown.web.server import build_server, listen
from passdown.web.server_state import Limits
from passdown.workspace.tokens import Tokens

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from passdown import Workspace

EVERY_RIGHT = RIGHTS
QUICK = Limits(rate=0)


class Looking:
    """asyncio for the server's loop, which looks every tenth of a second whether it is to stop:
    hundreds of tests would wait for that.
    """

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    @staticmethod
    async def sleep(seconds: float) -> None:
        await asyncio.sleep(seconds / 10)


uvicorn.server.asyncio = Looking()  # type: ignore[assignment]


class Lent:
    """Lends one workspace at a time, which whoever opened it closes."""

    def __init__(self, workspace: Workspace) -> None:
        self.lent = workspace

    @contextmanager
    def workspace(self) -> Generator[Workspace]:
        yield self.lent

    def close(self) -> None:
        pass


class Served(NamedTuple):
    """Where a server answers, and the workspace behind it."""

    url: str
    port: int
    workspace: Workspace
    stop: Callable[[], None]

    def token(self, name: str, *rights: str, is_person: bool = False, expires: str = "") -> str:
        """A new token, made by another process as it were: the test's own clock stands still."""
        with passdown.open(self.workspace.store_url) as beside:
            tokens = Tokens(beside)
            minted = tokens.new(name, rights, by="tests", is_person=is_person, expires=expires)
        return minted.token

    def opened(self, name: str, *rights: str, is_person: bool = False) -> Workspace:
        return passdown.open(self.url, token=self.token(name, *rights, is_person=is_person))


@contextmanager
def served(
    workspace: Workspace,
    limits: Limits = QUICK,
    *,
    host: str = "127.0.0.1",
    allowed: tuple[str, ...] = (),
    lent: Lent | None = None,
    port: int = 0,
) -> Generator[Served]:
    """Serve a workspace, or what `lent` lends, until the block ends."""
    place = listen(host, port)
    server = build_server(lent or Lent(workspace), place, allowed, limits)  # type: ignore[arg-type]
    thread = threading.Thread(target=server.run, kwargs={"sockets": [place.sock]}, daemon=True)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.005)
        yield Served(place.url, place.port, workspace, server.stop)
    finally:
        server.stop()
        thread.join(240)
        place.sock.close()
        assert not thread.is_alive()


@contextmanager
def over_http(workspace: Workspace) -> Generator[Workspace]:
    """The same workspace through a server, with a token that speaks for everybody."""
    with (
        served(workspace) as server,
        server.opened("tests", *EVERY_RIGHT, is_person=True) as remote,
    ):
        yield remote

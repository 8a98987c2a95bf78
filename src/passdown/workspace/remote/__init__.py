"""A workspace behind a server: the same methods with the same meaning.

What needs files or functions of one machine says so and names what to do (`elsewhere`). Settings
and the clock are the server's; profiles, bundles, backups, the repository and the files that
handoffs and decisions name are those of the machine that asks.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from passdown.errors import InvalidInput, NotAllowed, Problem
from passdown.workspace import Workspace
from passdown.workspace.remote.address import server_at
from passdown.workspace.remote.connection import Wire
from passdown.workspace.remote.elsewhere import Elsewhere, not_offered
from passdown.workspace.remote.keeps import RemoteKeeps
from passdown.workspace.remote.knows import RemoteKnows
from passdown.workspace.remote.reads import RemoteReads
from passdown.workspace.remote.tells import RemoteTells
from passdown.workspace.remote.writes import RemoteWrites

if TYPE_CHECKING:
    from passdown.workspace.opened import Opened


def connect(url: str, token: str = "") -> RemoteWorkspace:
    """Open the workspace of a server; the token is given, or PASSDOWN_TOKEN has it."""
    return RemoteWorkspace(_wire(url, token))


def token_holder(url: str) -> str:
    """Whose token PASSDOWN_TOKEN is, as its server says."""
    wire = _wire(url, "")
    try:
        return str(wire.ask("GET", "/api/me").document().get("name", ""))
    finally:
        wire.close()


def _wire(url: str, token: str) -> Wire:
    server = server_at(url)
    token = (token or os.environ.get("PASSDOWN_TOKEN", "")).strip()
    if not token:
        raise NotAllowed(
            f"{server.url} needs a token",
            next_step="Set PASSDOWN_TOKEN, or give it to passdown.open; passdown token new "
            "makes one where the server is.",
            code="no_token",
        )
    if not token.isascii() or not token.isprintable() or " " in token:
        message = "holds what stands in no token"
        expected = "the line that passdown token new printed, and nothing else"
        problem = Problem("token", "invalid_form", message, expected)
        raise InvalidInput("the server can't be opened", [problem])
    return Wire(server, token)


class RemoteWorkspace(  # pyright: ignore[reportIncompatibleVariableOverride] - it has a wire
    RemoteWrites, RemoteReads, RemoteTells, RemoteKnows, RemoteKeeps, Elsewhere, Workspace
):
    """One team's records, behind a server. Threads may share it."""

    def __init__(self, wire: Wire) -> None:
        """Nothing is asked until the first call; `passdown.open` makes it from an address."""
        self._wire = wire

    def close(self) -> None:
        """Close the connections."""
        self._wire.close()

    @property
    def root(self) -> str:
        """The folder that this program works in; the project's own is the server's."""
        return os.getcwd()

    @property
    def store_url(self) -> str:
        """The server's address."""
        return self._wire.server.url

    @property
    def store_shown(self) -> str:
        """The same: an address holds no password."""
        return self.store_url

    @property
    def _opened(self) -> Opened:  # pyright: ignore[reportIncompatibleVariableOverride]
        """What every method reaches for that works on the store itself."""
        raise not_offered(self._wire.server.url, "this")

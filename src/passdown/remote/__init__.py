"""A workspace on a server: the same methods with the same meaning.

What needs files or functions of the server's machine is refused with what to do instead. Settings
and the clock are the server's; profiles, bundles, backups, the repository and the files that
handoffs and decisions name are those of the client's machine.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from passdown.errors import InvalidInput, NotAllowed, Problem
from passdown.remote.client import (
    RemoteBriefMethods,
    RemoteKnowledgeMethods,
    RemoteMaintenanceMethods,
    RemoteReadMethods,
    RemoteWriteMethods,
    UnsupportedMethods,
    unsupported,
)
from passdown.remote.connection import HttpConnection, server_at
from passdown.workspace import Workspace

if TYPE_CHECKING:
    from passdown.workspace.context import Context


def connect(url: str, token: str = "") -> RemoteWorkspace:
    """Open the workspace of a server; the token is given, or PASSDOWN_TOKEN has it."""
    return RemoteWorkspace(_connect(url, token))


def token_holder(url: str) -> str:
    """Whose token PASSDOWN_TOKEN is, as its server says."""
    wire = _connect(url, "")
    try:
        return str(wire.ask("GET", "/api/me").document().get("name", ""))
    finally:
        wire.close()


def _connect(url: str, token: str) -> HttpConnection:
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
    return HttpConnection(server, token)


class RemoteWorkspace(  # pyright: ignore[reportIncompatibleVariableOverride] - it has a wire
    RemoteWriteMethods,
    RemoteReadMethods,
    RemoteBriefMethods,
    RemoteKnowledgeMethods,
    RemoteMaintenanceMethods,
    UnsupportedMethods,
    Workspace,
):
    """One team's records, behind a server. Threads may share it."""

    def __init__(self, wire: HttpConnection) -> None:
        """Nothing is asked until the first call; `passdown.open` makes it from an address."""
        self._connection = wire

    def close(self) -> None:
        """Close the connections."""
        self._connection.close()

    @property
    def root(self) -> str:
        """The folder that this program works in; the project's own is the server's."""
        return os.getcwd()

    @property
    def store_url(self) -> str:
        """The server's address."""
        return self._connection.server.url

    @property
    def store_label(self) -> str:
        """The same: an address holds no password."""
        return self.store_url

    @property
    def _context(self) -> Context:  # pyright: ignore[reportIncompatibleVariableOverride]
        """What every method reaches for that works on the store itself."""
        raise unsupported(self._connection.server.url, "this")

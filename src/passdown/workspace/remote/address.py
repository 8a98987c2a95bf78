"""The address of a server: what it says, and whether a token may be sent there."""

from __future__ import annotations

import ipaddress
import os
from typing import NamedTuple
from urllib.parse import urlsplit

from passdown.errors import InvalidInput, Problem


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

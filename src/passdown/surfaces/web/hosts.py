"""Which names this server answers to: compared to the letter, before anything else is looked at.

A page of another site can make a browser send requests here, also under a name that was pointed to
this machine a moment ago. It can't make the browser lie about the name or about where it came from.
"""

from __future__ import annotations

import ipaddress
import re
from typing import NamedTuple

from passdown.errors import InvalidInput, Problem

LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")

_NAME = re.compile(
    r"(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?){0,20}"
    r"|\[[0-9a-f:]{2,39}\])(?::([0-9]{1,5}))?"
)


class Names(NamedTuple):
    """The Host headers and the Origins that are taken."""

    hosts: frozenset[str]
    origins: frozenset[str]


def is_loopback(address: str) -> bool:
    """Whether only this machine can reach an address to listen at."""
    if address == "localhost":
        return True
    try:
        return ipaddress.ip_address(address.strip("[]")).is_loopback
    except ValueError:
        return False


def names_of(address: str, port: int, allowed: tuple[str, ...]) -> Names:
    """What is taken by a server that listens at an address, under the names that people gave.

    A name without a port stands for itself, as behind a proxy, and with this server's port. Only
    this machine's own names are taken as an origin without TLS.
    """
    hosts: set[str] = set()
    origins: set[str] = set()
    if is_loopback(address):
        for name in LOOPBACK_NAMES:
            spelled = {f"{name}:{port}", *([name] if port == 80 else [])}
            hosts |= spelled
            origins |= {f"http://{host}" for host in spelled}
    for name in allowed:
        spelled = {name} if _has_port(name) else {name, f"{name}:{port}"}
        hosts |= spelled
        origins |= {f"https://{host}" for host in spelled}
    return Names(frozenset(hosts), frozenset(origins))


def checked_names(given: list[str]) -> tuple[str, ...]:
    """Names to be allowed, in small letters. Raises InvalidInput for what is no host's name."""
    names = tuple(name.lower().removesuffix(".") for name in given)
    problems = [
        Problem("allowed-host", "invalid_host", f"{name[:80]!r}", "a name, or a name:port")
        for name in names
        if not _NAME.fullmatch(name)
    ]
    if problems:
        raise InvalidInput("the server was not started", problems)
    return names


def _has_port(name: str) -> bool:
    match = _NAME.fullmatch(name)
    return bool(match and match[1])

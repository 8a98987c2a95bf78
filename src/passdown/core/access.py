"""Access tokens for the server: their rights, how they are made and compared."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple

from passdown.core.names import agent_problems
from passdown.core.text import excerpt
from passdown.core.times import parse_time
from passdown.errors import Problem, raise_problems

RIGHTS = ("read", "write", "approve", "others", "admin")
"""To look, to record as oneself, to answer gates, to record in the names of others (what a program
needs that speaks for several agents), and to keep the store: copy it, take bundles in, rebuild it.
"""

PERSON_ONLY_RIGHTS = {
    "approve": "gates are answered by people, never by agents",
    "admin": "a bundle may bring answers to gates, so a person takes it in",
}
"""Rights that no agent's token has, each with the reason."""

_TOKEN = re.compile(r"pdt_([a-z2-7]{10})_([A-Za-z0-9_-]{43})")
_ID_BYTES, _SECRET_BYTES = 6, 32


class AccessToken(NamedTuple):
    """A token as it is kept: whose it is, what it allows, until when. `is_person` says that a
    human being holds it. An empty `expires` or `revoked` means never. One with a `parent`, as a
    browser has, ends with that token.
    """

    id: str
    name: str
    is_person: bool
    rights: tuple[str, ...]
    digest: str
    made: str
    expires: str = ""
    revoked: str = ""
    label: str = ""
    parent: str = ""

    def state(self, now: datetime) -> str:
        """Its state now: live, expired or revoked."""
        if self.revoked:
            return "revoked"
        is_over = bool(self.expires) and parse_time(self.expires) <= now
        return "expired" if is_over else "live"

    def may(self, right: str) -> bool:
        """Whether it has a right."""
        return right in self.rights

    def to_dict(self) -> dict[str, Any]:
        """The token as plain JSON, without its digest."""
        document = {**self._asdict(), "rights": list(self.rights)}
        del document["digest"]
        if not self.parent:
            del document["parent"]
        return document


def new_token(random: bytes) -> tuple[str, str]:
    """A token's id and the whole token, from `ID_BYTES + SECRET_BYTES` random bytes."""
    if len(random) != _ID_BYTES + _SECRET_BYTES:
        raise ValueError(f"{len(random)} random bytes given, {_ID_BYTES + _SECRET_BYTES} expected")
    name = base64.b32encode(random[:_ID_BYTES]).decode().rstrip("=").lower()
    secret = base64.urlsafe_b64encode(random[_ID_BYTES:]).decode().rstrip("=")
    return name, f"pdt_{name}_{secret}"


RANDOM_BYTES = _ID_BYTES + _SECRET_BYTES


def token_id(token: str) -> str:
    """The id within a token; empty where it has not the shape of one."""
    match = _TOKEN.fullmatch(token)
    return match[1] if match else ""


def token_digest(token: str) -> str:
    """The stored digest of a token."""
    return "sha256:" + hashlib.sha256(token.encode()).hexdigest()


def token_matches(token: str, kept: AccessToken) -> bool:
    """Compare a token with a stored one in constant time."""
    return hmac.compare_digest(token_digest(token), kept.digest)


def server_proof(digest: str, port: int, nonce: str) -> str:
    """What a server answers that knows a token's digest: whoever asks then knows that the token can
    be sent. It holds for one port, so that nobody can pass on another server's answer.
    """
    said = f"passdown server {port} {nonce}".encode()
    return hmac.new(digest.encode(), said, "sha256").hexdigest()


def checked_rights(given: Iterable[str], *, is_person: bool) -> tuple[str, ...]:
    """Rights in their fixed order, each once; `read` comes with any other.

    Raises InvalidInput for unknown ones, for none, and for those of people in an agent's token.
    """
    asked = list(given)
    expected = " | ".join(RIGHTS)
    problems = [
        Problem("rights", "invalid_choice", f"{excerpt(name)!r}", expected)
        for name in asked
        if name not in RIGHTS
    ]
    if not asked:
        problems.append(Problem("rights", "required", "none are named", expected))
    problems += [
        Problem("rights", "not_allowed", why, "a token of a person")
        for right, why in PERSON_ONLY_RIGHTS.items()
        if right in asked and not is_person
    ]
    raise_problems("no token was made", problems)
    return tuple(right for right in RIGHTS if right in asked or right == "read")


def access_problems(name: str, expires: str, now: datetime) -> list[Problem]:
    """What is wrong with a token's name, or with the time that it is to expire at."""
    problems = agent_problems(name, "name")
    if expires:
        try:
            is_past = parse_time(expires) <= now
        except ValueError as error:
            problems.append(Problem("expires", "invalid_time", str(error), "a time with a zone"))
        else:
            if is_past:
                message = f"{expires} is over"
                problems.append(Problem("expires", "out_of_range", message, "a time to come"))
    return problems


def is_loopback(address: str) -> bool:
    """Whether only this machine can reach an address; any name but localhost may be another's."""
    from ipaddress import ip_address

    try:
        return address == "localhost" or ip_address(address.strip("[]")).is_loopback
    except ValueError:
        return False

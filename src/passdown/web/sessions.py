"""Signing in to the dashboard: one-time codes, the cookie, and the value that proves a page's own
requests.

The cookie holds a token of its own, which was made from the token that asked for the link and ends
with it. Cookies go to every port of a host, so a request with one is only believed if it comes from
a page of this server: by its Origin and by a value that is in those pages alone.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from typing import TYPE_CHECKING

from passdown.workspace.tokens import SESSION_DAYS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from passdown.core.access import AccessToken

    Headers = Sequence[tuple[bytes, bytes]]

SIGN_IN_PATH = "/sign-in"
PROOF_PATH = "/proof"
STATIC_PATH = "/static/"
MCP_PATH = "/mcp"
CODE_SECONDS = 60.0
_MAX_CODES = 1_000
_MAX_COOKIES = 8
_SAFE_METHODS = ("GET", "HEAD")
_PORT = re.compile(r":([0-9]{1,5})$")


class SignInCodes:
    """Codes that a browser exchanges for its cookie: each once, within a minute."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._codes: dict[str, tuple[float, AccessToken]] = {}

    def new(self, access: AccessToken) -> str:
        """A code for the holder of a token."""
        now = self._clock()
        self._codes = {code: kept for code, kept in self._codes.items() if kept[0] > now}
        while len(self._codes) >= _MAX_CODES:
            del self._codes[next(iter(self._codes))]
        code = secrets.token_urlsafe(32)
        self._codes[_digest(code)] = (now + CODE_SECONDS, access)
        return code

    def take(self, code: str) -> AccessToken | None:
        """Whose code this is; it can't be used again."""
        until, access = self._codes.pop(_digest(code), (0.0, None))
        return access if self._clock() < until else None


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _values(headers: Headers, name: bytes) -> list[str]:
    return [value.decode("latin-1") for each, value in headers if each == name]


def _cookie_name(headers: Headers) -> str:
    """The cookie of this port: those of other servers on the same host come along."""
    port = _PORT.search(next(iter(_values(headers, b"host")), ""))
    return f"passdown_{port[1]}" if port else "passdown"


def session_tokens(headers: Headers) -> list[str]:
    """What cookies of this server's name hold, its own first: those that another server of the
    host has set for longer paths come before it.
    """
    name = f"{_cookie_name(headers)}="
    parts = (part.strip() for value in _values(headers, b"cookie") for part in value.split(";"))
    found = [part[len(name) :] for part in parts if part.startswith(name)]
    return [token for token in reversed(found) if token][:_MAX_COOKIES]


def cookie(headers: Headers, token: str) -> str:
    """The header Set-Cookie for a token; an empty one ends the session."""
    age = SESSION_DAYS * 86_400 if token else 0
    secure = "; Secure" if any(v.startswith("https:") for v in _values(headers, b"origin")) else ""
    return (
        f"{_cookie_name(headers)}={token}; Path=/; HttpOnly; SameSite=Strict; Max-Age={age}{secure}"
    )


def form_value(token: str) -> str:
    """The value that a page sends with what it writes."""
    return _digest(f"form {token}")[:40]


def is_navigation(method: str, headers: Headers) -> bool:
    """Whether a browser wants to show a page: any script may say that it accepts one."""
    mode = next(iter(_values(headers, b"sec-fetch-mode")), "navigate")
    accepts = any("text/html" in value for value in _values(headers, b"accept"))
    return method in _SAFE_METHODS and mode == "navigate" and accepts


def may_be_own_page(method: str, path: str, headers: Headers, token: str) -> bool:
    """Whether a request with a cookie comes from a page of this server. Its Origin, if it has one,
    was checked before. Other sites may link to pages, never to the API: some reads are recorded.
    """
    site = next(iter(_values(headers, b"sec-fetch-site")), "same-origin")
    if method in _SAFE_METHODS:
        is_link = is_navigation(method, headers) and not path.startswith("/api")
        return site in ("same-origin", "none") or is_link
    given = next(iter(_values(headers, b"x-passdown-form")), "")
    has_origin = bool(_values(headers, b"origin"))
    return has_origin and hmac.compare_digest(given.encode(), form_value(token).encode())

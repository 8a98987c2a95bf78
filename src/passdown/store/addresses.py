"""Addresses of stores: which database one means, and how it is shown without its secrets."""

from __future__ import annotations

import re

SQLITE_PREFIX = "sqlite:///"
POSTGRES_PREFIXES = ("postgresql://", "postgres://")

# Up to the last @: a password may hold one that nobody escaped.
_LOGIN = re.compile(r"(?<=://)([^:@/?]*):[^?]*@")
_SECRET = re.compile(r"(?<=[?&\s])((?:ssl)?password)=[^&\s]*", re.IGNORECASE)
_HIDDEN = "***"


def is_postgres(url: str) -> bool:
    """Whether an address is that of a PostgreSQL database."""
    return url.startswith(POSTGRES_PREFIXES)


def database_of(url: str) -> str:
    """An address without the name of a workspace: that of the whole database."""
    place, _, query = url.partition("?")
    kept = [part for part in query.split("&") if part and not part.startswith("workspace=")]
    return f"{place}?{'&'.join(kept)}" if kept else place


def shown(url: str) -> str:
    """An address as it may be printed: without the password."""
    return _SECRET.sub(rf"\1={_HIDDEN}", _LOGIN.sub(_without_password, url))


def _without_password(login: re.Match[str]) -> str:
    is_empty = login[0].endswith(":@")
    return login[0] if is_empty else f"{login[1]}:{_HIDDEN}@"


def secrets_of(url: str) -> list[str]:
    """The texts in an address that must not be printed, as written and as meant."""
    from urllib.parse import unquote

    found = [match[0].partition(":")[2][:-1] for match in _LOGIN.finditer(url)]
    found += [match[0].partition("=")[2] for match in _SECRET.finditer(url)]
    return sorted({text for secret in found for text in (secret, unquote(secret)) if text}, key=len)

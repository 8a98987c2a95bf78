"""Stores: `open_store` opens the database that a URL names; URLs are shown without passwords."""

from __future__ import annotations

import os.path
import re
from typing import TYPE_CHECKING

from passdown.errors import InvalidInput, NotFound, Problem

if TYPE_CHECKING:
    from passdown.store.protocol import Store


SQLITE_PREFIX = "sqlite:///"
POSTGRES_PREFIXES = ("postgresql://", "postgres://")

# Up to the last @: a password may hold one that nobody escaped.
_LOGIN = r"(?<=://)([^:@/?]*):[^?]*@"
_PARAMETER = r"(?i)(?<=[?&\s])((?:ssl)?password)=[^&\s]*"
_HIDDEN = "***"


def is_postgres(url: str) -> bool:
    """Whether an address is that of a PostgreSQL database."""
    return url.startswith(POSTGRES_PREFIXES)


def database_url(url: str) -> str:
    """An address without the name of a workspace: that of the whole database."""
    place, _, query = url.partition("?")
    kept = [part for part in query.split("&") if part and not part.startswith("workspace=")]
    return f"{place}?{'&'.join(kept)}" if kept else place


def store_identity(url: str) -> str:
    """What of an address tells one store from another, however it is written: the real path of a
    file; host, port, database and workspace of a PostgreSQL database, whoever connects to it.
    """
    if url.startswith(SQLITE_PREFIX):
        path = os.path.expanduser(url.removeprefix(SQLITE_PREFIX))
        return SQLITE_PREFIX + os.path.realpath(path)
    from urllib.parse import parse_qsl, urlsplit

    try:
        parts = urlsplit(url)
        options = dict(parse_qsl(parts.query))
        found = {
            "host": parts.hostname or "",
            "port": str(parts.port or 5432),
            "dbname": parts.path.strip("/") or parts.username or "",
            "workspace": "passdown",
        }
    except ValueError:  # it can't be opened either
        return url
    found |= {name: options[name] for name in (*found, "hostaddr", "service") if name in options}
    return "postgresql:" + " ".join(f"{name}={found[name]}" for name in sorted(found))


def url_without_password(url: str) -> str:
    """An address as it may be printed: without the password."""
    return re.sub(_PARAMETER, rf"\1={_HIDDEN}", re.sub(_LOGIN, _without_password, url))


def _without_password(login: re.Match[str]) -> str:
    is_empty = login[0].endswith(":@")
    return login[0] if is_empty else f"{login[1]}:{_HIDDEN}@"


def secrets_in_url(url: str) -> list[str]:
    """The texts in an address that must not be printed, as written and as meant."""
    from urllib.parse import unquote

    found = [match[0].partition(":")[2][:-1] for match in re.finditer(_LOGIN, url)]
    found += [match[0].partition("=")[2] for match in re.finditer(_PARAMETER, url)]
    return sorted({text for secret in found for text in (secret, unquote(secret)) if text}, key=len)


def open_store(
    url: str, *, timeout_s: float = 30.0, durability: str = "full", create: bool = True
) -> Store:
    """Open the store that `url` names: `sqlite:///FILE` or `postgresql://HOST/DATABASE`.

    `durability="normal"` is faster and may lose the last moments before a power cut. Without
    `create`, a store that isn't there is not made.
    """
    if durability not in ("full", "normal"):
        problem = Problem("durability", "invalid_choice", f"{durability!r}", "full or normal")
        raise InvalidInput("unknown durability", [problem])
    if url.startswith(SQLITE_PREFIX):
        from passdown.store.sqlite import SqliteStore

        path = os.path.expanduser(url.removeprefix(SQLITE_PREFIX))
        if not create and not os.path.exists(path):
            raise NotFound(f"there is no store {path}", next_step="Check the path.")
        synchronous = "EXTRA" if durability == "full" else "NORMAL"
        return SqliteStore(path, timeout_s=timeout_s, synchronous=synchronous)
    if is_postgres(url):
        from passdown.store.postgres import PostgresStore

        return PostgresStore(url, timeout_s=timeout_s, durability=durability, create=create)
    expected = f"FILE.db, {SQLITE_PREFIX}FILE or postgresql://HOST/DATABASE"
    is_server = url.startswith(("http://", "https://"))
    fix = "a server is no store: name it to a command with --store, or in PASSDOWN_STORE"
    message = f"{url_without_password(url)!r} names no store"
    problem = Problem("store", "unknown_store", message, expected, fix if is_server else "")
    raise InvalidInput("the store can't be opened", [problem])

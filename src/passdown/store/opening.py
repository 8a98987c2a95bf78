"""The one place that chooses a database."""

from __future__ import annotations

import os.path
from typing import TYPE_CHECKING

from passdown.errors import InvalidInput, NotFound, Problem
from passdown.store.addresses import SQLITE_PREFIX, is_postgres, shown

if TYPE_CHECKING:
    from passdown.store.protocol import Store


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
    expected = f"{SQLITE_PREFIX}FILE or postgresql://HOST/DATABASE"
    is_server = url.startswith(("http://", "https://"))
    fix = "a server is no store: name it to a command with --store, or in PASSDOWN_STORE"
    message = f"{shown(url)!r} names no store"
    problem = Problem("store", "unknown_store", message, expected, fix if is_server else "")
    raise InvalidInput("the store can't be opened", [problem])

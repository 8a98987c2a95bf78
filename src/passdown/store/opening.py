"""The one place that chooses a database."""

from __future__ import annotations

import os.path
from typing import TYPE_CHECKING

from passdown.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from passdown.store.protocol import Store

SQLITE_PREFIX = "sqlite:///"


def open_store(url: str, *, timeout_s: float = 30.0, durability: str = "full") -> Store:
    """Open the store that `url` names: `sqlite:///FILE`.

    `durability="normal"` is faster and may lose the last moments before a power cut.
    """
    if durability not in ("full", "normal"):
        problem = Problem("durability", "invalid_choice", f"{durability!r}", "full or normal")
        raise InvalidInput("unknown durability", [problem])
    if url.startswith(SQLITE_PREFIX):
        from passdown.store.sqlite import SqliteStore

        path = os.path.expanduser(url.removeprefix(SQLITE_PREFIX))
        synchronous = "EXTRA" if durability == "full" else "NORMAL"
        return SqliteStore(path, timeout_s=timeout_s, synchronous=synchronous)
    problem = Problem("store", "unknown_store", f"{url!r} names no store", f"{SQLITE_PREFIX}FILE")
    raise InvalidInput("the store can't be opened", [problem])

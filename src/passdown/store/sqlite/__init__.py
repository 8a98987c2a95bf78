"""The embedded store; the only package that knows SQLite."""

from __future__ import annotations

from passdown.store.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]

"""The embedded store; the only package that knows SQLite."""

from passdown.store.sqlite.embedded import SqliteStore

__all__ = ["SqliteStore"]

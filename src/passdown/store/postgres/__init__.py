"""The store for many machines; the only package that knows PostgreSQL."""

from __future__ import annotations

from passdown.errors import MissingExtra

try:
    from passdown.store.postgres.store import PostgresStore
except ImportError as error:
    raise MissingExtra.named(
        "postgres", f"a store in PostgreSQL needs the package psycopg, which isn't there ({error})"
    ) from error

__all__ = ["PostgresStore"]

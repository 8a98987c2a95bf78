"""The engine's database: a file beside the store, or a PostgreSQL that many machines share."""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from passdown.errors import InvalidInput, MissingExtra, Problem
from passdown.store.addresses import database_of, is_postgres
from passdown.store.named import named_statements

try:
    import sqlalchemy as sa
    from dbos import DBOS, DBOSClient, DBOSConfig
    from dbos import Serializer as _Serializer
    from sqlalchemy.event import listen
except ImportError as error:
    raise MissingExtra(
        "running agents needs the package dbos, which isn't installed",
        next_step="Install it: pip install 'passdown[relay]'",
    ) from error

if TYPE_CHECKING:
    from collections.abc import Generator

    from sqlalchemy import Connection, Engine
    from sqlalchemy.engine import Row

VARIABLE = "PASSDOWN_RELAY_URL"
FILE = "relay.db"
POOL = 20
_FILE_PREFIX = "sqlite:///"


class PlainJson(_Serializer):
    """What the engine keeps, as JSON: nothing that is read back can run."""

    def serialize(self, data: Any) -> str:
        """As JSON; an error as what it says."""
        return json.dumps(data, default=str)

    def deserialize(self, serialized_data: str) -> Any:
        """The data again; what was an error is text."""
        return json.loads(serialized_data)

    def name(self) -> str:
        """What the engine writes beside it."""
        return "passdown_json"


def relay_url(folder: str, given: str = "", store: str = "") -> str:
    """The address of the engine's database: the one given, the environment's, the database that
    keeps the store, or a file.
    """
    url = given or os.environ.get(VARIABLE, "")
    if not url and is_postgres(store):
        url = database_of(store)
    if not url:
        return f"{_FILE_PREFIX}{os.path.join(os.path.abspath(folder), FILE)}"
    if url.startswith(("postgresql://", "postgres://")):
        rest = url.partition("://")[2]
        return f"postgresql+psycopg://{rest}"
    if url.startswith(_FILE_PREFIX):
        return url
    problem = Problem(
        VARIABLE, "invalid_url", "is no address of a database", "sqlite:///FILE or postgresql://..."
    )
    raise InvalidInput("the relay can't be started", [problem])


def connect(url: str) -> Engine:
    """A pool of connections to the engine's database."""
    if not url.startswith("sqlite"):
        return sa.create_engine(url, pool_size=POOL, max_overflow=0, pool_pre_ping=True)
    _make_file(url.removeprefix(_FILE_PREFIX))
    engine = sa.create_engine(url, pool_size=POOL, max_overflow=0)
    listen(engine, "connect", _set_up)
    return engine


def _make_file(path: str) -> None:
    """Make the engine's file, whole or not at all: the library commits its tables one by one, and
    can't go on with a part of them.
    """
    with alone(f"{_FILE_PREFIX}{path}"):
        if os.path.exists(path) and os.path.getsize(path):
            return
        draft = f"{path}.new"
        for leftover in (draft, f"{draft}-wal", f"{draft}-shm", f"{draft}-journal"):
            if os.path.lexists(leftover):
                os.unlink(leftover)
        os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        DBOS.migrate(f"{_FILE_PREFIX}{draft}")
        os.replace(draft, path)


@contextmanager
def alone(url: str) -> Generator[None]:
    """Only one process at a time makes the tables of a file; a server sees to that itself."""
    if not url.startswith(_FILE_PREFIX) or os.name != "posix":
        yield
        return
    import fcntl

    with open(url.removeprefix(_FILE_PREFIX) + ".lock", "a", encoding="ascii") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _set_up(connection: Any, _record: object) -> None:
    for name in ("wait_for_locks", "keep_a_log", "sync_each_commit"):
        connection.execute(_statements("sqlite")[name])


@cache
def _statements(dialect: str) -> dict[str, str]:
    return named_statements(os.path.join(os.path.dirname(__file__), "sql", f"{dialect}.sql"))


def run(connection: Connection, name: str, **values: Any) -> list[Row[Any]]:
    """Run a named statement; gives its rows, if it has any."""
    result = connection.execute(sa.text(_statements(connection.dialect.name)[name]), values)
    return list(result) if result.returns_rows else []


def changed(connection: Connection, name: str, **values: Any) -> int:
    """Run a named statement; gives the number of rows that it changed."""
    return connection.execute(sa.text(_statements(connection.dialect.name)[name]), values).rowcount


__all__ = [
    "DBOS",
    "DBOSClient",
    "DBOSConfig",
    "PlainJson",
    "alone",
    "changed",
    "connect",
    "relay_url",
    "run",
]

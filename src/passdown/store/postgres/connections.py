"""Connections to the database of a URL: configured and checked, watched for silence, pooled."""

from __future__ import annotations

import hashlib
import os
import re
import select
import socket
import threading
import time
from functools import cached_property
from typing import TYPE_CHECKING, Any, LiteralString, NamedTuple, TypeVar, cast
from urllib.parse import parse_qsl, urlsplit

import psycopg
from psycopg import Connection
from psycopg.adapt import AdaptersMap
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import TransactionStatus
from psycopg.types.numeric import Int8BinaryDumper

from passdown.errors import InvalidInput, Problem, StoreBusy, StoreUnavailable
from passdown.store import database_url, url_without_password
from passdown.store.postgres.errors import translated_errors
from passdown.store.postgres.session import PLACEHOLDER, Pipeline
from passdown.store.statements import load_statements

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from psycopg.abc import PQGen
    from psycopg.waiting import Ready, Wait

    from passdown.store.protocol import Row


DEFAULT = "passdown"
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_EXPECTED = "1 to 40 of a-z, 0-9 and _, a letter first"


class Location(NamedTuple):
    """Where a workspace is kept: what libpq connects to, and the schema that holds the tables."""

    url: str
    conninfo: str
    workspace: str

    @property
    def schema(self) -> str:
        """The schema: its own for each workspace, and never one that others use."""
        return DEFAULT if self.workspace == DEFAULT else f"{DEFAULT}_{self.workspace}"

    @property
    def shown(self) -> str:
        """The address without its password."""
        return url_without_password(self.url)

    def key(self, *parts: str) -> int:
        """The number of the lock that stands for something in this workspace."""
        text = "\0".join((self.schema, *parts)).encode("utf-8", "surrogatepass")
        return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), signed=True)


def parse_location(url: str) -> Location:
    """The location that an address names: `postgresql://HOST/DATABASE?workspace=NAME`."""
    try:
        options = parse_qsl(urlsplit(url).query, keep_blank_values=True)
    except ValueError as error:
        raise _refused("invalid_url", "can't be read", "postgresql://HOST/DATABASE") from error
    names = [value for name, value in options if name == "workspace"] or [DEFAULT]
    if len(names) > 1 or not _NAME.fullmatch(names[0]):
        raise _refused("invalid_workspace", f"{names[-1][:60]!r} is no workspace", _EXPECTED)
    return Location(url, database_url(url), names[0])


def _refused(code: str, message: str, expected: str) -> InvalidInput:
    return InvalidInput("the store can't be opened", [Problem("store", code, message, expected)])


T = TypeVar("T")

MOST = 16
"""How many connections one process keeps at most."""

SILENCE_S = 30.0
_LEAST_VECTOR = [0, 8]  # before that, a filtered search gave up early
_CONNECT_S = 10

# A network that is gone is noticed in about half a minute, whoever is waiting.
_DEFAULTS = {
    "connect_timeout": _CONNECT_S,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}


def _integers_as_int8() -> AdaptersMap:
    """Every whole number as 64 bits, so that a statement has one plan and not one per size."""
    adapters = AdaptersMap(psycopg.adapters)
    adapters.register_dumper(int, Int8BinaryDumper)
    return adapters


_ADAPTERS = _integers_as_int8()


class WatchedConnection(Connection[tuple[Any, ...]]):
    """A connection that doesn't wait for ever: after some silence it asks, by another way, whether
    the server is still at work for it. A statement may take long; a lost answer must not.
    """

    silence_s = SILENCE_S

    @cached_property
    def line(self) -> Pipeline:
        """How transactions go over it."""
        return Pipeline(self)

    def wait(self, gen: PQGen[T], *args: Any, **kwargs: Any) -> T:
        """Wait for the server, with an eye on the clock."""
        return super().wait(self._watched(gen), *args, **kwargs)

    def _watched(self, gen: PQGen[T]) -> Generator[Wait, Ready | int, T]:
        heard = time.monotonic()
        try:
            asked = next(gen)
            while True:
                ready = yield asked
                if ready:
                    heard = time.monotonic()
                elif time.monotonic() - heard > self.silence_s:
                    self._check_working()
                    heard = time.monotonic()
                asked = gen.send(ready)
        except StopIteration as end:
            return end.value

    def _check_working(self) -> None:
        try:
            with psycopg.connect(self.info.dsn, **self._login(), autocommit=True) as other:
                found = run_statement(other, "is_working", {"pid": self.info.backend_pid})
        except psycopg.Error:
            found = []
        if not (found and found[0][0]):
            self.pgconn.finish()
            raise psycopg.OperationalError(f"no answer for {self.silence_s:g} s")

    def _login(self) -> dict[str, Any]:
        return {"password": self.info.password or None, "connect_timeout": 5}


def connect(
    location: Location, lock_timeout_s: float, *, waits_for_disk: bool
) -> WatchedConnection:
    """A new connection, set up for the workspace."""
    with translated_errors(location):
        given = conninfo_to_dict(location.conninfo)
        name = f"passdown {os.getpid()} on {socket.gethostname()}"[:63]
        wanted = {**_DEFAULTS, "application_name": name, **given}
        connection = WatchedConnection.connect(
            make_conninfo("", **wanted), autocommit=True, prepare_threshold=None, context=_ADAPTERS
        )
        set_up(connection, location, lock_timeout_s, waits_for_disk=waits_for_disk)
        return connection


def run_statement(
    connection: Connection[Any], name: str, values: Mapping[str, Any] | None = None
) -> list[Row]:
    """The rows of a named statement, outside of any gate."""
    # Every statement comes from a file of ours; nothing is put together from values.
    text = load_statements("postgres")[name]
    statement = cast("LiteralString", PLACEHOLDER.sub(r"%(\1)s", text) if values else text)
    cursor = connection.execute(statement, values)
    return cursor.fetchall() if cursor.description else []


def set_up(
    connection: WatchedConnection,
    location: Location,
    lock_timeout_s: float,
    *,
    waits_for_disk: bool,
) -> None:
    """Tell a connection which workspace it works for, and how long it may wait for others."""
    milliseconds = max(1, int(lock_timeout_s * 1_000))
    values = {"schema": location.schema, "lock_timeout": f"{milliseconds}ms"}
    run_statement(connection, "set_up", values)
    if not waits_for_disk:
        run_statement(connection, "commit_without_waiting")


def refuse_unsafe(
    connection: WatchedConnection, location: Location, *, waits_for_disk: bool
) -> None:
    """Refuse a server that may lose or damage what it says it has kept."""
    fsync, full_pages, commit, encoding, version, vector = run_statement(connection, "settings")[0]
    advice = {
        f"fsync is {fsync}": "set fsync = on in postgresql.conf" if fsync != "on" else "",
        f"full_page_writes is {full_pages}": "set full_page_writes = on in postgresql.conf"
        if full_pages != "on"
        else "",
        f"synchronous_commit is {commit}": "set synchronous_commit = on for the server or the "
        'role, or say durability = "normal" in the configuration'
        if commit == "off" and waits_for_disk
        else "",
        f"its encoding is {encoding}": "make a database in UTF8" if encoding != "UTF8" else "",
        f"its pgvector is {vector}": "install pgvector 0.8 or later, then run "
        "ALTER EXTENSION vector UPDATE in the database"
        if vector and _numbers(vector) < _LEAST_VECTOR
        else "",
        f"its version is {version}": "use PostgreSQL 15 or later" if version < 150_000 else "",
    }
    faults = {fault: way_out for fault, way_out in advice.items() if way_out}
    if faults:
        raise StoreUnavailable(
            f"the database {location.shown} can't keep what it is given: {', '.join(faults)}",
            next_step=f"For this database, {'; '.join(faults.values())}.",
        )


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".") if part.isdigit()]


class Pool:
    """The connections of one process: at most `MOST`, made by whoever needs one, the last one used
    first. Made in the caller's own thread, so that a failure tells why at once.
    """

    def __init__(self, make: Callable[[], WatchedConnection], timeout_s: float) -> None:
        self._make = make
        self._timeout_s = timeout_s
        self._idle: list[WatchedConnection] = []
        self._free = threading.BoundedSemaphore(MOST)

    def take(self) -> WatchedConnection:
        """A connection that was alive a moment ago."""
        if not self._free.acquire(timeout=self._timeout_s):
            raise StoreBusy(
                f"all {MOST} connections of this process were in use for {self._timeout_s:g} s",
                next_step="Nothing was written. Try again, with fewer threads at once.",
            )
        try:
            while self._idle:
                connection = self._idle.pop()
                if _has_come_to_rest(connection) and is_alive(connection):
                    return connection
                connection.close()
            return self._make()
        except BaseException:
            self._free.release()
            raise

    def give_back(self, connection: WatchedConnection) -> None:
        """Keep a connection for the next one, if it is fit for that."""
        is_leaving = not connection.line.is_resting and not connection.closed
        if is_leaving or is_alive(connection):
            self._idle.append(connection)
        else:
            connection.close()
        self._free.release()

    def close(self) -> None:
        """Close what nobody uses."""
        while self._idle:
            self._idle.pop().close()


def _has_come_to_rest(connection: WatchedConnection) -> bool:
    """Whether what was read last on a connection ended well; it needn't have been waited for."""
    try:
        connection.line.rest()
    except psycopg.Error:
        return False
    return True


def is_alive(connection: WatchedConnection) -> bool:
    """Whether a connection is at rest and hasn't been closed by the other side."""
    if connection.closed or connection.pgconn.transaction_status != TransactionStatus.IDLE:
        return False
    readable, _, _ = select.select([connection.fileno()], [], [], 0)
    if readable:
        try:
            connection.pgconn.consume_input()
        except psycopg.OperationalError:
            return False
    return not connection.closed

"""The store that a server keeps: one schema of a PostgreSQL database, any number of machines.

A write gate takes the lock of each stream that it names, and a share of the store's; a gate for the
whole store takes that one alone. From its turn on (`Writer.take_turn`) until it has committed, a
writer is the only one that numbers records, so their order is the order in which they were
committed, as in the embedded store. Read gates see one snapshot and wait for nobody.
"""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psycopg

from passdown import spans
from passdown.errors import StoreBusy, StoreError
from passdown.store.postgres import schema
from passdown.store.postgres.asking import PostgresReader, PostgresWriter
from passdown.store.postgres.connecting import Pool, Watched, ask, connect, refuse_unsafe
from passdown.store.postgres.faults import NOTHING, damage, translated
from passdown.store.postgres.location import located
from passdown.store.postgres.session import READ, WRITE, Session

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from passdown.errors import Problem
    from passdown.store.protocol import Progress
    from passdown.store.running import Question
    from passdown.store.statements import Reader, Writer


class PostgresStore:
    """A workspace in a PostgreSQL database. Safe to share between threads; after a fork it connects
    anew.
    """

    def __init__(
        self, url: str, *, timeout_s: float = 30.0, durability: str = "full", create: bool = True
    ) -> None:
        """Open the workspace at `url`, making it when there is none and `create` allows it."""
        self._location = located(url)
        self._timeout_s = timeout_s
        self._waits_for_disk = durability == "full"
        self._attributes = {"db.system.name": "postgresql", "db.namespace": self._location.schema}
        self._forget_connections()
        first = self._pool.take()
        try:
            with translated(self._location):
                refuse_unsafe(first, self._location, waits_for_disk=self._waits_for_disk)
                schema.prepare(first, self._location, timeout_s, create=create)
        except BaseException:
            first.close()
            raise
        finally:
            self._pool.give_back(first)

    @property
    def url(self) -> str:
        """The address that opens this store again, with everything that this takes."""
        return self._location.url

    @contextmanager
    def reading(self) -> Generator[Reader]:
        """One moment of the store."""
        span = spans.part("store read", self._attributes, kind="client")
        with span, self._session(READ) as session:
            yield PostgresReader(session)

    @contextmanager
    def writing(
        self, streams: Sequence[str] = (), *first: Question, in_turn: bool = False
    ) -> Generator[Writer]:
        """All or nothing; one writer at a time to a stream, and one at a time from its turn on.

        What is asked first is sent along with the locks, and answered once they are held.
        """
        key = self._location.key
        own = [key("stream", stream) for stream in streams]
        span = spans.part("store write", self._attributes, kind="client")
        with span, self._session(WRITE) as session:
            turn = key("turn")
            with self._named_holder([key(), turn, *own]):
                session.lock(key(), own)
                writer = PostgresWriter(session, turn)
                if in_turn:
                    writer.take_turn()
                writer.ahead(*first)
                session.wait_for_locks(schema.newest())
                yield writer
            session.commit()

    def check_pages(self) -> list[Problem]:
        """What the server has noticed, and whether the schema is still whole."""
        with self.reading() as reader:
            failures = reader.run("server_facts", {"schema": self._location.schema})[0][10]
        found = [damage(f"{failures} pages failed their checksum")] if failures else []
        connection = self._pool.take()
        try:
            with translated(self._location):
                actual = schema.schema_text(connection, self._location)
        finally:
            self._pool.give_back(connection)
        if actual != schema.expected_schema(schema.newest()):
            found.append(damage("tables, triggers or functions are not those that Passdown makes"))
        return found

    def backup(self, target: str, progress: Progress | None = None) -> None:
        """Copy one moment into a new file: an embedded store with the same content."""
        from passdown.store.copying import copy_to_file

        copy_to_file(self, target, progress)

    def facts(self) -> dict[str, Any]:
        """Version, settings and sizes."""
        with self.reading() as reader:
            found = reader.run("server_facts", {"schema": self._location.schema})[0]
        return {
            "store": self._location.shown,
            "database": "postgresql",
            "workspace": self._location.workspace,
            **dict(zip(_FACTS, found, strict=False)),
        }

    def close(self) -> None:
        """Close every connection of this process that is at rest."""
        if self._process == os.getpid():
            self._pool.close()
        self._forget_connections()

    def _forget_connections(self) -> None:
        self._process = os.getpid()
        self._pool = Pool(self._connect, self._timeout_s)

    def _connect(self) -> Watched:
        return connect(self._location, self._timeout_s, waits_for_disk=self._waits_for_disk)

    @contextmanager
    def _session(self, begin: str) -> Generator[Session]:
        if self._process != os.getpid():
            # A connection must not be used on both sides of a fork: the child starts afresh.
            self._forget_connections()
        pool = self._pool
        connection = pool.take()
        try:
            with translated(self._location):
                session = Session(connection, self._location, begin)
                try:
                    yield session
                finally:
                    session.end()
        finally:
            pool.give_back(connection)

    @contextmanager
    def _named_holder(self, keys: list[int]) -> Generator[None]:
        """Tell who holds the lock that was waited for in vain."""
        try:
            yield
        except psycopg.errors.LockNotAvailable as error:
            raise StoreBusy(
                f"the store {self._location.shown} was locked by another writer for "
                f"{self._timeout_s:g} s{self._holder(keys)}",
                next_step=NOTHING + "Try again; if that process hangs, look at it first: "
                "its lock is never taken away.",
            ) from error

    def _holder(self, keys: list[int]) -> str:
        """Words that name who holds one of some locks, or nothing where that isn't known."""
        try:
            with self._connect() as other:
                found = ask(other, "lock_holder", {"keys": json.dumps(keys)})
        except (psycopg.Error, StoreError):
            return ""
        named = [f"{name or 'a connection'} from {host}, {state}" for _, name, host, state in found]
        return f" (held by {named[0]})" if named else ""


_FACTS = (
    *("server_version", "pgvector_version", "fsync", "full_page_writes", "synchronous_commit"),
    *("data_checksums", "user_version", "size_bytes", "connections", "max_connections"),
)

__all__ = ["PostgresStore"]

"""The store on a server: one schema of a PostgreSQL database, any number of machines."""

from __future__ import annotations

import json
import os
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any

import psycopg

from passdown import tracing
from passdown.errors import StoreBusy, StoreError
from passdown.store.postgres import schema
from passdown.store.postgres.connections import (
    Pool,
    WatchedConnection,
    connect,
    parse_location,
    refuse_unsafe,
    run_statement,
)
from passdown.store.postgres.errors import NOTHING, translated_errors
from passdown.store.postgres.session import READ, WRITE, AnswerPending, Session
from passdown.store.protocol import damage
from passdown.store.statements import Reader, Writer

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Sequence

    from passdown.core.record import Record
    from passdown.core.rows import EntryRow, SearchTerm
    from passdown.errors import Problem
    from passdown.store.entries import SharedEntry
    from passdown.store.postgres.session import PendingResult
    from passdown.store.protocol import Progress, Question, Run


class _Indexed:
    run: Run
    indexes_vectors = True
    _session: Session

    def ahead(self, *questions: Question) -> None:
        """Send questions that will be asked next, all at once."""
        asking = PostgresReader(self._session, self._session.ask_ahead)
        for question in questions:
            with suppress(AnswerPending):
                question(asking)

    def spelled(self, sought: SearchTerm) -> str:
        """What is sought, as a `tsquery`; every term is quoted, so none is an operator."""
        parts = [_quoted(sought.word)] if sought.word else []
        parts += [f"({' | '.join(_quoted('=' + m) for m in group)})" for group in sought.marks]
        return " & ".join(parts)

    def sharing_marks(self, marks: Sequence[str], kind: str, limit: int) -> list[SharedEntry]:
        """The same, with the kind sought too: entries are looked up for the newest alone."""
        from passdown.core.rows import SearchTerm, mark_of
        from passdown.store.entries import SharedEntry

        sought = SearchTerm(marks=(tuple(marks), (mark_of("kind", kind),)))
        rows = self.run("sharing_marks", {"query": self.spelled(sought), "limit": limit})
        return list(map(SharedEntry._make, rows))

    def nearest(
        self,
        embedder: int,
        query: Sequence[float],
        limit: int,
        *,
        kinds: Sequence[str] = (),
        agent: str = "",
        task: str = "",
    ) -> list[int]:
        """The entries nearest to a vector that pass, about in order, from the database's index."""
        values = {
            "embedder": embedder,
            "query": _vector(query),
            "kinds": json.dumps(list(kinds)),
            "agent": agent,
            "task": task,
            "limit": limit,
        }
        return list(dict.fromkeys(row[0] for row in self.run("nearest", values)))[:limit]

    def nearest_of(
        self, embedder: int, query: Sequence[float], ids: Iterable[int], limit: int
    ) -> list[int]:
        """The nearest of some entries to a vector, about in order."""
        values = {"embedder": embedder, "query": _vector(query), "limit": limit}
        rows = self.run("nearest_of", {**values, "ids": json.dumps(list(ids))})
        return [row[0] for row in rows]


class PostgresReader(_Indexed, Reader):
    """Questions about one moment of a PostgreSQL store."""

    def __init__(self, session: Session, run: Run | None = None) -> None:
        super().__init__(run or session.run)
        self._session = session


class PostgresWriter(_Indexed, Writer):
    """A reader of a PostgreSQL store that can also write."""

    def __init__(self, session: Session, turn: int) -> None:
        super().__init__(session.run, session.run_many)
        self._session = session
        self._turn = turn
        self._numbers: _Numbers | None = None

    def take_turn(self) -> None:
        """Wait until no other writer numbers records; ends with the transaction.

        The server waits, and answers what comes after it then: nothing has to be fetched for it.
        """
        if self._numbers is None:
            self._session.wait_in_line("lock", {"key": self._turn})
            self._numbers = _Numbers(self._session.post("next_numbers", {}))

    def append(self, record: Record) -> Record:
        """Add a record, numbered in the order of the whole store."""
        self.take_turn()
        if self._numbers is not None:
            record = record._replace(seq=self._numbers.next_record())
        self.move_head(record)
        self.run("append", record._asdict())
        return record

    def next_number(self) -> int:
        """The number that the next entry gets; known without asking once it is this one's turn."""
        return self._numbers.entry if self._numbers else super().next_number()

    def add_entries(self, entries: Sequence[EntryRow]) -> None:
        """Add entries under the next numbers."""
        super().add_entries(entries)
        if self._numbers is not None:
            self._numbers.entry += len(entries)

    def forget_derived(self) -> None:
        """Empty every derived table; entries are numbered from 1 again."""
        super().forget_derived()
        if self._numbers is not None:
            self._numbers.entry = 1


class _Numbers:
    """The numbers that records and entries get next. They are asked for when a writer's turn
    begins; until it ends nobody else gives any.
    """

    def __init__(self, answer: PendingResult) -> None:
        self._answer = answer

    @cached_property
    def record(self) -> int:
        return self._answer.rows()[0][0]

    @cached_property
    def entry(self) -> int:
        return self._answer.rows()[0][1]

    def next_record(self) -> int:
        self.record += 1
        return self.record - 1


def _quoted(term: str) -> str:
    escaped = term.replace("\\", "\\\\").replace("'", "''")
    return f"'{escaped}'"


def _vector(numbers: Sequence[float]) -> str:
    return "[" + ",".join(f"{number:.7g}" for number in numbers) + "]"


class PostgresStore:
    """A workspace in a PostgreSQL database. Safe to share between threads; after a fork it connects
    anew.
    """

    def __init__(
        self, url: str, *, timeout_s: float = 30.0, durability: str = "full", create: bool = True
    ) -> None:
        """Open the workspace at `url`, making it when there is none and `create` allows it."""
        self._location = parse_location(url)
        self._timeout_s = timeout_s
        self._waits_for_disk = durability == "full"
        self._attributes = {"db.system.name": "postgresql", "db.namespace": self._location.schema}
        self._forget_connections()
        first = self._pool.take()
        try:
            with translated_errors(self._location):
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
        span = tracing.part("store read", self._attributes, kind="client")
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
        span = tracing.part("store write", self._attributes, kind="client")
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
            with translated_errors(self._location):
                actual = schema.schema_text(connection, self._location)
        finally:
            self._pool.give_back(connection)
        if actual != schema.expected_text(schema.newest()):
            found.append(damage("tables, triggers or functions are not those that Passdown makes"))
        return found

    def backup(self, target: str, progress: Progress | None = None) -> None:
        """Copy one moment into a new file: an embedded store with the same content."""
        from passdown.store.copy import copy_to_file

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

    def _connect(self) -> WatchedConnection:
        return connect(self._location, self._timeout_s, waits_for_disk=self._waits_for_disk)

    @contextmanager
    def _session(self, begin: str) -> Generator[Session]:
        if self._process != os.getpid():
            # A connection must not be used on both sides of a fork: the child starts afresh.
            self._forget_connections()
        pool = self._pool
        connection = pool.take()
        try:
            with translated_errors(self._location):
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
                found = run_statement(other, "lock_holder", {"keys": json.dumps(keys)})
        except (psycopg.Error, StoreError):
            return ""
        named = [f"{name or 'a connection'} from {host}, {state}" for _, name, host, state in found]
        return f" (held by {named[0]})" if named else ""


_FACTS = (
    *("server_version", "pgvector_version", "fsync", "full_page_writes", "synchronous_commit"),
    *("data_checksums", "user_version", "size_bytes", "connections", "max_connections"),
)

__all__ = [
    "PostgresStore",
]

"""One transaction: named statements sent without waiting, results fetched when needed."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import contextmanager, suppress
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import psycopg
from psycopg.pq import TransactionStatus

from passdown.errors import NewerSchema
from passdown.store.errors import UNKNOWN
from passdown.store.postgres.errors import (
    NOTHING,
    as_store_error,
    is_lost,
    translated_errors,
)
from passdown.store.postgres.pipeline import PLACEHOLDER, Statement
from passdown.store.statements import load_statements

if TYPE_CHECKING:
    import re
    from collections.abc import Generator, Sequence

    from passdown.store.postgres.connections import WatchedConnection
    from passdown.store.postgres.location import Location
    from passdown.store.postgres.pipeline import PendingResult, Values
    from passdown.store.protocol import Row


READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
WRITE = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"

_CHANGING = ("INSERT", "UPDATE", "DELETE")
_CHANGING_CALLS = frozenset({"add_embedder", "drop_embedder", "load_embedders"})

# How these are best answered depends on what is asked for, so they are planned each time.
_PLANNED_ANEW = frozenset(
    {
        *("matching", "matching_at", "sharing_marks", "entries_of_kind", "latest_gotchas"),
        "nearest_of",
    }
)


class AnswerPending(Exception):
    """A question is on its way; whoever asked it ahead has no answer to look at yet."""


class _Known(NamedTuple):
    """A named statement: how it is sent, whether it changes rows, whether it gives any."""

    statement: Statement
    is_change: bool
    is_silent: bool


class Session:
    """A connection in a transaction; `end` or `commit` it."""

    def __init__(self, connection: WatchedConnection, location: Location, begin: str) -> None:
        self.connection = connection
        self._location = location
        self._line = connection.line
        self._statements = _statements()
        self._ahead: dict[object, PendingResult] = {}
        self._version: PendingResult | None = None
        self._only_reads = begin == READ
        self._line.command(begin)

    def run(self, name: str, values: Values) -> list[Row]:
        """The rows of a named statement; none, and no waiting, where it gives none."""
        statement, is_change, is_silent = self._statements[name]
        with self._told():
            if is_change:
                self._ahead.clear()
            answer = None if is_change else self._ahead.get(_question(name, values))
            answer = answer or self._line.send(statement, values)
            return [] if is_silent else answer.rows()

    def post(self, name: str, values: Values) -> PendingResult:
        """Send a named statement; its answer is waited for by whoever looks at it."""
        with self._told():
            return self._line.send(self._statements[name].statement, values)

    def ask_ahead(self, name: str, values: Values) -> list[Row]:
        """Send a question that will be asked before anything is changed; raises `SentAhead`."""
        question = _question(name, values)
        if question not in self._ahead:
            self._ahead[question] = self.post(name, values)
        raise AnswerPending

    def wait_in_line(self, name: str, values: Values) -> None:
        """Have the server wait for a lock; what is sent from here on is answered after that."""
        self._ahead.clear()
        self.post(name, values)

    def run_many(self, name: str, values: Sequence[Sequence[object]]) -> None:
        """A named statement for many rows: as arrays where it takes them, else one by one."""
        if b"unnest(" in self._statements[name].statement.sql:
            self.run(name, [list(column) for column in zip(*values, strict=True)])
            return
        for row in values:
            self.run(name, row)

    def lock(self, shared: int, own: Sequence[int]) -> None:
        """Line up for the locks of a write gate."""
        self.wait_in_line("share_store" if own else "lock", {"key": shared})
        for key in sorted(set(own)):
            self.wait_in_line("lock", {"key": key})
        self._version = self.post("schema_version", {})

    def wait_for_locks(self, newest: int) -> None:
        """Come back when they are held; the schema must still be one that we know by then."""
        with self._told():
            version = self._version.rows()[0][0] if self._version else 0
        if version > newest:
            raise NewerSchema(
                f"{self._location.shown} has been brought to schema version {version}; "
                f"this process knows up to {newest}",
                next_step="Nothing was written. Start it again with the newer release.",
            )

    def commit(self) -> None:
        """Make it last. When the answer is lost, whether it did is unknown, and the error says
        so.
        """
        try:
            # Sending already waits for answers, so from here on the server may have committed.
            answer = self._line.finish("COMMIT")
        except psycopg.Error as error:
            outcome = UNKNOWN if is_lost(error) else NOTHING
            raise as_store_error(error, self._location, outcome) from error
        if answer != "COMMIT":
            message = f"the database answered {answer!r} to a commit"
            raise as_store_error(psycopg.InternalError(message), self._location)

    def end(self) -> None:
        """Leave nothing behind; a connection that can't even do that is closed."""
        connection, line = self.connection, self._line
        with suppress(psycopg.Error):  # whoever sent the statement that failed has been told
            if self._only_reads and not line.has_failed:
                line.leave("COMMIT")
                return
            if not line.is_resting:
                line.finish("ROLLBACK")
        try:
            # After an error, what was sent up to the end of the transaction has been skipped.
            if connection.pgconn.transaction_status != TransactionStatus.IDLE:
                connection.execute("ROLLBACK")
        except psycopg.Error:
            connection.close()

    @contextmanager
    def _told(self) -> Generator[None]:
        """Tell what went wrong in our words, but for locks: the gate knows which these are, and
        can say who has them.
        """
        try:
            yield
        except psycopg.errors.LockNotAvailable:
            raise
        except (psycopg.Error, UnicodeEncodeError, OverflowError) as error:
            with translated_errors(self._location):
                raise error


def _question(name: str, values: Values) -> object:
    return name, tuple(values.items()) if isinstance(values, Mapping) else tuple(values)


@cache
def _statements() -> dict[str, _Known]:
    """Every named statement as it is sent."""
    return {name: _known(name, text) for name, text in load_statements("postgres").items()}


def _known(name: str, text: str) -> _Known:
    names: list[str] = []

    def numbered(found: re.Match[str]) -> str:
        if found[1] is None or found[1] not in names:
            names.append(found[1] or "")
        return f"${names.index(found[1]) + 1 if found[1] else len(names)}"

    sql = PLACEHOLDER.sub(numbered, text).encode()
    is_change = text.startswith(_CHANGING)
    is_silent = is_change and "RETURNING" not in text
    statement = Statement(sql, tuple(names), name not in _PLANNED_ANEW)
    return _Known(statement, is_change or name in _CHANGING_CALLS, is_silent)

"""One transaction: named statements sent without waiting for each, answers fetched when asked for.

What gives no rows isn't waited for, so a handoff of some thirty statements needs a handful of
round trips. An error shows with the next answer, at the latest when the transaction is committed.
"""

from __future__ import annotations

from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any, LiteralString, cast

import psycopg
from psycopg.pq import TransactionStatus

from passdown.errors import NewerSchema
from passdown.store.postgres.faults import NOTHING, UNKNOWN, as_store_error, is_lost, translated
from passdown.store.statements import load_statements

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from passdown.store.postgres.connecting import Watched
    from passdown.store.postgres.location import Location
    from passdown.store.running import Row

READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
WRITE = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"

_SILENT = ("INSERT", "UPDATE", "DELETE")

# How these are best answered depends on what is asked for, so they are planned each time.
_PLANNED_ANEW = frozenset({"matching", "matching_at", "entries_of_kind", "nearest_of"})


class Session:
    """A connection in a transaction; `end` or `commit` it."""

    def __init__(self, connection: Watched, location: Location, begin: str) -> None:
        self.connection = connection
        self._location = location
        self._statements = load_statements("postgres")
        self._stack = ExitStack()
        self._stack.enter_context(connection.pipeline())
        self._send(begin)

    def run(self, name: str, values: Mapping[str, object] | Sequence[object]) -> list[Row]:
        """The rows of a named statement; none, and no waiting, where it gives none."""
        statement = self._statements[name]
        try:
            cursor = self._send(statement, values or None, prepare=name not in _PLANNED_ANEW)
            is_silent = statement.startswith(_SILENT) and "RETURNING" not in statement
            return [] if is_silent else cursor.fetchall()
        except psycopg.errors.LockNotAvailable:
            raise  # the gate knows which locks these are, and can say who has them
        except (psycopg.Error, UnicodeEncodeError, OverflowError) as error:
            with translated(self._location):
                raise error

    def send(self, name: str, values: Mapping[str, object]) -> None:
        """Run a named statement whose rows nobody needs, without waiting for it."""
        try:
            self._send(self._statements[name], values)
        except psycopg.Error as error:
            with translated(self._location):
                raise error

    def run_many(self, name: str, values: Sequence[Sequence[object]]) -> None:
        """A named statement for many rows: as arrays where it takes them, else one by one."""
        statement = self._statements[name]
        if "unnest(" in statement:
            self.run(name, [list(column) for column in zip(*values, strict=True)])
            return
        for row in values:
            self.run(name, row)

    def lock(self, shared: int, own: Sequence[int], newest: int) -> None:
        """Wait for the locks of a write gate; then the schema must still be one that we know."""
        if own:
            self._send(self._statements["share_store"], {"key": shared})
            for key in sorted(set(own)):
                self._send(self._statements["lock"], {"key": key})
        else:
            self._send(self._statements["lock"], {"key": shared})
        version = self._send(self._statements["schema_version"]).fetchall()[0][0]
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
            cursor = self._send("COMMIT")
            self._stack.close()
        except psycopg.Error as error:
            outcome = UNKNOWN if is_lost(error) else NOTHING
            raise as_store_error(error, self._location, outcome) from error
        if cursor.statusmessage != "COMMIT":
            message = f"the database answered {cursor.statusmessage!r} to a commit"
            raise as_store_error(psycopg.InternalError(message), self._location)

    def end(self) -> None:
        """Leave nothing behind; a connection that can't even do that is closed."""
        connection = self.connection
        with suppress(psycopg.Error):  # whoever sent the statement that failed has been told
            if connection.pgconn.transaction_status != TransactionStatus.IDLE:
                self._send("ROLLBACK")
        with suppress(psycopg.Error):
            self._stack.close()
        try:
            # After an error, what was sent before the end of the pipeline has been skipped.
            if connection.pgconn.transaction_status != TransactionStatus.IDLE:
                connection.execute("ROLLBACK")
        except psycopg.Error:
            connection.close()

    def _send(
        self, statement: str, values: Any = None, *, prepare: bool = True
    ) -> psycopg.Cursor[tuple[Any, ...]]:
        cursor = self.connection.cursor(binary=True)
        # Every statement comes from a file of ours; nothing is put together from values.
        return cursor.execute(cast("LiteralString", statement), values, prepare=prepare)

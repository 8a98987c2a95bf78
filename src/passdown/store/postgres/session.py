"""One transaction: named statements sent without waiting for each, answers fetched when asked for.

What gives no rows isn't waited for, and what will be asked is sent ahead of the question, so a
handoff of some thirty statements needs a handful of round trips. An error shows with the next
answer, at the latest when the transaction is committed.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, LiteralString, cast

import psycopg
from psycopg.pq import TransactionStatus

from passdown.errors import NewerSchema
from passdown.store.postgres.faults import NOTHING, UNKNOWN, as_store_error, is_lost, translated
from passdown.store.statements import load_statements

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from passdown.store.postgres.connecting import Watched
    from passdown.store.postgres.location import Location
    from passdown.store.running import Row

    Values = Mapping[str, object] | Sequence[object]

READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
WRITE = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"

_CHANGING = ("INSERT", "UPDATE", "DELETE")
_CHANGING_CALLS = frozenset({"add_embedder", "drop_embedder", "load_embedders"})

# How these are best answered depends on what is asked for, so they are planned each time.
_PLANNED_ANEW = frozenset(
    {"matching", "matching_upwards", "words_matching", "entries_of_kind", "nearest_of"}
)


class SentAhead(Exception):
    """A question is on its way; whoever asked it ahead has no answer to look at yet."""


class Answer:
    """What a statement that was sent will give; waited for when it is looked at, and kept."""

    def __init__(self, cursor: psycopg.Cursor[Row]) -> None:
        self._cursor = cursor
        self._rows: list[Row] | None = None

    @property
    def is_there(self) -> bool:
        """Whether it can be looked at without waiting."""
        return self._rows is not None or self._cursor.pgresult is not None

    def rows(self) -> list[Row]:
        """All rows."""
        if self._rows is None:
            self._rows = self._cursor.fetchall()
        return self._rows


class Session:
    """A connection in a transaction; `end` or `commit` it."""

    def __init__(self, connection: Watched, location: Location, begin: str) -> None:
        self.connection = connection
        self._location = location
        self._statements = load_statements("postgres")
        self._ahead: dict[object, Answer] = {}
        self._version: Answer | None = None
        self._newest = 0
        self._stack = ExitStack()
        self._stack.enter_context(connection.pipeline())
        self._silent = connection.cursor()
        # After a ROLLBACK the driver lets go of all prepared statements: reads end otherwise.
        self._leave = "COMMIT" if begin == READ else "ROLLBACK"
        self._silent.execute(cast("LiteralString", begin))

    def run(self, name: str, values: Values) -> list[Row]:
        """The rows of a named statement; none, and no waiting, where it gives none."""
        statement = self._statements[name]
        is_change = statement.startswith(_CHANGING)
        with self._told():
            if is_change or name in _CHANGING_CALLS:
                self._ahead.clear()
            if is_change and "RETURNING" not in statement:
                self._silent.execute(cast("LiteralString", statement), values or None)
                self._check_version()
                return []
            answer = self._ahead.get(_question(name, values)) or self._sent(name, values)
            self._check_version()
            return answer.rows()

    def post(self, name: str, values: Values) -> Answer:
        """Send a named statement; its answer is waited for by whoever looks at it."""
        with self._told():
            return self._sent(name, values)

    def ask_ahead(self, name: str, values: Values) -> list[Row]:
        """Send a question that will be asked before anything is changed; always raises
        `SentAhead`.
        """
        question = _question(name, values)
        if question not in self._ahead:
            self._ahead[question] = self.post(name, values)
        raise SentAhead

    def wait_in_line(self, name: str, values: Values) -> None:
        """Have the server wait for a lock; what is asked from here on is answered after that."""
        self._ahead.clear()
        with self._told():
            self._silent.execute(cast("LiteralString", self._statements[name]), values)

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
        self.wait_in_line("share_store" if own else "lock", {"key": shared})
        for key in sorted(set(own)):
            self.wait_in_line("lock", {"key": key})
        # Its answer comes with that of the first question: no journey for it alone.
        self._newest = newest
        self._version = self.post("schema_version", {})

    def _check_version(self) -> None:
        answer, self._version = self._version, None
        if answer is None:
            return
        try:
            version = answer.rows()[0][0]
        except psycopg.Error:
            # What was sent after it may have failed for this very reason.
            if not answer.is_there:
                raise
            version = answer.rows()[0][0]
            if version <= self._newest:
                raise
        if version > self._newest:
            raise NewerSchema(
                f"{self._location.shown} has been brought to schema version {version}; "
                f"this process knows up to {self._newest}",
                next_step="Nothing was written. Start it again with the newer release.",
            )

    def commit(self) -> None:
        """Make it last. When the answer is lost, whether it did is unknown, and the error says
        so.
        """
        cursor = self.connection.cursor()
        with self._told():
            self._check_version()
        try:
            # Sending already waits for answers, so from here on the server may have committed.
            cursor.execute("COMMIT")
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
                self._silent.execute(cast("LiteralString", self._leave))
        with suppress(psycopg.Error):
            self._stack.close()
        try:
            # After an error, what was sent before the end of the pipeline has been skipped.
            if connection.pgconn.transaction_status != TransactionStatus.IDLE:
                connection.execute("ROLLBACK")
        except psycopg.Error:
            connection.close()

    def _sent(self, name: str, values: Values) -> Answer:
        cursor = self.connection.cursor(binary=True)
        # Every statement comes from a file of ours; nothing is put together from values.
        statement = cast("LiteralString", self._statements[name])
        cursor.execute(statement, values or None, prepare=name not in _PLANNED_ANEW)
        return Answer(cursor)

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
            with translated(self._location):
                raise error


def _question(name: str, values: Values) -> object:
    return name, tuple(values.items()) if isinstance(values, Mapping) else tuple(values)

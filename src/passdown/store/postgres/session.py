"""One transaction on a pipelined connection: named statements are sent without waiting, their
results come back in order and are fetched when needed.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping
from contextlib import contextmanager, suppress
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg
from psycopg.adapt import PyFormat, Transformer
from psycopg.errors import error_from_result
from psycopg.pq import ConnStatus, ExecStatus, TransactionStatus
from psycopg.waiting import Ready, Wait

from passdown.errors import NewerSchema
from passdown.store.postgres.errors import NOTHING, as_store_error, is_lost, translated_errors
from passdown.store.protocol import UNKNOWN
from passdown.store.statements import load_statements

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from psycopg import Connection
    from psycopg.abc import PQGen
    from psycopg.pq.abc import PGresult

    from passdown.store.postgres.connections import Location, WatchedConnection
    from passdown.store.protocol import Row

    Values = Mapping[str, object] | Sequence[object]
    Key = tuple[bytes, tuple[int, ...]]

_BINARY = 1
_MOST_BYTES = 4 * 2**20
_MOST_STATEMENTS = 500
"""What may be on its way at most before the server has to say something."""

_FAILURES = (ExecStatus.FATAL_ERROR, ExecStatus.PIPELINE_ABORTED)


PLACEHOLDER = re.compile(r"(?<![:\w]):(\w+)|\?")
"""Where a statement takes a value: by name, or by place. A cast (`::text`) is none."""


class Statement(NamedTuple):
    """SQL as the server takes it, and the names of its values in the order in which it takes
    them; none where values come as a sequence.
    """

    sql: bytes
    names: tuple[str, ...]
    is_prepared: bool = True

    def ordered(self, values: Values) -> Sequence[Any]:
        """Values in the order in which the statement takes them."""
        if isinstance(values, Mapping):
            return [values[name] for name in self.names]
        return list(values)


class PendingResult:
    """What a statement that was sent gives; waited for when it is looked at, and kept."""

    def __init__(self, line: Pipeline, key: Key | None = None) -> None:
        self.result: PGresult | None = None
        self.key = key
        self._line = line
        self._rows: list[Row] | None = None

    def rows(self) -> list[Row]:
        """All rows."""
        if self._rows is None:
            self._rows = self._line.rows_of(self)
        return self._rows


class Pipeline:
    """One connection, for one transaction after the other. After an error, `finish` it."""

    def __init__(self, connection: Connection[Any]) -> None:
        self._connection = connection
        self._pgconn = connection.pgconn
        self._transformer = Transformer(connection)
        self._prepared: dict[Key, bytes] = {}
        self._made = 0
        self._bytes = 0
        self._awaited: deque[PendingResult | None] = deque()
        self._is_open = False
        self._is_requested = True
        self._error: psycopg.Error | None = None

    @property
    def is_resting(self) -> bool:
        """Whether every answer has come in."""
        return not self._is_open

    @property
    def has_failed(self) -> bool:
        """Whether the server has refused something, and skips what was sent after it."""
        return self._error is not None

    def send(self, statement: Statement, values: Values) -> PendingResult:
        """Put a statement on its way."""
        self._open()
        given = statement.ordered(values)
        transformer = self._transformer
        dumped = transformer.dump_sequence(given, [PyFormat.AUTO] * len(given)) if given else ()
        types, formats = (transformer.types or (), transformer.formats) if given else ((), None)
        pgconn = self._pgconn
        if statement.is_prepared:
            name = self._prepared_as(statement.sql, types)
            pgconn.send_query_prepared(name, dumped, formats, _BINARY)
        else:
            pgconn.send_query_params(statement.sql, dumped, types, formats, _BINARY)
        answer = self._expected()
        self._bytes += sum(len(value) for value in dumped if value is not None)
        if self._bytes > _MOST_BYTES or len(self._awaited) > _MOST_STATEMENTS:
            self._wait_for(answer)
        return answer

    def command(self, text: str) -> PendingResult:
        """Put a command on its way that steers the transaction."""
        self._open()
        self._pgconn.send_query_params(text.encode(), None)
        return self._expected()

    def leave(self, text: str) -> None:
        """Send a last command, and don't wait for what comes back: `rest` does."""
        self.command(text)
        self._sync()
        self._connection.wait(self._flushed())

    def finish(self, text: str) -> str:
        """Send a last command and wait for it; gives what the server says that it did."""
        last = self.command(text)
        self._sync()
        self.rest()
        status = last.result.command_status if last.result is not None else None
        return (status or b"").decode()

    def rest(self) -> None:
        """Wait for every answer; raises the first error that hasn't been raised before."""
        if not self._is_open:
            return
        has_failed = self.has_failed
        try:
            self._connection.wait(self._taken_in(None))
        finally:
            if not self._awaited:
                self._pgconn.exit_pipeline_mode()
                self._is_open = False
        error, self._error = self._error, None
        if error is not None and not has_failed:
            raise error

    def result_of(self, answer: PendingResult) -> PGresult:
        """The result of a statement, once it is there; else the error that stands before it."""
        if answer.result is None and self._awaited:
            self._wait_for(answer)
        if answer.result is None or answer.result.status in _FAILURES:
            raise self._error or psycopg.OperationalError("the connection is closed")
        return answer.result

    def rows_of(self, answer: PendingResult) -> list[Row]:
        """The rows of a statement."""
        result = self.result_of(answer)
        self._transformer.set_pgresult(result)
        return self._transformer.load_rows(0, result.ntuples, tuple)

    def _wait_for(self, answer: PendingResult) -> None:
        if not self._is_requested:  # else what is awaited comes without being asked for again
            self._pgconn.send_flush_request()
            self._is_requested = True
        self._connection.wait(self._taken_in(answer))
        self._bytes = 0

    def _open(self) -> None:
        if not self._is_open:
            self._pgconn.enter_pipeline_mode()
            self._is_open = True

    def _expected(self, key: Key | None = None) -> PendingResult:
        answer = PendingResult(self, key)
        self._awaited.append(answer)
        self._is_requested = False
        return answer

    def _sync(self) -> None:
        self._pgconn.pipeline_sync()
        self._awaited.append(None)

    def _prepared_as(self, sql: bytes, types: tuple[int, ...]) -> bytes:
        key = (sql, types)
        name = self._prepared.get(key)
        if name is None:
            self._made += 1
            name = self._prepared[key] = f"passdown_{self._made}".encode()
            self._pgconn.send_prepare(name, sql, types)
            self._expected(key)
        return name

    def _flushed(self) -> PQGen[None]:
        while self._pgconn.flush():
            if (yield Wait.RW) & Ready.R:
                self._pgconn.consume_input()

    def _taken_in(self, wanted: PendingResult | None) -> PQGen[None]:
        """Send what is on its way and take in answers, up to the one that is wanted or to all."""
        pgconn = self._pgconn
        is_sending = pgconn.flush()
        self._take_in()
        while self._awaited and (wanted is None or wanted.result is None):
            if pgconn.status == ConnStatus.BAD:  # its socket is closed: nothing comes any more
                raise self._error or psycopg.OperationalError("the connection was lost")
            ready = yield (Wait.RW if is_sending else Wait.R)
            if ready & Ready.R:
                pgconn.consume_input()
                self._take_in()
            if is_sending:
                is_sending = pgconn.flush()

    def _take_in(self) -> None:
        """Give every result that is there to the statement that it answers."""
        pgconn, awaited = self._pgconn, self._awaited
        while awaited and not pgconn.is_busy():
            result = pgconn.get_result()
            if result is None:  # the end of one statement's results, or of the connection
                if awaited[0] is None or awaited[0].result is None:
                    return
                awaited.popleft()
            elif result.status == ExecStatus.PIPELINE_SYNC:
                awaited.popleft()
            else:
                self._note(awaited[0], result)

    def _note(self, answer: PendingResult | None, result: PGresult) -> None:
        if result.status in _FAILURES:
            if answer is not None and answer.key is not None:
                self._prepared.pop(answer.key, None)
            if self._error is None:
                self._error = error_from_result(result, encoding="utf-8")
        if answer is not None:
            answer.result = result


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

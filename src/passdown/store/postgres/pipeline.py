"""A pipelined connection: statements are sent together, results come back in order."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg
from psycopg.adapt import PyFormat, Transformer
from psycopg.errors import error_from_result
from psycopg.pq import ConnStatus, ExecStatus
from psycopg.waiting import Ready, Wait

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg import Connection
    from psycopg.abc import PQGen
    from psycopg.pq.abc import PGresult

    from passdown.store.protocol import Row


if TYPE_CHECKING:
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

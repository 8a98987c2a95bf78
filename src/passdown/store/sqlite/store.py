"""The embedded store: one SQLite file, any number of processes on one machine."""

from __future__ import annotations

import json
import os
import threading
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, Literal

import apsw

from passdown import tracing
from passdown.errors import Damaged, PassdownError, StoreUnavailable
from passdown.store.protocol import damage, not_storable
from passdown.store.search_queries import LAST
from passdown.store.sqlite import files, schema
from passdown.store.sqlite.errors import (
    as_store_error,
    busy_error,
    reject_damaged_text,
    translated_errors,
    wait_with_jitter,
)
from passdown.store.sqlite.schema import rows, rows_of_many
from passdown.store.statements import Reader, Writer, load_statements

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    from passdown.core.record import Record
    from passdown.core.rows import SearchTerm
    from passdown.errors import Problem
    from passdown.store.protocol import Progress, Question, Row, Run, RunMany


class _Fts5:
    run: Run

    def spelled(self, sought: SearchTerm) -> str:
        """What is sought, in the words of FTS5; every word is quoted, so none is an operator."""
        parts = [f'words : "{sought.word}"'] if sought.word else []
        parts += [f"marks : ({' OR '.join(map(_quoted, group))})" for group in sought.marks]
        return " AND ".join(parts)

    def matching(
        self, sought: SearchTerm, limit: int, *, first: int = 0, last: int = LAST
    ) -> list[int]:
        """The numbers of up to `limit` entries that match, newest first, within a span."""
        values = {"query": self.spelled(sought), "limit": limit, "first": first, "last": last}
        # As one text, since a row for each would take longer than finding them does. They come in
        # order, but SQLite doesn't promise it.
        return sorted(json.loads(self.run("matching", values)[0][0]), reverse=True)


def _quoted(mark: str) -> str:
    return f'"{mark}"'


class SqliteReader(_Fts5, Reader):
    """Questions about one moment of a SQLite store."""


class SqliteWriter(_Fts5, Writer):
    """A reader of a SQLite store that can also write; `last` is the record that it wrote last."""

    last: tuple[int, str] | None = None

    def append(self, record: Record) -> Record:
        made = super().append(record)
        self.last = (made.seq, made.digest)
        return made


class _Group:
    """Writers of one process whose transaction is committed, and synced, once for all of them.

    `last` is the record that they wrote last.
    """

    def __init__(self) -> None:
        self.is_open = self.is_busy = False
        self.members = 0
        self.last: tuple[int, str] | None = None
        self._ended = threading.Event()
        self._error: BaseException | None = None

    def end(self, error: BaseException | None = None) -> None:
        """Tell every member that all is on disk, or that nothing was kept."""
        self.is_open = False
        self._error = error
        self._ended.set()

    def wait(self, seconds: float) -> bool:
        """Whether all is on disk by then; raises what kept it from being so."""
        if not self._ended.wait(seconds):
            return False
        if isinstance(self._error, PassdownError):
            raise self._error
        if self._error is not None:
            why = str(self._error) or type(self._error).__name__
            raise StoreUnavailable(
                f"a transaction that was shared with another writer ended ({why})",
                next_step="Nothing was written. Try again.",
            ) from self._error
        return True


class _Turns:
    """Who writes together now, and how many threads wait to join them."""

    def __init__(self) -> None:
        self.counting = threading.Lock()
        self.waiting = 0
        self.group = _Group()


Synchronous = Literal["EXTRA", "NORMAL", "OFF"]

_LEVELS = {"EXTRA": 3, "NORMAL": 1, "OFF": 0}
_BACKUP_PAGES = 2_000
_MOST_MEMBERS = 32
"""So many writers share a commit at most: the first one waits for the last."""
_PATIENCE_S = 0.1
"""So long a writer waits for another one's commit before it looks whether anybody is at it."""
_SYSTEM = {"db.system.name": "sqlite"}

# In KiB, as SQLite counts it when negative: room for the upper levels of every index.
_CACHE = -16_000

# In pages: a handoff writes about forty, most of them again with the next one, and each checkpoint
# syncs twice.
_CHECKPOINT = 4_000


class SqliteStore:
    """A store in one file. Safe to share between threads; after a fork it opens again."""

    def __init__(
        self,
        path: str,
        *,
        timeout_s: float = 30.0,
        synchronous: Synchronous = "EXTRA",
        vfs: str = "",
        exclusive: bool = False,
    ) -> None:
        """Open the store at `path`, making it when there is none.

        `exclusive` keeps one connection for everything, for file systems without shared memory.
        """
        self.path = os.path.abspath(path)
        self._timeout_s = timeout_s
        self._synchronous: Synchronous = synchronous
        self._vfs = vfs
        self._exclusive = exclusive
        self._statements = load_statements("sqlite")
        self._forget_connections()
        self._is_unwritable = not vfs and files.is_read_only(self.path)
        if not vfs:
            files.prepare_file(self.path)
        if exclusive:
            with self._turn():
                self._writer_connection()
        else:
            self._idle.append(self._take_reader())
        self._file = None if vfs or exclusive else files.SameFile(self.path, self._has_record)
        if self._file is not None:
            with translated_errors(self.path):
                found = rows(self._idle[-1], self._statements["last_digest"])
            self._file.last = found[0] if found else None

    @property
    def url(self) -> str:
        """The address that opens this store again."""
        return "sqlite:///" + self.path

    @contextmanager
    def reading(self) -> Generator[Reader]:
        """One moment of the store."""
        with tracing.part("store read", _SYSTEM), self._read() as reader:
            yield reader

    @contextmanager
    def _read(self) -> Generator[Reader]:
        if self._exclusive:
            with self._turn(), reject_damaged_text(self.path):
                yield SqliteReader(self._runner(self._writer_connection()))
            return
        self._check_file()
        connection = self._take_reader()
        with translated_errors(self.path):
            rows(connection, "BEGIN")
        try:
            with reject_damaged_text(self.path):
                yield SqliteReader(self._runner(connection))
        finally:
            if _roll_back(connection):
                self._idle.append(connection)

    @contextmanager
    def writing(
        self, streams: Sequence[str] = (), *first: Question, in_turn: bool = False
    ) -> Generator[Writer]:
        """All or nothing; SQLite admits one writer at a time, whatever the streams.

        Threads that write `in_turn` at the same time share one commit, and so one sync; each keeps
        or loses what it wrote by itself, and goes on when all of it is on disk.
        """
        with tracing.part("store write", _SYSTEM):
            is_shared = in_turn and not self._exclusive
            group = self._enter(is_shared)
            try:
                with self._member(group) as writer:
                    yield writer
            finally:
                self._leave(group, is_shared)
            while not group.wait(_PATIENCE_S):
                self._commit_if_left(group)

    def _enter(self, is_shared: bool) -> _Group:
        """Wait for the turn to write, and take part in the transaction that is open, if any."""
        self._check_process()
        turns, lock = self._turns, self._lock
        with turns.counting:
            turns.waiting += is_shared
        try:
            is_mine = lock.acquire(timeout=self._timeout_s)
        finally:
            with turns.counting:
                turns.waiting -= is_shared
        if not is_mine:
            raise busy_error(self.path, self._timeout_s)
        try:
            if turns.group.is_busy:
                raise RuntimeError("a thread that writes can't begin another transaction")
            if turns.group.is_open and not is_shared:
                self._commit(turns.group)
        except BaseException:
            lock.release()
            raise
        turns.group = turns.group if turns.group.is_open else _Group()
        return turns.group

    @contextmanager
    def _member(self, group: _Group) -> Generator[SqliteWriter]:
        """One writer's part of a transaction."""
        self._check_file()
        connection = self._writer_connection()
        is_first = not group.is_open
        with translated_errors(self.path, self._timeout_s):
            rows(connection, "BEGIN IMMEDIATE" if is_first else "SAVEPOINT member")
        group.is_open = group.is_busy = True
        try:
            writer = SqliteWriter(self._runner(connection), self._many_runner(connection))
            with reject_damaged_text(self.path):
                yield writer
            if not is_first:
                with translated_errors(self.path):
                    rows(connection, "RELEASE member")
        except BaseException as error:
            if is_first or not _undo_member(connection):
                self._give_up(group, error)
            raise
        finally:
            group.is_busy = False
        group.members += 1
        group.last = writer.last or group.last

    def _leave(self, group: _Group, is_shared: bool) -> None:
        """Let the next one write; commit, unless that one will."""
        turns, lock = self._turns, self._lock
        with turns.counting:
            if is_shared and turns.waiting and group.members < _MOST_MEMBERS:
                lock.release()
                return
        try:
            if group.is_open:
                self._commit(group)
        finally:
            lock.release()

    def _commit_if_left(self, group: _Group) -> None:
        """Commit for a writer that was to do it and went away: it was interrupted, or gave up."""
        if self._lock.acquire(blocking=False):
            try:
                if group.is_open:
                    self._commit(group)
            finally:
                self._lock.release()

    def _commit(self, group: _Group) -> None:
        """Make what all members wrote last."""
        connection = self._writer_connection()
        try:
            self._check_file()
            with translated_errors(self.path):
                rows(connection, "COMMIT")
            if self._file is not None and group.last is not None:
                self._file.last = group.last
            group.end()
        except BaseException as error:
            if isinstance(error, Exception) or not self._was_committed(group):
                self._give_up(group, error)
            else:
                group.end()
            raise

    def _was_committed(self, group: _Group) -> bool:
        """Whether a commit that was interrupted had taken place by then."""
        if self._writer is None or self._writer.in_transaction:
            return False
        return group.last is None or self._has_record(*group.last)

    def _give_up(self, group: _Group, error: BaseException) -> None:
        """Keep nothing of what the members wrote."""
        if self._writer is not None and not _roll_back(self._writer):
            # A connection that can't roll back is in no known state: never use it again.
            self._writer = None
        group.end(error)

    def check_pages(self) -> list[Problem]:
        """What SQLite's own check finds."""
        with self.reading() as reader:
            try:
                # SQLite's check trusts what this connection last saw of the text index: it has to
                # look at it once after others wrote, or it reports damage that isn't there.
                reader.run("look_at_texts", {})
                found = reader.run("check_pages", {})
            except (StoreUnavailable, Damaged) as error:
                return [damage(str(error))]
        return [damage(str(row[0])) for row in found if row[0] != "ok"]

    def backup(self, target: str, progress: Progress | None = None) -> None:
        """Copy one moment into a new file, under the eyes of other writers."""
        source = self._take_reader()
        with files.new_file(target) as temporary, translated_errors(self.path):
            copy = apsw.Connection(temporary)
            rows(source, "BEGIN")
            rows(source, "PRAGMA schema_version")
            try:
                with copy.backup("main", source, "main") as step:
                    while not step.done:
                        step.step(_BACKUP_PAGES)
                        if progress:
                            progress(step.page_count - step.remaining, step.page_count)
            finally:
                copy.close()
                if _roll_back(source):
                    self._idle.append(source)

    def facts(self) -> dict[str, Any]:
        """Version, settings and sizes."""
        with self._turn(), translated_errors(self.path):
            connection = self._new_reader() if self._is_unwritable else self._writer_connection()
            names = ("journal_mode", "synchronous", "page_size", "page_count", "user_version")
            pragmas = {name: _pragma(connection, f"PRAGMA {name}") for name in names}
        return {
            "store": self.url,
            "database": "sqlite",
            "sqlite_version": apsw.sqlite_lib_version(),
            **pragmas,
            "synchronous": {v: k for k, v in _LEVELS.items()}.get(pragmas["synchronous"], "FULL"),
            "size_bytes": files.size(self.path),
            "wal_bytes": files.size(self.path + "-wal"),
        }

    def close(self) -> None:
        """Close every connection of this process, after whoever writes now."""
        self._check_process()
        with self._turn():
            group = self._turns.group
            if group.is_open and not group.is_busy:
                self._commit(group)
            connections = [*self._idle, *([self._writer] if self._writer else ())]
            self._idle, self._writer = [], None
            for connection in connections:
                with translated_errors(self.path):
                    connection.close()

    def _forget_connections(self) -> None:
        self._process = os.getpid()
        self._lock = threading.RLock()
        self._turns = _Turns()
        self._writer: apsw.Connection | None = None
        self._idle: list[apsw.Connection] = []

    def _check_process(self) -> None:
        """A connection must not be used on both sides of a fork: the child starts afresh."""
        if self._process != os.getpid():
            self._forget_connections()

    @contextmanager
    def _turn(self) -> Generator[None]:
        self._check_process()
        lock = self._lock
        if not lock.acquire(timeout=self._timeout_s):
            raise busy_error(self.path, self._timeout_s)
        try:
            yield
        finally:
            lock.release()

    def _check_file(self) -> None:
        """See that what is read and written is in the file that has the store's name."""
        if self._file is not None:
            self._file.check()

    def _has_record(self, seq: int, digest: str) -> bool:
        """Whether the file has a record, as a new connection sees it."""
        try:
            with closing(self._connect()) as connection:
                found = rows(connection, self._statements["digest_at"], {"seq": seq})
        except apsw.Error as error:
            if isinstance(as_store_error(error, self.path, self._timeout_s), Damaged):
                return False
            raise as_store_error(error, self.path, self._timeout_s) from error
        return found == [(digest,)]

    def _take_reader(self) -> apsw.Connection:
        self._check_process()
        try:
            return self._idle.pop()
        except IndexError:
            return self._new_reader()

    def _new_reader(self) -> apsw.Connection:
        with translated_errors(self.path, self._timeout_s):
            connection = self._connect()
            if not schema.check(connection, self.path):
                with self._turn():
                    self._writer_connection()
            _set(connection, "PRAGMA query_only = ON", "PRAGMA query_only", 1)
            _set(connection, f"PRAGMA cache_size = {_CACHE}", "PRAGMA cache_size", _CACHE)
            return connection

    def _writer_connection(self) -> apsw.Connection:
        if self._is_unwritable:
            raise files.read_only_error(self.path)
        if self._writer is None:
            with translated_errors(self.path, self._timeout_s):
                connection = self._connect()
                self._prepare_writer(connection)
                self._writer = connection
        return self._writer

    def _connect(self) -> apsw.Connection:
        flags = apsw.SQLITE_OPEN_READWRITE
        if self._vfs:
            flags |= apsw.SQLITE_OPEN_CREATE
        if self._is_unwritable:
            connection = files.connect_read_only(self.path)
        else:
            connection = apsw.Connection(self.path, flags=flags, vfs=self._vfs or None)
        connection.set_busy_handler(wait_with_jitter(self._timeout_s))
        # Plans must not depend on bound values: SQLite would prepare a statement again for each.
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        _set(connection, "PRAGMA trusted_schema = OFF", "PRAGMA trusted_schema", 0)
        _set(connection, "PRAGMA cell_size_check = ON", "PRAGMA cell_size_check", 1)
        return connection

    def _prepare_writer(self, connection: apsw.Connection) -> None:
        """Settings that the file's safety rests on, in the order that it rests on."""
        level = self._synchronous
        if self._exclusive:  # before anything is read: a log without shared memory needs it
            _set(connection, "PRAGMA locking_mode = EXCLUSIVE", "PRAGMA locking_mode", "exclusive")
        schema.check(connection, self.path)
        _set(connection, f"PRAGMA synchronous = {level}", "PRAGMA synchronous", _LEVELS[level])
        _set(connection, "PRAGMA fullfsync = ON", "PRAGMA fullfsync", 1)
        _set(connection, "PRAGMA checkpoint_fullfsync = ON", "PRAGMA checkpoint_fullfsync", 1)
        _set(connection, f"PRAGMA cache_size = {_CACHE}", "PRAGMA cache_size", _CACHE)
        checkpoint = "PRAGMA wal_autocheckpoint"
        _set(connection, f"{checkpoint} = {_CHECKPOINT}", checkpoint, _CHECKPOINT)
        schema.switch_to_wal(connection, self._timeout_s)
        schema.migrate(connection, self.path)

    def _runner(self, connection: apsw.Connection) -> Run:
        statements = self._statements

        def run(name: str, values: Mapping[str, object] | Sequence[object]) -> list[Row]:
            # Not `translated`: a context manager per statement would cost as much as some of them.
            try:
                return rows(connection, statements[name], values)
            except apsw.Error as error:
                raise as_store_error(error, self.path, self._timeout_s) from error
            except (UnicodeEncodeError, OverflowError, TypeError) as error:
                raise not_storable(error) from error

        return run

    def _many_runner(self, connection: apsw.Connection) -> RunMany:
        statements = self._statements

        def run_many(name: str, values: Sequence[Sequence[object]]) -> None:
            with translated_errors(self.path):
                rows_of_many(connection, statements[name], values)

        return run_many


def _pragma(connection: apsw.Connection, query: str) -> Any:
    found = rows(connection, query)
    return found[0][0] if found else None


def _set(connection: apsw.Connection, setting: str, query: str, expected: object) -> None:
    """Set a pragma and read it back; a setting that didn't take is an error, not a hope."""
    rows(connection, setting)
    actual = _pragma(connection, query)
    if actual != expected:
        raise StoreUnavailable(
            f"SQLite did not accept {setting}: it answers {actual!r}",
            next_step="Run passdown doctor; the disk or the file system may not support it.",
        )


def _roll_back(connection: apsw.Connection) -> bool:
    """Leave the transaction, if there is one; False when even that fails."""
    try:
        if connection.in_transaction:
            rows(connection, "ROLLBACK")
    except apsw.Error:
        return False
    return True


def _undo_member(connection: apsw.Connection) -> bool:
    """Take back what one writer of several wrote; False when SQLite took back everything."""
    try:
        rows(connection, "ROLLBACK TO member; RELEASE member")
    except apsw.Error:
        return False
    return True


__all__ = [
    "SqliteStore",
    "Synchronous",
]

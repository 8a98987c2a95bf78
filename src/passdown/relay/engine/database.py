"""The engine's database: connections, heartbeats of workers, and queues (lanes).

The time is the database's, so machines needn't agree on it. A worker whose process has ended on
this machine is lost at once; one that is frozen, cut off or on another machine is lost when its
lease has expired.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
import time
import uuid
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from passdown.errors import InvalidInput, LaneFull, MissingExtra, Problem
from passdown.store import database_url, is_postgres
from passdown.store.statements import named_statements

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from dbos import DBOSClient
    from sqlalchemy import Connection, CursorResult, Engine


try:
    import sqlalchemy as sa
    from dbos import DBOS, DBOSClient, DBOSConfig
    from dbos import Serializer as _Serializer
    from sqlalchemy.event import listen
except ImportError as error:
    raise MissingExtra(
        "running agents needs the package dbos, which is not installed",
        next_step="Install it: pip install 'passdown[relay]'",
    ) from error


VARIABLE = "PASSDOWN_RELAY_URL"
FILE = "relay.db"
POOL = 20
_FILE_PREFIX = "sqlite:///"


class JsonSerializer(_Serializer):
    """Serializes what the engine stores as JSON: nothing that is read back can execute."""

    def serialize(self, data: Any) -> str:
        """Data as JSON; an error as its text."""
        return json.dumps(data, default=str)

    def deserialize(self, serialized_data: str) -> Any:
        """The data; an error is its text."""
        return json.loads(serialized_data)

    def name(self) -> str:
        """The name that the engine stores with the data."""
        return "passdown_json"


def relay_url(folder: str, given: str = "", store: str = "") -> str:
    """The URL of the engine's database: the given one, that of the environment, the database of the
    store, or a file.
    """
    url = given or os.environ.get(VARIABLE, "")
    if not url and is_postgres(store):
        url = database_url(store)
    if not url:
        return f"{_FILE_PREFIX}{os.path.join(os.path.abspath(folder), FILE)}"
    if url.startswith(("postgresql://", "postgres://")):
        rest = url.partition("://")[2]
        return f"postgresql+psycopg://{rest}"
    if url.startswith(_FILE_PREFIX):
        return url
    problem = Problem(
        VARIABLE, "invalid_url", "isn't the URL of a database", "sqlite:///FILE or postgresql://..."
    )
    raise InvalidInput("the relay can't be started", [problem])


def connect(url: str) -> Engine:
    """A pool of connections to the engine's database."""
    if not url.startswith("sqlite"):
        return sa.create_engine(url, pool_size=POOL, max_overflow=0, pool_pre_ping=True)
    _make_file(url.removeprefix(_FILE_PREFIX))
    engine = sa.create_engine(url, pool_size=POOL, max_overflow=0)
    listen(engine, "connect", _configure_connection)
    return engine


def _make_file(path: str) -> None:
    """Create the engine's file, whole or not at all: the library commits its tables one by one and
    can't continue with some of them.
    """
    with migration_lock(f"{_FILE_PREFIX}{path}"):
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
def migration_lock(url: str) -> Generator[None]:
    """Only one process at a time creates the tables of a file; a server handles that itself."""
    if not url.startswith(_FILE_PREFIX) or os.name != "posix":
        yield
        return
    import fcntl

    with open(url.removeprefix(_FILE_PREFIX) + ".lock", "a", encoding="ascii") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _configure_connection(connection: Any, _record: object) -> None:
    for name in ("wait_for_locks", "keep_a_log", "sync_each_commit"):
        connection.execute(_statements("sqlite")[name])


@cache
def _statements(dialect: str) -> dict[str, str]:
    return named_statements(os.path.join(os.path.dirname(__file__), "sql", f"{dialect}.sql"))


def run_statement(connection: Connection, name: str, **values: Any) -> CursorResult[Any]:
    """Run a named statement; returns its rows, and how many it changed."""
    return connection.execute(sa.text(_statements(connection.dialect.name)[name]), values)


LEASE_S = 30.0
_BEATS_PER_LEASE = 4
_CHECKS_PER_LEASE = 20
_LEASE_POLL_S = 0.05

log = logging.getLogger("passdown.relay")


class Worker(NamedTuple):
    """A worker as others see it; `silent_s` since its last heartbeat."""

    worker: str
    host: str
    pid: int
    started: str
    silent_s: float
    lease_s: float
    lost: int

    @property
    def is_gone(self) -> bool:
        """Whether it was a process of this machine that has ended."""
        return self.host == host_name() and started_at(self.pid) != self.started

    @property
    def is_silent(self) -> bool:
        """Whether its lease has expired."""
        return self.silent_s >= self.lease_s

    @property
    def can_be_replaced(self) -> bool:
        """Whether others may take over its work.

        After a worker was declared lost, its lease is the time to take over: another process that
        queued the same work again meanwhile would stop a third that has begun it.
        """
        return self.is_silent or (self.is_gone and not self.lost)


class Heartbeat:
    """The heartbeat of one worker, and its check of the others. `lost` is set while it has lost its
    lease.
    """

    def __init__(
        self,
        database: Engine,
        *,
        lease_s: float = LEASE_S,
        take_over: Callable[[str], int],
    ) -> None:
        """`take_over` is called with the name of a lost worker and returns the number of jobs
        taken.
        """
        self.worker = f"{host_name()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self.lease_s = lease_s
        self.lost = threading.Event()
        self._database = database
        self._take_over = take_over
        self._stopping = threading.Event()
        self._beat_at = time.monotonic()
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Sign on, take over from workers that are gone, and send heartbeats until `stop`."""
        with self._database.begin() as connection:
            run_statement(connection, "make_workers")
        self._sign_on()
        self.look()
        for target, every in ((self._beat, _BEATS_PER_LEASE), (self.look, _CHECKS_PER_LEASE)):
            arguments = (target, self.lease_s / every)
            thread = threading.Thread(target=self._repeat, args=arguments, daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        """Sign off, so that nobody waits for this lease to expire."""
        self._stopping.set()
        for thread in self._threads:
            thread.join()
        with self._database.begin() as connection:
            run_statement(connection, "sign_off", worker=self.worker)

    @property
    def is_fresh(self) -> bool:
        """Whether nobody can have taken over from this worker yet."""
        return not self.lost.is_set() and time.monotonic() - self._beat_at < self.lease_s

    def wait_for_lease(self) -> bool:
        """Wait until this worker may take new work; False if it is stopped first."""
        while not self.is_fresh:
            if self._stopping.wait(_LEASE_POLL_S):
                return False
        return True

    def look(self) -> None:
        """Check the other workers; take over from lost ones."""
        for other in workers(self._database):
            if other.worker != self.worker and other.can_be_replaced:
                self._succeed(other)

    def _succeed(self, other: Worker) -> None:
        """Take over, unless another worker does so first."""
        silent_s = other.lease_s if other.is_silent else 0.0
        values = {"worker": other.worker, "lost": other.lost, "silent_s": silent_s}
        with self._database.begin() as connection:
            is_first = run_statement(connection, "declare_lost", **values).rowcount == 1
        if not is_first:
            return
        try:
            count = self._take_over(other.worker)
        except BaseException:
            with self._database.begin() as connection:
                run_statement(
                    connection, "leave_to_others", worker=other.worker, lost=other.lost + 1
                )
            raise
        if count:
            log.warning("took over %d jobs from %s", count, other.worker)
        if other.is_gone:
            with self._database.begin() as connection:
                run_statement(connection, "sign_off", worker=other.worker)

    def _sign_on(self) -> None:
        values = {
            "worker": self.worker,
            "host": host_name(),
            "pid": os.getpid(),
            "started": started_at(os.getpid()),
            "lease_s": self.lease_s,
        }
        with self._database.begin() as connection:
            run_statement(connection, "sign_on", **values)
        self._beat_at = time.monotonic()

    def _beat(self) -> None:
        before = time.monotonic()
        with self._database.begin() as connection:
            is_kept = run_statement(connection, "beat", worker=self.worker).rowcount == 1
        if is_kept:
            self._beat_at = before
            return
        # Others have taken over: stop what runs here before taking anything new.
        log.warning("this worker was silent for too long; others have taken over its work")
        self.lost.set()
        self._stopping.wait(self.lease_s / _BEATS_PER_LEASE)
        self._sign_on()
        self.lost.clear()

    def _repeat(self, work: Callable[[], None], every_s: float) -> None:
        while not self._stopping.wait(every_s):
            try:
                work()
            except Exception:  # the database may be unavailable for a moment
                log.exception("a heartbeat failed")


def workers(database: Engine) -> list[Worker]:
    """All workers that have signed on and not off."""
    with database.connect() as connection:
        return [Worker(*row) for row in run_statement(connection, "workers")]


def host_name() -> str:
    """This machine: its name and, where available, its boot id."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return f"{socket.gethostname()}-{file.read(8)}"
    except OSError:
        return socket.gethostname()


def started_at(pid: int) -> str:
    """When a process of this machine was started; empty if there is none.

    `alive` where the system doesn't tell: then a reused process id can't be distinguished.
    """
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
        return "" if fields[0] in ("Z", "X") else fields[19]
    except FileNotFoundError:
        if os.path.isdir("/proc/self"):
            return ""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return ""
    except PermissionError:
        pass
    return "alive"


DEFAULT_CAPACITY = 1_000
POLL_S = 0.1
_SEND_RETRY_S = 0.1
LEG = "passdown.leg"
VERSION = "1"
_ENDED_STATUSES = ("ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED", "SUCCESS")


class Lanes:
    """The queues of one engine's database, for senders."""

    def __init__(
        self, client: DBOSClient, database: Engine, *, scope: str = "", room: int = DEFAULT_CAPACITY
    ) -> None:
        """`scope` separates projects that share a database."""
        self._client = client
        self._database = database
        self._scope = scope
        self.room = room

    def full_name(self, name: str) -> str:
        """The name of a lane or job in the database."""
        return f"{self._scope}.{name}" if self._scope else name

    def prepare(self, name: str, *, slots: int) -> None:
        """Create a lane, or set how many of its jobs a worker runs at once."""
        self._client.register_queue(
            self.full_name(name),
            worker_concurrency=slots,
            polling_interval_sec=POLL_S,
            on_conflict="always_update",
        )

    def send(
        self,
        lane: str,
        work: str,
        name: str,
        *args: Any,
        wait_s: float = 0.0,
        is_more: bool = False,
    ) -> bool:
        """Queue a job once; returns False if it is queued or running already.

        A full lane makes the sender wait for up to `wait_s`, then raises LaneFull. What follows
        from work that was let in (`is_more`) is always accepted: the sender may be the one that
        makes room. A job that ended without a record in the ledger is queued again under a new
        name.
        """
        deadline = time.monotonic() + wait_s
        room = None if is_more else self.room
        while True:
            outcome = self._try(self.full_name(lane), work, self.full_name(name), args, room=room)
            if outcome is not None:
                return outcome
            if time.monotonic() >= deadline:
                raise self._full(lane)
            time.sleep(min(_SEND_RETRY_S, max(deadline - time.monotonic(), 0.0)))

    def check_room(self, lane: str) -> None:
        """Raise LaneFull if a lane has no room for a new job."""
        if self.waiting(lane, at_most=self.room) >= self.room:
            raise self._full(lane)

    def _full(self, lane: str) -> LaneFull:
        return LaneFull(
            f"the lane {lane} is full ({self.room:,} wait); nothing was sent",
            next_step="Send it again later, start another worker, or wait longer.",
        )

    def _try(
        self, lane: str, work: str, name: str, args: tuple[Any, ...], *, room: int | None
    ) -> bool | None:
        """Whether it was queued now; None if there was no room."""
        with self._database.begin() as connection:
            # Locked until the commit: two senders can't both take the last place.
            run_statement(connection, "hold_lane", lane=lane)
            free = self._free_name(name)
            if free is None:
                return False
            if room is not None and self._count(lane, room) >= room:
                return None
            options = {"workflow_name": work, "queue_name": lane, "workflow_id": free}
            self._client.enqueue_in_transaction(
                connection,
                {**options, "app_version": VERSION},  # pyright: ignore[reportArgumentType]
                *args,
            )
        return True

    def _free_name(self, name: str) -> str | None:
        """An unused name for a job; None while it is queued or running."""
        known = {
            status.workflow_id: status.status
            for status in self._client.list_workflows(
                workflow_id_prefix=name, load_input=False, load_output=False
            )
            if status.workflow_id == name or status.workflow_id.startswith(f"{name}~")
        }
        if any(status not in _ENDED_STATUSES for status in known.values()):
            return None
        return f"{name}~{len(known) + 1}" if known else name

    def waiting(self, lane: str, *, at_most: int = 100_000) -> int:
        """The number of jobs that wait in a lane, counted up to `at_most`."""
        return self._count(self.full_name(lane), at_most)

    def _count(self, lane: str, at_most: int) -> int:
        found = self._client.list_queued_workflows(
            queue_name=lane, status="ENQUEUED", limit=at_most, load_input=False
        )
        return len(found)


__all__ = [
    "DBOS",
    "DBOSClient",
    "DBOSConfig",
    "JsonSerializer",
    "connect",
    "migration_lock",
    "relay_url",
    "run_statement",
]

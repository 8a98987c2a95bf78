"""The engine of one process: its database, heartbeats of workers, queues (lanes) and workflows.

The time is the database's, so machines needn't agree on it. A worker whose process has ended on
this machine is lost at once; one that is frozen, cut off or on another machine is lost when its
lease has expired. A workflow's name and arguments are what is queued; they stay the same from
release to release.
"""

from __future__ import annotations

import json
import logging
import math
import os
import sys
import threading
import time
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self, TextIO, cast

from passdown.errors import InvalidInput, LaneFull, MissingExtra, Problem
from passdown.ledger.durable_files import take_lock
from passdown.relay.engine import host_name, started_at, worker_name
from passdown.store import database_url, is_postgres
from passdown.store.statements import named_statements

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from sqlalchemy import Connection, CursorResult, Engine


try:
    import sqlalchemy as sa
    from dbos import DBOS, DBOSClient, DBOSConfig
    from dbos import Serializer as _Serializer
    from sqlalchemy.event import listen
except ImportError as error:
    raise MissingExtra.named(
        "relay", "running agents needs the package dbos, which is not installed"
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
        return f"postgresql+psycopg://{url.partition('://')[2]}"
    if url.startswith(_FILE_PREFIX):
        return url
    message, expected = "isn't the URL of a database", "sqlite:///FILE or postgresql://..."
    problem = Problem(VARIABLE, "invalid_url", message, expected)
    raise InvalidInput("the relay can't be started", [problem])


def connect(url: str) -> Engine:
    """A pool of connections to the engine's database."""
    if not url.startswith("sqlite"):
        return sa.create_engine(url, pool_size=POOL, max_overflow=0, pool_pre_ping=True)
    _make_file(url.removeprefix(_FILE_PREFIX))
    engine = sa.create_engine(url, pool_size=POOL, max_overflow=0)

    def configure(connection: Any, _record: object) -> None:
        for name in ("wait_for_locks", "keep_a_log", "sync_each_commit"):
            connection.execute(_statements("sqlite")[name])

    listen(engine, "connect", configure)
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
    if not url.startswith(_FILE_PREFIX):
        yield
        return
    with open(url.removeprefix(_FILE_PREFIX) + ".lock", "a", encoding="ascii") as file:
        take_lock(file.fileno(), math.inf)
        yield


@cache
def _statements(dialect: str) -> dict[str, str]:
    return named_statements(os.path.join(os.path.dirname(__file__), "sql", f"{dialect}.sql"))


def run_statement(connection: Connection, name: str, **values: Any) -> CursorResult[Any]:
    """Run a named statement; returns its rows, and how many it changed."""
    return connection.execute(sa.text(_statements(connection.dialect.name)[name]), values)


def change(database: Engine, name: str, **values: Any) -> int:
    """Run a named statement in a transaction of its own; returns how many rows it changed."""
    with database.begin() as connection:
        return run_statement(connection, name, **values).rowcount


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
    def state(self) -> str:
        """alive, silent for longer than its lease, or gone."""
        return "gone" if self.is_gone else "silent" if self.is_silent else "alive"

    def document(self) -> dict[str, Any]:
        """The worker as plain JSON."""
        return {**self._asdict(), "silent_s": round(self.silent_s, 1), "state": self.state}

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
        self, database: Engine, *, lease_s: float = LEASE_S, take_over: Callable[[str], int]
    ) -> None:
        """`take_over` is called with the name of a lost worker and returns the number of jobs
        taken.
        """
        self.worker = worker_name()
        self.lease_s = lease_s
        self.lost = threading.Event()
        self._database = database
        self._take_over = take_over
        self._stopping = threading.Event()
        self._beat_at = time.monotonic()
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Sign on, take over from workers that are gone, and send heartbeats until `stop`."""
        change(self._database, "make_workers")
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
        change(self._database, "sign_off", worker=self.worker)

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
        if change(self._database, "declare_lost", **values) != 1:
            return
        try:
            count = self._take_over(other.worker)
        except BaseException:
            change(self._database, "leave_to_others", worker=other.worker, lost=other.lost + 1)
            raise
        if count:
            log.warning("took over %d jobs from %s", count, other.worker)
        if other.is_gone:
            change(self._database, "sign_off", worker=other.worker)

    def _sign_on(self) -> None:
        pid = os.getpid()
        about = {"host": host_name(), "pid": pid, "started": started_at(pid)}
        change(self._database, "sign_on", worker=self.worker, lease_s=self.lease_s, **about)
        self._beat_at = time.monotonic()

    def _beat(self) -> None:
        before = time.monotonic()
        if change(self._database, "beat", worker=self.worker) == 1:
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


DEFAULT_CAPACITY = 1_000
POLL_S = 0.1
_SEND_RETRY_S = 0.1
LEG = "passdown.leg"
VERSION = "1"
_ENDED_STATUSES = ("ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED", "SUCCESS")


class WorkHandler(Protocol):
    """Does the queued work of this process; each method may be called again after a crash."""

    def take_turn(self, run: str, number: int) -> None:
        """Take one turn of a run and record how it ended, unless that is recorded already."""
        ...

    def advance(self, run: str) -> None:
        """Advance a run and queue its open turns."""
        ...


class _Process:
    """What this process runs: the library allows one engine, which holds `launched`."""

    launched = threading.Lock()
    counting = threading.Lock()
    work: WorkHandler | None = None
    active = 0


@contextmanager
def _handler() -> Generator[WorkHandler]:
    if _Process.work is None:
        raise RuntimeError("the engine of this process has been stopped")
    with _Process.counting:
        _Process.active += 1
    try:
        yield _Process.work
    finally:
        with _Process.counting:
            _Process.active -= 1


@DBOS.step(name="passdown.take_turn")
def _take_turn(run: str, number: int) -> None:
    with _handler() as work:
        work.take_turn(run, number)


@DBOS.step(name="passdown.go_on")
def _advance(run: str) -> None:
    with _handler() as work:
        work.advance(run)


@DBOS.workflow(name=LEG)
def leg(run: str, number: int) -> None:
    """One leg of a run, then advance the run."""
    _take_turn(run, number)
    _advance(run)


NAME = "passdown"
_DRAIN_S = 86_400


class RelayEngine:
    """A context manager; at most one is launched in a process."""

    def __init__(
        self, url: str, *, scope: str = "", lease_s: float = LEASE_S, room: int = DEFAULT_CAPACITY
    ) -> None:
        """Connect to the engine's database; nothing runs until `launch`.

        `scope` separates projects that share a database.
        """
        self._scope = scope
        self._url = url
        self.database = connect(url)
        self._client: DBOSClient | None = None
        self.room = room
        self._is_launched = False
        self.heartbeat = Heartbeat(self.database, lease_s=lease_s, take_over=self._take_over)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def client(self) -> DBOSClient:
        """The library's client; the first use prepares the database."""
        if self._client is None:
            with migration_lock(self._url):
                DBOS.migrate(self._url)
                change(self.database, "make_workers")
                change(self.database, "make_lanes")
            self._client = DBOSClient(
                system_database_engine=self.database,
                serializer=JsonSerializer(),
                application_name=NAME,
            )
        return self._client

    def launch(self, work: WorkHandler, lanes: Mapping[str, int]) -> None:
        """Start to do the work of lanes, with a number of slots for each.

        Raises InvalidInput if another engine of this process is launched.
        """
        if not _Process.launched.acquire(blocking=False):
            problem = Problem("", "second_engine", "this process has another one", "one at a time")
            raise InvalidInput("the engine was not launched", [problem])
        self._is_launched = True
        for name, slots in lanes.items():
            self.prepare(name, slots=slots)
        _Process.work = work
        config: DBOSConfig = {
            "name": NAME,
            "system_database_engine": self.database,
            "executor_id": self.heartbeat.worker,
            "application_version": VERSION,
            "serializer": JsonSerializer(),
            "enable_otlp": False,
            "log_level": "ERROR",
            "run_migrations": False,
            "notification_listener_polling_interval_sec": 0.1,
        }
        for handler in logging.getLogger("dbos").handlers:
            if type(handler) is logging.StreamHandler:
                # It has the standard error of when dbos was imported, which may be closed by now.
                cast("logging.StreamHandler[TextIO]", handler).stream = sys.stderr
        DBOS(config=config)
        DBOS.listen_queues([self.full_name(name) for name in lanes])
        DBOS.launch()
        logging.getLogger("dbos").setLevel(logging.ERROR)
        self.heartbeat.start()

    def close(self) -> None:
        """Finish what runs, then sign off. Even if the database fails, this process may launch
        another engine afterwards.
        """
        with ExitStack() as last:
            last.callback(self.database.dispose)
            if self._client is not None:
                last.callback(self._client.destroy)
            if self._is_launched:
                last.callback(self._give_way)
                last.callback(self.heartbeat.stop)
                DBOS.destroy(workflow_completion_timeout_sec=_DRAIN_S if _Process.active else 0)
                # What it took at the last moment is left to others at once.
                self._take_over(self.heartbeat.worker)

    def _give_way(self) -> None:
        _Process.work = None
        self._is_launched = False
        _Process.launched.release()

    def forget_lane(self, name: str) -> None:
        """Remove the lane of a run that has ended."""
        self.client.delete_queue(self.full_name(name))

    def full_name(self, name: str) -> str:
        """The name of a lane or job in the database."""
        return f"{self._scope}.{name}" if self._scope else name

    def prepare(self, name: str, *, slots: int) -> None:
        """Create a lane, or set how many of its jobs a worker runs at once."""
        self.client.register_queue(
            self.full_name(name),
            worker_concurrency=slots,
            polling_interval_sec=POLL_S,
            on_conflict="always_update",
        )

    def send(
        self, lane: str, run: str, number: int, *, wait_s: float = 0.0, is_more: bool = False
    ) -> bool:
        """Queue a turn once; returns False if it is queued or running already.

        A full lane makes the sender wait for up to `wait_s`, then raises LaneFull. What follows
        from work that was let in (`is_more`) is always accepted: the sender may be the one that
        makes room. A job that ended without a record in the ledger is queued again under a new
        name.
        """
        deadline = time.monotonic() + wait_s
        room = None if is_more else self.room
        while True:
            outcome = self._try(lane, run, number, room=room)
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

    def _try(self, lane: str, run: str, number: int, *, room: int | None) -> bool | None:
        """Whether it was queued now; None if there was no room."""
        client = self.client  # before the transaction: the first use creates the tables
        with self.database.begin() as connection:
            # Locked until the commit: two senders can't both take the last place.
            queue = self.full_name(lane)
            run_statement(connection, "hold_lane", lane=queue)
            free = self._free_name(self.full_name(f"{run}.{number}"))
            if free is None:
                return False
            if room is not None and self.waiting(lane, at_most=room) >= room:
                return None
            options = {"workflow_name": LEG, "queue_name": queue, "workflow_id": free}
            client.enqueue_in_transaction(
                connection,
                {**options, "app_version": VERSION},  # pyright: ignore[reportArgumentType]
                run,
                number,
            )
        return True

    def _free_name(self, name: str) -> str | None:
        """An unused name for a job; None while it is queued or running."""
        alike = self.client.list_workflows(
            workflow_id_prefix=name, load_input=False, load_output=False
        )
        known = [each for each in alike if each.workflow_id.partition("~")[0] == name]
        if any(each.status not in _ENDED_STATUSES for each in known):
            return None
        return f"{name}~{len(known) + 1}" if known else name

    def waiting(self, lane: str, *, at_most: int = 100_000) -> int:
        """The number of jobs that wait in a lane, counted up to `at_most`."""
        found = self.client.list_queued_workflows(
            queue_name=self.full_name(lane), status="ENQUEUED", limit=at_most, load_input=False
        )
        return len(found)

    def _take_over(self, worker: str) -> int:
        """Queue the work of a lost worker again."""
        held = self.client.list_workflows(
            status="PENDING", executor_id=worker, load_input=False, load_output=False
        )
        for status in held:
            self.client.resume_workflow(status.workflow_id, queue_name=status.queue_name)
        return len(held)

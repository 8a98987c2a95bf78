"""Workflows, and the engine of one process that runs them.

A workflow's name and arguments are what is queued; they stay the same from release to release.
"""

from __future__ import annotations

import logging
import threading
from contextlib import ExitStack, contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Protocol, Self

from passdown.errors import InvalidInput, Problem
from passdown.relay.engine.database import (
    DBOS,
    DEFAULT_CAPACITY,
    ITEM,
    LEASE_S,
    LEG,
    VERSION,
    DBOSClient,
    DBOSConfig,
    Heartbeat,
    JsonSerializer,
    Lanes,
    connect,
    migration_lock,
    run_statement,
)

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping


class WorkHandler(Protocol):
    """How this process does what was queued; each may be called again after a crash."""

    def take_turn(self, run: str, number: int) -> None:
        """Do one leg of a run and record how it ended, unless that is recorded already."""
        ...

    def go_on(self, run: str) -> None:
        """Draw the consequences of what has ended, and queue what follows."""
        ...

    def do_express(self, item: str) -> None:
        """Carry out one express item, unless it was."""
        ...


class _CurrentHandler:
    """Who does the work of this process: the library knows one engine in each."""

    work: WorkHandler | None = None
    lock = Lock()
    active = 0


def active_count() -> int:
    """How many pieces of work are under way in this process."""
    return _CurrentHandler.active


def set_handler(work: WorkHandler | None) -> None:
    """From now on, this does the work of this process; None when nothing does any more."""
    _CurrentHandler.work = work


@contextmanager
def _handler() -> Generator[WorkHandler]:
    if _CurrentHandler.work is None:
        raise RuntimeError("the engine of this process has been stopped")
    with _CurrentHandler.lock:
        _CurrentHandler.active += 1
    try:
        yield _CurrentHandler.work
    finally:
        with _CurrentHandler.lock:
            _CurrentHandler.active -= 1


@DBOS.step(name="passdown.take_turn")
def _take_turn(run: str, number: int) -> None:
    with _handler() as work:
        work.take_turn(run, number)


@DBOS.step(name="passdown.go_on")
def _go_on(run: str) -> None:
    with _handler() as work:
        work.go_on(run)


@DBOS.step(name="passdown.do_express")
def _do_express(item: str) -> None:
    with _handler() as work:
        work.do_express(item)


@DBOS.workflow(name=LEG)
def leg(run: str, number: int) -> None:
    """One leg of a run, and what follows from it."""
    _take_turn(run, number)
    _go_on(run)


@DBOS.workflow(name=ITEM)
def express(item: str) -> None:
    """One express item."""
    _do_express(item)


NAME = "passdown"
_DRAIN_S = 86_400


class _ProcessEngine:
    """The engine of this process."""

    lock = threading.Lock()


class RelayEngine:
    """Use it as a context manager. There is one in a process at a time."""

    def __init__(
        self, url: str, *, scope: str = "", lease_s: float = LEASE_S, room: int = DEFAULT_CAPACITY
    ) -> None:
        """Connect to the engine's database; nothing is run until `launch`.

        `scope` keeps apart the projects that share a database.
        """
        self._scope = scope
        self._url = url
        self.database = connect(url)
        self._client: DBOSClient | None = None
        self._room = room
        self._is_launched = False
        self.heartbeat = Heartbeat(self.database, lease_s=lease_s, take_over=self._take_over)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def lanes(self) -> Lanes:
        """The lanes, to send to; the database is made ready by the first use."""
        return Lanes(self.client, self.database, scope=self._scope, room=self._room)

    @property
    def client(self) -> DBOSClient:
        """The library's own view of the database."""
        if self._client is None:
            with migration_lock(self._url):
                DBOS.migrate(self._url)
                with self.database.begin() as connection:
                    run_statement(connection, "make_workers")
                    run_statement(connection, "make_lanes")
            self._client = DBOSClient(
                system_database_engine=self.database,
                serializer=JsonSerializer(),
                application_name=NAME,
            )
        return self._client

    def launch(self, work: WorkHandler, lanes: Mapping[str, int]) -> None:
        """Start doing work from lanes, so many pieces of each at once.

        Raises InvalidInput where this process has another engine at work: the library knows one.
        """
        if not _ProcessEngine.lock.acquire(blocking=False):
            problem = Problem("", "second_engine", "this process has one at work", "one at a time")
            raise InvalidInput("the engine is not launched", [problem])
        self._is_launched = True
        for name, slots in lanes.items():
            self.lanes.prepare(name, slots=slots)
        set_handler(work)
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
        DBOS(config=config)
        DBOS.listen_queues([self.lanes.full_name(name) for name in lanes])
        DBOS.launch()
        logging.getLogger("dbos").setLevel(logging.ERROR)
        self.heartbeat.start()

    def close(self) -> None:
        """Let what runs come to its end, then sign off.

        Whatever the database says to that, this process may have another engine afterwards.
        """
        with ExitStack() as last:
            last.callback(self.database.dispose)
            if self._client is not None:
                last.callback(self._client.destroy)
            if self._is_launched:
                last.callback(self._give_way)
                last.callback(self.heartbeat.stop)
                DBOS.destroy(workflow_completion_timeout_sec=_DRAIN_S if active_count() else 0)
                # What it took at the last moment is left to others at once.
                self._take_over(self.heartbeat.worker)

    def _give_way(self) -> None:
        set_handler(None)
        self._is_launched = False
        _ProcessEngine.lock.release()

    def forget_lane(self, name: str) -> None:
        """Remove the lane of a run that is over."""
        self.client.delete_queue(self.lanes.full_name(name))

    def _take_over(self, worker: str) -> int:
        """Queue again what a lost worker was at."""
        held = self.client.list_workflows(
            status="PENDING", executor_id=worker, load_input=False, load_output=False
        )
        for status in held:
            self.client.resume_workflow(status.workflow_id, queue_name=status.queue_name)
        return len(held)

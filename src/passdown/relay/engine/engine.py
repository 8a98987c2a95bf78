"""Workflows, and the engine of one process that runs them.

A workflow's name and arguments are what is queued; they stay the same from release to release.
"""

from __future__ import annotations

import logging
import sys
from contextlib import ExitStack, contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Protocol, Self, TextIO, cast

from passdown.errors import InvalidInput, Problem
from passdown.relay.engine.database import (
    DBOS,
    DEFAULT_CAPACITY,
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
    """Does the queued work of this process; each method may be called again after a crash."""

    def take_turn(self, run: str, number: int) -> None:
        """Take one turn of a run and record how it ended, unless that is recorded already."""
        ...

    def advance(self, run: str) -> None:
        """Advance a run and queue its open turns."""
        ...


class _Process:
    """What this process runs: the library allows one engine, which holds `launched`."""

    launched = Lock()
    counting = Lock()
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
        self._room = room
        self._is_launched = False
        self.heartbeat = Heartbeat(self.database, lease_s=lease_s, take_over=self._take_over)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def lanes(self) -> Lanes:
        """The queues, to send to; the first use prepares the database."""
        return Lanes(self.client, self.database, scope=self._scope, room=self._room)

    @property
    def client(self) -> DBOSClient:
        """The library's client of the database."""
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
        """Start to do the work of lanes, with a number of slots for each.

        Raises InvalidInput if another engine of this process is launched.
        """
        if not _Process.launched.acquire(blocking=False):
            problem = Problem("", "second_engine", "this process has another one", "one at a time")
            raise InvalidInput("the engine was not launched", [problem])
        self._is_launched = True
        for name, slots in lanes.items():
            self.lanes.prepare(name, slots=slots)
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
        DBOS.listen_queues([self.lanes.full_name(name) for name in lanes])
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
        self.client.delete_queue(self.lanes.full_name(name))

    def _take_over(self, worker: str) -> int:
        """Queue the work of a lost worker again."""
        held = self.client.list_workflows(
            status="PENDING", executor_id=worker, load_input=False, load_output=False
        )
        for status in held:
            self.client.resume_workflow(status.workflow_id, queue_name=status.queue_name)
        return len(held)

"""One process's engine: launched on a database, listening to lanes, beating while it lives."""

from __future__ import annotations

import logging
import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING, Self

from passdown.errors import InvalidInput, Problem
from passdown.relay.engine.database import (
    DBOS,
    DBOSClient,
    DBOSConfig,
    PlainJson,
    alone,
    connect,
    run,
)
from passdown.relay.engine.heartbeats import LEASE_S, Heartbeat
from passdown.relay.engine.lanes import ROOM, VERSION, Lanes
from passdown.relay.engine.workflows import active, serve

if TYPE_CHECKING:
    from collections.abc import Mapping

    from passdown.relay.engine.workflows import Work

NAME = "passdown"
_DRAIN_S = 86_400


class _One:
    """The engine of this process."""

    lock = threading.Lock()


class Engine:
    """Use it as a context manager. There is one in a process at a time."""

    def __init__(
        self, url: str, *, scope: str = "", lease_s: float = LEASE_S, room: int = ROOM
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
            with alone(self._url):
                DBOS.migrate(self._url)
                with self.database.begin() as connection:
                    run(connection, "make_workers")
                    run(connection, "make_lanes")
            self._client = DBOSClient(
                system_database_engine=self.database,
                serializer=PlainJson(),
                application_name=NAME,
            )
        return self._client

    def launch(self, work: Work, lanes: Mapping[str, int]) -> None:
        """Start doing work from lanes, so many pieces of each at once.

        Raises InvalidInput where this process has another engine at work: the library knows one.
        """
        if not _One.lock.acquire(blocking=False):
            problem = Problem("", "second_engine", "this process has one at work", "one at a time")
            raise InvalidInput("the engine is not launched", [problem])
        self._is_launched = True
        for name, slots in lanes.items():
            self.lanes.prepare(name, slots=slots)
        serve(work)
        config: DBOSConfig = {
            "name": NAME,
            "system_database_engine": self.database,
            "executor_id": self.heartbeat.worker,
            "application_version": VERSION,
            "serializer": PlainJson(),
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
                DBOS.destroy(workflow_completion_timeout_sec=_DRAIN_S if active() else 0)
                # What it took at the last moment is left to others at once.
                self._take_over(self.heartbeat.worker)

    def _give_way(self) -> None:
        serve(None)
        self._is_launched = False
        _One.lock.release()

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

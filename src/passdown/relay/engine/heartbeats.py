"""Workers that are alive: each says so in time, and what a silent one was at goes to others.

The time is the database's, so machines needn't agree on it. A worker whose process is gone from
this machine is known to be lost at once; one that is frozen, cut off or on another machine is lost
when its lease has run out.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
import uuid
from typing import TYPE_CHECKING, NamedTuple

from passdown.relay.engine.database import changed, run

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Engine

LEASE_S = 30.0
_BEATS = 4
_LOOKS = 20
_PAUSE_S = 0.05

log = logging.getLogger("passdown.relay")


class Worker(NamedTuple):
    """A worker as the others see it: `silent_s` since its last beat."""

    worker: str
    host: str
    pid: int
    started: str
    silent_s: float
    lease_s: float
    lost: int

    @property
    def is_gone(self) -> bool:
        """Whether it was a process of this machine, and is no more."""
        return self.host == host_name() and started_at(self.pid) != self.started

    @property
    def is_silent(self) -> bool:
        """Whether its lease has run out."""
        return self.silent_s >= self.lease_s

    @property
    def is_up_for_succession(self) -> bool:
        """Whether its work is anybody's.

        Whoever declares a worker lost has that worker's lease to take over in: a second one who
        queued the same work again meanwhile would stop a third who has begun with it.
        """
        return self.is_silent or (self.is_gone and not self.lost)


class Heartbeat:
    """One worker's beat, and its look at the others. `lost` is set while it has lost its lease."""

    def __init__(
        self,
        database: Engine,
        *,
        lease_s: float = LEASE_S,
        take_over: Callable[[str], int],
    ) -> None:
        """`take_over` is called with a lost worker's name and gives how much it took."""
        self.worker = f"{host_name()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self.lease_s = lease_s
        self.lost = threading.Event()
        self._database = database
        self._take_over = take_over
        self._stopping = threading.Event()
        self._beat_at = time.monotonic()
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Sign on, take over from those that are gone, and go on beating until `stop`."""
        with self._database.begin() as connection:
            run(connection, "make_workers")
        self._sign_on()
        self.look()
        for target, every in ((self._beat, _BEATS), (self.look, _LOOKS)):
            arguments = (target, self.lease_s / every)
            thread = threading.Thread(target=self._repeat, args=arguments, daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        """Sign off: nobody has to wait for this one's lease."""
        self._stopping.set()
        for thread in self._threads:
            thread.join()
        with self._database.begin() as connection:
            run(connection, "sign_off", worker=self.worker)

    @property
    def is_fresh(self) -> bool:
        """Whether nobody can have taken over from this worker yet."""
        return not self.lost.is_set() and time.monotonic() - self._beat_at < self.lease_s

    def wait_for_lease(self) -> bool:
        """Wait until this worker may take something new; False where it is stopped before."""
        while not self.is_fresh:
            if self._stopping.wait(_PAUSE_S):
                return False
        return True

    def look(self) -> None:
        """Look at the others; take over what lost ones were at."""
        for other in workers(self._database):
            if other.worker != self.worker and other.is_up_for_succession:
                self._succeed(other)

    def _succeed(self, other: Worker) -> None:
        """Take over, if no other worker does so first."""
        silent_s = other.lease_s if other.is_silent else 0.0
        values = {"worker": other.worker, "lost": other.lost, "silent_s": silent_s}
        with self._database.begin() as connection:
            is_first = changed(connection, "declare_lost", **values) == 1
        if not is_first:
            return
        try:
            count = self._take_over(other.worker)
        except BaseException:
            with self._database.begin() as connection:
                run(connection, "leave_to_others", worker=other.worker, lost=other.lost + 1)
            raise
        if count:
            log.warning("took over work from %s (pieces: %d)", other.worker, count)
        if other.is_gone:
            with self._database.begin() as connection:
                run(connection, "sign_off", worker=other.worker)

    def _sign_on(self) -> None:
        values = {
            "worker": self.worker,
            "host": host_name(),
            "pid": os.getpid(),
            "started": started_at(os.getpid()),
            "lease_s": self.lease_s,
        }
        with self._database.begin() as connection:
            run(connection, "sign_on", **values)
        self._beat_at = time.monotonic()

    def _beat(self) -> None:
        before = time.monotonic()
        with self._database.begin() as connection:
            is_kept = changed(connection, "beat", worker=self.worker) == 1
        if is_kept:
            self._beat_at = before
            return
        # Others have taken over: what runs here is stopped before this worker takes anything new.
        log.warning("this worker was silent for too long; others have its work")
        self.lost.set()
        self._stopping.wait(self.lease_s / _BEATS)
        self._sign_on()
        self.lost.clear()

    def _repeat(self, work: Callable[[], None], every_s: float) -> None:
        while not self._stopping.wait(every_s):
            try:
                work()
            except Exception:  # a database that is away for a moment
                log.exception("a heartbeat failed")


def workers(database: Engine) -> list[Worker]:
    """All workers that have signed on and not off."""
    with database.connect() as connection:
        return [Worker(*row) for row in run(connection, "workers")]


def host_name() -> str:
    """This machine, as others see it: its name and, where it has one, the id of this boot."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return f"{socket.gethostname()}-{file.read(8)}"
    except OSError:
        return socket.gethostname()


def started_at(pid: int) -> str:
    """When a process of this machine was started; empty when there is none.

    Where the system doesn't say, `alive`: then a number that is used again looks like the same.
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

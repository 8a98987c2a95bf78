"""The engine: legs as durable workflows, on SQLite or PostgreSQL.

The ledger says what is to be done and what was done; the engine only makes sure that some worker
does it. A workflow may be lost or run twice without harm: its effect is a record with a key of
its own, and what is open in the ledger is queued again. No other package imports `dbos`.
"""

from __future__ import annotations

import os
import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING

from passdown.errors import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Generator


_RECREATE = "It holds only what is queued: move the file away, and it is recreated from the ledger."


@contextmanager
def database_faults(next_step: str = "") -> Generator[None]:
    """Raise StoreUnavailable for a fault of the engine's database."""
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except SQLAlchemyError as error:
        said = (str(error).splitlines() or [""])[0]
        message = f"the engine's database can't be used: {said}"
        fix = "" if "not a database" not in said and "malformed" not in said else _RECREATE
        raise StoreUnavailable(message, next_step=f"{fix} {next_step}".strip()) from error


def worker_name() -> str:
    """A new name for a worker: its machine, its process with the start of that, and a mark."""
    pid = os.getpid()
    return f"{host_name()}-{pid}-{started_at(pid)}.{os.urandom(4).hex()}"


def has_ended(worker: str) -> bool:
    """Whether a worker was a process of this machine that has ended; False if that isn't known."""
    host, _, mark = worker.rpartition("-")
    host, _, pid = host.rpartition("-")
    started = mark.partition(".")[0] if "." in mark else ""
    if host != host_name() or not pid.isdigit():
        return False
    now = started_at(int(pid))
    return now != started if started else not now


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

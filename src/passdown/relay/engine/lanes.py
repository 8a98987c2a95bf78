"""Lanes: normal and express, apart from each other, each with room for so much and no more."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from passdown.errors import LaneFull
from passdown.relay.engine.database import run

if TYPE_CHECKING:
    from dbos import DBOSClient
    from sqlalchemy import Engine

NORMAL, EXPRESS = "normal", "express"
ROOM = 1_000
POLL_S = 0.1
_PAUSE_S = 0.1
LEG, ITEM = "passdown.leg", "passdown.express"
VERSION = "1"
_AWAY = ("ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED", "SUCCESS")


class Lanes:
    """The queues of one engine's database, as a sender sees them."""

    def __init__(
        self, client: DBOSClient, database: Engine, *, scope: str = "", room: int = ROOM
    ) -> None:
        """`scope` keeps apart the projects that share a database."""
        self._client = client
        self._database = database
        self._scope = scope
        self.room = room

    def full_name(self, name: str) -> str:
        """A lane or piece of work as the database knows it."""
        return f"{self._scope}.{name}" if self._scope else name

    def prepare(self, name: str, *, slots: int) -> None:
        """Make a lane, or set how many pieces of work a worker takes from it at once."""
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
        """Queue a piece of work once; gives False where it is queued or under way already.

        A full lane makes the sender wait for up to `wait_s`; then raises LaneFull. What follows
        from work that has its place already (`is_more`) is always let in: whoever does it may be
        the one that makes room. What ended without a trace in the ledger is queued again under a
        further name.
        """
        deadline = time.monotonic() + wait_s
        room = None if is_more else self.room
        while True:
            outcome = self._try(self.full_name(lane), work, self.full_name(name), args, room=room)
            if outcome is not None:
                return outcome
            if time.monotonic() >= deadline:
                raise self._full(lane)
            time.sleep(min(_PAUSE_S, max(deadline - time.monotonic(), 0.0)))

    def check_room(self, lane: str) -> None:
        """Raise LaneFull where a lane has no room for a new piece of work."""
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
        """Whether it was queued now; None where there was no room."""
        with self._database.begin() as connection:
            # Held until the commit: two senders can't both take the last place.
            run(connection, "hold_lane", lane=lane)
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
        """A name for the work that wasn't used; None while it is queued or under way."""
        known = {
            status.workflow_id: status.status
            for status in self._client.list_workflows(
                workflow_id_prefix=name, load_input=False, load_output=False
            )
            if status.workflow_id == name or status.workflow_id.startswith(f"{name}~")
        }
        if any(status not in _AWAY for status in known.values()):
            return None
        return f"{name}~{len(known) + 1}" if known else name

    def waiting(self, lane: str, *, at_most: int = 100_000) -> int:
        """How many pieces of work wait in a lane, counted up to a number."""
        return self._count(self.full_name(lane), at_most)

    def _count(self, lane: str, at_most: int) -> int:
        found = self._client.list_queued_workflows(
            queue_name=lane, status="ENQUEUED", limit=at_most, load_input=False
        )
        return len(found)

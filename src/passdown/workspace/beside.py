"""What is recorded beside the tasks: runs, agents' states, conversations.

Such a record is chained and verified like any other, but belongs to no task and changes none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from passdown.ledger.via import writing_via as recorded_via
from passdown.ledger.writing import Aside, damaged_tail

if TYPE_CHECKING:
    from datetime import datetime

    from passdown.model.record import Head, Record
    from passdown.workspace.opened import Held, Opened


class Beside:
    """The streams beside the tasks of one open workspace; threads may share it."""

    def __init__(self, workspace: Held) -> None:
        self.opened: Opened = workspace._opened  # pyright: ignore[reportPrivateUsage]

    def add(self, *asides: Aside) -> list[Record]:
        """Write records in one transaction; Conflict or KeyReused say that none was written."""
        return self.opened.ledger.add_aside(asides)

    def records(self, stream: str, after: int = 0) -> list[Record]:
        """The records of a stream above a position; raises Damaged if one isn't as written."""
        with self.opened.store.reading() as reader:
            return [_intact(record) for record in reader.records(stream, after=after)]

    def last(self, stream: str) -> Record | None:
        """The last record of a stream; None where there is no such stream."""
        with self.opened.store.reading() as reader:
            head = reader.head(stream)
            record = reader.record(stream, head.position) if head else None
        return _intact(record) if record else None

    def position(self, stream: str) -> int:
        """How many records a stream has."""
        with self.opened.store.reading() as reader:
            head = reader.head(stream)
        return head.position if head else 0

    def streams(self, prefix: str) -> list[Head]:
        """The heads of all streams whose name starts so, by name."""
        with self.opened.store.reading() as reader:
            return list(reader.heads(prefix))

    def now(self) -> datetime:
        """The time by the workspace's clock."""
        return self.opened.clock()


def _intact(record: Record) -> Record:
    if not record.is_intact():
        raise damaged_tail(record.stream, record.position)
    return record


__all__ = ["Aside", "Beside", "recorded_via"]

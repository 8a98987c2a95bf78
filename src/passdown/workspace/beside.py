"""What is recorded beside the tasks: runs, agents' states, conversations.

Such a record is chained and verified like any other, but belongs to no task and changes none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from passdown.ledger.via import may_write as may_record
from passdown.ledger.via import writing_via as recorded_via
from passdown.ledger.writing import Aside, damaged_tail
from passdown.model.kinds import AGENT_STREAM, EXPRESS_STREAM, RUN_STREAM

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from passdown.model.record import Head, Record
    from passdown.workspace.opened import Held, Opened


READ_BY_ALL = (RUN_STREAM, EXPRESS_STREAM, AGENT_STREAM)
"""Streams that a server shows to everybody. Others hold tokens, or are an agent's own."""


class Streams(Protocol):
    """Where the streams beside the tasks are: in a store that is open here, or behind a server."""

    def add(self, asides: Sequence[Aside]) -> list[Record]:
        """Write records in one transaction."""
        ...

    def records(self, stream: str, after: int) -> list[Record]:
        """The records of a stream above a position."""
        ...

    def heads(self, prefix: str) -> list[Head]:
        """The heads of all streams whose name starts so, by name."""
        ...

    def last(self, stream: str) -> Record | None:
        """The last record of a stream."""
        ...

    def position(self, stream: str) -> int:
        """How many records a stream has."""
        ...

    def now(self) -> datetime:
        """The time."""
        ...


class _Here:
    """The streams of a store that is open in this process."""

    def __init__(self, opened: Opened) -> None:
        self._opened = opened

    def add(self, asides: Sequence[Aside]) -> list[Record]:
        return self._opened.ledger.add_aside(asides)

    def records(self, stream: str, after: int) -> list[Record]:
        with self._opened.store.reading() as reader:
            return list(reader.records(stream, after=after))

    def heads(self, prefix: str) -> list[Head]:
        with self._opened.store.reading() as reader:
            return list(reader.heads(prefix))

    def last(self, stream: str) -> Record | None:
        with self._opened.store.reading() as reader:
            head = reader.head(stream)
            return reader.record(stream, head.position) if head else None

    def position(self, stream: str) -> int:
        with self._opened.store.reading() as reader:
            head = reader.head(stream)
        return head.position if head else 0

    def now(self) -> datetime:
        return self._opened.clock()


class Beside:
    """The streams beside the tasks of one open workspace; threads may share it.

    Behind a server, those of runs, express items and agents can be read.
    """

    def __init__(self, workspace: Held) -> None:
        self._workspace = workspace
        self._streams = _streams_of(workspace)

    @property
    def opened(self) -> Opened:
        """The workspace itself; raises PassdownError where it is behind a server."""
        return self._workspace._opened  # pyright: ignore[reportPrivateUsage]

    def add(self, *asides: Aside) -> list[Record]:
        """Write records in one transaction; Conflict or KeyReused say that none was written."""
        return self._streams.add(asides)

    def records(self, stream: str, after: int = 0) -> list[Record]:
        """The records of a stream above a position; raises Damaged if one isn't as written."""
        return [_intact(record) for record in self._streams.records(stream, after)]

    def last(self, stream: str) -> Record | None:
        """The last record of a stream; None where there is no such stream."""
        record = self._streams.last(stream)
        return _intact(record) if record else None

    def position(self, stream: str) -> int:
        """How many records a stream has."""
        return self._streams.position(stream)

    def streams(self, prefix: str) -> list[Head]:
        """The heads of all streams whose name starts so, by name."""
        return self._streams.heads(prefix)

    def now(self) -> datetime:
        """The time by the workspace's clock."""
        return self._streams.now()


def _streams_of(workspace: Held) -> Streams:
    wire = workspace._wire  # pyright: ignore[reportPrivateUsage]
    if wire is None:
        return _Here(workspace._opened)  # pyright: ignore[reportPrivateUsage]
    from passdown.workspace.remote.streams import RemoteStreams

    return RemoteStreams(wire)


def _intact(record: Record) -> Record:
    if not record.is_intact():
        raise damaged_tail(record.stream, record.position)
    return record


__all__ = ["READ_BY_ALL", "Aside", "Beside", "may_record", "recorded_via"]

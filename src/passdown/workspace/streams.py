"""Streams beside the tasks: runs, agents' states, conversations.

Such a record is chained and verified like any other, but belongs to no task and changes none.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from passdown.core.kinds import AGENT_STREAM, EXPRESS_STREAM, RUN_STREAM
from passdown.ledger.channel import may_write as may_record
from passdown.ledger.channel import recording_channel as recorded_via
from passdown.ledger.writer import StreamEntry, damaged_stream

if TYPE_CHECKING:
    from collections.abc import Sequence

    from passdown.core.record import Head, Record
    from passdown.workspace import Workspace
    from passdown.workspace.context import Context


READ_BY_ALL = (RUN_STREAM, EXPRESS_STREAM, AGENT_STREAM)
"""Streams that a server shows to everybody. Others hold tokens, or are an agent's own."""


class Streams:
    """Where the streams beside the tasks are: in a store that is open here, or behind a server."""

    def add(self, entries: Sequence[StreamEntry]) -> list[Record]:
        """Write records in one transaction."""
        raise NotImplementedError

    def records(self, stream: str, after: int) -> list[Record]:
        """The records of a stream above a position."""
        raise NotImplementedError

    def heads(self, prefix: str) -> list[Head]:
        """The heads of all streams whose name starts so, by name."""
        raise NotImplementedError

    def last(self, stream: str) -> Record | None:
        """The last record of a stream."""
        position = self.position(stream)
        found = self.records(stream, position - 1) if position else []
        return found[-1] if found else None

    def position(self, stream: str) -> int:
        """How many records a stream has."""
        return next((head.position for head in self.heads(stream) if head.stream == stream), 0)

    def now(self) -> datetime:
        """The time of this machine."""
        return datetime.now(UTC)


class LocalStreams(Streams):
    """The streams of a store that is open in this process."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def add(self, entries: Sequence[StreamEntry]) -> list[Record]:
        return self._context.ledger.add_entries(entries)

    def records(self, stream: str, after: int) -> list[Record]:
        with self._context.store.reading() as reader:
            return list(reader.records(stream, after=after))

    def heads(self, prefix: str) -> list[Head]:
        with self._context.store.reading() as reader:
            return list(reader.heads(prefix))

    def last(self, stream: str) -> Record | None:
        with self._context.store.reading() as reader:
            head = reader.head(stream)
            return reader.record(stream, head.position) if head else None

    def position(self, stream: str) -> int:
        with self._context.store.reading() as reader:
            head = reader.head(stream)
        return head.position if head else 0

    def now(self) -> datetime:
        return self._context.clock()


class WorkspaceStreams:
    """The streams beside the tasks of one open workspace; threads may share it.

    Behind a server, those of runs, express items and agents can be read.
    """

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._streams = workspace._streams()  # pyright: ignore[reportPrivateUsage]

    @property
    def is_local(self) -> bool:
        """Whether the store is open in this process, not behind a server."""
        return isinstance(self._streams, LocalStreams)

    @property
    def context(self) -> Context:
        """The workspace itself; raises PassdownError where it is behind a server."""
        return self._workspace._context  # pyright: ignore[reportPrivateUsage]

    def add(self, *entries: StreamEntry) -> list[Record]:
        """Write records in one transaction; Conflict or KeyReused say that none was written."""
        return self._streams.add(entries)

    def records(self, stream: str, after: int = 0) -> list[Record]:
        """The records of a stream above a position; raises Damaged if one isn't as written."""
        return [_intact(record) for record in self._streams.records(stream, after)]

    def last(self, stream: str) -> Record | None:
        """The last record of a stream; None where there is no such stream."""
        record = self._streams.last(stream)
        return _intact(record) if record else None

    def keyed(self, stream: str, key: str) -> Record | None:
        """The record of a stream with a key; None where there is none."""
        with self.context.store.reading() as reader:
            return reader.record_by_key(stream, key)

    def position(self, stream: str) -> int:
        """How many records a stream has."""
        return self._streams.position(stream)

    def streams(self, prefix: str) -> list[Head]:
        """The heads of all streams whose name starts so, by name."""
        return self._streams.heads(prefix)

    def now(self) -> datetime:
        """The time by the workspace's clock."""
        return self._streams.now()


def _intact(record: Record) -> Record:
    if not record.is_intact():
        raise damaged_stream(record.stream, record.position)
    return record


__all__ = ["READ_BY_ALL", "StreamEntry", "WorkspaceStreams", "may_record", "recorded_via"]

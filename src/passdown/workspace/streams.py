"""Streams beside the tasks: runs, agents' states, conversations.

Such a record is chained and verified like any other, but belongs to no task and changes none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from passdown.core.kinds import AGENT_STREAM, EXPRESS_STREAM, RUN_STREAM
from passdown.core.settings import DEFAULTS, Settings
from passdown.ledger.channel import any_author
from passdown.ledger.channel import may_write as may_record
from passdown.ledger.channel import recording_channel as recorded_via
from passdown.ledger.writer import StreamEntry, damaged_stream

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from passdown.core.record import Head, Record
    from passdown.workspace import Workspace
    from passdown.workspace.context import Context


READ_BY_ALL = (RUN_STREAM, EXPRESS_STREAM, AGENT_STREAM)
"""Streams that a server shows to everybody. Others hold tokens, or are an agent's own."""


KEPT_BY_ADAPTERS = (
    "agents-sdk/",
    "checkpoint/",
    "graph/",
    "graph-asked/",
    "pydantic-ai/",
    "store/",
)
"""Streams of adapters: conversations, checkpoints, runs of graphs, memories. Through a server, they
are read and written with a token that may write in the name of others.
"""


class Streams:
    """The streams of a store that is open in this process; `RemoteStreams` are a server's."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.settings = context.settings

    def add(self, entries: Sequence[StreamEntry]) -> list[Record]:
        """Write records in one transaction."""
        return self._context.ledger.add_entries(entries)

    def records(self, stream: str, after: int) -> list[Record]:
        """The records of a stream above a position."""
        with self._context.store.reading() as reader:
            return list(reader.records(stream, after=after))

    def heads(self, prefix: str) -> list[Head]:
        """The heads of all streams whose name starts so, by name."""
        with self._context.store.reading() as reader:
            return list(reader.heads(prefix))

    def head(self, stream: str) -> Head | None:
        """The head of a stream; None where there is no such stream."""
        with self._context.store.reading() as reader:
            return reader.head(stream)

    def record(self, stream: str, position: int) -> Record | None:
        """The record of a stream at a position; None where there is none."""
        with self._context.store.reading() as reader:
            return reader.record(stream, position)

    def keyed(self, stream: str, key: str) -> Record | None:
        """The record of a stream with a key; None where there is none."""
        with self._context.store.reading() as reader:
            return reader.record_by_key(stream, key)

    def now(self) -> datetime:
        """The time by the workspace's clock; behind a server, that of this machine."""
        return self._context.clock()


class WorkspaceStreams:
    """The streams beside the tasks of one open workspace; threads may share it.

    Behind a server, those of runs, express items and agents can be read; those of adapters can be
    written too.
    """

    def __init__(self, workspace: Workspace) -> None:
        self._streams = workspace._streams()  # pyright: ignore[reportPrivateUsage]

    @property
    def is_local(self) -> bool:
        """Whether the store is open in this process, not behind a server."""
        return type(self._streams) is Streams

    @property
    def settings(self) -> Settings:
        """The settings of the workspace; the defaults if it is behind a server."""
        return self._streams.settings if self.is_local else DEFAULTS

    def add(self, *entries: StreamEntry) -> list[Record]:
        """Write records in one transaction; Conflict or KeyReused say that none was written."""
        return self._streams.add(entries)

    def records(self, stream: str, after: int = 0) -> list[Record]:
        """The records of a stream above a position; raises Damaged if one isn't as written."""
        found = self._streams.records(stream, after)
        for record in found:
            if not record.is_intact():
                raise damaged_stream(record.stream, record.position)
        return found

    def last(self, stream: str) -> Record | None:
        """The last record of a stream; None where there is no such stream."""
        position = self.position(stream)
        found = self.records(stream, position - 1) if position else []
        return found[-1] if found else None

    def record(self, stream: str, position: int) -> Record | None:
        """The record of a stream at a position, unchecked; None where there is none."""
        return self._streams.record(stream, position)

    def keyed(self, stream: str, key: str) -> Record | None:
        """The record of a stream with a key; None where there is none."""
        return self._streams.keyed(stream, key)

    def position(self, stream: str) -> int:
        """How many records a stream has."""
        head = self.head(stream)
        return head.position if head else 0

    def head(self, stream: str) -> Head | None:
        """The head of a stream; None where there is no such stream."""
        return self._streams.head(stream)

    def streams(self, prefix: str) -> list[Head]:
        """The heads of all streams whose name starts so, by name."""
        return self._streams.heads(prefix)

    def now(self) -> datetime:
        """The time by the workspace's clock."""
        return self._streams.now()


__all__ = [
    "KEPT_BY_ADAPTERS",
    "READ_BY_ALL",
    "StreamEntry",
    "WorkspaceStreams",
    "any_author",
    "may_record",
    "recorded_via",
]

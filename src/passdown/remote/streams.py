"""Streams through a server."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from passdown.core.record import Head, Record
from passdown.core.types import NEWEST
from passdown.remote import pages
from passdown.workspace.streams import READ_BY_ALL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from passdown.ledger.writer import StreamEntry
    from passdown.remote import RemoteWorkspace


class RemoteStreams:
    """Streams as a server shows them: those of runs, express items and agents. None is written."""

    def __init__(self, workspace: RemoteWorkspace) -> None:
        self._workspace = workspace
        self._connection = workspace.connection

    def add(self, entries: Sequence[StreamEntry]) -> list[Record]:
        """Refused: a server takes what there is a route for."""
        raise self._workspace.unsupported(f"to write to {entries[0].stream.split('/')[0]}")

    def records(self, stream: str, after: int) -> list[Record]:
        """The records of a stream above a position, page by page."""
        self._check_shown(stream)
        path = "/api/streams/records"
        found = pages(self._connection, path, NEWEST, str(after), {"stream": stream})
        return [Record(**{**one, "body": one["body"].encode()}) for one in found]

    def heads(self, prefix: str) -> list[Head]:
        """The heads of all streams whose name starts so, by name."""
        self._check_shown(prefix)
        reply = self._connection.ask("GET", "/api/streams", query={"prefix": prefix})
        return [Head(**head) for head in reply.document()["items"]]

    def last(self, stream: str) -> Record | None:
        """The last record of a stream."""
        position = self.position(stream)
        found = self.records(stream, position - 1) if position else []
        return found[-1] if found else None

    def position(self, stream: str) -> int:
        """How many records a stream has."""
        return next((head.position for head in self.heads(stream) if head.stream == stream), 0)

    def _check_shown(self, stream: str) -> None:
        if not stream.startswith(READ_BY_ALL):
            raise self._workspace.unsupported(f"to read {stream.split('/', maxsplit=1)[0]}")

    def now(self) -> datetime:
        """The time of this machine."""
        return datetime.now(UTC)

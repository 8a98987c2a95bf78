"""The streams beside the tasks, read through a server: those of runs, express items, agents."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from passdown.model.record import Head, Record
from passdown.workspace.beside import READ_BY_ALL
from passdown.workspace.remote.asking import Asking, Listing
from passdown.workspace.remote.elsewhere import not_offered
from passdown.workspace.remote.replies import not_passdown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from passdown.ledger.writing import Aside
    from passdown.workspace.remote.connection import Wire

Document = dict[str, Any]


class RemoteStreams(Asking):
    """What `workspace.beside` reads from; nothing is written to a stream as such."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def add(self, asides: Sequence[Aside]) -> list[Record]:
        """Refused: a server takes what there is an address for."""
        raise not_offered(self._wire.server.url, f"to write to {asides[0].stream.split('/')[0]}")

    def records(self, stream: str, after: int) -> list[Record]:
        """The records of a stream above a position, page by page."""
        self._check_shown(stream)
        found: list[Record] = []
        listing = Listing(self._wire)
        while True:
            place = found[-1].position if found else after
            reply = listing.ask("/api/streams/records", {"stream": stream, "after": place})
            page = reply.document()
            found += [Record(**{**one, "body": one["body"].encode()}) for one in page["items"]]
            if not page["more"]:
                return found
            if not page["items"] or found[-1].position <= place:
                raise not_passdown(reply, "is a page that leads nowhere")

    def heads(self, prefix: str) -> list[Head]:
        """The heads of all streams whose name starts so, by name."""
        self._check_shown(prefix)
        return [Head(**head) for head in self._get("/api/streams", prefix=prefix)["items"]]

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
            raise not_offered(self._wire.server.url, f"to read {stream.split('/', maxsplit=1)[0]}")

    def now(self) -> datetime:
        """The time of this machine."""
        return datetime.now(UTC)

"""Streams, relations and the knowledge file, through a server."""

from __future__ import annotations

import hashlib
import json
import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from passdown.core.record import Head, Record
from passdown.errors import Problem
from passdown.knowledge.graph_files import read_graph
from passdown.remote.client import Client, Listing, unsupported
from passdown.remote.connection import not_passdown
from passdown.workspace.knowledge_sync import SyncFolders, WrittenKnowledge
from passdown.workspace.streams import READ_BY_ALL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from passdown.core.knowledge import Relation
    from passdown.knowledge.merge import Merge
    from passdown.ledger.writer import StreamEntry
    from passdown.remote.connection import HttpConnection
    from passdown.workspace import Workspace


class RemoteStreams(Client):
    """What `workspace.beside` reads from; nothing is written to a stream as such."""

    def __init__(self, wire: HttpConnection) -> None:
        self._connection = wire

    def add(self, asides: Sequence[StreamEntry]) -> list[Record]:
        """Refused: a server takes what there is an address for."""
        raise unsupported(
            self._connection.server.url, f"to write to {asides[0].stream.split('/')[0]}"
        )

    def records(self, stream: str, after: int) -> list[Record]:
        """The records of a stream above a position, page by page."""
        self._check_shown(stream)
        found: list[Record] = []
        listing = Listing(self._connection)
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
            raise unsupported(
                self._connection.server.url, f"to read {stream.split('/', maxsplit=1)[0]}"
            )

    def now(self) -> datetime:
        """The time of this machine."""
        return datetime.now(UTC)


class RemoteMemories(Client):
    """See `workspace.memories` for what each method does."""

    def __init__(self, wire: HttpConnection) -> None:
        self._connection = wire

    def relate(self, relation: Relation, *, agent: str) -> bool:
        """Write down that one node bears on another; False where it was known."""
        body = {**relation._asdict(), "agent": agent}
        return self._post("/api/relations", body, repeats=True)["is_new"]

    def address_of_decision(self, key: str, task: str | None) -> str:
        """The address of the decision that was stored under a key."""
        return self._get("/api/stored-decisions", key=key, task=task)["address"]


_LARGEST = 2**62


class RemoteLedger(Client):
    """What was written down, through a server."""

    def __init__(self, wire: HttpConnection, workspace: Workspace) -> None:
        self._connection = wire
        self._workspace = workspace

    def written(self, since: int) -> WrittenKnowledge:
        """What was written down, and what several agents wrote differently since a record."""
        # What is remembered stands in a file, which may say anything.
        place = min(max(since, 0), _LARGEST)
        found = self._get("/api/knowledge", is_heavy=True, since=place)
        reports = tuple(Problem(**report) for report in found["reports"])
        return WrittenKnowledge(
            read_graph(json.dumps(found["graph"]), "json"), found["seq"], reports
        )

    def learn(self, merge: Merge, agent: str) -> None:
        """Write down what a file says."""
        self._workspace.learn(merge.nodes, merge.edges, agent=agent)


def places_here(url: str) -> SyncFolders:
    """The project of the current folder. What its file said last time is remembered in the cache of
    the user: a folder `.passdown` here would be taken for a workspace.
    """
    root = os.getcwd()
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    whose = f"{url}\0{os.path.realpath(root)}".encode()
    name = hashlib.blake2b(whose, digest_size=8).hexdigest()
    memory = os.path.join(cache, "passdown", "knowledge", name)
    return SyncFolders(root, os.path.join(root, ".passdown"), memory)

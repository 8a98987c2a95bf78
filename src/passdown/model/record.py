"""The record: the envelope of anything stored, and the digest that chains it to its predecessor.

The digest covers every field of the envelope, each prefixed with its length so that no two
different envelopes share their bytes, and the digest of the record before it in the stream. The
body is hashed and stored as the same canonical bytes (RFC 8785); it is never written out anew.
"""

from __future__ import annotations

import json
from typing import Any

from passdown.model.values import NamedTuple

GENESIS = "sha256:" + "0" * 64
_DOMAIN = b"passdown/record/1"


class Record(NamedTuple):
    """One stored fact. `seq` is its place in the order of the whole store (0: not stored yet)."""

    stream: str
    position: int
    at: str
    author: str
    kind: str
    key: str
    previous: str
    digest: str
    body: bytes
    seq: int = 0

    def document(self) -> dict[str, Any]:
        """The body as plain data."""
        return json.loads(self.body)

    def is_intact(self) -> bool:
        """Whether the digest is the one that these fields give."""
        return self.digest == seal(self)


class Head(NamedTuple):
    """The last record of a stream: what the next one must follow."""

    stream: str
    position: int
    digest: str


def seal(record: Record) -> str:
    """The digest that belongs to a record's fields."""
    import hashlib

    parts = (
        _DOMAIN,
        record.stream.encode(),
        str(record.position).encode(),
        record.at.encode(),
        record.author.encode(),
        record.kind.encode(),
        record.key.encode(),
        record.previous.encode(),
        record.body,
    )
    return "sha256:" + hashlib.sha256(b"".join(b"%d:%b" % (len(p), p) for p in parts)).hexdigest()


def chained(record: Record, head: Head | None) -> Record:
    """The record placed after `head` and sealed."""
    placed = record._replace(
        position=head.position + 1 if head else 1, previous=head.digest if head else GENESIS
    )
    return placed._replace(digest=seal(placed))

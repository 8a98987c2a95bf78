"""Derived rows: items, tasks, links, labels, inboxes and search entries."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from passdown.core.values import NamedTuple

if TYPE_CHECKING:
    from passdown.core.graph import Edge, Node


class ItemRow(NamedTuple):
    """Where an item is recorded, and its status; its text stays in the record.

    `field` and `index` point into the body of the record at `position`; equal items share their
    `fingerprint`. `grade` ranks an item among its kind: a severity, a priority, `blocking`, an
    artifact's type (empty once the file is deleted), or that a handoff is `proven`. `sizes` is how
    long its texts are; see `items`. `note` says why the status changed; of a handoff, what a repeat
    answers (see `documents.answer_note`); of a fact, the value that its key had before.
    """

    task: str
    letter: str
    ordinal: int
    position: int
    field: str
    index: int  # pyright: ignore[reportIncompatibleMethodOverride]
    status: str
    is_open: bool
    title: str
    fingerprint: str
    path: str = ""
    closed_at: int = 0
    note: str = ""
    grade: str = ""
    sizes: str = ""

    @property
    def address(self) -> str:
        """The item's address, such as `T-12#d3`."""
        return f"{self.task}#{self.letter}{self.ordinal}"


class StatusChange(NamedTuple):
    """An item that a record closed, reopened or marked."""

    letter: str
    ordinal: int
    status: str
    is_open: bool
    closed_at: int
    note: str


class LinkRow(NamedTuple):
    """An item that bears on something outside its own task: `blocks` a task, `supersedes` an item.

    `opened_seq` and `closed_seq` (0: still open) say during which part of the store's history.
    """

    source: str
    relation: str
    target: str
    opened_seq: int
    closed_seq: int = 0


class LabelRow(NamedTuple):
    """An item filed under a tag or a path."""

    task: str
    label: str
    letter: str
    ordinal: int


class TaskRow(NamedTuple):
    """The current row of a task: `details` changes rarely, `header` with every record."""

    task: str
    version: int
    digest: str
    status: str
    phase: str
    holder: str
    created_seq: int
    updated_seq: int
    header: dict[str, Any]
    details: dict[str, Any]


class InboxRow(NamedTuple):
    """A handoff that waits for its receiver; `held` while a human gate is open."""

    agent: str
    task: str
    position: int
    held: bool


NODE_PREFIX = "node:"
MEMORY_PREFIX = "memory:"
"""What the id of a memory's node begins with; its key follows."""


class EntryRow(NamedTuple):
    """One thing that search finds. `words` are compared, `heads` are those of its headings, `marks`
    are what filters ask for; `passage` is a digest of its text: equal texts share a vector.
    """

    address: str
    task: str
    kind: str
    agent: str
    at: str
    status: str
    position: int
    length: int
    traits: int
    heads: str
    passage: bytes
    words: str
    marks: str


class KnowledgeRow(NamedTuple):
    """A node that somebody wrote down, and where."""

    node: Node
    task: str
    position: int


class IndexChanges(NamedTuple):
    """What a record adds. `dropped` are the addresses of entries, and `forgotten` the nodes and
    edges, that it removes; `edges` may repeat known ones.
    """

    entries: tuple[EntryRow, ...] = ()
    edges: tuple[Edge, ...] = ()
    tags: tuple[tuple[str, str], ...] = ()
    nodes: tuple[Node, ...] = ()
    forgotten_nodes: tuple[str, ...] = ()
    forgotten_edges: tuple[tuple[str, str, str], ...] = ()


class SearchTerm(NamedTuple):
    """What an entry must have to be found: the word, where one is named, and of each group of marks
    at least one. How that is put to an index is the store's business.
    """

    word: str = ""
    marks: tuple[tuple[str, ...], ...] = ()


@lru_cache(maxsize=4_096)
def mark_of(name: str, value: str) -> str:
    """The mark that an entry with this value for `name` carries."""
    import hashlib

    return hashlib.blake2b(f"{name}={value}".encode(), digest_size=8).hexdigest()

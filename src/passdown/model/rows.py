"""Derived rows: what the store keeps beside the records so that no read has to replay the past.

They are plain tuples. Each can be made again from the records alone; a store never holds a fact
that exists only here.
"""

from __future__ import annotations

from typing import Any

from passdown.model.values import NamedTuple


class ItemRow(NamedTuple):
    """Where one item stands and what has become of it; its text stays in the record.

    `field` and `index` point into the body of the record at `position`; `fingerprint` tells equal
    items apart from merely similar ones. `grade` is what ranks an item among its kind: a severity,
    a priority, `blocking`, or an artifact's type (empty once the file is deleted). `sizes` is how
    long its texts are; see `item_text`.
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
    """A task as it stands: `details` changes rarely, `header` with every record."""

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
    """A handoff that waits for its receiver; `held` while a human gate stands in its way."""

    agent: str
    task: str
    position: int
    held: bool

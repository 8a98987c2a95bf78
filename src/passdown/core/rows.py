"""Derived rows: items, tasks, links, labels, search entries; and the facts of a brief."""

from __future__ import annotations

from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from passdown.core.calls import COMMANDS
from passdown.core.types import NEWEST, JsonObject
from passdown.core.values import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

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


Row = TypeVar("Row")


def newest_first(page: Callable[[int], Sequence[Row]], number: str = "seq") -> Iterator[Row]:
    """Rows page by page; `page` reads those below a number, `number` names the field it is in."""
    before = NEWEST
    while found := page(before):
        yield from found
        before = getattr(found[-1], number)


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


class ItemContent(NamedTuple):
    """What a record says of an item, who wrote it, and the hashes of the files that it cites.

    Of a question or a gate that was settled, `answer` is how, and `author` who did. Its files may
    be another machine's, and then `is_elsewhere`.
    """

    entry: dict[str, Any]
    author: str
    at: str
    cited: dict[str, str] = {}  # noqa: RUF012
    answer: str = ""
    is_remote: bool = False


ANSWERED = "y"
"""The letter under which a settled question or gate is shown: not as open, but for its answer."""

CLOSED = "z"
"""The letter under which an item is shown that the last handoff closed by not listing it."""


def is_holding(gate: ItemRow, header: JsonObject) -> bool:
    """Whether an open human gate keeps the receiver from starting: it waits, or was rejected and
    the task hasn't been handed off since.
    """
    return gate.status == "pending" or gate.position == header["handoff_version"]


def shown_letter(row: ItemRow) -> str:
    """The letter under which an item is shown. A rejected gate stays among the gates; the result of
    a quality gate is no answer.
    """
    if row.letter in "bnr":
        return row.letter if row.is_open else CLOSED
    is_answered = row.field != "gates" and not row.is_open
    return ANSWERED if row.letter in "qk" and is_answered else row.letter


class BriefFacts(NamedTuple):
    """One moment of a task, for one brief.

    `items` are those that come first into question, the newest first within a kind; `older` gives
    the others page by page, so that a large budget finds them too. `totals` has the number of all
    that hold, by kind letter, and `elsewhere` the same for what concerns all work. `labelled` are
    the addresses of those that are filed under something the receiver is about to do. `handoffs`
    are the summaries of the latest handoffs, by task and position, the latest first; `memory_refs`
    are what the last one says to look up, and `despite` is why it completed the task over what was
    open; `more_closed` counts what it closed beside the items; `own` gives the positions of some
    items that are those of the receiver's own latest records. `content` reads an item's record,
    `read_ahead` says of which items it will be asked next; `stale` names the files that an item
    cites and that aren't what they were. `names` says what the brief names for the rest: commands,
    MCP tools or methods.
    """

    row: TaskRow
    needs: tuple[tuple[str, str], ...]
    blocked_by: tuple[str, ...]
    items: tuple[ItemRow, ...]
    labelled: frozenset[str]
    older: Callable[[], Iterator[Sequence[ItemRow]]]
    totals: dict[str, int]
    elsewhere: dict[str, int]
    content: Callable[[ItemRow], ItemContent]
    stale: Callable[[ItemRow, ItemContent], tuple[str, ...]]
    handoffs: Mapping[tuple[str, int], str] = MappingProxyType({})
    memory_refs: tuple[str, ...] = ()
    despite: str = ""
    more_closed: int = 0
    names: str = COMMANDS
    own: Callable[[Sequence[ItemRow]], frozenset[int]] = lambda _: frozenset()
    read_ahead: Callable[[Sequence[ItemRow]], None] = lambda _: None

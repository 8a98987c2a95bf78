"""The facts a brief is made from: the task, its items and their contents."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from passdown.core.values import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from passdown.core.rows import ItemRow, TaskRow


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


def shown_letter(row: ItemRow) -> str:
    """The letter under which an item is shown. A rejected gate stays open, and is answered; the
    result of a quality gate is no answer.
    """
    if row.letter in "bnr":
        return row.letter if row.is_open else CLOSED
    is_answered = row.field != "gates" and (not row.is_open or row.status == "rejected")
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
    cites and that aren't what they were.
    """

    row: TaskRow
    needs: tuple[tuple[str, str], ...]
    blocked_by: tuple[str, ...]
    items: tuple[ItemRow, ...]
    labelled: frozenset[str]
    older: Callable[[], Iterator[Sequence[ItemRow]]]
    totals: dict[str, int]
    elsewhere: dict[str, int]
    state_file: str
    content: Callable[[ItemRow], ItemContent]
    stale: Callable[[ItemRow, ItemContent], tuple[str, ...]]
    handoffs: Mapping[tuple[str, int], str] = MappingProxyType({})
    memory_refs: tuple[str, ...] = ()
    despite: str = ""
    more_closed: int = 0
    own: Callable[[Sequence[ItemRow]], frozenset[int]] = lambda _: frozenset()
    read_ahead: Callable[[Sequence[ItemRow]], None] = lambda _: None

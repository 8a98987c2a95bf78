"""The Store protocol, and the errors that every store reports in the same words.

SQLite and PostgreSQL implement it; one conformance suite checks both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from passdown.errors import Damaged, InvalidInput, Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from passdown.store.statements import Reader, Writer

    Progress = Callable[[int, int], None]
    Question = Callable[[Reader], object]
    Run = Callable[[str, Mapping[str, object] | Sequence[object]], list["Row"]]
    """Runs one named statement with bound values and gives all of its rows."""
    RunMany = Callable[[str, Sequence[Sequence[object]]], None]
    """Runs one named statement once for each of many rows of values."""

Row = tuple[Any, ...]

PAGE = 500
"""How many rows are fetched at once where all are wanted."""


class Store(Protocol):
    """Where records and derived rows are kept."""

    @property
    def url(self) -> str:
        """The address that opens this store again."""
        ...

    def reading(self) -> AbstractContextManager[Reader]:
        """The read gate."""
        ...

    def writing(
        self, streams: Sequence[str], *first: Question, in_turn: bool = False
    ) -> AbstractContextManager[Writer]:
        """The write gate, for the named streams (empty: the whole store).

        `first` is what the writer will be asked first (a hint, as in `Reader.ahead`); `in_turn`
        takes its turn at once (`Writer.take_turn`).
        """
        ...

    def check_pages(self) -> list[Problem]:
        """Damage that the database itself can see."""
        ...

    def backup(self, target: str, progress: Progress | None = None) -> None:
        """Copy a consistent moment of the store to a new file, synced, while others go on."""
        ...

    def facts(self) -> dict[str, Any]:
        """What `doctor` reports: versions, settings, sizes."""
        ...

    def close(self) -> None:
        """Close every connection. Closing twice is fine."""
        ...


UNKNOWN = "Whether it was written is unknown; do it again with the same key, that is always safe."


def damage(finding: str) -> Problem:
    """Damage that the database itself sees."""
    return Problem("", "page_damage", finding, fix="restore a backup, or export what is intact")


def damaged(store: str, finding: str) -> Damaged:
    """The error for a store that is damaged."""
    return Damaged(
        f"the store {store} is damaged",
        [damage(finding)],
        next_step="Run passdown verify to see what is intact; restore a backup beside it.",
    )


def not_storable(error: Exception) -> InvalidInput:
    """The error for a value that no store can look for: broken text, a number out of range."""
    message = " ".join(str(error).split())[:200]
    problem = Problem("", "not_storable", message, "text in UTF-8 and 64-bit numbers")
    return InvalidInput("a value can't be stored or looked for", [problem])

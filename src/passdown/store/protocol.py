"""The Store protocol. SQLite and PostgreSQL implement it; one conformance suite checks both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from passdown.errors import Problem
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

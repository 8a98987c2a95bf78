"""What a store promises. SQLite and PostgreSQL keep the same promises; one suite checks both.

- A read gate shows one moment: no record or row appears or changes while it is open.
- A write gate admits one writer at a time to a stream. It commits as a whole when its block ends
  and not at all when the block raises; once it has been left, what was written survives the process
  and the machine.
- Every failure of the database comes out as a `StoreError`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from passdown.errors import Problem
    from passdown.store.running import Question
    from passdown.store.statements import Reader, Writer

    Progress = Callable[[int, int], None]


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
        """Let go of every connection. Closing twice is fine."""
        ...

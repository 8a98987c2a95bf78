"""How named statements are run: what a database offers to those who ask and write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from passdown.store.statements import Reader

    Question = Callable[[Reader], object]

Row = tuple[Any, ...]

PAGE = 500
"""How many rows are fetched at once where all are wanted."""


class Run(Protocol):
    """Runs one named statement with bound values and gives its rows."""

    def __call__(self, name: str, values: Mapping[str, object] | Sequence[object], /) -> list[Row]:
        """The rows of the statement, all of them."""
        ...


class RunMany(Protocol):
    """Runs one named statement once for each of many rows of values."""

    def __call__(self, name: str, values: Sequence[Sequence[object]], /) -> None:
        """Run it for all of them."""
        ...

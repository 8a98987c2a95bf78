"""What vectors say about one question: its own vector is made while its words are looked up.

Making it takes as long as everything else, and numpy and SQLite both let other threads run; so one
thread makes it and looks through the codes, and is waited for when the first of it is needed.
"""

from __future__ import annotations

import threading
from contextvars import copy_context
from functools import cached_property
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from passdown.errors import PassdownError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from passdown.recall.candidates import Allows
    from passdown.recall.vectors import StoredIndex, VectorIndex
    from passdown.recall.vectors.index import Passing, Within
    from passdown.recall.vectors.packing import Floats
    from passdown.store.statements import Reader

_Made = TypeVar("_Made")


class Later(Generic[_Made]):
    """What a function gives, which runs on a thread of its own meanwhile."""

    def __init__(self, make: Callable[[], _Made]) -> None:
        """Starts it, in the context of the caller."""
        self._made: list[_Made] = []
        self._error: BaseException | None = None
        self._thread = threading.Thread(
            target=copy_context().run, args=(self._run, make), daemon=True
        )
        self._thread.start()

    def _run(self, make: Callable[[], _Made]) -> None:
        try:
            self._made.append(make())
        except BaseException as error:  # noqa: BLE001 - raised where the result is asked for
            self._error = error

    def result(self) -> _Made:
        """Wait for it; raises what the function raised."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._made[0]


class Vector(NamedTuple):
    """A question as a vector of length one, and what is about the nearest to it, where that was
    looked for already.
    """

    numbers: Floats
    nearby: Sequence[int] | None = None


class Meaning:
    """One question, the index that it is held against, and what passes its filter."""

    def __init__(
        self,
        index: VectorIndex | StoredIndex,
        within: Within,
        make: Callable[[], Vector],
        failed: Callable[[PassdownError], None],
    ) -> None:
        """Starts making the vector. Where that fails, `failed` is told, and nothing is near."""
        self._index = index
        self._within = within
        self._failed = failed
        self._later = Later(make)

    @property
    def passing(self) -> Passing | None:
        """Which entries pass the filter's marks, where this process knows."""
        return self._within.passing

    @cached_property
    def _vector(self) -> Vector | None:
        try:
            return self._later.result()
        except PassdownError as error:
            self._failed(error)
            return None

    def near(self, reader: Reader, allows: Allows, count: int) -> list[int]:
        """Up to `count` entries that are near to it and pass, nearest first."""
        if self._vector is None:
            return []
        numbers, nearby = self._vector
        return self._index.nearest(
            reader, numbers, self._within, allows, count=count, nearby=nearby
        )

    def near_of(self, reader: Reader, ids: Sequence[int], count: int) -> list[int]:
        """The nearest of some entries, nearest first."""
        if self._vector is None:
            return []
        return self._index.nearest_of(reader, self._vector.numbers, ids, count=count)

    def nearness(self, reader: Reader, ids: Iterable[int]) -> Mapping[int, float]:
        """How near entries are to it, 0 to 1; those without a vector are left out."""
        if self._vector is None:
            return {}
        return self._index.nearness(reader, self._vector.numbers, ids)

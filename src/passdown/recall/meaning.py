"""What vectors say about one question, held against one index, within one filter."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from passdown.recall.candidates import Allows
    from passdown.recall.vectors import StoredIndex, VectorIndex
    from passdown.recall.vectors.index import Passing, Within
    from passdown.recall.vectors.packing import Floats
    from passdown.store.statements import Reader


class Meaning:
    """One question as a vector of length one, the index, and what passes the question's filter."""

    def __init__(self, index: VectorIndex | StoredIndex, within: Within, question: Floats) -> None:
        self._index = index
        self._within = within
        self._question = question

    @property
    def passing(self) -> Passing | None:
        """Which entries pass the filter's marks, where this process knows."""
        return self._within.passing

    def near(self, reader: Reader, allows: Allows, count: int) -> list[int]:
        """Up to `count` entries that are near to it and pass, nearest first."""
        return self._index.nearest(reader, self._question, self._within, allows, count=count)

    def near_of(self, reader: Reader, ids: Sequence[int], count: int) -> list[int]:
        """The nearest of some entries, nearest first."""
        return self._index.nearest_of(reader, self._question, ids, count=count)

    def nearness(self, reader: Reader, ids: Iterable[int]) -> Mapping[int, float]:
        """How near entries are to it, 0 to 1; those without a vector are left out."""
        return self._index.nearness(reader, self._question, ids)

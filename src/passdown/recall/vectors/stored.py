"""Vectors that the database itself has an index of: nothing is kept in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from passdown.recall.vectors.index import Within
from passdown.recall.vectors.packing import cosines, unpacked

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from passdown.recall.candidates import Allows
    from passdown.recall.filters import Filter
    from passdown.recall.vectors.packing import Floats
    from passdown.store.statements import Reader

KEEP = 150
_ROUNDS = 4


class StoredIndex:
    """The vectors of one embedder, asked for in the store; what it finds is compared exactly."""

    def __init__(self, embedder: int, dimensions: int) -> None:
        """There is nothing to load."""
        self.embedder = embedder
        self._dimensions = dimensions

    def refresh(self, reader: Reader) -> None:
        """The database's own index is always up to date."""

    def within(self, reader: Reader, only: Filter) -> Within:
        """A filter; the database itself looks at what passes it."""
        return Within(only)

    def nearest(
        self,
        reader: Reader,
        query: Floats,
        within: Within,
        allows: Allows,
        *,
        count: int,
    ) -> list[int]:
        """The entries nearest to a query that pass a filter, nearest first.

        The database looks at kind, agent and task; `allows` tells the rest, so more are asked for
        until enough pass.
        """
        only = within.only
        limit = max(KEEP, count)
        kept: list[int] = []
        asked = query.tolist()
        for _ in range(_ROUNDS):
            found = reader.nearest(
                self.embedder, asked, limit, kinds=only.kinds, agent=only.agent, task=only.task
            )
            kept = allows(found)
            if len(kept) >= count or len(found) < limit:
                break
            limit *= 4
        return self._best(reader, query, kept, count)

    def nearest_of(
        self, reader: Reader, query: Floats, ids: Sequence[int], *, count: int
    ) -> list[int]:
        """The nearest of some entries, nearest first."""
        found = reader.nearest_of(self.embedder, query.tolist(), ids, max(KEEP, count))
        return self._best(reader, query, found, count)

    def nearness(self, reader: Reader, query: Floats, ids: Iterable[int]) -> dict[int, float]:
        """How near entries are to a query, 0 to 1, exactly; those without a vector are left out."""
        blobs = reader.vectors_of(self.embedder, ids)
        if not blobs:
            return {}
        near = cosines(unpacked(list(blobs.values()), self._dimensions), query).tolist()
        return {number: max(score, 0.0) for number, score in zip(blobs, near, strict=True)}

    def _best(self, reader: Reader, query: Floats, ids: list[int], count: int) -> list[int]:
        near = self.nearness(reader, query, ids)
        return sorted(near, key=lambda number: (-near[number], -number))[:count]

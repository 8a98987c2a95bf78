"""The vectors of one embedder as a process keeps them: codes, numbers, and what filters ask."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from passdown.recall.vectors.codes import Codes
from passdown.recall.vectors.packing import cosines, unpacked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from passdown.recall.filters import Filter
    from passdown.recall.vectors.packing import Bytes, Floats
    from passdown.store.found import StoredVector
    from passdown.store.statements import Reader

    Allows = Callable[[list[int]], list[int]]

PAGE = 5_000
KEEP = 150
KEEP_OF_MANY = 400
ASKED_AT_ONCE = 100
MANY = 50_000
"""Above this, vectors stay in the store and codes alone are kept: 48 bytes an entry, not 432."""

_ROUNDS = 4


class VectorIndex:
    """What one process knows of the vectors of one embedder; brought up to date by `refresh`."""

    def __init__(self, embedder: int, dimensions: int) -> None:
        """Nothing is loaded until it is asked for."""
        self.embedder = embedder
        self._dimensions = dimensions
        self._codes = Codes(dimensions)
        self._ids: list[NDArray[np.int64]] = []
        self._rows: list[Bytes] = []
        self._columns = {name: _Column() for name in ("kind", "agent", "task")}
        self._last = 0

    @property
    def count(self) -> int:
        """How many vectors there are."""
        return self._codes.count

    def refresh(self, reader: Reader) -> None:
        """Take in the vectors that were made since the last time."""
        while True:
            page = reader.vectors_after(self.embedder, self._last, PAGE)
            if page:
                self._add(page)
            if len(page) < PAGE:
                return

    def _add(self, page: list[StoredVector]) -> None:
        rows = unpacked([row.vector for row in page], self._dimensions)
        self._codes.add(rows)
        self._rows = [*self._rows, rows] if self.count <= MANY else []
        self._ids.append(np.array([row.id for row in page], dtype=np.int64))
        for name, column in self._columns.items():
            column.add(getattr(row, name) for row in page)
        self._last = page[-1].id

    def nearest(
        self, reader: Reader, query: Floats, only: Filter, allows: Allows, *, count: int
    ) -> list[int]:
        """The entries nearest to a query that pass a filter, nearest first.

        Kind, agent and task are looked at here; `allows` tells the rest from the entries' rows, so
        more are tried until enough pass.
        """
        passes = self._passing(only)
        keep = self._keep
        numbers = self._numbers()
        tried: set[int] = set()
        kept: list[int] = []
        for _ in range(_ROUNDS):
            places = self._codes.nearest(query, keep, passes)
            fresh = [number for number in numbers[places].tolist() if number not in tried]
            tried.update(fresh)
            kept += _allowed(fresh, allows, self._keep - len(kept))
            if len(kept) >= count or len(places) < keep:
                break
            keep *= 4
        return self._best(reader, query, kept, count)

    def passing(self, only: Filter) -> Passing:
        """Which entries are of the filter's kinds, agent and task."""
        mask = self._passing(only)
        return Passing(self._numbers(), np.ones(self.count, np.bool_) if mask is None else mask)

    def nearest_of(
        self, reader: Reader, query: Floats, ids: Sequence[int], *, count: int
    ) -> list[int]:
        """The nearest of some entries, nearest first."""
        kept = self._numbers()[self._codes.nearest_of(query, self._keep, self._places(ids))]
        return self._best(reader, query, kept.tolist(), count)

    @property
    def _keep(self) -> int:
        return KEEP if self.count <= MANY else KEEP_OF_MANY

    def _best(self, reader: Reader, query: Floats, ids: list[int], count: int) -> list[int]:
        near = self.nearness(reader, query, ids)
        return sorted(near, key=lambda number: (-near[number], -number))[:count]

    def nearness(self, reader: Reader, query: Floats, ids: Iterable[int]) -> dict[int, float]:
        """How near entries are to a query, 0 to 1, exactly; those without a vector are left out."""
        numbers, rows = self._kept(ids) if self._rows else self._stored(reader, ids)
        if not numbers:
            return {}
        near = cosines(rows, query).tolist()
        return {number: max(score, 0.0) for number, score in zip(numbers, near, strict=True)}

    def _stored(self, reader: Reader, ids: Iterable[int]) -> tuple[list[int], Bytes]:
        blobs = reader.vectors_of(self.embedder, ids)
        return list(blobs), unpacked(list(blobs.values()), self._dimensions)

    def _kept(self, ids: Iterable[int]) -> tuple[list[int], Bytes]:
        """The same from memory, where there are so few that all of them stay there."""
        if len(self._rows) > 1:
            self._rows = [np.concatenate(self._rows)]
        places = self._places(ids)
        return self._numbers()[places].tolist(), self._rows[0][places]

    def _places(self, ids: Iterable[int]) -> NDArray[np.int64]:
        """Where the vectors of some entries stand; those without one are left out."""
        numbers = self._numbers()
        wanted = np.array(list(ids), dtype=np.int64)
        places = np.searchsorted(numbers, wanted)
        is_there = places < len(numbers)
        places, wanted = places[is_there], wanted[is_there]
        return places[numbers[places] == wanted]

    def _passing(self, only: Filter) -> NDArray[np.bool_] | None:
        wanted = {
            "kind": only.kinds,
            "agent": (only.agent,) if only.agent else (),
            "task": (only.task,) if only.task else (),
        }
        passes: NDArray[np.bool_] | None = None
        for name, values in wanted.items():
            if values:
                found = self._columns[name].has(values)
                passes = found if passes is None else passes & found
        return passes

    def _numbers(self) -> NDArray[np.int64]:
        if not self._ids:
            return np.empty(0, dtype=np.int64)
        if len(self._ids) > 1:
            self._ids = [np.concatenate(self._ids)]
        return self._ids[0]


class Passing:
    """Which of the entries that have a vector pass a filter."""

    def __init__(self, numbers: NDArray[np.int64], mask: NDArray[np.bool_]) -> None:
        self._numbers = numbers
        self._mask = mask
        self.count = int(np.count_nonzero(mask))

    def of(self, ids: Sequence[int]) -> list[int] | None:
        """Those of some entries that pass, in the same order; None if one has no vector yet."""
        wanted = np.array(ids, dtype=np.int64)
        places = np.searchsorted(self._numbers, wanted)
        if not len(self._numbers) or places.max(initial=0) >= len(self._numbers):
            return None
        if not np.array_equal(self._numbers[places], wanted):
            return None
        return wanted[self._mask[places]].tolist()


def _allowed(ids: list[int], allows: Allows, enough: int) -> list[int]:
    """Those of some entries that pass, asked about a few at a time until there are enough."""
    kept: list[int] = []
    for start in range(0, len(ids), ASKED_AT_ONCE):
        kept += allows(ids[start : start + ASKED_AT_ONCE])
        if len(kept) >= enough:
            break
    return kept


class _Column:
    """One text of each entry, as a number: few different ones, many entries."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}
        self._parts: list[NDArray[np.int32]] = []

    def add(self, values: Iterable[str]) -> None:
        numbers = [self._known.setdefault(value, len(self._known)) for value in values]
        self._parts.append(np.array(numbers, dtype=np.int32))

    def has(self, values: Iterable[str]) -> NDArray[np.bool_]:
        """Which entries have one of some texts."""
        if len(self._parts) > 1:
            self._parts = [np.concatenate(self._parts)]
        numbers = self._parts[0] if self._parts else np.empty(0, dtype=np.int32)
        wanted = [self._known[value] for value in values if value in self._known]
        return np.isin(numbers, wanted) if len(wanted) != 1 else numbers == wanted[0]

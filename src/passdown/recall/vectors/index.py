"""The vectors of one embedder as a process keeps them: codes, numbers, and what filters ask."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from passdown.model.found_rows import Sought
from passdown.recall.vectors.codes import Codes
from passdown.recall.vectors.packing import cosines, unpacked

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from passdown.recall.candidates import Allows
    from passdown.recall.filters import Filter
    from passdown.recall.vectors.codes import Mask, Numbers
    from passdown.recall.vectors.packing import Bytes, Floats
    from passdown.store.statements import Reader

PAGE = 5_000
KEEP = 150
KEEP_OF_MANY = 200
WIDER = 4
"""Of many, so many times more are taken by their codes at first, and those then told apart."""

ASKED_AT_ONCE = 100
MANY = 50_000
"""Above this, vectors stay in the store and codes alone are kept: 48 bytes an entry, not 432."""

_ROUNDS = 4
_REMEMBERED = 8
_FEW_OF = 0.25
_UNTOLD = np.uint8(2)

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class VectorIndex:
    """What one process knows of the vectors of one embedder; brought up to date by `refresh`.

    One thread at a time may call `refresh` and `within`; the others may ask meanwhile.
    """

    def __init__(self, embedder: int, dimensions: int) -> None:
        """Nothing is loaded until it is asked for."""
        self.embedder = embedder
        self._dimensions = dimensions
        self._codes = Codes(dimensions)
        self._numbers: Numbers = np.empty(0, dtype=np.int64)
        self._rows: Bytes | None = np.empty((0, dimensions), dtype=np.int8)
        self._columns = {name: _Column() for name in ("kind", "agent", "task")}
        self._marked: dict[tuple[str, ...], Mask] = {}
        self._passing: dict[tuple[tuple[str, ...], ...], Passing] = {}

    @property
    def count(self) -> int:
        """How many vectors there are."""
        return len(self._numbers)

    def refresh(self, reader: Reader) -> None:
        """Take in the vectors that were made since the last time."""
        numbers, rows = [self._numbers], [] if self._rows is None else [self._rows]
        last = self._last
        while page := reader.vectors_after(self.embedder, last, PAGE):
            fresh = unpacked([row.vector for row in page], self._dimensions)
            self._codes.add(fresh)
            rows = [*rows, fresh] if self._codes.count <= MANY else []
            numbers.append(np.array([row.id for row in page], dtype=np.int64))
            for name, column in self._columns.items():
                column.add(getattr(row, name) for row in page)
            last = page[-1].id
            if len(page) < PAGE:
                break
        if len(numbers) > 1:
            self._rows = np.concatenate(rows) if rows else None
            self._numbers = np.concatenate(numbers)

    @property
    def _last(self) -> int:
        return int(self._numbers[-1]) if len(self._numbers) else 0

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

        Its marks are looked at here; `allows` tells the rest from the entries' rows, so more are
        tried until enough pass.
        """
        keep = self._keep
        tried: set[int] = set()
        kept: list[int] = []
        for _ in range(_ROUNDS):
            found = self._nearby(query, within, keep)
            fresh = [number for number in found if number not in tried]
            tried.update(fresh)
            kept += _allowed(fresh, allows, self._keep - len(kept))
            if len(kept) >= count or len(found) < keep:
                break
            keep *= 4
        return self._best(reader, query, kept, count)

    def _nearby(self, query: Floats, within: Within, keep: int) -> list[int]:
        """About the nearest entries that pass, told from their codes alone, without the store."""
        passing, first = within.passing, keep * self._wider
        if passing is None:
            numbers = self._numbers
            places = self._codes.nearest(query, first, len(numbers))
        else:
            numbers, mask = passing.numbers, passing.mask
            if passing.count < _FEW_OF * len(numbers):
                places = self._codes.nearest_of(query, first, np.flatnonzero(mask))
            else:
                places = self._codes.nearest(query, first, len(numbers), mask)
        return numbers[self._codes.nearer(query, places, keep)].tolist()

    def within(self, reader: Reader, only: Filter) -> Within:
        """A filter, and which entries are of its kinds, agent, task, tags and path.

        What was asked for last is remembered: marks stay with an entry as long as it is there.
        """
        marks = only.marks()
        if not marks:
            return Within(only)
        known = self._passing.pop(marks, None)
        if known is None or len(known.mask) != self.count:
            known = Passing(self._numbers, self._mask(reader, only))
        _remember(self._passing, marks, known)
        return Within(only, known)

    def _mask(self, reader: Reader, only: Filter) -> Mask:
        told = {
            "kind": only.kinds,
            "agent": (only.agent,) if only.agent else (),
            "task": (only.task,) if only.task else (),
        }
        masks = [self._columns[name].has(values) for name, values in told.items() if values]
        masks += [self._having(reader, group) for group in only.untold_marks()]
        return np.logical_and.reduce(masks)

    def _having(self, reader: Reader, group: tuple[str, ...]) -> Mask:
        """Which entries have one of some marks; the index is asked about new ones only."""
        known = self._marked.pop(group, None)
        mask = np.zeros(self.count, dtype=np.bool_)
        after = 0
        if known is not None and len(known):
            mask[: len(known)] = known
            after = int(self._numbers[len(known) - 1])
        if after < self._last:
            sought = Sought(marks=(group,))
            ids = reader.matching(sought, self._last, first=after + 1, last=self._last)
            mask[self._places(ids)] = True
        _remember(self._marked, group, mask)
        return mask

    def nearest_of(
        self, reader: Reader, query: Floats, ids: Sequence[int], *, count: int
    ) -> list[int]:
        """The nearest of some entries, nearest first."""
        numbers, keep = self._numbers, self._keep
        places = self._codes.nearest_of(query, keep * self._wider, self._places(ids))
        places = self._codes.nearer(query, places, keep)
        return self._best(reader, query, numbers[places].tolist(), count)

    @property
    def _keep(self) -> int:
        return KEEP if self.count <= MANY else KEEP_OF_MANY

    @property
    def _wider(self) -> int:
        return 1 if self.count <= MANY else WIDER

    def _best(self, reader: Reader, query: Floats, ids: list[int], count: int) -> list[int]:
        near = self.nearness(reader, query, ids)
        return sorted(near, key=lambda number: (-near[number], -number))[:count]

    def nearness(self, reader: Reader, query: Floats, ids: Iterable[int]) -> dict[int, float]:
        """How near entries are to a query, 0 to 1, exactly; those without a vector are left out."""
        numbers, rows = self._rows_of(reader, ids)
        if not numbers:
            return {}
        near = cosines(rows, query).tolist()
        return {number: max(score, 0.0) for number, score in zip(numbers, near, strict=True)}

    def _rows_of(self, reader: Reader, ids: Iterable[int]) -> tuple[list[int], Bytes]:
        """The vectors of some entries: from memory, where there are so few that all stay there."""
        rows = self._rows
        if rows is not None:
            places = self._places(ids, len(rows))
            return self._numbers[places].tolist(), rows[places]
        blobs = reader.vectors_of(self.embedder, ids)
        return list(blobs), unpacked(list(blobs.values()), self._dimensions)

    def _places(self, ids: Iterable[int], count: int | None = None) -> Numbers:
        """Where the vectors of some entries stand; those without one are left out."""
        numbers = self._numbers[:count]
        wanted = np.array(list(ids), dtype=np.int64)
        places = np.searchsorted(numbers, wanted)
        is_there = places < len(numbers)
        places, wanted = places[is_there], wanted[is_there]
        return places[numbers[places] == wanted]


class Passing:
    """Which of the entries that have a vector pass a filter.

    `mask` tells it by place; by number it is told without looking for the place.
    """

    def __init__(self, numbers: Numbers, mask: Mask) -> None:
        self.numbers = numbers
        self.mask = mask
        self.count = int(np.count_nonzero(mask))
        self._told = np.full(int(numbers[-1]) + 2 if len(numbers) else 1, _UNTOLD)
        self._told[numbers] = mask

    def of(self, ids: Sequence[int]) -> tuple[list[int], list[int]]:
        """Those of some entries that pass, in the same order, and those that have no vector."""
        wanted = np.array(ids, dtype=np.int64)
        told = self._told.take(wanted, mode="clip")  # above the last number nothing is told
        return wanted[told == 1].tolist(), wanted[told == _UNTOLD].tolist()


class Within(NamedTuple):
    """A filter, and which entries pass its marks; None for all, or where the database knows."""

    only: Filter
    passing: Passing | None = None


def _remember(known: dict[_Key, _Value], key: _Key, value: _Value) -> None:
    """Keep a value, and let go of the one that was asked for longest ago."""
    known[key] = value
    if len(known) > _REMEMBERED:
        del known[next(iter(known))]


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

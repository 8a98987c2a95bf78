"""Vector search: entries near in meaning. With the model, the only code that needs numpy.

One bit per dimension is kept in memory and compared with all entries; the few hundred nearest are
then compared exactly, from the store. Memory stays at 48 bytes for each entry, nothing is rewritten
when one is added, and a million are scanned in a few milliseconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

from passdown.core.rows import SearchTerm
from passdown.search.minilm import import_numpy_on_one_thread

# Before anything here imports it: two threads in small products wait for each other.
import_numpy_on_one_thread()

import numpy as np  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from passdown.search.query import SearchFilter
    from passdown.search.ranking import Allows
    from passdown.store.statements import Reader

    Floats = NDArray[np.float32]
    Bytes = NDArray[np.int8]
    Words = NDArray[np.uint64]
    Numbers = NDArray[np.int64]
    Mask = NDArray[np.bool_]


def pack_vector(vector: Sequence[float] | Floats) -> bytes:
    """A vector as it is stored; its length doesn't matter, and nothing but zeros stays so."""
    return np.rint(_by_largest(vector) * 127).astype(np.int8).tobytes()


def _by_largest(vector: Sequence[float] | Floats) -> NDArray[np.float64]:
    """A vector whose largest component is 1: so none is too large to be squared."""
    given = np.asarray(vector, dtype=np.float64)
    largest = float(np.max(np.abs(given), initial=0.0))
    if not np.isfinite(largest):
        raise ValueError("a vector holds what is no number")
    return given / largest if largest else given


def unpack_vectors(blobs: Sequence[bytes], dimensions: int) -> Bytes:
    """Stored vectors as rows."""
    joined = np.frombuffer(b"".join(blobs), dtype=np.int8)
    return joined.reshape(len(blobs), dimensions)


def unit_vector(vector: Sequence[float] | Floats) -> Floats:
    """A vector of length one; zeros stay zeros."""
    given = _by_largest(vector)
    length = float(np.linalg.norm(given))
    return (given / length if length else given).astype(np.float32)


def cosines(rows: Bytes, query: Floats) -> Floats:
    """How near each row is to a query of length one: -1 to 1."""
    numbers = rows.astype(np.float32)
    lengths = np.linalg.norm(numbers, axis=1)
    lengths[lengths == 0] = 1
    return (numbers @ query) / lengths


_BITS = 64
_STEP = 32_768  # what stays within the processor's own memory
_FIRST_SIZE = 1_024
_FAR = np.uint16(0x4000)


class Codes:
    """The signs of many vectors, less their mean: a column for each, 64 dimensions to a row."""

    def __init__(self, dimensions: int) -> None:
        self._dimensions = dimensions
        self._rows = -(-dimensions // _BITS)
        self._words: Words = np.zeros((self._rows, _FIRST_SIZE), dtype=np.uint64)
        self._mean: Floats | None = None
        self.count = 0

    def add(self, vectors: Bytes) -> None:
        """Add vectors; the first ones decide what is the mean, for good."""
        numbers = vectors.astype(np.float32)
        mean = self._mean
        if mean is None:
            mean = self._mean = numbers.mean(axis=0, dtype=np.float32)
        needed = self.count + len(vectors)
        if needed > self._words.shape[1]:
            size = max(needed, 2 * self._words.shape[1])
            larger = np.zeros((self._rows, size), dtype=np.uint64)
            larger[:, : self.count] = self._words[:, : self.count]
            self._words = larger
        self._words[:, self.count : needed] = self._signs(numbers - mean)
        self.count = needed

    def _signs(self, numbers: Floats) -> Words:
        bits = np.packbits(numbers > 0, axis=1)
        wide = np.zeros((len(numbers), self._rows * _BITS // 8), dtype=np.uint8)
        wide[:, : bits.shape[1]] = bits
        return np.ascontiguousarray(wide.view(np.uint64).T)

    def nearest(self, query: Floats, keep: int, count: int, passes: Mask | None = None) -> Numbers:
        """The places of about the `keep` nearest to a query, of the first `count` codes or of those
        of them that pass, in no order. More may be added meanwhile: what is there stays in place.
        """
        if self._mean is None or not count:
            return np.empty(0, dtype=np.int64)
        code = self._code(query, self._mean)
        return _scan(self._words, count, code, keep, passes)

    def nearest_of(self, query: Floats, keep: int, places: Numbers) -> Numbers:
        """The same of some places alone."""
        if self._mean is None or not len(places):
            return np.empty(0, dtype=np.int64)
        gathered = self._words.take(places, axis=1)
        return places[_scan(gathered, len(places), self._code(query, self._mean), keep)]

    def nearer(self, query: Floats, places: Numbers, keep: int) -> Numbers:
        """The `keep` nearest places, in no order, by the query's numbers against their signs."""
        if self._mean is None or len(places) <= keep:
            return places
        rows = np.ascontiguousarray(self._words.take(places, axis=1).T).view(np.uint8)
        signs = np.unpackbits(rows, axis=1)[:, : self._dimensions].astype(np.float32)
        far = signs @ -_scaled(query, self._mean)
        return places[np.argpartition(far, keep)[:keep]]

    def _code(self, query: Floats, mean: Floats) -> Words:
        return self._signs(_scaled(query, mean)[None, :])[:, 0]


def _scaled(query: Floats, mean: Floats) -> Floats:
    """A query as vectors are stored: by its largest component; less their mean."""
    largest = float(np.max(np.abs(query), initial=0.0)) or 1.0
    return query / largest * 127 - mean


def _scan(words: Words, count: int, code: Words, keep: int, passes: Mask | None = None) -> Numbers:
    """One pass: distances are added up step by step, and a falling limit throws most away."""
    places: list[Numbers] = []
    distances: list[NDArray[np.uint16]] = []
    found, limit = 0, _FAR
    for start in range(0, count, _STEP):
        end = min(start + _STEP, count)
        distance = np.bitwise_count(words[:, start:end] ^ code[:, None]).sum(
            axis=0, dtype=np.uint16
        )
        near = np.flatnonzero(distance < limit)
        if passes is not None:
            near = near[passes[start:end][near]]
        if len(near):
            places.append(near + start)
            distances.append(distance[near])
            found += len(near)
        if found > 4 * keep:
            joined, far = np.concatenate(places), np.concatenate(distances)
            best = np.argpartition(far, keep)[:keep]
            places, distances, found = [joined[best]], [far[best]], keep
            limit = far[best].max()
    if not places:
        return np.empty(0, dtype=np.int64)
    joined, far = np.concatenate(places), np.concatenate(distances)
    return joined[np.argsort(far, kind="stable")[:keep]]


PAGE = 5_000
KEEP = 150
KEEP_OF_MANY = 200
WIDER = 4
"""Of many, so many times more are chosen by their codes, and those are compared more exactly."""

ASKED_AT_ONCE = 100
MANY = 50_000
"""Above this, vectors stay in the store and codes alone are kept: 48 bytes an entry, not 432."""

_ROUNDS = 4
_REMEMBERED = 8
_FEW_OF = 0.25
_UNKNOWN = np.uint8(2)

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class _ComparedVectors:
    """The stored vectors of one embedder, compared exactly with a query: how every search ends."""

    def __init__(self, embedder: int, dimensions: int) -> None:
        self.embedder = embedder
        self._dimensions = dimensions

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
        """The vectors of some entries that have one, and whose they are."""
        blobs = reader.vectors_of(self.embedder, ids)
        return list(blobs), unpack_vectors(list(blobs.values()), self._dimensions)


class VectorIndex(_ComparedVectors):
    """What one process knows of the vectors of one embedder; brought up to date by `refresh`.

    One thread at a time may call `refresh` and `within`; the others may ask meanwhile.
    """

    def __init__(self, embedder: int, dimensions: int) -> None:
        """Nothing is loaded until it is asked for."""
        super().__init__(embedder, dimensions)
        self._codes = Codes(dimensions)
        self._numbers: Numbers = np.empty(0, dtype=np.int64)
        self._rows: Bytes | None = np.empty((0, dimensions), dtype=np.int8)
        self._columns = {name: _Column() for name in ("kind", "agent", "task")}
        self._marked: dict[tuple[str, ...], Mask] = {}
        self._passing: dict[tuple[tuple[str, ...], ...], VectorMask] = {}

    @property
    def count(self) -> int:
        """How many vectors there are."""
        return len(self._numbers)

    def refresh(self, reader: Reader) -> None:
        """Take in the vectors that were made since the last time."""
        numbers, rows = [self._numbers], [] if self._rows is None else [self._rows]
        last = self._last
        while page := reader.vectors_after(self.embedder, last, PAGE):
            fresh = unpack_vectors([row.vector for row in page], self._dimensions)
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
        within: FilterScope,
        allows: Allows,
        *,
        count: int,
    ) -> list[int]:
        """The entries nearest to a query that pass a filter, nearest first.

        Its marks are checked here; `allows` checks the rest by the entries' rows, so more are tried
        until enough pass.
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

    def _nearby(self, query: Floats, within: FilterScope, keep: int) -> list[int]:
        """About the nearest entries that pass, from their codes alone, without the store."""
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

    def within(self, reader: Reader, only: SearchFilter) -> FilterScope:
        """A filter, and which entries are of its kinds, agent, task, tags and path.

        What was asked for last is remembered: marks stay with an entry as long as it is there.
        """
        marks = only.marks()
        if not marks:
            return FilterScope(only)
        known = self._passing.pop(marks, None)
        if known is None or len(known.mask) != self.count:
            known = VectorMask(self._numbers, self._mask(reader, only))
        _remember(self._passing, marks, known)
        return FilterScope(only, known)

    def _mask(self, reader: Reader, only: SearchFilter) -> Mask:
        values_of = {
            "kind": only.kinds,
            "agent": (only.agent,) if only.agent else (),
            "task": (only.task,) if only.task else (),
        }
        masks = [self._columns[name].has(values) for name, values in values_of.items() if values]
        masks += [self._having(reader, group) for group in only.index_marks()]
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
            sought = SearchTerm(marks=(group,))
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

    def _rows_of(self, reader: Reader, ids: Iterable[int]) -> tuple[list[int], Bytes]:
        """The vectors of some entries: from memory, where there are so few that all stay there."""
        rows = self._rows
        if rows is None:
            return super()._rows_of(reader, ids)
        places = self._places(ids, len(rows))
        return self._numbers[places].tolist(), rows[places]

    def _places(self, ids: Iterable[int], count: int | None = None) -> Numbers:
        """Positions of the vectors of some entries; those without one are left out."""
        numbers = self._numbers[:count]
        wanted = np.array(list(ids), dtype=np.int64)
        places = np.searchsorted(numbers, wanted)
        is_there = places < len(numbers)
        places, wanted = places[is_there], wanted[is_there]
        return places[numbers[places] == wanted]


class VectorMask:
    """Which entries with a vector pass a filter: `mask` by position, `of` by number."""

    def __init__(self, numbers: Numbers, mask: Mask) -> None:
        self.numbers = numbers
        self.mask = mask
        self.count = int(np.count_nonzero(mask))
        self._by_number = np.full(int(numbers[-1]) + 2 if len(numbers) else 1, _UNKNOWN)
        self._by_number[numbers] = mask

    def of(self, ids: Sequence[int]) -> tuple[list[int], list[int]]:
        """Those of some entries that pass, in the same order, and those that have no vector."""
        wanted = np.array(ids, dtype=np.int64)
        found = self._by_number.take(wanted, mode="clip")  # unknown above the last number
        return wanted[found == 1].tolist(), wanted[found == _UNKNOWN].tolist()


class FilterScope(NamedTuple):
    """A filter, and which entries pass its marks; None for all, or where the database knows."""

    only: SearchFilter
    passing: VectorMask | None = None


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


class StoredIndex(_ComparedVectors):
    """The database's own index of the vectors of one embedder."""

    def refresh(self, reader: Reader) -> None:
        """The database's own index is always up to date."""

    def within(self, reader: Reader, only: SearchFilter) -> FilterScope:
        """A filter; the database itself looks at what passes it."""
        return FilterScope(only)

    def nearest(
        self,
        reader: Reader,
        query: Floats,
        within: FilterScope,
        allows: Allows,
        *,
        count: int,
    ) -> list[int]:
        """The entries nearest to a query that pass a filter, nearest first.

        The database checks kind, agent and task; `allows` checks the rest, so more are read until
        enough pass.
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

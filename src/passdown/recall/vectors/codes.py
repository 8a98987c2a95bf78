"""Bit codes in memory: grown as vectors come, looked through in one pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from passdown.recall.vectors.packing import Bytes, Floats

    Words = NDArray[np.uint64]
    Numbers = NDArray[np.int64]
    Mask = NDArray[np.bool_]

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
        """The `keep` nearest of some places, in no order, told better: by the query's own numbers
        against their signs.
        """
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
        distance = _distances(words[:, start:end], code)
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


def _distances(words: Words, code: Words) -> NDArray[np.uint16]:
    return np.bitwise_count(words ^ code[:, None]).sum(axis=0, dtype=np.uint16)

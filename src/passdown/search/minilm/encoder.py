"""The model's forward pass: rows of token numbers in, one vector of length 1 for each out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from passdown.search.minilm.weights import HEADS, WIDTH

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from passdown.search.minilm.weights import Bytes, Floats, Layer, Norm, Product, Weights


if TYPE_CHECKING:
    Rows = Sequence[Sequence[int]]

_EPSILON = np.float32(1e-12)
_UNSEEN = np.float32(-1e9)
_BATCH_TOKENS = 1_024
_PADDING = 1.125
_MEAN = np.full(WIDTH, 1 / WIDTH, np.float32)
_SLAB = WIDTH * WIDTH
_BAND, _NARROWEST = 64, 16
_UNPACKED = 1_000_000


class Encoder:
    """The model, ready to run. Holds no state between calls, so threads may share it."""

    def __init__(self, weights: Weights) -> None:
        self._weights = weights

    def vectors(self, rows: Rows) -> Floats:
        """A vector of length 1 for each row of piece numbers, in the order of the rows.

        A row has 1 to 512 numbers. What else is in a batch doesn't count, except for
        rounding (less than one part in 100,000).
        """
        found = np.empty((len(rows), WIDTH), np.float32)
        for batch in batches([len(row) for row in rows]):
            found[batch] = self._pooled([rows[index] for index in batch])
        return found

    def _pooled(self, rows: Rows) -> Floats:
        lengths = np.array([len(row) for row in rows])
        longest = int(lengths.max())
        seen = np.arange(longest) < lengths[:, None]
        numbers = np.zeros(seen.shape, np.intp)
        numbers[seen] = np.concatenate([np.asarray(row, np.intp) for row in rows])
        padding = None if seen.all() else np.where(seen, 0, _UNSEEN).astype(np.float32)
        tokens = self._embedded(numbers)
        for layer in self._weights.layers:
            tokens = _layer(tokens, layer, padding, len(rows))
        each = tokens.reshape(WIDTH, *seen.shape)
        sums = (each if padding is None else np.where(seen, each, 0)).sum(2).T
        return sums / np.linalg.norm(sums, axis=1, keepdims=True)

    def _embedded(self, numbers: NDArray[np.intp]) -> Floats:
        words, scales, places, norm, _ = self._weights
        rows = words[numbers] * scales[numbers]
        rows += places[: numbers.shape[1]]
        return _normalised(np.ascontiguousarray(rows.reshape(-1, WIDTH).T), norm)


def batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Positions of rows that are worth running together: of nearly one length, and not too many.

    Each position comes once. The longest of a batch is at most an eighth longer than the shortest.
    """
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lengths.__getitem__):
        length = lengths[index]
        full = (len(batch) + 1) * length > _BATCH_TOKENS
        if batch and (full or length > lengths[batch[0]] * _PADDING):
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


def _layer(tokens: Floats, layer: Layer, padding: Floats | None, count: int) -> Floats:
    merged = _applied(layer.merge, _attention(_applied(layer.attend, tokens), padding, count))
    merged += tokens
    merged = _normalised(merged, layer.merged)
    narrowed = _applied(layer.narrow, _gelu(_applied(layer.widen, merged)))
    narrowed += merged
    return _normalised(narrowed, layer.narrowed)


def _applied(product: Product, tokens: Floats) -> Floats:
    """A product with its bias, by the way that is faster for this number of tokens."""
    given = product.matrix.shape[1]
    band = _BAND if given == WIDTH else _BAND // 2
    while band >= _NARROWEST and tokens.shape[1] * given * band > _UNPACKED:
        band //= 2
    few = band >= _NARROWEST
    found = _in_bands(product.matrix, tokens, band) if few else _at_once(product.matrix, tokens)
    found *= product.scale
    found += product.bias
    return found


def _at_once(matrix: Bytes, tokens: Floats) -> Floats:
    return matrix.astype(np.float32) @ tokens


def _in_bands(matrix: Bytes, tokens: Floats, band: int) -> Floats:
    """For few tokens, where getting at the matrix takes longer than multiplying it.

    It becomes numbers a slab at a time, in a buffer that the processor's cache holds. Of a slab,
    OpenBLAS would first make a rearranged copy; below a million multiplications it goes without,
    so it is given the slab in bands of that size.
    """
    made, given = matrix.shape
    buffer = np.empty((_SLAB // given // band, band, given), np.float32)
    slabs = matrix.reshape(-1, *buffer.shape)
    found = np.empty((*slabs.shape[:-1], tokens.shape[1]), np.float32)
    for stored, into in zip(slabs, found, strict=True):
        np.copyto(buffer, stored)
        np.matmul(buffer, tokens, out=into)
    return found.reshape(made, -1)


def _attention(mixed: Floats, padding: Floats | None, count: int) -> Floats:
    """Each token's mix of values, of all heads; texts of a batch don't see each other."""
    split = mixed.reshape(3, HEADS, WIDTH // HEADS, count, -1).transpose(0, 3, 1, 2, 4)
    questions, keys, values = split
    weights = keys.swapaxes(2, 3) @ questions
    if padding is not None:
        weights += padding[:, None, :, None]
    weights -= weights.max(2, keepdims=True)
    np.exp(weights, out=weights)
    found = values @ weights
    found /= weights.sum(2, keepdims=True)
    return found.transpose(1, 2, 0, 3).reshape(WIDTH, -1)


def _normalised(tokens: Floats, norm: Norm) -> Floats:
    """Each token with mean 0 and variance 1, then scaled and moved; changes what is given."""
    tokens -= _MEAN @ tokens
    variance = np.einsum("ij,ij->j", tokens, tokens)
    variance /= WIDTH
    variance += _EPSILON
    tokens /= np.sqrt(variance, out=variance)
    tokens *= norm.gain
    tokens += norm.offset
    return tokens


def _gelu(tokens: Floats) -> Floats:
    """The model's activation in its form with tanh, since numpy has no error function."""
    bent = tokens * tokens
    bent *= np.float32(0.044715 * 0.7978845608028654)
    bent += np.float32(0.7978845608028654)
    bent *= tokens
    np.tanh(bent, out=bent)
    bent += np.float32(1)
    bent *= tokens
    bent *= np.float32(0.5)
    return bent

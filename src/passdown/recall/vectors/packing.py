"""How a vector is stored: one signed byte for each dimension, by its largest component."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float32]
    Bytes = NDArray[np.int8]


def packed(vector: Sequence[float] | Floats) -> bytes:
    """A vector as it is stored; its length doesn't matter, and nothing but zeros stays so."""
    return np.rint(_by_largest(vector) * 127).astype(np.int8).tobytes()


def _by_largest(vector: Sequence[float] | Floats) -> NDArray[np.float64]:
    """A vector whose largest component is 1: so none is too large to be squared."""
    given = np.asarray(vector, dtype=np.float64)
    largest = float(np.max(np.abs(given), initial=0.0))
    if not np.isfinite(largest):
        raise ValueError("a vector holds what is no number")
    return given / largest if largest else given


def unpacked(blobs: Sequence[bytes], dimensions: int) -> Bytes:
    """Stored vectors as rows."""
    joined = np.frombuffer(b"".join(blobs), dtype=np.int8)
    return joined.reshape(len(blobs), dimensions)


def unit(vector: Sequence[float] | Floats) -> Floats:
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

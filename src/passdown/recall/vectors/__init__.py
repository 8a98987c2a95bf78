"""Vectors: entries near in meaning. The only part of recall, beside the model, that needs numpy.

One bit per dimension is kept in memory and compared with all; the few hundred nearest are then
compared exactly, from the store. So memory stays at 48 bytes for each entry, nothing has to be
rewritten when one is added, and a million are looked through in some milliseconds.
"""

# ruff: noqa: E402
from passdown.recall.minilm.threads import import_numpy_on_one_thread

# Before anything here imports it: two threads in small products wait for each other.
import_numpy_on_one_thread()

from passdown.recall.vectors.index import VectorIndex
from passdown.recall.vectors.packing import packed, unit
from passdown.recall.vectors.stored import StoredIndex

__all__ = ["StoredIndex", "VectorIndex", "packed", "unit"]

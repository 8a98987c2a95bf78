"""Vector search: entries near in meaning. With the model, the only code that needs numpy.

One bit per dimension is kept in memory and compared with all entries; the few hundred nearest are
then compared exactly, from the store. Memory stays at 48 bytes for each entry, nothing is rewritten
when one is added, and a million are scanned in a few milliseconds.
"""

# ruff: noqa: E402
from passdown.search.minilm.runtime import import_numpy_on_one_thread

# Before anything here imports it: two threads in small products wait for each other.
import_numpy_on_one_thread()

from passdown.search.vectors.index import StoredIndex, VectorIndex, pack_vector, unit_vector

__all__ = ["StoredIndex", "VectorIndex", "pack_vector", "unit_vector"]

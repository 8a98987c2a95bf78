"""Matrix products on one thread.

On a busy machine the threads of one small product wait for each other in a loop that burns what
the others need: one query took 1,358 ms on two threads and 105 ms on one. Whoever has set one of
the variables below has chosen, and is left alone.
"""

from __future__ import annotations

import ctypes
import os
import sys
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

_LIMITS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
_NAMES = ("scipy_openblas_{}_num_threads64_", "scipy_openblas_{}_num_threads")


def import_numpy_on_one_thread() -> None:
    """Import numpy so that it starts no threads for products, unless it is there already.

    The limits are read from the environment when numpy is loaded and when it first multiplies.
    They are set for just that long: processes that are started later don't see them.
    """
    if "numpy" in sys.modules:
        return
    own = [name for name in _LIMITS if name not in os.environ]
    os.environ.update(dict.fromkeys(own, "1"))
    try:
        import numpy as np

        np.dot(np.ones((2, 2), np.float32), np.ones((2, 2), np.float32))
    finally:
        for name in own:
            os.environ.pop(name, None)


class _Threads(NamedTuple):
    """How many threads numpy's OpenBLAS uses, to be read and set."""

    get: Callable[[], int]
    set: Callable[[int], object]


@cache
def _threads() -> _Threads | None:
    """None where it is another library that multiplies, or the caller has chosen."""
    if any(name in os.environ for name in _LIMITS):
        return None
    try:
        # Numpy has no word for this: the part of it that is linked with OpenBLAS gives access.
        library = ctypes.CDLL(import_module("numpy._core._multiarray_umath").__file__)
    except (ImportError, OSError):
        return None
    for name in _NAMES:
        if hasattr(library, name.format("set")):
            return _Threads(
                getattr(library, name.format("get")), getattr(library, name.format("set"))
            )
    return None


class _Use:
    """How many are multiplying, and the number of threads from before the first of them."""

    lock = Lock()
    count = 0
    before = 1


@contextmanager
def one_thread() -> Generator[None]:
    """Products run on one thread inside, also where another library imported numpy earlier.

    The number belongs to the process, so it is put back when the last of those inside leaves.
    """
    threads = _threads()
    if threads is None:
        yield
        return
    with _Use.lock:
        if not _Use.count:
            _Use.before = threads.get()
            threads.set(1)
        _Use.count += 1
    try:
        yield
    finally:
        with _Use.lock:
            _Use.count -= 1
            if not _Use.count:
                threads.set(_Use.before)

"""Numpy, imported so that its matrix products run on one thread."""

from __future__ import annotations

import os
import sys

_LIMITS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


def import_numpy_on_one_thread() -> None:
    """Import numpy with one thread for products, unless it is there or the caller has chosen.

    On a busy machine the threads of one small product wait for each other in a loop that burns
    what the others need: one query took 1,358 ms on two threads and 105 ms on one. The limits are
    read from the environment when numpy is loaded and when it first multiplies, so they are set
    for just that long: processes that are started later and other libraries don't see them.
    """
    if "numpy" in sys.modules:
        return
    own = [name for name in _LIMITS if name not in os.environ]
    os.environ.update(dict.fromkeys(own, "1"))
    try:
        import numpy as np

        np.ones((2, 2), np.float32) @ np.ones((2, 2), np.float32)
    finally:
        for name in own:
            os.environ.pop(name, None)

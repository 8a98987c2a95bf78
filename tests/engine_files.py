"""The file of a relay's engine, made once in a process and copied for each project of a test: its
library takes 25 ms to make the tables of one.
"""

from __future__ import annotations

import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

FILE = "sqlite:///"


def copy_engine_files() -> None:
    """Have files copied from now on, if the library is loaded."""
    if "dbos" in sys.modules:
        _begin()


@cache
def _begin() -> None:
    from dbos import DBOS

    make = DBOS.migrate
    with tempfile.TemporaryDirectory() as folder:
        prepared = Path(folder) / "prepared.db"
        make(f"{FILE}{prepared}")
        content = prepared.read_bytes()

    def copy(url: str, **options: Any) -> None:
        path = Path(url.removeprefix(FILE))
        if url.startswith(FILE) and not options and not path.stat().st_size:
            path.write_bytes(content)
        else:
            make(url, **options)

    DBOS.migrate = staticmethod(copy)  # type: ignore[assignment]

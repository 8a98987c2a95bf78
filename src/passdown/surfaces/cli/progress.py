"""A progress bar on standard error, and only where that is a terminal."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_WIDTH = 30
_EVERY_S = 0.1


def progress_bar(label: str) -> Callable[[int, int], None] | None:
    """A function that draws `done` of `total`; None where nobody would see it."""
    if not sys.stderr.isatty():
        return None
    drawn = 0.0

    def draw(done: int, total: int) -> None:
        nonlocal drawn
        now = time.monotonic()
        is_end = done >= total
        if now - drawn < _EVERY_S and not is_end:
            return
        drawn = now
        share = min(done / total, 1.0) if total else 1.0
        bar = ("#" * round(share * _WIDTH)).ljust(_WIDTH, ".")
        # The line is wiped at the end, so that the result stands alone.
        text = "\r\x1b[K" if is_end else f"\r{label} [{bar}] {share:4.0%}"
        sys.stderr.write(text)
        sys.stderr.flush()

    return draw

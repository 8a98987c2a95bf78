"""What the relay logs while it works, as lines of its progress."""

from __future__ import annotations

import logging
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Generator


class _Lines(logging.Handler):
    """Says each message in one line; where PASSDOWN_DEBUG asks for it, with its traceback."""

    def __init__(self, say: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._say = say

    def emit(self, record: logging.LogRecord) -> None:
        """Say it."""
        text = record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            text += f": {record.exc_info[1]}"
        if record.exc_info and os.environ.get("PASSDOWN_DEBUG"):
            text = self.format(record)
        for part in text.splitlines():
            self._say(part)


@contextmanager
def logged(say: Callable[[str], None]) -> Generator[None]:
    """Show warnings of the relay as lines as long as this lasts."""
    logger = logging.getLogger("passdown")
    handler = _Lines(say)
    before = logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = before

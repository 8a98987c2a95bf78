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


class _Taken(logging.Filter):
    """Takes what a logger would print by itself, and shows it as ours."""

    def __init__(self, lines: _Lines) -> None:
        super().__init__()
        self._lines = lines

    def filter(self, record: logging.LogRecord) -> bool:
        """Say it, and keep it from going on."""
        if record.levelno >= logging.WARNING:
            self._lines.emit(record)
        return False


@contextmanager
def logged(say: Callable[[str], None]) -> Generator[None]:
    """Show warnings of the relay, and of the engine's library, as lines as long as this lasts."""
    logger, library = logging.getLogger("passdown"), logging.getLogger("dbos")
    handler = _Lines(say)
    taken = _Taken(handler)
    library.addFilter(taken)
    before = logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        library.removeFilter(taken)
        logger.propagate = before

"""Transient refusals of the operating system: tried again a few times, and told of."""

from __future__ import annotations

import errno
import time
from typing import TYPE_CHECKING, TypeVar

from passdown.errors import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

TRIES = 3
FIRST_WAIT_S = 0.1

_TRANSIENT = frozenset(
    {errno.EINTR, errno.EAGAIN, errno.EBUSY, errno.ETXTBSY, errno.EMFILE, errno.ENFILE}
)


def is_transient(error: BaseException) -> bool:
    """Whether the same may succeed in a moment: the system was busy or interrupted."""
    cause = error.__cause__ if isinstance(error, StoreUnavailable) else error
    if isinstance(cause, ConnectionError | TimeoutError):
        return True
    return isinstance(cause, OSError) and cause.errno in _TRANSIENT


def persistently(
    operation: str, action: Callable[[], T], *, wait: Callable[[float], None] = time.sleep
) -> T:
    """Do something, three times at most, with growing waits, while it fails for the moment only.

    Raises StoreUnavailable with the operation and the cause once that is of no use.
    """
    for attempt in range(TRIES + 1):
        try:
            return action()
        except (OSError, StoreUnavailable) as error:
            if not is_transient(error) or attempt == TRIES:
                raise _refused(operation, error) from error
            _tell(operation, error, attempt)
            wait(FIRST_WAIT_S * 2**attempt)
    raise AssertionError("the last attempt returns or raises")  # pragma: no cover


def _refused(operation: str, error: Exception) -> StoreUnavailable:
    return StoreUnavailable(
        f"{operation} failed: {error}",
        next_step="What was stored is as it was. Mend the cause and try again.",
    )


def _tell(operation: str, error: Exception, attempt: int) -> None:
    import logging

    log = logging.getLogger("passdown")
    log.warning("%s failed for the moment (%s); try %d of %d", operation, error, attempt + 1, TRIES)

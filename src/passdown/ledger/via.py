"""Through which door a record came: sealed into its body, where the author alone can't say it.

An author is who speaks; `via` names the token that proved it. A door sets it around a call, and
every record that the call writes carries it, in any thread that the call is handed to.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Generator

FIELD = "via"
MAX_VIA = 80

_VIA: ContextVar[str] = ContextVar("passdown_via", default="")


@contextmanager
def writing_via(door: str) -> Generator[None]:
    """Until the block ends, records that are written here name `door`."""
    token = _VIA.set(door[:MAX_VIA])
    try:
        yield
    finally:
        _VIA.reset(token)


def with_via(body: dict[str, Any]) -> dict[str, Any]:
    """A record's body with the door that it comes through, if there is one."""
    door = _VIA.get()
    return {**body, FIELD: door} if door else body


def without_via(body: dict[str, Any]) -> dict[str, Any]:
    """What a body says, whichever door it came through."""
    return {name: value for name, value in body.items() if name != FIELD}

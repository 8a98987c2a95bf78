"""Through which door a record came: sealed into its body, where the author alone can't say it.

An author is who speaks; `via` names the token that proved it. A door sets it around a call, and
every record that the call writes carries it, in any thread that the call is handed to. It can also
say who the author has to be: the last of several checks, and the one that nothing goes around.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from passdown.errors import NotAllowed

if TYPE_CHECKING:
    from collections.abc import Generator

FIELD = "via"
ELSEWHERE = "elsewhere"
"""The field of a record whose files were another machine's when it was written: that they are not
on this one says nothing.
"""
MAX_VIA = 80

OURS = "passdown"
"""Who makes what belongs to nobody: the task for what concerns all work."""

_VIA: ContextVar[tuple[str, str]] = ContextVar("passdown_via", default=("", ""))


@contextmanager
def writing_via(door: str, author: str = "") -> Generator[None]:
    """Until the block ends, records that are written here name `door`; with `author`, whoever else
    would write one is refused.
    """
    token = _VIA.set((door[:MAX_VIA], author))
    try:
        yield
    finally:
        _VIA.reset(token)


def with_via(body: dict[str, Any], author: str) -> dict[str, Any]:
    """A record's body with the door that it comes through, if there is one. Raises NotAllowed for
    an author that the door doesn't let write.
    """
    door, only = _VIA.get()
    if not may_write(author):
        raise NotAllowed(
            f"this is {only}'s token; it writes nothing in the name of {author[:80]}",
            next_step="Leave the name out: the token says who writes.",
        )
    return {**body, FIELD: door} if door else body


def may_write(author: str) -> bool:
    """Whether the door that is open here lets somebody write."""
    only = _VIA.get()[1]
    return not only or author in (only, OURS)


def without_via(body: dict[str, Any]) -> dict[str, Any]:
    """What a body says, whichever door it came through."""
    return {name: value for name, value in body.items() if name not in (FIELD, ELSEWHERE)}

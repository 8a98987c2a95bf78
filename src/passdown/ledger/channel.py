"""The channel that wrote a record: part of its body, so that an author can't forge it."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from passdown.errors import NotAllowed

if TYPE_CHECKING:
    from collections.abc import Generator
    from contextlib import AbstractContextManager


CHANNEL_FIELD = "via"
REMOTE_FILES_FIELD = "elsewhere"
"""The field of a record whose files were another machine's when it was written: that they are not
on this one says nothing.
"""
MAX_CHANNEL = 80

SYSTEM_AUTHOR = "passdown"
"""Who makes what belongs to nobody: the task for what concerns all work."""

_CHANNEL: ContextVar[tuple[str, str]] = ContextVar("passdown_via", default=("", ""))


@contextmanager
def recording_channel(channel: str, author: str = "") -> Generator[None]:
    """Until the block ends, records that are written here name `channel`; with `author`, other
    authors are refused.
    """
    token = _CHANNEL.set((channel[:MAX_CHANNEL], author))
    try:
        yield
    finally:
        _CHANNEL.reset(token)


def any_author() -> AbstractContextManager[None]:
    """Until the block ends, anybody may write through the channel that is open here: what follows
    from a request is written by the engine, in the name of its agents.
    """
    return recording_channel(_CHANNEL.get()[0])


def with_channel(body: dict[str, Any], author: str) -> dict[str, Any]:
    """A record's body with the channel that writes it, if there is one. Raises NotAllowed for an
    author that the channel doesn't let write.
    """
    channel, only = _CHANNEL.get()
    if not may_write(author):
        raise NotAllowed(
            f"this is {only}'s token; it writes nothing in the name of {author[:80]}",
            next_step="Leave the name out: the token says who writes.",
        )
    return {**body, CHANNEL_FIELD: channel} if channel else body


def may_write(author: str) -> bool:
    """Whether the current channel lets an author write."""
    only = _CHANNEL.get()[1]
    return not only or author in (only, SYSTEM_AUTHOR)


def without_channel(body: dict[str, Any]) -> dict[str, Any]:
    """What a body says, whichever channel wrote it."""
    return {
        name: value
        for name, value in body.items()
        if name not in (CHANNEL_FIELD, REMOTE_FILES_FIELD)
    }

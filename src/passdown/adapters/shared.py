"""What adapters share beside `passdown.tools`: imports, caches, async methods, streams."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from passdown.errors import MissingExtra
from passdown.tools.briefs import workspace_of
from passdown.workspace.streams import WorkspaceStreams

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from types import CoroutineType

    from passdown.tools.briefs import AnyWorkspace

K = TypeVar("K")
P = ParamSpec("P")
T = TypeVar("T")


@contextmanager
def requires_extra(extra: str, message: str) -> Generator[None]:
    """For imports of what an extra installs; raises MissingExtra with the line that installs it."""
    try:
        yield
    except ImportError as error:
        raise MissingExtra.named(extra, message) from error


_stored: ContextVar[list[str] | None] = ContextVar("passdown_stored_keys", default=None)


@contextmanager
def stored_keys(keys: list[str]) -> Generator[None]:
    """Collect the keys of memories that are stored inside, in this task and in what it starts."""
    token = _stored.set(keys)
    try:
        yield
    finally:
        _stored.reset(token)


def note_stored(key: str) -> None:
    """Note that a memory was stored, for the turn that it was stored in."""
    keys = _stored.get()
    if keys is not None:
        keys.append(key)


class LruCache(Generic[K, T]):
    """The values that were used last, up to a number; threads may share it."""

    def __init__(self, limit: int = 256) -> None:
        self._limit, self._lock = limit, threading.RLock()
        self._kept: OrderedDict[K, T] = OrderedDict()

    def get(self, key: K, make: Callable[[], T] | None = None) -> T | None:
        """The value of a key, if it is still here; else what `make` gives, which is kept."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
            return self.put(key, make()) if make else None

    def put(self, key: K, value: T) -> T:
        """Keep a value, and drop the least recently used one."""
        with self._lock:
            self._kept[key] = value
            self._kept.move_to_end(key)
            if len(self._kept) > self._limit:
                self._kept.popitem(last=False)
            return value


def streams_of(workspace: AnyWorkspace) -> WorkspaceStreams:
    """The streams beside the tasks of a workspace."""
    return WorkspaceStreams(workspace_of(workspace))


def async_twin(method: Callable[P, T]) -> Callable[P, CoroutineType[Any, Any, T]]:
    """A method's async form: the method, run in a thread."""
    name = method.__name__

    @wraps(method)
    async def run(*args: P.args, **kwargs: P.kwargs) -> T:
        # Looked up on the object: a subclass may have its own.
        return await asyncio.to_thread(getattr(args[0], name), *args[1:], **kwargs)

    run.__name__ = run.__qualname__ = f"a{name}"
    return run

"""The async API: every method of `Workspace`, run in a thread.

    async with passdown.aio.open(".") as ws:
        await ws.hand_off(handoff)

SQLite and the disk block in any case, so the core is synchronous. A cancelled call has either
happened or not; repeat it with the same key to know.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Self

from passdown import workspace as _sync
from passdown.operations import with_operations

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from passdown.core.settings import Settings
    from passdown.core.types import Clock
    from passdown.operations import Operation


def open(
    target: str = ".",
    *,
    create: bool = True,
    settings: Settings | None = None,
    clock: Clock | None = None,
    token: str = "",
) -> Opening:
    """Open a workspace, as `passdown.open` does: await the result, or use it with `async with`."""
    given: dict[str, Any] = {"settings": settings, "clock": clock, "token": token}
    return Opening(lambda: _sync.open(target, create=create, **given))


def init(folder: str = ".", store: str = "", *, repoint: bool = False) -> Opening:
    """Create a workspace in exactly this folder, as `passdown.init` does."""
    return Opening(lambda: _sync.init(folder, store, repoint=repoint))


class Opening:
    """A workspace that is being opened; awaited, or entered."""

    def __init__(self, opens: Callable[[], _sync.Workspace]) -> None:
        """Nothing happens until it is awaited or entered."""
        self._opens = opens
        self._entered: AsyncWorkspace | None = None

    def __await__(self) -> Generator[Any, None, AsyncWorkspace]:
        return self._open().__await__()

    async def _open(self) -> AsyncWorkspace:
        return AsyncWorkspace(await asyncio.to_thread(self._opens))

    async def __aenter__(self) -> AsyncWorkspace:
        self._entered = await self._open()
        return self._entered

    async def __aexit__(self, *_: object) -> None:
        if self._entered is not None:
            await self._entered.close()


def _awaited(operation: Operation, function: Callable[..., Any]) -> Callable[..., Any]:
    async def method(self: Any, /, *args: Any, **given: Any) -> Any:
        return await asyncio.to_thread(self._call, operation, function, *args, **given)

    return method


class AsyncWorkspace:
    """A workspace whose methods are awaited; see `Workspace` for what each one does."""

    def __init__(self, workspace: _sync.Workspace) -> None:
        """Wrap an open workspace."""
        self._workspace = workspace

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _call(
        self, operation: Operation, function: Callable[..., Any], *args: Any, **given: Any
    ) -> Any:
        return self._workspace._call(operation, function, *args, **given)  # pyright: ignore[reportPrivateUsage]

    async def close(self) -> None:
        """Close the store. Nothing is lost by not calling it."""
        await asyncio.to_thread(self._workspace.close)

    @property
    def root(self) -> str:
        """The project's folder; artifact paths are relative to it."""
        return self._workspace.root

    @property
    def store_url(self) -> str:
        """The URL that opens this workspace's store again, with its password."""
        return self._workspace.store_url

    @property
    def store_label(self) -> str:
        """The same URL as it may be printed: without a password."""
        return self._workspace.store_label


with_operations(AsyncWorkspace, _awaited, "Async")

"""What every part of the awaited door is made of: a workspace, and calls to it in a thread."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from passdown.workspace import Workspace

T = TypeVar("T")


class Calling:
    """Holds a workspace whose methods are called in a thread."""

    def __init__(self, workspace: Workspace) -> None:
        """Wrap a workspace that is open already."""
        self._workspace = workspace

    async def _call(self, method: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        return await asyncio.to_thread(method, *args, **kwargs)

"""A state that several agents hold at once, in threads or in tasks of one loop."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

from passdown.adapters.states.handing import context_of, handoff_update
from passdown.adapters.states.plain_values import plain
from passdown.adapters.states.shape import AgentState, apply_update

if TYPE_CHECKING:
    from collections.abc import Mapping

    from passdown.model.handoff import HandoffContext

Plain = dict[str, Any]


class SharedState:
    """One state behind a lock: every update is joined to the newest, none is lost."""

    def __init__(self, state: Mapping[str, Any], schema: type[Any] = AgentState) -> None:
        """Starts with a copy of `state`; InvalidInput unless it is plain data."""
        self._schema = schema
        self._lock = threading.Lock()
        self._state: Plain = plain(state)

    def read(self) -> Plain:
        """A copy of the state as it is now."""
        with self._lock:
            return plain(self._state)

    def update(self, update: Mapping[str, Any]) -> Plain:
        """Join an update to the state and give a copy of the result."""
        copied = plain(update)
        with self._lock:
            self._state = apply_update(self._state, copied, self._schema)
            return plain(self._state)

    def hand_on(self, target: str, **given: Any) -> HandoffContext | None:
        """Hand the state on; takes what `handoff_update` takes. Nobody can write in between."""
        with self._lock:
            update = handoff_update(self._state, target, **given)
            self._state = apply_update(self._state, update, self._schema)
            return context_of(self._state)

    async def aread(self) -> Plain:
        """`read`, awaited."""
        return await asyncio.to_thread(self.read)

    async def aupdate(self, update: Mapping[str, Any]) -> Plain:
        """`update`, awaited."""
        return await asyncio.to_thread(self.update, update)

    async def ahand_on(self, target: str, **given: Any) -> HandoffContext | None:
        """`hand_on`, awaited."""
        return await asyncio.to_thread(self.hand_on, target, **given)

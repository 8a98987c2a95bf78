"""Runs that go on after a handoff, on a session that holds everything from before it.

The SDK gives a session's whole history to whichever agent a run starts with. What came before the
last handoff is replaced by the brief here too, for the model alone: the session stays whole.
"""

from __future__ import annotations

import asyncio
import threading
from copy import deepcopy
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from agents.run import ModelInputData

from passdown.adapters.brief_texts import checked_reader
from passdown.adapters.openai_agents.briefed import instead_of
from passdown.adapters.openai_agents.names import ledger_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agents import TResponseInputItem
    from agents.run import CallModelData

    from passdown.adapters.brief_texts import Reader
    from passdown.adapters.states.handing import AnyWorkspace
    from passdown.workspace.aliases import CounterLike

_KEPT_BRIEFS = 256


class _Handed(NamedTuple):
    call_id: str
    items: str


def since_handoff(
    workspace: AnyWorkspace, task: str, *, budget: int = 500, counter: CounterLike = None
) -> SinceHandoff:
    """For `RunConfig(call_model_input_filter=...)` of runs with a session: models are given the
    task's brief and what was said since its last handoff. Nothing else changes.
    """
    return SinceHandoff(checked_reader(workspace, "", budget, counter), task)


class SinceHandoff:
    """A `call_model_input_filter`; threads and runs may share it."""

    def __init__(self, reader: Reader, task: str) -> None:
        """`reader` stands for whichever agent is asked."""
        self._reader, self._task = reader, task
        self._lock = threading.Lock()
        self._handed: list[_Handed] = []
        self._kept: dict[tuple[str, str, int], list[TResponseInputItem]] = {}

    async def __call__(self, data: CallModelData[Any]) -> ModelInputData:
        """The model's input, with the brief for what came before the last handoff in it."""
        return await asyncio.to_thread(self._briefed, data)

    def _briefed(self, data: CallModelData[Any]) -> ModelInputData:
        given = data.model_data
        with self._lock:
            document = self._reader.workspace.task(self._task)
            self._catch_up(int(document["counts"].get("h", 0)))
            found = self._last_in(given.input)
            if found is None:
                return given
            place, handed = found
            told = self._told(data, place, handed, int(document["version"]))
        later = [*told, *given.input[place + 1 :]]
        return ModelInputData(input=later, instructions=given.instructions)

    def _catch_up(self, count: int) -> None:
        for number in range(len(self._handed) + 1, count + 1):
            self._handed.append(_noted(self._reader.workspace.show(f"{self._task}#h{number}")))

    def _last_in(self, items: Sequence[TResponseInputItem]) -> tuple[int, _Handed] | None:
        known = {handed.call_id: handed for handed in self._handed if handed.call_id}
        for place in range(len(items) - 1, -1, -1):
            item = cast("dict[str, Any]", items[place])
            if item.get("type") == "function_call_output" and item.get("call_id") in known:
                return place, known[item["call_id"]]
        return None

    def _told(
        self, data: CallModelData[Any], place: int, handed: _Handed, version: int
    ) -> list[TResponseInputItem]:
        """Made once for each version of the task, so that the model's view doesn't shift."""
        key = (data.agent.name, handed.call_id, version)
        if key not in self._kept:
            name = ledger_name(data.agent.name, "agent")
            reader = self._reader._replace(agent=name)
            before = data.model_data.input[:place]
            self._kept[key] = instead_of(before, reader, self._task, data.agent, own=handed.items)
            while len(self._kept) > _KEPT_BRIEFS:
                del self._kept[next(iter(self._kept))]
        return list(map(deepcopy, self._kept[key]))


def _noted(handoff: dict[str, Any]) -> _Handed:
    """What our filter noted with a handoff; nothing of handoffs that came another way."""
    metadata = cast("dict[str, Any]", handoff.get("metadata") or {})
    noted = metadata.get("openai_agents")
    fields = cast("dict[str, Any]", noted) if isinstance(noted, dict) else {}
    return _Handed(str(fields.get("call_id") or ""), str(fields.get("items") or ""))

"""What the receiver's model reads after a handoff: the brief, in place of the conversation.

The SDK gives a filter what it gives nobody else: the call with its id, who made it, and everything
that the sender's model had before it. So this is where a handoff is recorded.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, cast

from agents.items import (
    HandoffCallItem,
    HandoffOutputItem,
    ReasoningItem,
    ToolApprovalItem,
    ToolCallItem,
    ToolCallOutputItem,
)

from passdown.adapters.histories import ranges_of
from passdown.adapters.openai_agents.briefed import instead_of, user_message
from passdown.adapters.openai_agents.transcripts import handed_log
from passdown.errors import GateRefused, Problem
from passdown.model.canonical import digest_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from agents import HandoffInputData, TResponseInputItem
    from agents.items import RunItem

    from passdown.adapters.openai_agents.briefed import Terms

_CALLS = (ToolCallItem, ToolCallOutputItem)
_ANSWERS = (ToolCallOutputItem, HandoffOutputItem)
_SHOWN_RANGES = 4


class HandoffHeld(GateRefused):
    """A person has to approve before the receiver may start; `recorded` says whether the handoff
    itself stands in the ledger already.
    """

    code = "handoff_held"

    def __init__(self, task: str, gates: Sequence[str], *, recorded: bool) -> None:
        self.task = task
        self.gates = tuple(gates)
        self.recorded = recorded
        fix = "passdown gate approve {} --by NAME"
        state = "is recorded and held" if recorded else "is refused; nothing was changed"
        step = "Start the receiver with opening(...) once a person has approved."
        super().__init__(
            f"the handoff of {task} {state} until a person answers",
            [Problem(g, "human_gate", "waits for a person", "", fix.format(g)) for g in gates],
            next_step=step if recorded else "Hand off again once a person has answered.",
        )


class BriefFilter:
    """An `input_filter` that records the handoff and gives the receiver the brief.

    `new_items` stay as they are, so the session is whole. What a person said last goes on to the
    receiver as it is, and so do results of tools that ran in the very turn of the handoff: no model
    has read them yet.
    """

    def __init__(self, terms: Terms) -> None:
        self._terms = terms

    async def __call__(self, data: HandoffInputData) -> HandoffInputData:
        """Raises HandoffHeld, GateRefused or Conflict; the run ends with it."""
        output = [item for item in data.new_items if isinstance(item, HandoffOutputItem)][-1]
        if output.source_agent is output.target_agent:
            return data  # sent back for repair: the sender goes on with everything it had
        given = await asyncio.to_thread(self._recorded, data, output)
        return data.clone(
            input_history=tuple(given),
            pre_handoff_items=(),
            input_items=tuple(unseen(_turn(data, output))),
        )

    def _recorded(
        self, data: HandoffInputData, output: HandoffOutputItem
    ) -> list[TResponseInputItem]:
        terms, workspace = self._terms, self._terms.reader.workspace
        task = terms.task_of(data.run_context)
        sender = terms.sender(output.source_agent)
        call = cast("dict[str, Any]", _call_of(data, output).to_input_item())
        items = _taken_out(data)
        log = handed_log(workspace, task)
        kept = log.add(items, _keys(items))
        numbers = ranges_of(kept, most=len(kept))
        handoff = terms.handoff(json.loads(call["arguments"]), task, sender)
        metadata = {"call_id": call["call_id"], "session": log.session_id, "items": numbers}
        parts = [call["call_id"], sender, terms.reader.agent, call["arguments"], numbers]
        command = workspace.hand_off(
            {**handoff, "metadata": {"openai_agents": metadata}},
            key="agents-sdk-" + digest_bytes(json.dumps(parts).encode())[7:],
        )
        if command.held_by:
            raise HandoffHeld(task, command.held_by, recorded=True)
        own = ranges_of(kept, most=_SHOWN_RANGES)
        return instead_of(_had(data), terms.reader, task, output.target_agent, own=own)


def unseen(items: Sequence[RunItem]) -> list[RunItem]:
    """The calls of a turn that have a result, with it and the reasoning that led to them; without
    the handoff itself.
    """
    handed = {_field(i, "call_id") for i in items if isinstance(i, HandoffCallItem)}
    answered = {_field(i, "call_id") for i in items if isinstance(i, ToolCallOutputItem)} - handed
    kept: list[RunItem] = []
    thoughts: list[RunItem] = []
    for index, item in enumerate(items):
        if isinstance(item, ReasoningItem):
            is_further = bool(thoughts) and items[index - 1] is thoughts[-1]
            thoughts = [*thoughts, item] if is_further else [item]
        elif isinstance(item, _CALLS) and _field(item, "call_id") in answered:
            if isinstance(item, ToolCallItem):
                # Models refuse reasoning that leads to nothing: it comes along with a call only.
                kept += [thought for thought in thoughts if thought not in kept]
            kept.append(item)
    return kept


def _had(data: HandoffInputData) -> list[TResponseInputItem]:
    """What the sender's model was given first."""
    given = data.input_history
    return [user_message(given)] if isinstance(given, str) else list(given)


def _made(data: HandoffInputData) -> list[RunItem]:
    """Everything that the run has made so far."""
    return [*data.pre_handoff_items, *data.new_items]


def _call_of(data: HandoffInputData, output: HandoffOutputItem) -> HandoffCallItem:
    """The call that the output answers."""
    wanted = _field(output, "call_id")
    calls = [item for item in _made(data) if isinstance(item, HandoffCallItem)]
    return [item for item in calls if _field(item, "call_id") == wanted][-1]


def _turn(data: HandoffInputData, output: HandoffOutputItem) -> list[RunItem]:
    """The items of the turn that the handoff ends.

    Of a turn that had to wait for an approval, `new_items` has only what came after it.
    """
    made = _made(data)
    end = made.index(_call_of(data, output))
    before = [place for place, item in enumerate(made[:end]) if isinstance(item, _ANSWERS)]
    return made[before[-1] + 1 if before else 0 :]


def _field(item: RunItem, name: str) -> object:
    raw: Any = item.raw_item
    return raw.get(name) if isinstance(raw, dict) else getattr(raw, name, None)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def _taken_out(data: HandoffInputData) -> list[dict[str, Any]]:
    """Everything that the sender's model had or made, as input items."""
    made = [item.to_input_item() for item in _made(data) if not isinstance(item, ToolApprovalItem)]
    return cast("list[dict[str, Any]]", [*_had(data), *made])


def _keys(items: Iterable[dict[str, Any]]) -> list[str]:
    """A key for each item by its content, so that what was kept before isn't kept twice."""
    times: dict[str, int] = {}
    keys: list[str] = []
    for item in items:
        digest = digest_bytes(json.dumps(item).encode())
        times[digest] = times.get(digest, 0) + 1
        keys.append(f"{digest}-{times[digest]}")
    return keys

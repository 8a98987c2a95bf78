"""What the receiver's model reads after a handoff: the brief, in place of the conversation.

The SDK gives a filter what it gives nobody else: the call with its id, who made it, and everything
that the sender's model had before it. So this is where a handoff is recorded.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from agents.items import (
    HandoffCallItem,
    HandoffOutputItem,
    ReasoningItem,
    ToolApprovalItem,
    ToolCallItem,
    ToolCallOutputItem,
)

from passdown.adapters.openai_agents.names import ledger_name
from passdown.adapters.openai_agents.payload import as_handoff
from passdown.adapters.openai_agents.transcripts import MODULE, TOOL, handed_log, ranges_of
from passdown.errors import GateRefused, Problem
from passdown.model.canonical import digest_bytes
from passdown.model.tokens import counter_of
from passdown.workspace.beside import Beside

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from agents import Agent, HandoffInputData, RunContextWrapper, TResponseInputItem
    from agents.items import RunItem

    from passdown.workspace import Workspace
    from passdown.workspace.aliases import CounterLike

    TaskOf = Callable[[RunContextWrapper[Any] | None], str]


_CALLS = (ToolCallItem, ToolCallOutputItem)


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


class Terms(NamedTuple):
    """What a handoff was set up with."""

    workspace: Workspace
    task_of: TaskOf
    to_agent: str
    from_agent: str
    budget: int
    counter: CounterLike
    phase: str

    def sender(self, agent: Agent[Any]) -> str:
        """The sender's name in the ledger."""
        return self.from_agent or ledger_name(agent.name, "from_agent")

    def handoff(self, arguments: dict[str, Any], task: str, sender: str) -> dict[str, Any]:
        """A handoff as the workspace takes it."""
        fixed = {"task": task, "from_agent": sender, "to_agent": self.to_agent}
        phase = {"phase": self.phase} if self.phase else {}
        return {**as_handoff(arguments), **fixed, **phase}


class BriefFilter:
    """An `input_filter` that records the handoff and gives the receiver the brief.

    `new_items` stay as they are, so the session is whole. Results of tools that ran in the very
    turn of the handoff go on to the receiver as they are: no model has read them yet.
    """

    def __init__(self, terms: Terms) -> None:
        self._terms = terms

    async def __call__(self, data: HandoffInputData) -> HandoffInputData:
        """Raises HandoffHeld, GateRefused or Conflict; the run ends with it."""
        output = _handoff_output(data.new_items)
        if output.source_agent is output.target_agent:
            return data  # sent back for repair: the sender goes on with everything it had
        text = await asyncio.to_thread(self._recorded, data, output)
        return data.clone(
            input_history=(user_message(text),),
            pre_handoff_items=(),
            input_items=tuple(unseen(data.new_items)),
        )

    def _recorded(self, data: HandoffInputData, output: HandoffOutputItem) -> str:
        terms = self._terms
        task = terms.task_of(data.run_context)
        sender = terms.sender(output.source_agent)
        call = _call_of(data.new_items, output)
        items = _taken_out(data)
        log = handed_log(terms.workspace, task)
        numbers = ranges_of(log.add(items, _keys(items)), most=len(items))
        handoff = terms.handoff(json.loads(call["arguments"]), task, sender)
        metadata = {"call_id": call["call_id"], "session": log.session_id, "items": numbers}
        parts = [call["call_id"], sender, terms.to_agent, call["arguments"], numbers]
        command = terms.workspace.hand_off(
            {**handoff, "metadata": {"openai_agents": metadata}},
            key="agents-sdk-" + digest_bytes(json.dumps(parts).encode())[7:],
        )
        if command.held_by:
            raise HandoffHeld(task, command.held_by, recorded=True)
        kept = _kept_line(log.session_id, data, numbers, output.target_agent)
        return brief_text(terms, task, kept)


def brief_text(terms: Terms, task: str, kept: str) -> str:
    """The brief with a line on what else is kept, together within the budget."""
    workspace = terms.workspace
    count = counter_of(terms.counter, Beside(workspace).opened.settings.counter).tokens
    room = terms.budget - (count(f"\n{kept}\n") if kept else 0)
    if not kept or room < 1:
        kept, room = "", terms.budget
    while True:
        told = workspace.brief(
            task, agent=terms.to_agent, budget=room, counter=terms.counter, record=False
        )
        text = f"{told.text.rstrip()}\n{kept}".rstrip() + "\n"
        if count(text) <= terms.budget or room == 1:
            break
        room -= 1
    workspace.brief(task, agent=terms.to_agent, budget=room, counter=terms.counter)
    return text


def user_message(text: str) -> TResponseInputItem:
    """A text as an input item."""
    return {"role": "user", "content": text}


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


def _handoff_output(items: Iterable[RunItem]) -> HandoffOutputItem:
    return [item for item in items if isinstance(item, HandoffOutputItem)][-1]


def _call_of(items: Iterable[RunItem], output: HandoffOutputItem) -> dict[str, Any]:
    """The handoff's call as plain data: the one that the output answers."""
    wanted = _field(output, "call_id")
    calls = [i for i in items if isinstance(i, HandoffCallItem) and _field(i, "call_id") == wanted]
    return cast("dict[str, Any]", calls[-1].to_input_item())


def _field(item: RunItem, name: str) -> object:
    raw: Any = item.raw_item
    return raw.get(name) if isinstance(raw, dict) else getattr(raw, name, None)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def _taken_out(data: HandoffInputData) -> list[dict[str, Any]]:
    """Everything that the sender's model had or made, as input items."""
    given = data.input_history
    before = [user_message(given)] if isinstance(given, str) else list(given)
    made = [
        item.to_input_item()
        for item in (*data.pre_handoff_items, *data.new_items)
        if not isinstance(item, ToolApprovalItem)
    ]
    return cast("list[dict[str, Any]]", [*before, *made])


def _keys(items: Iterable[dict[str, Any]]) -> list[str]:
    """A key for each item by its content, so that what was kept before isn't kept twice."""
    times: dict[str, int] = {}
    keys: list[str] = []
    for item in items:
        digest = digest_bytes(json.dumps(item).encode())
        times[digest] = times.get(digest, 0) + 1
        keys.append(f"{digest}-{times[digest]}")
    return keys


def _kept_line(session_id: str, data: HandoffInputData, numbers: str, receiver: Agent[Any]) -> str:
    """How the receiver gets at what it isn't shown: by its tool, if it has it, or a command."""
    items = _taken_out(data)
    answers = sum(str(item.get("type")).endswith("_output") for item in items)
    made = (*data.pre_handoff_items, *data.new_items)
    results = answers - sum(isinstance(item, HandoffOutputItem) for item in made)
    shown = numbers if numbers.count(",") < 4 else ranges_of(_ends(numbers), most=1)
    has_tool = any(tool.name == TOOL for tool in receiver.tools)
    way = f'{TOOL}("{shown}")' if has_tool else f"python -m {MODULE} {session_id} {shown}"
    return f"Conversation until here: {len(items)} items, {results} tool results. All: {way}"


def _ends(numbers: str) -> list[int]:
    found = [int(part) for piece in numbers.split(",") for part in piece.split("-")]
    return list(range(min(found), max(found) + 1))

"""Handoffs of the SDK that leave a checked record and give the receiver a brief.

The SDK lets a handoff end in one way only: with an agent. A payload with problems therefore gives
the turn back to its sender, with every problem as the call's output, and nothing is recorded.
A handoff is recorded in its input filter: only there does the SDK give the call with its id, who
made it, and everything that the sender's model had before it.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import threading
import weakref
from contextvars import ContextVar
from copy import deepcopy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakKeyDictionary

import agents
from agents.exceptions import ModelBehaviorError
from agents.items import (
    HandoffCallItem,
    HandoffOutputItem,
    ReasoningItem,
    ToolApprovalItem,
    ToolCallItem,
    ToolCallOutputItem,
)
from agents.run import ModelInputData

from passdown.adapters import shared
from passdown.adapters.openai_agents.sessions import history_tool
from passdown.adapters.state_schema import field_of
from passdown.core.intake import check_handoff
from passdown.core.record import digest_bytes
from passdown.errors import GateRefused, InvalidInput, Problem
from passdown.tools import briefs, messages, payload
from passdown.tools import history as histories

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from agents import Agent, Handoff, HandoffInputData, RunContextWrapper, TResponseInputItem
    from agents.agent import AgentBase
    from agents.items import RunItem
    from agents.run import CallModelData

    from passdown.core.handoff import Handoff as HandoffValue
    from passdown.core.tokens import CounterLike
    from passdown.tools.briefs import AnyWorkspace, BriefSettings
    from passdown.workspace import Workspace

    Context = RunContextWrapper[Any]
    IsEnabled = bool | Callable[[Context, Agent[Any]], bool | Awaitable[bool]]
    Callback = Callable[[Context, HandoffValue], Any]
    Invoke = Callable[[Context, str], Awaitable[Agent[Any]]]


def brief_items(
    conversation: Sequence[TResponseInputItem],
    reader: BriefSettings,
    task: str,
    receiver: Agent[Any],
    *,
    own: str = "",
) -> list[TResponseInputItem]:
    """What a receiver is given instead of a conversation, within the budget.

    The last words of a person stay as they are if they take no more than half of it.
    """
    said = messages.last_requests(cast("Sequence[dict[str, Any]]", conversation))
    asked, settings = reader.beside(said, messages.message_text)
    text = settings.text(task, _history_hint(reader.workspace, task, receiver, own=own))
    return [user_message(text), *cast("list[TResponseInputItem]", asked)]


def _history_hint(workspace: Workspace, task: str, receiver: Agent[Any], *, own: str = "") -> str:
    """How a receiver gets at what it isn't shown: by its tool, if it has it."""
    last = histories.handed_log(workspace, task).last_number() if _reads_history(receiver) else 0
    return histories.history_hint(last, own)


def _reads_history(agent: Agent[Any]) -> bool:
    return any(tool.name == histories.HISTORY_TOOL for tool in agent.tools)


_sessions: dict[int, str] = {}
"""The log of what was handed over last in a run, by the run's usage, which its contexts share."""


def _note_session(context: Context | None, session_id: str) -> None:
    if context is not None:
        if id(context.usage) not in _sessions:
            weakref.finalize(context.usage, _sessions.pop, id(context.usage), None).atexit = False
        _sessions[id(context.usage)] = session_id


def _add_history_tool(
    agent: Agent[Any], workspace: Workspace, task: str | Callable[[Context], str]
) -> None:
    """Give a receiver the tool that its brief names, unless it has one."""

    def session_of(context: Context) -> str:
        known = _sessions.get(id(context.usage))
        return known or f"{task(context) if callable(task) else task}.handed"

    if not _reads_history(agent):
        agent.tools.append(history_tool(workspace, session_of))


def user_message(text: str) -> TResponseInputItem:
    """A text as an input item."""
    return {"role": "user", "content": text}


_CALLS = (ToolCallItem, ToolCallOutputItem)
_ANSWERS = (ToolCallOutputItem, HandoffOutputItem)


class HandoffHeld(GateRefused):
    """A person has to approve before the receiver may start; `recorded` says whether the handoff
    itself is recorded.
    """

    code = "handoff_held"

    def __init__(
        self, task: str, gates: Sequence[str], *, recorded: bool, rejection: str = ""
    ) -> None:
        self.task = task
        self.gates = tuple(gates)
        self.recorded = recorded
        fix = "passdown gate approve {} --by NAME (in Python: approve)"
        state = "is refused; nothing was changed"
        said, step = "waits for a person", "Hand off again once a person has answered."
        if rejection:
            state, said = f"was {rejection}", "is rejected"
            step = "Start the sender with opening_input(...): it can hand off in another way."
        elif recorded:
            state = "is recorded and held until a person answers"
            step = "Start the receiver with opening_input(...) once a person has approved."
        super().__init__(
            f"the handoff of {task} {state}",
            [Problem(g, "human_gate", said, "", fix.format(g)) for g in gates],
            next_step=step,
        )


def unread_results(items: Sequence[RunItem]) -> list[RunItem]:
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


def _run_items(data: HandoffInputData) -> list[RunItem]:
    """Everything that the run has made so far."""
    return [*data.pre_handoff_items, *data.new_items]


def _call_of(data: HandoffInputData, output: HandoffOutputItem) -> HandoffCallItem:
    """The call that the output answers."""
    wanted = _field(output, "call_id")
    calls = [item for item in _run_items(data) if isinstance(item, HandoffCallItem)]
    return [item for item in calls if _field(item, "call_id") == wanted][-1]


def _turn_items(data: HandoffInputData, output: HandoffOutputItem) -> list[RunItem]:
    """The items of the turn that the handoff ends.

    Of a turn that had to wait for an approval, `new_items` has only what came after it.
    """
    made = _run_items(data)
    end = made.index(_call_of(data, output))
    before = [place for place, item in enumerate(made[:end]) if isinstance(item, _ANSWERS)]
    return made[before[-1] + 1 if before else 0 :]


def _field(item: RunItem, name: str) -> object:
    return field_of(item.raw_item, name)


def since_handoff(
    workspace: AnyWorkspace, task: str, *, budget: int = 500, counter: CounterLike = None
) -> SinceHandoff:
    """For `RunConfig(call_model_input_filter=...)` of runs with a session: models are given the
    task's brief and what was said since its last handoff. Nothing else changes.
    """
    found = briefs.recording_workspace(workspace, "since_handoff")
    return SinceHandoff(briefs.brief_settings(found, "", budget, counter), task)


class SinceHandoff:
    """A `call_model_input_filter`; threads and runs may share it."""

    def __init__(self, reader: BriefSettings, task: str) -> None:
        """`reader` is a template: the agent is filled in at each call."""
        self._reader, self._task = reader, task
        self._lock = threading.Lock()
        self._handed = 0
        self._calls: dict[str, str] = {}
        self._kept: shared.LruCache[tuple[str, str, int], list[TResponseInputItem]]
        self._kept = shared.LruCache()

    async def __call__(self, data: CallModelData[Any]) -> ModelInputData:
        """The model's input, with the brief for what came before the last handoff in it."""
        return await asyncio.to_thread(self._briefed, data)

    def _briefed(self, data: CallModelData[Any]) -> ModelInputData:
        given = data.model_data
        with self._lock:
            document = self._reader.workspace.task(self._task)
            self._catch_up(int(document.counts.get("h", 0)))
            place = self._last_handoff(given.input)
            if place is None:
                return given
            brief = self._brief(data, place, int(document.version))
        later = [*brief, *given.input[place + 1 :]]
        return ModelInputData(input=later, instructions=given.instructions)

    def _catch_up(self, count: int) -> None:
        """Note which items each handoff by our filter replaced, under the id of its call."""
        for number in range(self._handed + 1, count + 1):
            handoff = self._reader.workspace.show(f"{self._task}#h{number}").to_dict()
            noted = field_of(handoff.get("metadata"), "openai_agents")
            if call_id := field_of(noted, "call_id"):
                self._calls[str(call_id)] = str(field_of(noted, "items") or "")
        self._handed = max(self._handed, count)

    def _last_handoff(self, items: Sequence[TResponseInputItem]) -> int | None:
        """The place of the last answer to a call that handed off."""
        for place in range(len(items) - 1, -1, -1):
            is_answer = field_of(items[place], "type") == "function_call_output"
            if is_answer and field_of(items[place], "call_id") in self._calls:
                return place
        return None

    def _brief(
        self, data: CallModelData[Any], place: int, version: int
    ) -> list[TResponseInputItem]:
        """Made once for each version of the task, so that the model's view doesn't shift."""
        call: str = field_of(data.model_data.input[place], "call_id")
        reader = self._reader._replace(agent=payload.agent_name_of(data.agent.name, "agent"))
        before, own = data.model_data.input[:place], self._calls[call]
        found = self._kept.get(
            (data.agent.name, call, version),
            lambda: brief_items(before, reader, self._task, data.agent, own=own),
        )
        return deepcopy(found or [])


MAX_REPAIRS = 3
"""How often a sender may fix its handoff before the run ends."""

_SETTINGS = ("task", "from_agent", "to_agent", "phase", "expect_version", "metadata")


def _check_agent(given: object) -> None:
    if isinstance(given, agents.Agent):
        return
    fix = f"Agent(name={given[:40]!r}, ...)" if isinstance(given, str) else ""
    expected = "an Agent of the OpenAI Agents SDK"
    problem = Problem("agent", "wrong_type", f"{type(given).__name__} given", expected, fix)
    raise InvalidInput("the handoff can't be made", [problem])


def passdown_handoff(
    agent: Agent[Any],
    *,
    workspace: AnyWorkspace,
    task: str | Callable[[Context], str],
    from_agent: str = "",
    to_agent: str = "",
    budget: int = 500,
    counter: CounterLike = None,
    phase: str = "",
    tool_name: str | None = None,
    description: str | None = None,
    is_enabled: IsEnabled = True,
    on_handoff: Callback | None = None,
    history: bool = True,
) -> Handoff[Any, Agent[Any]]:
    """A handoff to `agent` that is recorded in the ledger; put it into an agent's `handoffs`.

    The model fills it in; its problems go back to it. The receiver's input is the task's brief,
    within `budget` tokens, in place of the conversation, which stays readable: `agent` gets the
    tool `read_history`, unless it has one or `history` is false. `task` may be a
    function of the run's context. The agents' names are recorded as `from_agent` and `to_agent`,
    without spaces, if those aren't given. `on_handoff` is called with a valid `Handoff` before it
    is recorded. A run ends with HandoffHeld while a person has to approve.
    """
    _check_agent(agent)
    name = to_agent or payload.agent_name_of(agent.name, "to_agent")
    found = briefs.recording_workspace(workspace, "passdown_handoff")
    reader = briefs.brief_settings(found, name, budget, counter)
    if history:
        _add_history_tool(agent, found, task)
    calls = _HandoffCalls(agent, reader, task, from_agent, phase, is_enabled, on_handoff)
    made = agents.handoff(
        agent,
        tool_name_override=tool_name,
        tool_description_override=description or _description(agent),
        input_filter=cast("Any", calls.filter),
        is_enabled=calls.is_enabled,
    )
    # Not strict: every field is accepted, and what is wrong with it goes back to the model.
    made.input_json_schema, made.strict_json_schema = payload.handoff_schema(), False
    made.on_invoke_handoff = calls.invoke
    cast("Any", made).get_transfer_message = _transfer_message(made.get_transfer_message)
    return made


def _description(agent: Agent[Any]) -> str:
    return f"Hand off to {agent.name}. {agent.handoff_description or ''}".rstrip()


def opening_input(
    workspace: AnyWorkspace,
    task: str,
    agent: Agent[Any],
    *,
    to_agent: str = "",
    budget: int = 500,
    counter: CounterLike = None,
) -> list[TResponseInputItem]:
    """The input to start an agent with where no handoff does: after an approval, after a restart.

    The brief, and what people said last before the handoff.

    Raises HandoffHeld while a person has to approve; after a rejection, for all but its sender.
    """
    opened = briefs.recording_workspace(workspace, "opening_input")
    _check_agent(agent)
    name = to_agent or payload.agent_name_of(agent.name, "to_agent")
    held = [gate for gate in opened.gates(task) if gate.holds]
    no = [gate for gate in held if gate.status == "rejected"]
    # After a rejection its sender has the task again, and may be started.
    if len(no) < len(held) or any(gate.agent != name for gate in no):
        said = "; ".join(f"rejected by {g.answered_by}: {g.reason}; {g.agent} has it" for g in no)
        raise HandoffHeld(task, [gate.address for gate in held], recorded=True, rejection=said)
    reader = briefs.brief_settings(opened, name, budget, counter)
    _add_history_tool(agent, opened, task)
    kept = cast("list[TResponseInputItem]", histories.handed_log(opened, task).items())
    return brief_items(kept, reader, task, agent)


@dataclass(eq=False, repr=False)
class _HandoffCalls:
    """One handoff of the SDK: its checks, its record, and the brief for its receiver."""

    receiver: Agent[Any]
    reader: BriefSettings
    task: str | Callable[[Context], str]
    from_agent: str
    phase: str
    may_call: IsEnabled
    on_handoff: Callback | None
    # Whose turn a call ends, and how often it was sent back. Only `is_enabled` is given the
    # calling agent by the SDK.
    _senders: WeakKeyDictionary[Context, Agent[Any]] = field(
        default_factory=WeakKeyDictionary[Any, Any]
    )
    _repairs: WeakKeyDictionary[Context, int] = field(default_factory=WeakKeyDictionary[Any, Any])

    def _handoff(
        self, context: Context | None, sender: Agent[Any], arguments: dict[str, Any]
    ) -> dict[str, Any]:
        """A handoff as the workspace takes it."""
        task = self.task(cast("Context", context)) if callable(self.task) else self.task
        name = self.from_agent or payload.agent_name_of(sender.name, "from_agent")
        fixed = {"task": task, "from_agent": name, "to_agent": self.reader.agent}
        return payload.handoff_of(
            arguments, **fixed, **({"phase": self.phase} if self.phase else {})
        )

    async def is_enabled(self, context: Context, agent: AgentBase[Any]) -> bool:
        sender = cast("Agent[Any]", agent)
        self._senders[context] = sender
        if isinstance(self.may_call, bool):
            return self.may_call
        answer = self.may_call(context, sender)
        return bool(await answer if inspect.isawaitable(answer) else answer)

    async def invoke(self, context: Context, arguments: str) -> Agent[Any]:
        """The receiver, for a valid handoff; else the sender, which has its turn again."""
        sender = self._senders[context]
        handoff, problems = await asyncio.to_thread(self._check, context, sender, arguments)
        if handoff is not None:
            answer = self.on_handoff(context, handoff) if self.on_handoff else None
            if inspect.isawaitable(answer):
                await answer
            self._repairs.pop(context, None)
            return self.receiver
        self._repairs[context] = self._repairs.get(context, 0) + 1
        text = payload.refusal_text(problems, is_empty=arguments.strip() in ("", "{}"))
        if self._repairs[context] > MAX_REPAIRS:
            raise ModelBehaviorError(text)
        _refusal.set(text)
        return sender

    def _check(
        self, context: Context, sender: Agent[Any], arguments: str
    ) -> tuple[HandoffValue | None, list[Problem]]:
        """The handoff, or what the model has to fix. Raises for what it can't fix."""
        fields, problems = payload.read_arguments(arguments)
        if problems:
            return None, problems
        document = self._handoff(context, sender, fields)
        check = self.reader.workspace.check_handoff(document)
        errors = [each for each in check.problems if each.level == "error"]
        held = [each.path for each in errors if each.code == "human_gate"]
        if held:
            raise HandoffHeld(document["task"], held, recorded=False)
        settings = [each for each in errors if each.path in _SETTINGS]
        if settings:
            raise InvalidInput("this handoff can't be recorded", settings)
        problems = payload.handoff_problems(fields, check.problems)
        return (None if problems else check_handoff(document).handoff), problems

    async def filter(self, data: HandoffInputData) -> HandoffInputData:
        """The `input_filter`: records the handoff and gives the receiver the brief.

        `new_items` stay as they are, so the session is complete. The last user messages are passed
        on unchanged, and so are results of tools that ran in the very turn of the handoff: no model
        has read them yet. Raises HandoffHeld, GateRefused or Conflict; the run ends with it.
        """
        output = [item for item in data.new_items if isinstance(item, HandoffOutputItem)][-1]
        if output.source_agent is output.target_agent:
            return data  # sent back to be fixed: the sender continues with all that it had
        given = await asyncio.to_thread(self._recorded, data, output)
        return data.clone(
            input_history=tuple(given),
            pre_handoff_items=(),
            input_items=tuple(unread_results(_turn_items(data, output))),
        )

    def _recorded(
        self, data: HandoffInputData, output: HandoffOutputItem
    ) -> list[TResponseInputItem]:
        workspace = self.reader.workspace
        call: Any = _call_of(data, output).to_input_item()
        arguments: str = call["arguments"]
        handoff = self._handoff(data.run_context, output.source_agent, json.loads(arguments))
        first = data.input_history
        had = [user_message(first)] if isinstance(first, str) else list(first)
        made = [i.to_input_item() for i in _run_items(data) if not isinstance(i, ToolApprovalItem)]
        items = cast("list[dict[str, Any]]", [*had, *made])
        log = histories.handed_log(workspace, handoff["task"])
        kept = log.keep(items)
        numbers = histories.format_ranges(kept, most=len(kept))
        _note_session(data.run_context, log.session_id)
        metadata = {"call_id": call["call_id"], "session": log.session_id, "items": numbers}
        names = handoff["from_agent"], handoff["to_agent"]
        parts = [call["call_id"], *names, arguments, numbers]
        command = workspace.hand_off(
            {**handoff, "metadata": {"openai_agents": metadata}},
            key="agents-sdk-" + digest_bytes(json.dumps(parts).encode())[7:],
        )
        if command.held_by:
            raise HandoffHeld(handoff["task"], command.held_by, recorded=True)
        own = histories.format_ranges(kept)
        return brief_items(had, self.reader, handoff["task"], output.target_agent, own=own)


_refusal: ContextVar[str] = ContextVar("passdown_sent_back", default="")


def _transfer_message(usual: Callable[[AgentBase[Any]], str]) -> Callable[[AgentBase[Any]], str]:
    """The output of a handoff's call: what was wrong with it, else what the SDK says.

    The SDK asks for it straight after the call, in the same task.
    """

    def message(agent: AgentBase[Any]) -> str:
        text = _refusal.get()
        _refusal.set("")
        return text or usual(agent)

    return message

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
import re
import threading
import unicodedata
from contextvars import ContextVar
from copy import deepcopy
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
from agents.strict_schema import ensure_strict_json_schema

from passdown.adapters.openai_agents.sessions import MODULE, handed_log
from passdown.adapters.state_schema import field_of
from passdown.adapters.tools import (
    HISTORY_TOOL,
    LruCache,
    brief_settings,
    format_ranges,
    handoff_of,
    handoff_problems,
    handoff_schema,
    last_in_a_row,
    local_workspace,
    refusal_text,
)
from passdown.core.intake import check_handoff
from passdown.core.names import MAX_AGENT, agent_problems
from passdown.core.record import digest_bytes
from passdown.errors import GateRefused, InvalidInput, Problem

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from agents import Agent, Handoff, HandoffInputData, RunContextWrapper, TResponseInputItem
    from agents.agent import AgentBase
    from agents.items import RunItem
    from agents.run import CallModelData

    from passdown.adapters.tools import AnyWorkspace, BriefSettings
    from passdown.core.handoff import Handoff as HandoffValue
    from passdown.core.tokens import CounterLike
    from passdown.workspace import Workspace

    Context = RunContextWrapper[Any]
    IsEnabled = bool | Callable[[Context, Agent[Any]], bool | Awaitable[bool]]
    Callback = Callable[[Context, HandoffValue], Any]
    Invoke = Callable[[Context, str], Awaitable[Agent[Any]]]


def agent_name_of(name: str, path: str) -> str:
    """An agent's name without spaces and marks: `Triage agent` is `Triage-agent`.

    Raises InvalidInput where nothing is left that could be a name; `path` is the argument that
    gives one instead.
    """
    if not agent_problems(name, path):
        return name
    folded = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    short = re.sub("[^A-Za-z0-9._-]+", "-", folded).strip("-._")[:MAX_AGENT].strip("-._")
    problems = agent_problems(short, path)
    if problems:
        step = f"Give {path}: a name in ASCII letters, digits, '.', '_' and '-'."
        raise InvalidInput(
            f"the agent's name {name[:60]!r} can't be recorded", problems, next_step=step
        )
    return short


_BRIEF = re.compile(r"# \S+ for \S+, version [0-9]+ \[[0-9]+\]\n")


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
    asked = [
        item
        for item in last_in_a_row(conversation, lambda item: _part(item, "role") == "user")
        if not _BRIEF.match(_text(item))  # briefs come in that role too
    ]
    settings = reader.beside([_text(item) for item in asked])
    if settings is None:
        asked, settings = [], reader
    text = settings.text(task, history_hint(reader.workspace, task, receiver, own=own))
    return [user_message(text), *asked]


def _part(item: object, name: str) -> Any:
    return cast("dict[str, Any]", item).get(name)


def _text(item: TResponseInputItem) -> str:
    content: object = _part(item, "content")
    return content if isinstance(content, str) else json.dumps(content)


def history_hint(workspace: Workspace, task: str, receiver: Agent[Any], *, own: str = "") -> str:
    """How a receiver gets at what it isn't shown: by its tool, if it has it, or a command.

    `own` are the numbers of what the sender had before it.
    """
    log = handed_log(workspace, task)
    last = log.last_number()
    if not last:
        return ""
    whole = f"1-{last}"
    newest = f" ({own} the last agent's)" if own and own != whole else ""
    has_tool = any(tool.name == HISTORY_TOOL for tool in receiver.tools)
    way = (
        f'{HISTORY_TOOL}("{whole}")' if has_tool else f"python -m {MODULE} {log.session_id} {whole}"
    )
    return f"Word for word, with every tool result: items {whole}{newest}. All: {way}"


def user_message(text: str) -> TResponseInputItem:
    """A text as an input item."""
    return {"role": "user", "content": text}


_CALLS = (ToolCallItem, ToolCallOutputItem)
_ANSWERS = (ToolCallOutputItem, HandoffOutputItem)
_SHOWN_RANGES = 4


class HandoffHeld(GateRefused):
    """A person has to approve before the receiver may start; `recorded` says whether the handoff
    itself is recorded.
    """

    code = "handoff_held"

    def __init__(self, task: str, gates: Sequence[str], *, recorded: bool) -> None:
        self.task = task
        self.gates = tuple(gates)
        self.recorded = recorded
        fix = "passdown gate approve {} --by NAME"
        state = "is recorded and held" if recorded else "is refused; nothing was changed"
        step = "Start the receiver with opening_input(...) once a person has approved."
        super().__init__(
            f"the handoff of {task} {state} until a person answers",
            [Problem(g, "human_gate", "waits for a person", "", fix.format(g)) for g in gates],
            next_step=step if recorded else "Hand off again once a person has answered.",
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


def _item_keys(items: Iterable[dict[str, Any]]) -> list[str]:
    """A key for each item by its content, so that what was kept before isn't kept twice."""
    times: dict[str, int] = {}
    keys: list[str] = []
    for item in items:
        digest = digest_bytes(json.dumps(item).encode())
        times[digest] = times.get(digest, 0) + 1
        keys.append(f"{digest}-{times[digest]}")
    return keys


_KEPT_BRIEFS = 256


def since_handoff(
    workspace: AnyWorkspace, task: str, *, budget: int = 500, counter: CounterLike = None
) -> SinceHandoff:
    """For `RunConfig(call_model_input_filter=...)` of runs with a session: models are given the
    task's brief and what was said since its last handoff. Nothing else changes.
    """
    found = local_workspace(workspace, "since_handoff")
    return SinceHandoff(brief_settings(found, "", budget, counter), task)


class SinceHandoff:
    """A `call_model_input_filter`; threads and runs may share it."""

    def __init__(self, reader: BriefSettings, task: str) -> None:
        """`reader` is a template: the agent is filled in at each call."""
        self._reader, self._task = reader, task
        self._lock = threading.Lock()
        self._handed = 0
        self._calls: dict[str, str] = {}
        self._kept: LruCache[tuple[str, str, int], list[TResponseInputItem]] = LruCache(
            _KEPT_BRIEFS
        )

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
            is_answer = _part(items[place], "type") == "function_call_output"
            if is_answer and _part(items[place], "call_id") in self._calls:
                return place
        return None

    def _brief(
        self, data: CallModelData[Any], place: int, version: int
    ) -> list[TResponseInputItem]:
        """Made once for each version of the task, so that the model's view doesn't shift."""
        call: str = _part(data.model_data.input[place], "call_id")
        reader = self._reader._replace(agent=agent_name_of(data.agent.name, "agent"))
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
) -> Handoff[Any, Agent[Any]]:
    """A handoff to `agent` that is recorded in the ledger; put it into an agent's `handoffs`.

    The model fills it in; its problems go back to it. The receiver's input is the task's brief,
    within `budget` tokens, in place of the conversation, which stays readable. `task` may be a
    function of the run's context. The agents' names are recorded as `from_agent` and `to_agent`,
    without spaces, if those aren't given. `on_handoff` is called with a valid `Handoff` before it
    is recorded. A run ends with HandoffHeld while a person has to approve.
    """
    _check_agent(agent)
    name = to_agent or agent_name_of(agent.name, "to_agent")
    found = local_workspace(workspace, "passdown_handoff")
    reader = brief_settings(found, name, budget, counter)
    calls = _HandoffCalls(
        agent, reader, task, from_agent, phase, is_enabled=is_enabled, on_handoff=on_handoff
    )
    made = agents.handoff(
        agent,
        tool_name_override=tool_name,
        tool_description_override=description,
        input_filter=cast("Any", calls.filter),
        is_enabled=calls.is_enabled,
    )
    made.input_json_schema = ensure_strict_json_schema(handoff_schema())
    made.on_invoke_handoff = calls.invoke
    cast("Any", made).get_transfer_message = _transfer_message(made.get_transfer_message)
    return made


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

    Raises HandoffHeld while a person has to approve.
    """
    opened = local_workspace(workspace, "opening_input")
    held = [gate.address for gate in opened.gates(task) if gate.blocker]
    if held:
        raise HandoffHeld(task, held, recorded=True)
    _check_agent(agent)
    name = to_agent or agent_name_of(agent.name, "to_agent")
    reader = brief_settings(opened, name, budget, counter)
    return [user_message(reader.text(task, history_hint(opened, task, agent)))]


class _HandoffCalls:
    """One handoff of the SDK: its checks, its record, and the brief for its receiver."""

    def __init__(
        self,
        receiver: Agent[Any],
        reader: BriefSettings,
        task: str | Callable[[Context], str],
        from_agent: str,
        phase: str,
        *,
        is_enabled: IsEnabled,
        on_handoff: Callback | None,
    ) -> None:
        self._receiver, self._reader, self._task = receiver, reader, task
        self._from_agent, self._phase = from_agent, phase
        self._is_enabled, self._on_handoff = is_enabled, on_handoff
        # Whose turn a call ends, and how often it was sent back. Only `is_enabled` is given the
        # calling agent by the SDK.
        self._senders: WeakKeyDictionary[Context, Agent[Any]] = WeakKeyDictionary()
        self._repairs: WeakKeyDictionary[Context, int] = WeakKeyDictionary()

    def _handoff(
        self, context: Context | None, sender: Agent[Any], arguments: dict[str, Any]
    ) -> dict[str, Any]:
        """A handoff as the workspace takes it."""
        task = self._task(cast("Context", context)) if callable(self._task) else self._task
        name = self._from_agent or agent_name_of(sender.name, "from_agent")
        fixed = {"task": task, "from_agent": name, "to_agent": self._reader.agent}
        return handoff_of(arguments, **fixed, **({"phase": self._phase} if self._phase else {}))

    async def is_enabled(self, context: Context, agent: AgentBase[Any]) -> bool:
        sender = cast("Agent[Any]", agent)
        self._senders[context] = sender
        if isinstance(self._is_enabled, bool):
            return self._is_enabled
        answer = self._is_enabled(context, sender)
        return bool(await answer if inspect.isawaitable(answer) else answer)

    async def invoke(self, context: Context, arguments: str) -> Agent[Any]:
        """The receiver, for a valid handoff; else the sender, which has its turn again."""
        sender = self._senders[context]
        handoff, problems = await asyncio.to_thread(self._check, context, sender, arguments)
        if handoff is not None:
            answer = self._on_handoff(context, handoff) if self._on_handoff else None
            if inspect.isawaitable(answer):
                await answer
            self._repairs.pop(context, None)
            return self._receiver
        self._repairs[context] = self._repairs.get(context, 0) + 1
        if self._repairs[context] > MAX_REPAIRS:
            raise ModelBehaviorError(refusal_text(problems))
        _refusal.set(refusal_text(problems))
        return sender

    def _check(
        self, context: Context, sender: Agent[Any], arguments: str
    ) -> tuple[HandoffValue | None, list[Problem]]:
        """The handoff, or what the model has to fix. Raises for what it can't fix."""
        try:
            given: object = json.loads(arguments)
        except (ValueError, RecursionError) as error:
            return None, [Problem("", "invalid_json", str(error)[:200], "a JSON object")]
        if not isinstance(given, dict):
            return None, [Problem("", "wrong_type", "no JSON object", "a JSON object")]
        fields = cast("dict[str, Any]", given)
        document = self._handoff(context, sender, fields)
        check = self._reader.workspace.check_handoff(document)
        errors = [each for each in check.problems if each.level == "error"]
        held = [each.path for each in errors if each.code == "human_gate"]
        if held:
            raise HandoffHeld(document["task"], held, recorded=False)
        settings = [each for each in errors if each.path in _SETTINGS]
        if settings:
            raise InvalidInput("this handoff can't be recorded", settings)
        problems = handoff_problems(fields, check.problems)
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
        workspace = self._reader.workspace
        call: Any = _call_of(data, output).to_input_item()
        arguments: str = call["arguments"]
        handoff = self._handoff(data.run_context, output.source_agent, json.loads(arguments))
        first = data.input_history
        had = [user_message(first)] if isinstance(first, str) else list(first)
        made = [i.to_input_item() for i in _run_items(data) if not isinstance(i, ToolApprovalItem)]
        items = cast("list[dict[str, Any]]", [*had, *made])
        log = handed_log(workspace, handoff["task"])
        kept = log.add(items, _item_keys(items))
        numbers = format_ranges(kept, most=len(kept))
        metadata = {"call_id": call["call_id"], "session": log.session_id, "items": numbers}
        names = handoff["from_agent"], handoff["to_agent"]
        parts = [call["call_id"], *names, arguments, numbers]
        command = workspace.hand_off(
            {**handoff, "metadata": {"openai_agents": metadata}},
            key="agents-sdk-" + digest_bytes(json.dumps(parts).encode())[7:],
        )
        if command.held_by:
            raise HandoffHeld(handoff["task"], command.held_by, recorded=True)
        own = format_ranges(kept, most=_SHOWN_RANGES)
        return brief_items(had, self._reader, handoff["task"], output.target_agent, own=own)


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

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
from typing import TYPE_CHECKING, Any, NamedTuple, cast
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
from passdown.adapters.tools import (
    HISTORY_TOOL,
    brief_settings,
    format_ranges,
    handoff_of,
    handoff_problems,
    handoff_schema,
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

    TaskOf = Callable[[RunContextWrapper[Any] | None], str]
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


_BRIEF = re.compile(r"# \S+ for \S+, version [0-9]+ \([0-9a-f]{12}\)\n")


class HandoffConfig(NamedTuple):
    """What a handoff was set up with."""

    reader: BriefSettings
    task_of: TaskOf
    from_agent: str
    phase: str

    def sender(self, agent: Agent[Any]) -> str:
        """The sender's name in the ledger."""
        return self.from_agent or agent_name_of(agent.name, "from_agent")

    def handoff(self, arguments: dict[str, Any], task: str, sender: str) -> dict[str, Any]:
        """A handoff as the workspace takes it."""
        fixed = {"task": task, "from_agent": sender, "to_agent": self.reader.agent}
        phase = {"phase": self.phase} if self.phase else {}
        return handoff_of(arguments, **fixed, **phase)


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
    asked = last_user_items(conversation)
    spent = reader.user_tokens([_text(item) for item in asked])
    if spent is None:
        asked, spent = [], 0
    line = history_hint(reader.workspace, task, receiver, own=own)
    text = reader._replace(budget=reader.budget - spent).text(task, line)
    return [user_message(text), *asked]


def last_user_items(conversation: Sequence[TResponseInputItem]) -> list[TResponseInputItem]:
    """The last messages of a person in a row; no briefs, which come in that role too."""
    last = len(conversation)
    while last and _role(conversation[last - 1]) != "user":
        last -= 1
    first = last
    while first and _role(conversation[first - 1]) == "user":
        first -= 1
    return [item for item in conversation[first:last] if not _BRIEF.match(_text(item))]


def _role(item: TResponseInputItem) -> object:
    return cast("dict[str, Any]", item).get("role")


def _text(item: TResponseInputItem) -> str:
    content: object = cast("dict[str, Any]", item).get("content")
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
        step = "Start the receiver with opening(...) once a person has approved."
        super().__init__(
            f"the handoff of {task} {state} until a person answers",
            [Problem(g, "human_gate", "waits for a person", "", fix.format(g)) for g in gates],
            next_step=step if recorded else "Hand off again once a person has answered.",
        )


class BriefFilter:
    """An `input_filter` that records the handoff and gives the receiver the brief.

    `new_items` stay as they are, so the session is complete. The last user messages are passed on
    unchanged, and so do results of tools that ran in the very turn of the handoff: no model
    has read them yet.
    """

    def __init__(self, terms: HandoffConfig) -> None:
        self._terms = terms

    async def __call__(self, data: HandoffInputData) -> HandoffInputData:
        """Raises HandoffHeld, GateRefused or Conflict; the run ends with it."""
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
        terms, workspace = self._terms, self._terms.reader.workspace
        task = terms.task_of(data.run_context)
        sender = terms.sender(output.source_agent)
        call = cast("dict[str, Any]", _call_of(data, output).to_input_item())
        items = _replaced_items(data)
        log = handed_log(workspace, task)
        kept = log.add(items, _item_keys(items))
        numbers = format_ranges(kept, most=len(kept))
        handoff = terms.handoff(json.loads(call["arguments"]), task, sender)
        metadata = {"call_id": call["call_id"], "session": log.session_id, "items": numbers}
        parts = [call["call_id"], sender, terms.reader.agent, call["arguments"], numbers]
        command = workspace.hand_off(
            {**handoff, "metadata": {"openai_agents": metadata}},
            key="agents-sdk-" + digest_bytes(json.dumps(parts).encode())[7:],
        )
        if command.held_by:
            raise HandoffHeld(task, command.held_by, recorded=True)
        own = format_ranges(kept, most=_SHOWN_RANGES)
        return brief_items(_sender_input(data), terms.reader, task, output.target_agent, own=own)


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


def _sender_input(data: HandoffInputData) -> list[TResponseInputItem]:
    """What the sender's model was given first."""
    given = data.input_history
    return [user_message(given)] if isinstance(given, str) else list(given)


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
    raw: Any = item.raw_item
    return raw.get(name) if isinstance(raw, dict) else getattr(raw, name, None)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def _replaced_items(data: HandoffInputData) -> list[dict[str, Any]]:
    """Everything that the sender's model had or made, as input items."""
    made = [
        item.to_input_item() for item in _run_items(data) if not isinstance(item, ToolApprovalItem)
    ]
    return cast("list[dict[str, Any]]", [*_sender_input(data), *made])


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


class _RecordedCall(NamedTuple):
    call_id: str
    items: str


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
        self._handed: list[_RecordedCall] = []
        self._kept: dict[tuple[str, str, int], list[TResponseInputItem]] = {}

    async def __call__(self, data: CallModelData[Any]) -> ModelInputData:
        """The model's input, with the brief for what came before the last handoff in it."""
        return await asyncio.to_thread(self._briefed, data)

    def _briefed(self, data: CallModelData[Any]) -> ModelInputData:
        given = data.model_data
        with self._lock:
            document = self._reader.workspace.task(self._task)
            self._catch_up(int(document.counts.get("h", 0)))
            found = self._last_in(given.input)
            if found is None:
                return given
            place, handed = found
            brief = self._brief(data, place, handed, int(document.version))
        later = [*brief, *given.input[place + 1 :]]
        return ModelInputData(input=later, instructions=given.instructions)

    def _catch_up(self, count: int) -> None:
        for number in range(len(self._handed) + 1, count + 1):
            self._handed.append(
                _recorded_call(self._reader.workspace.show(f"{self._task}#h{number}").to_dict())
            )

    def _last_in(self, items: Sequence[TResponseInputItem]) -> tuple[int, _RecordedCall] | None:
        known = {handed.call_id: handed for handed in self._handed if handed.call_id}
        for place in range(len(items) - 1, -1, -1):
            item = cast("dict[str, Any]", items[place])
            if item.get("type") == "function_call_output" and item.get("call_id") in known:
                return place, known[item["call_id"]]
        return None

    def _brief(
        self, data: CallModelData[Any], place: int, handed: _RecordedCall, version: int
    ) -> list[TResponseInputItem]:
        """Made once for each version of the task, so that the model's view doesn't shift."""
        key = (data.agent.name, handed.call_id, version)
        if key not in self._kept:
            name = agent_name_of(data.agent.name, "agent")
            reader = self._reader._replace(agent=name)
            before = data.model_data.input[:place]
            self._kept[key] = brief_items(before, reader, self._task, data.agent, own=handed.items)
            while len(self._kept) > _KEPT_BRIEFS:
                del self._kept[next(iter(self._kept))]
        return list(map(deepcopy, self._kept[key]))


def _recorded_call(handoff: dict[str, Any]) -> _RecordedCall:
    """What our filter noted with a handoff; nothing of handoffs that came another way."""
    metadata = cast("dict[str, Any]", handoff.get("metadata") or {})
    noted = metadata.get("openai_agents")
    fields = cast("dict[str, Any]", noted) if isinstance(noted, dict) else {}
    return _RecordedCall(str(fields.get("call_id") or ""), str(fields.get("items") or ""))


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
    terms = HandoffConfig(reader, _task_of(task), from_agent, phase)
    calls = _HandoffCalls(agent, terms, is_enabled, on_handoff)
    made = agents.handoff(
        agent,
        tool_name_override=tool_name,
        tool_description_override=description,
        input_filter=cast("Any", BriefFilter(terms)),
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


def _task_of(task: str | Callable[[Context], str]) -> Callable[[Context | None], str]:
    def named(_context: Context | None) -> str:
        return cast("str", task)

    return cast("Callable[[Context | None], str]", task) if callable(task) else named


class _HandoffCalls:
    """What a handoff has to know of the turn that it ends: whose it is, how often it was sent
    back. Only `is_enabled` is given the calling agent by the SDK.
    """

    def __init__(
        self,
        receiver: Agent[Any],
        terms: HandoffConfig,
        is_enabled: IsEnabled,
        on_handoff: Callback | None,
    ) -> None:
        self._receiver, self._terms = receiver, terms
        self._is_enabled, self._on_handoff = is_enabled, on_handoff
        self._senders: WeakKeyDictionary[Context, Agent[Any]] = WeakKeyDictionary()
        self._repairs: WeakKeyDictionary[Context, int] = WeakKeyDictionary()

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
        terms, fields = self._terms, cast("dict[str, Any]", given)
        task = terms.task_of(context)
        document = terms.handoff(fields, task, terms.sender(sender))
        check = terms.reader.workspace.check_handoff(document)
        errors = [each for each in check.problems if each.level == "error"]
        held = [each.path for each in errors if each.code == "human_gate"]
        if held:
            raise HandoffHeld(task, held, recorded=False)
        settings = [each for each in errors if each.path in _SETTINGS]
        if settings:
            raise InvalidInput("this handoff can't be recorded", settings)
        problems = handoff_problems(fields, check.problems)
        return (None if problems else check_handoff(document).handoff), problems


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

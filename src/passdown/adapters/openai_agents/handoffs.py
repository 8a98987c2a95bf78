"""Handoffs of the SDK that leave a checked record and give the receiver a brief.

The SDK lets a handoff end in one way: with an agent. A payload that won't do therefore gives the
turn back to its sender, with every problem as the call's output; nothing is recorded by that.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakKeyDictionary

import agents
from agents.exceptions import ModelBehaviorError

from passdown.adapters.brief_texts import brief_text, checked_reader
from passdown.adapters.openai_agents.briefed import Terms, kept_line, user_message
from passdown.adapters.openai_agents.filters import BriefFilter, HandoffHeld
from passdown.adapters.openai_agents.names import ledger_name
from passdown.adapters.openai_agents.payload import (
    HandoffPayload,
    as_arguments,
    compact,
    own_problems,
)
from passdown.adapters.states.handing import workspace_of
from passdown.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from agents import Agent, Handoff, RunContextWrapper, TResponseInputItem
    from agents.agent import AgentBase

    from passdown.adapters.states.handing import AnyWorkspace
    from passdown.workspace.aliases import CounterLike

    Context = RunContextWrapper[Any]
    IsEnabled = bool | Callable[[Context, Agent[Any]], bool | Awaitable[bool]]
    Callback = Callable[[Context, HandoffPayload], Any]
    Invoke = Callable[[Context, str], Awaitable[Agent[Any]]]

REPAIRS = 3
"""How often a sender may mend its payload before the run ends."""

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

    The model fills in a `HandoffPayload`; its problems go back to it. The receiver's input is the
    task's brief, within `budget` tokens, in place of the conversation, which stays readable. `task`
    may be a function of the run's context. The agents' names are recorded as `from_agent` and
    `to_agent`, without spaces, if those aren't given. `on_handoff` is called with a payload that
    will do, before it is recorded. A run ends with HandoffHeld while a person has to approve.
    """
    _check_agent(agent)
    name = to_agent or ledger_name(agent.name, "to_agent")
    reader = checked_reader(workspace, name, budget, counter)
    terms = Terms(reader, _task_of(task), from_agent, phase)
    turns = _Turns(terms, is_enabled)
    made = agents.handoff(
        agent,
        tool_name_override=tool_name,
        tool_description_override=description,
        on_handoff=on_handoff or _accept,
        input_type=HandoffPayload,
        input_filter=cast("Any", BriefFilter(terms)),
        is_enabled=turns.is_enabled,
    )
    made.input_json_schema = compact(made.input_json_schema)
    made.on_invoke_handoff = turns.checking(made.on_invoke_handoff)
    cast("Any", made).get_transfer_message = _message_or(made.get_transfer_message)
    return made


def opening(
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
    opened = workspace_of(workspace)
    held = [gate["address"] for gate in opened.gates(task) if "blocker" in gate]
    if held:
        raise HandoffHeld(task, held, recorded=True)
    _check_agent(agent)
    name = to_agent or ledger_name(agent.name, "to_agent")
    reader = checked_reader(opened, name, budget, counter)
    return [user_message(brief_text(reader, task, kept_line(opened, task, agent)))]


def _task_of(task: str | Callable[[Context], str]) -> Callable[[Context | None], str]:
    def named(_context: Context | None) -> str:
        return cast("str", task)

    return cast("Callable[[Context | None], str]", task) if callable(task) else named


class _Turns:
    """What a handoff has to know of the turn that it ends: whose it is, how often it was sent
    back. The SDK tells `is_enabled` alone which agent is asking.
    """

    def __init__(self, terms: Terms, is_enabled: IsEnabled) -> None:
        self._terms = terms
        self._is_enabled = is_enabled
        self._senders: WeakKeyDictionary[Context, Agent[Any]] = WeakKeyDictionary()
        self._repairs: WeakKeyDictionary[Context, int] = WeakKeyDictionary()

    async def is_enabled(self, context: Context, agent: AgentBase[Any]) -> bool:
        sender = cast("Agent[Any]", agent)
        self._senders[context] = sender
        if isinstance(self._is_enabled, bool):
            return self._is_enabled
        answer = self._is_enabled(context, sender)
        return bool(await answer if inspect.isawaitable(answer) else answer)

    def checking(self, invoke: Invoke) -> Invoke:
        """`invoke`, for payloads that will do; others give the turn back."""

        async def checked(context: Context, arguments: str) -> Agent[Any]:
            sender = self._senders[context]
            problems = await asyncio.to_thread(self._problems, context, sender, arguments)
            if not problems:
                try:
                    accepted = await invoke(context, arguments)
                except ModelBehaviorError as error:
                    problems = [Problem("", "invalid_payload", str(error), "the tool's schema")]
                else:
                    self._repairs.pop(context, None)
                    return accepted
            text = _refusal(problems)
            self._repairs[context] = self._repairs.get(context, 0) + 1
            if self._repairs[context] > REPAIRS:
                raise ModelBehaviorError(text)
            _sent_back.set(text)
            return sender

        return checked

    def _problems(self, context: Context, sender: Agent[Any], arguments: str) -> list[Problem]:
        """What the model has to mend. Raises for what only the program or a person can mend."""
        try:
            given: object = json.loads(arguments)
        except (ValueError, RecursionError) as error:
            return [Problem("", "invalid_json", str(error)[:200], "a JSON object")]
        if not isinstance(given, dict):
            return [Problem("", "wrong_type", "no JSON object", "a JSON object")]
        terms, payload = self._terms, cast("dict[str, Any]", given)
        task = terms.task_of(context)
        check = terms.reader.workspace.check(terms.handoff(payload, task, terms.sender(sender)))
        problems = [each for each in check.problems if each.level == "error"]
        unknown = [
            each._replace(fix="leave it out")
            for each in check.problems
            if each.code == "unknown_field"
        ]
        held = [each.path for each in problems if each.code == "human_gate"]
        if held:
            raise HandoffHeld(task, held, recorded=False)
        settings = [each for each in problems if each.path in _SETTINGS]
        if settings:
            raise InvalidInput("this handoff can't be recorded", settings)
        return as_arguments([*problems, *unknown, *own_problems(payload)])


_sent_back: ContextVar[str] = ContextVar("passdown_sent_back", default="")


def _message_or(usual: Callable[[AgentBase[Any]], str]) -> Callable[[AgentBase[Any]], str]:
    """The output of a handoff's call: what was wrong with it, else what the SDK says.

    The SDK asks for it straight after the call, in the same task.
    """

    def message(agent: AgentBase[Any]) -> str:
        text = _sent_back.get()
        _sent_back.set("")
        return text or usual(agent)

    return message


def _refusal(problems: Sequence[Problem]) -> str:
    lines = [f"- {problem.line()}" for problem in problems]
    head = "The handoff was not made and nothing was recorded. Mend all of these and call it again:"
    return "\n".join([head, *lines])


def _accept(_context: Context, _payload: HandoffPayload) -> None:
    """Nothing to do: the payload was checked before, and is recorded after."""

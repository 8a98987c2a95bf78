"""One agent's part in tasks, as the adapters of agent frameworks share it.

A framework's adapter translates: its messages to plain ones, its pause to a gate, its way to hand
over to a tool. What is recorded, and what a receiver is given, is decided here.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from passdown.adapters.shared import LruCache, async_twin
from passdown.core.record import digest_bytes
from passdown.errors import InvalidInput, Problem
from passdown.tools import agent_name_of, handed_log, handoff, read_history
from passdown.tools.briefs import brief_settings, recording_workspace, workspace_of
from passdown.tools.history import brief_with_hint
from passdown.tools.messages import last_requests, message_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from passdown.core.tokens import CounterLike
    from passdown.core.types import JsonObject
    from passdown.tools import Tool, ToolResult
    from passdown.tools.briefs import AnyWorkspace

T = TypeVar("T")


@dataclass(eq=False)
class Participant:
    """An agent that takes over tasks, works on them and hands them off; threads may share it.

    `origin` is the framework's name. `task` may be a function of what the framework gives its
    tools. `agent` and `receivers` are names as people write them.
    """

    origin: str
    workspace: AnyWorkspace
    task: str | Callable[[Any], str]
    agent: str
    receivers: Sequence[str] = ()
    budget: int = 500
    counter: CounterLike = None
    phase: str = ""

    def __post_init__(self) -> None:
        """Raises InvalidInput for what can't be recorded, before anything runs, and NotAllowed
        behind a server whose token may not write for others.
        """
        recording_workspace(self.workspace, f"Handoffs of {self.origin}")
        self.id = agent_name_of(self.agent, "agent")
        self._briefs: LruCache[tuple[str, int, int], str] = LruCache()
        self._settings = brief_settings(self.workspace, self.id, self.budget, self.counter)
        made = [self._transfer(each) for each in self.receivers]
        self.transfers = {tool.name: tool for tool in made}
        if len(self.transfers) < len(made):
            names = ", ".join(self.receivers)
            problem = Problem("to", "duplicate", f"two of {names} have one tool", "other names")
            raise InvalidInput("the agent can't hand off", [problem])

    def _transfer(self, receiver: str) -> Tool:
        name = f"transfer_to_{agent_name_of(receiver, 'to').replace('-', '_').replace('.', '_')}"
        return handoff(self.workspace, "", self.agent, to=receiver, phase=self.phase, name=name)

    def task_of(self, context: Any) -> str:
        """The task that a context of the framework is about."""
        return self.task if isinstance(self.task, str) else self.task(context)

    def history(self) -> Tool:
        """The tool that reads what the brief replaced."""
        return read_history(self.workspace, "", self.agent, counter=self.counter)

    def record(
        self,
        tool: str,
        task: str,
        arguments: JsonObject,
        *,
        call: str,
        messages: Sequence[JsonObject],
    ) -> tuple[ToolResult, list[str]]:
        """Check and record what a model gave to a transfer tool; keep the messages so far.

        Gives the tool's answer, and the gates that a person has to answer before the task goes on.
        `call` identifies the call within the framework: the same call, made again after a pause, is
        recorded once.
        """
        log = handed_log(self.workspace, task)
        log.keep(messages)
        parts = json.dumps([call, tool, self.id, arguments], sort_keys=True)
        key = f"{self.origin}-{digest_bytes(parts.encode())[7:]}"
        # Nothing that differs when the same call is made again.
        about = {self.origin: {"call_id": call, "session": log.session_id}}
        result = self.transfers[tool].run(arguments, task=task, key=key, metadata=about)
        return result, [*result.command.held_by] if result.command else []

    def gates(self, task: str) -> list[str]:
        """The gates that keep the receiver from starting: waiting, or rejected."""
        return [gate.address for gate in workspace_of(self.workspace).gates(task) if gate.holds]

    def kept_words(self, task: str) -> list[str]:
        """What people said last, among what handoffs of a task kept: after a restart."""
        return [*map(message_text, last_requests(handed_log(self.workspace, task).items()))]

    def make_brief(
        self, task: str, said: list[T], text_of: Callable[[T], str]
    ) -> tuple[str, list[T]]:
        """The brief in place of the messages up to a handoff, and those last words of a person
        that fit beside it; together within the budget.

        It is made once for each version of the task, so that the model's view doesn't shift.
        """
        fitting, settings = self._settings.beside(said, text_of)
        key = task, settings.budget, workspace_of(self.workspace).task(task).version
        return self._briefs.get(key, lambda: brief_with_hint(settings, task)) or "", fitting

    hand_off = async_twin(record)
    last_words = async_twin(kept_words)
    brief = async_twin(make_brief)

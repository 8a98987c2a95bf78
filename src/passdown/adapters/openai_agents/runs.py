"""Runs of the SDK: options checked before anything is sent, hooks that record what happened.

A conversation that the server keeps can't be replaced by a brief; the SDK says so only when a
handoff happens, so the options are checked before the run. A run never fails because of its
records: what can't be written is logged.
"""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agents import Handoff, RunHooks, Runner, RunState

from passdown.adapters.shared import streams_of
from passdown.core.names import id_problems
from passdown.errors import Problem, raise_problems
from passdown.tools.briefs import recording_workspace
from passdown.tools.history import session_id_problems
from passdown.workspace.streams import StreamEntry, WorkspaceStreams

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agents import (
        Agent,
        ModelResponse,
        RunContextWrapper,
        RunResult,
        RunResultStreaming,
        Tool,
        TResponseInputItem,
    )
    from agents.agent import AgentBase

    from passdown.tools.briefs import AnyWorkspace

    Given = str | list[TResponseInputItem] | RunState[Any, Agent[Any]]
    Context = RunContextWrapper[Any]


SERVER_MANAGED = ("conversation_id", "previous_response_id", "auto_previous_response_id")


def check_run(input: Given = "", **options: Any) -> None:
    """Raise InvalidInput if a run with these options, or one resumed from a saved state, leaves
    its conversation to the server.
    """
    state = input if isinstance(input, RunState) else None
    problems = [
        Problem(name, "server_managed", "the server keeps the conversation", "left out")
        for name in SERVER_MANAGED
        if options.get(name) or getattr(state, f"_{name}", None)
    ]
    raise_problems(
        "a brief can't replace a conversation that the server keeps; nothing was sent",
        problems,
        next_step="Leave these out and keep the conversation yourself: session=LedgerSession(...). "
        "Or use the SDK's own handoffs in this run.",
    )


async def run(starting_agent: Agent[Any], input: Given, **options: Any) -> RunResult:
    """`Runner.run`, after `check_run`."""
    check_run(input, **options)
    return await Runner.run(starting_agent, input, **options)


def run_sync(starting_agent: Agent[Any], input: Given, **options: Any) -> RunResult:
    """`Runner.run_sync`, after `check_run`."""
    check_run(input, **options)
    return Runner.run_sync(starting_agent, input, **options)


def run_streamed(starting_agent: Agent[Any], input: Given, **options: Any) -> RunResultStreaming:
    """`Runner.run_streamed`, after `check_run`."""
    check_run(input, **options)
    return Runner.run_streamed(starting_agent, input, **options)


_LOG = logging.getLogger("passdown.openai_agents")
_TASK, _SESSION = "agents-sdk/run/task/", "agents-sdk/run/session/"

_USAGE = ("requests", "input_tokens", "output_tokens", "total_tokens")

STARTED, ENDED, HANDED, SENT_BACK = "agent_started", "agent_ended", "handed", "sent_back"

MAX_ARGUMENT_CHARS = 20_000
"""Characters of a handoff's arguments in a record; the handoff itself has them whole."""


class PassdownHooks(RunHooks[Any]):
    """Hooks for `Runner.run(..., hooks=...)`; name a task, a session, or both.

    Records agents' starts and ends, who called which handoff with what, and how many calls of
    which tools and tokens each part took. Runs may share it.
    """

    def __init__(self, workspace: AnyWorkspace, task: str = "", session_id: str = "") -> None:
        """Raises InvalidInput for a bad task or session id, or if neither is given."""
        self._stream_names = _streams(task, session_id)
        self._streams = WorkspaceStreams(recording_workspace(workspace, "PassdownHooks"))
        self._runs: dict[int, _RunUsage] = {}

    async def on_agent_start(self, context: Context, agent: AgentBase[Any]) -> None:
        """Record that an agent begins."""
        await self._note(STARTED, {"active": agent.name}, context)

    async def on_agent_end(self, context: Context, agent: AgentBase[Any], output: Any) -> None:
        """Record that an agent gave the run's answer, and what it took."""
        await self._note(ENDED, {"active": agent.name}, context)

    async def on_handoff(
        self, context: Context, from_agent: AgentBase[Any], to_agent: AgentBase[Any]
    ) -> None:
        """Record who hands what to whom; a handoff sent back for repair as such.

        The receiver is active only once it starts: what the handoff has still to pass may end the
        run.
        """
        kind = SENT_BACK if from_agent is to_agent else HANDED
        body = {"active": from_agent.name, "from": from_agent.name, "to": to_agent.name}
        await self._note(kind, body, context, from_agent)

    async def on_llm_end(
        self, context: Context, agent: Agent[Any], response: ModelResponse
    ) -> None:
        """Keep what the model called: a handoff that follows is among it."""
        self._run(context).answers[agent.name] = list(response.output)

    async def on_tool_end(
        self, context: Context, agent: AgentBase[Any], tool: Tool, result: object
    ) -> None:
        """Count a call; the next handoff or end records the count."""
        self._run(context).calls[str(getattr(tool, "name", tool))] += 1

    async def _note(
        self, kind: str, body: dict[str, Any], context: Context, by: AgentBase[Any] | None = None
    ) -> None:
        try:
            body |= _handoff_call(self._run(context), by) if by else {}
            body |= self._taken(context) if kind != STARTED else {}
            entries = [StreamEntry(each, kind, "agents-sdk", body) for each in self._stream_names]
            await asyncio.to_thread(self._streams.add, *entries)
        except Exception:  # noqa: BLE001 - a record is never worth a run
            _LOG.exception("%s of %s was not recorded", kind, body.get("active"))

    def _run(self, context: Context) -> _RunUsage:
        """The counts of a run. Its contexts are many; they share one account of its usage."""
        name = id(context.usage)
        if name not in self._runs:
            self._runs[name] = _RunUsage()
            weakref.finalize(context.usage, self._runs.pop, name, None).atexit = False
        return self._runs[name]

    def _taken(self, context: Context) -> dict[str, Any]:
        """Calls and tokens since the last record of this run that had any."""
        run = self._run(context)
        now = {name: int(getattr(context.usage, name, 0) or 0) for name in _USAGE}
        used = {name: now[name] - run.spent.get(name, 0) for name in _USAGE}
        calls = dict(run.calls)
        run.calls.clear()
        run.spent = now
        return {"calls": calls, "usage": {name: n for name, n in used.items() if n}}


@dataclass
class _RunUsage:
    """What a run has taken so far, and what each agent's model answered last."""

    calls: Counter[str] = field(default_factory=Counter[str])
    spent: dict[str, int] = field(default_factory=dict[str, int])
    answers: dict[str, list[Any]] = field(default_factory=dict[str, list[Any]])


def _handoff_call(run: _RunUsage, sender: AgentBase[Any]) -> dict[str, Any]:
    """Which of a sender's handoffs was called with what; the SDK makes the first."""
    offered: list[Any] = getattr(sender, "handoffs", [])
    names = {
        each.tool_name if isinstance(each, Handoff) else Handoff.default_tool_name(each)
        for each in offered
    }
    for item in run.answers.get(sender.name, []):
        if getattr(item, "type", "") == "function_call" and item.name in names:
            said = {"tool": item.name, "arguments": item.arguments[:MAX_ARGUMENT_CHARS]}
            return {"call_id": item.call_id, **said, "characters": len(item.arguments)}
    return {}


def active_agent(workspace: AnyWorkspace, *, task: str = "", session_id: str = "") -> str | None:
    """Which agent was active last in runs of a task or session, also after a restart; None where
    nothing was recorded.
    """
    last = streams_of(workspace).last(_streams(task, session_id)[0])
    return last.document()["active"] if last else None


def run_records(
    workspace: AnyWorkspace, *, task: str = "", session_id: str = ""
) -> list[dict[str, Any]]:
    """Everything that `PassdownHooks` recorded of a task or session, oldest first."""
    records = streams_of(workspace).records(_streams(task, session_id)[0])
    return [{"kind": each.kind, "at": each.at, **each.document()} for each in records]


def _streams(task: str, session_id: str) -> Sequence[str]:
    problems = id_problems(task, "task") if task else []
    problems += session_id_problems(session_id) if session_id else []
    if not task and not session_id:
        problems.append(Problem("task", "missing", "neither is given", "a task or a session"))
    raise_problems("nothing can be recorded of this run", problems)
    named = ((_TASK, task), (_SESSION, session_id))
    return [prefix + name for prefix, name in named if name]

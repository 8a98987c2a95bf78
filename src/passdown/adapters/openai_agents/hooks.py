"""What happened in a run, recorded beside the task: who was active, who handed to whom.

A run never fails for its records: what can't be written is logged.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import TYPE_CHECKING, Any

from agents import RunHooks

from passdown.adapters.openai_agents.items import session_id_problems
from passdown.errors import InvalidInput, Problem
from passdown.model.names import id_problems
from passdown.workspace.beside import Aside, Beside

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agents import RunContextWrapper, Tool
    from agents.agent import AgentBase

    from passdown.workspace import Workspace

    Context = RunContextWrapper[Any]

_LOG = logging.getLogger("passdown.openai_agents")
_TASK, _SESSION = "agents-sdk/run/task/", "agents-sdk/run/session/"

_USAGE = ("requests", "input_tokens", "output_tokens", "total_tokens")

STARTED, ENDED, HANDED, SENT_BACK = "agent_started", "agent_ended", "handed", "sent_back"


class PassdownHooks(RunHooks[Any]):
    """Hooks for `Runner.run(..., hooks=...)`; name a task, a session, or both.

    Records agents' starts and ends, handoffs, and how many calls of which tools and tokens each
    part took. Runs may share it.
    """

    def __init__(self, workspace: Workspace, task: str = "", session_id: str = "") -> None:
        """Raises InvalidInput for a bad task or session id, or if neither is given."""
        self._streams = _streams(task, session_id)
        self._beside = Beside(workspace)
        self._runs: dict[int, _Run] = {}

    async def on_agent_start(self, context: Context, agent: AgentBase[Any]) -> None:
        """Record that an agent begins."""
        await self._note(STARTED, {"active": agent.name})

    async def on_agent_end(self, context: Context, agent: AgentBase[Any], output: Any) -> None:
        """Record that an agent gave the run's answer, and what it took."""
        await self._note(ENDED, {"active": agent.name}, context)
        self._runs.pop(id(context.usage), None)

    async def on_handoff(
        self, context: Context, from_agent: AgentBase[Any], to_agent: AgentBase[Any]
    ) -> None:
        """Record who handed to whom; a handoff sent back for repair as such."""
        kind = SENT_BACK if from_agent is to_agent else HANDED
        body = {"active": to_agent.name, "from": from_agent.name, "to": to_agent.name}
        await self._note(kind, body, context)

    async def on_tool_end(
        self, context: Context, agent: AgentBase[Any], tool: Tool, result: object
    ) -> None:
        """Count a call; the next handoff or end records the count."""
        try:
            self._run(context).calls[tool.name] += 1
        except Exception:  # noqa: BLE001 - a record is never worth a run
            _LOG.exception("a call of %s was not counted", getattr(tool, "name", "a tool"))

    async def _note(self, kind: str, body: dict[str, Any], context: Context | None = None) -> None:
        try:
            body = body | (self._taken(context) if context else {})
            asides = [Aside(stream, kind, "agents-sdk", body) for stream in self._streams]
            await asyncio.to_thread(self._beside.add, *asides)
        except Exception:  # noqa: BLE001 - a record is never worth a run
            _LOG.exception("%s of %s was not recorded", kind, body.get("active"))

    def _run(self, context: Context) -> _Run:
        """The counts of a run. Its contexts are many; they share one account of its usage."""
        usage: Any = context.usage
        return self._runs.setdefault(id(usage), _Run(usage))

    def _taken(self, context: Context) -> dict[str, Any]:
        """Calls and tokens since the last record of this run that had any."""
        run = self._run(context)
        now = {name: int(getattr(run.usage, name, 0) or 0) for name in _USAGE}
        used = {name: now[name] - run.spent.get(name, 0) for name in _USAGE}
        calls = dict(run.calls)
        run.calls.clear()
        run.spent = now
        return {"calls": calls, "usage": {name: n for name, n in used.items() if n}}


class _Run:
    """What a run has taken so far. Holding its usage keeps that object's id from being reused."""

    def __init__(self, usage: Any) -> None:
        self.usage = usage
        self.calls: Counter[str] = Counter()
        self.spent: dict[str, int] = {}


def active_agent(workspace: Workspace, *, task: str = "", session_id: str = "") -> str | None:
    """Which agent was active last in runs of a task or session, also after a restart; None where
    nothing was recorded.
    """
    last = Beside(workspace).last(_streams(task, session_id)[0])
    return last.document()["active"] if last else None


def run_records(
    workspace: Workspace, *, task: str = "", session_id: str = ""
) -> list[dict[str, Any]]:
    """Everything that `PassdownHooks` recorded of a task or session, oldest first."""
    records = Beside(workspace).records(_streams(task, session_id)[0])
    return [{"kind": each.kind, "at": each.at, **each.document()} for each in records]


def _streams(task: str, session_id: str) -> Sequence[str]:
    problems = id_problems(task, "task") if task else []
    problems += session_id_problems(session_id) if session_id else []
    if not task and not session_id:
        problems.append(Problem("task", "missing", "neither is given", "a task or a session"))
    if problems:
        raise InvalidInput("nothing can be recorded of this run", problems)
    names = [_TASK + task] if task else []
    return [*names, _SESSION + session_id] if session_id else names

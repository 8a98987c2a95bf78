"""Handoff tool for LangChain agents: the model fills in the handoff and gets every problem back.

For agents in a swarm or under a supervisor, in place of the tools that these make themselves.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from passdown.adapters.langgraph.compat import Command, StructuredTool, ToolMessage
from passdown.adapters.langgraph.nodes import ask_people
from passdown.adapters.states import handoff_context_of, handoff_update
from passdown.adapters.tools import (
    handoff_of,
    handoff_problems,
    handoff_schema,
    local_workspace,
    refusal_text,
    workspace_of,
)
from passdown.core.names import agent_problems
from passdown.errors import Conflict, GateRefused, InvalidInput, KeyReused, Problem

if TYPE_CHECKING:
    from passdown.adapters.state_schema import Plain
    from passdown.adapters.tools import AnyWorkspace


DESTINATION = "__handoff_destination"
"""Where a tool leads, in its metadata and on its message; swarm and supervisor look for it."""


class _HandoffTool(NamedTuple):
    """What every call of one tool has in common."""

    name: str
    agent_name: str
    workspace: AnyWorkspace
    task: str
    from_agent: str


def handoff_tool(
    agent_name: str,
    *,
    workspace: AnyWorkspace,
    task: str,
    from_agent: str = "",
    name: str = "",
    description: str = "",
) -> Any:
    """A LangChain tool that hands the task off to `agent_name`.

    The model's handoff is checked: with problems, it gets them all and stays where it is. Without,
    the handoff is recorded, from `from_agent` or else the task's holder, and the parent graph goes
    to the agent. At a gate it waits for a person; a rejection comes back as the tool's answer.
    """
    wrong = agent_problems(agent_name, "agent_name")
    if wrong:
        raise InvalidInput("the tool can't be made", wrong)
    local_workspace(workspace, "handoff_tool")
    title = name or "transfer_to_" + re.sub(r"\W+", "_", agent_name).lower()
    sending = _HandoffTool(title, agent_name, workspace, task, from_agent)

    def hand_off(runtime: Any, **fields: Any) -> Any:
        sent = _record_handoff(sending, runtime, fields)
        if isinstance(sent, ToolMessage):
            return sent
        return _unless_rejected(sending, sent, ask_people(workspace, task))

    async def ahand_off(runtime: Any, **fields: Any) -> Any:
        return await asyncio.to_thread(hand_off, runtime, **fields)

    about = f"Hand the task off to {agent_name}: what was done, what was decided, what is open. "
    return StructuredTool(
        name=title,
        description=description or about + "Call it alone, when you are done or blocked.",
        args_schema=handoff_schema(),
        func=hand_off,
        coroutine=ahand_off,
        metadata={DESTINATION: agent_name},
    )


def _record_handoff(sending: _HandoffTool, runtime: Any, fields: Plain) -> Any:
    """The command that goes to the receiver, once the handoff is on record; else a message that
    says everything that is wrong.
    """
    state: Plain = runtime.state
    messages: list[Any] = list(state.get("messages") or ())
    alone = _called_with_others(messages, runtime.tool_call_id)
    workspace = workspace_of(sending.workspace)
    source = sending.from_agent or str(workspace.task(sending.task).holder)
    fixed = {"task": sending.task, "from_agent": source, "to_agent": sending.agent_name}
    document = handoff_of(fields, **fixed)
    # Run again after an interrupt, the task is held by this very handoff.
    checked = workspace.check_handoff(document).problems
    found = [each for each in checked if each.code != "human_gate"]
    problems = [*alone, *handoff_problems(fields, found)]
    if problems:
        return _refusal(sending, runtime, problems)
    try:
        command = workspace.hand_off(document)
    except (InvalidInput, GateRefused) as error:
        return _refusal(sending, runtime, list(error.problems))
    except (Conflict, KeyReused) as error:
        return _refusal(sending, runtime, [Problem("", error.code, error.message)])
    metadata = {"version": command.version, "digest": command.digest}
    new = workspace.context.handoff_context(sending.task, agent=source, since=command.version - 1)
    earlier: list[str] = handoff_context_of(state).get("memory_refs", [])
    update = handoff_update(
        {**state, "current_agent": source},
        sending.agent_name,
        workspace=sending.workspace,
        task=sending.task,
        decisions=new.decisions,
        memory_refs=[*earlier, *new.memory_refs],
        metadata=metadata,
    )
    text = f"Handed off to {sending.agent_name}.\n{command.context_summary}"
    marks = {DESTINATION: sending.agent_name}
    answer = _message(sending, runtime.tool_call_id, text, response_metadata=marks)
    update |= {"messages": [*messages, answer], "active_agent": sending.agent_name}
    return Command(goto=sending.agent_name, graph=Command.PARENT, update=update)


def _called_with_others(messages: list[Any], call: str) -> list[Problem]:
    """A transfer ends the turn: what other tools of the same turn answer would be lost."""
    last = next((each for each in reversed(messages) if getattr(each, "tool_calls", None)), None)
    others = [each["name"] for each in getattr(last, "tool_calls", ()) if each["id"] != call]
    if not others:
        return []
    given = f"{', '.join(others)} was called in the same turn"
    return [Problem("", "not_alone", given, "this tool alone", "call it again by itself")]


def _message(sending: _HandoffTool, call: str, content: str, **more: Any) -> Any:
    return ToolMessage(content=content, name=sending.name, tool_call_id=call, **more)


def _refusal(sending: _HandoffTool, runtime: Any, problems: list[Problem]) -> Any:
    return _message(sending, runtime.tool_call_id, refusal_text(problems), status="error")


def _unless_rejected(sending: _HandoffTool, command: Any, rejected: list[Plain]) -> Any:
    """The command, unless a person said no."""
    if not rejected:
        return command
    answer: Any = cast("Plain", command.update)["messages"][-1]
    lines = [f"- {gate['blocker']}: {gate['reason']} ({gate['answered_by']})" for gate in rejected]
    text = "\n".join(["No handoff was made: it was rejected.", *lines])
    return _message(sending, answer.tool_call_id, text, status="error")

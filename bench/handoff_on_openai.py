"""The job on the OpenAI Agents SDK: its default, its own filters, and Passdown."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import passdown
from bench.handoff_job import (
    BUDGET,
    REQUEST,
    RESULTS,
    Reached,
    carried_out,
    message,
    payload,
    result_text,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def default(_: Path) -> Reached:
    import agents

    return _done(agents.handoff)


def nested(_: Path) -> Reached:
    import agents

    return _done(lambda receiver: agents.handoff(receiver, nest_handoff_history=True))


def without_tools(_: Path) -> Reached:
    import agents
    from agents.extensions.handoff_filters import remove_all_tools

    return _done(lambda receiver: agents.handoff(receiver, input_filter=remove_all_tools))


def with_passdown(folder: Path) -> Reached:
    """With the brief, and the command that it names carried out."""
    from passdown.adapters.openai_agents import LedgerSession, passdown_handoff

    with passdown.init(str(folder)) as workspace:
        workspace.create_task("T-1", title=REQUEST, agent="sender")
        reached = _done(
            lambda receiver: passdown_handoff(
                receiver, workspace=workspace, task="T-1", budget=BUDGET
            ),
            payload(),
            session=LedgerSession("job", workspace),
        )
    return reached._replace(fetched=carried_out(reached.given, folder))


def _done(
    handoff_to: Callable[[Any], Any], arguments: dict[str, Any] | None = None, **options: Any
) -> Reached:
    from agents import Agent, RunConfig, Runner, function_tool
    from agents.testing import ScriptedModel, assistant_message, function_call

    async def look(number: int) -> str:
        """Look something up."""
        return result_text(number)

    calls = [
        [function_call("look", {"number": number}, call_id=f"call_{number}")]
        for number in range(RESULTS)
    ]
    turn = [
        assistant_message(message()),
        function_call("transfer_to_receiver", arguments or {}, call_id="call_handoff"),
    ]
    model = ScriptedModel([[assistant_message("done")]])
    receiver = Agent(name="receiver", model=model)
    sender = Agent(
        name="sender",
        model=ScriptedModel([*calls, turn]),
        tools=[function_tool(look)],
        handoffs=[handoff_to(receiver)],
    )
    quiet = RunConfig(tracing_disabled=True)
    asyncio.run(Runner.run(sender, REQUEST, run_config=quiet, max_turns=20, **options))
    return Reached(json.dumps(model.calls[0].input, ensure_ascii=False))

"""Jobs on the OpenAI Agents SDK: its default, its own filters, and Passdown."""

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
    leaves,
    message,
    named_call,
    payload,
    result_text,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    HandoffTo = Callable[[Any], Any]


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
    """With the brief, and the call that it names made."""
    from passdown.adapters.openai_agents import LedgerSession

    with passdown.init(str(folder)) as workspace:
        session = LedgerSession("job", workspace)
        return _done(_recorded(workspace, "sender"), payload(), session=session)


def _recorded(workspace: passdown.Workspace, sender: str) -> HandoffTo:
    from passdown.adapters.openai_agents import passdown_handoff

    workspace.create_task("T-1", title=REQUEST, agent=sender)

    def handoff_to(receiver: Any) -> Any:
        return passdown_handoff(receiver, workspace=workspace, task="T-1", budget=BUDGET)

    return handoff_to


def _done(
    handoff_to: HandoffTo, arguments: dict[str, Any] | None = None, **options: Any
) -> Reached:
    """What the receiver's model is given, and what the call that this names gives."""
    from agents import Agent
    from agents.testing import ScriptedModel, assistant_message, function_call

    done = [assistant_message("done")]
    model = ScriptedModel([done])
    receiver = Agent(name="receiver", model=model)
    turn = [
        assistant_message(message()),
        function_call("transfer_to_receiver", arguments or {}, call_id="call_handoff"),
    ]
    sender = _agent("sender", RESULTS, turn, handoffs=[handoff_to(receiver)])
    # Of what it is given, a model may name the call that it makes next.
    model.enqueue(done)
    model_response = model.get_response

    async def reading(*args: Any, **named: Any) -> Any:
        answer = await model_response(*args, **named)
        call = named_call(json.dumps(model.calls[0].input))
        if call and len(model.calls) == 1:
            answer.output = [function_call("read_history", {"items": call}, call_id="read")]
        return answer

    model.get_response = reading
    _run(sender, options)
    given, *later = [json.dumps(call.input, ensure_ascii=False) for call in model.calls]
    return Reached(given, leaves(later[-1]) if later else "")


def _agent(name: str, calls: int, last: Any, *, ids: str = "call", **options: Any) -> Any:
    """An agent that looks up so many things, one at a time, and then does the last."""
    from agents import Agent, function_tool
    from agents.testing import ScriptedModel, function_call

    async def look(number: int) -> str:
        """Look something up."""
        return result_text(number)

    steps = [
        [function_call("look", {"number": number}, call_id=f"{ids}_{number}")]
        for number in range(calls)
    ]
    return Agent(
        name=name, model=ScriptedModel([*steps, last]), tools=[function_tool(look)], **options
    )


def _run(first: Any, options: dict[str, Any]) -> Any:
    from agents import RunConfig, Runner

    quiet = RunConfig(tracing_disabled=True)
    return asyncio.run(Runner.run(first, REQUEST, run_config=quiet, max_turns=200, **options))


def whole_run(agents: int, calls: int, folder: Path | None, count: Callable[[str], int]) -> int:
    """The tokens of all model calls of a job that passes through some agents, each with some tool
    calls: what goes in, with the definitions of tools and handoffs, and what comes out. Without a
    folder, on the SDK's default.
    """
    import agents as sdk
    from agents.testing import assistant_message, function_call

    def tokens(handoff_to: HandoffTo, arguments: dict[str, Any] | None) -> int:
        made = [_agent(f"agent{agents - 1}", calls, [assistant_message("done")], ids="last")]
        for number in range(agents - 2, -1, -1):
            # By default the conversation is all that the next agent has: what was decided is said.
            said = [] if arguments else [assistant_message(message())]
            transfer = f"transfer_to_agent{number + 1}"
            last = [*said, function_call(transfer, arguments or {}, call_id=f"handoff_{number}")]
            options: Any = {"handoffs": [handoff_to(made[0])], "ids": f"call{number}"}
            made.insert(0, _agent(f"agent{number}", calls, last, **options))
        items = [item.to_input_item() for item in _run(made[0], {}).new_items]
        said = [item for item in items if not str(item.get("type")).endswith("_output")]
        asked = [_asked(call) for agent in made for call in agent.model.calls]
        return sum(count(_text(each)) for each in (*asked, *said))

    if folder is None:
        return tokens(sdk.handoff, None)
    with passdown.init(str(folder)) as workspace:
        given = {name: value for name, value in payload().items() if value}
        return tokens(_recorded(workspace, "agent0"), given)


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _asked(call: Any) -> list[Any]:
    """What a model is given: definitions and input."""
    tools = [[each.name, each.description, each.params_json_schema] for each in call.tools]
    tools += [
        [each.tool_name, each.tool_description, each.input_json_schema] for each in call.handoffs
    ]
    return [tools, call.input]

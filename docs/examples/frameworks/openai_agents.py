import asyncio

from agents import Agent, RunConfig, Runner, function_tool
from agents.testing import ScriptedModel, assistant_message, function_call  # in place of a model

import passdown
from passdown.adapters.openai_agents import (
    LedgerSession,
    PassdownHooks,
    active_agent,
    history_tool,
    passdown_handoff,
    since_handoff,
)

# What the models say here; yours decide for themselves.
PLANNER = [
    [function_call("look_up", {"topic": "cookies"}, call_id="call_1")],
    [
        function_call(
            "transfer_to_coder",
            {
                "outcome": "completed",
                "summary": "Design agreed; nothing is written yet.",
                "decisions": [
                    {"summary": "JWT in an httpOnly cookie", "rationale": "scripts cannot read it"}
                ],
                "next_steps": [{"step": "Write the middleware", "priority": "high"}],
            },
            call_id="call_2",
        )
    ],
]
CODER = [
    [function_call("read_history", {"items": "3"}, call_id="call_3")],
    [assistant_message("The middleware is written.")],
    [assistant_message("It is tested.")],
]


@function_tool
def look_up(topic: str) -> str:
    """Look something up."""
    return f"All about {topic}: " + "a page of text " * 50


async def main() -> None:
    with passdown.open(".") as ws:
        ws.create_task("T-1", title="Login", agent="planner")
        coder = Agent(
            name="coder", model=ScriptedModel(CODER), tools=[history_tool(ws, "T-1.handed")]
        )
        planner = Agent(
            name="planner",
            model=ScriptedModel(PLANNER),
            tools=[look_up],
            handoffs=[passdown_handoff(coder, workspace=ws, task="T-1", budget=500)],
        )
        session = LedgerSession("chat-1", ws, max_tokens=50_000)
        result = await Runner.run(
            planner,
            "Make the login survive a reload",
            session=session,
            hooks=PassdownHooks(ws, "T-1", session_id="chat-1"),
            run_config=RunConfig(tracing_disabled=True),
        )
        print(coder.model.first_call.input[0]["content"], end="")
        print("---")
        print(result.final_output)
        print(active_agent(ws, session_id="chat-1"), "was active last")
        brief_again = RunConfig(
            tracing_disabled=True, call_model_input_filter=since_handoff(ws, "T-1")
        )
        result = await Runner.run(coder, "Test it", session=session, run_config=brief_again)
        print(result.final_output)
        print(len(coder.model.last_call.input), "of", len(session.transcript()), "items were given")


asyncio.run(main())

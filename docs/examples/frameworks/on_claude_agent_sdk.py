import asyncio

from claude_agent_sdk import ClaudeAgentOptions
from scripted_claude import scripted_claude  # in place of a model

import passdown
from passdown.adapters.claude_agent_sdk import Handoffs, LedgerSessions, run

HANDOFF = {
    "outcome": "partial",
    "summary": "Design agreed; nothing is written yet.",
    "decisions": [{"summary": "JWT in a cookie", "rationale": "scripts can't read it"}],
    "next_steps": ["Write the middleware"],
    "blockers": [{"blocker": "Cookies need a notice", "requires_human": True}],
}


async def main(env: dict[str, str]) -> None:
    with passdown.open(".") as ws:
        ws.create_task("T-1", title="Login", agent="planner")
        sessions = LedgerSessions(ws)

        def options(prompt: str) -> ClaudeAgentOptions:
            return ClaudeAgentOptions(
                system_prompt=prompt, tools=[], setting_sources=[], session_store=sessions, env=env
            )

        team = [
            Handoffs(ws, "T-1", "planner", to=["coder"], options=options("You are planner.")),
            Handoffs(ws, "T-1", "coder", to=["planner"], options=options("You are coder.")),
        ]
        result, _ = await run(team, "Make the login survive a reload")
        assert result.deferred_tool_use is not None
        print("paused:", [gate.address for gate in ws.gates("T-1")], end="\n\n")

        ws.approve("T-1#k1", by="kim", reason="The notice is online")
        result, _ = await run(team)
        print(result.result)


TURNS = {
    "planner": [("mcp__passdown__transfer_to_coder", HANDOFF)],
    "coder": ["The middleware is written."],
}
with scripted_claude(**TURNS) as env:
    asyncio.run(main(env))

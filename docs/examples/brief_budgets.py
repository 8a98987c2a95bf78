"""The same task, told to the same agent, in three budgets; then what was told, and what wasn't."""

from datetime import UTC, datetime

import passdown

fixed = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)

with passdown.open(".", clock=lambda: fixed) as ws:
    ws.create_task("T-1", title="Log in with a cookie", agent="planner")
    for summary, rationale, tags in (
        ("Sessions live in a signed cookie", "no table to keep in step", ["session"]),
        ("The cookie is httpOnly and SameSite=Lax", "scripts can't read it", ["session"]),
        ("Passwords are hashed with scrypt", "the platform has it", ["password"]),
        ("Log lines are JSON", "the collector reads JSON", ["logging"]),
    ):
        ws.decide(task="T-1", agent="planner", summary=summary, rationale=rationale, tags=tags)
    ws.hand_off(
        {
            "task": "T-1",
            "from_agent": "planner",
            "to_agent": "coder",
            "outcome": "partial",
            "phase": "implementing",
            "summary": "Designed; nothing is written yet.",
            "suggested_next_steps": [
                {"step": "Write the middleware that reads the session cookie", "priority": "high"}
            ],
            "blockers": [
                {
                    "blocker": "The signing key isn't in the vault yet",
                    "severity": "high",
                    "suggested_resolution": "ask ops; a test key works until then",
                }
            ],
            "gotchas": [
                {
                    "issue": "Proxies drop cookies over 4 KB",
                    "mitigation": "keep claims few",
                    "severity": "high",
                }
            ],
        }
    )
    for budget in (100, 120, 400):
        brief = ws.brief("T-1", agent="coder", budget=budget)
        print(f"--- {brief.tokens} of {budget} tokens")
        print(brief.text, end="")
        print("--- d4:", ws.context.why("T-1#d4", agent="coder").reason)

import passdown

with passdown.open(".") as ws:
    ws.create_task("T-1", title="Login", agent="planner", criteria=["a session survives a reload"])
    ws.decide(
        task="T-1",
        agent="planner",
        summary="JWT in an httpOnly cookie",
        rationale="scripts cannot read it",
        alternatives=["localStorage"],
    )
    ws.hand_off(
        {
            "task": "T-1",
            "from_agent": "planner",
            "to_agent": "coder",
            "outcome": "completed",
            "phase": "implementing",
            "summary": "Design agreed; nothing is written yet.",
            "suggested_next_steps": [{"step": "Write the middleware", "priority": "high"}],
        }
    )
    print(ws.brief("T-1", agent="coder", budget=500).text, end="")

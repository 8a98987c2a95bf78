"""An agent that works from a summary and reads more only when it has to."""

from pathlib import Path

import passdown

STORE = "def find(key: str) -> str | None:\n    return None\n"
TEST = "from store import find\n\n\ndef test_find() -> None:\n    assert find('a') is None\n"


def plan(ws: passdown.Workspace) -> passdown.HandoffCommand:
    """The planner's part: a task, a decision, and a handoff to the coder."""
    ws.create_task("T-1", title="Key-value store", agent="planner", criteria=["find() answers"])
    ws.decide(
        task="T-1", agent="planner", summary="One file, no server", rationale="it runs anywhere"
    )
    return ws.hand_off(
        {
            "task": "T-1",
            "from_agent": "planner",
            "to_agent": "coder",
            "outcome": "completed",
            "phase": "implementing",
            "suggested_next_steps": [{"step": "Write find()", "priority": "high"}],
        }
    )


def work(ws: passdown.Workspace, command: passdown.HandoffCommand) -> passdown.HandoffCommand:
    """The coder's part: all that it was given is the command."""
    facts = dict(
        line.split(": ", 1) for line in command.context_summary.splitlines() if ": " in line
    )
    print(f"read {len(command.context_summary)} characters: {facts['Task']}")
    if facts["Blocking"] != "None":
        raise SystemExit(f"blocked: {facts['Blocking']}")

    # The summary says that the way is free; the steps are in the full state, so load it now.
    state = ws.receive_handoff(command)
    print(f"loaded version {state.version}: {', '.join(step.step for step in state.next_steps)}")
    Path("store.py").write_text(STORE)
    Path("test_store.py").write_text(TEST)

    steps = [entry["address"] for entry in state.document["next_steps"]]
    return ws.hand_off(
        {
            "task": state.task_id,
            "from_agent": command.to_agent,
            "to_agent": "qa",
            "outcome": "completed",
            "phase": "testing",
            "expect_version": state.version,
            "summary": "find() is written and has a test.",
            "artifacts": [{"path": "store.py"}, {"path": "test_store.py"}],
            "resolves": steps,
            "dependencies_for_next": [{"file": "test_store.py", "reason": "run it first"}],
        }
    )


with passdown.open(".") as workspace:
    handed = work(workspace, plan(workspace))
    print(f"handed to {handed.to_agent}, phase {handed.phase}")
    assert workspace.context.check("T-1", handed.context_summary).is_current

from pathlib import Path

import passdown
from passdown.errors import GateRefused
from passdown.relay.agents import AgentStates
from passdown.workspace.knowledge_tool import KnowledgeTool

with passdown.open(".") as ws:
    ws.create_task("T-1", title="Sessions", agent="architect")
    states = AgentStates(ws, on_setup=lambda agent: print(f"{agent} is in SETUP"))

    states.lease("coder", "T-1")
    try:
        states.move("coder", "SETUP", "CODING", why="looks easy")
    except GateRefused as error:
        print(error.problems[0].line())
    states.move("coder", "SETUP", "PLANNING", "CODING", why="the plan is short")

    tool = KnowledgeTool(ws, "coder", "T-1")
    print(tool({"knowledge": {"id": "redis", "type": "database", "summary": "Redis 7"}}).text)
    print(tool({"knowledge": {"id": "redis", "type": "datastore", "summary": "Redis 7"}}).text)

    states.move("coder", "BUDGET_REVIEW", why="8 loops are used up")
    states.settle_review("coder", "continue", "the tests are nearly green")
    states.move("coder", "TESTING", "DONE", "WAITING")
    states.release("coder", "done")

    waiting = tool.buffer()
    synced = ws.knowledge.sync(agent="coder")
    print(f"{len(waiting)} entry is now in {Path(synced.path).name}")
    for entry in states.log("coder"):
        print(entry["number"], entry["kind"], *entry.get("path", []), sep=" ")

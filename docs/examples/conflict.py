import passdown
from passdown.errors import Conflict, GateRefused, InvalidInput

with passdown.open(".") as ws:
    ws.create_task("T-1", title="Login", agent="planner")
    seen = ws.task("T-1").version
    ws.decide(task="T-1", agent="planner", summary="Use JWT", rationale="stateless")

    handoff = {"task": "T-1", "from_agent": "planner", "to_agent": "coder", "outcome": "completed"}
    try:
        ws.hand_off(handoff, expect_version=seen)
    except Conflict as conflict:
        print(f"worked from {conflict.expected}, stored is {conflict.actual}")
    command = ws.hand_off(handoff, expect_version=seen, rebase=True, key="planner-1")
    again = ws.hand_off(handoff, expect_version=seen, rebase=True, key="planner-1")
    print(f"version {command.version}; asked again: {again.version}, replay {again.is_replay}")

    try:
        ws.hand_off({**handoff, "outcome": "done", "gotchas": [{"issue": "x"}]})
    except InvalidInput as error:
        print([problem.path for problem in error.problems])

    need = {"blocker": "May we drop the table?", "requires_human": True}
    asked = {"task": "T-1", "from_agent": "coder", "to_agent": "tester", "outcome": "completed"}
    held = ws.hand_off({**asked, "blockers": [need]})
    try:
        ws.receive_handoff(held)
    except GateRefused:
        ws.approve(held.held_by[0], by="kim")
    print(ws.receive_handoff(held).status)

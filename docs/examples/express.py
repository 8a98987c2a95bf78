import passdown
from passdown.relay.agents import AgentStates
from passdown.relay.express import carry_out, express_records

with passdown.open(".") as ws:
    states = AgentStates(ws)
    update = {
        "type": "KNOWLEDGE_UPDATE",
        "id": "k1",
        "by": "architect",
        "reason": "The cache is Redis from now on",
        "entries": [{"id": "Redis", "type": "component", "summary": "Keeps sessions"}],
        "action": "append",
    }
    done = carry_out(ws, update, states=states, agent="coder")
    print(done.outcome, done.branch, *done.files)

    fix = {
        "type": "HOT_FIX",
        "id": "h1",
        "by": "coder",
        "reason": "The service exits at once",
        "patch": "--- a/run.sh\n+++ b/run.sh\n@@ -1 +1 @@\n-exit 1\n+exit 0\n",
    }
    failed = carry_out(ws, fix, states=states)
    print(failed.outcome, failed.task, "|", failed.why)
    for record in express_records(ws):
        print(record.item.id, record.item.kind, record.status)

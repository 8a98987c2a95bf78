import passdown
from passdown.relay.express import carry_out, express_records

with passdown.open(".") as ws:
    update = {
        "type": "KNOWLEDGE_UPDATE",
        "id": "k1",
        "by": "architect",
        "agents": ["coder", "fixer"],
        "reason": "The cache is Redis from now on",
        "entries": [{"id": "Redis", "type": "component", "summary": "Keeps sessions"}],
        "action": "append",
    }
    done = carry_out(ws, update)
    print(done.status, done.result["agent"], done.result["branch"], *done.result["files"])

    fix = {
        "type": "HOT_FIX",
        "id": "h1",
        "by": "architect",
        "reason": "The service exits at once",
        "patch": "--- a/run.sh\n+++ b/run.sh\n@@ -1 +1 @@\n-exit 1\n+exit 0\n",
    }
    failed = carry_out(ws, fix)
    print(failed.status, failed.run.promoted, "|", failed.why)
    for record in express_records(ws):
        print(record.item.id, record.item.kind, record.status)

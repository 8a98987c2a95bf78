"""One turn of an agent, asked until its handoff is valid, and recorded."""

import sys
from functools import partial

import passdown
from passdown.relay.runners import AgentRequest
from passdown.relay.runners.command import CommandRunner
from passdown.relay.turns import ask_until_valid, find_handoff

runner = CommandRunner(sys.argv[1:], timeout_s=60)
with passdown.open(".") as ws:
    ws.create_task("T-1", title="Key-value store", agent="coder")
    brief = ws.brief("T-1", agent="coder", budget=500).text
    persona = {"role": "system", "content": "You write code."}
    messages = (persona, {"role": "user", "content": brief})
    asked = AgentRequest(messages=messages, agent="coder", task="T-1", store=ws.store_url)
    came = ask_until_valid(
        runner, asked, read=partial(find_handoff, task="T-1", agent="coder"), on_event=print
    )
    if came.value is None:
        raise SystemExit(f"{came.failure}: {came.why}")
    handed = ws.hand_off(came.value)
    print(f"version {handed.version}, now with {handed.to_agent}")

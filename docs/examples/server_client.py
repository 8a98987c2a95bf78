import sys

import passdown

with passdown.open(sys.argv[1]) as ws:  # PASSDOWN_TOKEN has the token
    ws.create_task("T-7", title="Roll-out", agent="coder")
    ws.decide(task="T-7", agent="coder", summary="Blue and green", rationale="a way back")
    print(ws.brief("T-7", agent="tester", budget=300).text, end="")

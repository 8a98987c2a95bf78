"""The first page of the dashboard over a large store: the server's time until it is sent."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from bench import large
from bench.figures import Measured, Row, Target, median, ms, spread
from passdown.core.access import RIGHTS, AccessToken
from passdown.web.app import PAGES
from passdown.web.requests import ApiRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.run import Run

MOST_S = 0.150
_CLOCKS: dict[str, Callable[[], float]] = {
    "server time": time.perf_counter,
    "CPU time": time.process_time,  # another process on the machine doesn't add to it
}


def measure(run: Run) -> Measured:
    found = Measured("dashboard", "Attention, the first page of the dashboard")
    page = next(route for route in PAGES if route.path == "/")
    times: dict[str, list[float]] = {name: [] for name in _CLOCKS}
    with large.open_at(run.large) as workspace:
        run.say("dashboard")
        call = ApiRequest(AccessToken("", "kim", True, RIGHTS, "", ""), {})
        call.workspace = workspace
        for _ in range(20 if run.quick else 100):
            began = {name: clock() for name, clock in _CLOCKS.items()}
            page.function(call)
            for name, clock in _CLOCKS.items():
                times[name].append(clock() - began[name])
    for name, each in times.items():
        middle = median(each)
        what = f"{name} of Attention, {run.records:,} records"
        most = f"{ms(MOST_S)} at most"
        found.rows.append(Row(what, ms(middle), most, middle / MOST_S, Target("at most", 1)))
    found.figures = {
        "attention": spread(times["server time"]),
        "attention_cpu": spread(times["CPU time"]),
        "records": run.records,
    }
    return found

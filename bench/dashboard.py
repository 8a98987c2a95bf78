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
    from bench.run import Run

MOST_S = 0.150


def measure(run: Run) -> Measured:
    found = Measured("dashboard", "Attention, the first page of the dashboard")
    page = next(route for route in PAGES if route.path == "/")
    times: list[float] = []
    with large.open_at(run.large) as workspace:
        run.say("dashboard")
        call = ApiRequest(AccessToken("", "kim", True, RIGHTS, "", ""), {})
        call.workspace = workspace
        for _ in range(20 if run.quick else 100):
            began = time.perf_counter()
            page.function(call)
            times.append(time.perf_counter() - began)
    middle = median(times)
    what = f"server time of Attention, {run.records:,} records"
    found.rows = [
        Row(what, ms(middle), f"{ms(MOST_S)} at most", middle / MOST_S, Target("at most", 1))
    ]
    found.figures = {"attention": spread(times), "records": run.records}
    return found

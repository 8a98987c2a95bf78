"""Counts for whoever watches the server, in the text format that Prometheus reads.

Labels are names of operations and numbers of statuses: nothing that a caller could choose.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter

MEDIA = "text/plain; version=0.0.4; charset=utf-8"

_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """What has happened since the server started; written by its event loop alone."""

    def __init__(self) -> None:
        self._answers: Counter[tuple[str, int]] = Counter()
        self._refusals: Counter[str] = Counter()
        self._buckets: dict[str, list[int]] = {}
        self._seconds: dict[str, float] = {}
        self.events = 0

    def answered(self, operation: str, status: int, seconds: float) -> None:
        """One more answer."""
        self._answers[operation, status] += 1
        buckets = self._buckets.setdefault(operation, [0] * (len(_BOUNDS) + 1))
        buckets[bisect_left(_BOUNDS, seconds)] += 1
        self._seconds[operation] = self._seconds.get(operation, 0.0) + seconds

    def refused(self, reason: str) -> None:
        """One more request that the front turned away."""
        self._refusals[reason] += 1

    def text(self, *, streams: int) -> str:
        """Everything, as text."""
        lines = [
            "# HELP passdown_requests_total Answers by operation and status.",
            "# TYPE passdown_requests_total counter",
            *(
                f'passdown_requests_total{{operation="{name}",status="{status}"}} {count}'
                for (name, status), count in sorted(self._answers.items())
            ),
            "# HELP passdown_refused_total Requests turned away before they were looked at.",
            "# TYPE passdown_refused_total counter",
            *(
                f'passdown_refused_total{{reason="{reason}"}} {count}'
                for reason, count in sorted(self._refusals.items())
            ),
            "# HELP passdown_open_streams Streams of events that are open.",
            "# TYPE passdown_open_streams gauge",
            f"passdown_open_streams {streams}",
            "# HELP passdown_events_total Events sent.",
            "# TYPE passdown_events_total counter",
            f"passdown_events_total {self.events}",
            "# HELP passdown_request_seconds How long answers took.",
            "# TYPE passdown_request_seconds histogram",
        ]
        for name in sorted(self._buckets):
            lines += self._histogram(name)
        return "\n".join(lines) + "\n"

    def _histogram(self, name: str) -> list[str]:
        counts = self._buckets[name]
        lines: list[str] = []
        total = 0
        for bound, count in zip((*_BOUNDS, None), counts, strict=True):
            total += count
            least = "+Inf" if bound is None else f"{bound:g}"
            lines.append(
                f'passdown_request_seconds_bucket{{operation="{name}",le="{least}"}} {total}'
            )
        lines.append(
            f'passdown_request_seconds_sum{{operation="{name}"}} {self._seconds[name]:.6f}'
        )
        lines.append(f'passdown_request_seconds_count{{operation="{name}"}} {total}')
        return lines

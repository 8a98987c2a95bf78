"""Metrics in Prometheus' text format, and trace spans of requests.

Labels are operation names and statuses: nothing that a caller could choose. Requests that were
refused get a span too, but don't decide which trace it belongs to.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter
from typing import TYPE_CHECKING, Any, Self

from passdown import tracing
from passdown.core.redaction import redact
from passdown.mcp.message_spans import non_empty, task_argument

if TYPE_CHECKING:
    from collections.abc import Mapping

    from passdown.tracing import Span
    from passdown.web.gateway import Scope
    from passdown.web.server_state import RequestContext
    from passdown.workspace import Workspace


METRICS_MEDIA = "text/plain; version=0.0.4; charset=utf-8"

_BUCKET_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """Counts since the server started; written by its event loop alone."""

    def __init__(self) -> None:
        self._answers: Counter[tuple[str, int]] = Counter()
        self._refusals: Counter[str] = Counter()
        self._buckets: dict[str, list[int]] = {}
        self._seconds: dict[str, float] = {}
        self.events = 0

    def answered(self, operation: str, status: int, seconds: float) -> None:
        """Count a response."""
        self._answers[operation, status] += 1
        buckets = self._buckets.setdefault(operation, [0] * (len(_BUCKET_BOUNDS) + 1))
        buckets[bisect_left(_BUCKET_BOUNDS, seconds)] += 1
        self._seconds[operation] = self._seconds.get(operation, 0.0) + seconds

    def refused(self, reason: str) -> None:
        """Count a request that the gateway refused."""
        self._refusals[reason] += 1

    def text(self, *, streams: int) -> str:
        """All metrics as text."""
        answers = [
            f'{{operation="{name}",status="{status}"}} {count}'
            for (name, status), count in sorted(self._answers.items())
        ]
        refusals = [f'{{reason="{why}"}} {count}' for why, count in sorted(self._refusals.items())]
        lines = [
            *_metric("requests_total", "counter", "Answers by operation and status.", answers),
            *_metric("refused_total", "counter", "Requests refused by the gateway.", refusals),
            *_metric("open_streams", "gauge", "Streams of events that are open.", [f" {streams}"]),
            *_metric("events_total", "counter", "Events sent.", [f" {self.events}"]),
            *_metric("request_seconds", "histogram", "How long answers took.", []),
        ]
        for name in sorted(self._buckets):
            lines += self._histogram(name)
        return "\n".join(lines) + "\n"

    def _histogram(self, name: str) -> list[str]:
        counts = self._buckets[name]
        lines: list[str] = []
        total = 0
        for bound, count in zip((*_BUCKET_BOUNDS, None), counts, strict=True):
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


def _metric(name: str, kind: str, help: str, samples: list[str]) -> list[str]:
    head = [f"# HELP passdown_{name} {help}", f"# TYPE passdown_{name} {kind}"]
    return [*head, *(f"passdown_{name}{sample}" for sample in samples)]


UNTRACED = frozenset({"/health", "/ready"})
"""Paths that monitoring polls every few seconds; they get no spans."""

METHODS = frozenset("GET HEAD POST PUT DELETE CONNECT OPTIONS TRACE PATCH QUERY".split())


class RequestSpan:
    """The span of one request, from its arrival to its response."""

    def __init__(self, scope: Scope, context: RequestContext, *, is_let_in: bool) -> None:
        self._context = context
        self._method = scope["method"] if scope["method"] in METHODS else "HTTP"
        is_traced = tracing.is_on() and scope["path"] not in UNTRACED
        self._span = (
            _start_span(scope, context, is_let_in=is_let_in) if is_traced else tracing.NO_SPAN
        )

    def __enter__(self) -> Self:
        self._span.__enter__()
        return self

    def __exit__(self, kind: object, error: object, place: object) -> None:
        self._span.__exit__(kind, error, place)

    def answered(self, status: int) -> None:
        """Note the status; a 5xx is an error."""
        if self._span is tracing.NO_SPAN:
            return
        context = self._context
        found = {
            "http.response.status_code": int(status),
            "http.route": context.route,
            "passdown.operation": context.operation,
            "passdown.workspace": context.workspace,
            "passdown.task": context.task,
        }
        name = f"{self._method} {context.route}" if context.route else self._method
        error = str(status) if status >= 500 else ""
        self._span.note(non_empty(found), name=name, error=error)


def _start_span(scope: Scope, context: RequestContext, *, is_let_in: bool) -> Span:
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    method: str = scope["method"]
    server = scope.get("server") or ("", 0)
    client = scope.get("client") or ("", 0)
    caller = context.caller
    attributes = {
        "http.request.method": method if method in METHODS else "_OTHER",
        "url.scheme": scope.get("scheme", "http"),
        "url.path": redact(scope["path"][:200])[0],
        "server.address": server[0],
        "server.port": server[1],
        "client.address": client[0],
        "network.protocol.version": scope.get("http_version", ""),
        "user_agent.original": redact(headers.get("user-agent", "")[:200])[0],
        "passdown.request": context.number,
        "passdown.agent": caller.name if caller else "",
    }
    return tracing.request(
        method if method in METHODS else "HTTP",
        non_empty(attributes),
        carrier=headers if is_let_in else {},
        seconds_ago=time.perf_counter() - context.started,
    )


def operation_span(operation: str, workspace: Workspace, context: RequestContext) -> Span:
    """The span of the operation that a request calls."""
    if not tracing.is_on():
        return tracing.NO_SPAN
    caller = context.caller
    context.workspace = workspace.store_label
    attributes = {
        "passdown.workspace": context.workspace,
        "passdown.operation": operation,
        "passdown.task": context.task,
        "passdown.agent": caller.name if caller else "",
    }
    return tracing.part(f"workspace {operation}", non_empty(attributes))


def note_task(context: RequestContext, given: Mapping[str, Any]) -> None:
    """Note which task a request is about, if it names one."""
    if not tracing.is_on():
        return
    context.task = task_argument(given)

"""Requests as spans: one for each, by the conventions that OpenTelemetry has for HTTP servers.

Who was not let in gets a span too, but doesn't decide about whose trace it is: otherwise strangers
could have anything recorded.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Self

from passdown import spans
from passdown.model.redaction import redact
from passdown.surfaces.mcp.spanning import known, task_in

if TYPE_CHECKING:
    from collections.abc import Mapping

    from passdown.spans import Span
    from passdown.surfaces.web.front import Scope
    from passdown.surfaces.web.house import Visit
    from passdown.workspace import Workspace

UNTRACED = frozenset({"/health", "/ready"})
"""What is asked every few seconds by whoever watches the server: no work of anybody's."""

METHODS = frozenset("GET HEAD POST PUT DELETE CONNECT OPTIONS TRACE PATCH QUERY".split())


class VisitSpan:
    """The span of one request, from when it came in until it has been answered."""

    def __init__(self, scope: Scope, visit: Visit, *, is_let_in: bool) -> None:
        self._visit = visit
        self._method = scope["method"] if scope["method"] in METHODS else "HTTP"
        is_traced = spans.is_on() and scope["path"] not in UNTRACED
        self._span = _started(scope, visit, is_let_in=is_let_in) if is_traced else spans.NOTHING

    def __enter__(self) -> Self:
        self._span.__enter__()
        return self

    def __exit__(self, kind: object, error: object, place: object) -> None:
        self._span.__exit__(kind, error, place)

    def answered(self, status: int) -> None:
        """Say how it was answered; what the server is to blame for is an error."""
        if self._span is spans.NOTHING:
            return
        visit = self._visit
        found = {
            "http.response.status_code": int(status),
            "http.route": visit.route,
            "passdown.operation": visit.operation,
            "passdown.workspace": visit.workspace,
            "passdown.task": visit.task,
        }
        name = f"{self._method} {visit.route}" if visit.route else self._method
        error = str(status) if status >= 500 else ""
        self._span.note(known(found), name=name, error=error)


def _started(scope: Scope, visit: Visit, *, is_let_in: bool) -> Span:
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    method: str = scope["method"]
    server = scope.get("server") or ("", 0)
    client = scope.get("client") or ("", 0)
    caller = visit.caller
    attributes = {
        "http.request.method": method if method in METHODS else "_OTHER",
        "url.scheme": scope.get("scheme", "http"),
        "url.path": redact(scope["path"][:200])[0],
        "server.address": server[0],
        "server.port": server[1],
        "client.address": client[0],
        "network.protocol.version": scope.get("http_version", ""),
        "user_agent.original": redact(headers.get("user-agent", "")[:200])[0],
        "passdown.request": visit.number,
        "passdown.agent": caller.name if caller else "",
    }
    return spans.request(
        method if method in METHODS else "HTTP",
        known(attributes),
        carrier=headers if is_let_in else {},
        seconds_ago=time.perf_counter() - visit.started,
    )


def doing(operation: str, workspace: Workspace, visit: Visit) -> Span:
    """The span of what a request has the workspace do."""
    if not spans.is_on():
        return spans.NOTHING
    caller = visit.caller
    visit.workspace = workspace.store_shown
    attributes = {
        "passdown.workspace": visit.workspace,
        "passdown.operation": operation,
        "passdown.task": visit.task,
        "passdown.agent": caller.name if caller else "",
    }
    return spans.part(f"workspace {operation}", known(attributes))


def note_task(visit: Visit, given: Mapping[str, Any]) -> None:
    """Note which task a request is about, if what it gives for one could be a task's id."""
    if not spans.is_on():
        return
    visit.task = task_in(given) or task_in(given.get("body"))

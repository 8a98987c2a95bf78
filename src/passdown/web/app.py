"""The application: the routes behind the gateway.

Requests are read and rights are checked by the routes; the work runs in threads, since the core is
synchronous. Every error is a problem document.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from contextlib import asynccontextmanager, nullcontext
from typing import TYPE_CHECKING, Any, cast

from fastapi import FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response, StreamingResponse
from starlette.routing import Match, Route

from passdown import __version__
from passdown.errors import InvalidInput, NotFound, PassdownError, Problem, RateLimited, StoreError
from passdown.web import task_routes as decision_rows
from passdown.web import task_routes as own_rows
from passdown.web import task_routes as reading_rows
from passdown.web import task_routes as task_rows
from passdown.web import task_routes as writing_rows
from passdown.web import workspace_routes as context_rows
from passdown.web import workspace_routes as graph_rows
from passdown.web import workspace_routes as keeping_rows
from passdown.web import workspace_routes as relay_rows
from passdown.web import workspace_routes as telling_rows
from passdown.web.briefs import BriefBatcher
from passdown.web.events import (
    EVENTS_MEDIA,
    ChangeWatcher,
    EventStream,
    open_stream,
    resume_position,
)
from passdown.web.gateway import REQUEST_CONTEXT, Gateway
from passdown.web.mcp_endpoint import MCP_PATH, McpEndpoint
from passdown.web.openapi import DESCRIPTION, openapi_extra, openapi_responses, whole
from passdown.web.requests import (
    ApiRequest,
    ApiResult,
    ApiRoute,
    MalformedRequest,
    read_request,
    require_right,
)
from passdown.web.responses import (
    PROBLEM_MEDIA,
    problem_document,
    status_of,
    to_json,
    to_response,
    with_etag,
    without_internals,
)
from passdown.web.status_routes import add_status_routes
from passdown.web.telemetry import note_task, operation_span
from passdown.workspace.files import FILES_FIELD as FILES_SEEN
from passdown.workspace.files import serving_client
from passdown.workspace.streams import recorded_via

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from fastapi.telemetry import TelemetryConfig

    from passdown.core.access import AccessToken
    from passdown.web.gateway import App, Receive, Scope, Send
    from passdown.web.server_state import RequestContext, ServerState


if TYPE_CHECKING:
    Endpoint = Callable[[Request], Awaitable[Response]]

ROUTES: tuple[ApiRoute, ...] = (
    *task_rows.TASK_ROUTES,
    *writing_rows.RECORD_ROUTES,
    *reading_rows.HISTORY_ROUTES,
    *telling_rows.BRIEF_ROUTES,
    *own_rows.CALLER_ROUTES,
    *context_rows.CONTEXT_ROUTES,
    *decision_rows.DECISION_ROUTES,
    *graph_rows.GRAPH_ROUTES,
    *keeping_rows.MAINTENANCE_ROUTES,
    *relay_rows.RELAY_ROUTES,
)
_SMALL_BODY = 1 << 14
"""A larger body is read in a thread: that takes as long as many small requests."""
# The framework has spans and logs of its own, which quote what was sent; the front's stand alone.
_NO_FRAMEWORK_SPANS: TelemetryConfig = {
    "tracing": False,
    "metrics": False,
    "logs": False,
    "operation_spans": False,
    "auto_configure": False,
}
_ETAG_VERSION = re.compile(r'"([0-9]{1,15})"')


def build_app(house: ServerState) -> App:
    """The whole server as an ASGI application."""
    mcp = McpEndpoint(house)

    @asynccontextmanager
    async def living(_: FastAPI) -> AsyncGenerator[None]:
        await asyncio.to_thread(_warm_up)
        async with mcp.running():
            yield
        house.threads.close()
        house.door.close()

    app = FastAPI(
        title="Passdown",
        version=__version__,
        description=DESCRIPTION,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        lifespan=living,
        redirect_slashes=False,
        telemetry=_NO_FRAMEWORK_SPANS,
    )
    routes = _Endpoints(house)
    rows = {operation.name: operation for operation in ROUTES}
    endpoints = {name: routes.of(row) for name, row in rows.items()}
    endpoints["brief"] = routes.brief(rows["brief"])
    for name, row in rows.items():
        _add_route(app, row, endpoints[name])
    _add_route(app, _EVENTS_ROUTE, routes.events())
    add_status_routes(app, house)
    app.router.routes.append(Route(MCP_PATH, mcp))
    app.add_exception_handler(HTTPException, _not_routed)
    return Gateway(_BriefShortcut(app, endpoints["brief"]), house)


class _BriefShortcut:
    """Goes around the router for briefs: what agents ask for most costs half as much without it."""

    _PATH = re.compile(r"/api/tasks/([^/]+)/brief")

    def __init__(self, app: App, endpoint: Endpoint) -> None:
        self._app = app
        self._endpoint = endpoint

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        match = self._PATH.fullmatch(scope["path"]) if scope["type"] == "http" else None
        if match is None or scope["method"] != "GET":
            await self._app(scope, receive, send)
            return
        scope["path_params"] = {"task": match[1]}
        response = await self._endpoint(Request(scope, receive))
        await response(scope, receive, send)


def _add_route(app: FastAPI, operation: ApiRoute, endpoint: Endpoint) -> None:
    app.add_api_route(
        operation.path,
        endpoint,
        methods=[operation.method],
        operation_id=operation.name,
        summary=operation.summary,
        status_code=operation.status,
        response_class=Response,
        responses=openapi_responses(operation),
        openapi_extra=openapi_extra(operation),
        tags=[operation.tag] if operation.tag else None,
    )


class _Endpoints:
    """Makes an endpoint of each row."""

    def __init__(self, house: ServerState) -> None:
        self._house = house
        self._briefs = BriefBatcher(house)
        self._watch = ChangeWatcher(house)
        self._heavy = asyncio.Semaphore(house.options.limits.heavy)

    def of(self, operation: ApiRoute) -> Endpoint:
        """The endpoint of a row that is carried out in a thread."""

        async def endpoint(request: Request) -> Response:
            visit, caller = _context_of(request, operation)
            try:
                is_small = len(visit.body) <= _SMALL_BODY
                call = _api_request(operation, request, visit, caller) if is_small else None
                await self._take_turn(operation, visit, caller)
                async with self._heavy if operation.is_heavy else nullcontext():
                    return await self._house.threads.for_caller(
                        self._carry, operation, request, visit, caller, call
                    )
            except Exception as error:  # noqa: BLE001
                return _problem_response(
                    error, visit, has_condition=b"if-match" in _header_names(request)
                )

        return endpoint

    async def _take_turn(
        self, operation: ApiRoute, visit: RequestContext, caller: AccessToken
    ) -> None:
        """Wait for what has to be waited for before an operation may begin. Of a token's heavy
        reads one is in line at a time, so that those of others come next.
        """
        house = self._house
        if operation.is_heavy:
            await visit.take(house.heavy_reads.of(caller.id))
        else:
            turns = house.writes if operation.writes else house.reads
            await visit.take(turns.of(caller.id))

    def _carry(
        self,
        operation: ApiRoute,
        request: Request,
        visit: RequestContext,
        caller: AccessToken,
        read: ApiRequest | None,
    ) -> Response:
        """Carry an operation out and spell its answer, all of it in the thread that this is."""
        call = read or _api_request(operation, request, visit, caller)
        only = "" if caller.may("others") else caller.name
        door = recorded_via(f"token:{caller.id}", author=only)
        with (
            self._house.workspace() as workspace,
            door,
            serving_client(call.files_seen),
            operation_span(operation.name, workspace, visit),
        ):
            found = operation.carry(workspace, call)
        visit.notes += call.claims
        return to_response(operation, call, found, request)

    def brief(self, operation: ApiRoute) -> Endpoint:
        """The endpoint of briefs, which are made once for many."""

        async def endpoint(request: Request) -> Response:
            visit, caller = _context_of(request, operation)
            question = (caller.id, request.scope["path"], request.scope["query_string"])
            try:
                waiting = self._briefs.known(question)
                if waiting is None:
                    call = _api_request(operation, request, visit, caller)
                    waiting = self._briefs.read(question, call, f"token:{caller.id}")
                note_task(visit, waiting.ask._asdict())
                body, etag = await self._briefs.answer(waiting, visit)
            except Exception as error:  # noqa: BLE001
                return _problem_response(error, visit)
            return with_etag(request, body, etag)

        return endpoint

    def events(self) -> Endpoint:
        """The endpoint of the stream of changes."""

        async def endpoint(request: Request) -> Response:
            visit, caller = _context_of(request, _EVENTS_ROUTE)
            try:
                call = _api_request(_EVENTS_ROUTE, request, visit, caller)
                await visit.take(self._house.reads.of(caller.id))
                last = await self._house.threads.for_caller(self._watch.position)
                await visit.give_back()
                named = request.headers.get("last-event-id", "")
                after = resume_position(named, call.given.get("after"), last)
                open_stream(self._house, caller)
            except Exception as error:  # noqa: BLE001
                return _problem_response(error, visit)
            stream = EventStream(
                self._house, self._watch, caller, after, call.given.get("task", "")
            )
            return StreamingResponse(self._counted(stream, caller), media_type=EVENTS_MEDIA)

        return endpoint

    async def _counted(self, stream: EventStream, caller: AccessToken) -> AsyncGenerator[bytes]:
        try:
            async for part in stream.lines():
                yield part
        finally:
            self._house.streams.leave(caller.id)


async def _never(*_: Any) -> ApiResult:
    raise AssertionError("events are streamed, not carried out")


_EVENTS_ROUTE = ApiRoute(
    "events",
    "GET",
    "/api/events",
    "read",
    "What is recorded of tasks, as server-sent events; Last-Event-ID goes on where one left off",
    cast("Any", _never),
    query={
        "after": whole("events after this sequence number", most=10**18),
        "task": task_rows.TASK_ID,
    },
    media=(EVENTS_MEDIA,),
    tag="history",
)


def _context_of(request: Request, operation: ApiRoute) -> tuple[RequestContext, AccessToken]:
    visit: RequestContext = request.scope[REQUEST_CONTEXT]
    visit.goes_to(operation.name, operation.path)
    if visit.caller is None:
        raise AssertionError("the front lets nobody in without a token")
    return visit, visit.caller


def _header_names(request: Request) -> set[bytes]:
    return {name for name, _ in request.scope["headers"]}


def _api_request(
    operation: ApiRoute, request: Request, visit: RequestContext, caller: AccessToken
) -> ApiRequest:
    require_right(caller, operation.right)
    given = read_request(operation, request.path_params, request.scope["query_string"], visit.body)
    note_task(visit, given)
    files_seen = given.pop(FILES_SEEN, None) if operation.takes_files else None
    return ApiRequest(
        caller,
        given,
        expect_version=_expected_version(operation, request),
        key=_idempotency_key(operation, request),
        files_seen=files_seen,
    )


def _expected_version(operation: ApiRoute, request: Request) -> int | None:
    given = request.headers.get("if-match", "*")
    if given != "*" and not operation.takes_version and operation.method != "GET":
        problem = Problem("If-Match", "not_here", "has no meaning for this", "a write without it")
        raise MalformedRequest("the condition can't be kept", [problem])
    if given == "*" or not operation.takes_version:
        return None
    match = _ETAG_VERSION.fullmatch(given)
    if match is None:
        problem = Problem("If-Match", "invalid_form", f"{given[:40]!r}", 'one version, as "7"')
        raise MalformedRequest("the condition can't be read", [problem])
    return int(match[1])


def _idempotency_key(operation: ApiRoute, request: Request) -> str | None:
    return request.headers.get("idempotency-key") if operation.takes_key else None


def _problem_response(
    error: Exception, visit: RequestContext, *, has_condition: bool = False
) -> Response:
    """What went wrong, as a problem document; a fault of ours says nothing of its inside."""
    if not isinstance(error, PassdownError):
        if os.environ.get("PASSDOWN_DEBUG"):
            sys.excepthook(type(error), error, error.__traceback__)
        visit.notes.append(f"unexpected {type(error).__name__}")
        error = PassdownError(
            "this is a fault in Passdown",
            next_step=f"Its log has more about request {visit.number}.",
            code="unexpected",
        )
    if isinstance(error, StoreError):
        visit.notes.append(str(error))
        error = without_internals(error, visit.number)
    status = (
        400
        if isinstance(error, MalformedRequest)
        else status_of(error, has_condition=has_condition)
    )
    headers = {"Retry-After": "1"} if isinstance(error, (StoreError, RateLimited)) else None
    return Response(
        to_json(problem_document(error, status)), status, headers=headers, media_type=PROBLEM_MEDIA
    )


async def _not_routed(request: Request, error: Exception) -> Response:
    """An address or a method that isn't there."""
    status = error.status_code if isinstance(error, HTTPException) else 404
    headers: dict[str, str] = {}
    problem: PassdownError = NotFound(
        "there is nothing at this address", next_step="See /api/openapi.json."
    )
    if status == 405:
        headers["Allow"] = _methods_at(request)
        found = Problem("method", "not_here", request.method[:16], headers["Allow"])
        problem = InvalidInput("the address has no such method", [found])
    else:
        status = 404
    return Response(
        to_json(problem_document(problem, status)),
        status,
        headers=headers,
        media_type=PROBLEM_MEDIA,
    )


def _methods_at(request: Request) -> str:
    """Every method that an address has, whichever route serves it."""
    found: set[str] = set()
    for route in request.app.router.routes:
        if route.matches(request.scope)[0] is not Match.NONE:
            found |= route.methods or set()
    return ", ".join(sorted(found))


def _warm_up() -> None:
    """Load what the first brief and the first handoff need, before anybody waits for them."""
    from passdown.core.tokens import counter_of

    counter_of(None).tokens("ready")


__all__ = ["ROUTES", "build_app"]

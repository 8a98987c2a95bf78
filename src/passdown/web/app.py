"""The application: the API's routes behind the gateway, events, MCP and status pages.

Requests are read and rights are checked by the routes; the work runs in threads, since the core is
synchronous. Every error is a problem document.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import time
from contextlib import asynccontextmanager, nullcontext
from typing import TYPE_CHECKING
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Match, Route

from passdown import tracing
from passdown.errors import InvalidInput, NotFound, PassdownError, Problem, RateLimited, StoreError
from passdown.operations import WARNING_HEADER
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
from passdown.web.openapi import integer, openapi_document, string
from passdown.web.requests import (
    ApiRequest,
    ApiResult,
    ApiRoute,
    MalformedRequest,
    read_request,
    require_right,
)
from passdown.web.responses import (
    json_response,
    problem_response,
    status_of,
    to_json,
    to_response,
    with_etag,
    without_internals,
)
from passdown.web.routes import DEFINITIONS, api_routes
from passdown.web.telemetry import METRICS_MEDIA, note_task, operation_span
from passdown.workspace.context import context_of
from passdown.workspace.files import serving_client
from passdown.workspace.streams import recorded_via

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from passdown.core.access import AccessToken
    from passdown.web.gateway import App, Receive, Scope, Send
    from passdown.web.server_state import RequestContext, ServerState

    Endpoint = Callable[[Request], Awaitable[Response]]


def _streamed(_: ApiRequest) -> ApiResult:
    raise AssertionError("events are streamed")


ROUTES = api_routes()
BRIEF_ROUTE = next(route for route in ROUTES if route.name == "brief")
EVENTS_ROUTE = ApiRoute(
    "events",
    "GET",
    "/api/events",
    "read",
    "What is recorded of tasks, as server-sent events; Last-Event-ID goes on where one left off",
    _streamed,
    query={
        "after": integer("events after this sequence number", 0, 10**18),
        "task": string("only those of this task"),
    },
    media=(("", EVENTS_MEDIA),),
)

_SMALL_BODY = 1 << 14
"""A larger body is read in a thread: that takes as long as many small requests."""
_ETAG_VERSION = re.compile(r'"([0-9]{1,15})"')


def build_app(state: ServerState) -> App:
    """The whole server as an ASGI application."""
    mcp = McpEndpoint(state)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        await asyncio.to_thread(_warm_up)
        async with mcp.running():
            yield
        state.threads.close()
        state.shared.close()

    endpoints = _Endpoints(state)
    routes = [_starlette_route(route, endpoints.of(route)) for route in (*ROUTES, EVENTS_ROUTE)]
    app = Starlette(
        routes=[*routes, *_status_routes(state), Route(MCP_PATH, mcp)],
        exception_handlers={HTTPException: _not_routed},
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    return Gateway(_BriefShortcut(app, endpoints.brief), state)


class _BriefShortcut:
    """Bypasses the router for briefs: what agents ask for most costs half as much without it."""

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


def _starlette_route(route: ApiRoute, endpoint: Endpoint) -> Route:
    found = Route(route.path, endpoint, methods=[route.method])
    found.methods = {route.method}  # without HEAD, which Starlette adds to GET
    return found


class _Endpoints:
    """Makes an endpoint of each route."""

    def __init__(self, state: ServerState) -> None:
        self._state = state
        self._briefs = BriefBatcher(state)
        self._watcher = ChangeWatcher(state)
        self._heavy = asyncio.Semaphore(state.options.limits.heavy)

    def of(self, route: ApiRoute) -> Endpoint:
        """The endpoint of a route; most do their work in a thread."""
        if route.name == "brief":
            return self.brief
        if route.name == "events":
            return self.events

        async def endpoint(request: Request) -> Response:
            context, caller = _context_of(request, route)
            try:
                is_small = len(context.body) <= _SMALL_BODY
                call = _api_request(route, request, context, caller) if is_small else None
                await self._wait_for_turn(route, context, caller)
                async with self._heavy if route.is_heavy else nullcontext():
                    return await self._state.threads.for_caller(
                        self._run, route, request, context, caller, call
                    )
            except Exception as error:  # noqa: BLE001
                has_condition = "if-match" in request.headers
                return _error_response(error, context, has_condition=has_condition)

        return endpoint

    async def _wait_for_turn(
        self, route: ApiRoute, context: RequestContext, caller: AccessToken
    ) -> None:
        """Wait until the token may have one more request of this kind under way. Of its heavy
        reads one is in line at a time, so that those of others come next.
        """
        state = self._state
        if route.is_heavy:
            limiter = state.heavy_reads
        else:
            limiter = state.writes if route.writes else state.reads
        await context.hold(limiter.of(caller.id))

    def _run(
        self,
        route: ApiRoute,
        request: Request,
        context: RequestContext,
        caller: AccessToken,
        read: ApiRequest | None,
    ) -> Response:
        """Call a route's function and encode its result, in the thread that this runs in."""
        call = read or _api_request(route, request, context, caller)
        only = "" if caller.may("others") else caller.name
        with (
            self._state.workspace() as workspace,
            recorded_via(f"token:{caller.id}", author=only),
            serving_client(call.client_files, call.client_profile),
            operation_span(route.name, workspace, context),
        ):
            call.workspace = workspace
            result = route.function(call)
            warning = context_of(workspace).logged_warning(call.arguments.get("task"))
        context.notes += call.claims
        response = to_response(route, call, result, request)
        if warning:
            response.headers[WARNING_HEADER] = quote(warning, safe=" ,:;/()#'")
        return response

    async def brief(self, request: Request) -> Response:
        """Briefs are made once for many."""
        context, caller = _context_of(request, BRIEF_ROUTE)
        question = (caller.id, request.scope["path"], request.scope["query_string"])
        try:
            waiting = self._briefs.known(question)
            if waiting is None:
                call = _api_request(BRIEF_ROUTE, request, context, caller)
                waiting = self._briefs.read(question, call, f"token:{caller.id}")
            note_task(context, waiting.ask._asdict())
            body, etag = await self._briefs.answer(waiting, context)
        except Exception as error:  # noqa: BLE001
            return _error_response(error, context)
        return with_etag(request, body, etag)

    async def events(self, request: Request) -> Response:
        """The stream of changes."""
        context, caller = _context_of(request, EVENTS_ROUTE)
        state = self._state
        try:
            call = _api_request(EVENTS_ROUTE, request, context, caller)
            await context.hold(state.reads.of(caller.id))
            last = await state.threads.for_caller(self._watcher.position)
            await context.release()
            last_seen = request.headers.get("last-event-id", "")
            after = resume_position(last_seen, call.arguments.get("after"), last)
            open_stream(state, caller)
        except Exception as error:  # noqa: BLE001
            return _error_response(error, context)
        stream = EventStream(state, self._watcher, caller, after, call.arguments.get("task", ""))
        return StreamingResponse(self._counted(stream, caller), media_type=EVENTS_MEDIA)

    async def _counted(self, stream: EventStream, caller: AccessToken) -> AsyncGenerator[bytes]:
        try:
            async for part in stream.lines():
                yield part
        finally:
            self._state.streams.leave(caller.id)


def _context_of(request: Request, route: ApiRoute) -> tuple[RequestContext, AccessToken]:
    context: RequestContext = request.scope[REQUEST_CONTEXT]
    context.set_route(route.name, route.path)
    return context, context.holder


def _api_request(
    route: ApiRoute, request: Request, context: RequestContext, caller: AccessToken
) -> ApiRequest:
    require_right(caller, route.right)
    query = request.scope["query_string"]
    given = read_request(route, caller, request.path_params, query, context.body)
    note_task(context, {**given.body, **given.arguments})
    given.expect_version = _expected_version(route, request)
    given.key = request.headers.get("idempotency-key") if route.takes_key else None
    return given


def _expected_version(route: ApiRoute, request: Request) -> int | None:
    given = request.headers.get("if-match", "*")
    if given != "*" and not route.takes_version and route.method != "GET":
        problem = Problem("If-Match", "not_here", "has no meaning for this", "a write without it")
        raise MalformedRequest("the condition can't be kept", [problem])
    if given == "*" or not route.takes_version:
        return None
    match = _ETAG_VERSION.fullmatch(given)
    if match is None:
        problem = Problem("If-Match", "invalid_form", f"{given[:40]!r}", 'one version, as "7"')
        raise MalformedRequest("the condition can't be read", [problem])
    return int(match[1])


def _error_response(
    error: Exception, context: RequestContext, *, has_condition: bool = False
) -> Response:
    """An error as a problem document; an internal error tells nothing of its cause."""
    if not isinstance(error, PassdownError):
        if os.environ.get("PASSDOWN_DEBUG"):
            sys.excepthook(type(error), error, error.__traceback__)
        context.notes.append(f"unexpected {type(error).__name__}")
        error = PassdownError(
            "this is a fault in Passdown",
            next_step=f"Its log has more about request {context.number}.",
            code="unexpected",
        )
    if isinstance(error, StoreError):
        context.notes.append(str(error))
        error = without_internals(error, context.number)
    is_malformed = isinstance(error, MalformedRequest)
    status = 400 if is_malformed else status_of(error, has_condition=has_condition)
    headers = {"Retry-After": "1"} if isinstance(error, (StoreError, RateLimited)) else None
    return problem_response(error, status, headers)


async def _not_routed(request: Request, error: Exception) -> Response:
    """An unknown path, or a method that a path doesn't have."""
    if isinstance(error, HTTPException) and error.status_code == 405:
        allowed = _methods_at(request)
        found = Problem("method", "not_here", request.method[:16], allowed)
        refused = InvalidInput("the address has no such method", [found])
        return problem_response(refused, 405, {"Allow": allowed})
    step = "See /api/openapi.json."
    return problem_response(NotFound("there is nothing at this address", next_step=step), 404)


def _methods_at(request: Request) -> str:
    """Every method that a path has, whichever route serves it."""
    found: set[str] = set()
    for route in request.app.router.routes:
        if route.matches(request.scope)[0] is not Match.NONE:
            found |= route.methods or set()
    return ", ".join(sorted(found))


def _warm_up() -> None:
    """Load what the first brief and the first handoff need, before anybody waits for them."""
    from passdown.core.tokens import counter_of

    counter_of(None).tokens("ready")


def _status_routes(state: ServerState) -> list[Route]:
    """Health, readiness, metrics, and the OpenAPI document, made when it is first asked for."""
    document: list[bytes] = []
    store = _StoreCheck(state)

    async def health(request: Request) -> Response:
        return json_response({"status": "alive"})

    async def ready(request: Request) -> Response:
        try:
            await store.check()
        except PassdownError as error:
            context: RequestContext = request.scope[REQUEST_CONTEXT]
            context.notes.append(str(error))
            return problem_response(without_internals(error, context.number), 503)
        if state.stopping.is_set():
            return json_response({"status": "stopping"}, 503)
        return json_response({"status": "ready"})

    async def metrics(request: Request) -> Response:
        text = state.metrics.text(streams=state.streams.count)
        return Response(text, headers={"Content-Type": METRICS_MEDIA})

    async def openapi(request: Request) -> Response:
        if not document:
            document.append(to_json(openapi_document([*ROUTES, EVENTS_ROUTE], DEFINITIONS)))
        return Response(document[0], media_type="application/json")

    found = {"health": health, "ready": ready, "metrics": metrics, "api/openapi.json": openapi}
    return [
        Route(f"/{path}", _with_metrics_name(endpoint, f"/{path}"), methods=["GET"])
        for path, endpoint in found.items()
    ]


def _with_metrics_name(endpoint: Endpoint, path: str) -> Endpoint:
    """An endpoint that is counted under the last part of its path."""

    async def named(request: Request) -> Response:
        context: RequestContext = request.scope[REQUEST_CONTEXT]
        context.set_route(path.rpartition("/")[2].removesuffix(".json"), path)
        return await endpoint(request)

    return named


class _StoreCheck:
    """Checks the store for monitoring. One checks, and all who asked before that share its
    result: nobody needs a token for this, and it mustn't take threads from those who have one.
    """

    def __init__(self, state: ServerState) -> None:
        self._state = state
        self._lock = asyncio.Lock()
        self._checked_at = 0.0
        self._error: PassdownError | None = None

    async def check(self) -> None:
        """Raise what is wrong with the store, if anything is."""
        asked = time.monotonic()
        async with self._lock:
            if self._checked_at <= asked:
                self._checked_at = time.monotonic()
                self._error = await self._state.threads.for_all(self._read)
        if self._error is not None:
            raise self._error

    def _read(self) -> PassdownError | None:
        try:
            with tracing.detached(), self._state.workspace() as workspace:
                workspace.tasks(limit=1)
        except PassdownError as error:
            return error
        return None

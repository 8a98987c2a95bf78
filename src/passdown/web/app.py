"""The application: the API's routes behind the gateway, events, MCP and status pages.

Requests are read and rights are checked by the routes; the work runs in threads, since the core is
synchronous. Every error is a problem document.

An event's id is the record's sequence number. A client that comes back with `Last-Event-ID`
continues after it and misses nothing: what happened meanwhile is read from the ledger.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import time
from contextlib import asynccontextmanager, nullcontext
from typing import TYPE_CHECKING, cast
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.responses import Response, StreamingResponse
from starlette.routing import Match, Route

from passdown import tracing
from passdown.core.parsing import load_json
from passdown.core.text import excerpt
from passdown.errors import (
    InvalidInput,
    NotAllowed,
    NotFound,
    PassdownError,
    Problem,
    RateLimited,
    StoreError,
)
from passdown.operations import WARNING_HEADER
from passdown.web.briefs import BriefBatcher
from passdown.web.gateway import REQUEST_CONTEXT, Gateway
from passdown.web.mcp_endpoint import McpEndpoint
from passdown.web.openapi import integer, openapi_document, string
from passdown.web.pages.layout import CONTENT_POLICY
from passdown.web.pages.routes import HTML, page_routes, sign_in_html, static_file
from passdown.web.requests import (
    ApiRequest,
    ApiResult,
    ApiRoute,
    MalformedRequest,
    read_request,
    require_right,
)
from passdown.web.responses import (
    html_error,
    html_response,
    json_response,
    problem_response,
    status_of,
    to_json,
    to_response,
    with_etag,
    without_internals,
)
from passdown.web.routes import DEFINITIONS, api_routes
from passdown.web.server_state import METRICS_MEDIA
from passdown.web.sessions import (
    CODE_SECONDS,
    MCP_PATH,
    PROOF_PATH,
    SIGN_IN_PATH,
    cookie,
    form_value,
    is_navigation,
)
from passdown.workspace.context import context_of
from passdown.workspace.files import serving_client
from passdown.workspace.streams import recorded_via
from passdown.workspace.tokens import Tokens

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from starlette.requests import Request

    from passdown.core.access import AccessToken
    from passdown.core.results import Changes
    from passdown.core.types import JsonObject
    from passdown.web.gateway import App
    from passdown.web.server_state import RequestContext, ServerState

    Endpoint = Callable[[Request], Awaitable[Response]]


def _streamed(_: ApiRequest) -> ApiResult:
    raise AssertionError("events are streamed")


EVENTS_MEDIA = "text/event-stream"
POLL_SECONDS = 0.5
KEEP_ALIVE_SECONDS = 15.0
_PAGE = 200

ROUTES = api_routes()
PAGES = page_routes()
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

LIVE_ROUTE = EVENTS_ROUTE._replace(name="live", path="/live", query={})

_SMALL_BODY = 1 << 14
"""A larger body is read in a thread: that takes as long as many small requests."""
_ETAG_VERSION = re.compile(r'"([0-9]{1,15})"')


def build_app(state: ServerState) -> App:
    """The whole server as an ASGI application."""
    mcp = McpEndpoint(state)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        await asyncio.to_thread(_warm_up)
        yield
        state.close()

    endpoints = _Endpoints(state)
    # What agents ask for most comes first: routes are tried in order.
    routes = [BRIEF_ROUTE, *(route for route in ROUTES if route is not BRIEF_ROUTE), EVENTS_ROUTE]
    app = Starlette(
        routes=[
            *(_starlette_route(route, endpoints.of(route)) for route in routes),
            *_StatusPages(state).routes(),
            *_Dashboard(state, endpoints).routes(),
            Route(MCP_PATH, mcp),
        ],
        exception_handlers={HTTPException: _not_routed},
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    return Gateway(app, state)


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
                    return await self._state.for_caller(
                        self._run, route, request, context, caller, call
                    )
            except Exception as error:  # noqa: BLE001
                has_condition = "if-match" in request.headers
                response = _error_response(error, context, has_condition=has_condition)
                is_page = route.media == (("", HTML),)
                return html_error(response) if is_page else response

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
            context.operation_span(route.name, workspace),
        ):
            call.workspace, call.checks = workspace, self._state.checks
            result = route.function(call)
            warning = context_of(workspace).logged_warning(call.arguments.get("task"))
        context.notes += call.claims
        response = to_response(route, call, result, request)
        if result.media == HTML:
            response.headers["Content-Security-Policy"] = CONTENT_POLICY
        elif warning:
            response.headers[WARNING_HEADER] = quote(warning, safe=" ,:;/()#'")
        return response

    async def brief(self, request: Request) -> Response:
        """Briefs are made once for many."""
        context, caller = _context_of(request, BRIEF_ROUTE)
        try:
            made = await self._briefs.answer(
                _api_request(BRIEF_ROUTE, request, context, caller), context
            )
        except Exception as error:  # noqa: BLE001
            return _error_response(error, context)
        return with_etag(request, made.body, made.etag)

    async def live(self, request: Request) -> Response:
        """The stream that tells a page when anything was recorded."""
        context, caller = _context_of(request, LIVE_ROUTE)
        try:
            require_right(caller, LIVE_ROUTE.right)
            open_stream(self._state, caller)
        except Exception as error:  # noqa: BLE001
            return _error_response(error, context)
        stream = live_stream(self._state, self._watcher, caller)
        return StreamingResponse(stream, media_type=EVENTS_MEDIA)

    async def events(self, request: Request) -> Response:
        """The stream of changes."""
        context, caller = _context_of(request, EVENTS_ROUTE)
        state = self._state
        try:
            call = _api_request(EVENTS_ROUTE, request, context, caller)
            await context.hold(state.reads.of(caller.id))
            last = await state.for_caller(self._watcher.position)
            await context.release()
            last_seen = request.headers.get("last-event-id", "")
            after = resume_position(last_seen, call.arguments.get("after"), last)
            open_stream(state, caller)
        except Exception as error:  # noqa: BLE001
            return _error_response(error, context)
        stream = event_stream(state, self._watcher, caller, after, call.arguments.get("task", ""))
        return StreamingResponse(stream, media_type=EVENTS_MEDIA)


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
    context.note_task({**given.body, **given.arguments})
    given.expect_version = _expected_version(route, request)
    given.key = request.headers.get("idempotency-key") if route.takes_key else None
    given.form = form_value(context.token)
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
    missing = problem_response(NotFound("there is nothing at this address", next_step=step), 404)
    is_page = is_navigation(request.method, request.scope["headers"])
    return html_error(missing) if is_page else missing


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


class _StatusPages:
    """Health, readiness, metrics, and the OpenAPI document, made when it is first asked for."""

    def __init__(self, state: ServerState) -> None:
        self._state = state
        self._document = b""
        self._checking = asyncio.Lock()
        self._checked_at = 0.0
        self._error: PassdownError | None = None

    def routes(self) -> list[Route]:
        """The routes of the pages."""
        pages = (self.health, self.ready, self.metrics)
        routes = [Route(f"/{page.__name__}", page, methods=["GET"]) for page in pages]
        return [*routes, Route("/api/openapi.json", self.openapi, methods=["GET"])]

    async def health(self, request: Request) -> Response:
        """That the server runs."""
        _status_context(request)
        return json_response({"status": "alive"})

    async def ready(self, request: Request) -> Response:
        """Whether the store can be read."""
        context = _status_context(request)
        if error := await self._store_error():
            context.notes.append(str(error))
            return problem_response(without_internals(error, context.number), 503)
        if self._state.stopping.is_set():
            return json_response({"status": "stopping"}, 503)
        return json_response({"status": "ready"})

    async def metrics(self, request: Request) -> Response:
        """The metrics as text."""
        _status_context(request)
        text = self._state.metrics.text(streams=self._state.streams.count)
        return Response(text, headers={"Content-Type": METRICS_MEDIA})

    async def openapi(self, request: Request) -> Response:
        """The description of the API."""
        _status_context(request)
        if not self._document:
            self._document = to_json(openapi_document([*ROUTES, EVENTS_ROUTE], DEFINITIONS))
        return Response(self._document, media_type="application/json")

    async def _store_error(self) -> PassdownError | None:
        """What is wrong with the store. One checks, and all who asked before that share its result:
        nobody needs a token for this, and it mustn't take threads from those who have one.
        """
        asked = time.monotonic()
        async with self._checking:
            if self._checked_at <= asked:
                self._checked_at = time.monotonic()
                self._error = await self._state.for_all(self._read)
        return self._error

    def _read(self) -> PassdownError | None:
        try:
            with tracing.detached(), self._state.workspace() as workspace:
                workspace.tasks(limit=1)
        except PassdownError as error:
            return error
        return None


class _Dashboard:
    """Pages, the files they load, and signing in and out."""

    def __init__(self, state: ServerState, endpoints: _Endpoints) -> None:
        self._state = state
        self._endpoints = endpoints

    def routes(self) -> list[Route]:
        """The routes of the dashboard."""
        return [
            *(_starlette_route(page, self._endpoints.of(page)) for page in PAGES),
            Route("/live", self._endpoints.live, methods=["GET"]),
            Route("/static/{name}", self.static, methods=["GET"]),
            Route(SIGN_IN_PATH, self.sign_in_page, methods=["GET"]),
            Route(SIGN_IN_PATH, self.sign_in, methods=["POST"]),
            Route(PROOF_PATH, self.proof, methods=["GET"]),
            Route("/sign-in-links", self.sign_in_link, methods=["POST"]),
            Route("/sign-out", self.sign_out, methods=["POST"]),
        ]

    async def static(self, request: Request) -> Response:
        """A file that pages load."""
        context = _status_context(request, "static")
        try:
            found = static_file(request.path_params["name"])
        except NotFound as error:
            return _error_response(error, context)
        response = with_etag(request, found.body, found.etag)
        response.headers["Content-Type"] = f"{found.media}; charset=utf-8"
        return response

    async def sign_in_page(self, request: Request) -> Response:
        """The page that exchanges a code for a cookie."""
        _status_context(request)
        return html_response(sign_in_html())

    async def sign_in(self, request: Request) -> Response:
        """Exchange a code, once, for a cookie with a token of its own."""
        context = _status_context(request)
        try:
            sent = load_json(context.body)
            code = cast("JsonObject", sent).get("code") if isinstance(sent, dict) else None
            access = self._state.sign_ins.take(str(code))
            if access is None:
                step = "Run passdown ui again; a link works once, within a minute."
                raise NotAllowed("this link was used or is too old", next_step=step)
            token = await self._state.for_caller(self._session_token, access)
        except Exception as error:  # noqa: BLE001
            return _error_response(error, context)
        response = json_response({"name": access.name})
        response.headers["Set-Cookie"] = cookie(request.scope["headers"], token)
        return response

    def _session_token(self, access: AccessToken) -> str:
        with self._state.workspace() as workspace:
            return Tokens(workspace).session(access).token

    async def proof(self, request: Request) -> Response:
        """What shows `passdown ui` that its token can be sent here."""
        context = _status_context(request)
        asked = request.query_params
        given = asked.get("token", ""), request.scope["server"][1], asked.get("nonce", "")
        try:
            return json_response({"proof": await self._state.proof(*given)})
        except Exception as error:  # noqa: BLE001
            return _error_response(error, context)

    async def sign_in_link(self, request: Request) -> Response:
        """A link with a code for the holder of the token."""
        context = _status_context(request)
        if context.holder.parent:
            step = "Run passdown ui where the browser is."
            refused = NotAllowed("a browser can't sign in another one", next_step=step)
            return _error_response(refused, context)
        code = self._state.sign_ins.new(context.holder)
        return json_response({"path": f"{SIGN_IN_PATH}#{code}", "seconds": CODE_SECONDS}, 201)

    async def sign_out(self, request: Request) -> Response:
        """End the session: its token is revoked."""
        context = _status_context(request)
        holder = context.holder
        if holder.parent:
            await self._state.for_caller(self._revoke, holder)
        response = json_response({})
        response.headers["Set-Cookie"] = cookie(request.scope["headers"], "")
        return response

    def _revoke(self, holder: AccessToken) -> None:
        with self._state.workspace() as workspace:
            Tokens(workspace).revoke(holder.id, by=holder.name)


def _status_context(request: Request, name: str = "") -> RequestContext:
    """The context of a request for a page, which is counted under the last part of its path."""
    context: RequestContext = request.scope[REQUEST_CONTEXT]
    path: str = request.scope["path"]
    context.set_route(name or path.rpartition("/")[2].removesuffix(".json"), path)
    return context


class ChangeWatcher:
    """Polls for changes while anybody listens, once for all of them."""

    def __init__(self, state: ServerState) -> None:
        self._state = state
        self._last = 0
        self._task: asyncio.Task[None] | None = None

    def position(self) -> int:
        """The sequence number of the last record; blocks."""
        with tracing.detached(), self._state.workspace() as workspace:
            return workspace.changes(None).last

    @property
    def last(self) -> int:
        """The last sequence number that was seen."""
        return self._last

    async def news(self, after: int, seconds: float) -> None:
        """Wait until there may be a record after a position, the server stops, or time is up."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._look())
        async with self._state.news:
            try:
                async with asyncio.timeout(seconds):
                    await self._state.news.wait_for(
                        lambda: self._last > after or self._state.stopping.is_set()
                    )
            except TimeoutError:
                return

    async def _look(self) -> None:
        while self._state.streams.count and not self._state.stopping.is_set():
            try:
                found = await self._state.for_all(self.position)
                self._last = max(self._last, found)
            except PassdownError:
                # The store may be unavailable for a while; each stream finds out by itself.
                self._last += 1
            async with self._state.news:
                self._state.news.notify_all()
            try:
                async with asyncio.timeout(POLL_SECONDS):
                    await self._state.stopping.wait()
            except TimeoutError:
                continue
        async with self._state.news:
            self._state.news.notify_all()


async def event_stream(
    state: ServerState, watcher: ChangeWatcher, caller: AccessToken, after: int, task: str
) -> AsyncGenerator[bytes]:
    """The text of one client's stream, until the server stops, the client leaves or its token ends.

    The stream was counted by `open_stream`.
    """

    def changes() -> Changes:
        # A stream lasts for hours: its looks would be spans without end.
        with tracing.detached(), state.workspace() as workspace:
            return workspace.changes(after, limit=_PAGE)

    spoke = time.monotonic()
    try:
        yield b": passdown\nretry: 2000\n\n"
        while not state.stopping.is_set():
            try:
                async with state.catching_up.of(caller.id):
                    found = (await state.for_caller(changes)).to_dict()
            except PassdownError:
                # The store is busy or unavailable: the client reconnects and continues.
                return
            shown = [each for each in found["changes"] if task in ("", each["task"])]
            is_all, after = found["last"] == after, found["last"]
            if shown:
                state.metrics.events += len(shown)
                spoke = time.monotonic()
                yield b"".join(map(event_bytes, shown))
            if not await state.is_live(caller):  # a stream may outlive its token
                return
            if is_all:
                await watcher.news(after, KEEP_ALIVE_SECONDS)
            if time.monotonic() - spoke >= KEEP_ALIVE_SECONDS:
                spoke = time.monotonic()
                yield b": alive\n\n"
    finally:
        state.streams.leave(caller.id)


async def live_stream(
    state: ServerState, watcher: ChangeWatcher, caller: AccessToken
) -> AsyncGenerator[bytes]:
    """The number of the last record, now and at each new one; `open_stream` counted the stream."""
    try:
        yield b"retry: 1000\n\n"
        last = await state.for_all(watcher.position)
        while not state.stopping.is_set() and await state.is_live(caller):
            yield f"data: {last}\n\n".encode()
            await watcher.news(last, KEEP_ALIVE_SECONDS)
            last = max(last, watcher.last)
    except PassdownError:
        return  # the store is unavailable: the browser connects again
    finally:
        state.streams.leave(caller.id)


def event_bytes(change: JsonObject) -> bytes:
    """One change as an event. JSON has no line breaks of its own, so no text can end it."""
    head = f"id: {change['seq']}\nevent: {change['kind']}\ndata: "
    return head.encode() + to_json(change) + b"\n\n"


def resume_position(last_event_id: str, given: int | None, last: int) -> int:
    """The position to continue from: what the client saw last, else what it asks for, else now.

    Raises MalformedRequest for a position that isn't in the ledger: nothing would ever come after
    it, and nobody would notice what was missed.
    """
    text = last_event_id.strip()
    is_number = text.isascii() and text.isdigit() and len(text) <= 18
    if text and not is_number:
        raise _unknown_position("Last-Event-ID", excerpt(text), last)
    after = int(text) if text else given
    if after is not None and after > last:
        raise _unknown_position("Last-Event-ID" if text else "after", str(after), last)
    return last if after is None else after


def _unknown_position(path: str, given: str, last: int) -> MalformedRequest:
    message = f"{given} is not in this ledger, whose last record is {last}"
    problem = Problem(path, "out_of_range", message, f"0 to {last}")
    step = "Read the state again, then connect without a position; it may be another store now."
    return MalformedRequest("the stream can't go on from there", [problem], next_step=step)


def open_stream(state: ServerState, caller: AccessToken) -> None:
    """Count one more stream; raises RateLimited if there are too many."""
    if state.stopping.is_set():
        raise NotAllowed("the server is stopping", next_step="Connect again in a while.")
    if not state.streams.enter(caller.id):
        raise RateLimited(
            "too many streams are open", next_step="Close one that nobody reads, then try again."
        )

"""The application: the table's rows as routes of FastAPI, behind the front.

Requests are read and rights are checked by the rows; the work itself is done in threads, since the
core is synchronous. What goes wrong is a problem document, always.
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
from passdown.errors import (
    InvalidInput,
    NotFound,
    PassdownError,
    Problem,
    RateLimited,
    StoreError,
)
from passdown.surfaces.web import (
    context_rows,
    decision_rows,
    graph_rows,
    keeping_rows,
    own_rows,
    reading_rows,
    relay_rows,
    task_rows,
    telling_rows,
    writing_rows,
)
from passdown.surfaces.web.answers import answered, with_etag
from passdown.surfaces.web.briefs import BriefCounter
from passdown.surfaces.web.events import MEDIA as EVENTS_MEDIA
from passdown.surfaces.web.events import Stream, Watch, check_room, resumed_after
from passdown.surfaces.web.front import VISIT, Front
from passdown.surfaces.web.mcp_door import PATH as MCP_PATH
from passdown.surfaces.web.mcp_door import McpDoor
from passdown.surfaces.web.openapi import DESCRIPTION, extra_of, responses_of
from passdown.surfaces.web.operations import Answer, Call, Operation, require
from passdown.surfaces.web.problems import (
    MEDIA,
    as_json,
    details,
    status_of,
    without_inside,
)
from passdown.surfaces.web.requests import Malformed, given_by
from passdown.surfaces.web.schemas import whole
from passdown.surfaces.web.spanning import doing, note_task
from passdown.surfaces.web.watching import add_plain
from passdown.workspace.beside import recorded_via
from passdown.workspace.seen import FIELD as FILES_SEEN
from passdown.workspace.seen import as_server

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from fastapi.telemetry import TelemetryConfig

    from passdown.model.access import Access
    from passdown.surfaces.web.front import App, Receive, Scope, Send
    from passdown.surfaces.web.house import House, Visit

    Endpoint = Callable[[Request], Awaitable[Response]]

OPERATIONS: tuple[Operation, ...] = (
    *task_rows.ROWS,
    *writing_rows.ROWS,
    *reading_rows.ROWS,
    *telling_rows.ROWS,
    *own_rows.ROWS,
    *context_rows.ROWS,
    *decision_rows.ROWS,
    *graph_rows.ROWS,
    *keeping_rows.ROWS,
    *relay_rows.ROWS,
)
_SMALL_BODY = 1 << 14
"""A larger body is read in a thread: that takes as long as many small requests."""
# The framework has spans and logs of its own, which quote what was sent; the front's stand alone.
_NO_SECOND_SPANS: TelemetryConfig = {
    "tracing": False,
    "metrics": False,
    "logs": False,
    "operation_spans": False,
    "auto_configure": False,
}
_EXPECTED = re.compile(r'"([0-9]{1,15})"')


def built(house: House) -> App:
    """The whole server as an ASGI application."""
    mcp = McpDoor(house)

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
        telemetry=_NO_SECOND_SPANS,
    )
    routes = _Routes(house)
    rows = {operation.name: operation for operation in OPERATIONS}
    endpoints = {name: routes.of(row) for name, row in rows.items()}
    endpoints["brief"] = routes.brief(rows["brief"])
    for name, row in rows.items():
        _add(app, row, endpoints[name])
    _add(app, _EVENTS, routes.events())
    add_plain(app, house)
    app.router.routes.append(Route(MCP_PATH, mcp))
    app.add_exception_handler(HTTPException, _not_routed)
    return Front(_Quick(app, endpoints["brief"]), house)


class _Quick:
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


def _add(app: FastAPI, operation: Operation, endpoint: Endpoint) -> None:
    app.add_api_route(
        operation.path,
        endpoint,
        methods=[operation.method],
        operation_id=operation.name,
        summary=operation.summary,
        status_code=operation.status,
        response_class=Response,
        responses=responses_of(operation),
        openapi_extra=extra_of(operation),
        tags=[operation.tag] if operation.tag else None,
    )


class _Routes:
    """Makes an endpoint of each row."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._briefs = BriefCounter(house)
        self._watch = Watch(house)
        self._heavy = asyncio.Semaphore(house.options.limits.heavy)

    def of(self, operation: Operation) -> Endpoint:
        """The endpoint of a row that is carried out in a thread."""

        async def endpoint(request: Request) -> Response:
            visit, caller = _visit(request, operation)
            try:
                is_small = len(visit.body) <= _SMALL_BODY
                call = _call(operation, request, visit, caller) if is_small else None
                await self._take_turn(operation, visit, caller)
                async with self._heavy if operation.is_heavy else nullcontext():
                    return await self._house.threads.for_caller(
                        self._carry, operation, request, visit, caller, call
                    )
            except Exception as error:  # noqa: BLE001
                return _problem(error, visit, has_condition=b"if-match" in _names(request))

        return endpoint

    async def _take_turn(self, operation: Operation, visit: Visit, caller: Access) -> None:
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
        operation: Operation,
        request: Request,
        visit: Visit,
        caller: Access,
        read: Call | None,
    ) -> Response:
        """Carry an operation out and spell its answer, all of it in the thread that this is."""
        call = read or _call(operation, request, visit, caller)
        only = "" if caller.may("others") else caller.name
        door = recorded_via(f"token:{caller.id}", author=only)
        with (
            self._house.workspace() as workspace,
            door,
            as_server(call.files_seen),
            doing(operation.name, workspace, visit),
        ):
            found = operation.carry(workspace, call)
        visit.notes += call.claims
        return answered(operation, call, found, request)

    def brief(self, operation: Operation) -> Endpoint:
        """The endpoint of briefs, which are made once for many."""

        async def endpoint(request: Request) -> Response:
            visit, caller = _visit(request, operation)
            question = (caller.id, request.scope["path"], request.scope["query_string"])
            try:
                waiting = self._briefs.known(question)
                if waiting is None:
                    call = _call(operation, request, visit, caller)
                    waiting = self._briefs.read(question, call, f"token:{caller.id}")
                note_task(visit, waiting.ask._asdict())
                body, etag = await self._briefs.answer(waiting, visit)
            except Exception as error:  # noqa: BLE001
                return _problem(error, visit)
            return with_etag(request, body, etag)

        return endpoint

    def events(self) -> Endpoint:
        """The endpoint of the stream of changes."""

        async def endpoint(request: Request) -> Response:
            visit, caller = _visit(request, _EVENTS)
            try:
                call = _call(_EVENTS, request, visit, caller)
                await visit.take(self._house.reads.of(caller.id))
                last = await self._house.threads.for_caller(self._watch.position)
                await visit.give_back()
                named = request.headers.get("last-event-id", "")
                after = resumed_after(named, call.given.get("after"), last)
                check_room(self._house, caller)
            except Exception as error:  # noqa: BLE001
                return _problem(error, visit)
            stream = Stream(self._house, self._watch, caller, after, call.given.get("task", ""))
            return StreamingResponse(self._counted(stream, caller), media_type=EVENTS_MEDIA)

        return endpoint

    async def _counted(self, stream: Stream, caller: Access) -> AsyncGenerator[bytes]:
        try:
            async for part in stream.lines():
                yield part
        finally:
            self._house.streams.leave(caller.id)


async def _never(*_: Any) -> Answer:
    raise AssertionError("events are streamed, not carried out")


_EVENTS = Operation(
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


def _visit(request: Request, operation: Operation) -> tuple[Visit, Access]:
    visit: Visit = request.scope[VISIT]
    visit.goes_to(operation.name, operation.path)
    if visit.caller is None:
        raise AssertionError("the front lets nobody in without a token")
    return visit, visit.caller


def _names(request: Request) -> set[bytes]:
    return {name for name, _ in request.scope["headers"]}


def _call(operation: Operation, request: Request, visit: Visit, caller: Access) -> Call:
    require(caller, operation.right)
    given = given_by(operation, request.path_params, request.scope["query_string"], visit.body)
    note_task(visit, given)
    files_seen = given.pop(FILES_SEEN, None) if operation.takes_files else None
    return Call(
        caller,
        given,
        expect_version=_expected(operation, request),
        key=_key(operation, request),
        files_seen=files_seen,
    )


def _expected(operation: Operation, request: Request) -> int | None:
    given = request.headers.get("if-match", "*")
    if given != "*" and not operation.takes_version and operation.method != "GET":
        problem = Problem("If-Match", "not_here", "has no meaning for this", "a write without it")
        raise Malformed("the condition can't be kept", [problem])
    if given == "*" or not operation.takes_version:
        return None
    match = _EXPECTED.fullmatch(given)
    if match is None:
        problem = Problem("If-Match", "invalid_form", f"{given[:40]!r}", 'one version, as "7"')
        raise Malformed("the condition can't be read", [problem])
    return int(match[1])


def _key(operation: Operation, request: Request) -> str | None:
    return request.headers.get("idempotency-key") if operation.takes_key else None


def _problem(error: Exception, visit: Visit, *, has_condition: bool = False) -> Response:
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
        error = without_inside(error, visit.number)
    status = 400 if isinstance(error, Malformed) else status_of(error, has_condition=has_condition)
    headers = {"Retry-After": "1"} if isinstance(error, (StoreError, RateLimited)) else None
    return Response(as_json(details(error, status)), status, headers=headers, media_type=MEDIA)


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
    return Response(as_json(details(problem, status)), status, headers=headers, media_type=MEDIA)


def _methods_at(request: Request) -> str:
    """Every method that an address has, whichever route serves it."""
    found: set[str] = set()
    for route in request.app.router.routes:
        if route.matches(request.scope)[0] is not Match.NONE:
            found |= route.methods or set()
    return ", ".join(sorted(found))


def _warm_up() -> None:
    """Load what the first brief and the first handoff need, before anybody waits for them."""
    from passdown.model.tokens import counter_of

    counter_of(None).tokens("ready")


__all__ = ["OPERATIONS", "built"]

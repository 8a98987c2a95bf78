"""Health, readiness, metrics and the OpenAPI document."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from starlette.responses import Response
from starlette.routing import Route

from passdown import tracing as spans
from passdown.errors import PassdownError
from passdown.web.gateway import REQUEST_CONTEXT
from passdown.web.openapi import with_components
from passdown.web.responses import PROBLEM_MEDIA, problem_document, to_json, without_internals
from passdown.web.telemetry import METRICS_MEDIA

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from fastapi import FastAPI
    from starlette.requests import Request

    from passdown.web.server_state import RequestContext, ServerState


if TYPE_CHECKING:
    Endpoint = Callable[[Request], Awaitable[Response]]


def add_status_routes(app: FastAPI, house: ServerState) -> None:
    """Add the addresses of these; the description itself is made when it is first asked for."""
    document: list[bytes] = []
    looks = _StoreCheck(house)

    async def health(request: Request) -> Response:
        return Response(b'{"status":"alive"}', media_type="application/json")

    async def ready(request: Request) -> Response:
        try:
            await looks.at_store()
        except PassdownError as error:
            visit: RequestContext = request.scope[REQUEST_CONTEXT]
            visit.notes.append(str(error))
            told = problem_document(without_internals(error, visit.number), 503)
            return Response(to_json(told), 503, media_type=PROBLEM_MEDIA)
        is_ready = not house.stopping.is_set()
        body = b'{"status":"ready"}' if is_ready else b'{"status":"stopping"}'
        return Response(body, 200 if is_ready else 503, media_type="application/json")

    async def metrics(request: Request) -> Response:
        text = house.metrics.text(streams=house.streams.count)
        return Response(text, headers={"Content-Type": METRICS_MEDIA})

    async def openapi(request: Request) -> Response:
        if not document:
            document.append(to_json(with_components(app.openapi())))
        return Response(document[0], media_type="application/json")

    for path, endpoint in (
        ("/health", health),
        ("/ready", ready),
        ("/metrics", metrics),
        ("/api/openapi.json", openapi),
    ):
        app.router.routes.append(Route(path, _with_metrics_name(endpoint, path), methods=["GET"]))


def _with_metrics_name(endpoint: Endpoint, path: str) -> Endpoint:
    """An endpoint that is counted under the last part of its address."""

    async def named(request: Request) -> Response:
        visit: RequestContext = request.scope[REQUEST_CONTEXT]
        visit.goes_to(path.rpartition("/")[2].removesuffix(".json"), path)
        return await endpoint(request)

    return named


class _StoreCheck:
    """Looks at the store for whoever asks. One looks, and all who asked before that have its
    answer: nobody needs a token for this, and it mustn't take threads from those who have one.
    """

    def __init__(self, house: ServerState) -> None:
        self._house = house
        self._lock = asyncio.Lock()
        self._looked_at = 0.0
        self._found: PassdownError | None = None

    async def at_store(self) -> None:
        """Raise what is wrong with the store, if anything is."""
        asked = time.monotonic()
        async with self._lock:
            if self._looked_at <= asked:
                self._looked_at = time.monotonic()
                self._found = await self._house.threads.for_all(self._look)
        if self._found is not None:
            raise self._found

    def _look(self) -> PassdownError | None:
        try:
            with spans.detached(), self._house.workspace() as workspace:
                workspace.tasks(limit=1)
        except PassdownError as error:
            return error
        return None

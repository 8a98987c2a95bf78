"""What watches the server: whether it lives, can work, what it has done, and what it offers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from starlette.responses import Response
from starlette.routing import Route

from passdown.errors import PassdownError
from passdown.surfaces.web.front import VISIT
from passdown.surfaces.web.metrics import MEDIA as METRICS_MEDIA
from passdown.surfaces.web.openapi import completed
from passdown.surfaces.web.problems import MEDIA, as_json, details, without_inside

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from fastapi import FastAPI
    from starlette.requests import Request

    from passdown.surfaces.web.house import House, Visit

    Endpoint = Callable[[Request], Awaitable[Response]]


def add_plain(app: FastAPI, house: House) -> None:
    """Add the addresses of these; the description itself is made when it is first asked for."""
    document: list[bytes] = []

    async def health(request: Request) -> Response:
        return Response(b'{"status":"alive"}', media_type="application/json")

    async def ready(request: Request) -> Response:
        try:
            await asyncio.to_thread(_look, house)
        except PassdownError as error:
            visit: Visit = request.scope[VISIT]
            visit.notes.append(str(error))
            told = details(without_inside(error, visit.number), 503)
            return Response(as_json(told), 503, media_type=MEDIA)
        is_ready = not house.stopping.is_set()
        body = b'{"status":"ready"}' if is_ready else b'{"status":"stopping"}'
        return Response(body, 200 if is_ready else 503, media_type="application/json")

    async def metrics(request: Request) -> Response:
        text = house.metrics.text(streams=house.streams.count)
        return Response(text, headers={"Content-Type": METRICS_MEDIA})

    async def openapi(request: Request) -> Response:
        if not document:
            document.append(as_json(completed(app.openapi())))
        return Response(document[0], media_type="application/json")

    for path, endpoint in (
        ("/health", health),
        ("/ready", ready),
        ("/metrics", metrics),
        ("/api/openapi.json", openapi),
    ):
        app.router.routes.append(Route(path, _named(endpoint, path), methods=["GET"]))


def _named(endpoint: Endpoint, path: str) -> Endpoint:
    """An endpoint that is counted under the last part of its address."""

    async def named(request: Request) -> Response:
        visit: Visit = request.scope[VISIT]
        visit.goes_to(path.rpartition("/")[2].removesuffix(".json"), path)
        return await endpoint(request)

    return named


def _look(house: House) -> None:
    with house.workspace() as workspace:
        workspace.tasks(limit=1)

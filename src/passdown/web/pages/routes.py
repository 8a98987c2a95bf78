"""Routes of the dashboard: its pages, the files they load, and signing in."""

from __future__ import annotations

import hashlib
import os
from functools import cache, partial
from typing import TYPE_CHECKING, NamedTuple

from passdown.errors import NotFound
from passdown.web.openapi import string
from passdown.web.pages.attention import attention_page, findings_page
from passdown.web.pages.charts import (
    audit_page,
    growth_page,
    knowledge_page,
    run_page,
    runs_page,
)
from passdown.web.pages.layout import STATIC_FOLDER, frame, sign_in_page
from passdown.web.pages.lists import (
    agent_page,
    agents_page,
    board_page,
    integrity_page,
    search_page,
    verified_page,
)
from passdown.web.pages.task import given_page, item_page, task_page
from passdown.web.requests import ApiRequest, ApiResult, ApiRoute

if TYPE_CHECKING:
    from collections.abc import Callable

    from passdown.web.pages.page import Page

HTML = "text/html"
_MEDIA = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}


class StaticFile(NamedTuple):
    """A file that pages load, its media type and its ETag."""

    body: bytes
    media: str
    etag: str


@cache
def static_file(name: str) -> StaticFile:
    """One of the files that come with the package; raises NotFound."""
    if name not in os.listdir(STATIC_FOLDER):
        raise NotFound("there is no such file")
    with open(os.path.join(STATIC_FOLDER, name), "rb") as file:
        body = file.read()
    media = _MEDIA[os.path.splitext(name)[1]]
    return StaticFile(body, media, f'"{hashlib.sha256(body).hexdigest()[:20]}"')


def page_routes() -> tuple[ApiRoute, ...]:
    """Every page, those with a fixed path first."""
    return (
        _page("attention", "/", attention_page, "kind", "after"),
        _page("findings", "/findings", findings_page, "again"),
        _page("task", "/tasks/{task}", task_page, "old", "new", "before"),
        _page("given", "/tasks/{task}/given/{number}", given_page),
        _page("item", "/items/{item}", item_page),
        _page("board", "/board", board_page, "by", "status", "phase", "agent", "words", "after"),
        _page("search", "/search", search_page, "query", "kind", "agent", "task", "live"),
        _page("agents", "/agents", agents_page),
        _page("agent", "/agents/{agent}", agent_page, "task"),
        _page("runs", "/runs", runs_page, is_heavy=True),
        _page("run", "/runs/{run}", run_page, is_heavy=True),
        _page("growth", "/growth", growth_page, "task"),
        _page("knowledge", "/knowledge", knowledge_page, "type", "tag", "around", is_heavy=True),
        _page("audit", "/knowledge/audit", audit_page, "again"),
        _page("integrity", "/integrity", integrity_page),
        _page("verified", "/integrity/verified", verified_page, "again"),
    )


def _page(
    name: str,
    path: str,
    view: Callable[[ApiRequest], Page],
    *query: str,
    is_heavy: bool = False,
) -> ApiRoute:
    parameters = [part[1:-1] for part in path.split("/") if part.startswith("{")]
    return ApiRoute(
        f"page_{name}",
        "GET",
        path,
        "read",
        f"The page {name}",
        partial(_framed, view, "/" + path.split("/")[1]),
        parameters={each: string() for each in parameters},
        query={each: string() for each in query},
        media=(("", HTML),),
        is_heavy=is_heavy,
    )


def _framed(view: Callable[[ApiRequest], Page], path: str, call: ApiRequest) -> ApiResult:
    page = view(call)
    whole = frame(
        call.caller,
        page.title,
        *page.content,
        path=path,
        form=call.form,
        api=page.api,
        workspace=os.path.basename(call.workspace.root),
    )
    return ApiResult(None, text=str(whole), media=HTML)


def sign_in_html() -> str:
    """The page for signing in."""
    return str(sign_in_page())

"""What all pages have: the frame, the list of views, and buttons that call operations."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from passdown.operations import OPERATION
from passdown.web.pages.markup import Html, address, joined, link, tag

if TYPE_CHECKING:
    from passdown.core.access import AccessToken

CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)


STATIC_FOLDER = os.path.join(os.path.dirname(__file__), "static")


def style_text() -> str:
    """The style sheet of all pages."""
    with open(os.path.join(STATIC_FOLDER, "style.css"), encoding="utf-8") as file:
        return file.read()


class NavigationEntry(NamedTuple):
    """A view in the list: its path, its name, and the key that follows `g`."""

    path: str
    name: str
    key: str


VIEWS = (
    NavigationEntry("/", "Attention", "a"),
    NavigationEntry("/board", "Board", "b"),
    NavigationEntry("/search", "Search", "s"),
    NavigationEntry("/knowledge", "Knowledge", "k"),
    NavigationEntry("/runs", "Runs", "r"),
    NavigationEntry("/agents", "Agents", "p"),
    NavigationEntry("/growth", "Growth", "t"),
    NavigationEntry("/integrity", "Integrity", "i"),
)


class Field(NamedTuple):
    """What a person is asked before an operation is called."""

    name: str
    label: str
    is_needed: bool = True
    choices: tuple[str, ...] = ()


def action(
    caller: AccessToken,
    operation: str,
    label: str,
    key: str,
    path: dict[str, str],
    *fields: Field,
    asks: bool = False,
    **body: Any,
) -> Html:
    """A button that calls an operation over the API; nothing if the caller may not call it. With
    `asks`, a person is asked first, even if there is nothing to fill in.
    """
    row = OPERATION[operation]
    if not caller.may(row.right):
        return Html()
    method, _, route = row.http.partition(" ")
    target = re.sub(r"{(\w+)}", lambda found: quote(path[found[1]], safe=""), route)
    return tag(
        "button",
        label,
        tag("kbd", key, aria_hidden="true"),
        type="button",
        class_="act",
        data_key=key,
        data_method=method,
        data_path=target,
        data_body=json.dumps(body),
        data_fields=json.dumps([field._asdict() for field in fields]) if fields or asks else None,
        data_title=f"{label}: {next(iter(path.values()), '') or body.get('task', '')}",
    )


def frame(
    caller: AccessToken,
    title: str,
    *content: object,
    path: str,
    form: str,
    api: str = "",
    workspace: str = "",
) -> Html:
    """A whole page. `api` is the operation that has the same as JSON."""
    entries = [
        link(
            view.path,
            tag("span", view.name),
            tag("kbd", f"g {view.key}", aria_hidden="true"),
            aria_current="page" if view.path == path else None,
            data_go=view.key,
        )
        for view in VIEWS
    ]
    quick = tag(
        "form",
        tag("label", "Search", for_="quick", class_="hidden"),
        tag("input", type="search", id="quick", name="query", placeholder="Search  /"),
        action="/search",
        role="search",
    )
    side = tag(
        "header",
        link("/", "Passdown", class_="brand"),
        tag("p", workspace, class_="workspace", title=workspace),
        quick,
        tag("nav", *entries, aria_label="Views"),
        tag(
            "p",
            tag("span", "connecting", id="live", role="status"),
            tag("span", caller.name, class_="who"),
            tag("button", "Keys", tag("kbd", "?"), type="button", id="help"),
            tag("button", "Sign out", type="button", id="sign-out"),
            class_="foot",
        ),
    )
    json_link = api and tag(
        "p", link(api, "This page as JSON", class_="json", rel="alternate"), class_="source"
    )
    return document(
        title,
        link("#content", "Skip to content", class_="skip"),
        side,
        tag("main", *content, json_link, id="content", tabindex="-1"),
        tag("div", id="messages", role="status", aria_live="polite"),
        meta=tag("meta", name="passdown-form", content=form),
    )


def document(title: str, *body: object, meta: Html | None = None) -> Html:
    """A document of HTML around a body."""
    head = (
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"{title} · Passdown"),
        tag("link", rel="icon", href="/static/icon.svg", type="image/svg+xml"),
        tag("link", rel="stylesheet", href="/static/style.css"),
        tag("script", type="module", src="/static/dashboard.js"),
        meta,
    )
    whole = tag("html", tag("head", *head), tag("body", *body), lang="en")
    return Html(f"<!doctype html>\n{joined(whole)}")


def sign_in_page() -> Html:
    """The page that exchanges the code in its address for a cookie."""
    said = tag("p", "Signing in…", id="sign-in", role="status")
    how = tag(
        "p",
        "Run ",
        tag("code", "passdown ui"),
        " in a terminal: it opens this page with a link that works once, within a minute.",
    )
    return document("Sign in", tag("main", tag("h1", "Passdown"), said, how, class_="alone"))


def error_page(problem: dict[str, Any]) -> Html:
    """The page for an error. A next step that names the API is for programs, so it isn't shown."""
    listed = [
        tag(
            "li",
            f"{each.get('path', '')} {each.get('message', '')}".strip(),
            each.get("expected") and f"; expected: {each['expected']}",
        )
        for each in problem.get("problems", ())
    ]
    step = problem["next_step"]
    content = (
        tag("h1", problem["title"]),
        tag("p", problem["detail"]),
        tag("ul", *listed) if listed else None,
        None if "/api/" in step else tag("p", step),
        tag("p", link("/", "Attention"), " shows what waits for you, and leads to every view."),
    )
    return document(problem["title"], tag("main", *content, class_="alone"))


def task_link(task: str, *children: object) -> Html:
    """A link to a task's page."""
    return link(address("tasks", task), *(children or (task,)), class_="task")

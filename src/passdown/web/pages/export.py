"""A task, or all tasks, as one file of HTML: nothing is loaded, nothing runs, no link leads out."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from passdown.core.access import AccessToken
from passdown.web.pages.layout import style_text
from passdown.web.pages.markup import Html, address, most_of, tag, whole
from passdown.web.pages.task import given_page, task_parts
from passdown.web.requests import ApiRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from passdown.workspace import Workspace

_READER = AccessToken("", "reader", False, ("read",), "", "")
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def export_html(workspace: Workspace, tasks: Sequence[str], title: str) -> str:
    """The pages of some tasks in one document, with a list of them where there are several."""
    with whole():
        parts = [_task(workspace, task) for task in tasks]
    contents = [tag("li", tag("a", task, href=f"#task-{task}")) for task in tasks]
    body = tag("main", len(tasks) > 1 and tag("ul", *contents), *parts, class_="file")
    head = (
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", title),
        tag("style", Html(style_text())),
    )
    page = tag("html", tag("head", *head), tag("body", body, class_="file"), lang="en")
    return "<!doctype html>\n" + re.sub(r' href="(/[^"]*)"', _inside(set(tasks)), page)


def _inside(tasks: set[str]) -> Callable[[re.Match[str]], str]:
    """Replaces the address of a page by a place in this file, or by nothing."""
    places = {address("tasks", task): f' href="#task-{task}"' for task in tasks}

    def replaced(found: re.Match[str]) -> str:
        return places.get(found[1], "")

    return replaced


def _task(workspace: Workspace, task: str) -> Html:
    call = ApiRequest(_READER, {"task": task})
    call.workspace = workspace
    content = [*task_parts(call, is_file=True)]
    for given in workspace.context.deliveries(task, limit=most_of(1)):
        call.arguments = {"task": task, "number": str(given.number)}
        page = given_page(call)
        name = f"What {given.agent} was given, {given.at[:16].replace('T', ' ')} UTC"
        content.append(tag("details", tag("summary", name), *page.content[1:]))
    # Addresses within a page are of one task; here there may be several.
    inside = re.sub(r' (id|href)="(#?)(?!/)', rf' \1="\2{task}-', tag("div", *content))
    return tag("article", Html(inside), id=f"task-{task}")

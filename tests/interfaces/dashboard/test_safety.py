"""Stored text is text on every page, at every width, in both schemes, for every reader."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Any

import pytest

from passdown.errors import InvalidInput
from passdown.web.pages.layout import VIEWS
from tests.interfaces.dashboard.conftest import opened_page

if TYPE_CHECKING:
    from passdown import Workspace
    from tests.serving import Served

pytestmark = pytest.mark.promise("W-24")

OWN = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "[click](javascript:alert(1))",
    "![x](http://evil.example/beacon)",
    "javascript:/*--></title></style></textarea></script><svg/onload='alert(1)'>",
    "__proto__",
    "constructor",
    "\"><svg onload=alert(1)> ' onmouseover='alert(1)",
    "safe\u202e\u2066txt.exe\u2069",
]
WIDTHS = (390, 800, 1400)


def collected() -> list[str]:
    """The entries of the larger table for pages, where PASSDOWN_DATA names a folder with it."""
    path = os.path.join(os.environ.get("PASSDOWN_DATA", ""), "bad_inputs.jsonl")
    if not os.environ.get("PASSDOWN_DATA") or not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        entries = [json.loads(line) for line in file]
    return [each["input"] for each in entries if each["surface"] == "dashboard_html"]


def hostile(ws: Workspace, text: str, number: int) -> None:
    """A text in every field that takes it."""
    task = f"H-{number}"
    ws.create_task(task, title=text, agent="planner", description=text, criteria=[text])
    ws.decide(task=task, agent="planner", summary=text, rationale=text, alternatives=[text])
    ws.warn(task, text=text, agent="planner")
    fields: dict[str, Any] = {
        "blockers": [
            {"blocker": text, "impact": text, "requires_human": True, "suggested_resolution": text}
        ],
        "questions": [f"{text}?"],
        "gotchas": [{"issue": text, "mitigation": text, "severity": "high"}],
        "patterns": [{"pattern": text, "location": "src"}],
        "suggested_next_steps": [{"step": text, "priority": "high"}],
    }
    word = re.sub(r"[^!-+.0-9;-~-]|\\", "_", text)[:80].lower()  # as paths and tags take it
    ws.hand_off(
        {"task": task, "from_agent": "planner", "to_agent": "coder", "outcome": "partial"},
        summary=text,
        files_modified=[
            {"path": f"{word}.py", "change_type": "delete", "lines": "all", "description": text}
        ],
        **fields,
    )
    ws.record_gate(task, agent="coder", name=word[:40], passed=False, detail=text)
    node = {"id": f"N{number} {word}", "type": "component", "summary": text[:100], "tags": [word]}
    ws.knowledge.add(
        nodes=[{**node, "attributes": {"description": text}}], agent="planner", task=task
    )
    ws.brief(task, agent="coder", budget=200)


def paths(ws: Workspace) -> list[str]:
    tasks = [each.task for each in ws.tasks()]
    shown = [f"/tasks/{task}" for task in tasks[-2:]]
    shown += [f"/tasks/{tasks[-1]}?old=1&new=3", f"/tasks/{tasks[-1]}/given/1"]
    shown += [f"/items/{tasks[-1]}%23{letter}1" for letter in "dk"]
    return [*(view.path for view in VIEWS), "/search?query=alert", *shown]


def test_stored_text_runs_nothing_and_loads_nothing(
    browser: Any, server: Served, ws: Workspace
) -> None:
    """No dialog, no console message, no request to anywhere else; the text is as it was written."""
    texts = [*OWN, *collected()]
    for number, text in enumerate(texts):
        hostile(ws, text, number)
    with opened_page(browser, server) as page:
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))  # pyright: ignore[reportUnknownLambdaType, reportUnknownMemberType, reportUnknownArgumentType]
        for path in paths(ws):
            page.goto(server.url + path, wait_until="load")
            assert (
                page.locator("main script, main iframe, main object, main a[href^=java]").count()
                == 0
            )
            assert (
                page.evaluate(
                    "document.querySelectorAll('[onerror],[onload],[onmouseover]').length"
                )
                == 0
            )
        for number, text in enumerate(texts):
            page.goto(f"{server.url}/tasks/H-{number}")
            shown = page.locator("h1").inner_text()
            if text.isprintable():
                assert text in shown
            else:
                assert "\u202e" not in shown
        assert {url.split("/")[2] for url in asked} == {f"127.0.0.1:{server.port}"}


def test_a_field_of_a_megabyte_is_shown_in_part(page: Any, ws: Workspace) -> None:
    """The largest text that is taken, or more: pages show the beginning."""
    size = 1_000_000
    while size:
        try:
            ws.decide(task="T-1", agent="planner", summary="Long", rationale="word " * (size // 5))
            break
        except InvalidInput:
            size //= 2
    assert size
    base = page.url
    for path in ("tasks/T-1", "items/T-1%23d1", "search?query=word"):
        page.goto(base + path)
        assert len(page.content()) < 120_000


def test_nothing_overflows_or_overlaps_at_any_width(
    browser: Any, server: Served, ws: Workspace
) -> None:
    hostile(ws, "x" * 300 + " and " + "y" * 90, 1)
    with opened_page(browser, server) as page:
        for path in paths(ws):
            page.goto(server.url + path)
            for width in WIDTHS:
                page.set_viewport_size({"width": width, "height": 900})
                assert page.evaluate("document.documentElement.scrollWidth") <= width, (width, path)
                overlaps = page.evaluate(_OVERLAPS)
                assert overlaps == [], (width, path)


_OVERLAPS = """() => {
  const parts = "nav a, .row .title, .acts button, .facts > *, h1, h2, .chip";
  const boxes = [...document.querySelectorAll(parts)]
    .filter((each) => each.checkVisibility() && !each.closest("details:not([open])"))
    .map((each) => [each, each.getBoundingClientRect()]);
  const found = [];
  for (const [one, a] of boxes) for (const [other, b] of boxes) {
    if (one === other || one.contains(other) || other.contains(one)) continue;
    const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
    const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
    if (wide > 2 && high > 2) found.push([one, other].map((each) => each.outerHTML.slice(0, 80)));
  }
  return found.slice(0, 3);
}"""


def test_every_page_can_be_used_with_a_screen_reader(
    browser: Any, server: Served, ws: Workspace
) -> None:
    """No violation that axe finds, in the light; and enough contrast in the dark."""
    axe = pytest.importorskip("axe_core_python.base").AXE_SCRIPT
    hostile(ws, "Is half up right?", 1)
    # The script is put into the page by the test, which the page's own rules wouldn't allow.
    with opened_page(browser, server, bypass_csp=True) as page:
        for path in [*paths(ws), "/nothing-here"]:
            page.emulate_media(color_scheme="light")
            page.goto(server.url + path)
            page.wait_for_selector(".loading", state="detached")
            page.evaluate(axe)
            found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
            page.emulate_media(color_scheme="dark")
            dark = page.evaluate("axe.run(document, {runOnly: ['color-contrast']})")
            violations = found["violations"] + dark["violations"]
            said = [
                (each["id"], [node["html"][:200] for node in each["nodes"][:3]])
                for each in violations
            ]
            assert said == [], path
        page.said.clear()  # the page that isn't there is logged by the browser

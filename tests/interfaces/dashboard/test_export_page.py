"""`passdown export --html`: one file that can be sent, read anywhere, and does nothing."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

import passdown
from passdown.testing import full_handoff, write_files
from tests.interfaces.dashboard.conftest import QUICK
from tests.interfaces.web.asking import ask
from tests.serving import served

if TYPE_CHECKING:
    from pathlib import Path

    from tests.interfaces.running import Run

pytestmark = pytest.mark.promise("W-24")
HOSTILE = "<script>alert(1)</script><img src=http://evil.example/x onerror=alert(1)>"


def test_a_task_or_a_workspace_is_one_file(browser: Any, project: Path, cli: Run) -> None:
    with passdown.open(str(project), settings=QUICK) as ws:
        ws.create_task("T-1", title="Login", agent="planner")
        ws.decide(task="T-1", agent="planner", summary=HOSTILE, rationale=HOSTILE)
        ws.brief("T-1", agent="coder", budget=300)
        ws.create_task("T-2", title="Roll-out", agent="planner", depends_on=["T-1"])
    assert "1 task is in t1.html" in cli("export", "--html", "t1.html", "--task", "T-1").out
    assert "2 tasks are in all.html" in cli("export", "--html", "all.html").out
    said: list[str] = []
    page = browser.new_page()
    page.on("request", lambda request: said.append(request.url))  # pyright: ignore[reportUnknownLambdaType, reportUnknownMemberType, reportUnknownArgumentType]
    page.on("dialog", lambda dialog: said.append(str(dialog)))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    page.goto((project / "all.html").as_uri())
    assert said == [(project / "all.html").as_uri()]
    shown = page.locator("body").inner_text()
    assert HOSTILE in shown
    page.click("ul a >> text=T-2")
    assert page.url.endswith("#task-T-2")
    text = (project / "all.html").read_text("utf-8")
    assert not re.findall(r'(?:href|src)="(?!#)', text)
    assert len(re.findall(r' id="([^"]*)"', text)) == len(set(re.findall(r' id="([^"]*)"', text)))
    page.close()
    refused = cli("export", "--html", "all.html", code=1)
    assert "all.html" in refused.err


def test_nothing_is_cut_in_the_file(project: Path, cli: Run) -> None:
    """Neither a long text nor a long list; a page says what it cuts."""
    with passdown.open(str(project), settings=QUICK) as ws:
        ws.create_task("T-1", title="Login", agent="planner", criteria=["<b>one", "two"])
        end = "the very end"
        ws.decide(
            task="T-1",
            agent="planner",
            summary=f"{'short ' * 70} {end} 0",
            rationale=f"{'long ' * 5_000} {end} 1",
        )
        for number in range(45):
            ws.warn("T-1", text=f"warning {number} end", agent="planner")
            ws.brief("T-1", agent="coder", budget=200 + number)
        with served(ws) as server:
            token = server.token("ann", "read")
            page = ask(server.port, "GET", "/tasks/T-1?before=9", token=token).body.decode()
            item = ask(server.port, "GET", "/items/T-1%23d1", token=token).body.decode()
    cli("export", "--html", "t1.html", "--task", "T-1")
    text = (project / "t1.html").read_text("utf-8")
    timeline = text.partition("T-1-compare")[0].partition("T-1-files")[0]
    for number in range(2):
        assert f"{end} {number}" in timeline
    assert all(f"warning {number} end" in timeline for number in range(45))
    assert text.count("What coder was given") == 45
    assert re.search(r"characters\)", page), "a page says that a text was cut"
    assert re.search(r"… \(2\d,\d+ characters\)", item)
    assert "[&#x27;" not in page + item + text, "no list is shown as a program writes it"


def test_everything_that_a_handoff_says_is_in_the_file(project: Path, cli: Run) -> None:
    with passdown.open(str(project), settings=QUICK) as ws:
        write_files(str(project))
        ws.create_task("T-1", title="Login", agent="planner")
        ws.hand_off(full_handoff("T-1", from_agent="planner", to_agent="coder"))
        ws.brief("T-1", agent="coder", budget=300)
        wanted = [item.address for item in ws.brief("T-1", agent="coder", record=False).shown]
    cli("export", "--html", "t1.html", "--task", "T-1")
    text = (project / "t1.html").read_text("utf-8")
    for address in wanted:
        assert address in text
    assert "What coder was given" in text

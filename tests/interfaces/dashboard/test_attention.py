"""Attention: where a person must act, and acting by key."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import passdown
from passdown.web.pages import attention
from tests.interfaces.dashboard.conftest import QUICK, damage_first_record, opened_page, visit
from tests.interfaces.web.asking import ask
from tests.serving import served

if TYPE_CHECKING:
    from passdown import Workspace
    from tests.serving import Served

pytestmark = pytest.mark.promise("W-22")


def blocked(ws: Workspace) -> None:
    """A gate for a person, a question, a failed gate, and a task that another one blocks."""
    ws.create_task("T-2", title="Roll-out", agent="planner")
    ws.hand_off(
        task="T-1",
        from_agent="planner",
        to_agent="coder",
        outcome="partial",
        summary="half of it",
        blockers=[
            {"blocker": "Is half up right?", "requires_human": True},
            {"blocker": "No key", "blocking_tasks": ["T-2"]},
        ],
        questions=["Which port?"],
        next_steps=["go on"],
    )
    ws.record_gate("T-1", agent="coder", name="lint", passed=False)


def row(kind: str) -> str:
    return f".row.{kind}"


def test_each_entry_is_settled_by_a_key(page: Any, server: Served, ws: Workspace) -> None:
    blocked(ws)
    page.wait_for_selector(row("gate"))
    page.keyboard.press("j")
    assert "gate" in page.evaluate("document.activeElement.className")
    page.keyboard.press("a")
    page.keyboard.type("checked")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(row("gate"), state="detached")
    (gate,) = [each for each in ws.gates("T-1", all=True) if each.kind == "human"]
    assert (gate.status, gate.answered_by, gate.reason) == ("approved", "kim", "checked")
    page.locator(row("question")).focus()
    page.keyboard.press("w")
    page.keyboard.type("8080")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(row("question"), state="detached")
    page.locator(row("blocked")).first.focus()
    page.keyboard.press("s")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(row("blocked"), state="detached")
    assert ws.task("T-2").status == "open"
    page.locator(row("failed_gate")).focus()
    page.keyboard.press("h")
    page.keyboard.type("tester")
    page.keyboard.press("Tab")
    page.keyboard.type("look at lint")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("#messages p:has-text('Hand over')")
    assert ws.task("T-1").holder == "tester"


def test_a_gate_and_a_question_are_settled_on_the_task_s_page(page: Any, ws: Workspace) -> None:
    blocked(ws)
    visit(page, page.url + "tasks/T-1")
    for kind, key in (("gate", "a"), ("question", "w")):
        page.locator(row(kind)).focus()
        page.keyboard.press(key)
        page.keyboard.type("yes")
        page.keyboard.press("Control+Enter")
        page.wait_for_selector(row(kind), state="detached")
    assert not [each for each in ws.gates("T-1") if each.kind == "human"]


def test_what_a_token_may_not_do_isn_t_offered(browser: Any, server: Served, ws: Workspace) -> None:
    blocked(ws)
    with opened_page(browser, server, "read") as page:
        page.wait_for_selector(row("gate"))
        assert page.locator("button.act").count() == 0
        page.locator(row("gate")).focus()
        page.keyboard.press("a")
        assert page.locator("dialog").count() == 0


def test_a_refusal_is_shown_and_changes_nothing(page: Any, ws: Workspace) -> None:
    """Two people at once: the second one is told."""
    blocked(ws)
    page.locator(row("gate")).focus()
    page.keyboard.press("r")
    page.keyboard.type("no")
    gate = next(each for each in ws.gates() if each.kind == "human")
    ws.approve(gate.address, by="ann", reason="yes")
    # What is being typed outlives the change of the page behind it.
    page.wait_for_selector(row("gate"), state="detached")
    assert page.locator("dialog textarea").input_value() == "no"
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("#messages .error")
    page.said.clear()  # the browser logs the answer 409 itself
    assert page.locator("dialog [role=alert]").inner_text(), "said where one looks"
    assert page.locator("dialog textarea").input_value() == "no", "and what was typed stays"
    page.keyboard.press("Escape")
    assert next(each for each in ws.gates(all=True) if each.kind == "human").answered_by == "ann"


def test_an_agent_that_is_silent_is_released(browser: Any, tmp_path: Path) -> None:
    earlier = datetime.now(UTC) - timedelta(hours=2)
    root = str(tmp_path)
    with passdown.open(root, settings=QUICK, clock=lambda: earlier) as before:
        before.create_task("T-1", title="Login", agent="planner")
        before.update_task("T-1", agent="coder", holder="coder")
        assert before.maintenance.attention().entries == []
    with passdown.open(root, settings=QUICK) as ws, served(ws) as server:
        with opened_page(browser, server) as page:
            page.locator(row("silent")).focus()
            page.keyboard.press("x")
            page.keyboard.press("Enter")  # asked first
            page.wait_for_selector(row("silent"), state="detached")
        assert ws.task("T-1").claimed_by == ""


def test_the_page_says_that_nothing_waits(page: Any) -> None:
    assert page.locator(".empty").inner_text() == "Nothing waits for you."
    page.wait_for_selector("text=Records and files: no findings.")


def test_an_open_page_repeats_its_checks(page: Any, server: Served, ws: Workspace) -> None:
    """Damage while a page is open is shown first, and counted, after the next record."""
    other = page.context.new_page()
    visit(other, server.url + "/integrity")
    other.wait_for_selector("#verified .good")
    page.wait_for_selector("text=Records and files: no findings.")
    damage_first_record(Path(ws.root))
    with passdown.open(ws.root, settings=QUICK) as beside:
        beside.create_task("T-9", title="Next", agent="planner")
    page.bring_to_front()
    page.wait_for_selector("#damage .row.damage >> text=task/T-1@1")
    count = page.locator("[data-row]").count()
    assert page.title().startswith(f"({count}) ")
    assert page.locator("#count").inner_text().startswith(f"{count} ")
    assert "damage" in page.locator("[data-row]").first.get_attribute("class")
    assert page.locator("#nothing").count() == 0 or page.locator("#nothing").is_hidden()
    other.bring_to_front()
    other.wait_for_selector("#verified .bad >> text=task/T-1@1")


def test_every_entry_of_a_kind_has_its_page(page: Any, server: Served, ws: Workspace) -> None:
    """However many there are: the first page names the kinds of which there are more."""
    asked = [f"Question {number}?" for number in range(210)]
    ws.hand_off(
        {"task": "T-1", "from_agent": "planner", "outcome": "completed"},
        summary="half",
        questions=asked,
    )
    page.click("text=More than 50 of Question")
    page.wait_for_selector("#live[data-state=live]")
    shown = [each.get_attribute("id") for each in page.locator(row("question")).all()]
    page.click("text=More of these")
    page.wait_for_selector("h1 >> text=201 to 210")
    shown += [each.get_attribute("id") for each in page.locator(row("question")).all()]
    assert len(set(shown)) == len(shown) == 210
    assert page.locator("text=More of these").count() == 0
    page.click("text=All of Attention")
    page.wait_for_selector("text=More than 50 of Question")


def test_a_check_is_repeated_when_one_asks(page: Any, ws: Workspace) -> None:
    """A file that changes makes no record: the kept result says how old it is."""
    file = Path(ws.root) / "src" / "config.py"
    ws.decide(task="T-1", agent="ann", summary="Here", rationale="r", artifacts=["src/config.py"])
    page.reload()
    page.wait_for_selector("#findings .checked >> text=Checked")
    assert page.locator("#findings .row").count() == 0
    file.write_text("other = 1\n")
    page.keyboard.press("v")
    page.wait_for_selector("#findings .row.changed_files >> text=src/config.py")


def test_nobody_waits_for_a_check(
    server: Served, ws: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its page answers while it runs, and so do those that read much of the store."""
    go, checks = threading.Event(), list[str]()

    def slow(workspace: Workspace) -> Any:
        checks.append("begun")
        assert go.wait(240)
        return found(workspace)

    found = attention._findings  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(attention, "_findings", slow)
    token, shown = server.token("ann", "read"), ""
    for _ in range(2):
        shown = ask(server.port, "GET", "/findings", token=token).body.decode()
        assert "Checking all records" in shown
        assert 'data-again="' in shown, "the page asks again"
    assert ask(server.port, "GET", "/runs", token=token).status == 200
    go.set()
    while "no findings" not in shown:
        shown = ask(server.port, "GET", "/findings?again=1", token=token).body.decode()
    assert "Checked " in shown
    assert len(checks) <= 3, "one at a time, for everybody"


def test_a_page_says_that_it_is_out_of_date(page: Any, server: Served, ws: Workspace) -> None:
    page.route(server.url + "/", lambda route: route.fulfill(status=503, body="no"))  # pyright: ignore[reportUnknownLambdaType, reportUnknownMemberType, reportUnknownArgumentType]
    blocked(ws)
    page.wait_for_selector("#live[data-state='out of date']")
    page.unroute(server.url + "/")
    page.wait_for_selector("#live[data-state=live]")
    page.wait_for_selector(row("gate"))
    page.said.clear()  # the browser logs the answer 503 itself


def test_findings_of_checks_come_after_the_page(
    browser: Any, server: Served, ws: Workspace
) -> None:
    """A decision whose file has changed, one with two successors, and a damaged record."""
    file = Path(ws.root) / "src" / "config.py"
    old = ws.decide(
        task="T-1", agent="ann", summary="One file", rationale="r", artifacts=["src/config.py"]
    ).items[0]
    for other in ("Two files", "Three files"):
        ws.decide(task="T-1", agent="ann", summary=other, rationale="r", supersedes=[old])
    ws.decide(task="T-1", agent="ann", summary="Here", rationale="r", artifacts=["src/config.py"])
    file.write_text("other = 1\n")
    damage_first_record(Path(ws.root))
    with opened_page(browser, server) as page:
        page.wait_for_selector("#damage .row.damage >> text=task/T-1@1")
        page.wait_for_selector("#findings .row.changed_files >> text=src/config.py")
        page.wait_for_selector("#findings .row.fork >> text=One file")
        page.locator("#damage .row.damage").first.focus()
        page.keyboard.press("Enter")
        page.wait_for_url("**/integrity")
        page.wait_for_selector("#verified .bad >> text=task/T-1@1")

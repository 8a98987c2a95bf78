"""Every view in a browser: what it shows, its keys, and that it stays current."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

import passdown
from passdown.core.index_entries import FINDABLE_KINDS
from passdown.testing import full_handoff
from passdown.web.pages.layout import VIEWS
from passdown.workspace.streams import WorkspaceStreams
from tests.interfaces.dashboard.conftest import (
    QUICK,
    damage_first_record,
    opened_page,
    sign_in_link,
    visit,
)
from tests.interfaces.web.asking import ask
from tests.relay.relays import document, leg
from tests.relay.staging import Stage, reply
from tests.serving import EVERY_RIGHT, served

if TYPE_CHECKING:
    from pathlib import Path

    from passdown import Workspace
    from tests.serving import Served

pytestmark = pytest.mark.promise("W-23")


def handed_on(ws: Workspace) -> None:
    """A task that two agents had, with a brief for each."""
    ws.decide(task="T-1", agent="planner", summary="Cookies", rationale="scripts can't read them")
    ws.brief("T-1", agent="coder", budget=300)
    ws.hand_off(full_handoff("T-1", from_agent="planner", to_agent="coder"))
    ws.brief("T-1", agent="coder", budget=120)


def test_a_handoff_made_elsewhere_shows_without_a_reload(page: Any, ws: Workspace) -> None:
    visit(page, page.url + "tasks/T-1")
    page.fill("#quick", "half a word")
    ws.hand_off(
        task="T-1", from_agent="planner", to_agent="coder", outcome="completed", summary="x"
    )
    page.wait_for_selector("#v2 >> text=planner → coder")
    assert page.input_value("#quick") == "half a word"
    assert page.evaluate("document.activeElement.id") == "quick"


def test_a_task_shows_its_handoffs_and_what_each_agent_was_given(page: Any, ws: Workspace) -> None:
    handed_on(ws)
    visit(page, page.url + "tasks/T-1")
    timeline = page.locator(".timeline")
    assert "planner → coder" in timeline.inner_text()
    assert "Cookies" in timeline.inner_text()
    given = ws.context.deliveries("T-1")
    page.click(f"#given-{given[0].number} a")
    shown = page.locator("main").inner_text()
    assert f"{given[0].tokens} of 120 tokens" in shown
    for address in given[0].waiting[:3]:
        assert address in shown
    assert ws.brief("T-1", agent="coder", budget=120, record=False).text.splitlines()[0] in shown
    page.go_back()
    page.click(f"#given-{given[1].number} a")
    text = page.locator("section pre").inner_text()
    assert text.strip() == given[1].text.strip(), "as it was given, though the task has changed"
    assert text.splitlines()[0] != given[0].text.splitlines()[0]


def test_a_slider_shows_what_a_brief_of_that_size_says(page: Any, ws: Workspace) -> None:
    handed_on(ws)
    before = len(ws.context.deliveries("T-1"))
    visit(page, page.url + "tasks/T-1")
    page.wait_for_selector("#brief-text:has-text('T-1')")
    page.focus("#brief-form input")
    for budget in (500, 475, 450):
        assert page.input_value("#brief-form input") == str(budget)
        agent = page.input_value("#brief-form select")
        wanted = ws.brief("T-1", agent=agent, budget=budget, record=False, names="commands")
        page.wait_for_selector(f"#brief-count:has-text('{wanted.tokens} of {budget}')")
        assert page.locator("#brief-text").inner_text().strip() == wanted.text.strip()
        page.keyboard.press("ArrowLeft")
    assert len(ws.context.deliveries("T-1")) == before


def test_the_brief_of_an_open_page_has_what_was_recorded_since(page: Any, ws: Workspace) -> None:
    visit(page, page.url + "tasks/T-1")
    page.wait_for_selector("#brief-text:has-text('T-1')")
    ws.decide(task="T-1", agent="planner", summary="Cookies", rationale="simple")
    page.wait_for_selector("#brief-text:has-text('Cookies')")


def test_two_versions_are_side_by_side(page: Any, ws: Workspace) -> None:
    handed_on(ws)
    visit(page, page.url + "tasks/T-1?old=1&new=3#compare")
    compared = page.locator("#compare").inner_text()
    assert "version 1" in compared
    assert "Cookies" in compared
    visit(page, page.url.partition("?")[0] + "?old=1&new=1")
    assert "Nothing differs" in page.locator("#compare").inner_text()


def test_a_gate_in_the_timeline_has_its_result(page: Any, ws: Workspace) -> None:
    ws.record_gate("T-1", agent="coder", name="lint", passed=False)
    ws.update_task("T-1", agent="planner", criteria=["it works"])
    visit(page, page.url + "tasks/T-1?old=1&new=3")
    assert "failed" in page.locator("#v2").inner_text()
    compared = page.locator("#compare").inner_text()
    assert "it works" in compared
    assert "['" not in compared


def test_an_item_has_its_author_record_and_digest(page: Any, ws: Workspace) -> None:
    handed_on(ws)
    visit(page, page.url + "items/T-1%23d1")
    shown = page.locator("main").inner_text()
    digest = ws.show("T-1#d1").source["digest"]
    for text in ("Cookies", "planner", digest, "shown"):
        assert text in shown


def test_files_are_the_same_changed_or_missing(page: Any, ws: Workspace) -> None:
    handed_on(ws)
    now = {each.now for each in ws.artifacts("T-1")}
    visit(page, page.url + "tasks/T-1")
    shown = page.locator("#files").inner_text()
    assert now
    assert all(each in shown for each in now)


def test_the_board_moves_what_may_be_moved(page: Any, ws: Workspace) -> None:
    ws.create_task("T-2", title="Roll-out", agent="planner")
    visit(page, page.url + "board")
    page.locator("#card-T-2").focus()
    page.keyboard.press("c")
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog", state="detached")
    assert ws.task("T-2").status == "open", "one is asked first"
    page.drag_and_drop("#card-T-2", "#column-failed h2")
    page.wait_for_selector("#messages .error >> text=failed")
    page.locator("#card-T-2").focus()
    page.keyboard.press("c")
    page.keyboard.press("Enter")
    page.wait_for_selector("#column-cancelled #card-T-2")
    assert ws.task("T-2").status == "cancelled"
    page.drag_and_drop("#card-T-2", "#column-open h2")
    page.wait_for_selector("#column-open #card-T-2")
    page.drag_and_drop("#card-T-1", "#column-completed h2")
    page.fill("dialog textarea >> nth=0", "it works")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("#column-completed #card-T-1")
    page.select_option("select[name=by]", "phase")
    page.wait_for_selector("#column-planning #card-T-2")
    page.wait_for_selector("#live[data-state=live]")
    page.drag_and_drop("#card-T-2", "#column-implementing h2")
    page.fill("dialog textarea", "the plan is agreed")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("#column-implementing #card-T-2")
    assert ws.task("T-2").phase == "implementing"


def test_the_board_has_the_last_changed_first_and_moves_to_another_phase(
    page: Any, ws: Workspace
) -> None:
    ws.create_task("T-2", title="Roll-out", agent="planner")
    ws.decide(task="T-1", agent="planner", summary="Cookies", rationale="simple")
    visit(page, page.url + "board")
    cards = page.locator("#column-open .card").evaluate_all("all => all.map((each) => each.id)")
    assert cards == ["card-T-1", "card-T-2"]
    page.locator("#card-T-1").focus()
    page.keyboard.press("m")
    offered = page.locator("dialog option").all_inner_texts()
    phases = WorkspaceStreams(ws).settings.phases
    at = phases.index(ws.task("T-1").phase)
    assert offered == [*phases[at + 1 :], *phases[:at]]
    assert page.input_value("dialog select") == phases[at + 1]


def test_a_card_has_its_gates_and_their_keys(page: Any, ws: Workspace) -> None:
    ws.hand_off(
        task="T-1", from_agent="planner", outcome="partial", summary="half", next_steps=["go on"],
        blockers=[{"blocker": "Is it legal?", "requires_human": True}],
    )  # fmt: skip
    ws.record_gate("T-1", agent="coder", name="lint", passed=False)
    visit(page, page.url + "board")
    card = page.locator("#card-T-1")
    assert "Is it legal?" in card.inner_text()
    assert "lint" in card.inner_text()
    card.focus()
    page.keyboard.press("a")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("#card-T-1 >> text=Is it legal?", state="detached")
    assert [each.name for each in ws.gates("T-1")] == ["lint"]


def test_a_task_is_changed_by_key(page: Any, ws: Workspace) -> None:
    """Rename, hand over, release, cancel, reopen, and the slider of the brief."""
    ws.update_task("T-1", agent="coder", holder="coder")
    visit(page, page.url + "tasks/T-1")
    page.keyboard.press("x")
    page.keyboard.press("Enter")
    page.wait_for_selector("text=Release: T-1: done")
    assert ws.task("T-1").claimed_by == ""
    page.keyboard.press("e")
    page.keyboard.type("Sign in")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("h1 >> text=Sign in")
    page.keyboard.press("c")
    page.keyboard.press("Enter")
    page.wait_for_selector("main .chip.cancelled")
    assert page.locator("main [data-key=h]").count() == 0, "nobody is handed what is over"
    page.keyboard.press("c")
    page.wait_for_selector("main .chip.open")
    page.keyboard.press("h")
    page.keyboard.type("tester")
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog", state="detached")
    assert ws.task("T-1").holder != "tester"
    page.keyboard.press("b")
    assert page.evaluate("document.activeElement.name") == "budget"


def test_search_finds_as_one_types(page: Any, ws: Workspace) -> None:
    handed_on(ws)
    page.keyboard.press("/")
    page.keyboard.type("cookies")
    page.keyboard.press("Enter")
    page.wait_for_selector("#results .row")
    page.fill("main [name=query]", "")
    page.type("main [name=query]", "xyzzyqq")
    page.wait_for_selector("#results >> text=Nothing fits.")
    page.fill("main [name=query]", "cookies")
    page.wait_for_selector("#results .row >> text=Cookies")
    page.select_option("[name=kind]", "gotcha")
    page.wait_for_selector("#results .row >> text=Cookies", state="detached")


def test_search_offers_each_kind_that_recall_has(page: Any, ws: Workspace) -> None:
    """As words; a hit that is nothing but its title says it once."""
    ws.hand_off(
        task="T-1", from_agent="planner", outcome="partial", summary="half",
        stopped="time", suggested_next_steps=["Paint the fence"],
        facts=[{"key": "fence", "value": "green"}],
    )  # fmt: skip
    ws.decide(task="T-1", agent="planner", summary="Oil the fence", rationale="wood rots")
    visit(page, page.url + "search?query=fence")
    options = page.locator("[name=kind] option")
    values = options.evaluate_all("all => all.map((each) => each.value)")
    assert tuple(values) == ("", *FINDABLE_KINDS)
    assert "_" not in "".join(options.all_inner_texts())
    page.select_option("[name=kind]", "next_step")
    page.wait_for_selector("#results .row >> text=green", state="detached")
    assert page.locator("#results .row").inner_text().count("Paint the fence") == 1
    page.select_option("[name=kind]", "decision")
    page.wait_for_selector("#results .row >> text=rots")
    assert page.locator("#results .row").inner_text().count("Oil the fence") == 1
    page.select_option("[name=kind]", "fact")
    page.wait_for_selector("#results .row >> text=green")


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("search?q=fence", "q is no parameter of this; expected: query, kind, agent, task, live"),
        ("no/such/page", "there is nothing at this address"),
    ],
)
def test_an_error_says_what_there_is_and_is_not_loaded_again(
    page: Any, path: str, said: str
) -> None:
    asked: list[str] = []

    def note(request: Any) -> None:
        asked.append(request.url)

    page.on("request", note)
    url = page.url + path
    page.goto(url)
    shown = page.locator("main").inner_text()
    assert said in shown
    assert "/api/" not in shown
    assert asked.count(url) == 1
    assert not [each for each in asked if each.endswith("/live")], "nothing loads it again"
    page.click("main >> text=Attention")
    page.wait_for_selector("#live[data-state=live]")
    assert len(page.said) == 1, "the browser's own line about the status"
    page.said.clear()


def test_search_finds_tasks_by_id_and_title(page: Any, ws: Workspace) -> None:
    """Any of them, not only those on the first page of the board."""
    for number in range(2, 230):
        ws.create_task(f"T-{number}", title=f"Task {number}", agent="planner")
    ws.create_task("ROLL-1", title="Ship to the north", agent="planner")
    visit(page, page.url + "search?query=roll-1")
    assert page.locator("#results .row").first.get_attribute("id") == "row-task-ROLL-1"
    page.fill("main [name=query]", "NORTH ship")
    page.wait_for_selector("#results .row >> text=Ship to the north")
    page.fill("main [name=query]", "task")
    page.wait_for_selector("#results >> text=All tasks with these words")
    page.fill("main [name=query]", "T-229")
    page.wait_for_selector("#results >> text=Task 229")
    page.locator("#row-task-T-229").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/tasks/T-229")


def test_each_view_has_a_key_and_the_same_as_json(page: Any, server: Served) -> None:
    token = server.token("ann", *EVERY_RIGHT, is_person=True)
    for view in VIEWS:
        page.keyboard.press("g")
        page.keyboard.press(view.key)
        page.wait_for_url(server.url + view.path)
        page.wait_for_selector(f"nav a[aria-current] >> text={view.name}")
        page.wait_for_selector("#live[data-state=live]")
        api = page.get_attribute("a.json", "href")
        assert ask(server.port, "GET", api, token=token).status == (422 if "recall" in api else 200)


def test_keys_are_shown(page: Any, ws: Workspace) -> None:
    page.keyboard.press("?")
    shown = page.locator("dialog").inner_text()
    for view in VIEWS:
        assert view.name in shown
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog", state="detached")


def known(ws: Workspace, count: int) -> list[dict[str, Any]]:
    """A graph of so many parts: a few hubs that all others use, and one that nothing leads to."""
    nodes = [
        {"id": f"Part{n}", "type": ("component", "interface")[n % 2], "summary": f"Part {n}",
         "tags": [f"t{n % 9}"]}
        for n in range(count)
    ]  # fmt: skip
    edges = [
        {"source": f"Part{n}", "relation": "relates_to", "target": f"Part{n % 9}"}
        for n in range(9, count - 1)
    ]
    for first in range(0, count, 200):
        ws.knowledge.add(nodes=nodes[first : first + 200], agent="planner", task="T-1")
    for first in range(0, len(edges), 200):
        ws.knowledge.add(edges=edges[first : first + 200], agent="planner", task="T-1")
    return nodes


def test_a_graph_of_a_thousand_nodes_can_be_read(page: Any, ws: Workspace) -> None:
    """All are drawn, the same each time, and the table has them; labels appear as one zooms in."""
    nodes = known(ws, 1_000)
    visit(page, page.url + "knowledge")
    page.wait_for_selector("#graph[data-labels]")
    assert int(page.get_attribute("#graph", "data-nodes")) >= 1_000
    assert page.locator("#nodes tbody tr", has_text="Part").count() >= 990
    far = page.get_attribute("#graph", "data-labels")
    picture = page.evaluate("document.getElementById('graph').toDataURL()")
    page.reload()
    page.wait_for_selector("#graph[data-labels]")
    assert page.evaluate("document.getElementById('graph').toDataURL()") == picture
    page.keyboard.press("/")
    page.keyboard.type("part777")
    page.wait_for_selector("#graph-count:has-text('1 of')")
    page.keyboard.press("Enter")
    page.wait_for_selector("#graph[data-selected=Part777]")
    about = page.locator("#graph-about")
    assert "Part 777" in about.inner_text()
    about.locator("button >> text=Part3").click()
    page.wait_for_selector("#graph[data-selected=Part3]")
    page.fill("#graph-find", "")
    page.focus("#graph")
    page.keyboard.press("Escape")
    page.wait_for_selector("#graph[data-selected='']")
    for _ in range(6):
        page.keyboard.press("+")
    page.wait_for_selector("#graph:not([data-scale^='0'])")
    near = page.get_attribute("#graph", "data-labels")
    labels = [[int(number) for number in each.split(" of ")] for each in (far, near)]
    assert labels[0][0] / labels[0][1] < 0.3 < labels[1][0] / labels[1][1]
    scale = page.get_attribute("#graph", "data-scale")
    ws.knowledge.add(nodes=[{**nodes[0], "id": "Late"}], agent="planner", task="T-1")
    page.wait_for_selector(f"h1 >> text={len(ws.knowledge.graph().nodes):,} nodes")
    assert page.get_attribute("#graph", "data-scale") == scale, "a refresh leaves what was zoomed"
    page.keyboard.press("0")
    page.wait_for_selector(f"#graph:not([data-scale='{scale}'])")


def test_knowledge_is_shown_by_tag_and_type(page: Any, ws: Workspace) -> None:
    known(ws, 90)
    visit(page, page.url + "knowledge?type=interface")
    page.wait_for_selector("#graph[data-nodes='45']")
    page.fill("[name=tag]", "t1")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("tag=t1"))
    page.wait_for_selector("#graph[data-nodes='5']")
    page.focus("#graph")
    page.keyboard.press("]")
    page.wait_for_selector("#graph[data-selected=Part1]")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("around=Part1"))
    page.wait_for_selector("#audit h2")
    page.click("text=Show all")
    page.wait_for_selector("#graph[data-labels]")


def test_a_broken_record_is_red_with_where_it_is(browser: Any, tmp_path: Path) -> None:
    with passdown.open(str(tmp_path), settings=QUICK) as ws:
        ws.create_task("T-1", title="Login", agent="planner")
        ws.decide(task="T-1", agent="planner", summary="Cookies", rationale="simple")
        with served(ws) as server, opened_page(browser, server) as page:
            visit(page, server.url + "/integrity")
            page.wait_for_selector("#verified .good")
            damage_first_record(tmp_path)
            page.keyboard.press("v")
            page.wait_for_selector("#verified .bad >> text=task/T-1@1")


def test_a_run_that_waits_is_answered_and_stopped_by_key(
    browser: Any, server: Served, ws: Workspace
) -> None:
    """A live relay: its legs, the tokens in context, prompts and replies."""
    agents = {"coder": {"runner": {"script": "s"}, "limits": {"loops": 1}}}
    relay = document(
        leg("code", "coder", {"when": {"outcome": "partial"}, "go": "again"}), agents=agents
    )
    stage = Stage(ws)
    run = stage.start(relay)
    with ThreadPoolExecutor() as pool:  # the engine has an event loop of its own
        pool.submit(stage.advance, run.run, lambda _: reply("partial", summary="half")).result()
    with opened_page(browser, server) as page:
        page.locator(".row.run").focus()
        page.keyboard.press("Enter")
        page.wait_for_url(re.compile(f"/runs/{run.run}$"))
        shown = page.locator("main").inner_text()
        assert "half" in shown
        assert page.locator(".chart rect").count() == len(ws.relay.run(run.run)["turns"])
        with opened_page(browser, server, "read") as reader:
            visit(reader, page.url)
            assert reader.locator("text=half").count()
            assert reader.locator("text=Prompts and replies").count() == 0
        page.click("text=Prompts and replies >> nth=0")
        assert "T-1" in page.locator(".timeline").inner_text()
        page.go_back()
        page.wait_for_selector("#live[data-state=live]")
        page.keyboard.press("w")
        page.select_option("dialog select", "escalate")
        page.keyboard.press("Tab")
        page.keyboard.press("Control+Enter")
        page.wait_for_selector("#messages p:has-text('Answer')")
        page.keyboard.press("t")
        page.keyboard.press("Control+Enter")
        page.wait_for_selector("#messages p:has-text('Stop')")
        page.wait_for_selector("main .chip.stopped")
        assert ws.relay.run(run.run)["ended_at"]
        page.keyboard.press("u")
        page.keyboard.press("Enter")  # asked first: it goes to workers
        page.wait_for_selector("main .chip.stopped", state="detached")
    assert ws.relay.run(run.run)["lane"] == "normal"


def test_a_run_that_is_over_has_idle_agents_and_its_replays(page: Any, ws: Workspace) -> None:
    agents = {"coder": {"runner": {"script": "s"}}}
    stage = Stage(ws)

    def again(_: object) -> str:
        return reply(summary="Otherwise.")

    def run_twice() -> dict[str, Any]:
        stage.run(document(leg("code", "coder"), agents=agents))
        return ws.relay.replay("R-1", "code", by="eva", runner=again)

    with ThreadPoolExecutor() as pool:  # the engine has an event loop of its own
        found = pool.submit(run_twice).result()
    visit(page, page.url + "agents")
    shown = page.locator("main").inner_text()
    assert "No agent has a turn now." in shown
    assert "idle" in shown
    assert "waiting" not in shown
    page.click("main a:text-is('R-1')")
    replays = page.locator("#replays tbody tr")
    assert found["replay"] in replays.inner_text()
    assert "summary" in replays.inner_text()
    page.click("#replay-commands summary")
    program, *arguments = shlex.split(page.locator("#replay-commands code").inner_text())
    assert program == "passdown"
    ran = subprocess.run(
        [sys.executable, "-m", "passdown", *arguments], capture_output=True, text=True, check=True
    )
    assert "code" in ran.stdout


def test_agents_have_a_link_to_all_of_their_tasks(page: Any, server: Served, ws: Workspace) -> None:
    for number in range(20, 40):
        ws.create_task(f"T-{number}", title=f"Task {number}", agent="planner")
        ws.update_task(f"T-{number}", agent="coder", holder="coder")
    visit(page, page.url + "agents")
    page.wait_for_selector("main >> text=and 8 more")
    page.click("main a:text-is('coder')")
    page.wait_for_url("**/board?status=open&agent=coder")
    assert page.locator(".card").count() == 20


def test_growth_is_shown_with_and_without(page: Any, ws: Workspace) -> None:
    handed_on(ws)
    visit(page, page.url + "growth")
    assert "No switch of T-1 was recorded" in page.locator("main").inner_text()
    ws.switch("T-1", from_agent="planner", to_agent="coder")
    page.reload()
    page.wait_for_selector(".chart .without", state="attached")


def test_a_page_works_again_after_the_server_was_restarted(browser: Any, ws: Workspace) -> None:
    with served(ws) as server:
        port, context = server.port, browser.new_context()
        page = context.new_page()
        page.set_default_timeout(30_000)
        page.goto(sign_in_link(server))
        page.wait_for_selector("#live[data-state=live]")
    page.wait_for_selector("#live[data-state=reconnecting]")
    ws.create_task("T-2", title="Made meanwhile", agent="planner")
    ws.hand_off(
        task="T-2", from_agent="planner", to_agent="coder", outcome="completed", summary="x"
    )
    with served(ws, port=port):
        page.wait_for_selector("#live[data-state=live]")
        page.wait_for_selector("text=Made meanwhile")
        context.close()


def test_two_tabs_show_the_same(page: Any, ws: Workspace) -> None:
    other = page.context.new_page()
    visit(other, page.url)
    ws.hand_off(
        task="T-1", from_agent="planner", outcome="partial", summary="half", next_steps=["go on"],
        blockers=[{"blocker": "Is it legal?", "requires_human": True}],
    )  # fmt: skip
    page.wait_for_selector(".row.gate")
    other.wait_for_selector(".row.gate")
    other.locator(".row.gate").focus()
    other.keyboard.press("a")
    other.keyboard.press("Control+Enter")
    page.wait_for_selector(".row.gate", state="detached")


def test_many_tasks_are_paged_and_searched(page: Any, ws: Workspace) -> None:
    """A status shows its newest, whatever there are; a page of it 200; a search looks at all."""
    address = page.url + "board"
    page.goto("about:blank")  # an open page would show each of them as it comes
    for number in range(2, 230):
        ws.create_task(f"T-{number}", title=f"Task {number}", agent="planner")
    visit(page, address)
    assert page.locator(".card").count() == 50
    assert page.locator(".card").first.get_attribute("id") == "card-T-229"
    page.click("text=All open tasks")
    page.wait_for_selector("#live[data-state=live]")
    assert page.locator(".card").count() == 200
    page.click("text=Older tasks")
    page.wait_for_selector("#card-T-1")
    assert page.locator(".card").count() == 29
    visit(page, page.url.partition("?")[0])
    page.keyboard.press("/")
    page.keyboard.type("login")
    page.wait_for_selector("#card-T-1")
    page.wait_for_selector("#card-T-229", state="detached")
    assert page.locator(".card").count() == 1

"""Tasks: what they name, how they depend on and block one another, and their phases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import passdown
from passdown import Settings
from passdown.errors import Conflict, InvalidInput, NotFound
from passdown.testing import fixed_clock, full_handoff, write_files

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from passdown import Workspace

Document = dict[str, Any]


@pytest.fixture
def ws(tmp_path: Path, each_store: None) -> Iterator[Workspace]:
    write_files(str(tmp_path))
    settings = Settings(phase_gates={})
    with passdown.open(str(tmp_path), settings=settings, clock=fixed_clock()) as workspace:
        yield workspace


def hand_off(ws: Workspace, task: str, **fields: Any) -> passdown.HandoffCommand:
    given = {"task": task, "outcome": "completed", "from_agent": "planner", **fields}
    return ws.hand_off(given)


def blocked(*tasks: str, text: str = "No key") -> list[Document]:
    return [{"blocker": text, "suggested_resolution": "Ask", "blocking_tasks": list(tasks)}]


@pytest.mark.promise("S1-38", "S1-27")
def test_a_task_names_what_goes_in_what_comes_out_and_how_one_knows(ws: Workspace) -> None:
    """Inputs, outputs, criteria, a time limit and dependencies are kept as given."""
    fields: Document = {
        "description": "Let people in",
        "inputs": ["the user table"],
        "outputs": ["a session", "a cookie"],
        "criteria": ["a wrong password is refused"],
        "depends_on": ["T-0"],
        "time_limit_minutes": 90,
    }
    receipt = ws.create_task("T-1", title="Login", agent="planner", **fields)
    assert (receipt.task, receipt.version) == ("T-1", 1)
    assert [(p.path, p.code) for p in receipt.warnings] == [("depends_on", "unknown_task")]
    task = ws.task("T-1")
    for name, value in {**fields, "title": "Login", "phase": "planning", "status": "open"}.items():
        assert getattr(task, name) == value
    assert (task.created_by, task.holder, task.needs) == ("planner", "planner", ["T-0"])
    ws.create_task("T-0", title="Users", agent="planner")
    assert ws.task("T-0").needed_by == ["T-1"]


@pytest.mark.promise("S1-38", "P-7")
def test_a_faulty_task_is_refused_with_every_reason(ws: Workspace) -> None:
    """Every field is checked before anything is written."""
    with pytest.raises(InvalidInput) as caught:
        ws.create_task(
            "../x",
            title=" ",
            agent="system",
            criteria=["", "fine"],
            depends_on=["a b"],
            phase="shipping",
            time_limit_minutes=0,
        )
    assert {(problem.path, problem.code) for problem in caught.value.problems} == {
        ("task", "invalid_id"),
        ("title", "empty"),
        ("agent", "reserved_name"),
        ("criteria[0]", "empty"),
        ("depends_on[0]", "invalid_id"),
        ("phase", "invalid_choice"),
        ("time_limit_minutes", "out_of_range"),
    }
    assert ws.tasks() == []


@pytest.mark.promise("S1-38")
def test_a_cycle_of_dependencies_is_refused_with_the_way_round(ws: Workspace) -> None:
    """Also one that closes only later, through tasks that were named before they were made."""
    with pytest.raises(InvalidInput, match="T-1 -> T-1"):
        ws.create_task("T-1", title="t", agent="a", depends_on=["T-1"])
    ws.create_task("T-1", title="t", agent="a", depends_on=["T-2"])
    ws.create_task("T-2", title="t", agent="a", depends_on=["T-3", "T-4"])
    ws.create_task("T-4", title="t", agent="a")
    with pytest.raises(InvalidInput) as caught:
        ws.create_task("T-3", title="t", agent="a", depends_on=["T-4", "T-1"])
    (problem,) = caught.value.problems
    assert (problem.path, problem.code) == ("depends_on", "cycle")
    assert "T-3 -> T-1 -> T-2 -> T-3" in problem.message
    ws.create_task("T-3", title="t", agent="a", depends_on=["T-4"])
    with pytest.raises(InvalidInput, match="T-4 -> T-1 -> T-2 -> T-"):
        ws.update_task("T-4", agent="a", depends_on=["T-1"])
    assert ws.task("T-4").needs == []
    ws.update_task("T-1", agent="a", depends_on=[])
    ws.update_task("T-4", agent="a", depends_on=["T-1"])
    assert ws.task("T-1").needed_by == ["T-4"]


@pytest.mark.promise("P-2", "P-3")
def test_a_task_is_made_once(ws: Workspace) -> None:
    """The same task again is a replay; another one of its name is a conflict."""
    first = ws.create_task("T-1", title="Login", agent="planner")
    assert ws.create_task("T-1", title="Login", agent="planner") == first._replace(is_replay=True)
    for fields in ({"title": "Logout", "agent": "planner"}, {"title": "Login", "agent": "coder"}):
        with pytest.raises(Conflict, match="exists already") as caught:
            ws.create_task("T-1", **fields)
        assert "passdown task show T-1 (in Python: task)" in caught.value.next_step
    assert ws.state("T-1").title == "Login"


@pytest.mark.promise("P-4")
def test_a_changed_task_keeps_what_it_was(ws: Workspace) -> None:
    """A change is a version; what isn't named stays, and the former text can be read."""
    ws.create_task("T-1", title="Login", agent="planner", criteria=["one"])
    ws.update_task("T-1", agent="coder", title="Sign in", time_limit_minutes=5)
    now, then = ws.files.state_document("T-1"), ws.files.state_document("T-1", 1)
    assert (now["title"], now["criteria"], now["time_limit_minutes"]) == ("Sign in", ["one"], 5)
    assert (then["title"], then["time_limit_minutes"]) == ("Login", None)
    ws.update_task("T-1", agent="coder", status="cancelled")
    assert ws.tasks(status="cancelled")[0].task == "T-1"
    ws.update_task("T-1", agent="coder", status="open")
    assert ws.task("T-1").status == "open"


@pytest.mark.promise("P-7")
@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({}, "required"),
        ({"status": "completed"}, "invalid_choice"),
        ({"phase": "testing"}, "not_here"),
        ({"colour": "red"}, "unknown_field"),
        ({"title": ""}, "empty"),
        ({"title": "t", "expect_version": True}, "not_an_integer"),
    ],
)
def test_a_change_that_says_nothing_or_too_much_is_refused(
    ws: Workspace, fields: Document, code: str
) -> None:
    """Phases move by handoffs, unknown fields have no place, and nothing is dropped silently."""
    ws.create_task("T-1", title="Login", agent="planner")
    with pytest.raises(InvalidInput) as caught:
        ws.update_task("T-1", agent="coder", **fields)
    assert [problem.code for problem in caught.value.problems] == [code]
    assert ws.state("T-1").version == 1
    with pytest.raises(NotFound, match=r"\(in Python: tasks\)"):
        ws.update_task("T-9", agent="coder", title="t")


def test_a_change_keeps_no_field_that_nobody_knows(ws: Workspace) -> None:
    """It says so, and names the field that was perhaps meant."""
    ws.create_task("T-1", title="Login", agent="planner")
    with pytest.raises(InvalidInput) as refused:
        ws.update_task("T-1", agent="coder", colour="red", titel="Sign in")
    fixes = {problem.path: problem.fix for problem in refused.value.problems}
    assert fixes == {"colour": "leave it out", "titel": "did you mean title?"}
    assert ws.task("T-1").version == 1


@pytest.mark.promise("S1-2", "S1-25")
def test_phases_and_their_times_are_kept(ws: Workspace) -> None:
    """The state shows the phase, the one before and when it began; any of the five is fine."""
    ws.create_task("T-1", title="Login", agent="planner")
    state = ws.state("T-1")
    assert (state.phase, state.previous_phase) == ("planning", None)
    began = state.phase_started_at
    before = "planning"
    for phase in ("implementing", "testing", "reviewing", "completed"):
        hand_off(ws, "T-1", phase=phase, to_agent="coder")
        state = ws.state("T-1")
        assert (state.phase, state.previous_phase) == (phase, before)
        assert state.phase_started_at > began
        began, before = state.phase_started_at, phase
    assert state.status == "completed"
    hand_off(ws, "T-1", summary="a word more")
    state = ws.state("T-1")
    assert (state.phase, state.previous_phase, state.phase_started_at) == (
        "completed",
        "reviewing",
        began,
    )


@pytest.mark.promise("S3-26")
def test_a_blocker_blocks_the_tasks_it_names(ws: Workspace) -> None:
    """Named tasks are blocked at once, those made later when they are made, finished ones not."""
    ws.create_task("T-1", title="t", agent="planner")
    ws.create_task("T-2", title="t", agent="planner")
    ws.create_task("T-3", title="t", agent="planner")
    hand_off(ws, "T-3", phase="completed")
    hand_off(ws, "T-1", outcome="blocked", blockers=blocked("T-2", "T-3", "T-4"))
    assert {task.task: task.status for task in ws.tasks()} == {
        "T-1": "blocked",
        "T-2": "blocked",
        "T-3": "completed",
    }
    ws.create_task("T-4", title="t", agent="planner")
    assert [task.task for task in ws.tasks(status="blocked")] == ["T-1", "T-2", "T-4"]
    assert ws.task("T-2").blocked_by == ["T-1#b1"]
    state = ws.files.state_document("T-4")
    assert (state["status"], state["blocked_by"]) == ("blocked", ["T-1#b1"])
    assert ws.show("T-1#b1").blocks == ["T-2", "T-3", "T-4"]


@pytest.mark.promise("S3-26", "P-4")
@pytest.mark.parametrize("way", ["mark", "approval", "replacement", "resolves"])
def test_a_settled_blocker_releases_its_tasks(ws: Workspace, way: str) -> None:
    """A mark, an approval, a handoff without it, or one that resolves it; the blocker stays."""
    ws.create_task("T-1", title="t", agent="planner")
    ws.create_task("T-2", title="t", agent="planner")
    entries = blocked("T-2")
    entries[0]["requires_human"] = way == "approval"
    hand_off(ws, "T-1", outcome="blocked", blockers=entries)
    assert ws.task("T-2").status == "blocked"
    if way == "mark":
        ws.set_status("T-1#b1", "resolved", agent="coder", reason="got one")
        assert ws.task("T-1").status == "open"
    elif way == "approval":
        ws.approve("T-1#k1", by="ana")
        assert ws.task("T-1").status == "open"
    elif way == "replacement":
        hand_off(ws, "T-1", outcome="blocked", blockers=blocked("T-3", text="Another"))
    else:
        hand_off(ws, "T-1", resolves=["T-1#b1"])
    assert (ws.task("T-2").status, ws.task("T-2").blocked_by) == ("open", [])
    shown = ws.show("T-1#b1")
    assert shown.status == ("replaced" if way == "replacement" else "resolved")
    assert (shown.blocker, shown.suggested_resolution) == ("No key", "Ask")
    assert ws.files.state_document("T-1", 2)["blockers"][0]["status"] == "open"


@pytest.mark.promise("S3-26")
def test_a_task_waits_for_all_that_block_it(ws: Workspace) -> None:
    """With two blockers it is released by the second, not by the first."""
    for task in ("T-1", "T-2", "T-3"):
        ws.create_task(task, title="t", agent="planner")
    hand_off(ws, "T-1", outcome="blocked", blockers=blocked("T-3"))
    hand_off(ws, "T-2", outcome="blocked", blockers=blocked("T-3"))
    assert ws.task("T-3").blocked_by == ["T-1#b1", "T-2#b1"]
    ws.set_status("T-1#b1", "resolved", agent="coder")
    assert ws.task("T-3").status == "blocked"
    ws.set_status("T-2#b1", "resolved", agent="coder")
    assert ws.task("T-3").status == "open"


@pytest.mark.promise("S3-26")
def test_a_repeated_blocker_is_the_same_one(ws: Workspace) -> None:
    """Handed on unchanged it keeps its address; listed twice it is one."""
    ws.create_task("T-1", title="t", agent="planner")
    entries = blocked("T-2")
    hand_off(ws, "T-1", outcome="blocked", blockers=[*entries, *entries])
    hand_off(ws, "T-1", outcome="blocked", blockers=entries, summary="still")
    assert [(b["address"], b["status"]) for b in ws.files.state_document("T-1")["blockers"]] == [
        ("T-1#b1", "open")
    ]


@pytest.mark.promise("S1-8")
def test_tasks_are_listed_in_order_and_by_what_they_are(ws: Workspace) -> None:
    """Filters are exact and pages follow one another."""
    for number in range(1, 6):
        ws.create_task(f"T-{number}", title="t", agent="planner")
    hand_off(ws, "T-2", to_agent="coder", phase="implementing")
    assert [t.task for t in ws.tasks(agent="coder")] == ["T-2"]
    assert [t.task for t in ws.tasks(phase="implementing")] == ["T-2"]
    assert [t.task for t in ws.tasks(phase="planning", limit=2)] == ["T-1", "T-3"]
    first = ws.tasks(limit=3)
    rest = ws.tasks(limit=3, after=first[-1].seq)
    assert [t.task for t in [*first, *rest]] == [f"T-{n}" for n in range(1, 6)]
    assert ws.tasks(agent="nobody") == []
    with pytest.raises(NotFound):
        ws.task("T-9")


@pytest.mark.promise("S1-27")
def test_gate_results_and_warnings_can_be_recorded(ws: Workspace) -> None:
    """The newest result of a gate counts, the older ones stay; a warning can be taken back."""
    ws.create_task("T-1", title="t", agent="planner")
    ws.record_gate("T-1", agent="ci", name="lint", passed=False, detail="3 findings")
    ws.record_gate("T-1", agent="ci", name="tests", passed=True)
    ws.record_gate("T-1", agent="ci", name="lint", passed=True)
    receipt = ws.warn("T-1", agent="ci", text="The server is slow")
    state = ws.state("T-1")
    assert (state.gates_passed, state.gates_failed) == (("lint", "tests"), ())
    assert state.warnings == ("The server is slow",)
    results = [(g.name, g.result) for g in ws.gates("T-1", all=True)]
    assert results == [("lint", "failed"), ("tests", "passed"), ("lint", "passed")]
    ws.set_status(receipt.items[0], "retracted", agent="ci")
    assert ws.state("T-1").warnings == ()
    assert ws.show(receipt.items[0]).text == "The server is slow"


@pytest.mark.promise("P-7")
def test_an_item_is_only_marked_with_what_fits_it(ws: Workspace) -> None:
    """Statuses belong to kinds; a mark that changes nothing is refused, gates have answers."""
    ws.create_task("T-1", title="t", agent="planner")
    ws.hand_off(full_handoff())
    for item, status, code in [
        ("T-1#q1", "done", "invalid_choice"),
        ("T-1#h1", "done", "invalid_choice"),
        ("T-1#k1", "approved", "invalid_choice"),
        ("T-1#d1", "accepted", "no_change"),
        ("T-1#b9", "resolved", "unknown_item"),
        ("T-9#b1", "resolved", None),
        ("b1", "resolved", "invalid_address"),
    ]:
        before = ws.maintenance.heads().heads
        with pytest.raises(ValueError, match=r".") as caught:
            ws.set_status(item, status, agent="coder")
        if isinstance(caught.value, InvalidInput):
            assert [problem.code for problem in caught.value.problems] == [code]
        assert ws.maintenance.heads().heads == before
    ws.set_status("T-1#q1", "answered", agent="coder", reason="15 minutes")
    shown = ws.show("T-1#q1")
    assert (shown.status, shown.status_note) == ("answered", "15 minutes")


@pytest.mark.promise("W-23")
def test_tasks_are_found_by_words_and_listed_from_the_newest(ws: Workspace) -> None:
    for number in range(1, 6):
        ws.create_task(f"T-{number}", title=f"Part {number % 2} of the Login", agent="ann")
    newest = ws.tasks(newest=True, limit=2)
    assert [each.task for each in newest] == ["T-5", "T-4"]
    rest = ws.tasks(newest=True, after=newest[-1].seq)
    assert [each.task for each in rest] == ["T-3", "T-2", "T-1"]
    found = ws.tasks(words="login part 1", limit=2)
    assert [each.task for each in found] == ["T-1", "T-3"]
    assert [e.task for e in ws.tasks(words="part 1", after=found[-1].seq)] == ["T-5"]
    assert [e.task for e in ws.tasks(status="ready", words="t-4")] == ["T-4"]
    assert ws.tasks(words="logout") == []

"""Nothing closes, blocks or completes unnoticed: blockers, next steps, gates, completion."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.interfaces.running import Run

    Json = Callable[..., Any]


@pytest.fixture
def task(cli: Run) -> str:
    """T-1 with an open blocker, which blocks T-2, and an open next step; bob holds it."""
    cli("task", "new", "T-1", "--title", "Login", "--agent", "ann")
    cli("task", "new", "T-2", "--title", "Logout", "--agent", "ann")
    cli(
        *("handoff", "--task", "T-1", "--from", "ann", "--to", "bob", "--outcome", "blocked"),
        *("--blocker", "no key :: ask ops", "--blocks", "T-2", "--next", "write the form"),
    )
    return "T-1"


def statuses(as_json: Json, name: str) -> list[str]:
    return [entry["status"] for entry in as_json("state", "T-1")[name]]


def given(project: Path, **fields: Any) -> str:
    document = {"task": "T-1", "from_agent": "bob", "to_agent": "cat", "outcome": "completed"}
    (project / "handoff.json").write_text(json.dumps({**document, **fields}), "utf-8")
    return "handoff.json"


@pytest.mark.promise("S3-26")
def test_what_a_handoff_says_nothing_of_stays_open(task: str, cli: Run, as_json: Json) -> None:
    """Neither the blocker nor the step is closed, and the blocked task stays blocked."""
    cli("handoff", "--task", task, "--from", "bob", "--to", "cat", "--outcome", "completed")
    assert statuses(as_json, "blockers") == ["open"]
    assert statuses(as_json, "next_steps") == ["open"]
    assert as_json("task", "show", "T-2")["status"] == "blocked"
    brief = cli("brief", task, "--agent", "cat").out
    assert "no key" in brief
    assert "write the form" in brief


@pytest.mark.promise("S3-26")
def test_an_item_is_closed_by_name(task: str, cli: Run, as_json: Json) -> None:
    """What it names is closed, and nothing else; the task that waited is released."""
    cli(
        *("handoff", "--task", task, "--from", "bob", "--to", "cat", "--outcome", "completed"),
        *("--resolves", "T-1#b1"),
    )
    assert statuses(as_json, "blockers") == ["resolved"]
    assert statuses(as_json, "next_steps") == ["open"]
    assert as_json("task", "show", "T-2")["status"] == "open"


@pytest.mark.promise("S3-26")
@pytest.mark.parametrize("blockers", [[], [{"blocker": "no host"}]])
def test_a_given_list_is_the_current_one_and_says_what_it_closed(
    task: str, project: Path, cli: Run, as_json: Json, blockers: list[Any]
) -> None:
    """The receipt names each item that was closed, and so does the next brief, once."""
    receipt = cli("handoff", given(project, blockers=blockers))
    assert (
        "T-1#b1 is dropped, as this handoff's list doesn't have it: no key"
        in receipt.out + receipt.err
    )
    assert statuses(as_json, "blockers") == ["replaced", *["open" for _ in blockers]]
    assert "'s next handoff" in cli("show", "T-1#b1").out.partition("  dropped by ")[2]
    assert statuses(as_json, "next_steps") == ["open"]
    said = "## Closed as not listed\n- b1 no key\n"
    assert said in cli("brief", task, "--agent", "cat").out
    cli("handoff", "--task", task, "--from", "cat", "--to", "dan", "--outcome", "completed")
    assert said not in cli("brief", task, "--agent", "dan").out


@pytest.mark.promise("S3-26")
def test_the_last_step_that_a_list_closed_is_named_in_the_next_brief(
    task: str, project: Path, cli: Run
) -> None:
    """Also where no other step is left: what is closed isn't the step that comes next."""
    cli("handoff", given(project, suggested_next_steps=[]))
    said = "## Closed as not listed\n- n1 write the form\n"
    assert said in cli("brief", task, "--agent", "cat").out


@pytest.mark.promise("S3-26")
def test_many_items_that_a_list_closed_leave_room_for_what_comes_next(
    task: str, project: Path, cli: Run
) -> None:
    """Three of them are named, the others counted."""
    steps = [{"step": f"write page {n} of the manual"} for n in range(40)]
    cli("handoff", given(project, suggested_next_steps=steps))
    cli("handoff", given(project, suggested_next_steps=[{"step": "print it"}]))
    brief = cli("brief", task, "--agent", "cat").out
    assert brief.index("print it") < brief.index("## Closed as not listed")
    assert brief.count("of the manual") == 3
    assert "- closed as not listed: 37 more\n" in brief


@pytest.mark.promise("S3-26")
def test_a_handoff_that_is_prepared_names_what_it_would_close(
    task: str, project: Path, cli: Run, as_json: Json
) -> None:
    """A dry run shows it, and nothing is closed."""
    shown = cli("handoff", given(project, suggested_next_steps=[]), "--dry-run")
    assert "T-1#n1 is dropped, as this handoff's list doesn't have it" in shown.out + shown.err
    assert statuses(as_json, "next_steps") == ["open"]


@pytest.mark.promise("S3-12")
def test_partial_work_can_say_what_ran_out(task: str, cli: Run, as_json: Json) -> None:
    """It is a blocker of that kind that blocks nothing; the next handoff closes it."""
    partial = ("handoff", "--task", task, "--from", "bob", "--to", "cat", "--outcome", "partial")
    refused = cli(*partial, "--next", "go on", code=1)
    assert "stopped: time | context | budget | turn" in refused.out + refused.err
    cli(*partial, "--next", "go on", "--stopped", "context")
    state = as_json("state", task)
    assert [(b["blocker"], b["status"]) for b in state["blockers"]] == [
        ("no key", "open"),
        ("Ran out of context", "open"),
    ]
    assert state["blockers"][1]["stopped"] == "context"
    assert state["status"] == "open"
    brief = cli("brief", task, "--agent", "cat").out
    assert [line for line in brief.splitlines() if "Ran out" in line] == [
        "- b2 (stopped) Ran out of context"
    ]
    cli("handoff", "--task", task, "--from", "cat", "--to", "dan", "--outcome", "completed")
    assert statuses(as_json, "blockers") == ["open", "resolved"]
    wrong = cli(
        *("handoff", "--task", task, "--to", "eve", "--outcome", "completed"),
        *("--stopped", "time"),
        code=1,
    )
    assert "outcome: partial" in wrong.out + wrong.err


def test_the_last_handoff_completes_the_task(cli: Run, as_json: Json) -> None:
    """Without a receiver and a phase, `completed` means the task; with one, only the step."""
    cli("task", "new", "T-1", "--title", "Login", "--agent", "ann")
    cli("handoff", "--task", "T-1", "--to", "bob", "--outcome", "completed")
    assert as_json("task", "show", "T-1")["status"] == "open"
    cli("handoff", "--task", "T-1", "--from", "bob", "--outcome", "completed")
    shown = as_json("task", "show", "T-1")
    assert (shown["status"], shown["phase"]) == ("completed", "completed")


def test_a_task_is_done_with_one_command(cli: Run, as_json: Json) -> None:
    """`task done` is a handoff by its holder, and is refused as one is."""
    cli("task", "new", "T-1", "--title", "Login", "--agent", "ann")
    cli("gate", "record", "T-1", "--name", "tests", "--failed", "--agent", "ann")
    refused = cli("task", "done", "T-1", "--from", "ann", code=1)
    assert "gate tests failed" in refused.out + refused.err
    assert "passdown gate record T-1 --name tests --passed" in refused.out + refused.err
    cli("task", "done", "T-1", "--from", "ann", "--summary", "it works", "--despite", "flaky")
    state = as_json("state", "T-1")
    assert (state["status"], state["phase"]) == ("completed", "completed")
    assert state["handoffs"][-1]["despite"] == "flaky"
    brief = cli("brief", "T-1", "--agent", "bob").out
    assert "- completed despite what was open: flaky\n" in brief
    assert state["handoffs"][-1]["summary"] == "it works"


@pytest.mark.parametrize("what", ["gate", "blocker", "question", "need"])
def test_completing_over_what_is_open_needs_a_word(
    project: Path, cli: Run, as_json: Json, what: str
) -> None:
    """A failed gate, a blocker, a blocking question, a task that it needs: each is named."""
    needs = ("--needs", "T-0") if what == "need" else ()
    cli("task", "new", "T-0", "--title", "First", "--agent", "ann")
    cli("task", "new", "T-1", "--title", "Login", "--agent", "ann", *needs)
    if what == "gate":
        cli("gate", "record", "T-1", "--name", "lint", "--failed", "--agent", "ann")
    fields: dict[str, Any] = {
        "blocker": {"outcome": "failed"},
        "question": {"open_questions": [{"question": "which?", "blocking": True}]},
    }.get(what, {})
    if what == "blocker":
        fields["blockers"] = [{"blocker": "no key", "suggested_resolution": "ask ops"}]
    cli("handoff", given(project, from_agent="ann", to_agent="bob", **fields))
    words = {
        "question": "T-1#q1 is open: which?",
        "gate": "gate lint failed",
        "blocker": "T-1#b1 is open: no key",
        "need": "T-1 needs T-0, which is not completed",
    }
    done = ("handoff", "--task", "T-1", "--from", "bob", "--outcome", "completed")
    refused = cli(*done, "--phase", "completed", code=1)
    assert words[what] in refused.out + refused.err
    said = cli(*done)
    assert f"T-1 stays open: {words[what]}" in said.out + said.err
    assert as_json("task", "show", "T-1")["status"] == "open"
    cli(*done, "--despite", "kim said so")
    assert as_json("state", "T-1")["handoffs"][-1]["despite"] == "kim said so"
    assert as_json("task", "show", "T-1")["status"] == "completed"


@pytest.mark.promise("P-3")
def test_the_last_handoff_given_again_completes_once_nothing_is_open(
    cli: Run, as_json: Json
) -> None:
    """What kept the task open is settled, so the same words complete it; then it is a repeat."""
    cli("task", "new", "T-1", "--title", "Login", "--agent", "ann")
    cli("gate", "record", "T-1", "--name", "lint", "--failed", "--agent", "ann")
    done = ("handoff", "--task", "T-1", "--from", "ann", "--outcome", "completed")
    assert "T-1 stays open" in cli(*done, "--summary", "fin").out
    again = as_json(*done, "--summary", "fin")
    assert again["is_replay"]
    cli("gate", "record", "T-1", "--name", "lint", "--passed", "--agent", "ann")
    completed = as_json(*done, "--summary", "fin")
    assert (completed["is_replay"], completed["phase"]) == (False, "completed")
    assert as_json(*done, "--summary", "fin")["is_replay"]
    assert as_json("task", "show", "T-1")["status"] == "completed"

"""Repeats: the same answer as the first time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import passdown
from passdown.testing import fixed_clock, full_handoff, write_files

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from passdown import HandoffCommand, Workspace

Document = dict[str, Any]

GATES = ("lint", "tests")
PHASES = ("planning", "implementing", "implementing", "testing", "reviewing")


@pytest.fixture
def ws(tmp_path: Path, each_store: None) -> Iterator[Workspace]:
    write_files(str(tmp_path))
    settings = passdown.Settings(artifacts_on_disk=False, embedder="none", durability="normal")
    with passdown.open(str(tmp_path), settings=settings, clock=fixed_clock()) as workspace:
        workspace.create_task("T-1", title="Login", agent="planner")
        yield workspace


def handoff(number: int) -> Document:
    """One of many handoffs: it brings files, decisions, gates, blockers and steps now and then."""
    sender, receiver = ("planner", "coder") if number % 2 else ("coder", "planner")
    given: Document = {
        "task": "T-1",
        "outcome": "completed",
        "from_agent": sender,
        "to_agent": receiver,
        "summary": f"part {number}",
        "artifacts": [{"path": f"src/part_{number % 5}.py"}, {"path": f"tests/test_{number}.py"}],
        "decisions": [{"summary": f"choice {number}", "rationale": "it holds"}][: number % 3],
    }
    if number % 4 == 0:
        given["phase"] = PHASES[number // 4 % len(PHASES)]
    if number % 3 == 0:
        given["gates"] = [{"name": name, "result": "passed"} for name in GATES[: number % 2 + 1]]
    if number % 5 == 0:
        given["suggested_next_steps"] = [{"step": f"step {number}"}, {"step": "stay"}]
    if number % 7 in (0, 1):
        given["blockers"] = [
            {"blocker": "the key is missing", "severity": "high", "suggested_resolution": "ask"}
        ]
        given["outcome"] = "failed"
    if number % 6 == 0:
        given["open_questions"] = [{"question": "who says so?", "blocking": True}]
    return given


def repeat(ws: Workspace, number: int) -> HandoffCommand:
    return ws.hand_off(handoff(number), key=f"k-{number}")


@pytest.mark.promise("P-3")
def test_a_repeat_gives_the_first_answer_whatever_the_handoff_brings(ws: Workspace) -> None:
    """Of every handoff of a story at once, and of the latest after other things were recorded."""
    for number in range(1, 64):
        first = repeat(ws, number)
        again = repeat(ws, number)
        assert again == first._replace(is_replay=True, warnings=again.warnings), number
        ws.decide(task="T-1", agent="coder", summary=f"beside {number}", rationale="r")
        ws.warn("T-1", agent="coder", text=f"mind {number}")
        assert repeat(ws, number) == again, number


@pytest.mark.promise("P-3")
def test_a_late_repeat_gives_the_first_answer(ws: Workspace) -> None:
    """Others may have handed off since, and items may have been marked."""
    firsts = {number: repeat(ws, number) for number in range(1, 31)}
    step = ws.files.state_document("T-1")["next_steps"][-1]
    ws.set_status(step["address"], "done", agent="coder")
    for number, first in firsts.items():
        again = repeat(ws, number)
        assert again == first._replace(is_replay=True, warnings=again.warnings), number


@pytest.mark.promise("P-3")
def test_a_rejected_gate_stands_in_the_answer_to_a_repeat(ws: Workspace) -> None:
    """A gate that had an answer before the handoff isn't taken for one that waits."""
    asked = full_handoff(task="T-1")
    asked["blockers"] = [
        {"blocker": "may we?", "severity": "blocker", "requires_human": True},
    ]
    held = ws.hand_off(asked, key="asked")
    again = ws.hand_off(asked, key="asked")
    assert again == held._replace(is_replay=True, warnings=again.warnings)
    assert again.held_by == held.held_by != ()
    ws.reject(held.held_by[0], by="person", reason="not yet")
    anew = {**asked, "summary": "asked anew"}
    second = ws.hand_off(anew, key="anew")
    repeat = ws.hand_off(anew, key="anew")
    assert repeat == second._replace(is_replay=True, warnings=repeat.warnings)

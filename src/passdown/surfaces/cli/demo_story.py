"""The story that `demo` plays, chapter by chapter."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from passdown.errors import Conflict, GateRefused
from passdown.surfaces.cli.printing import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from passdown.surfaces.cli.demo import Stage

_CODE = '''\
"""Prices with tax, in whole cents."""


def with_tax(cents: int, percent: int) -> int:
    """The price with tax, rounded half up."""
    return (cents * (100 + percent) + 50) // 100
'''
_TEST = """\
from shop.prices import with_tax


def test_half_a_cent_goes_up() -> None:
    assert with_tax(150, 19) == 179
"""
_WHY = "binary fractions can't hold a tenth, and sums drift"


def _plan(stage: Stage) -> None:
    stage.chapter("The planner makes two tasks and decides how money is counted")
    workspace = stage.workspace
    workspace.create_task(
        "T-1",
        title="Prices with tax",
        agent="planner",
        description="A function that adds tax to a price.",
        criteria=["19 % on 1.50 is 1.79", "no floating point anywhere"],
    )
    workspace.create_task("T-2", title="Invoices", agent="planner", depends_on=["T-1"])
    stage.says("planner", "T-1 Prices with tax (2 criteria); T-2 Invoices waits for T-1")
    receipt = workspace.decide(
        task="T-1",
        agent="planner",
        summary="Money is counted in whole cents",
        rationale=_WHY,
        alternatives=["Decimal everywhere", "floats, rounded late"],
        tags=["money"],
    )
    stage.says("planner", f"{receipt.items[0]}: whole cents, because {_WHY}")
    command = workspace.hand_off(
        {
            "task": "T-1",
            "from_agent": "planner",
            "to_agent": "coder",
            "phase": "implementing",
            "outcome": "completed",
            "summary": "Planned: one module, one function, one test.",
            "suggested_next_steps": [{"step": "Write with_tax", "priority": "high"}],
        }
    )
    stage.good(f"T-1 is the coder's, version {command.version}; this is all a prompt has to hold:")
    for text in command.context_summary.split("\n")[1:6]:
        stage.tells(text)


def _code(stage: Stage) -> None:
    stage.chapter("The coder hands on too early; every reason is listed at once")
    workspace = stage.workspace
    stage.write("shop/prices.py", _CODE)
    receipt = workspace.note(
        "gotcha",
        agent="coder",
        task="T-1",
        issue="Python rounds halves to even",
        mitigation="add 50 before dividing by 100",
        severity="medium",
        discovered_in="shop/prices.py",
    )
    stage.says("coder", f"{receipt.items[0]}: Python rounds halves to even, so add 50 first")
    handoff = {
        "task": "T-1",
        "from_agent": "coder",
        "to_agent": "tester",
        "phase": "testing",
        "outcome": "completed",
        "summary": "with_tax is there and rounds half up.",
        "files_created": [
            {"path": "shop/prices.py", "purpose": "prices with tax"},
            {"path": "shop/rates.toml", "purpose": "tax rates by country"},
        ],
        "dependencies_for_next": [{"file": "shop/prices.py", "reason": "what to test"}],
        "suggested_next_steps": [{"step": "Test the rounding at half a cent"}],
    }
    try:
        workspace.hand_off(handoff)
    except GateRefused as refused:
        stage.refused("\n".join(problem.line() for problem in refused.problems))
    stage.write("tests/test_prices.py", _TEST)
    handoff["files_created"] = [
        {"path": "shop/prices.py", "purpose": "prices with tax"},
        {"path": "tests/test_prices.py", "purpose": "the rounding, tested"},
    ]
    command = workspace.hand_off(handoff)
    stage.says("coder", "writes the test, leaves out the file that isn't there, hands on again")
    stage.good(f"T-1 is the tester's, version {command.version}, {command.completeness} % complete")


def _stale(stage: Stage) -> None:
    stage.chapter("A writer who worked from an old version is told, not overwritten")
    workspace = stage.workspace
    version = workspace.task("T-1")["version"]
    try:
        workspace.decide(
            task="T-1",
            agent="coder",
            summary="Round halves to even after all",
            rationale="it is what Python does",
            expect_version=version - 1,
        )
    except Conflict as conflict:
        stage.refused(f"{conflict.message}\n{conflict.next_step}")


def _gate(stage: Stage) -> None:
    stage.chapter("The tester needs a person; the task is held until one answers")
    workspace = stage.workspace
    workspace.record_gate("T-1", agent="tester", name="unit tests", passed=True, detail="1 passed")
    workspace.hand_off(
        {
            "task": "T-1",
            "from_agent": "tester",
            "to_agent": "reviewer",
            "phase": "reviewing",
            "outcome": "partial",
            "summary": "Tests pass; whether halves go up is for the accountant to say.",
            "blockers": [
                {
                    "blocker": "Is half a cent rounded up by law here?",
                    "impact": "prices may be a cent off",
                    "suggested_resolution": "ask the accountant",
                    "severity": "high",
                    "requires_human": True,
                }
            ],
            "suggested_next_steps": [{"step": "Review the rounding"}],
        }
    )
    gate = workspace.gates("T-1")[0]["address"]
    stage.says("tester", f"unit tests passed; {gate} asks a person: is half a cent rounded up?")
    try:
        workspace.hand_off({"task": "T-1", "from_agent": "reviewer", "outcome": "completed"})
    except GateRefused as refused:
        stage.refused(refused.problems[0].line())
    workspace.approve(gate, by="kim", reason="Yes, half up; checked with the tax office")
    answered = next(g for g in workspace.gates("T-1", open_only=False) if g["address"] == gate)
    stage.good(f"{gate} approved by {answered['answered_by']} at {answered['answered_at']}")


def _review(stage: Stage) -> None:
    stage.chapter("The reviewer finishes; nothing was lost on the way")
    workspace = stage.workspace
    version = workspace.task("T-1")["version"]
    workspace.hand_off(
        {
            "task": "T-1",
            "from_agent": "reviewer",
            "phase": "completed",
            "outcome": "completed",
            "summary": "Reviewed and done.",
            "gates": [{"name": "review", "result": "passed"}],
        }
    )
    early, now = workspace.state_document("T-1", 3), workspace.state_document("T-1")
    stage.says("reviewer", f"T-1 is {now['phase']} at version {now['version']}")
    stage.tells(
        f"at version 3 it was {early['phase']}, with {counted(len(early['artifacts']), 'artifact')}"
    )
    found = workspace.diff("T-1", version, now["version"])
    for name in ("phase", "outcome", "gates_passed"):
        if name in found["fields"]:
            change = found["fields"][name]
            stage.tells(f"{name}: {_shown(change['old'])} -> {_shown(change['new'])}")
    path = workspace.handle_file("T-1")
    with open(os.path.join(stage.root, path), encoding="utf-8") as file:
        document = json.load(file)
    stage.good(
        f"{path} holds it all as JSON that you can read: "
        f"{counted(len(document['decisions']), 'decision')}, "
        f"{counted(len(document['artifacts']), 'artifact')}, "
        f"{counted(len(document['handoffs']), 'handoff')}"
    )


def _shown(value: object) -> str:
    return ", ".join(value) if isinstance(value, list) else str(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


def _safety(stage: Stage) -> None:
    stage.chapter("Changes show: verify, a byte changed behind its back, an old copy put back")
    from passdown.workspace import open as open_workspace

    workspace = stage.workspace
    old = os.path.join(stage.root, "copy-old.db")
    workspace.backup(old)
    workspace.warn("T-2", agent="planner", text="Invoices need the tax rate of the day of sale")
    heads = workspace.heads()
    found = workspace.verify()
    records, streams = counted(found.records, "record"), counted(found.streams, "stream")
    stage.good(f"{records} in {streams} are as they were written")
    changed = os.path.join(stage.root, "copy-changed.db")
    workspace.backup(changed)
    with open(changed, "rb") as file:
        data = file.read()
    with open(changed, "wb") as file:
        # Everywhere: pages that are no longer in use may hold the text as well.
        file.write(data.replace(_WHY.encode(), b"B" + _WHY[1:].encode()))
    stage.tells("one byte of a decision's reason is changed in a copy of the database:")
    with open_workspace(changed, create=False) as copy:
        stage.found(copy.verify(chain_only=True).findings[0].line())
    stage.tells("an older copy is put in place of the database; taken by itself, it looks whole:")
    with open_workspace(old, create=False) as copy:
        alone = copy.verify()
        stage.good(f"verify finds {counted(len(alone.findings), 'fault')} in the older copy")
        stage.tells("compared with the heads that were saved elsewhere, it is found out:")
        stage.found(copy.verify(heads).findings[0].line())


CHAPTERS: tuple[Callable[[Stage], None], ...] = (_plan, _code, _stale, _gate, _review, _safety)

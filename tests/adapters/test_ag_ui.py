"""AG-UI: gates as interrupts, in the real protocol's own types and encoding."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from ag_ui.core import RunAgentInput, RunFinishedEvent
from ag_ui.encoder import EventEncoder

import passdown
from passdown.adapters.ag_ui import answer, finished, interrupts
from passdown.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from pathlib import Path

    from passdown import Workspace

ASKED = {"blocker": "Delete the table?", "requires_human": True}


def asked(ws: Workspace, text: str = "Ready.") -> None:
    ws.hand_off(
        task="T-1", from_agent="planner", to_agent="coder", outcome="partial", summary=text,
        blockers=[ASKED], suggested_next_steps=["Delete it"],
    )  # fmt: skip


def resumed(*entries: dict[str, Any]) -> RunAgentInput:
    """What a client sends to continue, as it comes over the wire."""
    sent = {"threadId": "t", "runId": "r2", "messages": [], "resume": [*entries]}
    return RunAgentInput.model_validate_json(json.dumps({"tools": [], "context": [], **sent}))


@pytest.mark.promise("C-6")
def test_a_gate_interrupts_a_run_and_its_answer_resumes_it(tmp_path: Path) -> None:
    """The event is valid after a trip over the wire; the answer is recorded with its person."""
    with passdown.open(str(tmp_path)) as ws:
        ws.create_task("T-1", title="Clean up", agent="planner")
        assert finished(ws, "T-1", thread_id="t", run_id="r0").outcome is None
        asked(ws)
        sent = EventEncoder().encode(finished(ws, "T-1", thread_id="t", run_id="r1"))
        event = RunFinishedEvent.model_validate_json(sent.removeprefix("data: "))
        assert event.outcome is not None
        assert event.outcome.type == "interrupt"
        (interrupt,) = event.outcome.interrupts
        assert (interrupt.id, interrupt.message) == ("T-1#k1", "Delete the table?")
        cancelled: dict[str, Any] = {"interruptId": "T-1#k1", "status": "cancelled"}
        other: dict[str, Any] = {
            "interruptId": "T-9#k1",
            "status": "resolved",
            "payload": {"approved": True},
        }
        assert answer(ws, "T-1", resumed(cancelled), by="kim") == []
        yes: dict[str, Any] = {
            "interruptId": "T-1#k1",
            "status": "resolved",
            "payload": {"approved": True},
        }
        with pytest.raises(NotFound, match=r"T-1 has no gate T-9#k1; no answer was recorded"):
            answer(ws, "T-1", resumed(yes, other), by="kim")
        assert ws.gates("T-1")[0].status == "pending"
        assert answer(ws, "T-1", resumed(yes), by="kim") == ["T-1#k1"]
        assert answer(ws, "T-1", resumed(yes), by="kim") == [], "sent again after a reload"
        (gate,) = ws.gates("T-1", all=True)
        assert (gate.status, gate.answered_by) == ("approved", "kim")
        assert interrupts(ws, "T-1") == []


@pytest.mark.promise("C-6")
def test_only_a_plain_yes_approves(tmp_path: Path) -> None:
    """Anything else rejects, which needs a reason."""
    with passdown.open(str(tmp_path)) as ws:
        ws.create_task("T-1", title="Clean up", agent="planner")
        asked(ws)
        for payload in ({"approved": "no"}, "yes", None):
            sent: dict[str, Any] = {
                "interruptId": "T-1#k1",
                "status": "resolved",
                "payload": payload,
            }
            with pytest.raises(InvalidInput):
                answer(ws, "T-1", resumed(sent), by="kim")
        why = {"approved": False, "reason": "The copy is missing."}
        sent = {"interruptId": "T-1#k1", "status": "resolved", "payload": why}
        assert answer(ws, "T-1", resumed(sent), by="kim") == ["T-1#k1"]
        assert ws.gates("T-1")[0].status == "rejected"


@pytest.mark.promise("C-6")
def test_the_program_of_the_page_runs(project_root: Path, tmp_path: Path) -> None:
    example = project_root / "docs" / "examples" / "protocols" / "over_ag_ui.py"
    page = (project_root / "docs" / "protocols.md").read_text("utf-8")
    assert f"```python\n{example.read_text('utf-8')}```" in page
    done = subprocess.run(
        [sys.executable, str(example)],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "interrupted: T-1#k1 asks: Delete the table?",
        "resumed: RUN_FINISHED, interrupted: False",
        "T-1#k1 is approved by kim",
    ]

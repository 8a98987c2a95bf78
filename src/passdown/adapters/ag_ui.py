"""AG-UI: a gate that a person has to answer as an interrupt, and the answer from what resumes it.

A run that a gate holds ends with `finished(ws, task, ...)`; `answer(ws, input, by=...)` records the
answers of the run that continues. An answer is in the ledger before anything else happens, so a
reloaded page loses none. Needs `pip install 'passdown[ag-ui]'`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from passdown.adapters.shared import requires_extra
from passdown.core.text import excerpt
from passdown.errors import NotFound
from passdown.tools import waiting_gates
from passdown.tools.briefs import workspace_of

with requires_extra("ag-ui", "the AG-UI protocol is not installed"):
    from ag_ui.core import Interrupt, RunFinishedEvent, RunFinishedInterruptOutcome

if TYPE_CHECKING:
    from ag_ui.core import RunAgentInput

    from passdown.core.types import JsonObject
    from passdown.tools.briefs import AnyWorkspace

REASON = "passdown:gate"
"""Why a run was interrupted: a person has to answer a gate."""
_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean"},
        "reason": {"type": "string", "description": "needed to reject"},
    },
    "required": ["approved"],
}


def interrupts(ws: AnyWorkspace, task: str) -> list[Interrupt]:
    """The gates of a task that a person has to answer, each under its address."""
    return [
        Interrupt(
            id=gate.address,
            reason=REASON,
            message=gate.blocker,
            response_schema=_SCHEMA,
            metadata={"task": task, "suggested_resolution": gate.suggested_resolution},
        )
        for gate in waiting_gates(ws, task)
    ]


def finished(
    ws: AnyWorkspace, task: str, *, thread_id: str, run_id: str, result: Any = None
) -> RunFinishedEvent:
    """The last event of a run: interrupted while a gate of its task waits, else a success."""
    waiting = interrupts(ws, task)
    about: JsonObject = {"thread_id": thread_id, "run_id": run_id}
    if not waiting:
        return RunFinishedEvent(**about, result=result)
    return RunFinishedEvent(**about, outcome=RunFinishedInterruptOutcome(interrupts=waiting))


def answer(ws: AnyWorkspace, task: str, run: RunAgentInput, *, by: str) -> list[str]:
    """Record the answers with which a run resumes; gives the gates that were answered.

    `by` is the person who is signed in. A gate that was answered before or whose interrupt was
    cancelled stays as it is. Raises NotFound for an answer to what is no gate of the task, before
    anything is recorded, and InvalidInput for a rejection without a reason; the answers before it
    are recorded.
    """
    known = {gate.address for gate in workspace_of(ws).gates(task, all=True)}
    entries = [entry for entry in run.resume or () if entry.status == "resolved"]
    if unknown := [
        excerpt(each.interrupt_id) for each in entries if each.interrupt_id not in known
    ]:
        raise NotFound(
            f"{task} has no gate {', '.join(unknown)}; no answer was recorded",
            next_step=f"Its gates: {', '.join(sorted(known)) or 'none'}.",
        )
    waiting = {gate.address for gate in waiting_gates(ws, task)}
    workspace, answered = workspace_of(ws), list[str]()
    for entry in entries:
        if entry.interrupt_id not in waiting:
            continue
        payload: Any = entry.payload
        given = cast("JsonObject", payload) if isinstance(payload, dict) else {}
        says = workspace.approve if given.get("approved") is True else workspace.reject
        says(entry.interrupt_id, by=by, reason=str(given.get("reason", "")))
        answered.append(entry.interrupt_id)
    return answered

"""A run that a gate interrupts, and the run with a person's answer that resumes it, over AG-UI."""

import tempfile
from collections.abc import Iterator

from ag_ui.core import Event, ResumeEntry, RunAgentInput, RunFinishedEvent, RunStartedEvent

import passdown
from passdown.adapters.ag_ui import answer, finished


def run_input(run_id: str, resume: list[ResumeEntry] | None = None) -> RunAgentInput:
    """What a page sends: a first run has nothing to resume."""
    return RunAgentInput(
        thread_id="thread-1",
        run_id=run_id,
        state={},
        messages=[],
        tools=[],
        context=[],
        forwarded_props={},
        resume=resume,
    )


def agent(workspace: passdown.Workspace, given: RunAgentInput, signed_in: str) -> Iterator[Event]:
    """The events of a run; a server encodes each with EventEncoder."""
    answer(workspace, "T-1", given, by=signed_in)
    yield RunStartedEvent(thread_id=given.thread_id, run_id=given.run_id)
    if not workspace.gates("T-1", all=True):
        workspace.hand_off(
            task="T-1",
            from_agent="planner",
            to_agent="coder",
            outcome="partial",
            summary="The old table is empty.",
            blockers=[{"blocker": "Delete the table?", "requires_human": True}],
            suggested_next_steps=["Delete it"],
        )
    yield finished(workspace, "T-1", thread_id=given.thread_id, run_id=given.run_id)


with tempfile.TemporaryDirectory() as folder, passdown.open(folder) as workspace:
    workspace.create_task("T-1", title="Clean up", agent="planner")
    answers: list[ResumeEntry] = []
    for event in agent(workspace, run_input("run-1"), "kim"):
        if isinstance(event, RunFinishedEvent) and event.outcome:
            for asked in getattr(event.outcome, "interrupts", ()):
                print(f"interrupted: {asked.id} asks: {asked.message}")
                yes = {"approved": True, "reason": "There is a copy."}
                answers.append(ResumeEntry(interrupt_id=asked.id, status="resolved", payload=yes))
    *_, last = agent(workspace, run_input("run-2", answers), "kim")
    print(f"resumed: {last.type.value}, interrupted: {bool(getattr(last, 'outcome', None))}")
    (gate,) = workspace.gates("T-1", all=True)
    print(f"{gate.address} is {gate.status} by {gate.answered_by}")

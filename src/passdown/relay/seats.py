"""Seats: an agent in a run. A seat has a state and a lease on the run's task for as long as the
run goes; the same agent may sit in many runs at once.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from passdown.errors import PassdownError
from passdown.model.agent_states import (
    BUDGET_REVIEW,
    CODING,
    DETOURS,
    DONE,
    ENDS,
    ERROR,
    MACHINES,
    PLANNING,
    START,
    SUSPEND,
    legal_steps,
)
from passdown.model.run import LEG, REVIEW
from passdown.relay.agents import AgentStates

if TYPE_CHECKING:
    from collections.abc import Callable

    from passdown.model.agent_states import Position
    from passdown.model.run import LegRun, Run
    from passdown.workspace import Workspace

WORK = {"planning": PLANNING, "testing": "TESTING", "reviewing": "CODE_REVIEW"}
"""The state of an agent at work, by the phase of its leg; CODING for any other."""

log = logging.getLogger("passdown.relay")


def seat_of(agent: str, run: str) -> str:
    """The name under which an agent sits in a run."""
    return f"{agent}.{run}"


def agent_of(seat: str, run: str) -> str:
    """Whose seat it is."""
    return seat.removesuffix(f".{run}")


class Seats:
    """Where the agents of runs stand. A step that isn't legal is refused, recorded and logged; it
    doesn't stop a run.
    """

    def __init__(self, workspace: Workspace, on_setup: Callable[[str], None] | None = None) -> None:
        self.states = AgentStates(workspace, on_setup=on_setup)

    def take(self, run: Run, turn: LegRun) -> None:
        """An agent takes its seat and comes to the state that its leg works in."""
        seat = seat_of(turn.agent, run.run)
        self._try(lambda: self.states.lease(seat, run.task, run.run))
        before = self.states.standing(seat)
        if before.state in (BUDGET_REVIEW, SUSPEND):
            review = _review_of(run, turn)
            verdict, guidance = (review.verdict, review.summary) if review else ("continue", "")
            self._try(lambda: self.states.settle_review(seat, verdict or "continue", guidance))
        self._go(seat, WORK.get(run.relay.legs[turn.leg].phase, CODING), f"leg {turn.leg}")

    def settle(self, run: Run) -> None:
        """Bring seats to where the run is: under review, or done and free again."""
        if not (run.ended_at or run.asked or any(t.kind == REVIEW for t in run.open_legs)):
            return
        for agent in run.relay.agents:
            seat = seat_of(agent, run.run)
            if self.states.current_lease(seat) is None:
                continue
            if run.ended_at:
                self._leave(seat, is_done=run.status == "completed", why=run.why or run.status)
            elif _is_under_review(run, agent):
                self._go(seat, BUDGET_REVIEW, "its loops are used up")

    def _leave(self, seat: str, *, is_done: bool, why: str) -> None:
        self._go(seat, DONE if is_done else ERROR, why)
        self._try(lambda: self.states.move(seat, START, why=why))
        self._try(lambda: self.states.release(seat, why))

    def _go(self, seat: str, goal: str, why: str) -> None:
        standing = self.states.standing(seat)
        path = shortest(standing.machine, standing.position, goal)
        if path:
            self._try(lambda: self.states.move(seat, *path, why=why))

    def _try(self, change: Callable[[], object]) -> None:
        try:
            change()
        except PassdownError as error:
            log.warning("an agent's state stays as it was: %s", error)


def shortest(machine: str, position: Position, goal: str) -> tuple[str, ...]:
    """The shortest legal way from where an agent stands to a state; empty when it is there."""
    if position.state == goal:
        return ()
    steps = MACHINES[machine].steps
    waiting: list[tuple[str, ...]] = [
        (step,) for step in legal_steps(MACHINES[machine], position, is_express=False)
    ]
    seen: set[str] = set()
    while waiting:
        path = waiting.pop(0)
        if path[-1] == goal:
            return path
        is_dead_end = path[-1] in DETOURS or (path[-1] in ENDS and position.state not in ENDS)
        if path[-1] in seen or is_dead_end:
            continue
        seen.add(path[-1])
        express = MACHINES[machine].express
        waiting += [(*path, s) for s in steps[path[-1]] if (path[-1], s) not in express]
    return (goal,)


def _review_of(run: Run, turn: LegRun) -> LegRun | None:
    """The latest review of a leg before a turn."""
    reviews = [t for t in run.legs.values() if t.kind == REVIEW and t.number < turn.number]
    return reviews[-1] if reviews else None


def _is_under_review(run: Run, agent: str) -> bool:
    legs = run.relay.legs
    reviewed = [t for t in run.open_legs if t.kind == REVIEW and legs[t.leg].agent == agent]
    return bool(reviewed) or any(ask.agent == agent for ask in run.asked)


__all__ = ["LEG", "Seats", "agent_of", "seat_of", "shortest"]

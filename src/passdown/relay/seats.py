"""Seats: an agent in a run. A seat has a state and a lease on the run's task for as long as the
run goes; the same agent may sit in many runs at once.
"""

from __future__ import annotations

import hashlib
import logging
import threading
from typing import TYPE_CHECKING

from passdown.errors import PassdownError
from passdown.model.advancing import USED_UP
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
    Position,
    check_path,
    legal_steps,
)
from passdown.model.names import MAX_AGENT
from passdown.model.run import LEG, REVIEW
from passdown.relay.agents import AgentStates

if TYPE_CHECKING:
    from collections.abc import Callable

    from passdown.model.run import LegRun, Run
    from passdown.workspace import Workspace

ESCALATE = "escalate"
WORK = {"planning": PLANNING, "testing": "TESTING", "reviewing": "CODE_REVIEW"}
"""The state of an agent at work, by the phase of its leg; CODING for any other."""

log = logging.getLogger("passdown.relay")


def seat_at(run: Run, turn: LegRun) -> str:
    """The seat that an agent takes a turn in.

    One that has two turns at the same time has a seat for each, and so a conversation for each.
    """
    return seat_of(turn.agent, f"{run.run}.{turn.number}" if _is_second(run, turn) else run.run)


def seat_of(agent: str, place: str) -> str:
    """The name under which an agent sits in a run; of a long name, as much as there is room for."""
    name = f"{agent}.{place}"
    if len(name) <= MAX_AGENT:
        return name
    mark = hashlib.blake2b(agent.encode(), digest_size=4).hexdigest()
    return f"{agent[: MAX_AGENT - len(place) - 10]}-{mark}.{place}"


def _is_second(run: Run, turn: LegRun) -> bool:
    """Whether the agent was at another turn already when this one was started."""
    return any(
        other.agent == turn.agent
        and other.number < turn.number
        and (not other.ended_at or other.ended_at > turn.started_at)
        for other in run.legs.values()
        if other.kind == LEG
    )


class Seats:
    """Where the agents of runs stand. A step that isn't legal is refused, recorded and logged; it
    doesn't stop a run.
    """

    def __init__(self, workspace: Workspace, on_setup: Callable[[str], None] | None = None) -> None:
        self.states = AgentStates(workspace, on_setup=on_setup)
        self._settling = threading.Lock()

    def take(self, run: Run, turn: LegRun) -> None:
        """An agent takes its seat and comes to the state that its leg works in."""
        seat = seat_at(run, turn)
        self._try(lambda: self.states.lease(seat, run.task, run.run))
        if self.states.state(seat) in (BUDGET_REVIEW, SUSPEND):
            review = _latest_review(run, turn.agent, before=turn.number)
            verdict, guidance = (review.verdict, review.summary) if review else ("continue", "")
            self._try(lambda: self.states.settle_review(seat, verdict or "continue", guidance))
        self._go(seat, WORK.get(run.relay.legs[turn.leg].phase, CODING), f"leg {turn.leg}")

    def settle(self, run: Run) -> None:
        """Bring seats to where the run is: under review, or done and free again."""
        if not (run.ended_at or run.asked or any(t.kind == REVIEW for t in run.open_legs)):
            return
        agents = {seat_at(run, turn): turn.agent for turn in run.legs.values() if turn.kind == LEG}
        with self._settling:
            for seat, agent in agents.items():
                if self.states.current_lease(seat) is None:
                    continue
                if run.ended_at:
                    self._leave(seat, is_done=run.status == "completed", why=run.why or run.status)
                elif _is_under_review(run, agent):
                    self._review(run, seat, agent)

    def _review(self, run: Run, seat: str, agent: str) -> None:
        """An agent waits for a verdict; for that of a person in SUSPEND, where it was escalated."""
        if self.states.state(seat) == SUSPEND:
            return
        self._go(seat, BUDGET_REVIEW, USED_UP)
        last = _latest_review(run, agent, before=len(run.legs) + 1)
        if (
            last is not None
            and last.verdict == ESCALATE
            and any(a.agent == agent for a in run.asked)
        ):
            self._try(lambda: self.states.settle_review(seat, ESCALATE, last.summary))

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
    """The shortest legal way from where an agent stands to a state; empty when it is there.

    An end is passed through only by one who stands at an end. Where there is no way, the goal
    itself: it will be refused, and that is recorded.
    """
    table = MACHINES[machine]
    waiting: list[tuple[Position, tuple[str, ...]]] = [(position, ())]
    seen: set[Position] = set()
    while waiting:
        place, path = waiting.pop(0)
        if place.state == goal:
            return path
        if place in seen or (path and place.state in ENDS and position.state not in ENDS):
            continue
        seen.add(place)
        for step in legal_steps(table, place, is_express=False):
            if step == goal or step not in DETOURS or step in place.came_from[-1:]:
                walked = check_path(table, place, (step,), is_express=False)
                waiting.append((walked.position, (*path, step)))
    return (goal,)


def _latest_review(run: Run, agent: str, *, before: int) -> LegRun | None:
    """The latest review of an agent before a turn."""
    legs = run.relay.legs
    reviews = [
        each
        for each in run.legs.values()
        if each.kind == REVIEW and each.number < before and legs[each.leg].agent == agent
    ]
    return reviews[-1] if reviews else None


def _is_under_review(run: Run, agent: str) -> bool:
    legs = run.relay.legs
    reviewed = [t for t in run.open_legs if t.kind == REVIEW and legs[t.leg].agent == agent]
    return bool(reviewed) or any(ask.agent == agent for ask in run.asked)

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
    DONE,
    ERROR,
    PLANNING,
    START,
    SUSPEND,
)
from passdown.model.names import MAX_AGENT
from passdown.model.run import LEG, REVIEW
from passdown.relay.agents import AgentStates

if TYPE_CHECKING:
    from collections.abc import Callable

    from passdown.model.agent_states import Lease
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
                lease = self.states.current_lease(seat)
                if lease is None:
                    continue
                if run.ended_at:
                    self._leave(lease, is_done=run.status == "completed", why=run.why or run.status)
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

    def _leave(self, lease: Lease, *, is_done: bool, why: str) -> None:
        """Give a seat up, once: every worker that sees the end of a run does this, some at the same
        moment, and the keys tell that it is the same leaving.
        """
        seat, key = lease.agent, f"leave-{lease.number}"
        self._go(seat, DONE if is_done else ERROR, why, f"{key}-end")
        self._go(seat, START, why, f"{key}-free")
        self._try(lambda: self.states.release(seat, why, number=lease.number))

    def _go(self, seat: str, goal: str, why: str, key: str = "") -> None:
        self._try(lambda: self.states.reach(seat, goal, why=why, key=key))

    def _try(self, change: Callable[[], object]) -> None:
        try:
            change()
        except PassdownError as error:
            log.warning("an agent's state stays as it was: %s", error)


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

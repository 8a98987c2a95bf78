"""The states of agents and which may follow which. Pure.

A machine is a table: from each state to those that may follow. Three states are detours: an agent
leaves them to where it came from, so its position is a state and the way back. In every machine
ERROR may follow any other state, and SUSPEND any that isn't an end.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from passdown.errors import InvalidInput, Problem
from passdown.relay.run import VERDICTS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


START = "WAITING"
SETUP, PLANNING, CODING = "SETUP", "PLANNING", "CODING"
QUESTION, BUDGET_REVIEW, SUSPEND = "QUESTION", "BUDGET_REVIEW", "SUSPEND"
DONE, ERROR = "DONE", "ERROR"
ENDS = (DONE, ERROR)
CODER = "coder"
DETOURS = frozenset({QUESTION, BUDGET_REVIEW, SUSPEND})
MAX_STEPS = 50

_CODER = {
    START: (SETUP,),
    SETUP: (PLANNING, CODING),
    PLANNING: ("PLAN_REVIEW", CODING, QUESTION, BUDGET_REVIEW, DONE),
    "PLAN_REVIEW": (CODING, PLANNING),
    CODING: ("TESTING", "CODE_REVIEW", QUESTION, BUDGET_REVIEW, DONE),
    "TESTING": (CODING, "CODE_REVIEW", BUDGET_REVIEW, DONE),
    "CODE_REVIEW": (CODING, PLANNING, DONE),
    BUDGET_REVIEW: (PLANNING,),
    QUESTION: (),
    DONE: (START,),
    ERROR: (START,),
}

_ARCHITECT = {
    START: (SETUP, "REQUEST"),
    SETUP: ("DISPATCHING",),
    "REQUEST": (START, "MONITORING", "ESCALATED"),
    "DISPATCHING": ("MONITORING",),
    "MONITORING": ("REQUEST", "DISPATCHING", DONE),
    "ESCALATED": ("REQUEST", "MONITORING"),
    DONE: (START,),
    ERROR: (START,),
}


class Machine(NamedTuple):
    """The states of a kind of agent: from each, those that may follow.

    `express` are steps for express work only. The way back from a detour isn't in the table:
    `legal_steps` adds it.
    """

    name: str
    steps: Mapping[str, tuple[str, ...]]
    express: frozenset[tuple[str, str]] = frozenset()


class StatePosition(NamedTuple):
    """A state and, in a detour, the states to return to, last first."""

    state: str = START
    came_from: tuple[str, ...] = ()


class PathCheck(NamedTuple):
    """The position at the end of a path, or the last legal one with the problems."""

    position: StatePosition
    problems: tuple[Problem, ...]


class Lease(NamedTuple):
    """The assignment of an agent to a task. `number` is the position of its record, so a later
    lease of the same agent has a higher one.
    """

    agent: str
    task: str
    number: int
    run: str = ""


class AgentStatus(NamedTuple):
    """The status of an agent. `since` is when it entered its state ("": it never moved), `version`
    the position of its last record.
    """

    agent: str
    machine: str = CODER
    position: StatePosition = StatePosition()
    lease: Lease | None = None
    since: str = ""
    version: int = 0

    @property
    def state(self) -> str:
        """The agent's state."""
        return self.position.state

    @property
    def task(self) -> str:
        """The task that it is assigned to; "" for none."""
        return self.lease.task if self.lease else ""


def status_document(status: AgentStatus) -> dict[str, Any]:
    """A status as plain JSON, without agent and version: the record has them."""
    lease = status.lease
    return {
        "machine": status.machine,
        "state": status.state,
        "came_from": list(status.position.came_from),
        "since": status.since,
        "lease": lease and {"task": lease.task, "run": lease.run, "number": lease.number},
    }


def status_of(agent: str, document: dict[str, Any], version: int) -> AgentStatus:
    """The status that `status_document` wrote for an agent, at a position."""
    lease = document["lease"]
    return AgentStatus(
        agent=agent,
        machine=document["machine"],
        position=StatePosition(document["state"], tuple(document["came_from"])),
        lease=Lease(agent, **lease) if lease else None,
        since=document["since"],
        version=version,
    )


def _machine(
    name: str,
    table: Mapping[str, tuple[str, ...]],
    express: frozenset[tuple[str, str]] = frozenset(),
) -> Machine:
    """A machine with the steps that all have."""
    steps = {
        state: (*after, *(() if state == ERROR else (ERROR,)), *_pause(state))
        for state, after in table.items()
    }
    return Machine(name, MappingProxyType({**steps, SUSPEND: (ERROR,)}), express)


def _pause(state: str) -> tuple[str, ...]:
    return () if state in ENDS else (SUSPEND,)


MACHINES: Mapping[str, Machine] = MappingProxyType(
    {
        CODER: _machine(CODER, _CODER, frozenset({(SETUP, CODING)})),
        "architect": _machine("architect", _ARCHITECT),
    }
)


def legal_steps(
    machine: Machine, position: StatePosition, *, is_express: bool = False
) -> tuple[str, ...]:
    """The states that may follow: the way back from a detour first, then those of the table."""
    state = position.state
    steps = machine.steps.get(state, ())
    allowed = (to for to in steps if is_express or (state, to) not in machine.express)
    return tuple(dict.fromkeys((*position.came_from[-1:], *allowed)))


def check_path(
    machine: Machine, position: StatePosition, path: Sequence[str], *, is_express: bool = False
) -> PathCheck:
    """Follow a path from a position. The problems name every unknown state and the first illegal
    step, with the legal ones.
    """
    unknown = tuple(_unknown(machine, index, to) for index, to in enumerate(path))
    problems = [problem for problem in unknown if problem]
    for index, to in enumerate(path):
        legal = legal_steps(machine, position, is_express=is_express)
        if to not in legal:
            if unknown[index] is None:
                is_only_express = (position.state, to) in machine.express
                message = f"{to} can't follow {position.state}"
                message += " except for express work" if is_only_express else ""
                expected = f"one of {', '.join(legal)}"
                problems.append(Problem(f"path[{index}]", "illegal_step", message, expected))
            break
        position = _moved(position, to)
    return PathCheck(position, tuple(problems))


def shortest_path(machine: str, position: StatePosition, goal: str) -> tuple[str, ...]:
    """The shortest legal path to a state; empty if the agent is there.

    It leads through an end only if it starts at one. If there is no path, the goal itself: that is
    refused, and the refusal is recorded.
    """
    table = MACHINES[machine]
    waiting: list[tuple[StatePosition, tuple[str, ...]]] = [(position, ())]
    seen: set[StatePosition] = set()
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


def _moved(position: StatePosition, to: str) -> StatePosition:
    """The position after a legal step. Other steps than a detour and its way back clear that."""
    if position.came_from and to == position.came_from[-1]:
        return StatePosition(to, position.came_from[:-1])
    if to in DETOURS:
        return StatePosition(to, (*position.came_from, position.state))
    return StatePosition(to)


def _unknown(machine: Machine, index: int, to: str) -> Problem | None:
    if to in machine.steps:
        return None
    expected = f"one of {', '.join(machine.steps)}"
    message = f"{to[:64]!r} isn't a state of {machine.name}"
    return Problem(f"path[{index}]", "unknown_state", message, expected)


def after_review(verdict: str, came_from: str) -> str:
    """The state after a budget review: the previous one (`continue`), planning (`pivot`), a pause
    for a person (`escalate`), an error (`abandon`). Raises InvalidInput.
    """
    coder = MACHINES[CODER]
    reviewed = [state for state, after in coder.steps.items() if BUDGET_REVIEW in after]
    problems: list[Problem] = []
    if verdict not in VERDICTS:
        expected = f"one of {', '.join(VERDICTS)}"
        problems.append(Problem("verdict", "invalid_choice", repr(verdict)[:80], expected))
    if came_from not in reviewed:
        expected = f"one of {', '.join(reviewed)}"
        problems.append(Problem("came_from", "invalid_choice", repr(came_from)[:80], expected))
    if problems:
        raise InvalidInput("invalid review", problems)
    targets = (came_from, PLANNING, SUSPEND, ERROR)
    return targets[VERDICTS.index(verdict)]


def as_mermaid(machine: Machine) -> str:
    """The machine as a Mermaid state diagram; a note stands for the steps to ERROR and SUSPEND."""
    lines = ["stateDiagram-v2", f"    [*] --> {START}"]
    for state, after in machine.steps.items():
        for to in after:
            if to not in (ERROR, SUSPEND):
                label = ": express" if (state, to) in machine.express else ""
                lines.append(f"    {state} --> {to}{label}")
                # Draw each detour with its way back.
                lines += [f"    {to} --> {state}: back"] if to in DETOURS else []
    # A colon or a semicolon would end the note.
    note = "every other state may go to ERROR, all but DONE and ERROR also to SUSPEND and back"
    lines += [f"    {SUSPEND}", f"    note right of {SUSPEND}: {note}"]
    return "\n".join(lines) + "\n"

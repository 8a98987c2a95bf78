"""The states of agents and which may follow which. Pure.

A machine is a table: from each state to those that may follow. Three states are detours: an agent
leaves them to where it came from, so its position is a state and the way back. In every machine
ERROR may follow any other state, and SUSPEND any that isn't an end.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from passdown.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


START = "WAITING"
SETUP, PLANNING, CODING = "SETUP", "PLANNING", "CODING"
QUESTION, BUDGET_REVIEW, SUSPEND = "QUESTION", "BUDGET_REVIEW", "SUSPEND"
DONE, ERROR = "DONE", "ERROR"
ENDS = (DONE, ERROR)
DETOURS = frozenset({QUESTION, BUDGET_REVIEW, SUSPEND})
VERDICTS = ("continue", "pivot", "escalate", "abandon")
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
    """The states of a kind of agent: from each, those that may follow, in the order of the table.

    `express` are steps that only express work may take. The way back from a detour isn't in the
    table: `legal_steps` adds it.
    """

    name: str
    steps: Mapping[str, tuple[str, ...]]
    express: frozenset[tuple[str, str]] = frozenset()


class StatePosition(NamedTuple):
    """A state and, in a detour, the states to go back to: the last of them comes first."""

    state: str = START
    came_from: tuple[str, ...] = ()


class PathCheck(NamedTuple):
    """Where a path ends, or what is wrong with it: then `position` is how far it was legal."""

    position: StatePosition
    problems: tuple[Problem, ...]


class Lease(NamedTuple):
    """An agent is on a task. `number` is the position of its record, so a later lease of the same
    agent has a higher one.
    """

    agent: str
    task: str
    number: int
    run: str = ""


class AgentStatus(NamedTuple):
    """Where an agent stands. `since` is when it came to its state (empty: it never moved),
    `version` the position of its last record.
    """

    agent: str
    machine: str = "coder"
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
        """The task that it is on; empty for none."""
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
    """A machine with the steps that every one has."""
    steps = {
        state: (*after, *(() if state == ERROR else (ERROR,)), *_pause(state))
        for state, after in table.items()
    }
    return Machine(name, MappingProxyType({**steps, SUSPEND: (ERROR,)}), express)


def _pause(state: str) -> tuple[str, ...]:
    return () if state in ENDS else (SUSPEND,)


MACHINES: Mapping[str, Machine] = MappingProxyType(
    {
        "coder": _machine("coder", _CODER, frozenset({(SETUP, CODING)})),
        "architect": _machine("architect", _ARCHITECT),
    }
)


def legal_steps(
    machine: Machine, position: StatePosition, *, is_express: bool = False
) -> tuple[str, ...]:
    """The states that may follow: first the way back from a detour, then those of the table."""
    state = position.state
    steps = machine.steps.get(state, ())
    allowed = (to for to in steps if is_express or (state, to) not in machine.express)
    return tuple(dict.fromkeys((*position.came_from[-1:], *allowed)))


def check_path(
    machine: Machine, position: StatePosition, path: Sequence[str], *, is_express: bool = False
) -> PathCheck:
    """Walk a path from a position. The problems name every state that isn't in the machine and
    the first step that isn't legal, each with what would be.
    """
    unknown = tuple(_unknown(machine, index, to) for index, to in enumerate(path))
    problems = [problem for problem in unknown if problem]
    for index, to in enumerate(path):
        legal = legal_steps(machine, position, is_express=is_express)
        if to not in legal:
            if unknown[index] is None:
                is_only_express = (position.state, to) in machine.express
                message = f"{to} can't follow {position.state}"
                message += " unless the work is express" if is_only_express else ""
                expected = f"one of {', '.join(legal)}"
                problems.append(Problem(f"path[{index}]", "illegal_step", message, expected))
            break
        position = _moved(position, to)
    return PathCheck(position, tuple(problems))


def shortest_path(machine: str, position: StatePosition, goal: str) -> tuple[str, ...]:
    """The shortest legal way from where an agent stands to a state; empty when it is there.

    An end is passed through only by one who stands at an end. Where there is no way, the goal
    itself: it will be refused, and that is recorded.
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
    """Where a legal step leads. Any step but a detour or the way back from one is a new start."""
    if position.came_from and to == position.came_from[-1]:
        return StatePosition(to, position.came_from[:-1])
    if to in DETOURS:
        return StatePosition(to, (*position.came_from, position.state))
    return StatePosition(to)


def _unknown(machine: Machine, index: int, to: str) -> Problem | None:
    if to in machine.steps:
        return None
    expected = f"one of {', '.join(machine.steps)}"
    message = f"{to[:64]!r} is no state of {machine.name}"
    return Problem(f"path[{index}]", "unknown_state", message, expected)


def after_review(verdict: str, came_from: str) -> str:
    """The state that follows a review of the loop budget: on where it was (`continue`), plan anew
    (`pivot`), wait for a person (`escalate`), give up (`abandon`). Raises InvalidInput.
    """
    coder = MACHINES["coder"]
    reviewed = [state for state, after in coder.steps.items() if BUDGET_REVIEW in after]
    problems: list[Problem] = []
    if verdict not in VERDICTS:
        expected = f"one of {', '.join(VERDICTS)}"
        problems.append(Problem("verdict", "invalid_choice", repr(verdict)[:80], expected))
    if came_from not in reviewed:
        expected = f"one of {', '.join(reviewed)}"
        problems.append(Problem("came_from", "invalid_choice", repr(came_from)[:80], expected))
    if problems:
        raise InvalidInput("no state follows this review", problems)
    targets = (came_from, PLANNING, SUSPEND, ERROR)
    return targets[VERDICTS.index(verdict)]


def as_mermaid(machine: Machine) -> str:
    """The machine as a Mermaid state diagram; ways to ERROR and SUSPEND, which nearly all states
    share, are a note.
    """
    lines = ["stateDiagram-v2", f"    [*] --> {START}"]
    for state, after in machine.steps.items():
        for to in after:
            if to not in (ERROR, SUSPEND):
                label = ": express" if (state, to) in machine.express else ""
                lines.append(f"    {state} --> {to}{label}")
                # Each detour is drawn with its way back; two arrows say more than a rule.
                lines += [f"    {to} --> {state}: back"] if to in DETOURS else []
    # A colon or a semicolon would end the note.
    note = "every other state may go to ERROR, all but DONE and ERROR also to SUSPEND and back"
    lines += [f"    {SUSPEND}", f"    note right of {SUSPEND}: {note}"]
    return "\n".join(lines) + "\n"

"""States and leases of agents, kept in their streams; and of agent instances in runs.

A machine is a table: from each state to those that may follow. Three states are detours: an agent
leaves them to where it came from, so its position is a state and the way back. In every machine
ERROR may follow any other state, and SUSPEND any that isn't an end.

Every record holds the status that it leads to, so a move reads one record. Of two processes that
move an agent at once, the second is checked against what the first wrote.
"""

from __future__ import annotations

import hashlib
import re
import threading
from contextlib import contextmanager, suppress
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from passdown.core.arguments import raise_problems
from passdown.core.kinds import AGENT_STREAM, RUN_STREAM
from passdown.core.names import MAX_AGENT, agent_problems, id_problems
from passdown.core.redaction import redact
from passdown.core.text import excerpt, text_problems, visible
from passdown.core.times import stamp
from passdown.errors import Conflict, GateRefused, KeyReused, PassdownError, Problem
from passdown.relay.engine import has_ended
from passdown.relay.run import LEG, REVIEW, RUNNING, USED_UP, VERDICTS, overlapped
from passdown.relay.runs import EXPRESS, Runs
from passdown.workspace.context import context_of
from passdown.workspace.streams import StreamEntry, WorkspaceStreams

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence
    from logging import Logger

    from passdown.core.record import Record
    from passdown.core.types import JsonObject
    from passdown.relay.run import LegRun, Run
    from passdown.workspace import Workspace

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

    def document(self) -> JsonObject:
        """The lease as plain JSON, without its agent."""
        return {"task": self.task, "run": self.run, "number": self.number}


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

    def document(self) -> JsonObject:
        """The status as plain JSON, without agent and version: the record has them."""
        state, came_from = self.position
        place = {"machine": self.machine, "state": state, "came_from": list(came_from)}
        return {**place, "since": self.since, "lease": self.lease and self.lease.document()}


def status_of(agent: str, record: Record | None) -> AgentStatus:
    """The status of an agent at its last record; as it begins without one."""
    if record is None:
        return AgentStatus(agent)
    said: JsonObject = record.document()["stands"]
    position = StatePosition(said["state"], tuple(said["came_from"]))
    lease = Lease(agent, **said["lease"]) if said["lease"] else None
    return AgentStatus(agent, said["machine"], position, lease, said["since"], record.position)


def _machine(name: str, table: Mapping[str, tuple[str, ...]], *express: tuple[str, str]) -> Machine:
    """A machine with the steps that all have."""
    common = dict.fromkeys(table, (ERROR, SUSPEND)) | {DONE: (ERROR,), ERROR: ()}
    steps = {state: (*after, *common[state]) for state, after in table.items()}
    return Machine(name, {**steps, SUSPEND: (ERROR,)}, frozenset(express))


MACHINES: Mapping[str, Machine] = {
    CODER: _machine(CODER, _CODER, (SETUP, CODING)),
    "architect": _machine("architect", _ARCHITECT),
}


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
    expected = f"one of {', '.join(machine.steps)}"
    problems: list[Problem] = []
    for index, to in enumerate(path):
        if to not in machine.steps:
            message = f"{to[:64]!r} isn't a state of {machine.name}"
            problems.append(Problem(f"path[{index}]", "unknown_state", message, expected))
    for index, to in enumerate(path):
        legal = legal_steps(machine, position, is_express=is_express)
        if to not in legal:
            if to in machine.steps:
                is_only_express = (position.state, to) in machine.express
                message = f"{to} can't follow {position.state}"
                message += " except for express work" if is_only_express else ""
                expected = f"one of {', '.join(legal)}"
                problems.append(Problem(f"path[{index}]", "illegal_step", message, expected))
            break
        state, came_from = position
        if came_from and to == came_from[-1]:
            position = StatePosition(to, came_from[:-1])
        else:  # other steps than a detour and its way back clear that
            position = StatePosition(to, (*came_from, state) if to in DETOURS else ())
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
        waiting += [
            (check_path(table, place, (step,)).position, (*path, step))
            for step in legal_steps(table, place)
            if step == goal or step not in DETOURS or step in place.came_from[-1:]
        ]
    return (goal,)


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
    raise_problems("invalid review", problems)
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


if TYPE_CHECKING:
    PathFrom = Callable[[AgentStatus], tuple[str, ...]]

REFUSED = "refused; nothing was changed"
MAX_WHY = 20_000
ESCALATE = "escalate"
WORKING_STATES = {"planning": PLANNING, "testing": "TESTING", "reviewing": "CODE_REVIEW"}
"""The state of an agent at work, by the phase of its leg; CODING for any other."""
REQUEST_STATES = {
    "question": QUESTION,
    "plan": "PLAN_REVIEW",
    "code": "CODE_REVIEW",
    "completion": "CODE_REVIEW",
    "budget": BUDGET_REVIEW,
}
"""The state of an agent that waits for an answer in the middle of its turn, by the request."""


_PLACE = re.compile(r"\.(R-[0-9]+(?:\.[0-9]+)?)$")


class AgentStates:
    """The states and leases of all agents of a workspace; threads and processes may share it.

    After a move is recorded that led from WAITING to SETUP, `on_setup(agent)` is called. What it
    raises reaches the caller; the move stays recorded.
    """

    def __init__(
        self, workspace: Workspace, *, on_setup: Callable[[str], object] | None = None
    ) -> None:
        self._streams = WorkspaceStreams(workspace)
        self._on_setup = on_setup

    def state(self, agent: str) -> str:
        """The state of an agent; WAITING for one that never moved."""
        return self.status(agent).state

    def status(self, agent: str) -> AgentStatus:
        """The state of an agent with its lease and the way back from a detour."""
        raise_problems(REFUSED, agent_problems(agent, "agent"))
        return status_of(agent, self._streams.last(AGENT_STREAM + agent))

    def agents(self) -> list[AgentStatus]:
        """Every agent that ever moved or had a lease, by name."""
        heads = self._streams.streams(AGENT_STREAM)
        return [self.status(head.stream.removeprefix(AGENT_STREAM)) for head in heads]

    def instances(self, agent: str) -> list[AgentStatus]:
        """The status of an agent in each run that it had a turn in."""
        raise_problems(REFUSED, agent_problems(agent, "agent"))
        prefix = AGENT_STREAM + agent[: MAX_AGENT // 2]
        names = [head.stream.removeprefix(AGENT_STREAM) for head in self._streams.streams(prefix)]
        places = [(name, _PLACE.search(name)) for name in names]
        return [
            self.status(name) for name, at in places if at and instance_name(agent, at[1]) == name
        ]

    def log(self, agent: str, after: int = 0) -> list[JsonObject]:
        """What happened to an agent, oldest first: `moved`, `refused`, `leased`, `released`."""
        raise_problems(REFUSED, agent_problems(agent, "agent"))
        return [
            {"kind": record.kind, "number": record.position, "at": record.at}
            | {name: part for name, part in record.document().items() if name != "stands"}
            for record in self._streams.records(AGENT_STREAM + agent, after)
        ]

    def move(
        self,
        agent: str,
        *path: str,
        why: str = "",
        machine: str = "",
        is_express: bool = False,
        key: str = "",
    ) -> AgentStatus:
        """Move an agent along a path of states: all steps in one record, or none of them.

        `machine` is the agent's own unless given; a new agent's is `coder`, and it can be changed
        only in WAITING. An illegal step raises GateRefused, which names the legal ones, and is
        recorded too. The same key and path again give the first result.
        """
        _check_path_argument(path, machine, agent, why, key)
        asked = {"path": list(path), "express": is_express}
        return self._move(agent, lambda _: path, asked, machine, why=why, key=key)

    def reach(self, agent: str, goal: str, *, why: str = "", key: str = "") -> AgentStatus:
        """Move an agent to a state along the shortest legal path.

        Nothing is recorded for one that is there already. The same key and goal again give the
        first result.
        """
        _check_path_argument((goal,), "", agent, why, key)

        def path_from(before: AgentStatus) -> tuple[str, ...]:
            return shortest_path(before.machine, before.position, goal)

        return self._move(agent, path_from, {"goal": goal}, why=why, key=key)

    def settle_review(
        self, agent: str, verdict: str, guidance: str = "", *, key: str = ""
    ) -> AgentStatus:
        """Move an agent out of BUDGET_REVIEW by the verdict: continue, pivot, escalate or abandon.

        One that waits for a person after an escalation goes back to the review first.
        """
        raise_problems(REFUSED, _common_problems(agent, guidance, key))

        path_from = partial(_path_out_of_review, verdict)
        return self._move(agent, path_from, {"verdict": verdict}, why=guidance, key=key)

    def lease(self, agent: str, task: str, run: str = "") -> Lease:
        """Assign an agent to a task, in a run; the same again gives the same lease.

        Raises GateRefused while it has another one, which must be released first.
        """
        problems = [*agent_problems(agent, "agent"), *id_problems(task, "task")]
        raise_problems(REFUSED, [*problems, *(id_problems(run, "run") if run != "" else [])])
        while True:
            before = self.status(agent)
            if (held := before.lease) is not None:
                if (held.task, held.run) == (task, run):
                    return held
                message = f"{agent} is {_place(held)}"
                problem = Problem("task", "leased", message, "an agent without a task")
                step = "Release that lease first, or wait for it."
                raise GateRefused(REFUSED, [problem], next_step=step)
            lease = Lease(agent, task, before.version + 1, run)
            after = before._replace(lease=lease)
            if self._add("leased", {"task": task, "run": run}, after):
                _log().info("%s: on %s%s", agent, task, f" in {run}" if run else "")
                return lease

    def current_lease(self, agent: str) -> Lease | None:
        """The lease of an agent, or None."""
        return self.status(agent).lease

    def release(self, agent: str, why: str = "", *, number: int = 0) -> Lease | None:
        """End an agent's lease; returns the lease that ended, None if there was none.

        With a number, only that lease is ended: a later one stays, and None is returned.
        """
        raise_problems(REFUSED, _common_problems(agent, why, ""))
        while True:
            before = self.status(agent)
            held = before.lease
            if held is None or number not in (0, held.number):
                return None
            body = {"why": redact(why)[0], "task": held.task, "run": held.run}
            if self._add("released", body, before._replace(lease=None)):
                _log().info("%s: off %s (%s)", agent, held.task, visible(body["why"]))
                return held

    def _move(
        self, agent: str, path_from: PathFrom, asked: JsonObject, machine: str = "", **said: str
    ) -> AgentStatus:
        """Move along the path from where the agent is; `asked` is what a repeat of the key must ask
        for again, `said` the key and why.
        """
        key, why = said["key"], redact(said["why"])[0]
        while True:
            before = self.status(agent)
            if key and (known := self._streams.keyed(AGENT_STREAM + agent, key)):
                return self._replay(known, key, asked)
            path = path_from(before)
            if not path:
                return before
            is_express = bool(asked.get("express"))
            after, problems = _after_move(before, path, machine, is_express=is_express)
            place = {"machine": after.machine, "from": before.state, "path": list(path)}
            lease = {"task": before.task, "run": before.lease.run if before.lease else ""}
            body: JsonObject = {**place, **lease, "express": is_express, "why": why, **asked}
            if not problems:
                now = stamp(self._streams.now())
                record = self._add("moved", body, after._replace(since=now), key)
            else:
                why = "; ".join(problem.line() for problem in problems)
                steps = (each.path[5:-1] for each in problems if each.path.startswith("path["))
                body |= {"to": path[min(map(int, steps), default=0)], "why": why}
                record = self._add("refused", body, before)
            if record:
                break
        if problems:
            _log().warning("%s: refused: %s", agent, visible(why))
            raise GateRefused(REFUSED, problems, next_step="Take one of the legal steps.")
        self._notify(record)
        return status_of(agent, record)

    def _add(
        self, kind: str, body: JsonObject, status: AgentStatus, key: str = ""
    ) -> Record | None:
        """Write a record right after the one that its status was made from; None if another came
        between, perhaps with the same key.
        """
        body = {**body, "stands": status.document()}
        stream = AGENT_STREAM + status.agent
        entry = StreamEntry(stream, kind, status.agent, body, key, status.version)
        try:
            return self._streams.add(entry)[0]
        except (Conflict, KeyReused):
            # The caller looks the key up again and compares what was asked for.
            return None

    def _replay(self, known: Record, key: str, asked: JsonObject) -> AgentStatus:
        """The result of a key that was used before. The callback is repeated as long as nothing
        else happened: a crash may have prevented it.
        """
        body = known.document()
        if any(body.get(name) != value for name, value in asked.items()):
            message = f"the key {key[:80]!r} was used for another move of {known.author}"
            raise KeyReused(message, next_step="Use a new key for another move.")
        if self._streams.position(known.stream) == known.position:
            self._notify(known)
        return status_of(known.author, known)

    def _notify(self, record: Record) -> None:
        body = record.document()
        steps = (body["from"], *body["path"])
        reason = f" ({visible(body['why'])})" if body["why"] else ""
        _log().info("%s: %s%s", record.author, " -> ".join(steps), reason)
        if self._on_setup and (START, SETUP) in pairwise(steps):
            self._on_setup(record.author)


def _after_move(
    before: AgentStatus, path: tuple[str, ...], machine: str, *, is_express: bool
) -> tuple[AgentStatus, tuple[Problem, ...]]:
    """The status after a move, and what is wrong with the move."""
    name = machine or before.machine
    position, problems = check_path(MACHINES[name], before.position, path, is_express=is_express)
    if name != before.machine and before.position != StatePosition():
        message = f"{before.agent} is in {before.state} of {before.machine}"
        problems = (Problem("machine", "other_machine", message, f"{START}, to change to {name}"),)
    return before._replace(machine=name, position=position), problems


def _path_out_of_review(verdict: str, before: AgentStatus) -> tuple[str, ...]:
    state, came_from = before.position
    is_paused = state == SUSPEND and came_from[-1] == BUDGET_REVIEW
    if not is_paused and state != BUDGET_REVIEW:
        problem = Problem("agent", "no_review", f"{before.agent} is in {state}", BUDGET_REVIEW)
        raise GateRefused("there is no review to settle; nothing was changed", [problem])
    if is_paused:
        return (BUDGET_REVIEW, after_review(verdict, came_from[-2]))
    return (after_review(verdict, came_from[-1]),)


def _check_path_argument(
    path: tuple[object, ...], machine: object, agent: object, why: object, key: object
) -> None:
    checked = (text_problems(to, f"path[{at}]", max_length=64) for at, to in enumerate(path))
    found = [problem for problems in checked for problem in problems]
    if not 0 < len(path) <= MAX_STEPS:
        expected = f"1 to {MAX_STEPS} states"
        found.append(Problem("path", "wrong_length", f"{len(path)} states", expected))
    if machine not in ("", *MACHINES):
        expected = f"one of {', '.join(MACHINES)}"
        found.append(Problem("machine", "invalid_choice", repr(machine)[:80], expected))
    raise_problems(REFUSED, found + _common_problems(agent, why, key))


def _common_problems(agent: object, why: object, key: object) -> list[Problem]:
    found = agent_problems(agent, "agent")
    found += text_problems(why, "why", required=False, max_length=MAX_WHY)
    return found + ([] if key == "" else text_problems(key, "key", max_length=200))


def _log(name: str = "passdown.agents") -> Logger:
    """The log; loaded when something is logged, so that reading states starts fast."""
    import logging

    return logging.getLogger(name)


def instance_at(run: Run, turn: LegRun) -> str:
    """The instance of its agent that takes a turn.

    An agent with two turns at the same time has an instance, and so a conversation, for each.
    """
    is_second = any(other.kind == LEG for other in overlapped(run, turn))
    return instance_name(turn.agent, f"{run.run}.{turn.number}" if is_second else run.run)


def instance_name(agent: str, place: str) -> str:
    """The name of an agent in a run: AGENT.RUN; a long agent name is shortened."""
    name = f"{agent}.{place}"
    if len(name) <= MAX_AGENT:
        return name
    mark = hashlib.blake2b(agent.encode(), digest_size=4).hexdigest()
    return f"{agent[: MAX_AGENT - len(place) - 10]}-{mark}.{place}"


class RunAgents:
    """The states of agent instances in runs. Each has a lease on the run's task until the run ends.

    An illegal step is refused, recorded and logged; it doesn't stop the run.
    """

    def __init__(
        self,
        workspace: Workspace,
        on_setup: Callable[[str], None] | None = None,
        *,
        takes_unknown: bool = False,
    ) -> None:
        """With `takes_unknown`, express items go to agents too that have done nothing yet.
        `has_ended` says of a worker whether its process is gone.
        """
        self.has_ended = has_ended
        self._workspace = workspace
        self.states = AgentStates(workspace, on_setup=on_setup)
        self._streams = WorkspaceStreams(workspace)
        self._settling = threading.Lock()
        self._takes_unknown = takes_unknown
        self._agents_of_runs: dict[str, frozenset[str]] = {}

    def begin(self, run: Run, turn: LegRun) -> None:
        """Lease the instance and move it to the state that its leg works in."""
        name = instance_at(run, turn)
        self._try(lambda: self.states.lease(name, run.task, run.run))
        if self.states.state(name) in (BUDGET_REVIEW, SUSPEND):
            reviews = [each for each in _reviews(run, turn.agent) if each.number < turn.number]
            verdict, guidance = (reviews[-1].verdict, reviews[-1].summary) if reviews else ("", "")
            self._try(lambda: self.states.settle_review(name, verdict or "continue", guidance))
        state = WORKING_STATES.get(run.relay.legs[turn.leg].phase, CODING)
        self._reach(name, state, f"leg {turn.leg}")

    @contextmanager
    def asking(self, run: Run, agent: str, to: str, kind: str) -> Generator[None]:
        """Move an agent to the state of its request until it is answered, where it may go there and
        back from its turn.
        """
        turns = [turn for turn in run.open_legs if (turn.agent, turn.kind) == (agent, LEG)]
        name = instance_at(run, turns[0]) if turns else agent
        before, state = self.states.status(name), REQUEST_STATES[kind]
        path = (state, before.state)
        if not turns or check_path(MACHINES[before.machine], before.position, path).problems:
            yield
            return
        self._try(lambda: self.states.move(name, state, why=f"asks {to}"))

        def go_back() -> None:
            if self.states.state(name) == state:
                self.states.move(name, before.state, why="answered")

        try:
            yield
        finally:
            self._try(go_back)

    def obstacles(self, run: Run) -> list[Problem]:
        """Why each agent of an express run can't take it now; empty if one of them can."""
        found = {name: self._obstacle(name, run) for name in run.relay.agents}
        return [] if None in found.values() else [each for each in found.values() if each]

    def check_free(self, run: Run) -> None:
        """Raise GateRefused with the obstacles of an express run."""
        if problems := self.obstacles(run):
            message = f"{run.run} has to wait: its agents are busy"
            fix = "Wait until one is WAITING, or send it to another agent."
            raise GateRefused(message, problems, next_step=fix)

    def _obstacle(self, name: str, run: Run) -> Problem | None:
        """What keeps an agent from an express run: its own status, that in another run where it
        works, or that nobody has seen it; None if it is WAITING everywhere, or has the run already.
        """
        own = self.states.status(name)
        if own.lease is not None and own.lease.run == run.run:
            return None
        busy = None
        if own.lease is not None or (own.machine, own.state) != (CODER, START):
            busy = None if self.is_abandoned(own.lease) else own
        elif own.version or self._takes_unknown or self._is_known(name):
            seats = self.states.instances(name)
            at_work = [seat for seat in seats if seat.lease and seat.state != START]
            busy = next((seat for seat in at_work if not self.is_abandoned(seat.lease)), None)
        else:
            message = f"{name} has done nothing here yet, so it isn't known to be WAITING"
            expected = "an agent with a profile, a handoff or a part in a run"
            return Problem("agents", "unknown_agent", message, expected)
        if busy is None:
            return None
        machine = "" if busy.machine == CODER else f" ({busy.machine})"
        lease = f", {_place(busy.lease)}" if busy.lease else ""
        return Problem("agents", "busy", f"{name} is in {busy.state}{machine}{lease}")

    def is_abandoned(self, lease: Lease | None) -> bool:
        """Whether the process that a lease's run was in has ended, in the middle of a turn."""
        if lease is None or not self._streams.position(RUN_STREAM + lease.run):
            return False
        run = Runs(self._workspace).get(lease.run)
        worker = _last_worker(run)
        return run.status == RUNNING and bool(worker) and self.has_ended(worker)

    def worker_of(self, lease: Lease | None) -> str:
        """The worker that has a lease's run, or had it last."""
        if lease is None or not self._streams.position(RUN_STREAM + lease.run):
            return ""
        return _last_worker(Runs(self._workspace).get(lease.run))

    def _is_known(self, name: str) -> bool:
        """Whether an agent has a profile, has handed off, or is an agent of a run."""
        context = context_of(self._workspace)
        if name in context.profiles().names():
            return True
        with context.store.reading() as reader:
            if name in reader.authors():
                return True
        for head in self._streams.streams(f"{RUN_STREAM}R-"):
            if head.stream not in self._agents_of_runs:
                started = self._streams.records(head.stream)[0].document()
                self._agents_of_runs[head.stream] = frozenset(started["relay"].get("agents", ()))
        return any(name in agents for agents in self._agents_of_runs.values())

    def begin_express(self, run: Run) -> str:
        """Lease a WAITING agent for an express run and move it to SETUP; "" if all are busy."""
        free = [name for name in run.relay.agents if self._obstacle(name, run) is None]
        for name in sorted(free, key=lambda name: self.states.current_lease(name) is None):
            with suppress(GateRefused):  # another was faster
                held = self.states.current_lease(name)
                if held is not None and held.run != run.run:
                    self._end(held, is_done=False, why="its process has ended")
                lease = self.states.lease(name, run.task or run.run, run.run)
                try:
                    if self.states.state(name) not in (SETUP, CODING):
                        self.states.move(name, SETUP, why=run.run, is_express=True)
                except GateRefused:
                    self.states.release(name, "it is at other work", number=lease.number)
                    raise
                return name
        return ""

    def to_coding(self, name: str) -> None:
        """Move an agent from SETUP to CODING, as only express work may."""
        if self.states.state(name) == SETUP:
            self.states.move(name, CODING, is_express=True)

    def settle(self, run: Run) -> None:
        """Move instances to where the run is: under review, or done and released."""
        if not (run.ended_at or run.asked or any(t.kind == REVIEW for t in run.open_legs)):
            return
        agents = {instance_name(agent, run.run): agent for agent in run.relay.agents}
        agents |= {instance_at(run, turn): turn.agent for turn in run.legs.values()}
        if run.lane == EXPRESS:
            agents = {name: name for name in run.relay.agents}
        with self._settling:
            is_over = False
            for name, agent in agents.items():
                lease = self.states.current_lease(name)
                if lease is None or lease.run != run.run:
                    continue
                if run.ended_at:
                    why = excerpt(run.why or run.status, MAX_WHY // 10)
                    self._end(lease, is_done=run.status == "completed", why=why)
                    is_over = True
                elif any(asked.agent == agent for asked in run.asked) or any(
                    turn.is_open for turn in _reviews(run, agent)
                ):
                    self._review(run, name, agent)
            # An express item brings its file with its commit, and touches no file of the user's.
            if is_over and run.lane != EXPRESS:
                self.write_knowledge(run)

    def write_knowledge(self, run: Run) -> None:
        """Write what was recorded as knowledge to its file; a fault is logged."""
        from passdown.knowledge.sync import sync_after_completion

        for problem in sync_after_completion(context_of(self._workspace)):
            _log().warning("%s: %s", run.run, visible(problem.line()))

    def _review(self, run: Run, name: str, agent: str) -> None:
        """Wait for a verdict: in BUDGET_REVIEW, or in SUSPEND for that of a person."""
        if self.states.state(name) == SUSPEND:
            return
        self._reach(name, BUDGET_REVIEW, USED_UP)
        reviews = _reviews(run, agent)
        is_asked = any(request.agent == agent for request in run.asked)
        if reviews and reviews[-1].verdict == ESCALATE and is_asked:
            self._try(lambda: self.states.settle_review(name, ESCALATE, reviews[-1].summary))

    def _end(self, lease: Lease, *, is_done: bool, why: str) -> None:
        """End an instance. Every worker that sees the end of a run does this; the keys make it
        happen once.
        """
        name, key = lease.agent, f"leave-{lease.number}"
        if self.states.state(name) != START:
            self._reach(name, DONE if is_done else ERROR, why, f"{key}-end")
            self._reach(name, START, why, f"{key}-free")
        self._try(lambda: self.states.release(name, why, number=lease.number))

    def _reach(self, name: str, goal: str, why: str, key: str = "") -> None:
        self._try(lambda: self.states.reach(name, goal, why=why, key=key))

    def _try(self, change: Callable[[], object]) -> None:
        try:
            change()
        except PassdownError as error:
            _log("passdown.relay").warning("an agent's state is unchanged: %s", error)


def _place(lease: Lease) -> str:
    return f"on {lease.task} in {lease.run}" if lease.run else f"on {lease.task}"


def _reviews(run: Run, agent: str) -> list[LegRun]:
    """The reviews of an agent, in order."""
    legs = run.relay.legs
    return [t for t in run.legs.values() if t.kind == REVIEW and legs[t.leg].agent == agent]


def _last_worker(run: Run) -> str:
    workers = [turn.worker for turn in run.legs.values() if turn.worker]
    return workers[-1] if workers else ""

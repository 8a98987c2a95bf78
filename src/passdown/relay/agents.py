"""States and leases of agents in the ledger, and those of agents in runs (seats).

Every record holds the status that it leads to, so a move reads one record.
"""

from __future__ import annotations

import hashlib
import logging
import threading
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from passdown.core.kinds import AGENT_STREAM
from passdown.core.names import MAX_AGENT, agent_problems, id_problems
from passdown.core.redaction import redact
from passdown.core.text import text_problems, visible
from passdown.core.times import stamp
from passdown.errors import Conflict, GateRefused, InvalidInput, KeyReused, PassdownError, Problem
from passdown.relay.agent_states import (
    BUDGET_REVIEW,
    CODING,
    DONE,
    ERROR,
    MACHINES,
    MAX_STEPS,
    PLANNING,
    SETUP,
    START,
    SUSPEND,
    AgentStatus,
    Lease,
    StatePosition,
    after_review,
    check_path,
    shortest_path,
    status_document,
    status_of,
)
from passdown.relay.run import LEG, REVIEW, USED_UP
from passdown.workspace.streams import StreamEntry, WorkspaceStreams

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from passdown.core.record import Record
    from passdown.relay.run import LegRun, Run
    from passdown.workspace import Workspace
    from passdown.workspace.context import WorkspaceBase


if TYPE_CHECKING:
    Document = dict[str, Any]

LOG = logging.getLogger("passdown.agents")
REFUSED = "refused; nothing was changed"
MAX_WHY = 20_000


class StateChange(NamedTuple):
    """A move that was made: from `start` along `path`; `number` is the position of its record."""

    agent: str
    machine: str
    start: str
    path: tuple[str, ...]
    why: str
    task: str
    run: str
    is_express: bool
    number: int


class _StatusRecord(NamedTuple):
    """A record to be written, and where the agent stands after it."""

    kind: str
    body: Document
    standing: AgentStatus


class _MoveRequest(NamedTuple):
    """A move as it is asked for; the path may depend on where the agent stands.

    `asked` is what a repeat of the key has to ask for again.
    """

    path_from: Callable[[AgentStatus], tuple[str, ...]]
    why: str
    asked: Document
    machine: str = ""
    is_express: bool = False
    key: str = ""


class AgentStates:
    """The states and leases of all agents of a workspace; threads and processes may share it.

    Once a move is recorded, `on_setup(agent)` is called if it led from WAITING to SETUP, and
    `on_move(moved)` for each; what these raise is the caller's, and the move stands.
    """

    def __init__(
        self,
        workspace: WorkspaceBase,
        *,
        on_setup: Callable[[str], object] | None = None,
        on_move: Callable[[StateChange], object] | None = None,
    ) -> None:
        self._beside = WorkspaceStreams(workspace)
        self._on_setup = on_setup
        self._on_move = on_move

    def state(self, agent: str) -> str:
        """The state of an agent; WAITING for one that never moved."""
        return self.standing(agent).state

    def standing(self, agent: str) -> AgentStatus:
        """The state of an agent with its lease and the way back from a detour."""
        _raise_if_any(agent_problems(agent, "agent"))
        return _read_status(agent, self._beside.last(AGENT_STREAM + agent))

    def agents(self) -> list[AgentStatus]:
        """Every agent that ever moved or had a lease, by name."""
        return [
            _read_status(head.stream.removeprefix(AGENT_STREAM), self._beside.last(head.stream))
            for head in self._beside.streams(AGENT_STREAM)
        ]

    def log(self, agent: str, after: int = 0) -> list[Document]:
        """What happened to an agent, oldest first: `moved`, `refused`, `leased`, `released`."""
        _raise_if_any(agent_problems(agent, "agent"))
        found: list[Document] = []
        for record in self._beside.records(AGENT_STREAM + agent, after):
            body = {name: part for name, part in record.document().items() if name != "stands"}
            found.append({"kind": record.kind, "number": record.position, "at": record.at, **body})
        return found

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

        `machine` is the agent's own unless it is named; a new agent's is the coder's, and another
        takes over only in WAITING. A step that isn't legal raises GateRefused, which names the
        legal ones; it is recorded too. The same key and path again give the first answer.
        """
        _raise_if_any([*_path_problems(path, machine), *_common_problems(agent, why, key)])
        asked = {"path": list(path), "express": is_express}

        def path_from(_: AgentStatus) -> tuple[str, ...]:
            return path

        wish = _MoveRequest(path_from, redact(why)[0], asked, machine, is_express, key)
        return self._move(agent, wish)

    def reach(self, agent: str, goal: str, *, why: str = "", key: str = "") -> AgentStatus:
        """Move an agent to a state the shortest legal way, from wherever it stands by then.

        Nothing is recorded for one that is there. The same key and goal again give the first
        answer, whatever way was gone.
        """
        _raise_if_any([*_path_problems((goal,), ""), *_common_problems(agent, why, key)])

        def path_from(before: AgentStatus) -> tuple[str, ...]:
            return shortest_path(before.machine, before.position, goal)

        return self._move(agent, _MoveRequest(path_from, redact(why)[0], {"goal": goal}, key=key))

    def settle_review(
        self, agent: str, verdict: str, guidance: str = "", *, key: str = ""
    ) -> AgentStatus:
        """Move an agent out of BUDGET_REVIEW by the answer: continue, pivot, escalate or abandon.

        One that waits for a person since it was escalated goes back to the review first.
        """
        _raise_if_any(_common_problems(agent, guidance, key))

        def path_from(before: AgentStatus) -> tuple[str, ...]:
            return _out_of_review(before, verdict)

        return self._move(
            agent, _MoveRequest(path_from, redact(guidance)[0], {"verdict": verdict}, key=key)
        )

    def lease(self, agent: str, task: str, run: str = "") -> Lease:
        """Put an agent on a task, in a run; again for the same gives the same lease.

        Raises GateRefused while it has another one, which has to be released first.
        """
        problems = [*agent_problems(agent, "agent"), *id_problems(task, "task")]
        _raise_if_any([*problems, *(id_problems(run, "run") if run != "" else [])])
        while True:
            before = self.standing(agent)
            if (held := before.lease) is not None:
                if (held.task, held.run) != (task, run):
                    raise _is_leased(held)
                return held
            lease = Lease(agent, task, before.version + 1, run)
            body = {"task": task, "run": run}
            if self._add(_StatusRecord("leased", body, before._replace(lease=lease))):
                LOG.info("%s: on %s%s", agent, task, f" in {run}" if run else "")
                return lease

    def current_lease(self, agent: str) -> Lease | None:
        """The lease that an agent has, or None."""
        return self.standing(agent).lease

    def release(self, agent: str, why: str = "", *, number: int = 0) -> Lease | None:
        """Take an agent off its task; gives the lease that ended, None if there was none.

        With a number, only that lease: a later one stays, and None is given.
        """
        _raise_if_any(_common_problems(agent, why, ""))
        while True:
            before = self.standing(agent)
            held = before.lease
            if held is None or number not in (0, held.number):
                return None
            body = {"why": redact(why)[0], "task": held.task, "run": held.run}
            if self._add(_StatusRecord("released", body, before._replace(lease=None))):
                LOG.info("%s: off %s (%s)", agent, held.task, visible(body["why"]))
                return held

    def _move(self, agent: str, wish: _MoveRequest) -> AgentStatus:
        while True:
            before = self.standing(agent)
            if wish.key and (known := self._by_key(agent, wish.key)):
                return self._again(known, wish)
            if not wish.path_from(before):
                return before
            draft, problems = _move_record(before, wish, stamp(self._beside.now()))
            if record := self._add(draft, "" if problems else wish.key):
                break
        if problems:
            LOG.warning("%s: refused: %s", agent, visible(draft.body["why"]))
            raise GateRefused(REFUSED, problems, next_step="Take a step that is legal.")
        self._tell(record)
        return _read_status(agent, record)

    def _add(self, draft: _StatusRecord, key: str = "") -> Record | None:
        """Write a record right after the one that it was made from; None: another came between,
        perhaps with the same key.
        """
        standing = draft.standing
        body = {**draft.body, "stands": status_document(standing)}
        stream = AGENT_STREAM + standing.agent
        aside = StreamEntry(stream, draft.kind, standing.agent, body, key, standing.version)
        try:
            return self._beside.add(aside)[0]
        except (Conflict, KeyReused):
            # Whether it is the same that was asked for is seen when the key is looked up again.
            return None

    def _by_key(self, agent: str, key: str) -> Record | None:
        with self._beside.opened.store.reading() as reader:
            return reader.record_by_key(AGENT_STREAM + agent, key)

    def _again(self, known: Record, wish: _MoveRequest) -> AgentStatus:
        """The answer to a key that was used before; what follows a move is done again as long as
        nothing else happened, since a crash may have come between.
        """
        body = known.document()
        if any(body.get(name) != value for name, value in wish.asked.items()):
            raise KeyReused(
                f"the key {wish.key[:80]!r} was used for another move of {known.author}",
                next_step="Use a new key for another move.",
            )
        if self._beside.position(known.stream) == known.position:
            self._tell(known)
        return _read_status(known.author, known)

    def _tell(self, record: Record) -> None:
        body = record.document()
        moved = StateChange(
            agent=record.author,
            machine=body["machine"],
            start=body["from"],
            path=tuple(body["path"]),
            why=body["why"],
            task=body["task"],
            run=body["run"],
            is_express=body["express"],
            number=record.position,
        )
        steps = (moved.start, *moved.path)
        reason = f" ({visible(moved.why)})" if moved.why else ""
        LOG.info("%s: %s%s", moved.agent, " -> ".join(steps), reason)
        if self._on_setup and (START, SETUP) in pairwise(steps):
            self._on_setup(moved.agent)
        if self._on_move:
            self._on_move(moved)


def _move_record(
    before: AgentStatus, wish: _MoveRequest, now: str
) -> tuple[_StatusRecord, tuple[Problem, ...]]:
    """The record of a move, or of its refusal with the problems."""
    path = wish.path_from(before)
    name = wish.machine or before.machine
    walked = check_path(MACHINES[name], before.position, path, is_express=wish.is_express)
    problems = walked.problems
    if name != before.machine and before.position != StatePosition():
        message = f"{before.agent} is in {before.state} of {before.machine}"
        problems = (Problem("machine", "other_machine", message, f"{START}, to change to {name}"),)
    lease = before.lease
    body: Document = {
        "machine": name,
        "from": before.state,
        "path": list(path),
        "task": lease.task if lease else "",
        "run": lease.run if lease else "",
        "express": wish.is_express,
        **wish.asked,
    }
    if problems:
        to = path[_illegal_step(problems)]
        why = "; ".join(problem.line() for problem in problems)
        return _StatusRecord("refused", {**body, "to": to, "why": why}, before), problems
    after = before._replace(machine=name, position=walked.position, since=now)
    return _StatusRecord("moved", {**body, "why": wish.why}, after), ()


def _illegal_step(problems: Iterable[Problem]) -> int:
    """Which step of a path the first problem is about; 0 if it is about none."""
    places = [problem.path[5:-1] for problem in problems if problem.path.startswith("path[")]
    return min(map(int, places), default=0)


def _out_of_review(before: AgentStatus, verdict: str) -> tuple[str, ...]:
    """The path that an answer to a budget review means."""
    state, came_from = before.position
    is_paused = state == SUSPEND and came_from[-1] == BUDGET_REVIEW
    if not is_paused and state != BUDGET_REVIEW:
        problem = Problem("agent", "no_review", f"{before.agent} is in {state}", BUDGET_REVIEW)
        raise GateRefused("there is no review to settle; nothing was changed", [problem])
    if is_paused:
        return (BUDGET_REVIEW, after_review(verdict, came_from[-2]))
    return (after_review(verdict, came_from[-1]),)


def _read_status(agent: str, record: Record | None) -> AgentStatus:
    if record is None:
        return AgentStatus(agent)
    return status_of(agent, record.document()["stands"], record.position)


def _path_problems(path: tuple[object, ...], machine: object) -> list[Problem]:
    """What is wrong with a path whatever the agent's state, and with the name of a machine."""
    found = [
        problem
        for index, to in enumerate(path)
        for problem in text_problems(to, f"path[{index}]", max_length=64)
    ]
    if not 0 < len(path) <= MAX_STEPS:
        expected = f"1 to {MAX_STEPS} states"
        found.append(Problem("path", "wrong_length", f"{len(path)} states", expected))
    if machine not in ("", *MACHINES):
        expected = f"one of {', '.join(MACHINES)}"
        found.append(Problem("machine", "invalid_choice", repr(machine)[:80], expected))
    return found


def _common_problems(agent: object, why: object, key: object) -> list[Problem]:
    found = agent_problems(agent, "agent")
    found += text_problems(why, "why", required=False, max_length=MAX_WHY)
    return found + ([] if key == "" else text_problems(key, "key", max_length=200))


def _is_leased(held: Lease) -> GateRefused:
    place = f"{held.task} in {held.run}" if held.run else held.task
    problem = Problem("task", "leased", f"{held.agent} is on {place}", "an agent without a task")
    return GateRefused(REFUSED, [problem], next_step="Release that lease first, or wait for it.")


def _raise_if_any(problems: list[Problem]) -> None:
    if problems:
        raise InvalidInput(REFUSED, problems)


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

"""Where each agent stands and which task it is on: kept in its stream, so a restart loses nothing.

Every record carries the standing that it leads to, so a move reads one record however long the
agent has been at work. Two who move one agent at once can't both start from the same place: the
second sees what the first did, and is checked against that.
"""

from __future__ import annotations

import logging
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from passdown.errors import Conflict, GateRefused, InvalidInput, KeyReused, Problem
from passdown.model.agent_states import (
    BUDGET_REVIEW,
    MACHINES,
    MOST_STEPS,
    SETUP,
    START,
    SUSPEND,
    Lease,
    Position,
    Standing,
    after_review,
    check_path,
    shortest,
    standing_of,
    stands_document,
)
from passdown.model.kinds import AGENT_STREAM
from passdown.model.names import agent_problems, id_problems
from passdown.model.redaction import redact
from passdown.model.text import text_problems, visible
from passdown.model.times import stamp
from passdown.workspace.beside import Aside, Beside

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from passdown.model.record import Record
    from passdown.workspace.opened import Held

    Document = dict[str, Any]

LOG = logging.getLogger("passdown.agents")
REFUSED = "refused; nothing was changed"
MAX_WHY = 20_000


class Moved(NamedTuple):
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


class _Draft(NamedTuple):
    """A record to be written, and where the agent stands after it."""

    kind: str
    body: Document
    standing: Standing


class _Wish(NamedTuple):
    """A move as it is asked for; the path may depend on where the agent stands.

    `asked` is what a repeat of the key has to ask for again.
    """

    path_from: Callable[[Standing], tuple[str, ...]]
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
        workspace: Held,
        *,
        on_setup: Callable[[str], object] | None = None,
        on_move: Callable[[Moved], object] | None = None,
    ) -> None:
        self._beside = Beside(workspace)
        self._on_setup = on_setup
        self._on_move = on_move

    def state(self, agent: str) -> str:
        """The state of an agent; WAITING for one that never moved."""
        return self.standing(agent).state

    def standing(self, agent: str) -> Standing:
        """The state of an agent with its lease and the way back from a detour."""
        _refuse_any(agent_problems(agent, "agent"))
        return _standing(agent, self._beside.last(AGENT_STREAM + agent))

    def agents(self) -> list[Standing]:
        """Every agent that ever moved or had a lease, by name."""
        return [
            _standing(head.stream.removeprefix(AGENT_STREAM), self._beside.last(head.stream))
            for head in self._beside.streams(AGENT_STREAM)
        ]

    def log(self, agent: str, after: int = 0) -> list[Document]:
        """What happened to an agent, oldest first: `moved`, `refused`, `leased`, `released`."""
        _refuse_any(agent_problems(agent, "agent"))
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
    ) -> Standing:
        """Move an agent along a path of states: all steps in one record, or none of them.

        `machine` is the agent's own unless it is named; a new agent's is the coder's, and another
        takes over only in WAITING. A step that isn't legal raises GateRefused, which names the
        legal ones; it is recorded too. The same key and path again give the first answer.
        """
        _refuse_any([*_path_problems(path, machine), *_common_problems(agent, why, key)])
        asked = {"path": list(path), "express": is_express}

        def path_from(_: Standing) -> tuple[str, ...]:
            return path

        wish = _Wish(path_from, redact(why)[0], asked, machine, is_express, key)
        return self._move(agent, wish)

    def reach(self, agent: str, goal: str, *, why: str = "", key: str = "") -> Standing:
        """Move an agent to a state the shortest legal way, from wherever it stands by then.

        Nothing is recorded for one that is there. The same key and goal again give the first
        answer, whatever way was gone.
        """
        _refuse_any([*_path_problems((goal,), ""), *_common_problems(agent, why, key)])

        def path_from(before: Standing) -> tuple[str, ...]:
            return shortest(before.machine, before.position, goal)

        return self._move(agent, _Wish(path_from, redact(why)[0], {"goal": goal}, key=key))

    def settle_review(
        self, agent: str, verdict: str, guidance: str = "", *, key: str = ""
    ) -> Standing:
        """Move an agent out of BUDGET_REVIEW by the answer: continue, pivot, escalate or abandon.

        One that waits for a person since it was escalated goes back to the review first.
        """
        _refuse_any(_common_problems(agent, guidance, key))

        def path_from(before: Standing) -> tuple[str, ...]:
            return _out_of_review(before, verdict)

        return self._move(
            agent, _Wish(path_from, redact(guidance)[0], {"verdict": verdict}, key=key)
        )

    def lease(self, agent: str, task: str, run: str = "") -> Lease:
        """Put an agent on a task, in a run; again for the same gives the same lease.

        Raises GateRefused while it has another one, which has to be released first.
        """
        problems = [*agent_problems(agent, "agent"), *id_problems(task, "task")]
        _refuse_any([*problems, *(id_problems(run, "run") if run != "" else [])])
        while True:
            before = self.standing(agent)
            if (held := before.lease) is not None:
                if (held.task, held.run) != (task, run):
                    raise _is_leased(held)
                return held
            lease = Lease(agent, task, before.version + 1, run)
            body = {"task": task, "run": run}
            if self._add(_Draft("leased", body, before._replace(lease=lease))):
                LOG.info("%s: on %s%s", agent, task, f" in {run}" if run else "")
                return lease

    def current_lease(self, agent: str) -> Lease | None:
        """The lease that an agent has, or None."""
        return self.standing(agent).lease

    def release(self, agent: str, why: str = "", *, number: int = 0) -> Lease | None:
        """Take an agent off its task; gives the lease that ended, None if there was none.

        With a number, only that lease: a later one stays, and None is given.
        """
        _refuse_any(_common_problems(agent, why, ""))
        while True:
            before = self.standing(agent)
            held = before.lease
            if held is None or number not in (0, held.number):
                return None
            body = {"why": redact(why)[0], "task": held.task, "run": held.run}
            if self._add(_Draft("released", body, before._replace(lease=None))):
                LOG.info("%s: off %s (%s)", agent, held.task, visible(body["why"]))
                return held

    def _move(self, agent: str, wish: _Wish) -> Standing:
        while True:
            before = self.standing(agent)
            if wish.key and (known := self._by_key(agent, wish.key)):
                return self._again(known, wish)
            if not wish.path_from(before):
                return before
            draft, problems = _moving(before, wish, stamp(self._beside.now()))
            if record := self._add(draft, "" if problems else wish.key):
                break
        if problems:
            LOG.warning("%s: refused: %s", agent, visible(draft.body["why"]))
            raise GateRefused(REFUSED, problems, next_step="Take a step that is legal.")
        self._tell(record)
        return _standing(agent, record)

    def _add(self, draft: _Draft, key: str = "") -> Record | None:
        """Write a record right after the one that it was made from; None: another came between,
        perhaps with the same key.
        """
        standing = draft.standing
        body = {**draft.body, "stands": stands_document(standing)}
        stream = AGENT_STREAM + standing.agent
        aside = Aside(stream, draft.kind, standing.agent, body, key, standing.version)
        try:
            return self._beside.add(aside)[0]
        except (Conflict, KeyReused):
            # Whether it is the same that was asked for is seen when the key is looked up again.
            return None

    def _by_key(self, agent: str, key: str) -> Record | None:
        with self._beside.opened.store.reading() as reader:
            return reader.record_by_key(AGENT_STREAM + agent, key)

    def _again(self, known: Record, wish: _Wish) -> Standing:
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
        return _standing(known.author, known)

    def _tell(self, record: Record) -> None:
        body = record.document()
        moved = Moved(
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


def _moving(before: Standing, wish: _Wish, now: str) -> tuple[_Draft, tuple[Problem, ...]]:
    """The record of a move, or of its refusal with the problems."""
    path = wish.path_from(before)
    name = wish.machine or before.machine
    walked = check_path(MACHINES[name], before.position, path, is_express=wish.is_express)
    problems = walked.problems
    if name != before.machine and before.position != Position():
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
        return _Draft("refused", {**body, "to": to, "why": why}, before), problems
    after = before._replace(machine=name, position=walked.position, since=now)
    return _Draft("moved", {**body, "why": wish.why}, after), ()


def _illegal_step(problems: Iterable[Problem]) -> int:
    """Which step of a path the first problem is about; 0 if it is about none."""
    places = [problem.path[5:-1] for problem in problems if problem.path.startswith("path[")]
    return min(map(int, places), default=0)


def _out_of_review(before: Standing, verdict: str) -> tuple[str, ...]:
    """The path that an answer to a budget review means."""
    state, came_from = before.position
    is_paused = state == SUSPEND and came_from[-1] == BUDGET_REVIEW
    if not is_paused and state != BUDGET_REVIEW:
        problem = Problem("agent", "no_review", f"{before.agent} is in {state}", BUDGET_REVIEW)
        raise GateRefused("there is no review to settle; nothing was changed", [problem])
    if is_paused:
        return (BUDGET_REVIEW, after_review(verdict, came_from[-2]))
    return (after_review(verdict, came_from[-1]),)


def _standing(agent: str, record: Record | None) -> Standing:
    if record is None:
        return Standing(agent)
    return standing_of(agent, record.document()["stands"], record.position)


def _path_problems(path: tuple[object, ...], machine: object) -> list[Problem]:
    """What is wrong with a path whatever the agent's state, and with the name of a machine."""
    found = [
        problem
        for index, to in enumerate(path)
        for problem in text_problems(to, f"path[{index}]", max_length=64)
    ]
    if not 0 < len(path) <= MOST_STEPS:
        expected = f"1 to {MOST_STEPS} states"
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


def _refuse_any(problems: list[Problem]) -> None:
    if problems:
        raise InvalidInput(REFUSED, problems)

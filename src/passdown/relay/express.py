"""Carrying out an express item: its agent sets up, codes and is done, without planning.

Every step is recorded once it is certain, and each can be made again: whatever kills the process,
carrying the item out anew gives one commit. An item that can't be carried out becomes a task with
all that is known of it.
"""

from __future__ import annotations

import os
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from passdown.errors import (
    Conflict,
    GitError,
    InvalidInput,
    KeyReused,
    NotFound,
    PassdownError,
    Problem,
)
from passdown.model.agent_states import CODING, DONE, ERROR, SETUP, START
from passdown.model.express_texts import commit_message, request_body, task_description
from passdown.model.graph import Graph
from passdown.model.text import visible
from passdown.model.times import parse_time
from passdown.relay.express_plan import Plan, plan_of
from passdown.relay.express_records import ExpressRecord, express_record, express_records, send
from passdown.relay.locking import locked
from passdown.relay.pull_request import PullRequest, Request, open_pull_request
from passdown.relay.repository import Repository
from passdown.relay.worktree import Commit, Worktree
from passdown.workspace.beside import Aside, Beside
from passdown.workspace.knowing import written_graph

if TYPE_CHECKING:
    from collections.abc import Callable

    from passdown.model.express import ExpressItem
    from passdown.workspace import Workspace

    Document = dict[str, Any]
    Ask = Callable[[str, Request], PullRequest]

__all__ = [
    "AgentLease",
    "ExpressDone",
    "ExpressRecord",
    "States",
    "carry_out",
    "express_record",
    "express_records",
    "send",
]

TASK = "express-"
"""How the lease of an agent on an item, and the task that an item becomes, are named."""

_PATH = (START, SETUP, CODING, DONE)
# What is wrong with the item or its project. A store that is busy or gone is neither: that is
# raised, and the item is carried out later.
_FAILURES = (GitError, InvalidInput, NotFound, OSError)


class AgentLease(Protocol):
    """An agent is on a task."""

    @property
    def task(self) -> str:
        """The task's id."""
        ...


class States(Protocol):
    """What is needed of `passdown.relay.agents.AgentStates`."""

    def state(self, agent: str) -> str:
        """The state of an agent."""
        ...

    def move(self, agent: str, *path: str, why: str = "", is_express: bool = False) -> object:
        """Move an agent along a path of states; raises GateRefused for an illegal one."""
        ...

    def current_lease(self, agent: str) -> AgentLease | None:
        """The lease that an agent has."""
        ...

    def lease(self, agent: str, task: str) -> object:
        """Put an agent on a task; raises GateRefused while it has another."""
        ...

    def release(self, agent: str, why: str = "") -> object:
        """Take an agent off its task."""
        ...


class ExpressDone(NamedTuple):
    """What came of an item. With an outcome of `done`, `commit` is on `branch`, or empty where all
    was so already; with `promoted`, `task` is the task that it became, and `why`.

    `reports` are conflicts and what was taken out of a file, `lost` the names of the latter.
    `is_replay`: it had been carried out before.
    """

    id: str
    outcome: str
    branch: str = ""
    commit: str = ""
    files: tuple[str, ...] = ()
    pull_request: PullRequest | None = None
    reports: tuple[Problem, ...] = ()
    lost: tuple[str, ...] = ()
    task: str = ""
    why: str = ""
    is_replay: bool = False

    def as_document(self) -> Document:
        """The result as a plain JSON object."""
        asked = self.pull_request
        return {
            **self._asdict(),
            "files": list(self.files),
            "pull_request": asked.as_document() if asked else None,
            "reports": [report.as_document() for report in self.reports],
            "lost": list(self.lost),
        }


def carry_out(
    workspace: Workspace,
    item: object,
    *,
    states: States | None,
    agent: str = "",
    pull_request: Ask = open_pull_request,
) -> ExpressDone:
    """Carry an item out, or give what came of it before.

    `agent` does the work (the one who sent it, unless named) and has to be WAITING: it goes to
    SETUP, CODING, DONE and WAITING again, after a failure through ERROR; GateRefused says that it
    can't. Without `states` nobody's are moved. A request for the branch to be taken over is made
    after the commit, at least once. One process at a time carries out an item.
    """
    sent = send(workspace, item)
    beside = Beside(workspace)
    folder = os.path.join(beside.opened.place.folder, "express")
    with locked(os.path.join(folder, f"{sent.item.id}.lock")):
        past = express_record(workspace, sent.item.id)
        walk = _Walk(states, agent or past.item.by, past.item)
        work = _Work(workspace, beside, past, walk.agent, folder)
        if past.is_over:
            walk.leave(is_done=past.status == "done")
            return _outcome(past, is_replay=True)
        walk.enter()
        if "failed" not in past.facts:
            try:
                plan = work.set_up()
                walk.to_coding()
                work.code(plan, pull_request)
            except _FAILURES as error:
                work.fail(error, states.state(walk.agent) if states else "")
        if "failed" in work.past().facts:
            work.promote()
        ended = work.past()
        walk.leave(is_done=ended.status == "done")
        return _outcome(ended)


class _Walk:
    """The agent's way through its states; from where it was, if it was killed on it."""

    def __init__(self, states: States | None, agent: str, item: ExpressItem) -> None:
        self.agent = agent
        self._states = states
        self._task = TASK + item.id
        self._why = f"{item.kind} {item.id}: {item.title}"

    def _is_on_it(self) -> bool:
        lease = self._states.current_lease(self.agent) if self._states else None
        return lease is not None and lease.task == self._task

    def enter(self) -> None:
        """On the item, and in SETUP at least; GateRefused leaves the agent as it was."""
        if self._states is None:
            return
        is_new = not self._is_on_it()
        self._states.lease(self.agent, self._task)
        if not is_new and self._states.state(self.agent) in (SETUP, CODING):
            return
        try:
            self._move(SETUP)
        except PassdownError:
            self._states.release(self.agent, "it is in the middle of something else")
            raise

    def to_coding(self) -> None:
        """In CODING."""
        if self._states and self._states.state(self.agent) == SETUP:
            self._move(CODING)

    def leave(self, *, is_done: bool) -> None:
        """In WAITING, and off the item; nothing is left to do for one that isn't on it."""
        if self._states is None or not self._is_on_it():
            return
        state = self._states.state(self.agent)
        if is_done and state in _PATH[1:]:
            self._move(*_PATH[_PATH.index(state) + 1 :], START)
        elif state in (SETUP, CODING):
            self._move(ERROR, START)
        self._states.release(self.agent, "carried out" if is_done else "it became a task")

    def _move(self, *path: str) -> None:
        if self._states:
            self._states.move(self.agent, *path, why=self._why[:500], is_express=True)


class _Work:
    """The steps of one item, each of which may be made again."""

    def __init__(
        self, workspace: Workspace, beside: Beside, past: ExpressRecord, agent: str, folder: str
    ) -> None:
        self._workspace = workspace
        self._beside = beside
        self._item = past.item
        self._agent = agent
        self._folder = folder
        self._root = beside.opened.root

    def past(self) -> ExpressRecord:
        """What is recorded by now."""
        return express_record(self._workspace, self._item.id)

    def set_up(self) -> Plan:
        """Find out what is needed, and prepare no more: for knowledge, its file, and the ledger
        learns it. A second time starts from the same commit.
        """
        repository = Repository(self._root)
        started = self.past().facts.get("started")
        base = started["commit"] if started else repository.commit_of(self._item.base)
        is_knowledge = any(change.nodes or change.edges for change in self._item.changes())
        # Two updates of knowledge must not each be compared with a ledger without the other.
        guard = locked(os.path.join(self._folder, "knowledge.lock"))
        with guard if is_knowledge else nullcontext():
            plan = plan_of(self._item, repository, base, self._known(is_knowledge))
            if not started:
                into = repository.branch_at(self._item.base)
                facts = {"agent": self._agent, "commit": base, "into": into}
                self._record("started", {**facts, "needs": list(plan.needs)})
            self._learn(plan)
        return plan

    def _known(self, is_knowledge: bool) -> Graph:
        if not is_knowledge:
            return Graph()
        with self._beside.opened.store.reading() as reader:
            return written_graph(reader)

    def _learn(self, plan: Plan) -> None:
        if not plan.nodes and not plan.edges:
            return
        item = self._item
        try:
            self._workspace.learn(
                plan.nodes, plan.edges, agent=item.by, task=item.task, key=TASK + item.id
            )
        except KeyReused:
            # It was learned before we were killed, and others have changed a part of it since:
            # their words are the newer ones.
            return

    def code(self, plan: Plan, ask: Ask) -> None:
        """Write, commit, ask for the branch to be taken over, and record all of it."""
        past = self.past()
        facts = past.facts.get("committed")
        if facts is None:
            facts = self._committed(past, plan)
            self._record("committed", facts)
        asked: PullRequest | None = None
        if facts["commit"]:
            asked = self._asked(ask, past.facts["started"]["into"], facts)
        self._record("done", {**facts, "pull_request": asked.as_document() if asked else None})

    def _committed(self, past: ExpressRecord, plan: Plan) -> Document:
        """Commit what the plan says; where that is nothing, no worktree is made."""
        commit = Commit("", ())
        if plan.needs:
            try:
                commit = self._commit(past, plan)
            except GitError as error:
                # A patch, or a line ending that git doesn't tell apart, may change nothing.
                if error.code != "nothing_to_commit":
                    raise
        return {
            "branch": self._item.branch if commit.id else "",
            "commit": commit.id,
            "files": list(commit.files),
            "reports": [report.as_document() for report in plan.reports],
            "lost": list(plan.lost),
        }

    def _commit(self, past: ExpressRecord, plan: Plan) -> Commit:
        item = self._item
        mark = f"Passdown-Express: {item.id} {item.digest()[:32]}"
        base = past.facts["started"]["commit"]
        with Worktree(self._root, item.branch, base, mark=mark) as tree:
            if tree.committed is not None:
                return tree.committed
            for path, data in plan.files.items():
                if data is None:
                    tree.delete(path)
                else:
                    tree.write(path, data)
            for patch in plan.patches:
                tree.apply(patch)
            return tree.commit(
                commit_message(item, mark), author=item.by, at=parse_time(item.created)
            )

    def _asked(self, ask: Ask, into: str, facts: Document) -> PullRequest:
        """What came of asking; whatever goes wrong with it, the commit is there."""
        item = self._item
        body = request_body(item, facts)
        try:
            return ask(self._root, Request(item.branch, into, visible(item.title), body))
        except (PassdownError, OSError) as error:
            return PullRequest(False, problem=str(error)[:2_000])

    def fail(self, error: BaseException, state: str) -> None:
        """Record why it can't be carried out."""
        if isinstance(error, PassdownError):
            why, evidence = error.message, str(error)
        else:
            why, evidence = f"{type(error).__name__}: {error}", str(error)
        code = getattr(error, "code", "")
        facts = {"why": why[:2_000], "code": code, "state": state, "evidence": evidence[:8_000]}
        self._record("failed", facts)

    def promote(self) -> None:
        """Make a task of it, with everything that is known, and record which."""
        item, failed = self._item, self.past().facts["failed"]
        fields: Document = {
            "title": f"Express work that failed: {item.title}",
            "agent": item.by,
            "description": task_description(item, failed),
            "inputs": [visible(path) for change in item.changes() if (path := change.path)],
            "criteria": [f"what {item.kind} {item.id} was for is done, or not wanted any more"],
        }
        name = TASK + item.id
        for ending in ("", *(f"-{number}" for number in range(2, 100))):
            try:
                self._workspace.create_task(name + ending, key=name, **fields)
            except Conflict:
                continue
            return self._record("promoted", {"task": name + ending})
        raise NotFound(f"{name} can't be a task: too many have that name")

    def _record(self, kind: str, body: Document) -> None:
        self._beside.add(Aside(self._item.stream, kind, self._agent, body, kind))


def _outcome(past: ExpressRecord, *, is_replay: bool = False) -> ExpressDone:
    """The result, from what is recorded."""
    facts = past.facts.get("done", {})
    asked = facts.get("pull_request")
    return ExpressDone(
        id=past.item.id,
        outcome=past.status,
        branch=facts.get("branch", ""),
        commit=facts.get("commit", ""),
        files=tuple(facts.get("files", ())),
        pull_request=PullRequest(**asked) if asked else None,
        reports=tuple(Problem(**report) for report in facts.get("reports", ())),
        lost=tuple(facts.get("lost", ())),
        task=past.facts.get("promoted", {}).get("task", ""),
        why=past.facts.get("failed", {}).get("why", ""),
        is_replay=is_replay,
    )

"""Carry out express items: small jobs that jump the queue.

Each item has a stream, `express/ID`: `sent`, `started`, `committed`, `done`; or `failed` and
`promoted` (to a task). Every step can be repeated: whatever kills the process, carrying the item
out again gives one commit.
"""

from __future__ import annotations

import os
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from passdown.core.graph import Graph, graph_of
from passdown.core.kinds import EXPRESS_STREAM, stream_of
from passdown.core.names import id_problems
from passdown.core.text import visible
from passdown.core.times import parse_time, stamp
from passdown.errors import (
    Conflict,
    GitError,
    InvalidInput,
    KeyReused,
    NotFound,
    PassdownError,
    Problem,
)
from passdown.knowledge.graph_files import read_graph, write_graph
from passdown.knowledge.merge import updated
from passdown.relay.agent_states import CODING, DONE, ERROR, SETUP, START
from passdown.relay.express_items import (
    ExpressItem,
    commit_message,
    express_item,
    read_patch,
    request_body,
    task_description,
)
from passdown.relay.git import (
    Commit,
    PullRequest,
    PullRequestSpec,
    Repository,
    Worktree,
    locked,
    open_pull_request,
)
from passdown.workspace.graph_access import written_graph
from passdown.workspace.streams import StreamEntry, WorkspaceStreams

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from passdown.core.graph import Edge, Node
    from passdown.core.record import Record
    from passdown.core.types import JsonObject
    from passdown.relay.express_items import FileChange
    from passdown.workspace import Workspace
    from passdown.workspace.context import WorkspaceBase


class ExpressPlan(NamedTuple):
    """What an item would change: files with their new content (None: taken out), patches, and what
    the ledger takes over. `reports` and `lost` are what the one who sent it should know.
    """

    files: Mapping[str, bytes | None]
    patches: tuple[str, ...] = ()
    nodes: tuple[Node, ...] = ()
    edges: tuple[Edge, ...] = ()
    reports: tuple[Problem, ...] = ()
    lost: tuple[str, ...] = ()

    @property
    def needs(self) -> tuple[str, ...]:
        """The files that have to be at hand for it."""
        patched = (path for patch in self.patches for path in read_patch(patch).paths)
        return tuple(sorted({*self.files, *patched}))


class _PlanBuilder:
    """What is at hand while a plan is made: the files of a commit, and what the ledger knows."""

    def __init__(self, repository: Repository, base: str, ledger: Graph) -> None:
        self.ledger = ledger
        self._repository = repository
        self._base = base
        self.plan = ExpressPlan({})

    def before(self, path: str) -> bytes | None:
        """The content of a file in the commit."""
        return self._repository.read(self._base, path)

    def now(self, path: str) -> bytes | None:
        """The content of a file after the changes so far."""
        return self.plan.files[path] if path in self.plan.files else self.before(path)

    def put(self, path: str, data: bytes | None) -> None:
        """Give a file its new content; one that has it already needs no change."""
        files = {name: kept for name, kept in self.plan.files.items() if name != path}
        if data != self.before(path):
            files[path] = data
        self.plan = self.plan._replace(files=files)


def plan_of(item: ExpressItem, repository: Repository, base: str, ledger: Graph) -> ExpressPlan:
    """The plan for an item at a commit. Raises GitError or InvalidInput where there is none."""
    desk = _PlanBuilder(repository, base, ledger)
    for change in item.changes():
        _PLANNERS[change.action](desk, change)
    return desk.plan


def _write(desk: _PlanBuilder, change: FileChange) -> None:
    desk.put(change.path, change.text.encode())


def _append(desk: _PlanBuilder, change: FileChange) -> None:
    """Add text at the end, on a line of its own."""
    before = desk.now(change.path) or b""
    gap = b"" if not before or before.endswith(b"\n") else b"\n"
    desk.put(change.path, before + gap + change.text.encode())


def _delete(desk: _PlanBuilder, change: FileChange) -> None:
    if desk.now(change.path) is None:
        message = f"there is no file {change.path!r} to delete"
        raise GitError(message, next_step="Look at its name.", code="unsafe_path")
    desk.put(change.path, None)


def _patch(desk: _PlanBuilder, change: FileChange) -> None:
    desk.plan = desk.plan._replace(patches=(*desk.plan.patches, change.text))


def _learn(desk: _PlanBuilder, change: FileChange) -> None:
    """Bring entries to a knowledge file, and to the ledger."""
    file = _graph_in(desk, change.path)
    entries = graph_of(change.nodes, change.edges)
    made = updated(file, entries, desk.ledger, is_only=change.action == "learn_only")
    form = "json" if change.path.endswith(".json") else "dot"
    desk.put(change.path, write_graph(made.file, form).encode())
    desk.plan = desk.plan._replace(
        nodes=(*desk.plan.nodes, *made.nodes),
        edges=(*desk.plan.edges, *made.edges),
        reports=(*desk.plan.reports, *made.reports),
        lost=(*desk.plan.lost, *made.lost),
    )


def _graph_in(desk: _PlanBuilder, path: str) -> Graph:
    data = desk.now(path) or b""
    if not data.strip():
        return graph_of((), ())
    known = [node.id for node in desk.ledger.nodes]
    try:
        return read_graph(data.decode().replace("\r\n", "\n"), known=known)
    except UnicodeDecodeError as error:
        problem = Problem(path, "not_text", str(error), "a knowledge file")
        raise InvalidInput("the knowledge file can't be read", [problem]) from error


_PLANNERS: Mapping[str, Callable[[_PlanBuilder, FileChange], None]] = {
    "write": _write,
    "append": _append,
    "delete": _delete,
    "patch": _patch,
    "learn": _learn,
    "learn_only": _learn,
}

ENDS = ("done", "promoted")


class ExpressRecord(NamedTuple):
    """An item and what became of it. `status` is the kind of its last record; `facts` has the body
    of each kind but `sent`, `times` when each was written.
    """

    item: ExpressItem
    status: str
    facts: dict[str, JsonObject]
    times: dict[str, str]

    @property
    def is_over(self) -> bool:
        """Whether it is done, or became a task."""
        return self.status in ENDS

    def to_dict(self) -> JsonObject:
        """The item with its history, as a plain JSON object."""
        history = [
            {"kind": kind, "at": at, **self.facts.get(kind, {})} for kind, at in self.times.items()
        ]
        return {**self.item.to_dict(), "status": self.status, "history": history}


def send(workspace: WorkspaceBase, given: object) -> ExpressRecord:
    """Record an item, or find it recorded; it is checked first.

    The same id with other content raises KeyReused; the time it was made at may differ. A task
    that it names has to be there.
    """
    beside = WorkspaceStreams(workspace)
    item = express_item(given, now=stamp(beside.now()))
    _check_task(beside, item)
    for _ in range(2):
        known = find_record(beside, item.id)
        if known is not None:
            if known.item.digest() != item.digest():
                raise KeyReused(
                    f"the express item {item.id} was sent before, with other content",
                    next_step="Use a new id for new work.",
                )
            return known
        body = item.to_dict()
        # Two may send the same item at the same moment, each with its own time: one is first.
        try:
            beside.add(StreamEntry(item.stream, "sent", item.by, body, "sent"))
        except KeyReused:
            continue
    return express_record(workspace, item.id)


def _check_task(beside: WorkspaceStreams, item: ExpressItem) -> None:
    if item.task and not beside.position(stream_of(item.task)):
        problem = Problem(
            "task", "unknown_task", f"there is no task {item.task}", "a task, or none"
        )
        raise InvalidInput("the express item is refused; nothing was changed", [problem])


def express_records(workspace: WorkspaceBase, *, status: str = "") -> list[ExpressRecord]:
    """All items, oldest first; or those whose last record is of one kind."""
    beside = WorkspaceStreams(workspace)
    heads = beside.streams(EXPRESS_STREAM)
    all_of_them = [_read_records(beside.records(head.stream)) for head in heads]
    kept = [one for one in all_of_them if not status or one.status == status]
    return sorted(kept, key=lambda one: (one.times["sent"], one.item.id))


def express_record(workspace: WorkspaceBase, item: str) -> ExpressRecord:
    """One item by its id; raises NotFound."""
    known = None if id_problems(item, "id") else find_record(WorkspaceStreams(workspace), item)
    if known is None:
        message = f"there is no express item {item[:100]!r}"
        raise NotFound(message, next_step="List them to see their ids.")
    return known


def find_record(beside: WorkspaceStreams, item: str) -> ExpressRecord | None:
    """One item by its id; None where it was never sent."""
    records = beside.records(EXPRESS_STREAM + item)
    return _read_records(records) if records else None


def _read_records(records: list[Record]) -> ExpressRecord:
    first = records[0].document()
    item = ExpressItem(**{name: first[name] for name in ExpressItem._fields})
    facts = {record.kind: record.document() for record in records[1:]}
    times = {record.kind: record.at for record in records}
    return ExpressRecord(item, records[-1].kind, facts, times)


if TYPE_CHECKING:
    Document = dict[str, Any]
    Ask = Callable[[str, PullRequestSpec], PullRequest]


TASK_PREFIX = "express-"
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


class ExpressResult(NamedTuple):
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

    def to_dict(self) -> Document:
        """The result as a plain JSON object."""
        asked = self.pull_request
        return {
            **self._asdict(),
            "files": list(self.files),
            "pull_request": asked.to_dict() if asked else None,
            "reports": [report.to_dict() for report in self.reports],
            "lost": list(self.lost),
        }


def carry_out(
    workspace: Workspace,
    item: object,
    *,
    states: States | None,
    agent: str = "",
    pull_request: Ask = open_pull_request,
) -> ExpressResult:
    """Carry an item out, or give what came of it before.

    `agent` does the work (the one who sent it, unless named) and has to be WAITING: it goes to
    SETUP, CODING, DONE and WAITING again, after a failure through ERROR; GateRefused says that it
    can't. Without `states` nobody's are moved. A request for the branch to be taken over is made
    after the commit, at least once. One process at a time carries out an item.
    """
    sent = send(workspace, item)
    beside = WorkspaceStreams(workspace)
    folder = os.path.join(beside.opened.place.folder, "express")
    with locked(os.path.join(folder, f"{sent.item.id}.lock")):
        past = express_record(workspace, sent.item.id)
        walk = _AgentTrack(states, agent or past.item.by, past.item)
        work = _ExpressJob(workspace, beside, past, walk.agent, folder)
        if past.is_over:
            walk.leave(is_done=past.status == "done")
            return _result(past, is_replay=True)
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
        return _result(ended)


class _AgentTrack:
    """The agent's way through its states; from where it was, if it was killed on it."""

    def __init__(self, states: States | None, agent: str, item: ExpressItem) -> None:
        self.agent = agent
        self._states = states
        self._task = TASK_PREFIX + item.id
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


class _ExpressJob:
    """The steps of one item, each of which may be made again."""

    def __init__(
        self,
        workspace: Workspace,
        beside: WorkspaceStreams,
        past: ExpressRecord,
        agent: str,
        folder: str,
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

    def set_up(self) -> ExpressPlan:
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

    def _learn(self, plan: ExpressPlan) -> None:
        if not plan.nodes and not plan.edges:
            return
        item = self._item
        try:
            self._workspace.learn(
                plan.nodes, plan.edges, agent=item.by, task=item.task, key=TASK_PREFIX + item.id
            )
        except KeyReused:
            # It was learned before we were killed, and others have changed a part of it since:
            # their words are the newer ones.
            return

    def code(self, plan: ExpressPlan, ask: Ask) -> None:
        """Write, commit, ask for the branch to be taken over, and record all of it."""
        past = self.past()
        facts = past.facts.get("committed")
        if facts is None:
            facts = self._committed(past, plan)
            self._record("committed", facts)
        asked: PullRequest | None = None
        if facts["commit"]:
            asked = self._asked(ask, past.facts["started"]["into"], facts)
        self._record("done", {**facts, "pull_request": asked.to_dict() if asked else None})

    def _committed(self, past: ExpressRecord, plan: ExpressPlan) -> Document:
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
            "reports": [report.to_dict() for report in plan.reports],
            "lost": list(plan.lost),
        }

    def _commit(self, past: ExpressRecord, plan: ExpressPlan) -> Commit:
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
            return ask(self._root, PullRequestSpec(item.branch, into, visible(item.title), body))
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
        name = TASK_PREFIX + item.id
        for ending in ("", *(f"-{number}" for number in range(2, 100))):
            try:
                self._workspace.create_task(name + ending, key=name, **fields)
            except Conflict:
                continue
            return self._record("promoted", {"task": name + ending})
        raise NotFound(f"{name} can't be a task: too many have that name")

    def _record(self, kind: str, body: Document) -> None:
        self._beside.add(StreamEntry(self._item.stream, kind, self._agent, body, kind))


def _result(past: ExpressRecord, *, is_replay: bool = False) -> ExpressResult:
    """The result, from what is recorded."""
    facts = past.facts.get("done", {})
    asked = facts.get("pull_request")
    return ExpressResult(
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


__all__ = [
    "AgentLease",
    "ExpressRecord",
    "ExpressResult",
    "States",
    "carry_out",
    "express_record",
    "express_records",
    "send",
]

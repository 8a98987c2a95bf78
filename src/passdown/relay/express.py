"""Carry out express items: runs of one leg that jump the queue and need no model.

Each item has a stream, `express/ID`: `sent`, `started`, `committed`, `done`; or `failed` and
`promoted` (to a task). Every step can be repeated: whatever kills the process, carrying the item
out again gives one commit.
"""

from __future__ import annotations

import os
from contextlib import nullcontext
from typing import TYPE_CHECKING, NamedTuple

from passdown.core.graph import Edge, Graph, Node, graph_of
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
from passdown.knowledge.graph import written_graph
from passdown.knowledge.graph_files import read_graph, write_graph
from passdown.knowledge.sync import update_graph
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
from passdown.relay.runs import connection_of
from passdown.workspace.streams import StreamEntry, WorkspaceStreams

if TYPE_CHECKING:
    from collections.abc import Callable

    from passdown.core.record import Record
    from passdown.core.types import JsonObject
    from passdown.relay.agents import AgentStates
    from passdown.relay.express_items import ExpressChange
    from passdown.workspace import Workspace

    OpenPullRequest = Callable[[str, PullRequestSpec], PullRequest]

ENDS = ("done", "promoted")
TASK_PREFIX = "express-"
"""Begins the names of an agent's lease on an item, and of the task that a failed item becomes."""

_PATH = (START, SETUP, CODING, DONE)
# Faults of the item or its project. A store that is busy or gone is neither: that is raised, and
# the item is carried out later.
_FAILURES = (GitError, InvalidInput, NotFound, OSError)


class ExpressRecord(NamedTuple):
    """An item and its history. `status` is the kind of its last record; `facts` has the body of
    each kind but `sent`, `times` when each was written.
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


class ExpressResult(NamedTuple):
    """The result of an item. With the outcome `done`, `commit` is on `branch`, or empty where
    nothing had to change; with `promoted`, `task` is the task that it became, and `why`.

    `reports` are conflicts and what was removed from a file, `lost` the names of the latter.
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

    def to_dict(self) -> JsonObject:
        """The result as a plain JSON object."""
        request = self.pull_request
        return {
            **self._asdict(),
            "files": list(self.files),
            "pull_request": request._asdict() if request else None,
            "reports": [report.to_dict() for report in self.reports],
            "lost": list(self.lost),
        }


def send(workspace: Workspace, given: object) -> ExpressRecord:
    """Check and record an item, or find it recorded. A server queues it as well.

    The same id with other content raises KeyReused; the creation time may differ. A task that it
    names must exist.
    """
    connection = connection_of(workspace)
    if connection is not None:
        body = {"item": given}
        reply = connection.ask("POST", "/api/express", body=body, repeats=True)
        return express_record(workspace, reply.document()["id"])
    streams = WorkspaceStreams(workspace)
    item = express_item(given, now=stamp(streams.now()))
    if item.task and not streams.position(stream_of(item.task)):
        message = f"there is no task {item.task}"
        problem = Problem("task", "unknown_task", message, "an existing task, or none")
        raise InvalidInput("the express item is refused; nothing was changed", [problem])
    for _ in range(2):
        known = _find(streams, item.id)
        if known is not None:
            if known.item.digest() != item.digest():
                raise KeyReused(
                    f"the express item {item.id} was sent before, with other content",
                    next_step="Use a new id for new work.",
                )
            return known
        try:
            streams.add(StreamEntry(item.stream, "sent", item.by, item.to_dict(), "sent"))
        except KeyReused:  # sent by another process at the same moment, with another time
            continue
    return express_record(workspace, item.id)


def queue_express_item(workspace: Workspace, item: str) -> str:
    """Queue a recorded item for the workers; returns why it could not be queued, or ""."""
    try:
        from passdown.relay.engine import database_faults
        from passdown.relay.worker import RelayWorker, open_engine

        with database_faults(), open_engine(workspace) as engine:
            RelayWorker(workspace, engine).send_express(item)
    except PassdownError as error:
        return error.message
    return ""


def express_records(workspace: Workspace, *, status: str = "") -> list[ExpressRecord]:
    """All items, oldest first, or those with a status."""
    streams = WorkspaceStreams(workspace)
    found = [_fold(streams.records(head.stream)) for head in streams.streams(EXPRESS_STREAM)]
    kept = [each for each in found if not status or each.status == status]
    return sorted(kept, key=lambda each: (each.times["sent"], each.item.id))


def express_record(workspace: Workspace, item: str) -> ExpressRecord:
    """One item by its id; raises NotFound."""
    known = None if id_problems(item, "id") else _find(WorkspaceStreams(workspace), item)
    if known is None:
        message = f"there is no express item {item[:100]!r}"
        raise NotFound(message, next_step="passdown express list shows their ids.")
    return known


def _find(streams: WorkspaceStreams, item: str) -> ExpressRecord | None:
    records = streams.records(EXPRESS_STREAM + item)
    return _fold(records) if records else None


def _fold(records: list[Record]) -> ExpressRecord:
    first = records[0].document()
    item = ExpressItem(**{name: first[name] for name in ExpressItem._fields})
    facts = {record.kind: record.document() for record in records[1:]}
    times = {record.kind: record.at for record in records}
    return ExpressRecord(item, records[-1].kind, facts, times)


def carry_out(
    workspace: Workspace,
    item: object,
    *,
    states: AgentStates | None,
    agent: str = "",
    pull_request: OpenPullRequest = open_pull_request,
) -> ExpressResult:
    """Carry out an item, or return the result of an item that was.

    `agent` does the work (the sender, unless given) and must be WAITING, else GateRefused is
    raised: it goes to SETUP, CODING, DONE and WAITING again, after a failure through ERROR.
    Without `states` no agent is moved. A pull request is opened after the commit, at least once.
    One process at a time carries out an item.
    """
    sent = send(workspace, item)
    folder = os.path.join(WorkspaceStreams(workspace).context.place.folder, "express")
    with locked(os.path.join(folder, f"{sent.item.id}.lock")):
        job = _ExpressJob(workspace, sent.item.id, agent, folder)
        track = _AgentTrack(states, job.agent, sent.item) if states else None
        is_replay = job.record.is_over
        if not is_replay:
            if track:
                track.begin()
            job.run(track, pull_request)
        if track:
            track.end(is_done=job.record.status == "done")
        return _result(job.record, is_replay=is_replay)


class _AgentTrack:
    """Moves the agent through its states, from where it is if the process was killed."""

    def __init__(self, states: AgentStates, agent: str, item: ExpressItem) -> None:
        self._states = states
        self._agent = agent
        self._task = TASK_PREFIX + item.id
        self._why = f"{item.kind} {item.id}: {item.title}"[:500]

    @property
    def state(self) -> str:
        return self._states.state(self._agent)

    def _has_lease(self) -> bool:
        lease = self._states.current_lease(self._agent)
        return lease is not None and lease.task == self._task

    def begin(self) -> None:
        """Lease the agent and move it to SETUP; GateRefused leaves it as it was."""
        is_new = not self._has_lease()
        self._states.lease(self._agent, self._task)
        if not is_new and self.state in (SETUP, CODING):
            return
        try:
            self._move(SETUP)
        except PassdownError:
            self._states.release(self._agent, "it is in the middle of something else")
            raise

    def to_coding(self) -> None:
        if self.state == SETUP:
            self._move(CODING)

    def end(self, *, is_done: bool) -> None:
        """Move the agent to WAITING and release it, if it still has the item."""
        if not self._has_lease():
            return
        state = self.state
        if is_done and state in _PATH[1:]:
            self._move(*_PATH[_PATH.index(state) + 1 :], START)
        elif state in (SETUP, CODING):
            self._move(ERROR, START)
        self._states.release(self._agent, "carried out" if is_done else "it became a task")

    def _move(self, *path: str) -> None:
        self._states.move(self._agent, *path, why=self._why, is_express=True)


class _ExpressJob:
    """The steps of one item, each of which may be repeated."""

    def __init__(self, workspace: Workspace, item: str, agent: str, folder: str) -> None:
        self._workspace = workspace
        self._streams = WorkspaceStreams(workspace)
        self.record = express_record(workspace, item)
        self._item = self.record.item
        self.agent = agent or self._item.by
        self._folder = folder

    def run(self, track: _AgentTrack | None, open_request: OpenPullRequest) -> None:
        """Make all steps that are left."""
        if "failed" not in self.record.facts:
            try:
                plan = self._set_up()
                if track:
                    track.to_coding()
                self._code(plan, open_request)
            except _FAILURES as error:
                self._fail(error, track.state if track else "")
        if "failed" in self.record.facts:
            self._promote()

    def _set_up(self) -> ExpressPlan:
        """Find out what has to change, and record knowledge. A repeat starts from the same
        commit.
        """
        repository = Repository(self._workspace.root)
        started = self.record.facts.get("started")
        base = started["commit"] if started else repository.commit_of(self._item.base)
        is_knowledge = any(change.nodes or change.edges for change in self._item.changes())
        # Two updates of knowledge must not each be compared with a ledger without the other.
        guard = locked(os.path.join(self._folder, "knowledge.lock"))
        with guard if is_knowledge else nullcontext():
            known = Graph()
            if is_knowledge:
                with self._streams.context.store.reading() as reader:
                    known = written_graph(reader)
            plan = plan_of(self._item, repository, base, known)
            if not started:
                into = repository.branch_at(self._item.base)
                facts = {"agent": self.agent, "commit": base, "into": into}
                self._add("started", {**facts, "needs": list(plan.needs)})
            self._learn(plan)
        return plan

    def _learn(self, plan: ExpressPlan) -> None:
        if not plan.nodes and not plan.edges:
            return
        item = self._item
        try:
            self._workspace.knowledge.add(
                plan.nodes, plan.edges, agent=item.by, task=item.task, key=TASK_PREFIX + item.id
            )
        except KeyReused:
            # Recorded before we were killed; others have changed a part since, and theirs is newer.
            return

    def _code(self, plan: ExpressPlan, open_request: OpenPullRequest) -> None:
        """Write, commit, open a pull request, and record all of it."""
        facts = self.record.facts.get("committed")
        if facts is None:
            facts = self._commit_facts(plan)
            self._add("committed", facts)
        request: PullRequest | None = None
        if facts["commit"]:
            request = self._open_request(open_request, facts)
        self._add("done", {**facts, "pull_request": request._asdict() if request else None})

    def _commit_facts(self, plan: ExpressPlan) -> JsonObject:
        commit = Commit("", ())
        if plan.needs:
            try:
                commit = self._commit(plan)
            except GitError as error:
                # A patch, or a line ending that git ignores, may change nothing.
                if error.code != "nothing_to_commit":
                    raise
        return {
            "branch": self._item.branch if commit.id else "",
            "commit": commit.id,
            "files": list(commit.files),
            "reports": [report.to_dict() for report in plan.reports],
            "lost": list(plan.lost),
        }

    def _commit(self, plan: ExpressPlan) -> Commit:
        item = self._item
        mark = f"Passdown-Express: {item.id} {item.digest()[:32]}"
        base = self.record.facts["started"]["commit"]
        with Worktree(self._workspace.root, item.branch, base, mark=mark) as tree:
            if tree.committed is not None:
                return tree.committed
            for path, data in plan.files.items():
                if data is None:
                    tree.delete(path)
                else:
                    tree.write(path, data)
            for patch in plan.patches:
                tree.apply(patch)
            message = commit_message(item, mark)
            return tree.commit(message, author=item.by, at=parse_time(item.created))

    def _open_request(self, open_request: OpenPullRequest, facts: JsonObject) -> PullRequest:
        """Open a pull request; if that fails, the commit is there all the same."""
        item, into = self._item, self.record.facts["started"]["into"]
        spec = PullRequestSpec(item.branch, into, visible(item.title), request_body(item, facts))
        try:
            return open_request(self._workspace.root, spec)
        except (PassdownError, OSError) as error:
            return PullRequest(False, problem=str(error)[:2_000])

    def _fail(self, error: Exception, state: str) -> None:
        is_ours = isinstance(error, PassdownError)
        why = error.message if is_ours else f"{type(error).__name__}: {error}"
        facts = {"why": why[:2_000], "code": getattr(error, "code", ""), "state": state}
        self._add("failed", {**facts, "evidence": str(error)[:8_000]})

    def _promote(self) -> None:
        """Make a task of the item, with everything that is known, and record which."""
        item, name = self._item, TASK_PREFIX + self._item.id
        fields: JsonObject = {
            "title": f"Express work that failed: {item.title}",
            "agent": item.by,
            "description": task_description(item, self.record.facts["failed"]),
            "inputs": [visible(path) for change in item.changes() if (path := change.path)],
            "criteria": [f"what {item.kind} {item.id} was for is done, or not wanted any more"],
        }
        for suffix in ("", *(f"-{number}" for number in range(2, 100))):
            try:
                self._workspace.create_task(name + suffix, key=name, **fields)
            except Conflict:
                continue
            return self._add("promoted", {"task": name + suffix})
        raise NotFound(f"no free task id for {name}: too many tasks have that name")

    def _add(self, kind: str, body: JsonObject) -> None:
        self._streams.add(StreamEntry(self._item.stream, kind, self.agent, body, kind))
        self.record = express_record(self._workspace, self._item.id)


def _result(record: ExpressRecord, *, is_replay: bool) -> ExpressResult:
    facts = record.facts.get("done", {})
    request = facts.get("pull_request")
    return ExpressResult(
        id=record.item.id,
        outcome=record.status,
        branch=facts.get("branch", ""),
        commit=facts.get("commit", ""),
        files=tuple(facts.get("files", ())),
        pull_request=PullRequest(**request) if request else None,
        reports=tuple(Problem(**report) for report in facts.get("reports", ())),
        lost=tuple(facts.get("lost", ())),
        task=record.facts.get("promoted", {}).get("task", ""),
        why=record.facts.get("failed", {}).get("why", ""),
        is_replay=is_replay,
    )


class ExpressPlan:
    """What an item changes at a commit: files with their new content (None: deleted), patches, and
    what the ledger learns. `reports` and `lost` are for the sender.

    Files are read from the commit, never from the user's folder. Only what differs is in a plan.
    """

    def __init__(self, repository: Repository, base: str, ledger: Graph) -> None:
        self.files: dict[str, bytes | None] = {}
        self.patches: list[str] = []
        self.nodes: list[Node] = []
        self.edges: list[Edge] = []
        self.reports: list[Problem] = []
        self.lost: list[str] = []
        self._repository = repository
        self._base = base
        self._ledger = ledger

    @property
    def needs(self) -> tuple[str, ...]:
        """The files that it touches."""
        patched = (path for patch in self.patches for path in read_patch(patch).paths)
        return tuple(sorted({*self.files, *patched}))

    def add(self, change: ExpressChange) -> None:
        """Add one change; raises GitError or InvalidInput where it can't be made."""
        path, action = change.path, change.action
        if action == "write":
            self._put(path, change.text.encode())
        elif action == "append":
            before = self._content(path) or b""
            gap = b"" if not before or before.endswith(b"\n") else b"\n"
            self._put(path, before + gap + change.text.encode())
        elif action == "delete":
            if self._content(path) is None:
                message = f"there is no file {path!r} to delete"
                raise GitError(message, next_step="Check its name.", code="unsafe_path")
            self._put(path, None)
        elif action == "patch":
            self.patches.append(change.text)
        else:
            self._learn(change)

    def _content(self, path: str) -> bytes | None:
        """The content of a file after the changes so far."""
        return self.files[path] if path in self.files else self._repository.read(self._base, path)

    def _put(self, path: str, data: bytes | None) -> None:
        self.files.pop(path, None)
        if data != self._repository.read(self._base, path):
            self.files[path] = data

    def _learn(self, change: ExpressChange) -> None:
        """Merge entries into a knowledge file and the ledger."""
        entries = graph_of(change.nodes, change.edges)
        file = self._read_graph(change.path)
        made = update_graph(file, entries, self._ledger, is_only=change.action == "learn_only")
        form = "json" if change.path.endswith(".json") else "dot"
        self._put(change.path, write_graph(made.file, form).encode())
        self.nodes += made.nodes
        self.edges += made.edges
        self.reports += made.reports
        self.lost += made.lost

    def _read_graph(self, path: str) -> Graph:
        data = self._content(path) or b""
        if not data.strip():
            return graph_of((), ())
        known = [node.id for node in self._ledger.nodes]
        try:
            return read_graph(data.decode().replace("\r\n", "\n"), known=known)
        except UnicodeDecodeError as error:
            problem = Problem(path, "not_text", str(error), "a knowledge file")
            raise InvalidInput("the knowledge file can't be read", [problem]) from error


def plan_of(item: ExpressItem, repository: Repository, base: str, ledger: Graph) -> ExpressPlan:
    """The plan for an item at a commit; raises GitError or InvalidInput where there is none."""
    plan = ExpressPlan(repository, base, ledger)
    for change in item.changes():
        plan.add(change)
    return plan

"""Express items: runs of one leg that jump the queue and need no model.

An item is a run of a built-in relay in a lane of its own: it is recorded, queued, listed, stopped
and resumed like any other run. A WAITING agent is leased for it and makes the change as one commit.
After its attempts the item becomes a task. Every step can be repeated: whatever kills the process,
carrying the item out again gives one commit.
"""

from __future__ import annotations

import os
import time
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, NamedTuple, cast

from passdown.core.graph import Edge, Graph, Node, graph_of
from passdown.core.kinds import EXPRESS_STREAM, RUN_STREAM, stream_of
from passdown.core.names import id_problems
from passdown.core.text import storable_values, visible
from passdown.core.times import parse_time, stamp
from passdown.errors import (
    Conflict,
    GitError,
    InvalidInput,
    KeyReused,
    LaneFull,
    NotFound,
    PassdownError,
    Problem,
    StoreBusy,
)
from passdown.knowledge.graph import written_graph
from passdown.knowledge.graph_files import read_graph, write_graph
from passdown.knowledge.sync import update_graph
from passdown.relay.agents import RunAgents
from passdown.relay.engine import worker_name
from passdown.relay.express_items import (
    ExpressItem,
    commit_message,
    express_item,
    read_patch,
    request_body,
    task_description,
)
from passdown.relay.git import (
    LOCK_TIMEOUT_S,
    Commit,
    PullRequest,
    PullRequestSpec,
    Repository,
    Worktree,
    locked,
    open_pull_request,
)
from passdown.relay.run import AGAIN, ERROR, LEG, RUNNING, LegRun, Run, relay_of
from passdown.relay.runs import EXPRESS, EXPRESS_RUN, Runs, next_commands
from passdown.workspace.streams import WorkspaceStreams

if TYPE_CHECKING:
    from collections.abc import Callable

    from passdown.core.record import Record
    from passdown.core.types import JsonObject
    from passdown.relay.express_items import ExpressChange
    from passdown.relay.run import Relay
    from passdown.workspace import Workspace

    OpenPullRequest = Callable[[str, PullRequestSpec], PullRequest]

ATTEMPTS = 3

# Faults of the item or its project. A store that is busy or gone is neither: that is raised, and
# the item is carried out later.
_FAILURES = (GitError, InvalidInput, NotFound, OSError)


class ExpressRecord(NamedTuple):
    """An item and its run."""

    item: ExpressItem
    run: Run

    @property
    def status(self) -> str:
        """`sent`, `started`, `done`, `promoted` (it became a task), or how its run ended."""
        if self.run.ended_at:
            names = {"completed": "done", "failed": "promoted" if self.run.promoted else "failed"}
            return names.get(self.run.status, self.run.status)
        return "started" if any(turn.begun_at for turn in self._turns) else "sent"

    @property
    def is_over(self) -> bool:
        """Whether nothing follows: it is done or stopped, or became a task."""
        return bool(self.run.ended_at) and self.status != "failed"

    @property
    def is_earlier(self) -> bool:
        """Whether an earlier version recorded it, without a run."""
        return self.run.run.startswith(EXPRESS_STREAM)

    @property
    def result(self) -> JsonObject:
        """The result of the last attempt: `agent`, and `commit` on `branch` with its `files` and
        `pull_request`, or no commit where nothing had to change. `reports` are conflicts and what
        was removed from a file, `lost` the names of the latter.
        """
        found = [turn.result for turn in self._turns if turn.result]
        return found[-1] if found else {}

    @property
    def why(self) -> str:
        """Why the last attempt failed; "" if it didn't."""
        return next((turn.why for turn in reversed(self._turns) if not turn.is_open), "")

    @property
    def _turns(self) -> list[LegRun]:
        return list(self.run.legs.values())

    def to_dict(self) -> JsonObject:
        """The item with its result and its attempts, as a plain JSON object."""
        fields = ("number", "worker", "begun_at", "ended_at", "outcome", "why", "result")
        attempts = [{name: getattr(turn, name) for name in fields} for turn in self._turns]
        return {
            **self.item.to_dict(),
            "title": self.item.title,
            "status": self.status,
            "is_over": self.is_over,
            "next": [] if self.run.promoted else next_commands(self.run),
            "run": self.run.run,
            "sent_at": self.run.started_at,
            "result": self.result,
            "why": self.why,
            "promoted": self.run.promoted,
            "attempts": attempts,
        }


def _relay_for(item: ExpressItem) -> Relay:
    """The relay of an item: one leg, which any of its agents may take, a few times."""
    retry = {"when": {"outcome": [ERROR]}, "go": [AGAIN], "at_most": ATTEMPTS - 1}
    leg = {"leg": "change", "agent": item.agents[0], "request": item.reason}
    document: JsonObject = {
        "relay": EXPRESS,
        "description": item.title,
        "parallel": 1,
        "agents": {name: {"runner": {}} for name in item.agents},
        "legs": [{**leg, "phase": "implementing", "then": [retry]}],
        "item": item.to_dict(),
    }
    return relay_of(document)


def item_of(run: Run) -> ExpressItem:
    """The item of an express run."""
    given: JsonObject = run.relay.document["item"]
    return ExpressItem(**given)._replace(agents=tuple(given["agents"]))


def _earlier(records: list[Record]) -> ExpressRecord:
    """An item of an earlier version, which had a stream of its own, as a run of one turn."""
    first, last = records[0], records[-1]
    facts: dict[str, JsonObject] = {record.kind: record.document() for record in records}
    times = {record.kind: record.at for record in records}
    item = ExpressItem(**facts["sent"])
    failed, done = facts.get("failed"), facts.get("done")
    agent = facts.get("started", {}).get("agent", "")
    turn = LegRun(
        number=1,
        leg="change",
        agent=agent,
        kind=LEG,
        visit=1,
        guidance="",
        causes=(),
        started_at=first.at,
        begun_at=times.get("started", ""),
        ended_at=times.get("failed") or times.get("done", ""),
        outcome=ERROR if failed else "completed" if done else "",
        why=failed["why"] if failed else "",
        result={**(failed or done or {}), "agent": agent},
    )
    is_over = last.kind in ("done", "promoted")
    run = Run(
        run=first.stream,
        relay=_relay_for(item),
        task=item.task,
        by=item.by,
        lane=EXPRESS,
        started_at=first.at,
        position=last.position,
        mark="",
        legs={1: turn},
        status=RUNNING if not is_over else "completed" if done else "failed",
        ended_at=last.at if is_over else "",
        promoted=facts.get("promoted", {}).get("task", ""),
    )
    return ExpressRecord(item, run)


def send(workspace: Workspace, given: object) -> ExpressRecord:
    """Check and record an item, or find it recorded. A server queues it as well.

    The same id with other content raises KeyReused; the creation time and the agents may differ.
    A task that it names must exist.
    """
    if not WorkspaceStreams(workspace).is_local:
        sent = workspace.relay.send_express(cast("JsonObject", given))
        return express_record(workspace, sent["id"])
    return _recorded(workspace, _checked(workspace, given))


def submit(
    workspace: Workspace, given: object, *, url: str = "", wait_s: float = 0.0
) -> tuple[ExpressRecord, str]:
    """Record an item and queue it for the workers; also gives why it could not be queued, or "".

    A full queue makes the sender wait for up to `wait_s`, then raises LaneFull, and nothing is
    recorded. What is recorded but not queued is found by the next worker.
    """
    item = _checked(workspace, given)
    known = _known(workspace, item.id)
    if known is not None and known.is_over:
        return _recorded(workspace, item), ""
    try:
        from passdown.relay.engine import database_faults
        from passdown.relay.worker import EngineOptions, queue_turn

        turn = known.run.open_legs[0].number if known and known.run.open_legs else 1
        with database_faults():
            options = EngineOptions(url=url)
            name = EXPRESS_RUN + item.id
            queue_turn(workspace, EXPRESS, name, turn, options, wait_s=None if known else wait_s)
        why = ""
    except LaneFull:
        raise
    except (PassdownError, OSError) as error:
        why = error.message if isinstance(error, PassdownError) else str(error)
    return _recorded(workspace, item), why


def _checked(workspace: Workspace, given: object) -> ExpressItem:
    streams = WorkspaceStreams(workspace)
    item = express_item(given, now=stamp(streams.now()))
    if item.task and not streams.position(stream_of(item.task)):
        message = f"there is no task {item.task}"
        problem = Problem("task", "unknown_task", message, "an existing task, or none")
        raise InvalidInput("the express item is refused; nothing was changed", [problem])
    return item


def _recorded(workspace: Workspace, item: ExpressItem) -> ExpressRecord:
    runs = Runs(workspace)
    known = _known(workspace, item.id)
    if known is None:
        name = EXPRESS_RUN + item.id
        runs.start(_relay_for(item), item.task, by=item.by, lane=EXPRESS, name=name)
        known = express_record(workspace, item.id)
    if known.item.digest() != item.digest():
        raise KeyReused(
            f"the express item {item.id} was sent before, with other content",
            next_step="Use a new id for new work.",
        )
    return known


def express_document(workspace: Workspace, record: ExpressRecord) -> JsonObject:
    """An item as a plain JSON object; `waits_for` says what keeps each of its agents from it."""
    is_sent = record.status == "sent" and not record.is_earlier
    found = RunAgents(workspace).obstacles(record.run) if is_sent else []
    return {**record.to_dict(), "waits_for": [problem.line() for problem in found]}


def express_records(workspace: Workspace, *, status: str = "") -> list[ExpressRecord]:
    """All items, oldest first, or those with a status."""
    runs = Runs(workspace)
    names = [name for name in runs.positions() if name.startswith(EXPRESS_RUN)]
    found = [ExpressRecord(item_of(run), run) for run in map(runs.get, names)]
    streams, known = WorkspaceStreams(workspace), {each.item.id for each in found}
    found += [
        _earlier(streams.records(head.stream))
        for head in streams.streams(EXPRESS_STREAM)
        if head.stream.removeprefix(EXPRESS_STREAM) not in known
    ]
    kept = [each for each in found if not status or each.status == status]
    return sorted(kept, key=lambda each: (each.run.started_at, each.item.id))


def express_record(workspace: Workspace, item: str) -> ExpressRecord:
    """One item by its id; raises NotFound."""
    known = None if id_problems(item, "id") else _find(workspace, item)
    if known is None:
        message = f"there is no express item {item[:100]!r}"
        raise NotFound(message, next_step="passdown express list shows their ids.")
    return known


def _find(workspace: Workspace, item: str) -> ExpressRecord | None:
    name, streams = EXPRESS_RUN + item, WorkspaceStreams(workspace)
    if streams.position(RUN_STREAM + name):
        run = Runs(workspace).get(name)
        return ExpressRecord(item_of(run), run)
    records = streams.records(EXPRESS_STREAM + item)
    return _earlier(records) if records else None


def _known(workspace: Workspace, item: str) -> ExpressRecord | None:
    """The item with an id; None for one of an earlier version that is open: it becomes a run."""
    found = _find(workspace, item)
    return None if found and found.is_earlier and not found.is_over else found


def carry_out(
    workspace: Workspace, item: object, *, pull_request: OpenPullRequest = open_pull_request
) -> ExpressRecord:
    """Carry out an item in this process, or return the result of an item that was.

    This process acts for its agents, so they needn't have done anything before. Raises GateRefused
    if all of them are busy.
    """
    agents = RunAgents(workspace, takes_unknown=True)
    runs, turns = Runs(workspace), ExpressTurns(workspace, agents, pull_request=pull_request)
    sent = send(workspace, item)
    if sent.is_earlier:
        return sent
    run = runs.advance(sent.run.run)
    while run.open_legs and not run.ended_at:
        turn = run.open_legs[0]
        turns.agents.check_free(run)
        runs.begin(run.run, turn.number, worker_name())
        turns.take(run, turn)
        run = runs.advance(run.run)
    turns.settle(run)
    return express_record(workspace, item_of(run).id)


class ExpressTurns:
    """Takes the turns of express runs; each step may be repeated.

    A pull request is opened after the commit, at least once.
    """

    def __init__(
        self,
        workspace: Workspace,
        agents: RunAgents,
        *,
        pull_request: OpenPullRequest = open_pull_request,
    ) -> None:
        self.agents = agents
        self._workspace = workspace
        self._runs = Runs(workspace)
        self._open_request = pull_request
        self._folder = os.path.join(WorkspaceStreams(workspace).context.place.folder, EXPRESS)

    def take(self, run: Run, turn: LegRun, *, wait_s: float = LOCK_TIMEOUT_S) -> JsonObject | None:
        """Carry out an item and record how that ended; None if all its agents are busy, or the turn
        is over. Raises StoreBusy if another process is carrying it out for longer than `wait_s`.
        """
        item = item_of(run)
        with locked(self._lock_of(item), timeout_s=wait_s):
            found = self._runs.get(run.run)
            if found.ended_at or not found.legs[turn.number].is_open:
                return None
            agent = self.agents.begin_express(run)
            if not agent:
                return None
            ended = storable_values(self._try(item, agent))
            self._runs.end(run.run, turn.number, ended)
            return ended

    def settle(self, run: Run) -> None:
        """Free the agent of a run that has ended; make a task of an item that failed."""
        self.agents.settle(run)
        if run.status == "failed" and not run.promoted:
            self._promote(run)
        lock = self._lock_of(item_of(run))
        if run.ended_at and os.path.exists(lock):  # left by a killed process
            with suppress(StoreBusy), locked(lock, timeout_s=0):
                pass

    def _lock_of(self, item: ExpressItem) -> str:
        return os.path.join(self._folder, f"{item.id}.lock")

    def _try(self, item: ExpressItem, agent: str) -> JsonObject:
        started = time.monotonic()
        try:
            base, plan = self._set_up(item)
            self.agents.to_coding(agent)
            ended: JsonObject = {
                "outcome": "completed",
                "result": self._code(item, agent, base, plan),
            }
        except _FAILURES as error:
            why = error.message if isinstance(error, PassdownError) else repr(error)
            facts = {"code": getattr(error, "code", ""), "evidence": str(error)[:8_000]}
            ended = {"outcome": ERROR, "why": why[:2_000], "result": facts}
        ended["result"]["agent"] = agent
        return {**ended, "measured": {"seconds": round(time.monotonic() - started, 3)}}

    def _set_up(self, item: ExpressItem) -> tuple[str, ExpressPlan]:
        """Find out what has to change, and record knowledge."""
        repository = Repository(self._workspace.root)
        base = repository.commit_of(item.base)
        is_knowledge = any(change.nodes or change.edges for change in item.changes())
        # Two updates of knowledge must not each be compared with a ledger without the other.
        guard = locked(os.path.join(self._folder, "knowledge.lock"))
        with guard if is_knowledge else nullcontext():
            known = Graph()
            if is_knowledge:
                with WorkspaceStreams(self._workspace).context.store.reading() as reader:
                    known = written_graph(reader)
            plan = ExpressPlan(repository, base, known)
            for change in item.changes():
                plan.add(change)
            self._learn(item, plan)
        return base, plan

    def _learn(self, item: ExpressItem, plan: ExpressPlan) -> None:
        if not plan.nodes and not plan.edges:
            return
        key = EXPRESS_RUN + item.id
        try:
            self._workspace.knowledge.add(
                plan.nodes, plan.edges, agent=item.by, task=item.task, key=key
            )
        except KeyReused:
            # Recorded before we were killed; others have changed a part since, and theirs is newer.
            return

    def _code(self, item: ExpressItem, agent: str, base: str, plan: ExpressPlan) -> JsonObject:
        """Write, commit and open a pull request."""
        commit = self._commit(item, agent, base, plan)
        facts: JsonObject = {
            "agent": agent,
            "branch": item.branch if commit.id else "",
            "commit": commit.id,
            "files": list(commit.files),
            "reports": [report.to_dict() for report in plan.reports],
            "lost": list(plan.lost),
        }
        request = self._ask_to_merge(item, facts)._asdict() if commit.id else None
        return {**facts, "pull_request": request}

    def _commit(self, item: ExpressItem, agent: str, base: str, plan: ExpressPlan) -> Commit:
        """The commit of an item, made now or before we were killed; empty if nothing changes."""
        mark = f"Passdown-Express: {item.id} {item.digest()[:32]}"
        try:
            with Worktree(self._workspace.root, item.branch, base, mark=mark) as tree:
                if tree.committed is not None or not plan.needs:
                    return tree.committed or Commit("", ())
                for path, data in plan.files.items():
                    if data is None:
                        tree.delete(path)
                    else:
                        tree.write(path, data)
                for patch in plan.patches:
                    tree.apply(patch)
                message, at = commit_message(item, agent, mark), parse_time(item.created)
                return tree.commit(message, author=item.by, at=at, committer=agent)
        except GitError as error:
            # A patch, or a line ending that git ignores, may change nothing.
            if error.code != "nothing_to_commit":
                raise
            return Commit("", ())

    def _ask_to_merge(self, item: ExpressItem, facts: JsonObject) -> PullRequest:
        """Open a pull request; if that fails, the commit is there all the same."""
        root = self._workspace.root
        into = Repository(root).branch_at(item.base)
        spec = PullRequestSpec(item.branch, into, visible(item.title), request_body(item, facts))
        try:
            return self._open_request(root, spec)
        except StoreBusy:  # stopped: another worker goes on from the commit
            raise
        except (PassdownError, OSError) as error:
            return PullRequest(False, problem=str(error)[:2_000])

    def _promote(self, run: Run) -> None:
        """Make a task of an item, with everything that is known, and record which."""
        item = item_of(run)
        failed = run.legs[run.stopped_by[0]] if run.stopped_by else list(run.legs.values())[-1]
        fields: JsonObject = {
            "title": f"Express work that failed: {item.title}",
            "agent": item.by,
            "description": task_description(item, failed.why, failed.result.get("evidence", "")),
            "inputs": [visible(path) for change in item.changes() if (path := change.path)],
            "criteria": [f"what {item.kind} {item.id} was for is done, or not wanted any more"],
        }
        for suffix in ("", *(f"-{number}" for number in range(2, 100))):
            try:
                self._workspace.create_task(run.run + suffix, key=run.run, **fields)
            except Conflict:
                continue
            self._runs.promote(run.run, run.run + suffix)
            return
        raise NotFound(f"no free task id for {run.run}: too many tasks have that name")


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

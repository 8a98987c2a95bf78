"""The async API: every method of `Workspace`, run in a thread."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Self, TypeVar

from passdown import workspace as _sync
from passdown.workspace import NEWEST

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Sequence
    from datetime import date
    from os import PathLike

    from passdown.context.brief import Brief
    from passdown.context.related import ComputedContext
    from passdown.context.sessions import Compaction
    from passdown.context.summary import Freshness
    from passdown.core.checkout import Checkout
    from passdown.core.graph import Edge, Graph, Node
    from passdown.core.handoff import Decision, HandoffContext, TaskState
    from passdown.core.results import Check, HandoffCommand, Recalled, Receipt
    from passdown.core.settings import Settings
    from passdown.core.types import JsonObject
    from passdown.history.profiles import Profile
    from passdown.imports.importer import ImportResult
    from passdown.imports.note_migration import AnswerFunction, Migration
    from passdown.knowledge.graph import ReachedNode, TaggedNode
    from passdown.ledger.bundles import BundleImport
    from passdown.ledger.verification import Verification
    from passdown.search.embedders import Embed
    from passdown.workspace import Workspace
    from passdown.workspace.knowledge_packs import Pack
    from passdown.workspace.knowledge_sync import KnowledgeSync
    from passdown.workspace.maintenance import Rebuild
    from passdown.workspace.prompts import Prompt
    from passdown.workspace.rules import RulesInjected
    from passdown.workspace.search import EmbeddingStatus
    from passdown.workspace.switches import Switch
    from passdown.workspace.types import Clock, CounterLike, HandoffLike, Heads, Key, Progress


T = TypeVar("T")


class AsyncBase:
    """Holds a workspace whose methods are called in a thread."""

    def __init__(self, workspace: Workspace) -> None:
        """Wrap a workspace that is open already."""
        self._workspace = workspace

    async def _call(self, method: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        return await asyncio.to_thread(method, *args, **kwargs)


class AsyncMaintenanceMethods(AsyncBase):
    """See `workspace.keeps` for what each method does."""

    async def verify(
        self, against: Heads = None, *, chain_only: bool = False, progress: Progress | None = None
    ) -> Verification:
        """Check that the store says what was written; `against` are heads saved elsewhere."""
        return await self._call(
            self._workspace.verify, against, chain_only=chain_only, progress=progress
        )

    async def heads(self) -> JsonObject:
        """The heads of all streams, to be kept somewhere else for `verify`."""
        return await self._call(self._workspace.heads)

    async def backup(self, target: str, progress: Progress | None = None) -> Verification:
        """Copy the store to a new file while others write, and verify the copy."""
        return await self._call(self._workspace.backup, target, progress)

    async def export(self, target: str, task: str | None = None, *, diff: bool = False) -> int:
        """Write a bundle of one task or of everything; gives the number of streams.

        It says where the repository stands; with `diff` it has the uncommitted changes as well.
        """
        return await self._call(self._workspace.export, target, task, diff=diff)

    async def import_bundle(
        self,
        path: str,
        *,
        fork: str = "",
        patch: str = "",
        agent: str = "",
        max_unpacked: int | None = None,
    ) -> BundleImport:
        """Take in a bundle, verified, all or nothing; `fork` keeps both where histories differ.

        `patch` is a new file for the uncommitted changes that are in it. `agent` is recorded as who
        brought it; `max_unpacked` is how many bytes it may unpack to, instead of the usual bounds.
        """
        return await self._call(
            self._workspace.import_bundle,
            path,
            fork=fork,
            patch=patch,
            agent=agent,
            max_unpacked=max_unpacked,
        )

    async def checkout(self) -> Checkout | None:
        """Where the project's repository stands: branch, commit, uncommitted files."""
        return await self._call(self._workspace.checkout)

    async def reindex(self, progress: Progress | None = None) -> Rebuild:
        """Make every derived row and handle file again from the records."""
        return await self._call(self._workspace.reindex, progress)

    async def doctor(self) -> JsonObject:
        """Facts and findings about this workspace, with what to do about each."""
        return await self._call(self._workspace.doctor)


class AsyncImportMethods(AsyncBase):
    """See `workspace.brings` for what each method does."""

    async def bring(
        self,
        source: str,
        *,
        form: str = "auto",
        agent: str = "",
        task: str = "",
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> ImportResult:
        """Take in a folder of ADRs, a beads file, a memory of MCP, notes or a bundle."""
        return await self._call(
            self._workspace.bring,
            source,
            form=form,
            agent=agent,
            task=task,
            dry_run=dry_run,
            progress=progress,
        )

    async def migrate(
        self,
        note: str | PathLike[str],
        *,
        task: str = "",
        agent: str = "",
        answer: AnswerFunction | None = None,
        ask: bool = False,
        minimum: float = 0.5,
        dry_run: bool = False,
        write_back: bool = True,
    ) -> Migration:
        """Record what a freeform note says as a handoff; a second run does nothing."""
        return await self._call(
            self._workspace.migrate,
            note,
            task=task,
            agent=agent,
            answer=answer,
            ask=ask,
            minimum=minimum,
            dry_run=dry_run,
            write_back=write_back,
        )


class AsyncKnowledgeMethods(AsyncBase):
    """See `workspace.knows` for what each method does."""

    async def recall(
        self,
        query: str,
        *,
        kinds: Sequence[str] = (),
        agent: str = "",
        task: str = "",
        tags: Sequence[str] = (),
        path: str = "",
        statuses: Sequence[str] = (),
        since: str | date = "",
        until: str | date = "",
        live_only: bool = False,
        by_words: bool = False,
        limit: int = 5,
        told_to: str = "",
    ) -> list[Recalled]:
        """What was recorded that has to do with a question."""
        return await self._call(
            self._workspace.recall,
            query,
            kinds=kinds,
            agent=agent,
            task=task,
            tags=tags,
            path=path,
            statuses=statuses,
            since=since,
            until=until,
            live_only=live_only,
            by_words=by_words,
            limit=limit,
            told_to=told_to,
        )

    async def embed(self, *, limit: int = 0, progress: Progress | None = None) -> EmbeddingStatus:
        """Make the vectors that are missing, all or up to `limit`; says how far they are."""
        return await self._call(self._workspace.embed, limit=limit, progress=progress)

    async def embed_with(self, name: str, function: Embed) -> None:
        """Take a program's own embedder from now on."""
        await self._call(self._workspace.embed_with, name, function)

    async def embedding(self) -> EmbeddingStatus:
        """How far vectors are."""
        return await self._call(self._workspace.embedding)

    async def learn(
        self,
        nodes: Iterable[Node | JsonObject] = (),
        edges: Iterable[Edge | JsonObject] = (),
        *,
        agent: str,
        task: str | None = None,
        key: Key = None,
        forget_nodes: Sequence[str] = (),
        forget_edges: Sequence[tuple[str, str, str]] = (),
    ) -> Receipt:
        """Write knowledge down."""
        return await self._call(
            self._workspace.learn,
            nodes,
            edges,
            agent=agent,
            task=task,
            key=key,
            forget_nodes=forget_nodes,
            forget_edges=forget_edges,
        )

    async def graph(
        self,
        *,
        around: Sequence[str] = (),
        depth: int = 1,
        task: str = "",
        tags: Sequence[str] = (),
        types: Sequence[str] = (),
    ) -> Graph:
        """The knowledge graph, or the part of it around some nodes, a task or tags."""
        return await self._call(
            self._workspace.graph, around=around, depth=depth, task=task, tags=tags, types=types
        )

    async def graph_text(
        self,
        form: str,
        *,
        around: Sequence[str] = (),
        depth: int = 1,
        task: str = "",
        tags: Sequence[str] = (),
        types: Sequence[str] = (),
    ) -> str:
        """The same graph as text."""
        return await self._call(
            self._workspace.graph_text,
            form,
            around=around,
            depth=depth,
            task=task,
            tags=tags,
            types=types,
        )

    async def edges(self, *, source: str = "", relation: str = "", target: str = "") -> list[Edge]:
        """The edges by any mix of source, relation and target; all of them by none."""
        return await self._call(
            self._workspace.edges, source=source, relation=relation, target=target
        )

    async def neighbours(
        self, node: str, *, depth: int = 1, direction: str = "out", relations: Sequence[str] = ()
    ) -> list[ReachedNode]:
        """The nodes that can be reached from one in up to `depth` steps."""
        return await self._call(
            self._workspace.neighbours, node, depth=depth, direction=direction, relations=relations
        )

    async def tagged(
        self, tags: Sequence[str], *, types: Sequence[str] = (), limit: int = 10
    ) -> list[TaggedNode]:
        """Nodes under any of some tags, those that share most of them first."""
        return await self._call(self._workspace.tagged, tags, types=types, limit=limit)

    async def tasks_about(self, tag: str, *, types: Sequence[str] = ("pattern",)) -> JsonObject:
        """The tasks that found something about a tag, each with what it found."""
        return await self._call(self._workspace.tasks_about, tag, types=types)

    async def pack(
        self,
        task: str,
        *,
        nodes: int = 20,
        budget: int = 1500,
        depth: int = 1,
        counter: CounterLike = None,
        form: str = "dot",
    ) -> Pack:
        """The part of the graph that has to do with a task."""
        return await self._call(
            self._workspace.pack,
            task,
            nodes=nodes,
            budget=budget,
            depth=depth,
            counter=counter,
            form=form,
        )

    async def sync_knowledge(self, path: str = "", *, agent: str) -> KnowledgeSync:
        """Bring the knowledge file (`knowledge.dot`."""
        return await self._call(self._workspace.sync_knowledge, path, agent=agent)

    async def journal(self, task: str = "", *, limit: int = 200) -> JsonObject:
        """Where things are."""
        return await self._call(self._workspace.journal, task, limit=limit)

    async def journal_page(self, task: str = "", *, limit: int = 200) -> str:
        """The journal as a page of Markdown."""
        return await self._call(self._workspace.journal_page, task, limit=limit)

    async def audit(self, *, limit: int = 20, progress: Progress | None = None) -> JsonObject:
        """What is remembered and might not deserve to be."""
        return await self._call(self._workspace.audit, limit=limit, progress=progress)


class AsyncBriefMethods(AsyncBase):
    """See `workspace.tells` for what each method does."""

    async def brief(
        self,
        task: str,
        *,
        agent: str,
        budget: int | None = None,
        counter: CounterLike = None,
        format: str = "markdown",
        tags: Sequence[str] = (),
        record: bool = True,
    ) -> Brief:
        """What `agent` needs to know of a task, within a budget of tokens."""
        return await self._call(
            self._workspace.brief,
            task,
            agent=agent,
            budget=budget,
            counter=counter,
            format=format,
            tags=tags,
            record=record,
        )

    async def check_brief(self, task: str, text: str) -> Freshness:
        """Whether a brief was made from the version that is stored now."""
        return await self._call(self._workspace.check_brief, task, text)

    async def briefs(
        self, task: str | None = None, *, limit: int = 50, before: int = NEWEST
    ) -> list[JsonObject]:
        """What was told to whom, newest first, of one task or of all."""
        return await self._call(self._workspace.briefs, task, limit=limit, before=before)

    async def why(self, item: str, *, agent: str) -> JsonObject:
        """Whether and when an agent was told an item, or what kept it out of its brief."""
        return await self._call(self._workspace.why, item, agent=agent)

    async def switch(
        self,
        task: str,
        *,
        to: str,
        from_agent: str = "",
        budget: int | None = None,
        counter: CounterLike = None,
        profiles: str = "",
        rules: str = "",
        record: bool = True,
    ) -> Switch:
        """The whole context of an agent that takes over a task."""
        return await self._call(
            self._workspace.switch,
            task,
            to=to,
            from_agent=from_agent,
            budget=budget,
            counter=counter,
            profiles=profiles,
            rules=rules,
            record=record,
        )

    async def save_artifact(self, task: str, *, to: str, from_agent: str = "") -> JsonObject:
        """Leave a switch artifact for an agent that comes later; it waits until it is consumed."""
        return await self._call(self._workspace.save_artifact, task, to=to, from_agent=from_agent)

    async def switch_artifacts(self, *, task: str = "", agent: str = "") -> list[JsonObject]:
        """The switch artifacts of a task, newest first, or those that wait for an agent."""
        return await self._call(self._workspace.switch_artifacts, task=task, agent=agent)

    async def prompt(
        self,
        text: str,
        *,
        task: str,
        active: str = "",
        budget: int | None = None,
        counter: CounterLike = None,
        record: bool = True,
    ) -> Prompt:
        """A user's prompt, behind the new agent's context where it calls one (`@name`, `/name`)."""
        return await self._call(
            self._workspace.prompt,
            text,
            task=task,
            active=active,
            budget=budget,
            counter=counter,
            record=record,
        )

    async def subagent_prompt(self, agent: str, text: str) -> str:
        """An agent's whole profile and a task's whole text, both unchanged."""
        return await self._call(self._workspace.subagent_prompt, agent, text)

    async def profile(self, agent: str) -> Profile | None:
        """An agent's profile, or None where it has none."""
        return await self._call(self._workspace.profile, agent)

    async def agents(self) -> tuple[str, ...]:
        """The agents that have a profile."""
        return await self._call(self._workspace.agents)

    async def rules(
        self,
        prompt: str,
        *,
        session: str,
        agent: str | None = None,
        workflow: str | None = None,
        squad: str | None = None,
        task: str | None = None,
        used_tokens: int | None = None,
        counter: CounterLike = None,
    ) -> RulesInjected:
        """The rules that hold for a prompt, by layer, within what context remains."""
        return await self._call(
            self._workspace.rules,
            prompt,
            session=session,
            agent=agent,
            workflow=workflow,
            squad=squad,
            task=task,
            used_tokens=used_tokens,
            counter=counter,
        )

    async def rule_report(self) -> JsonObject:
        """Every domain of rules with its layer, file and rules, and what is wrong with them."""
        return await self._call(self._workspace.rule_report)

    async def compaction(self, used_tokens: int) -> Compaction:
        """Whether a context of this size is due for compaction, by the window in the settings."""
        return await self._call(self._workspace.compaction, used_tokens)

    async def injection(self, task: str) -> str:
        """What the tasks that a task depends on leave for it, as text for its prompt."""
        return await self._call(self._workspace.injection, task)

    async def computed_context(self, task: str, complexity: str = "normal") -> ComputedContext:
        """What of earlier work bears on a task, each with its score and why; easy, normal or
        complex.
        """
        return await self._call(self._workspace.computed_context, task, complexity)

    async def compact_context(self, task: str) -> str:
        """A task's phase and last decisions in at most 2,000 characters."""
        return await self._call(self._workspace.compact_context, task)

    async def next_steps(self, task: str) -> list[JsonObject]:
        """The open next steps of a task in the order in which they can be done."""
        return await self._call(self._workspace.next_steps, task)


LATEST = _sync.NEWEST


def open(
    target: str = ".",
    *,
    create: bool = True,
    settings: Settings | None = None,
    clock: Clock = None,
    token: str = "",
) -> Opening:
    """Open a workspace, as `passdown.open` does: await the result, or use it with `async with`."""
    given: JsonObject = {"settings": settings, "clock": clock, "token": token}
    return Opening(lambda: _sync.open(target, create=create, **given))


def init(folder: str = ".", store: str = "", *, repoint: bool = False) -> Opening:
    """Make a workspace in exactly this folder, as `passdown.init` does."""
    return Opening(lambda: _sync.init(folder, store, repoint=repoint))


class Opening:
    """A workspace that is being opened; awaited, or entered."""

    def __init__(self, opens: Callable[[], _sync.Workspace]) -> None:
        """Nothing happens until it is awaited or entered."""
        self._opens = opens
        self._entered: AsyncWorkspace | None = None

    def __await__(self) -> Generator[Any, None, AsyncWorkspace]:
        return self._open().__await__()

    async def _open(self) -> AsyncWorkspace:
        return AsyncWorkspace(await asyncio.to_thread(self._opens))

    async def __aenter__(self) -> AsyncWorkspace:
        self._entered = await self._open()
        return self._entered

    async def __aexit__(self, *_: object) -> None:
        if self._entered is not None:
            await self._entered.close()


class AsyncWorkspace(
    AsyncBriefMethods, AsyncKnowledgeMethods, AsyncImportMethods, AsyncMaintenanceMethods
):
    """A workspace whose methods are awaited; see `Workspace` for what each one does."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Let go of the store. Nothing is lost by not calling it."""
        await self._call(self._workspace.close)

    @property
    def root(self) -> str:
        """The project's folder; artifact paths are relative to it."""
        return self._workspace.root

    @property
    def store_url(self) -> str:
        """The address that opens this workspace's store again, password and all."""
        return self._workspace.store_url

    @property
    def store_label(self) -> str:
        """The same address as it may be printed: without a password."""
        return self._workspace.store_label

    async def create_task(
        self, task: str, *, title: str, agent: str, key: Key = None, **fields: Any
    ) -> Receipt:
        """Make a task. `fields`: description, inputs, outputs, criteria, depends_on, phase,
        time_limit_minutes.
        """
        return await self._call(
            self._workspace.create_task, task, title=title, agent=agent, key=key, **fields
        )

    async def change_task(
        self,
        task: str,
        *,
        agent: str,
        expect_version: int | None = None,
        key: Key = None,
        **fields: Any,
    ) -> Receipt:
        """Change a task's description, dependencies or status (`open`, `cancelled`)."""
        named: JsonObject = {"agent": agent, "expect_version": expect_version, "key": key}
        return await self._call(self._workspace.change_task, task, **named, **fields)

    async def tasks(
        self,
        *,
        status: str = "",
        phase: str = "",
        agent: str = "",
        limit: int = 1000,
        after: int = 0,
        with_workspace: bool = False,
    ) -> list[JsonObject]:
        """Tasks in the order of their making; `after` is the `seq` of the last one seen.

        The place of what concerns all work is no task; `with_workspace` lists it among them.
        """
        return await self._call(
            self._workspace.tasks,
            status=status,
            phase=phase,
            agent=agent,
            limit=limit,
            after=after,
            with_workspace=with_workspace,
        )

    async def task(self, task: str) -> JsonObject:
        """One task: what it is, where it stands, what it waits for and who waits for it."""
        return await self._call(self._workspace.task, task)

    async def hand_off(
        self,
        handoff: HandoffLike,
        *,
        key: Key = None,
        rebase: bool = False,
        changed_files: Sequence[str] | None = None,
        **defaults: Any,
    ) -> HandoffCommand:
        """Record a handoff: a `Handoff`, a dict, JSON, YAML or a task file's text."""
        return await self._call(
            self._workspace.hand_off,
            handoff,
            key=key,
            rebase=rebase,
            changed_files=changed_files,
            **defaults,
        )

    async def check(
        self,
        handoff: HandoffLike,
        *,
        rebase: bool = False,
        changed_files: Sequence[str] | None = None,
        **defaults: Any,
    ) -> Check:
        """Everything that `hand_off` would check, without recording anything."""
        return await self._call(
            self._workspace.check,
            handoff,
            rebase=rebase,
            changed_files=changed_files,
            **defaults,
        )

    async def prepare_handoff(
        self, task: str, target: str, phase: str, *, outcome: str = "completed", **fields: Any
    ) -> HandoffCommand:
        """Hand a task on from its holder to `target` in `phase`; gives the receiver's command."""
        return await self._call(
            self._workspace.prepare_handoff, task, target, phase, outcome=outcome, **fields
        )

    async def receive_handoff(self, command: HandoffCommand) -> TaskState:
        """The full, verified state for the receiver of a command."""
        return await self._call(self._workspace.receive_handoff, command)

    async def decide(
        self,
        *,
        agent: str,
        summary: str,
        rationale: str,
        task: str | None = None,
        key: Key = None,
        expect_version: int | None = None,
        **fields: Any,
    ) -> Receipt:
        """Record one decision. `fields`: alternatives, artifacts, paths, tags, status,
        supersedes.
        """
        return await self._call(
            self._workspace.decide,
            agent=agent,
            summary=summary,
            rationale=rationale,
            task=task,
            key=key,
            expect_version=expect_version,
            **fields,
        )

    async def note(
        self, kind: str, *, agent: str, task: str | None = None, key: Key = None, **fields: Any
    ) -> Receipt:
        """Record something learned: `pattern` (pattern, location, applies_to) or `gotcha`
        (issue, mitigation, severity, discovered_in).
        """
        return await self._call(
            self._workspace.note, kind, agent=agent, task=task, key=key, **fields
        )

    async def warn(self, task: str, *, agent: str, text: str, key: Key = None) -> Receipt:
        """Record a warning that stays with the task."""
        return await self._call(self._workspace.warn, task, agent=agent, text=text, key=key)

    async def mark(
        self, item: str, status: str, *, agent: str, reason: str = "", key: Key = None
    ) -> Receipt:
        """Give an item another status: blocker `resolved`, question `answered`, step `done`,
        decision `accepted` or `reverted`, pattern, gotcha or warning `retracted`.
        """
        return await self._call(
            self._workspace.mark, item, status, agent=agent, reason=reason, key=key
        )

    async def gates(self, task: str = "", *, open_only: bool = True) -> list[JsonObject]:
        """Human gates and quality gate results, of one task or of all."""
        return await self._call(self._workspace.gates, task, open_only=open_only)

    async def record_gate(
        self,
        task: str,
        *,
        agent: str,
        name: str,
        passed: bool,
        detail: str = "",
        key: Key = None,
    ) -> Receipt:
        """Record the result of a quality gate."""
        given: JsonObject = {"name": name, "passed": passed, "detail": detail, "key": key}
        return await self._call(self._workspace.record_gate, task, agent=agent, **given)

    async def approve(self, gate: str, *, by: str, reason: str = "", key: Key = None) -> Receipt:
        """A person lets a held task go on."""
        return await self._call(self._workspace.approve, gate, by=by, reason=reason, key=key)

    async def reject(self, gate: str, *, by: str, reason: str, key: Key = None) -> Receipt:
        """A person says no, and why; the task has to be handed off anew."""
        return await self._call(self._workspace.reject, gate, by=by, reason=reason, key=key)

    async def state(self, task: str, version: int | None = None) -> TaskState:
        """A task's state now, or at a past version, as a value."""
        return await self._call(self._workspace.state, task, version)

    async def state_document(self, task: str, version: int | None = None) -> JsonObject:
        """A task's state now, or at a past version, as plain JSON."""
        return await self._call(self._workspace.state_document, task, version)

    async def load(self, task: str) -> TaskState | None:
        """A task's state now, or None where there is no such task."""
        return await self._call(self._workspace.load, task)

    async def log(
        self, task: str | None = None, *, limit: int = 50, before: int = LATEST
    ) -> list[JsonObject]:
        """Records newest first, of one task or of all."""
        return await self._call(self._workspace.log, task, limit=limit, before=before)

    async def changes(self, after: int | None = 0, *, limit: int = 500) -> JsonObject:
        """What was recorded of tasks after a `seq`, oldest first, and the last one looked at."""
        return await self._call(self._workspace.changes, after, limit=limit)

    async def show(self, item: str) -> JsonObject:
        """One item by its address, with the record, author and time that it came from."""
        return await self._call(self._workspace.show, item)

    async def diff(self, task: str, old: int, new: int) -> JsonObject:
        """What differs between two versions of a task."""
        return await self._call(self._workspace.diff, task, old, new)

    async def inbox(self, agent: str) -> list[JsonObject]:
        """The handoffs that wait for an agent."""
        return await self._call(self._workspace.inbox, agent)

    async def artifacts(self, task: str) -> list[JsonObject]:
        """A task's artifacts, each with `now`: same, changed or missing since the handoff."""
        return await self._call(self._workspace.artifacts, task)

    async def path_history(self, task: str, path: str) -> list[JsonObject]:
        """Every entry that a task has had for a path, oldest first."""
        return await self._call(self._workspace.path_history, task, path)

    async def inline_plan(self, task: str, budget_tokens: int) -> JsonObject:
        """Which artifacts fit into a token budget and which stay references."""
        return await self._call(self._workspace.inline_plan, task, budget_tokens)

    async def summary(self, task: str, max_tokens: int = 500) -> str:
        """The short summary of a task that names its handle file and carries its version."""
        return await self._call(self._workspace.summary, task, max_tokens)

    async def check_summary(self, task: str, text: str) -> Freshness:
        """Whether a summary was made from the version that is stored now."""
        return await self._call(self._workspace.check_summary, task, text)

    async def handle_file(self, task: str) -> str:
        """The path of a task's handle file, brought up to date if it was missing or old."""
        return await self._call(self._workspace.handle_file, task)

    async def store_decision(self, decision: Decision, task: str | None = None) -> str:
        """Record a decision value and give the key, of agent and time, that finds it again."""
        return await self._call(self._workspace.store_decision, decision, task)

    async def stored_decision(self, key: str, task: str | None = None) -> Decision:
        """The decision that `store_decision` recorded under a key."""
        return await self._call(self._workspace.stored_decision, key, task)

    async def handoff_context(
        self, task: str, *, agent: str = "", since: int = 0
    ) -> HandoffContext:
        """Who handed a task to whom, the sender's decisions, and what to look up."""
        return await self._call(self._workspace.handoff_context, task, agent=agent, since=since)

"""Public API: open a workspace, and everything that it offers.

Methods are short and import what they need when they are called, because the command line starts
all day long and most calls need little.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from passdown.workspace.context import Context, WorkspaceBase
from passdown.workspace.location import Location, locate, make_folder, name_store, new_location

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
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
    from passdown.workspace.knowledge_packs import Pack
    from passdown.workspace.knowledge_sync import KnowledgeSync
    from passdown.workspace.maintenance import Rebuild
    from passdown.workspace.prompts import Prompt
    from passdown.workspace.rules import RulesInjected
    from passdown.workspace.search import EmbeddingStatus
    from passdown.workspace.switches import Switch
    from passdown.workspace.types import Clock, CounterLike, HandoffLike, Heads, Key, Progress


class WriteMethods(WorkspaceBase):
    """The methods that record something."""

    def create_task(
        self, task: str, *, title: str, agent: str, key: Key = None, **fields: Any
    ) -> Receipt:
        """Make a task. `fields`: description, inputs, outputs, criteria, depends_on, phase,
        time_limit_minutes.
        """
        from passdown.workspace.entries import create_task

        given = {**fields, "task": task, "title": title, "agent": agent}
        return create_task(self._context, given, key)

    def change_task(
        self,
        task: str,
        *,
        agent: str,
        expect_version: int | None = None,
        key: Key = None,
        **fields: Any,
    ) -> Receipt:
        """Change a task's description, dependencies or status (`open`, `cancelled`)."""
        from passdown.workspace.entries import change_task

        return change_task(self._context, task, agent, fields, expect_version, key=key)

    def hand_off(
        self,
        handoff: HandoffLike,
        *,
        key: Key = None,
        rebase: bool = False,
        changed_files: Sequence[str] | None = None,
        **defaults: Any,
    ) -> HandoffCommand:
        """Record a handoff: a `Handoff`, a dict, JSON, YAML or a task file's text.

        `defaults` fill fields that the handoff leaves out (`task`, `from_agent`, `to_agent`,
        `expect_version`...). `changed_files` are what its file lists must account for. With `key`,
        a retry gives the same record. Raises InvalidInput, GateRefused, Conflict; then nothing
        changed.
        """
        from passdown.workspace.handoff import hand_off

        return hand_off(
            self._context, handoff, defaults, key=key, rebase=rebase, changed_files=changed_files
        )

    def check(
        self,
        handoff: HandoffLike,
        *,
        rebase: bool = False,
        changed_files: Sequence[str] | None = None,
        **defaults: Any,
    ) -> Check:
        """Everything that `hand_off` would check, without recording anything."""
        from passdown.workspace.handoff import check_handoff_input

        return check_handoff_input(
            self._context, handoff, defaults=defaults, rebase=rebase, changed_files=changed_files
        )

    def prepare_handoff(
        self, task: str, target: str, phase: str, *, outcome: str = "completed", **fields: Any
    ) -> HandoffCommand:
        """Hand a task on from its holder to `target` in `phase`; gives the receiver's command."""
        given = {**fields, "task": task, "to_agent": target, "phase": phase, "outcome": outcome}
        return self.hand_off(given)

    def decide(
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
        """Record one decision. `fields`: alternatives, artifacts, paths, tags, status, supersedes.

        Without a task it concerns all work.
        """
        from passdown.workspace.entries import add_entry

        entry = {**fields, "summary": summary, "rationale": rationale}
        return add_entry(
            self._context, "decision", task, agent, entry, key=key, expect_version=expect_version
        )

    def note(
        self, kind: str, *, agent: str, task: str | None = None, key: Key = None, **fields: Any
    ) -> Receipt:
        """Record something learned: `pattern` (pattern, location, applies_to) or `gotcha` (issue,
        mitigation, severity, discovered_in).
        """
        from passdown.workspace.queries import note

        return note(self._context, kind, task, agent, fields, key=key)

    def warn(self, task: str, *, agent: str, text: str, key: Key = None) -> Receipt:
        """Record a warning that stays with the task."""
        from passdown.workspace.entries import add_entry

        return add_entry(self._context, "warning", task, agent, {"text": text}, key=key)

    def mark(
        self, item: str, status: str, *, agent: str, reason: str = "", key: Key = None
    ) -> Receipt:
        """Give an item another status: blocker `resolved`, question `answered`, step `done`,
        decision `accepted` or `reverted`, pattern, gotcha or warning `retracted`.
        """
        from passdown.workspace.entries import mark

        return mark(self._context, item, status, agent, reason, key=key)

    def record_gate(
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
        from passdown.workspace.entries import add_entry

        entry = {"name": name, "result": "passed" if passed else "failed", "detail": detail}
        return add_entry(self._context, "gate", task, agent, entry, key=key)

    def approve(self, gate: str, *, by: str, reason: str = "", key: Key = None) -> Receipt:
        """A person lets a held task go on."""
        from passdown.workspace.entries import answer_gate

        return answer_gate(self._context, gate, "approved", by, reason, key=key)

    def reject(self, gate: str, *, by: str, reason: str, key: Key = None) -> Receipt:
        """A person says no, and why; the task has to be handed off anew."""
        from passdown.workspace.entries import answer_gate

        return answer_gate(self._context, gate, "rejected", by, reason, key=key)

    def store_decision(self, decision: Decision, task: str | None = None) -> str:
        """Record a decision value and give the key, of agent and time, that finds it again."""
        from passdown.workspace.entries import store_decision

        return store_decision(self._context, decision, task)


NEWEST = 2**62


class ReadMethods(WorkspaceBase):
    """The methods that only look."""

    def tasks(
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
        from passdown.workspace.queries import tasks

        page = {"limit": limit, "after": after}
        return tasks(self._context, status, phase, agent, **page, with_workspace=with_workspace)

    def task(self, task: str) -> JsonObject:
        """One task: what it is, where it stands, what it waits for and who waits for it."""
        from passdown.workspace.queries import task_overview

        return task_overview(self._context, task)

    def receive_handoff(self, command: HandoffCommand) -> TaskState:
        """The full, verified state for the receiver of a command.

        Raises GateRefused while a human gate holds the task, Conflict when it has moved on since.
        """
        from passdown.workspace.queries import receive_handoff

        return receive_handoff(self._context, command)

    def gates(self, task: str = "", *, open_only: bool = True) -> list[JsonObject]:
        """Human gates and quality gate results, of one task or of all."""
        from passdown.workspace.queries import gates

        return gates(self._context, task, open_only=open_only)

    def state(self, task: str, version: int | None = None) -> TaskState:
        """A task's state now, or at a past version, as a value."""
        from passdown.core.handoff import TaskState

        return TaskState.from_dict(self.state_document(task, version))

    def state_document(self, task: str, version: int | None = None) -> JsonObject:
        """A task's state now, or at a past version, as plain JSON."""
        from passdown.history.state import state

        with self._context.store.reading() as reader:
            return state(reader, task, version)

    def load(self, task: str) -> TaskState | None:
        """A task's state now, or None where there is no such task."""
        from passdown.workspace.queries import load

        return load(self._context, task)

    def log(
        self, task: str | None = None, *, limit: int = 50, before: int = NEWEST
    ) -> list[JsonObject]:
        """Records newest first, of one task or of all."""
        from passdown.history.state import log

        with self._context.store.reading() as reader:
            return log(reader, task, before=before, limit=limit)

    def changes(self, after: int | None = 0, *, limit: int = 500) -> JsonObject:
        """What was recorded of tasks after a `seq`, oldest first (`changes`), and the `last` one
        that was looked at: to be asked for with, the next time. None means: from now on.
        """
        from passdown.history.state import changes_after

        with self._context.store.reading() as reader:
            return changes_after(reader, after=after, limit=limit)

    def show(self, item: str) -> JsonObject:
        """One item by its address, with the record, author and time that it came from."""
        from passdown.history.state import show

        with self._context.store.reading() as reader:
            return show(reader, item)

    def diff(self, task: str, old: int, new: int) -> JsonObject:
        """What differs between two versions of a task."""
        from passdown.history.state import diff

        with self._context.store.reading() as reader:
            return diff(reader, task, old, new)

    def inbox(self, agent: str) -> list[JsonObject]:
        """The handoffs that wait for an agent."""
        with self._context.store.reading() as reader:
            return [row._asdict() for row in reader.inbox(agent)]

    def artifacts(self, task: str) -> list[JsonObject]:
        """A task's artifacts, each with `now`: same, changed or missing since the handoff."""
        from passdown.history.items import artifact_report

        with self._context.store.reading() as reader:
            return artifact_report(reader, task, self._context.project)

    def path_history(self, task: str, path: str) -> list[JsonObject]:
        """Every entry that a task has had for a path, oldest first."""
        from passdown.history.items import path_history

        with self._context.store.reading() as reader:
            return path_history(reader, task, path)

    def inline_plan(self, task: str, budget_tokens: int) -> JsonObject:
        """Which artifacts fit into a token budget and which stay references."""
        from passdown.history.items import inline_plan

        return inline_plan(self.state_document(task)["artifacts"], budget_tokens)

    def summary(self, task: str, max_tokens: int = 500) -> str:
        """The short summary of a task that names its handle file and carries its version."""
        from passdown.workspace.queries import summary_of

        return summary_of(self._context, task, max_tokens)

    def check_summary(self, task: str, text: str) -> Freshness:
        """Whether a summary was made from the version that is stored now."""
        from passdown.workspace.queries import check_summary

        return check_summary(self._context, task, text)

    def handle_file(self, task: str) -> str:
        """The path of a task's handle file, brought up to date if it was missing or old."""
        from passdown.workspace.queries import handle_file

        return handle_file(self._context, task)

    def stored_decision(self, key: str, task: str | None = None) -> Decision:
        """The decision that `store_decision` recorded under a key."""
        from passdown.workspace.entries import stored_decision

        return stored_decision(self._context, key, task)

    def handoff_context(self, task: str, *, agent: str = "", since: int = 0) -> HandoffContext:
        """Who handed a task to whom, the sender's decisions, and what to look up.

        With `agent`, that agent's decisions instead; with `since`, only what came after a version.
        """
        from passdown.workspace.entries import handoff_context

        return handoff_context(self._context, task, agent, since)


class BriefMethods(WorkspaceBase):
    """The methods that put words together for an agent."""

    def brief(
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
        """What `agent` needs to know of a task, within a budget of tokens.

        `format`: markdown, plain, yaml, json, summary or injection. `tags` add to what the brief
        looks for. That it was delivered is recorded, unless `record` is False.
        """
        from passdown.workspace.briefs import brief_for

        return brief_for(
            self._context,
            task,
            agent,
            budget,
            counter=counter,
            format=format,
            tags=tags,
            record=record,
        )

    def check_brief(self, task: str, text: str) -> Freshness:
        """Whether a brief was made from the version that is stored now."""
        from passdown.workspace.briefs import check_brief

        return check_brief(self._context, task, text)

    def briefs(
        self, task: str | None = None, *, limit: int = 50, before: int = NEWEST
    ) -> list[JsonObject]:
        """What was told to whom, newest first, of one task or of all."""
        from passdown.history.deliveries import delivery_log

        with self._context.store.reading() as reader:
            return delivery_log(reader, task, before=before, limit=limit)

    def why(self, item: str, *, agent: str) -> JsonObject:
        """Whether and when an agent was told an item, or what kept it out of its brief."""
        from passdown.history.deliveries import explain_delivery

        with self._context.store.reading() as reader:
            return explain_delivery(reader, item, agent)

    def switch(
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
        """The whole context of an agent that takes over a task.

        It holds the agent's own profile, unchanged, at most three short summaries of earlier
        agents, and the brief. `budget` is what may come on top of the profile; `profiles` names a
        folder of NAME.md files; `rules` is text that stands between profile and summaries.
        """
        from passdown.workspace.switches import SwitchRequest, switch

        ask = SwitchRequest(task, to, from_agent, budget, counter, profiles, rules, record)
        return switch(self._context, ask)

    def save_artifact(self, task: str, *, to: str, from_agent: str = "") -> JsonObject:
        """Leave a switch artifact for an agent that comes later; it waits until it is consumed."""
        from passdown.workspace.switches import save_artifact

        return save_artifact(self._context, task, to, from_agent)

    def switch_artifacts(self, *, task: str = "", agent: str = "") -> list[JsonObject]:
        """The switch artifacts of a task, newest first, or those that wait for an agent."""
        from passdown.workspace.prompts import switch_artifacts

        return switch_artifacts(self._context, task, agent)

    def prompt(
        self,
        text: str,
        *,
        task: str,
        active: str = "",
        budget: int | None = None,
        counter: CounterLike = None,
        record: bool = True,
    ) -> Prompt:
        """A user's prompt, behind the new agent's context where it calls one (`@name`, `/name`).

        Without such a call, or with switches turned off, the text is what was given.
        """
        from passdown.workspace.prompts import prompt

        return prompt(
            self._context, text, task, active, budget=budget, counter=counter, record=record
        )

    def subagent_prompt(self, agent: str, text: str) -> str:
        """An agent's whole profile and a task's whole text, both unchanged."""
        from passdown.workspace.prompts import subagent_prompt

        return subagent_prompt(self._context, agent, text)

    def profile(self, agent: str) -> Profile | None:
        """An agent's profile, or None where it has none."""
        return self._context.profiles().get(agent)

    def agents(self) -> tuple[str, ...]:
        """The agents that have a profile."""
        return self._context.profiles().names()

    def rules(
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
        """The rules that hold for a prompt, by layer, within the bracket of what context remains.

        None keeps what the session has active; an empty text means none.
        """
        from passdown.workspace.rules import rules_for

        return rules_for(
            self._context,
            prompt,
            session=session,
            agent=agent,
            workflow=workflow,
            squad=squad,
            task=task,
            used_tokens=used_tokens,
            counter=counter,
        )

    def rule_report(self) -> JsonObject:
        """Every domain of rules with its layer, file and rules, and what is wrong with them."""
        from passdown.workspace.rules import rule_report

        return rule_report(self._context)

    def compaction(self, used_tokens: int) -> Compaction:
        """Whether a context of this size is due for compaction, by the window in the settings."""
        from passdown.workspace.rules import compaction

        return compaction(self._context, used_tokens)

    def injection(self, task: str) -> str:
        """What the tasks that a task depends on leave for it, as text for its prompt."""
        from passdown.workspace.task_context import injection

        return injection(self._context, task)

    def computed_context(self, task: str, complexity: str = "normal") -> ComputedContext:
        """What of earlier work bears on a task, each with its score and why; easy, normal or
        complex.
        """
        from passdown.workspace.task_context import computed_context

        return computed_context(self._context, task, complexity)

    def compact_context(self, task: str) -> str:
        """A task's phase and last decisions in at most 2,000 characters."""
        from passdown.workspace.task_context import compact_context

        return compact_context(self._context, task)

    def next_steps(self, task: str) -> list[JsonObject]:
        """The open next steps of a task in the order in which they can be done."""
        from passdown.workspace.task_context import next_steps

        return next_steps(self._context, task)


class KnowledgeMethods(WorkspaceBase):
    """The methods that find things again."""

    def recall(
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
        """What was recorded that has to do with a question, best first: `limit` of it whenever
        there is as much that passes the filters.

        `kinds`: decision, pattern, gotcha, question, blocker, warning, next_step, handoff,
        knowledge. Of `tags` one is enough; `path` is a file or a folder; `since` and `until` are
        dates or times. With `live_only`, what was superseded, retracted or settled is left out;
        else it is marked. `by_words` leaves meaning out: no model is loaded. With `told_to`, what
        was found is recorded as told to that agent.
        """
        from passdown.workspace.search import recall, search_request

        filters = {
            "kinds": kinds,
            "agent": agent,
            "task": task,
            "tags": tags,
            "path": path,
            "statuses": statuses,
            "since": since,
            "until": until,
            "live_only": live_only,
            "by_words": by_words,
            "limit": limit,
        }
        asked = search_request(query, filters)
        return recall(self._context, asked, told_to=told_to)

    def embed(self, *, limit: int = 0, progress: Progress | None = None) -> EmbeddingStatus:
        """Make the vectors that are missing, all or up to `limit`; says how far they are.

        Nothing waits for them: what has no vector yet is found by its words.
        """
        from passdown.workspace.search import embed_all

        return embed_all(self._context, limit=limit, progress=progress)

    def embed_with(self, name: str, function: Embed) -> None:
        """Take a program's own embedder from now on: it gets texts and gives a vector for each.

        Vectors are kept under `name`; another one makes them again, while the old ones answer.
        """
        from passdown.search.embedders import NamedEmbedder

        self._context.embeddings.use(NamedEmbedder(name, function))

    def embedding(self) -> EmbeddingStatus:
        """How far vectors are."""
        return self._context.embeddings.status()

    def learn(
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
        """Write knowledge down: nodes and edges are added, or take the place of those with the
        same id. Warnings name nodes that said something else; what is known already is not
        written again. An edge to forget is (source, relation, target).
        """
        from passdown.workspace.graph_access import learn

        return learn(
            self._context,
            nodes,
            edges,
            agent=agent,
            task=task or "",
            key=key or "",
            forget_nodes=forget_nodes,
            forget_edges=forget_edges,
        )

    def graph(
        self,
        *,
        around: Sequence[str] = (),
        depth: int = 1,
        task: str = "",
        tags: Sequence[str] = (),
        types: Sequence[str] = (),
    ) -> Graph:
        """The knowledge graph, or the part of it around some nodes, a task or tags."""
        from passdown.workspace.graph_access import graph_of_workspace

        return graph_of_workspace(
            self._context, around=around, depth=depth, task=task, tags=tags, types=types
        )

    def graph_text(
        self,
        form: str,
        *,
        around: Sequence[str] = (),
        depth: int = 1,
        task: str = "",
        tags: Sequence[str] = (),
        types: Sequence[str] = (),
    ) -> str:
        """The same graph as text: `json` and `dot` hold all of it, `mermaid` and `svg` are pictures
        of its best connected nodes, or of those that were asked for and the nearest to them.
        """
        from passdown.knowledge.graph_files import graph_starts, graph_text

        found = self.graph(around=around, depth=depth, task=task, tags=tags, types=types)
        starts = graph_starts(found, around=around, task=task, tags=tags)
        return graph_text(found, form, starts=starts)

    def edges(self, *, source: str = "", relation: str = "", target: str = "") -> list[Edge]:
        """The edges by any mix of source, relation and target; all of them by none."""
        from passdown.workspace.graph_access import edges

        return edges(self._context, source, relation, target)

    def neighbours(
        self,
        node: str,
        *,
        depth: int = 1,
        direction: str = "out",
        relations: Sequence[str] = (),
    ) -> list[ReachedNode]:
        """The nodes that can be reached from one in up to `depth` steps, nearest first, each with
        the edges that lead there; `direction`: out, in or both. 10,000 nodes at most, and those
        whose paths have 20,000 edges together.
        """
        from passdown.workspace.graph_access import neighbours

        return neighbours(
            self._context, node, depth=depth, direction=direction, relations=relations
        )

    def tagged(
        self, tags: Sequence[str], *, types: Sequence[str] = (), limit: int = 10
    ) -> list[TaggedNode]:
        """Nodes under any of some tags, those that share most of them first."""
        from passdown.workspace.graph_access import tagged

        return tagged(self._context, tags, types=types, limit=limit)

    def tasks_about(self, tag: str, *, types: Sequence[str] = ("pattern",)) -> JsonObject:
        """The tasks that found something about a tag, each with what it found."""
        from passdown.workspace.graph_access import tasks_about

        return tasks_about(self._context, tag, types)

    def pack(
        self,
        task: str,
        *,
        nodes: int = 20,
        budget: int = 1500,
        depth: int = 1,
        counter: CounterLike = None,
        form: str = "dot",
    ) -> Pack:
        """The part of the graph that has to do with a task, within a number of nodes and tokens;
        what was left out is counted.
        """
        from passdown.workspace.knowledge_packs import pack

        return pack(
            self._context,
            task,
            nodes=nodes,
            budget=budget,
            depth=depth,
            counter=counter,
            form=form,
        )

    def sync_knowledge(self, path: str = "", *, agent: str) -> KnowledgeSync:
        """Bring the knowledge file (`knowledge.dot`, or JSON by its ending) and what was written
        down together; conflicts are reported, a file that can't be read is kept aside.
        """
        from passdown.workspace.knowledge_sync import sync_knowledge

        return sync_knowledge(self._context, path, agent=agent)

    def journal(self, task: str = "", *, limit: int = 200) -> JsonObject:
        """Where things are, what is in the way and what was learned: of a task, or of all work."""
        from passdown.knowledge.journal import journal

        with self._context.store.reading() as reader:
            return journal(reader, task, limit=limit)

    def journal_page(self, task: str = "", *, limit: int = 200) -> str:
        """The journal as a page of Markdown."""
        from passdown.knowledge.journal import journal_page

        return journal_page(self.journal(task, limit=limit))

    def audit(self, *, limit: int = 20, progress: Progress | None = None) -> JsonObject:
        """What is remembered and might not deserve to be: said twice, out of date, never told,
        orphaned.
        """
        from passdown.knowledge.audit import audit

        with self._context.store.reading() as reader:
            return audit(reader, self._context.project, limit=limit, progress=progress)


class ImportMethods(WorkspaceBase):
    """The methods that take in what was written elsewhere."""

    def bring(
        self,
        source: str,
        *,
        form: str = "auto",
        agent: str = "",
        task: str = "",
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> ImportResult:
        """Take in a folder of ADRs, a beads file, a memory of MCP, notes or a bundle.

        A second run of the same source writes nothing; a changed one only what changed. `dry_run`
        says what would happen. Raises InvalidInput where nothing can be taken.
        """
        from passdown.imports.importer import import_from

        return import_from(
            self._context,
            source,
            form=form,
            agent=agent,
            task=task,
            dry_run=dry_run,
            progress=progress,
        )

    def migrate(
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
        """Record what a freeform note says as a handoff; a second run does nothing.

        `note` is a file (Markdown, text, a JSON report), or the text itself where it has more than
        one line. `answer` is called with the prompt about what is unclear and gives the handoff as
        text; with `ask` the command of PASSDOWN_MIGRATE_COMMAND is. Items that are less sure than
        `minimum` are left out. The file gets a handoff section below the note unless `write_back`
        is False.
        """
        from passdown.imports.note_migration import migrate

        return migrate(
            self._context,
            note,
            task=task,
            agent=agent,
            answer=answer,
            ask=ask,
            minimum=minimum,
            dry_run=dry_run,
            write_back=write_back,
        )


class MaintenanceMethods(WorkspaceBase):
    """The methods that keep the data safe."""

    def verify(
        self, against: Heads = None, *, chain_only: bool = False, progress: Progress | None = None
    ) -> Verification:
        """Check that the store says what was written; `against` are heads saved elsewhere."""
        from passdown.workspace.maintenance import verify_store

        return verify_store(self._context, against, chain_only=chain_only, progress=progress)

    def heads(self) -> JsonObject:
        """The heads of all streams, to be kept somewhere else for `verify`."""
        from passdown.workspace.maintenance import heads

        return heads(self._context)

    def backup(self, target: str, progress: Progress | None = None) -> Verification:
        """Copy the store to a new file while others write, and verify the copy."""
        from passdown.workspace.maintenance import backup

        return backup(self._context, target, progress)

    def export(self, target: str, task: str | None = None, *, diff: bool = False) -> int:
        """Write a bundle of one task or of everything; gives the number of streams.

        It says where the repository stands; with `diff` it has the uncommitted changes as well.
        """
        from passdown.workspace.maintenance import export

        return export(self._context, target, task, diff=diff)

    def import_bundle(
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
        from passdown.workspace.maintenance import import_file

        return import_file(self._context, path, fork, patch, agent=agent, max_unpacked=max_unpacked)

    def checkout(self) -> Checkout | None:
        """Where the project's repository stands: branch, commit, uncommitted files."""
        from passdown.workspace.maintenance import checkout

        return checkout(self._context)

    def reindex(self, progress: Progress | None = None) -> Rebuild:
        """Make every derived row and handle file again from the records."""
        from passdown.workspace.maintenance import rebuild

        return rebuild(self._context, progress)

    def doctor(self) -> JsonObject:
        """Facts and findings about this workspace, with what to do about each."""
        from passdown.workspace.maintenance import doctor

        return doctor(self._context)


def open(
    target: str = ".",
    *,
    create: bool = True,
    settings: Settings | None = None,
    clock: Clock = None,
    token: str = "",
) -> Workspace:
    """Open a workspace: the nearest `.passdown/` from a folder, a `.db` file or a store's address.

    Without one, it is made in that folder, unless `create` is False. `settings` take the place of
    the configuration file; `clock` gives the time of records. The address of a server (`https://`)
    opens its workspace, with `token` or PASSDOWN_TOKEN; settings and clock are the server's.
    """
    if str(target).startswith(("http://", "https://")):
        from passdown.remote import connect

        return connect(str(target), token)
    place = locate(str(target), create=create)
    if create:
        make_folder(place)
    return Workspace(place, settings=settings, clock=clock, create=create)


def init(folder: str = ".", store: str = "", *, repoint: bool = False) -> Workspace:
    """Make a workspace in exactly this folder, with a configuration file to edit; open it.

    `store` is the address of a database that keeps its records instead of a file in the folder;
    it is noted there, for this machine alone. Raises InvalidInput where the folder has records in
    another store that this one lacks, unless `repoint` leaves them there. In a linked worktree of
    git the records are kept in the main one, and shared by all.
    """
    import os.path

    from passdown.core.settings import CONFIG_TEMPLATE

    place = new_location(folder)
    if store and not repoint:
        from passdown.workspace.location import check_store_change

        check_store_change(place, store)
    make_folder(place)
    if store:
        place = place._replace(url=store)
    if not os.path.exists(place.config):
        from passdown.ledger.durable_files import replace_file

        replace_file(place.config, CONFIG_TEMPLATE)
    workspace = Workspace(place)
    if store:
        name_store(place)
    return workspace


class Workspace(
    WriteMethods, ReadMethods, BriefMethods, KnowledgeMethods, ImportMethods, MaintenanceMethods
):
    """One team's records. Use it as a context manager, or call `close`."""

    def __init__(
        self,
        place: Location,
        *,
        settings: Settings | None = None,
        clock: Clock = None,
        create: bool = True,
    ) -> None:
        """Open the workspace at a place; `passdown.open` finds the place."""
        self._context = Context(place, settings, clock, create=create)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the store. Nothing is lost by not calling it."""
        self._context.close()

    @property
    def root(self) -> str:
        """The project's folder; artifact paths are relative to it."""
        return self._context.root

    @property
    def store_url(self) -> str:
        """The address that opens this workspace's store again, password and all."""
        return self._context.store.url

    @property
    def store_label(self) -> str:
        """The same address as it may be printed: without a password."""
        return self._context.store_label


__all__ = [
    "NEWEST",
    "Workspace",
    "init",
    "open",
]

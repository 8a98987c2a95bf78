"""The methods of a workspace, as requests to a server."""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn, cast

from passdown.core.arguments import number_problems, raise_problems, text_list, text_type_problems
from passdown.core.handoff import Handoff, as_plain
from passdown.core.intake import GivenHandoff, read_handoff
from passdown.errors import InvalidInput, NotFound, PassdownError, Problem
from passdown.ledger.project_files import Project
from passdown.remote.connection import (
    HEAVY_TIMEOUT_S,
    MAX_ANSWER_BYTES,
    Deadline,
    not_passdown,
    path_part,
    too_large,
)
from passdown.remote.values import (
    brief_of,
    check_of,
    command_of,
    computed_of,
    context_of,
    decision_of,
    recalled_of,
    receipt_of,
    switched_of,
    verified_of,
)
from passdown.workspace import NEWEST
from passdown.workspace.files import FILES_FIELD, files_named, hashed_files

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
    from passdown.core.types import JsonObject
    from passdown.history.profiles import Profile, Profiles
    from passdown.imports.importer import ImportResult
    from passdown.imports.note_migration import AnswerFunction, Migration
    from passdown.knowledge.graph import ReachedNode, TaggedNode
    from passdown.ledger.bundles import BundleImport
    from passdown.ledger.verification import Verification
    from passdown.remote.connection import HttpConnection, HttpReply
    from passdown.search.embedders import Embed
    from passdown.workspace import Workspace
    from passdown.workspace.knowledge_packs import Pack
    from passdown.workspace.knowledge_sync import KnowledgeSync
    from passdown.workspace.maintenance import Rebuild
    from passdown.workspace.prompts import Prompt
    from passdown.workspace.rules import RulesInjected
    from passdown.workspace.search import EmbeddingStatus
    from passdown.workspace.switches import Switch
    from passdown.workspace.types import CounterLike, HandoffLike, Heads, Key, Progress


_PAGE = 1_000
_EMPTY: tuple[object, ...] = ("", None, (), [])


def send_body(wire: HttpConnection, method: str, path: str, body: JsonObject, **rest: Any) -> Any:
    """What a server answers to a body; what is None is left out of it."""
    kept = {name: value for name, value in body.items() if value is not None}
    return wire.ask(method, path, body=kept, **rest).document()


class Listing:
    """Questions that together make up one list: they share bounds of time and size."""

    def __init__(self, wire: HttpConnection) -> None:
        self._connection = wire
        self._deadline = Deadline(HEAVY_TIMEOUT_S)
        self._size = 0

    def ask(self, path: str, query: JsonObject) -> HttpReply:
        """The next part."""
        reply = self._connection.ask("GET", path, query=_filled(query), within=self._deadline)
        self._size += len(reply.body)
        if self._size > MAX_ANSWER_BYTES:
            raise too_large(self._connection.server.url, MAX_ANSWER_BYTES)
        return reply


class Client:
    """What the parts of a remote workspace are made of."""

    _connection: HttpConnection  # pyright: ignore[reportIncompatibleVariableOverride] - it always has one

    def _get(self, address: str, /, *, is_heavy: bool = False, **query: Any) -> Any:
        return self._connection.ask(
            "GET", address, query=_filled(query), is_heavy=is_heavy
        ).document()

    def _check(self, path: str, body: JsonObject, *, is_heavy: bool = False) -> Any:
        """Ask what takes a body and changes nothing."""
        return send_body(self._connection, "POST", path, body, repeats=True, is_heavy=is_heavy)

    def _post(self, path: str, body: JsonObject, key: Key = None, **rest: Any) -> Any:
        return send_body(self._connection, rest.pop("method", "POST"), path, body, key=key, **rest)

    def _pages(self, path: str, limit: int, cursor: object, **query: Any) -> list[JsonObject]:
        """The entries of a list up to a limit, page by page. Each page has to bring something and
        lead on; all of them together have bounds of their own.
        """
        found: list[JsonObject] = []
        asked: object = limit
        seen, listing = {cursor}, Listing(self._connection)
        while True:
            if type(limit) is int and limit > 0:
                asked = min(limit - len(found), _PAGE)
            reply = listing.ask(path, {**query, "limit": asked, "cursor": cursor})
            items, cursor = _page(reply)
            found += items
            if cursor is None or len(found) >= limit:
                return found[:limit] if type(limit) is int and limit > 0 else found
            if not items or cursor in seen:
                raise not_passdown(reply, "is a page that leads nowhere")
            seen.add(cursor)


def _filled(query: JsonObject) -> JsonObject:
    return {name: value for name, value in query.items() if value not in _EMPTY}


def _page(reply: HttpReply) -> tuple[list[JsonObject], str | None]:
    """The entries of a page and the cursor to the next one, if it is a page."""
    document = reply.document()
    items, following = document.get("items"), document.get("next")
    if not isinstance(items, list) or not isinstance(following, str | None):
        raise not_passdown(reply, "is no page of a list")
    return cast("list[JsonObject]", items), following


def named_counter(counter: CounterLike, said: str) -> str | None:
    """A counter by its name: a function can't be sent."""
    if counter is None or isinstance(counter, str):
        return counter
    name: object = getattr(counter, "name", None)
    if isinstance(name, str):
        return name
    problem = Problem("counter", "wrong_type", "a function can't be sent", "a counter's name")
    raise InvalidInput(said, [problem])


def project_here() -> Project:
    """The files beneath the folder that this program works in. The store is elsewhere."""
    return Project(os.getcwd(), "")


def files_part_of_handoff(handoff: HandoffLike, defaults: JsonObject) -> JsonObject:
    """The part of a body that says what the files that a handoff names are like here.

    Of what can't be read as a handoff nothing is said: the server refuses it.
    """
    try:
        return files_part(read_handoff(handoff, defaults).data)
    except InvalidInput:
        return {}


def files_part(data: JsonObject) -> JsonObject:
    """The part of a body that says what the files that plain data names are like here."""
    named = files_named(data)
    return {FILES_FIELD: hashed_files(project_here(), named)} if named else {}


class RemoteWriteMethods(Client):
    """The methods that record something; see `Workspace` for what each one does."""

    def create_task(
        self, task: str, *, title: str, agent: str, key: Key = None, **fields: Any
    ) -> Receipt:
        """Make a task."""
        body = {**fields, "task": task, "title": title, "agent": agent}
        return receipt_of(self._post("/api/tasks", body, key))

    def change_task(
        self,
        task: str,
        *,
        agent: str,
        expect_version: int | None = None,
        key: Key = None,
        **fields: Any,
    ) -> Receipt:
        """Change a task."""
        rest: JsonObject = {"method": "PATCH", "expect_version": expect_version}
        body = {**fields, "agent": agent}
        return receipt_of(self._post(f"/api/tasks/{path_part(task)}", body, key, **rest))

    def hand_off(
        self,
        handoff: HandoffLike,
        *,
        key: Key = None,
        rebase: bool = False,
        changed_files: Sequence[str] | None = None,
        **defaults: Any,
    ) -> HandoffCommand:
        """Record a handoff."""
        body = _enveloped(handoff, rebase, changed_files, defaults)
        return command_of(self._post("/api/handoffs", body, key))

    def check(
        self,
        handoff: HandoffLike,
        *,
        rebase: bool = False,
        changed_files: Sequence[str] | None = None,
        **defaults: Any,
    ) -> Check:
        """Everything that `hand_off` would check."""
        body = _enveloped(handoff, rebase, changed_files, defaults)
        return check_of(self._post("/api/handoffs/check", body))

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
        """Record one decision."""
        body = {**fields, "task": task, "agent": agent, "summary": summary, "rationale": rationale}
        body |= files_part({"decisions": [fields]})
        rest: JsonObject = {"expect_version": expect_version}
        return receipt_of(self._post("/api/decisions", body, key, **rest))

    def note(
        self, kind: str, *, agent: str, task: str | None = None, key: Key = None, **fields: Any
    ) -> Receipt:
        """Record a pattern or a gotcha."""
        body = {**fields, "kind": kind, "agent": agent, "task": task}
        body |= files_part({"patterns": [fields]}) if kind == "pattern" else {}
        return receipt_of(self._post("/api/notes", body, key))

    def warn(self, task: str, *, agent: str, text: str, key: Key = None) -> Receipt:
        """Record a warning."""
        body = {"task": task, "agent": agent, "text": text}
        return receipt_of(self._post("/api/warnings", body, key))

    def mark(
        self, item: str, status: str, *, agent: str, reason: str = "", key: Key = None
    ) -> Receipt:
        """Give an item another status."""
        body = {"status": status, "agent": agent, "reason": reason}
        return receipt_of(self._post(f"/api/items/{path_part(item)}/marks", body, key))

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
        body = {"task": task, "agent": agent, "name": name, "passed": passed, "detail": detail}
        return receipt_of(self._post("/api/gates", body, key))

    def approve(self, gate: str, *, by: str, reason: str = "", key: Key = None) -> Receipt:
        """A person lets a held task go on."""
        body = {"by": by, "reason": reason}
        return receipt_of(self._post(f"/api/gates/{path_part(gate)}/approve", body, key))

    def reject(self, gate: str, *, by: str, reason: str, key: Key = None) -> Receipt:
        """A person says no, and why."""
        body = {"by": by, "reason": reason}
        return receipt_of(self._post(f"/api/gates/{path_part(gate)}/reject", body, key))

    def store_decision(self, decision: Decision, task: str | None = None) -> str:
        """Record a decision value and give the key, of agent and time, that finds it again."""
        from passdown.workspace.entries import plain_decision

        body = {**plain_decision(decision), "task": task}
        body |= files_part({"decisions": [body]})
        return self._post("/api/stored-decisions", body, repeats=True)["key"]

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
        """Write knowledge down."""
        from passdown.core.knowledge import edge_document, node_document
        from passdown.workspace.graph_access import knowledge_input

        given = knowledge_input(nodes, edges, forget_nodes, forget_edges)
        body: JsonObject = {
            "nodes": [node_document(node) for node in given.nodes],
            "edges": [edge_document(edge) for edge in given.edges],
            "agent": agent,
            "task": task,
            "forget_nodes": given.forget_nodes,
            "forget_edges": given.forget_edges,
        }
        return receipt_of(self._post("/api/knowledge", body, key))


def _enveloped(
    handoff: HandoffLike,
    rebase: bool,
    changed_files: Sequence[str] | None,
    defaults: JsonObject,
) -> JsonObject:
    """A handoff in any form, as a body, and what the files that it names are like here."""
    sent: object = handoff
    if isinstance(handoff, Handoff):
        sent = as_plain(handoff)
    elif isinstance(handoff, GivenHandoff):
        sent = handoff.data
    elif isinstance(handoff, Mapping):
        sent = dict(handoff)
    elif isinstance(handoff, bytes):
        sent = handoff.decode("utf-8", "surrogateescape")
    named = {name: value for name, value in defaults.items() if value is not None}
    files = None if changed_files is None else list(changed_files)
    body = {"handoff": sent, "defaults": named, "rebase": rebase, "changed_files": files}
    return body | files_part_of_handoff(handoff, named)


class RemoteReadMethods(Client):
    """The methods that only look; see `Workspace` for what each one does."""

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
        """Tasks in the order of their making."""
        filters: JsonObject = {"status": status, "phase": phase, "agent": agent}
        filters["with_workspace"] = with_workspace or None
        return self._pages("/api/tasks", limit, after or None, **filters)

    def task(self, task: str) -> JsonObject:
        """One task."""
        return self._get(f"/api/tasks/{path_part(task)}")

    def receive_handoff(self, command: HandoffCommand) -> TaskState:
        """The full, verified state for the receiver of a command."""
        from passdown.core.handoff import TaskState

        path = f"/api/tasks/{path_part(command.task_id)}/receive"
        body = {"version": command.version, "digest": command.digest}
        return TaskState.from_dict(self._check(path, body))

    def gates(self, task: str = "", *, open_only: bool = True) -> list[JsonObject]:
        """Human gates and quality gate results."""
        return self._get("/api/gates", task=task, all=not open_only)["items"]

    def state_document(self, task: str, version: int | None = None) -> JsonObject:
        """A task's state as plain JSON."""
        return self._get(f"/api/tasks/{path_part(task)}/state", version=version)

    def load(self, task: str) -> TaskState | None:
        """A task's state now, or None where there is no such task."""
        from passdown.core.handoff import TaskState

        try:
            return TaskState.from_dict(self.state_document(task))
        except NotFound:
            return None

    def log(
        self, task: str | None = None, *, limit: int = 50, before: int = NEWEST
    ) -> list[JsonObject]:
        """Records newest first."""
        path = "/api/log" if task is None else f"/api/tasks/{path_part(task)}/log"
        return self._pages(path, limit, None if before == NEWEST else before)

    def changes(self, after: int | None = 0, *, limit: int = 500) -> JsonObject:
        """What was recorded of tasks after a `seq`."""
        return self._get("/api/changes", after=after, now=after is None or None, limit=limit)

    def show(self, item: str) -> JsonObject:
        """One item by its address."""
        return self._get(f"/api/items/{path_part(item)}")

    def diff(self, task: str, old: int, new: int) -> JsonObject:
        """What differs between two versions of a task."""
        return self._get(f"/api/tasks/{path_part(task)}/diff", old=old, new=new)

    def inbox(self, agent: str) -> list[JsonObject]:
        """The handoffs that wait for an agent."""
        return self._get("/api/inbox", agent=agent)["items"]

    def artifacts(self, task: str) -> list[JsonObject]:
        """A task's artifacts, compared with the files beneath the folder that this program works
        in.
        """
        from passdown.history.items import artifact_status

        project = project_here()
        found: list[JsonObject] = self._get(f"/api/tasks/{path_part(task)}/artifacts")["items"]
        return [{**artifact, "now": artifact_status(artifact, project)} for artifact in found]

    def path_history(self, task: str, path: str) -> list[JsonObject]:
        """Every entry that a task has had for a path."""
        return self._get(f"/api/tasks/{path_part(task)}/paths", path=path)["items"]

    def inline_plan(self, task: str, budget_tokens: int) -> JsonObject:
        """Which artifacts fit into a token budget."""
        return self._get(f"/api/tasks/{path_part(task)}/inline", budget=budget_tokens)

    def summary(self, task: str, max_tokens: int = 500) -> str:
        """The short summary of a task."""
        return self._get(f"/api/tasks/{path_part(task)}/summary", budget=max_tokens)["text"]

    def check_summary(self, task: str, text: str) -> Freshness:
        """Whether a summary was made from the version that is stored now."""
        from passdown.context.summary import Freshness

        return Freshness(
            **self._check(f"/api/tasks/{path_part(task)}/summary/check", {"text": text})
        )

    def stored_decision(self, key: str, task: str | None = None) -> Decision:
        """The decision that `store_decision` recorded under a key."""
        if not key:
            raise NotFound("there is no decision under ''", next_step="Check the key.")
        return decision_of(self._get("/api/stored-decisions", key=key, task=task)["decision"])

    def handoff_context(self, task: str, *, agent: str = "", since: int = 0) -> HandoffContext:
        """Who handed a task to whom, the sender's decisions, and what to look up."""
        path = f"/api/tasks/{path_part(task)}/context"
        return context_of(self._get(path, agent=agent, since=since))


_NO_BRIEF = "no brief was made"
_NO_SWITCH = "no switch was made"


class RemoteBriefMethods(Client):
    """The methods that put words together for an agent; see `Workspace` for each."""

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
        """What `agent` needs to know of a task, within a budget of tokens."""
        _check_brief(agent, budget, format, counter, tags)
        query: JsonObject = {"agent": agent, "budget": budget}
        query["counter"] = named_counter(counter, _NO_BRIEF)
        query |= {"format": format, "tags": tags, "record": record}
        return _told_whose(brief_of(self._get(f"/api/tasks/{path_part(task)}/brief", **query)))

    def check_brief(self, task: str, text: str) -> Freshness:
        """Whether a brief was made from the version that is stored now."""
        from passdown.context.summary import Freshness

        return Freshness(**self._check(f"/api/tasks/{path_part(task)}/brief/check", {"text": text}))

    def briefs(
        self, task: str | None = None, *, limit: int = 50, before: int = NEWEST
    ) -> list[JsonObject]:
        """What was told to whom, newest first."""
        path = "/api/deliveries" if task is None else f"/api/tasks/{path_part(task)}/deliveries"
        return self._pages(path, limit, None if before == NEWEST else before)

    def why(self, item: str, *, agent: str) -> JsonObject:
        """Whether and when an agent was told an item."""
        return self._get(f"/api/items/{path_part(item)}/why", agent=agent)

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
        """The whole context of an agent that takes over a task."""
        body: JsonObject = {"to": to, "from_agent": from_agent or None, "budget": budget}
        body |= {"counter": named_counter(counter, _NO_SWITCH), "rules": rules or None}
        found = _profiles(profiles).get(to)
        kept = {name: value for name, value in body.items() if value is not None}
        kept |= {"record": record}
        if found is not None or profiles:
            kept["profile"] = _sent(found) if found else None
        reply = self._connection.ask("POST", f"/api/tasks/{path_part(task)}/switch", body=kept)
        return switched_of(reply.document(), os.getcwd())

    def save_artifact(self, task: str, *, to: str, from_agent: str = "") -> JsonObject:
        """Leave a switch artifact for an agent that comes later; its file is the server's."""
        body = {"to": to, "from_agent": from_agent or None}
        return self._post(f"/api/tasks/{path_part(task)}/switch-artifacts", body)

    def switch_artifacts(self, *, task: str = "", agent: str = "") -> list[JsonObject]:
        """The switch artifacts of a task, newest first, or those that wait for an agent."""
        return self._get("/api/switch-artifacts", task=task, agent=agent)["items"]

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
        """A user's prompt, behind the new agent's context where it calls one."""
        from passdown.context.switches import find_switch
        from passdown.workspace.prompts import Prompt

        here = _profiles("")
        called = find_switch(text, here.names(), active)
        profile = here.get(called) if called else None
        body: JsonObject = {"text": text, "active": active or None, "budget": budget}
        body |= {"counter": named_counter(counter, _NO_SWITCH), "record": record}
        body["profile"] = _sent(profile) if profile else None
        found = self._post(f"/api/tasks/{path_part(task)}/prompt", body)
        switched = found["switched"]
        made = switched_of(switched, os.getcwd()) if switched else None
        return Prompt(found["text"], found["agent"], made)

    def subagent_prompt(self, agent: str, text: str) -> str:
        """An agent's whole profile and a task's whole text, both unchanged."""
        from passdown.context.switches import subagent_prompt

        profile = self.profile(agent)
        if profile is None or not profile.text:
            known = ", ".join(self.agents()) or "none"
            raise NotFound(f"{agent[:80]!r} has no profile", next_step=f"Known agents: {known}.")
        return subagent_prompt(profile.text, text)

    def profile(self, agent: str) -> Profile | None:
        """An agent's profile here, else where the server is, or None where it has none."""
        from passdown.workspace.prompts import profile_of

        found = _profiles("").get(agent)
        if found is not None:
            return found
        try:
            return profile_of(self._get(f"/api/profiles/{path_part(agent)}"))
        except NotFound:
            return None

    def agents(self) -> tuple[str, ...]:
        """The agents that have a profile, here or where the server is."""
        return tuple(sorted({*_profiles("").names(), *self._get("/api/profiles")["items"]}))

    def compaction(self, used_tokens: int) -> Compaction:
        """Whether a context of this size is due for compaction, by the server's settings."""
        from passdown.context.sessions import Compaction

        found: JsonObject = self._get("/api/compaction", used=used_tokens)
        found["reasons"] = tuple(found["reasons"])
        return Compaction(**found)

    def injection(self, task: str) -> str:
        """What the tasks that a task depends on leave for it, as text for its prompt."""
        return self._get(f"/api/tasks/{path_part(task)}/injection")["text"]

    def computed_context(self, task: str, complexity: str = "normal") -> ComputedContext:
        """What of earlier work bears on a task, each with its score and why."""
        return computed_of(
            self._get(f"/api/tasks/{path_part(task)}/computed", complexity=complexity)
        )

    def compact_context(self, task: str) -> str:
        """A task's phase and last decisions in at most 2,000 characters."""
        return self._get(f"/api/tasks/{path_part(task)}/compact")["text"]

    def next_steps(self, task: str) -> list[JsonObject]:
        """The open next steps of a task in the order in which they can be done."""
        return self._get(f"/api/tasks/{path_part(task)}/next-steps")["items"]


def _told_whose(brief: Brief) -> Brief:
    """A brief that says, where it calls something stale, whose files it went by."""
    if not any(item.stale for item in brief.shown):
        return brief
    message = "what is marked as changed has changed in the server's checkout since"
    fix = "artifacts(task) of a workspace in Python compares with the files here"
    whose = Problem("files", "files_of_server", message, "", fix, "warning")
    return brief._replace(warnings=(*brief.warnings, whose))


def _profiles(folder: str) -> Profiles:
    """The profiles of the project that this program works in."""
    from passdown.history.profiles import Profiles

    return Profiles(os.getcwd(), os.path.abspath(folder) if folder else "")


def _sent(profile: Profile) -> JsonObject:
    problems = [problem.to_dict() for problem in profile.problems]
    sent: JsonObject = {"name": profile.name, "text": profile.text, "problems": problems}
    return {**sent, "path": profile.path[:1_024]}


def _check_brief(
    agent: object, budget: object, format: object, counter: CounterLike, tags: object
) -> None:
    """What is wrong with a question before it is sent; the server asks the same."""
    from passdown.context.brief import request_problems
    from passdown.core.names import agent_problems
    from passdown.core.tokens import counter_of

    if isinstance(tags, str):
        wrong = Problem("tags", "wrong_type", "a text given", "a list of tags")
        raise InvalidInput(_NO_BRIEF, [wrong])
    asked = 1 if budget is None else budget
    problems = [*agent_problems(agent, "agent"), *request_problems(asked, format)]
    try:
        if counter is not None:
            counter_of(counter, "chars4")
    except InvalidInput as error:
        problems += error.problems
    if problems:
        raise InvalidInput(_NO_BRIEF, problems)


_REFUSED = "can't look around"
_ANY = 2**62


class RemoteKnowledgeMethods(Client):
    """The methods that find things again; see `Workspace` for what each one does."""

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
        """What was recorded that has to do with a question, best first."""
        from passdown.workspace.search import search_request

        filters: JsonObject = {"kinds": kinds, "agent": agent, "task": task, "tags": tags}
        filters |= {"path": path, "statuses": statuses, "since": since, "until": until}
        asked = {**search_request(query, filters)._asdict(), "told_to": told_to, "limit": limit}
        asked |= {"live_only": live_only or None, "by_words": by_words or None}
        kept = {name: value for name, value in asked.items() if value not in ("", None, (), [])}
        found = self._check("/api/recall", kept)
        return [recalled_of(entry) for entry in found["items"]]

    def embed(self, *, limit: int = 0, progress: Progress | None = None) -> EmbeddingStatus:
        """Make the vectors that are missing, where the store is; says how far they are."""
        from passdown.workspace.search import EmbeddingStatus

        found = self._post("/api/embedding", {"limit": limit}, repeats=True, is_heavy=True)
        return EmbeddingStatus(**found)

    def embedding(self) -> EmbeddingStatus:
        """How far vectors are."""
        from passdown.workspace.search import EmbeddingStatus

        return EmbeddingStatus(**self._get("/api/embedding"))

    def graph(
        self,
        *,
        around: Sequence[str] = (),
        depth: int = 1,
        task: str = "",
        tags: Sequence[str] = (),
        types: Sequence[str] = (),
    ) -> Graph:
        """The knowledge graph, or a part of it."""
        from passdown.knowledge.graph_files import read_graph

        part_of: JsonObject = {"around": around, "depth": depth, "task": task, "tags": tags}
        return read_graph(self.graph_text("json", types=types, **part_of), "json")

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
        """The same graph as text."""
        asked = _checked({"form": form, "task": task}, {"depth": depth})
        asked |= _listed(around=around, tags=tags, types=types)
        kept = {name: value for name, value in asked.items() if value not in ("", (), [])}
        return self._connection.ask("GET", "/api/graph", query=kept).body.decode()

    def edges(self, *, source: str = "", relation: str = "", target: str = "") -> list[Edge]:
        """The edges by any mix of source, relation and target; all of them by none."""
        from passdown.core.index_entries import edge_of

        asked = _checked({"source": source, "relation": relation, "target": target}, {})
        found = self._get("/api/graph/edges", is_heavy=True, **asked)
        return [edge_of(edge) for edge in found["items"]]

    def neighbours(
        self,
        node: str,
        *,
        depth: int = 1,
        direction: str = "out",
        relations: Sequence[str] = (),
    ) -> list[ReachedNode]:
        """The nodes that can be reached from one, nearest first."""
        from passdown.core.index_entries import edge_of
        from passdown.knowledge.graph import ReachedNode

        asked = _checked({"node": node, "direction": direction}, {"depth": depth})
        asked |= {"node": _said(node), **_listed(relations=relations)}
        found = self._get("/api/graph/neighbours", is_heavy=True, **asked)
        return [
            ReachedNode(
                place["node"], place["depth"], tuple(edge_of(edge) for edge in place["path"])
            )
            for place in found["items"]
        ]

    def tagged(
        self, tags: Sequence[str], *, types: Sequence[str] = (), limit: int = 10
    ) -> list[TaggedNode]:
        """Nodes under any of some tags, those that share most of them first."""
        from passdown.core.index_entries import node_of
        from passdown.knowledge.graph import TaggedNode

        asked = _checked({}, {"limit": limit}) | _listed(tags=tags, types=types)
        if not asked["tags"]:
            return []
        found = self._get("/api/graph/tagged", **asked)
        return [
            TaggedNode(node_of(each["node"]), each["score"], tuple(each["tags"]))
            for each in found["items"]
        ]

    def tasks_about(self, tag: str, *, types: Sequence[str] = ("pattern",)) -> JsonObject:
        """The tasks that found something about a tag, each with what it found."""
        asked = _checked({"tag": tag}, {}) | _listed(types=types)
        asked["tag"] = _said(tag)
        return self._get("/api/graph/about", **asked)["tasks"]

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
        """The part of the graph that has to do with a task, within nodes and tokens."""
        import json

        from passdown.knowledge.graph_files import read_graph
        from passdown.workspace.knowledge_packs import Pack

        asked: JsonObject = {"nodes": nodes, "budget": budget, "depth": depth, "form": form}
        asked["counter"] = named_counter(counter, "no such pack")
        found = self._get(f"/api/tasks/{path_part(task)}/pack", is_heavy=True, **asked)
        found["graph"] = read_graph(json.dumps(found["graph"]), "json")
        found["terms"] = tuple(found["terms"])
        return Pack(**found)

    def sync_knowledge(self, path: str = "", *, agent: str) -> KnowledgeSync:
        """Bring the knowledge file here and what was written down together."""
        from passdown.remote.streams import RemoteLedger, places_here
        from passdown.workspace.knowledge_sync import sync_file

        side = RemoteLedger(self._connection, cast("Workspace", self))
        return sync_file(side, places_here(self._connection.server.url), path, agent=agent)

    def journal(self, task: str = "", *, limit: int = 200) -> JsonObject:
        """Where things are, what is in the way and what was learned."""
        return self._get(
            "/api/journal", is_heavy=True, **_checked({"task": task}, {"limit": limit})
        )

    def audit(self, *, limit: int = 20, progress: Progress | None = None) -> JsonObject:
        """What is remembered and might not deserve to be."""
        return self._get("/api/audit", is_heavy=True, **_checked({}, {"limit": limit}))


def _said(given: str) -> str:
    """A text that has to be there; of none, a blank, which nothing is known by either."""
    return given or " "


def _checked(texts: JsonObject, numbers: JsonObject) -> JsonObject:
    """What is asked, if it is of the right types: an address would spell anything."""
    problems = text_type_problems(**texts)
    for name, number in numbers.items():
        problems += number_problems(number, name, -_ANY, _ANY)
    raise_problems(_REFUSED, problems)
    return {**texts, **numbers}


def _listed(**lists: Sequence[str]) -> JsonObject:
    """Lists of texts; one text alone is meant as a list of itself."""
    problems: list[Problem] = []
    found = {name: text_list(given, name, problems) for name, given in lists.items()}
    raise_problems(_REFUSED, problems)
    return found


_SQLITE = "application/vnd.sqlite3"


class RemoteMaintenanceMethods(Client):
    """The methods that keep the data safe; see `Workspace` for what each one does."""

    def verify(
        self, against: Heads = None, *, chain_only: bool = False, progress: Progress | None = None
    ) -> Verification:
        """Check, where the store is, that it says what was written."""
        if against is None:
            found = self._get("/api/verify", is_heavy=True, chain_only=chain_only)
        else:
            heads = against if isinstance(against, str) else dict(against)
            body = {"against": heads, "chain_only": chain_only}
            found = self._check("/api/verify", body, is_heavy=True)
        return verified_of(found)

    def heads(self) -> JsonObject:
        """The heads of all streams."""
        return self._get("/api/heads", is_heavy=True)

    def backup(self, target: str, progress: Progress | None = None) -> Verification:
        """Copy the store to a new file here while others write, and verify the copy."""
        from passdown.remote.connection import kept_if_whole
        from passdown.workspace.maintenance import check_new

        check_new(target, ("", "-wal", "-shm"))
        return kept_if_whole(
            target, lambda path: self._connection.fetch("/api/backup", _SQLITE, path, progress)
        )

    def export(self, target: str, task: str | None = None, *, diff: bool = False) -> int:
        """Write a bundle here; gives the number of streams. It says where the repository here
        stands, or that of the server, where there is none.
        """
        from passdown.workspace.maintenance import check_new, with_local_checkout, write_bundle

        check_new(target, ())
        query = {} if task is None else {"task": task}
        reply = self._connection.ask("GET", "/api/bundle", query=query, is_heavy=True)
        data, count = with_local_checkout(reply.body, os.getcwd(), diff=diff)
        write_bundle(target, data)
        return count

    def import_bundle(
        self,
        path: str,
        *,
        fork: str = "",
        patch: str = "",
        agent: str = "",
        max_unpacked: int | None = None,
    ) -> BundleImport:
        """Take in a bundle from here; `patch` is a new file here. Who brings it is whom the token
        says, and how large it may be there is up to the server.
        """
        from passdown.workspace.maintenance import (
            bundle_at,
            check_new,
            checkout_warnings,
            import_from_document,
            patch_written,
        )

        with bundle_at(path, max_unpacked) as bundle:
            if patch:
                check_new(patch, ())
            with open(path, "rb") as file:
                packed = base64.b64encode(file.read()).decode()
            body = {"bundle": packed, "fork": fork, "agent": agent or None}
            with patch_written(bundle, patch):
                try:
                    found = self._post("/api/bundle", body, repeats=True, is_heavy=True)
                except InvalidInput as error:
                    raise _too_large(error) from error
            return import_from_document(found)._replace(
                warnings=checkout_warnings(os.getcwd(), bundle.checkout)
            )

    def checkout(self) -> Checkout | None:
        """Where the repository here stands: branch, commit, uncommitted files."""
        from passdown.workspace.maintenance import checkout_at

        return checkout_at(os.getcwd())

    def reindex(self, progress: Progress | None = None) -> Rebuild:
        """Make every derived row again from the records, where the store is."""
        from passdown.workspace.maintenance import Rebuild

        found = self._post("/api/reindex", {}, repeats=True, is_heavy=True)
        return Rebuild(found["records"], tuple(found["differing"]))

    def doctor(self) -> JsonObject:
        """Facts and findings about the workspace of the server."""
        return self._get("/api/doctor", is_heavy=True)


def _too_large(error: InvalidInput) -> InvalidInput:
    """What to do about a bundle that the server doesn't take for its size; else the error."""
    if not any(problem.code == "too_large" for problem in error.problems):
        return error
    step = "Import it where the store is, or have the server take more: passdown serve --max-body."
    return InvalidInput(error.message, error.problems, next_step=step)


_WHERE = "Do it where the store is, with passdown.open of its folder or address."


def unsupported(url: str, what: str, instead: str = _WHERE) -> PassdownError:
    """The error for what a server doesn't offer."""
    return PassdownError(f"{url} doesn't offer {what}", next_step=instead, code="not_offered")


class UnsupportedMethods(Client):
    """The methods that work on files or functions of one machine."""

    def _refuse(self, what: str, instead: str) -> NoReturn:
        raise unsupported(self._connection.server.url, what, instead)

    def handle_file(self, task: str) -> str:
        """A handle file is on the server's disk."""
        self._refuse("its handle files", "state_document (passdown state) gives what one holds.")

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
        """Rules and sessions are files of a project, and need no records."""
        self._refuse("rules", _RULES)

    def rule_report(self) -> JsonObject:
        """Rules are files of a project, and need no records."""
        self._refuse("rules", _RULES)

    def embed_with(self, name: str, function: Embed) -> None:
        """A function can't be sent."""
        self._refuse("a program's own embedder", "Set it where the server is; embed() asks for it.")

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
        """A folder or file is read where it is, and each of its parts compared with the store."""
        self._refuse(
            "imports from other tools",
            "Bring it in where the store is, or into a workspace here whose bundle you import.",
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
        """A note is read, and written back to, where it is."""
        self._refuse(
            "the migration of notes",
            "Migrate it where the store is, or in a workspace here whose bundle you import.",
        )


_RULES = "They are files of a project: open its folder, for which passdown.open('.') is enough."

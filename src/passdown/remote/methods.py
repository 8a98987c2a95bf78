"""Operations whose request doesn't follow from their signature: most use files of this machine.

Each function is called with the remote workspace and the arguments of the operation of its name.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from passdown.core.codec import decode
from passdown.core.views import ArtifactStatus, Changes
from passdown.errors import InvalidInput, NotFound, Problem
from passdown.operations import OPERATION
from passdown.remote import call, decoded, files_sent, named_counter, project_here, request
from passdown.remote.connection import path_part

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from passdown.context.brief import Brief
    from passdown.core.checkout import Checkout
    from passdown.core.graph import Edge, Graph, Node
    from passdown.core.handoff import Decision, TaskState
    from passdown.core.intake import HandoffLike
    from passdown.core.results import Check, HandoffCommand, Receipt
    from passdown.core.tokens import CounterLike
    from passdown.core.types import Heads, JsonObject, Progress
    from passdown.history.profiles import Profile, Profiles
    from passdown.knowledge.graph import TaggedNode
    from passdown.knowledge.sync import KnowledgeSync
    from passdown.ledger.bundles import BundleImport
    from passdown.ledger.verification import Verification
    from passdown.remote import RemoteWorkspace
    from passdown.remote.connection import HttpReply
    from passdown.workspace.prompts import Prompt
    from passdown.workspace.switches import Switch


def _post(ws: RemoteWorkspace, path: str, body: JsonObject, **options: Any) -> HttpReply:
    """Send a body without what is None."""
    given = {name: value for name, value in body.items() if value is not None}
    return ws.connection.ask("POST", path, body=given, **options)


def _get(ws: RemoteWorkspace, path: str, **query: Any) -> Any:
    """What a path gives as JSON."""
    given = {name: value for name, value in query.items() if value is not None}
    return ws.connection.ask("GET", path, query=given).document()


def hand_off(
    ws: RemoteWorkspace, handoff: HandoffLike | None = None, *, key: str | None = None, **given: Any
) -> HandoffCommand:
    """Record a handoff, with hashes of the files here that it names."""
    from passdown.core.results import HandoffCommand

    reply = _post(ws, "/api/handoffs", _envelope(handoff, **given), key=key)
    return decoded(reply, HandoffCommand)


def check_handoff(ws: RemoteWorkspace, handoff: HandoffLike | None = None, **given: Any) -> Check:
    """Check a handoff, with hashes of the files here that it names."""
    from passdown.core.results import Check

    return decoded(_post(ws, "/api/handoffs/check", _envelope(handoff, **given)), Check)


def _envelope(
    handoff: HandoffLike | None,
    *,
    rebase: bool = False,
    changed_files: Sequence[str] | None = None,
    **fields: Any,
) -> JsonObject:
    """A handoff in any form, as a body, and what the files that it names are like here."""
    from passdown.core.handoff import Handoff, as_plain
    from passdown.core.intake import GivenHandoff, read_handoff

    sent: object = {} if handoff is None else handoff
    if isinstance(handoff, Handoff):
        sent = as_plain(handoff)
    elif isinstance(handoff, GivenHandoff):
        sent = handoff.data
    elif isinstance(handoff, Mapping):
        sent = dict(handoff)
    elif isinstance(handoff, bytes):
        sent = handoff.decode("utf-8", "surrogateescape")
    named = {name: value for name, value in fields.items() if value is not None}
    files = None if changed_files is None else list(changed_files)
    body: JsonObject = {"handoff": sent, "defaults": named, "rebase": rebase}
    body["changed_files"] = files
    try:
        return body | files_sent(read_handoff(handoff, named).data)
    except InvalidInput:
        return body  # the server refuses it, and says why


def prepare_handoff(
    ws: RemoteWorkspace,
    task: str,
    to_agent: str,
    phase: str,
    *,
    outcome: str = "completed",
    **fields: Any,
) -> HandoffCommand:
    """Record a handoff of a task by its holder."""
    given = {**fields, "task": task, "to_agent": to_agent, "phase": phase, "outcome": outcome}
    return hand_off(ws, given)


def receive_handoff(ws: RemoteWorkspace, command: HandoffCommand) -> TaskState:
    """The full, verified state for the receiver of a handoff."""
    from passdown.core.handoff import TaskState

    path = f"/api/tasks/{path_part(command.task_id)}/receive"
    body = {"version": command.version, "digest": command.digest}
    return decoded(_post(ws, path, body, repeats=True), TaskState)


def state(ws: RemoteWorkspace, task: str, version: int | None = None) -> TaskState:
    """A task's state as a value."""
    from passdown.core.handoff import TaskState

    return TaskState.from_dict(ws.files.state_document(task, version))


def load(ws: RemoteWorkspace, task: str) -> TaskState | None:
    """A task's state now, or None for an unknown task."""
    try:
        return state(ws, task)
    except NotFound:
        return None


def changes(ws: RemoteWorkspace, after: int | None = 0, *, limit: int = 500) -> Changes:
    """What was recorded of tasks after a `seq`."""
    found = _get(ws, "/api/changes", after=after, now=True if after is None else None, limit=limit)
    return Changes(found)


def artifacts(ws: RemoteWorkspace, task: str) -> list[ArtifactStatus]:
    """A task's artifacts, compared with the files beneath the folder of this program."""
    from passdown.history.items import artifact_status

    project = project_here()
    found: list[JsonObject] = _get(ws, f"/api/tasks/{path_part(task)}/artifacts")["items"]
    return [
        ArtifactStatus({**artifact, "now": artifact_status(artifact, project)})
        for artifact in found
    ]


_NO_BRIEF = "no brief was made"


def brief(
    ws: RemoteWorkspace,
    task: str,
    *,
    agent: str,
    budget: int | None = None,
    counter: CounterLike = None,
    format: str = "markdown",
    tags: Sequence[str] = (),
    record: bool = True,
) -> Brief:
    """A brief, checked before it is asked for; it says whose files it calls stale."""
    from passdown.context.brief import Brief

    _check_brief(agent, budget, format, counter, tags)
    query: JsonObject = {"agent": agent, "budget": budget, "counter": named_counter(counter)}
    query |= {"format": format, "tags": list(tags) or None, "record": record}
    found: Brief = decode(Brief, _get(ws, f"/api/tasks/{path_part(task)}/brief", **query))
    if not any(item.stale for item in found.shown):
        return found
    message = "what is marked as changed has changed in the server's checkout since"
    fix = "artifacts(task) of a workspace in Python compares with the files here"
    whose = Problem("files", "files_of_server", message, "", fix, "warning")
    return found._replace(warnings=(*found.warnings, whose))


def _check_brief(
    agent: object, budget: object, format: object, counter: CounterLike, tags: object
) -> None:
    """Raise InvalidInput for what the server would refuse as well."""
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


def switch(
    ws: RemoteWorkspace,
    task: str,
    *,
    to_agent: str,
    from_agent: str = "",
    budget: int | None = None,
    counter: CounterLike = None,
    profiles: str = "",
    rules: str = "",
    record: bool = True,
) -> Switch:
    """The context of an agent that takes over, with its profile from here if there is one."""
    body: JsonObject = {"to_agent": to_agent, "from_agent": from_agent or None, "budget": budget}
    body |= {"counter": named_counter(counter), "rules": rules or None, "record": record}
    body = {name: value for name, value in body.items() if value is not None}
    found = _profiles(profiles).get(to_agent)
    if found is not None or profiles:
        body["profile"] = _profile_sent(found) if found else None
    reply = ws.connection.ask("POST", f"/api/tasks/{path_part(task)}/switch", body=body)
    return _switch(reply.document())


def _switch(document: JsonObject) -> Switch:
    """A switch. What it says of git is about the repository here, if there is one."""
    from passdown.history.git import has_git
    from passdown.workspace.switches import Switch, git_check, git_warnings

    found: Switch = decode(Switch, document)
    if not has_git(os.getcwd()):
        return found
    warnings = list(found.warnings)
    theirs, git = git_warnings(found.git), git_check(os.getcwd(), found.files)
    first = (n for n, one in enumerate(warnings) if one.path != "profile")
    place = warnings.index(theirs[0]) if theirs else next(first, len(warnings))
    warnings[place : place + len(theirs)] = git_warnings(git)
    return found._replace(git=git, warnings=tuple(warnings))


def context_prompt(
    ws: RemoteWorkspace,
    text: str,
    *,
    task: str,
    active: str = "",
    budget: int | None = None,
    counter: CounterLike = None,
    record: bool = True,
) -> Prompt:
    """A user's prompt, with the profile from here of the agent that it calls."""
    from passdown.context.switches import find_switch
    from passdown.workspace.prompts import Prompt

    here = _profiles()
    called = find_switch(text, here.names(), active)
    profile = here.get(called) if called else None
    body: JsonObject = {"text": text, "active": active or None, "budget": budget}
    body |= {"counter": named_counter(counter), "record": record}
    body["profile"] = _profile_sent(profile) if profile else None
    found = _post(ws, f"/api/tasks/{path_part(task)}/prompt", body).document()
    made = _switch(found["switched"]) if found["switched"] else None
    return Prompt(found["text"], found["agent"], made)


def context_subagent_prompt(ws: RemoteWorkspace, agent: str, text: str) -> str:
    """An agent's whole profile and a task's whole text, both unchanged."""
    from passdown.context.switches import subagent_prompt

    profile = context_profile(ws, agent)
    if profile is None or not profile.text:
        known = ", ".join(context_agents(ws)) or "none"
        raise NotFound(f"{agent[:80]!r} has no profile", next_step=f"Known agents: {known}.")
    return subagent_prompt(profile.text, text)


def context_profile(ws: RemoteWorkspace, agent: str) -> Profile | None:
    """An agent's profile here, else on the server, or None where it has none."""
    from passdown.workspace.prompts import profile_of

    found = _profiles().get(agent)
    if found is not None:
        return found
    try:
        return profile_of(_get(ws, f"/api/profiles/{path_part(agent)}"))
    except NotFound:
        return None


def context_agents(ws: RemoteWorkspace) -> tuple[str, ...]:
    """The agents that have a profile, here or on the server."""
    return tuple(sorted({*_profiles().names(), *_get(ws, "/api/profiles")["items"]}))


def _profiles(folder: str = "") -> Profiles:
    """The profiles of the project that this program works in."""
    from passdown.history.profiles import Profiles

    return Profiles(os.getcwd(), os.path.abspath(folder) if folder else "")


def _profile_sent(profile: Profile) -> JsonObject:
    problems = [problem.to_dict() for problem in profile.problems]
    sent: JsonObject = {"name": profile.name, "text": profile.text, "problems": problems}
    return {**sent, "path": profile.path[:1_024]}


def decisions_store(ws: RemoteWorkspace, decision: Decision, task: str | None = None) -> str:
    """Record a decision value and give the key that finds it again."""
    from passdown.workspace.entries import plain_decision

    body = {**plain_decision(decision), "task": task}
    body |= files_sent({"decisions": [body]})
    return _post(ws, "/api/stored-decisions", body, repeats=True).document()["key"]


def decisions_get(ws: RemoteWorkspace, key: str, task: str | None = None) -> Decision:
    """The decision that was recorded under a key."""
    from passdown.core.handoff import Decision
    from passdown.core.schema import value_of

    return value_of(Decision, _stored(ws, key, task)["decision"])


def decisions_address(ws: RemoteWorkspace, key: str, task: str | None = None) -> str:
    """The address of the decision that was recorded under a key."""
    return _stored(ws, key, task)["address"]


def _stored(ws: RemoteWorkspace, key: str, task: str | None) -> JsonObject:
    if not key:
        raise NotFound("there is no decision under ''", next_step="Check the key.")
    return _get(ws, "/api/stored-decisions", key=key, task=task)


def files_checkout(ws: RemoteWorkspace) -> Checkout | None:
    """The state of the repository here."""
    from passdown.workspace.maintenance import checkout_at

    return checkout_at(os.getcwd())


def knowledge_add(
    ws: RemoteWorkspace,
    nodes: Iterable[Node | JsonObject] = (),
    edges: Iterable[Edge | JsonObject] = (),
    *,
    agent: str,
    task: str | None = None,
    key: str | None = None,
    forget_nodes: Sequence[str] = (),
    forget_edges: Sequence[tuple[str, str, str]] = (),
) -> Receipt:
    """Add nodes and edges to the knowledge graph, checked before they are sent."""
    from passdown.core.knowledge import edge_document, node_document
    from passdown.core.results import Receipt
    from passdown.knowledge.graph import knowledge_input

    given = knowledge_input(nodes, edges, forget_nodes, forget_edges)
    body: JsonObject = {
        "nodes": [node_document(node) for node in given.nodes],
        "edges": [edge_document(edge) for edge in given.edges],
        "agent": agent,
        "task": task,
        "forget_nodes": given.forget_nodes,
        "forget_edges": given.forget_edges,
    }
    return decoded(_post(ws, "/api/knowledge", body, key=key), Receipt)


def knowledge_relate(
    ws: RemoteWorkspace, source: str, relation: str, target: str, *, agent: str
) -> bool:
    """Record that one node relates to another; False where that was known."""
    body = {"source": source, "relation": relation, "target": target, "agent": agent}
    return _post(ws, "/api/relations", body, repeats=True).document()["is_new"]


def knowledge_graph(ws: RemoteWorkspace, **given: Any) -> Graph:
    """The knowledge graph, or a part of it."""
    from passdown.knowledge.graph_files import read_graph

    return read_graph(knowledge_render(ws, "json", **given), "json")


def knowledge_render(ws: RemoteWorkspace, format: str = "json", **given: Any) -> str:
    """The knowledge graph, or a part of it, as text."""
    return request(ws.connection, OPERATION["knowledge.render"], format, **given).body.decode()


def knowledge_tagged(ws: RemoteWorkspace, tags: Sequence[str], **given: Any) -> list[TaggedNode]:
    """Nodes with any of some tags."""
    if tags in ([], ()):
        return []
    return call(ws.connection, OPERATION["knowledge.tagged"], tags, **given)


def knowledge_tasks_about(
    ws: RemoteWorkspace, tag: str, **given: Any
) -> dict[str, list[JsonObject]]:
    """The tasks that found something about a tag."""
    reply = request(ws.connection, OPERATION["knowledge.tasks_about"], tag, **given)
    return reply.document()["tasks"]


def knowledge_sync(ws: RemoteWorkspace, path: str = "", *, agent: str) -> KnowledgeSync:
    """Sync the knowledge file here with the graph of the server."""
    from passdown.knowledge.sync import sync_file
    from passdown.remote.streams import RemoteKnowledge, sync_folders

    return sync_file(RemoteKnowledge(ws), sync_folders(ws.store_url), path, agent=agent)


def verify(
    ws: RemoteWorkspace,
    against: Heads | None = None,
    *,
    chain_only: bool = False,
    progress: Progress | None = None,
) -> Verification:
    """Check, where the store is, that it holds what was written."""
    from passdown.ledger.verification import Verification

    query: JsonObject = {"chain_only": chain_only}
    if against is None:
        reply = ws.connection.ask("GET", "/api/verify", query=query, is_heavy=True)
    else:
        heads = against if isinstance(against, str) else dict(against)
        body = {"against": heads, **query}
        reply = _post(ws, "/api/verify", body, repeats=True, is_heavy=True)
    return decoded(reply, Verification)


def maintenance_backup(
    ws: RemoteWorkspace, target: str, progress: Progress | None = None
) -> Verification:
    """Copy the store to a new file here while others write, and verify the copy."""
    from passdown.remote.connection import kept_if_whole
    from passdown.workspace.maintenance import check_new

    check_new(target, ("", "-wal", "-shm"))
    media = "application/vnd.sqlite3"
    return kept_if_whole(
        target, lambda path: ws.connection.fetch("/api/backup", media, path, progress)
    )


def maintenance_export(
    ws: RemoteWorkspace, target: str, task: str | None = None, *, diff: bool = False
) -> int:
    """Write a bundle here, with the state of the repository here or else of the server's."""
    from passdown.workspace.maintenance import check_new, with_local_checkout, write_bundle

    check_new(target, ())
    query = {} if task is None else {"task": task}
    reply = ws.connection.ask("GET", "/api/bundle", query=query, is_heavy=True)
    data, count = with_local_checkout(reply.body, os.getcwd(), diff=diff)
    write_bundle(target, data)
    return count


def maintenance_import_bundle(
    ws: RemoteWorkspace,
    path: str,
    *,
    fork: str = "",
    patch: str = "",
    agent: str = "",
    max_unpacked: int | None = None,
) -> BundleImport:
    """Import a bundle from here; `patch` is a new file here.

    Who imports it is whom the token names, and how large it may be is up to the server.
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
                reply = _post(ws, "/api/bundle", body, repeats=True, is_heavy=True)
            except InvalidInput as error:
                raise _too_large(error) from error
        found = import_from_document(reply.document())
        return found._replace(warnings=checkout_warnings(os.getcwd(), bundle.checkout))


def _too_large(error: InvalidInput) -> InvalidInput:
    """What to do about a bundle that is too large for the server; else the error itself."""
    if not any(problem.code == "too_large" for problem in error.problems):
        return error
    step = "Import it where the store is, or let the server take more: passdown serve --max-body."
    return InvalidInput(error.message, error.problems, next_step=step)

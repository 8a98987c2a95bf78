"""Routes for briefs, search, agent contexts, the knowledge graph, maintenance and relays."""

from __future__ import annotations

import base64
import binascii
import json
import os
import shutil
import tempfile
from typing import TYPE_CHECKING, Any

from passdown.core.kinds import AGENT_STREAM
from passdown.core.knowledge import edge_document, node_document
from passdown.core.times import stamp
from passdown.errors import InvalidInput, NotFound, Problem
from passdown.knowledge.graph import ended_early
from passdown.knowledge.graph_files import write_graph
from passdown.knowledge.sync import written_since
from passdown.relay.express import express_record, express_records, queue_express_item, send
from passdown.relay.run import ENDINGS, RUNNING, VERDICTS, WAITING
from passdown.relay.runs import Runs, follow_up, listed_document, readable_runs, run_document
from passdown.web.openapi import (
    CURSOR,
    LIMIT,
    MANY,
    MAX_NUMBER,
    MAX_TEXT,
    MAX_UPLOAD,
    answer,
    choice,
    listed,
    page,
    record,
    ref,
    text,
    truth,
    whole,
)
from passdown.web.requests import ApiResult, ApiRoute, page_result, read_route
from passdown.web.task_routes import AGENT, ITEM_ID, TASK_ID, TASK_PATH, verification_document
from passdown.workspace.context import context_of
from passdown.workspace.maintenance import bundle_of, import_data, import_document
from passdown.workspace.prompts import Profile, profile_document, profile_sent, prompt_with
from passdown.workspace.streams import READ_BY_ALL, WorkspaceStreams, recorded_via
from passdown.workspace.switches import SwitchRequest, switch_context

if TYPE_CHECKING:
    from passdown.core.types import JsonObject
    from passdown.relay.run import Run
    from passdown.web.requests import ApiRequest
    from passdown.workspace import Workspace


BRIEF_FORMATS = ("markdown", "plain", "yaml", "json", "injection", "summary")
GRAPH_FORMATS = {
    "json": "application/json",
    "dot": "text/vnd.graphviz",
    "mermaid": "text/plain",
    # A picture may hold words of anybody: as plain text no browser takes it for a page.
    "svg": "text/plain",
}
_TAG_LIST = listed(text(most=64))
_OBJECTS = {"type": "array", "items": {"type": "object"}}
BRIEF = answer(
    "task",
    "agent",
    "digest",
    "shown",
    "left_out",
    "waiting",
    "reach",
    version={"type": "integer"},
    budget={"type": "integer"},
    tokens={"type": "integer"},
    text={"type": "string"},
    warnings={"type": "array", "items": ref("Problem")},
)
_DELIVERY = answer("task", "kind", "at", "agent", seq={"type": "integer"})


def brief_now(workspace: Workspace, call: ApiRequest) -> ApiResult:
    """A brief made anew; the desk of the server answers with those that are made already."""
    agent, is_own = call.listener()
    given: JsonObject = {**call.given, "record": is_own and call.given.get("record", True)}
    found = workspace.brief(agent=agent, **given)
    return ApiResult(found.to_dict(), found.version)


def _check_text(workspace: Workspace, call: ApiRequest) -> ApiResult:
    return ApiResult(workspace.context.check(**call.given)._asdict())


def _deliveries(workspace: Workspace, call: ApiRequest) -> ApiResult:
    task, limit = call.given.get("task"), call.given.get("limit", 50)
    before = int(call.given.get("cursor", 0)) or MAX_NUMBER
    found = workspace.context.deliveries(task, limit=limit + 1, before=before)
    return page_result(found, limit, lambda last: last["number" if task else "seq"])


def _why(workspace: Workspace, call: ApiRequest) -> ApiResult:
    agent = call.given.get("agent") or call.caller.name
    return ApiResult(workspace.context.why(call.given["item"], agent=agent))


def _recall(workspace: Workspace, call: ApiRequest) -> ApiResult:
    given = dict(call.given)
    told_to = given.pop("told_to", "")
    if told_to and not call.is_about_itself(told_to):
        call.note_claim("told_to", told_to)
        told_to = call.caller.name
    found = workspace.recall(given.pop("query"), told_to=told_to, **given)
    return ApiResult({"items": [each.to_dict() for each in found]})


def _graph(workspace: Workspace, call: ApiRequest) -> ApiResult:
    form = call.given.pop("format", "json")
    written = workspace.knowledge.render(form, **call.given)
    return ApiResult(None, text=written, media=GRAPH_FORMATS[form])


def _learn(workspace: Workspace, call: ApiRequest) -> ApiResult:
    edges = [tuple(edge) for edge in call.given.pop("forget_edges", ())]
    options: JsonObject = {"agent": call.author(), "key": call.key, "forget_edges": edges}
    receipt = workspace.knowledge.add(**options, **call.given)
    return ApiResult(receipt.to_dict(), receipt.version)


def _journal(workspace: Workspace, call: ApiRequest) -> ApiResult:
    return ApiResult(
        workspace.knowledge.journal(call.given.get("task", ""), limit=call.given.get("limit", 200))
    )


_SEARCH_FILTERS = {
    "kinds": listed(text(most=40)),
    "agent": text(most=64),
    "task": TASK_ID,
    "tags": _TAG_LIST,
    "path": text("a file or a folder", most=1_024),
    "statuses": listed(text(most=40)),
    "since": text("a date or a time", most=40),
    "until": text("a date or a time", most=40),
    "live_only": truth(),
    "by_words": truth("leave meaning out"),
    "limit": whole(least=1, most=1_000),
    "told_to": text("record it as told to this agent", most=64),
}

_GRAPH_PART = {
    "around": listed(text(most=200), "ids of nodes"),
    "depth": whole("steps", most=1_000),
    "task": TASK_ID,
    "tags": _TAG_LIST,
    "types": _TAG_LIST,
}

BRIEF_ROUTES = (
    read_route(
        "brief",
        "/api/tasks/{task}/brief",
        "What an agent needs to know of a task, within a budget of tokens",
        brief_now,
        parameters=TASK_PATH,
        query={
            "agent": AGENT,
            "budget": whole("in tokens", least=1, most=10**9),
            "format": choice(BRIEF_FORMATS),
            "counter": text("how tokens are counted", most=40),
            "tags": _TAG_LIST,
            "record": truth("whether it is recorded as told; default: true"),
        },
        answer=BRIEF,
        tag="briefs",
    ),
    ApiRoute(
        "check_text",
        "POST",
        "/api/tasks/{task}/check",
        "read",
        "Whether a brief was made from the version that is stored now",
        _check_text,
        parameters=TASK_PATH,
        body=record({"text": text(most=10 * MAX_TEXT)}, ["text"]),
        answer=answer("is_current", "made_from", "now"),
        tag="briefs",
    ),
    read_route(
        "task_deliveries",
        "/api/tasks/{task}/deliveries",
        "What was told of a task, to whom, newest first",
        _deliveries,
        parameters=TASK_PATH,
        query={"limit": LIMIT, "cursor": CURSOR},
        answer=page(_DELIVERY),
        tag="briefs",
    ),
    read_route(
        "deliveries",
        "/api/deliveries",
        "What was told to whom, newest first",
        _deliveries,
        query={"limit": LIMIT, "cursor": CURSOR},
        answer=page(_DELIVERY),
        tag="briefs",
    ),
    read_route(
        "why",
        "/api/items/{item}/why",
        "Whether and when an agent was told an item, or what kept it out",
        _why,
        parameters={"item": ITEM_ID},
        query={"agent": text("default: the token's name", most=64)},
        answer=answer("item", "agent", "reason", told={"type": "boolean"}),
        tag="briefs",
    ),
    read_route(
        "recall",
        "/api/recall",
        "What was recorded that has to do with a question, best first",
        _recall,
        query={"query": {**text("the question"), "required": True}, **_SEARCH_FILTERS},
        answer=answer(items=_OBJECTS),
        tag="search",
    ),
    ApiRoute(
        "search",
        "POST",
        "/api/recall",
        "read",
        "The same, for a question that is too long for an address",
        _recall,
        body=record({"query": text("the question", most=MAX_TEXT), **_SEARCH_FILTERS}, ["query"]),
        answer=answer(items=_OBJECTS),
        tag="search",
    ),
    read_route(
        "graph",
        "/api/graph",
        "The knowledge graph, or a part of it; `form` says as what",
        _graph,
        query={"format": choice(tuple(GRAPH_FORMATS)), **_GRAPH_PART},
        answer={"type": "object"},
        media=tuple(GRAPH_FORMATS.values()),
        is_heavy=True,
        tag="search",
    ),
    ApiRoute(
        "learn",
        "POST",
        "/api/knowledge",
        "write",
        "Write nodes and edges of knowledge down, or forget some",
        _learn,
        body=record(
            {
                "nodes": _OBJECTS,
                "edges": _OBJECTS,
                "forget_nodes": listed(text(most=200), most=MANY),
                "forget_edges": {
                    "type": "array",
                    "items": {**listed(text(most=200)), "minItems": 3, "maxItems": 3},
                },
                "task": TASK_ID,
                "agent": AGENT,
            }
        ),
        answer=ref("Receipt"),
        status=201,
        takes_key=True,
        tag="search",
    ),
    read_route(
        "journal",
        "/api/journal",
        "Where things are, what is in the way and what was learned",
        _journal,
        query={"task": TASK_ID, "limit": whole("places", least=1, most=2**40)},
        answer={"type": "object"},
        is_heavy=True,
        tag="search",
    ),
)

_AGENT_NAME = text(most=64)
_TEXT_RESULT = answer(text={"type": "string"})
_PROFILE = record(
    {
        "name": text(most=64, least=1),
        "text": text("the whole file", most=MAX_UPLOAD),
        "path": text("where it is", most=1_024),
        "problems": {
            "type": "array",
            "maxItems": 100,
            "items": record(
                {"path": text(), "code": text(most=64), "message": text()},
                ["path", "code", "message"],
                is_open=True,
            ),
        },
    },
    ["name", "text"],
)
_CONTEXT_OPTIONS = {
    "budget": whole("tokens that may come on top of the profile", least=1, most=10**9),
    "counter": text("how tokens are counted", most=40),
    "record": truth("whether it is recorded as told; default: true"),
}
_SWITCH_RESULT = answer(
    "from_agent",
    "to_agent",
    "digest",
    "parts",
    "summaries",
    "artifact_file",
    "files",
    "git",
    task={"type": "string"},
    version={"type": "integer"},
    text={"type": "string"},
    tokens={"type": "integer"},
    brief=BRIEF,
    warnings={"type": "array", "items": ref("Problem")},
)


def _switch(workspace: Workspace, call: ApiRequest) -> ApiResult:
    """The context of who takes over; recorded for the token's own name, or for one that it may
    speak for.
    """
    given = call.given
    ask = SwitchRequest(
        task=given["task"],
        to_agent=given["to_agent"],
        from_agent=given.get("from_agent", ""),
        budget=given.get("budget"),
        counter=given.get("counter"),
        rules=given.get("rules", ""),
        record=given.get("record", True) and call.is_about_itself(given["to_agent"]),
        given=_given_profile(workspace, given),
    )
    found = switch_context(context_of(workspace), ask)
    return ApiResult(found.to_dict())


def _given_profile(workspace: Workspace, given: JsonObject) -> tuple[Profile | None, ...]:
    if "profile" not in given:
        return ()
    sent: JsonObject | None = given["profile"]
    return (
        profile_sent(context_of(workspace), given["to_agent"], sent) if sent is not None else None,
    )


def _prompt(workspace: Workspace, call: ApiRequest) -> ApiResult:
    given = call.given
    sent: JsonObject | None = given.get("profile")
    profile = profile_sent(context_of(workspace), sent["name"], sent) if sent is not None else None
    active = given.get("active", "")
    found = prompt_with(
        context_of(workspace),
        given["text"],
        given["task"],
        active,
        budget=given.get("budget"),
        counter=given.get("counter"),
        record=given.get("record", True),
        given=profile,
        only="" if call.caller.may("others") else call.caller.name,
    )
    switched = found.switched.to_dict() if found.switched else None
    return ApiResult({"text": found.text, "agent": found.agent, "switched": switched})


def _save_artifact(workspace: Workspace, call: ApiRequest) -> ApiResult:
    task, to = call.given["task"], call.given["to_agent"]
    sender = call.given.get("from_agent", "")
    if not call.caller.may("others"):
        sender = call.author("from_agent")
    return ApiResult(
        _with_state_url(workspace.context.save_switch(task, to_agent=to, from_agent=sender))
    )


def _switch_artifacts(workspace: Workspace, call: ApiRequest) -> ApiResult:
    return ApiResult(
        {"items": [_with_state_url(e) for e in workspace.context.saved_switches(**call.given)]}
    )


def _with_state_url(entry: JsonObject) -> JsonObject:
    """An artifact for who can't open the files that it names here."""
    place = f"/api/tasks/{entry['task']}/state"
    return {**entry, "artifact": {**entry["artifact"], "full_record": place}}


def _profiles(workspace: Workspace, call: ApiRequest) -> ApiResult:
    return ApiResult({"items": list(workspace.context.agents())})


def _profile(workspace: Workspace, call: ApiRequest) -> ApiResult:
    agent: str = call.given["agent"]
    found = workspace.context.profile(agent)
    if found is None:
        raise NotFound(f"{agent[:80]!r} has no profile here", next_step="See /api/profiles.")
    return ApiResult(profile_document(found))


def _compaction(workspace: Workspace, call: ApiRequest) -> ApiResult:
    return ApiResult(workspace.context.compaction(call.given["used"])._asdict())


def _injection(workspace: Workspace, call: ApiRequest) -> ApiResult:
    return ApiResult({"text": workspace.context.injection(call.given["task"])})


def _computed(workspace: Workspace, call: ApiRequest) -> ApiResult:
    return ApiResult(workspace.context.computed(**call.given).to_dict())


def _compact(workspace: Workspace, call: ApiRequest) -> ApiResult:
    return ApiResult({"text": workspace.context.compact(call.given["task"])})


def _next_steps(workspace: Workspace, call: ApiRequest) -> ApiResult:
    return ApiResult({"items": workspace.context.next_steps(call.given["task"])})


def _task_context_route(name: str, ending: str, summary: str, carry: Any, **rest: Any) -> ApiRoute:
    path = f"/api/tasks/{{task}}/{ending}"
    return read_route(name, path, summary, carry, parameters=TASK_PATH, tag="contexts", **rest)


CONTEXT_ROUTES = (
    ApiRoute(
        "switch",
        "POST",
        "/api/tasks/{task}/switch",
        "read",
        "The whole context of an agent that takes over; a profile may be sent, null says none",
        _switch,
        parameters=TASK_PATH,
        body=record(
            {
                "to_agent": text("who takes over", most=64, least=1),
                "from_agent": text("who leaves; default: who has the task", most=64),
                "rules": text("goes in after the profile", most=MAX_UPLOAD),
                "profile": {**_PROFILE, "type": ["object", "null"]},
                **_CONTEXT_OPTIONS,
            },
            ["to_agent"],
        ),
        answer=_SWITCH_RESULT,
        tag="contexts",
    ),
    ApiRoute(
        "prompt",
        "POST",
        "/api/tasks/{task}/prompt",
        "read",
        "A prompt, behind the context of the agent that it calls (@name, /name)",
        _prompt,
        parameters=TASK_PATH,
        body=record(
            {
                "text": text("what was typed", most=MAX_UPLOAD),
                "active": text("who has the word now", most=64),
                "profile": _PROFILE,
                **_CONTEXT_OPTIONS,
            },
            ["text"],
        ),
        answer=answer("switched", text={"type": "string"}, agent={"type": "string"}),
        tag="contexts",
    ),
    ApiRoute(
        "save_artifact",
        "POST",
        "/api/tasks/{task}/switch-artifacts",
        "write",
        "Leave a switch artifact for an agent that comes later",
        _save_artifact,
        parameters=TASK_PATH,
        body=record({"to_agent": text(most=64, least=1), "from_agent": _AGENT_NAME}, ["to_agent"]),
        answer=answer("file", "from_agent", "to_agent", "version", "artifact", "path"),
        status=201,
        tag="contexts",
    ),
    read_route(
        "switch_artifacts",
        "/api/switch-artifacts",
        "The switch artifacts of a task, or those that wait for an agent",
        _switch_artifacts,
        query={"task": TASK_ID, "agent": _AGENT_NAME},
        answer=answer(items=_OBJECTS),
        tag="contexts",
    ),
    read_route(
        "profiles",
        "/api/profiles",
        "The agents that have a profile where the server is",
        _profiles,
        answer=answer(items={"type": "array", "items": {"type": "string"}}),
        tag="contexts",
    ),
    read_route(
        "profile",
        "/api/profiles/{agent}",
        "An agent's profile where the server is",
        _profile,
        parameters={"agent": text(most=64, least=1)},
        answer=answer("needs", "tools", "problems", name={"type": "string"}),
        tag="contexts",
    ),
    read_route(
        "compaction",
        "/api/compaction",
        "Whether a context of so many tokens is due for compaction, by the server's settings",
        _compaction,
        query={"used": {**whole("tokens"), "required": True}},
        answer=answer("used", "threshold", "window", "reasons", due={"type": "boolean"}),
        tag="contexts",
    ),
    _task_context_route(
        "injection",
        "injection",
        "What the tasks that a task depends on leave for it, as text for its prompt",
        _injection,
        answer=_TEXT_RESULT,
    ),
    _task_context_route(
        "computed_context",
        "computed",
        "What of earlier work bears on a task, each with its score and why",
        _computed,
        query={"complexity": choice(("easy", "normal", "complex"))},
        answer=answer("task", "complexity", "patterns", "gotchas", "signals", "counts"),
    ),
    _task_context_route(
        "compact_context",
        "compact",
        "A task's phase and last decisions in at most 2,000 characters",
        _compact,
        answer=_TEXT_RESULT,
    ),
    _task_context_route(
        "next_steps",
        "next-steps",
        "The open next steps of a task, in an order in which they can be done",
        _next_steps,
        answer=answer(items=_OBJECTS),
    ),
)

_NODE_ID = text("the id of a node", most=400)
_WORD_LIST = listed(text(most=400))
_ITEMS = answer(items=_OBJECTS)


def _edges(workspace: Workspace, call: ApiRequest) -> ApiResult:
    return ApiResult(
        {"items": [edge_document(edge) for edge in workspace.knowledge.edges(**call.given)]}
    )


def _neighbours(workspace: Workspace, call: ApiRequest) -> ApiResult:
    found = workspace.knowledge.neighbours(**call.given)
    items = [
        {**place._asdict(), "path": [edge_document(edge) for edge in place.path]} for place in found
    ]
    return ApiResult({"items": items, "more": ended_early(found)})


def _tagged(workspace: Workspace, call: ApiRequest) -> ApiResult:
    found = workspace.knowledge.tagged(call.given.pop("tags"), **call.given)
    items = [
        {"node": node_document(each.node), "score": each.score, "tags": list(each.tags)}
        for each in found
    ]
    return ApiResult({"items": items})


def _tasks_about(workspace: Workspace, call: ApiRequest) -> ApiResult:
    return ApiResult({"tasks": workspace.knowledge.tasks_about(**call.given)})


def _pack(workspace: Workspace, call: ApiRequest) -> ApiResult:
    found = workspace.knowledge.pack(**call.given)
    graph = json.loads(write_graph(found.graph, "json"))
    return ApiResult({**found._asdict(), "terms": list(found.terms), "graph": graph})


def _written_knowledge(workspace: Workspace, call: ApiRequest) -> ApiResult:
    found = written_since(context_of(workspace), call.given.get("since", 0))
    graph = json.loads(write_graph(found.graph, "json"))
    reports = [report.to_dict() for report in found.reports]
    return ApiResult({"graph": graph, "seq": found.seq, "reports": reports})


def _audit(workspace: Workspace, call: ApiRequest) -> ApiResult:
    return ApiResult(workspace.knowledge.audit(**call.given))


GRAPH_ROUTES: tuple[ApiRoute, ...] = (
    read_route(
        "edges",
        "/api/graph/edges",
        "Edges by any mix of source, relation and target; all of them by none",
        _edges,
        query={"source": _NODE_ID, "relation": text(most=400), "target": _NODE_ID},
        answer=_ITEMS,
        is_heavy=True,
        tag="search",
    ),
    read_route(
        "neighbours",
        "/api/graph/neighbours",
        "The nodes that can be reached from one, nearest first, each with the edges there; `more` "
        "where there may be others: fewer steps, a direction or relations narrow it down",
        _neighbours,
        query={
            "node": {**_NODE_ID, "required": True},
            "depth": whole("steps", least=1, most=1_000),
            "direction": choice(("out", "in", "both")),
            "relations": _WORD_LIST,
        },
        answer=answer(items=_OBJECTS, more={"type": "boolean"}),
        is_heavy=True,
        tag="search",
    ),
    read_route(
        "tagged",
        "/api/graph/tagged",
        "Nodes under any of some tags, those that share most of them first",
        _tagged,
        query={
            "tags": {**_WORD_LIST, "required": True},
            "types": _WORD_LIST,
            "limit": whole(least=1, most=10**9),
        },
        answer=_ITEMS,
        tag="search",
    ),
    read_route(
        "tasks_about",
        "/api/graph/about",
        "The tasks that found something about a tag, each with what it found",
        _tasks_about,
        query={"tag": {**text(most=400), "required": True}, "types": _WORD_LIST},
        answer=answer(tasks={"type": "object"}),
        tag="search",
    ),
    read_route(
        "pack",
        "/api/tasks/{task}/pack",
        "The part of the graph that has to do with a task, within nodes and tokens",
        _pack,
        parameters=TASK_PATH,
        query={
            "nodes": whole(least=1, most=500),
            "budget": whole("in tokens", least=1, most=10**9),
            "depth": whole("steps around what fits", most=1_000),
            "counter": text("how tokens are counted", most=40),
            "format": choice(("dot", "json")),
        },
        answer=answer("terms", "graph", "left_out", text={"type": "string"}),
        is_heavy=True,
        tag="search",
    ),
    read_route(
        "written_knowledge",
        "/api/knowledge",
        "What was written down, and since a record, what several agents wrote differently",
        _written_knowledge,
        query={"since": whole("a sequence number")},
        answer=answer("graph", "reports", seq={"type": "integer"}),
        is_heavy=True,
        tag="search",
    ),
    read_route(
        "audit",
        "/api/audit",
        "What is remembered twice, out of date, never told or orphaned",
        _audit,
        query={"limit": whole("of each kind", least=1, most=10**9)},
        answer={"type": "object"},
        is_heavy=True,
        tag="safety",
    ),
)

ZIP = "application/zip"
SQLITE = "application/vnd.sqlite3"
_MAX_BASE64 = 2**30
_HEADS = {"type": ["object", "string"], "description": "as heads gave them, or that as text"}
_VERIFY_RESULT = answer("findings", ok={"type": "boolean"}, records={"type": "integer"})
_EMBEDDING_RESULT = answer(
    embedder={"type": "string"}, done={"type": "integer"}, total={"type": "integer"}
)


def _export_bundle(workspace: Workspace, call: ApiRequest) -> ApiResult:
    return ApiResult(None, data=bundle_of(context_of(workspace), call.given.get("task")), media=ZIP)


def _import_bundle(workspace: Workspace, call: ApiRequest) -> ApiResult:
    try:
        data = base64.b64decode(call.given["bundle"], validate=True)
    except (binascii.Error, ValueError) as error:
        problem = Problem("bundle", "invalid_form", str(error), "a bundle's bytes in base64")
        raise InvalidInput("nothing was imported", [problem]) from error
    found = import_data(
        context_of(workspace), data, call.given.get("fork", ""), agent=call.author()
    )
    return ApiResult(import_document(found))


def _backup(workspace: Workspace, call: ApiRequest) -> ApiResult:
    """A copy in a folder of its own, which is gone once it was sent."""
    folder = tempfile.mkdtemp(prefix="passdown-backup-")
    path = os.path.join(folder, "ledger.db")
    try:
        workspace.maintenance.backup(path)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return ApiResult(None, file=path, media=SQLITE)


def _verify_against(workspace: Workspace, call: ApiRequest) -> ApiResult:
    return ApiResult(
        verification_document(workspace.verify(call.given.pop("against"), **call.given))
    )


def _embedding(workspace: Workspace, call: ApiRequest) -> ApiResult:
    return ApiResult(workspace.embeddings.status()._asdict())


def _embed(workspace: Workspace, call: ApiRequest) -> ApiResult:
    return ApiResult(workspace.embeddings.update(**call.given)._asdict())


def _reindex(workspace: Workspace, call: ApiRequest) -> ApiResult:
    found = workspace.maintenance.reindex()
    return ApiResult({"records": found.records, "differing": list(found.differing)})


def _doctor(workspace: Workspace, call: ApiRequest) -> ApiResult:
    return ApiResult(workspace.maintenance.doctor())


MAINTENANCE_ROUTES = (
    read_route(
        "export_bundle",
        "/api/bundle",
        "A bundle of one task or of everything, with where the server's repository stands",
        _export_bundle,
        query={"task": TASK_ID},
        media=(ZIP,),
        is_heavy=True,
        tag="safety",
    ),
    ApiRoute(
        "import_bundle",
        "POST",
        "/api/bundle",
        "admin",
        "Take in a bundle, verified, all or nothing; taken in again, it changes nothing",
        _import_bundle,
        body=record(
            {
                "bundle": text("its bytes in base64", most=_MAX_BASE64),
                "fork": text("a suffix, to keep both where histories differ", most=64),
                "agent": AGENT,
            },
            ["bundle"],
        ),
        answer=answer("added", "unchanged", "forked", "touched", "checkout", "warnings"),
        is_heavy=True,
        tag="safety",
    ),
    ApiRoute(
        "backup",
        "GET",
        "/api/backup",
        "admin",
        "A copy of the whole store as one SQLite file, tokens' digests and all",
        _backup,
        media=(SQLITE,),
        is_heavy=True,
        tag="safety",
    ),
    ApiRoute(
        "verify_against",
        "POST",
        "/api/verify",
        "read",
        "Whether the store says what was written, and still has what saved heads name",
        _verify_against,
        body=record({"against": _HEADS, "chain_only": truth()}, ["against"]),
        answer=_VERIFY_RESULT,
        is_heavy=True,
        tag="safety",
    ),
    read_route(
        "embedding",
        "/api/embedding",
        "How far the vectors are that search by meaning goes by",
        _embedding,
        answer=_EMBEDDING_RESULT,
        tag="safety",
    ),
    ApiRoute(
        "embed",
        "POST",
        "/api/embedding",
        "admin",
        "Make the vectors that are missing, all or some",
        _embed,
        body=record({"limit": whole("0: all", most=10**9)}),
        answer=_EMBEDDING_RESULT,
        is_heavy=True,
        tag="safety",
    ),
    ApiRoute(
        "reindex",
        "POST",
        "/api/reindex",
        "admin",
        "Make every derived row again from the records",
        _reindex,
        body=record({}),
        answer=answer("differing", records={"type": "integer"}),
        is_heavy=True,
        tag="safety",
    ),
    ApiRoute(
        "doctor",
        "GET",
        "/api/doctor",
        "admin",
        "Facts and findings about the workspace, with what to do about each",
        _doctor,
        answer=answer("facts", "findings", ok={"type": "boolean"}),
        is_heavy=True,
        tag="safety",
    ),
)

_RECORDS_PER_PAGE = 1_000
_RUN_PATH = {"run": text("a run's id", most=128, least=1)}
_EXPRESS_PATH = {"item": text("an item's id", most=128, least=1)}
_DECIDED_BY = text("who decides; default: the token's name", most=64)
_RUN_RESULT = answer("relay", "task", "turns", run={"type": "string"}, status={"type": "string"})
_STREAM_NAME = {**text("run/, express/ or agent/, and a name", most=200, least=1), "required": True}


def _time_now(workspace: Workspace) -> str:
    return stamp(WorkspaceStreams(workspace).now())


def _list_runs(workspace: Workspace, call: ApiRequest) -> ApiResult:
    """Runs, newest first; one that is damaged hides no other."""
    found, damages = readable_runs(Runs(workspace))
    wanted, now = call.given.get("status"), _time_now(workspace)
    items = [listed_document(run, now) for run in found if wanted in (None, run.status)]
    return ApiResult({"items": items, "damaged": [damage.to_dict() for damage in damages]})


def _show_run(workspace: Workspace, call: ApiRequest) -> ApiResult:
    return ApiResult(run_document(Runs(workspace).get(call.given["run"]), _time_now(workspace)))


def _answer_run(workspace: Workspace, call: ApiRequest) -> ApiResult:
    by, given = call.author("by"), call.given
    guidance = given.get("guidance", "")
    run = Runs(workspace).answer(given["run"], given["verdict"], by=by, guidance=guidance)
    return _with_follow_up(workspace, call, run)


def _stop_run(workspace: Workspace, call: ApiRequest) -> ApiResult:
    by, given = call.author("by"), call.given
    run = Runs(workspace).stop(given["run"], by=by, why=given.get("why", ""))
    return _with_follow_up(workspace, call, run)


def _with_follow_up(workspace: Workspace, call: ApiRequest, run: Run) -> ApiResult:
    """What follows is the engine's to write, and not the person's who decided."""
    with recorded_via(f"token:{call.caller.id}"):
        follow_up(workspace, run)
    return ApiResult(run_document(run, _time_now(workspace)))


def _express(workspace: Workspace, call: ApiRequest) -> ApiResult:
    found = express_records(workspace, status=call.given.get("status", ""))
    return ApiResult({"items": [one.to_dict() for one in found]})


def _express_item(workspace: Workspace, call: ApiRequest) -> ApiResult:
    return ApiResult(express_record(workspace, call.given["item"]).to_dict())


def _send_express(workspace: Workspace, call: ApiRequest) -> ApiResult:
    """Record an item in the token's name, and queue it where there is an engine."""
    call.given = item = dict(call.given["item"])
    sent = send(workspace, {**item, "by": call.author("by")})
    why = "" if sent.is_over else _queue_express(workspace, call, sent.item.id)
    return ApiResult({**sent.to_dict(), "queued": not why, "not_queued": why})


def _queue_express(workspace: Workspace, call: ApiRequest, item: str) -> str:
    with recorded_via(f"token:{call.caller.id}"):
        return queue_express_item(workspace, item)


def _list_agents(workspace: Workspace, call: ApiRequest) -> ApiResult:
    beside = WorkspaceStreams(workspace)
    items: list[JsonObject] = []
    for head in beside.streams(AGENT_STREAM):
        last = beside.last(head.stream)
        if last is not None:
            agent = head.stream.removeprefix(AGENT_STREAM)
            items.append({"agent": agent, "at": last.at, "stands": last.document()["stands"]})
    return ApiResult({"items": items})


def _stream_heads(workspace: Workspace, call: ApiRequest) -> ApiResult:
    prefix = _readable_stream(call.given["prefix"])
    found = WorkspaceStreams(workspace).streams(prefix)
    return ApiResult({"items": [head._asdict() for head in found]})


def _stream_records(workspace: Workspace, call: ApiRequest) -> ApiResult:
    """A stream's records as they were hashed, a page at a time."""
    stream, after = _readable_stream(call.given["stream"]), call.given.get("after", 0)
    found = WorkspaceStreams(workspace).records(stream, after)
    items = [{**one._asdict(), "body": one.body.decode()} for one in found[:_RECORDS_PER_PAGE]]
    return ApiResult({"items": items, "more": len(found) > _RECORDS_PER_PAGE})


def _readable_stream(stream: str) -> str:
    if stream.startswith(READ_BY_ALL):
        return stream
    raise NotFound(
        f"there is no stream {stream[:80]!r} to be read here",
        next_step=f"These can be: {', '.join(READ_BY_ALL)}.",
    )


RELAY_ROUTES = (
    read_route(
        "list_runs",
        "/api/runs",
        "Runs of relays and how each stands, newest first",
        _list_runs,
        query={"status": choice((RUNNING, WAITING, *ENDINGS))},
        answer=answer(items=_OBJECTS, damaged=_OBJECTS),
        is_heavy=True,
        tag="relays",
    ),
    read_route(
        "show_run",
        "/api/runs/{run}",
        "One run in full: its turns, what was measured, what it waits for",
        _show_run,
        parameters=_RUN_PATH,
        answer=_RUN_RESULT,
        tag="relays",
    ),
    ApiRoute(
        "answer_run",
        "POST",
        "/api/runs/{run}/answer",
        "approve",
        "A person answers the budget review that a run waits for",
        _answer_run,
        parameters=_RUN_PATH,
        body=record(
            {"verdict": choice(VERDICTS), "guidance": text(most=MAX_TEXT), "by": _DECIDED_BY},
            ["verdict"],
        ),
        answer=_RUN_RESULT,
        tag="relays",
    ),
    ApiRoute(
        "stop_run",
        "POST",
        "/api/runs/{run}/stop",
        "approve",
        "A person ends a run; turns under way come to their end",
        _stop_run,
        parameters=_RUN_PATH,
        body=record({"why": text(most=MAX_TEXT), "by": _DECIDED_BY}),
        answer=_RUN_RESULT,
        tag="relays",
    ),
    read_route(
        "list_express",
        "/api/express",
        "Express items and what became of each, oldest first",
        _express,
        query={"status": text("such as sent, done, promoted", most=40)},
        answer=answer(items=_OBJECTS),
        is_heavy=True,
        tag="relays",
    ),
    ApiRoute(
        "send_express",
        "POST",
        "/api/express",
        "write",
        "Send small work that overtakes; the same item again is the same",
        _send_express,
        body=record({"item": {"type": "object"}}, ["item"]),
        answer=answer("not_queued", id={"type": "string"}, queued={"type": "boolean"}),
        status=201,
        tag="relays",
    ),
    read_route(
        "show_express",
        "/api/express/{item}",
        "One express item and what became of it",
        _express_item,
        parameters=_EXPRESS_PATH,
        answer=answer("history", id={"type": "string"}, status={"type": "string"}),
        tag="relays",
    ),
    read_route(
        "list_agents",
        "/api/agents",
        "Where each agent of a relay stands, and on which task",
        _list_agents,
        answer=answer(items=_OBJECTS),
        tag="relays",
    ),
    read_route(
        "streams",
        "/api/streams",
        "The heads of streams beside the tasks: of runs, express items and agents",
        _stream_heads,
        query={"prefix": _STREAM_NAME},
        answer=answer(items=_OBJECTS),
        tag="relays",
    ),
    read_route(
        "stream_records",
        "/api/streams/records",
        "The records of one of them, as they were hashed",
        _stream_records,
        query={"stream": _STREAM_NAME, "after": whole("records above this position")},
        answer=answer(items=_OBJECTS, more={"type": "boolean"}),
        tag="relays",
    ),
)

ROUTES: tuple[ApiRoute, ...] = (
    *BRIEF_ROUTES,
    *CONTEXT_ROUTES,
    *GRAPH_ROUTES,
    *MAINTENANCE_ROUTES,
    *RELAY_ROUTES,
)

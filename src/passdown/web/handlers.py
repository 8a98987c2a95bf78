"""What answers where a call of the operation isn't enough, and what only a server offers.

A function here has the name of its operation, with `_` for a dot. It is called with the request and
its arguments, and gives a value, which is sent as JSON, or an `ApiResult`.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import shutil
import tempfile
from typing import TYPE_CHECKING, Any, cast

from passdown.core.handoff import as_plain
from passdown.core.intake import read_handoff
from passdown.core.kinds import AGENT_STREAM, CONVERSATION_STREAM
from passdown.core.knowledge import edge_document, node_document
from passdown.core.results import HandoffCommand
from passdown.core.times import stamp
from passdown.core.types import JsonObject
from passdown.errors import InvalidInput, NotAllowed, NotFound, Problem
from passdown.knowledge.graph import ended_early
from passdown.knowledge.graph_files import write_graph
from passdown.knowledge.sync import written_since
from passdown.relay.express import express_record, express_records, submit
from passdown.relay.runs import Runs, follow_up, listed_document, readable_runs, run_document
from passdown.web.requests import ApiRequest, ApiResult
from passdown.workspace.entries import store_plain_decision
from passdown.workspace.maintenance import bundle_of, import_data, import_document
from passdown.workspace.prompts import profile_document, profile_sent, prompt_with
from passdown.workspace.streams import READ_BY_ALL, WorkspaceStreams, recorded_via
from passdown.workspace.switches import SwitchRequest, switch_context

if TYPE_CHECKING:
    from passdown.relay.run import Run
    from passdown.workspace.maintenance import Verification

_NOT_GIVEN: Any = object()
_RECORDS_PER_PAGE = 1_000
_GRAPH_MEDIA = {
    "json": "application/json",
    "dot": "text/vnd.graphviz",
    "mermaid": "text/plain",
    # A picture may hold words of anybody: as plain text no browser takes it for a page.
    "svg": "text/plain",
}


# --- handoffs


def hand_off(
    request: ApiRequest,
    /,
    *,
    handoff: JsonObject,
    defaults: JsonObject | None = None,
    rebase: bool = False,
    changed_files: list[str] | None = None,
) -> ApiResult:
    """Record a handoff.

    Args:
        handoff: An object, or the text of one: JSON, YAML, a task file.
        defaults: What the handoff leaves out.
        rebase: Place it after others, if it only adds.
        changed_files: What its file lists must account for.
    """
    options: JsonObject = {"rebase": rebase, "changed_files": changed_files}
    return _record_handoff(request, handoff, defaults or {}, options)


def hand_off_task(request: ApiRequest, /, *, task: str, rebase: bool = False) -> ApiResult:
    """Hand a task on; the body is the handoff.

    Args:
        rebase: Place it after others, if it only adds.
    """
    return _record_handoff(request, {**request.body, "task": task}, {}, {"rebase": rebase})


def _record_handoff(
    request: ApiRequest, handoff: Any, defaults: JsonObject, options: JsonObject
) -> ApiResult:
    handoff, defaults = handoff_of_caller(request, handoff, defaults)
    if request.expect_version is not None:
        given = read_handoff(handoff, defaults)
        handoff = given._replace(data={**given.data, "expect_version": request.expect_version})
        defaults = {}
    command = request.workspace.hand_off(handoff, key=request.key, **options, **defaults)
    return ApiResult(command.to_dict(), command.version)


def check_handoff(
    request: ApiRequest,
    /,
    *,
    handoff: JsonObject,
    defaults: JsonObject | None = None,
    rebase: bool = False,
    changed_files: list[str] | None = None,
) -> JsonObject:
    """Check a handoff without recording it; the arguments are those of recording one."""
    handoff, defaults = handoff_of_caller(request, handoff, defaults or {})
    options: JsonObject = {"rebase": rebase, "changed_files": changed_files}
    return request.workspace.check_handoff(handoff, **options, **defaults).to_dict()


def handoff_of_caller(
    request: ApiRequest, handoff: Any, defaults: JsonObject
) -> tuple[Any, JsonObject]:
    """A handoff in the name of the token's holder; unchanged if the token speaks for others."""
    if request.caller.may("others"):
        return handoff, defaults
    given = read_handoff(handoff, defaults)
    plain = dict(given.data)
    plain["from_agent"] = request.author("from_agent", plain.get("from_agent"))
    if isinstance(plain.get("decisions"), list):
        entries = cast("list[Any]", plain["decisions"])
        plain["decisions"] = [decision_of_caller(request, entry) for entry in entries]
    return given._replace(data=plain), {}


def decision_of_caller(request: ApiRequest, entry: Any) -> Any:
    """A decision without the name of somebody else."""
    if not isinstance(entry, dict):
        return entry
    fields = cast("JsonObject", entry)
    if fields.get("agent", "") in ("", None, request.caller.name):
        return fields
    request.note_claim("decisions", fields["agent"])
    return {name: value for name, value in fields.items() if name != "agent"}


def receive_handoff(request: ApiRequest, /, *, task: str, version: int, digest: str) -> ApiResult:
    """The state for a command's receiver, and for nobody else.

    Args:
        digest: Of the handoff's command.
    """
    target = request.workspace.files.state_document(task).get("target_agent", "")
    if target and not request.may_speak_for(target):
        raise NotAllowed(
            f"the handoff of {task} is for {target}, not for {request.caller.name}",
            next_step="Ask for your own: the inbox lists what waits for you.",
            code="not_recipient",
        )
    command = HandoffCommand(
        task_id=task,
        version=version,
        digest=digest,
        target_agent=target,
        phase="",
        outcome="",
        state_delta={},
        context_summary="",
        state_file="",
    )
    state = request.workspace.receive_handoff(command)
    return ApiResult(state.document, state.version)


# --- reading


def me(request: ApiRequest, /) -> JsonObject:
    """Whose token this is, and what it allows."""
    return request.caller.to_dict()


def changes(
    request: ApiRequest, /, *, after: int = 0, now: bool = False, limit: int = 500
) -> JsonObject:
    """What was recorded after a sequence number, oldest first.

    Args:
        now: Nothing but where it ends.
    """
    return request.workspace.changes(None if now else after, limit=limit).to_dict()


def recall(request: ApiRequest, /, **given: Any) -> list[JsonObject]:
    """Search; what is recorded as told is told to the token's holder."""
    told_to = given.pop("told_to", "")
    if told_to:
        told_to = request.author("told_to", told_to)
    found = request.workspace.recall(**given, told_to=told_to)
    return [each.to_dict() for each in found]


search = recall
"""The same, for a question that fits into a URL."""


def verify(request: ApiRequest, /, *, chain_only: bool = False) -> JsonObject:
    """Whether the store holds what was written."""
    return _verification(request.workspace.verify(chain_only=chain_only))


def verify_against(
    request: ApiRequest, /, *, against: JsonObject, chain_only: bool = False
) -> JsonObject:
    """Whether the store holds what was written, and still has what saved heads name.

    Args:
        against: As heads gave them, or that as text.
    """
    return _verification(request.workspace.verify(against, chain_only=chain_only))


def _verification(found: Verification) -> JsonObject:
    findings = [finding.to_dict() for finding in found.findings]
    counts = {"streams": found.streams, "records": found.records}
    return {"ok": found.ok, **counts, "findings": findings}


def conversations(request: ApiRequest, /, *, task: str, agent: str) -> list[JsonObject]:
    """What an agent said and was told in a task; for that agent alone."""
    if not request.may_speak_for(agent):
        raise NotAllowed(
            f"what {agent} was told in its conversations is its own",
            next_step="Ask for what is recorded of the task: the brief, the log.",
        )
    streams = WorkspaceStreams(request.workspace)
    prefix = f"{CONVERSATION_STREAM}{task}/{agent}/"
    return [
        {"peer": head.stream.removeprefix(prefix), "at": record.at, "kind": record.kind}
        | {"number": record.position, "body": record.document()}
        for head in streams.streams(prefix)
        for record in streams.records(head.stream)
    ]


# --- agents' contexts


def switch(
    request: ApiRequest,
    /,
    *,
    task: str,
    to_agent: str,
    from_agent: str = "",
    budget: int | None = None,
    counter: str | None = None,
    rules: str = "",
    profile: JsonObject | None = _NOT_GIVEN,
    record: bool = True,
) -> JsonObject:
    """The context of an agent that takes over; recorded if the token may speak for it.

    Args:
        to_agent: Who takes over.
        from_agent: Who leaves; by default the task's holder.
        rules: Text that goes between the profile and the summaries.
        profile: The agent's profile on the client's machine; null says that it has none.
        record: Whether the delivery is recorded.
    """
    given = () if profile is _NOT_GIVEN else (_profile(request, to_agent, profile),)
    ask = SwitchRequest(
        task=task,
        to_agent=to_agent,
        from_agent=from_agent,
        budget=budget,
        counter=counter,
        rules=rules,
        record=record and request.may_speak_for(to_agent),
        given=given,
    )
    return switch_context(request.context, ask).to_dict()


def _profile(request: ApiRequest, agent: str, sent: JsonObject | None) -> Any:
    return None if sent is None else profile_sent(request.context, agent, sent)


def context_prompt(
    request: ApiRequest,
    /,
    *,
    task: str,
    text: str,
    active: str = "",
    budget: int | None = None,
    counter: str | None = None,
    profile: JsonObject | None = None,
    record: bool = True,
) -> JsonObject:
    """A prompt, behind the context of the agent that it calls (@name, /name).

    Args:
        text: What the user typed.
        active: The active agent.
        profile: The profile, on the client's machine, of the agent that is called.
        record: Whether the delivery is recorded.
    """
    found = prompt_with(
        request.context,
        text,
        task,
        active,
        budget=budget,
        counter=counter,
        record=record,
        given=_profile(request, profile["name"], profile) if profile else None,
        only="" if request.caller.may("others") else request.caller.name,
    )
    switched = found.switched.to_dict() if found.switched else None
    return {"text": found.text, "agent": found.agent, "switched": switched}


def context_save_switch(
    request: ApiRequest, /, *, task: str, to_agent: str, from_agent: str = ""
) -> JsonObject:
    """Save a switch artifact for an agent that takes over later."""
    if not request.caller.may("others"):
        from_agent = request.author("from_agent", from_agent)
    saved = request.workspace.context.save_switch(task, to_agent=to_agent, from_agent=from_agent)
    return _with_state_url(saved)


def context_saved_switches(request: ApiRequest, /, **given: Any) -> list[JsonObject]:
    """The switch artifacts of a task, or those that wait for an agent."""
    return [_with_state_url(each) for each in request.workspace.context.saved_switches(**given)]


def _with_state_url(entry: JsonObject) -> JsonObject:
    """An artifact for a client, which can't open the server's files."""
    url = f"/api/tasks/{entry['task']}/state"
    return {**entry, "artifact": {**entry["artifact"], "full_record": url}}


def context_profile(request: ApiRequest, /, *, agent: str) -> JsonObject:
    """An agent's profile where the server is."""
    found = request.workspace.context.profile(agent)
    if found is None:
        raise NotFound(f"{agent[:80]!r} has no profile here", next_step="See /api/profiles.")
    return profile_document(found)


# --- decisions and knowledge


def decisions_store(
    request: ApiRequest,
    /,
    *,
    summary: str,
    rationale: str,
    task: str | None = None,
    agent: str | None = None,
    **fields: Any,
) -> JsonObject:
    """Record a decision under a key of its agent and time; the same again is the same."""
    entry = {"summary": summary, "rationale": rationale, **fields}
    entry["agent"] = request.author("agent", agent)
    key = store_plain_decision(request.context, entry, task)
    return {"key": key, "address": request.workspace.decisions.address(key, task)}


def decisions_get(request: ApiRequest, /, *, key: str, task: str | None = None) -> JsonObject:
    """The decision that was stored under a key, and its address.

    Args:
        key: What storing it gave.
    """
    decisions = request.workspace.decisions
    return {"decision": as_plain(decisions.get(key, task)), "address": decisions.address(key, task)}


def knowledge_relate(
    request: ApiRequest, /, *, source: str, relation: str, target: str, agent: str | None = None
) -> JsonObject:
    """Record that one node relates to another."""
    author = request.author("agent", agent)
    return {"is_new": request.workspace.knowledge.relate(source, relation, target, agent=author)}


def knowledge_render(request: ApiRequest, /, **given: Any) -> ApiResult:
    """The knowledge graph, or a part of it, in a format."""
    format = given.pop("format", "json")
    written = request.workspace.knowledge.render(format, **given)
    return ApiResult(None, text=written, media=_GRAPH_MEDIA[format])


def knowledge_edges(request: ApiRequest, /, **given: Any) -> list[JsonObject]:
    """Edges by any mix of source, relation and target."""
    return [edge_document(edge) for edge in request.workspace.knowledge.edges(**given)]


def knowledge_neighbours(request: ApiRequest, /, **given: Any) -> JsonObject:
    """The nodes that can be reached; `more` where there may be others."""
    found = request.workspace.knowledge.neighbours(**given)
    items = [
        {**place._asdict(), "path": [edge_document(edge) for edge in place.path]} for place in found
    ]
    return {"items": items, "more": ended_early(found)}


def knowledge_tagged(request: ApiRequest, /, **given: Any) -> list[JsonObject]:
    """Nodes with any of some tags."""
    return [
        {"node": node_document(each.node), "score": each.score, "tags": list(each.tags)}
        for each in request.workspace.knowledge.tagged(**given)
    ]


def knowledge_tasks_about(request: ApiRequest, /, **given: Any) -> JsonObject:
    """The tasks that found something about a tag."""
    return {"tasks": request.workspace.knowledge.tasks_about(**given)}


def knowledge_pack(request: ApiRequest, /, **given: Any) -> JsonObject:
    """The part of the graph that fits a task."""
    found = request.workspace.knowledge.pack(**given)
    graph = json.loads(write_graph(found.graph, "json"))
    return {**found._asdict(), "terms": list(found.terms), "graph": graph}


def written_knowledge(request: ApiRequest, /, *, since: int = 0) -> JsonObject:
    """What was recorded as knowledge, and what several agents wrote differently since a record.

    Args:
        since: A sequence number.
    """
    found = written_since(request.context, since)
    graph = json.loads(write_graph(found.graph, "json"))
    return {
        "graph": graph,
        "seq": found.seq,
        "reports": [report.to_dict() for report in found.reports],
    }


# --- maintenance


def maintenance_export(request: ApiRequest, /, *, task: str | None = None) -> ApiResult:
    """A bundle of one task or of everything, with the state of the server's repository."""
    data = bundle_of(request.context, task)
    return ApiResult(None, data=data, media="application/zip")


def maintenance_import_bundle(
    request: ApiRequest, /, *, bundle: str, fork: str = "", agent: str | None = None
) -> JsonObject:
    """Import a bundle, verified, all or nothing; imported again, it changes nothing.

    Args:
        bundle: Its bytes in base64.
        fork: A suffix, to keep both where histories differ.
    """
    try:
        data = base64.b64decode(bundle, validate=True)
    except (binascii.Error, ValueError) as error:
        problem = Problem("bundle", "invalid_form", str(error), "a bundle's bytes in base64")
        raise InvalidInput("nothing was imported", [problem]) from error
    author = request.author("agent", agent)
    return import_document(import_data(request.context, data, fork, agent=author))


def maintenance_backup(request: ApiRequest, /) -> ApiResult:
    """A copy of the whole store as one SQLite file, with the digests of tokens."""
    folder = tempfile.mkdtemp(prefix="passdown-backup-")
    path = os.path.join(folder, "ledger.db")
    try:
        request.workspace.maintenance.backup(path)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return ApiResult(None, file=path, media="application/vnd.sqlite3")


# --- relays


def _now(request: ApiRequest) -> str:
    return stamp(WorkspaceStreams(request.workspace).now())


def runs(request: ApiRequest, /, *, status: str = "") -> JsonObject:
    """Runs of relays, newest first; a damaged one hides no other."""
    found, damages = readable_runs(Runs(request.workspace))
    now = _now(request)
    items = [listed_document(run, now) for run in found if status in ("", run.status)]
    return {"items": items, "damaged": [damage.to_dict() for damage in damages]}


def run(request: ApiRequest, /, *, run: str) -> JsonObject:
    """One run in full: its turns, what was measured, what it waits for."""
    return run_document(Runs(request.workspace).get(run), _now(request))


def answer_run(
    request: ApiRequest, /, *, run: str, verdict: str, guidance: str = "", by: str | None = None
) -> JsonObject:
    """Answer the budget review that a run waits for.

    Args:
        by: Who decides; by default the token's holder.
    """
    author = request.author("by", by)
    found = Runs(request.workspace).answer(run, verdict, by=author, guidance=guidance)
    return _with_follow_up(request, found)


def stop_run(
    request: ApiRequest, /, *, run: str, why: str = "", by: str | None = None
) -> JsonObject:
    """End a run; turns under way come to their end.

    Args:
        by: Who decides; by default the token's holder.
    """
    found = Runs(request.workspace).stop(run, by=request.author("by", by), why=why)
    return _with_follow_up(request, found)


def _with_follow_up(request: ApiRequest, found: Run) -> JsonObject:
    """What follows is the engine's to write, and not the person's who decided."""
    with recorded_via(f"token:{request.caller.id}"):
        follow_up(request.workspace, found)
    return run_document(found, _now(request))


def express_items(request: ApiRequest, /, *, status: str = "") -> list[JsonObject]:
    """Express items and their outcomes, oldest first.

    Args:
        status: Such as sent, done, promoted.
    """
    return [each.to_dict() for each in express_records(request.workspace, status=status)]


def express_item(request: ApiRequest, /, *, item: str) -> JsonObject:
    """One express item and its outcome."""
    return express_record(request.workspace, item).to_dict()


def send_express(request: ApiRequest, /, *, item: JsonObject) -> JsonObject:
    """Send a small job that jumps the queue; the same item again is the same.

    Args:
        item: The job, as an express file has it.
    """
    author = request.author("by", item.get("by"))
    sent, why = submit(request.workspace, {**item, "by": author})
    return {**sent.to_dict(), "queued": not why, "not_queued": why}


def agents(request: ApiRequest, /) -> list[JsonObject]:
    """The status of each agent of a relay, and its task."""
    streams = WorkspaceStreams(request.workspace)
    last = [(head.stream, streams.last(head.stream)) for head in streams.streams(AGENT_STREAM)]
    return [
        {
            "agent": stream.removeprefix(AGENT_STREAM),
            "at": record.at,
            "stands": record.document()["stands"],
        }
        for stream, record in last
        if record is not None
    ]


def streams(request: ApiRequest, /, *, prefix: str) -> list[JsonObject]:
    """The heads of streams of runs, express items and agents.

    Args:
        prefix: run/, express/ or agent/, and a name.
    """
    found = WorkspaceStreams(request.workspace).streams(_readable_stream(prefix))
    return [head._asdict() for head in found]


def stream_records(request: ApiRequest, /, *, stream: str, after: int = 0) -> JsonObject:
    """The records of one of these streams, as they were hashed.

    Args:
        stream: run/, express/ or agent/, and a name.
        after: Records above this position.
    """
    found = WorkspaceStreams(request.workspace).records(_readable_stream(stream), after)
    items = [{**one._asdict(), "body": one.body.decode()} for one in found[:_RECORDS_PER_PAGE]]
    return {"items": items, "more": len(found) > _RECORDS_PER_PAGE}


def _readable_stream(stream: str) -> str:
    if stream.startswith(READ_BY_ALL):
        return stream
    raise NotFound(
        f"there is no stream {stream[:80]!r} to be read here",
        next_step=f"These can be: {', '.join(READ_BY_ALL)}.",
    )

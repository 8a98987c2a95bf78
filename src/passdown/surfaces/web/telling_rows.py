"""What agents are told and what can be found: briefs and their account, search, the graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from passdown.surfaces.web.operations import Answer, Operation, reading
from passdown.surfaces.web.pages import paged
from passdown.surfaces.web.schemas import (
    CURSOR,
    LIMIT,
    MANY,
    MAX_NUMBER,
    MAX_TEXT,
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
from passdown.surfaces.web.task_rows import AGENT, PATH, TASK_ID
from passdown.surfaces.web.writing_rows import ITEM_ID

if TYPE_CHECKING:
    from passdown.surfaces.web.operations import Call
    from passdown.workspace import Workspace

Document = dict[str, Any]

FORMATS = ("markdown", "plain", "yaml", "json", "injection", "summary")
GRAPH_FORMS = {
    "json": "application/json",
    "dot": "text/vnd.graphviz",
    "mermaid": "text/plain",
    # A picture may hold words of anybody: as plain text no browser takes it for a page.
    "svg": "text/plain",
}
_TAGS = listed(text(most=64))
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


def brief(workspace: Workspace, call: Call) -> Answer:
    """A brief made anew; the desk of the server answers with those that are made already."""
    agent, is_own = call.listener()
    given: Document = {**call.given, "record": is_own and call.given.get("record", True)}
    found = workspace.brief(agent=agent, **given)
    return Answer(found.document(), found.version)


def _check_brief(workspace: Workspace, call: Call) -> Answer:
    return Answer(workspace.check_brief(**call.given)._asdict())


def _deliveries(workspace: Workspace, call: Call) -> Answer:
    task, limit = call.given.get("task"), call.given.get("limit", 50)
    before = int(call.given.get("cursor", 0)) or MAX_NUMBER
    found = workspace.briefs(task, limit=limit + 1, before=before)
    return paged(found, limit, lambda last: last["number" if task else "seq"])


def _why(workspace: Workspace, call: Call) -> Answer:
    agent = call.given.get("agent") or call.caller.name
    return Answer(workspace.why(call.given["item"], agent=agent))


def _recall(workspace: Workspace, call: Call) -> Answer:
    given = dict(call.given)
    told_to = given.pop("told_to", "")
    if told_to and not call.is_about_itself(told_to):
        call.note_claim("told_to", told_to)
        told_to = call.caller.name
    found = workspace.recall(given.pop("query"), told_to=told_to, **given)
    return Answer({"items": [each.as_document() for each in found]})


def _graph(workspace: Workspace, call: Call) -> Answer:
    form = call.given.pop("form", "json")
    written = workspace.graph_text(form, **call.given)
    return Answer(None, text=written, media=GRAPH_FORMS[form])


def _learn(workspace: Workspace, call: Call) -> Answer:
    edges = [tuple(edge) for edge in call.given.pop("forget_edges", ())]
    options: Document = {"agent": call.author(), "key": call.key, "forget_edges": edges}
    receipt = workspace.learn(**options, **call.given)
    return Answer(receipt.as_document(), receipt.version)


def _journal(workspace: Workspace, call: Call) -> Answer:
    return Answer(workspace.journal(call.given.get("task", ""), limit=call.given.get("limit", 200)))


_FILTERS = {
    "kinds": listed(text(most=40)),
    "agent": text(most=64),
    "task": TASK_ID,
    "tags": _TAGS,
    "path": text("a file or a folder", most=1_024),
    "statuses": listed(text(most=40)),
    "since": text("a date or a time", most=40),
    "until": text("a date or a time", most=40),
    "live_only": truth(),
    "by_words": truth("leave meaning out"),
    "limit": whole(least=1, most=1_000),
    "told_to": text("record it as told to this agent", most=64),
}

_PART = {
    "around": listed(text(most=200), "ids of nodes"),
    "depth": whole("steps", most=1_000),
    "task": TASK_ID,
    "tags": _TAGS,
    "types": _TAGS,
}

ROWS = (
    reading(
        "brief",
        "/api/tasks/{task}/brief",
        "What an agent needs to know of a task, within a budget of tokens",
        brief,
        parameters=PATH,
        query={
            "agent": AGENT,
            "budget": whole("in tokens", least=1, most=10**9),
            "format": choice(FORMATS),
            "counter": text("how tokens are counted", most=40),
            "tags": _TAGS,
            "record": truth("whether it is recorded as told; default: true"),
        },
        answer=BRIEF,
        tag="briefs",
    ),
    Operation(
        "check_brief",
        "POST",
        "/api/tasks/{task}/brief/check",
        "read",
        "Whether a brief was made from the version that is stored now",
        _check_brief,
        parameters=PATH,
        body=record({"text": text(most=10 * MAX_TEXT)}, ["text"]),
        answer=answer("is_current", "made_from", "now"),
        tag="briefs",
    ),
    reading(
        "task_deliveries",
        "/api/tasks/{task}/deliveries",
        "What was told of a task, to whom, newest first",
        _deliveries,
        parameters=PATH,
        query={"limit": LIMIT, "cursor": CURSOR},
        answer=page(_DELIVERY),
        tag="briefs",
    ),
    reading(
        "deliveries",
        "/api/deliveries",
        "What was told to whom, newest first",
        _deliveries,
        query={"limit": LIMIT, "cursor": CURSOR},
        answer=page(_DELIVERY),
        tag="briefs",
    ),
    reading(
        "why",
        "/api/items/{item}/why",
        "Whether and when an agent was told an item, or what kept it out",
        _why,
        parameters={"item": ITEM_ID},
        query={"agent": text("default: the token's name", most=64)},
        answer=answer("item", "agent", "reason", told={"type": "boolean"}),
        tag="briefs",
    ),
    reading(
        "recall",
        "/api/recall",
        "What was recorded that has to do with a question, best first",
        _recall,
        query={"query": {**text("the question"), "required": True}, **_FILTERS},
        answer=answer(items=_OBJECTS),
        tag="search",
    ),
    Operation(
        "search",
        "POST",
        "/api/recall",
        "read",
        "The same, for a question that is too long for an address",
        _recall,
        body=record({"query": text("the question", most=MAX_TEXT), **_FILTERS}, ["query"]),
        answer=answer(items=_OBJECTS),
        tag="search",
    ),
    reading(
        "graph",
        "/api/graph",
        "The knowledge graph, or a part of it; `form` says as what",
        _graph,
        query={"form": choice(tuple(GRAPH_FORMS)), **_PART},
        answer={"type": "object"},
        media=tuple(GRAPH_FORMS.values()),
        is_heavy=True,
        tag="search",
    ),
    Operation(
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
    reading(
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

"""Parts of the knowledge graph: edges, what is around a node, what is under tags, packs; and what
is remembered that might not deserve to be.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from passdown.model.graph_files import write_graph
from passdown.model.knowledge import edge_document, node_document
from passdown.surfaces.web.operations import Answer, Operation, reading
from passdown.surfaces.web.schemas import answer, choice, listed, text, whole
from passdown.surfaces.web.task_rows import PATH
from passdown.workspace.knowing import ended_early
from passdown.workspace.syncing import written_since

if TYPE_CHECKING:
    from passdown.surfaces.web.operations import Call
    from passdown.workspace import Workspace

Document = dict[str, Any]

_NODE = text("the id of a node", most=400)
_WORDS = listed(text(most=400))
_OBJECTS = {"type": "array", "items": {"type": "object"}}
_ITEMS = answer(items=_OBJECTS)


def _edges(workspace: Workspace, call: Call) -> Answer:
    return Answer({"items": [edge_document(edge) for edge in workspace.edges(**call.given)]})


def _neighbours(workspace: Workspace, call: Call) -> Answer:
    found = workspace.neighbours(**call.given)
    items = [
        {**place._asdict(), "path": [edge_document(edge) for edge in place.path]} for place in found
    ]
    return Answer({"items": items, "more": ended_early(found)})


def _tagged(workspace: Workspace, call: Call) -> Answer:
    found = workspace.tagged(call.given.pop("tags"), **call.given)
    items = [
        {"node": node_document(each.node), "score": each.score, "tags": list(each.tags)}
        for each in found
    ]
    return Answer({"items": items})


def _about(workspace: Workspace, call: Call) -> Answer:
    return Answer({"tasks": workspace.tasks_about(**call.given)})


def _pack(workspace: Workspace, call: Call) -> Answer:
    found = workspace.pack(**call.given)
    graph = json.loads(write_graph(found.graph, "json"))
    return Answer({**found._asdict(), "terms": list(found.terms), "graph": graph})


def _written(workspace: Workspace, call: Call) -> Answer:
    found = written_since(workspace, call.given.get("since", 0))
    graph = json.loads(write_graph(found.graph, "json"))
    reports = [report.as_document() for report in found.reports]
    return Answer({"graph": graph, "seq": found.seq, "reports": reports})


def _audit(workspace: Workspace, call: Call) -> Answer:
    return Answer(workspace.audit(**call.given))


ROWS: tuple[Operation, ...] = (
    reading(
        "edges",
        "/api/graph/edges",
        "Edges by any mix of source, relation and target; all of them by none",
        _edges,
        query={"source": _NODE, "relation": text(most=400), "target": _NODE},
        answer=_ITEMS,
        is_heavy=True,
        tag="search",
    ),
    reading(
        "neighbours",
        "/api/graph/neighbours",
        "The nodes that can be reached from one, nearest first, each with the edges there; `more` "
        "where there may be others: fewer steps, a direction or relations narrow it down",
        _neighbours,
        query={
            "node": {**_NODE, "required": True},
            "depth": whole("steps", least=1, most=1_000),
            "direction": choice(("out", "in", "both")),
            "relations": _WORDS,
        },
        answer=answer(items=_OBJECTS, more={"type": "boolean"}),
        is_heavy=True,
        tag="search",
    ),
    reading(
        "tagged",
        "/api/graph/tagged",
        "Nodes under any of some tags, those that share most of them first",
        _tagged,
        query={
            "tags": {**_WORDS, "required": True},
            "types": _WORDS,
            "limit": whole(least=1, most=10**9),
        },
        answer=_ITEMS,
        tag="search",
    ),
    reading(
        "tasks_about",
        "/api/graph/about",
        "The tasks that found something about a tag, each with what it found",
        _about,
        query={"tag": {**text(most=400), "required": True}, "types": _WORDS},
        answer=answer(tasks={"type": "object"}),
        tag="search",
    ),
    reading(
        "pack",
        "/api/tasks/{task}/pack",
        "The part of the graph that has to do with a task, within nodes and tokens",
        _pack,
        parameters=PATH,
        query={
            "nodes": whole(least=1, most=500),
            "budget": whole("in tokens", least=1, most=10**9),
            "depth": whole("steps around what fits", most=1_000),
            "counter": text("how tokens are counted", most=40),
            "form": choice(("dot", "json")),
        },
        answer=answer("terms", "graph", "left_out", text={"type": "string"}),
        is_heavy=True,
        tag="search",
    ),
    reading(
        "written_knowledge",
        "/api/knowledge",
        "What was written down, and since a record, what several agents wrote differently",
        _written,
        query={"since": whole("a sequence number")},
        answer=answer("graph", "reports", seq={"type": "integer"}),
        is_heavy=True,
        tag="search",
    ),
    reading(
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

"""`knowledge` and `graph`: write, forget, exchange and query nodes and edges."""

from __future__ import annotations

import os.path
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

from passdown.cli import output as out
from passdown.cli.parsing import Author, comma_list, command, operation
from passdown.cli.session import UsageError, plain, read_text
from passdown.core import graph
from passdown.core.rows import NODE_PREFIX
from passdown.core.text import first_few
from passdown.errors import NotFound

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from passdown.cli.session import Session
    from passdown.core.graph import Edge, Node
    from passdown.core.types import JsonObject
    from passdown.knowledge.sync import KnowledgeSync
    from passdown.workspace import Workspace

_TOP = 50
_MAX_NODES = 5
_NODE = "NODE: T-1#d3, task:T-1, agent:NAME, file:PATH or an id"
_SYNC_FILE = "knowledge.dot"


@command(
    "graph show",
    "",
    "--around T-1#d2 --depth 2",
    "--task T-1 --format svg --output graph.svg",
    "--tag auth --type decision --format mermaid",
    like="knowledge.graph",
    choices={"types": graph.NODE_TYPES},
    flags={"around": "--around"},
    help={
        "around": "NODE: start from this node",
        "task": "start from this task",
        "tags": "start from nodes with this tag",
        "format": "svg and mermaid: pictures",
        "output": "FILE: write it to this file",
    },
)
def graph_show(
    session: Session,
    *,
    around: Sequence[str] = (),
    format: Literal["text", "json", "dot", "mermaid", "svg"] = "text",
    output: str | None = None,
    **part: Any,
) -> None:
    """Show the graph, or the part of it around nodes, a task or tags."""
    if output and format == "text":
        raise UsageError("--output needs a --format: json, dot, mermaid or svg")
    if session.as_json and format not in ("text", "json"):
        raise UsageError("--json and --format name different formats")
    form = "json" if session.as_json else format
    nodes = [node_id(name) for name in around]
    with session.open() as workspace, out.busy("reading"):
        for name in nodes:
            node_or_hint(workspace, name)
        found = workspace.knowledge.graph(around=nodes, **part)
    if form == "text":
        print_graph(found.nodes, found.edges)
        return
    from passdown.knowledge.graph_files import graph_starts, graph_text

    starts = graph_starts(found, around=nodes, task=part["task"], tags=part["tags"])
    text = graph_text(found, form, _title(around, **part), starts)
    if output:
        out.write_text(output, text)
    elif form == "json":
        import json

        show = out.print_json if session.as_json else out.print_document
        show(json.loads(text))
    else:
        out.verbatim(text.removesuffix("\n"))


def _title(
    around: Sequence[str], *, task: str, tags: Sequence[str], depth: int, types: Sequence[str]
) -> str:
    """What a picture shows, in the words of the command that asked for it."""
    parts = [f"--around {name}" for name in around]
    parts += [f"--task {task}"] if task else []
    parts += [f"--tag {tag}" for tag in tags]
    parts += [f"--depth {depth}"] if parts and depth != 1 else []
    parts += [f"--type {name}" for name in types]
    return f"Knowledge graph: {' '.join(parts)}" if parts else ""


def print_graph(nodes: Iterable[Node], edges: Iterable[Edge]) -> None:
    """Print nodes as a table and edges as arrows."""
    rows = [[node.id, node.type, node.tags, node.summary] for node in nodes]
    out.table(("node", "type", "tags", "summary"), rows, "nothing is known yet")
    arrows = [arrow(edge) for edge in edges]
    if arrows:
        out.line()
        out.heading(out.counted(len(arrows), "edge"))
        for text in arrows:
            out.line(text, 2)


def arrow(edge: Edge) -> str:
    """An edge as text."""
    return f"{edge.source} -> {graph.relation_label(edge)} -> {edge.target}"


def node_id(text: str) -> str:
    """A node's id; search gives written nodes as `node:ID`."""
    return text.removeprefix(NODE_PREFIX)


def node_or_hint(workspace: Workspace, name: str) -> Node:
    """A node that has to be known; where it isn't, the error names what was probably meant."""
    try:
        return workspace.knowledge.graph(around=[name], depth=0).nodes[0]
    except NotFound as error:
        for meant in (f"{kind}:{name}" for kind in ("task", "file", "agent")):
            with suppress(NotFound):
                workspace.knowledge.graph(around=[meant], depth=0)
                break
        else:
            raise
        raise NotFound(error.message, next_step=f"Did you mean {meant}?") from error


@command(
    "graph near",
    "T-1#d2",
    "file:src/login.py --direction in --depth 2",
    like="knowledge.neighbours",
    choices={"relations": graph.RELATIONS},
    help={"node": _NODE, "relations": "RELATION: only over these edges", "depth": "steps"},
)
def graph_near(
    session: Session, node: str, *, direction: Literal["out", "in", "both"] = "both", **options: Any
) -> None:
    """Show what can be reached from a node, and how."""
    start = node_id(node)
    with session.open() as workspace, out.busy("reading"):
        node_or_hint(workspace, start)
        found = workspace.knowledge.neighbours(start, direction=direction, **options)
    document = [
        {"node": each.node, "depth": each.depth, "path": [list(edge.key) for edge in each.path]}
        for each in found
    ]
    rows = [[reached.depth, reached.node, _path_text(start, reached.path)] for reached in found]
    empty = f"nothing leads from or to {start}"
    session.show(document, lambda _: out.table(("steps", "node", "by way of"), rows, empty))


def _path_text(start: str, path: Iterable[Edge]) -> str:
    """The way from a start: an edge that is walked against its direction points back."""
    text = at = start
    for edge in path:
        is_forward = edge.source == at
        at = edge.target if is_forward else edge.source
        words = graph.relation_label(edge)
        text += f" -> {words} -> {at}" if is_forward else f" <- {words} <- {at}"
    return text


operation(
    "graph tagged",
    out.row_printer(
        "score=digits, node=id, type, shared, summary",
        "nothing has these tags",
        whole="",
        digits=lambda node: f"{node['score']:.2f}",
    ),
    "auth web",
    "auth --type gotcha --json",
    method="knowledge.tagged",
    line="list nodes with some tags, those that share most of them first",
    finish=lambda _, found: [
        {**graph.part_document(node), "score": score, "shared": list(tags)}
        for node, score, tags in found
    ],
    read={"tags": lambda given: [tag for each in given for tag in each]},
    choices={"types": graph.NODE_TYPES},
    types={"tags": comma_list},
    help={"tags": "TAG: one of them is enough"},
)


@command(
    "graph about",
    "auth",
    "auth --type gotcha --type decision",
    choices={"types": graph.NODE_TYPES},
    help={"tag": "TAG: what it is about", "types": "TYPE: what was found; default: patterns"},
)
def graph_about(session: Session, tag: str, *, types: Sequence[str] = ()) -> None:
    """List the tasks that found something about a tag."""
    with session.open() as workspace:
        found = workspace.knowledge.tasks_about(tag, **({"types": types} if types else {}))
        others = {} if found else workspace.knowledge.tasks_about(tag, types=graph.NODE_TYPES)
    rows = [
        [task, node["id"], node["type"], node["summary"]]
        for task, nodes in found.items()
        for node in nodes
    ]
    there = sorted({node["type"] for nodes in others.values() for node in nodes})
    hint = f"; there is more with {' '.join(f'--type {name}' for name in there)}" if there else ""
    empty = f"no task found a {' or '.join(types) or 'pattern'} about {tag}{hint}"
    session.show(found, lambda _: out.table(("task", "node", "type", "summary"), rows, empty))


@command("graph tags", "", "--limit 200", help={"limit": f"at most; default: {_TOP}, all in JSON"})
def graph_tags(session: Session, *, limit: int | None = None) -> None:
    """List tags with the nodes under them, the most used first."""
    with session.open() as workspace, out.busy("reading"):
        found = workspace.knowledge.graph().tag_index()
    ordered = sorted(found, key=lambda tag: (-len(found[tag]), tag))
    if session.as_json:
        out.print_json({tag: found[tag] for tag in ordered[:limit]})
        return
    kept = ordered[: _TOP if limit is None else limit]
    rows = [[tag, len(found[tag]), first_few(found[tag], _MAX_NODES)] for tag in kept]
    out.table(("tag", "nodes", "which"), rows, "no tags yet", short=("which",))
    if len(ordered) > len(kept):
        out.line(f"and {out.counted(len(ordered) - len(kept), 'more tag')} (--limit)")


_ATTRIBUTES = ("description", *graph.CHOICES, "status", "path")


@command(
    "knowledge add",
    "redis --type component --summary Cache --edge uses:tcp",
    "redis --edge must_follow:T-1#d2",
    "redis --tag web    # the rest of it stays as it is",
    "no-globals --type rule --summary 'No globals'",
    "--file graph.dot",
    fields=dict.fromkeys(("type", "summary", *_ATTRIBUTES), "str"),
    choices={"type": graph.NODE_TYPES, "status": graph.KNOWLEDGE_STATUSES, **graph.CHOICES},
    flags={"others": "--set"},
    help={
        "node": "ID: the id of the node",
        "tags": "lowercase, hyphenated",
        "type": "what the node is",
        "summary": "one line, at most 100 characters",
        "description": "the rest",
        **dict.fromkeys(graph.CHOICES, "of the node"),
        "status": "default: current",
        "path": "PATH: the file that it is about",
        "others": "NAME=VALUE: any other attribute; NAME= removes it",
        "replace": "replace a known node instead of adding to it",
        "edges": f"RELATION:TARGET: from the node; {', '.join(graph.RELATIONS)}",
        "file": "a graph as JSON or DOT, or - for stdin",
        "task": "where it was found; default: all work",
    },
)
def knowledge_add(
    session: Session,
    node: str | None = None,
    *,
    tags: Sequence[str] = (),
    others: Sequence[str] = (),
    edges: Sequence[str] = (),
    replace: bool = False,
    file: str | None = None,
    task: str | None = None,
    key: str | None = None,
    agent: Author,
    **fields: str | None,
) -> None:
    """Write a node, its edges, or a file of both."""
    attributes = {name: value for name in _ATTRIBUTES if (value := fields[name])}
    has_node = any((tags, others, attributes, fields["type"], fields["summary"]))
    if file:
        if node or has_node or edges or replace:
            raise UsageError("--file has its own nodes and edges: give a file or an ID, not both")
        _add_file(session, file, agent=agent, task=task, key=key)
        return
    if not node:
        raise UsageError("name an ID for the node, or a --file")
    if not has_node and not edges:
        raise UsageError("say what it is (--type and --summary), or give it an --edge")
    name = node_id(node)
    new = {
        "id": name,
        "type": fields["type"] or "",
        "summary": fields["summary"] or "",
        "tags": list(tags),
        "attributes": {**attributes, **_pairs_of(others)},
    }
    with session.open() as workspace:
        old = written_node(workspace, name)
        nodes = [new if replace else merged_node(old, new)] if has_node else []
        found = [_edge(name, text) for text in edges]
        receipt = workspace.knowledge.add(nodes, found, agent=agent, task=task, key=key)
        changes = node_changes(old, written_node(workspace, name))
    if session.as_json:
        out.print_json({**receipt.to_dict(), "changes": changes})
        return
    kept = tuple(warning for warning in receipt.warnings if warning.code != "replaced")
    out.print_receipt(receipt._replace(warnings=kept))
    out.pairs(
        [
            (name, f"{out.shown(change['old']) or '-'} -> {out.shown(change['new']) or '-'}")
            for name, change in changes.items()
        ],
        2,
    )


def _pairs_of(texts: Sequence[str]) -> dict[str, str]:
    for text in texts:
        if "=" not in text:
            raise UsageError(f"--set {text}: expected NAME=VALUE")
    return {text.partition("=")[0]: text.partition("=")[2] for text in texts}


def _edge(source: str, text: str) -> JsonObject:
    relation, mark, target = text.partition(":")
    if not mark or not target:
        raise UsageError(f"--edge {text}: expected RELATION:TARGET")
    return {"source": source, "relation": relation, "target": node_id(target)}


def written_node(workspace: Workspace, name: str) -> Node | None:
    """A written node; None for an unknown one, and for a reference to a task, file or item."""
    with suppress(NotFound):
        found = workspace.knowledge.graph(around=[name], depth=0).nodes
        return None if graph.is_reference(name) else found[0]
    return None


def merged_node(old: Node | None, given: JsonObject) -> JsonObject:
    """What is given, and of a known node all that isn't: tags add up, an empty attribute takes one
    away.
    """
    if old is None:
        return given
    return {
        "id": old.id,
        "type": given["type"] or old.type,
        "summary": given["summary"] or old.summary,
        "tags": [*dict.fromkeys((*old.tags, *given["tags"]))],
        "attributes": {**old.attributes, **given["attributes"]},
    }


def node_changes(old: Node | None, new: Node | None) -> dict[str, JsonObject]:
    """What differs between two states of a node, with `old` and `new`; nothing for a new one."""
    if old is None or new is None:
        return {}
    before, now = (
        {"type": n.type, "summary": n.summary, "tags": sorted(n.tags), **n.attributes}
        for n in (old, new)
    )
    return {
        name: {"old": before.get(name), "new": now.get(name)}
        for name in {**before, **now}
        if before.get(name) != now.get(name)
    }


def _add_file(
    session: Session, path: str, *, agent: str, task: str | None, key: str | None
) -> None:
    """Write what a file holds; its edges may lead to what is known already.

    A file may be the whole graph as it was shown: what only records may say is left out where they
    say the same. Anything else of that kind is refused.
    """
    from passdown.core.graph import is_derived_edge, is_reserved
    from passdown.knowledge.graph_files import MAX_BYTES, read_graph

    with session.open() as workspace:
        known = workspace.knowledge.graph()
        there = {node.id: node for node in known.nodes}
        said = {edge.key: edge for edge in known.edges}
        file = read_graph(read_text(path, MAX_BYTES), known=there)
        nodes = [n for n in file.nodes if not is_reserved(n.id) or there.get(n.id) != n]
        edges = [e for e in file.edges if not is_derived_edge(e.key) or said.get(e.key) != e]
        left_out = {"nodes": len(file.nodes) - len(nodes), "edges": len(file.edges) - len(edges)}
        parts = [out.counted(n, name.removesuffix("s")) for name, n in left_out.items() if n]
        note = f"left out, since records say the same: {' and '.join(parts)}" if parts else ""
        if note and not nodes and not edges:
            document: JsonObject = {"items": [], "is_replay": True, "left_out": left_out}
            session.show(document, lambda _: out.line(f"nothing to write; {note}"))
            return
        receipt = workspace.knowledge.add(nodes, edges, agent=agent, task=task, key=key)
    if session.as_json:
        out.print_json({**receipt.to_dict(), "left_out": left_out})
        return
    out.print_receipt(receipt)
    if note:
        out.line(note, 2)


@command(
    "knowledge show",
    "session-store",
    "T-1#d2 --json",
    help={"node": "ID: of a written node; also T-1#d3, task:T-1..."},
)
def knowledge_show(session: Session, node: str) -> None:
    """Show one node and its edges."""
    name = node_id(node)
    with session.open() as workspace:
        found, edges = node_or_hint(workspace, name), _edges_of(workspace, name)
    if session.as_json:
        out.print_json(
            {**graph.part_document(found), "edges": [graph.part_document(edge) for edge in edges]}
        )
        return
    out.heading(f"{found.id}  {found.summary}")
    out.pairs([("type", found.type), ("tags", found.tags), *found.attributes.items()], 2)
    if edges:
        out.line()
    for edge in edges:
        out.line(arrow(edge), 2)


@command(
    "knowledge forget",
    "session-store",
    "session-store --edge uses:redis",
    help={"node": "ID: of the node", "edges": "RELATION:TARGET: only this edge of the node"},
)
def knowledge_forget(
    session: Session, node: str, *, edges: Sequence[str] = (), agent: Author
) -> None:
    """Remove a written node from the graph, or only edges of it; history keeps both."""
    name = node_id(node)
    keys = [(e["source"], e["relation"], e["target"]) for e in (_edge(name, t) for t in edges)]
    with session.open() as workspace:
        gone = [edge for key in keys for edge in _known_edge(workspace, key)]
        if not keys:
            gone = _edges_of(workspace, name)
        nodes = [] if keys else [name]
        receipt = workspace.knowledge.add(agent=agent, forget_nodes=nodes, forget_edges=keys)
    if session.as_json:
        edges_gone = [graph.part_document(edge) for edge in gone]
        out.print_json({**receipt.to_dict(), "forgotten_edges": edges_gone})
        return
    out.print_receipt(receipt)
    for edge in gone:
        out.line(f"forgotten: {arrow(edge)}", 2)


def _edges_of(workspace: Workspace, node: str) -> list[Edge]:
    """Every edge that leads from a node or to it."""
    coming = [edge for edge in workspace.knowledge.edges(target=node) if edge.source != node]
    return [*workspace.knowledge.edges(source=node), *coming]


def _known_edge(workspace: Workspace, key: tuple[str, str, str]) -> list[Edge]:
    source, relation, target = key
    found = workspace.knowledge.edges(source=source, relation=relation, target=target)
    if not found:
        raise NotFound(
            f"there is no edge {source} -> {relation} -> {target}",
            next_step="passdown knowledge show ID lists the edges of a node.",
        )
    return found


@command(
    "knowledge sync",
    "",
    "docs/knowledge.json --agent planner",
    help={"file": "default: knowledge.dot of the project"},
)
def knowledge_sync(session: Session, file: str | None = None, *, agent: Author) -> int:
    """Synchronise the knowledge file and the graph; exit code 1 on a conflict."""
    with session.open() as workspace:
        path = file or ""
        if path and not os.path.isabs(path):
            # Relative to the current folder, made relative to the project's.
            path = os.path.relpath(os.path.abspath(path), os.path.realpath(workspace.root))
        target = os.path.normpath(os.path.join(workspace.root, path or _SYNC_FILE))
        before = workspace.knowledge.edges()
        is_empty = all(graph.is_reference(node.id) for node in workspace.knowledge.graph().nodes)
        if is_empty and not os.path.lexists(target):
            from passdown.knowledge.sync import KnowledgeSync

            nothing = KnowledgeSync(target, 0, 0, (), False, "", ())
            said = f"nothing to sync: no written nodes, and {target} doesn't exist"
            session.show(_sync_document(nothing, False), lambda _: out.line(said))
            return 0
        found = workspace.knowledge.sync(path, agent=agent)
        is_updated = bool(found.taken) or workspace.knowledge.edges() != before
    session.show(_sync_document(found, is_updated), lambda _: _print_sync(found, is_updated))
    return 1 if found.reports else 0


def _sync_document(found: KnowledgeSync, is_updated: bool) -> JsonObject:
    document = {**found._asdict(), "taken": list(found.taken), "reports": plain(found.reports)}
    return {**document, "is_graph_changed": is_updated}


def _print_sync(found: KnowledgeSync, is_updated: bool) -> None:
    said = {
        (False, False): "nothing changed",
        (True, False): "file written",
        (False, True): "file unchanged, graph updated",
        (True, True): "file written, graph updated",
    }[found.is_changed, is_updated]
    size = f"{out.counted(found.nodes, 'node')}, {out.counted(found.edges, 'edge')}"
    out.line(f"{said}, {found.path}: {size}")
    if found.taken:
        out.line(f"taken from the file: {', '.join(found.taken)}", 2)
    if found.kept_aside:
        out.line(f"the old file is kept as {found.kept_aside}", 2)
    out.print_problems(found.reports)


@command(
    "knowledge pack",
    "T-1",
    "T-1 --nodes 10 --budget 800 --depth 2 --format json",
    like="knowledge.pack",
    choices={"format": ("dot", "json")},
    help={"nodes": "at most", "budget": "TOKENS: at most", "format": "of the text"},
)
def knowledge_pack(session: Session, task: str, **options: Any) -> None:
    """Print the part of the graph that has to do with a task, for its prompt."""
    with session.open() as workspace:
        found = workspace.knowledge.pack(task, **options)
    document = found._asdict()
    part = document.pop("graph")
    document["nodes"] = [graph.part_document(node) for node in part.nodes]
    document["edges"] = [graph.part_document(edge) for edge in part.edges]
    session.show(document, _print_pack)


def _print_pack(found: JsonObject) -> None:
    if found["text"]:
        out.verbatim(found["text"].removesuffix("\n"))
    left = f"; {found['left_out']} had no room" if found["left_out"] else ""
    size = (
        f"{out.counted(len(found['nodes']), 'node')}, {out.counted(found['tokens'], 'token')}{left}"
    )
    has_any = found["text"] or left
    print(size if has_any else f"no node matches a word of {found['task']}", file=sys.stderr)

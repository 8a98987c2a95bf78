"""`knowledge` and `graph`: write, forget, exchange and query nodes and edges."""

from __future__ import annotations

import os.path
import sys
from typing import TYPE_CHECKING, NamedTuple

from passdown.cli.output import (
    counted,
    heading,
    line,
    pairs,
    print_json,
    print_problems,
    print_receipt,
    shown,
    table,
    verbatim,
)
from passdown.cli.parsing import (
    FILE,
    TAG,
    TASK,
    listed,
    several,
    token_budget,
    whole_number,
    with_agent,
    with_store,
)
from passdown.cli.session import UsageError, author, read_input, workspace_of
from passdown.core.graph import CHOICES, KNOWLEDGE_STATUSES, NODE_TYPES, RELATIONS

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable

    from passdown.cli.parsing import Parser
    from passdown.core.graph import Edge, Graph, Node
    from passdown.core.types import JsonObject
    from passdown.workspace import Workspace
    from passdown.workspace.knowledge_packs import Pack
    from passdown.workspace.knowledge_sync import KnowledgeSync


NODE = "NODE"
_FORMATS = ("text", "json", "dot", "mermaid", "svg")
_DIRECTIONS = ("out", "in", "both")
_TOP = 50
_MAX_NODES = 5


def graph(parser: Parser) -> None:
    """The arguments of `graph` and the verbs below it."""
    _show_parser(parser)
    near = parser.subverb(
        "near",
        "what can be reached from a node, and how",
        "passdown graph near T-1#d2",
        "passdown graph near file:src/login.py --direction in --depth 2 --relation relates_to",
        run=_graph_near,
    )
    near.add_argument("node", metavar=NODE, help="T-1#d3, task:T-1, agent:NAME, file:PATH or an id")
    near.add_argument(
        "--depth", metavar="N", type=whole_number, default=1, help="steps; default: 1"
    )
    near.add_argument("--direction", choices=_DIRECTIONS, default="both", help="default: both")
    _add_choices(near, "--relation", "relations", RELATIONS, "over these edges alone")
    with_store(near)
    _tag_parsers(parser)


def _tag_parsers(parser: Parser) -> None:
    tagged = parser.subverb(
        "tagged",
        "nodes under some tags, those that share most of them first",
        "passdown graph tagged auth web",
        "passdown graph tagged auth --type gotcha --json",
        run=_graph_tagged,
    )
    tagged.add_argument("tags", metavar=TAG, nargs="+", type=several)
    _add_types(tagged)
    tagged.add_argument(
        "--limit", metavar="N", type=whole_number, default=10, help="at most; default: 10"
    )
    about = parser.subverb(
        "about",
        "which tasks found something about a tag",
        "passdown graph about auth",
        "passdown graph about auth --type gotcha --type decision",
        run=_graph_about,
    )
    about.add_argument("tag", metavar=TAG)
    _add_choices(about, "--type", "types", NODE_TYPES, "what was found; default: patterns")
    tags = parser.subverb(
        "tags",
        "tags with the nodes under them, the most used first",
        "passdown graph tags",
        "passdown graph tags --limit 200",
        run=_graph_tags,
    )
    tags.add_argument(
        "--limit", metavar="N", type=whole_number, help=f"at most; default: {_TOP}, all in JSON"
    )
    for each in (tagged, about, tags):
        with_store(each)


def _show_parser(parser: Parser) -> None:
    show = parser.subverb(
        "show",
        "the graph, or the part of it around nodes, a task or tags",
        "passdown graph show",
        "passdown graph show --around T-1#d2 --depth 2",
        "passdown graph show --task T-1 --format svg --output graph.svg",
        "passdown graph show --tag auth --type decision --format mermaid",
        run=_graph_show,
    )
    listed(show, "--around", NODE, "start from this node")
    show.add_argument(
        "--depth", metavar="N", type=whole_number, default=1, help="steps from there; default: 1"
    )
    show.add_argument("--task", metavar=TASK, default="", help="start from this task")
    listed(show, "--tag", TAG, "start from what is under it", "tags")
    _add_types(show)
    show.add_argument(
        "--format", choices=_FORMATS, default="text", help="svg and mermaid: pictures"
    )
    show.add_argument("--output", metavar=FILE, help="write it to this file")
    with_store(show)


def _add_choices(parser: Parser, option: str, dest: str, words: tuple[str, ...], help: str) -> None:
    """An option that takes one of some words and may be repeated."""
    name = option.removeprefix("--").upper()
    parser.add_argument(
        option,
        dest=dest,
        metavar=name,
        action="append",
        choices=words,
        default=[],
        help=f"{help}; may be repeated: {', '.join(words)}",
    )


def _add_types(parser: Parser) -> None:
    _add_choices(parser, "--type", "types", NODE_TYPES, "nodes of this type alone")


def _graph_show(args: Namespace) -> int:
    if args.output and args.format == "text":
        raise UsageError("--output wants a --format: json, dot, mermaid or svg")
    if args.json and args.format not in ("text", "json"):
        raise UsageError("--json and --format name different forms")
    form = "json" if args.json else args.format
    part = {name: getattr(args, name) for name in ("depth", "task", "tags", "types")}
    part["around"] = [node_id(name) for name in args.around]
    with workspace_of(args) as workspace:
        for name in part["around"]:
            node_or_hint(workspace, name)
        found = workspace.knowledge.graph(**part)
    if form == "text":
        print_graph(found.nodes, found.edges)
        return 0
    from passdown.knowledge.graph_files import graph_starts, graph_text

    starts = graph_starts(found, around=part["around"], task=args.task, tags=args.tags)
    text = graph_text(found, form, _title(args), starts)
    if args.output:
        write_text(args.output, text)
    elif form == "json":
        import json

        print_json(json.loads(text))
    else:
        verbatim(text.removesuffix("\n"))
    return 0


def _title(args: Namespace) -> str:
    """What a picture shows, in the words of the command that asked for it."""
    parts = [f"--around {name}" for name in args.around]
    parts += [f"--task {args.task}"] if args.task else []
    parts += [f"--tag {tag}" for tag in args.tags]
    parts += [f"--depth {args.depth}"] if parts and args.depth != 1 else []
    parts += [f"--type {name}" for name in args.types]
    return f"What is known: {' '.join(parts)}" if parts else ""


def write_text(path: str, text: str) -> None:
    """Put a text into a file and say so."""
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.write(text)
    line(f"written to {path}")


def print_graph(nodes: Iterable[Node], edges: Iterable[Edge]) -> None:
    """Print nodes as a table and edges as arrows."""
    rows = [[node.id, node.type, node.tags, node.summary] for node in nodes]
    table(("node", "type", "tags", "summary"), rows, "nothing is known yet")
    shown = [arrow(edge) for edge in edges]
    if shown:
        line()
        heading(counted(len(shown), "edge"))
        for text in shown:
            line(text, 2)


def arrow(edge: Edge) -> str:
    """An edge as it is read aloud."""
    return f"{edge.source} -> {_relation_words(edge)} -> {edge.target}"


def _relation_words(edge: Edge) -> str:
    from passdown.knowledge.graph_files import edge_label

    return edge_label(edge)


def node_id(text: str) -> str:
    """A node's id; search gives written nodes as `node:ID`."""
    from passdown.core.rows import NODE_PREFIX

    return text.removeprefix(NODE_PREFIX)


def node_or_hint(workspace: Workspace, name: str) -> Node:
    """A node that has to be known; where it isn't, the error names what was probably meant."""
    from passdown.errors import NotFound

    try:
        return workspace.knowledge.graph(around=[name], depth=0).nodes[0]
    except NotFound as error:
        for meant in (f"{kind}:{name}" for kind in ("task", "file", "agent")):
            if _is_known_node(workspace, meant):
                raise NotFound(error.message, next_step=f"Did you mean {meant}?") from error
        raise


def _is_known_node(workspace: Workspace, name: str) -> bool:
    from passdown.errors import NotFound

    try:
        return bool(workspace.knowledge.graph(around=[name], depth=0).nodes)
    except NotFound:
        return False


def _graph_near(args: Namespace) -> int:
    start = node_id(args.node)
    with workspace_of(args) as workspace:
        node_or_hint(workspace, start)
        found = workspace.knowledge.neighbours(
            start, depth=args.depth, direction=args.direction, relations=args.relations
        )
    if args.json:
        print_json(
            [
                {
                    "node": reached.node,
                    "depth": reached.depth,
                    "path": [list(edge.key) for edge in reached.path],
                }
                for reached in found
            ]
        )
        return 0
    rows = [[reached.depth, reached.node, _path_text(start, reached.path)] for reached in found]
    table(("steps", "node", "by way of"), rows, f"nothing leads from or to {start}")
    return 0


def _path_text(start: str, path: Iterable[Edge]) -> str:
    """The way from a start: an edge that is walked against its direction points back."""
    text = at = start
    for edge in path:
        is_forward = edge.source == at
        at = edge.target if is_forward else edge.source
        words = _relation_words(edge)
        text += f" -> {words} -> {at}" if is_forward else f" <- {words} <- {at}"
    return text


def _graph_tagged(args: Namespace) -> int:
    with workspace_of(args) as workspace:
        tags = [tag for given in args.tags for tag in given]
        found = workspace.knowledge.tagged(tags, types=args.types, limit=args.limit)
    if args.json:
        print_json(
            [
                {**_node_document(tagged.node), "score": tagged.score, "shared": list(tagged.tags)}
                for tagged in found
            ]
        )
        return 0
    rows = [[f"{t.score:.2f}", t.node.id, t.node.type, t.tags, t.node.summary] for t in found]
    table(("score", "node", "type", "shared", "summary"), rows, "nothing is tagged so")
    return 0


def _node_document(node: Node) -> dict[str, object]:
    from passdown.core.knowledge import node_document

    return node_document(node)


def _graph_about(args: Namespace) -> int:
    with workspace_of(args) as workspace:
        types = {"types": args.types} if args.types else {}
        found = workspace.knowledge.tasks_about(args.tag, **types)
        others = {} if found else workspace.knowledge.tasks_about(args.tag, types=NODE_TYPES)
    if args.json:
        print_json(found)
        return 0
    rows = [
        [task, node["id"], node["type"], node["summary"]]
        for task, nodes in found.items()
        for node in nodes
    ]
    kinds = " or ".join(args.types) or "pattern"
    there = sorted({node["type"] for nodes in others.values() for node in nodes})
    hint = f"; there is more with {' '.join(f'--type {name}' for name in there)}" if there else ""
    empty = f"no task found a {kinds} about {args.tag}{hint}"
    table(("task", "node", "type", "summary"), rows, empty)
    return 0


def _graph_tags(args: Namespace) -> int:
    with workspace_of(args) as workspace:
        found = workspace.knowledge.graph().tag_index()
    ordered = sorted(found, key=lambda tag: (-len(found[tag]), tag))
    if args.json:
        print_json({tag: found[tag] for tag in ordered[: args.limit]})
        return 0
    shown = ordered[: _TOP if args.limit is None else args.limit]
    rows = [[tag, len(found[tag]), _first_nodes(found[tag])] for tag in shown]
    table(("tag", "nodes", "which"), rows, "nothing is tagged yet", short=("which",))
    if len(ordered) > len(shown):
        line(f"and {counted(len(ordered) - len(shown), 'more tag')} (--limit)")
    return 0


def _first_nodes(nodes: list[str]) -> str:
    more = f" and {len(nodes) - _MAX_NODES} more" if len(nodes) > _MAX_NODES else ""
    return ", ".join(nodes[:_MAX_NODES]) + more


def written_node(workspace: Workspace, name: str) -> Node | None:
    """A node that somebody wrote down; None for what is unknown or stands for itself."""
    from passdown.core.graph import is_reference
    from passdown.errors import NotFound

    try:
        return (
            None
            if is_reference(name)
            else workspace.knowledge.graph(around=[name], depth=0).nodes[0]
        )
    except NotFound:
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
    before, now = _node_fields(old), _node_fields(new)
    return {
        name: {"old": before.get(name), "new": now.get(name)}
        for name in {**before, **now}
        if before.get(name) != now.get(name)
    }


def _node_fields(node: Node) -> JsonObject:
    tags = sorted(node.tags)
    return {"type": node.type, "summary": node.summary, "tags": tags, **node.attributes}


class _NewEntries(NamedTuple):
    """What of a file is to be written down, and how much of it records say in the same words."""

    nodes: list[Node]
    edges: list[Edge]
    nodes_said: int
    edges_said: int

    @property
    def note(self) -> str:
        parts = (counted(self.nodes_said, "node"), counted(self.edges_said, "edge"))
        said = [part for part, n in zip(parts, self[2:], strict=True) if n]
        return f"left out, since records say the same: {' and '.join(said)}" if said else ""


def add_file(args: Namespace) -> int:
    """Write down what a file holds; its edges may lead to what is known already."""
    with workspace_of(args) as workspace:
        found = _read_graph_file(workspace, args.file)
        if found.note and not found.nodes and not found.edges:
            return _nothing_new(found, as_json=args.json)
        receipt = workspace.knowledge.add(
            found.nodes, found.edges, agent=author(args), task=args.task, key=args.key
        )
    if args.json:
        print_json({**receipt.to_dict(), "left_out": _left_out(found)})
        return 0
    print_receipt(receipt, as_json=False)
    if found.note:
        line(found.note, 2)
    return 0


def _read_graph_file(workspace: Workspace, path: str) -> _NewEntries:
    from passdown.errors import InvalidInput, Problem
    from passdown.knowledge.graph_files import MAX_BYTES, read_graph

    try:
        text = read_input(path, MAX_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        message = f"byte {error.start} is not UTF-8"
        problem = Problem(path, "invalid_utf8", message, "UTF-8 text")
        raise InvalidInput("the input can't be read", [problem]) from error
    known = workspace.knowledge.graph()
    return _new_entries(read_graph(text, known=[node.id for node in known.nodes]), known)


def _new_entries(file: Graph, known: Graph) -> _NewEntries:
    """A file may be the whole graph as it was shown: what isn't for it to say is passed over where
    it stands so in the records. Anything else is left to be refused.
    """
    from passdown.core.knowledge import is_derived_edge, is_reserved

    there = {node.id: node for node in known.nodes}
    said = {edge.key: edge for edge in known.edges}
    nodes = [n for n in file.nodes if not is_reserved(n.id) or there.get(n.id) != n]
    edges = [e for e in file.edges if not is_derived_edge(e.key) or said.get(e.key) != e]
    return _NewEntries(nodes, edges, len(file.nodes) - len(nodes), len(file.edges) - len(edges))


def _nothing_new(found: _NewEntries, *, as_json: bool) -> int:
    if as_json:
        print_json({"items": [], "is_replay": True, "left_out": _left_out(found)})
    else:
        line(f"nothing to write down; {found.note}")
    return 0


def _left_out(found: _NewEntries) -> dict[str, int]:
    return {"nodes": found.nodes_said, "edges": found.edges_said}


_ID = "ID"
_SYNC_SCHEMA = "passdown/sync/1"
_SYNC_FILE = "knowledge.dot"
_COUNTERS = ("o200k_base", "cl100k_base", "chars4")


def knowledge(parser: Parser) -> None:
    """The arguments of `knowledge` and the verbs below it."""
    _add_parser(parser)
    show = parser.subverb(
        "show",
        "one node and its edges",
        "passdown knowledge show session-store",
        "passdown knowledge show T-1#d2 --json",
        run=_knowledge_show,
    )
    show.add_argument("node", metavar=_ID, help="of a written node; also T-1#d3, task:T-1...")
    forget = parser.subverb(
        "forget",
        "take a written node out of the graph, or only edges of it; history keeps both",
        "passdown knowledge forget session-store",
        "passdown knowledge forget session-store --edge uses:redis",
        run=_knowledge_forget,
    )
    forget.add_argument("node", metavar=_ID)
    listed(forget, "--edge", "RELATION:TARGET", "forget this edge and keep the node", "edges")
    with_agent(forget)
    sync = parser.subverb(
        "sync",
        "bring the knowledge file and the graph together; exit code 1 when a person should look",
        "passdown knowledge sync",
        "passdown knowledge sync docs/knowledge.json --agent planner",
        run=_knowledge_sync,
    )
    sync.add_argument("file", metavar=FILE, nargs="?", help="default: knowledge.dot of the project")
    with_agent(sync)
    _pack_parser(parser)
    for each in (show, forget, sync):
        with_store(each)


def _pack_parser(parser: Parser) -> None:
    pack = parser.subverb(
        "pack",
        "the part of the graph that has to do with a task, for its prompt",
        "passdown knowledge pack T-1",
        "passdown knowledge pack T-1 --nodes 10 --budget 800 --depth 2 --format json",
        run=_knowledge_pack,
    )
    pack.add_argument("task", metavar=TASK)
    pack.add_argument(
        "--nodes", metavar="N", type=whole_number, default=20, help="at most; default: 20"
    )
    pack.add_argument(
        "--depth", metavar="N", type=whole_number, default=1, help="steps around; default: 1"
    )
    pack.add_argument(
        "--budget", metavar="TOKENS", type=token_budget, default=1500, help="default: 1500"
    )
    pack.add_argument("--counter", choices=_COUNTERS, help="what counts; default: the settings'")
    pack.add_argument("--format", choices=("dot", "json"), default="dot", help="default: dot")
    with_store(pack)


def _add_parser(parser: Parser) -> None:
    add = parser.subverb(
        "add",
        "write down a node, its edges, or a file of both",
        "passdown knowledge add session-store --type component --summary 'Sessions live in Redis' "
        "--tag auth --edge uses:redis",
        "passdown knowledge add session-store --edge must_follow:T-1#d2",
        "passdown knowledge add session-store --tag web    # the rest of it stays as it is",
        "passdown knowledge add no-globals --type rule --summary 'No global state' --priority high",
        "passdown knowledge add --file graph.dot",
        run=_knowledge_add,
    )
    add.add_argument("node", metavar=_ID, nargs="?", help="of the node; names it for good")
    add.add_argument("--type", choices=NODE_TYPES, help="what the node stands for")
    add.add_argument("--summary", metavar="TEXT", help="one line, at most 100 characters")
    add.add_argument("--description", metavar="TEXT", help="the rest")
    listed(add, "--tag", TAG, "lowercase, hyphenated", "tags")
    for name, words in CHOICES.items():
        add.add_argument(f"--{name}", choices=words, help="of the node")
    add.add_argument("--status", choices=KNOWLEDGE_STATUSES, help="default: current")
    add.add_argument("--path", metavar="PATH", help="the file that it is about")
    listed(add, "--set", "NAME=VALUE", "any other attribute; NAME= takes it away", "others")
    add.add_argument(
        "--replace", action="store_true", help="of a known node, keep nothing that isn't given"
    )
    listed(add, "--edge", "RELATION:TARGET", f"from the node; {', '.join(RELATIONS)}", "edges")
    add.add_argument("--file", metavar=FILE, help="a graph as JSON or DOT; - reads it")
    add.add_argument("--task", metavar=TASK, help="where it was found; default: all work")
    add.add_argument("--key", help="makes a retry safe: the same key gives the same record")
    with_agent(add)
    with_store(add)


_ATTRIBUTES = ("description", *CHOICES, "status", "path")


def _knowledge_add(args: Namespace) -> int:

    fields = ("type", "summary", *_ATTRIBUTES, "tags", "others", "edges")
    given = [name for name in fields if getattr(args, name)]
    if args.file:
        if args.node or given or args.replace:
            raise UsageError(
                "--file brings its own nodes and edges: give a file or an ID, not both"
            )

        return add_file(args)
    if not args.node:
        raise UsageError("name an ID for the node, or a --file")
    if not given:
        raise UsageError("say what it is (--type and --summary), or give it an --edge")
    node = _given_node(args)
    edges = [_edge(node["id"], text) for text in args.edges]
    with workspace_of(args) as workspace:
        old = written_node(workspace, node["id"])
        merged = node if args.replace else merged_node(old, node)
        new = [] if given == ["edges"] else [merged]
        receipt = workspace.knowledge.add(
            new, edges, agent=author(args), task=args.task, key=args.key
        )
        changes = node_changes(old, written_node(workspace, node["id"]))
    if args.json:
        print_json({**receipt.to_dict(), "changes": changes})
        return 0
    told = [warning for warning in receipt.warnings if warning.code != "replaced"]
    print_receipt(receipt._replace(warnings=tuple(told)), as_json=False)
    pairs(
        [
            (name, f"{shown(change['old']) or '-'} -> {shown(change['new']) or '-'}")
            for name, change in changes.items()
        ],
        2,
    )
    return 0


def _given_node(args: Namespace) -> JsonObject:
    """A node as the arguments have it."""
    attributes = {name: getattr(args, name) for name in _ATTRIBUTES if getattr(args, name)}
    for text in args.others:
        name, mark, value = text.partition("=")
        if not mark:
            raise UsageError(f"--set {text}: expected NAME=VALUE")
        attributes[name] = value
    fields = {"id": _node_id(args.node), "type": args.type or "", "summary": args.summary or ""}
    return {**fields, "tags": args.tags, "attributes": attributes}


def _node_id(text: str) -> str:

    return node_id(text)


def _edge(source: str, text: str) -> JsonObject:
    relation, mark, target = text.partition(":")
    if not mark or not target:
        raise UsageError(f"--edge {text}: expected RELATION:TARGET")
    return {"source": source, "relation": relation, "target": _node_id(target)}


def _knowledge_show(args: Namespace) -> int:
    with workspace_of(args) as workspace:
        return print_node(workspace, args.node, as_json=args.json)


def print_node(workspace: Workspace, name: str, *, as_json: bool) -> int:
    """Print a node and every edge that leads from it or to it."""
    from passdown.core.knowledge import edge_document, node_document

    name = _node_id(name)
    found = node_or_hint(workspace, name)
    leading = workspace.knowledge.edges(source=name)
    coming = [edge for edge in workspace.knowledge.edges(target=name) if edge.source != edge.target]
    document = node_document(found)
    if as_json:
        print_json({**document, "edges": [edge_document(edge) for edge in (*leading, *coming)]})
        return 0
    heading(f"{found.id}  {found.summary}")
    pairs([("type", found.type), ("tags", found.tags), *found.attributes.items()], 2)
    if leading or coming:
        line()
    for edge in (*leading, *coming):
        line(arrow(edge), 2)
    return 0


def _knowledge_forget(args: Namespace) -> int:
    name = _node_id(args.node)
    keys = [(e["source"], e["relation"], e["target"]) for e in (_edge(name, t) for t in args.edges)]
    with workspace_of(args) as workspace:
        gone = [edge for key in keys for edge in _known_edge(workspace, key)]
        if not keys:
            coming = [e for e in workspace.knowledge.edges(target=name) if e.source != name]
            gone = [*workspace.knowledge.edges(source=name), *coming]
        nodes = [] if keys else [name]
        receipt = workspace.knowledge.add(agent=author(args), forget_nodes=nodes, forget_edges=keys)
    if args.json:
        from passdown.core.knowledge import edge_document

        edges = [edge_document(edge) for edge in gone]
        print_json({**receipt.to_dict(), "forgotten_edges": edges})
        return 0
    print_receipt(receipt, as_json=False)

    for edge in gone:
        line(f"forgotten: {arrow(edge)}", 2)
    return 0


def _known_edge(workspace: Workspace, key: tuple[str, str, str]) -> list[Edge]:
    source, relation, target = key
    found = workspace.knowledge.edges(source=source, relation=relation, target=target)
    if not found:
        from passdown.errors import NotFound

        raise NotFound(
            f"there is no edge {source} -> {relation} -> {target}",
            next_step="passdown knowledge show ID lists the edges of a node.",
        )
    return found


def _knowledge_sync(args: Namespace) -> int:
    """1 when a file was kept aside or a conflict was found."""
    with workspace_of(args) as workspace:
        path = _from_root(args.file, workspace.root) if args.file else ""
        target = os.path.normpath(os.path.join(workspace.root, path or _SYNC_FILE))
        before = workspace.knowledge.edges()
        if not os.path.lexists(target) and not _has_written_nodes(workspace):
            return _nothing_to_sync(target, as_json=args.json)
        found = workspace.knowledge.sync(path, agent=author(args))
        is_updated = bool(found.taken) or workspace.knowledge.edges() != before
    if args.json:
        _print_sync_json(found, is_updated=is_updated)
    else:
        _print_sync(found, is_updated)
    return 1 if found.reports else 0


def _from_root(path: str, root: str) -> str:
    """A file named from the current folder, as it is named from the project's; whether it may be
    outside of that, only an absolute path says.
    """
    if os.path.isabs(path):
        return path
    return os.path.relpath(os.path.abspath(path), os.path.realpath(root))


def _has_written_nodes(workspace: Workspace) -> bool:
    from passdown.core.graph import is_reference

    return not all(is_reference(node.id) for node in workspace.knowledge.graph().nodes)


def _nothing_to_sync(target: str, *, as_json: bool) -> int:
    """The answer where neither side has anything: an empty file would be of no use."""
    if as_json:
        from passdown.workspace.knowledge_sync import KnowledgeSync

        _print_sync_json(KnowledgeSync(target, 0, 0, (), False, "", ()), is_updated=False)
    else:
        line(f"nothing to sync: nothing is written down, and there is no {target}")
    return 0


def _print_sync_json(found: KnowledgeSync, *, is_updated: bool) -> None:
    reports = [report.to_dict() for report in found.reports]
    document = {**found._asdict(), "taken": list(found.taken), "reports": reports}
    print_json({"schema": _SYNC_SCHEMA, **document, "is_graph_changed": is_updated})


def _print_sync(found: KnowledgeSync, is_updated: bool) -> None:
    said = {
        (False, False): "nothing changed",
        (True, False): "file written",
        (False, True): "file unchanged, graph updated",
        (True, True): "file written, graph updated",
    }[found.is_changed, is_updated]
    size = f"{counted(found.nodes, 'node')}, {counted(found.edges, 'edge')}"
    line(f"{said}, {found.path}: {size}")
    if found.taken:
        line(f"taken over from the file: {', '.join(found.taken)}", 2)
    if found.kept_aside:
        line(f"kept aside: {found.kept_aside}", 2)
    print_problems(found.reports)


def _knowledge_pack(args: Namespace) -> int:
    with workspace_of(args) as workspace:
        found = workspace.knowledge.pack(
            args.task,
            nodes=args.nodes,
            budget=args.budget,
            depth=args.depth,
            counter=args.counter,
            format=args.format,
        )
    if args.json:
        print_json(_pack_document(found))
        return 0
    if found.text:
        verbatim(found.text.removesuffix("\n"))
    left = f"; {found.left_out} had no room" if found.left_out else ""
    size = f"{counted(len(found.graph.nodes), 'node')}, {counted(found.tokens, 'token')}{left}"
    print(size if found.text or left else f"no node has a word of {args.task}'s", file=sys.stderr)
    return 0


def _pack_document(found: Pack) -> JsonObject:
    from passdown.core.knowledge import edge_document, node_document

    return {
        "task": found.task,
        "terms": list(found.terms),
        "nodes": [node_document(node) for node in found.graph.nodes],
        "edges": [edge_document(edge) for edge in found.graph.edges],
        "tokens": found.tokens,
        "left_out": found.left_out,
        "text": found.text,
    }

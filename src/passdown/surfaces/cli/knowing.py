"""`knowledge`: write down what is known, forget it, exchange it as a file, pack it for a task."""

from __future__ import annotations

import os.path
import sys
from typing import TYPE_CHECKING, Any

from passdown.model.graph import CHOICES, KNOWLEDGE_STATUSES, NODE_TYPES, RELATIONS
from passdown.surfaces.cli.parsing import (
    FILE,
    TAG,
    TASK,
    listed,
    token_budget,
    whole_number,
    with_agent,
    with_store,
)
from passdown.surfaces.cli.printing import (
    counted,
    heading,
    line,
    pairs,
    print_json,
    print_problems,
    shown,
    verbatim,
)
from passdown.surfaces.cli.receipts import print_receipt
from passdown.surfaces.cli.session import Misuse, author, opened

if TYPE_CHECKING:
    from argparse import Namespace

    from passdown.model.graph import Edge
    from passdown.surfaces.cli.parsing import Parser
    from passdown.workspace import Workspace
    from passdown.workspace.packing import Pack
    from passdown.workspace.syncing import Synced

Document = dict[str, Any]

_ID = "ID"
_SYNC = "passdown/sync/1"
_SYNCED = "knowledge.dot"
_COUNTERS = ("o200k_base", "cl100k_base", "chars4")


def knowledge(parser: Parser) -> None:
    """The arguments of `knowledge` and the verbs below it."""
    _add_parser(parser)
    show = parser.subverb(
        "show",
        "one node and its edges",
        "passdown knowledge show session-store",
        "passdown knowledge show T-1#d2 --json",
        run=_show,
    )
    show.add_argument("node", metavar=_ID, help="of a written node; also T-1#d3, task:T-1...")
    forget = parser.subverb(
        "forget",
        "take a written node out of the graph, or only edges of it; history keeps both",
        "passdown knowledge forget session-store",
        "passdown knowledge forget session-store --edge uses:redis",
        run=_forget,
    )
    forget.add_argument("node", metavar=_ID)
    listed(forget, "--edge", "RELATION:TARGET", "forget this edge and keep the node", "edges")
    with_agent(forget)
    sync = parser.subverb(
        "sync",
        "bring the knowledge file and the graph together; exit code 1 when a person should look",
        "passdown knowledge sync",
        "passdown knowledge sync docs/knowledge.json --agent planner",
        run=_sync,
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
        run=_pack,
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
        run=_add,
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


def _add(args: Namespace) -> int:
    from passdown.surfaces.cli.node_edits import merged_node, node_changes, written_node

    fields = ("type", "summary", *_ATTRIBUTES, "tags", "others", "edges")
    given = [name for name in fields if getattr(args, name)]
    if args.file:
        if args.node or given or args.replace:
            raise Misuse("--file brings its own nodes and edges: give a file or an ID, not both")
        from passdown.surfaces.cli.knowledge_files import add_file

        return add_file(args)
    if not args.node:
        raise Misuse("name an ID for the node, or a --file")
    if not given:
        raise Misuse("say what it is (--type and --summary), or give it an --edge")
    node = _given_node(args)
    edges = [_edge(node["id"], text) for text in args.edges]
    with opened(args) as workspace:
        old = written_node(workspace, node["id"])
        merged = node if args.replace else merged_node(old, node)
        new = [] if given == ["edges"] else [merged]
        receipt = workspace.learn(new, edges, agent=author(args), task=args.task, key=args.key)
        changes = node_changes(old, written_node(workspace, node["id"]))
    if args.json:
        print_json({**receipt.as_document(), "changes": changes})
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


def _given_node(args: Namespace) -> Document:
    """A node as the arguments have it."""
    attributes = {name: getattr(args, name) for name in _ATTRIBUTES if getattr(args, name)}
    for text in args.others:
        name, mark, value = text.partition("=")
        if not mark:
            raise Misuse(f"--set {text}: expected NAME=VALUE")
        attributes[name] = value
    fields = {"id": _id(args.node), "type": args.type or "", "summary": args.summary or ""}
    return {**fields, "tags": args.tags, "attributes": attributes}


def _id(text: str) -> str:
    from passdown.surfaces.cli.graphing import node_id

    return node_id(text)


def _edge(source: str, text: str) -> Document:
    relation, mark, target = text.partition(":")
    if not mark or not target:
        raise Misuse(f"--edge {text}: expected RELATION:TARGET")
    return {"source": source, "relation": relation, "target": _id(target)}


def _show(args: Namespace) -> int:
    with opened(args) as workspace:
        return print_node(workspace, args.node, as_json=args.json)


def print_node(workspace: Workspace, name: str, *, as_json: bool) -> int:
    """Print a node and every edge that leads from it or to it."""
    from passdown.model.knowledge import edge_document, node_document
    from passdown.surfaces.cli.graphing import arrow, node_or_hint

    name = _id(name)
    found = node_or_hint(workspace, name)
    leading = workspace.edges(source=name)
    coming = [edge for edge in workspace.edges(target=name) if edge.source != edge.target]
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


def _forget(args: Namespace) -> int:
    name = _id(args.node)
    keys = [(e["source"], e["relation"], e["target"]) for e in (_edge(name, t) for t in args.edges)]
    with opened(args) as workspace:
        gone = [edge for key in keys for edge in _known_edge(workspace, key)]
        if not keys:
            coming = [e for e in workspace.edges(target=name) if e.source != name]
            gone = [*workspace.edges(source=name), *coming]
        nodes = [] if keys else [name]
        receipt = workspace.learn(agent=author(args), forget_nodes=nodes, forget_edges=keys)
    if args.json:
        from passdown.model.knowledge import edge_document

        edges = [edge_document(edge) for edge in gone]
        print_json({**receipt.as_document(), "forgotten_edges": edges})
        return 0
    print_receipt(receipt, as_json=False)
    from passdown.surfaces.cli.graphing import arrow

    for edge in gone:
        line(f"forgotten: {arrow(edge)}", 2)
    return 0


def _known_edge(workspace: Workspace, key: tuple[str, str, str]) -> list[Edge]:
    source, relation, target = key
    found = workspace.edges(source=source, relation=relation, target=target)
    if not found:
        from passdown.errors import NotFound

        raise NotFound(
            f"there is no edge {source} -> {relation} -> {target}",
            next_step="passdown knowledge show ID lists the edges of a node.",
        )
    return found


def _sync(args: Namespace) -> int:
    """1 when a file was kept aside or a conflict was found."""
    with opened(args) as workspace:
        path = _from_root(args.file, workspace.root) if args.file else ""
        target = os.path.normpath(os.path.join(workspace.root, path or _SYNCED))
        before = workspace.edges()
        if not os.path.lexists(target) and not _is_anything_written(workspace):
            return _nothing_to_sync(target, as_json=args.json)
        found = workspace.sync_knowledge(path, agent=author(args))
        is_updated = bool(found.taken) or workspace.edges() != before
    if args.json:
        _print_sync_json(found, is_updated=is_updated)
    else:
        _print_synced(found, is_updated)
    return 1 if found.reports else 0


def _from_root(path: str, root: str) -> str:
    """A file named from the current folder, as it is named from the project's; whether it may be
    outside of that, only an absolute path says.
    """
    if os.path.isabs(path):
        return path
    return os.path.relpath(os.path.abspath(path), os.path.realpath(root))


def _is_anything_written(workspace: Workspace) -> bool:
    from passdown.model.graph import stands_for

    return not all(stands_for(node.id) for node in workspace.graph().nodes)


def _nothing_to_sync(target: str, *, as_json: bool) -> int:
    """The answer where neither side has anything: an empty file would be of no use."""
    if as_json:
        from passdown.workspace.syncing import Synced

        _print_sync_json(Synced(target, 0, 0, (), False, "", ()), is_updated=False)
    else:
        line(f"nothing to sync: nothing is written down, and there is no {target}")
    return 0


def _print_sync_json(found: Synced, *, is_updated: bool) -> None:
    reports = [report.as_document() for report in found.reports]
    document = {**found._asdict(), "taken": list(found.taken), "reports": reports}
    print_json({"schema": _SYNC, **document, "is_graph_changed": is_updated})


def _print_synced(found: Synced, is_updated: bool) -> None:
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


def _pack(args: Namespace) -> int:
    with opened(args) as workspace:
        found = workspace.pack(
            args.task,
            nodes=args.nodes,
            budget=args.budget,
            depth=args.depth,
            counter=args.counter,
            form=args.format,
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


def _pack_document(found: Pack) -> Document:
    from passdown.model.knowledge import edge_document, node_document

    return {
        "task": found.task,
        "terms": list(found.terms),
        "nodes": [node_document(node) for node in found.graph.nodes],
        "edges": [edge_document(edge) for edge in found.graph.edges],
        "tokens": found.tokens,
        "left_out": found.left_out,
        "text": found.text,
    }

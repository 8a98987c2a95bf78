"""`graph`: the knowledge graph, whole or in part, and questions to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from passdown.model.graph import NODE_TYPES, RELATIONS
from passdown.surfaces.cli.parsing import FILE, TAG, TASK, listed, several, whole_number, with_store
from passdown.surfaces.cli.printing import (
    counted,
    heading,
    line,
    print_json,
    table,
    verbatim,
)
from passdown.surfaces.cli.session import Misuse, opened

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable

    from passdown.model.graph import Edge, Node
    from passdown.surfaces.cli.parsing import Parser
    from passdown.workspace import Workspace

NODE = "NODE"
_FORMS = ("text", "json", "dot", "mermaid", "svg")
_DIRECTIONS = ("out", "in", "both")
_TAGS = 50
_WHICH = 5


def graph(parser: Parser) -> None:
    """The arguments of `graph` and the verbs below it."""
    _show_parser(parser)
    near = parser.subverb(
        "near",
        "what can be reached from a node, and how",
        "passdown graph near T-1#d2",
        "passdown graph near file:src/login.py --direction in --depth 2 --relation relates_to",
        run=_near,
    )
    near.add_argument("node", metavar=NODE, help="T-1#d3, task:T-1, agent:NAME, file:PATH or an id")
    near.add_argument(
        "--depth", metavar="N", type=whole_number, default=1, help="steps; default: 1"
    )
    near.add_argument("--direction", choices=_DIRECTIONS, default="both", help="default: both")
    _choices(near, "--relation", "relations", RELATIONS, "over these edges alone")
    with_store(near)
    _tag_parsers(parser)


def _tag_parsers(parser: Parser) -> None:
    tagged = parser.subverb(
        "tagged",
        "nodes under some tags, those that share most of them first",
        "passdown graph tagged auth web",
        "passdown graph tagged auth --type gotcha --json",
        run=_tagged,
    )
    tagged.add_argument("tags", metavar=TAG, nargs="+", type=several)
    _with_types(tagged)
    tagged.add_argument(
        "--limit", metavar="N", type=whole_number, default=10, help="at most; default: 10"
    )
    about = parser.subverb(
        "about",
        "which tasks found something about a tag",
        "passdown graph about auth",
        "passdown graph about auth --type gotcha --type decision",
        run=_about,
    )
    about.add_argument("tag", metavar=TAG)
    _choices(about, "--type", "types", NODE_TYPES, "what was found; default: patterns")
    tags = parser.subverb(
        "tags",
        "tags with the nodes under them, the most used first",
        "passdown graph tags",
        "passdown graph tags --limit 200",
        run=_tags,
    )
    tags.add_argument(
        "--limit", metavar="N", type=whole_number, help=f"at most; default: {_TAGS}, all in JSON"
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
        run=_show,
    )
    listed(show, "--around", NODE, "start from this node")
    show.add_argument(
        "--depth", metavar="N", type=whole_number, default=1, help="steps from there; default: 1"
    )
    show.add_argument("--task", metavar=TASK, default="", help="start from this task")
    listed(show, "--tag", TAG, "start from what is under it", "tags")
    _with_types(show)
    show.add_argument("--format", choices=_FORMS, default="text", help="svg and mermaid: pictures")
    show.add_argument("--output", metavar=FILE, help="write it to this file")
    with_store(show)


def _choices(parser: Parser, option: str, dest: str, words: tuple[str, ...], help: str) -> None:
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


def _with_types(parser: Parser) -> None:
    _choices(parser, "--type", "types", NODE_TYPES, "nodes of this type alone")


def _show(args: Namespace) -> int:
    if args.output and args.format == "text":
        raise Misuse("--output wants a --format: json, dot, mermaid or svg")
    if args.json and args.format not in ("text", "json"):
        raise Misuse("--json and --format name different forms")
    form = "json" if args.json else args.format
    part = {name: getattr(args, name) for name in ("depth", "task", "tags", "types")}
    part["around"] = [node_id(name) for name in args.around]
    with opened(args) as workspace:
        for name in part["around"]:
            node_or_hint(workspace, name)
        found = workspace.graph(**part)
    if form == "text":
        print_graph(found.nodes, found.edges)
        return 0
    from passdown.workspace.graph_texts import graph_text, starts_of

    starts = starts_of(found, around=part["around"], task=args.task, tags=args.tags)
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
    return f"{edge.source} -> {_words(edge)} -> {edge.target}"


def _words(edge: Edge) -> str:
    from passdown.workspace.graph_texts import relation_words

    return relation_words(edge)


def node_id(text: str) -> str:
    """A node's id; search gives written nodes as `node:ID`."""
    from passdown.model.found_rows import NODE_PREFIX

    return text.removeprefix(NODE_PREFIX)


def node_or_hint(workspace: Workspace, name: str) -> Node:
    """A node that has to be known; where it isn't, the error names what was probably meant."""
    from passdown.errors import NotFound

    try:
        return workspace.graph(around=[name], depth=0).nodes[0]
    except NotFound as error:
        for meant in (f"{kind}:{name}" for kind in ("task", "file", "agent")):
            if _is_known(workspace, meant):
                raise NotFound(error.message, next_step=f"Did you mean {meant}?") from error
        raise


def _is_known(workspace: Workspace, name: str) -> bool:
    from passdown.errors import NotFound

    try:
        return bool(workspace.graph(around=[name], depth=0).nodes)
    except NotFound:
        return False


def _near(args: Namespace) -> int:
    start = node_id(args.node)
    with opened(args) as workspace:
        node_or_hint(workspace, start)
        found = workspace.neighbours(
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
    rows = [[reached.depth, reached.node, _path(start, reached.path)] for reached in found]
    table(("steps", "node", "by way of"), rows, f"nothing leads from or to {start}")
    return 0


def _path(start: str, path: Iterable[Edge]) -> str:
    """The way from a start: an edge that is walked against its direction points back."""
    text = at = start
    for edge in path:
        is_forward = edge.source == at
        at = edge.target if is_forward else edge.source
        words = _words(edge)
        text += f" -> {words} -> {at}" if is_forward else f" <- {words} <- {at}"
    return text


def _tagged(args: Namespace) -> int:
    with opened(args) as workspace:
        tags = [tag for given in args.tags for tag in given]
        found = workspace.tagged(tags, types=args.types, limit=args.limit)
    if args.json:
        print_json(
            [
                {**_plain(tagged.node), "score": tagged.score, "shared": list(tagged.tags)}
                for tagged in found
            ]
        )
        return 0
    rows = [[f"{t.score:.2f}", t.node.id, t.node.type, t.tags, t.node.summary] for t in found]
    table(("score", "node", "type", "shared", "summary"), rows, "nothing is tagged so")
    return 0


def _plain(node: Node) -> dict[str, object]:
    from passdown.model.knowledge import node_document

    return node_document(node)


def _about(args: Namespace) -> int:
    with opened(args) as workspace:
        types = {"types": args.types} if args.types else {}
        found = workspace.tasks_about(args.tag, **types)
        others = {} if found else workspace.tasks_about(args.tag, types=NODE_TYPES)
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


def _tags(args: Namespace) -> int:
    with opened(args) as workspace:
        found = workspace.graph().tag_index()
    ordered = sorted(found, key=lambda tag: (-len(found[tag]), tag))
    if args.json:
        print_json({tag: found[tag] for tag in ordered[: args.limit]})
        return 0
    shown = ordered[: _TAGS if args.limit is None else args.limit]
    rows = [[tag, len(found[tag]), _first(found[tag])] for tag in shown]
    table(("tag", "nodes", "which"), rows, "nothing is tagged yet", short=("which",))
    if len(ordered) > len(shown):
        line(f"and {counted(len(ordered) - len(shown), 'more tag')} (--limit)")
    return 0


def _first(nodes: list[str]) -> str:
    more = f" and {len(nodes) - _WHICH} more" if len(nodes) > _WHICH else ""
    return ", ".join(nodes[:_WHICH]) + more

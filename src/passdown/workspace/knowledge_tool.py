"""The tool `knowledge_add`, with which an agent records knowledge while it works.

An entry is in the ledger before the tool answers. Entries that the knowledge file doesn't have yet
are written to it together at the end of a piece of work.
"""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from passdown.core.graph import (
    CHOICES,
    KNOWLEDGE_STATUSES,
    MAX_ID,
    MAX_SUMMARY,
    MAX_TAGS,
    MAX_VALUE,
    NODE_TYPES,
    RELATIONS,
    Edge,
    Graph,
    Node,
    check_graph,
    summary_line,
)
from passdown.core.kinds import stream_of
from passdown.core.knowledge import graph_values, reserved_problems
from passdown.core.names import agent_problems, id_problems
from passdown.core.text import visible
from passdown.errors import GateRefused, InvalidInput, Problem
from passdown.knowledge.graph import written_graph
from passdown.knowledge.graph_files import read_graph
from passdown.knowledge.sync import DEFAULT_FILE, sync_path
from passdown.workspace.streams import WorkspaceStreams

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from passdown.core.results import Receipt
    from passdown.store.statements import Reader
    from passdown.workspace import Workspace
    from passdown.workspace.context import Context


if TYPE_CHECKING:
    Origin = tuple[str, int]

LOG = logging.getLogger("passdown.knowledge")
RELAY = "relay"


class PendingEntry(NamedTuple):
    """What one record added and the knowledge file doesn't have yet, without what other records
    have replaced since.
    """

    agent: str
    task: str
    version: int
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]


class BoundaryResult(NamedTuple):
    """What was written to the knowledge file: the entries of the given agents, and the number of
    others. `reports` are conflicts and other things to look at; `kept_aside` is where a file went
    that was changed on both sides or can't be read.
    """

    task: str
    path: str
    entries: tuple[PendingEntry, ...]
    others: int
    is_changed: bool
    kept_aside: str
    reports: tuple[Problem, ...]


def pending_entries(
    workspace: Workspace, agents: Collection[str] = (), *, path: str = ""
) -> list[PendingEntry]:
    """What agents (default: all) recorded and the knowledge file doesn't have yet, oldest first. A
    file that can't be read counts as empty.
    """
    context = WorkspaceStreams(workspace).context
    found: dict[Origin, tuple[list[Node], list[Edge]]] = {}
    with context.store.reading() as reader:
        known = written_graph(reader)
        file = _read_graph_file(context, path, known)
        nodes = {node.id: node for node in file.nodes}
        edges = {edge.key: edge for edge in file.edges}
        node_origins, edge_origins = _origins(reader)
        for node in known.nodes:
            if nodes.get(node.id) != node:
                found.setdefault(node_origins[node.id], ([], []))[0].append(node)
        for edge in known.edges:
            if edges.get(edge.key) != edge:
                found.setdefault(edge_origins[edge.key], ([], []))[1].append(edge)
        entries = _authored(reader, found)
    return [entry for entry in entries if not agents or entry.agent in agents]


def at_boundary(
    workspace: Workspace,
    task: str,
    agents: Collection[str] = (),
    *,
    path: str = "",
    by: str = RELAY,
) -> BoundaryResult:
    """At the end of a piece of work, write all pending entries to the knowledge file.

    Where the file was changed as well, the ledger wins, the file is kept aside and the conflict is
    reported; changes of the file alone are recorded with `by` as author. The file is shared, so
    entries of other agents are written too. A repeat does no harm.
    """
    entries = pending_entries(workspace, path=path)
    synced = workspace.knowledge.sync(path, agent=by)
    mine = tuple(entry for entry in entries if not agents or entry.agent in agents)
    LOG.info("%s: %d entries brought to %s", task, len(entries), synced.path)
    for report in synced.reports:
        LOG.warning("%s: %s", task, visible(report.line()))
    return BoundaryResult(
        task=task,
        path=synced.path,
        entries=mine,
        others=len(entries) - len(mine),
        is_changed=synced.is_changed,
        kept_aside=synced.kept_aside,
        reports=synced.reports,
    )


def _read_graph_file(context: Context, path: str, known: Graph) -> Graph:
    target = sync_path(context.root, path or DEFAULT_FILE, context.place.folder)
    try:
        text = Path(target).read_bytes().decode().replace("\r\n", "\n")
        return read_graph(text, known=[node.id for node in known.nodes]) if text else Graph()
    except (FileNotFoundError, UnicodeDecodeError, InvalidInput):
        return Graph()


def _origins(reader: Reader) -> tuple[dict[str, Origin], dict[tuple[str, str, str], Origin]]:
    """The record that added each node, by id, and each edge, by key."""
    nodes = {row.node.id: (row.task, row.position) for row in reader.known_nodes()}
    edges = {edge.key: (task, version) for edge, task, version in reader.edges_with_origin()}
    return nodes, edges


def _authored(
    reader: Reader, found: Mapping[Origin, tuple[list[Node], list[Edge]]]
) -> list[PendingEntry]:
    """What each record added, with its author, in the order of writing."""
    entries: list[tuple[int, PendingEntry]] = []
    for (task, version), (nodes, edges) in found.items():
        record = reader.record(stream_of(task), version)
        author, seq = (record.author, record.seq) if record else ("", 0)
        entries.append((seq, PendingEntry(author, task, version, tuple(nodes), tuple(edges))))
    return [entry for _, entry in sorted(entries, key=lambda pair: pair[0])]


if TYPE_CHECKING:
    Document = dict[str, Any]

MAX_EDGES = 50
_EXAMPLE = {
    "id": "session-store",
    "type": "component",
    "summary": "Keeps sessions for an hour",
    "edges": [{"relation": "uses", "target": "redis"}],
}


def _text(description: str, **more: Any) -> Document:
    return {"type": "string", "description": description, **more}


def _edge_schema() -> Document:
    return {
        "type": "object",
        "properties": {
            "relation": _text("How this relates to the target.", enum=list(RELATIONS)),
            "target": _text(
                "The id of a known node, or T-1#d3, task:T-1, agent:NAME, file:PATH.",
                minLength=1,
                maxLength=MAX_ID,
            ),
        },
        "required": ["relation", "target"],
        "additionalProperties": False,
    }


def _entry_schema() -> Document:
    """The schema of an entry: a node, and the edges that start from it."""
    values = {"type": "string", "minLength": 1, "maxLength": MAX_VALUE}
    named = {name: {"type": "string", "enum": list(CHOICES[name])} for name in CHOICES}
    named["priority"]["description"] = "Needed for a rule."
    properties: Document = {
        "id": _text(
            "A short, stable name; the same id again replaces the entry.",
            minLength=1,
            maxLength=MAX_ID,
        ),
        "type": _text("What it is.", enum=list(NODE_TYPES)),
        "summary": _text("One line.", minLength=1, maxLength=MAX_SUMMARY),
        "description": {**values, "description": "Details, if one line isn't enough."},
        "tags": {
            "type": "array",
            "items": {"type": "string", "pattern": r"^[^\sA-Z,]{1,100}$"},
            "maxItems": MAX_TAGS,
            "description": "Lowercase words for search.",
        },
        **named,
        "status": _text("Whether it is valid.", enum=list(KNOWLEDGE_STATUSES)),
        "path": {**values, "description": "The file that it describes."},
        "attributes": {
            "type": "object",
            "additionalProperties": values,
            "description": "Other facts: lowercase names with texts.",
        },
        "edges": {"type": "array", "items": _edge_schema(), "maxItems": MAX_EDGES},
    }
    return {
        "type": "object",
        "description": "One entry of the knowledge graph: a node and its edges.",
        "properties": properties,
        "required": ["id", "type", "summary"],
        "additionalProperties": False,
    }


KNOWLEDGE_ADD: Document = {
    "name": "knowledge_add",
    "description": "Record one thing about the project that others should know: a component, a "
    "rule, a pattern, a gotcha. It is recorded at once and doesn't end your turn: call it with "
    "other tools, as often as you learn something.",
    "input_schema": {
        "type": "object",
        "properties": {"knowledge": _entry_schema()},
        "required": ["knowledge"],
        "additionalProperties": False,
    },
}
"""The definition of the tool: name, description, JSON schema of its input."""


def as_anthropic(tool: Mapping[str, Any]) -> Document:
    """A tool's definition as the Messages API takes it."""
    return {name: tool[name] for name in ("name", "description", "input_schema")}


def as_openai(tool: Mapping[str, Any]) -> Document:
    """A tool's definition as the Chat Completions API takes it."""
    return {
        "type": "function",
        "function": {
            "name": tool["name"],
            "description": tool["description"],
            "parameters": tool["input_schema"],
        },
    }


class KnowledgeToolResult(NamedTuple):
    """The answer of a tool to the model that called it."""

    text: str
    is_error: bool = False


class KnowledgeTool:
    """`knowledge_add` for one agent. Calling it never ends a turn.

    Its buffer is what the agent recorded and the knowledge file doesn't have yet. It is read from
    the ledger and the file, so it is the same after a crash and in any process.
    """

    definition = KNOWLEDGE_ADD
    ends_turn = False

    def __init__(self, workspace: Workspace, agent: str, task: str = "") -> None:
        problems = agent_problems(agent, "agent")
        problems += id_problems(task, "task") if task != "" else []
        if problems:
            raise InvalidInput("no such agent or task", problems)
        self._workspace = workspace
        self.agent = agent
        self.task = task

    def __call__(self, arguments: object) -> KnowledgeToolResult:
        """Record an entry; `arguments` is what the model gave, as an object or as JSON.

        An invalid entry changes nothing, and the answer lists all of its problems.
        """
        try:
            node, edges = _split(_entry(arguments))
            self._check_types(node, edges)
            receipt = self._workspace.knowledge.add(
                [node], edges, agent=self.agent, task=self.task or None
            )
        except (InvalidInput, GateRefused) as error:
            return _refusal(error.problems)
        return KnowledgeToolResult(_confirmation(node, edges, receipt))

    def buffer(self) -> list[PendingEntry]:
        """What this agent recorded and the knowledge file doesn't have yet, oldest first."""
        return pending_entries(self._workspace, [self.agent])

    def _check_types(self, node: Document, edges: list[Document]) -> None:
        """If something has the wrong type, find all other problems too: recording would stop at the
        types.
        """
        try:
            graph_values([node], edges)
        except InvalidInput as error:
            texts, joined = _readable(node), [_readable_edge(edge) for edge in edges]
            others = [*check_graph([texts], joined, ()), *reserved_problems([texts], joined)]
            told = [problem.path for problem in error.problems]
            # Which nodes are known is asked when it is written; what has a wrong type is settled.
            more = [p for p in others if p.code != "unknown_node" and not _is_within(p.path, told)]
            raise InvalidInput(error.message, [*error.problems, *more]) from error


def _entry(arguments: object) -> Document:
    """The entry in a model's arguments; raises InvalidInput with an example."""
    given = _object(arguments, "")
    if "knowledge" not in given:
        looks_bare = bool({"id", "type", "summary"} & given.keys())
        message = "the entry is outside of it" if looks_bare else "is missing"
        raise _invalid_arguments("knowledge", "required", message, "an object with one entry")
    if others := sorted(str(name)[:40] for name in given if name != "knowledge"):
        message = f"unknown parameters: {', '.join(others[:5])}"
        raise _invalid_arguments("", "unknown_parameter", message, "only `knowledge`")
    return _object(given["knowledge"], "knowledge")


def _object(given: object, path: str) -> Document:
    """An object; some models give it as JSON."""
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except (ValueError, RecursionError) as error:
            raise _invalid_arguments(path, "invalid_json", str(error)[:120], "an object") from error
    if not isinstance(given, dict):
        raise _invalid_arguments(path, "wrong_type", f"{type(given).__name__} given", "an object")
    return cast("Document", given)


def _invalid_arguments(path: str, code: str, message: str, expected: str) -> InvalidInput:
    fix = json.dumps({"knowledge": _EXAMPLE})
    return InvalidInput("refused", [Problem(path, code, message, expected, fix)])


def _split(entry: Document) -> tuple[Document, list[Document]]:
    """An entry as a node and its edges, each of which starts at the node."""
    node = {name: value for name, value in entry.items() if name != "edges"}
    given: object = entry.get("edges")
    given = [] if given is None else given
    if not isinstance(given, list):
        raise _invalid_arguments("knowledge.edges", "wrong_type", type(given).__name__, "a list")
    edges = cast("list[object]", given)
    if len(edges) > MAX_EDGES:
        message = f"{len(edges):,} edges"
        raise _invalid_arguments(
            "knowledge.edges", "too_many", message, f"at most {MAX_EDGES} at a time"
        )
    return node, [_from_node(edge, node, place) for place, edge in enumerate(edges)]


def _from_node(edge: object, node: Document, place: int) -> Document:
    """An edge that starts at the node; what isn't an object is refused later."""
    if not isinstance(edge, dict):
        return cast("Document", edge)
    given = cast("Document", edge)
    name = node.get("id")
    if given.get("source", name) != name:
        path = f"knowledge.edges[{place}].source"
        raise _invalid_arguments(
            path, "not_allowed", "is another node", "the entry's id, or nothing"
        )
    return {**given, "source": name}


def _readable(node: Document) -> Node:
    """A node with those of its parts that are text."""
    texts = _texts(node)
    inner = _texts(node.get("attributes"))
    tags: object = node.get("tags")
    listed = cast("list[object]", tags) if isinstance(tags, list) else []
    names = ("id", "type", "summary")
    attributes = {**inner, **{name: text for name, text in texts.items() if name not in names}}
    summary = texts.get("summary") or summary_line(attributes.get("description", ""))
    kept = tuple(tag for tag in listed if isinstance(tag, str))
    return Node(texts.get("id", ""), texts.get("type", ""), summary, kept, attributes)


def _readable_edge(edge: Document) -> Edge:
    texts = _texts(edge)
    return Edge(texts.get("source", ""), texts.get("relation", ""), texts.get("target", ""))


def _texts(given: object) -> dict[str, str]:
    if not isinstance(given, dict):
        return {}
    pairs = cast("Document", given).items()
    return {str(name): value for name, value in pairs if isinstance(value, str)}


def _is_within(path: str, told: Iterable[str]) -> bool:
    return any(path == each or path.startswith((f"{each}.", f"{each}[")) for each in told)


def _refusal(problems: Iterable[Problem]) -> KnowledgeToolResult:
    """The answer that lists the problems, with paths in the tool's own parameter."""
    # An edge's source is the entry's id, whose own problem is in the list.
    told = [p for p in problems if not re.fullmatch(r"edges\[\d+\]\.source", p.path)]
    lines = [f"- {_in_entry(problem).line()}" for problem in told]
    head = "Nothing was recorded. Fix these, then call knowledge_add again:"
    return KnowledgeToolResult("\n".join([head, *lines]), is_error=True)


def _in_entry(problem: Problem) -> Problem:
    path = re.sub(r"^nodes\[0\]", "knowledge", problem.path)
    return problem._replace(path=re.sub(r"^edges(?=\[)", "knowledge.edges", path))


def _confirmation(node: Document, edges: list[Document], receipt: Receipt) -> str:
    name = f"{node['id']} ({node['type']})"
    if receipt.is_replay:
        return f"{name} is already recorded; nothing changed."
    count = f" with {len(edges)} edge{'s' if len(edges) > 1 else ''}" if edges else ""
    lines = [f"{name} is recorded{count}."]
    lines += [f"Warning: {problem.message}; {problem.expected}." for problem in receipt.warnings]
    return "\n".join(lines)

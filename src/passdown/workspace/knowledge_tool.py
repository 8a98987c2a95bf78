"""The tool `knowledge_add`, with which an agent records knowledge while it works.

An entry is in the ledger before the tool answers. Entries that the knowledge file doesn't have yet
are written to it together at the end of a piece of work.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from passdown.core import graph
from passdown.core.kinds import stream_of
from passdown.core.names import agent_problems, id_problems
from passdown.core.schema import check_json
from passdown.errors import GateRefused, InvalidInput, Problem, raise_problems
from passdown.knowledge.graph import written_graph
from passdown.knowledge.graph_files import read_graph
from passdown.knowledge.sync import DEFAULT_FILE, parts_of, split_parts, sync_path
from passdown.workspace.context import context_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from passdown.core.results import Receipt
    from passdown.workspace import Workspace

    Document = dict[str, Any]


class PendingEntry(NamedTuple):
    """What one record added and the knowledge file doesn't have yet, without what other records
    have replaced since.
    """

    agent: str
    task: str
    version: int
    nodes: tuple[graph.Node, ...]
    edges: tuple[graph.Edge, ...]


def pending_entries(
    workspace: Workspace, agents: Collection[str] = (), *, path: str = ""
) -> list[PendingEntry]:
    """What agents (default: all) recorded and the knowledge file doesn't have yet, oldest first. A
    file that can't be read counts as empty.
    """
    context = context_of(workspace)
    target = sync_path(context.root, path or DEFAULT_FILE, context.place.folder)
    found: dict[tuple[str, int], list[graph.Node | graph.Edge]] = {}
    entries: list[tuple[int, PendingEntry]] = []
    with context.store.reading() as reader:
        known = written_graph(reader)
        written = parts_of(_read_graph_file(target, known))
        origins: dict[object, tuple[str, int]] = {
            row.node.id: (row.task, row.position) for row in reader.known_nodes()
        }
        origins |= {edge.key: (task, version) for edge, task, version in reader.edges_with_origin()}
        for name, part in parts_of(known).items():
            if written.get(name) != part:
                key = part.id if isinstance(part, graph.Node) else part.key
                found.setdefault(origins[key], []).append(part)
        for (task, version), new in found.items():
            record = reader.record(stream_of(task), version)
            author, seq = (record.author, record.seq) if record else ("", 0)
            entries.append((seq, PendingEntry(author, task, version, *split_parts(new))))
    ordered = (entry for _, entry in sorted(entries, key=lambda pair: pair[0]))
    return [entry for entry in ordered if not agents or entry.agent in agents]


def _read_graph_file(target: str, known: graph.Graph) -> graph.Graph:
    try:
        text = Path(target).read_bytes().decode().replace("\r\n", "\n")
        return read_graph(text, known=[node.id for node in known.nodes]) if text else graph.Graph()
    except (FileNotFoundError, UnicodeDecodeError, InvalidInput):
        return graph.Graph()


MAX_EDGES = 50
_EXAMPLE = {
    "id": "session-store",
    "type": "component",
    "summary": "Keeps sessions for an hour",
    "edges": [{"relation": "uses", "target": "redis"}],
}


def _text(description: str, **more: Any) -> Document:
    return {"type": "string", "description": description, **more}


_VALUE = {"type": "string", "minLength": 1, "maxLength": graph.MAX_VALUE}
_EDGE: Document = {
    "type": "object",
    "properties": {
        "relation": _text("How this relates to the target.", enum=list(graph.RELATIONS)),
        "target": _text(
            "The id of a known node, or T-1#d3, task:T-1, agent:NAME, file:PATH.",
            minLength=1,
            maxLength=graph.MAX_ID,
        ),
    },
    "required": ["relation", "target"],
    "additionalProperties": False,
}
_ENTRY: Document = {
    "type": "object",
    "description": "One entry of the knowledge graph: a node and its edges.",
    "properties": {
        "id": _text(
            "A short, stable name; the same id again replaces the entry.",
            minLength=1,
            maxLength=graph.MAX_ID,
        ),
        "type": _text("What it is.", enum=list(graph.NODE_TYPES)),
        "summary": _text("One line.", minLength=1, maxLength=graph.MAX_SUMMARY),
        "description": {**_VALUE, "description": "Details, if one line isn't enough."},
        "tags": {
            "type": "array",
            "items": {"type": "string", "pattern": r"^[^\sA-Z,]{1,100}$"},
            "maxItems": graph.MAX_TAGS,
            "description": "Lowercase words for search.",
        },
        **{name: {"type": "string", "enum": list(words)} for name, words in graph.CHOICES.items()},
        "priority": _text("Needed for a rule.", enum=list(graph.CHOICES["priority"])),
        "status": _text("Whether it is valid.", enum=list(graph.KNOWLEDGE_STATUSES)),
        "path": {**_VALUE, "description": "The file that it describes."},
        "attributes": {
            "type": "object",
            "additionalProperties": _VALUE,
            "description": "Other facts: lowercase names with texts.",
        },
        "edges": {"type": "array", "items": _EDGE, "maxItems": MAX_EDGES},
    },
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
        "properties": {"knowledge": _ENTRY},
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
        raise_problems("no such agent or task", problems)
        self._workspace = workspace
        self.agent = agent
        self.task = task

    def __call__(self, arguments: object) -> KnowledgeToolResult:
        """Record an entry; `arguments` is what the model gave, as an object or as JSON.

        An invalid entry changes nothing, and the answer lists all of its problems.
        """
        try:
            node, edges = _entry(arguments)
            receipt = self._workspace.knowledge.add(
                [node], edges, agent=self.agent, task=self.task or None
            )
        except (InvalidInput, GateRefused) as error:
            return _refusal(error.problems)
        return KnowledgeToolResult(_confirmation(node, edges, receipt))

    def buffer(self) -> list[PendingEntry]:
        """What this agent recorded and the knowledge file doesn't have yet, oldest first."""
        return pending_entries(self._workspace, [self.agent])


def _entry(arguments: object) -> tuple[Document, list[Document]]:
    """The node and the edges in a model's arguments; raises InvalidInput with all problems.

    What has the right shape is left to the graph, which checks the rest.
    """
    problems: list[Problem] = []
    try:
        given: Document = check_json(
            arguments, KNOWLEDGE_ADD["input_schema"], "", problems, _as_object
        )
    except RecursionError:
        given, problems = {}, [Problem("knowledge", "too_deep", "is nested too deeply", "an entry")]
    is_inside = re.compile(r"knowledge\.")
    if any(p.code in _SHAPE or not is_inside.match(p.path) for p in problems):
        # Fields that an entry doesn't have are attributes.
        told = [p for p in problems if p.code != "unknown_field" or not is_inside.match(p.path)]
        raise InvalidInput("refused", [_with_example(problem) for problem in told])
    node: Document = dict(given["knowledge"])
    edges: list[Document] = node.pop("edges", [])
    name = node.get("id")
    others = [place for place, edge in enumerate(edges) if edge.get("source", name) != name]
    if others:
        where, expected = f"knowledge.edges[{others[0]}].source", "the entry's id, or nothing"
        raise InvalidInput("refused", [Problem(where, "not_allowed", "is another node", expected)])
    return node, [{**edge, "source": name} for edge in edges]


_SHAPE = ("wrong_type", "too_many")


def _as_object(value: object, kind: str) -> object:
    """An object without empty members; some models give it as JSON."""
    if kind == "object" and isinstance(value, str):
        with suppress(ValueError, RecursionError):
            value = json.loads(value)
    if kind != "object" or not isinstance(value, dict):
        return value
    return {name: part for name, part in cast("Document", value).items() if part is not None}


def _with_example(problem: Problem) -> Problem:
    is_outer = problem.path in ("", "knowledge")
    return problem._replace(fix=json.dumps({"knowledge": _EXAMPLE})) if is_outer else problem


def _refusal(problems: Iterable[Problem]) -> KnowledgeToolResult:
    """The answer that lists the problems, with paths in the tool's own parameter."""
    # An edge's source is the entry's id, whose own problem is in the list.
    told = [p for p in problems if not re.fullmatch(r"edges\[\d+\]\.source", p.path)]
    paths = [re.sub(r"^nodes\[0\]", "knowledge", problem.path) for problem in told]
    paths = [re.sub(r"^edges(?=\[)", "knowledge.edges", path) for path in paths]
    lines = [f"- {p._replace(path=path).line()}" for p, path in zip(told, paths, strict=True)]
    head = "Nothing was recorded. Fix these, then call knowledge_add again:"
    return KnowledgeToolResult("\n".join([head, *lines]), is_error=True)


def _confirmation(node: Document, edges: list[Document], receipt: Receipt) -> str:
    name = f"{node['id']} ({node['type']})"
    if receipt.is_replay:
        return f"{name} is already recorded; nothing changed."
    count = f" with {len(edges)} edge{'s' if len(edges) > 1 else ''}" if edges else ""
    lines = [f"{name} is recorded{count}."]
    lines += [f"Warning: {problem.message}; {problem.expected}." for problem in receipt.warnings]
    return "\n".join(lines)

"""The tool with which an agent writes knowledge down while it works: `knowledge_add`.

It has one parameter, an object, since models fill that in most reliably. An entry is in the ledger
before the tool answers; what waits for the knowledge file is in `knowledge_boundary`.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from passdown.errors import GateRefused, InvalidInput, Problem
from passdown.model.graph import (
    CHOICES,
    KNOWLEDGE_STATUSES,
    MAX_ID,
    MAX_SUMMARY,
    MAX_TAGS,
    MAX_VALUE,
    NODE_TYPES,
    RELATIONS,
    Edge,
    Node,
    check_graph,
    summary_line,
)
from passdown.model.knowledge import as_values, reserved_problems
from passdown.model.names import agent_problems, id_problems
from passdown.relay.knowledge_boundary import Waiting, waiting

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from passdown.model.command import Receipt
    from passdown.workspace import Workspace

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
            "relation": _text("How this bears on the target.", enum=list(RELATIONS)),
            "target": _text(
                "The id of a node that is known, or T-1#d3, task:T-1, agent:NAME, file:PATH.",
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
            "A short name that stays; the same id again replaces what it said.",
            minLength=1,
            maxLength=MAX_ID,
        ),
        "type": _text("What it is.", enum=list(NODE_TYPES)),
        "summary": _text("One line.", minLength=1, maxLength=MAX_SUMMARY),
        "description": {**values, "description": "The rest, if one line isn't enough."},
        "tags": {
            "type": "array",
            "items": {"type": "string", "pattern": r"^[^\sA-Z,]{1,100}$"},
            "maxItems": MAX_TAGS,
            "description": "Lowercase words to find it by.",
        },
        **named,
        "status": _text("Whether it holds.", enum=list(KNOWLEDGE_STATUSES)),
        "path": {**values, "description": "The file that it is about."},
        "attributes": {
            "type": "object",
            "additionalProperties": values,
            "description": "Anything else, as texts by lowercase name.",
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
    "description": "Write down one thing about the project that others should know: a component, "
    "a rule, a pattern, a gotcha. It is kept at once, and doesn't end your turn: call it beside "
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


class ToolAnswer(NamedTuple):
    """What a tool says to the model that called it."""

    text: str
    is_error: bool = False


class KnowledgeTool:
    """`knowledge_add` for one agent. Calling it never ends a turn.

    Its buffer is what the agent wrote down and the knowledge file doesn't have yet. It is read from
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

    def __call__(self, arguments: object) -> ToolAnswer:
        """Write an entry down; `arguments` is what the model gave, as an object or as JSON.

        An entry that breaks a rule changes nothing, and the answer lists all of its problems.
        """
        try:
            node, edges = _split(_entry(arguments))
            self._check_types(node, edges)
            receipt = self._workspace.learn([node], edges, agent=self.agent, task=self.task or None)
        except (InvalidInput, GateRefused) as error:
            return _refusal(error.problems)
        return ToolAnswer(_told(node, edges, receipt))

    def buffer(self) -> list[Waiting]:
        """What this agent wrote down and the knowledge file doesn't have yet, oldest first."""
        return waiting(self._workspace, [self.agent])

    def _check_types(self, node: Document, edges: list[Document]) -> None:
        """Where something has the wrong type, look for everything else that is wrong as well:
        writing would stop at the types.
        """
        try:
            as_values([node], edges)
        except InvalidInput as error:
            texts, joined = _readable(node), [_readable_edge(edge) for edge in edges]
            others = [*check_graph([texts], joined, ()), *reserved_problems([texts], joined)]
            told = [problem.path for problem in error.problems]
            # Which nodes are known is asked when it is written; what has a wrong type is settled.
            more = [p for p in others if p.code != "unknown_node" and not _is_within(p.path, told)]
            raise InvalidInput(error.message, [*error.problems, *more]) from error


def _entry(arguments: object) -> Document:
    """The entry in a model's arguments; raises InvalidInput with what to do instead."""
    given = _object(arguments, "")
    if "knowledge" not in given:
        looks_bare = bool({"id", "type", "summary"} & given.keys())
        message = "the entry stands outside of it" if looks_bare else "is missing"
        raise _misused("knowledge", "required", message, "an object with one entry")
    if others := sorted(str(name)[:40] for name in given if name != "knowledge"):
        message = f"unknown parameters: {', '.join(others[:5])}"
        raise _misused("", "unknown_parameter", message, "nothing beside `knowledge`")
    return _object(given["knowledge"], "knowledge")


def _object(given: object, path: str) -> Document:
    """An object, which some models give as its JSON."""
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except (ValueError, RecursionError) as error:
            raise _misused(path, "invalid_json", str(error)[:120], "an object") from error
    if not isinstance(given, dict):
        raise _misused(path, "wrong_type", f"{type(given).__name__} given", "an object")
    return cast("Document", given)


def _misused(path: str, code: str, message: str, expected: str) -> InvalidInput:
    fix = json.dumps({"knowledge": _EXAMPLE})
    return InvalidInput("refused", [Problem(path, code, message, expected, fix)])


def _split(entry: Document) -> tuple[Document, list[Document]]:
    """An entry as a node and its edges, each of which starts at the node."""
    node = {name: value for name, value in entry.items() if name != "edges"}
    given: object = entry.get("edges")
    given = [] if given is None else given
    if not isinstance(given, list):
        raise _misused("knowledge.edges", "wrong_type", type(given).__name__, "a list")
    edges = cast("list[object]", given)
    if len(edges) > MAX_EDGES:
        message = f"{len(edges):,} edges"
        raise _misused("knowledge.edges", "too_many", message, f"at most {MAX_EDGES} at a time")
    return node, [_from_node(edge, node, place) for place, edge in enumerate(edges)]


def _from_node(edge: object, node: Document, place: int) -> Document:
    """An edge that starts at the node; what is no object stays, to be refused with the rest."""
    if not isinstance(edge, dict):
        return cast("Document", edge)
    given = cast("Document", edge)
    name = node.get("id")
    if given.get("source", name) != name:
        path = f"knowledge.edges[{place}].source"
        raise _misused(path, "not_allowed", "is another node", "the entry's own id, or nothing")
    return {**given, "source": name}


def _readable(node: Document) -> Node:
    """A node with those of its parts that are texts."""
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


def _refusal(problems: Iterable[Problem]) -> ToolAnswer:
    """The answer that lists what is wrong, in the words of the tool's own parameter."""
    # An edge's source is the entry's id, whose own problem is in the list.
    told = [p for p in problems if not re.fullmatch(r"edges\[\d+\]\.source", p.path)]
    lines = [f"- {_in_entry(problem).line()}" for problem in told]
    head = "Nothing was written. Mend this and call knowledge_add again:"
    return ToolAnswer("\n".join([head, *lines]), is_error=True)


def _in_entry(problem: Problem) -> Problem:
    path = re.sub(r"^nodes\[0\]", "knowledge", problem.path)
    return problem._replace(path=re.sub(r"^edges(?=\[)", "knowledge.edges", path))


def _told(node: Document, edges: list[Document], receipt: Receipt) -> str:
    name = f"{node['id']} ({node['type']})"
    if receipt.is_replay:
        return f"{name} was known word for word; nothing had to be written."
    count = f" with {len(edges)} edge{'s' if len(edges) > 1 else ''}" if edges else ""
    lines = [f"{name} is written down{count}."]
    lines += [f"Mind: {problem.message}; {problem.expected}." for problem in receipt.warnings]
    return "\n".join(lines)

"""Import the knowledge graph of MCP's memory server: entities and relations as JSON lines."""

from __future__ import annotations

import unicodedata
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from passdown.core.graph import MAX_VALUE, Edge, Node, check_graph, is_reference, summary_line
from passdown.core.index_entries import tag_of
from passdown.core.names import suggest_tag
from passdown.core.record import canonical_bytes
from passdown.core.text import excerpt, text_problems
from passdown.errors import Problem
from passdown.imports.job import (
    earlier_without_task,
    not_text,
    read_lines,
    short_hash,
    text_of,
    texts_of,
)

if TYPE_CHECKING:
    from passdown.imports.job import ImportJob

_OWN = "entity:"


class McpMemory(NamedTuple):
    """The nodes and edges of a file, each once, and a problem for each unusable line."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    problems: tuple[Problem, ...]


def read_memory(data: bytes) -> McpMemory:
    """Read the graph in a file of JSON lines. An entity that is listed twice has the observations
    of both; a relation to an unknown entity is a problem.
    """
    lines = read_lines(data)
    problems = list(lines.problems)
    types: dict[str, list[str]] = {}
    observations: dict[str, list[str]] = {}
    relations: list[tuple[int, dict[str, Any]]] = []
    for number, entry in lines.objects:
        kind = _kind(entry)
        if kind == "entity":
            _read_entity(number, entry, types, observations, problems)
        elif kind == "relation":
            relations.append((number, entry))
        else:
            message = f"{excerpt(repr(entry.get('type')))} is neither entity nor relation"
            problems.append(Problem(f"line {number}", "unknown_type", message, "one of the two"))
    nodes = [_node(name, types[name], texts, problems) for name, texts in observations.items()]
    taken = [node for node in nodes if node is not None]
    edges = _edges(relations, {node.id for node in taken}, problems)
    return McpMemory(tuple(taken), tuple(edges), tuple(problems))


def looks_like_memory(entry: dict[str, Any]) -> bool:
    """Whether an object is an entity or a relation of the memory server."""
    return bool(_kind(entry))


def _kind(entry: dict[str, Any]) -> str:
    """`entity`, `relation` or nothing; without `type`, by the other fields."""
    if {"name", "entityType"} <= entry.keys() and entry.get("type", "entity") == "entity":
        return "entity"
    is_relation = {"from", "to", "relationType"} <= entry.keys()
    return "relation" if is_relation and entry.get("type", "relation") == "relation" else ""


def _id(name: str) -> str:
    """An entity's id: its name, unless that is the id of a task, an agent, an item or a file."""
    return f"{_OWN}{name}" if is_reference(name) else name


def _read_entity(
    number: int,
    entry: dict[str, Any],
    types: dict[str, list[str]],
    known: dict[str, list[str]],
    problems: list[Problem],
) -> None:
    name = text_of(entry, "name")
    where = f"line {number}"
    given: object = entry.get("observations")
    observations = texts_of(entry, "observations")
    listed = cast("list[object]", given) if isinstance(given, list) else []
    lost = len(listed) - len(observations) + (given is not None and not isinstance(given, list))
    if not name:
        problems.append(not_text(where, "name", entry.get("name")))
        return
    if lost:
        message = f"{lost} of them are no text, or blank"
        problems.append(Problem(f"{where}: observations", "wrong_type", message, "a list of texts"))
    before = known.setdefault(name, [])
    before += [text for text in observations if text not in before]
    types.setdefault(name, []).append(text_of(entry, "entityType"))


def _node(name: str, types: list[str], texts: list[str], problems: list[Problem]) -> Node | None:
    kept: list[str] = []
    size = 0
    for text in texts:
        size += len(text) + 1
        if size > MAX_VALUE or text_problems(text, name):
            message = f"the observation {excerpt(text)!r} is not taken"
            expected = f"text, {MAX_VALUE:,} characters in all"
            problems.append(Problem(excerpt(name), "too_long", message, expected))
            size -= len(text) + 1
        else:
            kept.append(text)
    tags = dict.fromkeys(tag for tag in map(_tag, types) if tag)
    summary = summary_line(f"{name}: {kept[0]}" if kept else name)
    attributes = {"description": "\n".join(kept)} if kept else {}
    node = Node(_id(name), "insight", summary, tuple(tags), attributes)
    faults = [*text_problems(name, "name"), *check_graph([node], [])]
    problems += [fault._replace(path=f"{excerpt(name)}: {fault.path}") for fault in faults]
    return None if faults else node


def _tag(type: str) -> str:
    """A type as a tag: in ASCII if that loses no letter, else in its own script."""
    bare = (char for char in unicodedata.normalize("NFKD", type) if not unicodedata.combining(char))
    is_plain = all(char.isascii() for char in bare if char.isalnum())
    return (suggest_tag(type) if is_plain else "") or tag_of(type).strip("-")


def _edges(
    relations: list[tuple[int, dict[str, Any]]], ids: set[str], problems: list[Problem]
) -> list[Edge]:
    names: dict[tuple[str, str], list[str]] = {}
    for number, entry in relations:
        ends = _id(text_of(entry, "from")), _id(text_of(entry, "to"))
        unknown = [end for end in ends if end not in ids]
        name = text_of(entry, "relationType")
        if unknown or text_problems(name, "relationType"):
            message = f"leads to {excerpt(unknown[0])!r}" if unknown else "has no name"
            expected = "entities of this file at both ends, and a name"
            problems.append(Problem(f"line {number}", "unknown_node", message, expected))
        elif name not in names.setdefault(ends, []):
            names[ends].append(name)
    found: list[Edge] = []
    for (source, target), words in names.items():
        edge = Edge(source, "relates_to", target, {"name": "; ".join(sorted(words))})
        faults = check_graph([], [edge], ids)
        problems += [fault._replace(path=f"{excerpt(source)}: {fault.path}") for fault in faults]
        found += [] if faults else [edge]
    return found


# --- recording


def import_memory(job: ImportJob) -> None:
    """Record each entity as a node and the relations between two entities as an edge."""
    for name in job.names:
        nodes, edges, problems = read_memory(job.read(name))
        missing = Problem(name, "no_entity", "there is no entity in it", "an entity a line")
        job.begin(nodes, problems, missing)
        earlier = earlier_without_task(job.context, job.task, "memory")
        earlier.ensure_task("What the memory server of MCP knew", job.agent)
        for part in job.each([*nodes, *edges]):
            content: list[object] = [dict(part.attributes)]
            if isinstance(part, Node):
                kind, about = "entity", part.id
                content = [part.summary, sorted(part.tags), *content]
            else:
                kind, about = "relation", f"{part.source} -> {part.target}"
            subject = f"memory-{short_hash(kind, about)}"
            state = short_hash(canonical_bytes(content).decode())
            learn = partial(earlier.learn, job.agent, subject, state, about)
            given = {"nodes": [part]} if isinstance(part, Node) else {"edges": [part]}
            job.write(about, kind, partial(learn, **given))

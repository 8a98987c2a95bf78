"""Memory for agents: texts stored under keys and found by meaning.

`MemoryStore` is a protocol. `LedgerMemory` keeps memories in a workspace next to the decisions of
every handoff; `passdown.adapters.chroma` keeps them in ChromaDB.

A memory is the node `memory:KEY` of the knowledge graph, so any key is possible. In relationships
the id of an item (`T-1#d2`), task, agent or file means that thing, `node:ID` means a node of the
knowledge graph, and every other name means a memory.
"""

from __future__ import annotations

import asyncio
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self, TypeVar, cast, runtime_checkable

from passdown.adapters.shared import note_stored
from passdown.adapters.state_schema import plain
from passdown.core.arguments import number_problems, raise_problems, text_type_problems
from passdown.core.graph import (
    MAX_ID,
    MAX_VALUE,
    Edge,
    Node,
    RelatedNode,
    Relation,
    edge_key,
    is_reference,
    matching_relations,
    relations_of,
    summary_line,
)
from passdown.core.handoff import Decision
from passdown.core.index_entries import KNOWLEDGE, is_key_only
from passdown.core.intake import check_entry
from passdown.core.items import searched_text
from passdown.core.kinds import WORKSPACE_TASK, parse_address
from passdown.core.names import agent_problems, id_problems, path_problems
from passdown.core.redaction import redact, redact_value
from passdown.core.rows import MEMORY_PREFIX, NODE_PREFIX
from passdown.core.schema import as_plain, value_of
from passdown.core.text import has_lone_surrogate, text_problems
from passdown.core.times import utc_now
from passdown.errors import InvalidInput, NotFound, Problem
from passdown.workspace.entries import with_store_retries

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from passdown.core.results import Recalled
    from passdown.workspace import Workspace


MAX_KEY = MAX_ID - len(MEMORY_PREFIX)
MAX_QUERY = 10_000
MAX_K = 1_000
MAX_DEPTH = 50
_ALL_WORK = f"task:{WORKSPACE_TASK}"
"""Where the ledger keeps what belongs to no task, which isn't said of a decision without one."""

REFUSED = "refused; nothing was changed"


@dataclass(frozen=True)
class MemoryResult:
    """One memory that was found. `score` is 0 to 1; `metadata` is read-only at every depth and
    equal to what was stored.
    """

    key: str
    content: str
    score: float
    metadata: Mapping[str, Any]

    def __post_init__(self) -> None:
        """Raises ValueError for a score outside of 0 to 1."""
        if not 0 <= self.score <= 1:
            raise ValueError(f"a score is 0 to 1, not {self.score}")
        object.__setattr__(self, "metadata", _read_only(dict(self.metadata)))

    def __hash__(self) -> int:
        return hash((self.key, self.content, self.score))


class DecisionResult(NamedTuple):
    """One decision that was found: its key, the decision, and a score of 0 to 1."""

    key: str
    decision: Decision
    score: float


class _ReadOnlyList(tuple[Any, ...]):
    """A tuple that equals the list that it was made from."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return list(self) == (
            list(cast("tuple[object, ...]", other)) if isinstance(other, tuple) else other
        )

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(list(self))


def _read_only(value: Any) -> Any:
    if isinstance(value, Mapping):
        pairs = cast("Mapping[str, Any]", value).items()
        return MappingProxyType({name: _read_only(part) for name, part in pairs})
    if isinstance(value, list | tuple):
        return _ReadOnlyList(_read_only(part) for part in cast("list[Any]", value))
    return value


class PreparedMemory(NamedTuple):
    """A memory that may be stored: checked, without secrets, its metadata as one JSON text."""

    key: str
    content: str
    metadata: str


def prepare_memory(key: str, content: str, metadata: Mapping[str, Any] | None) -> PreparedMemory:
    """A memory as it is stored; raises InvalidInput with everything that is wrong with it."""
    problems = key_problems(key, "key")
    problems += text_problems(content, "content", max_length=MAX_VALUE)
    text = "{}"
    try:
        text = _json_text({} if metadata is None else metadata)
    except (InvalidInput, ValueError) as error:
        expected = "a dict as JSON has it: finite numbers, nothing that holds itself"
        message = " ".join(str(error).split())[:200]
        problems.append(Problem("metadata", "not_json", message, expected))
    if len(text) > MAX_VALUE:
        expected = f"at most {MAX_VALUE:,} characters of JSON"
        problems.append(Problem("metadata", "too_long", f"{len(text):,} characters", expected))
    raise_problems(REFUSED, problems, next_step="Fix these and try again.")
    return PreparedMemory(key, redact(content)[0], text)


def _json_text(value: object) -> str:
    if not isinstance(value, Mapping):
        raise ValueError(f"{type(value).__name__} given")
    clean = redact_value(plain(cast("Mapping[str, Any]", value)))[0]
    text = json.dumps(clean, ensure_ascii=False, allow_nan=False)
    return json.dumps(clean) if has_lone_surrogate(text) else text


def key_problems(key: object, path: str) -> list[Problem]:
    """What is wrong with a memory's key, or with the name of an end of a relationship."""
    expected = f"1 to {MAX_KEY} printable characters, without space at either end"
    if not isinstance(key, str):
        return [Problem(path, "wrong_type", f"{type(key).__name__} given", expected)]
    if 0 < len(key) <= MAX_KEY and key == key.strip() and key.isprintable():
        return []
    return [Problem(path, "invalid_id", "can't be a key", expected)]


def check_query(text: object, k: object, path: str = "query") -> None:
    """Raises InvalidInput for a text or a number of results that can't be used."""
    problems = text_problems(text, path, max_length=MAX_QUERY)
    if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= MAX_K:
        problems.append(Problem("k", "out_of_range", str(k)[:40], f"1 to {MAX_K:,}"))
    raise_problems("the query can't be run", problems)


def check_names(**names: object) -> None:
    """Raises InvalidInput for a name that isn't text."""
    raise_problems("the query can't be run", text_type_problems(**names))


def project_folder(project: object) -> str:
    """The folder name of a project, different for every project.

    `Shop` and `shop` differ, also where file names ignore case. Raises InvalidInput for a bad id.
    """
    problems = id_problems(project, "project")
    if problems or not isinstance(project, str):
        raise InvalidInput("the project can't be opened", problems)
    if project == project.lower():
        return project
    capitals = "".join("1" if char.isupper() else "0" for char in project)
    return f"{project.lower()}~{int(capitals, 2):x}"


def node_of_name(name: str) -> str:
    """The graph's id for a name: items, tasks, agents and files keep theirs, `node:ID` is a
    recorded node, anything else is the key of a memory.
    """
    if is_reference(name):
        return name
    return name.removeprefix("node:") if name.startswith("node:") else MEMORY_PREFIX + name


def is_no_file(name: str) -> bool:
    """Whether an artifact can be the name of an end of a relationship, and not a file's path."""
    return bool(path_problems(name, "")) and not key_problems(name, "")


def name_of_node(node: str) -> str:
    """The name of a node of the graph; the inverse of `node_of_name`."""
    if is_reference(node):
        return node
    return node.removeprefix(MEMORY_PREFIX) if node.startswith(MEMORY_PREFIX) else f"node:{node}"


T = TypeVar("T")


@runtime_checkable
class MemoryStore(Protocol):
    """What agents expect of a memory; every method is awaited. `DecisionMemory` keeps decisions in
    any of them.
    """

    async def store_embedding(
        self, key: str, content: str, metadata: Mapping[str, Any] | None = None
    ) -> None:
        """Store a text under a key, replacing what had that key."""
        ...

    async def search_similar(self, query: str, k: int = 5) -> list[MemoryResult]:
        """The `k` entries nearest to a query, best first; fewer only if there are fewer."""
        ...

    async def store_relationship(self, source: str, target: str, relation: str) -> None:
        """Store a relationship; storing it again changes nothing."""
        ...


@runtime_checkable
class GraphStore(Protocol):
    """Queries about relationships; every method is awaited."""

    async def store_relationship(self, source: str, target: str, relation: str) -> None:
        """Store a relationship; storing it again changes nothing."""
        ...

    async def relationships(
        self, source: str = "", target: str = "", relation: str = ""
    ) -> list[Relation]:
        """Relationships that match source, target and relation; an empty one matches all."""
        ...

    async def get_related(self, node: str, depth: int = 1) -> list[RelatedNode]:
        """Nodes that can be reached from a node, nearest first, each with its path."""
        ...


class CheckedMemory(ABC):
    """A memory store whose arguments are checked here; a backend implements the `_` methods.

    Those run in a thread. Storing and searching is repeated while the store is busy.
    """

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @abstractmethod
    async def close(self) -> None:
        """Close the store. Nothing is lost by not calling it."""

    async def store_embedding(
        self, key: str, content: str, metadata: Mapping[str, Any] | None = None
    ) -> None:
        """Store a text of up to 20,000 characters under a key, replacing what had that key.

        Secrets are redacted. Raises InvalidInput.
        """
        memory = prepare_memory(key, content, metadata)
        await _in_thread(f"storing the memory {key!r}", lambda: self._store(memory))
        note_stored(key)

    async def search_similar(self, query: str, k: int = 5) -> list[MemoryResult]:
        """The memories and decisions nearest to a query, best first.

        The metadata of a decision have its kind, agent, task, time and status.
        """
        check_query(query, k)
        return await _in_thread(f"searching for {query[:60]!r}", lambda: self._search(query, k))

    async def store_relationship(self, source: str, target: str, relation: str) -> None:
        """Store a relationship with any name; unknown ends are created. Raises InvalidInput."""
        raise_problems(REFUSED, key_problems(source, "source") + key_problems(target, "target"))
        check_names(relation=relation)
        wanted = Relation(source, relation, target)
        await _in_thread(f"relating {source!r} to {target!r}", lambda: self._relate(wanted))

    async def relationships(
        self, source: str = "", target: str = "", relation: str = ""
    ) -> list[Relation]:
        """Relationships that match source, target and relation; an empty one matches all."""
        check_names(source=source, target=target, relation=relation)
        wanted = Relation(source, relation, target)
        return await _in_thread("reading relationships", lambda: self._relations(wanted))

    async def get_related(self, node: str, depth: int = 1) -> list[RelatedNode]:
        """Nodes that can be reached from a node, nearest first; none from an unknown one."""
        problems = text_type_problems(node=node) + number_problems(depth, "depth", 1, MAX_DEPTH)
        raise_problems("the graph can't be searched", problems)
        operation = f"searching around {node[:60]!r}"
        return await _in_thread(operation, lambda: self._near(node, depth))

    async def store_decision(self, decision: Decision, task: str | None = None) -> str:
        """Store a decision; returns its key.

        The same decision of the same time is stored once. Raises TypeError for anything but a
        `Decision`, InvalidInput for one without a reason or an agent.
        """
        key = await _in_thread("storing a decision", lambda: self._decide(decision, task))
        note_stored(key)
        return key

    async def query_decisions(
        self, text: str, agent: str | None = None, k: int = 5
    ) -> list[DecisionResult]:
        """The decisions nearest to a text, of one agent or of all, best first.

        Superseded ones are among them; their status says so.
        """
        check_query(text, k, "text")
        check_names(agent="" if agent is None else agent)
        operation = f"searching for {text[:60]!r}"
        return await _in_thread(operation, lambda: self._decisions(text, agent or "", k))

    @abstractmethod
    def _store(self, memory: PreparedMemory) -> None: ...

    @abstractmethod
    def _search(self, query: str, k: int) -> list[MemoryResult]: ...

    @abstractmethod
    def _relate(self, relation: Relation) -> None: ...

    @abstractmethod
    def _relations(self, wanted: Relation) -> list[Relation]: ...

    @abstractmethod
    def _near(self, node: str, depth: int) -> list[RelatedNode]: ...

    @abstractmethod
    def _decide(self, decision: Decision, task: str | None) -> str: ...

    @abstractmethod
    def _decisions(self, text: str, agent: str, k: int) -> list[DecisionResult]: ...


async def _in_thread(operation: str, action: Callable[[], T]) -> T:
    return await asyncio.to_thread(with_store_retries, operation, action)


class LedgerMemory(CheckedMemory):
    """A memory store on a workspace, which may be behind a server.

    Memories are written by `agent`. What had a key before stays in history. Search finds everything
    that was recorded, not only memories: the key of an item is its address.
    """

    def __init__(self, workspace: Workspace, *, agent: str = "memory") -> None:
        """Use an open workspace; `open` makes a workspace for each project."""
        self.workspace = workspace
        self._agent = agent

    @classmethod
    async def open(
        cls, root: str | os.PathLike[str], project: str, *, agent: str = "memory"
    ) -> Self:
        """The memory of a project: a workspace in a folder of its name under `root`."""
        folder = os.path.join(os.fspath(root), project_folder(project))

        def opened() -> Self:
            from passdown import workspace

            return cls(workspace.init(folder), agent=agent)

        return await _in_thread(f"opening {folder}", opened)

    async def close(self) -> None:
        """Close the workspace. Nothing is lost by not calling it."""
        await asyncio.to_thread(self.workspace.close)

    def _store(self, memory: PreparedMemory) -> None:
        attributes = {"description": memory.content, "metadata": memory.metadata}
        summary = summary_line(memory.content)
        node = Node(MEMORY_PREFIX + memory.key, "insight", summary, (), attributes)
        # Decisions that named it before it was there, when it could as well have been a file.
        known = self.workspace.knowledge.edges
        meant = known(relation="relates_to", target=f"file:{memory.key}")
        there = {edge.source for edge in known(relation="relates_to", target=node.id)}
        edges = [
            Edge(each.source, "relates_to", node.id)
            for each in meant
            if each.source not in there and _is_item(each.source, "d")
        ]
        self.workspace.knowledge.add([node], edges, agent=self._agent)

    def _search(self, query: str, k: int) -> list[MemoryResult]:
        limit = k
        while True:
            found = self.workspace.recall(query, limit=limit)
            results = [result for answer in found if (result := self._result(answer)) is not None]
            if len(results) >= k or len(found) < limit or limit == MAX_K:
                return results[:k]
            limit = min(MAX_K, 2 * limit)  # bare names of ends are found too, and skipped

    def _result(self, answer: Recalled) -> MemoryResult | None:
        """A search hit as a memory; None for a node that has only a name."""
        score = min(1.0, max(0.0, answer.score))
        about = {"kind": answer.kind, "agent": answer.agent, "task": answer.task, "at": answer.at}
        about["status"] = answer.status
        try:
            if answer.kind != KNOWLEDGE:
                return MemoryResult(answer.address, self._text(answer.address), score, about)
            name = answer.address.removeprefix(NODE_PREFIX)
            node = self.workspace.knowledge.graph(around=[name], depth=0).nodes[0]
        except NotFound:  # forgotten since the search
            return None
        if not name.startswith(MEMORY_PREFIX):
            content = node.attributes.get("description") or node.summary
            return MemoryResult(answer.address, content, score, {**about, "type": node.type})
        if "metadata" not in node.attributes:
            return None
        metadata = json.loads(node.attributes["metadata"])
        key = name.removeprefix(MEMORY_PREFIX)
        return MemoryResult(key, node.attributes["description"], score, metadata)

    def _text(self, address: str) -> str:
        parsed = parse_address(address)
        letter = parsed.letter if parsed else "d"
        return searchable(letter, self.workspace.show(address).to_dict())

    def _relate(self, relation: Relation) -> None:
        source, name, target = relation
        ends = node_of_name(source), node_of_name(target)
        self.workspace.knowledge.relate(ends[0], name, ends[1], agent=self._agent)

    def _relations(self, wanted: Relation) -> list[Relation]:
        source, target = (node_of_name(x) if x else "" for x in (wanted.source, wanted.target))
        relation = edge_key(Relation("", wanted.relation, ""))[1] if wanted.relation else ""
        edges = self.workspace.knowledge.edges(source=source, relation=relation, target=target)
        found = matching_relations(edges, "", wanted.relation, "")
        # The key of a memory may look like the id of something else; either is told once.
        named = (_with_public_names(each) for each in found if each.target != _ALL_WORK)
        return list(dict.fromkeys(named))

    def _near(self, node: str, depth: int) -> list[RelatedNode]:
        try:
            found = self.workspace.knowledge.neighbours(node_of_name(node), depth=depth)
        except NotFound:
            return []
        places = [
            RelatedNode(
                name_of_node(place.node),
                place.depth,
                tuple(_with_public_names(relations_of(edge)[0]) for edge in place.path),
            )
            for place in found
            if place.node != _ALL_WORK
        ]
        return list({place.node: place for place in reversed(places)}.values())[::-1]

    def _decide(self, decision: Decision, task: str | None) -> str:
        key = self.workspace.decisions.store(decision, task)
        address = self.workspace.decisions.address(key, task)
        # The record itself leads to files, memories and references; the others are named here.
        for name in decision.artifacts:
            if is_no_file(name) and not is_key_only(name) and not is_reference(name):
                self._relate(Relation(address, "relates_to", name))
        return address

    def _decisions(self, text: str, agent: str, k: int) -> list[DecisionResult]:
        found = self.workspace.recall(text, kinds=["decision"], agent=agent, limit=k)
        return [
            DecisionResult(
                each.address,
                value_of(Decision, self.workspace.show(each.address).to_dict()),
                min(1.0, max(0.0, each.score)),
            )
            for each in found
        ]


class DecisionMemory:
    """Decisions in any memory store: each is one entry, with its relationships to its artifacts and
    its agent.
    """

    def __init__(self, memory: MemoryStore) -> None:
        """Raises InvalidInput for what lacks a method of a memory store."""
        names = ("store_embedding", "search_similar", "store_relationship")
        missing = [name for name in names if not callable(getattr(memory, name, None))]
        given = type(memory).__name__
        problems = [Problem(name, "required", f"{given} has none", "a method") for name in missing]
        raise_problems("this is no memory store", problems)
        self._memory = memory

    async def store_decision(self, decision: Decision, task: str = "") -> str:
        """Store a decision under agent and time, and a number if those are taken; gives the key.

        The same decision is stored once. Raises TypeError for anything but a `Decision`,
        InvalidInput for one without a reason or an agent.
        """
        entry = checked_decision(decision, task or None)
        base = f"decision-{entry['agent']}-{entry['at']}"
        text = searchable("d", entry)
        fields: dict[str, Any] = {
            "type": "decision",
            "agent": entry["agent"],
            "timestamp": entry["at"],
            "rationale": entry["rationale"],
            "task": task,
            "related_artifacts": entry.get("artifacts", []),
            "decision": json.dumps(entry, ensure_ascii=False),
        }
        known = {each.key: each.decision for each in await self._all_near(text)}
        number, key = 1, base
        while key in known and as_plain(known[key]) != as_plain(value_of(Decision, entry)):
            number += 1
            key = f"{base}-{number}"
        await self._memory.store_embedding(key, text, fields)
        for each in decision_relations(key, entry, task or None, fields["related_artifacts"]):
            await self._memory.store_relationship(each.source, each.target, each.relation)
        note_stored(key)
        return key

    async def query_decisions(
        self, text: str, agent: str | None = None, k: int = 5
    ) -> list[DecisionResult]:
        """The `k` decisions nearest to a text, of one agent or of all, best first; fewer only if
        there are fewer.
        """
        check_query(text, k, "text")
        check_names(agent="" if agent is None else agent)
        return (await self._all_near(text, agent or "", k))[:k]

    async def _all_near(self, text: str, agent: str = "", k: int = MAX_K) -> list[DecisionResult]:
        """At least `k` decisions, or all of them: more is asked for until there are enough."""
        limit = k
        while True:
            found = await self._memory.search_similar(text[:MAX_QUERY], limit)
            decisions = [
                decision_result(each.key, each.metadata["decision"], each.score)
                for each in found
                if _is_decision(each, agent)
            ]
            if len(decisions) >= k or len(found) < limit or limit >= MAX_K:
                return decisions
            limit = min(MAX_K, 2 * limit)


def _is_decision(found: MemoryResult, agent: str) -> bool:
    fields = found.metadata
    is_one = fields.get("type") == "decision" and isinstance(fields.get("decision"), str)
    return is_one and (not agent or fields.get("agent") == agent)


def decision_result(key: str, document: str, score: float) -> DecisionResult:
    """A decision that was found, from its JSON."""
    return DecisionResult(key, value_of(Decision, json.loads(document)), score)


def checked_decision(decision: Decision, task: str | None) -> dict[str, Any]:
    """A decision as plain data, with a time and without secrets; raises TypeError or
    InvalidInput.
    """
    if not isinstance(decision, Decision):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"expected a Decision, not {type(decision).__name__}")
    given = {**as_plain(decision), "at": as_plain(decision.at or utc_now())}
    entry, problems = check_entry("decision", given)
    problems += agent_problems(decision.agent, "agent")
    problems += id_problems(task, "task") if task is not None else []
    errors = [problem for problem in problems if problem.level == "error"]
    raise_problems(REFUSED, errors, next_step="Fix these and try again.")
    clean: Any = redact_value(entry)[0]
    return {name: value for name, value in clean.items() if value not in (None, "", [])}


def searchable(letter: str, entry: Mapping[str, Any]) -> str:
    """The text of an item by which it is found."""
    return "\n".join(filter(None, searched_text(letter, dict(entry))))


def decision_relations(
    key: str, entry: Mapping[str, Any], task: str | None, keys: Collection[str]
) -> list[Relation]:
    """The relations of a decision, named as in a workspace; `keys` are the artifacts that are keys
    of memories.
    """
    names = sorted({*entry.get("artifacts", ()), *entry.get("paths", ())})
    found = [Relation(key, "decided_by", f"agent:{entry['agent']}")]
    for name in names:
        is_key = name in keys or is_no_file(name)
        found.append(Relation(key, "relates_to", name if is_key else f"file:{name}"))
    found += [Relation(key, "relates_to", f"task:{task}")] if task else []
    return found + [Relation(key, "supersedes", old) for old in entry.get("supersedes", ())]


def _is_item(node: str, letter: str) -> bool:
    address = parse_address(node)
    return address is not None and address.letter == letter


def _with_public_names(relation: Relation) -> Relation:
    source, name, target = relation
    return Relation(name_of_node(source), name, name_of_node(target))


__all__ = [
    "DecisionMemory",
    "DecisionResult",
    "GraphStore",
    "LedgerMemory",
    "MemoryResult",
    "MemoryStore",
    "RelatedNode",
    "Relation",
]

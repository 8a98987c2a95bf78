"""A memory for agents: what they store under a key is found again by what it says.

`MemoryStore` is a shape: any class with these methods is one. `LedgerMemory` keeps memories in a
workspace, beside the decisions of every handoff; `passdown.adapters.chroma` keeps them in ChromaDB.

A memory is the node `memory:KEY` of the knowledge graph, so a key may look like anything, even like
the address of an item. In relationships, a name that stands for an item (`T-1#d2`), a task, an
agent or a file means that, and `node:ID` a node of the knowledge graph; any other name means a
memory.
"""

from __future__ import annotations

import asyncio
import json
import os
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar, runtime_checkable

from passdown.adapters.memory_values import (
    MAX_K,
    MEMORY,
    DecisionResult,
    MemoryResult,
    check_ends,
    check_names,
    check_question,
    check_walk,
    name_of_node,
    node_of_name,
    prepared,
    project_folder,
)
from passdown.errors import NotFound
from passdown.model.bodies import decision_from_body
from passdown.model.findable import KNOWLEDGE
from passdown.model.found_rows import NODE_PREFIX
from passdown.model.graph import Node, summary_line
from passdown.model.item_text import searched_text
from passdown.model.kinds import parse_address
from passdown.model.relations import Related, Relation, edge_key, relations_of, selected
from passdown.workspace.memories import address_of_decision, patiently, relate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from passdown.model.graph import Edge
    from passdown.model.handoff import Decision
    from passdown.model.recalled import Recalled
    from passdown.workspace import Workspace

__all__ = [
    "DecisionResult",
    "GraphStore",
    "LedgerMemory",
    "MemoryResult",
    "MemoryStore",
    "Related",
    "Relation",
]

T = TypeVar("T")


@runtime_checkable
class MemoryStore(Protocol):
    """What agents expect of a memory; every method is awaited."""

    async def store_embedding(
        self, key: str, content: str, metadata: Mapping[str, Any] | None = None
    ) -> None:
        """Keep a text under a key; it takes the place of what had that key."""
        ...

    async def search_similar(self, query: str, k: int = 5) -> list[MemoryResult]:
        """What is nearest to a question, best first: `k` of it whenever there is as much."""
        ...

    async def store_relationship(self, source: str, target: str, relation: str) -> None:
        """Keep that one thing bears on another; told again, it changes nothing."""
        ...

    async def store_decision(self, decision: Decision, task: str | None = None) -> str:
        """Keep a decision, and its relationships to its artifacts and its agent; gives its key."""
        ...

    async def query_decisions(
        self, text: str, agent: str | None = None, k: int = 5
    ) -> list[DecisionResult]:
        """The decisions nearest to a question, best first: `k` whenever there are as many."""
        ...


@runtime_checkable
class GraphStore(Protocol):
    """What can be asked about relationships; every method is awaited."""

    async def store_relationship(self, source: str, target: str, relation: str) -> None:
        """Keep that one thing bears on another; told again, it changes nothing."""
        ...

    async def relationships(
        self, source: str = "", target: str = "", relation: str = ""
    ) -> list[Relation]:
        """The relationships by any mix of source, target and relation; all of them by none."""
        ...

    async def get_related(self, node: str, depth: int = 1) -> list[Related]:
        """What can be reached from a node, nearest first, each with the way there."""
        ...


class LedgerMemory:
    """A memory store on a workspace: searched by meaning and words, found from every surface.

    What it keeps is written by `agent`. Search finds everything that was recorded, not memories
    alone: the key of an item is its address, and its metadata say kind, agent, task and time.
    """

    def __init__(self, workspace: Workspace, *, agent: str = "memory") -> None:
        """Give it an open workspace, or use `open` for a workspace of each project."""
        self.workspace = workspace
        self._agent = agent

    @classmethod
    async def open(
        cls, root: str | os.PathLike[str], project: str, *, agent: str = "memory"
    ) -> Self:
        """The memory of a project: a workspace of its own in a folder of its name under `root`."""
        folder = os.path.join(os.fspath(root), project_folder(project))

        def opened() -> Self:
            from passdown import workspace

            return cls(workspace.init(folder), agent=agent)

        return await asyncio.to_thread(patiently, f"opening {folder}", opened)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Let go of the workspace. Nothing is lost by not calling it."""
        await asyncio.to_thread(self.workspace.close)

    async def store_embedding(
        self, key: str, content: str, metadata: Mapping[str, Any] | None = None
    ) -> None:
        """Keep a text of up to 20,000 characters under a key; what had that key stays in history.

        Secrets are removed, as from everything that is recorded. Raises InvalidInput.
        """
        memory = prepared(key, content, metadata)
        attributes = {"description": memory.content, "metadata": memory.metadata}
        node = Node(MEMORY + key, "insight", summary_line(memory.content), (), attributes)
        await self._do(
            f"storing the memory {key!r}",
            lambda: self.workspace.learn([node], agent=self._agent),
        )

    async def search_similar(self, query: str, k: int = 5) -> list[MemoryResult]:
        """Whatever was recorded that is nearest to a question, best first."""
        check_question(query, k)
        return await self._do(f"searching for {query[:60]!r}", lambda: self._search(query, k))

    def _search(self, query: str, k: int) -> list[MemoryResult]:
        limit = k
        while True:
            found = self.workspace.recall(query, limit=limit)
            results = [result for answer in found if (result := self._result(answer)) is not None]
            if len(results) >= k or len(found) < limit or limit == MAX_K:
                return results[:k]
            limit = min(MAX_K, 2 * limit)  # bare names of ends are found too, and passed over

    def _result(self, answer: Recalled) -> MemoryResult | None:
        """An answer as a memory; None for a node that has a name and nothing to say."""
        score = min(1.0, max(0.0, answer.score))
        told = {"kind": answer.kind, "agent": answer.agent, "task": answer.task, "at": answer.at}
        told["status"] = answer.status
        try:
            if answer.kind != KNOWLEDGE:
                return MemoryResult(answer.address, self._text(answer.address), score, told)
            name = answer.address.removeprefix(NODE_PREFIX)
            node = self.workspace.graph(around=[name], depth=0).nodes[0]
        except NotFound:  # forgotten since the search
            return None
        if not name.startswith(MEMORY):
            content = node.attributes.get("description") or node.summary
            return MemoryResult(answer.address, content, score, {**told, "type": node.type})
        if "metadata" not in node.attributes:
            return None
        metadata = json.loads(node.attributes["metadata"])
        return MemoryResult(
            name.removeprefix(MEMORY), node.attributes["description"], score, metadata
        )

    def _text(self, address: str) -> str:
        parsed = parse_address(address)
        letter = parsed.letter if parsed else "d"
        return "\n".join(filter(None, searched_text(letter, self.workspace.show(address))))

    async def store_relationship(self, source: str, target: str, relation: str) -> None:
        """Keep that one thing bears on another, in any word; an end that is unknown becomes known
        by its name. Raises InvalidInput.
        """
        check_ends(source, target)
        check_names(relation=relation)
        told = Relation(node_of_name(source), relation, node_of_name(target))
        await self._do(
            f"relating {source!r} to {target!r}",
            lambda: relate(self.workspace, told, agent=self._agent),
        )

    async def relationships(
        self, source: str = "", target: str = "", relation: str = ""
    ) -> list[Relation]:
        """The relationships by any mix of source, target and relation; those of items and tasks are
        among them.
        """
        check_names(source=source, target=target, relation=relation)
        ends = [node_of_name(name) if name else "" for name in (source, target)]
        stored = edge_key(Relation("", relation, ""))[1] if relation else ""

        def ask() -> list[Edge]:
            return self.workspace.edges(source=ends[0], relation=stored, target=ends[1])

        found = selected(await self._do("reading relationships", ask), "", relation, "")
        return [_named(each) for each in found]

    async def get_related(self, node: str, depth: int = 1) -> list[Related]:
        """What can be reached from a node, nearest first; from an unknown one, nothing."""
        check_walk(node, depth)

        def ask() -> list[Related]:
            try:
                found = self.workspace.neighbours(node_of_name(node), depth=depth)
            except NotFound:
                return []
            return [
                Related(
                    name_of_node(place.node),
                    place.depth,
                    tuple(_named(relations_of(edge)[0]) for edge in place.path),
                )
                for place in found
            ]

        return await self._do(f"looking around {node[:60]!r}", ask)

    async def store_decision(self, decision: Decision, task: str | None = None) -> str:
        """Record a decision; its key is its address, which opens it everywhere.

        The same decision of the same time is recorded once. Raises TypeError for anything but a
        `Decision`, InvalidInput for one without a reason or an agent.
        """

        def store() -> str:
            key = self.workspace.store_decision(decision, task)
            return address_of_decision(self.workspace, key, task)

        return await self._do("storing a decision", store)

    async def query_decisions(
        self, text: str, agent: str | None = None, k: int = 5
    ) -> list[DecisionResult]:
        """The decisions nearest to a question, of one agent or of all, best first; what was
        superseded is among them, and its status says so.
        """
        check_question(text, k, "text")
        check_names(agent="" if agent is None else agent)

        def ask() -> list[DecisionResult]:
            found = self.workspace.recall(text, kinds=["decision"], agent=agent or "", limit=k)
            return [self._decision(answer) for answer in found]

        return await self._do(f"searching for {text[:60]!r}", ask)

    def _decision(self, answer: Recalled) -> DecisionResult:
        document = self.workspace.show(answer.address)
        score = min(1.0, max(0.0, answer.score))
        return DecisionResult(answer.address, decision_from_body(document), score)

    async def _do(self, operation: str, action: Callable[[], T]) -> T:
        return await asyncio.to_thread(patiently, operation, action)


def _named(relation: Relation) -> Relation:
    source, name, target = relation
    return Relation(name_of_node(source), name, name_of_node(target))

"""The methods of a workspace that find things again, awaited."""

from __future__ import annotations

from typing import TYPE_CHECKING

from passdown.aio.calling import Calling

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import date

    from passdown.model.command import Receipt
    from passdown.model.graph import Edge, Graph, Node
    from passdown.model.recalled import Recalled
    from passdown.recall.embedders import Embed
    from passdown.recall.graph import Reached, Tagged
    from passdown.workspace.aliases import CounterLike, Document, Key, Progress
    from passdown.workspace.embedding import Embedded
    from passdown.workspace.packing import Pack
    from passdown.workspace.syncing import Synced


class AsyncKnows(Calling):
    """See `workspace.knows` for what each method does."""

    async def recall(
        self,
        query: str,
        *,
        kinds: Sequence[str] = (),
        agent: str = "",
        task: str = "",
        tags: Sequence[str] = (),
        path: str = "",
        statuses: Sequence[str] = (),
        since: str | date = "",
        until: str | date = "",
        live_only: bool = False,
        by_words: bool = False,
        limit: int = 5,
        told_to: str = "",
    ) -> list[Recalled]:
        """What was recorded that has to do with a question."""
        return await self._call(
            self._workspace.recall,
            query,
            kinds=kinds,
            agent=agent,
            task=task,
            tags=tags,
            path=path,
            statuses=statuses,
            since=since,
            until=until,
            live_only=live_only,
            by_words=by_words,
            limit=limit,
            told_to=told_to,
        )

    async def embed(self, *, limit: int = 0, progress: Progress | None = None) -> Embedded:
        """Make the vectors that are missing, all or up to `limit`; says how far they are."""
        return await self._call(self._workspace.embed, limit=limit, progress=progress)

    async def embed_with(self, name: str, function: Embed) -> None:
        """Take a program's own embedder from now on."""
        await self._call(self._workspace.embed_with, name, function)

    async def embedding(self) -> Embedded:
        """How far vectors are."""
        return await self._call(self._workspace.embedding)

    async def learn(
        self,
        nodes: Iterable[Node | Document] = (),
        edges: Iterable[Edge | Document] = (),
        *,
        agent: str,
        task: str | None = None,
        key: Key = None,
        forget_nodes: Sequence[str] = (),
        forget_edges: Sequence[tuple[str, str, str]] = (),
    ) -> Receipt:
        """Write knowledge down."""
        return await self._call(
            self._workspace.learn,
            nodes,
            edges,
            agent=agent,
            task=task,
            key=key,
            forget_nodes=forget_nodes,
            forget_edges=forget_edges,
        )

    async def graph(
        self,
        *,
        around: Sequence[str] = (),
        depth: int = 1,
        task: str = "",
        tags: Sequence[str] = (),
        types: Sequence[str] = (),
    ) -> Graph:
        """The knowledge graph, or the part of it around some nodes, a task or tags."""
        return await self._call(
            self._workspace.graph, around=around, depth=depth, task=task, tags=tags, types=types
        )

    async def graph_text(
        self,
        form: str,
        *,
        around: Sequence[str] = (),
        depth: int = 1,
        task: str = "",
        tags: Sequence[str] = (),
        types: Sequence[str] = (),
    ) -> str:
        """The same graph as text."""
        return await self._call(
            self._workspace.graph_text,
            form,
            around=around,
            depth=depth,
            task=task,
            tags=tags,
            types=types,
        )

    async def edges(self, *, source: str = "", relation: str = "", target: str = "") -> list[Edge]:
        """The edges by any mix of source, relation and target; all of them by none."""
        return await self._call(
            self._workspace.edges, source=source, relation=relation, target=target
        )

    async def neighbours(
        self, node: str, *, depth: int = 1, direction: str = "out", relations: Sequence[str] = ()
    ) -> list[Reached]:
        """The nodes that can be reached from one in up to `depth` steps."""
        return await self._call(
            self._workspace.neighbours, node, depth=depth, direction=direction, relations=relations
        )

    async def tagged(
        self, tags: Sequence[str], *, types: Sequence[str] = (), limit: int = 10
    ) -> list[Tagged]:
        """Nodes under any of some tags, those that share most of them first."""
        return await self._call(self._workspace.tagged, tags, types=types, limit=limit)

    async def tasks_about(self, tag: str, *, types: Sequence[str] = ("pattern",)) -> Document:
        """The tasks that found something about a tag, each with what it found."""
        return await self._call(self._workspace.tasks_about, tag, types=types)

    async def pack(
        self,
        task: str,
        *,
        nodes: int = 20,
        budget: int = 1500,
        depth: int = 1,
        counter: CounterLike = None,
        form: str = "dot",
    ) -> Pack:
        """The part of the graph that has to do with a task."""
        return await self._call(
            self._workspace.pack,
            task,
            nodes=nodes,
            budget=budget,
            depth=depth,
            counter=counter,
            form=form,
        )

    async def sync_knowledge(self, path: str = "", *, agent: str) -> Synced:
        """Bring the knowledge file (`knowledge.dot`."""
        return await self._call(self._workspace.sync_knowledge, path, agent=agent)

    async def journal(self, task: str = "", *, limit: int = 200) -> Document:
        """Where things are."""
        return await self._call(self._workspace.journal, task, limit=limit)

    async def journal_page(self, task: str = "", *, limit: int = 200) -> str:
        """The journal as a page of Markdown."""
        return await self._call(self._workspace.journal_page, task, limit=limit)

    async def audit(self, *, limit: int = 20, progress: Progress | None = None) -> Document:
        """What is remembered and might not deserve to be."""
        return await self._call(self._workspace.audit, limit=limit, progress=progress)

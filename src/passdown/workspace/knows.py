"""What a workspace knows: search, the knowledge graph, packs, the journal, the audit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from passdown.workspace.opened import Held

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


class Knows(Held):
    """The methods that find things again."""

    def recall(
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
        """What was recorded that has to do with a question, best first: `limit` of it whenever
        there is as much that passes the filters.

        `kinds`: decision, pattern, gotcha, question, blocker, warning, next_step, handoff,
        knowledge. Of `tags` one is enough; `path` is a file or a folder; `since` and `until` are
        dates or times. With `live_only`, what was superseded, retracted or settled is left out;
        else it is marked. `by_words` leaves meaning out: no model is loaded. With `told_to`, what
        was found is recorded as told to that agent.
        """
        from passdown.workspace.recalling import asked_for, recall

        filters = {
            "kinds": kinds,
            "agent": agent,
            "task": task,
            "tags": tags,
            "path": path,
            "statuses": statuses,
            "since": since,
            "until": until,
            "live_only": live_only,
            "by_words": by_words,
            "limit": limit,
        }
        asked = asked_for(query, filters)
        return recall(self._opened, asked, told_to=told_to)

    def embed(self, *, limit: int = 0, progress: Progress | None = None) -> Embedded:
        """Make the vectors that are missing, all or up to `limit`; says how far they are.

        Nothing waits for them: what has no vector yet is found by its words.
        """
        from passdown.workspace.embedding import embed_alone

        return embed_alone(self._opened, limit=limit, progress=progress)

    def embed_with(self, name: str, function: Embed) -> None:
        """Take a program's own embedder from now on: it gets texts and gives a vector for each.

        Vectors are kept under `name`; another one makes them again, while the old ones answer.
        """
        from passdown.recall.embedders import Embedding

        self._opened.embeddings.use(Embedding(name, function))

    def embedding(self) -> Embedded:
        """How far vectors are."""
        return self._opened.embeddings.status()

    def learn(
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
        """Write knowledge down: nodes and edges are added, or take the place of those with the
        same id. Warnings name nodes that said something else; what is known already is not
        written again. An edge to forget is (source, relation, target).
        """
        from passdown.workspace.knowing import learn

        return learn(
            self._opened,
            nodes,
            edges,
            agent=agent,
            task=task or "",
            key=key or "",
            forget_nodes=forget_nodes,
            forget_edges=forget_edges,
        )

    def graph(
        self,
        *,
        around: Sequence[str] = (),
        depth: int = 1,
        task: str = "",
        tags: Sequence[str] = (),
        types: Sequence[str] = (),
    ) -> Graph:
        """The knowledge graph, or the part of it around some nodes, a task or tags."""
        from passdown.workspace.knowing import graph_of_workspace

        return graph_of_workspace(
            self._opened, around=around, depth=depth, task=task, tags=tags, types=types
        )

    def graph_text(
        self,
        form: str,
        *,
        around: Sequence[str] = (),
        depth: int = 1,
        task: str = "",
        tags: Sequence[str] = (),
        types: Sequence[str] = (),
    ) -> str:
        """The same graph as text: `json` and `dot` hold all of it, `mermaid` and `svg` are pictures
        of its best connected nodes, or of those that were asked for and the nearest to them.
        """
        from passdown.workspace.graph_texts import graph_text, starts_of

        found = self.graph(around=around, depth=depth, task=task, tags=tags, types=types)
        starts = starts_of(found, around=around, task=task, tags=tags)
        return graph_text(found, form, starts=starts)

    def edges(self, *, source: str = "", relation: str = "", target: str = "") -> list[Edge]:
        """The edges by any mix of source, relation and target; all of them by none."""
        from passdown.workspace.knowing import edges

        return edges(self._opened, source, relation, target)

    def neighbours(
        self,
        node: str,
        *,
        depth: int = 1,
        direction: str = "out",
        relations: Sequence[str] = (),
    ) -> list[Reached]:
        """The nodes that can be reached from one in up to `depth` steps, nearest first, each with
        the edges that lead there; `direction`: out, in or both. 10,000 nodes at most, and those
        whose paths have 20,000 edges together.
        """
        from passdown.workspace.knowing import neighbours

        return neighbours(self._opened, node, depth=depth, direction=direction, relations=relations)

    def tagged(
        self, tags: Sequence[str], *, types: Sequence[str] = (), limit: int = 10
    ) -> list[Tagged]:
        """Nodes under any of some tags, those that share most of them first."""
        from passdown.workspace.knowing import tagged

        return tagged(self._opened, tags, types=types, limit=limit)

    def tasks_about(self, tag: str, *, types: Sequence[str] = ("pattern",)) -> Document:
        """The tasks that found something about a tag, each with what it found."""
        from passdown.workspace.knowing import tasks_about

        return tasks_about(self._opened, tag, types)

    def pack(
        self,
        task: str,
        *,
        nodes: int = 20,
        budget: int = 1500,
        depth: int = 1,
        counter: CounterLike = None,
        form: str = "dot",
    ) -> Pack:
        """The part of the graph that has to do with a task, within a number of nodes and tokens;
        what was left out is counted.
        """
        from passdown.workspace.packing import pack

        return pack(
            self._opened,
            task,
            nodes=nodes,
            budget=budget,
            depth=depth,
            counter=counter,
            form=form,
        )

    def sync_knowledge(self, path: str = "", *, agent: str) -> Synced:
        """Bring the knowledge file (`knowledge.dot`, or JSON by its ending) and what was written
        down together; conflicts are reported, a file that can't be read is kept aside.
        """
        from passdown.workspace.syncing import sync_knowledge

        return sync_knowledge(self._opened, path, agent=agent)

    def journal(self, task: str = "", *, limit: int = 200) -> Document:
        """Where things are, what is in the way and what was learned: of a task, or of all work."""
        from passdown.recall.journal import journal

        with self._opened.store.reading() as reader:
            return journal(reader, task, limit=limit)

    def journal_page(self, task: str = "", *, limit: int = 200) -> str:
        """The journal as a page of Markdown."""
        from passdown.briefing.journal_page import journal_page

        return journal_page(self.journal(task, limit=limit))

    def audit(self, *, limit: int = 20, progress: Progress | None = None) -> Document:
        """What is remembered and might not deserve to be: said twice, out of date, never told,
        orphaned.
        """
        from passdown.recall.audit import audit

        with self._opened.store.reading() as reader:
            return audit(reader, self._opened.project, limit=limit, progress=progress)

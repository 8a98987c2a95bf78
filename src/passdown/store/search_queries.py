"""Named statements for search, the knowledge graph and vectors.

Vectors are not derived rows: a rebuild keeps them, and an entry without one is found by its words.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from passdown.core.kinds import parse_address
from passdown.core.rows import NODE_PREFIX, EntryRow, KnowledgeRow, SearchTerm, mark_of
from passdown.store.entries import (
    ComparedEntry,
    Embedder,
    EntryToEmbed,
    IndexedEntry,
    SharedEntry,
    StoredVector,
)
from passdown.store.protocol import PAGE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from passdown.core.graph import Edge, Node
    from passdown.core.rows import IndexChanges, ItemRow
    from passdown.store.protocol import Question, Row, Run, RunMany


LAST = 2**62

MOST_AUTHORS = 1_000
"""So many names of authors are told at most."""


class SearchReader:
    """Questions about what can be found, at one moment of the store.

    Where the database has no index of vectors, whoever asks for the nearest keeps one of its own.
    """

    indexes_vectors = False

    def __init__(self, run: Run) -> None:
        self.run = run

    def ahead(self, *questions: Question) -> None:
        """Say what will be asked next, so that a server is asked all of it in one round trip.

        A hint, no more: each question is asked again, in the same words, where its answer is
        needed. Where questions don't travel there is nothing to do.
        """

    def pages(self, name: str, values: Mapping[str, object], **starts: int) -> Iterator[Row]:
        """Every row of a statement that gives them in pages: `starts` names the values that say
        after which row a page begins, each with its place in a row.
        """
        while True:
            rows = self.run(name, {**values, "limit": PAGE})
            yield from rows
            if len(rows) < PAGE:
                return
            values = {**values, **{start: rows[-1][place] for start, place in starts.items()}}

    def spelled(self, sought: SearchTerm) -> str:
        """What is sought, in the language of this database's index; a value to be bound."""
        raise NotImplementedError("each database says how its index is asked")

    def newest_entry(self) -> int:
        """The highest number that an entry has; about how many there are."""
        return self.run("newest_entry", {})[0][0]

    def next_number(self) -> int:
        """The number that the next entry gets; above every number that one ever had."""
        return self.run("next_entry", {})[0][0]

    def matching(
        self, sought: SearchTerm, limit: int, *, first: int = 0, last: int = LAST
    ) -> list[int]:
        """The numbers of up to `limit` entries that match, newest first, within a span."""
        query = self.spelled(sought)
        values = {"query": query, "limit": limit, "first": first, "last": last}
        return [row[0] for row in self.run("matching", values)]

    def sharing_marks(self, marks: Sequence[str], kind: str, limit: int) -> list[SharedEntry]:
        """Up to `limit` entries of a kind with any of some marks, newest first."""
        from passdown.core.rows import SearchTerm

        values = {"query": self.spelled(SearchTerm(marks=(tuple(marks),))), "kind": kind}
        rows = self.run("sharing_marks", {**values, "limit": limit})
        return list(map(SharedEntry._make, rows))

    def matching_at(self, sought: SearchTerm, place: int) -> int:
        """The number of the `place`-th entry that matches, oldest first; 0 if there are fewer."""
        values = {"query": self.spelled(sought), "before": place - 1}
        rows = self.run("matching_at", values)
        return rows[0][0] if rows else 0

    def latest_entries(self, limit: int, *, first: int = 0, last: int = LAST) -> list[int]:
        """The numbers of the newest entries within a span."""
        values = {"first": first, "last": last, "limit": limit}
        return [row[0] for row in self.run("latest_entries", values)]

    def narrowed(self, statuses: Sequence[str], since: str, until: str, limit: int) -> list[int]:
        """Up to `limit` entries of some statuses (all: none named) and from a time to a time."""
        values = {"since": since, "until": until or "~", "limit": limit}
        if statuses:
            values["statuses"] = json.dumps(list(statuses))
        name = "entries_with_status" if statuses else "entries_at_times"
        return [row[0] for row in self.run(name, values)]

    def authors(self) -> list[str]:
        """The names of the agents who wrote what can be found; who wrote only what has been
        forgotten since may still be among them.
        """
        return [row[0] for row in self.run("authors", {})]

    def entries(self, ids: Iterable[int]) -> list[IndexedEntry]:
        """Entries by number, in the order given."""
        return [IndexedEntry(*row) for row in self.run("entries", {"ids": json.dumps(list(ids))})]

    def entry_at(self, address: str) -> IndexedEntry | None:
        """The entry of an item or node, or None."""
        rows = self.run("entry_at", {"address": address})
        return IndexedEntry(*rows[0]) if rows else None

    def looked_at(self, ids: Iterable[int]) -> list[ComparedEntry]:
        """Entries by number with all that is compared of them, in the order given."""
        rows = self.run("looked_at", {"ids": json.dumps(list(ids))})
        return [ComparedEntry(IndexedEntry(*row[:10]), *row[10:]) for row in rows]

    def words_of(self, ids: Iterable[int]) -> dict[int, str]:
        """The compared words of some entries."""
        return dict(self._pairs("words_of", ids))

    def marks_of(self, ids: Iterable[int]) -> dict[int, str]:
        """The marks of some entries."""
        return dict(self._pairs("marks_of", ids))

    def _pairs(self, name: str, ids: Iterable[int]) -> list[tuple[int, str]]:
        return [(row[0], row[1]) for row in self.run(name, {"ids": json.dumps(list(ids))})]

    def around(self, ids: Iterable[int]) -> dict[int, tuple[list[int], list[int]]]:
        """The two entries before and the two after each of some in its task, nearest first."""
        rows = self.run("around", {"ids": json.dumps(list(ids))})
        return {
            row[0]: ([n for n in row[1:3] if n is not None], [n for n in row[3:] if n is not None])
            for row in rows
        }

    def entries_of_task(self, task: str) -> list[EntryRow]:
        """Every entry of a task with its text, oldest first."""
        return [EntryRow(*row) for row in self.run("entries_of_task", {"task": task})]

    def entries_of_kind(
        self, kind: str, *, task: str = "", before: int = 2**62, limit: int = PAGE
    ) -> list[IndexedEntry]:
        """Entries of a kind, of one task or of all, newest first, below a number."""
        from passdown.core.rows import SearchTerm

        marks = [mark_of("kind", kind), *([mark_of("task", task)] if task else [])]
        query = self.spelled(SearchTerm(marks=tuple((mark,) for mark in marks)))
        values = {"query": query, "kind": kind, "before": before, "limit": limit}
        return [IndexedEntry(*row) for row in self.run("entries_of_kind", values)]

    def latest_gotchas(self, grade: str, limit: int) -> list[ItemRow]:
        """The latest gotchas of a severity that hold, of all tasks, newest first."""
        from passdown.store.statements import items_of

        query = self.spelled(SearchTerm(marks=((mark_of("severity", grade),),)))
        values = {"query": query, "grade": grade, "limit": limit}
        return items_of(self.run("latest_gotchas", values))

    def known_node(self, node: str) -> KnowledgeRow | None:
        """A node that somebody wrote down, or None."""
        rows = self.run("node", {"id": node})
        return _known(rows[0]) if rows else None

    def known_nodes(self) -> Iterator[KnowledgeRow]:
        """Every node that somebody wrote down, by id."""
        return map(_known, self.pages("nodes", {"after": ""}, after=0))

    def edges(
        self, *, source: str = "", relation: str = "", target: str = "", limit: int = 2**62
    ) -> list[Edge]:
        """Edges by any mix of source, relation and target; at least one of the ends is named."""
        values = {"source": source, "relation": relation, "target": target, "limit": limit}
        name = "edges" if source else "edges_to"
        return [_edge(row) for row in self.run(name, values)]

    def superseding(self, addresses: Sequence[str], most: int) -> dict[str, list[IndexedEntry]]:
        """What supersedes some decisions, what supersedes that, and so on, each under what it
        supersedes; of chains that come to more than `most` decisions, the beginning.
        """
        found: dict[str, list[IndexedEntry]] = {}
        values = {"addresses": json.dumps(list(addresses)), "most": most}
        for row in self.run("superseding", values):
            found.setdefault(row[0], []).append(IndexedEntry(*row[1:]))
        return found

    def all_edges(self, relation: str = "") -> Iterator[Edge]:
        """Every edge, or every one of a relation, sorted."""
        return (edge for edge, _, _ in self.edges_with_origin(relation))

    def edges_with_origin(self, relation: str = "") -> Iterator[tuple[Edge, str, int]]:
        """The same, each with the task and the version that brought it."""
        values = {"source": "", "relation": "", "target": "", "only": relation}
        rows = self.pages("all_edges", values, source=0, relation=1, target=2)
        return ((_edge(row), row[4], row[5]) for row in rows)

    def tags_of_node(self, node: str) -> list[str]:
        """The tags of a node, sorted."""
        return [row[0] for row in self.run("tags_of_node", {"node": node})]

    def all_tags(self) -> set[tuple[str, str]]:
        """Every tag with every node that has it."""
        rows = self.pages("page_tags", {"tag": "", "node": ""}, tag=0, node=1)
        return {(row[0], row[1]) for row in rows}

    def text_count(self) -> int:
        """How many entries have a text."""
        return self.run("count_texts", {})[0][0]

    def tags(self, after: str = "", limit: int = 2**62) -> dict[str, int]:
        """How many nodes each tag has, by tag."""
        return dict(self.run("tags", {"after": after, "limit": limit}))

    def tagged(self, tags: Sequence[str], limit: int) -> list[tuple[str, int]]:
        """Nodes under any of some tags with the number of them that each has, most first."""
        rows = self.run("tagged", {"tags": json.dumps(list(tags)), "limit": limit})
        return [(row[0], row[1]) for row in rows]

    def embedders(self) -> list[Embedder]:
        """Everyone who made vectors that are still there, the first one first."""
        return [Embedder(*row) for row in self.run("embedders", {})]

    def entries_left(self, after: int) -> int:
        """How many entries come after a number."""
        return self.run("count_entries", {"after": after})[0][0]

    def without_vector(self, embedder: int, after: int, limit: int) -> list[EntryToEmbed]:
        """The next entries after a number, in order, whether they have a vector or not."""
        values = {"embedder": embedder, "after": after, "limit": limit}
        rows = self.run("without_vector", values)
        return [EntryToEmbed(*row[:3], is_there=bool(row[3])) for row in rows]

    def vectors_after(self, embedder: int, after: int, limit: int) -> list[StoredVector]:
        """The next vectors after an entry's number, in order."""
        values = {"embedder": embedder, "after": after, "limit": limit}
        return [StoredVector(*row) for row in self.run("vectors_after", values)]

    def vectors_of(self, embedder: int, ids: Iterable[int]) -> dict[int, bytes]:
        """The vectors of some entries, as far as they have any."""
        values = {"embedder": embedder, "ids": json.dumps(list(ids))}
        return {row[0]: row[1] for row in self.run("vectors_of", values)}

    def nearest(
        self,
        embedder: int,
        query: Sequence[float],
        limit: int,
        *,
        kinds: Sequence[str] = (),
        agent: str = "",
        task: str = "",
    ) -> list[int]:
        """The entries nearest to a vector that pass, about in order, where there is an index."""
        raise NotImplementedError("this database has no index of vectors")

    def nearest_of(
        self, embedder: int, query: Sequence[float], ids: Iterable[int], limit: int
    ) -> list[int]:
        """The nearest of some entries to a vector, about in order, where there is an index."""
        raise NotImplementedError("this database has no index of vectors")


class SearchWriter(SearchReader):
    """A reader that can also bring what can be found up to date."""

    def __init__(self, run: Run, run_many: RunMany) -> None:
        super().__init__(run)
        self.run_many = run_many

    def add_found(self, found: IndexChanges, task: str, position: int) -> None:
        """Write down what a record brings; what it takes out goes first."""
        for node in found.forgotten_nodes:
            self._forget_node(node)
            self.run("drop_edges_of_node", {"id": node})
        for source, relation, target in found.forgotten_edges:
            values = {"source": source, "relation": relation, "target": target}
            self.run("drop_edge", values)
        for node in found.nodes:
            self._forget_node(node.id)
            self._put_node(node, task, position)
        if found.entries:
            self.add_entries(found.entries)
        if found.edges:
            rows = [(*edge.key, _dumped(edge.attributes), task, position) for edge in found.edges]
            self.run_many("add_edges", rows)
            # A written node may be superseded too, but by its own words: it keeps its status.
            gone = [edge.target for edge in found.edges if edge.relation == "supersedes"]
            marks = [("superseded", target) for target in gone if parse_address(target)]
            self.mark_entries(marks)
        if found.tags:
            self.run_many("add_tags", found.tags)

    def mark_entries(self, marks: Sequence[tuple[str, str]]) -> None:
        """Give entries another status: (status, address) of each. What a decision of another task
        supersedes stays superseded.
        """
        if marks:
            self.run_many("mark_entries", marks)

    def set_needed(self, task: str, needs: Sequence[str], position: int) -> None:
        """Replace the edges of a task's dependencies."""
        source = f"task:{task}"
        self.run("drop_edges_from", {"source": source, "relation": "depends_on"})
        rows = [(source, "depends_on", f"task:{need}", "{}", task, position) for need in needs]
        if rows:
            self.run_many("add_edges", rows)

    def _forget_node(self, node: str) -> None:
        address = {"address": NODE_PREFIX + node}
        self.run("drop_vector", address)
        self.run("drop_text", address)
        self.run("drop_entry", address)
        self.run("drop_node", {"id": node})
        self.run("drop_tags", {"node": node})

    def _put_node(self, node: Node, task: str, position: int) -> None:
        values: dict[str, Any] = {
            "id": node.id,
            "type": node.type,
            "summary": node.summary,
            "tags": json.dumps(sorted(set(node.tags)), ensure_ascii=False),
            "attributes": _dumped(node.attributes),
            "task": task,
            "position": position,
        }
        self.run("put_node", values)

    def add_entries(self, entries: Sequence[EntryRow]) -> None:
        """Add entries under the next numbers."""
        first = self.next_number()
        numbered = list(enumerate(entries, first))
        self.run_many("add_entries", [(number, *entry[:11]) for number, entry in numbered])
        texts = [(number, entry.words, entry.marks) for number, entry in numbered]
        self.run_many("add_texts", texts)
        if any(entry.kind == "decision" for entry in entries):
            # What supersedes it may have been taken in before it, from another machine.
            self.run("mark_superseded", {"first": first})

    def add_embedder(self, name: str, dimensions: int) -> Embedder:
        """Note who makes vectors; gives what is known of it."""
        self.run("add_embedder", {"name": name, "dimensions": dimensions})
        return next(known for known in self.embedders() if known.name == name)

    def add_vectors(self, rows: Sequence[tuple[int, int, bytes, bytes]]) -> None:
        """Keep vectors: (embedder, entry, passage, vector) of each."""
        if rows:
            self.run_many("add_vectors", rows)

    def embedded_up_to(self, embedder: int, entry: int) -> None:
        """Note that every entry up to a number has its vector."""
        self.run("embedded_up_to", {"id": embedder, "done": entry})

    def drop_vectors(self, embedder: int, limit: int) -> int:
        """Let go of up to `limit` vectors of one who isn't asked any more; gives how many."""
        return len(self.run("drop_vectors", {"embedder": embedder, "limit": limit}))

    def drop_embedder(self, embedder: int) -> None:
        """Forget who made vectors that are all gone."""
        self.run("drop_embedder", {"id": embedder})


def _known(row: Row) -> KnowledgeRow:
    from passdown.core.graph import Node

    node = Node(row[0], row[1], row[2], tuple(json.loads(row[3])), json.loads(row[4]))
    return KnowledgeRow(node, row[5], row[6])


def _edge(row: Row) -> Edge:
    from passdown.core.graph import Edge

    attributes: dict[str, str] = json.loads(row[3]) if row[3] != "{}" else {}
    return Edge(row[0], row[1], row[2], attributes)


def _dumped(attributes: Mapping[str, str]) -> str:
    if not attributes:
        return "{}"
    return json.dumps(dict(attributes), ensure_ascii=False, sort_keys=True)

"""What can be asked and written for search and the knowledge graph, by named statement."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from passdown.model.kinds import parse_address
from passdown.store.running import PAGE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from passdown.model.found_rows import EntryRow, Found, KnownRow, Sought
    from passdown.model.graph import Edge, Node
    from passdown.store.found import Entry, Looked, Sharing
    from passdown.store.running import Question, Row, Run, RunMany

LAST = 2**62

MOST_AUTHORS = 1_000
"""So many names of authors are told at most."""


class FindingReader:
    """Questions about what can be found, at one moment of the store."""

    def __init__(self, run: Run) -> None:
        self.run = run

    def ahead(self, *questions: Question) -> None:
        """Say what will be asked next, so that a server is asked all of it in one round trip.

        A hint, no more: each question is asked again, in the same words, where its answer is
        needed. Where questions don't travel there is nothing to do.
        """

    def spelled(self, sought: Sought) -> str:
        """What is sought, in the language of this database's index; a value to be bound."""
        raise NotImplementedError("each database says how its index is asked")

    def newest_entry(self) -> int:
        """The highest number that an entry has; about how many there are."""
        return self.run("newest_entry", {})[0][0]

    def next_number(self) -> int:
        """The number that the next entry gets; above every number that one ever had."""
        return self.run("next_entry", {})[0][0]

    def matching(
        self, sought: Sought, limit: int, *, first: int = 0, last: int = LAST
    ) -> list[int]:
        """The numbers of up to `limit` entries that match, newest first, within a span."""
        query = self.spelled(sought)
        values = {"query": query, "limit": limit, "first": first, "last": last}
        return [row[0] for row in self.run("matching", values)]

    def sharing_marks(self, marks: Sequence[str], kind: str, limit: int) -> list[Sharing]:
        """Up to `limit` entries of a kind with any of some marks, newest first."""
        from passdown.model.found_rows import Sought
        from passdown.store.found import Sharing

        values = {"query": self.spelled(Sought(marks=(tuple(marks),))), "kind": kind}
        rows = self.run("sharing_marks", {**values, "limit": limit})
        return list(map(Sharing._make, rows))

    def matching_at(self, sought: Sought, place: int) -> int:
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

    def entries(self, ids: Iterable[int]) -> list[Entry]:
        """Entries by number, in the order given."""
        from passdown.store.found import Entry

        return [Entry(*row) for row in self.run("entries", {"ids": json.dumps(list(ids))})]

    def entry_at(self, address: str) -> Entry | None:
        """The entry of an item or node, or None."""
        from passdown.store.found import Entry

        rows = self.run("entry_at", {"address": address})
        return Entry(*rows[0]) if rows else None

    def looked_at(self, ids: Iterable[int]) -> list[Looked]:
        """Entries by number with all that is compared of them, in the order given."""
        from passdown.store.found import Entry, Looked

        rows = self.run("looked_at", {"ids": json.dumps(list(ids))})
        return [Looked(Entry(*row[:10]), *row[10:]) for row in rows]

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
        from passdown.model.found_rows import EntryRow

        return [EntryRow(*row) for row in self.run("entries_of_task", {"task": task})]

    def entries_of_kind(
        self, kind: str, *, task: str = "", before: int = 2**62, limit: int = PAGE
    ) -> list[Entry]:
        """Entries of a kind, of one task or of all, newest first, below a number."""
        from passdown.model.found_rows import Sought, mark_of
        from passdown.store.found import Entry

        marks = [mark_of("kind", kind), *([mark_of("task", task)] if task else [])]
        query = self.spelled(Sought(marks=tuple((mark,) for mark in marks)))
        values = {"query": query, "kind": kind, "before": before, "limit": limit}
        return [Entry(*row) for row in self.run("entries_of_kind", values)]

    def known_node(self, node: str) -> KnownRow | None:
        """A node that somebody wrote down, or None."""
        rows = self.run("node", {"id": node})
        return _known(rows[0]) if rows else None

    def known_nodes(self) -> Iterator[KnownRow]:
        """Every node that somebody wrote down, by id."""
        after = ""
        while True:
            rows = self.run("nodes", {"after": after, "limit": PAGE})
            yield from map(_known, rows)
            if len(rows) < PAGE:
                return
            after = rows[-1][0]

    def edges(
        self, *, source: str = "", relation: str = "", target: str = "", limit: int = 2**62
    ) -> list[Edge]:
        """Edges by any mix of source, relation and target; at least one of the ends is named."""
        values = {"source": source, "relation": relation, "target": target, "limit": limit}
        name = "edges" if source else "edges_to"
        return [_edge(row) for row in self.run(name, values)]

    def superseding(self, addresses: Sequence[str], most: int) -> dict[str, list[Entry]]:
        """What supersedes some decisions, what supersedes that, and so on, each under what it
        supersedes; of chains that come to more than `most` decisions, the beginning.
        """
        from passdown.store.found import Entry

        found: dict[str, list[Entry]] = {}
        values = {"addresses": json.dumps(list(addresses)), "most": most}
        for row in self.run("superseding", values):
            found.setdefault(row[0], []).append(Entry(*row[1:]))
        return found

    def all_edges(self, relation: str = "") -> Iterator[Edge]:
        """Every edge, or every one of a relation, sorted."""
        return (edge for edge, _, _ in self.edges_with_origin(relation))

    def edges_with_origin(self, relation: str = "") -> Iterator[tuple[Edge, str, int]]:
        """The same, each with the task and the version that brought it."""
        key = ("", "", "")
        while True:
            values = dict(zip(("source", "relation", "target"), key, strict=True))
            rows = self.run("all_edges", {**values, "only": relation, "limit": PAGE})
            yield from ((_edge(row), row[4], row[5]) for row in rows)
            if len(rows) < PAGE:
                return
            key = rows[-1][:3]

    def tags_of_node(self, node: str) -> list[str]:
        """The tags of a node, sorted."""
        return [row[0] for row in self.run("tags_of_node", {"node": node})]

    def all_tags(self) -> set[tuple[str, str]]:
        """Every tag with every node that has it."""
        return {(row[0], row[1]) for row in self.run("dump_tags", {})}

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


class FindingWriter(FindingReader):
    """A reader that can also bring what can be found up to date."""

    def __init__(self, run: Run, run_many: RunMany) -> None:
        super().__init__(run)
        self.run_many = run_many

    def add_found(self, found: Found, task: str, position: int) -> None:
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
            self.run_many("add_edge", rows)
            # A written node may be superseded too, but by its own words: it keeps its status.
            gone = [edge.target for edge in found.edges if edge.relation == "supersedes"]
            marks = [("superseded", target) for target in gone if parse_address(target)]
            self.mark_entries(marks)
        if found.tags:
            self.run_many("add_tag", found.tags)

    def mark_entries(self, marks: Sequence[tuple[str, str]]) -> None:
        """Give entries another status: (status, address) of each. What a decision of another task
        supersedes stays superseded.
        """
        if marks:
            self.run_many("mark_entry", marks)

    def set_needed(self, task: str, needs: Sequence[str], position: int) -> None:
        """Write the edges of a task's dependencies anew."""
        source = f"task:{task}"
        self.run("drop_edges_from", {"source": source, "relation": "depends_on"})
        rows = [(source, "depends_on", f"task:{need}", "{}", task, position) for need in needs]
        if rows:
            self.run_many("add_edge", rows)

    def _forget_node(self, node: str) -> None:
        from passdown.model.found_rows import NODE_PREFIX

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
        self.run_many("add_entry", [(number, *entry[:11]) for number, entry in numbered])
        texts = [(number, entry.words, entry.marks) for number, entry in numbered]
        self.run_many("add_text", texts)
        if any(entry.kind == "decision" for entry in entries):
            # What supersedes it may have been taken in before it, from another machine.
            self.run("mark_superseded", {"first": first})


def _known(row: Row) -> KnownRow:
    from passdown.model.found_rows import KnownRow
    from passdown.model.graph import Node

    node = Node(row[0], row[1], row[2], tuple(json.loads(row[3])), json.loads(row[4]))
    return KnownRow(node, row[5], row[6])


def _edge(row: Row) -> Edge:
    from passdown.model.graph import Edge

    attributes: dict[str, str] = json.loads(row[3]) if row[3] != "{}" else {}
    return Edge(row[0], row[1], row[2], attributes)


def _dumped(attributes: Mapping[str, str]) -> str:
    if not attributes:
        return "{}"
    return json.dumps(dict(attributes), ensure_ascii=False, sort_keys=True)

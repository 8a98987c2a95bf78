"""Reader and Writer: everything that is read from or written to a store, as named SQL
statements.
"""

from __future__ import annotations

import json
import os.path
from functools import cache
from typing import TYPE_CHECKING, Any

from passdown.core.items import key_label
from passdown.core.record import Head, Record
from passdown.core.rows import InboxRow, ItemRow, LabelRow, LinkRow, TaskRow
from passdown.core.values import NamedTuple
from passdown.errors import unknown_task
from passdown.store.search_queries import SearchReader, SearchWriter

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from passdown.core.rows import StatusChange
    from passdown.store.protocol import Row


def named_statements(path: str) -> dict[str, str]:
    """The statements of a file by name."""
    with open(path, encoding="utf-8") as file:
        parts = file.read().split("-- name: ")[1:]
    return {name: sql.strip() for name, _, sql in (part.partition("\n") for part in parts)}


def items_of(rows: list[Row]) -> list[ItemRow]:
    """Rows as items."""
    return [ItemRow._make((*row[:7], bool(row[7]), *row[8:])) for row in rows]


UNLIMITED = 2**62


@cache
def load_statements(database: str) -> dict[str, str]:
    """The named statements of one database: those that both take, then its own."""
    folder = os.path.join(os.path.dirname(__file__), "sql")
    common = named_statements(os.path.join(folder, "queries.sql"))
    return common | named_statements(os.path.join(folder, database, "queries.sql"))


class Table(NamedTuple):
    """How a table is read in order: the columns that order it, each with a value below all others
    and its place in a row; and which place has a yes or no (a number in SQLite).
    """

    below: dict[str, str | int]
    places: tuple[int, ...] = (0,)
    flag: int | None = None


TABLES = {
    "tasks": Table({"task": ""}),
    "details": Table({"task": ""}),
    "items": Table({"task": "", "letter": "", "ordinal": 0}, (0, 1, 2), flag=7),
    "labels": Table({"task": "", "label": "", "letter": "", "ordinal": 0}, (0, 1, 2, 3)),
    "links": Table({"target": "", "relation": "", "source": ""}, (2, 1, 0)),
    "dependencies": Table({"task": "", "needs": ""}, (0, 1)),
    "inbox": Table({"task": ""}, (1,), flag=3),
    "entries": Table({"id": 0}),
    "texts": Table({"id": 0}),
    "knowledge": Table({"id": ""}),
    "edges": Table({"source": "", "relation": "", "target": ""}, (0, 1, 2)),
    "tags": Table({"tag": "", "node": ""}, (0, 1)),
    "embedders": Table({"id": 0}),
    "vectors": Table({"embedder": 0, "id": 0}, (0, 1)),
}
DERIVED = tuple(TABLES)[:-2]
"""The tables that are made from the records: all but those of vectors, which take long to make."""


class Tip(NamedTuple):
    """The end of a stream: its head, its last record, and where a key stands in it (0: nowhere)."""

    head: Head
    last: Record | None
    known: int


class ItemTitle(NamedTuple):
    """What an item of a task and a kind is about, and the record that it is from."""

    ordinal: int
    position: int
    title: str


class Reader(SearchReader):
    """Questions about one moment of the store."""

    def head(self, stream: str) -> Head | None:
        """The last record of a stream, or None when there is no such stream."""
        rows = self.run("head", {"stream": stream})
        return Head(*rows[0]) if rows else None

    def tip(self, stream: str, key: str) -> Tip | None:
        """What a writer has to know of a stream, in one question; None when there is none."""
        rows = self.run("tip", {"stream": stream, "key": key})
        if not rows:
            return None
        position, digest, known, *last = rows[0]
        head = Head(stream, position, digest)
        return Tip(head, Record(*last) if last[1] else None, known or 0)

    def heads(self, prefix: str = "") -> Iterator[Head]:
        """The heads of all streams whose name starts with `prefix`, by name."""
        values = {"prefix": prefix, "after": ""}
        return (Head(*row) for row in self.pages("heads", values, after=0))

    def records(self, stream: str, *, after: int = 0, until: int = UNLIMITED) -> Iterator[Record]:
        """The records of a stream in order, from `after` (exclusive) to `until` (inclusive)."""
        values = {"stream": stream, "after": after, "until": until}
        return (Record(*row) for row in self.pages("records", values, after=1))

    def records_before(
        self,
        stream: str,
        before: int,
        limit: int,
        *,
        author: str = "",
        kinds: Sequence[str] = (),
    ) -> list[Record]:
        """Up to `limit` records below a position, newest first: of an author, of some kinds."""
        values = {
            "stream": stream,
            "before": before,
            "limit": limit,
            "author": author,
            "kinds": json.dumps(kinds) if kinds else "",
        }
        return [Record(*row) for row in self.run("records_before", values)]

    def positions_by(self, stream: str, author: str, positions: Sequence[int]) -> frozenset[int]:
        """Those of some positions of a stream where an author's records are."""
        values = {"stream": stream, "author": author, "positions": json.dumps(positions)}
        return frozenset(row[0] for row in self.run("positions_by", values))

    def records_at(self, stream: str, positions: Sequence[int]) -> list[Record]:
        """The records at some positions of a stream, as far as there are any."""
        values = {"stream": stream, "positions": json.dumps(positions)}
        return [Record(*row) for row in self.run("records_at", values)]

    def record(self, stream: str, position: int) -> Record | None:
        """The record at a position, or None."""
        values = {"stream": stream, "after": position - 1, "until": position, "limit": 1}
        rows = self.run("records", values)
        return Record(*rows[0]) if rows else None

    def record_by_key(self, stream: str, key: str) -> Record | None:
        """The record that was written with an idempotency key, or None."""
        rows = self.run("record_by_key", {"stream": stream, "key": key})
        return Record(*rows[0]) if rows else None

    def tail(self, after: int = 0) -> Iterator[Record]:
        """All records in the order of the whole store, after a sequence number."""
        return (Record(*row) for row in self.pages("tail", {"after": after}, after=9))

    def latest(
        self, before: int, limit: int, prefix: str = "", *, kinds: Sequence[str] = ()
    ) -> list[Record]:
        """Up to `limit` records below a sequence number, newest first, of all streams whose name
        starts with `prefix`; of all kinds, or of some.
        """
        values = {"before": before, "limit": limit, "prefix": prefix}
        rows = self.run("latest", {**values, "kinds": json.dumps(kinds) if kinds else ""})
        return [Record(*row) for row in rows]

    def totals(self) -> tuple[int, int]:
        """How many streams there are, and the sequence number of the last record."""
        streams, records = self.run("totals", {})[0]
        return streams, records

    def task(self, task: str) -> TaskRow | None:
        """A task as it stands, or None."""
        rows = self.run("task", {"task": task})
        return _task_row(rows[0]) if rows else None

    def existing_task(self, task: str) -> TaskRow:
        """A task as it stands; raises NotFound for an unknown one."""
        row = self.task(task)
        if row is None:
            raise unknown_task(task)
        return row

    def tasks(
        self,
        *,
        status: str = "",
        phase: str = "",
        agent: str = "",
        after: int = 0,
        limit: int,
        newest: bool = False,
    ) -> list[TaskRow]:
        """Tasks in the order they were created, or the newest first; empty filters let everything
        through.
        """
        values = {"status": status, "phase": phase, "agent": agent, "after": after, "limit": limit}
        return [_task_row(row) for row in self.run("newest_tasks" if newest else "tasks", values)]

    def unsettled_tasks(self, limit: int) -> list[TaskRow]:
        """Unfinished tasks that are blocked or have failed, are worked on, or wait to be taken, so
        many of each; those that were changed longest ago first.
        """
        return [_task_row(row) for row in self.run("unsettled_tasks", {"limit": limit})]

    def open_questions(self, limit: int) -> list[ItemRow]:
        """The open questions of all tasks."""
        return items_of(self.run("open_questions", {"limit": limit}))

    def open_items(self, task: str, letters: Sequence[str] | None = None) -> list[ItemRow]:
        """The open items of a task, of the named kinds or of all."""
        if letters is None:
            return items_of(self.run("all_open_items", {"task": task}))
        if not letters:
            return []
        return items_of(self.run("open_items", {"task": task, "letters": json.dumps(letters)}))

    def items_since(self, task: str, after: int = 0) -> list[ItemRow]:
        """The items of a task that records above a position brought, oldest first."""
        return items_of(self.run("items_since", {"task": task, "after": after}))

    def items_at(self, task: str, *positions: int) -> list[ItemRow]:
        """The items that some records brought, by kind and number."""
        return items_of(self.run("items_at", {"task": task, "positions": json.dumps(positions)}))

    def items_of_kind(
        self, task: str, letter: str, *, after: int = 0, limit: int = UNLIMITED
    ) -> list[ItemRow]:
        """The items of one kind, by number, above the number `after`."""
        values = {"task": task, "letter": letter, "after": after, "limit": limit}
        return items_of(self.run("items_of_kind", values))

    def items_before(self, task: str, letter: str, before: int, limit: int) -> list[ItemRow]:
        """The newest items of one kind below a number, newest first."""
        values = {"task": task, "letter": letter, "before": before, "limit": limit}
        return items_of(self.run("items_before", values))

    def titles_before(self, task: str, letter: str, before: int, limit: int) -> list[ItemTitle]:
        """The titles of the newest items of one kind below a number, newest first."""
        values = {"task": task, "letter": letter, "before": before, "limit": limit}
        return list(map(ItemTitle._make, self.run("titles_before", values)))

    def labelled_items(self, task: str, labels: Sequence[str], limit: int) -> list[ItemRow]:
        """Items that are filed under some tags or paths, the newest up to `limit` for each."""
        known = self.run("known_labels", {"task": task, "labels": json.dumps(labels)})
        found: list[ItemRow] = []
        for (label,) in known:
            values = {"task": task, "label": label, "limit": limit}
            found += items_of(self.run("labelled_items", values))
        return found

    def current_facts(self, task: str, keys: Sequence[str]) -> dict[str, ItemRow]:
        """The newest fact of each of some keys, withdrawn or not; unknown keys are left out."""
        rows = {key: self.labelled_items(task, [key_label(key)], 1) for key in keys}
        return {key: found[0] for key, found in rows.items() if found}

    def labels_of_task(self, task: str) -> list[LabelRow]:
        """Everything that a task's items are filed under, sorted."""
        return [LabelRow(*row) for row in self.run("labels_of_task", {"task": task})]

    def item(self, task: str, letter: str, ordinal: int) -> ItemRow | None:
        """One item, or None."""
        values = {"task": task, "letter": letter, "ordinal": ordinal}
        rows = items_of(self.run("item", values))
        return rows[0] if rows else None

    def path_history(self, task: str, path: str) -> list[ItemRow]:
        """Every artifact entry that a task has had for a path, oldest first."""
        return items_of(self.run("path_history", {"task": task, "path": path}))

    def artifact_at(self, item: ItemRow, path: str) -> ItemRow | None:
        """A path's entry as it was when an item was recorded; else the first one after it."""
        values = {"task": item.task, "path": path, "position": item.position}
        rows = items_of(self.run("artifact_at", values))
        return rows[0] if rows else None

    def known_paths(self, task: str, paths: Sequence[str]) -> dict[str, str]:
        """The grade of the newest artifact at each of some paths; unknown paths are left out."""
        if not paths:
            return {}
        rows = self.run("known_paths", {"task": task, "paths": json.dumps(paths)})
        return {path: grade for path, grade in rows if grade is not None}

    def current_artifacts(self, task: str) -> list[ItemRow]:
        """The newest artifact entry of every path."""
        return items_of(self.run("current_artifacts", {"task": task}))

    def context_map(self, task: str, limit: int) -> list[ItemRow]:
        """The newest entry of every path that is still there, in one task or in all, newest
        first.
        """
        rows = self.run("context_map", {"task": task, "limit": limit})
        return items_of([row[:-1] for row in rows])

    def open_everywhere(self, letter: str, task: str, limit: int) -> list[ItemRow]:
        """The open items of a kind, in one task or in all."""
        values = {"letter": letter, "task": task, "limit": limit}
        return items_of(self.run("open_everywhere", values))

    def gates(self, task: str = "", *, open_only: bool = False) -> list[ItemRow]:
        """The gates of one task or of all."""
        return items_of(self.run("gates", {"task": task, "open_only": int(open_only)}))

    def links_to(self, target: str) -> list[LinkRow]:
        """Every link, open or closed, that bears on a task or item."""
        return [LinkRow(*row) for row in self.run("links_to", {"target": target})]

    def open_links_to(self, target: str) -> list[LinkRow]:
        """The links that bear on a task or item now."""
        return [LinkRow(*row) for row in self.run("open_links_to", {"target": target})]

    def superseders(self, task: str) -> list[LinkRow]:
        """Every `supersedes` link whose target is an item of a task."""
        return [LinkRow(*row) for row in self.run("superseders", {"task": task})]

    def links_from(self, source: str) -> list[LinkRow]:
        """Every link that an item has opened."""
        return [LinkRow(*row) for row in self.run("links_from", {"source": source})]

    def links_of_task(self, task: str) -> list[LinkRow]:
        """Every link that the items of a task have opened, sorted."""
        return sorted(LinkRow(*row) for row in self.run("links_of_task", {"task": task}))

    def inbox_of_task(self, task: str) -> InboxRow | None:
        """Where a task's latest handoff waits, if it does."""
        rows = self.run("inbox_of_task", {"task": task})
        return InboxRow(*rows[0][:3], held=bool(rows[0][3])) if rows else None

    def needs(self, task: str) -> list[str]:
        """The tasks that a task depends on."""
        return [row[0] for row in self.run("needs", {"task": task})]

    def dependents(self, task: str) -> list[str]:
        """The tasks that depend on a task."""
        return [row[0] for row in self.run("dependents", {"task": task})]

    def unmet_needs(self) -> dict[str, list[str]]:
        """The tasks that aren't completed and that each task needs, where it needs any."""
        found: dict[str, list[str]] = {}
        for task, need in self.run("unmet_needs", {}):
            found.setdefault(task, []).append(need)
        return found

    def dependent_counts(self) -> dict[str, int]:
        """How many unfinished tasks need each task, where any does."""
        return {row[0]: row[1] for row in self.run("dependent_counts", {})}

    def inbox(self, agent: str) -> list[InboxRow]:
        """The handoffs that wait for an agent."""
        rows = self.run("inbox", {"agent": agent})
        return [InboxRow(*row[:3], held=bool(row[3])) for row in rows]

    def counts(self) -> dict[str, int]:
        """How many records and tasks there are, counted one by one."""
        records, tasks = self.run("counts", {})[0]
        return {"records": records, "tasks": tasks}

    def is_rebuild_due(self) -> bool:
        """Whether derived rows come from an earlier release and have to be made again."""
        return bool(self.run("rebuild_due", {}))

    def dump(self) -> dict[str, list[Row]]:
        """Every derived row, by table, in a fixed order: what `reindex` must give again."""
        return {"streams": [*self.heads()], **{name: [*self.table(name)] for name in DERIVED}}

    def table(self, name: str) -> Iterator[Row]:
        """Every row of a table, in a fixed order."""
        below, places, flag = TABLES[name]
        for row in self.pages(f"page_{name}", below, **dict(zip(below, places, strict=True))):
            yield row if flag is None else (*row[:flag], bool(row[flag]), *row[flag + 1 :])


class Writer(SearchWriter, Reader):
    """A reader that can also add records and bring the derived rows up to date."""

    def take_turn(self) -> None:
        """From here to the end of the gate nobody else writes, to whatever stream.

        Whoever looks at other tasks before writing takes its turn first; `append` always does.
        Where one writer at a time is admitted anyway, there is nothing to do.
        """

    def append(self, record: Record) -> Record:
        """Add a record at the end of its stream and move the head; gives it with its `seq`."""
        self.move_head(record)
        seq = self.run("append", record._asdict())[0][0]
        return record._replace(seq=seq)

    def move_head(self, record: Record) -> None:
        """Have a stream end with a record, which comes next; the first one makes the stream."""
        place = {"stream": record.stream, "position": record.position, "digest": record.digest}
        self.run("add_stream" if record.position == 1 else "move_head", place)

    def put_task(self, row: TaskRow, *, with_details: bool) -> None:
        """Write where a task stands; its `created_seq` stays what it was."""
        self.run(
            "put_task",
            {
                "task": row.task,
                "version": row.version,
                "digest": row.digest,
                "status": row.status,
                "phase": row.phase,
                "holder": row.holder,
                "seq": row.updated_seq,
                "header": _dumped(row.header),
            },
        )
        if with_details:
            self.run("put_details", {"task": row.task, "details": _dumped(row.details)})

    def add_items(self, rows: Sequence[ItemRow]) -> None:
        """Add new items."""
        if rows:
            self.run_many("add_items", rows)

    def add_labels(self, rows: Sequence[LabelRow]) -> None:
        """File new items."""
        if rows:
            self.run_many("add_labels", rows)

    def mark_items(self, task: str, marks: Sequence[StatusChange]) -> None:
        """Change the status of items."""
        for mark in marks:
            self.run("mark_item", {"task": task, **mark._asdict(), "is_open": int(mark.is_open)})

    def open_link(self, source: str, relation: str, target: str, seq: int) -> None:
        """Note that an item bears on something outside its task."""
        values = {"source": source, "relation": relation, "target": target, "seq": seq}
        self.run("open_link", values)

    def close_links(self, source: str, seq: int) -> None:
        """Let go of everything that an item bears on."""
        self.run("close_links", {"source": source, "seq": seq})

    def set_needs(self, task: str, needs: Sequence[str]) -> None:
        """Replace the dependencies of a task."""
        self.run("drop_needs", {"task": task})
        if needs:
            self.run_many("add_dependencies", [(task, need) for need in dict.fromkeys(needs)])

    def set_inbox(self, task: str, agent: str, position: int, *, held: bool) -> None:
        """Leave a task's latest handoff with `agent`; with no agent it waits for nobody."""
        if agent:
            values = {"agent": agent, "task": task, "position": position, "held": int(held)}
            self.run("put_inbox", values)
        else:
            self.run("clear_inbox", {"task": task})

    def forget_derived(self) -> None:
        """Empty every derived table but the stream heads, before they are made again."""
        self.run("rebuild_done", {})
        for table in DERIVED:
            self.run(f"forget_{table}", {})
        self.run("forget_numbers", {})
        self.run("check_vectors", {})


def _task_row(row: Row) -> TaskRow:
    return TaskRow._make((*row[:8], json.loads(row[8]), json.loads(row[9])))


def _dumped(document: dict[str, Any]) -> str:
    return json.dumps(document, ensure_ascii=False, sort_keys=True, separators=(",", ":"))

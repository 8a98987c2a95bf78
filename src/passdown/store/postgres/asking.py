"""What PostgreSQL's readers and writers do in their own way: full text, vectors, turns."""

from __future__ import annotations

import json
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING

from passdown.store.postgres.session import SentAhead
from passdown.store.statements import Reader, Writer

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from passdown.model.found_rows import EntryRow, Sought
    from passdown.model.record import Record
    from passdown.store.found import Sharing
    from passdown.store.postgres.line import Answer
    from passdown.store.postgres.session import Session
    from passdown.store.running import Question, Run


class _Indexed:
    run: Run
    indexes_vectors = True
    _session: Session

    def ahead(self, *questions: Question) -> None:
        """Send questions that will be asked next, all at once."""
        asking = PostgresReader(self._session, self._session.ask_ahead)
        for question in questions:
            with suppress(SentAhead):
                question(asking)

    def spelled(self, sought: Sought) -> str:
        """What is sought, as a `tsquery`; every term is quoted, so none is an operator."""
        parts = [_quoted(sought.word)] if sought.word else []
        parts += [f"({' | '.join(_quoted('=' + m) for m in group)})" for group in sought.marks]
        return " & ".join(parts)

    def sharing_marks(self, marks: Sequence[str], kind: str, limit: int) -> list[Sharing]:
        """The same, with the kind sought too: entries are looked up for the newest alone."""
        from passdown.model.found_rows import Sought, mark_of
        from passdown.store.found import Sharing

        sought = Sought(marks=(tuple(marks), (mark_of("kind", kind),)))
        rows = self.run("sharing_marks", {"query": self.spelled(sought), "limit": limit})
        return list(map(Sharing._make, rows))

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
        """The entries nearest to a vector that pass, about in order, from the database's index."""
        values = {
            "embedder": embedder,
            "query": _vector(query),
            "kinds": json.dumps(list(kinds)),
            "agent": agent,
            "task": task,
            "limit": limit,
        }
        return list(dict.fromkeys(row[0] for row in self.run("nearest", values)))[:limit]

    def nearest_of(
        self, embedder: int, query: Sequence[float], ids: Iterable[int], limit: int
    ) -> list[int]:
        """The nearest of some entries to a vector, about in order."""
        values = {"embedder": embedder, "query": _vector(query), "limit": limit}
        rows = self.run("nearest_of", {**values, "ids": json.dumps(list(ids))})
        return [row[0] for row in rows]


class PostgresReader(_Indexed, Reader):
    """Questions about one moment of a PostgreSQL store."""

    def __init__(self, session: Session, run: Run | None = None) -> None:
        super().__init__(run or session.run)
        self._session = session


class PostgresWriter(_Indexed, Writer):
    """A reader of a PostgreSQL store that can also write."""

    def __init__(self, session: Session, turn: int) -> None:
        super().__init__(session.run, session.run_many)
        self._session = session
        self._turn = turn
        self._numbers: _Numbers | None = None

    def take_turn(self) -> None:
        """Wait until no other writer numbers records; ends with the transaction.

        The server waits, and answers what comes after it then: nothing has to be fetched for it.
        """
        if self._numbers is None:
            self._session.wait_in_line("lock", {"key": self._turn})
            self._numbers = _Numbers(self._session.post("next_numbers", {}))

    def append(self, record: Record) -> Record:
        """Add a record, numbered in the order of the whole store."""
        self.take_turn()
        if self._numbers is not None:
            record = record._replace(seq=self._numbers.next_record())
        self.move_head(record)
        self.run("append", record._asdict())
        return record

    def next_number(self) -> int:
        """The number that the next entry gets; known without asking once it is this one's turn."""
        return self._numbers.entry if self._numbers else super().next_number()

    def add_entries(self, entries: Sequence[EntryRow]) -> None:
        """Add entries under the next numbers."""
        super().add_entries(entries)
        if self._numbers is not None:
            self._numbers.entry += len(entries)

    def forget_derived(self) -> None:
        """Empty every derived table; entries are numbered from 1 again."""
        super().forget_derived()
        if self._numbers is not None:
            self._numbers.entry = 1


class _Numbers:
    """The numbers that records and entries get next. They are asked for when a writer's turn
    begins; until it ends nobody else gives any.
    """

    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    @cached_property
    def record(self) -> int:
        return self._answer.rows()[0][0]

    @cached_property
    def entry(self) -> int:
        return self._answer.rows()[0][1]

    def next_record(self) -> int:
        self.record += 1
        return self.record - 1


def _quoted(term: str) -> str:
    escaped = term.replace("\\", "\\\\").replace("'", "''")
    return f"'{escaped}'"


def _vector(numbers: Sequence[float]) -> str:
    return "[" + ",".join(f"{number:.7g}" for number in numbers) + "]"

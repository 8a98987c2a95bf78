"""What PostgreSQL's readers and writers do in their own way: full text, vectors, turns."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from passdown.store.statements import Reader, Writer

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from passdown.model.found_rows import Sought
    from passdown.model.record import Record
    from passdown.store.postgres.session import Session
    from passdown.store.running import Run


class _Indexed:
    run: Run
    indexes_vectors = True

    def spelled(self, sought: Sought) -> str:
        """What is sought, as a `tsquery`; every term is quoted, so none is an operator."""
        parts = [_quoted(sought.word)] if sought.word else []
        parts += [f"({' | '.join(_quoted('=' + m) for m in group)})" for group in sought.marks]
        return " & ".join(parts)

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


class PostgresWriter(_Indexed, Writer):
    """A reader of a PostgreSQL store that can also write."""

    def __init__(self, session: Session, turn: int) -> None:
        super().__init__(session.run, session.run_many)
        self._session = session
        self._turn = turn
        self._has_turn = False

    def take_turn(self) -> None:
        """Wait until no other writer numbers records; ends with the transaction.

        The server waits, and answers what comes after it then: nothing has to be fetched for it.
        """
        if not self._has_turn:
            self._session.send("lock", {"key": self._turn})
            self._has_turn = True

    def append(self, record: Record) -> Record:
        """Add a record, numbered in the order of the whole store."""
        self.take_turn()
        return super().append(record)


def _quoted(term: str) -> str:
    escaped = term.replace("\\", "\\\\").replace("'", "''")
    return f"'{escaped}'"


def _vector(numbers: Sequence[float]) -> str:
    return "[" + ",".join(f"{number:.7g}" for number in numbers) + "]"

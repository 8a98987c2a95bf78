"""What can be asked and written about vectors, by named statement.

Vectors are made from entries by whoever has time. They are not derived rows: rebuilding keeps them,
and what has none yet is found by its words.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from passdown.store.finding import FindingReader

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from passdown.store.found import Embedder, StoredVector, Unembedded
    from passdown.store.running import RunMany


class VectorReader(FindingReader):
    """Questions about vectors, at one moment of the store.

    Where the database has no index of them, whoever asks for the nearest keeps one of its own.
    """

    indexes_vectors = False

    def embedders(self) -> list[Embedder]:
        """Everyone who made vectors that are still there, the first one first."""
        from passdown.store.found import Embedder

        return [Embedder(*row) for row in self.run("embedders", {})]

    def entries_left(self, after: int) -> int:
        """How many entries come after a number."""
        return self.run("count_entries", {"after": after})[0][0]

    def without_vector(self, embedder: int, after: int, limit: int) -> list[Unembedded]:
        """The next entries after a number, in order, whether they have a vector or not."""
        from passdown.store.found import Unembedded

        values = {"embedder": embedder, "after": after, "limit": limit}
        rows = self.run("without_vector", values)
        return [Unembedded(*row[:3], is_there=bool(row[3])) for row in rows]

    def vectors_after(self, embedder: int, after: int, limit: int) -> list[StoredVector]:
        """The next vectors after an entry's number, in order."""
        from passdown.store.found import StoredVector

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


class VectorWriter(VectorReader):
    """A reader that can also keep vectors."""

    run_many: RunMany

    def add_embedder(self, name: str, dimensions: int) -> Embedder:
        """Note who makes vectors; gives what is known of it."""
        self.run("add_embedder", {"name": name, "dimensions": dimensions})
        return next(known for known in self.embedders() if known.name == name)

    def add_vectors(self, rows: Sequence[tuple[int, int, bytes, bytes]]) -> None:
        """Keep vectors: (embedder, entry, passage, vector) of each."""
        if rows:
            self.run_many("add_vector", rows)

    def embedded_up_to(self, embedder: int, entry: int) -> None:
        """Note that every entry up to a number has its vector."""
        self.run("embedded_up_to", {"id": embedder, "done": entry})

    def drop_vectors(self, embedder: int, limit: int) -> int:
        """Let go of up to `limit` vectors of one who isn't asked any more; gives how many."""
        return len(self.run("drop_vectors", {"embedder": embedder, "limit": limit}))

    def drop_embedder(self, embedder: int) -> None:
        """Forget who made vectors that are all gone."""
        self.run("drop_embedder", {"id": embedder})

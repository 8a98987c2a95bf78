"""How SQLite's text index is asked."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from passdown.store.finding import LAST
from passdown.store.statements import Reader, Writer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from passdown.model.found_rows import Sought
    from passdown.store.running import Run


class _Fts5:
    run: Run

    def spelled(self, sought: Sought) -> str:
        """What is sought, in the words of FTS5; every word is quoted, so none is an operator."""
        parts = [f'words : "{sought.word}"'] if sought.word else []
        parts += [f"marks : ({' OR '.join(map(_quoted, group))})" for group in sought.marks]
        return " AND ".join(parts)

    def matching(
        self, sought: Sought, limit: int, *, first: int = 0, last: int = LAST
    ) -> list[int]:
        """The numbers of up to `limit` entries that match, newest first, within a span."""
        values = {"query": self.spelled(sought), "limit": limit, "first": first, "last": last}
        return sorted(self._numbers("matching", values), reverse=True)

    def oldest_matching(self, sought: Sought, limit: int) -> list[int]:
        """The numbers of the first `limit` entries that match, oldest first."""
        values = {"query": self.spelled(sought), "limit": limit}
        return sorted(self._numbers("matching_upwards", values))

    def _numbers(self, name: str, values: Mapping[str, object]) -> list[int]:
        """Numbers as one text: a row for each would take longer than finding them does. They come
        in order, but SQLite doesn't promise it.
        """
        return json.loads(self.run(name, values)[0][0])


def _quoted(mark: str) -> str:
    return f'"{mark}"'


class SqliteReader(_Fts5, Reader):
    """Questions about one moment of a SQLite store."""


class SqliteWriter(_Fts5, Writer):
    """A reader of a SQLite store that can also write."""

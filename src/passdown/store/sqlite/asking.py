"""How SQLite's text index is asked."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from passdown.store.finding import LAST
from passdown.store.statements import Reader, Writer

if TYPE_CHECKING:
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
        # As one text, since a row for each would take longer than finding them does. They come in
        # order, but SQLite doesn't promise it.
        return sorted(json.loads(self.run("matching", values)[0][0]), reverse=True)


def _quoted(mark: str) -> str:
    return f'"{mark}"'


class SqliteReader(_Fts5, Reader):
    """Questions about one moment of a SQLite store."""


class SqliteWriter(_Fts5, Writer):
    """A reader of a SQLite store that can also write."""

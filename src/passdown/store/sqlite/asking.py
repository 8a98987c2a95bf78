"""How SQLite's text index is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from passdown.store.statements import Reader, Writer

if TYPE_CHECKING:
    from passdown.model.found_rows import Sought


class _Fts5:
    def spelled(self, sought: Sought) -> str:
        """What is sought, in the words of FTS5; every word is quoted, so none is an operator."""
        parts = [f'words : "{sought.word}"'] if sought.word else []
        parts += [f"marks : ({' OR '.join(map(_quoted, group))})" for group in sought.marks]
        return " AND ".join(parts)


def _quoted(mark: str) -> str:
    return f'"{mark}"'


class SqliteReader(_Fts5, Reader):
    """Questions about one moment of a SQLite store."""


class SqliteWriter(_Fts5, Writer):
    """A reader of a SQLite store that can also write."""

"""What can be asked of a task's items as they were before, and of the paths that they had."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from passdown.model.rows import ItemRow
from passdown.store.embedding import VectorReader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from passdown.store.running import Row


class EarlierReader(VectorReader):
    """Questions about items and paths at an earlier version."""

    def open_before(self, task: str, position: int) -> list[ItemRow]:
        """The items of a task that may have been open before the record at a position, as they are
        now: open, closed by it or since, and gates that were rejected whenever.
        """
        return items_of(self.run("open_before", {"task": task, "position": position}))

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

    def paths_before(self, task: str, paths: Sequence[str], position: int) -> dict[str, str]:
        """The same as it was before the record at a position."""
        values = {"task": task, "paths": json.dumps(paths), "position": position}
        rows = self.run("paths_before", values)
        return {path: grade for path, grade in rows if grade is not None}


def items_of(rows: list[Row]) -> list[ItemRow]:
    """Rows as items."""
    return [ItemRow._make((*row[:7], bool(row[7]), *row[8:])) for row in rows]

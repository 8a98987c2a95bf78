"""Items as recorded, and whether the files they cite have changed."""

from __future__ import annotations

from collections.abc import Sequence
from operator import methodcaller
from typing import Any

from passdown.core.items import cited_paths, entry_of, shown_command
from passdown.core.kinds import stream_of
from passdown.core.record import Record
from passdown.core.rows import ANSWERED, CLOSED, ItemContent, ItemRow, shown_letter
from passdown.ledger.channel import REMOTE_FILES_FIELD
from passdown.ledger.project_files import FileOnDisk, Project
from passdown.store.statements import Reader


class ItemTexts:
    """Records of one moment, each read and parsed once."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._known: dict[tuple[str, int], tuple[Record, dict[str, Any]]] = {}

    def read(self, items: Sequence[ItemRow]) -> None:
        """Read the records of items whose content is asked for next, those of a task together."""
        wanted: dict[str, set[int]] = {}
        for item in items:
            for position in (item.position, item.closed_at):  # where it was settled, too
                if position and (item.task, position) not in self._known:
                    wanted.setdefault(item.task, set()).add(position)
        asked = {task: (stream_of(task), sorted(at)) for task, at in wanted.items()}
        self._reader.ahead(*(methodcaller("records_at", *places) for places in asked.values()))
        for task, places in asked.items():
            for record in self._reader.records_at(*places):
                self._known[task, record.position] = (record, record.document())

    def content(self, item: ItemRow) -> ItemContent:
        """What an item's record says of it."""
        self.read([item])
        known = self._known.get((item.task, item.position))
        if known is None:
            return ItemContent({}, "", "")
        record, body = known
        entry = entry_of(body, item.field, item.index)
        closing = self._known.get((item.task, item.closed_at))
        if shown_letter(item) in (ANSWERED, CLOSED) or item.status == "rejected":
            return _answered(item, entry, closing)
        if item.letter == "f":
            was = item.note if not item.closed_at else ""
            entry = {**entry, "status": item.status.replace("active", ""), "was": was}
        if item.letter == "c":
            # How the check ended, and who made it; their words stay in the record: the line quotes
            # somebody else.
            author = closing[0].author if closing and item.status != "open" else ""
            entry = {**entry, "status": f"{item.status} by {author}" if author else ""}
            if "command" in entry:
                entry["command"] = shown_command(entry)
        return ItemContent(
            entry,
            entry.get("agent") or record.author,
            entry.get("at") or record.at,
            body.get("cited", {}),
            is_remote=body.get(REMOTE_FILES_FIELD, False),
        )


def _answered(
    item: ItemRow, entry: dict[str, Any], closing: tuple[Record, dict[str, Any]] | None
) -> ItemContent:
    """A settled item with its answer, in the words of whoever gave it."""
    if closing is None:
        return ItemContent(entry, "", "", {}, item.status)
    record, body = closing
    answer = body.get("reason") or (item.note if item.letter == "q" else "")
    return ItemContent(entry, body.get("by") or record.author, record.at, {}, answer or item.status)


class CitedFiles:
    """Which of the files that an item cites have changed since it was written down."""

    def __init__(self, reader: Reader, project: Project, records: ItemTexts) -> None:
        self._reader = reader
        self._project = project
        self._own: set[tuple[int, ...]] | None = None
        self._records = records
        self._now: dict[str, FileOnDisk] = {}
        self._artifacts: dict[tuple[str, str, int], ItemRow | None] = {}

    def of(self, item: ItemRow, content: ItemContent) -> tuple[str, ...]:
        """The cited files that are not any more what they were, each with what became of it."""
        paths = [item.path] if item.letter == "a" else cited_paths(item.letter, content.entry)
        found = ((path, self._change(item, content, path)) for path in paths)
        return tuple(f"{path} {change}" for path, change in found if change)

    def are_all_gone(self, item: ItemRow, content: ItemContent) -> bool:
        """Whether each file that an item cites was there and is not any more."""
        paths = cited_paths(item.letter, content.entry)
        return bool(paths) and all(self._change(item, content, path) == "is gone" for path in paths)

    def _change(self, item: ItemRow, content: ItemContent, path: str) -> str:
        recorded = content.cited.get(path)
        if recorded is None and item.letter != "a":
            place = (item.task, path, item.position)  # items of one record ask alike
            if place not in self._artifacts:
                self._artifacts[place] = self._reader.artifact_at(item, path)
            artifact = self._artifacts[place]
            content = self._records.content(artifact) if artifact else content
            recorded = content.entry.get("sha256") if artifact else None
        elif recorded is None:
            recorded = content.entry.get("sha256")
        if not recorded:
            return ""
        if path not in self._now:
            self._own = self._project.own_files() if self._own is None else self._own
            self._now[path] = self._project.measure(path, own=self._own)
        now = self._now[path]
        if now.problem is not None:
            return "can't be read any more"
        if now.sha256 is None:
            return "" if content.is_remote else "is gone"
        return "" if now.sha256 == recorded.removeprefix("sha256:") else "has changed"

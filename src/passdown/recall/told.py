"""Items in the words of their records, and which of the files that they cite have changed since."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from passdown.ledger.via import ELSEWHERE
from passdown.model.facts import ANSWER, Told, told_as
from passdown.model.items import cited_by, entry_of
from passdown.model.kinds import stream_of

if TYPE_CHECKING:
    from passdown.ledger.disk import OnDisk, Project
    from passdown.model.record import Record
    from passdown.model.rows import ItemRow
    from passdown.store.statements import Reader


class Records:
    """Records of one moment, each read and parsed once."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._known: dict[tuple[str, int], tuple[Record | None, dict[str, Any]]] = {}

    def told(self, item: ItemRow) -> Told:
        """What an item's record says of it."""
        key = (item.task, item.position)
        if key not in self._known:
            record = self._reader.record(stream_of(item.task), item.position)
            self._known[key] = (record, record.document() if record else {})
        record, body = self._known[key]
        if record is None:
            return Told({}, "", "")
        entry = entry_of(body, item.field, item.index)
        if told_as(item) == ANSWER:
            return self._answered(item, entry)
        author = entry.get("agent") or record.author
        return Told(
            entry,
            author,
            entry.get("at") or record.at,
            body.get("cited", {}),
            is_elsewhere=body.get(ELSEWHERE, False),
        )

    def _answered(self, item: ItemRow, entry: dict[str, Any]) -> Told:
        """A question or a gate with its answer, in the words of whoever gave it."""
        record = self._reader.record(stream_of(item.task), item.closed_at)
        body = record.document() if record else {}
        author = body.get("by") or (record.author if record else "")
        answer = body.get("reason") or item.note if item.letter == "q" else body.get("reason", "")
        return Told(entry, author, record.at if record else "", {}, answer or item.status)


class Stale:
    """Which of the files that an item cites have changed since it was written down."""

    def __init__(self, reader: Reader, project: Project, records: Records) -> None:
        self._reader = reader
        self._project = project
        self._records = records
        self._now: dict[str, OnDisk] = {}
        self._artifacts: dict[tuple[str, str, int], ItemRow | None] = {}

    def of(self, item: ItemRow, told: Told) -> tuple[str, ...]:
        """The cited files that are not any more what they were, each with what became of it."""
        paths = [item.path] if item.letter == "a" else cited_by(item.letter, told.entry)
        found = ((path, self._change(item, told, path)) for path in paths)
        return tuple(f"{path} {change}" for path, change in found if change)

    def are_all_gone(self, item: ItemRow, told: Told) -> bool:
        """Whether each file that an item cites was there and is not any more."""
        paths = cited_by(item.letter, told.entry)
        return bool(paths) and all(self._change(item, told, path) == "is gone" for path in paths)

    def _artifact(self, item: ItemRow, path: str) -> ItemRow | None:
        """What was known of a file when an item was written down; items of one record ask alike."""
        place = (item.task, path, item.position)
        if place not in self._artifacts:
            self._artifacts[place] = self._reader.artifact_at(item, path)
        return self._artifacts[place]

    def _change(self, item: ItemRow, told: Told, path: str) -> str:
        recorded = told.cited.get(path)
        if recorded is None:
            artifact = item if item.letter == "a" else self._artifact(item, path)
            told = self._records.told(artifact) if artifact else told
            recorded = told.entry.get("sha256") if artifact else None
        if not recorded:
            return ""
        if path not in self._now:
            self._now[path] = self._project.measure(path)
        now = self._now[path]
        if now.problem is not None:
            return "can't be read any more"
        if now.sha256 is None:
            return "" if told.is_elsewhere else "is gone"
        return "" if now.sha256 == recorded.removeprefix("sha256:") else "has changed"

"""Handle files: a task's state as indented JSON that an agent opens with its own file tool.

They mirror the ledger and are never the truth. Each carries the version and digest it was made from and a
checksum of itself, so that three things can be told apart: an old mirror (rewritten), a missing one
(rewritten) and an edited one (reported and kept aside, never lost). A file's size is bounded: it shows
what is open and what is recent; the records of older versions stand in archive files that it names.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any

from passdown.errors import Problem
from passdown.model.documents import LISTS, item_document, state_document
from passdown.model.handle_text import is_intact, item_text, sealed
from passdown.model.kinds import stream_of
from passdown.recall.durable_files import folder_lock, keep_aside, read_text, replace_file
from passdown.recall.state import envelope, with_links

if TYPE_CHECKING:
    from collections.abc import Iterable

    from passdown.model.record import Record
    from passdown.model.rows import ItemRow, TaskRow
    from passdown.store.protocol import Store
    from passdown.store.statements import Reader

Document = dict[str, Any]

ARCHIVE_SCHEMA = "passdown/archive/1"
_CACHED_ITEMS = 4_096


class HandleFiles:
    """The handle files of one workspace, in one folder."""

    def __init__(self, folder: str, kept_versions: int) -> None:
        self.folder = folder
        self._kept = kept_versions
        self._turn = threading.Lock()
        self._seen: dict[str, tuple[int, int, int]] = {}
        self._texts: dict[tuple[str, ItemRow, str], tuple[str, Document]] = {}

    def path(self, task: str) -> str:
        """Where a task's handle file is."""
        return os.path.join(self.folder, f"{task}.json")

    def write(self, store: Store, task: str) -> list[Problem]:
        """Bring a task's handle file up to date; an edited one is reported and kept aside.

        The state is read while the folder is locked, so the last to write is the last to have read:
        an older state never takes the place of a newer one.
        """
        with self._turn, folder_lock(self.folder), store.reading() as reader:
            row = reader.task(task)
            return [] if row is None else self._write(reader, row)

    def _write(self, reader: Reader, row: TaskRow) -> list[Problem]:
        target = self.path(row.task)
        problems = [] if self._is_as_we_left_it(target) else _kept_aside(target)
        self._archive(reader, row)
        replace_file(target, self._render(reader, row))
        self._seen[target] = _mark(target)
        return problems

    def check(self, reader: Reader, row: TaskRow) -> str:
        """How a task's handle file stands: `current`, `missing`, `old` or `edited`."""
        text = read_text(self.path(row.task))
        if text is None:
            return "missing"
        if not is_intact(text):
            return "edited"
        is_whole = all(os.path.exists(name) for name, _, _ in self._blocks(row))
        return "current" if is_whole and text == self._render(reader, row) else "old"

    def restore(self, store: Store, task: str) -> list[Problem]:
        """Write a task's handle file and every archive file that is missing."""
        with self._turn, folder_lock(self.folder), store.reading() as reader:
            row = reader.task(task)
            if row is None:
                return []
            for name, first, through in self._blocks(row):
                if not os.path.exists(name):
                    self._write_block(reader, row.task, name, first, through)
            return self._write(reader, row)

    def _is_as_we_left_it(self, target: str) -> bool:
        known = self._seen.get(target)
        return known is not None and known == _mark(target)

    def _archived_through(self, row: TaskRow) -> int:
        """The last version that has moved to the archive: whole blocks, the newest two stay."""
        return max((row.version - 1) // self._kept - 1, 0) * self._kept

    def _blocks(self, row: TaskRow) -> list[tuple[str, int, int]]:
        """(file, first version, last version) of every archive file that a task should have."""
        starts = range(1, self._archived_through(row), self._kept)
        return [(self._block_name(row.task, s), s, s + self._kept - 1) for s in starts]

    def _block_name(self, task: str, first: int) -> str:
        name = f"{first:08d}-{first + self._kept - 1:08d}.json"
        return os.path.join(self.folder, "archive", task, name)

    def _archive(self, reader: Reader, row: TaskRow) -> None:
        """Write the newest archive file if it isn't there; older ones were written before it."""
        through = self._archived_through(row)
        if through:
            first = through - self._kept + 1
            name = self._block_name(row.task, first)
            if not os.path.exists(name):
                self._write_block(reader, row.task, name, first, through)

    def _write_block(self, reader: Reader, task: str, name: str, first: int, through: int) -> None:
        records = reader.records(stream_of(task), after=first - 1, until=through)
        document: Document = {
            "schema": ARCHIVE_SCHEMA,
            "task_id": task,
            "first_version": first,
            "last_version": through,
        }
        texts = [item_text({**envelope(r), "body": r.document()}) for r in records]
        replace_file(name, sealed(document, {"records": texts}))

    def _render(self, reader: Reader, row: TaskRow) -> str:
        through = self._archived_through(row)
        rows = [item for item in reader.open_items(row.task) if item.position <= through]
        rows += reader.items_since(row.task, through)
        head = (row.task, row.version, row.digest)
        document = with_links(reader, state_document(head, row.details, row.header, ()), row)
        counts: dict[str, int] = row.header["counts"]
        document["totals"] = {LISTS[letter]: count for letter, count in sorted(counts.items())}
        document["archive"] = {
            "folder": f"archive/{row.task}",
            "files": through // self._kept,
            "through_version": through,
        }
        return sealed(document, self._lists(reader, row.task, rows))

    def _lists(self, reader: Reader, task: str, rows: Iterable[ItemRow]) -> dict[str, list[str]]:
        lists: dict[str, dict[str, str]] = {name: {} for name in LISTS.values()}
        superseded = {link.target: link.source for link in reader.superseders(task)}
        records: dict[int, tuple[Record, Document]] = {}
        for row in rows:
            entries = lists[LISTS[row.letter]]
            # An artifact takes the place of an older entry with the same path.
            identity = row.path or row.address
            entries.pop(identity, None)
            by = superseded.get(row.address, "") if row.letter == "d" else ""
            entries[identity] = self._item(reader, row, by, records)
        return {name: list(entries.values()) for name, entries in lists.items()}

    def _item(
        self,
        reader: Reader,
        row: ItemRow,
        superseded_by: str,
        records: dict[int, tuple[Record, Document]],
    ) -> str:
        """An item's text. Items never change but in status, so texts are kept between writes."""
        key = (row.task, row, superseded_by)
        known = self._texts.get(key)
        if known is None:
            if row.position not in records:
                record = reader.record(stream_of(row.task), row.position)
                if record is None:
                    return "null"
                records[row.position] = (record, record.document())
            document = item_document(row, *records[row.position])
            if superseded_by:
                document.update(status="superseded", superseded_by=superseded_by)
            if len(self._texts) >= _CACHED_ITEMS:
                self._texts.clear()
            known = self._texts[key] = (item_text(document), document)
        return known[0]


def _mark(path: str) -> tuple[int, int, int]:
    """What tells a file from another one at the same place, without reading it."""
    try:
        status = os.stat(path)
    except OSError:
        return (0, 0, 0)
    return (status.st_ino, status.st_mtime_ns, status.st_size)


def _kept_aside(target: str) -> list[Problem]:
    text = read_text(target)
    if text is None or is_intact(text):
        return []
    kept = keep_aside(target)
    message = f"{target} had been edited by hand; the edit is kept as {kept}"
    fix = "record what it says with passdown handoff, decide or note"
    return [Problem("state_file", "edited_handle", message, "", fix, "warning")]

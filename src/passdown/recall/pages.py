"""Pages: the items of a handle file as texts, kept between writes.

A file shows what is open and what is recent. Between two writes of one process only a few items
change, so a page is brought forward by a record's changes instead of being read and rendered anew.
`rendered` does the whole work and is what a brought-forward page must equal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from passdown.model.documents import LISTS, item_document, with_status
from passdown.model.handle_text import item_text
from passdown.model.kinds import stream_of
from passdown.model.state_schema import check_item

if TYPE_CHECKING:
    from passdown.model.fold import Changes
    from passdown.model.record import Record
    from passdown.model.rows import ItemRow, StatusChange
    from passdown.store.statements import Reader

Document = dict[str, Any]
Superseded = dict[str, str]


class Page:
    """The items that one task's handle file shows at one version."""

    def __init__(self, task: str, version: int, superseded: Superseded) -> None:
        """An empty page; `superseded` maps decisions to those of other tasks that replaced them."""
        self.task = task
        self.version = version
        self.superseded = superseded
        self._rows: dict[tuple[str, int], tuple[ItemRow, Document]] = {}
        self._texts: dict[tuple[str, int], str] = {}
        self._by_path: dict[str, tuple[str, int]] = {}

    def lists(self) -> dict[str, list[str]]:
        """The texts by list, in the order of the file."""
        found: dict[str, list[str]] = {name: [] for name in LISTS.values()}
        for key, text in self._texts.items():
            found[LISTS[key[0]]].append(text)
        return found

    def add(self, row: ItemRow, document: Document) -> None:
        """Show an item; an artifact takes the place of an older entry with the same path."""
        if row.path:
            older = self._by_path.get(row.path)
            if older is not None:
                self._drop(older)
            self._by_path[row.path] = (row.letter, row.ordinal)
        self._put(row, document)

    def _put(self, row: ItemRow, document: Document) -> None:
        key = (row.letter, row.ordinal)
        self._rows[key] = (row, document)
        by = self.superseded.get(row.address)
        if by is not None and row.status != "superseded":
            document = {**document, "status": "superseded", "superseded_by": by}
        check_item(row.letter, document)
        self._texts[key] = item_text(document)

    def advance(self, step: Changes, record: Record, body: Document) -> None:
        """Bring the page forward by one record; what it marks but doesn't show stays unshown."""
        for row in step.added:
            self.add(row, item_document(row, record, body))
        for change in step.changed:
            self._mark(change)
        self.version = record.position

    def _mark(self, change: StatusChange) -> None:
        key = (change.letter, change.ordinal)
        if key in self._rows:
            row, document = self._rows[key]
            row = row._replace(
                status=change.status,
                is_open=change.is_open,
                closed_at=change.closed_at,
                note=change.note,
            )
            self._put(row, with_status(document, change))

    def forget(self, through: int) -> None:
        """Drop what has moved to the archive and isn't open."""
        for key, (row, _) in list(self._rows.items()):
            if row.position <= through and not row.is_open:
                self._drop(key)

    def _drop(self, key: tuple[str, int]) -> None:
        row, _ = self._rows.pop(key)
        if self._by_path.get(row.path) == key:
            del self._by_path[row.path]
        del self._texts[key]


def rendered(reader: Reader, task: str, version: int, through: int) -> Page:
    """The page of a task as the store has it: what is open, and what came after `through`."""
    superseded = {link.target: link.source for link in reader.superseders(task)}
    page = Page(task, version, superseded)
    rows = [row for row in reader.open_items(task) if row.position <= through]
    rows += reader.items_since(task, through)
    records: dict[int, tuple[Record, Document]] = {}
    stream = stream_of(task)
    for row in rows:
        if row.position not in records:
            record = reader.record(stream, row.position)
            if record is None:
                continue
            records[row.position] = (record, record.document())
        page.add(row, item_document(row, *records[row.position]))
    return page

"""Handle files: a task's state as indented JSON that an agent opens with its own file tool.

They mirror the ledger and are never the truth. Each contains the version and digest it was made
from and a checksum of itself, so that an old or missing mirror (rewritten) differs from an edited
one (reported and kept aside, never lost). A file shows what is open and what is recent; older
versions are in archive files that it names. Between two writes of one process only a few items
change, so a page is updated from a record's changes instead of being rendered again.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, NamedTuple

from passdown.core.documents import LISTS, item_document, state_document, with_status
from passdown.core.handle_files import (
    check_header,
    check_item,
    handle_file_text,
    indented_item,
    is_intact,
    is_torn,
)
from passdown.core.kinds import stream_of
from passdown.errors import Problem
from passdown.history.state import envelope, with_documents, with_links
from passdown.ledger.durable_files import named_lock, read_text, rename_unreadable, replace_file

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from passdown.core.fold import Changes
    from passdown.core.record import Record
    from passdown.core.rows import ItemRow, StatusChange, TaskRow
    from passdown.core.types import JsonObject
    from passdown.store.protocol import Store
    from passdown.store.statements import Reader


ARCHIVE_SCHEMA = "passdown/archive/1"
_KEPT_PAGES = 64


class NewRecord(NamedTuple):
    """A record that this process has just written, and what it changed."""

    record: Record
    body: JsonObject
    changes: Changes

    @property
    def version(self) -> int:
        """The version that the record made."""
        return self.record.position


class HandleFiles:
    """The handle files of one workspace, in one folder."""

    def __init__(self, folder: str, kept_versions: int, *, is_synced: bool = True) -> None:
        """Files in `folder`; without `is_synced` a power cut may leave one empty, which is seen.

        Archive files are synced in any case: nobody looks into them again before they are read.
        """
        self.folder = folder
        self._kept = kept_versions
        self._is_synced = is_synced
        self._turn = threading.Lock()
        self._process = os.getpid()
        self._seen: dict[str, tuple[int, int, int]] = {}
        self._pages: dict[str, HandlePage] = {}

    def path(self, task: str) -> str:
        """Where a task's handle file is."""
        return os.path.join(self.folder, f"{task}.json")

    def write(self, store: Store, task: str, news: NewRecord | None = None) -> list[Problem]:
        """Bring a task's handle file up to date; an edited one is reported and kept aside.

        The state is read while the task is locked, so the last to write is the last to have read:
        an older state never takes the place of a newer one. `news` is what this process has just
        recorded, which saves reading it back.
        """
        with self._alone(), self._lock(task), store.reading() as reader:
            reader.ahead(
                lambda asked: asked.task(task),
                lambda asked: asked.superseders(task),
                lambda asked: asked.open_links_to(task),
            )
            row = reader.task(task)
            return [] if row is None else self._write(reader, row, news)

    def _lock(self, task: str) -> AbstractContextManager[None]:
        """Between processes, one at a time for a task; other tasks go on beside it."""
        return named_lock(os.path.join(self.folder, ".locks"), task)

    def _alone(self) -> threading.Lock:
        """The lock between threads; a child process starts with its own, and with no pages."""
        if self._process != os.getpid():
            self._process, self._turn, self._pages = os.getpid(), threading.Lock(), {}
        return self._turn

    def _write(self, reader: Reader, row: TaskRow, news: NewRecord | None = None) -> list[Problem]:
        target = self.path(row.task)
        problems = [] if self._is_as_we_left_it(target) else _set_aside_edit(target)
        self._archive(reader, row)
        page = self._page(reader, row, news)
        replace_file(target, self._text(reader, row, page), is_synced=self._is_synced)
        self._seen[target] = _file_identity(target)
        return problems

    def _page(self, reader: Reader, row: TaskRow, news: NewRecord | None) -> HandlePage:
        """The page of a task, brought forward from the last one where nobody wrote in between."""
        through = self._archived_through(row)
        page = self._pages.pop(row.task, None)
        is_next = news is not None and page is not None and page.version == row.version - 1
        if is_next and news is not None and page is not None and news.version == row.version:
            superseded = {link.target: link.source for link in reader.superseders(row.task)}
            if superseded == page.superseded:
                # As stored, not as given: the order of keys shows in the file.
                page.advance(news.changes, news.record, news.record.document())
                page.forget(through)
                return self._remember(page)
        return self._remember(render_page(reader, row.task, row.version, through))

    def _remember(self, page: HandlePage) -> HandlePage:
        if len(self._pages) >= _KEPT_PAGES:
            self._pages.clear()
        self._pages[page.task] = page
        return page

    def check(self, reader: Reader, row: TaskRow) -> str:
        """The status of a task's handle file: `current`, `missing`, `old` or `edited`."""
        text = read_text(self.path(row.task))
        if text is None or is_torn(text):
            return "missing"
        if not is_intact(text):
            return "edited"
        is_whole = all(os.path.exists(name) for name, _, _ in self._blocks(row))
        return "current" if is_whole and text == self._render(reader, row) else "old"

    def restore(self, store: Store, task: str) -> list[Problem]:
        """Write a task's handle file and every archive file that is missing."""
        with self._alone(), self._lock(task), store.reading() as reader:
            row = reader.task(task)
            if row is None:
                return []
            for name, first, through in self._blocks(row):
                if not os.path.exists(name):
                    self._write_block(reader, row.task, name, first, through)
            problems = self._write(reader, row)
            # Many tasks are restored one after the other, and few of them are written to next.
            self._pages.pop(task, None)
            return problems

    def _is_as_we_left_it(self, target: str) -> bool:
        known = self._seen.get(target)
        return known is not None and known == _file_identity(target)

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
        document: JsonObject = {
            "schema": ARCHIVE_SCHEMA,
            "task_id": task,
            "first_version": first,
            "last_version": through,
        }
        texts = [indented_item({**envelope(r), "body": r.document()}) for r in records]
        replace_file(name, handle_file_text(document, {"records": texts}))

    def _render(self, reader: Reader, row: TaskRow) -> str:
        """The whole file from the store alone."""
        page = render_page(reader, row.task, row.version, self._archived_through(row))
        return self._text(reader, row, page)

    def _text(self, reader: Reader, row: TaskRow, page: HandlePage) -> str:
        through = self._archived_through(row)
        head = (row.task, row.version, row.digest)
        document = with_links(reader, state_document(head, row.details, row.header, ()), row)
        counts: dict[str, int] = row.header["counts"]
        document["totals"] = {LISTS[letter]: count for letter, count in sorted(counts.items())}
        document["archive"] = {
            "folder": f"archive/{row.task}",
            "files": through // self._kept,
            "through_version": through,
        }
        check_header(document)
        return handle_file_text(document, page.lists())


def _file_identity(path: str) -> tuple[int, int, int]:
    """What tells a file from another one at the same place, without reading it."""
    try:
        status = os.stat(path)
    except OSError:
        return (0, 0, 0)
    return (status.st_ino, status.st_mtime_ns, status.st_size)


def _set_aside_edit(target: str) -> list[Problem]:
    text = read_text(target)
    if text is None or is_intact(text) or is_torn(text):
        return []
    kept = rename_unreadable(target)
    message = f"{target} had been edited by hand; the edit is kept as {kept}"
    fix = "record what it says with passdown handoff, decide or note"
    return [Problem("state_file", "edited_handle", message, "", fix, "warning")]


Superseded = dict[str, str]


class HandlePage:
    """The items that one task's handle file shows at one version."""

    def __init__(self, task: str, version: int, superseded: Superseded) -> None:
        """An empty page; `superseded` maps decisions to those of other tasks that replaced them."""
        self.task = task
        self.version = version
        self.superseded = superseded
        self._rows: dict[tuple[str, int], tuple[ItemRow, JsonObject]] = {}
        self._texts: dict[tuple[str, int], str] = {}
        self._by_path: dict[str, tuple[str, int]] = {}

    def lists(self) -> dict[str, list[str]]:
        """The texts by list, in the order of the file."""
        found: dict[str, list[str]] = {name: [] for name in LISTS.values()}
        for key, text in self._texts.items():
            found[LISTS[key[0]]].append(text)
        return found

    def add(self, row: ItemRow, document: JsonObject) -> None:
        """Show an item; an artifact takes the place of an older entry with the same path."""
        if row.path:
            older = self._by_path.get(row.path)
            if older is not None:
                self._drop(older)
            self._by_path[row.path] = (row.letter, row.ordinal)
        self._put(row, document)

    def _put(self, row: ItemRow, document: JsonObject) -> None:
        key = (row.letter, row.ordinal)
        self._rows[key] = (row, document)
        by = self.superseded.get(row.address)
        if by is not None and row.status != "superseded":
            document = {**document, "status": "superseded", "superseded_by": by}
        check_item(row.letter, document)
        self._texts[key] = indented_item(document)

    def advance(self, step: Changes, record: Record, body: JsonObject) -> None:
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


def render_page(reader: Reader, task: str, version: int, through: int) -> HandlePage:
    """The page of a task as the store has it: what is open, and what came after `through`."""
    superseded = {link.target: link.source for link in reader.superseders(task)}
    page = HandlePage(task, version, superseded)
    rows = [row for row in reader.open_items(task) if row.position <= through]
    rows += reader.items_since(task, through)
    for row, document in with_documents(reader, task, rows):
        page.add(row, document)
    return page

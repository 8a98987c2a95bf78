"""Handle files: a task's state as indented JSON that an agent opens with its own file tool.

They mirror the ledger and are never the truth. Each carries the version and digest it was made from
and a checksum of itself, so that three things can be told apart: an old mirror (rewritten), a
missing one (rewritten) and an edited one (reported and kept aside, never lost). A file's size is
bounded: it shows what is open and what is recent; the records of older versions stand in archive
files that it names.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any, NamedTuple

from passdown.errors import Problem
from passdown.ledger.durable_files import keep_aside, named_lock, read_text, replace_file
from passdown.model.documents import LISTS, state_document
from passdown.model.handle_text import is_intact, is_torn, item_text, sealed
from passdown.model.kinds import stream_of
from passdown.model.state_schema import check_header
from passdown.recall.pages import Page, rendered
from passdown.recall.state import envelope, with_links

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from passdown.model.fold import Changes
    from passdown.model.record import Record
    from passdown.model.rows import TaskRow
    from passdown.store.protocol import Store
    from passdown.store.statements import Reader

Document = dict[str, Any]

ARCHIVE_SCHEMA = "passdown/archive/1"
_KEPT_PAGES = 64


class News(NamedTuple):
    """A record that this process has just written, and what it changed."""

    record: Record
    body: Document
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
        self._pages: dict[str, Page] = {}

    def path(self, task: str) -> str:
        """Where a task's handle file is."""
        return os.path.join(self.folder, f"{task}.json")

    def write(self, store: Store, task: str, news: News | None = None) -> list[Problem]:
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

    def _write(self, reader: Reader, row: TaskRow, news: News | None = None) -> list[Problem]:
        target = self.path(row.task)
        problems = [] if self._is_as_we_left_it(target) else _kept_aside(target)
        self._archive(reader, row)
        page = self._page(reader, row, news)
        replace_file(target, self._text(reader, row, page), is_synced=self._is_synced)
        self._seen[target] = _mark(target)
        return problems

    def _page(self, reader: Reader, row: TaskRow, news: News | None) -> Page:
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
        return self._remember(rendered(reader, row.task, row.version, through))

    def _remember(self, page: Page) -> Page:
        if len(self._pages) >= _KEPT_PAGES:
            self._pages.clear()
        self._pages[page.task] = page
        return page

    def check(self, reader: Reader, row: TaskRow) -> str:
        """How a task's handle file stands: `current`, `missing`, `old` or `edited`."""
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
        """The whole file from the store alone."""
        page = rendered(reader, row.task, row.version, self._archived_through(row))
        return self._text(reader, row, page)

    def _text(self, reader: Reader, row: TaskRow, page: Page) -> str:
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
        return sealed(document, page.lists())


def _mark(path: str) -> tuple[int, int, int]:
    """What tells a file from another one at the same place, without reading it."""
    try:
        status = os.stat(path)
    except OSError:
        return (0, 0, 0)
    return (status.st_ino, status.st_mtime_ns, status.st_size)


def _kept_aside(target: str) -> list[Problem]:
    text = read_text(target)
    if text is None or is_intact(text) or is_torn(text):
        return []
    kept = keep_aside(target)
    message = f"{target} had been edited by hand; the edit is kept as {kept}"
    fix = "record what it says with passdown handoff, decide or note"
    return [Problem("state_file", "edited_handle", message, "", fix, "warning")]

"""State files: a task's state as indented JSON that an agent opens with its own file tool.

They mirror the ledger and are never the truth. Each contains the version and digest it was made
from and a checksum of itself. A missing or old mirror is rewritten; an edited one is reported, kept
aside and rewritten. One that shows what the ledger doesn't have stays: see `lost_history`.

A file shows what is open and what is recent, up to a number of bytes. Archive files that it names
have the records of older versions, a block in each, and of every version of which something doesn't
fit, until its block comes.
"""

from __future__ import annotations

import json
import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from passdown.core.documents import (
    LISTS,
    is_intact,
    is_torn,
    item_document,
    state_document,
    status_fields,
    with_status,
)
from passdown.core.kinds import stream_of
from passdown.core.record import Head
from passdown.core.state_files import (
    handle_file_text,
    indented_json,
    rendered_entry,
    rendered_list,
)
from passdown.core.values import NamedTuple
from passdown.errors import Problem
from passdown.history.lost_history import (
    Mirrored,
    evidence,
    ledger_behind,
    remember_shown,
    shown_by,
)
from passdown.history.state import add_blockers, envelope, links_at, supersede, with_documents
from passdown.ledger.durable_files import (
    file_status,
    keep_aside,
    named_lock,
    private_folder,
    read_text,
    replace_file,
    sweep_temporary,
)
from passdown.ledger.writer import row_after

if TYPE_CHECKING:
    from collections.abc import Sequence

    from passdown.core.fold import Changes
    from passdown.core.rows import ItemRow, LinkRow, TaskRow
    from passdown.core.state_files import Rendered
    from passdown.core.types import JsonObject
    from passdown.ledger.writer import Written
    from passdown.store.protocol import Store
    from passdown.store.statements import Reader


ARCHIVE_SCHEMA = "passdown/archive/1"
_LOCKS, _TEMPORARY, _ARCHIVE = ".locks", ".writing", "archive"
_MOST_PAGES = 256
_MOST_PAGE_BYTES = 8 << 20  # of all of them, so that whoever writes many tasks doesn't hold them
_SHARES = 20  # of the file's bytes, one for each field of the task; about ten have no end
_BETWEEN = len(",\n    ")

_Block = tuple[int, int]
"""The first and the last version that an archive file has."""


class _Entry(NamedTuple):
    """An item, what superseded it from another task, and its text in the file."""

    item: ItemRow
    superseded_by: str
    text: Rendered


_Entries = dict[tuple[str, int], _Entry]


class _Page(NamedTuple):
    """What was last written of a task: its entries, the digest of the version that they show, and
    the status of the file. Other tasks bear on it if it `is_linked`.
    """

    entries: _Entries
    digest: str = ""
    is_linked: bool = True
    status: tuple[int, ...] | None = None
    size: int = 0


def _next_entries(page: _Page, written: Written, step: Changes) -> _Entries | None:
    """The entries of a page after one more record, for a task without links from other tasks.

    None if a gate or a precondition changed: their entries can only be read from the store.
    """
    entries, body = dict(page.entries), written.record.document()
    added = {(item.letter, item.ordinal): item for item in step.added}
    for change in step.changed:
        place = (change.letter, change.ordinal)
        known = entries.get(place)
        if place in added:
            added[place] = added[place]._replace(**change._asdict())
        elif change.letter in "ck":
            return None
        elif known is not None:
            document = with_status(json.loads(known.text), status_fields(change))
            item = known.item._replace(**change._asdict())
            entries[place] = _entry(item, document)
    for place in sorted(added):
        document = item_document(added[place], written.record, body)
        entries[place] = _entry(added[place], document)
    return entries


def _entry(item: ItemRow, document: JsonObject, source: str = "") -> _Entry:
    supersede(document, source)
    return _Entry(item, source, rendered_entry(document))


def _is_special(path: str) -> bool:
    """Whether something is there that is no file: a pipe would never end."""
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISLNK(mode))


def _beginning(value: Any, most: int) -> Any:
    """As much of a field as fits into some bytes: the beginning of a text, the first entries."""
    if len(indented_json(value, "  ").encode()) <= most:
        return value
    if isinstance(value, str):
        return value.encode()[: most // 2].decode(errors="ignore") + " ..."
    is_object = isinstance(value, dict)
    named = (
        cast("dict[Any, Any]", value) if is_object else dict(enumerate(cast("list[Any]", value)))
    )
    left = most
    kept: list[tuple[Any, Any]] = []
    for key, part in named.items():
        left -= len(indented_json({str(key): part}, "  ").encode())
        if left < 0:
            break
        kept.append((key, part))
    return dict(kept) if is_object else [part for _, part in kept]


class StateFiles:
    """The state files of one workspace, in one folder."""

    def __init__(
        self,
        folder: str,
        *,
        kept_versions: int,
        max_bytes: int,
        is_synced: bool = True,
    ) -> None:
        """Files in `folder`; without `is_synced` a power cut may leave one torn or old, which is
        seen when its path is given to anybody, and then it is written again.

        Archive files are synced in any case: nobody looks into them again before they are read.
        """
        self.folder = folder
        self._kept = kept_versions
        self._max_bytes = max_bytes
        self._is_synced = is_synced
        self._pages: dict[str, _Page] = {}

    def path(self, task: str) -> str:
        """Where a task's state file is."""
        return os.path.join(self.folder, f"{task}.json")

    def write(
        self,
        store: Store,
        task: str,
        *,
        with_archive: bool = False,
        written: Written | None = None,
    ) -> list[Problem]:
        """Bring a task's state file up to date; an edited one is reported and kept aside.

        The state is read while the task is locked, so the last to write is the last to have read:
        an older state never takes the place of a newer one. `with_archive` also writes every
        archive file that is missing. A file that is ahead of the ledger is reported and stays.

        After a record that was `written` to a task whose file this process wrote last, nothing is
        read: the file is what it was and what the record changes.
        """
        temporary = self._private(_TEMPORARY)
        with named_lock(self._private(_LOCKS), task):
            if written is not None and self._write_next(store, task, written, temporary):
                return []
            with store.reading() as reader:
                return self._write_read(reader, task, temporary, with_archive=with_archive)

    def _write_next(self, store: Store, task: str, written: Written, temporary: str) -> bool:
        """Write a task's file from the page of the version before; only archiving reads the store.

        False, and nothing is written, if the page isn't of that version, if other tasks have links
        to this one, or if somebody changed the file.
        """
        page, step = self._pages.get(task), written.step
        if page is None or step is None or step.task != task or page.is_linked:
            return False
        is_next = page.digest == written.record.previous and not (step.links or step.unlinked)
        if not is_next or page.status != file_status(self.path(task)):
            return False
        entries = _next_entries(page, written, step)
        if entries is None:
            return False
        row = row_after(written.record, step)
        through = self._archived_through(row.version)
        if step.changed or through > self._archived_through(row.version - 1):
            kept = (e for e in entries.values() if e.item.position > through or e.item.is_open)
            entries = {(entry.item.letter, entry.item.ordinal): entry for entry in kept}
        text, left_out = self._text(row, list(entries.values()), ())
        # Not all that there are: they grow in number with the task.
        last = [(through - self._kept + 1, through)] if through else []
        blocks = [block for block in (*last, *left_out) if not self._has_block(task, block)]
        if blocks:
            with store.reading() as reader:
                self._write_blocks(reader, task, blocks)
        is_swapped = not self._is_synced
        self._put(row, text, entries, temporary, is_linked=False, is_swapped=is_swapped)
        return True

    def _write_read(
        self, reader: Reader, task: str, temporary: str, *, with_archive: bool
    ) -> list[Problem]:
        """Bring a task's state file up to date from the store."""
        shown = shown_by(self.path(task))
        version = shown.version if shown else 0
        # Usually the file is one version behind.
        through = self._archived_through(version + 1)
        reader.ahead(
            lambda asked: asked.task(task),
            lambda asked: asked.record(stream_of(task), version),
            lambda asked: asked.open_items(task),
            lambda asked: asked.items_since(task, through),
            lambda asked: asked.superseders(task),
            lambda asked: asked.open_links_to(task),
        )
        row = reader.task(task)
        if row is None:
            return []
        head = Head(stream_of(task), row.version, row.digest)
        if lost := evidence(self.folder, reader, task, head):
            found = ledger_behind(reader, {task: lost}).problems
            return [problem._replace(level="warning") for problem in found]
        sweep_temporary(temporary)
        problems = self._keep_edit(task)
        entries = self._entries(reader, row)
        links = reader.open_links_to(task)
        text, left_out = self._text(row, list(entries.values()), links)
        blocks = [*self._blocks(row)[0 if with_archive else -1 :], *left_out]
        self._write_blocks(reader, task, [b for b in blocks if not self._has_block(task, b)])
        is_linked = bool(links or reader.superseders(task))
        self._put(row, text, entries, temporary, is_linked=is_linked)
        return problems

    def _put(
        self,
        row: TaskRow,
        text: str,
        entries: _Entries,
        temporary: str,
        *,
        is_linked: bool,
        is_swapped: bool = False,
    ) -> None:
        """Write a task's file, and keep what it shows for the next version."""
        task, path = row.task, self.path(row.task)
        replace_file(
            path,
            text,
            is_synced=self._is_synced,
            is_swapped=is_swapped,
            temporary_folder=temporary,
        )
        status = file_status(path)
        if status is not None:
            remember_shown(Mirrored(path, row.version, row.digest), status)
        self._pages.pop(task, None)
        held = list(self._pages.items())  # other threads may add and remove some
        size = sum(len(entry.text) for entry in entries.values())  # the file may show less
        room = _MOST_PAGE_BYTES - size - sum(each.size for _, each in held)
        while held and (room < 0 or len(held) >= _MOST_PAGES):
            oldest, gone = held.pop(0)
            self._pages.pop(oldest, None)
            room += gone.size
        if room >= 0:
            self._pages[task] = _Page(entries, row.digest, is_linked, status, size)

    def check(self, reader: Reader, row: TaskRow) -> str:
        """The status of a task's state file: `current`, `missing`, `old` or `edited`."""
        if _is_special(self.path(row.task)):
            return "edited"
        text = read_text(self.path(row.task))
        if text is None or is_torn(text):
            return "missing"
        if not is_intact(text):
            return "edited"
        entries = list(self._entries(reader, row).values())
        expected, left_out = self._text(row, entries, reader.open_links_to(row.task))
        is_whole = all(self._has_block(row.task, b) for b in (*self._blocks(row), *left_out))
        return "current" if is_whole and text == expected else "old"

    def _private(self, *parts: str) -> str:
        base, name = os.path.split(self.folder)
        return private_folder(base, name, *parts)

    def _keep_edit(self, task: str) -> list[Problem]:
        target = self.path(task)
        page = self._pages.get(task)
        if page and page.status and page.status == file_status(target):
            return []  # nobody touched it since it was written here
        if not _is_special(target):
            text = read_text(target)
            if text is None or is_intact(text) or is_torn(text):
                return []
        kept = keep_aside(target, "edited")
        message = (
            f"{target} was edited by hand, replaced or cut short; what it was is kept as {kept}"
        )
        fix = "record what an edit says with passdown handoff, decide or note"
        return [Problem("state_file", "edited_state_file", message, "", fix, "warning")]

    def _archived_through(self, version: int) -> int:
        """The last version that has moved to the archive: whole blocks, the newest two stay."""
        return max((version - 1) // self._kept - 1, 0) * self._kept

    def _blocks(self, row: TaskRow) -> list[_Block]:
        """The versions of every archive file that a task should have for its age."""
        firsts = range(1, self._archived_through(row.version), self._kept)
        return [(first, first + self._kept - 1) for first in firsts]

    def _block_path(self, task: str, block: _Block) -> str:
        first, last = block
        return os.path.join(self.folder, _ARCHIVE, task, f"{first:08d}-{last:08d}.json")

    def _has_block(self, task: str, block: _Block) -> bool:
        return os.path.exists(self._block_path(task, block))

    def _write_blocks(self, reader: Reader, task: str, blocks: list[_Block]) -> None:
        for first, last in blocks:
            records = reader.records(stream_of(task), after=first - 1, until=last)
            document: JsonObject = {
                "schema": ARCHIVE_SCHEMA,
                "task_id": task,
                "first_version": first,
                "last_version": last,
                "records": [{**envelope(r), "body": r.document()} for r in records],
            }
            self._private(_ARCHIVE, task)
            replace_file(self._block_path(task, (first, last)), handle_file_text(document))
            # The block has what files of single versions had before it.
            for version in range(first, last + 1) if first < last else ():
                with suppress(FileNotFoundError):
                    os.unlink(self._block_path(task, (version, version)))

    def _text(
        self, row: TaskRow, every: list[_Entry], links: Sequence[LinkRow]
    ) -> tuple[str, list[_Block]]:
        """The whole file, and the versions of which something doesn't fit."""
        text = self._rendered(row, every, links)
        if len(text) * 4 <= self._max_bytes or len(text.encode()) <= self._max_bytes:
            return text, []
        most = 0
        bare = len(self._rendered(row, [], links, every).encode())
        if bare > self._max_bytes // 2:  # the task's own fields leave no room for its items
            most = self._max_bytes // _SHARES
            bare = len(self._rendered(row, [], links, every, most).encode())
        shown = self._fitting(every, self._max_bytes - bare)
        fits = {entry.item.address for entry in shown}
        left_out = [entry for entry in every if entry.item.address not in fits]
        text = self._rendered(row, shown, links, left_out, most)
        return text, self._versions_of(row, left_out)

    def _versions_of(self, row: TaskRow, left_out: list[_Entry]) -> list[_Block]:
        """The versions, each by itself, of items that no block of older ones has."""
        through = self._archived_through(row.version)
        return [(v, v) for v in sorted({e.item.position for e in left_out}) if v > through]

    def _entries(self, reader: Reader, row: TaskRow) -> _Entries:
        """The items of a task as its file shows them; each is rendered once while
        nothing of it changes.
        """
        task, through = row.task, self._archived_through(row.version)
        rows = [item for item in reader.open_items(task) if item.position <= through]
        rows += reader.items_since(task, through)
        by = {link.target: link.source for link in links_at(reader.superseders(task), None)}
        known = self._pages[task].entries if task in self._pages else {}
        found: dict[tuple[str, int], _Entry | None] = {}
        missing: list[ItemRow] = []
        for item in rows:
            key = (item.letter, item.ordinal)
            entry = found[key] = known.get(key)
            source = by.get(item.address, "")
            if entry is None or entry.item != item or entry.superseded_by != source:
                missing.append(item)
        for item, document in with_documents(reader, task, missing):
            found[item.letter, item.ordinal] = _entry(item, document, by.get(item.address, ""))
        return {key: entry for key, entry in found.items() if entry}

    def _rendered(
        self,
        row: TaskRow,
        shown: list[_Entry],
        links: Sequence[LinkRow],
        left_out: list[_Entry] | None = None,
        most: int = 0,
    ) -> str:
        """The file with some of a task's items and a count of others, and each of the task's own
        fields within `most` bytes, if that is given.
        """
        through = self._archived_through(row.version)
        document = state_document((row.task, row.version, row.digest), row.details, row.header, ())
        add_blockers(document, links)
        if most:
            document = {name: _beginning(value, most) for name, value in document.items()}
        counts: dict[str, int] = row.header["counts"]
        document["totals"] = {LISTS[letter]: count for letter, count in sorted(counts.items())}
        document["archive"] = {
            "folder": f"{_ARCHIVE}/{row.task}",
            "files": through // self._kept + len(self._versions_of(row, left_out or [])),
            "through_version": through,
        }
        if left_out:
            document["archive"]["left_out"] = len(left_out)
        if left_out or most:
            document["archive"]["whole"] = f"passdown state {row.task} --json"
        # Of a file that was handed off twice, the newest entry is shown.
        files = {entry.item.path: entry.item.ordinal for entry in shown if entry.item.path}
        lists: dict[str, list[Rendered]] = {}
        for item, _, text in shown:
            is_newest = not item.path or files[item.path] == item.ordinal
            if is_newest and (item.letter, item.status) != ("f", "superseded"):
                lists.setdefault(item.letter, []).append(text)
        document |= {LISTS[letter]: rendered_list(texts) for letter, texts in lists.items()}
        return handle_file_text(document)

    def _fitting(self, entries: list[_Entry], left: int) -> list[_Entry]:
        """The items that fit into bytes that are left: open ones first, deleted files last; in
        between the newest of each kind, then the next of each.
        """
        newest: dict[str, int] = {}
        for item, _, _ in entries:
            newest[item.letter] = max(newest.get(item.letter, 0), item.ordinal)

        def place(entry: _Entry) -> tuple[bool, bool, int]:
            item = entry.item
            is_deleted = item.letter == "a" and not item.grade
            return not item.is_open, is_deleted, newest[item.letter] - item.ordinal

        fits: set[str] = set()
        cut_off: set[str] = set()  # kinds of which one didn't fit: no older one is shown
        for item, _, text in sorted(entries, key=place):
            size = len(text.encode()) + _BETWEEN
            if size > left or item.letter in cut_off:
                cut_off.add(item.letter)
                continue
            left -= size
            fits.add(item.address)
        return [entry for entry in entries if entry.item.address in fits]

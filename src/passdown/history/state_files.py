"""State files: a task's state as indented JSON that an agent opens with its own file tool.

They mirror the ledger and are never the truth. Each contains the version and digest it was made
from and a checksum of itself. A missing or old mirror is rewritten; an edited one is reported, kept
aside and rewritten. One that shows what the ledger doesn't have stays: see `lost_history`.

A file shows what is open and what is recent, up to a number of bytes. Archive files that it names
have the records of older versions, a block in each, and of every version of which something doesn't
fit, until its block comes.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from passdown.core.documents import LISTS, is_intact, is_torn, state_document
from passdown.core.kinds import stream_of
from passdown.core.record import Head
from passdown.core.state_files import (
    check_state,
    handle_file_text,
    indented_json,
    rendered_entry,
)
from passdown.errors import Problem
from passdown.history.lost_history import evidence, ledger_behind, shown_by
from passdown.history.state import envelope, links_at, supersede, with_documents, with_links
from passdown.ledger.durable_files import (
    file_status,
    keep_aside,
    named_lock,
    private_folder,
    read_text,
    replace_file,
    sweep_temporary,
)

if TYPE_CHECKING:
    from passdown.core.rows import ItemRow, TaskRow
    from passdown.core.state_files import Rendered
    from passdown.core.types import JsonObject
    from passdown.store.protocol import Store
    from passdown.store.statements import Reader


ARCHIVE_SCHEMA = "passdown/archive/1"
_LOCKS, _TEMPORARY, _ARCHIVE = ".locks", ".writing", "archive"
_MOST_PAGES = 8
_MOST_WRITTEN = 1_000
_SHARES = 20  # of the file's bytes, one for each field of the task; about ten have no end
_BETWEEN = len(",\n    ")

_Block = tuple[int, int]
"""The first and the last version that an archive file has."""


class _Entry(NamedTuple):
    """An item, what superseded it from another task, and its text in the file."""

    item: ItemRow
    superseded_by: str
    text: Rendered


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
        self._pages: dict[str, dict[tuple[str, int], _Entry]] = {}
        self._written: dict[str, tuple[int, ...] | None] = {}

    def path(self, task: str) -> str:
        """Where a task's state file is."""
        return os.path.join(self.folder, f"{task}.json")

    def write(self, store: Store, task: str, *, with_archive: bool = False) -> list[Problem]:
        """Bring a task's state file up to date; an edited one is reported and kept aside.

        The state is read while the task is locked, so the last to write is the last to have read:
        an older state never takes the place of a newer one. `with_archive` also writes every
        archive file that is missing. A file that is ahead of the ledger is reported and stays.
        """
        temporary = self._private(_TEMPORARY)
        with named_lock(self._private(_LOCKS), task), store.reading() as reader:
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
            text, left_out = self._text(reader, row)
            blocks = self._blocks(row)
            for block in [*(blocks if with_archive else blocks[-1:]), *left_out]:
                if not os.path.exists(self._block_path(task, block)):
                    self._write_block(reader, task, block)
            replace_file(
                self.path(task),
                text,
                is_synced=self._is_synced,
                temporary_folder=temporary,
            )
            if len(self._written) >= _MOST_WRITTEN:
                self._written.clear()
            self._written[task] = file_status(self.path(task))
            return problems

    def check(self, reader: Reader, row: TaskRow) -> str:
        """The status of a task's state file: `current`, `missing`, `old` or `edited`."""
        if _is_special(self.path(row.task)):
            return "edited"
        text = read_text(self.path(row.task))
        if text is None or is_torn(text):
            return "missing"
        if not is_intact(text):
            return "edited"
        expected, left_out = self._text(reader, row)
        blocks = [*self._blocks(row), *left_out]
        is_whole = all(os.path.exists(self._block_path(row.task, block)) for block in blocks)
        return "current" if is_whole and text == expected else "old"

    def _private(self, *parts: str) -> str:
        base, name = os.path.split(self.folder)
        return private_folder(base, name, *parts)

    def _keep_edit(self, task: str) -> list[Problem]:
        target = self.path(task)
        written = self._written.get(task)
        if written and written == file_status(target):
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

    def _write_block(self, reader: Reader, task: str, block: _Block) -> None:
        first, last = block
        records = reader.records(stream_of(task), after=first - 1, until=last)
        document: JsonObject = {
            "schema": ARCHIVE_SCHEMA,
            "task_id": task,
            "first_version": first,
            "last_version": last,
            "records": [{**envelope(r), "body": r.document()} for r in records],
        }
        self._private(_ARCHIVE, task)
        replace_file(self._block_path(task, block), handle_file_text(document))
        # The block has what files of single versions had before it.
        for version in range(first, last + 1) if first < last else ():
            with suppress(FileNotFoundError):
                os.unlink(self._block_path(task, (version, version)))

    def _text(self, reader: Reader, row: TaskRow) -> tuple[str, list[_Block]]:
        """The whole file from the store alone, and the versions of which something doesn't fit."""
        through = self._archived_through(row.version)
        rows = [item for item in reader.open_items(row.task) if item.position <= through]
        rows += reader.items_since(row.task, through)
        shown = every = self._entries(reader, row.task, rows)
        text = self._rendered(reader, row, shown)
        if len(text) * 4 > self._max_bytes and len(text.encode()) > self._max_bytes:
            most = 0
            bare = len(self._rendered(reader, row, [], every).encode())
            if bare > self._max_bytes // 2:  # the task's own fields leave no room for its items
                most = self._max_bytes // _SHARES
                bare = len(self._rendered(reader, row, [], every, most).encode())
            shown = self._fitting(every, self._max_bytes - bare)
            fits = {entry.item.address for entry in shown}
            left_out = [entry for entry in every if entry.item.address not in fits]
            text = self._rendered(reader, row, shown, left_out, most)
            return text, self._versions_of(row, left_out)
        return text, []

    def _versions_of(self, row: TaskRow, left_out: list[_Entry]) -> list[_Block]:
        """The versions, each by itself, of items that no block of older ones has."""
        through = self._archived_through(row.version)
        return [(v, v) for v in sorted({e.item.position for e in left_out}) if v > through]

    def _entries(self, reader: Reader, task: str, rows: list[ItemRow]) -> list[_Entry]:
        """The items of a task as its file shows them; each is checked and rendered once while
        nothing of it changes.
        """
        by = {link.target: link.source for link in links_at(reader.superseders(task), None)}
        known = self._pages.get(task, {})
        page: dict[tuple[str, int], _Entry | None] = {}
        missing: list[ItemRow] = []
        for item in rows:
            key = (item.letter, item.ordinal)
            entry = page[key] = known.get(key)
            source = by.get(item.address, "") if by else ""
            if entry is None or entry.item != item or entry.superseded_by != source:
                page[key] = None
                missing.append(item)
        for item, document in with_documents(reader, task, missing):
            source = by.get(item.address, "")
            supersede(document, source)
            text = rendered_entry(LISTS[item.letter], document)
            page[item.letter, item.ordinal] = _Entry(item, source, text)
        if len(self._pages) > _MOST_PAGES:
            self._pages.clear()
        made = self._pages[task] = {key: entry for key, entry in page.items() if entry}
        return list(made.values())

    def _rendered(
        self,
        reader: Reader,
        row: TaskRow,
        shown: list[_Entry],
        left_out: list[_Entry] | None = None,
        most: int = 0,
    ) -> str:
        """The file with some of a task's items and a count of others, and each of the task's own
        fields within `most` bytes, if that is given.
        """
        through = self._archived_through(row.version)
        document = state_document((row.task, row.version, row.digest), row.details, row.header, ())
        document = with_links(reader, document, row)
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
        check_state(document)
        # Of a file that was handed off twice, the newest entry is shown.
        files = {entry.item.path: entry.item.ordinal for entry in shown if entry.item.path}
        for item, _, text in shown:
            is_newest = not item.path or files[item.path] == item.ordinal
            if is_newest and (item.letter, item.status) != ("f", "superseded"):
                document.setdefault(LISTS[item.letter], []).append(text)
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
